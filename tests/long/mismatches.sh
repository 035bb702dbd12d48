#!/bin/sh
# Every mistake that one rank can make, in every call, of every size: named by all, in time.
#
#   tests/long/mismatches.sh local|openmpi|mpich PROGRAM        77: cannot run here
#
# The program is test_mismatches.  Under MPI it is started several times: what MPI keeps of a job that
# has failed adds up.  Prints how many cases there were, and their median and longest seconds.
set -eu
transport=$1 program=$2
here=$(dirname "$0")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0

# part RANKS NODES PART: run a part of the cases, and keep their seconds.
part() {
    if [ "$transport" = local ]; then
        LK_LOCAL_NODES=$2 "$program" --all --part "$3"
    else
        LK_LOCAL_NODES=$2 "$here/../dist/run.sh" "$transport" "$1" "$program" --all --part "$3"
    fi >"$work/out" 2>"$work/err" || {
        [ $? != 77 ] || { cat "$work/out"; exit 77; }
        echo "FAIL: $transport, $1 ranks, $2 nodes, part $3"
        grep FAIL "$work/err" || tail -n 5 "$work/err"
        bad=1
    }
    sed -n 's/^\([0-9.]*\) [a-z ]*$/\1/p' "$work/out" >>"$work/seconds"
}

parts=40 ranks='2 4'
[ "$transport" != local ] || parts=1 ranks='2+4'
for nodes in 1 2; do
    for n in $ranks; do
        : >"$work/seconds"
        k=0
        while [ $k -lt $parts ]; do
            # Between nodes a tenth of them.
            [ $nodes = 1 ] || [ "$transport" = local ] || [ $((k % 10)) = 0 ] || { k=$((k + 1)); continue; }
            part "$n" $nodes $k/$parts
            k=$((k + 1))
        done
        sort -n "$work/seconds" | awk -v what="$transport, $n ranks, $nodes nodes" '
            { s[NR] = $1 }
            END { printf "%s: %d cases, median %.4f s, longest %.4f s\n", what, NR, s[int((NR + 1) / 2)], s[NR] }'
    done
done
exit $bad
