/* lockstep plan --draw: which layer is drawn, and where its values are on the paper.
 *
 * Values of one and two axes are drawn as they are, the input of forward beside the gradient of backward; of
 * volumes each layer of tiles is a plane of its own, beside the whole as a solid.
 */
#include "plan/draw.h"

#include "plan/show.h"
#include "verb.h"

#include <errno.h>
#include <string.h>

enum { BORDER = 24 * SVG_PIXEL, HEADING = 34 * SVG_PIXEL, BETWEEN = 30 * SVG_PIXEL };

/* ---- the layer ---- */

static bool is_tiled(const lk_plan *p, int64_t i)
{
    return p->layer[i].domain == LK_BY_TILE && p->part[i].tile;
}

static const lk_layer_plan *layer_named(const lk_plan *p, const char *name)
{
    for (int64_t i = 0; i < p->n_layers; i++)
        if (strcmp(p->layer[i].name, name) == 0)
            return &p->layer[i];
    return NULL;
}

static const lk_layer_plan *layer_first(const lk_plan *p)
{
    const lk_layer_plan *first = NULL;
    for (int64_t i = 0; i < p->n_layers; i++) {
        const lk_layer_plan *l = &p->layer[i];
        if (l->stage != p->stage)
            continue;
        if (is_tiled(p, i) && l->get_x_bytes + l->get_dy_bytes > 0)
            return l;
        if (is_tiled(p, i) && !first)
            first = l;
    }
    return first;
}

/* A layout that has nothing of what is drawn. */
static void layout_refuse(const lk_plan *p, const char *word, const char *name)
{
    static const char tiles[] =
        "`parallel.spatial` or --layout cuts samples into some, as 2x2 does";
    if (name)
        verb_refuse("lockstep plan: option --layer: layout %s has no tiles to draw: %s", word,
                    tiles);
    else if (p->stages > 1)
        verb_refuse("lockstep plan: option --draw: layout %s has stages, which --schedule draws, "
                    "and neither tiles nor features: give --schedule as well",
                    word);
    else
        verb_refuse("lockstep plan: option --draw: layout %s has no tiles to draw: %s, and layers "
                    "into features, as features2 does, which are drawn as well; --schedule draws "
                    "stages",
                    word, tiles);
}

/* A plan whose rank runs no layer by tiles. */
static void rank_refuse(const lk_plan *p)
{
    int rank = plan_rank(p, p->tiling->rank), of_stage = plan_ranks(p) / p->stages;
    if (p->stages > 1)
        verb_refuse("lockstep plan: option --draw: no layer of stage %d, which rank %d has, runs "
                    "by tiles: --rank N draws another, of which stage 0 has those below %d, and "
                    "--schedule the stages",
                    p->stage, rank, of_stage);
    else
        verb_refuse("lockstep plan: option --draw: no layer runs by tiles: notes of the plan say "
                    "which could with smaller pieces.least_tile");
}

/* Whether this layer, which --layer names, can be drawn; a message if not. */
static bool layer_check(const lk_plan *p, const lk_layer_plan *l, const char *name)
{
    if (!l)
        verb_refuse("lockstep plan: option --layer: there is no layer \"%s\"", name);
    else if (l->stage != p->stage)
        verb_refuse("lockstep plan: option --layer: %s is a layer of stage %d, and rank %d has "
                    "stage %d: give --rank %d",
                    l->name, l->stage, plan_rank(p, p->tiling->rank), p->stage,
                    l->stage * (plan_ranks(p) / p->stages));
    else if (!is_tiled(p, l - p->layer))
        verb_refuse("lockstep plan: option --layer: %s runs by samples: it has no tiles to draw",
                    l->name);
    else
        return true;
    return false;
}

/* The layer to draw; NULL after a message. */
static const lk_layer_plan *layer_choose(const lk_plan *p, const char *word, const char *name)
{
    const lk_layer_plan *l = NULL;
    if (!plan_has_space(p)) {
        layout_refuse(p, word, name);
    } else if (name) {
        l = layer_named(p, name);
        l = layer_check(p, l, name) ? l : NULL;
    } else if (!(l = layer_first(p))) {
        rank_refuse(p);
    }
    return l;
}

/* ---- the paper ---- */

