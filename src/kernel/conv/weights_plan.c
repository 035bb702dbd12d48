/* Make the plan of a weight gradient: valid positions of each tap; stretches, chunks and strips;
 * workspace. */
#include "kernel/conv/weights_plan.h"

#include "base/integer.h"
#include "kernel/runtime/parallel.h"

#include <lockstep/extra/alloc.h>

enum {
    PANEL_GAP = 10, /* pixels between panels, or all would fall into the same sets */
    MAX_PHASES = 2 * LK_COLUMNS_MR + 1,
    LONG_ROW = 4,  /* chunks */
    PAIRS = 2,     /* of slices for each thread; if there are fewer, taps are shared out too */
    STRETCHES = 4, /* for each thread, at most */
};

/* The share of their time for which threads must have stretches to compute. */
static const double least_busy = 0.9;

const lk__weights_aims lk__weights_default = {
    .strip_bytes = 32 << 10,
    .packed_bytes = 600 << 10,
    .place_bytes = 200 << 10,
    .chunk_pixels = 200,
    .chunk_work = 1 << 19,
    .chunk_bytes = 1 << 20,
    .stretch_positions = 2000,
    .sums_bytes = 4 << 20,
};

/* The smallest o with o * stride >= position. */
static int64_t first_at(int64_t position, int64_t stride)
{
    return position > 0 ? lk__div_up(position, stride) : -(-position / stride);
}

static lk__range range_of(int64_t lo, int64_t hi)
{
    return hi > lo ? (lk__range){lo, hi} : (lk__range){0, 0};
}

/* The output positions for which a tap lies within the image. */
static lk__range valid_out(const lk__conv_shape *s, int axis, int64_t tap)
{
    int64_t shift = s->window.pad_lo[axis] - tap * s->window.dilation[axis];
    return range_of(lk__max(0, first_at(shift, s->window.stride[axis])),
                    lk__min(s->out[axis], first_at(s->in[axis] + shift, s->window.stride[axis])));
}

lk__range lk__weights_reach(const lk__conv_shape *s, int axis, lk__range out)
{
    int64_t first = out.lo * s->window.stride[axis] - s->window.pad_lo[axis];
    int64_t last = (out.hi - 1) * s->window.stride[axis] - s->window.pad_lo[axis] +
                   (s->window.kernel[axis] - 1) * s->window.dilation[axis];
    return range_of(lk__max(0, first), lk__min(s->in[axis], last + 1));
}

/* Where an input column is in a row of x: as it lies, or as it is packed. */
static int64_t column_at(const lk__weights_plan *p, int64_t w)
{
    if (!p->x.packed)
        return w;
    w -= p->need.lo;
    return w % p->s.window.stride[2] * p->pack_columns + w / p->s.window.stride[2];
}

/* The columns of one kernel column: one phase in which everybody takes part. */
static void tap_columns(lk__weights_plan *p, int64_t tap, lk__range out)
{
    const lk__conv_shape *s = &p->s;
    lk__range v = p->valid[2][tap];
    v = range_of(lk__max(v.lo, out.lo), lk__min(v.hi, out.hi));
    lk__weights_columns *c = &p->columns[tap];
    *c = (lk__weights_columns){.out = v.lo, .phase = &p->phases[tap], .n_phase = v.hi > v.lo};
    c->phase[0] = (lk__phase){0, v.hi - v.lo, ~0U};
    if (c->n_phase)
        c->in = column_at(p, v.lo * s->window.stride[2] - s->window.pad_lo[2] +
                                 tap * s->window.dilation[2]);
}

/* The columns of a slice of kernel columns, each with group_in elements: from each column at which
 * the set of valid elements changes to the next, unless the set is empty. */
