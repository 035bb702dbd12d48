#!/bin/sh
# lockstep run -- train: signals stop it with a checkpoint and status 75, and it goes on elsewhere to
# the same bits; after a failure it starts again by itself.  With TEST_LONG in the environment, with two
# signals in each place, and for longer.
. "$(dirname "$0")/../expect.sh"
. "$(dirname "$0")/../places.sh"

export LK_THREADS=1
cat >"$work/net.yaml" <<'END'
data: {type: glyphs, count: 400, test_count: 0, batch: 20, shards: 5}
model: [flatten, {type: linear, units: 16}, batch_norm, relu, {type: linear, units: 10}]
loss: softmax_cross_entropy
optimizer: {type: sgd, rate: 0.05, momentum: 0.9}
train: {checkpoint: {every: 100 steps, keep: 2}}
END

# start PLACE N OPTION...: train in the background, into $work/run, until a checkpoint is there.
epochs=150
start()
{
    place=$1 n=$2
    shift 2
    case $place in local) how='--transport local' ;; *) how="--mpi $place" ;; esac
    rm -rf "$work/run"
    # shellcheck disable=SC2086 # two words, perhaps none
    "$work/victim" run -n "$n" $how "$@" -- train --quiet "$work/net.yaml" "train.output=$work/run" \
        train.epochs=$epochs >"$work/out" 2>"$work/err" &
    launcher=$!
    tries=0
    while [ ! -e "$work/run/checkpoints/LATEST" ]; do
        [ $tries -lt 400 ] || fail "$place: no checkpoint"
        sleep 0.05
        tries=$((tries + 1))
    done
}

# finished STATUS: require the exit status of what start() began.
finished()
{
    wait $launcher
    got=$?
    [ $got -eq "$1" ] || fail "$place: status $got instead of $1"
}

# A rank, or the process of all that are threads.
a_rank()
{
    victims | grep -vx $launcher | head -n 1
}

signals='USR2 TERM INT HUP USR1'
for place in $places; do
    # Processes take longer for a step: a signal comes in time for fewer of them.
    several=TERM epochs=150 elsewhere=5
    [ "$place" = local ] || [ -n "${TEST_LONG-}" ] || several='' epochs=90 elsewhere=1
    status 0 "$lockstep" train --quiet "$work/net.yaml" train.epochs=$epochs
    cp "$work/out" "$work/whole"
    for signal in ${signals%% *} $several; do
        start "$place" 3
        kill "-$signal" $launcher
        finished 75
        err 'stopped on request after step '
        status 0 "$lockstep" train --quiet --resume "$work/net.yaml" "train.output=$work/run" \
            train.epochs=$epochs parallel.data=$elsewhere
        cmp -s "$work/out" "$work/whole" || fail "$place, $signal: went on to another state"
    done
    signals=${signals#* }

    # A rank is killed: it starts again, and ends with the bits of a run that was not disturbed.
    start "$place" 3 --restarts 2
    kill -9 "$(a_rank)"
    finished 0
    err 'starting again, 1 of 2'
    # MPICH's launcher has things to say on stdout before.
    [ "$(tail -n 1 "$work/out")" = "$(cat "$work/whole")" ] || fail "$place: started again to another state"
done

# Without restarts a failure is one; a request to stop is none, and not started again.
epochs=1000000
start local 2
kill -9 "$(a_rank)"
finished 1
err 'killed by signal 9'
start local 2 --restarts 3
kill -TERM $launcher
finished 75
if grep -q 'starting again' "$work/err"; then fail 'started again after a request to stop'; fi
# Wrong usage is not tried again either.
status 2 "$lockstep" run -n 6 --transport local --restarts 3 -- train "$work/net.yaml" train.epochs=1
if grep -q 'starting again' "$work/err"; then fail 'wrong usage, started again'; fi

# In fast mode a run goes on on other ranks, too, without a failure on the way; as another run it is refused
# once.
fast="train --quiet $work/net.yaml train.output=$work/run parallel.mode=fast"
rm -rf "$work/run"
# shellcheck disable=SC2086 # words
status 0 "$lockstep" run -n 4 --transport local -- $fast train.epochs=1
epochs=1
for n in 3 1 5; do
    epochs=$((epochs + 1))
    # shellcheck disable=SC2086
    status 0 "$lockstep" run -n $n --transport local --restarts 3 -- $fast train.epochs=$epochs --resume
    if grep -q 'starting again' "$work/err"; then fail "$n ranks failed"; fi
done
status 2 "$lockstep" run -n 2 --transport local --restarts 3 -- train --quiet "$work/net.yaml" \
    "train.output=$work/run" train.epochs=9 --resume
err 'is of another run'
if grep -q 'starting again' "$work/err"; then fail 'another run, started again'; fi

# A request that comes before anything is ready is not lost.
epochs=1000000
for wait in 0 0.02 0.1; do
    rm -rf "$work/run" "$work/err"
    "$work/victim" run -n 3 --transport local -- train --quiet "$work/net.yaml" "train.output=$work/run" \
        train.epochs=$epochs >"$work/out" 2>"$work/err" &
    launcher=$!
    while [ ! -s "$work/err" ]; do sleep 0.01; done # it says where ranks will be
    sleep $wait
    kill -USR1 $launcher
    finished 75
done
[ -z "$(a_rank)" ] || fail "processes are left: $(a_rank)"
