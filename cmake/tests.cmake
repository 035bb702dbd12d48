# The tests, all under ctest.
#
#   test_*         one program per file of tests/unit; one that asks test_whole() runs all its cases as
#                  *.whole, label "long"
#   selfcheck      the self-check of the command against the golden hashes
#   example.*, MPI.example.*      the programs of examples/
#   cli.*          the command seen from outside, one script each in the folders of tests/cli; what a
#                  script does only with TEST_LONG in the environment it does as *.whole, label "long"
#   experiments.*  wrong experiment files, and what is said about each
#   meta.*         the rules of the project, one script each
#   local.*        programs of the folders of tests/dist, their ranks as threads of one process; those
#                  that take long on some numbers of ranks, and on all as *.on_all, label "long"
#   openmpi.*, mpich.*      the same programs, by one or each MPI, on its share of the numbers of
#                  ranks, and on all of them as *.on_all, label "long"; and a host of that MPI
#   hosts.*        programs of tests/hosts, their ranks on simulated hosts, under mpirun and under SLURM;
#                  what is timed, or takes long, has the label "long"
#   memory.*       programs of tests/memory under a limit of data memory, as processes of an MPI
#   fuzz.*         the targets of tests/fuzz in the build asan, for some seconds each
#   VARIANT.*      those programs again that can tell the other builds of CMakePresets.json from
#                  this one (LK_TEST_VARIANTS)
#   label "long"   programs of tests/long: only `make test-long` runs them, by ctest -C long
#
# Tests run in the project's folder.  One that cannot run here says why, ends with status 77 and
# counts as skipped.
option(LK_TEST_VARIANTS "test the rules of the project and the builds of all presets" OFF)

if(LK_SANITIZE OR CMAKE_CROSSCOMPILING OR CMAKE_C_FLAGS_DEBUG MATCHES "--coverage")
  set(slowness 20)
else()
  set(slowness 1)
endif()

# What `make test-quick` runs, label "quick": the unit tests but for the slow, and a smoke test.
set(slow "local\\.test_(checkpoint_boxes|faults|mismatches|patience|programs|training)|test_(coll|dist|multi_node)_memory|test_tiers")
set(smoke "cli\\.(eval|gradcheck|train|usage|whole)$|example\\.|experiments\\.")

# lk_test(name label command...): tests of some labels run only with ctest -C long.
function(lk_test name label)
  set(only)
  if("${label}" MATCHES "^(long|emulated)$")
    set(only CONFIGURATIONS long)
  endif()
  add_test(NAME ${name} COMMAND ${ARGN} WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} ${only})
  set(labels ${label})
  if(label STREQUAL "unit" AND NOT name MATCHES "^(${slow})$" OR name MATCHES "^(${smoke})")
    list(APPEND labels quick)
  endif()
  # mpirun of Open MPI 4 may see a process end before it sees that the process said good-bye, and then
  # fails a run in which nothing did, one of some thousand starts (open-mpi/ompi issues 7833, 9389 and
  # 12607).  This has it judge by statuses and signals alone.
  set_tests_properties(${name} PROPERTIES LABELS "${labels}" TIMEOUT 900 SKIP_RETURN_CODE 77
    ENVIRONMENT_MODIFICATION OMPI_MCA_orte_allowed_exit_without_sync=set:1)
  # The longest begin first, not alone at the end.
  if(name MATCHES "^cli\\.(early|kill|run|run_train|stop|storage|tiles|verify)$")
    set_tests_properties(${name} PROPERTIES COST 100)
  elseif(name MATCHES "(bench|boxes|curves|faults|memory|mismatches|patience|plan|selfcheck|start|tiers|training)$")
    set_tests_properties(${name} PROPERTIES COST 10)
  endif()
endfunction()

# lk_timed(test...): tests that expect a report within seconds: one at a time, with little beside it.
function(lk_timed)
  set_tests_properties(${ARGN} PROPERTIES RESOURCE_LOCK timed PROCESSORS 3 COST 50)
endfunction()

# lk_test_flags(program file): test programs are compiled more often than they are run.  Under
# sanitizers, those that have no long loops of their own are not optimised at all.
function(lk_test_flags program file)
  if(LK_SANITIZE)
    set(level -O0)
    if(file MATCHES "/tests/unit/kernel/")
      set(level -O1)
    endif()
    target_compile_options(${program} PRIVATE ${level})
  elseif(CMAKE_BUILD_TYPE STREQUAL "Release")
    target_compile_options(${program} PRIVATE -O1)
  endif()
endfunction()

# The harness, and main() for programs that have none: the linker takes from it what is missing.
add_library(test_harness STATIC tests/support/harness.c tests/support/main.c)
target_include_directories(test_harness PUBLIC tests/support PRIVATE include)
target_compile_definitions(test_harness PUBLIC
  TEST_SLOWNESS=${slowness} $<$<BOOL:${CMAKE_CROSSCOMPILING}>:TEST_EMULATED>)

# lk_test_program(program file...): a program that sees the library's own headers.
function(lk_test_program program)
  add_executable(${program} ${ARGN})
  target_include_directories(${program} PRIVATE src tests tests/dist)
  target_link_libraries(${program} PRIVATE
    test_harness lk_reference lockstep_static Threads::Threads m ${CMAKE_DL_LIBS})
endfunction()

# lk_test_programs(names label pattern): a program and a test from each matching file.
function(lk_test_programs names label pattern)
  file(GLOB_RECURSE files CONFIGURE_DEPENDS ${pattern})
  foreach(file IN LISTS files)
    get_filename_component(name ${file} NAME_WE)
    list(APPEND all ${name})
    lk_test_program(${name} ${file})
    lk_test_flags(${name} ${file})
    lk_test(${name} ${label} ${name})
    file(STRINGS ${file} has_more REGEX "test_whole\\(\\)")
    if(has_more)
      lk_test(${name}.whole long ${name})
      set_tests_properties(${name}.whole PROPERTIES ENVIRONMENT TEST_LONG=1)
    endif()
  endforeach()
  set(${names} ${all} PARENT_SCOPE)
