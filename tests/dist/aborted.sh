#!/bin/sh
# A rank that crashes, or fails, ends all ranks within seconds: with its number, the signal and the place.
#
#   tests/dist/aborted.sh openmpi|mpich PROGRAM        77: cannot run here
#
# Launchers end all processes when one has ended; where one can be told not to, all others say what they
# were told, also from another node.  With TEST_LONG in the environment, by more signals.
set -eu
# shellcheck disable=SC3045 # dash and bash have it
ulimit -c 0
mpi=$1 program=$2
command -v "mpirun.$mpi" >/dev/null && run=mpirun.$mpi || run=mpirun
command -v "$run" >/dev/null || { echo "SKIPPED: there is no $run"; exit 77; }
options=
if [ "$mpi" = openmpi ]; then
    options='--oversubscribe --bind-to none'
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0

complain() {
    echo "FAIL: $*"
    cat "$work/out"
    bad=1
}

# launch HOW RANKS [OPTION...]: the job ends, and soon; without an option for the launcher, with a status.
launch() {
    how=$1 ranks=$2 status=0
    shift 2
    begin=$(date +%s)
    # shellcheck disable=SC2086 # a list of words
    timeout -k 5 40 "$run" $options "$@" -n "$ranks" "$program" "$how" >"$work/out" 2>&1 || status=$?
    seconds=$(($(date +%s) - begin))
    [ "$status" -ne 0 ] || [ $# -gt 0 ] || complain "$how on $ranks ranks: status 0"
    [ "$seconds" -le 20 ] || complain "$how on $ranks ranks took $seconds s to end"
}

# said TEXT: a line begins so.
said() {
    grep -q "^$1" "$work/out" || complain "$how on $ranks ranks: no line with: $1"
}

# told TEXT: as many other ranks were told.
told() {
    [ "$(grep -c "^rank [0-9]* was told after [0-9.]* s: $1" "$work/out")" -eq $((ranks - 1)) ] ||
        complain "$how on $ranks ranks: not all were told: $1"
}

crashed() {
    case $1 in
    segv | overflow) echo 'SIGSEGV at address 0x[0-9a-f]*' ;;
    abort) echo 'SIGABRT' ;;
    divide) echo 'SIGFPE.*' ;;
    esac
}

cases='segv:2 divide:4' kinds=2
if [ -n "${TEST_LONG-}" ]; then cases='segv:2 abort:3 divide:4 overflow:3' kinds='1 2'; fi
for case in $cases; do
    launch "${case%:*}" "${case#*:}"
    event="rank 1 of $ranks on host \"[^\"]*\", process [0-9]*, ended by $(crashed "$how") after allreduce(\"warmup\") #3"
    said "lockstep: $event, with all ranks of its job\$"
    said '  #0 '
    said '  #[0-9]* test_abort_hook+0x'
    echo "$how on $ranks ranks ($seconds s): $(grep -m 1 '^lockstep: ' "$work/out")"
done
launch fail 3
said 'rank 1 of 3 on host "[^"]*" failed$'
said 'error: input/output error: there is no sample 7$'
told 'rank 1 failed: input/output error: there is no sample 7$'
if [ "$mpi" = openmpi ]; then # MPICH's launcher falls over, and takes the others with it
    for nodes in $kinds; do
        export LK_LOCAL_NODES=$nodes
        launch segv 4 --enable-recovery
        told 'rank 1 of 4 on host "[^"]*", process [0-9]*, ended by SIGSEGV at address 0x10 after allreduce("warmup") #3, at test_abort_hook+0x'
    done
fi
exit $bad
