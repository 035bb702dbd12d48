#!/bin/sh
# The command from an experiment to its results, once through: for the builds with sanitizers, where
# the longer tests of each verb would take minutes.
. "$(dirname "$0")/../expect.sh"

export LK_THREADS=1
cat >"$work/net.yaml" <<'END'
data: {type: glyphs, count: 128, test_count: 40, shape: [12, 12, 1], batch: 32, shards: 4, crop: 1}
model: [{type: conv, filters: 4, kernel: 3}, relu, {type: maxpool, size: 2}, {type: batch_norm, statistics: batch},
        flatten, {type: dropout, rate: 0.1}, {type: linear, units: 10}]
loss: softmax_cross_entropy
metrics: [accuracy, confusion, {type: top_k, k: 3}]
optimizer: {type: adam, rate: 0.01}
train: {epochs: 2, checkpoint: {every: 3 steps}}
END
status 0 "$lockstep" train "$work/net.yaml" --json "train.output=$work/run"
"$json" <"$work/out" || fail 'train: not JSON'
state=$(sed -n 's/^{"state":"\(.*\)"}$/\1/p' "$work/out")
status 0 "$lockstep" run -n 3 --transport local -- train --quiet "$work/net.yaml" "train.output=$work/three"
out "state $state"
status 0 "$lockstep" train --quiet --resume "$work/net.yaml" "train.output=$work/three" train.epochs=3
status 0 "$lockstep" eval "$work/net.yaml" "train.output=$work/run"
status 0 "$lockstep" ckpt inspect "$work/run/weights.safetensors"
status 0 "$lockstep" ckpt export "$work/run/weights.safetensors" "$work/weights.npz"
status 0 "$lockstep" ckpt diff "$work/run/weights.safetensors" "$work/weights.npz"
status 0 "$lockstep" data inspect --type glyphs --options "count=20 test_count=5"
status 0 "$lockstep" verify "$work/net.yaml" --steps 2 --ranks 1,2
status 2 "$lockstep" train "$work/net.yaml" model.0.filters=0
