/* The arguments of a collective call, checked, and what follows from them. */
#include "coll/coll.h"

#include <lockstep/checked.h>

static lk_status check_fold(const lk_collective *c, const char *what)
{
    LK_CHECK((unsigned)c->fold < LK_N_FOLDS, LK_EINVAL, "%s: %d is no operator", what,
             (int)c->fold);
    LK_CHECK(lk__fold_takes(c->fold, c->dtype), LK_EDTYPE, "%s: no %s of %s", what,
             lk_fold_name(c->fold), lk_dtype_name(c->dtype));
    return LK_OK;
}

static lk_status runs_make(const lk_collective *c, const char *what, int size, int64_t *first,
                           lk__case *out)
{
    LK_CHECK(c->pieces >= 0, LK_EINVAL, "%s: %lld pieces", what, (long long)c->pieces);
    out->pieces = c->pieces > 0 ? c->pieces : size;
    first[0] = 0;
    for (int r = 0; r < size; r++) {
        lk_run run = lk_run_of(out->pieces, r, size);
        first[r + 1] = c->first ? c->first[r + 1] : run.first + run.n;
        LK_CHECK(first[r] <= first[r + 1], LK_EINVAL,
                 "%s: the pieces of rank %d begin behind those "
                 "of rank %d",
                 what, r, r + 1);
    }
    LK_CHECK((!c->first || c->first[0] == 0) && first[size] == out->pieces, LK_EINVAL,
             "%s: the ranks have %lld of %lld pieces", what, (long long)first[size],
             (long long)out->pieces);
    return LK_OK;
}

lk_status lk__case_make(lk_comm *comm, const lk_collective *c, int64_t *first, lk__case *out)
{
    LK_CHECK(c->call >= LK_CALL_BARRIER && c->call <= LK_CALL_NEIGHBOUR, LK_EINVAL,
             "%d is no collective call", (int)c->call);
    const char *what = lk_call_name(c->call);
    int size = lk_comm_size(comm), rank = lk_comm_rank(comm);
    *out = (lk__case){.comm = comm, .c = *c, .rank = rank, .size = size};
    if (c->call == LK_CALL_BARRIER)
        return LK_OK;
    LK_CHECK(lk_dtype_size(c->dtype) > 0, LK_EDTYPE, "%s: %d is no dtype", what, (int)c->dtype);
    LK_CHECK(c->count >= 0, LK_EINVAL, "%s: %lld elements", what, (long long)c->count);
    LK_CHECK(c->root >= 0 && c->root < size, LK_EINVAL, "%s: root %d of %d ranks", what, c->root,
             size);
    LK_CHECK(c->out || c->count == 0, LK_EINVAL, "%s: out of %lld elements is NULL", what,
             (long long)c->count);
    out->elem = (int64_t)lk_dtype_size(c->dtype);
    LK_TRY(lk_mul_i64(c->count, out->elem, &out->bytes));
    if (c->call != LK_CALL_REDUCE && c->call != LK_CALL_ALLREDUCE &&
        c->call != LK_CALL_REDUCE_SCATTER)
        return LK_OK;
    LK_TRY(check_fold(c, what));
    LK_TRY(runs_make(c, what, size, first, out));
    out->first = first;
    out->n_nodes = lk_run_nodes((lk_run){out->pieces, first[rank], first[rank + 1] - first[rank]},
                                NULL);
    LK_CHECK(c->in || out->n_nodes <= 1, LK_EINVAL,
             "%s: rank %d has %d nodes of the tree, which cannot be in place", what, rank,
             out->n_nodes);
    return LK_OK;
}
