/* What a step sends a second time, because backward runs layers again whose values were not kept: those
 * of segments (train.recompute), or all of a stage (parallel.recompute).
 *
 * A layer that is run again communicates as it did in forward.  But filters of positions of others are
 * fetched once a step, what goes to the next stage has gone, and loss and metrics are not of segments.
 * lk_plan_new() calls it by way of transfers.c, on each rank; it is arithmetic.
 */
#include "base/memory/grow.h"
#include "nn/model.h"
#include "parallel/plan/transfers.h"

/* Whether something is fetched for all passes of a step. */
static bool is_of_step(const lk__net *net, const lk_transfer *t)
{
    for (int64_t u = 0; t->kind == LK_FETCHED && u < net->n_uses; u++)
        if (t->what == net->use[u].name)
            return true;
    return false;
}

static lk_status range_again(lk_plan *p, const lk__net *net, int64_t first, int64_t end,
                             int64_t *max)
{
    for (int64_t i = first; i < end; i++) {
        lk_transfer t = p->transfer[i];
        if (t.kind == LK_SENT || is_of_step(net, &t))
            continue;
        t.when = LK_IN_BACKWARD;
        LK_TRY(lk__grow(&p->transfer, max, p->n_transfers + 1, sizeof *p->transfer));
        p->transfer[p->n_transfers++] = t;
    }
    return LK_OK;
}

/* The layers of the stage that are recorded: the first ones of the model may not be. */
static lk_range recorded_of(const lk_plan *p, const lk_model *model)
{
    int64_t end = p->layers.first + p->layers.n, still = lk__model_still(model);
    int64_t first = still > p->layers.first ? still : p->layers.first;
    return (lk_range){first, first < end ? end - first : 0};
}

lk_status lk__transfers_again(lk_plan *p, const lk_model *model, const lk__sent_forward *sent,
                              int64_t *max)
{
    const lk__net *net = model->net;
    lk__again *again = NULL;
    int64_t forward = p->n_transfers;
    lk_status st = LK_OK;
    if (p->spec.recompute_stages &&
        p->stage < p->stages - 1) /* the last one runs in backward alone */
        LK_TRY(range_again(p, net, 0, forward, max));
    LK_TRY(lk_alloc_zero(&again, p->n_layers, sizeof *again));
    if (p->spec.recompute > 1)
        LK_TRY_TO(done, lk__segments_note(model, p->spec.recompute, p->part, recorded_of(p, model),
                                          again));
    for (int64_t i = 0; i < p->n_layers && st == LK_OK; i++)
        if (again[i] != LK__NOT_AGAIN)
            st = range_again(p, net, again[i] == LK__RUN_AGAIN ? sent[i].first : sent[i].after,
                             sent[i].end, max);
done:
    lk_free(again);
    return LK_TRACE(st);
}
