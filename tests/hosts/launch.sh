#!/bin/bash
# lockstep run on hosts of its own choice: modes, host files and rank files put ranks where they say, with
# DDL's variables; hosts that cannot be reached, have another lockstep or other hardware are named before
# anything is started.  With TEST_LONG in the environment, more of it, and all of it with each MPI.
#
#   tests/hosts/launch.sh openmpi|mpich LOCKSTEP EXAMPLE LIBRARY        77: not here
#
# EXAMPLE is that of examples/23_ddl_mnist.c, LIBRARY that of mpich_end.c.
set -eu
here=$(dirname "$(readlink -f "$0")")
if [ "$1" != --inside ]; then
    command -v "mpirun.$1" >/dev/null || { echo "SKIPPED: there is no mpirun.$1"; exit 77; }
    exec "$here"/hosts 3 "$here"/launch.sh --inside "$1" "$(readlink -f "$2")" "$(readlink -f "$3")" \
        "$(readlink -f "$4")"
fi
mpi=$2 lockstep=$3 example=$4
with=() # for ranks that use MPI
if [ "$mpi" = mpich ]; then with=(-x "LD_PRELOAD=$5"); fi
hosts=$here/hosts
work=$(mktemp -d)
export LK_DEADLINE=60 XDG_RUNTIME_DIR=$work/run LK_START_DEADLINE=25
mkdir -m 700 "$work/run" "$work/fake"

# An agent that is as ssh: of the environment it takes nothing along.  On a host that has a file of its name
# in the folder "fake", that is the command; on one that has NAME.slow there, nothing comes to an end.
cat >"$work/agent" <<END
#!/bin/bash
while [[ \$1 == -* ]]; do shift; done
host=\$1
shift
words="\$*"
if [ -e "$work/fake/\$host.slow" ]; then exec sleep 60; fi
if [ -e "$work/fake/\$host" ]; then words="mount --bind '$work/fake/\$host' '$lockstep' && \$words"; fi
exec env -i PATH="$PATH" TMPDIR="$TMPDIR" "$hosts" on "\${host#node}" /bin/sh -c "\$words"
END
chmod +x "$work/agent"
export OMPI_MCA_plm_rsh_agent=$work/agent HYDRA_LAUNCHER_EXEC=$work/agent

fail() {
    echo "FAIL: $mpi: $*"
    echo '--- stdout'
    cat "$work/out"
    echo '--- stderr'
    cat "$work/err"
    exit 1
}
# run STATUS ARGUMENT...: lockstep run with this MPI, and the status it must have.
run() {
    local want=$1 got=0
    shift
    timeout -k 5 120 "$lockstep" run --mpi "$mpi" "$@" >"$work/out" 2>"$work/err" </dev/null || got=$?
    [ $got -eq "$want" ] || fail "status $got instead of $want: $*"
}
out() { grep -qF -- "$1" "$work/out" || fail "stdout has no line with: $1"; }
err() { grep -qF -- "$1" "$work/err" || fail "stderr has no line with: $1"; }
# shellcheck disable=SC2016 # for the shells of the ranks
tell='echo "$(hostname) rank ${OMPI_COMM_WORLD_RANK-$PMI_RANK}: $DDL_OPTIONS, $DDL_HOST_PORT, $DDL_HOST_LIST, ${LK_TIERS-none}, ${FOO-}, ${BAR-}, ${LK_DEADLINE-none}"'

# A mode: ranks and their cores, in the order of the hosts; -v tells of each check.
run 0 -v "${with[@]}" -H node1:2,node0:2 -m n:2x2 -- topo
out '4 ranks on 2 hosts, tiers b:2x2 as found'
out '├─ host 0: node1'
out '└─ host 1: node0'
cores=$("$lockstep" topo --json | sed -n 's/.*"cores": "\(.*\)"}/\1/p')
if [ "$cores" = 0-1 ]; then
    for rank in 0 1 2 3; do
        grep -Eq "rank $rank .*core $((rank % 2))\$" "$work/out" || fail "rank $rank is on another core"
    done
fi
for host in node0 node1; do
    err "lockstep run: host $host answers: lockstep 0.1.0, numerics epoch 2, modules "
done
err 'lockstep run: mode n:2x2: 4 ranks, 2 on each of 2 hosts, whose '
err "DDL_HOST_LIST='node1:0,1;node0:2,3'"
[ -z "$(ls "$work/run/lockstep" 2>&-)" ] || fail "left: $(ls -R "$work/run/lockstep")"

# A program: DDL's variables and those that are asked for reach ranks of other hosts.
printf '# three\nnode0 slots=2\n\nnode1 slots=2 # and\n  node2   slots=2\n' >"$work/hostfile"
BAR=here run 0 --hostfile "$work/hostfile" --racks 3 -x FOO=given -x BAR --ddlarg '-dump_iter 5' -- sh -c "$tell"
[ "$(wc -l <"$work/out")" -eq 6 ] || fail 'not six ranks'
for rank in 0 1 2 3 4 5; do
    out "node$((rank / 2)) rank $rank: -mode p:2x1x3x1 -dump_iter 5, 2200, node0:0,1;node1:2,3;node2:4,5, 2x1x3, given, here, 60"
done

