#!/bin/sh
# A process that the launcher of another MPI started says so, and is not a job of its own.
. "$(dirname "$0")/../expect.sh"
. "$(dirname "$0")/../places.sh"
[ "$mpis" = ' openmpi mpich' ] || { echo 'SKIPPED: there are not two MPIs'; exit 77; }
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

open_mpi='the launcher of Open MPI started 3 processes, but this is MPICH, in which each of them is alone'
mpich='the launcher of MPICH started 3 processes, but this is Open MPI, in which each of them is alone'

# refused TEXT COMMAND...: the job fails with this text, without a trace.
refused()
{
    text=$1
    shift
    status 2 timeout 60 "$@"
    err "$text"
    no_out
    ! grep -q '#0' "$work/err" || fail 'a trace'
}

# What launchers leave in the environment.
refused "$open_mpi: start them with the mpirun of MPICH, or set LK_MPI=openmpi" \
    env LK_MPI=mpich OMPI_COMM_WORLD_SIZE=3 OMPI_COMM_WORLD_RANK=0 "$lockstep" topo
refused "$open_mpi" env LK_MPI=mpich PMIX_RANK=0 SLURM_STEP_NUM_TASKS=3 "$lockstep" topo
refused "$mpich: start them with the mpirun of Open MPI, or set LK_MPI=mpich" \
    env LK_MPI=openmpi PMI_SIZE=3 PMI_RANK=0 "$lockstep" topo
refused "$mpich" env LK_MPI=openmpi PMI_SIZE=3 PMI_RANK=0 PMIX_RANK=1 SLURM_STEP_NUM_TASKS=2 "$lockstep" topo

# Where the launcher's own MPI has no module, another one is opened.
mkdir "$work/one"
cp "$LK_MPI_MODULES/lockstep-mpi-openmpi.so" "$work/one"
refused 'or build the module for MPICH, which is not there' \
    env LK_MPI_MODULES="$work/one" PMI_SIZE=3 PMI_RANK=0 "$lockstep" topo

# alone COMMAND...: one rank is right.
alone()
{
    status 0 timeout 60 "$@"
    out '1 rank on 1 host'
}
alone env LK_MPI=mpich OMPI_COMM_WORLD_SIZE=1 OMPI_COMM_WORLD_RANK=0 "$lockstep" topo
alone env LK_MPI=openmpi PMI_SIZE=1 PMI_RANK=0 "$lockstep" topo
alone env LK_MPI=openmpi PMI_SIZE=3x PMI_RANK=0 "$lockstep" topo          # no number
alone env LK_MPI=openmpi PMI_SIZE=4294967299 PMI_RANK=0 "$lockstep" topo # nor is this, in an int
alone env LK_MPI=mpich SLURM_NTASKS=3 SLURM_STEP_NUM_TASKS=3 PMI_RANK=0 "$lockstep" topo

# The launchers themselves.
if command -v mpirun.mpich >/dev/null && command -v mpirun.openmpi >/dev/null; then
    refused "$mpich" env LK_MPI=openmpi mpirun.mpich -n 3 "$lockstep" topo
    refused "$open_mpi" env LK_MPI=mpich mpirun.openmpi --oversubscribe -n 3 "$lockstep" topo

    # A host's own MPI: its communicator has one rank there, too.
    host=$(dirname "$lockstep")/test_host_
    status 0 timeout 60 mpirun.mpich -n 1 "${host}mpich" open
    out '1 ranks'
    refused "$mpich: start them with the mpirun of Open MPI, or link the program with MPICH" \
        mpirun.mpich -n 3 "${host}openmpi" open
    refused "$open_mpi" mpirun.openmpi --oversubscribe -n 3 "${host}mpich" open
    # It is not taken for another, which LK_MPI names.
    linked='this program is linked with MPICH, but LK_MPI is openmpi: start it with the mpirun of MPICH, or with lockstep run --mpi mpich'
    refused "$linked" env LK_MPI=openmpi mpirun.mpich -n 2 "${host}mpich" open
    status 2 timeout 60 "$lockstep" run -n 2 -- "${host}mpich" open
    err "$linked"
    status 2 timeout 60 "$lockstep" run --mpi mpich -n 2 -- "${host}openmpi" open
    err 'this program is linked with Open MPI, but LK_MPI is mpich'

    # In a job of SLURM MPICH's starts its helpers with srun, and ranks inherit what that sets.
    status 0 timeout 60 env PMIX_RANK=1 PMIX_NAMESPACE=slurm.pmix.1.0 \
        SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2 mpirun.mpich -n 3 "$lockstep" topo
    out '3 ranks on 1 host'
