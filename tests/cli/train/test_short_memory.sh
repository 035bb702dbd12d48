#!/bin/sh
# Running out of memory in a step: one line says which layer asked for how much on which rank, and what takes less.
. "$(dirname "$0")/../expect.sh"
export LK_THREADS=1
cat >"$work/net.yaml" <<'END'
data: {type: fractal, count: 2, test_count: 0, shape: [128, 128, 96, 1], batch: 2, shards: 1}
model: [{type: conv, filters: 8, kernel: 3, padding: 1}, relu, {type: conv, filters: 2, kernel: 1}]
loss: softmax_cross_entropy
optimizer: sgd
pieces: {tiles: 2x2x2}
train: {epochs: 1}
END
cat >"$work/stages.yaml" <<'END'
data: {type: glyphs, count: 1024, test_count: 0, shape: [64, 64, 1], batch: 1024, shards: 8}
model:
  - {type: conv, filters: 16, kernel: 3, padding: 1}
  - tanh
  - {type: conv, filters: 16, kernel: 3, padding: 1}
  - tanh
  - {type: maxpool, size: 8}
  - {type: flatten, stage: true}
  - {type: linear, units: 10}
loss: softmax_cross_entropy
optimizer: sgd
END
limited() { sh -c 'ulimit -d 160000 && exec "$@"' sh "$lockstep" "$@"; }

# short RANK RANKS GRID: what was printed last.
short()
{
    [ "$(grep -c '^error: ' "$work/err")" -eq 1 ] || fail 'not one error'
    grep -Eq "^error: $work/net.yaml: (rank $1: )?layer [a-z0-9.]+: no memory for [0-9]{6,} bytes( \([^)]*\))?; rank $1 of $2 has planned [0-9]{8,} bytes or more: parallel.spatial $3, data.batch 1, or train.recompute 4 may take less, \`lockstep plan FILE --memory SIZE\` says what fits\$" "$work/err" ||
        fail 'another error'
}

status 1 limited train --quiet "$work/net.yaml"
no_out
short 0 1 2x2x2
status 1 limited train --quiet "$work/net.yaml" parallel.spatial=2x1x1
short '[01]' 2 4x2x2

# Samples that cannot be read for lack of memory are told alike, and the plan that is named has the answer.
status 1 limited train --quiet "$work/net.yaml" 'data.shape=[512, 512, 256, 1]'
err 'no memory for '
err "; rank 0 of 1 has planned "
status 0 "$lockstep" plan "$work/net.yaml" --memory 110M
grep -Eq '^note: (pieces.tiles=[0-9x]+ )?parallel.spatial=[0-9x]+ fits: ' "$work/out" || fail 'nothing fits'

# Stages have a way of their own to compute values again, and then that of their layers.
for given in '' parallel.recompute=true; do
    # shellcheck disable=SC2086 # a word or none
    status 1 limited train --quiet "$work/stages.yaml" parallel.stages=2 $given
    [ -n "$given" ] && other='train.recompute 4' || other='parallel.recompute true'
    grep -Eq "no memory for [0-9]+ bytes( \([^)]*\))?; rank 0 of 2 has planned [0-9]{8,} bytes or more: parallel.spatial 2x2, data.batch 512, or $other may take less" "$work/err" ||
        fail "another error of stages with '$given'"
done
# What fits is the stage that takes most, here the second.
set -- "$lockstep" plan "$work/stages.yaml" data.batch=256 model.2.stage=true model.5.stage=false --layout stages2
status 0 "$@" --memory 85M --rank 1
bytes=$(sed -n 's/^note: parallel.recompute=true fits: \([0-9]*\) bytes$/\1/p' "$work/out")
[ -n "$bytes" ] || fail 'stages that compute values again do not fit'
status 0 "$@" --memory 85M --rank 1 parallel.recompute=true
out "memory: $bytes bytes: "
status 0 "$@" --memory 1
out 'note: no finer grid alone fits, no smaller batch and no parallel.recompute or train.recompute'
