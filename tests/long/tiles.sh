#!/bin/sh
# Random nets on images and volumes, each on one rank and on random layouts that its pieces allow: all have
# one state, and the same losses and metrics in training and evaluation.
#
#   tests/long/tiles.sh LOCKSTEP [NETS [SEED]]      default: 300 from a seed that is printed
#
# Of a net that fails, seed, layout and experiment are printed.
set -u
lockstep=$1
nets=${2:-300}
seed=${3:-$(od -An -N3 -tu4 /dev/urandom | tr -d ' ')}
echo "$nets nets from seed $seed"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LK_DEADLINE=60

# train WORD: sets $state, and writes what was measured to $work/WORD.
train()
{
    data=1 space=
    for part in $(echo "$1" | tr . ' '); do
        case $part in 1) ;; data*) data=${part#data} ;; spatial*) space=${part#spatial} ;; *) space=$part ;; esac
    done
    n=$data
    for axis in $(echo "$space" | tr x ' '); do
        n=$((n * axis))
    done
    rm -rf "$work/run"
    "$lockstep" run -n "$n" --transport local -- train --quiet "$work/net.yaml" "train.output=$work/run" \
        train.checkpoint.every=never ${space:+"parallel.spatial=$space"} >"$work/out" 2>"$work/err" </dev/null || return 1
    state=$(tail -n 1 "$work/out")
    sed 's/"seconds".*//' "$work/run/metrics.jsonl" >"$work/$1"
}

runs=0 bad=0
while [ "$nets" -gt 0 ]; do
    awk -v seed="$seed" -v table="$work/data" -f "$(dirname "$0")/tile_nets.awk" >"$work/net.yaml"
    layouts=$(sed -n 's/^# layouts: //p' "$work/net.yaml")
    first=
    for layout in $layouts; do
        why=
        if ! train "$layout"; then
            why=$(cat "$work/err")
        elif [ -z "$first" ]; then
            first=$state
        elif [ "$state" != "$first" ]; then
            why="$state, not $first"
        elif ! cmp -s "$work/1" "$work/$layout"; then
            why=$(cat "$work/1" "$work/$layout")
        fi
        runs=$((runs + 1))
        if [ -n "$why" ]; then
            printf 'FAIL: seed %s, layout %s: %s\n' "$seed" "$layout" "$why"
            cat "$work/net.yaml"
            bad=$((bad + 1))
            break
        fi
    done
    seed=$((seed + 1)) nets=$((nets - 1))
done
echo "$runs runs"
[ $bad -eq 0 ]
