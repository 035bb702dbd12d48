#!/bin/sh
# Phases: a run that is stopped in the middle of one, at its end or behind it goes on, on another layout, to
# the bits, metrics and weights of one that was never stopped; early stopping ends the phase, not the run.
. "$(dirname "$0")/../expect.sh"

cat >"$work/net.yaml" <<'END_OF_NET'
data: {type: shapes, count: 48, test_count: 16, shape: [10, 10, 2], batch: 8, shards: 4}
model: [{type: conv, filters: 3, kernel: 3, padding: 1}, batch_norm, relu, {type: dropout, rate: 0.1},
        flatten, {type: linear, units: 8}, tanh, {type: linear, units: 2}]
loss: softmax_cross_entropy
metrics: [accuracy]
optimizer: {type: adam, rate: 0.01, decay: 0.001}
train: {checkpoint: {every: 5 steps, keep: 2}}
phases:
  - {name: last, epochs: 2, layers: [linear2], optimizer: {type: sgd, rate: 0.1, momentum: 0.9}}
  - {name: top, epochs: 1, layers: [linear1, linear2]}
  - {name: all, epochs: 2, optimizer: {type: lbfgs, rate: 0.05}}
pieces: {tiles: 2x2, least_tile: 1}
END_OF_NET

# What is the same in the metrics of two runs.
metrics()
{
    sed 's/, "rate": .*"state"/, "state"/' "$1/metrics.jsonl"
}

status 0 "$lockstep" train "$work/net.yaml" "train.output=$work/whole"
out 'phase last'
out 'phase all'
whole=$(tail -n 1 "$work/out")
[ "$(grep -c '"phase": "top"' "$work/whole/metrics.jsonl")" = 1 ] || fail 'no line of phase top'

# In the middle of the first phase (7 of 12 steps), at its end (12), and in the second (15).
set -- "$work/net.yaml" "train.output=$work/run"
status 0 "$lockstep" train --quiet "$@" parallel.spatial=2x2 train.steps=7
status 0 "$lockstep" train --quiet --resume "$@" parallel.data=3 train.steps=12
status 0 "$lockstep" train --quiet --resume "$@" parallel.spatial=2x1 train.steps=15
err 'resumed from the checkpoint of step 12'
status 0 "$lockstep" train --quiet --resume "$@"
[ "$(cat "$work/out")" = "$whole" ] || fail "other bits: $(cat "$work/out") instead of $whole"
metrics "$work/whole" >"$work/a"
metrics "$work/run" >"$work/b"
diff "$work/a" "$work/b" >&2 || fail 'other metrics'
cmp -s "$work/whole/weights.safetensors" "$work/run/weights.safetensors" || fail 'other weights'

# The newest checkpoint is damaged: the one before is of the same phase, and is gone on from.
status 0 "$lockstep" train --quiet "$work/net.yaml" "train.output=$work/hurt" train.steps=25
for part in "$work"/hurt/checkpoints/step-000000000025/part-*; do
    printf 'x' | dd of="$part" bs=1 seek=200 conv=notrunc 2>/dev/null
done
status 0 "$lockstep" train --quiet --resume "$work/net.yaml" "train.output=$work/hurt"
err 'step-000000000020, which is older, is used instead'
[ "$(cat "$work/out")" = "$whole" ] || fail 'other bits from the older checkpoint'

# Another optimizer of a phase, or other layers, are another run.
status 2 "$lockstep" train --quiet --resume "$@" phases.1.layers=linear1
err 'is of another run'
err 'optimizer, phases, early stopping, data'

# More epochs of the last phase go on.
status 0 "$lockstep" train --quiet --resume "$@" phases.2.epochs=3
err 'resumed from the checkpoint of step 30'

# Nothing improves in a phase without a rate: it ends early, and the next begins.
status 0 "$lockstep" train --quiet "$work/net.yaml" phases.0.optimizer.rate=0 phases.0.epochs=9 \
    train.early_stop.patience=2
err 'phase last ends early with step 18'

# A phase of 0 epochs is left out, and does not judge.
status 0 "$lockstep" eval "$work/net.yaml" "train.output=$work/whole" \
    'phases=[{name: a, epochs: 1}, {name: b, epochs: 0, layers: [none]}]'
out accuracy

# Each phase is compared, but for those without epochs; what is run again up to a step is the same.
status 2 "$lockstep" verify "$work/net.yaml" --steps 2
err 'option --steps: 2 for 3 phases: give at least 3'
status 0 "$lockstep" verify "$work/net.yaml" --ranks 1,2 --steps 2 phases.1.epochs=0
out 'the same bits in 2 configurations: 2 steps'
status 0 "$lockstep" verify --trace "$work/net.yaml" --steps 6
head -n 4 "$work/out" >"$work/a"
status 0 "$lockstep" verify --trace "$work/net.yaml" --steps 6 --until 4
head -n -1 "$work/out" | cmp -s - "$work/a" || fail 'other steps up to the fourth'
status 0 "$lockstep" verify --trace "$work/net.yaml" --steps 2 phases.1.epochs=0 \
    phases.2.optimizer.rate=0
