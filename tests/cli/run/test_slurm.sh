#!/bin/sh
# Processes that srun started for no MPI say so, and are not jobs of their own; a batch script, what it
# starts, and srun of one process run.  The tasks of a job are parameter servers, workers and a chief.  By
# what SLURM sets in the environment of each.
. "$(dirname "$0")/../expect.sh"
. "$(dirname "$0")/../places.sh"

cat >"$work/net.yaml" <<'END'
data: {type: glyphs, count: 32, test_count: 32, batch: 32, shards: 4}
model: [flatten, {type: linear, units: 10}]
loss: softmax_cross_entropy
optimizer: {type: sgd, rate: 0.1}
train: {epochs: 1}
END

# in_step [VARIABLE=VALUE...] COMMAND...: as the first of three processes of srun.
in_step()
{
    timeout 60 env SLURM_JOB_ID=1 SLURM_NTASKS=3 SLURM_PROCID=0 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=3 "$@"
}

# in_script [VARIABLE=VALUE...] COMMAND...: from the script that sbatch -n 3 started.
in_script()
{
    timeout 60 env SLURM_JOB_ID=1 SLURM_NTASKS=3 SLURM_PROCID=0 "$@"
}

# refused TEXT COMMAND...: the command fails with this text, without a trace.
refused()
{
    text=$1
    shift
    status 2 "$@"
    err "$text"
    no_out
    ! grep -q '#0' "$work/err" || fail 'a trace'
}

strangers='srun started 3 processes, but told them nothing of each other, so that each of them is alone'
refused "$strangers: start them with srun --mpi=pmix for Open MPI, --mpi=pmi2 for MPICH" in_step "$lockstep" topo
refused "$strangers" in_step "$lockstep" train "$work/net.yaml"
refused "$strangers" in_step "$lockstep" train "$work/net.yaml" parallel.data=2
status 2 in_step "$lockstep" verify "$work/net.yaml"
err 'it starts its ranks itself'

status 0 in_step "$lockstep" run -n 1 --transport local -- topo
out '1 rank on 1 host'
status 0 in_step SLURM_STEP_NUM_TASKS=1 "$lockstep" topo
out '1 rank on 1 host'
status 0 in_step "$lockstep" info

status 0 in_script "$lockstep" topo
out '1 rank on 1 host'
status 0 in_script "$lockstep" train "$work/net.yaml" parallel.data=2
status 0 in_script "$lockstep" run -n 2 --transport local -- topo
out '2 ranks on 1 host'

# The tasks of a job: the numbers of keras_experiments' document, and those of its cluster manager.
# on_hosts NODELIST TASKS_PER_NODE PROCID NPROCS NNODES COMMAND...
on_hosts()
{
    hosts=$1 each=$2 own=$3 tasks=$4 nodes=$5
    shift 5
    timeout 60 env SLURM_JOB_NODELIST="$hosts" SLURM_TASKS_PER_NODE="$each" SLURM_PROCID="$own" \
        SLURM_NPROCS="$tasks" SLURM_NNODES="$nodes" "$@"
}

# tasks: of the JSON printed last, "role number address" of each.
tasks()
{
    sed -n 's/.*"role": "\([a-z]*\)", "number": \([0-9]*\),.*"address": "\([^"]*\)".*/\1 \2 \3/p' "$work/out"
}

status 0 on_hosts 'n[1-2]' '2(x2)' 0 4 2 "$lockstep" slurm --json
"$json" <"$work/out" || fail 'no JSON'
[ "$(tasks)" = 'ps 0 n1:2222
worker 0 n1:2223
ps 1 n2:2222
worker 1 n2:2223' ] || fail 'other tasks'
out '{"task": 1, "role": "worker", "number": 0, "chief": true, "host": "n1", "port": 2223, "address": "n1:2223", "ps": 0, "own": false}'
grep -q '^{"task": 0,.*"own": true, "device": "cpu:' "$work/out" || fail 'no device of its own'

status 0 on_hosts a,b,c,d '1,3(x2),4' 2 11 4 "$lockstep" slurm --json
[ "$(tasks | sed -n 's/^worker [0-9]* //p' | tr '\n' ' ')" = \
    'b:2223 b:2224 c:2223 c:2224 d:2223 d:2224 d:2225 ' ] || fail 'other workers'

status 0 on_hosts a,b,c,d '1,3(x2),4' 2 11 4 "$lockstep" slurm \
    --num-param-servers 1 --starting-port 2300 --network ib.cluster
out '11 tasks on 4 hosts: 1 parameter server, 10 workers'
out '   1  chief        0  b.ib.cluster:2300       0'
out 'this is task 2: worker 1, device c'

# One of several that srun started prints, and none of them needs an MPI.
status 0 on_hosts a 3 0 3 1 env SLURM_STEP_NUM_TASKS=3 "$lockstep" slurm
out '3 tasks on 1 host'
status 0 on_hosts a 3 2 3 1 env SLURM_STEP_NUM_TASKS=3 "$lockstep" slurm
no_out

refused 'lockstep slurm: not set, or empty: SLURM_JOB_NODELIST (the hosts, as node[1-3,07-08],login), SLURM_TASKS_PER_NODE' \
    env -u SLURM_JOB_NODELIST "$lockstep" slurm
refused 'SLURM_JOB_NODELIST "a,b" has 2 hosts, but SLURM_NNODES is 3' on_hosts a,b 2,2 0 4 3 "$lockstep" slurm
refused 'SLURM_PROCID is "x": expected which task this is, from 0 to 3' on_hosts a,b 2,2 x 4 2 "$lockstep" slurm
refused 'no task is left to be a worker: 2 tasks on 2 hosts' on_hosts a,b 1,1 0 2 2 "$lockstep" slurm
refused 'option --starting-port' on_hosts a,b 2,2 0 4 2 "$lockstep" slurm --starting-port 0

# The self-test, of any number of ranks, and alone.
status 0 in_script "$lockstep" slurm --test --json
"$json" <"$work/out" || fail 'no JSON'
out '"product": "[[22,28],[49,64]]", "sum": "[[22,28],[49,64]]", "right": true}'
for place in $places; do
    how="--mpi $place"
    if [ "$place" = local ]; then how='--transport local'; fi
    # shellcheck disable=SC2086 # two words
    status 0 timeout 60 "$lockstep" run -n 3 $how -- slurm --test
    [ "$(grep -c '\[\[22,28\],\[49,64\]\]  \[\[66,84\],\[147,192\]\]  right$' "$work/out")" = 3 ] ||
        fail "$place: not three times right"
    out '3 ranks on 1 host'
done
refused "$strangers" in_step "$lockstep" slurm --test

# The MPI that is to be used was not meant; what srun would have to be told depends on it.
[ "$mpis" = ' openmpi mpich' ] || exit 0
refused "$strangers" in_step LK_MPI=mpich "$lockstep" gradcheck --transport mpi
refused 'start them with srun --mpi=pmi2, or set LK_MPI=openmpi' \
    in_step LK_MPI=mpich PMIX_RANK=0 "$lockstep" topo
refused 'start them with srun --mpi=pmix, or set LK_MPI=mpich' \
    in_step LK_MPI=openmpi PMI_RANK=0 PMI_SIZE=3 "$lockstep" topo