# A rank file: in DDL's own order, and nobody is asked.
cat >"$work/rf" <<'END'
# the host is the fastest
rank 0=node0 slot=0:0
rank 1=node1 slot=0:0
rank 3=node1 slot=0:1
rank 2=node0 slot=0:1
END
run 0 -v -rf "$work/rf" -m 2x2 -- sh -c "$tell"
for rank in 0 1 2 3; do
    out "node$((rank % 2)) rank $rank: -mode b:2x2, 2200, node0:0,2;node1:1,3, 2x2, , , 60"
done
err 'rf: 4 ranks on 2 hosts, mode b:2x2; the hosts are not looked at'
if [ "$mpi" = mpich ]; then err 'MPICH has no rank files: it gets the hosts of the ranks, and not their cores'; fi

# Checks: nothing is started.
if [ "$mpi" != openmpi ] && [ -z "${TEST_LONG-}" ]; then
    echo ok
    exit 0
fi
run 2 -H node0,node1 -m 4x2 -- touch "$work/touched"
err 'mode b:4x2 puts 4 ranks on a host, but host node0 has '
run 1 -H node0,node7,node1 -m 1x3 -- touch "$work/touched"
err 'error: lockstep run: host node7 cannot be reached: '
[ "$(grep -c 'error: ' "$work/err")" -eq 1 ] || fail 'not one error'
facts=$("$lockstep" info --host)
printf '#!/bin/sh\necho "%s"\n' "$(echo "$facts" | sed 's/host -1 version [^ ]* epoch [0-9]*/host $((${OMPI_COMM_WORLD_RANK-$PMI_RANK})) version 0.0.9 epoch 7/')" \
    >"$work/fake/node1"
chmod +x "$work/fake/node1"
run 2 -H node0,node1 -m 1x2 -- touch "$work/touched"
err 'error: lockstep run: host node1 has lockstep 0.0.9 (numerics epoch 7, hash format 2), and this is 0.1.0 (numerics epoch 2, hash format 2)'
printf '#!/bin/sh\necho "%s"\n' "$(echo "$facts" | sed 's/host -1/host $((${OMPI_COMM_WORLD_RANK-$PMI_RANK}))/; s/sockets 1 cores [0-9]*/sockets 2 cores 64/')" \
    >"$work/fake/node1"
run 2 -H node0,node1 -m 1x2 -- touch "$work/touched"
err 'error: lockstep run: host node1 has 2 sockets with 64 cores, '
err 'and host node0 has 1 socket with '
printf 'rank 0=node0 slot=0:0\nrank 1=node1 slot=0:0\n' >"$work/rf"
run 0 -rf "$work/rf" -- true # a rank file skips the checks
rm "$work/fake/node1"
[ ! -e "$work/touched" ] || fail 'something was started'

[ -n "${TEST_LONG-}" ] || { echo ok; exit 0; }

# DDL's example, as on twelve threads.
run 0 "${with[@]}" -H node0:4,node1:4,node2:4 -m n:4x3 -- "$example" --steps 3 --batch 4 --format glyphs \
    --data 'count=144 test_count=96'
cmp -s "$work/out" "$here/../../examples/output/23_ddl_mnist.txt" || fail 'ddl_mnist prints something else'

# A verb: the state of one rank.
cat >"$work/net.yaml" <<'END'
data: {type: glyphs, count: 60, test_count: 33, batch: 20, shards: 4}
model: [flatten, {type: linear, units: 10}]
loss: softmax_cross_entropy
optimizer: sgd
train: {epochs: 1}
END
state=$("$lockstep" train --quiet "$work/net.yaml" | sed -n 's/^state //p')
run 0 "${with[@]}" -H node0,node1,node2 -m c:1x3 -- train --quiet "$work/net.yaml"
out "state $state"

# Two that cannot be reached are both named; one whose link is cut, by the deadline.
run 1 -H node7,node0,node8 -m 1x3 -- true
err 'host node7 cannot be reached: '
err 'host node8 cannot be reached: '
touch "$work/fake/node1.slow"
LK_START_DEADLINE=3 run 1 -H node0,node1 -m 1x2 -- true
err 'host node1 cannot be reached: nothing was started there in 3 s'
rm "$work/fake/node1.slow"
"$hosts" cut 2
start=$SECONDS
LK_START_DEADLINE=8 run 1 -H node0,node1,node2 -m 1x3 -- true
err 'host node2 cannot be reached: '
((SECONDS - start <= 30)) || fail "after $((SECONDS - start)) s"
# A request to stop ends the probe.
"$lockstep" run --mpi "$mpi" -H node0,node2 -m 1x2 -- touch "$work/touched" >"$work/out" 2>"$work/err" &
command=$!
sleep 1
kill -TERM $command
start=$SECONDS
wait $command && fail 'status 0 after TERM'
((SECONDS - start <= 5)) || fail "ended $((SECONDS - start)) s after TERM"
for ((i = 0; i < 100; i++)); do
    pgrep -f 'info --host' >/dev/null || break
    sleep 0.1
done
! pgrep -f 'info --host' || fail 'a probe is left'
"$hosts" heal 2
[ ! -e "$work/touched" ] || fail 'something was started'
[ -z "$(ls "$work/run/lockstep" 2>&-)" ] || fail "left: $(ls -R "$work/run/lockstep")"
echo ok