static void slice_columns(lk__weights_plan *p, int64_t i, lk__range out)
{
    const lk__conv_shape *s = &p->s;
    const lk__panel *q = &p->x.slice[i];
    lk__weights_columns *c = &p->columns[i];
    *c = (lk__weights_columns){.phase = &p->phases[i * MAX_PHASES]};
    for (int64_t at = out.lo, next; at < out.hi; at = next) {
        uint32_t mask = 0;
        next = out.hi;
        for (int m = 0; m < q->n; m++) {
            lk__range v = p->valid[2][(q->first + m) / s->group_in];
            if (v.lo <= at && at < v.hi)
                mask |= 1U << m;
            if (v.lo > at)
                next = lk__min(next, v.lo);
            if (v.hi > at)
                next = lk__min(next, v.hi);
        }
        if (mask == 0)
            continue;
        if (c->n_phase == 0) {
            c->out = at;
            c->in = at * s->window.stride[2] - s->window.pad_lo[2];
        }
        c->phase[c->n_phase++] = (lk__phase){at - c->out, next - at, mask};
    }
    if (p->own)
        c->in += q->first * s->window.dilation[2];
}

void lk__weights_columns_set(lk__weights_plan *p, lk__range out)
{
    p->need = lk__weights_reach(&p->s, 2, out);
    if (p->runs || p->own)
        for (int64_t i = 0; i < p->x.per_group; i++)
            slice_columns(p, i, out);
    else
        for (int64_t i = 0; i < p->s.window.kernel[2]; i++)
            tap_columns(p, i, out);
}

static lk_status valid_make(lk__weights_plan *p)
{
    const lk__conv_shape *s = &p->s;
    for (int d = 0; d < LK_CONV_AXES; d++) {
        LK_TRY(lk_alloc(&p->valid[d], s->window.kernel[d], sizeof *p->valid[d]));
        for (int64_t k = 0; k < s->window.kernel[d]; k++)
            p->valid[d][k] = valid_out(s, d, k);
    }
    bool slices = p->runs || p->own;
    int64_t n = slices ? p->x.per_group : s->window.kernel[2];
    LK_TRY(lk_alloc(&p->columns, n, sizeof *p->columns));
    return LK_TRACE(lk_alloc(&p->phases, slices ? n * MAX_PHASES : n, sizeof *p->phases));
}

/* About `pixels` positions at a time, of `within`: whole samples, or whole planes of one sample, or
 * rows of one plane, in equal parts.  Rows are cut only if they are much longer. */
static void cut(const int64_t *within, int64_t pixels, int64_t *part)
{
    int64_t inner = 1;
    for (int d = LK_CUTS - 1; d >= 0; d--) {
        int64_t n = lk__max(1, lk__min(within[d], pixels / inner));
        if (d == LK_CUT_COLUMN && within[d] / LONG_ROW < n)
            n = within[d];
        part[d] = lk__div_up(within[d], lk__div_up(within[d], n));
        if (part[d] < within[d])
            pixels = 0;
        inner *= within[d];
    }
}

/* How many output positions a chunk must have so that the crew does not wait more than it works: of
 * layers with few channels these may be so many that nothing of them stays in a cache. */
static int64_t crew_pixels(const lk__weights_plan *p, double x_pixels)
{
    const lk__conv_shape *s = &p->s;
    double work = (double)p->n_taps * (double)p->n_rows * (double)p->groups *
                  (double)lk__div_up(p->n_cols, p->lanes);
    double x_copied = p->x.packed ? (double)p->x.width : p->spread ? (double)s->out_channels : 0;
    double y_copied = p->y.packed ? (double)p->y.width : 0;
    double pixels = (double)p->aims.chunk_work * p->crew / work;
    double most = (double)p->aims.chunk_bytes * p->crew;
    double bytes = pixels * (x_pixels * x_copied + y_copied) * (double)s->elem;
    return (int64_t)(bytes > most ? pixels * (most / bytes) : pixels);
}

