# lk_simd()
#
# Compile every file of src/kernel/simd once per instruction set; the objects are in LK_SIMD_OBJECTS.
# A file sees LK_ISA_SUFFIX (_scalar, _avx2, _avx512) and names its one exported table with it.
# LK_EMULATE_AVX512 compiles the AVX-512 code for AVX2 with SIMDe, to test it where there is none.
option(LK_EMULATE_AVX512 "run the AVX-512 kernels on an AVX2 processor through SIMDe (for tests)" OFF)

function(lk_simd)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/src/kernel/simd/*.c)
  set(flags_scalar -fno-tree-vectorize -fno-tree-slp-vectorize)
  set(flags_avx2 -mavx2 -mfma -mf16c -mprfchw)
  set(flags_avx512 ${flags_avx2} -mavx512f -mavx512vl -mavx512dq -mavx512bw -mprefer-vector-width=512)
  set(isas scalar)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    list(APPEND isas avx2 avx512)
  endif()
  if(LK_EMULATE_AVX512)
    # Functions that pass 64-byte vectors are all inlined: their calling convention is no matter.
    set(flags_avx512 ${flags_avx2} -DLK_EMULATE_AVX512 -Wno-psabi)
  endif()
  set(optimize -O3)
  if(LK_SANITIZE)
    set(optimize -O1) # the checks of fully unrolled tiles take minutes to optimise
  endif()
  foreach(isa IN LISTS isas)
    add_library(lk_simd_${isa} OBJECT ${sources})
    # Values never change by these two; without them the compiler may not vectorise a blend.
    target_compile_options(lk_simd_${isa} PRIVATE ${optimize} -fno-math-errno -fno-trapping-math ${flags_${isa}})
    target_compile_definitions(lk_simd_${isa} PRIVATE LK_ISA_SUFFIX=_${isa} LK_SIMD_${isa})
    target_include_directories(lk_simd_${isa} PRIVATE include src)
    set_target_properties(lk_simd_${isa} PROPERTIES POSITION_INDEPENDENT_CODE ON)
    list(APPEND objects $<TARGET_OBJECTS:lk_simd_${isa}>)
  endforeach()
  set(LK_SIMD_OBJECTS ${objects} PARENT_SCOPE)
endfunction()
