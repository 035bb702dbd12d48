#!/bin/sh
# Run a test program as processes of an MPI, with each of several numbers of ranks.
#
#   tests/dist/run.sh openmpi|mpich "RANKS..." PROGRAM [ARGUMENT...]        77: cannot run here
#
# More ranks than cores are fine, and so is root.  A run that hangs is ended and fails.
set -eu
mpi=$1 ranks=$2
shift 2
command -v "mpirun.$mpi" >/dev/null && run=mpirun.$mpi || run=mpirun
command -v "$run" >/dev/null || { echo "SKIPPED: there is no $run"; exit 77; }
options=
if [ "$mpi" = openmpi ]; then
    options='--oversubscribe --bind-to none'
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1
fi
export LK_DEADLINE="${LK_DEADLINE-20}" TEST_TRANSPORT=mpi
for n in $ranks; do
    # shellcheck disable=SC2086 # a list of words
    timeout -k 5 120 "$run" $options -n "$n" "$@" || {
        echo "FAIL: $mpi, $n ranks: status $?"
        exit 1
    }
done
