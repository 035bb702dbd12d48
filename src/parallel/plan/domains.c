/* Which layers run by tiles, and on which boxes.
 *
 * A layer that adds up over positions is *tiled* if every tile of what it adds up has pieces.least_tile
 * positions: this follows from model and pieces alone, because it decides bits.  Where ranks share space,
 * tiled layers run by tiles, others with parameters and those that need whole samples by samples, and the
 * rest where values change least (domain_costs.c).  Where two layers differ, the value changes from one to
 * the other; a list within a layer ends as it began.
 *
 * Then each layer that runs by tiles gets a tile, with margins that are those of all values of its
 * size; margins.c says which of them are fetched.
 *
 * lk_plan_new() calls this, on each rank; it is arithmetic.
 */
#include "parallel/plan/domains.h"

#include "dist/common/tiles.h"
#include "nn/model.h"
#include "parallel/plan/domain_costs.h"
#include "parallel/plan/margins.h"

#include <string.h>

typedef struct walk {
    lk_plan *plan;
    const lk__net *net;
    bool space;         /* ranks share space */
    lk_tile_spec *spec; /* by number of a tile */
    int64_t n_specs, max_specs;
    int64_t *tile_of, *before_of, *after_of, *term_of; /* by layer: number of its tiles, -1: none */
    lk__domain_walk choice;
    lk_arena *arena; /* of these */
} walk;

/* ---- domains ---- */

static int spatial_axes(lk_tensor_type t)
{
    return t.shape.ndim - 1;
}

static bool can_cut(const walk *w, lk_tensor_type t)
{
    return lk__domain_can_cut(w->plan->tiling, t);
}

/* The fewest positions of a tile of such a value. */
static int64_t smallest_tile(const lk_tiling *t, lk_tensor_type type)
{
    return lk__smallest_tile(type, t->tiles, t->step);
}

/* Whether what a layer adds up can be cut; *positions: of the smallest tile of it. */
static bool can_sum(const walk *w, const lk_layer_instance *l, int64_t *positions)
{
    lk_tensor_type summed = l->summed == LK_SUMMED_IN ? l->in : l->out;
    if (l->summed == LK_SUMMED_NOTHING || !can_cut(w, l->in) || !can_cut(w, summed))
        return false;
    *positions = smallest_tile(w->plan->tiling, summed);
    return true;
}

static bool is_tiled(const walk *w, const lk_layer_instance *l)
{
    int64_t positions = 0;
    return can_sum(w, l, &positions) && positions >= w->plan->spec.pieces.least_tile;
}

/* A layer that works on whole samples, because it has not said how else. */
static bool is_silent(const lk_layer_instance *l)
{
    return l->n_params > 0 || l->reach == LK_REACH_SAMPLE ||
           (l->reach == LK_REACH_WINDOW && l->window.ndim == 0);
}

/* Whether a layer's term is one of tiles, by model and pieces alone: where its layer runs by tiles, if
 * there are ranks, so that what it is taken of is there. */
static bool term_is_tiled(const walk *w, const lk_layer_instance *l)
{
    int64_t term = lk__net_term(w->net, l - w->net->instance);
    if (term < 0 || !can_cut(w, l->in) || !can_cut(w, l->out) || !can_cut(w, w->net->term[term].of))
        return false;
    if (l->summed != LK_SUMMED_NOTHING)
        return is_tiled(w, l);
    if (lk__layer_is_by_position(l))
        return true;
    lk_tensor_type of = w->net->term[term].of;
    return !is_silent(l) && smallest_tile(w->plan->tiling, of) >= w->plan->spec.pieces.least_tile;
}

/* Where a layer can run.  Only one without parameters, sums and a term has a choice. */
static void layer_may(const walk *w, const lk_layer_instance *l, bool may[LK__N_DOMAINS])
{
    bool tiles = w->space && can_cut(w, l->in), samples = true;
    if (l->summed != LK_SUMMED_NOTHING) {
        tiles = tiles && is_tiled(w, l);
        samples = !tiles;
    } else if (lk__layer_is_by_position(l)) { /* who has which parameters follows from tiles */
        tiles = tiles && can_cut(w, l->out);
        samples = !tiles;
    } else if (lk__net_term(w->net, l - w->net->instance) >= 0) {
        tiles = tiles && term_is_tiled(w, l);
        samples = !tiles;
    } else {
        tiles = tiles && !is_silent(l);
    }
    may[LK_BY_TILE] = tiles;
    may[LK_BY_SAMPLE] = samples;
}

/* ---- tiles ---- */

static void sizes_set(int64_t to[LK_TILE_AXES], lk_tensor_type t)
{
    for (int d = 0; d < LK_TILE_AXES; d++)
        to[d] = d < spatial_axes(t) ? t.shape.dim[d] : 1;
}