endfunction()

lk_test_programs(unit unit tests/unit/*.c)
lk_test_programs(long long tests/long/*.c)
set_tests_properties(test_math_whole_range PROPERTIES TIMEOUT 7200)

# Tests of the command's own parts: test_FOLDER_X has cli/FOLDER/X.c, and test_cli_X has cli/X.c.
file(GLOB files CONFIGURE_DEPENDS tests/unit/cli/test_*.c)
foreach(file IN LISTS files)
  get_filename_component(name ${file} NAME_WE)
  string(REGEX REPLACE "^test_cli_" "" part ${name})
  string(REGEX REPLACE "^test_([a-z]+)_" "\\1/" part ${part})
  target_sources(${name} PRIVATE cli/${part}.c)
  target_include_directories(${name} PRIVATE cli)
endforeach()

# A host program with its own OpenMP; without a compiler that has it, the test skips itself.
find_package(OpenMP COMPONENTS C QUIET)
if(OpenMP_C_FOUND)
  target_link_libraries(test_openmp PRIVATE OpenMP::OpenMP_C)
endif()

# lk_share(share mpi ranks): the numbers of ranks on which a test runs with this MPI every day.  They
# are dealt out among the MPIs, where there are enough; all numbers with each MPI are a test of label
# "long".
function(lk_share share mpi ranks)
  separate_arguments(ranks)
  list(FIND LK_MPIS ${mpi} turn)
  list(LENGTH LK_MPIS players)
  set(own)
  foreach(n IN LISTS ranks)
    if(turn EQUAL 0)
      list(APPEND own ${n})
      set(turn ${players})
    endif()
    math(EXPR turn "${turn} - 1")
  endforeach()
  if(NOT own)
    set(own ${ranks})
  endif()
  list(JOIN own " " own)
  set(${share} ${own} PARENT_SCOPE)
endfunction()

# lk_turn(out number): the MPI whose turn it is, where every day one of them is enough.
function(lk_turn out number)
  list(LENGTH LK_MPIS players)
  set(one)
  if(players GREATER 0)
    math(EXPR turn "${number} % ${players}")
    list(GET LK_MPIS ${turn} one)
  endif()
  set(${out} ${one} PARENT_SCOPE)
endfunction()

# lk_mpi_tests(name ranks program variable=value): the program with that environment, by each MPI on its
# share of the numbers of ranks, and on all as *.on_all, label "long".
function(lk_mpi_tests name ranks program variable)
  foreach(mpi IN LISTS LK_MPIS)
    lk_share(share ${mpi} "${ranks}")
    lk_test(${mpi}.${name} ${mpi} env ${variable}
      tests/dist/run.sh ${mpi} "${share}" $<TARGET_FILE:${program}>)
    lk_test(${mpi}.${name}.on_all long env ${variable}
      tests/dist/run.sh ${mpi} "${ranks}" $<TARGET_FILE:${program}>)
  endforeach()
endfunction()

# examples/NN_X.c, which `make` builds as example_X, prints what examples/output/NN_X.txt says; it sees
# the public headers alone.  NN is its place in the order of reading.  One that communicates does so on
# threads and on 1 to 4 processes of an MPI, every day of one of them, in turns; one that includes
# <mpi.h> is compiled against each, as example_X_MPI, and runs with each.  Experiment files need libyaml.
# Some are given arguments, some need a number of ranks, and some other numbers of threads too.
set(arguments_of_ddl_mnist "--steps 3 --batch 4 --format glyphs --data 'count=144 test_count=96'")
set(arguments_of_mnist_chain "--unit 64 --epoch 3")
set(arguments_of_mnist_messages "${arguments_of_mnist_chain}")
set(arguments_of_dual_parallel "${arguments_of_mnist_chain}")
set(arguments_of_cifar10_cnn "--devices 2 --epochs 2 --augment")
set(arguments_of_cifar10_slurm "--distribute chief")
set(threads_of_heat_tiles 1 2)
set(ranks_of_ddl_mnist "12")
set(ranks_of_cifar10_slurm "1 3 4 9")
set(ranks_of_mnist_chain "2")
set(ranks_of_mnist_messages "2")
set(ranks_of_dual_parallel "4 1 6 2")
file(GLOB examples CONFIGURE_DEPENDS examples/*.c)
list(JOIN CMAKE_CROSSCOMPILING_EMULATOR " " emulator)
foreach(file IN LISTS examples)
  get_filename_component(numbered ${file} NAME_WE)
  string(REGEX REPLACE "^[0-9]+_" "" name ${numbered})
  set(expected examples/output/${numbered}.txt)
  file(STRINGS ${file} is_host REGEX "^#include <mpi.h>")
  file(STRINGS ${file} has_ranks REGEX "lk_comm_|lk_ddl_")
  file(STRINGS ${file} reads_yaml REGEX "lk_experiment_read|cifar10_read")
  set(programs example_${name})
  if(is_host)
    list(TRANSFORM LK_MPIS PREPEND example_${name}_ OUTPUT_VARIABLE programs)
  endif()
  foreach(program IN LISTS programs)
    add_executable(${program} ${file})
    target_link_libraries(${program} PRIVATE lockstep_static Threads::Threads m ${CMAKE_DL_LIBS})
    add_dependencies(product ${program})
  endforeach()
  if(NOT is_host AND (LK_YAML OR NOT reads_yaml))
    lk_test(example.${name} cli env "EMULATOR=${emulator}" "ARGUMENTS=${arguments_of_${name}}"
      tests/examples/example.sh $<TARGET_FILE:example_${name}> ${expected})
    foreach(n IN LISTS threads_of_${name})
      lk_test(example.${name}.on_${n} cli env "EMULATOR=${emulator}" "ARGUMENTS=${n}"
        tests/examples/example.sh $<TARGET_FILE:example_${name}> ${expected})
    endforeach()
  endif()
  if(has_ranks AND (LK_YAML OR NOT reads_yaml))
    if(NOT DEFINED ranks_of_${name})
      set(ranks_of_${name} "1 2 3 4")
    endif()
    set(daily_mpis ${LK_MPIS})
    if(NOT is_host)
      list(FIND examples ${file} place)
      lk_turn(daily_mpis ${place})
    endif()
    foreach(mpi IN LISTS LK_MPIS)
      set(program example_${name})
      if(is_host)
        set(program example_${name}_${mpi})
        target_link_libraries(${program} PRIVATE host_${mpi})
      endif()
      add_dependencies(${program} mpi_${mpi})
      lk_share(share ${mpi} "${ranks_of_${name}}")
      set(arguments env "ARGUMENTS=${arguments_of_${name}}")
      lk_test(${mpi}.example.${name}.on_all long ${arguments} tests/examples/example.sh
        $<TARGET_FILE:${program}> ${expected} ${mpi} "${ranks_of_${name}}")
      lk_timed(${mpi}.example.${name}.on_all)
      if(mpi IN_LIST daily_mpis)
        lk_test(${mpi}.example.${name} ${mpi} ${arguments} tests/examples/example.sh $<TARGET_FILE:${program}>
          ${expected} ${mpi} "${share}")
        lk_timed(${mpi}.example.${name})
      endif()
    endforeach()
  endif()
endforeach()
# On one device, and on as many as shards do not divide among evenly, and where each rank reads its own
# data: the same bits.
if(LK_YAML)
  foreach(n 1 3)
    lk_test(example.cifar10_cnn.on_${n} cli env "EMULATOR=${emulator}"
      "ARGUMENTS=--devices ${n} --scale 2 --epochs 2 --augment"
      tests/examples/example.sh $<TARGET_FILE:example_cifar10_cnn> examples/output/21_cifar10_cnn.txt)
  endforeach()
  lk_test(example.cifar10_slurm.own cli env "EMULATOR=${emulator}" "ARGUMENTS=--distribute own"
    tests/examples/example.sh $<TARGET_FILE:example_cifar10_slurm> examples/output/22_cifar10_slurm.txt)
  foreach(mpi IN LISTS LK_MPIS)
    lk_test(${mpi}.example.cifar10_slurm.own long env "ARGUMENTS=--distribute own" tests/examples/example.sh
      $<TARGET_FILE:example_cifar10_slurm> examples/output/22_cifar10_slurm.txt ${mpi} "2 4 7")
  endforeach()
endif()

# DDL's check in its example, next to a build in which a sum is wrong; in the long tests it learns.
add_executable(ddl_mnist_damaged examples/23_ddl_mnist.c tests/examples/ddl_damage.c)
target_include_directories(ddl_mnist_damaged PRIVATE src)
target_link_libraries(ddl_mnist_damaged PRIVATE lockstep_static Threads::Threads m ${CMAKE_DL_LIBS})
target_link_options(ddl_mnist_damaged PRIVATE -Wl,--wrap=lk__ddl_check)
if(NOT CMAKE_CROSSCOMPILING)
  set(both $<TARGET_FILE:example_ddl_mnist> $<TARGET_FILE:ddl_mnist_damaged>)
  lk_test(example.ddl_check cli tests/examples/ddl_check.sh ${both})
  foreach(mpi IN LISTS LK_MPIS)
    add_dependencies(ddl_mnist_damaged mpi_${mpi})
    set(label ${mpi})
    if(NOT mpi STREQUAL "openmpi" AND "openmpi" IN_LIST LK_MPIS)
      set(label long) # every day with one of them
    endif()
    lk_test(${mpi}.example.ddl_check ${label} tests/examples/ddl_check.sh ${both} ${mpi})
  endforeach()
  lk_test(example.ddl_learns long tests/examples/ddl_learns.sh $<TARGET_FILE:example_ddl_mnist>)
  set_tests_properties(example.ddl_learns PROPERTIES TIMEOUT 3600)
endif()

# Programs with ranks: on threads of one process, and as processes of each MPI.  Those that look at
# the clock run alone.
set(ranks "1 2 3 4 5 7 8")
set(ranks_of_test_abort_hook "1 3")
set(ranks_of_test_arrivals "1 2 3 5")
set(ranks_of_test_chain_builds "2 3 5")
set(ranks_of_test_chain_jobs "1 2 3")
set(ranks_of_test_chain_training "1 2 3 5")
set(ranks_of_test_chains "2 3 4 5")
set(ranks_of_test_checkpoint_boxes "1 2 3 5")
set(ranks_of_test_checkpoint_failures "1 2 3 5")
set(ranks_of_test_checkpoint_memory "3 8")
set(ranks_of_test_checkpoints "1 2 3 5")
set(ranks_of_test_ddl "1 3 4 6")
set(ranks_of_test_devices "1 2 3 4")
set(ranks_of_test_failing_metric "1 3")
set(ranks_of_test_failing_pass "2 3 5")
set(ranks_of_test_faults "2 3 5")
set(ranks_of_test_groups "4 8")
set(ranks_of_test_halo_add "1 2 3 4 5 6 7 8 9 16")
set(ranks_of_test_held_hash "2 5 8")
set(ranks_of_test_mesh "1 4 6")
foreach(name double_buffering mean_grad multi_node_optimizer wire)
  set(ranks_of_test_${name} "1 2 3 4 7")
endforeach()
set(ranks_of_test_mismatches "4")
set(ranks_of_test_fetch "1 2 3 4 5 6 7 8 9 16")
set(ranks_of_test_finite "1 2 3 4")
set(ranks_of_test_other_data "2 3")
set(ranks_of_test_own_positions "2 3 4")
set(ranks_of_test_patience "3 5")
set(ranks_of_test_plan "2 3 4")
set(ranks_of_test_domains "2 4")
set(ranks_of_test_margins "4 6")
set(ranks_of_test_progress "1 2 3 8")
set(ranks_of_test_random_chains "2 3 4 5")
set(ranks_of_test_rank_traps "2 3")
set(ranks_of_test_recompute_nets "1 2 3 4")
set(ranks_of_test_recurrent "1 2 3 5")
set(ranks_of_test_recurrent_chains "1 2 3 5")
set(ranks_of_test_segments "2 3 4 5")
set(ranks_of_test_spatial "1 2 3 4 6 8 9")
set(ranks_of_test_spatial_layers "2 3 4")
set(ranks_of_test_term_layouts "1 2 3 4")
set(ranks_of_test_feature_payload "2 3 4 6 8")
set(ranks_of_test_feature_plan "1 2 3 4 6")
set(ranks_of_test_feature_tags "1 2 3 5")
set(ranks_of_test_tile_features "1 2 3 4 6 8 9 12") # tiles times features
set(ranks_of_test_tile_payload "2 3 4 6 8")
set(ranks_of_test_tile_plan "1 2 3 4 6 8 9")
set(ranks_of_test_spatial_positions "1 2 3 4 6 8")
set(ranks_of_test_stage_schedules "1 2 3 4 5 6 7 8")
set(threads_of_test_stage_schedules "3 8")
set(ranks_of_test_sum_tiles "1 2 3 4 5 6 8 9 12 16")
set(ranks_of_test_tile_samples "1 2 3 4 5 6 7 8 9 16")
set(ranks_of_test_tile_local_conv "1 2 3 4 5 6 8")
set(ranks_of_test_tile_layer_norm "1 2 3 4 5 6 8")
set(ranks_of_test_tile_conv "1 2 3 4 5 6 7 8 9")
set(ranks_of_test_unit_norm "1 2 3 4 6 8")
set(threads_of_test_unit_norm "1 2 3 4")
set(ranks_of_test_wakes "2 5")
set(ranks_of_test_weights_boxes "1 3 5")
set(timed test_faults test_mismatches test_wakes)
# Every day, fewer of the many numbers: one even, one odd with each of two MPIs.  Those that send much
# take long where 8 processes share two cores.
set(daily_ranks "2 5 3 8")
foreach(name adjoints batch_statistics folds)
  set(daily_ranks_of_test_${name} "1 2 3 5")
endforeach()
set(threads_of_test_halo_add ${ranks_of_test_halo_add})
set(daily_ranks_of_test_spatial "4 6")
set(threads_of_test_spatial_layers ${ranks_of_test_spatial_layers})
set(daily_ranks_of_test_spatial_layers "4 3")
set(threads_of_test_own_positions ${ranks_of_test_own_positions})
set(daily_ranks_of_test_own_positions "4 3")
set(threads_of_test_recompute_nets "1 2 4")
set(daily_ranks_of_test_recompute_nets "4 2")
set(threads_of_test_term_layouts ${ranks_of_test_term_layouts})
set(daily_ranks_of_test_term_layouts "4 3")
set(threads_of_test_feature_conv "1 2 3 5 8")
set(threads_of_test_feature_linear "1 2 3 5")
set(threads_of_test_feature_payload "2 3 4")
set(threads_of_test_feature_places "1 2 3 5")
set(threads_of_test_feature_plan ${ranks_of_test_feature_plan})
set(daily_ranks_of_test_feature_plan "4 3")
set(threads_of_test_feature_recurrent "1 2 3 5")
set(threads_of_test_feature_tags "1 2 3 5")
set(threads_of_test_tile_features ${ranks_of_test_tile_features})
set(threads_of_test_tile_payload "2 3 4")
foreach(name conv embedding linear payload places recurrent)
  set(daily_ranks_of_test_feature_${name} "4 3")
endforeach()
set(daily_ranks_of_test_tile_payload "4 3")
set(threads_of_test_tile_plan "1 2 4 6")
set(daily_ranks_of_test_tile_plan "4 6")
set(threads_of_test_domains ${ranks_of_test_domains})
set(threads_of_test_margins "1 4 6")
set(daily_ranks_of_test_spatial_positions "4 3")
set(daily_ranks_of_test_unit_norm "4 3")
foreach(name fetch sum_tiles tile_samples)
  set(threads_of_test_${name} ${ranks_of_test_${name}})
  set(daily_ranks_of_test_${name} "4 3 6 8")
endforeach()
foreach(name sum_tiles tile_local_conv tile_samples)
  set(threads_of_test_${name} "1 2 3 4 6 8")
endforeach()
set(daily_ranks_of_test_sum_tiles "4 3")
set(daily_ranks_of_test_halo_add "4 3 6 8") # squares, a line, rectangles and a cube
set(daily_ranks_of_test_tile_pool "4 3 6 8")
set(daily_ranks_of_test_tile_conv "4 3 6 8")
set(daily_ranks_of_test_tile_local_conv "4 3")
set(daily_ranks_of_test_tile_layer_norm "4 3")
# On threads there are all numbers, but every day of the longest some.
set(daily_threads test_adjoints test_chain_jobs test_chain_training test_checkpoint_boxes
  test_double_buffering test_folds test_multi_node_optimizer test_plan test_recurrent test_recurrent_chains
  test_scatter_dataset test_training)
# What ranks compute on tiles, threads show every day; that its messages arrive, test_spatial, test_fetch and
# test_unet show with each MPI.  Those of stages are in test_stage_plan and test_stage_trace.
set(long_in_mpi test_recompute_nets test_spatial_layers test_spatial_positions test_stage_schedules test_term_layouts
  test_tile_conv test_tile_features test_tile_local_conv test_tile_norm test_tile_pool test_tile_samples
  test_tile_sums test_unit_norm)
# What is made of calls and messages that others try with each MPI runs every day with one of them, in turns.
set(one_mpi test_adjoints test_batch_statistics test_chain_builds test_chain_jobs test_chain_training test_chains
  test_checkpoint_boxes test_checkpoint_failures test_checkpoint_memory test_converted_model test_domains
  test_double_buffering test_early_stop test_evaluation test_evaluators test_failing_metric test_failing_pass
  test_failing_stages test_feature_conv test_feature_cross_entropy test_feature_embedding test_feature_linear
  test_feature_payload test_feature_places test_feature_plan test_feature_recurrent test_feature_tags
  test_features test_folds test_halo test_halo_add test_held_hash test_iterators test_lists test_margins
  test_mean_grad test_mesh test_multi_node_batch_norm test_multi_node_optimizer test_oracles_arrays test_oracles_chainermn test_oracles_mpi4torch test_other_data
  test_own_positions test_phases test_plan test_random_chains test_recurrent test_recurrent_chains
  test_scatter_dataset test_segments test_stage_plan test_stage_trace test_sum_tiles test_tile_conv_chain
  test_tile_layer_norm test_tile_payload test_tile_plan test_tiling_misuse test_weights_boxes test_wire)
file(GLOB files CONFIGURE_DEPENDS tests/dist/*/test_*.c)
foreach(file IN LISTS files)
  get_filename_component(name ${file} NAME_WE)
  list(APPEND dist ${name})
  lk_test_program(${name} ${file})
  lk_test_flags(${name} ${file})
  file(STRINGS ${file} reads_yaml REGEX "(lk_experiment_(read|parse)|job_of|train_steps)\\(")
  if(reads_yaml AND NOT LK_YAML)
    lk_test(local.${name} unit sh -c "echo 'SKIPPED: there is no libyaml' && exit 77")
    continue()
  endif()
  lk_test(local.${name} unit ${name})
  if(name IN_LIST daily_threads)
    set_tests_properties(local.${name} PROPERTIES ENVIRONMENT "TEST_RANKS=1 2 3 5")
    lk_test(local.${name}.on_all long ${name})
  endif()
  if(threads_of_${name})
    set_tests_properties(local.${name} PROPERTIES ENVIRONMENT "TEST_RANKS=${threads_of_${name}}")
  endif()
  if(NOT ranks_of_${name})
    set(ranks_of_${name} ${ranks})
    if(NOT daily_ranks_of_${name})
      set(daily_ranks_of_${name} ${daily_ranks})
    endif()
  endif()
  set(daily_mpis ${LK_MPIS})
  list(FIND one_mpi ${name} place)
  if(name IN_LIST long_in_mpi)
    set(daily_mpis)
  elseif(place GREATER_EQUAL 0)
    lk_turn(daily_mpis ${place})
  endif()
  foreach(mpi IN LISTS LK_MPIS)
    add_dependencies(${name} mpi_${mpi})
    if(NOT daily_ranks_of_${name})
      set(daily_ranks_of_${name} ${ranks_of_${name}})
    endif()
    if(mpi IN_LIST daily_mpis)
      lk_share(share ${mpi} "${daily_ranks_of_${name}}")
      lk_test(${mpi}.${name} ${mpi} tests/dist/run.sh ${mpi} "${share}" $<TARGET_FILE:${name}>)
    endif()
    lk_test(${mpi}.${name}.on_all long tests/dist/run.sh ${mpi} "${ranks_of_${name}}"
      $<TARGET_FILE:${name}>)
    if(name IN_LIST timed)
      lk_timed(${mpi}.${name} ${mpi}.${name}.on_all)
    endif()
  endforeach()
