#!/bin/sh
# parallel.devices: a model on several sets of cores of one process has the bits of one thread, also
# beside ranks, after a stop and in evaluation; what is refused.
. "$(dirname "$0")/../expect.sh"

# Devices of this machine: the first core twice, and the first two if there are two.
status 0 "$lockstep" topo --devices --json
first=$(sed -n 's/.*"name": *"\([^"]*\)".*/\1/p' "$work/out" | sed -n 1p)
second=$(sed -n 's/.*"name": *"\([^"]*\)".*/\1/p' "$work/out" | sed -n 2p)
[ -n "$first" ] || fail 'there is no device'
both="[$first, ${second:-$first}]"
three="[$first, $first, ${second:-$first}]"

# state NAME ARGUMENT...: train FILE of $work/NAME.yaml, and print its state
state() {
    name=$1
    shift
    status 0 "$lockstep" train --quiet "$work/$name.yaml" "$@"
    sed -n 's/^state //p' "$work/out"
}

cat >"$work/conv.yaml" <<END
data: {type: glyphs, count: 90, test_count: 30, batch: 30, shards: 7}
model:
  - {type: conv, filters: 6, kernel: 3, padding: 1}
  - {type: batch_norm, statistics: batch}
  - relu
  - {type: maxpool, size: 2}
  - {type: dropout, rate: 0.2}
  - flatten
  - {type: linear, units: 10}
loss: softmax_cross_entropy
metrics: [accuracy]
optimizer: {type: adam, rate: 0.01, clip_norm: 1}
train: {epochs: 2}
END
sed 's/, statistics: batch//; s/conv,/conv, name: c,/' "$work/conv.yaml" >"$work/shards.yaml"
cat >"$work/recurrent.yaml" <<END
data: {type: glyphs, count: 50, test_count: 30, batch: 20, shards: 4}
model: [{type: reshape, shape: [28, 28]}, {type: lstm, units: 8}, {type: linear, units: 10}]
loss: softmax_cross_entropy
optimizer: {type: sgd, rate: 0.1, momentum: 0.9}
train: {epochs: 2}
END
for name in conv shards recurrent; do
    one=$(state $name) || exit 1
    for devices in "$both" "$three" "$first"; do
        [ "$(state $name "parallel.devices=$devices")" = "${one:?}" ] ||
            fail "$name: on $devices the state is another than $one"
    done
done

# Beside ranks, and gone on with by one thread.
one=$(state shards) || exit 1
status 0 "$lockstep" run -n 2 --transport local -- train --quiet "$work/shards.yaml" \
    "parallel.devices=$both"
out "state $one"
status 0 "$lockstep" train --quiet "$work/shards.yaml" train.steps=4 "train.output=$work/run" \
    "parallel.devices=$both"
[ "$(state shards "train.output=$work/run" --resume)" = "$one" ] || fail 'resumed, another state'
status 0 "$lockstep" eval --json "$work/shards.yaml" --weights "$work/run/weights.safetensors"
cp "$work/out" "$work/serial"
status 0 "$lockstep" eval --json "$work/shards.yaml" --weights "$work/run/weights.safetensors" \
    "parallel.devices=$three"
cmp "$work/out" "$work/serial" || fail 'evaluation on devices differs'

# What is refused.
status 2 "$lockstep" train "$work/conv.yaml" 'parallel.devices=[cpu:0, gpu:1]'
err 'parallel.devices: device "gpu:1", column 1: no kind of device "gpu"'
status 2 "$lockstep" run -n 2 --transport local -- train "$work/conv.yaml" "parallel.devices=$both"
err 'use more ranks, or parallel.devices, not both'
status 2 "$lockstep" train "$work/shards.yaml" "parallel.devices=$three" data.shards=2
err 'a batch has 2 shards for 3 devices, so some would have none: take at least 3 (data.shards)'
status 2 "$lockstep" train "$work/shards.yaml" 'model={type: chain}'
err '`chain` stands for a chain list that a program brings'
status 0 "$lockstep" info "$work/shards.yaml" model=chain
grep -q '^model *type *chain' "$work/out" || fail 'info does not say that the model is a chain'
