# The fuzz targets: fuzz_NAME from each tests/fuzz/fuzz_NAME.c, all of them the target "fuzz".
#
# They are programs of the preset "asan", in which the rooms that read files, and the readers of
# SLURM's lists, are compiled so that a fuzzer can follow them; the other programs of that build take
# no notice.  Comparisons of numbers are traced only in `data`, where the magic numbers are: that takes
# half of the time.  `make test` runs each target for some seconds, `make fuzz` for FUZZ_SECONDS
# (tests/fuzz/run.sh).
set(read ${sources})
list(FILTER read INCLUDE REGEX "/src/((base|config|data|io|tensor|train)/|comm/slurm)")
set_property(SOURCE ${read} APPEND PROPERTY COMPILE_OPTIONS -fsanitize=fuzzer-no-link)
list(FILTER read EXCLUDE REGEX "/src/data/")
set_property(SOURCE ${read} APPEND PROPERTY COMPILE_OPTIONS -fno-sanitize-coverage=trace-cmp)
add_custom_target(fuzz)
file(GLOB files CONFIGURE_DEPENDS tests/fuzz/fuzz_*.c)
foreach(file IN LISTS files)
  get_filename_component(name ${file} NAME_WE)
  add_executable(${name} ${file})
  target_include_directories(${name} PRIVATE src tests/support tests/fuzz)
  target_compile_options(${name} PRIVATE -fsanitize=fuzzer-no-link)
  target_link_libraries(${name} PRIVATE lockstep_static Threads::Threads m ${CMAKE_DL_LIBS}
    -fsanitize=fuzzer)
  add_dependencies(fuzz ${name})
  string(REPLACE fuzz_ fuzz. test ${name})
  lk_test(${test} fuzz tests/fuzz/run.sh $<TARGET_FILE:${name}>)
  set_tests_properties(${test} PROPERTIES TIMEOUT 1000000)
endforeach()
