#!/bin/sh
# bench ops: a case for every op, each runs, and what PyTorch says of it is compared.
. "$(dirname "$0")/../expect.sh"

# no op without a case, and no case twice
status 0 "$lockstep" list cases --json
sed 's/.*"name": "\([^"]*\)".*/\1/' "$work/out" >"$work/cases"
grep -v 'MFLOP"' "$work/out" | sed 's/.*"name": "\([^"]*\)".*/\1/' >"$work/ops_cases" # without those of bench kernels
sort "$work/cases" | uniq -d | grep . && fail 'cases of the same name'
status 0 "$lockstep" list ops --json
sed 's/.*"name": "\([^"]*\)".*/\1/' "$work/out" >"$work/ops"
while read -r op; do
    grep -q "^$op [^ ]" "$work/ops_cases" ||
        fail "the op $op has no row in cli/bench/ops/cases.c: nobody would see that it is slow"
done <"$work/ops"

# the small cases of all ops run
: >"$work/ran"
for filter in ' 16K ' '128x' '2x16x16' b128 b16 b32 ' 256' 1024x16 64x256 8x32 2x32 512x64 broadcast \
    sum_to stop_gradient reshape slice; do
    status 0 "$lockstep" bench ops --json --against none --seconds 0 --filter "$filter"
    "$json" <"$work/out" || fail 'JSON'
    figures
    cat "$work/out" >>"$work/ran"
done
while read -r op; do
    grep -q "\"case\": \"$op " "$work/ran" || fail "no case of $op has run"
done <"$work/ops"
grep -Eq '"limit": "read", "array_bytes": 65536, "gbytes_per_s": ' "$work/ran" || fail 'no limit of reading'
grep -Eq '"limit": "multiply-add", "gflops": ' "$work/ran" || fail 'no limit of arithmetic'
grep -Eq '"case": "relu 16K both", "milliseconds": .*"gbytes_per_s": .*"of_limit": .*"rounds": ' "$work/ran" ||
    fail 'no row of relu'
grep -Eq '"case": "linear 784-1000 b128 backward", .*"gflops": ' "$work/ran" || fail 'no operations a second'
grep -q '"case": "argmax 128x128 backward"' "$work/ran" && fail 'backward of an op without a gradient'

# The limit of what copies is the copy's: shares are GB/s by GB/s, and a copy reaches it, as often as it
# takes for a quiet moment.
share_of_copy() # the least share, or nothing if something was not known
{
    status 0 "$lockstep" bench ops --json --against none --seconds 0.05 --filter 'copy 1M forward'
    awk -v least="$1" '
        function field(key) { return match($0, "\"" key "\": [0-9.e+-]+") ? substr($0, RSTART + length(key) + 4, RLENGTH - length(key) - 4) : 0 }
        /"limit": "copy", "array_bytes": 4194304,/ { limit = field("gbytes_per_s") }
        /"case": "copy 1M forward"/ { gbytes = field("gbytes_per_s"); share = field("of_limit") }
        END {
            if (limit * gbytes * share > 0 && (share - gbytes / limit > 0.01 || gbytes / limit - share > 0.01))
                print "of_limit is " share ", not " gbytes " / " limit
            exit !(limit * gbytes * share > 0 && share >= least)
        }' "$work/out" >"$work/wrong"
    reached=$?
    [ -s "$work/wrong" ] && fail "$(cat "$work/wrong")"
    return $reached
}
tries=0
until share_of_copy 0.8; do
    tries=$((tries + 1))
    [ $tries -lt 10 ] || fail 'a copy does not reach the limit of copying'
done

# as a table, one pass, several threads
status 0 "$lockstep" bench ops --against none --seconds 0 --threads 2 --filter 'layer_norm 64x256 backward'
out 'f32, '
out '2 threads, medians of time'
grep -Eq '^64 KiB +.* +' "$work/out" || fail 'no limits in the table'
[ "$(grep -c '^layer_norm' "$work/out")" -eq 1 ] || fail 'other passes than the one asked for'
if [ -n "${TEST_LONG-}" ]; then
    status 0 "$lockstep" bench ops --against none --seconds 0
fi

