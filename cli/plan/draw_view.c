/* One value of a layer drawn: its tiles, whose they are, and what is fetched from whom.
 *
 * A plane is a picture of two axes, one of columns and one of rows; a value of one axis is a strip.  Of a
 * volume there is a plane for each layer of tiles along the first axis, with what lies in it.
 */
#include "plan/draw.h"
#include "plan/show.h"

#include <string.h>

enum {
    SIDE = 400 * SVG_PIXEL,  /* the longer axis of an image, */
    STRIP = 640 * SVG_PIXEL, /* of a row, */
    PLANE = 220 * SVG_PIXEL, /* and of a plane of a volume */
    STRIP_HEIGHT = 64 * SVG_PIXEL,
    LEFT = 34 * SVG_PIXEL,       /* for positions of rows */
    TOP = 46 * SVG_PIXEL,        /* for a heading and positions of columns */
    LINE = 18 * SVG_PIXEL,       /* of the legend */
    GAP = 26 * SVG_PIXEL,        /* between planes */
    ACROSS = 4,                  /* planes side by side */
    TEXT_WIDTH = 430 * SVG_PIXEL /* room for a legend */
};

/* A plane: where it is on the paper, and what of the value it shows. */
typedef struct plane {
    const plan_view *v;
    int row, column; /* axes; row -1: there is none */
    lk_range depth;  /* of the first axis of a volume */
    svg_place at;
} plane;

/* ---- the place of a box ---- */

/* The length on paper of axis d, when the longer of two is `side`: at least a quarter of it. */
static svg_length axis_length(const plan_view *v, int d, int other, svg_length side)
{
    int64_t longest = v->n[d] > v->n[other] ? v->n[d] : v->n[other];
    svg_length length = longest > 0 ? side * v->n[d] / longest : 0;
    return length < side / 4 ? side / 4 : length;
}

static svg_place plane_size(const plan_view *v)
{
    if (v->ndim == 1)
        return (svg_place){.w = STRIP, .h = STRIP_HEIGHT};
    int row = v->ndim - 2, column = v->ndim - 1;
    svg_length side = v->ndim == 2 ? SIDE : PLANE;
    return (svg_place){.w = axis_length(v, column, row, side),
                       .h = axis_length(v, row, column, side)};
}

static svg_length along(int64_t position, int64_t n, svg_length length)
{
    return n > 0 ? position * length / n : 0;
}

/* Where a box is in a plane; false: not in it. */
static bool place_of(const plane *p, const lk_box *box, svg_place *out)
{
    const plan_view *v = p->v;
    int64_t first = box->first[p->column], last = first + box->n[p->column];
    if (lk_box_count(box) == 0)
        return false;
    if (v->ndim == 3 && (box->first[0] >= p->depth.first + p->depth.n ||
                         box->first[0] + box->n[0] <= p->depth.first))
        return false;
    *out = p->at;
    out->x += along(first, v->n[p->column], p->at.w);
    out->w = p->at.x + along(last, v->n[p->column], p->at.w) - out->x;
    if (p->row >= 0) {
        first = box->first[p->row], last = first + box->n[p->row];
        out->y += along(first, v->n[p->row], p->at.h);
        out->h = p->at.y + along(last, v->n[p->row], p->at.h) - out->y;
    }
    return true;
}

/* ---- tiles, ranks and fetches ---- */

static int64_t tiles_along(const plan_view *v, int d)
{
    const lk_tiling *t = v->plan->tiling;
    return d >= 0 && d < t->ndim ? t->tiles[d] : 1;
}

static lk_range tile_along(const plan_view *v, int d, int64_t i)
{
    return lk_tile_range(v->n[d], i, tiles_along(v, d), v->plan->tiling->step);
}

static bool lies_in(const lk_box *box, const lk_box *outer)
{
    lk_box both = lk_box_intersect(box, outer);
    return lk_box_count(&both) == lk_box_count(box);
}

static void tiles_draw(const plane *p, svg *to)
{
    const plan_view *v = p->v;
    for (int64_t i = 0; i < tiles_along(v, p->row); i++) {
        for (int64_t j = 0; j < tiles_along(v, p->column); j++) {
            char where[PLAN_WHERE];
            svg_place at;
            lk_box box = {.ndim = v->ndim, .first = {p->depth.first}, .n = {p->depth.n}};
            lk_range range = tile_along(v, p->column, j);
            box.first[p->column] = range.first, box.n[p->column] = range.n;
            if (p->row >= 0) {
                range = tile_along(v, p->row, i);
                box.first[p->row] = range.first, box.n[p->row] = range.n;
            }
            if (place_of(p, &box, &at))
                svg_rect(to, lies_in(&box, &v->own) ? "tile own" : "tile", at,
                         plan_where(&box, where));
        }
    }
}

static void fetched_draw(const plane *p, svg *to)
{
    int64_t bytes;
    int rank;
    lk_box box;
    const lk_fetch *fetch = plan_fetch(p->v->layer, p->v->number, &bytes);
    for (int i = 0; fetch && lk_fetch_part(fetch, i, &rank, &box); i++) {
        char text[PLAN_LINE], kind[16];
        svg_place at;
        if (!place_of(p, &box, &at))
            continue;
        plan_fetched_text(p->v, rank, &box, bytes, text, kind);
        svg_rect(to, kind, at, text);
    }
}

