#!/bin/bash
# A net of wide layers with Adam that a process could not train alone: the ranks of a layout, of which each holds
# some of it, do so under a limit of data memory, write a checkpoint and go on from it.  None takes
# more than 1.15 of what was planned.  One process alone says under the same limit that there is no memory, and
# without it comes to the same state.
#
#   tests/memory/layout.sh MPI PROGRAM LOCKSTEP LAYOUT       the program of volumes.c, and the command; 77: not here
#
# LAYOUT is a word as `lockstep plan --layout` takes it, of four ranks: stages4, features4.  Layers are of 2048 units, with
# TEST_LONG in the environment of 4096.
set -eu
mpi=$1 program=$(readlink -f "$2") lockstep=$(readlink -f "$3") layout=$4
run=$(dirname "$(readlink -f "$0")")/../dist/run.sh
units=2048 limit=205000 # KiB: a process needs some 60 MiB besides, and its part of the net
if [ -n "${TEST_LONG-}" ]; then
    units=4096 limit=700000
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

cat >"$work/net.yaml" <<END
data: {type: glyphs, count: 32, test_count: 0, batch: 8, shards: 4}
model:
  - flatten
  - {type: linear, units: $units}
  - relu
  - {type: linear, units: $units}
  - relu
  - {type: linear, units: $units}
  - relu
  - {type: linear, units: $units}
  - relu
  - {type: linear, units: 10}
loss: softmax_cross_entropy
optimizer: {type: adam, rate: 0.001}
pieces: {blocks: 4}
train: {epochs: 1, checkpoint: {every: 2 steps}}
END
# stages4: parallel.stages=4
settings=$(echo "$layout" | tr . '\n' | sed 's/\([a-z]*\)\([0-9]*\)/parallel.\1=\2/')

# limited RESUMED SETTING...: four processes, and what each took against what was planned.
limited()
{
    resumed=$1
    shift
    (
        ulimit -d $limit
        # shellcheck disable=SC2086 # a list of words
        "$run" "$mpi" 4 "$program" train "$work/net.yaml" $settings "train.output=$work/run" "$@"
    ) >"$work/out" 2>"$work/err" || fail "on 4 processes: status $?"
    [ "$(grep -c "^rank [0-3]: peak [0-9]*, resident [0-9]*, resumed $resumed, " "$work/out")" -eq 4 ] || fail "not from step $resumed"
    sort "$work/out" | sed 's/[:,]//g' | while read -r _ rank _ peak _; do
        planned=$(cat "$work/planned.$rank")
        echo "rank $rank: $peak bytes, planned $planned, $((peak * 100 / planned)) %"
        [ $((peak * 100)) -le $((planned * 115)) ] && [ $((peak * 100)) -ge $((planned * 85)) ] || exit 1
    done || fail 'not what was planned'
}

for rank in 0 1 2 3; do
    "$lockstep" plan --json --layout "$layout" --rank $rank "$work/net.yaml" "train.output=$work/run" |
        sed -n 's/.*"memory":{.*"sum":\([0-9]*\)}.*/\1/p' >"$work/planned.$rank"
done
limited -1 train.steps=2
limited 2 train.resume=true
state=$(sed -n 's/.*state //p' "$work/out" | sort -u)
"$lockstep" train --quiet "$work/net.yaml" >"$work/out" 2>"$work/err" || fail 'one process'
grep -q "^state $state\$" "$work/out" || fail "another state than $state"

status=0
(ulimit -d $limit && exec "$lockstep" train --quiet "$work/net.yaml" "train.output=$work/one") \
    >"$work/out" 2>"$work/err" || status=$?
[ $status -eq 1 ] || fail "one process with little memory: status $status"
grep -Eq "^error: .*net\.yaml: .*no memory for [0-9]{8,} bytes" "$work/err" || fail 'no word about memory'
grep -q 'with parallel.stages, or with parallel.features and pieces.blocks, a rank holds a part' "$work/err" || fail 'no word about layouts'
[ "$(grep -c '^error: ' "$work/err")" -eq 1 ] || fail 'not one error'
[ ! -d "$work/one/checkpoints" ] || fail 'something was saved'
cat "$work/err"
"$lockstep" plan "$work/net.yaml" --memory $((limit - 60000))K >"$work/out" 2>"$work/err" || fail 'the plan of one'
for part in 'parallel.stages' 'parallel.features'; do
    grep -Eq "^note: $part=[24] fits: [0-9]+ bytes a rank\$" "$work/out" || fail "$part is not told to fit"
done
! grep -q 'parallel.spatial' "$work/out" || fail 'a grid is told to fit, and nothing runs by tiles'
[ ! -s "$work/err" ] || fail 'warnings about what was tried'
grep '^note: ' "$work/out"
