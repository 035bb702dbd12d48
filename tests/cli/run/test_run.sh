#!/bin/sh
# lockstep run: ranks as threads and by each MPI, the job's status, one message, and nothing left over.
# With TEST_LONG in the environment, all of it by each MPI.
. "$(dirname "$0")/../expect.sh"
. "$(dirname "$0")/../places.sh"

# run PLACE N ARGUMENT...: the words that start ranks there.
run()
{
    place=$1 n=$2
    shift 2
    case $place in
    local) "$work/victim" run -n "$n" --transport local "$@" ;;
    *) "$work/victim" run -n "$n" --mpi "$place" --transport mpi "$@" ;;
    esac
}

# refused COMMAND...: require status 2, as of ranks that end when they have hardly begun.  The mpirun of
# MPICH may lose a control socket then and report that instead: once more.
refused()
{
    for _ in 1 2 3; do
        "$@" >"$work/out" 2>"$work/err" </dev/null
        got=$?
        grep -q 'HYDU_sock_write.*Broken pipe' "$work/err" || break
    done
    [ $got -eq 2 ] || fail "status $got instead of 2: $*"
}

# gone SECONDS: require that nothing runs any more.
gone()
{
    tries=0
    while [ -n "$(victims)" ]; do
        [ $tries -lt $((10 * $1)) ] || fail "still there: $(victims)"
        sleep 0.1
        tries=$((tries + 1))
    done
}

# until_many N: wait until N processes, the launcher included, are there.
until_many()
{
    tries=0
    while [ "$(victims | wc -l)" -lt "$1" ]; do
        [ $tries -lt 100 ] || fail "never $1 processes: $(victims)"
        sleep 0.05
        tries=$((tries + 1))
    done
}

cat >"$work/net.yaml" <<'END'
data: {type: glyphs, count: 60, test_count: 33, batch: 20, shards: 4}
model: [flatten, {type: linear, units: 10}]
loss: softmax_cross_entropy
metrics: [accuracy]
optimizer: sgd
train: {epochs: 1}
END
mkdir "$work/trained"
"$lockstep" train --quiet "$work/net.yaml" "train.output=$work/trained" >/dev/null || exit 1
"$lockstep" eval --json "$work/net.yaml" "train.output=$work/trained" >"$work/score" || exit 1

# everything: what the verbs say there, of an experiment that was trained.
everything()
{
    # Of the benches, those that communicate.
    status 0 run "$place" 2 -- bench allreduce --json --sizes 8,1K --seconds 0
    "$json" <"$work/out" || fail "$place: JSON"
    [ "$(grep -c '"bytes": ' "$work/out")" -eq 2 ] || fail "$place: two sizes, each once"
    refused run "$place" 2 -- bench allreduce --sizes 3
    [ "$(grep -c 'error: ' "$work/err")" -eq 1 ] || fail "$place: not one error"
    refused run "$place" 2 -- bench kernels
    err 'lockstep bench kernels runs in one process'

    # Evaluation on ranks gives what it gives on one, to the last digit.
    status 0 run "$place" 3 -- eval --json "$work/net.yaml" "train.output=$work/trained"
    cmp -s "$work/out" "$work/score" || fail "$place: another score: $(cat "$work/score")"
    status 2 run "$place" 3 -- eval "$work/net.yaml" data.shards=2 "train.output=$work/trained"
    [ "$(wc -l <"$work/err")" -eq 2 ] || fail "$place: more than one line and the launcher's"
    status 1 run "$place" 3 -- eval "$work/net.yaml" "train.output=$work/none"
    [ "$(grep -c 'error: ' "$work/err")" -eq 1 ] || fail "$place: not one error"

    # What is wrong is said once, and the status is the job's.
    status 2 run "$place" 3 topo --mode 2x2
    [ "$(grep -c 'hold 4 ranks, but there are 3' "$work/err")" -eq 1 ] || fail "$place: not once"
    no_out
    status 1 run "$place" 3 -- gradcheck --tolerance 1e-12
    out 'FAILED'

    # What is wrong with the arguments is said before anything is started.
    status 2 run "$place" 3 topo --mod 2x2
    err 'lockstep topo: unknown option "--mod"; did you mean "--mode"?'
    status 2 run "$place" 3 list verbs
    err 'lockstep list runs in one process'
    status 2 run "$place" 3 --restarts 2 topo
    err 'topo has no --resume'
    status 0 run "$place" 3 -- topo --help
    out 'usage: lockstep topo'
}

