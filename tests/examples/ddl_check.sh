#!/bin/sh
# DDL's check in examples/23_ddl_mnist.c, with the tolerance that its document found to be enough for eight
# learners: sums pass, and one element that is wrong on one rank does not; every rank fails, and the dump
# file names the element.
#
#   tests/examples/ddl_check.sh PROGRAM DAMAGED [openmpi|mpich]        threads without an MPI; 77: cannot run here
set -eu
here=$(dirname "$(readlink -f "$0")")
program=$(readlink -f "$1") damaged=$(readlink -f "$2") mpi=${3-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# learn PROGRAM: on eight ranks, each of which prints to the file "out".
learn() {
    set -- "$1" --steps 2 --batch 4 --ddl '-mode n:4x2' --check 0.17 --format glyphs \
        --data 'count=64 test_count=8' --ranks 8
    [ -z "$mpi" ] || set -- "$here/../dist/run.sh" "$mpi" 8 "$@"
    "$@" >out 2>&1
}
fail() {
    echo "FAIL: $*"
    cat out
    exit 1
}

learn "$program" || { [ $? -ne 77 ] || { cat out; exit 77; }; fail 'a sum does not pass'; }
grep -q '^2 steps: accuracy' out || fail 'nothing was learned'
[ -z "$(find . -name 'ddl.dump*')" ] || fail 'a dump file'
if learn "$damaged"; then fail 'a wrong element passes'; fi
grep -q 'check: tensor "conv2.weight" index 25600 on rank 5: got .* tolerance 0.17; 1 of 51200 elements' out ||
    fail 'the element is not named'
grep -qx 'index 25600' ddl.dump.* || fail 'no dump file, or it has another index'
grep -qx 'rank 5 on .*: 1 elements wrong' ddl.dump.* || fail 'the dump file names another rank'
echo ok
