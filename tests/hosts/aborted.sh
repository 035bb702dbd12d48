#!/bin/bash
# Two hosts with two ranks each, of which rank 1 crashes, or fails: all ranks end within seconds, and who it
# was, on which host, and where is printed.
#
#   tests/hosts/aborted.sh openmpi|mpich PROGRAM        test_abort_hook; 77: not here
set -eu
ulimit -c 0
here=$(dirname "$(readlink -f "$0")")
if [ "$1" != --inside ]; then
    command -v "mpirun.$1" >/dev/null || { echo "SKIPPED: there is no mpirun.$1"; exit 77; }
    exec "$here"/hosts 2 "$here"/aborted.sh --inside "$1" "$(readlink -f "$2")"
fi
mpi=$2 program=$3 out=/run/tmp/out
export LK_MPI=$mpi
case $mpi in
openmpi) ranks='--host node0:2,node1:2 -n 4' ;;
mpich) ranks='-hosts node0,node1 -ppn 2 -n 4' ;;
esac

fail() {
    echo "FAIL: $mpi, $*"
    cat $out
    exit 1
}

# ended HOW: the job ends with a status, and soon.
ended() {
    local start=$SECONDS
    # shellcheck disable=SC2086 # a list of words
    if timeout -k 5 40 "mpirun.$mpi" $ranks "$program" "$1" >$out 2>&1; then fail "$1: status 0"; fi
    ((SECONDS - start <= 20)) || fail "$1: the job took $((SECONDS - start)) s to end"
    echo "$1: $((SECONDS - start)) s"
}

event='rank 1 of 4 on host "node0", process [0-9]*, ended by SIG'
for how in segv abort divide; do
    ended $how
    grep "^lockstep: $event.* after allreduce(\"warmup\") #3, with all ranks of its job\$" $out ||
        fail "$how: no report"
    grep -q '^  #[0-9]* test_abort_hook+0x' $out || fail "$how: no place"
done
ended fail
grep -q '^rank 1 of 4 on host "node0" failed$' $out || fail 'fail: no report'
[ "$mpi" = openmpi ] || exit 0

# Its launcher can be told to let the others speak, those of the other host too; itself it then stays.
told() { grep -c "^rank [023] was told after [0-9.]* s: $event.*, at test_abort_hook+0x" $out || :; }
# shellcheck disable=SC2086
mpirun.openmpi --enable-recovery $ranks "$program" segv >$out 2>&1 &
job=$!
for ((i = 0; i < 200 && $(told) < 3; i++)); do sleep 0.1; done
kill "$job" 2>/dev/null || :
(($(told) == 3)) || fail 'segv: not all were told'
echo "told on both hosts: $((i / 10)) s"
