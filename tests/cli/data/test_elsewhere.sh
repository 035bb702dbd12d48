#!/bin/sh
# Files of the command open in NumPy and in protobuf, and NumPy's open here.
. "$(dirname "$0")/../expect.sh"
data=$tests/data
python=/usr/bin/python3
if ! $python -c 'import numpy' 2>/dev/null; then
    echo "SKIPPED: $python has no NumPy (Debian: python3-numpy)"
    exit 77
fi
if ! command -v protoc >/dev/null; then
    echo 'SKIPPED: there is no protoc (Debian: protobuf-compiler)'
    exit 77
fi

# NumPy's archives, stored and compressed, hold the same set
$python "$data/elsewhere.py" write "$work" || fail 'NumPy cannot write'
hashes=''
for file in plain packed; do
    status 0 "$lockstep" data inspect "$work/$file.npz" --json
    out '"field": "x", "dtype": "u8", "shape": "[2,3]", "samples": 5'
    out '"field": "y", "dtype": "i64", "shape": "[]", "samples": 5, "classes": 3'
    hashes="$hashes $(sed -n 's/.*"hash": "\([0-9a-f]*\)".*/\1/p' "$work/out")"
done
[ "$(echo "$hashes" | tr ' ' '\n' | sort -u | grep -c .)" -eq 1 ] || fail "other hashes: $hashes"
for type in u1 b1 i4 i8 f2 f4 f8 f4b i8b; do
    status 0 "$lockstep" data inspect "$work/$type.npy" --json
    max=$([ $type = b1 ] && echo 1 || echo 2)
    out "\"samples\": 5, \"min\": 0, \"max\": $max, \"mean\": 0.$([ $type = b1 ] && echo 6 || echo 8)"
done

# what is written from there opens in NumPy again, and protobuf reads the records
status 0 "$lockstep" data convert "$work/packed.npz" "$work/set.npz"
status 0 "$lockstep" data convert "$work/packed.npz" "$work/set.tfrecord" --options 'shape=2,3,1'
status 0 "$lockstep" data convert "$work/packed.npz" "$work/x.npy" --options 'y=none'
status 0 "$lockstep" data convert "$work/i8.npy" "$work/y.npy"
$python "$data/elsewhere.py" read "$work" || fail 'NumPy reads something else'
status 0 protoc --proto_path="$data" --decode=Example example.proto
for record in 0 4; do
    protoc --proto_path="$data" --decode=Example example.proto <"$work/record$record" \
        >"$work/out" 2>"$work/err" || fail 'protoc cannot read a record'
done
tr -d ' \n' <"$work/out" >"$work/flat"
for want in 'key:"height"value{int64_list{value:2' 'key:"width"value{int64_list{value:3' \
    'key:"depth"value{int64_list{value:1' 'key:"label"value{int64_list{value:1' \
    'key:"image_raw"value{bytes_list{value:"\250\257\266\275\304\313"'; do
    grep -qF "$want" "$work/flat" || fail "the last record has no $want"
done
