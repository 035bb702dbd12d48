#!/bin/sh
# lockstep train says what it waits for before the first step: another run that leaves the folder of
# checkpoints, and much data that is read once.
. "$(dirname "$0")/../expect.sh"

cat >"$work/net.yaml" <<'END_OF_NET'
data: {type: glyphs, count: 64, test_count: 8, shape: [8, 8, 1], batch: 16, shards: 4}
model: [flatten, {type: linear, units: 10}]
loss: softmax_cross_entropy
optimizer: {type: sgd, rate: 0.05}
train: {epochs: 1000000, evaluate: never}
END_OF_NET

# The first run leaves when it is asked to; the second then goes on from there.
set -- "$work/net.yaml" "train.output=$work/run"
"$lockstep" train --quiet "$@" >"$work/first" 2>&1 </dev/null &
first=$!
while [ ! -s "$work/run/checkpoints/LOCK" ]; do sleep 0.01; done
"$lockstep" train --resume "$@" train.steps=1 >"$work/out" 2>"$work/err" </dev/null &
second=$!
tries=0
while ! grep -q 'waiting up to 10 s' "$work/err"; do
    tries=$((tries + 1))
    [ $tries -lt 800 ] || fail 'nothing is said'
    sleep 0.01
done
kill -TERM $first
wait $first
[ $? -eq 75 ] || fail 'the first run was not stopped'
wait $second || fail 'the second run did not get the folder'
err "waiting up to 10 s for another run to leave $work/run/checkpoints/LOCK (host "
err 'resumed from the checkpoint of step '
[ "$(grep -c 'waiting' "$work/err")" -eq 1 ] || fail 'said again and again'

# 266 MiB; of little data nothing is said, nor without checkpoints.
set -- "$work/net.yaml" data.count=17000 'data.shape=[64, 64, 4]' train.steps=1
status 0 "$lockstep" train "$@" "train.output=$work/much"
err 'reading all 17000 samples once (266 MiB), by which checkpoints know their run'
status 0 "$lockstep" train "$@"
! grep -q 'reading all' "$work/err" || fail 'nothing is read without checkpoints'
status 0 "$lockstep" train "$@" data.count=100 "train.output=$work/little"
! grep -q 'reading all' "$work/err" || fail '100 samples are not much'
