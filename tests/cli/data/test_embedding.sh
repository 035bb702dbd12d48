#!/bin/sh
# Models that take whole numbers, from files of each format: the same bits from all of them.
. "$(dirname "$0")/../expect.sh"

# Forty samples of six numbers below 12; the class is whether the first is odd.  Raw bytes, then as i32 and
# as i64, of which the other formats are made.
awk 'BEGIN { for (i = 0; i < 240; i++) print int((i * 7 + int(i / 6) * 5) % 12) }' >"$work/numbers"
bytes() # ZEROS behind each number
{
    awk -v zeros="$1" '{ printf "\\%03o", $1; for (k = 0; k < zeros; k++) printf "\\000" }' \
        "$work/numbers"
}
# shellcheck disable=SC2059 # the bytes are a format
for zeros in 0 3 7; do printf "$(bytes $zeros)" >"$work/x$zeros.raw"; done
# shellcheck disable=SC2059
printf "$(awk 'NR % 6 == 1 { printf "\\%03o", $1 % 2 }' "$work/numbers")" >"$work/y.raw"
raw="shape=6 labels=$work/y.raw label_dtype=u8"
status 0 "$lockstep" data convert --type raw --options "dtype=i64 $raw" "$work/x7.raw" "$work/set.npz"
hash=$(awk 'END { print $3 }' "$work/out")
status 0 "$lockstep" data convert "$work/set.npz" "$work/set.tfrecord"
out "$hash"
status 0 "$lockstep" data inspect --json "$work/set.tfrecord"
out '"field": "x", "dtype": "i64", "shape": "[6]", "samples": 40'
out "$hash"
status 0 "$lockstep" data convert "$work/set.npz" "$work/set.csv"
status 0 "$lockstep" data convert --type raw --options "dtype=i64 shape=6" "$work/x7.raw" "$work/x.npy"
status 0 "$lockstep" data convert --type raw --options "dtype=u8 shape=1" "$work/y.raw" "$work/y.npy"

cat >"$work/words.yaml" <<END
data: {type: npz, path: $work/set.npz, test: $work/set.npz, batch: 16, shards: 4}
model: [{type: embedding, rows: 12, units: 5}, flatten, {type: linear, units: 2}]
loss: softmax_cross_entropy
metrics: [accuracy]
optimizer: {type: adam, rate: 0.05}
train: {epochs: 6}
END
status 0 "$lockstep" train "$work/words.yaml" "train.output=$work/run"
awk '$1 == 6 { exit !($5 > 0.9) }' "$work/out" || fail 'it does not learn'
state=$(sed -n 's/^state //p' "$work/out")
score=$(awk '$1 == 6 { print $4, $5 }' "$work/out")
for data in "type: csv, path: $work/set.csv" \
    "type: tfrecord, path: $work/set.tfrecord" \
    "type: npy, path: $work/x.npy, labels: $work/y.npy" \
    "type: raw, path: $work/x0.raw, dtype: u8, shape: [6], labels: $work/y.raw" \
    "type: raw, path: $work/x3.raw, dtype: i32, shape: [6], labels: $work/y.raw" \
    "type: raw, path: $work/x7.raw, dtype: i64, shape: [6], labels: $work/y.raw" \
    "type: npz, path: $work/set.npz, normalise: none"; do
    status 0 "$lockstep" train --quiet "$work/words.yaml" "data={$data, batch: 16, shards: 4}"
    [ "$(cat "$work/out")" = "state $state" ] || fail "other bits from $data"
done

# Evaluated, verified, and on ranks.
status 0 "$lockstep" eval "$work/words.yaml" "train.output=$work/run"
[ "$score" = "$(awk '/^loss/ { l = $2 } /^accuracy/ { printf "%.4f %.4f", l, $2 }' "$work/out")" ] ||
    fail 'eval has another score'
status 0 "$lockstep" verify "$work/words.yaml" --ranks 1,2,3 --steps 5
status 0 "$lockstep" run -n 3 --transport local -- train --quiet "$work/words.yaml" \
    "data={type: tfrecord, path: $work/set.tfrecord, batch: 16, shards: 4}"
[ "$(cat "$work/out")" = "state $state" ] || fail 'other bits on ranks'

# Layers that only reshape may come first.
status 0 "$lockstep" train --quiet "$work/words.yaml" \
    'model=[{type: reshape, shape: [2, 3]}, flatten, {type: embedding, rows: 12, units: 5}, flatten, {type: linear, units: 2}]'

# Numbers that are not there, not whole, or to be normalised; the first batch that has one is refused.
status 1 "$lockstep" train "$work/words.yaml" model.0.rows=11
err 'set.npz, train set: sample '
err ' has the value 11 at element '
err ', but the model takes 0 to 10'
status 1 "$lockstep" train "$work/words.yaml" model.0.rows=11 parallel.data=3
err ' has the value 11 at element '
status 2 "$lockstep" train "$work/words.yaml" data.normalise=unit
err 'the model takes whole numbers, which are not normalised'
sed '3s/^[0-9]*,/2.5,/' "$work/set.csv" >"$work/half.csv"
status 1 "$lockstep" train "$work/words.yaml" \
    "data={type: csv, path: $work/half.csv, batch: 16, shards: 4}"
err 'half.csv, train set: sample 1 has the value 2.5 at element 0, but the model takes whole numbers'

# The set is named, also where all of them are in one file.
sed '3s/^[0-9]*,/12,/' "$work/set.csv" >"$work/more.csv"
for data in "path: $work/set.csv, test: $work/more.csv" "path: $work/more.csv, validation: 39"; do
    set='test'
    [ "${data%39}" = "$data" ] || set=validation
    status 1 "$lockstep" train "$work/words.yaml" "data={type: csv, $data, batch: 16, shards: 4}"
    grep -q "more.csv, $set set: sample [0-9]* has the value 12 at element 0" "$work/err" || fail "no $set set"
done
