/* Which margins are right already when a layer comes to read them: those are not fetched again.
 *
 * The loader reads the margin of the model's input; a fetch fills what its layer reads; a pool makes some of
 * the margin of its output; element-wise layers leave right what was.  Whether a fetch is left out is
 * decided for all ranks at once, because each message has two ends.  lk__domains_plan() calls this, on each
 * rank; it is arithmetic.
 */
#include "parallel/margins.h"

#include "dist/common/tiles.h"

enum { RIGHT = 4 }; /* boxes of a value that are known to be right, at most */

/* A value on its way through the layers. */
typedef struct value {
    bool all;                   /* its margins are right */
    const lk_box *right[RIGHT]; /* [ranks] each: boxes that are, besides the tile */
    int n_right;
} value;

typedef struct walk {
    lk_plan *plan;
    const lk__net *net;
    const lk_tile_spec *spec; /* by number of a tile */
    const int64_t *tile_of;   /* by layer: number of its tile, -1: none */
    lk_arena *arena;          /* of boxes */
} walk;

static lk_status list_margins(walk *w, int64_t list, value *x, value *y);

/* The boxes that all ranks read, or make, of a layer's value. */
static lk_status boxes_of(walk *w, const lk_tile_spec *spec, bool reads, lk_box **out)
{
    const lk_tiling *t = w->plan->tiling;
    LK_TRY(lk_arena_alloc(w->arena, out, t->size, sizeof **out));
    for (int r = 0; r < t->size; r++) {
        lk__tile_reach reach = lk__tile_reach_of(t, r, spec);
        (*out)[r] = reads ? reach.x_reads : reach.y_makes;
    }
    return LK_OK;
}

/* Whether every rank has right what it reads. */
static bool is_right(const walk *w, const value *x, const lk_box *reads)
{
    bool right = true;
    for (int r = 0; right && !x->all && r < w->plan->tiling->size; r++) {
        right = false;
        for (int i = 0; !right && i < x->n_right; i++)
            right = lk__box_has(&x->right[i][r], &reads[r]);
    }
    return right;
}

/* A layer with windows reads x and makes y. */
static lk_status window_margins(walk *w, const lk_layer_instance *l, lk_tile *tile, value *x,
                                value *y)
{
    lk_box *reads = NULL, *makes = NULL;
    const lk_tile_spec *spec = &w->spec[w->tile_of[l - w->net->instance]];
    LK_TRY(boxes_of(w, spec, true, &reads));
    LK_TRY(boxes_of(w, spec, false, &makes));
    if (is_right(w, x, reads)) {
        lk_fetch_free(tile->get_x);
        tile->get_x = NULL;
    } else if (x->n_right < RIGHT) {
        x->right[x->n_right++] = reads;
    }
    *y = (value){.right = {makes}, .n_right = 1};
    return LK_OK;
}

static lk_status layer_margins(walk *w, int64_t number, value *x, value *y)
{
    const lk_layer_instance *l = &w->net->instance[number];
    const lk_layer_part *part = &w->plan->part[number];
    lk_tile *tile = w->tile_of[number] < 0 ? NULL : w->plan->tile[w->tile_of[number]];
    value changed = {.n_right = 0}, ends;
    if (part->before != LK_STAY)
        x = &changed;
    if (part->by_tile && tile && tile->kind != LK_TILE_POINTWISE) {
        LK_TRY(window_margins(w, l, tile, x, y));
    } else { /* right where x is; of a layer with lists, the tile */
        *y = *x;
        if (l->n_lists > 0) {
            y->all = false;
            y->n_right = 0;
        }
    }
    for (int i = 0; i < l->n_lists; i++)
        LK_TRY(list_margins(w, l->list[i], x, &ends));
    if (part->after != LK_STAY)
        *y = (value){.n_right = 0};
    return LK_OK;
}

static lk_status list_margins(walk *w, int64_t list, value *x, value *y)
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
    walk w = {plan, net, spec, tile_of, NULL};
    value x = {.all = true}, y;
    LK_TRY(lk_arena_new(&w.arena));
    lk_status st = list_margins(&w, 0, &x, &y);
    lk_arena_free(w.arena);
    LK_TRY(st);
    return LK_OK;
}
