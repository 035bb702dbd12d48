#!/bin/sh
# Tables: columns are as wide as their longest entry, and the list of kinds counts what it lists.
. "$(dirname "$0")/expect.sh"

# begins_at TITLE: in every row of the table printed last, a column begins below this title.
begins_at()
{
    awk -v title="$1" '
        NR == 1 { at = index($0, title); next }
        /^$/ { exit }
        at < 3 || substr($0, at - 2, 2) != "  " || substr($0, at, 1) == " " { bad = 1 }
        END { exit bad || NR < 2 }' "$work/out" || fail "the column $1 is not aligned"
}

kinds='verbs isas dtypes kernels ops nodes collectives checks benches cases peers
    sections formats models layers inits losses metrics optimizers schedules'
for kind in $kinds all; do
    status 0 "$lockstep" list "$kind"
    begins_at name
    begins_at about
done
status 0 "$lockstep" info
begins_at name
begins_at value

# numbers end where their title ends
status 0 "$lockstep" bench kernels --against none --seconds 0 --filter 56x56x64-256
sed -n '/^case/,/^$/p' "$work/out" | awk 'NF { print length() }' | sort -u >"$work/lengths"
[ "$(wc -l <"$work/lengths")" -eq 1 ] || fail 'the columns of the bench are not aligned'
status 0 "$lockstep" selfcheck --threads 1 tree checksum conv_backward_weights
sed '/^$/,$d; s/ok$/result/' "$work/out" | awk '{ print length() }' | sort -u >"$work/lengths"
[ "$(wc -l <"$work/lengths")" -eq 1 ] || fail 'the columns of the self-check are not aligned'

# without a kind: the kinds, how many entries each has, and how to see them
status 0 "$lockstep" list
cp "$work/out" "$work/kinds"
begins_at about
out 'lockstep list KIND'
total=0
for kind in $kinds; do
    status 0 "$lockstep" list "$kind" --json
    entries=$(wc -l <"$work/out")
    total=$((total + entries))
    grep -Eq "^$kind +$entries  " "$work/kinds" || fail "list does not count $entries $kind"
done
status 0 "$lockstep" list all --json
[ "$(wc -l <"$work/out")" -eq $total ] || fail "list all does not list $total entries"

# one of a thing is not "1 things"
status 0 "$lockstep" selfcheck --threads 1 checksum
out '1 check, '
status 0 "$lockstep" selfcheck --threads 1 tree.f32 checksum
out '2 checks, '
