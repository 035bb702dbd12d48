/* Which margins are right already when a layer comes to read them: those are not fetched again.
 *
 * The loader reads the margin of the model's input; a fetch fills what its layer reads; a pool makes some of
 * the margin of its output; element-wise layers leave right what was.  Where two layers read the same
 * value, and the second reads more, the first fetches for both.  Whether a fetch is left out is decided
 * for all ranks at once, because each message has two ends.  lk__domains_plan() calls this, on each rank;
 * it is arithmetic.
 */
#include "parallel/plan/margins.h"

#include "dist/common/tiles.h"

enum { RIGHT = 4 }; /* boxes of a value that are known to be right, at most */

/* A box of a value on each rank: what a layer reads of it, or makes of it.  It is computed whenever it is
 * asked for, because boxes of all ranks, kept by each, are too many where there are thousands. */
typedef struct reach {
    const lk_tile_spec *spec;
    bool makes;
} reach;

/* A value on its way through the layers. */
typedef struct value {
    bool all;           /* its margins are right */
    reach right[RIGHT]; /* boxes that are, besides the tile */
    lk_tile *by[RIGHT]; /* whose fetch makes them so; NULL: they were */
    int n_right;
} value;

typedef struct walk {
    lk_plan *plan;
    const lk__net *net;
    const lk_tile_spec *spec; /* by number of a tile */
    const int64_t *tile_of;   /* by layer: number of its tile, -1: none */
} walk;

static lk_status list_margins(const walk *w, int64_t list, value *x, value *y);

static lk_box box_on(const walk *w, int rank, reach of)
{
    lk__tile_reach all = lk__tile_reach_of(w->plan->tiling, rank, of.spec);
    return of.makes ? all.y_makes : all.x_reads;
}

/* Whether every rank has right what it reads. */
static bool is_right(const walk *w, const value *x, reach reads)
{
    bool right = true;
    for (int r = 0; right && !x->all && r < w->plan->tiling->size; r++) {
        lk_box own = box_on(w, r, reads);
        right = false;
        for (int i = 0; !right && i < x->n_right; i++) {
            lk_box has = box_on(w, r, x->right[i]);
            right = lk__box_has(&has, &own);
        }
    }
    return right;
}

/* Whether on every rank some boxes lie in others. */
static bool lie_in(const walk *w, reach some, reach others)
{
    bool within = true;
    for (int r = 0; within && r < w->plan->tiling->size; r++) {
        lk_box inner = box_on(w, r, some), outer = box_on(w, r, others);
        within = lk__box_has(&outer, &inner);
    }
    return within;
}

/* Let the fetch of a layer before, all of which is read here, get the rest too, if there is one. */
static lk_status fetch_widen(const walk *w, reach reads, value *x, bool *done)
{
    *done = false;
    for (int i = 0; !*done && i < x->n_right; i++) {
        lk_fetch *wider = NULL;
        if (!x->by[i] || !lie_in(w, x->right[i], reads))
            continue;
        LK_TRY(lk__tile_fetch_make(w->plan->tiling, reads.spec, true, &wider));
        lk_fetch_free(x->by[i]->get_x);
        x->by[i]->get_x = wider;
        x->right[i] = reads;
        *done = true;
    }
    return LK_OK;
}

/* A layer with windows reads x and makes y. */
static lk_status window_margins(const walk *w, const lk_layer_instance *l, lk_tile *tile, value *x,
                                value *y)
{
    reach reads = {&w->spec[w->tile_of[l - w->net->instance]], false}, makes = {reads.spec, true};
    bool fetches = tile->kind !=
                   LK_TILE_SAMPLE; /* which reads its tile alone, and cannot fetch for others */
    bool has = !fetches || is_right(w, x, reads);
    if (!has)
        LK_TRY(fetch_widen(w, reads, x, &has));
    if (has) {
        lk_fetch_free(tile->get_x);
        tile->get_x = NULL;
    } else if (x->n_right < RIGHT) {
        x->right[x->n_right] = reads;
        x->by[x->n_right++] = tile;
    }
    *y = (value){.right = {makes}, .n_right = 1};
    return LK_OK;
}

/* A value of its own, whose margin is right where x's is. */
static value value_as(const value *x)
{
    value y = *x;
    for (int i = 0; i < y.n_right; i++)
        y.by[i] = NULL;
    return y;
}

static lk_status layer_margins(const walk *w, int64_t number, value *x, value *y)
{
    const lk_layer_instance *l = &w->net->instance[number];
    const lk_layer_part *part = &w->plan->part[number];
    lk_tile *tile = w->tile_of[number] < 0 ? NULL : w->plan->tile[w->tile_of[number]];
    value changed = {.n_right = 0}, ends, between;
    if (part->before != LK_STAY)
        x = &changed;
    if (part->by_tile && tile && tile->kind != LK_TILE_POINTWISE) {
        LK_TRY(window_margins(w, l, tile, x, y));
    } else { /* right where x is; of a layer with lists, the tile */
        *y = value_as(x);
        if (l->n_lists > 0) {
            y->all = false;
            y->n_right = 0;
        }
    }
    bool follow = l->layer->flags & LK_LAYER_LISTS_FOLLOW;
    for (int i = 0; i < l->n_lists; i++) {
        LK_TRY(list_margins(w, l->list[i], x, &ends));
        if (follow) {
            between = ends;
            x = &between;
        }
    }
    if (part->after != LK_STAY)
        *y = (value){.n_right = 0};
    return LK_OK;
}

static lk_status list_margins(const walk *w, int64_t list, value *x, value *y)
{
    const lk__list *layers = &w->net->list[list];
    value at[2];
    *y = *x;
    for (int64_t i = 0; i < layers->n; i++) {
        value *from = i == 0 ? x : &at[i % 2];
        LK_TRY(layer_margins(w, layers->instance[i], from, &at[(i + 1) % 2]));
        *y = at[(i + 1) % 2];
    }
    return LK_OK;
}

lk_status lk__margins_plan(lk_plan *plan, const lk__net *net, const lk_tile_spec *spec,
                           const int64_t *tile_of)
{
    walk w = {plan, net, spec, tile_of};
    value x = {.all = true}, y;
    return LK_TRACE(list_margins(&w, 0, &x, &y));
}