static lk_status spec_add(walk *w, const lk_tile_spec *spec, int64_t *number)
{
    LK_TRY(lk__grow(&w->spec, &w->max_specs, w->n_specs + 1, sizeof *w->spec));
    *number = w->n_specs++;
    w->spec[*number] = *spec;
    return LK_OK;
}

/* A tile for what a layer does. */
static lk_status layer_spec(walk *w, const lk_layer_instance *l, int64_t *number)
{
    lk_tile_spec spec = {.kind = l->window.ndim > 0 ? l->kind : LK_TILE_POINTWISE,
                         .window = l->window};
    /* Of a layer with lists, what comes out: x goes to the layers within. */
    lk_tensor_type in = l->n_lists > 0 ? l->out : l->in;
    spec.window.ndim = spatial_axes(in);
    sizes_set(spec.in, in);
    sizes_set(spec.out, spec.kind == LK_TILE_POINTWISE ? in : l->out);
    return LK_TRACE(spec_add(w, &spec, number));
}

/* A tile for a value that changes. */
static lk_status value_spec(walk *w, lk_tensor_type type, int64_t *number)
{
    lk_tile_spec spec = {.kind = LK_TILE_POINTWISE, .window.ndim = spatial_axes(type)};
    sizes_set(spec.in, type);
    sizes_set(spec.out, type);
    return LK_TRACE(spec_add(w, &spec, number));
}

/* ---- domains of all layers ---- */

static lk_status list_plan(walk *w, int64_t list, lk_domain begin, lk_domain end);

static lk_status change_plan(walk *w, lk_domain from, lk_domain to, lk_tensor_type type,
                             lk_change *change, int64_t *number)
{
    if (from == to)
        return LK_OK;
    *change = to == LK_BY_SAMPLE ? LK_TO_SAMPLES : LK_TO_TILES;
    return LK_TRACE(value_spec(w, type, number));
}

/* A tile for what a layer's term is taken of. */
static lk_status term_plan(walk *w, int64_t number, bool by_tile)
{
    const lk_layer_instance *l = &w->net->instance[number];
    int64_t term = lk__net_term(w->net, number);
    if (term < 0)
        return LK_OK;
    lk_tensor_type of = w->net->term[term].of;
    bool tiled = term_is_tiled(w, l);
    LK_CHECK(tiled || !by_tile, LK_ENOTSUP,
             "layer %s works by tiles, and its term is one of %s, which these do not cut: put what "
             "adds the term into a layer of its own",
             l->name, lk_shape_text(of.shape).s);
    if (tiled)
        LK_TRY(value_spec(w, of, &w->term_of[number]));
    return LK_OK;
}

/* A layer that is to run in a domain, and finds its input in *at. */
static lk_status layer_plan(walk *w, int64_t number, lk_domain domain, lk_domain *at)
{
    const lk_layer_instance *l = &w->net->instance[number];
    lk_layer_part *part = &w->plan->part[number];
    lk_layer_plan *plan = &w->plan->layer[number];
    LK_TRY(change_plan(w, *at, domain, l->in, &part->before, &w->before_of[number]));
    part->by_tile = domain == LK_BY_TILE;
    plan->domain = domain;
    plan->tiled = is_tiled(w, l);
    plan->can_tile = can_sum(w, l, &plan->smallest_tile);
    if (part->by_tile || plan->tiled)
        LK_TRY(layer_spec(w, l, &w->tile_of[number]));
    LK_TRY(term_plan(w, number, part->by_tile));
    for (int i = 0; i < l->n_lists; i++)
        LK_TRY(list_plan(w, l->list[i], domain, domain));
    *at = can_cut(w, l->out) ? domain : LK_BY_SAMPLE;
    return LK_OK;
}

static lk_status list_plan(walk *w, int64_t list, lk_domain begin, lk_domain end)
{
    const lk__list *layers = &w->net->list[list];
    lk_domain at = begin;
    for (int64_t i = 0; i < layers->n; i++)
        LK_TRY(layer_plan(w, layers->instance[i], lk__domain_choose(&w->choice, list, i, at, end),
                          &at));
    if (layers->n == 0)
        return LK_OK;
    int64_t last = layers->instance[layers->n - 1];
    return LK_TRACE(change_plan(w, at, end, w->net->instance[last].out, &w->plan->part[last].after,
                                &w->after_of[last]));
}

/* Whether something would run by tiles, if ranks shared space: a layer that has to, or the first one, as x is
 * read by tiles where that can take them. */
static bool tiles_fit(const walk *w)
{
    walk shared = *w;
    shared.space = true;
    const lk__list *layers = &w->net->list[0];
    for (int64_t i = 0; i < w->net->n_instances; i++) {
        bool may[LK__N_DOMAINS];
        layer_may(&shared, &w->net->instance[i], may);
        if (may[LK_BY_TILE] && (!may[LK_BY_SAMPLE] || layers->instance[0] == i))
            return true;
    }
    return false;
}

/* ---- all of it ---- */

