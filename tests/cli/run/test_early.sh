#!/bin/sh
# A request to stop that comes while a job starts: the job stops at its first step with a checkpoint, or
# the signal kills a command that has not begun with anything.  It is never lost.  With TEST_LONG in the
# environment, at three times as many moments.
. "$(dirname "$0")/../expect.sh"
. "$(dirname "$0")/../places.sh"

tool=$(dirname "$json")/signal_after
export LK_THREADS=1
cat >"$work/net.yaml" <<'YAML'
data: {type: glyphs, count: 320, test_count: 0, batch: 32, shards: 4}
model: [flatten, {type: linear, units: 16}, relu, {type: linear, units: 10}]
loss: softmax_cross_entropy
optimizer: {type: sgd, rate: 0.05}
train: {epochs: 900, checkpoint: {every: never}}
YAML
status 0 "$lockstep" train --quiet "$work/net.yaml"
cp "$work/out" "$work/whole"

# early MICROSECONDS SIGNAL WORD...: `lockstep WORD...`, which trains into $work/run.
stopped=0 killed=0
early()
{
    us=$1 signal=$2
    shift 2
    rm -rf "$work/run"
    "$tool" "$us" "$signal" "$lockstep" "$@" >"$work/out" 2>"$work/err" </dev/null
    got=$?
    case $got,$signal in
    75,*)
        err 'stopped on request after step '
        err 'go on with --resume'
        [ -e "$work/run/checkpoints/LATEST" ] || fail "$signal after $us us: no checkpoint: $*"
        stopped=$((stopped + 1))
        ;;
    130,INT | 143,TERM | 138,USR1 | 140,USR2)
        [ ! -e "$work/run" ] || fail "$signal after $us us: killed in mid-run: $*"
        killed=$((killed + 1))
        ;;
    99,*) echo "it had ended before $signal after $us us: $*" ;;
    *) fail "$signal after $us us was lost, status $got: $*" ;;
    esac
}

# each STEP_US LAST_US WORD...: at all these moments, with one signal after the other.
each()
{
    step=$1 last=$2 at=0
    shift 2
    stopped=0 killed=0
    while [ $at -le "$last" ]; do
        for one in TERM INT USR1 USR2; do
            [ $at -gt "$last" ] || early $at $one "$@"
            at=$((at + step))
        done
    done
    echo "stopped $stopped, killed before they began $killed: $*"
    [ $stopped -gt 0 ] || fail "no job stopped: $*"
}

few=3
[ -z "${TEST_LONG-}" ] || few=1
train="train --quiet $work/net.yaml train.output=$work/run"
# shellcheck disable=SC2086 # words
{
    each $((few * 2000)) 60000 $train
    each $((few * 4000)) 60000 $train parallel.data=3
    each $((few * 3000)) 60000 run -n 3 --transport local -- $train
    for mpi in $mpis; do
        each 20000 60000 run -n 2 --mpi "$mpi" -- $train
        each 60000 180000 run -n 2 --mpi "$mpi" -- $train
    done
}
# Where the last one stopped, it goes on.
status 0 "$lockstep" train --quiet --resume "$work/net.yaml" "train.output=$work/run"
cmp -s "$work/out" "$work/whole" || fail 'went on to another state'

# A file that was there before is a request like any other, and is taken once.
rm -rf "$work/run"
mkdir "$work/run"
: >"$work/run/STOP"
status 75 "$lockstep" train --quiet "$work/net.yaml" "train.output=$work/run"
err 'stopped on request after step 0; go on with --resume'
[ ! -e "$work/run/STOP" ] || fail 'STOP is still there'
status 0 "$lockstep" train --quiet --resume "$work/net.yaml" "train.output=$work/run"
cmp -s "$work/out" "$work/whole" || fail 'went on from STOP to another state'