endforeach()

# The passes of stages are recorded as the trainer calls them.
target_link_options(test_stage_trace PRIVATE
  -Wl,--wrap=lk_model_forward -Wl,--wrap=lk_backward -Wl,--wrap=lk_backward_rest)

# What calls of a step on tiles send, and those of nodes on split features, is counted call by call
# (made_calls.h), where ranks are on one node, and where each is on its own.
foreach(name tile_payload feature_payload)
  target_link_options(test_${name} PRIVATE -Wl,--wrap=lk_coll_run -Wl,--wrap=lk_coll_start)
  lk_test(local.${name}_on_nodes unit env LK_LOCAL_NODES=16 "TEST_RANKS=2 3 4 8"
    ${CMAKE_CROSSCOMPILING_EMULATOR} $<TARGET_FILE:test_${name}>)
  lk_mpi_tests(${name}_on_nodes "4 3" test_${name} LK_LOCAL_NODES=16)
endforeach()

# Every shape of a chain list a hundred times, three hundred random ones, and a hundred steps of training;
# every tiling.
foreach(name chains random_chains chain_training)
  lk_test(local.${name}_often long env TEST_PASSES=100 TEST_LONG=1 ${CMAKE_CROSSCOMPILING_EMULATOR}
    $<TARGET_FILE:test_${name}>)
  foreach(mpi IN LISTS LK_MPIS)
    lk_test(${mpi}.${name}_often long env TEST_PASSES=100 TEST_LONG=1 tests/dist/run.sh ${mpi} "2 3 4 5"
      $<TARGET_FILE:test_${name}>)
  endforeach()
