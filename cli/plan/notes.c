/* What text.c and json.c share: words for domains, sums over ranks, and the notes of a plan, such
 * as ranks that are idle. */
#include "plan/show.h"

#include <stdio.h>

const char *const plan_reach_name[] = {"sample", "element", "position", "window", "batch"};
const char *const plan_domain_name[] = {"samples", "tiles"};
const char *const plan_when_name[] = {"in forward", "in backward", "before the update",
                                      "after the update"};
const char *const plan_kind_name[] = {"joined", "fetched", "changed", "sent", "gathered"};
const char *const plan_fetch_name[] = {"x", "dy", "filters"};

bool plan_has_space(const lk_plan *p)
{
    return p->tiling && p->tiling->size > 1;
}

bool plan_has_features(const lk_plan *p)
{
    return p->split && p->split->size > 1;
}

/* Ranks that have the same samples and layers, and features of them each. */
static int ranks_of_features(const lk_plan *p)
{
    return p->split ? p->split->size : 1;
}

static int ranks_of_stage(const lk_plan *p)
{
    return (plan_has_space(p) ? p->ranks * p->tiling->size : p->ranks) * ranks_of_features(p);
}

/* As lk_mesh numbers them. */
int plan_rank(const lk_plan *p, int rank_of_grid)
{
    int first = p->stage * ranks_of_stage(p);
    int place = plan_has_space(p) ? p->rank * p->tiling->size + rank_of_grid : p->rank;
    return first + place * ranks_of_features(p) + (p->split ? p->split->rank : 0);
}

int plan_ranks(const lk_plan *p)
{
    return p->stages * ranks_of_stage(p);
}

int64_t plan_fetched(const lk_layer_plan *l)
{
    return l->get_x_bytes + l->get_dy_bytes + l->get_w_bytes;
}

const lk_fetch *plan_fetch(const lk_layer_plan *l, int number, int64_t *bytes)
{
    const lk_fetch *fetch = (const lk_fetch *[]){l->get_x, l->get_dy, l->get_w}[number];
    int64_t gets = lk_fetch_size_of(fetch).gets;
    int64_t all = (int64_t[]){l->get_x_bytes, l->get_dy_bytes, l->get_w_bytes}[number];
    *bytes = gets > 0 ? all / gets : 0;
    return *bytes > 0 ? fetch : NULL;
}

static bool runs_by_samples(const lk_plan *p)
{
    for (int64_t i = 0; i < p->n_layers; i++)
        if (p->layer[i].domain == LK_BY_SAMPLE)
            return true;
    return false;
}

/* That no samples are left for the rank where layers run by samples. */
static bool note_idle(const lk_plan *p, char out[PLAN_NOTE])
{
    if (!plan_has_space(p) || p->owned.n > 0 || !runs_by_samples(p))
        return false;
    snprintf(out, PLAN_NOTE, "idle share: rank %d has no samples where layers run by samples",
             plan_rank(p, p->tiling->rank));
    return true;
}

/* Features that the widest layer with parameters gives; 0 where a layer is cut. */
static int64_t widest_uncut(const lk_plan *p)
{
    int64_t widest = 1;
    for (int64_t i = 0; i < p->n_layers; i++) {
        const lk_layer_plan *l = &p->layer[i];
        const lk_box *y = &l->tile;
        if (p->part[i].features.x || p->part[i].features.y)
            return 0;
        if (l->param_bytes > 0 && y->ndim > 0 && y->n[y->ndim - 1] > widest)
            widest = y->n[y->ndim - 1];
    }
    return widest;
}

/* That ranks along features have nothing to share. */
static bool note_features(const lk_plan *p, char out[PLAN_NOTE])
{
    int64_t widest = plan_has_features(p) ? widest_uncut(p) : 0;
    long long least = (long long)p->spec.pieces.least_block;
    if (widest == 0)
        return false;
    if (widest < 2 || lk_block_size(widest, p->spec.pieces.blocks, least) < widest)
        snprintf(out, PLAN_NOTE,
                 "features cut nothing: no layer of this model that is wide enough can be cut, so "
                 "the %d ranks along them all do the same; leave out parallel.features",
                 p->split->size);
    else
        snprintf(out, PLAN_NOTE,
                 "features cut nothing: no layer has two blocks of at least pieces.least_block "
                 "%lld features, the widest has %lld, so the %d ranks along them all do the same; "
                 "leave out parallel.features, or give pieces.least_block=%lld, which is another "
                 "run with other bits",
                 least, (long long)widest, p->split->size, (long long)(widest / 2));
    return true;
}

/* What an update rule sends besides. */
static bool note_sums(const lk_plan *p, char out[PLAN_NOTE])
{
    long long most = (long long)p->spec.rule_sums;
    if (most == 0 || p->sum_calls == 0)
        return false;
    snprintf(out, PLAN_NOTE,
             "the optimizer's sums over all parameters are not counted, whose number differs from "
             "step to step: each is %lld call%s of %lld bytes, and a step has up to %lld, so %lld "
             "bytes",
             (long long)p->sum_calls, p->sum_calls == 1 ? "" : "s", (long long)p->sum_bytes, most,
             most * (long long)p->sum_bytes);
    return true;
}

/* The note of a layer; behind the last one those of the rank. */
static bool note_at(const lk_plan *p, int64_t at, char out[PLAN_NOTE])
{
    if (at == p->n_layers)
        return note_idle(p, out);
    if (at == p->n_layers + 1)
        return note_features(p, out);
    if (at > p->n_layers)
        return note_sums(p, out);
    const lk_layer_plan *l = &p->layer[at];
    if (!plan_has_space(p) || !l->can_tile || l->tiled)
        return false;
    snprintf(out, PLAN_NOTE,
             "%s: tiles of %lld position%s are fewer than pieces.least_tile %lld, so it runs by "
             "samples",
             l->name, (long long)l->smallest_tile, l->smallest_tile == 1 ? "" : "s",
             (long long)p->spec.pieces.least_tile);
    return true;
}

bool plan_note_next(const lk_plan *p, int64_t *at, char out[PLAN_NOTE])
{
    while (*at <= p->n_layers + 2)
        if (note_at(p, (*at)++, out))
            return true;
    return false;
}