/* Views of the layer: forward, and backward where something is fetched for it. */
static int views_of(const lk_plan *p, const lk_layer_plan *l, plan_view out[2])
{
    const lk_tile *t = p->part[l - p->layer].tile;
    int n = 0;
    for (int k = 0; k < 2; k++) {
        int64_t bytes;
        if (k == 1 && !plan_fetch(l, k, &bytes))
            continue;
        plan_view *v = &out[n++];
        *v = (plan_view){.plan = p, .layer = l, .number = k, .ndim = t->x.tile.ndim};
        memcpy(v->n, k == 0 ? t->in : t->out, sizeof v->n);
        v->own = k == 0 ? t->x.tile : t->y.tile;
        v->reads = k == 0 ? t->x_reads : t->dy_reads;
    }
    return n;
}

int plan_draw(const lk_plan *p, const char *word, const char *name, const char *path)
{
    plan_view view[2];
    char title[512];
    svg s;
    const lk_layer_plan *l = layer_choose(p, word, name);
    if (!l)
        return LK_EXIT_USAGE;
    int n = views_of(p, l, view);
    bool beside = view[0].ndim == 2;
    svg_length w = 0, h = 0;
    for (int k = 0; k < n; k++) {
        svg_place size = plan_view_size(&view[k]);
        svg_length gap = k > 0 ? BETWEEN : 0;
        w = beside ? w + gap + size.w : (size.w > w ? size.w : w);
        h = beside ? (size.h > h ? size.h : h) : h + gap + size.h;
    }
    snprintf(title, sizeof title, "Layer %s on layout %s: what rank %d of %d reads", l->name, word,
             plan_rank(p, p->tiling->rank), plan_ranks(p));
    if (!svg_open(&s, path, w + (svg_length)2 * BORDER, h + (svg_length)2 * BORDER + HEADING,
                  title))
        return verb_refuse("lockstep plan: option --draw: cannot write %s: %s", path,
                           strerror(errno));
    svg_text(&s, "head", BORDER, BORDER + 14 * SVG_PIXEL, title);
    svg_length x = BORDER, y = BORDER + HEADING;
    for (int k = 0; k < n; k++) {
        svg_place size = plan_view_size(&view[k]);
        plan_view_draw(&view[k], &s, x, y);
        x += beside ? size.w + BETWEEN : 0;
        y += beside ? 0 : size.h + BETWEEN;
    }
    int failed = svg_close(&s);
    if (failed)
        return verb_refuse("lockstep plan: option --draw: cannot write %s: %s", path,
                           strerror(failed));
    return LK_EXIT_DONE;
}

/* ---- texts ---- */

enum { COLOURS = 8 };

const char *plan_where(const lk_box *box, char out[PLAN_WHERE])
{
    static const char *const name[] = {"positions", "rows", "columns", "planes", "rows", "columns"};
    const char *const *axis = box->ndim == 1 ? name : box->ndim == 2 ? name + 1 : name + 3;
    size_t n = 0;
    out[0] = 0;
    for (int d = 0; d < box->ndim && d < 3; d++) {
        const char *comma = d > 0 ? ", " : "";
        long long first = (long long)box->first[d], last = first + (long long)box->n[d] - 1;
        if (last > first)
            n += (size_t)snprintf(out + n, PLAN_WHERE - n, "%s%s %lld-%lld", comma, axis[d], first,
                                  last);
        else if (last == first)
            n += (size_t)snprintf(out + n, PLAN_WHERE - n, "%s%s %lld", comma, axis[d], first);
        else
            n += (size_t)snprintf(out + n, PLAN_WHERE - n, "%sno %s", comma, axis[d]);
    }
    return out;
}

/* The number among those that this rank fetches from for the layer: it decides the colour. */
static int colour_of(const plan_view *v, int rank)
{
    int before = 0;
    for (int r = 0; r < rank; r++) {
        bool gives = false;
        for (int k = 0; k < 2; k++) {
            int64_t bytes;
            int from;
            lk_box box;
            const lk_fetch *fetch = plan_fetch(v->layer, k, &bytes);
            for (int i = 0; fetch && !gives && lk_fetch_part(fetch, i, &from, &box); i++)
                gives = from == r;
        }
        before += gives;
    }
    return before % COLOURS;
}

void plan_fetched_text(const plan_view *v, int rank, const lk_box *box, int64_t bytes,
                       char out[PLAN_LINE], char kind[16])
{
    char where[PLAN_WHERE];
    snprintf(out, PLAN_LINE, "from rank %d: %s: %lld bytes", plan_rank(v->plan, rank),
             plan_where(box, where), (long long)(bytes * lk_box_count(box)));
    snprintf(kind, 16, "from c%d", colour_of(v, rank));
}
