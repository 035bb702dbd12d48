#!/bin/bash
# A U-Net on volumes that a process could not train on alone: eight do so by 2x2x2 tiles, two steps from data to
# checkpoint, under a limit of data memory at which one process ends with one line that says what would
# fit.  What each allocates is within 15 % of the plan, what is resident within 30 %.
#
#   tests/memory/unet.sh MPI PROGRAM LOCKSTEP       the program of volumes.c, and the command; 77: not here
#
# Volumes are of 96^3 voxels, with TEST_LONG in the environment of 256^3.
set -eu
mpi=$1 program=$(readlink -f "$2") lockstep=$(readlink -f "$3")
run=$(dirname "$(readlink -f "$0")")/../dist/run.sh
side=96 limit=250000 # KiB: a process needs some 60 MiB besides, and its tiles
if [ -n "${TEST_LONG-}" ]; then
    side=256 limit=2400000
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LK_THREADS=1 LK_DEADLINE=300 LK_MPI="$mpi"
LK_MPI_MODULES=$(dirname "$lockstep")/mpi
export LK_MPI_MODULES
fail()
{
    echo "FAIL: $*"
    cat "$work/out" "$work/err" 2>/dev/null || :
    exit 1
}

cat >"$work/net.yaml" <<END
data: {type: fractal, count: 2, test_count: 0, shape: [$side, $side, $side, 1], batch: 1, shards: 1, prefetch: 0}
model: {type: unet, depth: 2, width: 8}
loss: softmax_cross_entropy
optimizer: {type: sgd, rate: 0.01, momentum: 0.9}
pieces: {tiles: 2x2x2}
train: {epochs: 1}
END

for rank in 0 1 2 3 4 5 6 7; do
    "$lockstep" plan --json --rank $rank "$work/net.yaml" parallel.spatial=2x2x2 "train.output=$work/run" |
        sed -n 's/.*"memory":{.*"sum":\([0-9]*\)}.*/\1/p' >"$work/planned.$rank"
done
(
    ulimit -d $limit
    "$run" "$mpi" 8 "$program" train "$work/net.yaml" parallel.spatial=2x2x2 "train.output=$work/run"
) >"$work/out" 2>"$work/err" || fail "on 8 processes: status $?"
[ "$(grep -c '^rank [0-7]: peak ' "$work/out")" -eq 8 ] || fail 'not all eight have ended'
[ "$(sed -n 's/.*state //p' "$work/out" | sort -u | wc -l)" -eq 1 ] || fail 'ranks have other states'
sort "$work/out" | sed 's/[:,]//g' | while read -r _ rank _ peak _ resident _; do
    planned=$(cat "$work/planned.$rank")
    echo "rank $rank: $peak bytes, resident $resident, planned $planned: $((peak * 100 / planned)) %, $((resident * 100 / planned)) %"
    [ $((peak * 100)) -le $((planned * 115)) ] && [ $((peak * 100)) -ge $((planned * 85)) ] || exit 1
    [ $((resident * 100)) -le $((planned * 130)) ] || exit 1
done || fail 'not what was planned'

status=0
(ulimit -d $limit && exec "$lockstep" train --quiet "$work/net.yaml" "train.output=$work/one") \
    >"$work/out" 2>"$work/err" || status=$?
[ $status -eq 1 ] || fail "one process with little memory: status $status"
grep -Eq "^error: .*net\.yaml: .*no memory for [0-9]{7,} bytes" "$work/err" || fail 'no word about memory'
[ "$(grep -c '^error: ' "$work/err")" -eq 1 ] || fail 'not one error'
cat "$work/err"
