#!/bin/sh
# A rank that is stopped before MPI_Init returns: the job ends at the deadline for its start, with the name
# of the rank, and in seconds after TERM; nothing is left over.  By mpirun alone, ranks end themselves.
. "$(dirname "$0")/../expect.sh"
. "$(dirname "$0")/../places.sh"
[ -n "$mpis" ] || { echo 'SKIPPED: there is no MPI'; exit 77; }
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

# Rank 1 is stopped as soon as it is the command.
cat >"$work/rank" <<END
#!/bin/sh
case \${OMPI_COMM_WORLD_RANK:-\$PMI_RANK} in
1) (until [ "\$(readlink /proc/\$\$/exe)" != "\$(readlink -f /bin/sh)" ]; do :; done; kill -STOP \$\$) & ;;
esac
exec "\$VICTIM" "\$@"
END
chmod +x "$work/rank"
mkdir "$work/bin"

# case_run MPI: all cases with this MPI; what goes wrong is in the file of its name.
case_run()
{
    mpi=$1
    real=$(command -v "mpirun.$mpi") || return 0
    export VICTIM="$work/victim-$mpi"
    cp "$lockstep" "$VICTIM"
    # The launcher, which starts that instead.
    cat >"$work/bin/mpirun.$mpi" <<END
#!/bin/sh
n=\$#
while [ \$n -gt 0 ]; do
    word=\$1
    shift
    [ "\$word" != "\$VICTIM" ] || word=$work/rank
    set -- "\$@" "\$word"
    n=\$((n - 1))
done
exec "$real" "\$@"
END
    chmod +x "$work/bin/mpirun.$mpi"
    log=$work/log-$mpi

    # On a busy machine no rank may be there so soon: then with more time.
    for seconds in 2 10 40; do
        LK_START_DEADLINE=$seconds PATH="$work/bin:$PATH" timeout 100 "$VICTIM" run -n 2 --mpi "$mpi" -- topo \
            >"$log" 2>&1
        [ $? -eq 1 ] || echo "status of a rank that does not come: $(cat "$log")"
        ! grep -q "rank 1 (process [0-9]*) is stopped" "$log" || break
    done
    grep -q "not met in MPI_Init after $seconds s: rank 1 (process [0-9]*) is stopped; ending" "$log" ||
        echo "the rank is not named: $(cat "$log")"
    [ "$(grep -c 'error: ' "$log")" -eq 1 ] || echo "not one error: $(cat "$log")"
    left

    # Without a deadline; asked to stop.
    PATH="$work/bin:$PATH" "$VICTIM" run -n 2 --mpi "$mpi" --start-deadline 0 -- \
        train "$tests/../experiments/mnist-mlp.yaml" "train.output=$work/run-$mpi" >"$log" 2>&1 &
    command=$!
    tries=0
    # shellcheck disable=SC2046 # words
    until grep -qs '^State:[[:space:]]*T' $(processes | sed 's|.*|/proc/&/status|'); do
        [ $tries -lt 300 ] || { echo 'no rank is stopped'; break; }
        sleep 0.05
        tries=$((tries + 1))
    done
    kill -TERM $command
    (sleep 15; kill -KILL $command 2>/dev/null) &
    guard=$!
    wait $command
    [ $? -eq 1 ] || echo "status after TERM: $(cat "$log")"
    kill $guard
    grep -q 'the ranks have not met: ending the job' "$log" || echo "not said: $(cat "$log")"
    left

    # Nobody watches ranks that mpirun alone has started.
    LK_START_DEADLINE=1 LK_MPI=$mpi timeout 60 "$real" -n 2 "$work/rank" topo >"$log" 2>&1
    case $? in # MPICH's mpirun may tell of the signal that ended the other rank
    0 | 124) echo "no failure by mpirun: $(cat "$log")" ;;
    esac
    grep -q 'error: rank 0 has waited 1 s in MPI_Init for a rank that does not come' "$log" ||
        echo "not said by the rank: $(cat "$log")"
    left
}

# The processes of this MPI's command that are there.
processes()
{
    find /proc/[0-9]*/exe -lname "$VICTIM" 2>/dev/null | tr -dc '0-9\n'
}

# Require that nothing runs any more.
left()
{
    tries=0
    while [ -n "$(processes)" ]; do
        [ $tries -lt 50 ] || { echo "left: $(processes)"; break; }
        sleep 0.1
        tries=$((tries + 1))
    done
}

for one in $mpis; do
    case_run "$one" >"$work/$one" 2>&1 &
    eval "case_$one=$!"
done
for one in $mpis; do
    eval "wait \$case_$one"
done
: >"$work/out"
: >"$work/err"
for one in $mpis; do
    [ ! -s "$work/$one" ] || fail "$one: $(cat "$work/$one")"
done

for seconds in x -1 '1 s'; do
    status 2 env LK_START_DEADLINE="$seconds" "$lockstep" run -n 1 --transport mpi -- topo
    err "LK_START_DEADLINE is \"$seconds\": it must be seconds"
done
status 0 "$lockstep" run -n 2 --transport mpi --start-deadline 20 -- topo
