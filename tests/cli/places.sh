# shellcheck shell=sh disable=SC2034,SC2154 # the variables are for the tests, or of expect.sh
# Where ranks can be started, for the tests that do; sourced after expect.sh.
#
#   $mpis          the MPIs that the build has modules for
#   $places        "local", ranks that are threads, and those
#   $work/victim   the command, by a name that no other process has
LK_MPI_MODULES=$(cd "$(dirname "$lockstep")" && pwd)/mpi
export LK_MPI_MODULES LK_DEADLINE=20
mpis=
for mpi in openmpi mpich; do
    [ ! -e "$LK_MPI_MODULES/lockstep-mpi-$mpi.so" ] || mpis="$mpis $mpi"
done
places=local$mpis
cp "$lockstep" "$work/victim"

# The process numbers of all victims that run.
victims()
{
    find /proc/[0-9]*/exe -lname "$work/victim" 2>/dev/null | tr -dc '0-9\n'
}

# endless FILE: an experiment that does not end by itself, with a checkpoint after each step.
endless()
{
    cat >"$1" <<'END'
data: {type: glyphs, count: 60, test_count: 33, batch: 20, shards: 4}
model: [flatten, {type: linear, units: 10}]
loss: softmax_cross_entropy
optimizer: sgd
train: {epochs: 1000000, evaluate: never, checkpoint: {every: 1 steps}}
END
}
