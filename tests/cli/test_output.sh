#!/bin/sh
# Output that cannot be written is noticed; logs have no escape sequences.
# shellcheck disable=SC2086 # some variables are several words
. "$(dirname "$0")/expect.sh"

for command in '--help' '--version' 'list' 'info --json'; do
    status 0 "$lockstep" $command
    no_err
    if grep -q "$(printf '\033')" "$work/out"; then fail "escape sequences in a file: $command"; fi
    "$lockstep" $command >&- 2>"$work/err"
    [ $? -eq 1 ] || fail "a closed stdout is not noticed: $command"
    err 'cannot write to standard output'
    [ -w /dev/full ] || continue
    "$lockstep" $command >/dev/full 2>"$work/err"
    [ $? -eq 1 ] || fail "a full disk is not noticed: $command"
    err 'cannot write to standard output: No space left on device'
done

# a file that is written does not take the place of a closed stdout
"$lockstep" selfcheck --threads 1 --isa scalar --write-golden "$work/golden" >&- 2>"$work/err"
[ $? -eq 1 ] || fail 'a closed stdout is not noticed: selfcheck'
cmp -s "$work/golden" tests/golden/selfcheck.txt || fail 'the table went into the golden file'

# a reader that goes away: a message and status 1, not death by a signal
{
    "$lockstep" list kernels 2>"$work/err"
    echo $? >"$work/out"
} | true
[ "$(cat "$work/out")" -le 1 ] || fail 'a closed pipe'