endforeach()

# All ways through four hundred random nets.
lk_test(local.test_domains.whole long env TEST_LONG=1 TEST_RANKS=4 ${CMAKE_CROSSCOMPILING_EMULATOR}
  $<TARGET_FILE:test_domains>)
# Losses of layers: every choice on every grid.
lk_test(local.test_term_layouts.whole long env "TEST_RANKS=1 2 3 4" TEST_LONG=1
  ${CMAKE_CROSSCOMPILING_EMULATOR} $<TARGET_FILE:test_term_layouts>)
# Two thousand random pools on tiles.
lk_test(local.test_tile_pool.whole long env TEST_LONG=1 ${CMAKE_CROSSCOMPILING_EMULATOR}
  $<TARGET_FILE:test_tile_pool>)
# Two thousand random convolutions on tiles.
lk_test(local.tile_conv_often long env TEST_LONG=1 ${CMAKE_CROSSCOMPILING_EMULATOR}
  $<TARGET_FILE:test_tile_conv>)
# Two thousand random local convolutions on tiles, and more layouts of nets of them.
foreach(name tile_local_conv spatial_positions)
  lk_test(local.test_${name}.whole long env TEST_LONG=1 ${CMAKE_CROSSCOMPILING_EMULATOR}
    $<TARGET_FILE:test_${name}>)
