#!/bin/sh
# The README is true: its table of layouts is what `lockstep verify` prints, but for the instruction set and
# the seconds; its commands run; its program is the first example, which meta.install compiles; its drawing is
# that of tools/draw-layouts.
. "$(dirname "$0")/../expect.sh"
root=$PWD

# The command behind the dollar sign, which goes on in the next line, and the rows: ranks, layout, state, bits.
rows() { awk '$3 == "local" { print $1, $5, $8, $9 }' "$1"; }
command=$(sed -n '/^\$ lockstep verify/,/^ranks/p' README.md | sed '/^ranks/d; s/^\$ lockstep //' | tr -d '\\\n')
# shellcheck disable=SC2086 # words
status 0 "$lockstep" $command
rows README.md >"$work/shown"
rows "$work/out" >"$work/printed"
[ "$(wc -l <"$work/shown")" -ge 12 ] || fail 'the README compares fewer than a dozen layouts'
diff "$work/shown" "$work/printed" >&2 || fail 'the README shows other states'
grep -qxF "$(tail -n 1 "$work/out")" README.md || fail "not in the README: $(tail -n 1 "$work/out")"

# Commands that train do so for a step, on threads.
sed -n '/^```sh$/,/^```$/ s/^lockstep \([^#]*\).*/\1/p' README.md >"$work/commands"
[ "$(wc -l <"$work/commands")" -eq 4 ] || fail 'cannot read the commands of the README'
while read -r words; do
    case $words in
    run*) words="run --transport local ${words#run} train.steps=1" ;;
    train*) words="$words train.steps=1" ;;
    esac
    # shellcheck disable=SC2086 # words
    status 0 "$lockstep" $words </dev/null
done <"$work/commands"

awk '/^```c$/ { on = 1; next } /^```/ { on = 0 } on' README.md >"$work/program"
sed -n '/^#include/,$p' "$root/examples/01_own_arrays.c" | cmp - "$work/program" || fail 'the program is another one'
awk '/^```text$/ { on = 1; next } /^```/ { on = 0 } on' README.md | cmp - "$root/examples/output/01_own_arrays.txt" ||
    fail 'the program prints something else'
tools/draw-layouts | cmp - docs/layouts.svg || fail 'docs/layouts.svg is another picture: tools/draw-layouts >docs/layouts.svg'
