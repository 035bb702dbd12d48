#!/bin/sh
# Records of another implementation are read here, and those written here are read by it: protobuf's classes
# for Python, with a framing and a CRC-32C of their own.
. "$(dirname "$0")/../expect.sh"
data=$tests/data
python=/usr/bin/python3
for module in numpy google.protobuf; do
    if ! $python -c "import $module" 2>/dev/null; then
        echo "SKIPPED: $python has no $module (Debian: python3-numpy, python3-protobuf)"
        exit 77
    fi
done
if ! command -v protoc >/dev/null; then
    echo 'SKIPPED: there is no protoc (Debian: protobuf-compiler)'
    exit 77
fi
protoc --proto_path="$data" --python_out="$work" example.proto || fail 'no classes'

# hash [FILES] KEY=VALUE...: the one of the set
hash()
{
    "$lockstep" data inspect --json --type tfrecord "$@" 2>"$work/err" |
        sed -n 's/.*"hash": "\([0-9a-f]*\)".*/\1/p' | uniq
}

$python "$data/records.py" write "$work" "$work" || fail 'they cannot write'
status 0 "$lockstep" data inspect --json "$work/want.npz"
want=$(sed -n 's/.*"hash": "\([0-9a-f]*\)".*/\1/p' "$work/out" | uniq)
forms='plain gzip zlib'
"$lockstep" data convert --type glyphs count=1 "$work/try.tfrecord.gz" >"$work/out" 2>&1 || forms=plain
for form in $forms; do
    for stream in false true; do
        got=$(hash "$work/$form-*-of-00003" stream=$stream)
        [ "$got" = "$want" ] || fail "$form, stream $stream: $got instead of $want"
        got=$(hash "$work/$form-*-of-00003" label=hot label_one_hot=true classes=7 damaged=skip stream=$stream)
        [ "$got" = "$want" ] || fail "$form, rows of ones: $got instead of $want"
    done
done
# other features, and what their bytes are
status 0 "$lockstep" data inspect --json "$work/floats.npz"
want=$(sed -n 's/.*"hash": "\([0-9a-f]*\)".*/\1/p' "$work/out" | uniq)
[ "$(hash "$work/plain-*-of-00003" image=pixels)" = "$want" ] || fail 'other floats'
status 0 "$lockstep" data inspect --json --type tfrecord "$work/plain-*-of-00003" fields=weight,mask:i32:2x1
out '"field": "weight", "dtype": "f32", "shape": "[]", "samples": 40, "min": 0, "max": 4.875, "mean": 2.4375'
out '"field": "mask", "dtype": "i32", "shape": "[2,1]", "samples": 40, "min": 0, "max": 79, "mean": 39.5'
status 1 "$lockstep" data inspect --type tfrecord "$work/plain-*-of-00003" fields=nothing
err "plain-00000-of-00003: record 0, offset 0: the record has no feature \"nothing\" with values"
status 2 "$lockstep" data inspect --type tfrecord "$work/plain-*-of-00003" image=name
err 'more than one value of bytes is not supported'

# ours, there
status 0 "$lockstep" data convert "$work/want.npz" "$work/ours-plain.tfrecord" --files 3
status 0 "$lockstep" data convert "$work/floats.npz" "$work/ours-floats.tfrecord"
[ "$forms" = plain ] || status 0 "$lockstep" data convert "$work/want.npz" "$work/ours-gzip.tfrecord" --files 3 --gzip
[ "$forms" = plain ] || $python "$data/records.py" read "$work" "$work" || fail 'they read something else'
