/* allreduce, mpi: MPI_Allreduce of the MPI that started the ranks, to measure against.
 *
 * It blocks inside MPI, without deadline and report, and adds in whatever order that MPI likes: no
 * bits are promised.  Sums and averages, a vector for each rank, blocking calls.
 *
 * Cost: MPI's.
 */
#include "coll/coll.h"
#include "comm/mpi_native.h"

#include <string.h>

static bool mpi_eligible(const lk__coll_args *k, const char **why)
{
    *why = "it needs ranks that are MPI processes";
    if (strcmp(lk_comm_transport(k->comm), "mpi") != 0)
        return false;
    *why = "it does blocking sums and averages of a vector for each rank, not of f16 or bf16";
    return k->wait && k->work == k->c.dtype && k->pieces == k->size && !k->c.first &&
           (k->c.op == LK_REDUCE_SUM || k->c.op == LK_REDUCE_AVG);
}

static double mpi_cost(const lk__coll_args *k, const lk__rates *r)
{
    return lk__coll_args_rounds(k) * r->alpha + 2 * (double)k->bytes * r->beta;
}

static lk_status mpi_start(const lk__coll_args *k, int number, lk_request **out)
{
    (void)number;
    (void)out;
    lk__coll_state *state = k->comm->coll;
    if (!state->native)
        LK_TRY(lk__native_open(k->comm, &state->native));
    LK_TRY_COMM(k->comm->w,
                lk__native_allreduce(state->native, k->c.in, k->c.out, k->c.count, k->c.dtype));
    return lk__reduce_op_finish(k->c.op, k->c.dtype, k->c.count, k->pieces, k->c.out);
}

const lk__coll lk__coll_allreduce_mpi = {
    .call = LK_CALL_ALLREDUCE,
    .name = "mpi",
    .summary = "MPI_Allreduce, to measure against",
    .benchmark_only = true,
    .needs = "MPI processes; blocking sums and averages, not of f16 and bf16",
    .eligible = mpi_eligible,
    .cost = mpi_cost,
    .start = mpi_start};