fi

# Numbers of our own are read to their end.
for deadline in 0x10 ' 5' 1,5 1e9999 -1; do
    refused "LK_DEADLINE is \"$deadline\": it must be seconds" env "LK_DEADLINE=$deadline" "$lockstep" topo
done
alone env LK_DEADLINE=1.5e1 "$lockstep" topo
refused 'LK_FINITE is "yes": it must be 0 or 1' env LK_FINITE=yes "$lockstep" topo
alone env LK_FINITE=0 "$lockstep" topo
status 2 env "LK_LOCAL_NODES= 2" "$lockstep" run -n 2 --transport local -- topo
err 'LK_LOCAL_NODES is " 2": it must be a number from 1 to '

# A message that there are no modules names each folder that was looked in once.
status 2 env LK_MPI_MODULES="$work/none" LK_MPI=mpich PMI_RANK=0 "$lockstep" topo
err "is in $work/none (LK_MPI_MODULES names another folder)"

# One that is there, but whose MPI is not, says what the loader says.  One of another build is not used, nor
# do its symbols come in place of the next MPI's.
if command -v cc >/dev/null; then
    mkdir "$work/broken" "$work/other"
    echo 'int nothing;' >"$work/lost.c"
    echo 'extern int nothing; int *lost(void); int *lost(void) { return &nothing; }' >"$work/broken.c"
    cat >"$work/other.c" <<'END'
#include <stdio.h>
struct { int interface; } lk__mpi_module = {-1};
int MPI_Initialized(int *flag);
int MPI_Initialized(int *flag) { *flag = 0; return fputs("another MPI\n", stderr); }
END
    cc -shared -fPIC "$work/lost.c" -o "$work/liblost.so" -Wl,-soname,liblost.so || exit 1
    cc -shared -fPIC "$work/broken.c" -o "$work/broken/lockstep-mpi-mpich.so" "$work/liblost.so" || exit 1
    cc -shared -fPIC "$work/other.c" -o "$work/other/lockstep-mpi-openmpi.so" || exit 1
    rm "$work/liblost.so"
    status 2 env LK_MPI_MODULES="$work/broken" PMI_RANK=0 "$lockstep" topo
    err "$work/broken/lockstep-mpi-mpich.so is there but cannot be loaded: liblost.so: cannot open"
    status 2 env LK_MPI_MODULES="$work/other" PMIX_RANK=0 "$lockstep" topo
    err "the modules for MPI are of another build of the library (looked in $work/other)"
    cp "$LK_MPI_MODULES/lockstep-mpi-mpich.so" "$work/other"
    alone env LK_MPI_MODULES="$work/other" PMIX_RANK=0 "$lockstep" topo
    ! grep -q 'another MPI' "$work/err" || fail 'symbols of the module of another build'
fi

# They are found from the place of the program, wherever that was moved to.
mkdir -p "$work/moved/bin"
cp "$lockstep" "$work/moved/bin"
if ! env -u LK_MPI_MODULES LK_MPI=mpich PMI_RANK=0 "$work/moved/bin/lockstep" topo >"$work/out" 2>"$work/err"; then
    err "is in $work/moved/bin/mpi, $work/moved/bin/lockstep/mpi, $work/moved/bin/../lib"
    folder=$(sed -n 's/^.*lockstep\/mpi, \([^,]*\), .*$/\1/p' "$work/err")
    mkdir -p "$folder"
    cp "$LK_MPI_MODULES/lockstep-mpi-mpich.so" "$folder"
    alone env -u LK_MPI_MODULES LK_MPI=mpich PMI_RANK=0 "$work/moved/bin/lockstep" topo
fi
