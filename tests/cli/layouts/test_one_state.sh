#!/bin/sh
# One state for whole networks, wherever they are cut: a wide perceptron, a recurrent net, a residual net and a
# deep one, over stages, features, and products of these with data and tiles; and for a run that goes from layout
# to layout.  With TEST_LONG in the environment more layouts, each as threads and as processes of all MPIs.
. "$(dirname "$0")/../expect.sh"
. "$(dirname "$0")/../places.sh"
. "$(dirname "$0")/one_state.sh"
export LK_THREADS=1 LK_DEADLINE=60 TMPDIR="$work"

# everywhere FILE LAYOUTS ARGUMENTS...: one state on one rank and on the layouts; in the long test of processes too.
everywhere()
{
    net=$1 layouts=$2
    shift 2
    one_state "$net" --layouts "1,$layouts" "$@"
    threads=$state
    if [ -n "${TEST_LONG-}" ] && [ -n "$on" ]; then
        one_state "$net" --layouts "$layouts" --transport mpi --mpi "$on" "$@"
        [ "$state" = "$threads" ] || fail "$net: processes have another state than threads"
    fi
}

# glyphs SHAPE [MORE]: 20 of them in batches of 8, the last smaller.
glyphs()
{
    echo "data={type: glyphs, count: 20, test_count: 6, shape: [$1], batch: 8, shards: 4${2-}}"
}

everywhere experiments/mnist-mlp-1000.yaml "stages3,features3,data2.features2.stages2$(more \
    stages2,stages4,features2,features4,data2.stages2,data3.stages2,data2.features2,features2.stages2,features4.stages3)" \
    --steps 3 "$(glyphs '28, 28, 1')"

cat >"$work/lstm.yaml" <<'END'
data: {type: glyphs, count: 20, test_count: 6, shape: [12, 12, 1], batch: 8, shards: 4}
model:
  - {type: reshape, shape: [12, 12]}
  - {type: lstm, units: 40, output: all}
  - {type: lstm, units: 30}
  - {type: linear, units: 20}
  - relu
  - {type: linear, units: 10}
loss: softmax_cross_entropy
metrics: [accuracy]
optimizer: {type: adam, rate: 0.01, clip_norm: 1}
pieces: {blocks: 4, least_block: 4}
END
everywhere "$work/lstm.yaml" "stages2,features3$(more \
    stages3,stages4,features2,features4,data2.stages2,data2.features2,features2.stages2,data2.features2.stages2)" --steps 4

everywhere experiments/cifar10-resnet.yaml "stages3,features3,2x1.features2.stages2$(more \
    stages2,stages4,features2,features4,data2.stages2,data2.features2,2x1.stages2,2x2.stages3,features2.stages2,2x1.features2)" \
    --steps 2 "$(glyphs '32, 32, 3')" 'pieces={tiles: 2x2, blocks: 4, least_block: 4}'

everywhere experiments/cifar10-vgg.yaml "stages2,features2$(more \
    stages3,stages4,features3,features4,data2.stages2,data2.features2,features2.stages2)" \
    --steps 2 'data={type: glyphs, count: 8, test_count: 4, shape: [32, 32, 3], batch: 4, shards: 4}'

# ---- one run from layout to layout, of threads and of processes ----

# trained PLACE RANKS STEPS ARGUMENTS...: prints the state.
trained()
{
    case $1 in local) how='--transport local' ;; *) how="--mpi $1" ;; esac
    ranks=$2 until=$3
    shift 3
    # shellcheck disable=SC2086 # two words
    status 0 "$lockstep" run -n "$ranks" $how -- train --quiet experiments/mnist-lenet.yaml \
        "$(glyphs '28, 28, 1' ', one_hot: true')" 'pieces={tiles: 2x2, blocks: 4, least_tile: 1, least_block: 4}' \
        train.epochs=10 train.steps="$until" train.checkpoint='{every: 1 steps}' train.output="$work/run" "$@"
    tail -n 1 "$work/out"
}

# goes_on PLACE RANKS LAYOUT: one more step.
goes_on()
{
    at=$((at + 1))
    trained "$1" "$2" $at --resume parallel="$3" >"$work/state"
    echo "$1, $3: $(cat "$work/state") behind step $at"
}
at=1
trained local 4 1 parallel='{features: 4}' >"$work/state"
turns=${TEST_LONG:+$places}
for place in ${turns:-${first:-local}}; do
    goes_on "$place" 3 '{stages: 3}'
    goes_on "$place" 4 '{data: 2, features: 2}'
    goes_on "$place" 4 '{spatial: 2x1, stages: 2, schedule: zb1p}'
done
goes_on local 16 '{data: 2, spatial: 2x1, features: 2, stages: 2}'
goes_on local 1 '{data: 1}'
last=$(cat "$work/state")
rm -r "$work/run"
[ "$(trained local 1 $at)" = "$last" ] || fail 'gone from layout to layout: another state'
