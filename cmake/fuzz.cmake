# The fuzz targets: fuzz_NAME from each tests/fuzz/fuzz_NAME.c, all of them the target "fuzz".
#
# They have a build of their own, the preset "fuzz", in which the rooms that read files are
# instrumented, and fast, because the others are not.  Comparisons of numbers are traced only in
# `data`, where the magic numbers are: that takes half of the time.  `make test` runs each target for
# some seconds (cmake/variants.cmake), `make fuzz` for FUZZ_SECONDS.
set(FUZZ_SECONDS 600 CACHE STRING "how long each fuzz target runs in the tests of this build")
set(flags -g1 -O1 -fno-omit-frame-pointer -fno-sanitize-recover=all)
set(checks fuzzer-no-link,address,undefined)
set(read ${sources})
list(FILTER read INCLUDE REGEX "/src/(base|config|data|io|tensor|train)/")
set_property(SOURCE ${read} APPEND PROPERTY COMPILE_OPTIONS ${flags} -fsanitize=${checks})
list(FILTER read EXCLUDE REGEX "/src/data/")
set_property(SOURCE ${read} APPEND PROPERTY COMPILE_OPTIONS -fno-sanitize-coverage=trace-cmp)
add_custom_target(fuzz)
file(GLOB files CONFIGURE_DEPENDS tests/fuzz/fuzz_*.c)
foreach(file IN LISTS files)
  get_filename_component(name ${file} NAME_WE)
  add_executable(${name} EXCLUDE_FROM_ALL ${file})
  target_include_directories(${name} PRIVATE src tests tests/fuzz)
  target_compile_options(${name} PRIVATE ${flags} -fsanitize=${checks})
  target_link_libraries(${name} PRIVATE lockstep_static Threads::Threads m ${CMAKE_DL_LIBS}
    -fsanitize=fuzzer,address,undefined)
  add_dependencies(fuzz ${name})
  string(REPLACE fuzz_ fuzz. test ${name})
  lk_test(${test} fuzz tests/fuzz/run.sh $<TARGET_FILE:${name}> ${FUZZ_SECONDS})
  set_tests_properties(${test} PROPERTIES TIMEOUT 1000000)
endforeach()
