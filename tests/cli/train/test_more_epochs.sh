#!/bin/sh
# lockstep train --resume with more epochs: a run that was finished goes on to the bits of one that was
# to have as many from the beginning, unless a schedule depends on their number.
. "$(dirname "$0")/../expect.sh"

cat >"$work/net.yaml" <<'END_OF_NET'
data: {type: glyphs, count: 50, test_count: 16, shape: [8, 8, 1], batch: 16, shards: 4}
model: [flatten, {type: linear, units: 8}, batch_norm, relu, {type: dropout, rate: 0.1}, {type: linear, units: 10}]
loss: softmax_cross_entropy
metrics: [accuracy]
optimizer: {type: sgd, rate: 0.05, momentum: 0.9, schedule: {type: cosine, end: 9}}
train: {epochs: 7}
END_OF_NET

# What is the same in the metrics of two runs.
metrics()
{
    sed 's/, "rate": .*"state"/, "state"/' "$1/metrics.jsonl"
}

status 0 "$lockstep" train --quiet "$work/net.yaml" "train.output=$work/whole"
whole=$(cat "$work/out")
set -- "$work/net.yaml" "train.output=$work/run"
status 0 "$lockstep" train --quiet "$@" train.epochs=2
[ "$(cat "$work/out")" != "$whole" ] || fail 'two epochs are seven'
status 0 "$lockstep" train --resume "$@" train.epochs=5
err 'resumed from the checkpoint of step 8'
if grep -q 'nothing to train' "$work/err"; then fail 'there was something to train'; fi
status 0 "$lockstep" run -n 3 --transport local -- train --quiet --resume "$@"
[ "$(cat "$work/out")" = "$whole" ] || fail "other bits: $(cat "$work/out") instead of $whole"
metrics "$work/whole" >"$work/a"
metrics "$work/run" >"$work/b"
diff "$work/a" "$work/b" >&2 || fail 'other metrics'
cmp -s "$work/whole/weights.safetensors" "$work/run/weights.safetensors" || fail 'other weights'

# Reports count epochs and steps of the whole run, and say from where they count the time.
facts()
{
    tr -d '\n' <"$1/report.html" | sed 's/<[^>]*>/ /g; s/  */ /g'
}
facts "$work/whole" >"$work/out"
out ' epochs 7 steps 28 seconds '
facts "$work/run" >"$work/out"
out ' epochs 7 steps 28 resumed from the checkpoint of step 20 seconds since then '

# So does one that ended within an epoch, of which its last row says what was seen of it.
for ranks in 1 3; do
    rm -rf "$work/part"
    status 0 "$lockstep" run -n $ranks --transport local -- train "$work/net.yaml" "train.output=$work/part" train.steps=6
    grep -Eq '^ +1 +6 ' "$work/out" || fail "$ranks ranks: no row of step 6"
    grep '^ *1 ' "$work/out" | cut -c 1-25 >"$work/rows.$ranks"
    status 0 "$lockstep" train --quiet --resume "$work/net.yaml" "train.output=$work/part"
    [ "$(cat "$work/out")" = "$whole" ] || fail 'after a part, other bits'
    metrics "$work/part" >"$work/b"
    diff "$work/a" "$work/b" >&2 || fail 'after a part, other metrics'
done
cmp -s "$work/rows.1" "$work/rows.3" || fail 'other rows on three ranks'

# Fewer than it has are refused; as many are done at once.
status 2 "$lockstep" train --quiet --resume "$@" train.epochs=6
err 'the checkpoint of step 28 is beyond train.epochs=6, which end with step 24; ask for more epochs'
[ "$(wc -l <"$work/err")" -eq 1 ] || fail 'more than one line'
status 0 "$lockstep" train --quiet --resume "$@"
[ "$(cat "$work/out")" = "$whole" ] || fail 'a run that is finished changes'
err 'the checkpoint is at step 28 and the run ends at step 28: nothing to train'
status 0 "$lockstep" train --quiet --resume "$@" train.steps=6
[ "$(cat "$work/out")" = "$whole" ] || fail 'a run that has more steps than are asked for changes'
err 'the checkpoint is at step 28 and the run ends at step 6: nothing to train'

# Begun anew in the same folder, it goes on from its own checkpoints, not from those before.
status 0 "$lockstep" train "$@" train.epochs=2
err 'checkpoints up to step 28 of the run before are renamed to before-'
[ -d "$work/run/checkpoints/before-000000000028" ] || fail 'the checkpoints before are gone'
status 0 "$lockstep" train --resume "$@" train.epochs=7
err 'resumed from the checkpoint of step 8'
grep -q "$whole" "$work/out" || fail 'begun anew, other bits'
metrics "$work/run" >"$work/b"
diff "$work/a" "$work/b" >&2 || fail 'begun anew, other metrics'
status 0 "$lockstep" train --quiet "$@" train.epochs=1
[ "$(cd "$work/run/checkpoints" && echo before-*)" = 'before-000000000020 before-000000000024 before-000000000028' ] ||
    fail "set aside: $(ls "$work/run/checkpoints")"

# Steps of a schedule that ends with the last epoch depend on it.
rm -rf "$work/run"
status 0 "$lockstep" train --quiet "$@" optimizer.schedule=cosine train.epochs=2
status 2 "$lockstep" train --quiet --resume "$@" optimizer.schedule=cosine train.epochs=3
err 'is of another run'
err 'ends with the last epoch, so another train.epochs is another run'
[ "$(wc -l <"$work/err")" -eq 1 ] || fail 'more than one line'
