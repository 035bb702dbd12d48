#!/bin/bash
# Volumes of which no process could hold a sample: eight train on 2x2x2 tiles under a limit of data memory,
# evaluate, write checkpoints and go on from them; none takes more than 1.15 of what was planned.  One process alone
# says under the same limit that there is no memory, and without it comes to the same state.
#
#   tests/memory/volumes.sh MPI PROGRAM LOCKSTEP       the program of volumes.c, and the command; 77: not here
#
# Samples are of 64 MiB, with TEST_LONG in the environment of 256 MiB.
set -eu
mpi=$1 program=$(readlink -f "$2") lockstep=$(readlink -f "$3")
run=$(dirname "$(readlink -f "$0")")/../dist/run.sh
shape='256 256 256' limit=140000 # KiB: a process needs some 50 MiB besides, and its tiles
if [ -n "${TEST_LONG-}" ]; then
    shape='512 512 256' limit=400000
fi
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

# shellcheck disable=SC2086 # three words
"$program" make "$work/x.raw" $shape 2
printf '\001\003' >"$work/y.raw"
cat >"$work/net.yaml" <<END
data: {type: raw, path: "$work/x.raw", labels: "$work/y.raw", test: "$work/x.raw", test_labels: "$work/y.raw", classes: 4, shape: [$(echo "$shape" | tr ' ' ,), 1], batch: 1, shards: 1}
model:
  - {type: conv, filters: 2, kernel: 3, stride: 2, padding: 1}
  - relu
  - {type: maxpool, size: 4}
  - {type: conv, filters: 4, kernel: 3, padding: 1}
  - relu
  - {type: maxpool, size: 4}
  - flatten
  - {type: linear, units: 4}
loss: softmax_cross_entropy
optimizer: {type: sgd, rate: 0.001, momentum: 0.9}
pieces: {tiles: 2x2x2, least_tile: 1}
train: {epochs: 2, checkpoint: {every: 2 steps}}
END

# limited RESUMED SETTING...: eight processes, and what each took against what was planned.
limited()
{
    resumed=$1
    shift
    (
        ulimit -d $limit
        "$run" "$mpi" 8 "$program" train "$work/net.yaml" parallel.spatial=2x2x2 "train.output=$work/run" "$@"
    ) >"$work/out" 2>"$work/err" || fail "on 8 processes: status $?"
    [ "$(grep -c "^rank [0-7]: peak [0-9]*, resident [0-9]*, resumed $resumed, " "$work/out")" -eq 8 ] || fail "not from step $resumed"
    sort "$work/out" | sed 's/[:,]//g' | while read -r _ rank _ peak _; do
        planned=$(cat "$work/planned.$rank")
        echo "rank $rank: $peak bytes, planned $planned, $((peak * 100 / planned)) %"
        [ $((peak * 100)) -le $((planned * 115)) ] || exit 1
    done || fail 'more than was planned'
}

for rank in 0 1 2 3 4 5 6 7; do
    "$lockstep" plan --json --rank $rank "$work/net.yaml" parallel.spatial=2x2x2 "train.output=$work/run" |
        sed -n 's/.*"memory":{.*"sum":\([0-9]*\)}.*/\1/p' >"$work/planned.$rank"
done
limited -1 train.steps=2
limited 2 train.resume=true
state=$(sed -n 's/.*state //p' "$work/out" | sort -u)
"$lockstep" train --quiet "$work/net.yaml" "train.output=$work/one" >"$work/out" 2>"$work/err" || fail 'one process'
grep -q "^state $state\$" "$work/out" || fail "another state than $state"

status=0
(ulimit -d $limit && exec "$lockstep" train --quiet "$work/net.yaml" "train.output=$work/two") \
    >"$work/out" 2>"$work/err" || status=$?
[ $status -eq 1 ] || fail "one process with little memory: status $status"
grep -Eq "^error: .*net\.yaml: .*no memory for [0-9]{8,} bytes" "$work/err" || fail 'no word about memory'
cat "$work/err"
echo ok
