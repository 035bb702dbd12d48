#!/bin/sh
# lockstep ckpt: tensors are shown, hashed, compared, and taken through every format with their bits.
. "$(dirname "$0")/../expect.sh"

status 0 "$lockstep" ckpt --help
out 'usage: lockstep ckpt'
for kind in inspect hash diff export import; do
    status 0 "$lockstep" ckpt $kind --help
    out "usage: lockstep ckpt $kind"
done
status 2 "$lockstep" ckpt inspekt x
err 'did you mean "inspect"?'
status 2 "$lockstep" ckpt diff "$work/a.npy"

# le NUMBER N: a number of N bytes, the lowest byte first
le()
{
    number=$1
    i=0
    while [ $i -lt "$2" ]; do
        # shellcheck disable=SC2059 # the format is the byte
        printf "\\$(printf %03o $((number % 256)))"
        number=$((number / 256))
        i=$((i + 1))
    done
}

# file NAME HEADER BYTES: a .safetensors by the published format; BYTES as printf escapes
file()
{
    {
        le ${#2} 8
        printf %s "$2"
        # shellcheck disable=SC2059 # the escapes are meant
        printf "$3"
    } >"$work/$1.safetensors"
}

# 1, 2, -1.5 and NaN as f32; 7 and 300 as i32; a note with an escape for terminals
w='"w":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}'
k='"k":{"dtype":"I32","shape":[2],"data_offsets":[16,24]}'
w_bytes='\000\000\200\077\000\000\000\100\000\000\300\277\000\000\300\177'
k_bytes='\007\000\000\000\054\001\000\000'
file a "{\"__metadata__\":{\"seed\":\"1\\u001b[31m\"},$w,$k}" "$w_bytes$k_bytes"
status 0 "$lockstep" ckpt inspect "$work/a.safetensors"
grep -Eq '^w +f32 +\[2,2\] +4 +-1.5000e\+00 +2.0000e\+00 +5.0000e-01 +1$' "$work/out" || fail 'w'
grep -Eq '^k +i32 +\[2\] +2 +7.0000e\+00 +3.0000e\+02 +1.5350e\+02 +0$' "$work/out" || fail 'k'
out '2 tensors, 6 elements'
grep -Eq '^seed +1\\x1b\[31m$' "$work/out" || fail 'the note is not clean'
status 0 "$lockstep" ckpt inspect --json "$work/a.safetensors"
"$json" <"$work/out" || fail 'no JSON'
out '{"name": "w", "dtype": "f32", "shape": "[2,2]", "elements": 4, "min": -1.5, "max": 2, "mean": 0.5, "not_finite": 1}'
out '{"metadata": "seed", "text": "1\u001b[31m"}'

# the hash depends on what is in the file, not on its order, its metadata or its format
file b "{\"k\":{\"dtype\":\"I32\",\"shape\":[2],\"data_offsets\":[0,8]},\"w\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[8,24]}}" \
    "$k_bytes$w_bytes"
status 0 "$lockstep" ckpt export "$work/a.safetensors" "$work/c.npz"
status 0 "$lockstep" ckpt export "$work/a.safetensors" "$work/w.npy" --tensor w
status 0 "$lockstep" ckpt export "$work/c.npz" "$work/k.npy" --tensor k
status 0 "$lockstep" ckpt import "$work/w.npy" "$work/k.npy" "$work/d.safetensors"
status 0 "$lockstep" ckpt hash --json "$work/a.safetensors" "$work/b.safetensors" "$work/c.npz" \
    "$work/d.safetensors"
"$json" <"$work/out" || fail 'no JSON'
[ "$(sed -n 's/.*"hash": "\([0-9a-f]*\)", "tensors": 2.*/\1/p' "$work/out" | sort | uniq -c |
    awk '{ print $1 }')" = 4 ] || fail 'not one hash'
status 0 "$lockstep" ckpt diff "$work/a.safetensors" "$work/d.safetensors"
no_out
status 0 "$lockstep" ckpt diff --all "$work/a.safetensors" "$work/c.npz"
grep -Eq '^w +f32\[2,2\] +f32\[2,2\] +equal +0 ' "$work/out" || fail 'w is not equal'
status 0 "$lockstep" ckpt import "$work/c.npz" "$work/e.safetensors"
status 0 "$lockstep" ckpt diff "$work/b.safetensors" "$work/e.safetensors"
status 0 "$lockstep" ckpt export "$work/a.safetensors" "$work/f.safetensors"
status 0 "$lockstep" ckpt inspect "$work/f.safetensors" --json
out '"metadata": "seed"'

# a bit, a shape, a name
file bit "{$w,$k}" "\001${w_bytes#\\000}$k_bytes"
status 1 "$lockstep" ckpt diff "$work/a.safetensors" "$work/bit.safetensors"
grep -Eq '^w +f32\[2,2\] +f32\[2,2\] +differ +1 +1.19e-07 +1.19e-07$' "$work/out" || fail 'one bit'
[ "$(wc -l <"$work/out")" -eq 2 ] || fail 'k is equal'
file other "{\"w\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]},\"z\":{\"dtype\":\"I32\",\"shape\":[2],\"data_offsets\":[16,24]}}" \
    "$w_bytes$k_bytes"
status 1 "$lockstep" ckpt diff --json "$work/a.safetensors" "$work/other.safetensors"
"$json" <"$work/out" || fail 'no JSON'
out '{"name": "k", "first": "i32[2]", "equal": false}'
out '{"name": "w", "first": "f32[2,2]", "second": "f32[4]", "equal": false}'
out '{"name": "z", "second": "i32[2]", "equal": false}'
status 1 "$lockstep" ckpt hash "$work/a.safetensors" "$work/none.npz" "$work/other.safetensors"
err "$work/none.npz: cannot be opened"
[ "$(wc -l <"$work/err")" -eq 1 ] || fail 'more than one line'
[ "$(grep -c safetensors "$work/out")" -eq 2 ] || fail 'the other files have no hash'
[ "$(awk '/safetensors/ { print $1 }' "$work/out" | uniq | wc -l)" -eq 2 ] || fail 'one hash for two'

# what cannot be done is said
status 2 "$lockstep" ckpt export "$work/a.safetensors" "$work/x.npy"
err 'x.npy: a .npy file holds one array, not 2'
status 2 "$lockstep" ckpt export "$work/a.safetensors" "$work/x.npy" --tensor v
err 'has no tensor "v"'
status 2 "$lockstep" ckpt export "$work/a.safetensors" "$work/x.pt"
err 'x.pt: the name ends neither in .safetensors nor in .npz or .npy'
status 2 "$lockstep" ckpt import "$work/w.npy" "$work/w.npy" "$work/x.safetensors"
err 'the tensor "w" is there twice'
status 2 "$lockstep" ckpt inspect "$work"
err 'a folder without checkpoints in it'
[ "$(wc -l <"$work/err")" -eq 1 ] || fail 'more than one line'
printf 'abc' >"$work/broken.safetensors"
status 1 "$lockstep" ckpt inspect "$work/broken.safetensors"
err 'broken.safetensors: offset 0: this is no safetensors file, which begins with a length and {'
file half "{\"h\":{\"dtype\":\"BF16\",\"shape\":[1],\"data_offsets\":[0,2]}}" '\200\077'
status 2 "$lockstep" ckpt export "$work/half.safetensors" "$work/x.npz"
err '.npy has no type for bf16'
for x in npy pt safetensors npz; do
    [ ! -e "$work/x.$x" ] || fail "a failure left x.$x"
done

# a checkpoint, or the newest of several that verifies
checkpoint_make=$(dirname "$json")/checkpoint_make
"$checkpoint_make" "$work/run" 7 8 || fail 'no checkpoints'
status 0 "$lockstep" ckpt inspect "$work/run"
no_err
out "$work/run/step-000000000008"
grep -Eq '^part-00000.safetensors +96 +[0-9a-f]{16} +1 +ok *$' "$work/out" || fail 'part 0'
grep -Eq '^w +f32 +\[2,3\] +6 ' "$work/out" || fail 'w'
grep -Eq '^step +8$' "$work/out" || fail 'step'
grep -Eq '^identity +0000000000000abc$' "$work/out" || fail 'identity'
grep -Eq '^state +000000000000feed$' "$work/out" || fail 'state'
grep -Eq '^number.loss +0.5$' "$work/out" || fail 'number'
status 0 "$lockstep" ckpt inspect --json "$work/run/step-000000000007"
"$json" <"$work/out" || fail 'no JSON'
out '{"part": "part-00001.safetensors", "bytes": '
out '"tensors": 1, "verified": true}'
out '{"metadata": "step", "text": "7"}'
status 0 "$lockstep" ckpt hash --json "$work/run" "$work/run/step-000000000007"
out '"state": "000000000000feed", "format": 2, "tensors": 2, '
[ "$(cut -d'"' -f4 "$work/out" | uniq | wc -l)" -eq 2 ] || fail 'one hash for two'
status 1 "$lockstep" ckpt diff "$work/run/step-000000000007" "$work/run"
grep -Eq '^b +f32\[2\] +f32\[2\] +differ +1 ' "$work/out" || fail 'b does not differ'
status 0 "$lockstep" ckpt export "$work/run" "$work/run.safetensors"
status 0 "$lockstep" ckpt diff "$work/run/step-000000000008" "$work/run.safetensors"
printf x | dd of="$work/run/step-000000000008/part-00001.safetensors" bs=1 seek=70 conv=notrunc 2>"$work/dd" ||
    fail 'dd'
status 1 "$lockstep" ckpt inspect "$work/run/step-000000000008"
grep -Eq '^part-00001.safetensors .* damaged *$' "$work/out" || fail 'not damaged'
err 'part-00001.safetensors: offset '
status 1 "$lockstep" ckpt diff "$work/run/step-000000000008" "$work/run.safetensors"
status 0 "$lockstep" ckpt inspect "$work/run"
err 'warning: left out: '
err 'step-000000000008/part-00001.safetensors: offset '
out "$work/run/step-000000000007"
for fault in write:2:ENOSPC write:2+:ENOSPC; do
    status 1 env LK_STORAGE_FAULT=$fault "$checkpoint_make" "$work/run" 9
    err 'part-00000.safetensors: cannot be written at offset 0: No space left on device'
done
status 0 env LK_STORAGE_FAULT=write:2:EINTR "$checkpoint_make" "$work/run" 10
rm -r "$work/run/step-000000000010"
: >"$work/run/step-000000000007/MANIFEST"
status 1 "$lockstep" ckpt hash "$work/run"
err 'none of its 2 checkpoints verifies; the newest: '

# NumPy reads what is exported, and what it writes is imported
python=/usr/bin/python3
if ! $python -c 'import numpy' 2>/dev/null; then
    echo "$python has no NumPy (Debian: python3-numpy): not tried"
    exit 0
fi
$python - "$work" <<'END' || fail 'NumPy reads something else'
import sys
import numpy
folder = sys.argv[1] + "/"
arrays = numpy.load(folder + "c.npz")
assert sorted(arrays.files) == ["k", "w"], arrays.files
for w in (arrays["w"], numpy.load(folder + "w.npy")):
    assert w.dtype == numpy.float32 and w.shape == (2, 2)
    assert w.tobytes() == numpy.array([1, 2, -1.5, numpy.nan], "<f4").tobytes()
assert arrays["k"].dtype == numpy.int32 and list(arrays["k"]) == [7, 300]
numpy.savez(folder + "n.npz", **{"a.b": numpy.arange(3.0), "\u00e9": numpy.uint8([[1]])})
END
status 0 "$lockstep" ckpt import "$work/n.npz" "$work/n.safetensors"
status 0 "$lockstep" ckpt inspect "$work/n.safetensors" --json
out '{"name": "a.b", "dtype": "f64", "shape": "[3]", "elements": 3, "min": 0, "max": 2, "mean": 1, "not_finite": 0}'
out '{"name": "é", "dtype": "u8", "shape": "[1,1]"'
status 0 "$lockstep" ckpt export "$work/n.safetensors" "$work/m.npz"
$python -c "import numpy, sys; assert sorted(numpy.load(sys.argv[1]).files) == ['a.b', '\u00e9']" \
    "$work/m.npz" || fail 'a name changed on its way'

# A table that has no row has no titles.
mkdir "$work/nothing"
status 2 "$lockstep" ckpt hash "$work/nothing"
err 'a folder without checkpoints in it'
no_out
