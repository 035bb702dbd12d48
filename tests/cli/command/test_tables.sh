#!/bin/sh
# Tables: columns are as wide as their longest entry, and the list of kinds counts what it lists.
. "$(dirname "$0")/../expect.sh"

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

# same_lengths FROM: the lines from the one with FROM to the next empty one are equally long.
same_lengths()
{
    sed -n "/$1/,/^\(state .*\)*$/p" "$work/out" | sed '/^state /d' |
        awk 'NF { print length(); n++ } END { if (n < 2) print 0 }' | sort -u >"$work/lengths"
    [ "$(wc -l <"$work/lengths")" -eq 1 ] || fail "the columns below $1 are not aligned"
}

# values and titles that are wider than usual: a loss of ten digits, a long name, a long path
printf 'a,y\n3e17,0\n-3e17,1\n2,1\n1,0\n' >"$work/wide.csv"
cat >"$work/wide.yaml" <<END
data: {type: csv, path: $work/wide.csv, test: $work/wide.csv, batch: 2, shards: 1, shuffle: false}
model: [{type: linear, units: 2, init: {type: constant, value: 1}}, {type: linear, units: 2}]
loss: softmax_cross_entropy
metrics: [accuracy, misclassification, auc]
optimizer: {type: sgd, rate: 0}
train: {epochs: 2}
END
status 0 "$lockstep" train "$work/wide.yaml"
grep -Eq '[0-9]e\+[0-9]' "$work/out" || fail 'the loss is not wide'
same_lengths '^epoch'
status 0 "$lockstep" train "$work/wide.yaml" data.validation=2
same_lengths '^epoch'
status 0 "$lockstep" data inspect "$work/wide.csv"
grep -q '3.000e+17' "$work/out" || fail 'no short number'
same_lengths '^train'
mkdir "$work/a folder with a long name, and with Ümläute"
status 0 "$lockstep" data convert "$work/wide.csv" "$work/a folder with a long name, and with Ümläute/x.npz"
LC_ALL=C.UTF-8 sed -i 's/[^ -~]/u/g' "$work/out" # a character each, for awk
awk 'NR == 1 { at = index($0, "hash") } NR == 2 && substr($0, at) !~ /^[0-9a-f]+$/ { exit 1 }' "$work/out" ||
    fail 'the hash is not below its title'
status 0 "$lockstep" run -n 11 --transport local -- topo
[ "$(sed -n 's/  package.*//p; s/  cores.*//p' "$work/out" | awk '{ print length() }' | sort -u | wc -l)" -le 1 ] ||
    fail 'ranks of two digits are not aligned'

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
