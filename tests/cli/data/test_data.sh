#!/bin/sh
# lockstep data: sets are shown and written in other formats, with the same content.
. "$(dirname "$0")/../expect.sh"

status 0 "$lockstep" data --help
out 'usage: lockstep data'
out 'inspect'
status 0 "$lockstep" data convert --help
out '[IN] OUT'
status 2 "$lockstep" data
err 'say which kind first'
status 2 "$lockstep" data inspekt
err 'did you mean "inspect"?'

# a generated set, as text and as JSON
status 0 "$lockstep" data inspect --type glyphs --options 'count=50 test_count=20'
out 'glyphs: generated images'
[ "$(grep -c '^train ' "$work/out")" -eq 2 ] || fail 'not two fields of the training set'
grep -Eq '^test +y +i64 +\[\] +20 +10 ' "$work/out" || fail 'no labels of the test set'
status 0 "$lockstep" data inspect --type glyphs --options 'count=50 test_count=0' --json
"$json" <"$work/out" || fail 'no JSON'
out '"set": "train", "field": "x", "dtype": "u8", "shape": "[28,28,1]", "samples": 50'
out '"field": "y", "dtype": "i64", "shape": "[]", "samples": 50, "classes": 10, "min": 0'
hash=$(sed -n 's/.*"hash": "\([0-9a-f]*\)".*/\1/p' "$work/out" | uniq)
[ ${#hash} -eq 16 ] || fail 'not one hash'

# formats that hold all of it keep the hash, on the way through each
status 0 "$lockstep" data convert --type glyphs --options 'count=50' "$work/a.npz" --json
"$json" <"$work/out" || fail 'no JSON'
out "\"samples\": 50, \"hash\": \"$hash\""
status 0 "$lockstep" data convert "$work/a.npz" "$work/a.tfrecord"
out "$hash"
status 0 "$lockstep" data convert "$work/a.tfrecord" "$work/a idx" --to idx
status 0 "$lockstep" data convert "$work/a idx" "$work/b.npz"
out "$hash"
cmp "$work/a.npz" "$work/b.npz" || fail 'the way through three formats changed the file'
status 0 "$lockstep" data convert "$work/a.npz" "$work/a.csv"
status 0 "$lockstep" data inspect "$work/a.csv"
grep -Eq '^train +x +f32 +\[784\] +50 ' "$work/out" || fail 'no table of 784 columns'
status 0 "$lockstep" data convert "$work/a.csv" "$work/x.npy" --options 'label=none'
status 0 "$lockstep" data inspect "$work/x.npy"
grep -Eq '^train +x +f32 +\[785\] +50 ' "$work/out" || fail 'no array of 785 columns'

# a NaN has no sign, whatever its bits say; in JSON it is null
printf '\000\000\300\377\000\000\200\077' >"$work/nan.raw"
status 0 "$lockstep" data inspect "$work/nan.raw" --type raw --options 'dtype=f32 shape=1'
grep -q ' nan ' "$work/out" || fail 'no mean that is no number'
! grep -q -e '-nan' "$work/out" || fail 'a NaN with a sign'
status 0 "$lockstep" data inspect --json "$work/nan.raw" --type raw --options 'dtype=f32 shape=1'
out '"mean": null'

# an empty set has a number of samples and no fields: it is shown, but not written
status 0 "$lockstep" data inspect --type empty samples=60000 test_samples=10000
out 'empty: a number of samples and nothing in them'
grep -Eq '^train +- +- +- +60000 +- +- +- +- +[0-9a-f]{16}$' "$work/out" || fail 'no empty training set'
grep -Eq '^test +- +- +- +10000 ' "$work/out" || fail 'no empty test set'
status 0 "$lockstep" data inspect --type empty samples=60000 --json
"$json" <"$work/out" || fail 'no JSON'
[ "$(wc -l <"$work/out")" -eq 1 ] || fail 'a test set of no samples'
out '{"set": "train", "samples": 60000, "hash": '
status 2 "$lockstep" data convert --type empty samples=60000 "$work/e.npz"
err "$work/e.npz: the data is empty: 60000 samples without fields, there is nothing to write"
status 2 "$lockstep" data inspect --type empty
err 'samples'
[ ! -e "$work/e.npz" ] || fail 'an empty set was written'

# sets that are not there, files that are none
status 2 "$lockstep" data convert "$work/a.npz" "$work/b.npz" --set test
err 'it has no test set'
status 2 "$lockstep" data convert "$work/a.npz" "$work/b.npy"
err '.npy holds one field'
status 2 "$lockstep" data convert "$work/a.npz" "$work/b.xyz"
err 'tells no format to write: name one (lockstep data convert: --to)'
echo 'no numbers' >"$work/strange.xyz"
status 2 "$lockstep" data inspect "$work/strange.xyz"
err 'tell no format: name one (lockstep data: --type)'
status 2 "$lockstep" data convert "$work/strange.xyz" "$work/b.npz"
err 'tell no format: name one (lockstep data: --type)'
status 2 "$lockstep" data convert "$work/a.npz" "$work/b" --to glyphs
err 'is only read, not written'
status 1 "$lockstep" data inspect "$work/none"
err "$work/none: there is no such file or folder"
status 2 "$lockstep" data inspect
err 'name a file or folder'
status 2 "$lockstep" data inspect "$work/a.npz" --type nzp
err 'did you mean "npz"?'
status 2 "$lockstep" data inspect --type glyphs "$work/a.npz"
err 'reads no file'
head -c 1000 "$work/a.tfrecord" >"$work/cut.tfrecord"
status 1 "$lockstep" data inspect "$work/cut.tfrecord"
err "$work/cut.tfrecord: record 1, offset "
status 0 "$lockstep" data inspect --type raw "$work/a.npz" --options 'dtype=u8 shape=2'
grep -Eq '^train +x +u8 +\[2\] ' "$work/out" || fail 'no raw bytes'

# without files, a message and glyphs
LK_DATASETS="$work" status 0 "$lockstep" data convert --type mnist "$work/t.npz" --set test
no_err
LK_DATASETS="$work" status 0 "$lockstep" data convert --type mnist "$work/t.npz"
err 'warning: mnist: no path is given'

# A mistake is one line, without a trace.
status 2 "$lockstep" data inspect --type glyphs "$work"
[ "$(wc -l <"$work/err")" -eq 1 ] || fail 'more than a line'

# real targets in records: trained where the loss takes them, refused with the reason where it does not
printf 'a,b,y\n1,2,0.5\n2,1,-1.25\n3,3,2\n' >"$work/real.csv"
status 0 "$lockstep" data convert --options real=true "$work/real.csv" "$work/real.tfrecord"
real=$(awk 'END { print $3 }' "$work/out")
status 0 "$lockstep" data inspect "$work/real.tfrecord"
out "$real"
cat >"$work/real.yaml" <<END
data: {type: tfrecord, path: $work/real.tfrecord, batch: 3, shards: 1}
model: [{type: linear, units: 1}, {type: reshape, shape: []}]
loss: mean_squared_error
optimizer: {type: sgd, rate: 0.01}
train: {epochs: 1}
END
status 0 "$lockstep" train --quiet "$work/real.yaml"
state=$(cat "$work/out")
status 0 "$lockstep" train --quiet "$work/real.yaml" \
    "data={type: csv, path: $work/real.csv, real: true, batch: 3, shards: 1}"
[ "$(cat "$work/out")" = "$state" ] || fail 'other bits from records'
status 2 "$lockstep" train "$work/real.yaml" loss=softmax_cross_entropy 'model=[{type: linear, units: 3}]'
err 'softmax_cross_entropy: the targets are real numbers, f32[], but the model gives [3] for a sample'

# options as operands, in any place; a path that looks like one is told from it by its folder
status 0 "$lockstep" data convert --type glyphs count=50 "$work/operand.npz"
out "$hash"
status 0 "$lockstep" data convert --type glyphs "$work/operand.npz" count=30 seed=2
grep -Eq 'operand.npz +30 ' "$work/out" || fail 'not thirty samples'
status 0 "$lockstep" data inspect --type glyphs count=20 test_count=0
[ "$(grep -c ' 20 ' "$work/out")" -eq 2 ] || fail 'not twenty samples'
printf '1,2,0\n3,4,1\n' >"$work/two words.csv"
status 0 "$lockstep" data inspect --type csv "path=$work/two words.csv" "test=$work/two words.csv"
[ "$(grep -c '^test ' "$work/out")" -eq 2 ] || fail 'no test set'
(cd "$work" && status 0 "$lockstep" data convert --type glyphs count=5 ./count=7.npz) || exit 1
[ -s "$work/count=7.npz" ] || fail 'no file of that name'
status 2 "$lockstep" data inspect --type glyphs cuont=20
err 'did you mean "count"?'
status 2 "$lockstep" data inspect --type glyphs 'a b=20'
status 2 "$lockstep" data convert --type glyphs count=5
err 'OUT, the file to write, is missing'
status 2 "$lockstep" data convert a.npz b.npz c.npz
err 'there is nothing to do with "c.npz"'

# a set of a folder of IDX is written beside the other, which stays
status 0 "$lockstep" data convert --type glyphs count=40 test_count=9 --to idx "$work/both"
cp "$work/both/train-images-idx3-ubyte" "$work/train-before"
status 0 "$lockstep" data convert --type glyphs count=40 test_count=9 --set test --to idx "$work/both"
test=$(awk 'END { print $3 }' "$work/out")
cmp "$work/train-before" "$work/both/train-images-idx3-ubyte" || fail 'the training set was replaced'
status 0 "$lockstep" data inspect "$work/both"
grep -Eq '^train +x .* 40 ' "$work/out" || fail 'no training set'
grep -Eq "^test +y .* 9 .*$test" "$work/out" || fail 'no test set of that hash'
status 0 "$lockstep" data convert --type glyphs test_count=9 --set test --to idx "$work/alone"
status 0 "$lockstep" data inspect "$work/alone"
out "$test"
! grep -q '^train' "$work/out" || fail 'a training set'
status 2 "$lockstep" data convert --type glyphs --set validation --to idx "$work/alone"
