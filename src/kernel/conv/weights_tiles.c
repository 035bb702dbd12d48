/* Compute tiles: for each piece a chain over its positions, and the fixed tree over pieces.
 *
 * The tree is a binary counter.  Piece q finds nodes waiting at the levels of its trailing ones; it
 * adds them, lowest first, the waiting node as the first operand, and then waits itself at the next
 * level.  The last piece adds all nodes that wait, at the ones of q, and is the sum.
 *
 * A call of the micro-kernel may take no more than a thousand cycles, so what does not change from
 * one call to the next is computed before.
 */
#include "kernel/conv/weights_tiles.h"

enum { CACHE_LINE = 64, MAX_LEVELS = 64, MAX_TILE_BYTES = LK_COLUMNS_MR * 128 };

/* One slice in its view; all in elements. */
typedef struct place {
    const char *data;
    int64_t at, step[4];
} place;

typedef struct tile {
    const lk__weights_job *job;
    const lk__weights_plan *p;
    const lk__weights_side *row_side, *col_side;
    const lk__panel *rows, *cols;
    lk__columns_fn *const *micro; /* by height */
    place x, y;
    int64_t dw_row; /* within a tap */
    int64_t dw_col;
    int64_t slot;    /* bytes of a slot */
    char *slots;     /* of all taps */
    char *col_slots; /* of all tiles with these columns */
    int64_t ahead;   /* where the memory to fetch next is, see lk__weights_ahead */
    /* The samples [n, n + args.n_images): their piece, whether it begins or ends with them. */
    int64_t n, piece;
    bool begins, ends;
    lk__range taps; /* those of the task */
    /* The tap: along each axis, its slots, its first row of dw, its columns. */
    int64_t tap[LK_CONV_AXES];
    char *tap_slots;
    int64_t tap_row;
    const lk__weights_columns *columns;
    bool joined;   /* rows follow one another without a gap on both sides, */
    lk__phase row; /* so that several are one long row */
    lk__columns_args args;
} tile;

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

/* The operands of a call: rows `h` of plane `d`. */
static void set_operands(tile *t, int64_t d, lk__range h)
{
    const lk__conv_shape *s = &t->p->s;
    const lk__weights_columns *w = t->columns;
    const int64_t y_at[4] = {t->n, d, h.lo, w->out};
    const int64_t x_at[4] = {
        t->n, d * s->window.stride[0] - s->window.pad_lo[0] + t->tap[0] * s->window.dilation[0],
        h.lo * s->window.stride[1] - s->window.pad_lo[1] + t->tap[1] * s->window.dilation[1],
        w->in};
    const void *x = place_at(&t->x, x_at, s->elem), *y = place_at(&t->y, y_at, s->elem);
    t->args.n_rows = h.hi - h.lo;
    if (t->joined) {
        t->row = (lk__phase){0, t->args.n_rows * s->out[2], ~0U};
        t->args.n_rows = 1;
    }
    t->args.x = t->p->swapped ? y : x;
    t->args.y = t->p->swapped ? x : y;
}

static void call(const tile *t)
{
    t->micro[t->rows->n](&t->args);
}

