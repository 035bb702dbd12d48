/* Counting what layouts add to a model, from the plans that ranks run by.
 *
 * Along features a plan has a list of nodes, whose kinds are those of lk_feature_rules.  Along space, data and
 * stages it says of each layer what is fetched, changed and added up, and what a step sends.
 */
#include "gradcheck/node_kinds.h"

#include <string.h>

enum {
    GRADIENTS,
    STATISTICS,
    FETCH,
    FETCH_BACK,
    FETCH_FILTERS,
    SUM_TILES,
    TO_SAMPLES,
    TO_TILES,
    SEND,
    SEND_BACK,
    TIE,
    TILE, /* and behind it a kind for each lk_tile_kind */
    N_OWN = TILE + LK_TILE_SAMPLE + 1
};

static const gradcheck_kind own[N_OWN] = {
    [GRADIENTS] = {"gradients", "", "allreduce over data and space"},
    [STATISTICS] = {"statistics", "allreduce over data, tiles", "allreduce over data, tiles"},
    [FETCH] = {"fetch", "margins of x", ""},
    [FETCH_BACK] = {"fetch_back", "", "margins of dy"},
    [FETCH_FILTERS] = {"fetch_filters", "filters of others, once a step", "the same"},
    [SUM_TILES] = {"sum_tiles", "", "allreduce along each axis"},
    [TO_SAMPLES] = {"to_samples", "alltoall", "alltoall"},
    [TO_TILES] = {"to_tiles", "alltoall", "alltoall"},
    [SEND] = {"send", "to the next stage", ""},
    [SEND_BACK] = {"send_back", "", "to the stage before"},
    [TIE] = {"tie", "", "gradients of each use"},
    [TILE + LK_TILE_POINTWISE] = {"tile_pointwise", "", ""},
    [TILE + LK_TILE_CONV] = {"tile_conv", "", ""},
    [TILE + LK_TILE_CONV_TRANSPOSE] = {"tile_conv_transpose", "", ""},
    [TILE + LK_TILE_POOL] = {"tile_pool", "", ""},
    [TILE + LK_TILE_LCN] = {"tile_lcn", "", ""},
    [TILE + LK_TILE_LOCAL_CONV] = {"tile_local_conv", "", ""},
    [TILE + LK_TILE_LOCAL_CONV_TRANSPOSE] = {"tile_local_conv_transpose", "", ""},
    [TILE + LK_TILE_SAMPLE] = {"tile_sample", "allreduce along each axis", "the same"},
};

/* Rules for programs alone: a plan has the parts of linear_in, and layers with times that are cut gather what
 * they get. */
static bool is_planned(const lk_feature_rule *rule)
{
    return strcmp(rule->kind, "linear_in") != 0 && strcmp(rule->kind, "recurrent_partial") != 0;
}

bool gradcheck_kind_at(int i, gradcheck_kind *out)
{
    int k = N_OWN;
    if (i < N_OWN) {
        *out = own[i];
        return true;
    }
    for (const lk_feature_rule *rule = lk_feature_rules; rule->kind; rule++)
        if (is_planned(rule) && k++ == i) {
            *out = (gradcheck_kind){rule->kind, rule->ahead, rule->back};
            return true;
        }
    return false;
}

/* ---- features ---- */

static int kind_find(const char *name)
{
    gradcheck_kind kind;
    int i = N_OWN;
    while (gradcheck_kind_at(i, &kind) && strcmp(kind.name, name) != 0)
        i++;
    return i;
}

/* The stage that runs a node: its layer's, or for the loss the last. */
static int stage_of(const lk_plan *p, const char *name)
{
    for (int64_t i = 0; i < p->n_layers; i++)
        if (strcmp(p->layer[i].name, name) == 0)
            return p->layer[i].stage;
    return p->stages - 1;
}

static void features_count(const lk_plan *p, int64_t *count)
{
    for (int64_t i = 0; i < p->n_nodes; i++)
        if (stage_of(p, p->node[i].name) == p->stage)
            count[kind_find(p->node[i].kind)]++;
}

/* ---- layers ---- */

static void tiles_count(const lk_layer_plan *l, const lk_layer_part *part, int64_t *count)
{
    count[TO_SAMPLES] += (part->before == LK_TO_SAMPLES) + (part->after == LK_TO_SAMPLES);
    count[TO_TILES] += (part->before == LK_TO_TILES) + (part->after == LK_TO_TILES);
    if (!part->by_tile)
        return;
    count[FETCH] += l->get_x != NULL;
    count[FETCH_BACK] += l->get_dy != NULL;
    count[FETCH_FILTERS] += l->get_w != NULL;
    count[SUM_TILES] += l->tiled;
    count[TILE + part->tile->kind]++;
}

/* Whether a step joins sums of a layer in forward. */
static bool joins(const lk_plan *p, const char *layer)
{
    for (int64_t i = 0; i < p->n_transfers; i++) {
        const lk_transfer *t = &p->transfer[i];
        if (t->when == LK_IN_FORWARD && t->kind == LK_JOINED && strcmp(t->what, layer) == 0)
            return true;
    }
    return false;
}

/* ---- messages ---- */

static void sent_count(const lk_plan *p, int64_t *count)
{
    static const char gradients[] = "gradients";
    for (int64_t i = 0; i < p->n_transfers; i++) {
        const lk_transfer *t = &p->transfer[i];
        bool update = t->when == LK_BEFORE_UPDATE;
        if (t->kind == LK_SENT)
            count[update ? TIE : t->when == LK_IN_FORWARD ? SEND : SEND_BACK]++;
        else if (update && strncmp(t->what, gradients, strlen(gradients)) == 0)
            count[GRADIENTS]++;
    }
}

void gradcheck_kinds_count(const lk_plan *p, int64_t *count)
{
    for (int64_t i = 0; i < p->n_layers; i++) {
        const lk_layer_plan *l = &p->layer[i];
        if (l->stage != p->stage || l->idle)
            continue;
        if (p->tiling && p->tiling->size > 1)
            tiles_count(l, &p->part[i], count);
        count[STATISTICS] += l->reach == LK_REACH_BATCH && joins(p, l->name);
    }
    if (p->split && p->split->size > 1)
        features_count(p, count);
    sent_count(p, count);
}