/* How many output positions a chunk should have. */
static int64_t chunk_pixels(const lk__weights_plan *p)
{
    const lk__conv_shape *s = &p->s;
    double x_pixels = 1; /* per output position */
    for (int d = 0; d < LK_CONV_AXES; d++) {
        lk__range r = lk__weights_reach(s, d, (lk__range){0, s->out[d]});
        x_pixels *= (double)(r.hi - r.lo) / (double)s->out[d];
    }
    int64_t x_width = p->x.packed ? p->x.width : s->in_channels;
    int64_t y_width = p->y.packed ? p->y.width : s->out_channels;
    double bytes = (x_pixels * (double)x_width + (double)y_width) * (double)s->elem;
    double aim = (double)(p->x.packed || p->y.packed ? p->aims.packed_bytes : p->aims.place_bytes);
    int64_t least = p->aims.chunk_pixels;
    if (p->crew > 1)
        least = lk__max(least, crew_pixels(p, x_pixels));
    return lk__max(least, (int64_t)(aim / bytes));
}

/* One stretch, all threads to share its tiles. */
static void batch_whole(lk__weights_plan *p)
{
    p->stretch = p->s.batch;
    p->n_stretches = 1;
    p->crew = p->threads;
}

/* Stretches of 2^k pieces, if that keeps all threads busy. */
static void batch_cut(lk__weights_plan *p)
{
    const lk__conv_shape *s = &p->s;
    int64_t pieces = lk__div_up(s->batch, s->piece), run = 1, n = pieces;
    double positions = (double)s->piece;
    for (int d = 0; d < LK_CONV_AXES; d++)
        positions *= (double)s->out[d];
    while (n > 1 && (positions * (double)run < (double)p->aims.stretch_positions ||
                     n > (int64_t)STRETCHES * p->threads)) {
        run *= 2;
        n = lk__div_up(pieces, run);
    }
    double busy = (double)pieces / (double)run / (double)(lk__div_up(n, p->threads) * p->threads);
    double sums = (double)n * (double)s->w_extent * (double)s->elem;
    batch_whole(p);
    if (p->threads == 1 || busy < least_busy || sums > (double)p->aims.sums_bytes)
        return;
    p->stretch = run * s->piece;
    p->n_stretches = n;
    p->crew = 1;
}

/* Samples of a strip at most: one, if they have several planes; else as many as leave room in the
 * nearest cache for a slice of each side. */
static int64_t strip_samples(const lk__weights_plan *p)
{
    const lk__conv_shape *s = &p->s;
    if (s->out[0] > 1)
        return 1;
    double pixels[2] = {1, 1};
    for (int d = 0; d < LK_CONV_AXES; d++) {
        pixels[0] *= (double)s->in[d];
        pixels[1] *= (double)s->out[d];
    }
    double bytes = ((double)p->x.slice[0].width * pixels[0] +
                    (double)p->y.slice[0].width * pixels[1]) *
                   (double)s->elem;
    return lk__max(
        1, lk__min(p->chunk[LK_CUT_SAMPLE], (int64_t)((double)p->aims.strip_bytes / bytes)));
}

static void positions_cut(lk__weights_plan *p)
{
    const lk__conv_shape *s = &p->s;
    const lk__weights_side *cols = lk__weights_cols(p);
    const int64_t all[LK_CUTS] = {p->stretch, s->out[0], s->out[1], s->out[2]};
    cut(all, chunk_pixels(p), p->chunk);
    const int64_t within[LK_CUTS] = {strip_samples(p), p->chunk[LK_CUT_PLANE], p->chunk[LK_CUT_ROW],
                                     1};
    int64_t strip = INT64_MAX;
    if (p->n_taps > 1 && cols->packed)
        strip = p->aims.strip_bytes / (cols->slice[0].width * s->elem) / s->out[2];
    cut(within, strip, p->strip);
}

static lk_status room_make(lk__weights_side *v, int64_t width, int64_t pixels)
{
    LK_CHECK(!__builtin_mul_overflow(width, pixels, &v->room), LK_EOVERFLOW,
             "a copy of %lld channels, %lld positions", (long long)width, (long long)pixels);
    return LK_OK;
}

/* Room for `pixels` in each panel, and where each begins. */
static lk_status panels_place(lk__weights_side *v, int64_t groups, int64_t pixels)
{
    if (!v->packed)
        return LK_OK;
    pixels += PANEL_GAP;
    int64_t at = 0;
    for (int64_t i = 0; i < groups * v->per_group; i++) {
        v->slice[i].at = at * pixels;
        at += v->slice[i].width;
    }
    return LK_TRACE(room_make(v, v->width, pixels));
}