/* dw, the transposed way round, from a finished tile. */
static void transpose_out(const tile *t, const void *from)
{
    const lk__weights_plan *p = t->p;
    int64_t at = (t->tap_row + t->dw_row) * p->s.out_channels + t->dw_col;
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

/* The last call of the last piece: into dw. */
static void call_done(tile *t)
{
    _Alignas(CACHE_LINE) char finished[MAX_TILE_BYTES];
    const lk__conv_shape *s = &t->p->s;
    lk__columns_args usual = t->args;
    t->args.n_valid = t->cols->n;
    if (t->p->swapped) {
        t->args.out = finished;
        call(t);
        transpose_out(t, finished);
    } else {
        int64_t at = (t->tap_row + t->dw_row) * s->out_channels + t->dw_col;
        t->args.out = (char *)t->job->dw + at * s->elem;
        t->args.ld_out = s->out_channels;
        t->args.accumulate = t->job->accumulate;
        call(t);
    }
    t->args = usual;
}

/* The last call of a piece: its place in the tree, or in dw. */
static void call_last(tile *t)
{
    const void *add[MAX_LEVELS];
    char *node = t->tap_slots + (t->p->interrupted ? t->slot : 0);
    bool done = t->piece == t->job->n_pieces - 1;
    int n_add = 0;
    for (int64_t q = t->piece; q != 0 && (done || q & 1); q >>= 1, node += t->slot)
        if (q & 1)
            add[n_add++] = node;
    t->args.add = add;
    t->args.n_add = n_add;
    t->args.out = node;
    if (done)
        call_done(t);
    else
        call(t);
    t->args.n_add = 0;
}

/* What to fetch during the next call. */
static void set_next(tile *t)
{
    const lk__weights_ahead *a = &t->job->ahead;
    bool x = t->ahead < a->bytes[0];
    t->args.next = a->per_pixel ? a->from[!x] + (t->ahead - (x ? 0 : a->bytes[0])) : NULL;
    int64_t row = t->joined ? t->row.n : t->p->s.out[2];
    t->ahead += t->args.n_images * t->args.n_rows * row * a->per_pixel;
}

static lk__range intersect(lk__range a, lk__range b)
{
    lk__range r = {a.lo > b.lo ? a.lo : b.lo, a.hi < b.hi ? a.hi : b.hi};
    return r.hi > r.lo ? r : (lk__range){r.lo, r.lo};
}

/* One tap over one strip: a call for each plane. */
static void tap_run(tile *t, lk__range planes, lk__range rows)
{
    const lk__weights_plan *p = t->p;
    lk__range valid = p->valid[0][t->tap[0]], h = intersect(rows, p->valid[1][t->tap[1]]);
    lk__range columns = t->job->box[LK_CUT_COLUMN];
    bool begins = t->begins && rows.lo == 0 && columns.lo == 0;
    bool ends = t->ends && rows.hi == p->s.out[1] && columns.hi == p->s.out[2];
    for (int64_t d = planes.lo; d < planes.hi; d++) {
        bool first = begins && d == 0, last = ends && d == p->s.out[0] - 1;
        bool within = valid.lo <= d && d < valid.hi && h.lo < h.hi && t->args.n_phase > 0;
        if (!within && !first && !last)
            continue;
        t->args.n_rows = 0;
        if (within)
            set_operands(t, d, h);
        t->args.partial = first ? NULL : t->tap_slots;
        t->args.out = t->tap_slots;
        set_next(t);
        if (last)
            call_last(t);
        else
            call(t);
    }
}

static void take_columns(tile *t)
{
    const lk__weights_plan *p = t->p;
    const lk__weights_columns
        *w = &p->columns[p->runs || p->own ? t->rows - p->x.slice : t->tap[2]];
    lk__columns_args *a = &t->args;
    t->columns = w;
    t->joined = w->n_phase == 1 && w->phase[0].n == p->s.out[2] && !p->runs && !p->own &&
                a->x_row == p->s.out[2] * a->x_col && a->y_row == p->s.out[2] * a->y_col;
    a->phase = t->joined ? &t->row : w->phase;
    a->n_phase = w->n_phase;
}

static void tap_next(tile *t)
{
    const int64_t *taps = t->p->taps;
    for (int d = LK_CONV_AXES - 1; d >= 0; d--) {
        if (++t->tap[d] < taps[d])
            return;
        t->tap[d] = 0;
    }
}

static void strip_run(tile *t, lk__range planes, lk__range rows)
{
    const lk__weights_plan *p = t->p;
    const int64_t *taps = p->taps;
    t->tap[0] = t->taps.lo / taps[2] / taps[1];
    t->tap[1] = t->taps.lo / taps[2] % taps[1];
    t->tap[2] = t->taps.lo % taps[2];
    t->tap_slots = t->slots + t->taps.lo * p->n_slots * t->slot;
    t->tap_row = t->taps.lo * p->tap_rows;
    for (int64_t i = t->taps.lo; i < t->taps.hi; i++) {
        take_columns(t);
        tap_run(t, planes, rows);
        tap_next(t);
        t->tap_slots += p->n_slots * t->slot;
        t->tap_row += p->tap_rows;
    }
}

static lk__range part(lk__range of, int64_t lo, int64_t step)
{
    return (lk__range){lo, lo + step < of.hi ? lo + step : of.hi};
}

static void tile_run(tile *t)
{
    const lk__weights_plan *p = t->p;
    const lk__range *box = t->job->box;
    lk__range planes = box[LK_CUT_PLANE], rows = box[LK_CUT_ROW];
    int64_t next = 0;
    for (t->n = box[LK_CUT_SAMPLE].lo; t->n < box[LK_CUT_SAMPLE].hi; t->n = next) {
        t->piece = t->n / p->s.piece;
        lk__range piece = part(box[LK_CUT_SAMPLE], t->piece * p->s.piece, p->s.piece);
        next = part(piece, t->n, p->strip[LK_CUT_SAMPLE]).hi;
        t->args.n_images = next - t->n;
        t->begins = t->n == piece.lo;
        t->ends = next == t->job->n_samples || next == piece.lo + p->s.piece;
        for (int64_t d = planes.lo; d < planes.hi; d += p->strip[LK_CUT_PLANE])
            for (int64_t h = rows.lo; h < rows.hi; h += p->strip[LK_CUT_ROW])
                strip_run(t, part(planes, d, p->strip[LK_CUT_PLANE]),
                          part(rows, h, p->strip[LK_CUT_ROW]));
    }
}

int64_t lk__weights_tasks(const lk__weights_plan *p)
{
    return p->groups * p->x.per_group * p->y.per_group * p->tap_parts;
}

/* Take slice `c` of the columns side in group `g`. */
static void take_cols(tile *t, int64_t g, int64_t c)
{
    const lk__weights_plan *p = t->p;
    const lk__weights_side *cols = t->col_side;
    t->cols = &cols->slice[g * cols->per_group + c];
    int width = lk__weights_width(p->micro, t->cols->width);
    t->micro = p->own ? p->micro->own[width] : p->micro->tile[width];
    if (p->swapped || p->own)
        t->x = place_of(&t->job->x, t->cols, p->x.packed);
    if (!p->swapped)
        t->y = place_of(&t->job->y, t->cols, p->y.packed);
    int64_t before = cols->slice[c].first + g * (cols->width / p->groups);
    t->col_slots = (char *)t->job->tree + before * p->n_rows * p->n_taps * p->n_slots * p->s.elem;
    lk__columns_args *a = &t->args;
    a->ld_partial = a->ld_add = a->ld_out = t->cols->width;
    a->n_valid = cols->packed ? t->cols->width : t->cols->n;
    a->y_packed = cols->packed;
}

/* The stride along an axis, unless it is so large that the taps of a tile, `spread` positions from the
 * first to the last, have but one valid position together. */
static int64_t stride_within(const lk__conv_shape *s, int axis, int64_t spread)
{
    int64_t reach = s->in[axis] + spread;
    return s->window.stride[axis] < reach ? s->window.stride[axis] : reach;
}

/* Take slice `r` of the rows side in group `g`. */
static void take_rows(tile *t, int64_t g, int64_t r)
{
    const lk__weights_plan *p = t->p;
    const lk__conv_shape *s = &p->s;
    lk__columns_args *a = &t->args;
    t->rows = &t->row_side->slice[g * t->row_side->per_group + r];
    t->slot = (int64_t)t->rows->n * t->cols->width * s->elem;
    t->slots = t->col_slots +
               t->row_side->slice[r].first * t->cols->width * p->n_taps * p->n_slots * s->elem;
    if (p->swapped) {
        t->y = place_of(&t->job->y, t->rows, p->y.packed);
        t->dw_row = t->cols->first - g * s->group_in;
        t->dw_col = t->rows->first;
    } else {
        if (!p->own)
            t->x = place_of(&t->job->x, t->rows, p->x.packed);
        t->dw_row = t->rows->first - g * s->group_in;
        t->dw_col = t->cols->first;
    }
    a->x_image = p->swapped ? t->y.step[0] : t->x.step[0];
    a->y_image = p->swapped ? t->x.step[0] : t->y.step[0];
    int64_t spread = p->runs  ? s->window.kernel[2] - 1
                     : p->own ? (t->rows->n - 1) * s->window.dilation[2]
                              : 0;
    int64_t x_row = t->x.step[2] * stride_within(s, 1, 0), y_row = t->y.step[2];
    int64_t x_col = t->x.step[3] * (p->x.packed ? 1 : stride_within(s, 2, spread));
    int64_t y_col = t->y.step[3];
    a->x_row = p->swapped ? y_row : x_row;
    a->x_col = p->swapped ? y_col : x_col;
    a->y_row = p->swapped ? x_row : y_row;
    a->y_col = p->swapped ? x_col : y_col;
    a->x_m = t->rows->n > 1 ? t->x.step[3] * s->window.dilation[2] : 0;
}

/* Which part of the taps, of which slices, of which group. */
enum { TASK_PART, TASK_ROWS, TASK_COLS, TASK_GROUP, TASK_AXES };

void lk__weights_tiles(void *arg, int64_t first, int64_t last)
{
    const lk__weights_job *job = arg;
    const lk__weights_plan *p = job->p;
    tile t = {.job = job, .p = p};
    t.row_side = p->swapped ? &p->y : &p->x;
    t.col_side = p->swapped ? &p->x : &p->y;
    t.ahead = first * job->ahead.per_task;
    t.args.next_step = job->ahead.per_pixel;
    const int64_t size[TASK_AXES] = {p->tap_parts, t.row_side->per_group, t.col_side->per_group,
                                     p->groups};
    int64_t at[TASK_AXES], rest = first;
    for (int k = 0; k < TASK_AXES; rest /= size[k++])
        at[k] = rest % size[k];
    for (int64_t i = first; i < last; i++) {
        if (i == first || (at[TASK_ROWS] == 0 && at[TASK_PART] == 0))
            take_cols(&t, at[TASK_GROUP], at[TASK_COLS]);
        take_rows(&t, at[TASK_GROUP], at[TASK_ROWS]);
        t.taps.lo = at[TASK_PART] * p->n_taps / p->tap_parts;
        t.taps.hi = (at[TASK_PART] + 1) * p->n_taps / p->tap_parts;
        tile_run(&t);
        for (int k = 0; k < TASK_AXES && ++at[k] == size[k]; k++)
            at[k] = 0;
    }
}
