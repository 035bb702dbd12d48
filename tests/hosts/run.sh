#!/bin/bash
# Two hosts with two ranks each on a link of 100 Mbit/s: the tiered allreduce beats MPI_Allreduce, the
# cost model is right within a factor of 2, and a cut link is reported with the host behind it.
#
#   tests/hosts/run.sh PROGRAM LOCKSTEP        the program of link.c, and the command; 77: not here
set -eu
here=$(dirname "$(readlink -f "$0")")
if [ "$1" != --inside ]; then
    command -v mpirun.openmpi >/dev/null || { echo 'SKIPPED: there is no mpirun.openmpi'; exit 77; }
    exec "$here"/hosts 2 "$here"/run.sh --inside "$(readlink -f "$1")" "$(readlink -f "$2")"
fi
program=$2 lockstep=$3
hosts=$here/hosts
work=$(mktemp -d)
mpirun() { timeout -k 5 60 mpirun.openmpi --host node0:2,node1:2 -n 4 "$@"; }
fail() {
    echo "FAIL: $*"
    cat "$work"/out 2>/dev/null || :
    exit 1
}

# what is found
mpirun "$lockstep" topo >"$work/out" 2>&1 || fail 'topo'
grep -qF '4 ranks on 2 hosts, tiers b:2x2 as found' "$work/out" || fail 'other tiers'
grep -qF '└─ host 1: node1' "$work/out" || fail 'no node1'

# the race; others may use the machine, so it is run again if it is lost, twice at most
"$hosts" rate 1 100mbit
for try in 1 2 3; do
    won=no
    mpirun "$program" race $((4 << 20)) >"$work/out" 2>&1 && won=yes
    grep -E 'ratio|^tier' "$work/out" || :
    if [ $won = yes ]; then break; fi
    echo "lost, try $try"
done
[ "$won" = yes ] || fail 'the race'
"$hosts" rate 1 off

# the cut: the report names the host, within two seconds of the deadline of two
mpirun "$program" stall >"$work/out" 2>&1 &
job=$!
for ((i = 0; i < 100; i++)); do
    grep -q running "$work/out" && break
    sleep 0.1
done
grep -q running "$work/out" || fail 'it does not run'
"$hosts" cut 1
start=$SECONDS
while ! grep -q 'stall: rank' "$work/out" && ((SECONDS - start < 10)); do sleep 0.1; done
grep -Eq '^rank [01]: stall: rank [01] waits 2\.[0-9] s in allreduce\("gradients"\) for rank [23] on host "node1"' \
    "$work/out" || fail "no report that names the host, after $((SECONDS - start)) s"
((SECONDS - start <= 5)) || fail "reported after $((SECONDS - start)) s"
grep '^rank [01]: stall' "$work/out"
"$hosts" heal 1
kill "$job" 2>/dev/null || :
wait "$job" 2>/dev/null || :
echo ok
