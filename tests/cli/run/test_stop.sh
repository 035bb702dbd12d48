#!/bin/sh
# lockstep run -- train, asked to stop at random steps on 5 ranks: status 75 and a checkpoint of that
# step; from there it goes on, on 3 ranks or on 8 in turns, to the bits of a run that nobody stopped.
#
#   LK_STOP_SEED   decides about the moments; printed
#   TEST_LONG      more stops, of longer runs
. "$(dirname "$0")/../expect.sh"
. "$(dirname "$0")/../places.sh"

seed=${LK_STOP_SEED:-$(od -An -N3 -tu4 /dev/urandom | tr -d ' ')}
echo "LK_STOP_SEED=$seed"
export LK_THREADS=1

cat >"$work/net.yaml" <<'END'
data: {type: glyphs, count: 320, test_count: 32, batch: 32, shards: 8}
model: [flatten, {type: linear, units: 64}, batch_norm, relu, {type: dropout, rate: 0.1}, {type: linear, units: 10}]
loss: softmax_cross_entropy
metrics: [accuracy]
optimizer: {type: adam, rate: 0.002}
train: {checkpoint: {every: never}}
END
local='local local local' epochs=150
set -- TERM STOP USR1 INT USR2 TERM USR1
[ -n "${TEST_LONG-}" ] || local='' epochs=100
status 0 "$lockstep" train --quiet "$work/net.yaml" train.epochs=$epochs
whole=$(cat "$work/out")

# train N PLACE: the command that goes on, on N ranks, into $run.
train()
{
    case $2 in local) how='--transport local' ;; *) how="--mpi $2" ;; esac
    # shellcheck disable=SC2086 # two words
    exec "$lockstep" run -n "$1" $how -- train --quiet --resume "$work/net.yaml" "train.output=$run" train.epochs=$epochs
}

stops=0 n=8
for place in local $local $places; do
    how=$1 run=$work/run
    shift
    rm -rf "$run"
    seed=$(((seed * 1103515245 + 12345) % 2147483648))
    lines=$((1 + seed / 65536 % (epochs / 2))) # epochs to wait for
    [ "$how" != STOP ] || lines=$((1 + lines / 10)) # it is looked for twice a second
    (train 5 "$place") >"$work/out" 2>"$work/err" </dev/null &
    launcher=$!
    while kill -0 $launcher 2>/dev/null; do
        [ ! -e "$run/metrics.jsonl" ] || [ "$(wc -l <"$run/metrics.jsonl")" -lt $lines ] || break
        sleep 0.01
    done
    if [ "$how" = STOP ]; then : >"$run/STOP"; else kill "-$how" $launcher; fi
    wait $launcher
    got=$?
    [ $got -eq 75 ] || fail "$place, $how: status $got instead of 75"
    err 'stopped on request after step '
    step=$(sed -n 's/^.*stopped on request after step \([0-9]*\);.*$/\1/p' "$work/err")
    [ "$(cat "$run/checkpoints/LATEST")" = "step-$(printf %012d "$step")" ] || fail "$place, $how: no checkpoint of step $step"
    [ ! -e "$run/STOP" ] || fail 'STOP is still there'
    n=$((11 - n))
    (train $n "$place") >"$work/out" 2>"$work/err" </dev/null || fail "$place, $how: status $?"
    err "resumed from the checkpoint of step $step"
    [ "$(tail -n 1 "$work/out")" = "$whole" ] || fail "$place, $how at step $step: another state on $n ranks than $whole"
    seq $epochs >"$work/epochs"
    sed -n 's/^{"epoch": *\([0-9]*\),.*/\1/p' "$run/metrics.jsonl" | cmp -s - "$work/epochs" || fail 'not every epoch once'
    stops=$((stops + 1))
    echo "$place: $how at step $step of ${epochs}0, and on, on $n ranks"
done
[ $stops -ge 2 ] || fail "only $stops stops"

# A request that is repeated to the very end, as launchers do, does no harm.
for n in 1 2 ${TEST_LONG:+3 4 5}; do
    rm -rf "$work/run"
    "$lockstep" train --quiet "$work/net.yaml" "train.output=$work/run" train.epochs=$epochs >"$work/out" 2>"$work/err" </dev/null &
    trainer=$!
    while [ ! -e "$work/run/metrics.jsonl" ]; do sleep 0.01; done
    while kill -USR1 $trainer 2>/dev/null && [ -e "/proc/$trainer/exe" ]; do :; done # not a zombie
    wait $trainer
    got=$?
    [ $got -eq 75 ] || fail "status $got instead of 75 after USR1 without end"
done
