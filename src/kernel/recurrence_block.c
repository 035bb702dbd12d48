/* A block of samples of a recurrence: all times, or, where others have parts of the state, one.
 *
 * At each time the states of the block are multiplied with the packed weights, by the rows micro-kernel, and
 * the gates of each sample follow.  States and products are rows in the room, dense and apart from those of
 * other times: in the operands rows of one time lie a whole sequence apart, often in the same set of the
 * cache.
 */
#include "kernel/recurrence.h"

#include <string.h>

typedef lk__recurrence_rows rows;

static rows rows_of(const lk__recurrence_job *j, int64_t block)
{
    int64_t first = block * j->block, left = j->r->samples - first;
    rows b = {.first = first, .n = left < j->block ? left : j->block};
    b.s = j->room + first * j->row_bytes;
    b.h = b.s + b.n * j->ld_s * j->elem;
    b.other = b.h + b.n * j->ld_h * j->elem;
    b.spare = b.other + b.n * j->ld_all * j->elem;
    b.sums = b.spare + b.n * j->ld_kept * j->elem;
    return b;
}

/* Element `from` of sample i at time t of an operand with `n` elements at each time. */
static char *at_time(const lk__recurrence_job *j, const void *operand, int64_t i, int64_t t,
                     int64_t n)
{
    return (char *)(uintptr_t)operand + (i * j->r->times + t) * n * j->elem;
}

/* Rows of the room, ld_h apart, to or from a dense [samples][units]. */
static void state_take(const lk__recurrence_job *j, const rows *b, char *to, const void *from)
{
    const int64_t bytes = j->r->units * j->elem;
    for (int64_t i = 0; i < b->n; i++)
        memcpy(to + i * j->ld_h * j->elem, (const char *)from + (b->first + i) * bytes,
               (size_t)bytes);
}

static void state_give(const lk__recurrence_job *j, const rows *b, void *to, const char *from)
{
    const int64_t bytes = j->r->units * j->elem;
    for (int64_t i = 0; i < b->n; i++)
        memcpy((char *)to + (b->first + i) * bytes, from + i * j->ld_h * j->elem, (size_t)bytes);
}

/* Rows of a dense [samples][units] from another, or zeros where that is NULL. */
static void dense_set(const lk__recurrence_job *j, const rows *b, void *to, const void *from)
{
    const int64_t row = j->r->units * j->elem;
    if (from)
        memcpy((char *)to + b->first * row, (const char *)from + b->first * row,
               (size_t)(b->n * row));
    else
        memset((char *)to + b->first * row, 0, (size_t)(b->n * row));
}

/* The time that is number n for the cell. */
static int64_t time_of(const lk__recurrence_job *j, int64_t n)
{
    return j->r->reverse ? j->r->times - 1 - n : n;
}

/* ---- forward ---- */

static void state_begin(const lk__recurrence_job *j, const rows *b)
{
    state_take(j, b, b->h, j->v->h0);
    if (j->v->c)
        dense_set(j, b, j->v->c, j->v->c0);
}

/* Time t; the state before it is at `h`, rows ld_h apart. */
static void time_forward(const lk__recurrence_job *j, const rows *b, int64_t t, const char *h,
                         int64_t ld_h)
{
    const lk_recurrence *r = j->r;
    const lk_recurrence_values *v = j->v;
    const int64_t u = r->units, row = u * j->elem;
    lk__recurrence_multiply(j, b, h, ld_h, b->s, j->ld_s);
    for (int64_t i = 0; i < b->n; i++) {
        const int64_t sample = b->first + i;
        j->gates(
            &(lk__gates_row){.units = u,
                             .x = at_time(j, v->x, sample, t, j->wide),
                             .bias = v->bias,
                             .s = b->s + i * j->ld_s * j->elem,
                             .before = b->h + i * j->ld_h * j->elem,
                             .c = v->c ? (char *)v->c + sample * row : NULL,
                             .y = at_time(j, v->y, sample, t, u),
                             .kept = v->kept ? at_time(j, v->kept, sample, t, j->kept) : b->spare,
                             .forget = r->forget});
    }
}

