#!/bin/sh
# Metrics: what they are for, and those that are tables.
. "$(dirname "$0")/../expect.sh"

# Real targets that are to be met are no classes, whatever the metric of classes.
head -c 96 /dev/zero >"$work/x.raw" # twelve samples of two numbers
yes | head -c 96 >"$work/y.raw"
cat >"$work/line.yaml" <<END
data: {type: raw, path: $work/x.raw, dtype: f32, shape: [2], labels: $work/y.raw,
    label_dtype: f32, label_shape: [2], test: $work/x.raw, test_labels: $work/y.raw,
    batch: 8, shards: 2}
model: [{type: linear, units: 2}]
loss: mean_squared_error
optimizer: {type: sgd, rate: 0.001}
train: {epochs: 2}
END
status 0 "$lockstep" train "$work/line.yaml" "train.output=$work/line"
for metric in accuracy misclassification '{type: top_k, k: 1}' confusion auc dice iou; do
    status 2 "$lockstep" train "$work/line.yaml" "metrics=[$metric]"
    err 'is for classes, but the targets of'
    err 'are real numbers, f32[2], that mean_squared_error is to meet; leave the metric out'
    [ "$(wc -l <"$work/err")" = 1 ] || fail 'more than a line'
done
status 2 "$lockstep" eval "$work/line.yaml" "train.output=$work/line" 'metrics=[accuracy]'
err 'metric accuracy is for classes'
# Probabilities are.
status 0 "$lockstep" train "$work/line.yaml" loss=softmax_cross_entropy 'metrics=[accuracy]'

# One number is no choice either.
printf 'a,b,y\n1,2,0\n2,1,0\n' >"$work/one.csv"
status 2 "$lockstep" train "$work/line.yaml" 'model=[{type: linear, units: 1}]' \
    "data={type: csv, path: $work/one.csv, batch: 2, shards: 1}" 'metrics=[accuracy]' \
    loss=softmax_cross_entropy
err 'accuracy: the model gives [1] for a sample, no classes to choose from'

# Labels as vectors are classes, with any loss.
cat >"$work/few.yaml" <<'END'
data: {type: glyphs, count: 400, test_count: 90, noise: 0, batch: 50, shards: 4}
model: [flatten, {type: linear, units: 10}]
loss: softmax_cross_entropy
metrics: [confusion, accuracy]
optimizer: {type: adam, rate: 0.01}
train: {epochs: 2}
END
status 0 "$lockstep" train "$work/few.yaml" loss=mean_squared_error data.one_hot=true

# Real learning: of positions that only their neighbours tell apart, the preset's U-Net finds nearly all
# on images that it has not seen, which a model that looks at one position does not.
# dice_of ASSIGNMENT...: of the test set after an epoch.
dice_of()
{
    status 0 "$lockstep" train --json experiments/unet.yaml train.epochs=1 "$@"
    dice=$(sed -n 's/.*"test":{[^}]*"dice":\([0-9.]*\).*/\1/p' "$work/out")
    [ -n "$dice" ] || fail 'no Dice'
}

# is EXPRESSION: of numbers, for awk.
is()
{
    awk "BEGIN { exit !($1) }"
}
dice_of
is "$dice >= 0.9" || fail "Dice $dice of the U-Net, not 0.9"
dice_of 'model=[{type: conv, filters: 2, kernel: 1}]'
is "$dice < 0.85" || fail "Dice $dice of a model of one position: too easy to show anything"

# Confusion is a table: no column, no curve, no number in any file; its table is in the report.
status 0 "$lockstep" train "$work/few.yaml" "train.output=$work/run"
head -n 1 "$work/out" | grep -Eq '^epoch +step +loss +test loss +accuracy +samples/s$' ||
    fail 'other columns'
grep -q confusion "$work/run/metrics.jsonl" && fail 'a number of confusion'
grep -q 'test/accuracy' "$work/run/metrics.jsonl" || fail 'no accuracy'
grep -aq confusion "$work/run/events.out.tfevents.lockstep" && fail 'a scalar of confusion'
[ "$(grep -o '<svg' "$work/run/report.html" | wc -l)" = 2 ] || fail 'not two charts'
grep -q 'class="confusion"' "$work/run/report.html" || fail 'a report without its table'
status 2 "$lockstep" train "$work/few.yaml" train.early_stop.metric=confusion
err 'metric of train.early_stop: "confusion" is a table, without a number to improve'

# Resumed, the curves go on without it.
status 0 "$lockstep" train --resume "$work/few.yaml" "train.output=$work/run" train.epochs=3
[ "$(grep -o '<svg' "$work/run/report.html" | wc -l)" = 2 ] || fail 'not two charts when resumed'

# eval prints the table: ten rows with the number of their label, of all samples.
status 0 "$lockstep" eval "$work/few.yaml" "train.output=$work/run"
cp "$work/out" "$work/text"
out 'confusion: rows are labels, columns what they were taken for'
[ "$(grep -c '^confusion' "$work/out")" = 1 ] || fail 'a number of confusion'
all=$(sed '1,/^confusion/d' "$work/out" | awk 'NR > 1 { if ($1 != NR - 2 || NF != 11) exit 1
    for (i = 2; i <= NF; i++) n += $i } END { print NR, n }')
[ "$all" = '11 90' ] || fail "the table: $all"
status 0 "$lockstep" eval --json "$work/few.yaml" "train.output=$work/run"
"$json" <"$work/out" || fail 'JSON'
rows=$(grep -o '"confusion":\[\[[][0-9,]*\]\]' "$work/out" | tr '][' '\n\n' | grep -c '^[0-9]')
[ "$rows" = 10 ] || fail 'a table of ten rows in JSON'
[ "$(grep -o '"confusion":[][0-9,]*' "$work/out" | tr -cs '0-9\n' ' ')" = \
    "$(sed '1,/^confusion/d' "$work/text" | sed 1d | sed 's/^ *[0-9]* *//' | tr -s ' \n' '  ' |
    sed 's/^/ /')" ] || fail 'other numbers in JSON'
