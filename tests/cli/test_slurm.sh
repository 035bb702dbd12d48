#!/bin/sh
# Processes that srun started for no MPI say so, and are not jobs of their own; a batch script, what it
# starts, and srun of one process run.  By what SLURM sets in the environment of each.
. "$(dirname "$0")/expect.sh"
. "$(dirname "$0")/places.sh"

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

# The MPI that is to be used was not meant; what srun would have to be told depends on it.
[ "$mpis" = ' openmpi mpich' ] || exit 0
refused "$strangers" in_step LK_MPI=mpich "$lockstep" gradcheck --transport mpi
refused 'start them with srun --mpi=pmi2, or set LK_MPI=openmpi' \
    in_step LK_MPI=mpich PMIX_RANK=0 "$lockstep" topo
refused 'start them with srun --mpi=pmix, or set LK_MPI=mpich' \
    in_step LK_MPI=openmpi PMI_RANK=0 PMI_SIZE=3 "$lockstep" topo
