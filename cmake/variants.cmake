# The test programs again, in other builds: VARIANT.build configures the preset VARIANT and builds,
# with warnings as errors, the library, the command and the programs that are tested; VARIANT.test_x
# runs one of them.  `make VARIANT` builds and tests everything.
include(CheckCSourceCompiles)
include(ProcessorCount)
ProcessorCount(processors)

# lk_skipped(name obstacle): say why a build cannot be made here.
function(lk_skipped name obstacle)
  message(STATUS "The tests skip the build \"${name}\": ${obstacle}")
  lk_test(${name}.build ${name} sh -c "echo 'SKIPPED: ${obstacle}' && exit 77")
endfunction()

# lk_variant(name obstacle program...): an obstacle, if not empty, is why it cannot be built here.
function(lk_variant name obstacle)
  if(obstacle)
    lk_skipped(${name} "${obstacle}")
    return()
  endif()
  lk_test(${name}.build ${name} tests/meta/variant.sh ${name} lockstep ${ARGN})
  set_tests_properties(${name}.build PROPERTIES FIXTURES_SETUP ${name} PROCESSORS ${processors})
  foreach(program IN LISTS ARGN)
    lk_variant_test(${name} ${program} ${program})
  endforeach()
  lk_variant_test(${name} selfcheck lockstep selfcheck --golden tests/golden/selfcheck.txt)
endfunction()

# lk_variant_test(variant name program argument...): brief, because what the number of ranks or many
# alike cases can show, this build has shown.
function(lk_variant_test variant name program)
  lk_test(${variant}.${name} ${variant} ${CMAKE_CURRENT_SOURCE_DIR}/build/${variant}/${program} ${ARGN})
  set_tests_properties(${variant}.${name} PROPERTIES FIXTURES_REQUIRED ${variant}
    ENVIRONMENT TEST_BRIEF=1)
endfunction()

# lk_sanitizer(flag obstacle): whether the compiler has the sanitizer's runtime.
function(lk_sanitizer flag obstacle)
  string(MAKE_C_IDENTIFIER LK_HAS_${flag} found)
  set(CMAKE_REQUIRED_FLAGS -fsanitize=${flag})
  check_c_source_compiles("int main(void) { return 0; }" ${found})
  if(NOT ${found})
    set(${obstacle} "the compiler cannot link -fsanitize=${flag}" PARENT_SCOPE)
  endif()
endfunction()

# lk_programs(names pattern): the names of the test programs from matching files.
function(lk_programs names)
  file(GLOB_RECURSE files ${ARGN})
  list(TRANSFORM files REPLACE ".*/([^/]*)\\.c$" "\\1")
  set(${names} ${files} PARENT_SCOPE)
endfunction()

set(CMAKE_REQUIRED_QUIET ON)
lk_sanitizer(address,undefined asan_obstacle)
lk_sanitizer(thread tsan_obstacle)

find_program(LK_CLANG clang)
if(NOT LK_CLANG)
  set(clang_obstacle "there is no clang")
endif()

lk_programs(of_kernel tests/unit/kernel/*.c)
lk_programs(of_numbers tests/unit/autograd/*.c tests/unit/base/*.c tests/unit/kernel/*.c
  tests/unit/nn/*.c tests/unit/ops/*.c tests/unit/optim/*.c tests/unit/tensor/*.c)
lk_programs(of_threads tests/unit/kernel/*thread*.c tests/unit/comm/*.c tests/unit/data/*loader*.c)
# On the tape a rank is one thread: test_programs stands for what is made of communication nodes.
set(of_ranks ${dist})
list(FILTER of_ranks EXCLUDE REGEX "adjoints|halo|lists|oracles")
lk_variant(asan "${asan_obstacle}" ${unit} ${dist})
lk_variant(clang "${clang_obstacle}" ${of_kernel})
lk_variant(tsan "${tsan_obstacle}" ${of_threads} ${of_ranks})

# The fuzz targets: a build of their own, then each for some seconds.
lk_programs(of_fuzz tests/fuzz/fuzz_*.c)
if(clang_obstacle)
  set(fuzz_obstacle ${clang_obstacle})
else()
  file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/fuzzer.c
    "#include <stddef.h>\nint LLVMFuzzerTestOneInput(const char *d, size_t n) { return !d && n; }\n")
  execute_process(COMMAND ${LK_CLANG} -fsanitize=fuzzer,address,undefined fuzzer.c -o fuzzer
    WORKING_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR} OUTPUT_QUIET ERROR_QUIET RESULT_VARIABLE failed)
  if(failed)
    set(fuzz_obstacle "clang cannot link -fsanitize=fuzzer")
  endif()
endif()
if(fuzz_obstacle)
  lk_variant(fuzz "${fuzz_obstacle}")
else()
  lk_test(fuzz.build fuzz tests/meta/variant.sh fuzz fuzz)
  set_tests_properties(fuzz.build PROPERTIES FIXTURES_SETUP fuzz PROCESSORS ${processors})
  foreach(program IN LISTS of_fuzz)
    string(REPLACE fuzz_ fuzz. name ${program})
    lk_test(${name} fuzz tests/fuzz/run.sh ${CMAKE_CURRENT_SOURCE_DIR}/build/fuzz/${program})
    set_tests_properties(${name} PROPERTIES FIXTURES_REQUIRED fuzz)
  endforeach()
endif()

include(emulate)
if(NOT asan_obstacle)
  lk_variant_test(asan allocations lockstep selfcheck --fail-alloc --threads 2)
  lk_test(asan.whole asan tests/cli/test_whole.sh
    ${CMAKE_CURRENT_SOURCE_DIR}/build/asan/lockstep $<TARGET_FILE:json_lines>)
  set_tests_properties(asan.whole PROPERTIES FIXTURES_REQUIRED asan)
endif()
if(NOT clang_obstacle)
  # The golden hashes of trained networks: layers, ops and update rules as clang compiles them.
  lk_test(clang.train clang tests/cli/test_train.sh
    ${CMAKE_CURRENT_SOURCE_DIR}/build/clang/lockstep $<TARGET_FILE:json_lines>)
  set_tests_properties(clang.train PROPERTIES FIXTURES_REQUIRED clang)
endif()
