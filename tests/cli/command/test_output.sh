#!/bin/sh
# Output that cannot be written is noticed; logs have no escape sequences.
# shellcheck disable=SC2086 # some variables are several words
. "$(dirname "$0")/../expect.sh"

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

# A reader that goes away ends what only prints, quietly and as other programs: 128 + SIGPIPE.
# left WORD...: the command, with its status in $work/out, behind a reader that has left.
left()
{
    rm -f "$work/gone"
    {
        while [ ! -e "$work/gone" ]; do sleep 0.01; done
        "$lockstep" "$@" 2>"$work/err"
        echo $? >"$work/out"
    } | {
        exec <&-
        : >"$work/gone"
    }
}
for command in 'list' 'list --markdown' 'list kernels --json' 'train --help'; do
    left $command
    out 141
    no_err
done
left run -n 2 --transport local -- gradcheck recv
out 1
[ "$(wc -l <"$work/err")" -eq 1 ] || fail 'more than where the ranks are'

# It does not end training, whose work is in files.
cat >"$work/net.yaml" <<'YAML'
data: {type: glyphs, count: 320, test_count: 0, batch: 32, shards: 4}
model: [flatten, {type: linear, units: 10}]
loss: softmax_cross_entropy
optimizer: {type: sgd, rate: 0.05}
train: {epochs: 200}
YAML
for how in '' 'run -n 2 --transport local --'; do
    rm -rf "$work/run"
    left $how train --json "$work/net.yaml" "train.output=$work/run"
    out 0
    if grep -q error "$work/err"; then fail 'an error, behind a reader that has left'; fi
    [ "$(grep -c "\"epoch\"" "$work/run/metrics.jsonl")" -eq 200 ] || fail 'training ended with its reader'
    [ -e "$work/run/report.html" ] || fail 'no report'
done
[ -w /dev/full ] || exit 0
"$lockstep" train "$work/net.yaml" >/dev/full 2>"$work/err"
[ $? -eq 1 ] || fail 'a full disk is not noticed: train'
err 'cannot write to standard output: No space left on device'

# The progress line is on the stream of the rows if both end on a terminal, or launchers would mix them;
# it fits, and it is taken off the screen before a row.
escape=$(printf '\033')
bars()
{
    tr '\r' '\n' <"$work/$1" | sed -n "s/^$escape\[K\(\[[#.]*\] .*\)/\1/p"
}
long='train.epochs=1000 train.steps=3000'
status 0 env TERM=xterm LK_TERMINAL='60 both' "$lockstep" train "$work/net.yaml" $long
no_err
[ "$(bars out | wc -l)" -ge 1 ] || fail 'there is no progress line with the rows'
[ "$(bars out | awk '{ if (length > n) n = length } END { print n }')" -le 59 ] || fail 'it is too long'
tr '\r' '\n' <"$work/out" | grep -q "^\[.*%.*state" && fail 'a row is behind the progress line'
status 0 env TERM=xterm LK_TERMINAL=60 "$lockstep" train "$work/net.yaml" $long
[ "$(bars err | wc -l)" -ge 1 ] || fail 'there is no progress line on stderr'
if grep -q "$escape" "$work/out"; then fail 'the progress line is in a file of rows'; fi
