# CMake generated Testfile for 
# Source directory: /work/wt/reduce
# Build directory: /work/wt/reduce/build-clang
# 
# This file includes the relevant testing commands required for 
# testing this directory and lists subdirectories to be tested as well.
add_test([=[test_conv_shape]=] "/work/wt/reduce/build-clang/test_conv_shape")
set_tests_properties([=[test_conv_shape]=] PROPERTIES  LABELS "unit" SKIP_RETURN_CODE "77" TIMEOUT "600" WORKING_DIRECTORY "/work/wt/reduce" _BACKTRACE_TRIPLES "/work/wt/reduce/cmake/tests.cmake;20;add_test;/work/wt/reduce/cmake/tests.cmake;26;lk_test_programs;/work/wt/reduce/cmake/tests.cmake;0;;/work/wt/reduce/CMakeLists.txt;50;include;/work/wt/reduce/CMakeLists.txt;0;")
add_test([=[test_openmp]=] "/work/wt/reduce/build-clang/test_openmp")
set_tests_properties([=[test_openmp]=] PROPERTIES  LABELS "unit" SKIP_RETURN_CODE "77" TIMEOUT "600" WORKING_DIRECTORY "/work/wt/reduce" _BACKTRACE_TRIPLES "/work/wt/reduce/cmake/tests.cmake;20;add_test;/work/wt/reduce/cmake/tests.cmake;26;lk_test_programs;/work/wt/reduce/cmake/tests.cmake;0;;/work/wt/reduce/CMakeLists.txt;50;include;/work/wt/reduce/CMakeLists.txt;0;")
add_test([=[test_thread_count]=] "/work/wt/reduce/build-clang/test_thread_count")
set_tests_properties([=[test_thread_count]=] PROPERTIES  LABELS "unit" SKIP_RETURN_CODE "77" TIMEOUT "600" WORKING_DIRECTORY "/work/wt/reduce" _BACKTRACE_TRIPLES "/work/wt/reduce/cmake/tests.cmake;20;add_test;/work/wt/reduce/cmake/tests.cmake;26;lk_test_programs;/work/wt/reduce/cmake/tests.cmake;0;;/work/wt/reduce/CMakeLists.txt;50;include;/work/wt/reduce/CMakeLists.txt;0;")
add_test([=[test_threads]=] "/work/wt/reduce/build-clang/test_threads")
set_tests_properties([=[test_threads]=] PROPERTIES  LABELS "unit" SKIP_RETURN_CODE "77" TIMEOUT "600" WORKING_DIRECTORY "/work/wt/reduce" _BACKTRACE_TRIPLES "/work/wt/reduce/cmake/tests.cmake;20;add_test;/work/wt/reduce/cmake/tests.cmake;26;lk_test_programs;/work/wt/reduce/cmake/tests.cmake;0;;/work/wt/reduce/CMakeLists.txt;50;include;/work/wt/reduce/CMakeLists.txt;0;")
add_test([=[test_status]=] "/work/wt/reduce/build-clang/test_status")
set_tests_properties([=[test_status]=] PROPERTIES  LABELS "unit" SKIP_RETURN_CODE "77" TIMEOUT "600" WORKING_DIRECTORY "/work/wt/reduce" _BACKTRACE_TRIPLES "/work/wt/reduce/cmake/tests.cmake;20;add_test;/work/wt/reduce/cmake/tests.cmake;26;lk_test_programs;/work/wt/reduce/cmake/tests.cmake;0;;/work/wt/reduce/CMakeLists.txt;50;include;/work/wt/reduce/CMakeLists.txt;0;")
