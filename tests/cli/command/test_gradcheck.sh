#!/bin/sh
# lockstep gradcheck: every op and every node passes; names, seeds and the exit status of a failure.
. "$(dirname "$0")/../expect.sh"

status 0 "$lockstep" gradcheck
out ' ops, tolerance 1e-06: all pass'
no_err
listed=$("$lockstep" list ops --json | grep -c '"kind": "op"')
checked=$(grep -c ' ok$' "$work/out")
[ "$checked" -gt 3 ] && [ "$checked" -le "$listed" ] || fail "$checked of $listed ops checked"

status 0 "$lockstep" gradcheck --seed 7 mul add
out '2 ops, tolerance 1e-06: all pass'
status 0 "$lockstep" gradcheck --json mul
"$json" <"$work/out" || fail 'not one JSON object a line'
out '"name": "mul"'
out '"pass": true'
out '"error": '

# Rounding alone is above the least tolerance: what fails says where, and the status is 1.
status 1 "$lockstep" gradcheck --tolerance 1e-12
out ' FAILED'
err ' by differences, '
status 1 "$lockstep" gradcheck --tolerance 1e-12 --json
out '"pass": false'
out '"failure": "'

status 2 "$lockstep" gradcheck mull
err 'no op named "mull"; did you mean "mul"?'
no_out

# Nodes that communicate: all that are listed, and a sample for each call of the header.
status 0 "$lockstep" gradcheck --ranks 3
out '3 ranks, transport local'
out ' nodes, tolerance 1e-06: all pass'
no_err
listed=$("$lockstep" list nodes --json | grep -c '"kind": "node"')
checked=$(grep -c ' ok$' "$work/out")
[ "$checked" -gt 3 ] && [ "$checked" -eq "$listed" ] || fail "$checked of $listed nodes checked"
awk 'FNR == 1 { on = 0 } /^\/\* ---- samples/ { on = 1 } on' src/dist/*.c >"$work/samples"
for call in $(sed -n 's/.* lk_status \(lk_[a-z_]*\)(.*/\1/p' include/lockstep/dist.h); do
    grep -q "$call(" "$work/samples" || fail "no sample of src/dist/ calls $call()"
done

status 0 "$lockstep" gradcheck --ranks 2 --json --seed 5 allreduce
"$json" <"$work/out" || fail 'not one JSON object a line'
out '"name": "allreduce", "samples": 14, '
out '"pass": true'
status 1 "$lockstep" gradcheck --ranks 2 --tolerance 1e-12 --json alltoall bcast
out '"pass": false'
err 'of rank '
status 0 "$lockstep" gradcheck --transport self send
out '1 rank, transport self'
status 2 "$lockstep" gradcheck --ranks 2 allreduse
err 'no node named "allreduse"; did you mean "allreduce"?'
no_out

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
for mpi in openmpi mpich; do
    [ -e "$(dirname "$lockstep")/mpi/lockstep-mpi-$mpi.so" ] || continue
    status 0 "mpirun.$mpi" -n 2 "$lockstep" gradcheck --json allreduce send
    "$json" <"$work/out" || fail 'JSON'
    [ "$(grep -c '"pass": true' "$work/out")" -eq 2 ] || fail 'two nodes, each once'
done

# A name that there is not, in the environment too, is a wrong use.
status 2 env LK_ALLREDUCE=rign "$lockstep" gradcheck --ranks 2 allreduce
err 'LK_ALLREDUCE: no allreduce algorithm named "rign"'
! grep -q '#0' "$work/err" || fail 'a trace'
