#!/bin/sh
# lockstep train and eval: learning, files, errors.
. "$(dirname "$0")/../expect.sh"

cat >"$work/small.yaml" <<'END'
data: {type: glyphs, count: 3000, test_count: 200, noise: 0, batch: 50, shards: 4}
model: [flatten, {type: linear, units: 64}, relu, {type: linear, units: 10}]
loss: softmax_cross_entropy
metrics: [accuracy, confusion]
optimizer: {type: adam, rate: 0.01}
train: {epochs: 8}
END

# It learns, and says so in a table, as JSON, and in files.
status 0 "$lockstep" train "$work/small.yaml"
grep -Eq '^ +8 +480 ' "$work/out" || fail 'no row of epoch 8'
awk '$1 == 8 { exit !($5 > 0.4) }' "$work/out" || fail 'it does not learn'
state=$(sed -n 's/^state \([0-9a-f]\{16\}\)$/\1/p' "$work/out")
[ -n "$state" ] || fail 'no state'
err 'parameters, 3000 samples of'
status 0 "$lockstep" train "$work/small.yaml" --json "train.output=$work/run"
"$json" <"$work/out" || fail 'JSON'
out "{\"state\":\"$state\"}"
out '"epoch":8,"step":480,"loss":'
# Each table counts the samples of its own set.
tables=$(tail -n 2 "$work/out" | head -n 1 | grep -o '"confusion":[][0-9,]*' | tr -cs '0-9\n' ' ' |
    awk '{ n = 0; for (i = 1; i <= NF; i++) n += $i; print n }' | tr '\n' ' ')
[ "$tables" = '3000 200 ' ] || fail "tables of confusion over $tables samples"
for file in metrics.jsonl events.out.tfevents.lockstep best.safetensors weights.safetensors report.html; do
    [ -s "$work/run/$file" ] || fail "no $file"
done
"$json" <"$work/run/metrics.jsonl" || fail 'metrics.jsonl'
grep -q '<svg' "$work/run/report.html" || fail 'a report without curves'
[ -z "$(find "$work/run" -name '*.part')" ] || fail 'files that were not completed'
status 0 "$lockstep" train --quiet "$work/small.yaml"
[ "$(cat "$work/out")" = "state $state" ] || fail 'quiet is not one line'
no_err

# What batch norm observes is not in the loss of training, but must be finite too.
{ printf 'a,b,y\n1e35,1,0\n'; yes '1,2,1' | head -n 15; } >"$work/large.csv"
cat >"$work/large.yaml" <<'END'
data: {type: csv, batch: 8, shards: 2}
model: [batch_norm, {type: linear, units: 2}]
loss: softmax_cross_entropy
optimizer: {type: sgd, rate: 0.1}
train: {epochs: 2}
END
status 1 "$lockstep" train "$work/large.yaml" "data.path=$work/large.csv"
err 'after step 1: batch_norm1.variance, which evaluation uses, is not finite at element 0'

# A NaN has no sign, whatever its bits say.
printf '\000\000\300\377\000\000\200\077' >"$work/nan.raw"
printf '\000\001' >"$work/nan.labels"
cat >"$work/nan.yaml" <<END
data: {type: raw, path: $work/nan.raw, dtype: f32, shape: [1], labels: $work/nan.labels, batch: 2, shards: 1}
model: [{type: linear, units: 2}]
loss: softmax_cross_entropy
optimizer: sgd
train: {epochs: 1}
END
status 1 "$lockstep" train "$work/nan.yaml"
err 'step 0: the loss is nan, because the data is not finite: element 0 of x'
status 0 "$lockstep" train "$work/nan.yaml" "data.path=$work/nan.labels" data.dtype=u8 "train.output=$work/nan"
status 0 "$lockstep" eval "$work/nan.yaml" --set train --weights "$work/nan/weights.safetensors"
grep -Eq '^loss +nan$' "$work/out" || fail 'the loss of a NaN'

# A file is no folder for the output.
status 1 "$lockstep" train "$work/small.yaml" "train.output=$work/large.csv"
err "$work/large.csv: cannot be made: it is a file, where a folder is needed"

# The weights give the accuracy that was printed.
status 0 "$lockstep" train "$work/small.yaml"
trained=$(awk '$1 == 8 { print $5 }' "$work/out")
status 0 "$lockstep" eval "$work/small.yaml" "train.output=$work/run"
grep -Eq "^accuracy +$trained" "$work/out" || fail "eval does not give $trained"
status 0 "$lockstep" eval --json --set train --weights "$work/run/best.safetensors" "$work/small.yaml"
"$json" <"$work/out" || fail 'JSON'
out '"samples":3000'
status 2 "$lockstep" eval "$work/small.yaml"
err 'give --weights PATH'
status 1 "$lockstep" eval "$work/small.yaml" --weights "$work/none.safetensors"
status 2 "$lockstep" eval --weights "$work/run/weights.safetensors" "$work/small.yaml" model.1.units=16
err '"linear1.weight"'

