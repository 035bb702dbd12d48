#!/bin/sh
# An example prints exactly what the file beside it says, on every machine.
#
#   tests/example.sh PROGRAM EXPECTED
set -eu
printed=$(mktemp)
trap 'rm -f "$printed"' EXIT
"$1" >"$printed" || { echo "$1 failed"; exit 1; }
diff -u "$2" "$printed"
