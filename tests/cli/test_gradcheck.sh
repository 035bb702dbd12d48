#!/bin/sh
# lockstep gradcheck: every op passes; names, seeds and the exit status of a failure.
. "$(dirname "$0")/expect.sh"

status 0 "$lockstep" gradcheck
out ' ops, tolerance 1e-06: all pass'
no_err
listed=$("$lockstep" list ops --json | grep -c '"kind": "op"')
checked=$(grep -c ' ok$' "$work/out")
[ "$checked" -gt 3 ] && [ "$checked" -le "$listed" ] || fail "$checked of $listed ops checked"

status 0 "$lockstep" gradcheck --seed 7 mul add
out '2 ops, tolerance 1e-06: all pass'
status 0 "$lockstep" gradcheck --json mul
"$json" <"$work/out" || fail 'not one JSON object a line'
out '"name": "mul"'
out '"pass": true'
out '"error": '

# Rounding alone is above the least tolerance: what fails says where, and the status is 1.
status 1 "$lockstep" gradcheck --tolerance 1e-12
out ' FAILED'
err ' by differences, '
status 1 "$lockstep" gradcheck --tolerance 1e-12 --json
out '"pass": false'
out '"failure": "'

status 2 "$lockstep" gradcheck mull
err 'no op named "mull"; did you mean "mul"?'
no_out
