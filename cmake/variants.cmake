# The test programs again, in other builds: VARIANT.build configures and builds the preset VARIANT,
# with warnings as errors, and VARIANT.test_x runs a program of it.
include(CheckCSourceCompiles)
include(ProcessorCount)
ProcessorCount(processors)

# lk_variant(name obstacle program...): an obstacle, if not empty, is why it cannot be built here.
function(lk_variant name obstacle)
  if(obstacle)
    message(STATUS "The tests skip the build \"${name}\": ${obstacle}")
    lk_test(${name}.build ${name} sh -c "echo 'SKIPPED: ${obstacle}'; exit 77")
    return()
  endif()
  lk_test(${name}.build ${name} tests/meta/variant.sh ${name})
  set_tests_properties(${name}.build PROPERTIES FIXTURES_SETUP ${name} PROCESSORS ${processors})
  foreach(program IN LISTS ARGN)
    lk_variant_test(${name} ${program} ${program})
  endforeach()
  lk_variant_test(${name} selfcheck lockstep selfcheck --golden tests/golden/selfcheck.txt)
endfunction()

# lk_variant_test(variant name program argument...)
function(lk_variant_test variant name program)
  lk_test(${variant}.${name} ${variant} ${CMAKE_CURRENT_SOURCE_DIR}/build/${variant}/${program} ${ARGN})
  set_tests_properties(${variant}.${name} PROPERTIES FIXTURES_REQUIRED ${variant})
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
function(lk_programs names pattern)
  file(GLOB_RECURSE files ${pattern})
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

find_path(LK_SIMDE_INCLUDE simde/x86/avx512.h)
file(STRINGS /proc/cpuinfo avx2 LIMIT_COUNT 1 REGEX " avx2 .* fma | fma .* avx2 ")
if(NOT avx2)
  set(emulate_obstacle "the processor has no AVX2 with FMA")
elseif(NOT LK_SIMDE_INCLUDE)
  set(emulate_obstacle "there is no SIMDe (simde/x86/avx512.h)")
endif()

lk_programs(of_kernel tests/unit/kernel/*.c)
lk_programs(of_threads tests/unit/kernel/*thread*.c)
lk_variant(asan "${asan_obstacle}" ${unit})
lk_variant_test(asan allocations lockstep selfcheck --fail-alloc --threads 2)
lk_variant(clang "${clang_obstacle}" ${unit})
lk_variant(emulate "${emulate_obstacle}" ${of_kernel})
lk_variant(tsan "${tsan_obstacle}" ${of_threads})
