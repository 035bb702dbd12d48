/* Joining the blocks of all ranks by the tree over the pieces. */
#include "base/grow.h"
#include "parallel/team.h"

#include <string.h>

static char *element(const lk_team *t, const lk_sums *sums, int64_t i)
{
    return (char *)lk_slab_data(lk_sums_slab(sums)) + i * (int64_t)lk_dtype_size(t->dtype);
}

/* The call that joins elements from `first` on.  One block is joined in place.  In fast mode ranks
 * are the pieces, and one without samples gives zeros. */
static lk_collective join_call(const lk_team *t, lk_comm_call call, int64_t first, int64_t n,
                               const char *name)
{
    bool in_place = t->n_nodes == 1 || t->spec.fast;
    return (lk_collective){.call = call,
                           .name = name,
                           .in = in_place ? NULL : element(t, t->sums[0], first),
                           .out = element(t, lk_team_total(t), first),
                           .count = n,
                           .stride = t->elements,
                           .dtype = t->dtype,
                           .fold = LK_FOLD_SUM,
                           .pieces = t->spec.fast ? 0 : t->run.total};
}

lk_status lk__team_join(lk_team *t, int64_t first, int64_t n, const char *name,
                        lk_request **request)
{
    lk_collective call = join_call(t, LK_CALL_ALLREDUCE, first, n, name);
    if (request)
        LK_TRY(lk_coll_start(t->comm, &call, request));
    else
        LK_TRY(lk_coll_run(t->comm, &call));
    return LK_OK;
}

lk_status lk_team_join_rest(lk_team *t)
{
    if (t->spec.fast && t->n_nodes == 0)
        lk_sums_clear(t->sums[0]);
    if (t->bucket)
        LK_TRY(lk__buckets_end(t));
    if (t->comm)
        LK_TRY(lk__team_join(t, t->params, t->elements - t->params, "loss and statistics", NULL));
    return LK_OK;
}

lk_status lk_team_join_gradients(lk_team *t)
{
    if (t->comm && !t->bucket)
        LK_TRY(lk__team_join(t, 0, t->params, "gradients", NULL));
    return LK_OK;
}

/* ---- shares ---- */

lk_run lk_team_share(const lk_team *t)
{
    int64_t line = LK_ALIGN / (int64_t)lk_dtype_size(t->dtype);
    if (!t->comm)
        return (lk_run){t->params, 0, t->params};
    lk_run lines = lk_run_of(t->params / line, lk_comm_intra_rank(t->comm),
                             lk_comm_intra_size(t->comm));
    return (lk_run){t->params, lines.first * line, lines.n * line};
}

/* On one node each rank joins only what it updates. */
static lk_status share_scatter(lk_team *t, lk_run mine)
{
    int64_t *counts = NULL;
    int64_t line = LK_ALIGN / (int64_t)lk_dtype_size(t->dtype);
    if (!t->part)
        LK_TRY(lk_alloc(&t->part, mine.n, lk_dtype_size(t->dtype)));
    LK_TRY(lk_alloc(&counts, t->size, sizeof *counts));
    for (int r = 0; r < t->size; r++)
        counts[r] = lk_run_of(t->params / line, r, t->size).n * line;
    lk_collective call = join_call(t, LK_CALL_REDUCE_SCATTER, 0, t->params, "gradients");
    call.in = element(t, t->sums[0], 0);
    call.out = t->part;
    call.counts = counts;
    lk_status st = lk_coll_run(t->comm, &call);
    lk_free(counts);
    LK_TRY(st);
    return LK_OK;
}

lk_status lk_team_join_share(lk_team *t, const void **out)
{
    lk_run mine = lk_team_share(t);
    if (!t->comm || t->bucket || lk_comm_inter_size(t->comm) > 1) {
        LK_TRY(lk_team_join_gradients(t));
        *out = element(t, lk_team_total(t), mine.first);
        return LK_OK;
    }
    LK_TRY(share_scatter(t, mine));
    *out = t->part;
    return LK_OK;
}

lk_status lk_team_meet(lk_team *t)
{
    if (t->comm)
        LK_TRY(lk_barrier(t->comm, "updated"));
    return LK_OK;
}

lk_status lk_team_place(lk_team *t, const lk_slab *from, const char *name, lk_slab **out)
{
    lk_shared *shared = NULL;
    *out = NULL;
    lk_layout *layout = lk_slab_layout(from);
    int64_t bytes = lk_layout_bytes(layout);
    LK_CHECK(t->comm, LK_ESTATE, "this rank is alone: there is nobody to share with");
    LK_TRY(lk__grow(&t->placed, &t->max_placed, t->n_placed + 1, sizeof(lk_shared *)));
    bool first = lk_comm_intra_rank(t->comm) == 0;
    LK_TRY(lk_shared_new(t->comm, first ? bytes : 0, name, &shared));
    t->placed[t->n_placed++] = shared;
    void *memory = lk_shared_data(shared, 0);
    if (first)
        memcpy(memory, lk_slab_data(from), (size_t)bytes);
    LK_TRY(lk_barrier(t->comm, name));
    LK_TRY(lk_slab_wrap(layout, memory, bytes, NULL, NULL, out));
    return LK_OK;
}
