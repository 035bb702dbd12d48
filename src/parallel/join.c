/* Joining the accumulators of all ranks, group by group, by the tree over the shards, and gradients of
 * tiles then by that over tiles: all of them (lk__groups_allreduce()), or of gradients what this rank
 * updates (lk__groups_reduce_owned()).  The trainer calls it after backward; lk__groups_read_gradient() may
 * run on threads of the optimizer.
 */
#include "base/memory/grow.h"
#include "parallel/groups_internal.h"

#include <string.h>

enum { NEAR_BYTES = 1 << 20 }; /* of gradients that stay in the caches of a core */

static char *element(const lk__groups *g, const lk_accumulator *accumulator, int64_t i)
{
    return (char *)lk_slab_data(lk_accumulator_slab(accumulator)) +
           i * (int64_t)lk_dtype_size(g->dtype);
}

static lk_collective join_of(const lk__groups *g, const lk__level *level, int64_t first, int64_t n)
{
    return (lk_collective){.call = LK_CALL_ALLREDUCE,
                           .name = "gradients",
                           .out = element(g, lk__groups_result(g), first),
                           .count = n,
                           .dtype = g->dtype,
                           .op = LK_REDUCE_SUM,
                           .pieces = level->pieces,
                           .first = level->first};
}

/* The same for gradients that travel as 16 bits: each rank gives one vector. */
static lk_collective narrow_join_of(const lk__groups *g, const lk__level *level, int64_t first,
                                    int64_t n)
{
    lk_collective call = join_of(g, level, first, n);
    call.out = lk__wire_narrow(g->wire, (float *)element(g, lk__groups_result(g), 0), first, n);
    call.dtype = lk__wire_dtype(g->wire);
    return call;
}

static lk_status call_do(lk_comm *comm, const lk_collective *call, lk_request **request)
{
    if (request)
        LK_TRY(lk_coll_start(comm, call, request));
    else
        LK_TRY(lk_coll_run(comm, call));
    return LK_OK;
}

/* How many of elements [first, first + n) travel as 16 bits: gradients, which come before statistics. */
static int64_t narrow_of(const lk__groups *g, int64_t first, int64_t n)
{
    int64_t end = g->wire ? lk__wire_elements(g->wire) : 0;
    return first + n <= end ? n : first < end ? end - first : 0;
}

/* One vector is joined in place. */
lk_status lk__group_join(lk__groups *g, const lk__grad_group *group, int64_t first, int64_t n,
                         lk__joining *joining)
{
    const lk__level *level = &group->level;
    lk__joining now = {.result = lk__groups_result(g), .elements = {first, n}};
    bool begins = joining != NULL;
    joining = begins ? joining : &now;
    *joining = now;
    int64_t narrow = narrow_of(g, first, n);
    if (narrow > 0) {
        lk_collective call = narrow_join_of(g, level, first, narrow);
        LK_TRY(call_do(level->comm, &call, begins ? &joining->request[0] : NULL));
    }
    if (narrow < n) {
        lk_collective call = join_of(g, level, first + narrow, n - narrow);
        if (!level->in_place) {
            call.in = element(g, g->accumulator[0], first + narrow);
            call.stride = g->elements;
        }
        LK_TRY(call_do(level->comm, &call, begins ? &joining->request[1] : NULL));
    }
    if (!begins)
        LK_TRY(lk__joining_end(g, joining));
    return LK_OK;
}

lk_status lk__joining_advance(lk__joining *j)
{
    bool done;
    for (int i = 0; i < 2; i++)
        if (j->request[i])
            LK_TRY(lk_test(&j->request[i], &done, NULL));
    return LK_OK;
}

lk_status lk__joining_end(lk__groups *g, lk__joining *j)
{
    lk_range e = j->elements;
    int64_t narrow = narrow_of(g, e.first, e.n);
    LK_TRY(lk_waitall(2, j->request));
    if (j->result && narrow > 0)
        lk__wire_widen(g->wire, (float *)element(g, j->result, 0), e.first, narrow);
    j->result = NULL;
    return LK_OK;
}

lk_status lk__leaves_join(lk__groups *g, lk_accumulator *total)
{
    const lk_tiling *t = g->plan->tiling;
    int64_t n = 0, elem = (int64_t)lk_dtype_size(g->dtype);
    for (int64_t i = 0; i < lk__model_uses(g->model); i++) {
        lk_tensor *leaves = lk__accumulator_leaves(total, i);
        if (leaves) {
            LK_TRY(lk_tensor_writable_data(leaves, &g->leaf[n].leaves));
            g->leaf[n++].n = lk_tensor_count(leaves) / lk_tiling_leaves(t);
        }
    }
    char *sum = (char *)g->leaf_room + lk__tiles_join_room(t, g->leaf_sum) * elem;
    LK_TRY(lk__tiles_join(t, g->dtype, g->leaf, n, g->leaf_room, sum, "gradients of tiles"));
    for (int64_t i = 0; i < lk__model_uses(g->model); i++) {
        lk_tensor *gradient = lk__accumulator_total(total, i);
        int64_t bytes = lk_tensor_count(gradient) * elem;
        void *to = NULL;
        if (!lk__accumulator_leaves(total, i))
            continue;
        LK_TRY(lk_tensor_writable_data(gradient, &to));
        memcpy(to, sum, (size_t)bytes);
        sum += bytes;
    }
    return LK_OK;
}