static lk_status workspace_size(lk__weights_plan *p)
{
    const lk__conv_shape *s = &p->s;
    int64_t y_pixels = 1, x_pixels = 1;
    for (int d = 0; d < LK_CUTS; d++) {
        int64_t n = p->chunk[d];
        y_pixels *= n;
        if (d > 0) {
            int axis = d - 1;
            n = (n - 1) * s->window.stride[axis] +
                (s->window.kernel[axis] - 1) * s->window.dilation[axis] + 1;
            n = lk__min(n, s->in[axis]);
        }
        if (d == LK_CUT_COLUMN) {
            p->pack_columns = lk__div_up(n, s->window.stride[2]);
            n = p->pack_row = p->pack_columns * lk__min(n, s->window.stride[2]);
        }
        x_pixels *= n;
    }
    LK_TRY(panels_place(&p->x, p->groups, x_pixels));
    if (p->spread)
        LK_TRY(room_make(&p->x, s->out_channels, x_pixels));
    LK_TRY(panels_place(&p->y, p->groups, y_pixels));
    int64_t n_pieces = lk__div_up(p->stretch, s->piece);
    for (p->n_levels = 0; (n_pieces - 1) >> p->n_levels; p->n_levels++)
        ;
    bool one_call = lk__min(s->piece, s->batch) == 1 && s->out[0] == 1 &&
                    p->strip[LK_CUT_ROW] == s->out[1] && p->chunk[LK_CUT_COLUMN] == s->out[2];
    p->interrupted = !one_call;
    p->n_slots = p->n_levels + p->interrupted;
    bool fits = !__builtin_mul_overflow(p->n_rows, lk__weights_cols(p)->width, &p->tree_room) &&
                !__builtin_mul_overflow(p->tree_room, p->n_taps, &p->tree_room) &&
                !__builtin_mul_overflow(p->tree_room, p->n_slots, &p->tree_room);
    LK_CHECK(fits, LK_EOVERFLOW, "partial sums of %lld taps, %lld x %lld channels, %lld pieces",
             (long long)s->taps, (long long)s->in_channels, (long long)s->out_channels,
             (long long)n_pieces);
    return LK_OK;
}

lk_status lk__weights_plan_make(const lk__conv_shape *s, const lk__weights_aims *aims,
                                lk__weights_plan *p)
{
    *p = (lk__weights_plan){.s = *s, .aims = *aims};
    const lk__columns_table *columns = NULL;
    const lk__panels_table *panels = NULL;
    LK_TRY(lk__columns_get(&columns));
    LK_TRY(lk__panels_get(&panels));
    LK_TRY(lk_threads_now(&p->threads));
    p->micro = &columns->of[s->dtype];
    p->pack = panels->copy[s->dtype];
    p->lanes = panels->lanes[s->dtype];
    LK_TRY(lk__weights_slice(p));
    LK_TRY(valid_make(p));
    batch_cut(p);
    positions_cut(p);
    if (p->n_stretches > 1 && p->chunk[LK_CUT_COLUMN] < s->out[2]) {
        /* `columns` differ from chunk to chunk, so all threads must be at the same one. */
        batch_whole(p);
        positions_cut(p);
    }
    int64_t pairs = p->groups * p->x.per_group * p->y.per_group;
    p->tap_parts = p->crew > 1 ? lk__min(p->n_taps, lk__div_up((int64_t)PAIRS * p->crew, pairs))
                               : 1;
    LK_TRY(workspace_size(p));
    lk__weights_columns_set(p, (lk__range){0, p->chunk[LK_CUT_COLUMN]});
    return LK_OK;
}

void lk__weights_plan_release(lk__weights_plan *p)
{
    lk_free(p->x.slice);
    lk_free(p->y.slice);
    for (int d = 0; d < LK_CONV_AXES; d++)
        lk_free(p->valid[d]);
    lk_free(p->columns);
    lk_free(p->phases);
    *p = (lk__weights_plan){0};
}