endforeach()
lk_test(local.test_stage_schedules.on_all long env "TEST_RANKS=${ranks_of_test_stage_schedules}"
  ${CMAKE_CROSSCOMPILING_EMULATOR} $<TARGET_FILE:test_stage_schedules>)
lk_test(local.sum_tiles_whole long env TEST_LONG=1 "TEST_RANKS=${ranks_of_test_sum_tiles}"
  ${CMAKE_CROSSCOMPILING_EMULATOR} $<TARGET_FILE:test_sum_tiles>)
foreach(mpi IN LISTS LK_MPIS)
  lk_test(${mpi}.sum_tiles_whole long env TEST_LONG=1 tests/dist/run.sh ${mpi} "2 3 4 6 8 9 12"
    $<TARGET_FILE:test_sum_tiles>)
endforeach()

# A state that no process could hold: eight save it, five load it.
foreach(mpi IN LISTS LK_MPIS)
  lk_test(${mpi}.checkpoint_memory long env TEST_STATE_MIB=512 LK_DEADLINE=120 tests/dist/run.sh ${mpi}
    "8" $<TARGET_FILE:test_checkpoint_memory>)
  set_tests_properties(${mpi}.checkpoint_memory PROPERTIES RUN_SERIAL ON)
endforeach()

# Volumes of which no process could hold a sample, and layouts of four ranks for a net that none could hold,
# every day with the last MPI.
set(memory_layouts stages4 features4)
if(LK_YAML AND NOT LK_SANITIZE AND NOT CMAKE_CROSSCOMPILING)
  lk_test_program(volumes tests/memory/volumes.c)
  foreach(mpi IN LISTS LK_MPIS)
    add_dependencies(volumes mpi_${mpi})
    foreach(name volumes unet planned)
      lk_test(memory.${name}_${mpi} long env TEST_LONG=1 tests/memory/${name}.sh ${mpi}
        $<TARGET_FILE:volumes> $<TARGET_FILE:lockstep>)
      set_tests_properties(memory.${name}_${mpi} PROPERTIES RUN_SERIAL ON)
    endforeach()
    foreach(layout IN LISTS memory_layouts)
      lk_test(memory.${layout}_${mpi} long env TEST_LONG=1 tests/memory/layout.sh ${mpi}
        $<TARGET_FILE:volumes> $<TARGET_FILE:lockstep> ${layout})
      set_tests_properties(memory.${layout}_${mpi} PROPERTIES RUN_SERIAL ON)
    endforeach()
  endforeach()
  if(LK_MPIS)
    list(GET LK_MPIS -1 mpi)
    foreach(name volumes unet planned)
      lk_test(memory.${name} ${mpi} tests/memory/${name}.sh ${mpi} $<TARGET_FILE:volumes>
        $<TARGET_FILE:lockstep>)
    endforeach()
    foreach(layout IN LISTS memory_layouts)
      lk_test(memory.${layout} ${mpi} tests/memory/layout.sh ${mpi} $<TARGET_FILE:volumes>
        $<TARGET_FILE:lockstep> ${layout})
    endforeach()
  endif()