lk_status lk__groups_finish_overlap(lk__groups *g)
{
    lk__backward_unwatch(g);
    if (g->bucket)
        LK_TRY(lk__buckets_end(g));
    return LK_TRACE(lk__pending_sums_finish(g));
}

lk_status lk__groups_allreduce(lk__groups *g)
{
    if (g->wire && !g->bucket)
        LK_TRY(lk__wire_scale(g->wire, (float *)element(g, lk__groups_result(g), 0)));
    for (int i = 0; i < g->n_groups && !g->bucket; i++) {
        const lk__grad_group *group = &g->group[i];
        if (group->joins)
            LK_TRY(lk__group_join(g, group, group->elements.first, group->elements.n, NULL));
    }
    if (g->n_leaf > 0)
        LK_TRY(lk__leaves_join(g, lk__groups_result(g)));
    return LK_OK;
}

/* ---- shares ---- */

lk_range lk__groups_owned_range(const lk__groups *g)
{
    int64_t line = LK_ALIGN / (int64_t)lk_dtype_size(g->dtype);
    if (!g->comm)
        return (lk_range){0, g->params};
    lk_range lines = lk_range_split(g->params / line, lk_comm_node_rank(g->comm),
                                    lk_comm_node_size(g->comm));
    return (lk_range){lines.first * line, lines.n * line};
}

/* Whether each rank joins only what it updates, from where all have it; in fast mode ranks are the
 * pieces. */
static bool is_direct(lk__groups *g)
{
    int64_t pieces = g->plan->spec.fast ? g->size : g->shards;
    if (!g->plan->direct)
        return false;
    if (g->program.pieces != pieces && !lk__program_runs(pieces, g->first, g->size, &g->program)) {
        g->program.pieces = 0;
        return false;
    }
    return true;
}

/* Join elements [first, first + n) of all ranks, from where they lie, into `out`; `clear`: what others
 * have there becomes 0. */
static lk_status direct_join(const lk__groups *g, int64_t first, int64_t n, void *out, bool clear)
{
    int64_t elem = (int64_t)lk_dtype_size(g->dtype);
    lk__eval e = {.program = &g->program,
                  .op = LK_REDUCE_SUM,
                  .work = g->dtype,
                  .elem = elem,
                  .apart = true,
                  .pieces = g->program.pieces,
                  .n_out = 1};
    const int leaves = g->program.n_leaves;
    for (int i = 0; i < leaves; i++) {
        unsigned char *sums = lk_shm_data(g->shared, g->program.rank[i]);
        e.leaf[i] = sums + (g->program.index[i] * g->elements + first) * elem;
    }
    e.out[0] = out;
    LK_TRY(lk__program_run(&e, 0, n));
    for (int i = 0; i < leaves && clear; i++)
        if (g->program.rank[i] != g->rank)
            memset(e.leaf[i], 0, (size_t)(n * elem));
    return LK_OK;
}

lk_status lk__groups_reduce_owned(lk__groups *g)
{
    g->direct = is_direct(g);
    if (!g->direct)
        LK_TRY(lk__groups_allreduce(g));
    else if (g->joined > g->params)
        LK_TRY(direct_join(g, g->params, g->joined - g->params, g->stats, false));
    return LK_OK;
}

/* A cache line that another core has read costs its owner an upgrade on its next write.  Where the slab
 * is small enough to stay in the near caches, this core takes ownership by writing zeros there. */
lk_status lk__groups_read_gradient(void *groups, int64_t first, int64_t n, void *out)
{
    lk__groups *g = groups;
    int64_t elem = (int64_t)lk_dtype_size(g->dtype);
    if (g->direct)
        LK_TRY(direct_join(g, first, n, out, g->params * elem <= NEAR_BYTES));
    else
        memcpy(out, element(g, lk__groups_result(g), first), (size_t)(n * elem));
    return LK_OK;
}

lk_status lk__groups_barrier(lk__groups *g)
{
    if (g->comm)
        LK_TRY(lk_barrier(g->comm, "updated"));
    if (g->direct && g->joined > g->params)
        memcpy(element(g, lk__groups_result(g), g->params), g->stats,
               (size_t)((g->joined - g->params) * (int64_t)lk_dtype_size(g->dtype)));
    g->direct = false;
    return LK_OK;
}

lk_status lk__groups_share_slab(lk__groups *g, const lk_slab *from, const char *name, lk_slab **out)
{
    lk_shm *shared = NULL;
    *out = NULL;
    lk_slab_layout *layout = lk_slab_layout_of(from);
    int64_t bytes = lk_slab_layout_bytes(layout);
    LK_CHECK(g->comm, LK_ESTATE, "this rank is alone: there is nobody to share with");
    LK_TRY(
        lk_agree(g->comm, lk__grow(&g->placed, &g->max_placed, g->n_placed + 1, sizeof(lk_shm *))));
    bool first = lk_comm_node_rank(g->comm) == 0;
    LK_TRY(lk_shm_open(g->comm, first ? bytes : 0, name, &shared));
    g->placed[g->n_placed++] = shared;
    void *memory = lk_shm_data(shared, 0);
    if (first)
        memcpy(memory, lk_slab_data(from), (size_t)bytes);
    return LK_TRACE(lk_agree(g->comm, lk_slab_wrap(layout, memory, bytes, NULL, NULL, out)));
}
