#!/bin/bash
# Under a real SLURM srun starts four ranks on two hosts: they compute, reach each other, and know which task
# is what; lists of hosts are those of scontrol.  With TEST_LONG in the environment they also train, where the
# chief distributes the data and where each reads its own, to the weights of one rank.
#
#   tests/hosts/srun.sh openmpi|mpich LOCKSTEP EXAMPLE [SHIM]        77: not here
#
# EXAMPLE is the program of examples/22_cifar10_slurm.c, SHIM the library of mpich_shim.c.
set -eu
here=$(dirname "$(readlink -f "$0")")
if [ "$1" != --inside ]; then
    exec "$here"/slurm 2 "$here"/srun.sh --inside "$1" "$(readlink -f "$2")" "$(readlink -f "$3")" \
        "${4:+$(readlink -f "$4")}"
fi
mpi=$2 lockstep=$3 example=$4 shim=$5
export LK_DEADLINE=60 LK_THREADS=1 LK_MPI=$mpi
work=$(mktemp -d)
case $mpi in
openmpi) language=pmix ;;
mpich) language=pmi2 ;;
esac

fail() {
    echo "FAIL: $mpi: $*"
    cat "$work"/out 2>/dev/null || :
    exit 1
}

# status N COMMAND...: run it, what it prints being in $work/out, and require its status.
status() {
    local want=$1 got=0
    shift
    timeout -k 5 60 "$@" >"$work/out" 2>&1 || got=$?
    [ $got = "$want" ] || fail "status $got instead of $want: $*"
}

# ranks OPTION... -- COMMAND...: by srun with these options, as ranks of the MPI.
ranks() {
    local options=()
    while [ "$1" != -- ]; do
        options+=("$1")
        shift
    done
    shift
    status 0 srun -Q -K --mpi="$language" "${options[@]}" env ${shim:+LD_PRELOAD="$shim"} "$@"
}

# the self-test, where each rank is
ranks -N 2 -n 4 -- "$lockstep" slurm --test
diff - "$work/out" <<'END' || fail 'another self-test'
rank  host   product            sum over ranks        result
   0  node0  [[22,28],[49,64]]  [[88,112],[196,256]]  right
   1  node0  [[22,28],[49,64]]  [[88,112],[196,256]]  right
   2  node1  [[22,28],[49,64]]  [[88,112],[196,256]]  right
   3  node1  [[22,28],[49,64]]  [[88,112],[196,256]]  right

4 ranks on 2 hosts
END
ranks -N 1 -n 1 -- "$lockstep" slurm --test
grep -qx '   0  node[01]  \[\[22,28\],\[49,64\]\]  \[\[22,28\],\[49,64\]\]  right' "$work/out" || fail 'alone'

# the CIFAR-10 network, both ways
if [ -n "${TEST_LONG-}" ]; then
    for way in chief own; do
        for layout in '-N 2 -n 4' '-N 2 -n 3' '-N 2 -n 2' '-N 1 -n 1'; do
            # shellcheck disable=SC2086 # several words
            ranks $layout -- "$example" --distribute $way
            diff examples/output/22_cifar10_slurm.txt "$work/out" || fail "other weights: $way, $layout"
        done
    done
    echo 'the same weights both ways'
fi

# who is who
addresses() { sed -n 's/.*"address": "\([^"]*\)".*/\1/p' "$work/out" | tr '\n' ' '; }
status 0 srun -N 2 -n 4 "$lockstep" slurm --json
[ "$(addresses)" = 'node0:2222 node0:2223 node1:2222 node1:2223 ' ] || fail 'other addresses'
status 0 srun -N 2 -n 3 "$lockstep" slurm --json
[ "$(addresses)" = 'node0:2222 node0:2223 node1:2222 ' ] || fail 'other addresses of three'
status 0 salloc -Q -N 2 -n 4 srun -N 1 -n 2 "$lockstep" slurm --json
[ "$(addresses)" = 'node0:2222 node0:2223 ' ] || fail 'a step on one of two hosts'
status 2 srun -N 2 -n 4 -m cyclic "$lockstep" slurm
grep -q 'SLURM_NODEID is 1, host node1, but task 1 .* is on node0: .*srun --distribution=block' "$work/out" ||
    fail 'tasks in another order'

# hosts, as scontrol takes them apart; SLURM 22.05 has nothing behind the last bracket
RANDOM=1
bracket() { # behind $list
    local k first number
    list+=n[
    for ((k = RANDOM % 3; k >= 0; k--)); do
        first=$((RANDOM % 120))
        printf -v number '%0*d' $((RANDOM % 4)) $first
        list+=$number
        if ((RANDOM % 2)); then list+=-$((first + RANDOM % 7)); fi
        if ((k > 0)); then list+=,; fi
    done
    list+=]
}
lists=20
[ -z "${TEST_LONG-}" ] || lists=500
compared=0
for ((i = 0; i < lists; i++)); do
    list=
    for ((k = 0; k <= i % 3; k++)); do
        list+=${list:+,}host$i$k-
        for ((b = RANDOM % 4; b > 0; b--)); do bracket; done
    done
    scontrol show hostnames "$list" >"$work/names" || fail "scontrol: $list"
    [ "$(sort "$work/names" | uniq -d | wc -l)" = 0 ] || continue
    n=$(wc -l <"$work/names")
    status 0 env SLURM_JOB_NODELIST="$list" SLURM_TASKS_PER_NODE="2(x$n)" SLURM_PROCID=0 \
        SLURM_NPROCS=$((2 * n)) SLURM_NNODES="$n" "$lockstep" slurm --json
    sed -n 's/.*"role": "ps".*"host": "\([^"]*\)".*/\1/p' "$work/out" | cmp -s - "$work/names" ||
        fail "other hosts than scontrol: $list"
    compared=$((compared + 1))
done
[ $compared -ge $((lists / 3)) ] || fail "only $compared lists were compared"
echo "$compared lists of hosts are those of scontrol"