static void block_forward(const lk__recurrence_job *j, const rows *b)
{
    state_begin(j, b);
    for (int64_t n = 0; n < j->r->times; n++)
        time_forward(j, b, time_of(j, n), b->h, j->ld_h);
    state_give(j, b, j->v->h, b->h);
}

/* Rows of the block between the room, ld_all apart, and the parts: from these, or to them. */
static void parts_move(const lk__recurrence_job *j, const rows *b, bool deals)
{
    const lk__recurrence_parts *parts = j->parts;
    for (int p = 0; p < parts->n; p++) {
        const int64_t n = parts->first[p + 1] - parts->first[p], bytes = n * j->elem;
        char *at = (char *)parts->by_part +
                   (j->r->samples * parts->first[p] + b->first * n) * j->elem;
        char *row = b->other + parts->first[p] * j->elem;
        for (int64_t i = 0; i < b->n; i++, at += bytes, row += j->ld_all * j->elem)
            memcpy(deals ? at : row, deals ? row : at, (size_t)bytes);
    }
}

/* Time number n with parts. */
static void block_forward_now(const lk__recurrence_job *j, const rows *b, int64_t n)
{
    const int64_t bytes = j->all * j->elem, t = time_of(j, n);
    if (n < 0) {
        state_begin(j, b);
    } else {
        parts_move(j, b, false);
        for (int64_t i = 0; i < b->n && j->parts->before; i++)
            memcpy(at_time(j, j->parts->before, b->first + i, t, j->all),
                   b->other + i * j->ld_all * j->elem, (size_t)bytes);
        time_forward(j, b, t, b->other, j->ld_all);
    }
    state_give(j, b, j->v->h, b->h);
}

/* ---- backward ---- */

/* d = what is said of the state behind all times, which is that of time t. */
static void gradient_begin(const lk__recurrence_job *j, const rows *b, int64_t t)
{
    const lk_recurrence_grads *g = j->g;
    const int64_t u = j->r->units, row = u * j->elem;
    for (int64_t i = 0; i < b->n; i++) {
        char *d = b->h + i * j->ld_h * j->elem;
        const char *dy = g->dy ? at_time(j, g->dy, b->first + i, t, u) : NULL;
        const char *dh = g->dh ? (const char *)g->dh + (b->first + i) * row : NULL;
        if (dy || dh)
            memcpy(d, dh ? dh : dy, (size_t)row);
        else
            memset(d, 0, (size_t)row);
        if (dy && dh)
            j->add(d, dy, u);
    }
}

/* d of the state before, that of time t or, if that is negative, h0: ds u', rows of which are `ld` apart at
 * `by_s`, behind what a gru has left in d and dy. */
static void gradient_join(const lk__recurrence_job *j, const rows *b, int64_t t, const char *by_s,
                          int64_t ld)
{
    const bool gru = j->r->cell == LK_CELL_GRU;
    const int64_t u = j->r->units;
    for (int64_t i = 0; i < b->n; i++) {
        char *d = b->h + i * j->ld_h * j->elem;
        const char *by_u = by_s + i * ld * j->elem;
        if (!gru && by_u != d)
            memcpy(d, by_u, (size_t)(u * j->elem));
        if (j->g->dy && t >= 0)
            j->add(d, at_time(j, j->g->dy, b->first + i, t, u), u);
        if (gru)
            j->add(d, by_u, u);
    }
}

/* h' of time t, all units of it, in g->before; `from`: the time whose state it is, or -1.  Returns those of the
 * units that are here. */
static char *before_set(const lk__recurrence_job *j, int64_t sample, int64_t t, int64_t from)
{
    const int64_t row = j->all * j->elem;
    char *before = at_time(j, j->g->before, sample, t, j->all);
    if (j->parts) {
        memcpy(before, at_time(j, j->parts->before, sample, t, j->all), (size_t)row);
        return before + j->parts->first[j->parts->own] * j->elem;
    }
    memcpy(before,
           from < 0 ? (const char *)j->v->h0 + sample * row
                    : at_time(j, j->v->y, sample, from, j->all),
           (size_t)row);
    return before;
}

