#!/bin/sh
# bench compare: ratios of two runs, cases that only one has, and files that are none.
. "$(dirname "$0")/../expect.sh"

cat >"$work/old.json" <<'END_OF_FILE'
{"limit": "read", "array_bytes": 65536, "gbytes_per_s": 10, "gbytes_per_s_noise": 1}
{"case": "halved", "peer": "torch", "milliseconds": 2, "milliseconds_noise": 0, "ratio": 1, "ratio_noise": 0.1, "rounds": 7}
{"case": "halved", "peer": "ddp", "milliseconds": 2, "milliseconds_noise": 0, "rounds": 7}
{"case": "a \"rate\"", "gflops": 10, "gflops_noise": 0}
{"case": "noisy", "milliseconds": null, "milliseconds_noise": 5, "gflops": 3, "gflops_noise": 1}
{"case": "ranked", "mode": "fast", "ranks": 2, "samples_per_s": 8, "samples_per_s_noise": 0, "milliseconds": 4, "milliseconds_noise": 0}
{"case": "ranked", "mode": "fast", "ranks": 3, "milliseconds": 9, "milliseconds_noise": 0}
{"case": "gone", "microseconds": 1, "microseconds_noise": 0}
{"summary": "both", "cases": 1, "of": 1, "geomean": 1, "geomean_noise": 0, "lowest": 1, "lowest_noise": 0, "lowest_case": "x"}
END_OF_FILE
cat >"$work/new.json" <<'END_OF_FILE'
{"case": "a \"rate\"", "gflops": 40, "gflops_noise": 0}
{"case": "halved", "milliseconds": 1, "milliseconds_noise": 0}
{"case": "noisy", "milliseconds": 1, "milliseconds_noise": 0}
{"case": "ranked", "mode": "fast", "ranks": 2, "milliseconds": 32, "milliseconds_noise": 0}
{"case": "new here", "microseconds": 1, "microseconds_noise": 0}
END_OF_FILE
status 0 "$lockstep" bench compare --json "$work/old.json" "$work/new.json"
"$json" <"$work/out" || fail 'JSON'
out '{"case": "halved", "old": 2, "old_noise": 0, "new": 1, "new_noise": 0, "unit": "ms", "ratio": 2, "ratio_noise": 0}'
out '{"case": "a \"rate\"", "old": 10, "old_noise": 0, "new": 40, "new_noise": 0, "unit": "GFLOP/s", "ratio": 4, "ratio_noise": 0}'
out '{"case": "noisy", "old": null, "old_noise": 5, "new": 1, "new_noise": 0, "unit": "ms", "ratio": null, "ratio_noise": null}'
out '{"case": "ranked, fast, 2 ranks", "old": 4, "old_noise": 0, "new": 32, "new_noise": 0, "unit": "ms", "ratio": 0.125, '
out '{"case": "ranked, fast, 3 ranks", "old": 9, "old_noise": 0, "unit": "ms", "only_in": "old"}'
out '{"case": "gone", "old": 1, "old_noise": 0, "unit": "us", "only_in": "old"}'
out '{"case": "new here", "new": 1, "new_noise": 0, "unit": "us", "only_in": "new"}'
# the third root of 2 * 4 / 8
out '{"summary": "all", "cases": 3, "of": 4, "geomean": 1, "geomean_noise": 0, "lowest": 0.125, "lowest_noise": 0, "lowest_case": "ranked, fast, 2 ranks"}'
[ "$(wc -l <"$work/out")" -eq 8 ] || fail 'other rows than these'
status 0 "$lockstep" bench compare "$work/old.json" "$work/new.json"
grep -Eq '^case +old +new +unit +ratio +only in$' "$work/out" || fail 'no titles'
grep -Eq '^gone +1\.0000 \+- 0% +- +us +- +old *$' "$work/out" || fail 'no case of the old file alone'

# what two benches print can be compared
for run in old new; do
    status 0 "$lockstep" bench ops --json --against none --seconds 0 --filter 'relu 16K'
    cp "$work/out" "$work/$run.ops"
done
status 0 "$lockstep" bench compare "$work/old.ops" "$work/new.ops"
grep -Eq '^leaky_relu 16K both +.* ms ' "$work/out" || fail 'no row of an op'
grep -Eq '^all +[0-9]+ +6 ' "$work/out" || fail 'not six cases'

# files that are wrong
status 2 "$lockstep" bench compare "$work/old.json" "$work/none.json"
err "lockstep bench compare: $work/none.json: No such file or directory"
status 2 "$lockstep" bench compare "$work" "$work/new.json"
err "lockstep bench compare: $work: "
: >"$work/empty.json"
status 2 "$lockstep" bench compare "$work/empty.json" "$work/new.json"
err "$work/empty.json: no case with a figure is in it: give what \"lockstep bench KIND --json\" printed"
printf '{"case": "other", "milliseconds": 1, "milliseconds_noise": 0}\n' >"$work/other.json"
status 2 "$lockstep" bench compare "$work/other.json" "$work/new.json"
err 'have no case in common: they must be of the same kind of bench'
no_out
for line in 'case   ms' '{"case": "x", "milliseconds": 1' '{"case": "x"} more' '{"case": ["x"]}' '{"case": "x' '{"case" 1}' \
    '{"case": }'; do
    printf '{"case": "x", "milliseconds": 1, "milliseconds_noise": 0}\n%s\n' "$line" >"$work/wrong.json"
    status 2 "$lockstep" bench compare "$work/new.json" "$work/wrong.json"
    err "lockstep bench compare: $work/wrong.json:2: this is no JSON object of a bench"
    no_out
done
status 2 "$lockstep" bench compare "$work/old.json"
err 'NEW.json is missing'