/* What is fetched of a rank's tiles in a plane; false: nothing. */
static bool fetched_place(const plane *p, int rank, svg_place *out, int64_t *bytes)
{
    int from;
    lk_box box;
    const lk_fetch *fetch = plan_fetch(p->v->layer, p->v->number, bytes);
    for (int i = 0; fetch && lk_fetch_part(fetch, i, &from, &box); i++) {
        if (from == rank && place_of(p, &box, out)) {
            *bytes *= lk_box_count(&box);
            return true;
        }
    }
    return false;
}

/* The widest of the strips left, right, above and below `part` in `whole`; false: none has room for text. */
static bool free_place(svg_place whole, svg_place part, svg_place *out)
{
    svg_length right = part.x + part.w, below = part.y + part.h;
    svg_place strip[] = {{whole.x, whole.y, part.x - whole.x, whole.h},
                         {right, whole.y, whole.x + whole.w - right, whole.h},
                         {whole.x, whole.y, whole.w, part.y - whole.y},
                         {whole.x, below, whole.w, whole.y + whole.h - below}};
    *out = (svg_place){.w = 0};
    for (int i = 0; i < 4; i++)
        if (strip[i].w >= 20 * SVG_PIXEL && strip[i].h >= 16 * SVG_PIXEL &&
            strip[i].w * strip[i].h > out->w * out->h)
            *out = strip[i];
    return out->w > 0;
}

static void text_in(svg *to, const char *kind, svg_place at, svg_length down, const char *text)
{
    svg_text(to, kind, at.x + at.w / 2, at.y + at.h / 2 + 4 * SVG_PIXEL + down, text);
}

/* Whose tiles they are: a frame around those of each rank, its number, and the bytes that come from it. */
static void ranks_draw(const plane *p, svg *to)
{
    const plan_view *v = p->v;
    for (int r = 0; r < v->plan->tiling->size; r++) {
        char text[32];
        svg_place at, part, room;
        int64_t bytes;
        lk_box box = lk_tiling_box(v->plan->tiling, r, v->ndim, v->n, NULL);
        if (!place_of(p, &box, &at))
            continue;
        svg_rect(to, "rank", at, NULL);
        bool gives = fetched_place(p, r, &part, &bytes);
        bool apart = !gives || free_place(at, part, &room);
        if (!gives)
            room = at;
        else if (!apart)
            room = part;
        bool named = room.w >= 20 * SVG_PIXEL && room.h >= (apart ? 16 : 32) * SVG_PIXEL;
        snprintf(text, sizeof text, "%s%d", room.w >= 56 * SVG_PIXEL ? "rank " : "",
                 plan_rank(v->plan, r));
        if (named)
            text_in(to, apart ? "rank-mid" : "box-mid", room, apart ? 0 : -9 * SVG_PIXEL, text);
        if (!gives || part.w < 44 * SVG_PIXEL || part.h < 12 * SVG_PIXEL)
            continue;
        snprintf(text, sizeof text, "%lld", (long long)bytes);
        text_in(to, "box-mid", part, apart || !named ? 0 : 7 * SVG_PIXEL, text);
    }
}

/* Where tiles begin and the value ends, along columns above and along rows to the left; those that would lie
 * on another are left out. */
static void ticks_draw(const plane *p, svg *to)
{
    for (int k = 0; k < 2; k++) {
        int d = k == 0 ? p->column : p->row;
        svg_length last = -1000 * SVG_PIXEL;
        for (int64_t i = 0; d >= 0 && i <= tiles_along(p->v, d); i++) {
            int64_t n = p->v->n[d],
                    at = i < tiles_along(p->v, d) ? tile_along(p->v, d, i).first : n;
            svg_length place = along(at, n, k == 0 ? p->at.w : p->at.h);
            char text[32];
            if (place - last < (k == 0 ? 26 : 11) * SVG_PIXEL)
                continue;
            last = place;
            snprintf(text, sizeof text, "%lld", (long long)at);
            if (k == 0)
                svg_text(to, "tick-mid", p->at.x + place, p->at.y - 600, text);
            else
                svg_text(to, "tick-end", p->at.x - 600, p->at.y + place + 350, text);
        }
    }
}

/* ---- a view ---- */

static void plane_draw(const plane *p, svg *to)
{
    const plan_view *v = p->v;
    char where[PLAN_WHERE];
    svg_place at;
    lk_box whole = lk_box_whole(v->ndim, v->n);
    svg_rect(to, "sample", p->at, plan_where(&whole, where));
    tiles_draw(p, to);
    fetched_draw(p, to);
    ranks_draw(p, to);
    if (place_of(p, &v->reads, &at))
        svg_rect(to, "reads", at, NULL);
    ticks_draw(p, to);
}

static int64_t planes_of(const plan_view *v)
{
    return v->ndim == 3 ? tiles_along(v, 0) : 1;
}