whole="local ${mpis##* }"
[ -z "${TEST_LONG-}" ] || whole=$places
for place in $places; do
    # The verb runs once on all ranks, and rank 0 prints.
    status 0 run "$place" 3 -- gradcheck --json allreduce send
    "$json" <"$work/out" || fail "$place: JSON"
    [ "$(grep -c '"pass": true' "$work/out")" -eq 2 ] || fail "$place: two nodes, each once"
    err "lockstep run: 3 ranks, transport"
    status 0 run "$place" 2 topo # without --
    out '2 ranks on 1 host'

    # By another MPI than the last, ranks are started by the same words.
    case " $whole " in *" $place "*) everything ;; esac

    # A rank that is killed ends the job, with status 1; and so does a signal to a verb that does not
    # save.
    # Ranks that are threads are one process besides the launcher.
    [ "$place" = local ] && all=2 || all=4
    for victim in rank job launcher; do
        run "$place" 3 -- verify --trace --steps 1000000 "$work/net.yaml" >"$work/out" 2>"$work/err" &
        waiting=$!
        until_many $all
        sleep 0.5
        launcher=$(for p in $(victims); do
            if tr '\0' ' ' <"/proc/$p/cmdline" | grep -q 'victim run '; then echo "$p"; fi
        done | sort -n | head -n 1)
        one=$(victims | grep -vx "$launcher" | head -n 1)
        case $victim in
        rank) kill -9 "$one" ;;
        job) kill -TERM "$launcher" ;;
        launcher) kill -9 "$launcher" ;;
        esac
        wait $waiting
        got=$?
        [ $victim = launcher ] || [ $got -eq 1 ] || fail "$place: status $got after the end of a $victim"
        gone 10
    done
done

status 2 "$lockstep" run -n 2 --transport tcp topo
err 'give local or mpi'
status 2 "$lockstep" run -n 2 --transport local -- gradcheck --transport self send
err 'lockstep run has started the ranks already'
status 2 "$lockstep" run -n 2 --mpi lam topo
err 'no MPI is named "lam"'
status 2 "$lockstep" run -n 0x topo
err 'option -n: "0x"'
status 2 "$lockstep" run -n 2
err 'lockstep run: VERB|PROGRAM is missing'
status 2 "$lockstep" run --n 2 topo
err 'unknown option "--n"; did you mean "-n"?'
status 2 "$lockstep" run -n 2 trian
err 'unknown verb or program "trian"; did you mean "train"?'

status 2 env LK_LOCAL_NODES=x "$lockstep" run -n 2 --transport local topo
err 'LK_LOCAL_NODES is "x": it must be a number'
[ "$(wc -l <"$work/err")" -eq 2 ] || fail 'a trace for a mistake'

# Threads are of one process, and so fewer than processes.
status 2 "$lockstep" run -n 4097 --transport local topo
err 'error: lockstep run: 4097 ranks: at most 4096 are threads of one process'
status 2 "$lockstep" run -n 1000001 topo
err 'option -n: "1000001" is out of range, it must be from 0 to 1000000'

# Without MPI ranks are threads; who insists on an MPI is told what is missing.
mkdir "$work/none"
status 0 env LK_MPI_MODULES="$work/none" "$lockstep" run -n 2 topo
err 'transport local: there is no MPI that this build has a module for'
status 2 env LK_MPI_MODULES="$work/none" "$lockstep" run -n 2 --transport mpi topo
err 'no MPI'
status 2 env LK_MPI_MODULES="$work/none" "$lockstep" run -n 2 --mpi mpich topo
err 'no module for mpich'
case $places in *mpi*)
    status 2 env PATH="$work/none" "$lockstep" run -n 2 --transport mpi topo
    err 'no mpirun of'
    ;;
