/* Compute tiles: for each piece a chain over its positions, and the fixed tree over pieces.
 *
 * The tree is a binary counter.  Piece q finds nodes waiting at the levels of its trailing ones; it
 * adds them, lowest first, the waiting node as the first operand, and then waits itself at the next
 * level.  The last piece adds all nodes that wait, at the ones of q, and is the sum.
 */
#include "kernel/conv_weights_tiles.h"

enum { CACHE_LINE = 64, MAX_LEVELS = 64, MAX_TILE_BYTES = LK_MICRO_MR * 128 };

/* One slice in its view; all in elements. */
typedef struct place {
    const char *data;
    int64_t at, step[4];
} place;

typedef struct tile {
    lk__weights_job *job;
    const lk__panel *rows, *cols;
    lk__columns_fn *micro;
    place x, y;
    int64_t row;   /* of dw, within a tap */
    int64_t col;   /* of dw */
    int64_t slot;  /* elements of a slot */
    char *slots;   /* of all taps */
    int n_between; /* columns of what is kept between calls */
    const char *ahead[2];
    lk__columns_args args; /* what is the same in all calls */
} tile;

/* The chain of a piece goes on at one tap, over some rows of one plane. */
typedef struct stretch {
    int64_t tap[LK_CONV_AXES], index; /* of the tap: along each axis, and in all */
    int64_t n, d;
    lk__range h;
    bool first, last; /* of the piece */
} stretch;

static place place_of(const lk__weights_view *v, const lk__panel *q, bool packed)
{
    int64_t unit = packed ? q->width : 1;
    place l = {.data = v->data, .at = (packed ? q->at : q->first) + v->start * unit};
    for (int i = 0; i < 4; i++)
        l.step[i] = v->step[i] * unit;
    return l;
}

static const void *place_at(const place *l, const int64_t *at, int64_t elem)
{
    int64_t i = l->at;
    for (int k = 0; k < 4; k++)
        i += at[k] * l->step[k];
    return l->data + i * elem;
}

static char *slot_at(const tile *t, const stretch *c, int64_t i)
{
    const lk__weights_plan *p = t->job->p;
    return t->slots + (c->index * p->n_slots + i) * t->slot * p->s.elem;
}

/* The operands of a stretch. */
static void args_operands(const tile *t, const stretch *c, lk__columns_args *a)
{
    const lk__weights_plan *p = t->job->p;
    const lk__conv_shape *s = &p->s;
    const lk__weights_columns
        *w = &p->columns[p->runs || p->own ? t->rows - p->x.slice : c->tap[2]];
    a->n_rows = c->h.hi - c->h.lo;
    a->phase = w->phase;
    a->n_phase = w->n_phase;
    if (a->n_rows == 0 || a->n_phase == 0) {
        a->n_rows = 0;
        return;
    }
    const int64_t y_at[4] = {c->n, c->d, c->h.lo, w->out};
    const int64_t x_at[4] = {c->n, c->d * s->stride[0] - s->pad[0] + c->tap[0] * s->dilation[0],
                             c->h.lo * s->stride[1] - s->pad[1] + c->tap[1] * s->dilation[1],
                             w->in};
    const void *x = place_at(&t->x, x_at, s->elem), *y = place_at(&t->y, y_at, s->elem);
    a->x = p->swapped ? y : x;
    a->y = p->swapped ? x : y;
}

/* dw, the transposed way round, from a finished tile. */
static void transpose_out(const tile *t, const stretch *c, const void *from)
{
    const lk__weights_plan *p = t->job->p;
    int64_t at = (c->index * p->tap_rows + t->row) * p->s.out_channels + t->col;
    bool add = t->job->accumulate;
    for (int j = 0; j < t->cols->n; j++, at += p->s.out_channels)
        for (int m = 0; m < t->rows->n; m++) {
            int64_t i = m * t->cols->width + j;
            if (p->s.dtype == LK_F32) {
                float *to = (float *)t->job->dw + at + m, v = ((const float *)from)[i];
                *to = add ? *to + v : v;
            } else {
                double *to = (double *)t->job->dw + at + m, v = ((const double *)from)[i];
                *to = add ? *to + v : v;
            }
        }
}

