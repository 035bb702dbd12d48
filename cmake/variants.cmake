# The test programs again, in other builds: VARIANT.build configures the preset VARIANT and builds,
# with warnings as errors, the library and the programs that are tested; VARIANT.test_x runs one of
# them.  Some run only with `make test-long`, which builds all of them as VARIANT.build_all, and some
# run there on more ranks, as VARIANT.test_x.on_all.  `make VARIANT` builds and tests everything.
#
#   asan   by clang: also the command, the golden hashes as clang computes them, and the fuzz targets
#   tsan   what has threads or ranks, by the compiler of this build
#   minimal   the command alone, without MPI and every package that can be done without
include(ProcessorCount)
ProcessorCount(processors)

# lk_untested(text): what `make test` says at its end of what it could not test here.
set(untested ${CMAKE_CURRENT_BINARY_DIR}/untested.txt)
file(WRITE ${untested} "")
function(lk_untested text)
  file(APPEND ${untested} "untested here: ${text}\n")
endfunction()

# lk_skipped(name obstacle): say why a build is not made here.
function(lk_skipped name obstacle)
  message(STATUS "The tests skip the build \"${name}\": ${obstacle}")
  lk_test(${name}.build ${name} sh -c "echo 'SKIPPED: ${obstacle}' && exit 77")
endfunction()

# lk_variant(name obstacle target...): an obstacle, if not empty, is why it cannot be built here.
# Targets that are test programs become tests: those of long_in_NAME of label "long".
function(lk_variant name obstacle)
  if(obstacle)
    lk_skipped(${name} "${obstacle}")
    lk_untested("the build \"${name}\" (${obstacle})")
    return()
  endif()
  set(daily ${ARGN})
  list(REMOVE_ITEM daily ${long_in_${name}})
  lk_test(${name}.build ${name} tests/meta/variant.sh ${name} ${settings_of_${name}} ${daily})
  lk_test(${name}.build_all long tests/meta/variant.sh ${name} ${ARGN})
  set_tests_properties(${name}.build PROPERTIES FIXTURES_SETUP ${name})
  set_tests_properties(${name}.build_all PROPERTIES FIXTURES_SETUP ${name}_all)
  set_tests_properties(${name}.build ${name}.build_all PROPERTIES PROCESSORS ${processors} COST 1000
    RESOURCE_LOCK build_${name})
  list(FILTER ARGN INCLUDE REGEX "^test_")
  foreach(program IN LISTS ARGN)
    lk_variant_test(${name} ${program} ${program})
  endforeach()
endfunction()

# lk_variant_test(variant name program argument...): brief, because what the number of ranks or many
# alike cases can show, this build has shown.  One of few_in_VARIANT runs on 3 ranks.
function(lk_variant_test variant name program)
  set(command ${CMAKE_CURRENT_SOURCE_DIR}/build/${variant}/${program} ${ARGN})
  set(daily ${variant}.${name})
  set(long)
  set(environment TEST_BRIEF=1 ${environment_of_${variant}})
  if(name IN_LIST long_in_${variant})
    set(daily)
    set(long ${variant}.${name})
  elseif(name IN_LIST few_in_${variant})
    set(long ${variant}.${name}.on_all)
    list(APPEND environment TEST_RANKS=3)
  endif()
  if(daily)
    lk_test(${daily} ${variant} ${command})
    set_tests_properties(${daily} PROPERTIES FIXTURES_REQUIRED ${variant}
      ENVIRONMENT "${environment}")
  endif()
  if(long)
    lk_test(${long} long ${command})
    set_tests_properties(${long} PROPERTIES FIXTURES_REQUIRED ${variant}_all ENVIRONMENT TEST_BRIEF=1)
  endif()
endfunction()

# lk_links(compiler flag text obstacle): whether the compiler has the sanitizer's runtime.
function(lk_links compiler flag text obstacle)
  file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/links.c "${text}\n")
  execute_process(COMMAND ${compiler} -fsanitize=${flag} links.c -o links
    WORKING_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR} OUTPUT_QUIET ERROR_QUIET RESULT_VARIABLE failed)
  if(failed)
    set(${obstacle} "${compiler} cannot link -fsanitize=${flag}" PARENT_SCOPE)
  endif()
endfunction()

# lk_programs(names pattern): the names of the test programs from matching files.
function(lk_programs names)
  file(GLOB_RECURSE files ${ARGN})
  list(TRANSFORM files REPLACE ".*/([^/]*)\\.c$" "\\1")
  set(${names} ${files} PARENT_SCOPE)
endfunction()

lk_links(${CMAKE_C_COMPILER} thread "int main(void) { return 0; }" tsan_obstacle)
find_program(LK_CLANG clang)
if(NOT LK_CLANG)
  set(asan_obstacle "there is no clang")
else()
  lk_links(${LK_CLANG} fuzzer,address,undefined
    "int LLVMFuzzerTestOneInput(const char *d, unsigned long n) { return !d && n; }" asan_obstacle)
endif()

