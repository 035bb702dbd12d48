# The tests, all under ctest.
#
#   test_*         one program per file of tests/unit
#   selfcheck      the self-check of the command against the golden hashes
#   cli.*          the command seen from outside, one script each in tests/cli
#   meta.*         the rules of the project, one script each in tests/meta, tests/headers, tests/install
#   VARIANT.*      the same programs in the other builds of CMakePresets.json (LK_TEST_VARIANTS)
#   label "long"   programs of tests/long; `make test` leaves them out, `make test-long` runs them
#
# A test that cannot run here exits with 77, says why, and counts as skipped.
option(LK_TEST_VARIANTS "test the sanitizer, clang and emulation builds as well" OFF)

# lk_test_programs(names label pattern) builds a program and a test from each matching file.
function(lk_test_programs names label pattern)
  file(GLOB_RECURSE files CONFIGURE_DEPENDS ${pattern})
  foreach(file IN LISTS files)
    get_filename_component(name ${file} NAME_WE)
    list(APPEND all ${name})
    add_executable(${name} ${file})
    target_include_directories(${name} PRIVATE src tests)
    target_link_libraries(${name} PRIVATE lockstep_static Threads::Threads m)
    add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
    set_tests_properties(${name} PROPERTIES LABELS ${label} TIMEOUT 600 SKIP_RETURN_CODE 77)
  endforeach()
  set(${names} ${all} PARENT_SCOPE)
endfunction()

lk_test_programs(unit unit tests/unit/*.c)
lk_test_programs(long long tests/long/*.c)

# A host program with its own OpenMP; without a compiler that has it, the test skips itself.
find_package(OpenMP COMPONENTS C QUIET)
if(OpenMP_C_FOUND)
  target_link_libraries(test_openmp PRIVATE OpenMP::OpenMP_C)
endif()

# lk_script(name path argument...) makes a script with a SKIP code a test.
function(lk_script name path)
  add_test(NAME ${name} COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/${path} ${ARGN}
    WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES LABELS meta TIMEOUT 600 SKIP_RETURN_CODE 77)
endfunction()

if(TARGET lockstep)
  add_test(NAME selfcheck COMMAND lockstep selfcheck --golden tests/golden/selfcheck.txt
    WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
  set_tests_properties(selfcheck PROPERTIES LABELS cli TIMEOUT 600)
endif()
if(TARGET lockstep AND NOT CMAKE_CROSSCOMPILING)
  add_executable(json_lines tests/cli/json_lines.c)
  file(GLOB scripts CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} tests/cli/test_*.sh)
  foreach(script IN LISTS scripts)
    string(REGEX REPLACE "^.*/test_(.*)\\.sh$" "cli.\\1" name ${script})
    lk_script(${name} ${script} $<TARGET_FILE:lockstep> $<TARGET_FILE:json_lines>)
    set_tests_properties(${name} PROPERTIES LABELS cli)
  endforeach()
endif()
