/* Joining the blocks of all ranks by the tree over the pieces. */
#include "base/grow.h"
#include "parallel/team.h"

#include <string.h>

enum { NEAR_BYTES = 1 << 20 }; /* of gradients that stay in the caches of a core */

static char *element(const lk_team *t, const lk_sums *sums, int64_t i)
{
    return (char *)lk_slab_data(lk_sums_slab(sums)) + i * (int64_t)lk_dtype_size(t->dtype);
}

/* One block is joined in place.  In fast mode ranks are the pieces, and one without samples gives
 * zeros. */
lk_status lk__team_join(lk_team *t, int64_t first, int64_t n, const char *name,
                        lk_request **request)
{
    bool in_place = t->n_nodes == 1 || t->spec.fast;
    lk_collective call = {.call = LK_CALL_ALLREDUCE,
                          .name = name,
                          .in = in_place ? NULL : element(t, t->sums[0], first),
                          .out = element(t, lk_team_total(t), first),
                          .count = n,
                          .stride = t->elements,
                          .dtype = t->dtype,
                          .fold = LK_FOLD_SUM,
                          .pieces = t->spec.fast ? 0 : t->pieces,
                          .first = t->first};
    if (request)
        LK_TRY(lk_coll_start(t->comm, &call, request));
    else
        LK_TRY(lk_coll_run(t->comm, &call));
    return LK_OK;
}

lk_status lk_team_join_begun(lk_team *t)
{
    if (t->bucket)
        LK_TRY(lk__buckets_end(t));
    return LK_OK;
}

lk_status lk_team_join(lk_team *t)
{
    if (t->comm && !t->bucket)
        LK_TRY(lk__team_join(t, 0, t->joined, "gradients", NULL));
    return LK_OK;
}

/* ---- shares ---- */

lk_range lk_team_share(const lk_team *t)
{
    int64_t line = LK_ALIGN / (int64_t)lk_dtype_size(t->dtype);
    if (!t->comm)
        return (lk_range){0, t->params};
    lk_range lines = lk_range_split(t->params / line, lk_comm_intra_rank(t->comm),
                                    lk_comm_intra_size(t->comm));
    return (lk_range){lines.first * line, lines.n * line};
}

/* On one node each rank joins only what it updates, from where all have it; in fast mode ranks are the
 * pieces. */
static bool is_direct(lk_team *t)
{
    int64_t pieces = t->spec.fast ? t->size : t->pieces;
    if (!t->comm || t->bucket || lk_comm_inter_size(t->comm) > 1 || lk_model_shares(t->spec.model))
        return false;
    if (t->program.pieces != pieces && !lk__program_runs(pieces, t->first, t->size, &t->program)) {
        t->program.pieces = 0;
        return false;
    }
    return true;
}

/* Join elements [first, first + n) of all ranks, from where they lie, into `out`; `clear`: what others
 * have there becomes 0. */
static lk_status direct_join(const lk_team *t, int64_t first, int64_t n, void *out, bool clear)
{
    int64_t elem = (int64_t)lk_dtype_size(t->dtype);
    lk__eval e = {.program = &t->program,
                  .fold = LK_FOLD_SUM,
                  .work = t->dtype,
                  .elem = elem,
                  .apart = true,
                  .pieces = t->program.pieces,
                  .n_out = 1};
    const int leaves = t->program.n_leaves;
    for (int i = 0; i < leaves; i++) {
        unsigned char *sums = lk_shared_data(t->shared, t->program.rank[i]);
        e.leaf[i] = sums + (t->program.index[i] * t->elements + first) * elem;
    }
    e.out[0] = out;
    LK_TRY(lk__program_run(&e, 0, n));
    for (int i = 0; i < leaves && clear; i++)
        if (t->program.rank[i] != t->rank)
            memset(e.leaf[i], 0, (size_t)(n * elem));
    return LK_OK;
}

lk_status lk_team_join_share(lk_team *t)
{
    t->direct = is_direct(t);
    if (!t->direct)
        LK_TRY(lk_team_join(t));
    else if (t->joined > t->params)
        LK_TRY(direct_join(t, t->params, t->joined - t->params, t->seen, false));
    return LK_OK;
}

/* A line that another core has only read is dear to write for the one that fills it in the next batch,
 * unless it has left the near caches by then: so few gradients are also written, with zeros. */
lk_status lk_team_take(void *team, int64_t first, int64_t n, void *out)
{
    lk_team *t = team;
    int64_t elem = (int64_t)lk_dtype_size(t->dtype);
    if (t->direct)
        LK_TRY(direct_join(t, first, n, out, t->params * elem <= NEAR_BYTES));
    else
        memcpy(out, element(t, lk_team_total(t), first), (size_t)(n * elem));
    return LK_OK;
}

lk_status lk_team_meet(lk_team *t)
{
    if (t->comm)
        LK_TRY(lk_barrier(t->comm, "updated"));
    if (t->direct && t->joined > t->params)
        memcpy(element(t, lk_team_total(t), t->params), t->seen,
               (size_t)((t->joined - t->params) * (int64_t)lk_dtype_size(t->dtype)));
    t->direct = false;
    return LK_OK;
}

lk_status lk_team_place(lk_team *t, const lk_slab *from, const char *name, lk_slab **out)
{
    lk_shared *shared = NULL;
    *out = NULL;
    lk_layout *layout = lk_slab_layout(from);
    int64_t bytes = lk_layout_bytes(layout);
    LK_CHECK(t->comm, LK_ESTATE, "this rank is alone: there is nobody to share with");
    LK_TRY(lk_agree(t->comm,
                    lk__grow(&t->placed, &t->max_placed, t->n_placed + 1, sizeof(lk_shared *))));
    bool first = lk_comm_intra_rank(t->comm) == 0;
    LK_TRY(lk_shared_new(t->comm, first ? bytes : 0, name, &shared));
    t->placed[t->n_placed++] = shared;
    void *memory = lk_shared_data(shared, 0);
    if (first)
        memcpy(memory, lk_slab_data(from), (size_t)bytes);
    LK_TRY(lk_agree(t->comm, lk_slab_wrap(layout, memory, bytes, NULL, NULL, out)));
    return LK_OK;
}