endif()

# All mistakes that one rank can make: a few above, on one node and between two.
foreach(transport local ${LK_MPIS})
  lk_test(mismatches.${transport} long tests/long/mismatches.sh ${transport}
    $<TARGET_FILE:test_mismatches>)
  set_tests_properties(mismatches.${transport} PROPERTIES TIMEOUT 7200 RUN_SERIAL ON)
endforeach()

# Random programs: a few here, many in the long tests; and faults that they must find.
file(GLOB files CONFIGURE_DEPENDS tests/dist/nodes/programs/*.c)
add_library(random_programs STATIC ${files})
target_link_libraries(random_programs PRIVATE lockstep_static)
target_link_libraries(test_programs PRIVATE random_programs)
target_link_libraries(test_planted PRIVATE random_programs)
lk_test(programs long test_programs --count 100000)
set_tests_properties(programs PROPERTIES TIMEOUT 7200)
foreach(name arrivals messages moves shared)
  lk_test(local.${name}_with_progress unit env LK_PROGRESS=1 ${CMAKE_CROSSCOMPILING_EMULATOR}
    $<TARGET_FILE:test_${name}>)
  lk_mpi_tests(${name}_with_progress "3 5" test_${name} LK_PROGRESS=1)
endforeach()
# Ranks on several nodes, also on nodes that are not alike.
foreach(name within folds state)
  foreach(nodes 2 3)
    lk_test(local.${name}_on_${nodes}_nodes unit env LK_LOCAL_NODES=${nodes}
      ${CMAKE_CROSSCOMPILING_EMULATOR} $<TARGET_FILE:test_${name}>)
  endforeach()
  lk_mpi_tests(${name}_on_nodes "4 5" test_${name} LK_LOCAL_NODES=2)
endforeach()
lk_test(local.devices_on_2_nodes unit env LK_LOCAL_NODES=2 ${CMAKE_CROSSCOMPILING_EMULATOR}
  $<TARGET_FILE:test_devices>)
# A host program with its own MPI.
foreach(mpi IN LISTS LK_MPIS)
  add_executable(test_host_${mpi} tests/host/test_host.c)
  target_compile_options(test_host_${mpi} PRIVATE ${LK_MPI_FLAGS_${mpi}})
  target_link_libraries(test_host_${mpi} PRIVATE
    test_harness lockstep_static ${LK_MPI_LINKS_${mpi}} Threads::Threads m ${CMAKE_DL_LIBS})
  add_dependencies(test_host_${mpi} mpi_${mpi})
  foreach(level funneled multiple)
    lk_test(${mpi}.host_${level} ${mpi} tests/dist/run.sh ${mpi} "4" $<TARGET_FILE:test_host_${mpi}>
      ${level})
  endforeach()
endforeach()

lk_mpi_tests(faults_between_nodes "2 3 5" test_faults LK_LOCAL_NODES=3)
lk_mpi_tests(shared_on_nodes "3 4" test_shared LK_LOCAL_NODES=2)
foreach(mpi IN LISTS LK_MPIS)
  lk_test(${mpi}.ended ${mpi} tests/dist/ended.sh ${mpi} $<TARGET_FILE:test_faults>)
  lk_test(${mpi}.killed ${mpi} tests/dist/killed.sh ${mpi} $<TARGET_FILE:test_shared>
    ${CMAKE_CURRENT_BINARY_DIR}/mpi)
  lk_test(${mpi}.aborted ${mpi} tests/dist/aborted.sh ${mpi} $<TARGET_FILE:test_abort_hook>)
  lk_test(${mpi}.aborted.whole long env TEST_LONG=1 tests/dist/aborted.sh ${mpi}
    $<TARGET_FILE:test_abort_hook>)
  lk_timed(${mpi}.aborted ${mpi}.aborted.whole ${mpi}.ended ${mpi}.faults_between_nodes ${mpi}.faults_between_nodes.on_all)
endforeach()

lk_test(selfcheck cli lockstep selfcheck --golden tests/golden/selfcheck.txt)
if(NOT CMAKE_CROSSCOMPILING)
  if(LK_YAML)
    lk_test(experiments.wrong cli tests/experiments/run.sh $<TARGET_FILE:lockstep> info wrong)
    lk_test(experiments.impossible cli tests/experiments/run.sh $<TARGET_FILE:lockstep> train impossible)
  endif()
  add_executable(json_lines tests/cli/json_lines.c)
  add_executable(signal_after tests/cli/run/signal_after.c)
  add_executable(checkpoint_make tests/cli/train/checkpoint_make.c)
  target_link_libraries(checkpoint_make PRIVATE lockstep_static Threads::Threads m ${CMAKE_DL_LIBS})
  # The command with planted faults, which `lockstep gradcheck --layout` must find.
  add_executable(lockstep_planted tests/cli/layouts/planted.c $<TARGET_OBJECTS:lockstep>)
  target_include_directories(lockstep_planted PRIVATE src)
  target_link_libraries(lockstep_planted PRIVATE lk_reference lockstep_static Threads::Threads m ${CMAKE_DL_LIBS})
  target_link_options(lockstep_planted PRIVATE -Wl,--wrap=lk_accumulator_add
    -Wl,--wrap=lk__groups_allreduce -Wl,--wrap=lk__batch_join)
  if(LK_YAML)
    lk_test(cli.cifar10_options cli tests/examples/cifar10_options.sh $<TARGET_FILE:lockstep>
      $<TARGET_FILE:json_lines> $<TARGET_FILE:example_cifar10_cnn>)
  endif()
  file(GLOB scripts CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} tests/cli/*/test_*.sh)
  foreach(script IN LISTS scripts)
    string(REGEX REPLACE "^.*/test_(.*)\\.sh$" "cli.\\1" name ${script})
    lk_test(${name} cli ${script} $<TARGET_FILE:lockstep> $<TARGET_FILE:json_lines>)
    file(STRINGS ${script} has_more REGEX "TEST_LONG")
    if(has_more)
      lk_test(${name}.whole long env TEST_LONG=1 ${script} $<TARGET_FILE:lockstep> $<TARGET_FILE:json_lines>)
      set_tests_properties(${name}.whole PROPERTIES TIMEOUT 7200 RUN_SERIAL ON)
    endif()
  endforeach()
  if(LK_YAML)
    lk_test(verify long tests/long/verify.sh $<TARGET_FILE:lockstep>)
    lk_test(tiles long tests/long/tiles.sh $<TARGET_FILE:lockstep>)
    set_tests_properties(verify tiles PROPERTIES TIMEOUT 7200 RUN_SERIAL ON)
  endif()
