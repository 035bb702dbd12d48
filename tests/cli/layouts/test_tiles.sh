#!/bin/sh
# Samples cut into tiles: presets have one state on every grid of ranks that the pieces allow, as threads
# and as processes of an MPI; evaluation and metrics are those of one rank; and a run that is killed on one
# layout goes on, on another.  With TEST_LONG in the environment all layouts on all MPIs, and more steps.
. "$(dirname "$0")/../expect.sh"
. "$(dirname "$0")/../places.sh"
export LK_THREADS=1 LK_DEADLINE=60
first=${mpis# }
first=${first%% *}

# ---- one state ----

# one_state PRESET SHAPE LAYOUTS [MPIS]: prints it.
one_state()
{
    case $1 in
    unet*) data="type: fractal, count: 6, batch: 4, shards: 2" pieces= ;; # their own pieces
    *) data="type: glyphs, count: 14, batch: 8, shards: 4" pieces='pieces.tiles=4x4 pieces.least_tile=1' ;;
    esac
    case $1 in *-gb) data="type: glyphs, count: 14, batch: 7, shards: 4" pieces= ;; esac
    # shellcheck disable=SC2086 # two words, or none
    status 0 "$lockstep" verify "experiments/$1.yaml" "data={$data, test_count: 0, shape: $2}" \
        $pieces --steps "$steps" --layouts "$3" --transport "local${4:+,mpi}" ${4:+--mpi "$4"} --json
    "$json" <"$work/out" || fail 'JSON'
    [ "$(grep -c '"same": true' "$work/out")" -eq "$(wc -l <"$work/out")" ] || fail "$1: layouts differ"
    sed -n 's/.*"state": "\([^"]*\)".*/\1/p' "$work/out" | sort -u >"$work/states"
    [ "$(wc -l <"$work/states")" -eq 1 ] || fail "$1: no state"
    echo "$1 $(cat "$work/states"): $(wc -l <"$work/out") configurations"
}
# by_tiles PRESET LAYOUT: every layer of its plan is, without an exchange of samples.
by_tiles()
{
    status 0 "$lockstep" plan "experiments/$1.yaml" --layout "$2"
    awk '/^layer /{ on = 1; next } on && NF == 0 { exit } on && $2 != "tiles" { print; bad = 1 } on { n++ } END { exit bad || n < 30 }' \
        "$work/out" || fail "$1 on $2: layers that do not run by tiles"
    grep -q ' changed ' "$work/out" && fail "$1 on $2: samples are exchanged"
    return 0
}
for layout in 2x1 2x2 data2.2x2; do
    by_tiles unet $layout
done
for layout in 2x1x1 2x2x2 data2.2x2x2; do
    by_tiles unet3d $layout
done

