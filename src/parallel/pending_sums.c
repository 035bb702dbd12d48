/* Double buffering: the sums of a batch travel while the next one is computed.
 *
 *     batch 0   passes into set 0 | start 0
 *     batch 1   passes into set 1 | wait 0, start 1 | update by 0
 *     batch 2   passes into set 0 | wait 1, start 0 | update by 1
 *
 * The trainer calls it, on its thread.  What is under way progresses on the communicator's progress thread
 * (comm/progress_thread.h), and where that cannot be had, inside backward, whenever a gradient is complete.
 *
 * A communicator learns its links, and makes the memory that the ranks of a node share, in calls that
 * block: so the first sums are waited for.
 */
#include "base/failure.h"
#include "comm/progress_thread.h"
#include "parallel/groups_internal.h"

#include <string.h>

lk_status lk__pending_sums_make(lk__groups *g)
{
    LK_TRY(lk_alloc_zero(&g->pending.joining, g->n_groups, sizeof *g->pending.joining));
    g->pending.helps = g->comm && lk__progress_thread_for(g->comm, "parallel.double_buffering");
    return LK_OK;
}

void lk__pending_sums_free(lk__groups *g)
{
    lk__failure why;
    lk__failure_get(&why);
    if (lk__pending_sums_finish(g) != LK_OK)
        lk__failure_set(&why);
    if (g->pending.helps)
        (void)!lk_comm_set_progress(g->comm, false);
    lk_free(g->pending.joining);
}

lk_status lk__pending_sums_advance(lk__groups *g)
{
    for (int i = 0; g->pending.under_way && i < g->n_groups; i++)
        LK_TRY(lk__joining_advance(&g->pending.joining[i]));
    return LK_OK;
}

lk_status lk__pending_sums_finish(lk__groups *g)
{
    lk__pending_sums *p = &g->pending;
    lk_status first = LK_OK;
    if (!p->under_way)
        return LK_OK;
    p->under_way = false;
    for (int i = 0; i < g->n_groups; i++) {
        lk_status st = lk__joining_end(g, &p->joining[i]);
        first = first == LK_OK ? st : first;
    }
    LK_TRY(first);
    if (g->n_leaf > 0)
        LK_TRY(lk__leaves_join(g, p->result));
    return LK_OK;
}

lk_status lk__groups_start_pending(lk__groups *g)
{
    lk__pending_sums *p = &g->pending;
    p->result = lk__groups_result(g);
    p->set = g->accumulator != g->all;
    p->shards = g->shards;
    p->under_way = true;
    if (g->wire)
        LK_TRY(lk__wire_scale(g->wire, lk_slab_data(lk_accumulator_slab(p->result))));
    for (int i = 0; i < g->n_groups; i++) {
        const lk__grad_group *group = &g->group[i];
        if (group->joins)
            LK_TRY(lk__group_join(g, group, group->elements.first, group->elements.n,
                                  p->joined_once ? &p->joining[i] : NULL));
    }
    p->joined_once = true;
    return LK_OK;
}

lk_accumulator *lk__groups_pending(const lk__groups *g, int64_t *shards)
{
    *shards = g->pending.shards;
    return g->pending.result;
}

/* Copy the slices of `few`, by name, to or from those of `all`. */
static lk_status slices_copy(const lk_slab *few, const lk_slab *all, bool from_all)
{
    lk_slab_layout *layout = lk_slab_layout_of(few);
    for (int64_t i = 0; i < lk_slab_layout_slices(layout); i++) {
        lk_slab_slice one, other;
        int64_t k;
        LK_TRY(lk_slab_layout_slice(layout, i, &one));
        LK_TRY(lk_slab_layout_find(lk_slab_layout_of(all), one.name, &k));
        LK_TRY(lk_slab_layout_slice(lk_slab_layout_of(all), k, &other));
        char *a = (char *)lk_slab_data(few) + one.offset,
             *b = (char *)lk_slab_data(all) + other.offset;
        memcpy(from_all ? a : b, from_all ? b : a, (size_t)one.bytes);
    }
    return LK_OK;
}

lk_status lk__groups_save_pending(lk__groups *g, lk_slab *to)
{
    LK_TRY(lk__pending_sums_finish(g));
    if (!g->pending.result) {
        lk_slab_zero(to);
        return LK_OK;
    }
    return LK_TRACE(slices_copy(to, lk_accumulator_slab(g->pending.result), true));
}

lk_status lk__groups_load_pending(lk__groups *g, const lk_slab *from, int64_t shards)
{
    lk__pending_sums *p = &g->pending;
    LK_TRY(lk__pending_sums_finish(g));
    p->result = shards > 0 ? g->all[0] : NULL;
    p->set = 0;
    p->shards = shards;
    if (p->result)
        LK_TRY(slices_copy(from, lk_accumulator_slab(p->result), false));
    return LK_OK;
}