/* The end of a piece: its place in the tree, or in dw. */
static void finish(const tile *t, const stretch *c, lk__columns_args *a)
{
    const lk__weights_plan *p = t->job->p;
    _Alignas(CACHE_LINE) char finished[MAX_TILE_BYTES];
    const void *add[MAX_LEVELS];
    int64_t piece = c->n / p->s.piece;
    bool done = piece == p->n_pieces - 1;
    int level = 0;
    a->add = add;
    for (; piece >> level && (done || piece >> level & 1); level++)
        if (piece >> level & 1)
            add[a->n_add++] = slot_at(t, c, p->interrupted + level);
    if (!done) {
        a->out = slot_at(t, c, p->interrupted + level);
        t->micro(a);
        return;
    }
    a->n_valid = t->cols->n;
    if (p->swapped) {
        a->out = finished;
        t->micro(a);
        transpose_out(t, c, finished);
        return;
    }
    int64_t at = (c->index * p->tap_rows + t->row) * p->s.out_channels + t->col;
    a->out = (char *)t->job->dw + at * p->s.elem;
    a->ld_out = p->s.out_channels;
    a->accumulate = t->job->accumulate;
    t->micro(a);
}

static void fetch_ahead(tile *t)
{
    for (int i = 0; i < 2; i++)
        for (int64_t k = t->job->ahead[i].per_call; k > 0; k--, t->ahead[i] += CACHE_LINE)
            __builtin_prefetch(t->ahead[i], 0, 2);
}

static void stretch_run(tile *t, const stretch *c)
{
    lk__columns_args a = t->args;
    fetch_ahead(t);
    args_operands(t, c, &a);
    if (!c->first)
        a.partial = slot_at(t, c, 0);
    if (c->last) {
        finish(t, c, &a);
        return;
    }
    a.out = slot_at(t, c, 0);
    t->micro(&a);
}

static lk__range meet(lk__range a, lk__range b)
{
    lk__range r = {a.lo > b.lo ? a.lo : b.lo, a.hi < b.hi ? a.hi : b.hi};
    return r.hi > r.lo ? r : (lk__range){r.lo, r.lo};
}

/* One tap over one strip: a stretch for each plane. */
static void tap_run(tile *t, stretch *c, lk__range planes, lk__range rows)
{
    const lk__weights_plan *p = t->job->p;
    const lk__conv_shape *s = &p->s;
    lk__range valid = p->valid[0][c->tap[0]], h = meet(rows, p->valid[1][c->tap[1]]);
    bool opens = c->n % s->piece == 0 && rows.lo == 0;
    bool closes = (c->n + 1) % s->piece == 0 || c->n + 1 == s->batch;
    closes = closes && rows.hi == s->out[1];
    for (c->d = planes.lo; c->d < planes.hi; c->d++) {
        bool within = valid.lo <= c->d && c->d < valid.hi;
        c->h = within ? h : (lk__range){0, 0};
        c->first = opens && c->d == 0;
        c->last = closes && c->d == s->out[0] - 1;
        if (c->first || c->last || c->h.lo < c->h.hi)
            stretch_run(t, c);
    }
}

static void strip_run(tile *t, int64_t n, lk__range planes, lk__range rows)
{
    const int64_t *taps = t->job->p->taps;
    stretch c = {.n = n};
    for (c.tap[0] = 0; c.tap[0] < taps[0]; c.tap[0]++)
        for (c.tap[1] = 0; c.tap[1] < taps[1]; c.tap[1]++)
            for (c.tap[2] = 0; c.tap[2] < taps[2]; c.tap[2]++, c.index++)
                tap_run(t, &c, planes, rows);
}

static lk__range part(lk__range of, int64_t lo, int64_t step)
{
    return (lk__range){lo, lo + step < of.hi ? lo + step : of.hi};
}