steps=2
if [ -n "${TEST_LONG-}" ]; then
    steps=20
    one_state unet '[64, 64, 1]' 1,2x1,1x2,2x2,data2.2x2 "$(echo "${mpis# }" | tr ' ' ,)"
    one_state unet3d '[32, 32, 32, 1]' 1,2x1x1,2x2x1,2x2x2,data2.2x2x2 "$(echo "${mpis# }" | tr ' ' ,)"
    listed=$(echo "${mpis# }" | tr ' ' ,)
    one_state mnist-gb '[28, 28, 1], one_hot: true' 1,2x1,2x2,4x1,4x4,data2.2x2 "$listed" # four steps of each phase
    one_state cifar10-gb '[32, 32, 3], one_hot: true' 1,2x1,2x2,4x1,4x4,data2.2x2 "$listed"
    steps=4
    all=1,2x1,1x2,2x2,4x1,3x3,4x4,data2.2x2
    one_state mnist-lenet '[28, 28, 1], one_hot: true' $all "$listed"
    one_state cifar10-cnn '[32, 32, 3]' $all "$listed"
    one_state cifar10-resnet '[32, 32, 3]' $all "$listed"
else
    one_state mnist-lenet '[28, 28, 1], one_hot: true' 1,1x2,3x3,4x4,data2.2x2
    one_state cifar10-cnn '[32, 32, 3]' 1,4x1,2x2
    one_state cifar10-resnet '[32, 32, 3]' 1,2x2
    one_state unet '[64, 64, 1]' 1,2x1,2x2,data2.2x2
    one_state unet3d '[32, 32, 32, 1]' 1,2x1x1,2x2x2,data2.2x2x2
    [ -z "$first" ] || one_state mnist-lenet '[28, 28, 1], one_hot: true' 2x2 "$first"
    steps=5 # one of each phase
    one_state mnist-gb '[28, 28, 1], one_hot: true' 1,4x4,data2.2x1
    one_state cifar10-gb '[32, 32, 3], one_hot: true' 1,4x1
    [ -z "$first" ] || one_state mnist-gb '[28, 28, 1], one_hot: true' 2x2 "$first"
fi

# ---- metrics, evaluation, resuming ----

cat >"$work/net.yaml" <<'END_OF_NET'
data: {type: glyphs, count: 29, test_count: 9, shape: [13, 11, 2], batch: 8, shards: 3}
model:
  - {type: conv, filters: 4, kernel: 3, padding: 1}
  - batch_norm
  - relu
  - {type: maxpool, size: 3, stride: 2}
  - {type: residual, layers: [{type: conv, filters: 4, kernel: 3, padding: 1}, {type: dropout, rate: 0.1}]}
  - flatten
  - {type: linear, units: 10}
loss: softmax_cross_entropy
metrics: [accuracy]
optimizer: {type: adam, rate: 0.01}
pieces: {tiles: 4x4, least_tile: 1}
train: {epochs: 3, checkpoint: {every: 1 steps, keep: 0}}
END_OF_NET

# measured FOLDER: what the epochs of a run came to.
measured()
{
    sed -En 's/^(\{("phase": "[^"]*", )?"epoch".*), "seconds".*("state".*)/\1 \3/p' "$1/metrics.jsonl"
}

# on RANKS PLACE COMMAND...: the command on so many ranks.
on()
{
    n=$1 place=$2
    shift 2
    case $place in local) set -- --transport local -- "$@" ;; *) set -- --mpi "$place" -- "$@" ;; esac
    status 0 "$lockstep" run -n "$n" "$@"
}

status 0 "$lockstep" train --quiet "$work/net.yaml" "train.output=$work/one"
state=$(cat "$work/out")
[ "$(measured "$work/one" | grep -c 'test/accuracy')" -eq 3 ] || fail 'no metrics'
# Nine test samples are two batches: of three replicas one has none.
for layout in 4:2x2 12:2x2 6:1x2 ${TEST_LONG:+16:4x4 9:3x3 8:4x1}; do
    for place in local ${TEST_LONG:+$mpis}; do
        rm -rf "$work/run"
        on "${layout%:*}" "$place" train --quiet "$work/net.yaml" "train.output=$work/run" "parallel.spatial=${layout#*:}"
        [ "$(cat "$work/out")" = "$state" ] || fail "$layout on $place: another state than $state"
        [ "$(measured "$work/run")" = "$(measured "$work/one")" ] || fail "$layout on $place: other metrics"
    done
done
cmp "$work/one/weights.safetensors" "$work/run/weights.safetensors" || fail 'other weights'
status 0 "$lockstep" eval "$work/net.yaml" "train.output=$work/one" --json
evaluated=$(cat "$work/out")
for layout in 2x2 4x1; do
    status 0 "$lockstep" eval "$work/net.yaml" "train.output=$work/one" parallel.spatial=$layout parallel.data=3 --json
    [ "$(cat "$work/out")" = "$evaluated" ] || fail "eval on $layout: not $evaluated"
done

