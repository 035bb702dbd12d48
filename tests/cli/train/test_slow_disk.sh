#!/bin/sh
# A disk that is slower than the deadline is waited for, and said so; a rank that is stopped while
# checkpoints are written ends the job at the deadline.
#
#   LK_STOPS       how many ranks are stopped, in turn under each MPI; unless told, 1, or 20 with
#                  TEST_LONG in the environment
if [ -w /dev/shm ]; then TMPDIR=/dev/shm; fi
export TMPDIR="${TMPDIR:-/tmp}"
. "$(dirname "$0")/../expect.sh"
. "$(dirname "$0")/../places.sh"

export LK_THREADS=1
cat >"$work/net.yaml" <<'END_YAML'
data: {type: glyphs, count: 64, test_count: 16, batch: 16, shards: 4}
model: [flatten, {type: linear, units: 32}, relu, {type: linear, units: 10}]
loss: softmax_cross_entropy
optimizer: {type: sgd, rate: 0.05}
train: {epochs: 1, checkpoint: {every: 2 steps, wait: true}}
END_YAML
status 0 "$lockstep" train --quiet "$work/net.yaml"
whole=$(cat "$work/out")

# slow FAULT: one call takes much longer than the deadline, and nothing else happens.
slow()
{
    rm -rf "$work/run"
    status 0 env LK_DEADLINE=1 LK_STORAGE_FAULT="$1" "$lockstep" train --quiet "$work/net.yaml" \
        parallel.data=2 "train.output=$work/run"
    [ "$(cat "$work/out")" = "$whole" ] || fail "$1: another state than $whole"
    grep -q "^lockstep train: waiting for the disk of rank [01] since [0-9]* s: ${1%%:*} of $work/run" "$work/err" ||
        fail "$1: not told"
}
slow rename:2:2500ms

# One rank sleeps, where every call that writes takes its time, so that it is in a save.
stops=${LK_STOPS:-${TEST_LONG:+20}}
i=0
while [ $i -lt "${stops:-1}" ] && [ -n "$mpis" ]; do
    # shellcheck disable=SC2086 # a list of words
    set -- $mpis
    [ $((i % 2)) -eq 0 ] || [ $# -eq 1 ] || shift
    rm -rf "$work/run"
    LK_DEADLINE=2 LK_STORAGE_FAULT=sync:1+:40ms timeout -k 5 60 "$work/victim" run -n 2 --mpi "$1" -- \
        train --quiet "$work/net.yaml" "train.output=$work/run" train.epochs=100000 \
        "train.checkpoint.every=1 steps" >"$work/out" 2>"$work/err" </dev/null &
    job=$!
    while [ ! -e "$work/run/checkpoints/LATEST" ]; do
        kill -0 $job 2>/dev/null || fail 'it ended before its first checkpoint'
        sleep 0.05
    done
    for rank in $(victims); do # not the launcher
        if tr '\0' ' ' <"/proc/$rank/cmdline" | grep -q ' run '; then continue; fi
        break
    done
    sleep "0.$((i * 37 % 10))"
    kill -STOP "$rank"
    wait $job
    got=$?
    kill -KILL "$rank" 2>/dev/null
    [ $got -eq 1 ] || fail "$1: status $got after a rank was stopped"
    grep -q 'stall: rank [01] waits [2-6]\.[0-9] s in .* for rank [01], which is stopped' "$work/err" ||
        fail "$1: the rank that was stopped is not named"
    i=$((i + 1))
done