esac

# What a launcher would read as its own is refused: it would start another program, or load what it
# is told to.
for mpi in $mpis; do
    status 2 "$lockstep" run -n 1 --mpi "$mpi" -- eval "$work/net.yaml" : touch "$work/touched"
    err '":" would be a word for '
    [ ! -e "$work/touched" ] || fail "$mpi: another program was started"
    status 2 "$lockstep" run -n 1 --mpi "$mpi" -- gradcheck send :
    err 'a file of that name is ./:'
    status 2 "$lockstep" verify --ranks 1 --transport mpi --mpi "$mpi" --steps 1 "$work/net.yaml" -- :
done
case $mpis in *openmpi*)
    for word in -mca --mca --gmca -am --tune; do
        status 2 "$lockstep" run -n 1 --mpi openmpi -- eval "$work/net.yaml" -- $word x y
        err "\"$word\" would be a word for "
    done
    ;;
esac

# A launcher that forgets the status of its ranks, as MPICH's does when they got a signal: they say it.
for mpi in $mpis; do
    real=$(command -v "mpirun.$mpi") || continue
    mkdir "$work/$mpi"
    printf '#!/bin/sh\n"%s" "$@"\nexit 0\n' "$real" >"$work/$mpi/mpirun.$mpi"
    chmod +x "$work/$mpi/mpirun.$mpi"
    status 2 env PATH="$work/$mpi:$PATH" "$lockstep" run -n 2 --mpi "$mpi" -- train "$work/nothing.yaml"
    status 0 env PATH="$work/$mpi:$PATH" "$lockstep" run -n 2 --mpi "$mpi" -- topo
    # Of a rank that was killed, nobody said a status.
    status 1 env PATH="$work/$mpi:$PATH" LK_STORAGE_FAULT=mkdir:1:KILL \
        "$lockstep" run -n 1 --mpi "$mpi" -- train "$work/net.yaml" "train.output=$work/killed-$mpi"
    err 'ended before its work was done'
done

# A launcher that does not notice that its ranks have ended, as Open MPI's if one dies while it starts.
case $mpis in *openmpi*)
    mkdir "$work/deaf"
    printf '#!/bin/sh\nfalse &\nexec sleep 300\n' >"$work/deaf/mpirun.openmpi"
    chmod +x "$work/deaf/mpirun.openmpi"
    status 1 timeout 60 env PATH="$work/deaf:$PATH" "$lockstep" run -n 2 --mpi openmpi -- topo
    err 'mpirun.openmpi does not notice: ending it'
    ;;
esac

# A launcher that is deaf to TERM, as MPICH's while it starts, does not outlive the command.
case $mpis in *mpich*)
    mkdir "$work/stubborn"
    printf '#!/bin/sh\ntrap "" TERM\necho $$ >"%s"\nexec sleep 300\n' "$work/launcher" \
        >"$work/stubborn/mpirun.mpich"
    chmod +x "$work/stubborn/mpirun.mpich"
    PATH="$work/stubborn:$PATH" "$lockstep" run -n 2 --mpi mpich -- topo >"$work/out" 2>"$work/err" &
    command=$!
    while [ ! -s "$work/launcher" ]; do sleep 0.1; done
    kill -KILL $command
    wait $command
    sleep 1
    if grep -q '^State:[[:space:]]*[RSDTt]' "/proc/$(cat "$work/launcher")/status" 2>"$work/err"; then
        fail 'the launcher is still there'
    fi
    ;;
esac

# Some launchers give ranks a terminal: what they print into a file has no colours all the same.
for place in $places; do
    TERM=xterm run "$place" 2 -- bench step --against none --seconds 0 --filter 'mlp-100 b100 sgd' \
        >"$work/out" 2>"$work/err" || fail "$place: bench step"
    ! grep -q "$(printf '\033')" "$work/out" || fail "$place: colours in a file"
done
