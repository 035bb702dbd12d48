#!/bin/sh
# An example prints exactly what the file beside it says, on every machine, and if it has ranks, on
# any number of them.
#
#   tests/example.sh PROGRAM EXPECTED [openmpi|mpich "RANKS..."]        77: cannot run here
#
# EMULATOR, if set, is the command that runs a program for another processor, ARGUMENTS the words that
# it is given.
set -eu
printed=$(mktemp)
trap 'rm -f "$printed"' EXIT
if [ $# -eq 2 ]; then
    # shellcheck disable=SC2086 # a command with arguments
    ${EMULATOR-} "$1" ${ARGUMENTS-} >"$printed" || { echo "$1 failed"; exit 1; }
    diff -u "$2" "$printed"
    exit
fi
for n in $4; do
    # shellcheck disable=SC2086 # several words
    "$(dirname "$0")/dist/run.sh" "$3" "$n" "$1" ${ARGUMENTS-} >"$printed" || {
        status=$?
        cat "$printed"
        echo "$1 failed on $n ranks"
        exit $status
    }
    diff -u "$2" "$printed" || { echo "$1 prints something else on $n ranks"; exit 1; }
done