static lk_status tiles_make(walk *w)
{
    lk_plan *p = w->plan;
    LK_TRY(lk_tiling_hold(p->tiling, w->spec, w->n_specs));
    LK_TRY(lk_alloc_zero(&p->tile, w->n_specs, sizeof(lk_tile *)));
    for (; p->n_tiles < w->n_specs; p->n_tiles++)
        LK_TRY(lk_tile_new(p->tiling, &w->spec[p->n_tiles], &p->tile[p->n_tiles]));
    for (int64_t i = 0; i < p->n_layers; i++) {
        lk_layer_part *part = &p->part[i];
        part->tile = w->tile_of[i] < 0 ? NULL : p->tile[w->tile_of[i]];
        part->before_at = w->before_of[i] < 0 ? NULL : p->tile[w->before_of[i]];
        part->after_at = w->after_of[i] < 0 ? NULL : p->tile[w->after_of[i]];
        part->term = w->term_of[i] < 0 ? NULL : p->tile[w->term_of[i]];
    }
    return LK_OK;
}

/* What comes in and goes out, as number of a tile of its own.  x comes by tiles unless the first layer cannot
 * run so; the loss is taken by tiles where it is tiled. */
static lk_status ends_plan(walk *w, int64_t *x, int64_t *y)
{
    lk_plan *p = w->plan;
    const lk__list *layers = &w->net->list[0];
    const lk__net *net = w->net;
    *x = *y = -1;
    bool tiles = layers->n > 0 ? w->choice.may[layers->instance[0]][LK_BY_TILE]
                               : w->space && can_cut(w, net->spec.in);
    p->in = tiles ? LK_BY_TILE : LK_BY_SAMPLE;
    p->loss_tiled = can_cut(w, net->out) &&
                    smallest_tile(p->tiling, net->out) >= p->spec.pieces.least_tile;
    p->tiles_fit = p->loss_tiled || tiles_fit(w);
    p->out = w->space && p->loss_tiled ? LK_BY_TILE : LK_BY_SAMPLE;
    LK_TRY(list_plan(w, 0, p->in, p->out));
    if (p->in == LK_BY_TILE)
        LK_TRY(value_spec(w, net->spec.in, x));
    if (p->loss_tiled)
        LK_TRY(value_spec(w, net->out, y));
    return LK_OK;
}

/* What each layer can do, and what ways through them cost. */
static lk_status choices_make(walk *w)
{
    lk__domain_walk *c = &w->choice;
    c->net = w->net;
    c->tiling = w->plan->tiling;
    LK_TRY(lk_arena_alloc(w->arena, &c->may, w->plan->n_layers, sizeof *c->may));
    LK_TRY(lk_arena_alloc(w->arena, &c->ways, w->plan->n_layers, sizeof *c->ways));
    for (int64_t i = 0; i < w->plan->n_layers; i++)
        layer_may(w, &w->net->instance[i], c->may[i]);
    lk__domains_weigh(c, 0);
    return LK_OK;
}

static lk_status walk_run(walk *w)
{
    lk_plan *p = w->plan;
    int64_t n = p->n_layers, in, out;
    LK_TRY(lk_arena_new(&w->arena));
    LK_TRY(lk_arena_alloc(w->arena, &w->tile_of, 4 * n, sizeof *w->tile_of));
    w->before_of = w->tile_of + n;
    w->after_of = w->before_of + n;
    w->term_of = w->after_of + n;
    for (int64_t i = 0; i < 4 * n; i++)
        w->tile_of[i] = -1;
    LK_TRY(choices_make(w));
    LK_TRY(ends_plan(w, &in, &out));
    LK_TRY(tiles_make(w));
    if (in >= 0)
        p->x = p->tile[in]->x;
    if (out >= 0)
        p->loss = p->tile[out];
    return LK_TRACE(lk__margins_plan(p, w->net, w->spec, w->tile_of));
}

lk_status lk__domains_plan(lk_plan *p, const lk_mesh *mesh, const lk_model *model)
{
    walk w = {.plan = p, .net = model->net, .space = mesh->n[LK_AXIS_SPACE] > 1};
    const int64_t *tile = p->spec.pieces.tile;
    p->in = p->out = LK_BY_SAMPLE;
    if (!w.space && (p->spec.fast || (tile[0] <= 1 && tile[1] <= 1 && tile[2] <= 1)))
        return LK_OK;
    LK_TRY(lk__plan_tiling(p, mesh, w.net));
    LK_TRY(lk_alloc_zero(&p->part, p->n_layers, sizeof *p->part));
    lk_status st = walk_run(&w);
    lk_free(w.spec);
    lk_arena_free(w.arena);
    return LK_TRACE(st);
}

void lk__domains_free(lk_plan *p)
{
    for (int64_t i = 0; i < p->n_tiles; i++)
        lk_tile_free(p->tile[i]);
    lk_free(p->tile);
    lk_free(p->part);
    lk_tiling_free(p->tiling);
}
