/* Pieces of the batch, channel by channel. */
#include "ops/common/pieces.h"

#include <lockstep/extra/reduce.h>

#include <string.h>

/* Elements of a row that is worth a call; shorter ones are taken several at a time. */
enum { WIDTH = 256 };

lk__pieces lk__pieces_of(const lk_tape *tape, lk_dtype dtype, lk_shape x, bool whole)
{
    lk__pieces s = {.dtype = dtype, .channels = x.dim[x.ndim - 1]};
    int64_t samples = lk_tape_shard_size(tape), positions = 1;
    for (int d = 0; d < x.ndim; d++)
        if (x.dim[d] == 0)
            return s;
    for (int d = 1; d < x.ndim - 1; d++)
        positions *= x.dim[d];
    bool cut = samples > 0 && samples < x.dim[0];
    s.rows = s.piece = x.dim[0] * positions;
    if (cut && whole)
        s.sum = samples * positions;
    else if (cut)
        s.piece = samples * positions;
    s.n = (s.rows - 1) / s.piece + 1;
    return s;
}

int64_t lk__pieces_rows(const lk__pieces *s, int64_t p)
{
    return p < s->n - 1 ? s->piece : s->rows - p * s->piece;
}

/* Rows that a mean is over. */
static double rows_of_mean(const lk__pieces *s, int64_t p)
{
    int64_t of = p < s->n - 1 ? s->of : s->last_of;
    return (double)(of ? of : lk__pieces_rows(s, p));
}

static int64_t row_bytes(const lk__pieces *s)
{
    return s->channels * (int64_t)lk_dtype_size(s->dtype);
}

lk_status lk__pieces_sum(const lk__pieces *s, const void *x, void *out)
{
    if (s->n == 0)
        return LK_OK;
    if (s->joiner && s->joiner->sum) {
        LK_TRY(s->joiner->sum(s->joiner->arg, x));
        return LK_OK;
    }
    int64_t last = s->n - 1;
    lk_reduce_axis_shape equal = {.outer = last, .n = s->piece, .inner = s->channels};
    lk_reduce_axis_shape rest = {
        .outer = 1, .n = lk__pieces_rows(s, last), .inner = s->channels, .piece = s->sum};
    LK_TRY(lk_reduce_axis(s->dtype, LK_REDUCE_AXIS_SUM, &equal, x, out));
    LK_TRY(lk_reduce_axis(s->dtype, LK_REDUCE_AXIS_SUM, &rest,
                          (const char *)x + last * s->piece * row_bytes(s),
                          (char *)out + last * row_bytes(s)));
    return LK_OK;
}

static void divide_row(lk__row *r)
{
    lk__row_loop(r, LK__LOOP_OVER);
}

lk_status lk__pieces_join(const lk__pieces *s, int64_t vectors, void *sums)
{
    const lk__joiner *j = s->joiner;
    if (j)
        LK_TRY(j->join(j->arg, s->dtype, vectors * s->n * s->channels, sums));
    return LK_OK;
}

lk_status lk__pieces_mean(const lk__pieces *s, const void *x, void *out)
{
    LK_TRY(lk__pieces_sum(s, x, out));
    LK_TRY(lk__pieces_join(s, 1, out));
    LK_TRY(lk__pieces_vector(s, &(lk__pieces_in){.v = {out}, .y = out}, 0, divide_row));
    return LK_OK;
}

lk_status lk__pieces_vector(const lk__pieces *s, const lk__pieces_in *in, double q, lk__row_fn *fn)
{
    for (int64_t p = 0; p < s->n; p++) {
        lk__rows rows = {.dtype = s->dtype,
                         .rows = 1,
                         .n = s->channels,
                         .y = (char *)in->y + p * row_bytes(s),
                         .p = {rows_of_mean(s, p), q}};
        for (int k = 0; k < LK_PIECES_MAX_V && in->v[k]; k++)
            rows.x[k] = (const char *)in->v[k] + (in->shared[k] ? 0 : p * row_bytes(s));
        LK_TRY(lk__rows_run(&rows, fn));
    }
    return LK_OK;
}

/* One piece, its vectors repeated so that several of its rows can be taken as one. */
typedef struct piece_part {
    const lk__pieces *s;
    const lk__pieces_in *in;
    lk__row_fn *fn;
    int64_t p, times;
    char *room; /* vector k is at k * times rows */
} piece_part;

static void repeat_vectors(const piece_part *t)
{
    int64_t bytes = row_bytes(t->s);
    char *to = t->room;
    for (int k = 0; k < LK_PIECES_MAX_V && t->in->v[k]; k++)
        for (int64_t i = 0; i < t->times; i++, to += bytes)
            memcpy(to, (const char *)t->in->v[k] + (t->in->shared[k] ? 0 : t->p * bytes),
                   (size_t)bytes);
}

/* `n` times `times` rows of the piece, from row `first` on. */
static lk_status map_rows(const piece_part *t, int64_t first, int64_t n, int64_t times)
{
    const lk__pieces *s = t->s;
    int64_t at = (t->p * s->piece + first) * row_bytes(s);
    lk__rows rows = {.dtype = s->dtype,
                     .rows = n,
                     .n = times * s->channels,
                     .y = (char *)t->in->y + at,
                     .p = {rows_of_mean(s, t->p)}};
    int i = 0;
    for (int k = 0; k < LK_PIECES_MAX_X && t->in->x[k]; k++)
        rows.x[i++] = (const char *)t->in->x[k] + at;
    for (int k = 0; k < LK_PIECES_MAX_V && t->in->v[k]; k++) {
        rows.shared[i] = true;
        rows.x[i++] = t->room + k * t->times * row_bytes(s);
    }
    LK_TRY(lk__rows_run(&rows, t->fn));
    return LK_OK;
}

lk_status lk__pieces_map(lk_call *c, const lk__pieces *s, const lk__pieces_in *in, lk__row_fn *fn)
{
    piece_part t = {.s = s, .in = in, .fn = fn, .times = 1};
    if (s->n == 0 || s->channels == 0)
        return LK_OK;
    if (s->channels < WIDTH)
        t.times = WIDTH / s->channels;
    LK_TRY(lk_call_scratch(c, LK_PIECES_MAX_V * t.times * row_bytes(s), &t.room));
    for (t.p = 0; t.p < s->n; t.p++) {
        int64_t rows = lk__pieces_rows(s, t.p), rest = rows % t.times;
        repeat_vectors(&t);
        LK_TRY(map_rows(&t, 0, rows / t.times, t.times));
        LK_TRY(map_rows(&t, rows - rest, rest > 0, rest));
    }
    return LK_OK;
}
