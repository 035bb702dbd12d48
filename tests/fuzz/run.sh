#!/bin/sh
# Run a fuzz target for a while, from its seeds and from what earlier runs have found.
#
#   [FUZZ_SECONDS=N] tests/fuzz/run.sh PROGRAM        default: 1 second
#
# PROGRAM is a build's fuzz_NAME; seeds are tests/fuzz/corpus/NAME.  Beside the program, in
# corpus/NAME, inputs that reach something new are kept, and in NAME.inputs the number of all inputs
# tried so far.  An input that fails is written to failed-NAME-* and ends the run with status 1.
set -eu
program=${1:?usage: [FUZZ_SECONDS=N] tests/fuzz/run.sh PROGRAM}
seconds=${FUZZ_SECONDS:-1}
name=${program##*/fuzz_}
folder=$(dirname "$program")
kept=$folder/corpus/$name
mkdir -p "$kept"
dictionary=$(dirname "$0")/$name.dict
set -- "-max_total_time=$seconds" -timeout=10 -rss_limit_mb=1024 -max_len=8192 -print_final_stats=1 \
    "-artifact_prefix=$folder/failed-$name-"
[ ! -e "$dictionary" ] || set -- "$@" "-dict=$dictionary"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! "$program" "$@" "$kept" "$(dirname "$0")/corpus/$name" >"$log" 2>&1; then
    tail -n 60 "$log"
    echo "fuzz_$name: failed"
    exit 1
fi
tried=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
[ "${tried:-0}" -gt 0 ] || { cat "$log"; echo "fuzz_$name: nothing was tried"; exit 1; }
total=$((tried + $(cat "$folder/$name.inputs" 2>/dev/null || echo 0)))
echo "$total" >"$folder/$name.inputs"
echo "fuzz_$name: $tried inputs, $total in all"