# several threads next to as many copies
status 0 "$lockstep" bench ops --json --scaling --threads 3 --seconds 0 --filter 'argmax 128x128'
figures
grep -Eq '"case": "argmax 128x128 forward", "threads": 3, "milliseconds_one_thread": .*"speedup": .*"limit": .*"of_copies": ' \
    "$work/out" || fail 'no scaling of argmax'
grep -q '"case": "argmax 128x128 both"' "$work/out" && fail 'backward of an op without a gradient'
grep -q '"array_bytes"' "$work/out" && fail 'limits of the machine, which nothing is compared with'
out '"summary": "small, forward", "cases": '
status 0 "$lockstep" bench ops --scaling --seconds 0 --filter 'relu 16K both'
out '2 threads, medians of time'
grep -Eq '^case +threads +1 thread ms +N threads ms +speedup +N copies +of copies$' "$work/out" || fail 'other columns'
grep -Eq '^relu 16K both +2 ' "$work/out" || fail 'no row of relu'
grep -q '^relu 16K forward' "$work/out" && fail 'other passes than the one asked for'
status 2 "$lockstep" bench ops --scaling --threads 1 --seconds 0 --filter 'relu 16K both'
err 'lockstep bench ops: option --threads: --scaling compares several threads with one, so give 2 or more'
no_out

status 2 "$lockstep" bench ops --filter transmogrify
err 'lockstep bench ops: option --filter: no case contains "transmogrify"'
status 2 "$lockstep" bench ops --against jax
err 'lockstep bench ops: option --against: torch or none'
status 1 "$lockstep" bench ops --against torch --python /nowhere/python3
err 'lockstep bench ops: PyTorch: there is no Python at /nowhere/python3 (see --python)'

# A Python that says it is PyTorch: it has drawn other numbers than we in dropout, and is right so; that it
# has another sum of relu is an error.
cat >"$work/python" <<'END_OF_PYTHON'
#!/bin/sh
printf 'PyTorch 0.0 with %s %s\tcapability AVX512\n' "$2" "$3"
while read -r line; do
    echo "$line" >>"$LINES_READ"
    echo 0.5 123
done
END_OF_PYTHON
chmod +x "$work/python"
export LINES_READ="$work/lines"
status 0 "$lockstep" bench ops --json --python "$work/python" --seconds 0 --threads 2 --filter 'dropout 16K'
figures
grep -Eq '"case": "dropout 16K both", "peer": "torch", .*"peer_milliseconds": [0-9.e+]+, .*"ratio": [0-9]' \
    "$work/out" || fail 'no ratio'
out '"summary": "small, both", "cases": 1, "of": 1, "geomean": '
grep -Eq '^forward 128x128 \| F\.dropout\(a, 0\.5\) \| [0-9]+$' "$LINES_READ" || fail 'another request'
status 0 "$lockstep" bench ops --python "$work/python" --seconds 0 --filter 'dropout 16K'
out 'torch: PyTorch 0.0 with torch 1, code path capability AVX512'
status 1 "$lockstep" bench ops --python "$work/python" --seconds 0 --filter 'relu 16K both'
err 'relu 16384: result: we have a sum of '
err 'PyTorch one of 123'
# what PyTorch has no words for is measured alone
status 0 "$lockstep" bench ops --json --python "$work/python" --seconds 0 --filter 'lcn'
grep '"case": "lcn 8x32x32x3 both"' "$work/out" | grep -qv '"peer"' || fail 'a peer of lcn'

# where PyTorch is installed, it computes the same
python=$(dirname "$lockstep")/peers/venv/bin/python3
[ -x "$python" ] || python=/usr/bin/python3
if "$python" -c 'import torch' 2>/dev/null; then
    for filter in ' 16K ' '2x16x16' b16; do
        status 0 "$lockstep" bench ops --json --against torch --python "$python" --seconds 0 --filter "$filter"
        out '"peer": "torch"'
    done
fi

# Every column is explained, there and in the documents.
status 0 "$lockstep" bench ops --help
tr '\n' ' ' <"$work/out" | tr -s ' ' >"$work/help"
for column in ms GB/s GFLOP/s 'of limit' 'torch ms' ratio speedup 'N copies' 'of copies'; do
    sed 's/^.*Columns: //' "$work/help" | grep -qF -- "$column" || fail "--help does not explain $column"
    grep '^| `' "$tests/../docs/guide/running.md" | grep -qF -- "\`$column\`" || fail "docs/guide/running.md does not explain $column"
done
