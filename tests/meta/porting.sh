#!/bin/sh
# No row of docs/guide/porting.md is untested.  Of what a right column has in backquotes,
#
#   calls        are in the public headers, with as many arguments, and a test or an example makes them; one of
#                those sets each option in their texts;
#   parts of experiments, as `train: {epochs: 3}`, are taken by `lockstep info`, and so are the presets that a
#                command trains, with the values behind them; keys, as `train.output`, are in docs/reference/options.md;
#   other words  are in the public headers, the reference, the command's help, the switches or the presets, and in
#                a test, an example or a preset.
#
# A row without any of this has a link, or says that there is nothing.  And no call of the five systems is without
# a row.  Beside this, tests/meta/documents.sh follows links, tests/cli/command/test_documents.sh looks for verbs and
# options of commands, and tests/cli/command/test_porting_ddl.sh runs those of DDL's launcher.
#
#   tests/meta/porting.sh COMMAND        build/lockstep
set -eu
lockstep=$1
document=docs/guide/porting.md
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Names of the five systems: each is in a left column of its system.
cat >"$work/systems" <<'END'
mpi4torch: COMM_WORLD comm_from_mpi4py MPI_Communicator rank size Allreduce Bcast_ Reduce_ Gather Allgather
mpi4torch: Scatter Alltoall Isend Irecv Wait Send Recv JoinDummies JoinDummiesHandle WaitHandle MPI_SUM MPI_PROD
mpi4torch: MPI_MIN MPI_MAX MPI_LAND MPI_BAND MPI_LOR MPI_BOR MPI_LXOR MPI_BXOR MPI_MINLOC MPI_MAXLOC
mpi4torch: deactivate_cuda_aware_mpi_support
ChainerMN: create_communicator CommunicatorBase naive flat hierarchical two_dimensional single_node non_cuda_aware
ChainerMN: pure_nccl dummy mpi_comm allreduce_grad_dtype batched_copy set_config get_config rank size intra_rank
ChainerMN: intra_size inter_rank inter_size split finalize send recv bcast gather allgather scatter alltoall
ChainerMN: allreduce send_obj recv_obj bcast_obj gather_obj allreduce_obj max_buf_len bcast_data broadcast_data
ChainerMN: multi_node_mean_grad allreduce_grad zero_fill pseudo_connect delegate_variable force_tuple
ChainerMN: MultiNodeChainList add_link rank_in rank_out create_multi_node_n_step_rnn create_empty_dataset
ChainerMN: scatter_dataset scatter_index DataSizeError create_multi_node_iterator create_synchronized_iterator
ChainerMN: create_multi_node_optimizer double_buffering create_multi_node_evaluator GenericMultiNodeEvaluator
ChainerMN: MultiNodeBatchNormalization communication_backend create_mnbn_model create_multi_node_checkpointer
ChainerMN: cp_interval gc_interval maybe_load multi_node_snapshot replica_sets AllreducePersistent
ChainerMN: ObservationAggregator MultiNodeEarlyStoppingTrigger global_except_hook add_hook
ChainerMN: CHAINERMN_FORCE_ABORT_ON_EXCEPTION get_n_iterations_for_one_epoch get_epoch_trigger train_mnist
ChainerMN: train_mnist_model_parallel dual_parallel parallel_convolution seq2seq dcgan imagenet cifar
DDL: Init num_gpu mode rank size local_rank local_size gpuid num_hosts Bcast AllReduce AllReduceN op mpi check
DDL: ddl_init ddl_rank ddl_size ddl_allreduce ddl_allreduce_mpi ddl_finalize DDL_SUCCESS DDL_TYPE_FLOAT
DDL: DDL_TYPE_HALF DDL_OP_SUM allreduce_n grads_reduce init bcast pyddl DDL_OPTIONS DDL_GROUP_SIZE DDL_HOST_PORT
DDL: DDL_HOST_LIST OMPI_COMM_WORLD_RANK -mode -dump_iter -dev_sync -rebind_iter -dbg_level -ddl ddlrun -m --mode
DDL: --ddlarg --no_ddloptions -rf --rankfile -H --host --hostfile --aisles --racks --nodes --accelerators --tcp
DDL: --mpiarg -x -v mpirun rank_gen.py mnist-init.py
keras_experiments: make_parallel serial_model gdev_list ps_device usenccl initsync syncopt enqueue model_class
keras_experiments: ModelMGPU ModelKerasMGPU multi_gpu_model print_mgpu_modelsummary get_available_gpus ngpus
keras_experiments: GPUListType name_str int_id dspec compile AdagradMGPU AdadeltaMGPU AdamMGPU AdamaxMGPU NadamMGPU
keras_experiments: RMSPropMGPU SgdMGPU TFOptimizerMGPU clipnorm clipvalue SlurmClusterParser num_param_servers
keras_experiments: starting_port network SLURM_JOB_NODELIST SLURM_TASKS_PER_NODE SLURM_PROCID SLURM_NPROCS
keras_experiments: SLURM_NNODES TFClusterManagerFacade ClusterParser num_tasks_per_host hostnames
keras_experiments: num_parameter_servers my_proc_id join stop_chief ProtocolType get_server
keras_experiments: convert_to image_raw label RecordInput parallelism string_input_producer shuffle_batch capacity
keras_experiments: min_after_dequeue ModelTFRecordMixin fit_tfrecord ModelCheckpointTFRecord DataFlow RepeatedData
keras_experiments: BatchData MapData PrefetchDataZMQ nr_proc hwm AugmentImageComponent mnist_tfrecord_mgpu
keras_experiments: cifar10_cnn_mgpu --mgpu --checkpt --aug --datadir cifar10_cnn_distrib_slurm
keras_experiments: cifar10_cnn_distrib_v2_slurm
neon: dist_flag dist_mode halopar vecpar datapar halodatapar GlobalArray LocalArray get_fprop_view make_fprop_view
neon: get_bprop_view make_bprop_view get_local_acts comm_per_dim border_id halo_ids lcn_layer_flag ConvLayerDist
neon: MaxPoolingLayerDist L2PoolingLayerDist LCNLayerDist LocalFilteringLayerDist LayerWithNoBiasDist LayerDist
neon: ConvnetDist GBDist MLPDist adjust_for_dist fit predict fprop bprop load read_image_file AveragePooling
neon: Convolver RectLin Logistic Tanh Linear CrossEntropy SumSquaredDiffs weight_init uniform gaussian normal
neon: node_normalized bias_init momentum constant linear_monotone nesterov GradientDescent GradientDescentPretrain
neon: GradientDescentMomentum AdaDelta LocalDeFiltering tied_weights pretraining sparsity pretrain_cost
neon: num_pretrain_epochs num_initial_epochs pretrain_learning_rate visualize spot_check backend rng_seed
neon: seterr_handling datasets repo_path sample_pct serialized_path batch_size num_test_sample num_epochs
neon: learning_rate logging FitExperiment FitPredictErrorExperiment GradientChecker ToyImages MNIST CIFAR10
neon: --datapar --modelpar NoPar ModelPar DataPar -r -o -i OMPI_COMM_WORLD_LOCAL_RANK mpirun
END