endif()

option(LK_FUZZ "have the fuzz targets, in a build by clang with address,undefined as LK_SANITIZE" OFF)
if(LK_FUZZ)
  include(fuzz)
endif()
if(LK_TEST_VARIANTS)
  include(variants)
  lk_test(meta.lint long env LINT_STATES=20000 tools/lint ${CMAKE_CURRENT_BINARY_DIR})
  set_tests_properties(meta.lint PROPERTIES PROCESSORS ${processors})
  lk_test(meta.layers meta tests/meta/layers.sh)
  lk_test(meta.names meta tests/meta/names.sh)
  lk_test(meta.bench_pairs meta tests/meta/bench_pairs.sh)
  lk_test(meta.coverage meta tests/meta/coverage.sh)
  lk_test(meta.documents meta tests/meta/documents.sh)
  lk_test(meta.examples meta tests/meta/examples.sh)
  if(LK_YAML)
    lk_test(meta.porting meta tests/meta/porting.sh $<TARGET_FILE:lockstep>)
  endif()
  lk_test(meta.headers meta tests/headers/check.sh)
  lk_test(meta.setup meta tests/meta/setup.sh)
  lk_test(meta.guards meta tests/meta/guards.sh ${CMAKE_CURRENT_BINARY_DIR})
  lk_test(meta.hardening meta tests/meta/hardening.sh ${CMAKE_CURRENT_BINARY_DIR})
  lk_test(meta.symbols meta tests/meta/symbols.sh ${CMAKE_CURRENT_BINARY_DIR})
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    lk_test(meta.loops meta tests/meta/loops.sh ${CMAKE_CURRENT_BINARY_DIR})
  else()
    lk_untested("the loops of the kernels for AVX2 and AVX-512 (they are not compiled for this processor)")
  endif()
  lk_test(meta.untested meta tests/meta/untested.sh ${CMAKE_CURRENT_BINARY_DIR})
  lk_test(meta.install meta tests/install/check.sh ${CMAKE_CURRENT_BINARY_DIR})
