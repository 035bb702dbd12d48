#!/bin/sh
# data.samples: a choice of the training set's samples, the same on every layout and with a cache, part of the
# run's identity; what cannot be chosen is refused.
. "$(dirname "$0")/../expect.sh"

cat >"$work/net.yaml" <<'END_OF_NET'
data: {type: glyphs, count: 200, test_count: 20, shape: [8, 8, 1], samples: 0.2, validation: 8, batch: 16, shards: 4}
model: [{type: conv, filters: 3, kernel: 3}, relu, flatten, {type: linear, units: 10}]
loss: softmax_cross_entropy
optimizer: {type: sgd, rate: 0.1}
train: {epochs: 2}
pieces: {tiles: 2x2, least_tile: 1}
END_OF_NET

status 0 "$lockstep" train "$work/net.yaml" "train.output=$work/run"
out '       4 ' # 40 samples, 8 of them kept: two steps an epoch
state=$(tail -n 1 "$work/out")
for layout in parallel.data=3 parallel.spatial=2x2 data.samples=40; do
    status 0 "$lockstep" train --quiet "$work/net.yaml" "$layout"
    [ "$(cat "$work/out")" = "$state" ] || fail "$layout: $(cat "$work/out") instead of $state"
done
for _ in written read; do
    status 0 "$lockstep" train --quiet "$work/net.yaml" parallel.spatial=2x1 "data.cache=$work/{rank}-{size}"
    [ "$(cat "$work/out")" = "$state" ] || fail 'other bits from a cache'
done
# As many samples that are not the choice, but what validation leaves, are not in that cache.
status 0 "$lockstep" train --quiet "$work/net.yaml" data.samples=40 data.validation=0 "data.cache=$work/chosen"
status 1 "$lockstep" train --quiet "$work/net.yaml" data.samples=0 data.validation=160 "data.cache=$work/chosen"
err 'the cache was made of other data'
status 0 "$lockstep" train --quiet "$work/net.yaml" data.samples=0.21
[ "$(cat "$work/out")" != "$state" ] || fail 'the same bits of more samples'

# Other samples are another run.
status 2 "$lockstep" train --quiet --resume "$work/net.yaml" "train.output=$work/run" data.samples=0.25
err 'is of another run'

# wrong MESSAGE VALUE: refused in one line.
wrong()
{
    status 2 "$lockstep" train --quiet "$work/net.yaml" "data.samples=$2"
    err "$1"
    [ "$(wc -l <"$work/err")" -eq 1 ] || fail 'more than a line'
}
wrong '201 samples are to be taken, it has 200' 201
wrong '2.5 samples are to be taken: from 1 on it must be a whole number' 2.5
wrong 'a share of 0.001 of 200 samples is less than one' 0.001
wrong 'samples' -1