static int64_t fetches_of(const plan_view *v)
{
    int64_t bytes, n = 0;
    int rank;
    lk_box box;
    const lk_fetch *fetch = plan_fetch(v->layer, v->number, &bytes);
    while (fetch && lk_fetch_part(fetch, (int)n, &rank, &box))
        n++;
    return n;
}

/* Places for planes; a volume has the solid in the first. */
static svg_place view_cell(const plan_view *v, int64_t i)
{
    svg_place one = plane_size(v);
    return (svg_place){.x = i % ACROSS * (one.w + LEFT + GAP),
                       .y = i / ACROSS * (one.h + TOP + GAP),
                       .w = one.w,
                       .h = one.h};
}

svg_place plan_view_size(const plan_view *v)
{
    int64_t cells = planes_of(v) + (v->ndim == 3);
    int64_t last = cells - 1, widest = cells < ACROSS ? cells : ACROSS;
    svg_place cell = view_cell(v, last);
    svg_place size = {.w = view_cell(v, widest - 1).x + LEFT + cell.w,
                      .h = cell.y + LINE + TOP + cell.h + (svg_length)LINE * (4 + fetches_of(v))};
    size.w += 12 * SVG_PIXEL; /* the last position is wider than its tick */
    if (size.w < TEXT_WIDTH)
        size.w = TEXT_WIDTH;
    return size;
}

/* "planes 16-31, it reads 16-17", of a plane of a volume. */
static const char *depth_text(const plane *p, char out[PLAN_WHERE])
{
    const lk_box *reads = &p->v->reads;
    long long first = (long long)p->depth.first, last = first + (long long)p->depth.n - 1;
    long long from = (long long)reads->first[0], to = from + (long long)reads->n[0] - 1;
    from = from > first ? from : first;
    to = to < last ? to : last;
    int n = snprintf(out, PLAN_WHERE, "planes %lld-%lld", first, last);
    if (lk_box_count(reads) == 0 || from > to)
        snprintf(out + n, (size_t)(PLAN_WHERE - n), ": it reads none");
    else if (from == to && first < last)
        snprintf(out + n, (size_t)(PLAN_WHERE - n), ": it reads %lld", from);
    else if (from > first || to < last)
        snprintf(out + n, (size_t)(PLAN_WHERE - n), ": it reads %lld-%lld", from, to);
    return out;
}

static void legend_line(svg *to, const char *kind, svg_length x, svg_length *y, const char *text)
{
    svg_place key = {x, *y - 10 * SVG_PIXEL, 12 * SVG_PIXEL, 12 * SVG_PIXEL};
    char classes[32];
    snprintf(classes, sizeof classes, "key %s", kind);
    svg_rect(to, classes, key, NULL);
    svg_text(to, "legend", x + 20 * SVG_PIXEL, *y, text);
    *y += LINE;
}

static void legend_draw(const plan_view *v, svg *to, svg_length x, svg_length y)
{
    char text[PLAN_LINE], where[PLAN_WHERE], kind[16];
    int64_t bytes;
    int rank;
    lk_box box;
    const lk_fetch *fetch = plan_fetch(v->layer, v->number, &bytes);
    snprintf(text, sizeof text, "its own: %s", plan_where(&v->own, where));
    legend_line(to, "own", x, &y, text);
    snprintf(text, sizeof text, "what it reads: %s", plan_where(&v->reads, where));
    legend_line(to, "reads", x, &y, text);
    for (int i = 0; fetch && lk_fetch_part(fetch, i, &rank, &box); i++) {
        plan_fetched_text(v, rank, &box, bytes, text, kind);
        legend_line(to, kind + strlen("from "), x, &y, text);
    }
    if (!fetch)
        svg_text(to, "legend", x, y, "nothing is fetched");
}

void plan_view_draw(const plan_view *v, svg *to, svg_length x, svg_length y)
{
    svg_place size = plan_view_size(v);
    int64_t solid = v->ndim == 3;
    svg_text(to, "sub", x, y + 11 * SVG_PIXEL,
             v->number == 0 ? "forward: its input" : "backward: the gradient of its output");
    y += LINE;
    for (int64_t i = 0; i < planes_of(v) + solid; i++) {
        svg_place cell = view_cell(v, i);
        plane p = {.v = v, .row = v->ndim - 2, .column = v->ndim - 1, .at = cell};
        p.at.x += x + LEFT;
        p.at.y += y + TOP;
        if (i < solid) {
            plan_solid_draw(v, to, p.at);
            continue;
        }
        if (!solid)
            svg_text(to, "tick", p.at.x, p.at.y - 24 * SVG_PIXEL,
                     v->ndim == 2 ? "rows down, columns across" : "positions");
        else {
            char text[PLAN_WHERE];
            p.depth = tile_along(v, 0, i - solid);
            svg_text(to, "tick", p.at.x, p.at.y - 24 * SVG_PIXEL, depth_text(&p, text));
        }
        if (p.depth.n > 0 || !solid)
            plane_draw(&p, to);
    }
    legend_draw(v, to, x, y + size.h - LINE - (svg_length)LINE * (2 + fetches_of(v)));
}