endif()

# Ranks on simulated hosts, where namespaces can be made.
if(LK_YAML AND NOT LK_SANITIZE AND NOT CMAKE_CROSSCOMPILING)
  lk_test_program(hosts_tiles tests/hosts/tiles.c)
  target_link_options(hosts_tiles PRIVATE -Wl,--wrap=lk_coll_run -Wl,--wrap=lk_coll_start)
  lk_test_program(hosts_exchange tests/hosts/exchange.c)
  foreach(mpi IN LISTS LK_MPIS)
    add_dependencies(hosts_exchange mpi_${mpi})
    lk_test(hosts.exchange_${mpi} long env TEST_LONG=1 tests/hosts/exchange.sh ${mpi}
      $<TARGET_FILE:hosts_exchange>)
    set_tests_properties(hosts.exchange_${mpi} PROPERTIES RUN_SERIAL ON)
    add_dependencies(hosts_tiles mpi_${mpi})
    lk_test(hosts.tiles_${mpi} long env TEST_LONG=1 tests/hosts/tiles.sh ${mpi}
      $<TARGET_FILE:hosts_tiles>)
  endforeach()
  if(LK_MPIS) # every day, with the first of them
    list(GET LK_MPIS 0 mpi)
    lk_test(hosts.tiles ${mpi} tests/hosts/tiles.sh ${mpi} $<TARGET_FILE:hosts_tiles>)
    lk_test(hosts.exchange ${mpi} tests/hosts/exchange.sh ${mpi} $<TARGET_FILE:hosts_exchange>)
  endif()
endif()
if(LK_MPIS AND NOT LK_SANITIZE AND NOT CMAKE_CROSSCOMPILING)
  foreach(mpi IN LISTS LK_MPIS)
    lk_test(hosts.aborted_${mpi} long tests/hosts/aborted.sh ${mpi} $<TARGET_FILE:test_abort_hook>)
  endforeach()
  list(GET LK_MPIS -1 mpi) # every day, with the last of them
  lk_test(hosts.aborted ${mpi} tests/hosts/aborted.sh ${mpi} $<TARGET_FILE:test_abort_hook>)
  lk_timed(hosts.aborted)
endif()
if(LK_YAML AND NOT LK_SANITIZE AND NOT CMAKE_CROSSCOMPILING)
  add_library(mpich_end SHARED tests/hosts/mpich_end.c)
  target_link_libraries(mpich_end PRIVATE ${CMAKE_DL_LIBS})
  set_target_properties(mpich_end PROPERTIES C_VISIBILITY_PRESET default)
  set(launch $<TARGET_FILE:lockstep> $<TARGET_FILE:example_ddl_mnist> $<TARGET_FILE:mpich_end>)
  foreach(mpi IN LISTS LK_MPIS)
    lk_test(hosts.launch_${mpi} ${mpi} tests/hosts/launch.sh ${mpi} ${launch})
    lk_test(hosts.launch_${mpi}.whole long env TEST_LONG=1 tests/hosts/launch.sh ${mpi} ${launch})
  endforeach()
endif()
if("openmpi" IN_LIST LK_MPIS AND NOT LK_SANITIZE)
  lk_test_program(hosts_link tests/hosts/link.c)
  add_dependencies(hosts_link mpi_openmpi)
  lk_test(hosts.link long tests/hosts/run.sh $<TARGET_FILE:hosts_link> $<TARGET_FILE:lockstep>)
  set_tests_properties(hosts.link PROPERTIES RUN_SERIAL ON)
endif()

# A real SLURM on simulated hosts: every day srun, with the first MPI.  MPICH needs some help there.
if(LK_MPIS AND NOT LK_SANITIZE AND NOT CMAKE_CROSSCOMPILING)
  add_library(mpich_shim MODULE tests/hosts/mpich_shim.c)
  target_link_libraries(mpich_shim PRIVATE ${CMAKE_DL_LIBS})
  set(shim_of_mpich $<TARGET_FILE:mpich_shim>)
  foreach(mpi IN LISTS LK_MPIS)
    if(LK_YAML)
      lk_test(hosts.srun_${mpi} long env TEST_LONG=1 tests/hosts/srun.sh ${mpi}
        $<TARGET_FILE:lockstep> $<TARGET_FILE:example_cifar10_slurm> ${shim_of_${mpi}})
      lk_test(hosts.sbatch_${mpi} long tests/hosts/sbatch.sh ${mpi} $<TARGET_FILE:lockstep>
        ${shim_of_${mpi}})
      set_tests_properties(hosts.sbatch_${mpi} PROPERTIES TIMEOUT 3600 RUN_SERIAL ON)
    endif()
  endforeach()
  list(GET LK_MPIS 0 mpi)
  lk_test(hosts.srun ${mpi} tests/hosts/srun.sh ${mpi} $<TARGET_FILE:lockstep>
    $<TARGET_FILE:example_cifar10_slurm> ${shim_of_${mpi}})
  set_tests_properties(hosts.srun PROPERTIES TIMEOUT 120)
endif()
