/* Pieces of the batch, channel by channel. */
#include "ops/common/norm/pieces.h"

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

/* The rows with their inputs, of which `piece` are one piece. */
static lk__map_sums sums_of(const lk__pieces *s, const lk__pieces_in *in, int64_t piece)
{
    lk__map_sums m = {.dtype = s->dtype,
                      .rows = s->rows,
                      .n = s->channels,
                      .piece = piece,
                      .y = in->y,
                      .folds = true};
    int i = 0;
    for (int k = 0; k < LK_PIECES_MAX_X && in->x[k]; k++)
        m.x[i++] = in->x[k];
    for (int k = 0; k < LK_PIECES_MAX_V && in->v[k]; k++) {
        m.of[i] = in->shared[k] || s->n == 1 ? LK_SUMS_SHARED : LK_SUMS_PIECES;
        m.x[i++] = in->v[k];
    }
    return m;
}

static void map_sheet(lk__sheet *t)
{
    lk__sheet_map(t, *(const lk__sum_term *)t->arg);
}

static lk_status terms_map(lk_call *c, const lk__pieces *s, const lk__pieces_in *in,
                           lk__sum_term term, bool overwrite)
{
    lk__map_sums m = sums_of(s, in, s->piece);
    bool relu = term == LK__TERM_CHANNELS && in->act == LK_ACT_RELU; /* has a loop of its own */
    if (relu)
        term = LK__TERM_RELU_CHANNELS;
    m.fn = map_sheet;
    m.arg = &term;
    m.overwrite = overwrite;
    m.act = relu ? LK_ACT_NONE : in->act;
    return LK_TRACE(lk__call_sums(c, &m));
}

lk_status lk__pieces_map(lk_call *c, const lk__pieces *s, const lk__pieces_in *in,
                         lk__sum_term term)
{
    return LK_TRACE(terms_map(c, s, in, term, c->overwrite));
}

/* Give the terms to a combiner that adds them up itself. */
static lk_status terms_give(lk_call *c, const lk__pieces *s, const lk__pieces_in *in,
                            const lk__sum_term term[2])
{
    for (int k = 0; k < 2 && term[k] != LK__TERM_NONE; k++) {
        const void *x = term[k] == LK__TERM_FIRST    ? in->x[0]
                        : term[k] == LK__TERM_SECOND ? in->x[1]
                                                     : in->y;
        if (x == in->y)
            LK_TRY(terms_map(c, s, in, term[k], false));
        LK_TRY(s->combiner->sum(s->combiner->arg, x));
    }
    return LK_OK;
}

/* Add up the terms by rows; one sum over all is cut into pieces, and joined by the tree. */
static lk_status terms_sum(lk_call *c, const lk__pieces *s, const lk__pieces_in *in,
                           lk__sum_down down, void *out)
{
    lk__map_sums m = sums_of(s, in, s->sum > 0 ? s->sum : s->piece);
    void *const all[] = {out, (char *)out + row_bytes(s)};
    m.down = down;
    m.sums = out;
    return LK_TRACE(lk__map_sums_pieces(&m) == s->n ? lk__call_sums(c, &m)
                                                    : lk__call_sums_joined(c, &m, all));
}

lk_status lk__pieces_sum(lk_call *c, const lk__pieces *s, const lk__pieces_in *in,
                         lk__sum_down down, void *out)
{
    const lk__combiner *j = s->combiner;
    const lk__sum_term *term = lk__down_terms[down];
    int64_t terms = term[1] == LK__TERM_NONE ? 1 : 2;
    if (s->n > 0 && j && j->sum)
        LK_TRY(terms_give(c, s, in, term));
    else if (s->n > 0)
        LK_TRY(terms_sum(c, s, in, down, out));
    if (j)
        LK_TRY(j->join(j->arg, s->dtype, terms * s->n * s->channels, out));
    return LK_OK;
}

lk_status lk__pieces_mean(lk_call *c, const lk__pieces *s, const lk__pieces_in *in,
                          lk__sum_down down, void *out)
{
    LK_TRY(lk__pieces_sum(c, s, in, down, out));
    return LK_TRACE(lk__pieces_vector(s, &(lk__pieces_in){.v = {out}, .y = out}, 0, LK__TERM_OVER));
}

lk_status lk__pieces_vector(const lk__pieces *s, const lk__pieces_in *in, double q,
                            lk__sum_term term)
{
    for (int64_t p = 0; p < s->n; p++) {
        const double pq[] = {rows_of_mean(s, p), q};
        const void *x[LK_PIECES_MAX_V];
        int n = 0;
        for (; n < LK_PIECES_MAX_V && in->v[n]; n++)
            x[n] = (const char *)in->v[n] + (in->shared[n] ? 0 : p * row_bytes(s));
        LK_TRY(lk__vector_map(s->dtype, s->channels, x, n, pq, term,
                              (char *)in->y + p * row_bytes(s)));
    }
    return LK_OK;
}
