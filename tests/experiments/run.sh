#!/bin/sh
# Wrong experiments: each file of a folder must be refused with the one line that its first line has:
# "# expect: LINE" with status 2, what the experiment says is wrong; "# fails: LINE" with status 1,
# what it needs cannot be had.  "FILE:" is the path and a colon.  A second line "# with: KEY=VALUE
# ..." adds assignments.
#
#   tests/experiments/run.sh LOCKSTEP [VERB [FOLDER]]        default: info wrong
#
# wrong/ has what is seen when the file is read; impossible/ what is seen when data and model are
# made of it, with files of data in impossible/data.
set -u
lockstep=${1:?usage: tests/experiments/run.sh LOCKSTEP [VERB [FOLDER]]}
verb=${2:-info}
folder=$(dirname "$0")/${3:-wrong}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0 n=0
for file in "$folder"/*.yaml; do
    n=$((n + 1))
    expected=$(sed -n "1s/^# [a-z]*: /error: /p" "$file" | sed "s|FILE:|$file:|g")
    with=$(sed -n '2s/^# with: //p' "$file")
    case $(head -n 1 "$file") in
    '# expect: '*) wanted=2 ;;
    '# fails: '*) wanted=1 ;;
    *) wanted='none, there is no such line' ;;
    esac
    # shellcheck disable=SC2086 # several assignments
    "$lockstep" "$verb" "$file" $with >"$work/out" 2>"$work/err" </dev/null
    status=$?
    if [ $status != "$wanted" ] || [ -s "$work/out" ] || [ "$(cat "$work/err")" != "$expected" ]; then
        printf '%s: status %d, expected %s\n  expected: %s\n  printed:  ' "$file" $status "$wanted" "$expected"
        cat "$work/err"
        bad=1
    fi
done
[ $n -ge 40 ] || { echo "only $n wrong experiments were found"; exit 1; }
[ $bad -eq 0 ] && echo "$n wrong experiments are refused"