# ---- what there is ----

words() { grep -ahoE '[A-Za-z_][A-Za-z0-9_-]*[A-Za-z0-9_]' "$@"; }

# Functions, each with the number of its parameters; all words; what tests do.
sed 's#/\*.*\*/##; /\/\*/,/\*\//d' include/lockstep/*.h >"$work/headers" # without comments
awk '/^LK_API/ { text = ""; on = 1 }
    on { text = text " " $0 }
    on && /;/ {
        on = 0
        if (!match(text, /lk_[a-z0-9_]+\(/))
            next
        name = substr(text, RSTART, RLENGTH - 1)
        rest = substr(text, RSTART + RLENGTH)
        n = 1
        depth = 1
        for (i = 1; depth > 0 && i <= length(rest); i++) {
            c = substr(rest, i, 1)
            depth += (c == "(") - (c == ")")
            n += c == "," && depth == 1
        }
        print name, rest ~ /^void\)/ ? 0 : n
    }' "$work/headers" >"$work/declared"
{
    words "$work/headers"
    echo '#include <lockstep/lockstep.h>' | "${CC:-cc}" -E -P -Iinclude - | grep -oE '\<(LK|lk)_[A-Za-z0-9_]+'
    sed -n 's/^### [a-z]* //p; s/^| `\([^`]*\)`.*/\1/p; s/.*; one of \([^|;]*\).*/\1/p' docs/reference/options.md | words
    sed '/^ *#/d' tests/convert/neon/*.txt | words
    "$lockstep" list verbs --json | sed -n 's/.*"name": "\([a-z]*\)".*/\1/p' | while read -r verb; do
        "$lockstep" help "$verb" </dev/null | words
    done
    "$lockstep" list collectives | words
    sed -n 's/^| `\(LK_[A-Z_]*\)` | .*/\1/p' docs/*/*.md
    (cd experiments && ls) | sed 's/\.yaml$//'
    grep -ohE -- '--[a-z][a-z-]*' examples/*.c | words
    printf '%s\n' NULL int true false tie FOLDER FILE MPI_Comm_c2f
} | sort -u >"$work/known"
find tests examples experiments -type f ! -path 'tests/meta/*' -exec cat {} + >"$work/tests"
words "$work/tests" | sort -u >"$work/tested"
grep -aoE 'lk_[a-z0-9_]+ ?\(' "$work/tests" | tr -d ' (' | sort -u >"$work/called"
grep -aoE '[a-z_]+=' "$work/tests" | sort -u >"$work/set"
awk '/^### section / { section = $3; print section; if (section == "loader") section = "data" }
    /^### format / { section = "data" }
    /^### (model|layer|init|loss|metric|optimizer|schedule) / { section = $2 }
    /^\| `/ { gsub(/`/, "", $2); print section "." $2 }' docs/reference/options.md | sort -u >"$work/keys"
cat >"$work/base.yaml" <<'END'
data: {type: glyphs, shape: [32, 32, 1], batch: 24, shards: 12}
model: [{type: conv, filters: 4, kernel: 3, padding: 1}, flatten, {type: linear, units: 10, name: linear1}]
loss: softmax_cross_entropy
optimizer: sgd
pieces: {tiles: 4x4, blocks: 4, least_tile: 1}
END

# ---- the rows ----

# facts DOCUMENT: of each row what is to be looked at: line, kind, and the thing; of a left column `row`.
facts() {
    awk '
    function fact(kind, thing) { print NR "\t" kind "\t" thing }
    # Calls of a span with the number of their arguments, -1 if they are left out; names in their texts.
    function calls(span,    name, n, depth, quoted, i, c, all) {
        while (match(span, /lk_[a-z0-9_]+\(/)) {
            name = substr(span, RSTART, RLENGTH - 1)
            span = substr(span, RSTART + RLENGTH)
            n = depth = 1
            quoted = 0
            for (i = 1; depth > 0 && i <= length(span); i++) {
                c = substr(span, i, 1)
                quoted = c == "\"" ? !quoted : quoted
                depth += !quoted * ((c ~ /[({[]/) - (c ~ /[)}\]]/))
                n += !quoted && c == "," && depth == 1
            }
            all = substr(span, 1, i - 2)
            fact("call", name " " (all == "" || all ~ /\.\.\./ ? -1 : n))
            while (match(all, /[a-z_]+=/)) {
                fact("set", substr(all, RSTART, RLENGTH))
                all = substr(all, RSTART + RLENGTH)
            }
        }
    }
    function each_word(text, want, kind) {
        gsub(/\047[^\047]*\047|"[^"]*"|[0-9][0-9a-z]*x[0-9a-z]*/, " ", text)
        while (match(text, /[A-Za-z_][A-Za-z0-9_-]*[A-Za-z0-9_]/)) {
            if (substr(text, RSTART, RLENGTH) ~ want)
                fact(kind, substr(text, RSTART, RLENGTH))
            text = substr(text, RSTART + RLENGTH)
        }
    }
    /^## / { system_ = $2; sub(/:$/, "", system_) }
    /^\|/ { row++ }
    !/^\|/ { row = 0 }
    row > 2 {
        right = $0
        sub(/ \|$/, "", right)
        sub(/^\| .* \| /, "", right)
        fact("row", system_ " " substr($0, 1, length($0) - length(right)))
        if (right ~ /^the same/ && right !~ /`|\]\(/) { # that is what the left column names
            n_spans = split($0, span, "`")
            for (s = 2; s <= n_spans; s += 2)
                each_word(span[s], "", "same")
        } else if (right !~ /`|\]\(|^nothing/) {
            fact("bare", right)
        }
        n_spans = split(right, span, "`")
        for (s = 2; s <= n_spans; s += 2) {
            if (span[s] ~ /^(lockstep|srun|mpirun) /) {
                if (match(span[s], /train experiments\//))
                    fact("preset", substr(span[s], RSTART + 6))
            } else if (span[s] ~ /^(data|model|loss|metrics|optimizer|train|phases|pieces|parallel|seed|dtype): / && span[s] !~ /\.\.\./) {
                fact("part", span[s])
            } else if (span[s] ~ /^(data|train|pieces|parallel|optimizer)(\.[a-z_]+)+$/) {
                fact("key", span[s])
            } else if (span[s] ~ /lk_[a-z0-9_]+\(/) {
                calls(span[s])
                each_word(span[s], "^(lk|LK)_", "word") # the others are the program
            } else {
                each_word(span[s], "", "word")
            }
        }
    }' "$1"
}

# lacking KIND LIST MESSAGE: things of this kind whose first word is not in the list.
lacking() {
    awk -F '\t' -v kind="$1" -v message="$3" -v file="$file" 'NR == FNR { known[$1]; next }
        $2 == kind { split($3, part, " "); if (!(part[1] in known)) print file ":" $1 ": " message ": " part[1] }' \
        "$work/$2" "$work/facts"
}

# check DOCUMENT: complaints.
check() {
    file=$1
    facts "$file" >"$work/facts"
    tab=$(printf '\t')
    awk -F '\t' -v file="$file" '$2 == "bare" { print file ":" $1 ": nothing to test: " $3 }' "$work/facts"
    lacking word known 'there is nothing of this name'
    lacking word tested 'no test has'
    lacking same tested 'no test has'
    lacking call called 'no test or example calls'
    lacking set set 'no test or example sets'
    lacking key keys 'docs/reference/options.md has no key'
    awk -F '\t' -v file="$file" 'NR == FNR { split($0, part, " "); n[part[1]] = part[2]; next }
        $2 == "call" { split($3, part, " ")
            if (!(part[1] in n)) print file ":" $1 ": not in the public headers: " part[1] "()"
            else if (part[2] >= 0 && part[2] != n[part[1]])
                print file ":" $1 ": " part[1] "() has " n[part[1]] " arguments, not " part[2] }' "$work/declared" "$work/facts"
    while IFS=$tab read -r line kind thing; do
        case $kind in
        part) set -- "$work/base.yaml" "${thing%%: *}=$(echo "${thing#*: }" | sed 's/\<X\>/0.5/g; s/\<FOLDER\>/./g')" ;;
        preset) eval "set -- $thing" ;;
        *) continue ;;
        esac
        "$lockstep" info "$@" >"$work/out" 2>&1 </dev/null || echo "$file:$line: not taken: $thing: $(tail -n 1 "$work/out")"
    done <"$work/facts"
}

check "$document" >"$work/found"
[ "$(grep -c "	row	" "$work/facts")" -gt 200 ] || echo "$document: where are its rows?" >>"$work/found"
sed -n 's/^\([^:]*\): */\1 /p' "$work/systems" | while read -r system names; do
    awk -F '\t' -v system_="$system" '$2 == "row" && index($3, system_ " ") == 1 { print $3 }' "$work/facts" >"$work/left"
    for name in $names; do
        grep -qE -- "(^|[^A-Za-z0-9_])$name([^A-Za-z0-9_]|\$)" "$work/left" ||
            echo "$document: $system has no row for $name"
    done
done >>"$work/found"

# Rows that are wrong, each in its way, are found, one complaint for each.
cat >"$work/wrong.md" <<'END'
| there | here |
|---|---|
| 3 | `lk_dist_allredcue(comm, x, op, name, &y)` |
| 4 | `lk_dist_allreduce(comm, x, op, &y)` |
| 5 | `lk_loader_new(set, "bacth=3", 1, &loader)` |
| 6 | `LK_REDUCE_MEDIAN` |
| 7 | `train.checkpoint.keeps` |
| 8 | `train: {epoch: 3}` |
| 9 | `lockstep train experiments/mnist-mlp.yaml data.bacth=3` |
| 10 | `replica_set` |
| 11 | a better way |
| 12 | `lk_optimizer_new(params, "adam", "rate=0.003", &actual)`, `train: {epochs: 3}`, `train.output` and `adam` |
END
check "$work/wrong.md" | sed 's/^[^:]*:\([0-9]*\):.*/\1/' | sort -nu | tr '\n' ' ' >"$work/lines"
[ "$(cat "$work/lines")" = '3 4 5 6 7 8 9 10 11 ' ] || {
    echo "wrong rows are found in lines $(cat "$work/lines")"
    check "$work/wrong.md"
} >>"$work/found"
cat "$work/found"
! [ -s "$work/found" ]