lk_programs(of_kernel tests/unit/kernel/*.c)
lk_programs(of_numbers tests/unit/autograd/*.c tests/unit/base/*.c tests/unit/kernel/*.c
  tests/unit/nn/*.c tests/unit/ops/*.c tests/unit/optim/*.c tests/unit/tensor/*.c)
lk_programs(of_threads tests/unit/kernel/*thread*.c tests/unit/comm/*.c tests/unit/data/*loader*.c
  tests/unit/data/*stream*.c tests/unit/parallel/*parallel*.c)
list(FILTER of_threads EXCLUDE REGEX "slurm")
# On the tape a rank is one thread: test_programs stands for what is made of communication nodes.
# A thread that crashes while others are reported waits for locks of ThreadSanitizer's own.
set(of_ranks ${dist})
list(FILTER of_ranks EXCLUDE REGEX "abort_hook|adjoints|chain|halo|lists|oracles|recurrent|unet")
# What waits for its clock finds nothing more there, nor does what compares many values and has no
# memory of its own: those kernels are all in asan.selfcheck.  Power cuts, planted faults, tiers and a
# thousand ranks do often what the tests of checkpoints, programs and allreduce do once.
set(long_in_asan test_checkpoint_crash test_conv_bits test_conv_gradient test_conv_math test_crash
  test_elementwise test_format_boxes test_generated test_math_f32 test_math_f64 test_math_special test_mismatches
  test_checkpoint_memory test_checkpoint_ranks test_conv_weights test_gemm test_patience test_planted test_reduce
  test_stage_plan test_thousand_ranks test_tiers test_winograd_math)
set(few_in_asan test_batch_statistics test_chain_jobs test_chain_training test_checkpoint_boxes
  test_checkpoint_failures test_ddl test_domains test_double_buffering test_folds test_iterators
  test_margins test_multi_node_optimizer test_plan test_recompute_nets test_recurrent test_recurrent_chains
  test_scatter_dataset test_spatial test_spatial_layers test_spatial_positions test_stage_schedules test_term_layouts
  test_tile_conv test_tile_features test_tile_local_conv test_tile_payload test_tile_plan test_training
  test_unet test_unit_norm test_wire)
# What ranks do on tiles in earnest is in test_spatial, messages of fetches in test_fetch.
set(of_tiles test_domains test_margins test_own_positions test_spatial_layers test_spatial_positions test_sum_tiles
  test_term_layouts test_tile_conv test_tile_features test_tile_layer_norm test_tile_local_conv test_tile_norm
  test_tile_plan test_tile_pool test_tile_sums test_unit_norm)
# Plans and boxes are made by one thread, and what a thousand threads do, a hundred do; messages that do
# not arrive are in test_faults, saves and loads in test_checkpoints and test_state.
set(long_in_tsan ${of_tiles} test_checkpoint_boxes test_checkpoint_failures test_checkpoint_memory
  test_held_hash test_mismatches test_patience test_plan test_rank_traps test_recompute_nets
  test_feature_conv test_feature_cross_entropy test_feature_linear test_feature_payload
  test_feature_places test_feature_recurrent test_feature_tags
  test_stage_plan test_stage_schedules test_thousand_ranks test_tile_payload test_weights_boxes)
set(few_in_tsan ${few_in_asan} test_checkpoints)
# Kernels for AVX-512, unrolled and with checks, take a quarter of each build, and those for AVX2 are the
# same loops: every day only these are checked.  That AVX-512 reads and writes nothing outside its
# operands, unit tests show at the ends of pages; its bits by clang are in asan.selfcheck.
set(settings_of_asan -DLK_CHECK_AVX512=OFF)
set(settings_of_tsan -DLK_MAX_ISA=avx2)
lk_runs(avx512 avx512)
if(avx512)
  set(environment_of_asan LK_ISA=avx2)
endif()
lk_variant(asan "${asan_obstacle}" lockstep fuzz ${unit} ${dist})
lk_variant(tsan "${tsan_obstacle}" lockstep ${of_threads} ${of_ranks})
lk_variant(minimal "" lockstep)
lk_test(minimal.command minimal tests/meta/minimal.sh
  ${CMAKE_CURRENT_SOURCE_DIR}/build/minimal/lockstep $<TARGET_FILE:json_lines>)
set_tests_properties(minimal.command PROPERTIES FIXTURES_REQUIRED minimal)
if(NOT tsan_obstacle)
  lk_variant_test(tsan selfcheck lockstep selfcheck --threads 3) # the kernels, split among threads
endif()
if(NOT asan_obstacle)
  lk_variant_test(asan allocations lockstep selfcheck --fail-alloc --threads 2)
  lk_variant_test(asan selfcheck lockstep selfcheck --golden tests/golden/selfcheck.txt)
  # The golden hashes of trained networks: layers, ops and update rules as clang compiles them.
  foreach(script whole presets)
    lk_test(asan.${script} asan tests/cli/train/test_${script}.sh
      ${CMAKE_CURRENT_SOURCE_DIR}/build/asan/lockstep $<TARGET_FILE:json_lines>)
    set_tests_properties(asan.${script} PROPERTIES FIXTURES_REQUIRED asan
      ENVIRONMENT "TEST_BRIEF=1;${environment_of_asan}")
  endforeach()
  lk_programs(of_fuzz tests/fuzz/fuzz_*.c)
  foreach(program IN LISTS of_fuzz)
    string(REPLACE fuzz_ fuzz. name ${program})
    lk_test(${name} fuzz tests/fuzz/run.sh ${CMAKE_CURRENT_SOURCE_DIR}/build/asan/${program})
    set_tests_properties(${name} PROPERTIES FIXTURES_REQUIRED asan)
    lk_test(${name}.longer long env FUZZ_SECONDS=60
      tests/fuzz/run.sh ${CMAKE_CURRENT_SOURCE_DIR}/build/asan/${program})
    set_tests_properties(${name}.longer PROPERTIES FIXTURES_REQUIRED asan_all)
  endforeach()
endif()
include(emulate)
