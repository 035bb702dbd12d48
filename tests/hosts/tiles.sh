#!/bin/bash
# Four hosts with a rank each, 2x2 tiles: the bytes at their interfaces are those of the plan, within a tenth;
# of convolutions, whose margins are half of them; with TEST_LONG in the environment for more steps, and also
# where gradients are most of them.
#
#   tests/hosts/tiles.sh openmpi|mpich PROGRAM        the program of tiles.c; 77: not here
set -eu
here=$(dirname "$(readlink -f "$0")")
if [ "$1" != --inside ]; then
    command -v "mpirun.$1" >/dev/null || { echo "SKIPPED: there is no mpirun.$1"; exit 77; }
    exec "$here"/hosts 4 "$here"/tiles.sh --inside "$1" "$(readlink -f "$2")"
fi
mpi=$2 program=$3
export LK_MPI=$mpi LK_THREADS=1 LK_DEADLINE=60
pieces='pieces.tiles=4x4 pieces.least_tile=1 parallel.spatial=2x2'

# steps N FILE SETTING...: what the ranks print.
steps()
{
    case $mpi in
    openmpi) set -- --host node0,node1,node2,node3 -n 4 "$program" "$@" ;;
    mpich) set -- -hosts node0,node1,node2,node3 -ppn 1 -n 4 "$program" "$@" ;;
    esac
    # shellcheck disable=SC2086 # three words
    timeout -k 5 120 "mpirun.$mpi" "$@" $pieces >/run/tmp/out 2>&1 || {
        echo "FAIL: $mpi, $*"
        cat /run/tmp/out
        exit 1
    }
    sort /run/tmp/out
    [ "$(grep -c 'ratio 1\.0' /run/tmp/out)" -eq 8 ] || { echo 'FAIL: not 8 numbers'; exit 1; }
}

count=2
if [ -n "${TEST_LONG-}" ]; then
    count=6
    echo 'cifar10-cnn:'
    steps $count experiments/cifar10-cnn.yaml \
        'data={type: glyphs, count: 32, test_count: 0, shape: [32, 32, 3], batch: 32, shards: 8}'
fi
echo 'the convolutions of cifar10-cnn on larger images:'
steps $count experiments/cifar10-cnn.yaml \
    'data={type: glyphs, count: 16, test_count: 0, shape: [64, 64, 3], batch: 16, shards: 8}' \
    'model.12=global_avgpool' model.13.units=10
echo ok