/* The gates of time t; `from`: the time whose state is before it, or -1. */
static void time_back(const lk__recurrence_job *j, const rows *b, int64_t t, int64_t from)
{
    const lk_recurrence_values *v = j->v;
    const lk_recurrence_grads *g = j->g;
    const int64_t u = j->r->units, row = u * j->elem;
    const bool last = t == time_of(j, j->r->times - 1);
    for (int64_t i = 0; i < b->n; i++) {
        const int64_t sample = b->first + i;
        char *s = b->s + i * j->ld_s * j->elem;
        j->gates(&(lk__gates_row){.units = u,
                                  .s = s,
                                  .before = before_set(j, sample, t, from),
                                  .c = g->dc0 ? (char *)g->dc0 + sample * row : NULL,
                                  .y = at_time(j, v->y, sample, t, u),
                                  .kept = v->kept ? at_time(j, v->kept, sample, t, j->kept) : NULL,
                                  .d = b->h + i * j->ld_h * j->elem,
                                  .dx = at_time(j, g->dx, sample, t, j->wide),
                                  .first = last && !g->dc});
        if (g->ds)
            memcpy(at_time(j, g->ds, sample, t, j->wide), s, (size_t)(j->wide * j->elem));
    }
}

/* What is said of the state behind all times; without times that is all. */
static void block_begin_back(const lk__recurrence_job *j, const rows *b)
{
    if (j->g->dc0)
        dense_set(j, b, j->g->dc0, j->g->dc);
    if (j->r->times == 0)
        dense_set(j, b, j->g->dh0, j->g->dh);
    else
        gradient_begin(j, b, time_of(j, j->r->times - 1));
}

static void block_backward(const lk__recurrence_job *j, const rows *b)
{
    const bool gru = j->r->cell == LK_CELL_GRU;
    char *by_s = gru ? b->other : b->h;
    const int64_t ld = gru ? j->ld_all : j->ld_h;
    block_begin_back(j, b);
    for (int64_t n = j->r->times - 1; n >= 0; n--) {
        const int64_t from = n == 0 ? -1 : time_of(j, n - 1);
        time_back(j, b, time_of(j, n), from);
        lk__recurrence_multiply(j, b, b->s, j->ld_s, by_s, ld);
        gradient_join(j, b, from, by_s, ld);
    }
    if (j->r->times > 0)
        state_give(j, b, j->g->dh0, b->h);
}

/* Time number n with parts. */
static void block_backward_now(const lk__recurrence_job *j, const rows *b, int64_t n)
{
    const int64_t u = j->r->units, t = n < 0 ? -1 : time_of(j, n);
    if (n == j->r->times - 1)
        block_begin_back(j, b);
    else
        gradient_join(j, b, t, (const char *)j->parts->joined + b->first * u * j->elem, u);
    if (n >= 0) {
        time_back(j, b, t, -1);
        lk__recurrence_multiply(j, b, b->s, j->ld_s, b->other, j->ld_all);
        parts_move(j, b, true);
    } else if (j->r->times > 0) {
        state_give(j, b, j->g->dh0, b->h);
    }
}

/* ---- tasks ---- */

void lk__recurrence_blocks(void *arg, int64_t first, int64_t last)
{
    const lk__recurrence_job *j = arg;
    for (int64_t k = first; k < last; k++) {
        rows b = rows_of(j, k);
        if (j->g)
            block_backward(j, &b);
        else
            block_forward(j, &b);
    }
}

void lk__recurrence_blocks_now(void *arg, int64_t first, int64_t last)
{
    const lk__recurrence_job *j = arg;
    for (int64_t k = first; k < last; k++) {
        rows b = rows_of(j, k);
        if (j->g)
            block_backward_now(j, &b, j->now);
        else
            block_forward_now(j, &b, j->now);
    }
}
