#!/bin/sh
# bench pipeline: every figure is there, explained, bubbles by count are those of the formulas, and wrong options
# are refused.
. "$(dirname "$0")/../expect.sh"

# row CASE KEY VALUE: a JSON row of this beginning has this number.
row()
{
    grep -F "{\"case\": \"$1" "$work/out" | grep -Eq "\"$2\": $3[,}]" || fail "$1: $2 is not $3"
}

if [ "$(nproc)" -ge 2 ]; then
    status 0 "$lockstep" bench pipeline --json --seconds 0 --width 8 --batch 8
    "$json" <"$work/out" || fail 'JSON'
    figures
    for key in peer ratio samples_per_s milliseconds bound_milliseconds bound_ratio bubble bubble_by_times \
        actions_milliseconds rounds forward_milliseconds update_milliseconds; do
        [ "$(grep '"case": "1f1b ' "$work/out" | grep -c "\"$key\": ")" -ge 2 ] || fail "1f1b has no $key"
    done
    [ "$(grep -c '"backward_milliseconds": ' "$work/out")" -eq 8 ] || fail 'not the stages of 1f1b and gpipe'
    [ "$(grep -c '"input_milliseconds": .*"weights_milliseconds": ' "$work/out")" -eq 4 ] || fail 'not those of zb1p'
    for schedule in 1f1b gpipe; do
        row "$schedule 8 m4" bubble_by_count 0.25
        row "$schedule 8 m8" bubble_by_count 0.125
        row "$schedule\", \"stages\": 4, \"microbatches\": 16," bubble_by_count 0.1875
        row "$schedule\", \"stages\": 8, \"microbatches\": 16," bubble_by_count 0.4375
    done
    row 'zb1p 8 m4' bubble_by_count 0.0833333
    row 'zb1p 8 m8' bubble_by_count 0.0416667
    row 'zb1p", "stages": 4, "microbatches": 8,' bubble_by_count 0.125
    row 'zb1p", "stages": 8, "microbatches": 16,' bubble_by_count 0.145833
    grep '"case": "threads 8 m4"' "$work/out" | grep -q '"ratio"\|"peer"\|"bubble' && fail 'a ratio of the peer'
    status 0 "$lockstep" bench pipeline --seconds 0 --width 8 --batch 12 --micro-batches 3
    out '3 micro-batches of 4 samples'
    grep -Eq '^zb1p 8 m3 +[0-9-]' "$work/out" || fail 'no row of zb1p'
    grep -Eq '^1f1b +3 +5 +[0-9.]+ +0.400$' "$work/out" || fail 'no bubble of three stages'
fi
status 0 "$lockstep" bench pipeline --help
tr '\n' ' ' <"$work/out" | tr -s ' ' >"$work/help"
for column in ms samples/s ratio bound 'of bound' bubble 'by times' 'by count'; do
    sed 's/^.*Columns: //; s/JSON: .*$//' "$work/help" | grep -qF -- "$column" || fail "--help does not explain $column"
    grep '^| `' "$tests/../docs/guide/pipelines.md" | grep -qF -- "\`$column" || fail "docs/guide/pipelines.md does not explain $column"
done
for n in 0 65 x 4x 5; do
    status 2 "$lockstep" bench pipeline --batch 128 --micro-batches $n
    err "option --micro-batches: \"$n\": a number from 1 to 64 that divides the batch, 128"
done