# Killed on 2x2 in the middle of an epoch: all processes at the write of a checkpoint.
# killed RENAMES COMMAND...
killed()
{
    renames=$1
    shift
    rm -rf "$work/run"
    LK_STORAGE_FAULT=rename:$renames:KILL "$lockstep" run -n 4 --transport local -- "$@" \
        "train.output=$work/run" parallel.spatial=2x2 train.checkpoint.wait=true >"$work/out" 2>"$work/err" </dev/null &&
        fail 'not killed'
    [ -e "$work/run/checkpoints/LATEST" ] || fail 'no checkpoint'
    step=$(find "$work/run/checkpoints" -name 'step-*[0-9]' | sed -n 's/.*step-0*\([0-9]*\)$/\1/p' | sort -n | tail -n 1)
    [ $((step % 4)) -ne 0 ] || fail "killed at the end of an epoch, step $step"
}
# resumed HOW PLACE COMMAND...: goes on to the state and the metrics of one rank; HOW is RANKS:SETTING.
resumed()
{
    how=$1 place=$2
    shift 2
    # shellcheck disable=SC2086 # one word or none
    on "${how%:*}" "$place" "$@" --resume "train.output=$work/run" ${how#*:}
    err "resumed from the checkpoint of step $step"
    [ "$(cat "$work/out")" = "$state" ] || fail "resumed at step $step on $how, $place: not $state"
    [ "$(measured "$work/run")" = "$(measured "$work/one")" ] || fail "resumed at step $step on $how, $place: other metrics"
}
for how in 1: 4:parallel.spatial=4x1 3:parallel.data=3; do
    killed 5 train --quiet "$work/net.yaml"
    resumed $how local train --quiet "$work/net.yaml"
done
mv "$work/run" "$work/net"

# The same in the middle of a phase: each has four steps, the second goes from 5 to 8.
set -- train --quiet experiments/mnist-gb.yaml phases.0.epochs=1 phases.1.epochs=1 phases.2.epochs=1 phases.3.epochs=1 \
    phases.4.epochs=1 'train.checkpoint={every: 1 steps, keep: 0}' \
    'data={type: glyphs, count: 26, test_count: 9, shape: [28, 28, 1], batch: 7, shards: 3, one_hot: true}'
rm -rf "$work/one"
status 0 "$lockstep" "$@" "train.output=$work/one"
state=$(cat "$work/out")
[ "$(measured "$work/one" | sed 's/.*"phase": "\([^"]*\)".*/\1/' | uniq | wc -l)" -eq 5 ] || fail 'not five phases'
for renames in 14 ${TEST_LONG:+5 24 34 44}; do
    for how in 1: 3:parallel.data=3; do
        for place in local ${TEST_LONG:+$mpis}; do
            killed "$renames" "$@"
            [ "$renames" -ne 14 ] || [ "$step" -eq 6 ] || fail "killed behind step $step"
            resumed $how "$place" "$@"
        done
    done
done
rm -rf "$work/run"
mv "$work/net" "$work/run"

# Other pieces are another run.
status 2 "$lockstep" train --quiet --resume "$work/net.yaml" "train.output=$work/run" pieces.tiles=2x2
err 'dtype, pieces, the numerics epoch or parallel.mode, wire or double_buffering differ'
err "whose weights \`lockstep eval --weights\` takes"

# A value that becomes infinite in one tile: the layer is named that was first, whoever had the tile.
awk 'BEGIN { for (i = 0; i < 12; i++) { for (k = 0; k < 144; k++) printf "%s,", i == 9 && k == 143 ? "3e38" : k % 11 / 11; print i % 10 } }' \
    >"$work/large.csv"
for layout in data1 2x2 1x2 data2.2x2; do
    case $layout in data*) data=${layout%%.*} space=1x1 ;; *) data=data1 space=$layout ;; esac
    case $layout in *.*) space=${layout#*.} ;; esac
    status 1 "$lockstep" train --quiet "$work/net.yaml" parallel.data="${data#data}" parallel.spatial=$space model.0.padding=0 \
        'model.0.init={type: constant, value: 2}' \
        "data={type: csv, path: '$work/large.csv', header: no, classes: 10, shape: [12, 12, 1], batch: 4, shards: 4, shuffle: false}"
    grep -Eq 'step 2: the loss is nan: the first tensor that is not finite is the output of layer conv1$' "$work/err" || fail "$layout: which layer"
done
# Also where a layer within a block is not finite on one rank, and on another only the block itself; and an
# element of the data by its number in the sample, not in the tile.
sed 's/^data: .*//' "$work/net.yaml" >"$work/block.yaml"
cat >>"$work/block.yaml" <<END
data: {type: csv, path: "$work/block.csv", header: no, classes: 10, shape: [12, 12, 1], batch: 4, shards: 4, shuffle: false}
END
awk 'BEGIN { for (i = 0; i < 12; i++) { for (k = 0; k < 144; k++) printf "%s,", i == 9 && (k == 0 || k > 141) ? "2e38" : 1; print i % 10 } }' \
    >"$work/block.csv"
for layout in 1:1x1 1:2x2 1:3x1 2:2x2; do
    status 1 "$lockstep" train --quiet "$work/block.yaml" "parallel={data: ${layout%:*}, spatial: ${layout#*:}}" \
        'model=[{type: residual, layers: [{type: conv, filters: 1, kernel: 3, padding: 1, init: {type: constant, value: 1}}]},
        flatten, {type: linear, units: 10}]' optimizer.rate=0
    grep -Eq 'step 2: .* the first tensor that is not finite is the output of layer residual1.conv1$' "$work/err" || fail "$layout: which layer"
done
head -c 6912 /dev/zero >"$work/nan.raw" # twelve samples: element 131 of number 9, and 0 of number 10
head -c 12 /dev/zero >"$work/nan.labels"
for place in 5708 5760; do
    printf '\000\000\300\177' | dd of="$work/nan.raw" bs=1 seek=$place conv=notrunc 2>/dev/null
done
for layout in 1:1x1 1:2x2 1:3x1 2:2x2; do
    status 1 "$lockstep" train --quiet "$work/block.yaml" "parallel={data: ${layout%:*}, spatial: ${layout#*:}}" model.0.padding=0 \
        "data={type: raw, path: $work/nan.raw, labels: $work/nan.labels, classes: 10, shape: [12, 12, 1], batch: 4, shards: 4, shuffle: false}"
    grep -Eq 'because the data is not finite: element 131 of x, sample 9 of the set$' "$work/err" || fail "$layout: which element"
done

# ---- what cannot be cut ----

# refused RANKS TEXT ASSIGNMENT...: on so many ranks, in one line.
refused()
{
    n=$1 text=$2
    shift 2
    status 2 "$lockstep" run -n "$n" --transport local -- train --quiet "$work/net.yaml" "$@"
    err "$text"
}
refused 6 'parallel.spatial 2x2 has 4 parts, but there are 6 ranks: start 4, or a multiple of it (lockstep run -n 8 -- ...)' parallel.spatial=2x2
refused 6 'parallel.data is 2 and parallel.spatial 2x2, but there are 6 ranks: start 8 ' parallel.spatial=2x2 parallel.data=2
refused 5 "5x1 is more than the tiles of pieces, 4x4; the line \`pieces: {tiles: 5x4}\` allows it" parallel.spatial=5x1
refused 4 'layer conv1 of f32[13,11,2]: a window of 15 positions does not fit axis 0 of the input [13,11,2] with padding 0: one of at most 13 fits' \
    parallel.spatial=2x2 model.0.kernel=15 model.0.padding=0
status 2 "$lockstep" train "$work/net.yaml" pieces.tiles=4x4096
err 'net.yaml: pieces.tiles is 4x4096, 16384 tiles, and a sample [13,11,2] has 286 elements: take at most as many along an axis as it has positions'
status 2 "$lockstep" train "$work/net.yaml" parallel.spatial=4x4 parallel.data=1000
err 'parallel needs 16000 ranks: at most 4096 are threads of one process'