static void tile_run(tile *t)
{
    const lk__weights_plan *p = t->job->p;
    const lk__range *box = t->job->box;
    lk__range planes = box[LK_CUT_PLANE], rows = box[LK_CUT_ROW];
    for (int64_t n = box[LK_CUT_SAMPLE].lo; n < box[LK_CUT_SAMPLE].hi; n++)
        for (int64_t d = planes.lo; d < planes.hi; d += p->strip[LK_CUT_PLANE])
            for (int64_t h = rows.lo; h < rows.hi; h += p->strip[LK_CUT_ROW])
                strip_run(t, n, part(planes, d, p->strip[LK_CUT_PLANE]),
                          part(rows, h, p->strip[LK_CUT_ROW]));
}

int64_t lk__weights_tasks(lk__weights_plan *p)
{
    return p->groups * lk__weights_cols(p)->per_group * lk__weights_rows(p)->per_group;
}

int64_t lk__weights_calls(const lk__weights_job *job)
{
    int64_t n = job->p->n_taps;
    for (int d = 0; d < LK_CUTS; d++)
        n *= (job->box[d].hi - job->box[d].lo + job->p->strip[d] - 1) / job->p->strip[d];
    return n;
}

/* Slice pair `i`: groups outermost, then slices of the columns side. */
static void tile_make(lk__weights_job *job, int64_t i, tile *t)
{
    lk__weights_plan *p = job->p;
    const lk__conv_shape *s = &p->s;
    const lk__weights_side *rows = lk__weights_rows(p), *cols = lk__weights_cols(p);
    int64_t r = i % rows->per_group, c = i / rows->per_group % cols->per_group;
    int64_t g = i / rows->per_group / cols->per_group;
    *t = (tile){.job = job};
    t->rows = &rows->slice[g * rows->per_group + r];
    t->cols = &cols->slice[g * cols->per_group + c];
    int width = lk__weights_width(p->micro, t->cols->width);
    t->micro = p->own ? p->micro->own[width][t->rows->n] : p->micro->tile[width][t->rows->n];
    const lk__panel *x = p->swapped || p->own ? t->cols : t->rows;
    const lk__panel *y = p->swapped ? t->rows : t->cols;
    t->x = place_of(&job->x, x, p->x.packed);
    t->y = place_of(&job->y, y, p->y.packed);
    t->row = p->own ? t->rows->first : x->first - g * s->group_in;
    t->col = y->first;
    t->slot = (int64_t)t->rows->n * t->cols->width;
    int64_t before = rows->slice[r].first * t->cols->width +
                     (cols->slice[c].first + g * (cols->width / p->groups)) * p->n_rows;
    t->slots = (char *)job->tree + before * p->n_taps * p->n_slots * s->elem;
    for (int k = 0; k < 2; k++)
        t->ahead[k] = job->ahead[k].from +
                      i * lk__weights_calls(job) * job->ahead[k].per_call * CACHE_LINE;
    int64_t x_row = t->x.step[2] * s->stride[1], y_row = t->y.step[2];
    int64_t x_col = t->x.step[3] * (p->x.packed ? 1 : s->stride[2]), y_col = t->y.step[3];
    t->args = (lk__columns_args){.x_row = p->swapped ? y_row : x_row,
                                 .x_col = p->swapped ? y_col : x_col,
                                 .y_row = p->swapped ? x_row : y_row,
                                 .y_col = p->swapped ? x_col : y_col,
                                 .x_m = s->dilation[2] * t->x.step[3],
                                 .y_packed = cols->packed};
    t->args.ld_partial = t->args.ld_add = t->args.ld_out = t->cols->width;
    t->args.n_valid = cols->packed ? t->cols->width : t->cols->n;
}

void lk__weights_tiles(void *job, int64_t first, int64_t last)
{
    for (int64_t i = first; i < last; i++) {
        tile t;
        tile_make(job, i, &t);
        tile_run(&t);
    }
}
