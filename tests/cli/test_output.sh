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