# Early stopping, a limit of steps, other precision, a loss that is not finite.
status 0 "$lockstep" train "$work/small.yaml" train.early_stop.patience=1 train.early_stop.change=0.01 optimizer.rate=1e-9 train.epochs=50
err 'stopped early'
status 0 "$lockstep" train "$work/small.yaml" train.steps=5 dtype=f64 train.evaluate=never
grep -Eq '^ +0 +5 +[0-9.]+ ' "$work/out" || fail 'no row of the part of the first epoch'
status 0 "$lockstep" train --json "$work/small.yaml" train.steps=65
"$json" <"$work/out" || fail 'JSON of a part'
grep -Eq '^\{"epoch":1,"step":65,"loss":[0-9.]+,"metrics":\{"train":\{[^{]*"accuracy":[0-9.]+,[^{]*\}\},' "$work/out" ||
    fail 'no row of the part of the second epoch'
status 0 "$lockstep" train --json "$work/small.yaml" train.steps=10 'train.evaluate=5 steps'
[ "$(grep -c '"epoch"' "$work/out")" -eq 2 ] || fail 'a part that was evaluated has two rows'
status 1 "$lockstep" train "$work/small.yaml" optimizer=sgd optimizer.rate=1e30
err 'is not finite'

# The words that mark a state stand behind it everywhere; where there are none, nothing does.
# marked WORDS SETTING...
marked()
{
    words=$1
    shift
    rm -rf "$work/marked"
    status 0 "$lockstep" train --quiet "$work/small.yaml" train.epochs=1 "train.output=$work/marked" "$@"
    state=$(sed -n 's/^state \([0-9a-f]*\).*/\1/p' "$work/out")
    [ "$(cat "$work/out")" = "state $state${words:+ $words}" ] || fail "not marked $words: $(cat "$work/out")"
    grep -q "\"state\": \"$state\"${words:+, \"marks\": \"$words\"}}\$" "$work/marked/metrics.jsonl" ||
        fail "metrics.jsonl is not marked $words"
    grep -q ">$state${words:+ $words}<" "$work/marked/report.html" || fail "report.html is not marked $words"
    status 0 "$lockstep" ckpt inspect "$work/marked/checkpoints"
    [ "$(sed -n 's/^metadata\.marks *//p' "$work/out")" = "$words" ] || fail "the checkpoint is not marked $words"
    status 0 "$lockstep" train --json "$work/small.yaml" train.epochs=1 "$@"
    "$json" <"$work/out" || fail "JSON marked $words"
    [ "$(grep -c "\"state\":\"$state\"${words:+,\"marks\":\"$words\"}}\$" "$work/out")" -eq 2 ] ||
        fail "JSON is not marked $words: $(cat "$work/out")"
}
marked ''
marked fast parallel.mode=fast
marked 'fast bf16' parallel.mode=fast parallel.wire=bf16
marked double_buffering parallel.double_buffering=true
marked 'fast f16 double_buffering' parallel.mode=fast parallel.wire=f16 parallel.double_buffering=true
status 2 "$lockstep" train --quiet --resume "$work/small.yaml" train.epochs=1 "train.output=$work/marked"
err 'parallel.mode, wire or double_buffering differ'

# What does not fit is one line and status 2.
for wrong in 'model.1.units=0' 'model.0=conv' 'data.shards=51' 'loss=mean_squared_error' 'metrics.0=acuracy' \
    'train.early_stop.metric=auc' 'model.1.type=maxpool'; do
    status 2 "$lockstep" train "$work/small.yaml" "$wrong"
    [ "$(wc -l <"$work/err")" -eq 1 ] || fail "not one line: $wrong"
done
status 2 "$lockstep" train "$work/none.yaml"

# Ranks that are threads share what was read of the file, but each has paths of its own.
printf '1,2,0\n2,3,1\n3,4,0\n4,5,1\n' >"$work/rank-0.csv"
set -- parallel.data=2 train.epochs=1 "data={type: csv, path: '$work/rank-{rank}.csv', batch: 4, shards: 4}"
status 1 "$lockstep" train --quiet "$work/small.yaml" "$@"
err 'rank-1.csv: there is no such file'
cp "$work/rank-0.csv" "$work/rank-1.csv"
status 0 "$lockstep" train --quiet "$work/small.yaml" "$@"

# Weights of classes, of more than the 16 items that other lists may have.
cat >"$work/classes.yaml" <<'YAML'
data: {type: glyphs, count: 16, test_count: 0, shape: [8, 8, 1], batch: 8, shards: 2}
model: [flatten, {type: linear, units: 20}]
loss: softmax_cross_entropy
optimizer: sgd
train: {steps: 1}
YAML
ones=1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1
status 0 "$lockstep" train --quiet "$work/classes.yaml"
cp "$work/out" "$work/plain"
status 0 "$lockstep" train --quiet "$work/classes.yaml" "loss={type: softmax_cross_entropy, weights: [$ones,1]}"
cmp -s "$work/out" "$work/plain" || fail 'weights of 1 change the state'
status 0 "$lockstep" train --quiet "$work/classes.yaml" "loss={type: softmax_cross_entropy, weights: [0.5,$ones]}"
! cmp -s "$work/out" "$work/plain" || fail 'weights are not taken'
status 2 "$lockstep" train --quiet "$work/classes.yaml" "loss={type: softmax_cross_entropy, weights: [$ones]}"
err '19 weights, but the model gives 20 classes: one for each'
