#!/bin/sh
# DDL's example on eight ranks: it learns Fashion-MNIST where that is installed, else the glyphs, and two
# runs of it have the same parameters to the bit.
#
#   tests/examples/ddl_learns.sh PROGRAM
set -eu
export LK_DEADLINE=600
least=0.84 data=
[ -d "${LK_DATASETS-/usr/share/datasets}/fashion-mnist" ] || {
    least=0.94 data='--format glyphs'
}
# shellcheck disable=SC2086 # words, or none
first=$("$1" --ranks 8 --ddl '-mode n:4x2' --steps 150 --batch 50 $data)
echo "$first"
accuracy=$(echo "$first" | sed -n 's/.*test images \([0-9.]*\),.*/\1/p')
echo "$accuracy" | awk -v least="$least" '{ exit !($1 >= least) }' || { echo "FAIL: not $least"; exit 1; }
# Another way to sum has the same bits.
# shellcheck disable=SC2086
second=$("$1" --ranks 8 --ddl '-mode c:2x2x2' --steps 150 --batch 50 $data)
[ "$first" = "$second" ] || { echo "FAIL: another mode has other bits: $second"; exit 1; }
