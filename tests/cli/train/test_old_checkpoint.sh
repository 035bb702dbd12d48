#!/bin/sh
# A checkpoint from before hashes had a format, written by the program of that time: it is verified
# by its checksums, shows its state as it was recorded, and a run goes on from it: its identity was made
# that of the numerics epoch now, for a run does not go on into another epoch.
. "$(dirname "$0")/../expect.sh"

old=$tests/data/checkpoint-format-1
state=17fd98b816c0e541

status 0 "$lockstep" ckpt inspect "$old"
no_err
grep -Eq '^part-00000.safetensors +1776 +a37c1f186bc44e18 +7 +ok *$' "$work/out" || fail 'the part'
grep -Eq "^state +$state\$" "$work/out" || fail 'the state is not as it was recorded'
grep -Eq '^hash +1$' "$work/out" || fail 'no format'

status 0 "$lockstep" ckpt export "$old" "$work/old.safetensors"
status 0 "$lockstep" ckpt hash --json "$old" "$work/old.safetensors"
"$json" <"$work/out" || fail 'no JSON'
[ "$(cut -d'"' -f4 "$work/out" | uniq | wc -l)" -eq 1 ] || fail 'two hashes for the same tensors'
out "\"state\": \"$state\", \"format\": 1, \"tensors\": 7"

# What follows are the steps of a run that was never interrupted.
status 0 "$lockstep" train --quiet "$old/experiment.yaml"
cp "$work/out" "$work/whole"
mkdir "$work/run"
cp -R "$old/step-000000000004" "$work/run"
status 0 "$lockstep" train --quiet --resume "$old/experiment.yaml" "train.checkpoint.folder=$work/run"
cmp -s "$work/out" "$work/whole" || fail 'another state than without an interruption'
rm -r "$work/run"
mkdir "$work/run"
cp -R "$old/step-000000000004" "$work/run"
status 0 "$lockstep" run -n 3 --transport local -- train --quiet --resume "$old/experiment.yaml" \
    "train.checkpoint.folder=$work/run"
cmp -s "$work/out" "$work/whole" || fail 'another state on three ranks'
status 0 "$lockstep" ckpt hash "$work/run"
grep -Eq "^[0-9a-f]{16} +$(cut -d' ' -f2 "$work/whole") +2 +7 " "$work/out" || fail 'not of format 2'

# One bit that changed is found without the hash.
cp -R "$old" "$work/damaged"
printf x | dd of="$work/damaged/step-000000000004/part-00000.safetensors" bs=1 seek=700 conv=notrunc \
    2>"$work/dd" || fail 'dd'
status 1 "$lockstep" ckpt hash "$work/damaged"
err 'part-00000.safetensors: offset '
