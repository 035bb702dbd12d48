# lk_simd()
#
# Compile every file of src/kernel/simd once per instruction set; the objects are in LK_SIMD_OBJECTS.
# A file sees LK_ISA_SUFFIX (_scalar, _avx2, _avx512) and names its one exported table with it.
# LK_MAX_ISA leaves out the better ones: all are compiled for by default, because the choice is made
# at run time.
set(LK_MAX_ISA avx512 CACHE STRING
  "the best instruction set to compile kernels for: scalar, avx2, avx512, or native (the best that runs here)")
option(LK_OPTIMISE_ALL "optimise kernels also for instruction sets that do not run here" ON)
option(LK_CHECK_AVX512 "with sanitizers, have them check the kernels for AVX-512 too" ON)
set(LK_FLAGS_scalar -fno-tree-vectorize -fno-tree-slp-vectorize)
set(LK_FLAGS_avx2 -mavx2 -mfma -mf16c -mprfchw)
set(LK_FLAGS_avx512 ${LK_FLAGS_avx2}
  -mavx512f -mavx512vl -mavx512dq -mavx512bw -mprefer-vector-width=512)

# lk_runs(isa out): whether this processor has the instruction set, as lk_isa_is_available() sees it.
function(lk_runs isa out)
  set(needs_avx2 avx2 fma f16c)
  set(needs_avx512 ${needs_avx2} avx512f avx512vl avx512dq avx512bw)
  set(flags)
  if(EXISTS /proc/cpuinfo)
    file(STRINGS /proc/cpuinfo flags LIMIT_COUNT 1 REGEX "^flags")
  endif()
  set(${out} TRUE PARENT_SCOPE)
  foreach(flag IN LISTS needs_${isa})
    if(NOT "${flags} " MATCHES " ${flag} ")
      set(${out} FALSE PARENT_SCOPE)
    endif()
  endforeach()
endfunction()

# lk_isas(out): the instruction sets to compile for, in the order of lk_isa.
function(lk_isas out)
  set(up_to_scalar scalar)
  set(up_to_avx2 scalar avx2)
  set(up_to_avx512 scalar avx2 avx512)
  set(best ${LK_MAX_ISA})
  if(best STREQUAL "native")
    set(best scalar)
    foreach(isa avx2 avx512)
      lk_runs(${isa} runs)
      if(runs)
        set(best ${isa})
      endif()
    endforeach()
  endif()
  if(NOT DEFINED up_to_${best})
    message(FATAL_ERROR "LK_MAX_ISA is \"${best}\": it must be scalar, avx2, avx512 or native")
  endif()
  if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    set(best scalar)
  endif()
  set(${out} ${up_to_${best}} PARENT_SCOPE)
endfunction()

# lk_simd_objects(target isa level flag...): the files as objects, optimised to that level.
function(lk_simd_objects target isa level)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/src/kernel/simd/*.c)
  add_library(${target} OBJECT EXCLUDE_FROM_ALL ${sources})
  # Values never change by these two; without them the compiler may not vectorise a blend.
  target_compile_options(${target} PRIVATE ${level} -fno-math-errno -fno-trapping-math ${ARGN})
  target_compile_definitions(${target} PRIVATE LK_ISA_SUFFIX=_${isa} LK_SIMD_${isa})
  target_include_directories(${target} PRIVATE include src)
endfunction()

function(lk_simd)
  lk_isas(isas)
  list(LENGTH isas n_isas)
  add_compile_definitions(LK_BUILT_ISAS=${n_isas})
  # A loop of a few instructions that lies across two lines of the cache takes up to a third longer:
  # where it lies is not left to what happens to be in front of it.
  set(optimize -O3 -falign-loops=32)
  set(unchecked)
  if(LK_SANITIZE)
    set(optimize -O1) # fully unrolled tiles with checks take minutes to optimise
    set(unchecked -fno-sanitize=all)
  endif()
  if(LK_SANITIZE MATCHES "undefined" AND CMAKE_C_COMPILER_ID MATCHES "Clang")
    # Unrolled tiles with all checks take clang minutes: vectors have fewer, and those of addresses as
    # calls; the scalars of all files but one have all.  A build by gcc has all of them everywhere:
    # cmake --preset asan -DCMAKE_C_COMPILER=gcc -DLK_FUZZ=OFF
    set(fewer -fno-sanitize=alignment,null,object-size,pointer-overflow,signed-integer-overflow)
    set_property(SOURCE src/kernel/simd/cross.c APPEND PROPERTY COMPILE_OPTIONS ${fewer})
    set(checks_avx2 ${fewer} -mllvm -asan-instrumentation-with-call-threshold=0)
    set(checks_avx512 ${checks_avx2})
  endif()
  if(NOT LK_CHECK_AVX512)
    set(checks_avx512 ${unchecked})
  endif()
  # Scalar code of these loops would branch at each choice: they get the vectors that every processor has.
  set_property(SOURCE src/kernel/simd/loops.c APPEND PROPERTY COMPILE_OPTIONS -ftree-vectorize)
  foreach(isa IN LISTS isas)
    lk_runs(${isa} runs)
    set(level ${optimize})
    if(NOT runs AND NOT LK_OPTIMISE_ALL)
      set(level -O0 -U_FORTIFY_SOURCE) # compiled for the warnings
      set(checks_${isa} ${unchecked})
    endif()
    lk_simd_objects(lk_simd_${isa} ${isa} ${level} ${LK_FLAGS_${isa}} ${checks_${isa}})
    list(APPEND objects $<TARGET_OBJECTS:lk_simd_${isa}>)
  endforeach()
  set(LK_SIMD_OBJECTS ${objects} PARENT_SCOPE)
endfunction()
