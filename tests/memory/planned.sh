#!/bin/bash
# What ranks take at most is what was planned, also where they evaluate and save: a U-Net on volumes on one process,
# on two that share batches and on eight that share volumes; a net of few values and many parameters, which
# saving copies, also by features and by stages; a recurrent one, whose evaluation takes more than its steps; and
# convolutions on products of layouts.
#
#   tests/memory/planned.sh MPI PROGRAM LOCKSTEP       the program of volumes.c, and the command; 77: not here
#
# Memory that processes share, for exchange and of gradients over data, is planned and not counted, so a rank may
# take less.
set -eu
mpi=$1 program=$(readlink -f "$2") lockstep=$(readlink -f "$3")
run=$(dirname "$(readlink -f "$0")")/../dist/run.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LK_THREADS=1 LK_DEADLINE=60 LK_MPI="$mpi"
LK_MPI_MODULES=$(dirname "$lockstep")/mpi
export LK_MPI_MODULES
fail()
{
    echo "FAIL: $*"
    cat "$work/out" "$work/err" 2>/dev/null || :
    exit 1
}

# planned RANKS FILE SETTING...: what each rank took against its plan.
planned()
{
    ranks=$1 file=$2
    shift 2
    rm -rf "$work/run"
    "$run" "$mpi" "$ranks" "$program" train "$work/$file" "$@" >"$work/out" 2>"$work/err" ||
        fail "$file $* on $ranks processes: status $?"
    [ "$(grep -c '^rank [0-9]*: peak ' "$work/out")" -eq "$ranks" ] || fail 'not all have ended'
    sort "$work/out" | sed 's/[:,]//g' | while read -r _ rank _ peak _; do
        "$lockstep" plan --json --ranks "$ranks" --rank "$rank" "$work/$file" "$@" |
            sed -n 's/.*"memory":{.*"exchange":\([0-9]*\),.*"sum":\([0-9]*\)}.*/\1 \2/p' >"$work/plan"
        read -r exchange plan <"$work/plan"
        echo "$file $*: rank $rank: $peak bytes, planned $plan, $((peak * 100 / plan)) %"
        [ $((peak * 100)) -le $((plan * 115)) ] && [ $((peak * 100)) -ge $(((plan - exchange) * 70)) ] || exit 1
    done || fail "$file $*: not what was planned"
}

"$lockstep" data convert --type fractal count=4 shape=48,48,48,1 "$work/volumes.npz" >/dev/null
cat >"$work/volume.yaml" <<END
data: {type: npz, path: "$work/volumes.npz", test: "$work/volumes.npz", batch: 2, shards: 2}
model: {type: unet, depth: 2, width: 8}
loss: softmax_cross_entropy
metrics: [accuracy]
optimizer: {type: sgd, rate: 0.01, momentum: 0.9}
pieces: {tiles: 2x2x2}
train: {epochs: 1, evaluate: 1 steps}
END
cat >"$work/wide.yaml" <<END
data: {type: glyphs, count: 32, test_count: 16, batch: 8, shards: 4}
model:
  - flatten
  - {type: linear, units: 1024}
  - relu
  - {type: linear, units: 2048}
  - relu
  - {type: linear, units: 2048}
  - {type: linear, units: 10}
loss: softmax_cross_entropy
optimizer: {type: adam, rate: 0.001}
pieces: {blocks: 4}
train: {epochs: 1, output: "$work/run", checkpoint: {every: 2 steps}}
END
cat >"$work/images.yaml" <<END
data: {type: glyphs, count: 32, test_count: 16, shape: [32, 32, 1], batch: 16, shards: 8}
model:
  - {type: conv, filters: 64, kernel: 3, padding: 1}
  - relu
  - {type: conv, filters: 64, kernel: 3, padding: 1}
  - relu
  - {type: maxpool, size: 2}
  - {type: conv, filters: 128, kernel: 3, padding: 1}
  - relu
  - {type: maxpool, size: 2}
  - flatten
  - {type: linear, units: 512}
  - relu
  - {type: linear, units: 64}
loss: softmax_cross_entropy
metrics: [accuracy]
optimizer: {type: sgd, rate: 0.01, momentum: 0.9}
pieces: {tiles: 2x2, blocks: 4, least_tile: 1, least_block: 16}
train: {epochs: 1, evaluate: 1 steps}
END
cat >"$work/times.yaml" <<END
data: {type: glyphs, count: 64, test_count: 64, batch: 64, shards: 64}
model: [{type: reshape, shape: [28, 28]}, {type: lstm, units: 128, output: all}, {type: lstm, units: 128}, {type: linear, units: 10}]
loss: softmax_cross_entropy
metrics: [accuracy]
optimizer: {type: sgd, rate: 0.01}
train: {epochs: 1}
END

planned 1 volume.yaml
planned 1 volume.yaml train.recompute=4
planned 2 volume.yaml parallel.data=2
planned 8 volume.yaml parallel.spatial=2x2x2 "train.output=$work/run"
planned 1 wide.yaml
planned 1 times.yaml
planned 3 wide.yaml parallel.features=3
planned 4 wide.yaml parallel.features=2 parallel.stages=2
planned 2 images.yaml parallel.stages=2
planned 2 images.yaml parallel.features=2
planned 8 images.yaml parallel.spatial=2x1 parallel.features=2 parallel.stages=2
if [ -n "${TEST_LONG-}" ]; then
    planned 2 wide.yaml parallel.features=2
    planned 4 wide.yaml parallel.stages=4 parallel.schedule=zb1p
    planned 4 wide.yaml parallel.data=2 parallel.features=2
    planned 2 times.yaml parallel.features=2 'pieces={blocks: 4}'
    planned 3 times.yaml parallel.stages=3
    planned 4 images.yaml parallel.features=4
    for schedule in gpipe 1f1b 'zb1p parallel.lag=full' '1f1b parallel.recompute=true'; do
        # shellcheck disable=SC2086 # several words
        planned 4 images.yaml parallel.stages=4 parallel.schedule=$schedule
    done
    planned 4 images.yaml parallel.data=2 parallel.stages=2
    planned 4 images.yaml parallel.data=2 parallel.features=2
    planned 4 images.yaml parallel.spatial=2x1 parallel.stages=2
    planned 4 images.yaml parallel.spatial=2x1 parallel.features=2
    planned 16 images.yaml parallel.data=2 parallel.spatial=2x1 parallel.features=2 parallel.stages=2
fi
echo ok
