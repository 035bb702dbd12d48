#!/bin/sh
# After kill -9 at any moment nothing of ours is left: no file, no process; and the next start works.
#
#   tests/dist/killed.sh openmpi|mpich PROGRAM MODULES        77: cannot run here
#
# In turns all ranks are killed, and all ranks with their launcher.  Files of MPI's own (vader, PMIx,
# UCX and their folders) are not ours.
set -eu
mpi=$1 program=$2
export LK_MPI_MODULES="$3" TEST_TRANSPORT=mpi LK_DEADLINE=20
command -v "mpirun.$mpi" >/dev/null && run=mpirun.$mpi || run=mpirun
command -v "$run" >/dev/null || { echo "SKIPPED: there is no $run"; exit 77; }
command -v setsid >/dev/null || { echo 'SKIPPED: there is no setsid'; exit 77; }
options=
if [ "$mpi" = openmpi ]; then
    options='--oversubscribe --bind-to none'
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
work=$(mktemp -d)
# What MPI itself leaves goes there too, as far as it can be told.
export OMPI_MCA_btl_vader_backing_directory="$work" OMPI_MCA_orte_tmpdir_base="$work"
export UCX_POSIX_DIR="$work"
trap 'rm -rf "$work"' EXIT
cp "$program" "$work/victim" # a name that no other process has
bad=0

ranks() {
    find /proc/[0-9]*/exe -lname "$work/victim" 2>/dev/null | tr -dc '0-9\n' || true
}

# The library makes no folders: these are of `lockstep run` in a test beside this one.
files() {
    find /dev/shm -mindepth 1 -type d -name 'lockstep-*' -prune -o -print 2>/dev/null |
        grep -vi 'vader\|ompi\|pmix\|mpich\|ucx\|hydra' || true
    find /tmp /var/tmp -maxdepth 1 ! -type d \( -name '*lockstep*' -o -name 'lk[._-]*' \) 2>/dev/null || true
}

files | sort -u >"$work/before"
for round in 1 2 3 4 5 6; do
    after=$(od -An -N1 -tu1 /dev/urandom | awk '{ printf "%.2f", 0.05 + $1 / 500 }')
    # shellcheck disable=SC2086 # a list of words
    setsid "$run" $options -n 3 "$work/victim" >"$work/out" 2>&1 &
    launcher=$!
    sleep "$after"
    killed=$(ranks)
    # shellcheck disable=SC2086 # a list of words
    [ -z "$killed" ] || kill -9 $killed 2>/dev/null || true
    # Open MPI's launcher, hit while it starts the ranks, sometimes waits for ever: it gets 5 seconds.
    (
        [ $((round % 2)) -eq 1 ] || sleep 5
        kill -s KILL -- "-$launcher"
    ) 2>/dev/null &
    patience=$!
    wait "$launcher" 2>/dev/null || true
    kill "$patience" 2>/dev/null || true
    echo "killed after $after s:" $killed
done
tries=0
while [ -n "$(ranks)" ] && [ $tries -lt 50 ]; do
    sleep 0.1
    tries=$((tries + 1))
done
[ -z "$(ranks)" ] || { echo 'FAIL: processes are left:' "$(ranks)"; bad=1; }
files | sort -u >"$work/after"
if ! diff "$work/before" "$work/after" | grep '^>'; then
    echo 'nothing is left'
else
    echo 'FAIL: the files above are left'
    bad=1
fi
# shellcheck disable=SC2086 # a list of words
timeout -k 5 60 "$run" $options -n 3 "$work/victim" >"$work/out" 2>&1 || {
    cat "$work/out"
    echo 'FAIL: the next start does not work'
    bad=1
}
exit $bad
