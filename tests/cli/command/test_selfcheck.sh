#!/bin/sh
# The self-check fails where it must; test "selfcheck" runs the whole.
. "$(dirname "$0")/../expect.sh"

# the golden file is exactly what a run writes
status 0 "$lockstep" selfcheck --threads 1 --isa scalar --write-golden "$work/written"
no_err
out 'the same bits everywhere'
cmp "$work/written" "$golden" || fail 'the golden file has other lines'

# a hash that differs
sed 's/^\(tree\.f32 \).*/\10123456789abcdef/' "$golden" >"$work/golden"
status 1 "$lockstep" selfcheck --golden "$work/golden" --threads 1 tree
out 'FAIL'
err 'error: tree.f32: all configurations agree on'
err '0123456789abcdef'
err 'raise the epoch'
status 1 "$lockstep" selfcheck --json --golden "$work/golden" --threads 1 tree
"$json" <"$work/out" || fail 'JSON of a failure'
out '"pass": false'
out '"failure": "all configurations agree'

# a kernel without a line, and a line without a kernel
grep -v '^tree.f64' "$golden" >"$work/golden"
status 1 "$lockstep" selfcheck --golden "$work/golden" --threads 1 tree
err 'error: tree.f64'
err 'has no line for it'
{
    cat "$golden"
    echo 'nothing.f32 0123456789abcdef'
} >"$work/golden"
status 1 "$lockstep" selfcheck --golden "$work/golden" --threads 1 --isa scalar
err 'error: nothing.f32'

# files that cannot be used
status 2 "$lockstep" selfcheck --golden "$work/absent" tree
err 'cannot read the golden file'
echo '# epoch 999' >"$work/golden"
status 2 "$lockstep" selfcheck --golden "$work/golden" tree
err 'is of numerics epoch 999'
printf '# epoch 2\ntree.f32 12\n' >"$work/golden"
status 2 "$lockstep" selfcheck --golden "$work/golden" tree
err 'golden:2: '
status 2 "$lockstep" selfcheck --golden "$golden" --seed 2 tree
err 'golden files belong to seed 1'

# another seed gives other hashes, and passes
status 0 "$lockstep" selfcheck --threads 1,2 --seed 2 gemm tree
out 'the same bits everywhere'
if grep -qF "$(sed -n 's/^tree\.f32 //p' "$golden")" "$work/out"; then fail 'the seed has no effect'; fi

# a golden file is written whole or not at all
status 2 "$lockstep" selfcheck --write-golden "$work/golden" tree
err '--write-golden writes all checks'
status 2 "$lockstep" selfcheck --golden / tree
err 'cannot read the golden file /: Is a directory'
status 2 "$lockstep" selfcheck --golden /dev/null tree
err 'has no line "# epoch N"'
status 1 "$lockstep" selfcheck --threads 1 --isa scalar --write-golden "$work/absent/golden"
err 'cannot write'

# switches in the environment are checked before anything is computed
status 2 env LK_ISA=foo "$lockstep" selfcheck tree
err 'LK_ISA is "foo"'
status 2 env LK_THREADS=abc "$lockstep" selfcheck tree
err 'LK_THREADS is "abc"'
no_out
