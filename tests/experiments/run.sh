#!/bin/sh
# Wrong experiments: each file of tests/experiments/wrong must be refused with status 2 and with the
# line that its first line, "# expect: LINE", has; FILE stands for its path.  A second line
# "# with: KEY=VALUE ..." adds assignments.
#
#   tests/experiments/run.sh LOCKSTEP [VERB]        default: info
set -u
lockstep=${1:?usage: tests/experiments/run.sh LOCKSTEP [VERB]}
verb=${2:-info}
here=$(dirname "$0")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0 n=0
for file in "$here"/wrong/*.yaml; do
    n=$((n + 1))
    expected=$(sed -n "1s|^# expect: |error: |p" "$file" | sed "s|FILE|$file|g")
    with=$(sed -n '2s/^# with: //p' "$file")
    # shellcheck disable=SC2086 # several assignments
    "$lockstep" "$verb" "$file" $with >"$work/out" 2>"$work/err" </dev/null
    status=$?
    if [ $status -ne 2 ] || [ -s "$work/out" ] || [ "$(cat "$work/err")" != "$expected" ]; then
        printf '%s: status %d\n  expected: %s\n  printed:  ' "$file" $status "$expected"
        cat "$work/err"
        bad=1
    fi
done
[ $n -ge 40 ] || { echo "only $n wrong experiments were found"; exit 1; }
[ $bad -eq 0 ] && echo "$n wrong experiments are refused"
