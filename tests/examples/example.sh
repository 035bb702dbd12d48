#!/bin/sh
# An example prints exactly what the file beside it says, on every machine, and if it has ranks, on
# any number of them.
#
#   tests/examples/example.sh PROGRAM EXPECTED [openmpi|mpich "RANKS..."]        77: cannot run here
#
# EMULATOR, if set, is the command that runs a program for another processor, ARGUMENTS the words that
# it is given, as a shell reads them.
set -eu
printed=$(mktemp)
trap 'rm -f "$printed"' EXIT
program=$1 expected=$2 mpi=${3-} ranks=${4-}
eval "set -- ${ARGUMENTS-}"
if [ -z "$mpi" ]; then
    # shellcheck disable=SC2086 # a command with arguments
    ${EMULATOR-} "$program" "$@" >"$printed" || { echo "$program failed"; exit 1; }
    diff -u "$expected" "$printed"
    exit
fi
for n in $ranks; do
    "$(dirname "$0")/../dist/run.sh" "$mpi" "$n" "$program" "$@" >"$printed" || {
        status=$?
        cat "$printed"
        echo "$program failed on $n ranks"
        exit $status
    }
    diff -u "$expected" "$printed" || { echo "$program prints something else on $n ranks"; exit 1; }
done
