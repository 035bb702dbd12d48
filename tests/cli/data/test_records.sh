#!/bin/sh
# Records: sets of all formats are written to many files and read again by folder, pattern and list, with
# the same hash, and trained on to the same state.
. "$(dirname "$0")/../expect.sh"

# the hash that the last command printed, as JSON
hash()
{
    sed -n 's/.*"hash": "\([0-9a-f]*\)".*/\1/p' "$work/out" | uniq
}

# NAME [IN] --type ...: written to three files, packed or not, and read again
through()
{
    name=$1
    shift
    status 0 "$lockstep" data inspect --json "$@"
    first=$(hash | head -n 1)
    for packed in '' --gzip; do
        rm -rf "${work:?}/$name"
        mkdir "$work/$name"
        # shellcheck disable=SC2086 # no option is no word
        status 0 "$lockstep" data convert --json --to tfrecord --files 3 $packed "$@" "$work/$name/set"
        [ "$(hash)" = "$first" ] || fail "$name: another hash was written"
        out "\"path\": \"$work/$name/set-*-of-00003.tfrecord${packed:+.gz}\""
        [ "$(find "$work/$name" -name "set-0000?-of-00003.tfrecord${packed:+.gz}" | wc -l)" -eq 3 ] ||
            fail "$name: not three files"
        for path in "$work/$name" "$work/$name/set-*-of-00003.tfrecord*" "$work/$name/set-*" \
            "$(echo "$work/$name"/set-* | tr ' ' ',')"; do
            status 0 "$lockstep" data inspect --json "$path"
            [ "$(hash)" = "$first" ] || fail "$path: another hash is read"
        done
    done
}
through glyphs --type glyphs count=50 test_count=0
through shapes --type shapes count=20 test_count=0
through fractal --type fractal count=4 test_count=0 shape=40,30,1 classes=3
through volumes --type fractal count=3 test_count=0 shape=12,10,14,1 classes=3
status 0 "$lockstep" data convert --type glyphs count=40 "$work/a.npz"
through npz "$work/a.npz"
status 0 "$lockstep" data convert "$work/a.npz" "$work/a.csv"
through csv "$work/a.csv"
through real "$work/a.csv" real=true double=true
status 0 "$lockstep" data convert "$work/a.csv" "$work/x.npy" --options label=none
through npy "$work/x.npy"
through labels "$work/x.npy" "labels=$work/x.npy"
status 0 "$lockstep" data convert "$work/a.npz" "$work/a idx" --to idx
through idx "$work/a idx"
status 0 "$lockstep" data convert --type glyphs test_count=9 --set test --to idx "$work/a idx"
through mnist --type mnist "$work/a idx"
through tfrecord "$work/npz"
head -c 3000 "$work/a.csv" >"$work/a.raw"
through raw "$work/a.raw" --type raw dtype=i32 shape=5,2
head -c 30730 /dev/zero >"$work/batch.bin"
through cifar10 --type cifar10 "$work/batch.bin"
head -c 30740 /dev/zero >"$work/train.bin"
through cifar100 --type cifar100 "$work/train.bin"
for format in $("$lockstep" list formats | awk '$1 == "format" && $2 != "empty" && $2 != "given" { print $2 }'); do
    [ -d "$work/$format" ] || fail "no set of the format $format was written"
done
status 2 "$lockstep" data convert --type empty samples=5 "$work/empty.tfrecord"
err 'the data is empty: 5 samples without fields, there is nothing to write'

# what the options cannot mean
status 2 "$lockstep" data convert "$work/a.npz" "$work/b.npz" --files 3
err 'the format "npz" is written without options such as files=3 (lockstep data convert: --files, --gzip)'
status 0 "$lockstep" data convert "$work/a.npz" "$work/b.tfrecord" --gzip
out "$work/b.tfrecord.gz "
[ -f "$work/b.tfrecord.gz" ] || fail 'the file has another name'
status 2 "$lockstep" data convert "$work/a.npz" "$work/b.tfrecord" --files 100000
err 'out of range, it must be from 0 to 99999'
status 1 "$lockstep" data convert "$work/a.npz" "$work/none/b.tfrecord" --files 2
err "$work/none/b-00000-of-00002.tfrecord"
rm "$work/glyphs/set-00001-of-00003.tfrecord.gz"
status 1 "$lockstep" data inspect "$work/glyphs"
err "set-00001-of-00003.tfrecord.gz is missing"

# patterns that tell no format, by themselves or by their files
status 1 "$lockstep" data inspect "$work/none-*"
err "$work/none-*: there is no such file or folder; it is a file, a folder, a pattern"
status 2 "$lockstep" data inspect "$work/a.np*"
err 'its name and its first bytes tell no format: name one (lockstep data: --type)'

# one folder with a training set and a test set, told apart by their names
mkdir "$work/both"
for set in train test; do
    status 0 "$lockstep" data convert --type glyphs count=50 test_count=9 --set $set "$work/both/$set.tfrecord" --files 2
done
status 0 "$lockstep" data inspect --json --type glyphs count=50 test_count=9
grep -o '"set": "[a-z]*"\|"samples": [0-9]*\|"hash": "[0-9a-f]*"' "$work/out" >"$work/generated"
status 0 "$lockstep" data inspect --json "$work/both"
grep -o '"set": "[a-z]*"\|"samples": [0-9]*\|"hash": "[0-9a-f]*"' "$work/out" | diff -u "$work/generated" - ||
    fail 'a folder has other sets'
cp "$work/both/test-00000-of-00002.tfrecord" "$work/both/test.tfrecord"
status 1 "$lockstep" data inspect "$work/both"
err "$work/both/test-00001-of-00002.tfrecord and $work/both/test.tfrecord: both are"

# damaged records: an error that says where, or left out on request, told and counted
status 0 "$lockstep" data convert --type glyphs count=60 "$work/d.tfrecord" --files 2
damaged=$work/d-00001-of-00002.tfrecord
size=$(($(wc -c <"$damaged") / 30))
printf '\377\377\377' | dd of="$damaged" bs=1 seek=$((7 * size + 40)) conv=notrunc 2>"$work/dd"
printf '\377\377\377' | dd of="$damaged" bs=1 seek=$((20 * size + 1)) conv=notrunc 2>"$work/dd"
status 1 "$lockstep" data inspect "$work/d-*.tfrecord"
err "$damaged: record 20, offset $((20 * size)): the checksum of the record's length is wrong"
status 0 "$lockstep" data inspect --json "$work/d-*.tfrecord" damaged=skip
"$json" <"$work/out" || fail 'no JSON'
out '"samples": 58, "classes": 10'
out '"skipped": 1, "gaps": 1}'
err "left out: 1; places where no record can be found: 1; the first: $damaged: record 7, offset $((7 * size))"
cat >"$work/d.yaml" <<END
data: {type: tfrecord, path: "$work/d-*.tfrecord", damaged: skip, batch: 8, shards: 4}
model: [flatten, {type: linear, units: 10}]
loss: softmax_cross_entropy
optimizer: {type: sgd, rate: 0.1}
train: {epochs: 1, output: $work/run}
END
status 0 "$lockstep" train "$work/d.yaml"
err 'damaged records that are left out: 1'
grep -q '"skipped": 1, "gaps": 1' "$work/run/metrics.jsonl" || fail 'the metrics say nothing of it'
status 1 "$lockstep" train "$work/d.yaml" data.damaged=error
err "$damaged: record 20"
status 2 "$lockstep" train "$work/d.yaml" data.damaged=ignore
err 'is none of error skip'
