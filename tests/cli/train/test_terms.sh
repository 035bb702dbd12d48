#!/bin/sh
# Losses that layers add: progress, --json and metrics have each of them beside their sum, the same after a run
# was stopped in the middle of an epoch and went on elsewhere; eval has them too, and plan shows the layers.
. "$(dirname "$0")/../expect.sh"

cat >"$work/net.yaml" <<'END_OF_NET'
data: {type: shapes, count: 40, test_count: 16, shape: [10, 10, 2], batch: 8, shards: 4}
model:
  - type: autoencoder
    name: code
    encode: [{type: conv, filters: 3, kernel: 3, padding: 1, bias: false, name: in}, tanh]
    decode: [{type: conv_transpose, filters: 2, kernel: 3, padding: 1, tie: code.in.weight}]
    loss: mean_squared_error
  - {type: penalty, name: sparse, of: abs, weight: 0.001}
  - flatten
  - {type: linear, units: 2}
loss: softmax_cross_entropy
metrics: [accuracy]
optimizer: {type: adam, rate: 0.01}
train: {epochs: 2, log: 1 steps}
pieces: {tiles: 2x2, least_tile: 1}
END_OF_NET

# What is the same in the metrics of two runs.
metrics()
{
    sed 's/, "rate": [-0-9.e]*, "seconds": .*"state"/, "state"/' "$1/metrics.jsonl"
}

set -- "$work/net.yaml" "train.output=$work/run"
status 0 "$lockstep" train "$work/net.yaml" "train.output=$work/whole"
out 'test loss         code       sparse     accuracy'
whole=$(tail -n 1 "$work/out")
status 0 "$lockstep" train --quiet "$@" parallel.spatial=2x2 train.steps=3
status 0 "$lockstep" train --quiet --resume "$@" parallel.data=3 train.steps=8
status 0 "$lockstep" train --quiet --resume "$@"
[ "$(cat "$work/out")" = "$whole" ] || fail "other bits: $(cat "$work/out") instead of $whole"
metrics "$work/whole" | grep -v '"step": [38],.*"epoch"' >"$work/a"
metrics "$work/run" >"$work/b"
for key in loss loss/loss loss/code train/loss/code train/loss/sparse test/loss/code; do
    grep -o "\"$key\": [^,]*" "$work/a" >"$work/of_a"
    grep -o "\"$key\": [^,]*" "$work/b" >"$work/of_b"
    [ "$(wc -l <"$work/of_a")" -ge 2 ] || fail "no $key"
    grep -vxFf "$work/of_b" "$work/of_a" && fail "other $key"
done

status 0 "$lockstep" train --json "$work/net.yaml" train.epochs=1
out '"test":{"loss":'
out '"losses":{"loss":'
out ',"code":'
status 0 "$lockstep" plan "$work/net.yaml" parallel.spatial=2x2
out 'code'
status 2 "$lockstep" train "$work/net.yaml" train.recompute=2
err 'the loss of layer code counts, and train.recompute 2 would run it again'
