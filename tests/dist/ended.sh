#!/bin/sh
# A rank that is stopped, killed or exits in the middle is named by the others, and the job ends.
#
#   tests/dist/ended.sh openmpi|mpich PROGRAM        77: cannot run here
#
# When a process ends, the launcher is told not to end the others, so that they have time to say so.
set -eu
mpi=$1 program=$2
command -v "mpirun.$mpi" >/dev/null && run=mpirun.$mpi || run=mpirun
command -v "$run" >/dev/null || { echo "SKIPPED: there is no $run"; exit 77; }
options='' go_on=-disable-auto-cleanup
if [ "$mpi" = openmpi ]; then
    options='--oversubscribe --bind-to none' go_on=--enable-recovery
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
export TEST_TRANSPORT=mpi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0

# launch HOW [OPTION]: the job must end, and not in its own time.
launch() {
    begin=$(date +%s)
    # shellcheck disable=SC2086 # lists of words
    timeout -k 5 30 "$run" $options ${2-} -n 3 "$program" "$1" >"$work/out" 2>"$work/err" || true
    seconds=$(($(date +%s) - begin))
    if [ "$seconds" -gt 20 ]; then
        echo "FAIL: $1: the job took $seconds s to end"
        bad=1
    fi
}

# named HOW TEXT: both other ranks printed a report that contains TEXT.
named() {
    if [ "$(grep -c "^a rank does not come after .* s: stall: .*$2" "$work/out")" -lt 2 ]; then
        echo "FAIL: $1: not named by both: $2"
        cat "$work/out" "$work/err"
        bad=1
    fi
    echo "$1 ($seconds s): $(grep -m 1 stall "$work/out")"
}

launch stop
named stop 'rank 1, which is stopped after allreduce("warmup") #3$'
launch exit $go_on
named exit 'rank 1, which exited or died after allreduce("warmup") #3$'
launch kill $go_on
# MPICH's launcher falls over, and takes the others with it before they can speak.
[ "$mpi" = mpich ] || named kill 'rank 1, which exited or died after allreduce("warmup") #3$'
exit $bad