cp "$work/out" "$work/a"
status 0 "$lockstep" verify --trace "$work/net.yaml" --steps 2 phases.1.epochs=0
! cmp -s "$work/a" "$work/out" || fail 'the last phase was not trained'

# What is set, phase by phase.
status 0 "$lockstep" info "$work/net.yaml"
for text in 'phases.0 name last' 'phases.0 epochs 2' 'phases.0 layers linear2' \
    'phases.0.optimizer type sgd' 'phases.0.optimizer nesterov false' \
    'phases.1 layers linear1,linear2' 'phases.2.optimizer type lbfgs'; do
    tr -s ' ' <"$work/out" | grep -qx "$text *" || fail "info does not say: $text"
done

# JSON and evaluation.
status 0 "$lockstep" train --json "$work/net.yaml" train.steps=6
out '{"phase":"last","epoch":1,'
status 0 "$lockstep" eval "$work/net.yaml" "train.output=$work/whole"
out accuracy

# wrong MESSAGE SETTING...: refused in one line.
wrong()
{
    text=$1
    shift
    status 2 "$lockstep" train "$work/net.yaml" "$@"
    err "$text"
}
wrong 'epochs of train: the phases say how long' train.epochs=3
# What is wrong in all of them is no phase's fault.
wrong 'net.yaml: pieces.tiles is 4096x4096, 16777216 tiles, and a sample' pieces.tiles=4096x4096
wrong 'net.yaml: phase all: losses: "coed" is none of this model' 'phases.2.losses=[coed]'
wrong 'net.yaml: phase top: losses: "coed" is none of this model' 'phases.1.losses=[coed]'
wrong 'phases must be a list of maps' phases=3
wrong 'phases must be a list of maps, each with a name and epochs, not an empty one' 'phases=[]'
wrong 'metric accuracy is given twice' 'metrics=[accuracy, accuracy]'
wrong 'phases needs the key "epochs"' 'phases=[{name: a}]'
wrong 'phases 1 and 2 are both called "a"' 'phases=[{name: a, epochs: 1}, {name: a, epochs: 1}]'
wrong 'unknown key "layer" of phases; did you mean "layers"' 'phases=[{name: a, epochs: 1, layer: x}]'

# A code is learned before it is used: the phase counts the losses of layers, and has no metrics.
cat >"$work/code.yaml" <<'END_OF_NET'
data: {type: shapes, count: 48, test_count: 16, shape: [9, 9, 2], batch: 8, shards: 4}
model:
  - {type: autoencoder, name: code, encode: [{type: conv, filters: 3, kernel: 3, padding: 1}],
     decode: [{type: conv, filters: 2, kernel: 3, padding: 1}]}
  - {type: penalty, name: sparse, of: squares, weight: 0.1}
  - flatten
  - {type: linear, units: 2}
loss: softmax_cross_entropy
metrics: [accuracy]
optimizer: {type: sgd, rate: 0.01, momentum: 0.9}
train: {checkpoint: {every: 4 steps, keep: 2}}
phases:
  - {name: code, epochs: 2, losses: [code, sparse], layers: [code], optimizer: {type: sgd, rate: 0.001}}
  - {name: both, epochs: 1, losses: [loss, code]}
  - {name: all, epochs: 1, losses: [loss]}
pieces: {tiles: 2x2, least_tile: 1}
END_OF_NET
status 0 "$lockstep" train "$work/code.yaml" "train.output=$work/code"
code=$(tail -n 1 "$work/out")
grep '"phase": "code"' "$work/code/metrics.jsonl" >"$work/a"
grep -q 'loss/sparse' "$work/a" || fail 'the losses of phase code are not told apart'
! grep -q -e accuracy -e 'loss/loss' "$work/a" || fail 'phase code has metrics, or the loss'
grep '"phase": "all"' "$work/code/metrics.jsonl" | grep -q accuracy || fail 'phase all has no metrics'
set -- "$work/code.yaml" "train.output=$work/codes"
status 0 "$lockstep" train --quiet "$@" parallel.spatial=2x2 train.steps=7
status 0 "$lockstep" train --quiet --resume "$@" parallel.data=3 train.steps=15
err 'resumed from the checkpoint of step 7'
status 0 "$lockstep" train --quiet --resume "$@"
[ "$(cat "$work/out")" = "$code" ] || fail "other bits: $(cat "$work/out") instead of $code"
status 2 "$lockstep" train --quiet --resume "$@" 'phases.1.losses=[loss]'
err 'is of another run'
status 2 "$lockstep" train "$work/code.yaml" 'phases.0.losses=[coed]'
err 'phase code: losses: "coed" is none of this model'

# Where there is no metric to stop early by, it is the loss.
status 0 "$lockstep" train --quiet "$work/code.yaml" phases.0.optimizer.rate=0 phases.0.epochs=9 \
    train.early_stop.patience=2 train.early_stop.metric=accuracy
err 'phase code ends early with step 18'
