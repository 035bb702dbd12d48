#!/bin/bash
# Two hosts with a rank each: double buffering has the bits of one rank.  With TEST_LONG in the environment
# also on a link of 1 Gbit/s: gradients of bf16 take at most 0.55 of the time of f32, and a step with double
# buffering at most 1.1 times as long as computing or exchanging.
#
#   tests/hosts/exchange.sh openmpi|mpich PROGRAM        the program of exchange.c; 77: not here
set -eu
here=$(dirname "$(readlink -f "$0")")
if [ "$1" != --inside ]; then
    command -v "mpirun.$1" >/dev/null || { echo "SKIPPED: there is no mpirun.$1"; exit 77; }
    exec "$here"/hosts 2 "$here"/exchange.sh --inside "$1" "$(readlink -f "$2")"
fi
mpi=$2 program=$3
export LK_MPI=$mpi LK_THREADS=1 LK_DEADLINE=60 LK_PROGRESS=1
# docs/internals/communication.md, slow links: a core for each rank here, and no questions before each message.
export OMPI_MCA_mpi_yield_when_idle=0 UCX_RNDV_THRESH=128k

# ranks WORD...: the program on both hosts; what it prints.
ranks()
{
    case $mpi in
    openmpi) set -- --host node0,node1 -n 2 "$program" "$@" ;;
    mpich) set -- -hosts node0,node1 -ppn 1 -n 2 "$program" "$@" ;;
    esac
    timeout -k 5 300 "mpirun.$mpi" "$@" >/run/tmp/out 2>&1
}

# race WORD...: others may use the machine, so what is lost is run again, twice at most.
race()
{
    for try in 1 2 3; do
        if ranks "$@"; then
            cat /run/tmp/out
            return
        fi
        echo "lost, try $try"
        grep -h 'ratio\|longer\|FAIL' /run/tmp/out || cat /run/tmp/out
    done
    exit 1
}

ranks same 64 || { echo 'FAIL: other bits'; cat /run/tmp/out; exit 1; }
cat /run/tmp/out
if [ -n "${TEST_LONG-}" ]; then
    "$here"/hosts rate 0 1gbit
    "$here"/hosts rate 1 1gbit
    race wire 4000000
    race late 1000
fi
echo ok
