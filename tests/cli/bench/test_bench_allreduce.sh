#!/bin/sh
# The bench of allreduce: ranks as threads, as processes of each MPI, and what it refuses.
. "$(dirname "$0")/../expect.sh"

status 0 "$lockstep" bench allreduce --transport local --ranks 3 --seconds 0 --sizes 8,4K
out '3 ranks on 1 node, transport local, shared memory, checks on'
out '4096  '
status 0 "$lockstep" bench allreduce --json --transport local --seconds 0 --sizes 16K --private \
    --algorithm shared --against tree --checks off
"$json" <"$work/out" || fail 'JSON'
figures
out '{"case": "allreduce 16384 B", "bytes": 16384, "algorithm": "shared", "peer": "tree", "whole_microseconds": '
# whole times and differences, each with its noise
for key in whole_microseconds peer_whole_microseconds whole_ratio fill_microseconds microseconds gbytes_per_s peer_microseconds ratio; do
    grep -Eq "\"$key\": ([0-9.e+-]+|null), \"${key}_noise\": ([0-9.e+-]+|null), " "$work/out" || fail "no $key with its noise"
done
status 0 "$lockstep" bench allreduce --tape --json --transport local --seconds 0 --sizes 8,1M
"$json" <"$work/out" || fail 'JSON'
figures
out '{"case": "allreduce 8 B, tape", "bytes": 8, "microseconds": '
out '"peer": "bare", "peer_microseconds": '
# On the tape is the result and no copy of the vector.
out '"tape_bytes": 1048576, '
# DDL's call for several tensors, next to a call for each; more tensors than elements are some without any.
status 0 "$lockstep" bench allreduce --tensors 10 --transport local --ranks 4 --seconds 0 --sizes 8,64K
out '4 ranks on 1 node, transport local, private memory, mode b:4; medians'
status 0 env DDL_OPTIONS='-mode n:2x2' "$lockstep" bench allreduce --tensors 12 --json --transport local \
    --ranks 4 --seconds 0 --sizes 8,256K
"$json" <"$work/out" || fail 'JSON'
figures
out '{"case": "allreduce 8 B, 12 tensors", "bytes": 8, "tensors": 12, "mode": "n:2x2", "microseconds": '
out '{"case": "allreduce 262144 B, 12 tensors", "bytes": 262144, "tensors": 12, '
for key in microseconds gbytes_per_s peer_microseconds ratio; do
    grep -Eq "\"$key\": ([0-9.e+-]+|null), \"${key}_noise\": ([0-9.e+-]+|null), " "$work/out" || fail "no $key with its noise"
done
# Twenty calls take longer than one of the same bytes; on a busy machine it may take more rounds to know.
for seconds in 0 1 5; do
    status 0 "$lockstep" bench allreduce --tensors 20 --json --transport local --ranks 2 \
        --seconds $seconds --sizes 4K
    grep -Eq '"peer": "calls".*"ratio": ([2-9]|[1-9][0-9])' "$work/out" && break
done
grep -Eq '"ratio": ([2-9]|[1-9][0-9])' "$work/out" || fail 'one call is not twice as fast as twenty'
status 2 env DDL_OPTIONS='-mode n:3' "$lockstep" bench allreduce --tensors 2 --transport local --sizes 8
err 'the dimensions 3 hold 3 ranks, but there are 2'
status 2 env DDL_GROUP_SIZE=x "$lockstep" bench allreduce --tensors 2 --transport local --sizes 8
err 'DDL_GROUP_SIZE is "x": it must be a number of elements'
status 2 "$lockstep" bench allreduce --tensors 2 --tape
err 'option --tensors: it does not go with --tape'
for other in unchecked direct; do
    status 0 "$lockstep" bench allreduce --json --transport local --ranks 4 --seconds 0 --sizes 8,64K \
        --against $other
    figures
    out "\"peer\": \"$other\", \"whole_microseconds\": "
done
status 0 "$lockstep" list collectives
out 'partners exchange whole vectors; needs: a power of two of ranks'
out 'never chosen'
status 2 "$lockstep" bench allreduce --sizes 8,6
err 'a size is a multiple of 4 bytes'
status 2 "$lockstep" bench allreduce --checks maybe
err 'give on or off'
status 2 "$lockstep" bench allreduce --transport local --algorithm nope --sizes 8
err 'no allreduce algorithm named "nope"; the names are'
status 2 "$lockstep" bench allreduce --transport local --against mpi --sizes 8
err 'it needs ranks that are MPI processes'

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
for mpi in openmpi mpich; do
    [ -e "$(dirname "$lockstep")/mpi/lockstep-mpi-$mpi.so" ] || continue
    status 0 "mpirun.$mpi" -n 2 "$lockstep" bench allreduce --json --seconds 0 --sizes 64K
    "$json" <"$work/out" || fail 'JSON'
    figures
    out '{"case": "allreduce 65536 B", "bytes": 65536, "algorithm": "shared", "peer": "mpi", "whole_microseconds": '
    case $mpi in openmpi) out '"peer_path": "Open MPI v' ;; mpich) out '"peer_path": "MPICH Version: ' ;; esac
    status 0 "mpirun.$mpi" -n 2 "$lockstep" bench allreduce --tensors 20 --json --seconds 0 --sizes 64K
    "$json" <"$work/out" || fail 'JSON'
    figures
    out '{"case": "allreduce 65536 B, 20 tensors", "bytes": 65536, "tensors": 20, "mode": "b:2", '
done
