#!/bin/sh
# lockstep run with a program of somebody else: started by each MPI, its status, signals, and nothing left.
# With TEST_LONG in the environment, all signals with each MPI.
. "$(dirname "$0")/../expect.sh"
. "$(dirname "$0")/../places.sh"
[ -n "$mpis" ] || { echo 'SKIPPED: there is no MPI'; exit 77; }
build=$(dirname "$lockstep")

# A program by a name that no other process has.
cp "$(command -v sleep)" "$work/sleeper"
sleepers()
{
    find /proc/[0-9]*/exe -lname "$work/sleeper" 2>/dev/null | tr -dc '0-9\n'
}

# gone SECONDS: require that none runs any more.
gone()
{
    tries=0
    while [ -n "$(sleepers)" ]; do
        [ $tries -lt $((10 * $1)) ] || fail "$mpi: still there: $(sleepers)"
        sleep 0.1
        tries=$((tries + 1))
    done
}

# begin ARGUMENT...: start it in the background, until three ranks are there.
begin()
{
    "$lockstep" run -n 3 --mpi "$mpi" -- "$@" >"$work/out" 2>"$work/err" </dev/null &
    command=$!
    tries=0
    while [ "$(sleepers | wc -l)" -lt 3 ]; do
        [ $tries -lt 200 ] || fail "$mpi: never three ranks"
        sleep 0.05
        tries=$((tries + 1))
    done
}

whole=${mpis##* } signals=TERM
[ -z "${TEST_LONG-}" ] || whole=$mpis signals='TERM INT HUP'
for mpi in $mpis; do
    # One that uses the library, and one that knows nothing of MPI.
    status 0 "$lockstep" run -n 3 --mpi "$mpi" -- "$build/example_ring"
    cmp -s "$work/out" "$tests/../examples/output/06_ring.txt" || fail "$mpi: the ring prints something else"
    status 0 "$lockstep" run -n 2 --mpi "$mpi" echo -n 5 # found in PATH; -n is its own
    [ "$(grep -c '^5' "$work/out")" -ge 1 ] || fail "$mpi: echo was not run"
    status 3 "$lockstep" run -n 2 --mpi "$mpi" -- sh -c 'exit 3'
    status 0 "$lockstep" run -n 2 --mpi "$mpi" --dry-run -- /bin/sh -c 'exit 3'
    out " -n 2 /bin/sh -c 'exit 3'"

    # A rank that is killed, and signals: all ranks end, whatever becomes of the launcher.
    case " $whole " in *" $mpi "*) ;; *) continue ;; esac
    begin "$work/sleeper" 300
    kill -KILL "$(sleepers | head -n 1)"
    wait $command
    [ $? -ne 0 ] || fail "$mpi: status 0 after the end of a rank"
    gone 10
    for signal in $signals; do
        begin "$work/sleeper" 300
        # A job in the background of a script ignores INT.
        if [ $signal = INT ] && grep -q '^SigIgn:.*[2367abef]$' "/proc/$command/status"; then signal=TERM; fi
        kill -$signal $command
        wait $command
        [ $? -ne 0 ] || fail "$mpi: status 0 after $signal"
        gone 10
    done
    begin "$work/sleeper" 300
    kill -KILL $command
    wait $command 2>/dev/null
    gone 10

    # USR1 means what it means to the program.
    begin sh -c "trap 'echo asked >>$work/asked-$mpi; exit 0' USR1; $work/sleeper 300 & wait; exit 9"
    sleep 1
    kill -USR1 $command
    wait $command
    [ $? -eq 0 ] || fail "$mpi: another status after USR1"
    [ "$(wc -l <"$work/asked-$mpi")" -eq 3 ] || fail "$mpi: not all ranks got USR1"
    for pid in $(sleepers); do kill "$pid" 2>/dev/null; done

    # Ranks that do not listen to TERM are killed in seconds.
    [ -n "${TEST_LONG-}" ] || continue
    begin sh -c "trap '' TERM; $work/sleeper 300; $work/sleeper 300"
    kill -TERM $command
    wait $command
    [ $? -ne 0 ] || fail "$mpi: status 0 of ranks that do not stop"
    gone 15
done

mpi=${mpis##* }
status 2 "$lockstep" run -n 2 ./nothing
err 'lockstep run: cannot run ./nothing: No such file or directory'
: >"$work/text"
status 2 "$lockstep" run -n 2 "$work/text"
err "cannot run $work/text: Permission denied"
status 2 "$lockstep" run -n 2 "$work"
err "cannot run $work: Permission denied"
status 2 "$lockstep" run -n 2 --transport local -- true
err 'true is a program, whose ranks are processes of an MPI'
status 2 env LK_MPI_MODULES="$work" "$lockstep" run -n 2 -- true
err 'true is a program, whose ranks are processes of an MPI'
status 2 "$lockstep" run -n 2 --restarts 1 -- true
err 'option --restarts: true has no --resume'
status 2 "$lockstep" run -n 2 --start-deadline 5 -- true
err 'option --start-deadline: when the ranks of true have met is not known'
status 2 "$lockstep" run -n 2 --mpi "$mpi" -- true :
err '":" would be a word for '
err 'not for /'
