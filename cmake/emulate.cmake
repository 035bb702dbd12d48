# The AVX-512 kernels on an AVX2 processor: compiled through SIMDe, which runs each vector as two of
# AVX2, and put into the place of the real ones.  All else, the library, the command and the tests,
# are the objects of this build.  The programs are in build/emulate; `make emulate` tests those of
# the rooms that compute, `make test` those of the kernels, where AVX-512 cannot run as it is.
find_path(LK_SIMDE_INCLUDE simde/x86/avx512.h)
lk_runs(avx2 avx2)
lk_runs(avx512 avx512)
set(obstacle)
if(NOT avx2)
  set(obstacle "the processor has no AVX2 with FMA and F16C")
elseif(NOT TARGET lk_simd_avx512)
  set(obstacle "LK_MAX_ISA is ${LK_MAX_ISA}")
elseif(NOT LK_SIMDE_INCLUDE)
  set(obstacle "there is no SIMDe (simde/x86/avx512.h)")
endif()
if(obstacle)
  lk_skipped(emulate "${obstacle}")
  if(NOT avx512)
    lk_untested("AVX-512 (this processor has none, and none is emulated: ${obstacle})")
  endif()
  return()
endif()

# Functions that pass 64-byte vectors stay within one object: their calling convention is no matter.
# -Og: unrolled tiles, emulated, take twice as long to compile with -O1.
lk_simd_objects(lk_simd_emulated avx512 -Og ${LK_FLAGS_avx2} -DLK_EMULATE_AVX512 -Wno-psabi -Werror)
# clang-tidy has seen the same code as AVX-512's own.
set_property(TARGET lk_simd_emulated PROPERTY EXPORT_COMPILE_COMMANDS OFF)
set(objects ${LK_SIMD_OBJECTS})
list(REMOVE_ITEM objects $<TARGET_OBJECTS:lk_simd_avx512>)
add_library(lockstep_emulated STATIC EXCLUDE_FROM_ALL
  $<TARGET_OBJECTS:lk_objects> ${objects} $<TARGET_OBJECTS:lk_simd_emulated>)
lk_library(lockstep_emulated)

# lk_emulated(label name program argument...): the program's objects with that library, and a test.
function(lk_emulated label name program)
  add_executable(emulate_${program} EXCLUDE_FROM_ALL $<TARGET_OBJECTS:${program}>)
  get_target_property(links ${program} LINK_LIBRARIES)
  list(TRANSFORM links REPLACE "^lockstep_static$" lockstep_emulated)
  target_link_libraries(emulate_${program} PRIVATE ${links})
  set_target_properties(emulate_${program} PROPERTIES OUTPUT_NAME ${program}
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/emulate)
  add_dependencies(emulated emulate_${program})
  if(label STREQUAL "emulate")
    add_dependencies(emulate emulate_${program})
  endif()
  lk_test(emulate.${name} ${label} emulate_${program} ${ARGN})
  set_tests_properties(emulate.${name} PROPERTIES FIXTURES_REQUIRED ${label})
endfunction()

add_custom_target(emulate)  # what every day's tests need
add_custom_target(emulated) # what all need
if(avx512)
  set(every_day emulated)
  message(STATUS "AVX-512 is not emulated for tests: the processor has it")
else()
  set(every_day emulate)
  lk_untested("AVX-512 as a processor runs it (this one has none; its kernels were emulated)")
  lk_test(emulate.build emulate ${CMAKE_COMMAND} --build ${CMAKE_CURRENT_BINARY_DIR} --target emulate)
  set_tests_properties(emulate.build PROPERTIES FIXTURES_SETUP emulate PROCESSORS ${processors} COST 900)
endif()
lk_test(emulate.build_all emulated ${CMAKE_COMMAND} --build ${CMAKE_CURRENT_BINARY_DIR} --target emulated)
set_tests_properties(emulate.build_all PROPERTIES FIXTURES_SETUP emulated PROCESSORS ${processors})
foreach(program IN LISTS of_numbers)
  set(label emulated)
  if(program IN_LIST of_kernel)
    set(label ${every_day})
  endif()
  lk_emulated(${label} ${program} ${program})
endforeach()
lk_emulated(${every_day} selfcheck lockstep selfcheck --golden tests/golden/selfcheck.txt)
