/* A block of samples of a recurrence, all times.
 *
 * At each time the states of the block are multiplied with the packed weights, by the rows micro-kernel, and
 * the gates of each sample follow.  States and products are rows in the room, dense and apart from those of
 * other times: in the operands rows of one time lie a whole sequence apart, often in the same set of the
 * cache.
 */
#include "kernel/recurrence.h"

#include <string.h>

/* The rows of a block in the room: s; h, or d, and one more for each sample; one for what nobody keeps. */
typedef struct rows {
    int64_t first, n; /* samples */
    char *s, *h, *other, *spare;
} rows;

static rows rows_of(const lk__recurrence_job *j, int64_t block)
{
    int64_t first = block * j->block, left = j->r->samples - first;
    rows b = {.first = first, .n = left < j->block ? left : j->block};
    b.s = j->room + first * j->row_bytes;
    b.h = b.s + b.n * j->ld_s * j->elem;
    b.other = b.h + b.n * j->ld_h * j->elem;
    b.spare = b.other + b.n * j->ld_h * j->elem;
    return b;
}

/* Element `from` of sample i at time t of an operand with `n` elements at each time. */
static char *at_time(const lk__recurrence_job *j, const void *operand, int64_t i, int64_t t,
                     int64_t n)
{
    return (char *)(uintptr_t)operand + (i * j->r->times + t) * n * j->elem;
}

/* c [rows][n] = a [rows][k] w, w packed. */
static void multiply(const lk__recurrence_job *j, const rows *b, const char *a, int64_t lda,
                     int64_t k, int64_t n, char *c, int64_t ldc)
{
    const lk__rows_type *r = j->rows;
    const int64_t width = r->width[r->usual];
    const lk__segment seg = {.len = k};
    int64_t a_off[LK_MICRO_MR], c_off[LK_MICRO_MR];
    for (int m = 0; m < LK_MICRO_MR; m++) {
        a_off[m] = m * lda;
        c_off[m] = m * ldc;
    }
    for (int64_t p = 0; p < n; p += width) {
        lk__rows_args t = {.seg = &seg,
                           .n_seg = 1,
                           .a_off = a_off,
                           .w = j->packed + p * k * j->elem,
                           .ldw = width,
                           .c_off = c_off,
                           .start = LK_START_ZERO,
                           .n_valid = (int)(n - p < width ? n - p : width),
                           .w_packed = true};
        int64_t done = 0;
        for (int64_t tiles = (b->n + r->mr[r->usual] - 1) / r->mr[r->usual]; tiles > 0; tiles--) {
            const int64_t m = (b->n - done + tiles - 1) / tiles;
            t.a = a + done * lda * j->elem;
            t.c = c + (done * ldc + p) * j->elem;
            r->tile[r->usual][m](&t);
            done += m;
        }
    }
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

static void block_forward(const lk__recurrence_job *j, const rows *b)
{
    const lk_recurrence *r = j->r;
    const lk_recurrence_values *v = j->v;
    const int64_t u = r->units, row = u * j->elem;
    state_take(j, b, b->h, v->h0);
    if (v->c)
        dense_set(j, b, v->c, v->c0);
    for (int64_t n = 0; n < r->times; n++) {
        const int64_t t = r->reverse ? r->times - 1 - n : n;
        multiply(j, b, b->h, j->ld_h, u, j->wide, b->s, j->ld_s);
        for (int64_t i = 0; i < b->n; i++) {
            const int64_t sample = b->first + i;
            j->gates(&(lk__gates_row){.units = u,
                                      .x = at_time(j, v->x, sample, t, j->wide),
                                      .bias = v->bias,
                                      .s = b->s + i * j->ld_s * j->elem,
                                      .before = b->h + i * j->ld_h * j->elem,
                                      .c = v->c ? (char *)v->c + sample * row : NULL,
                                      .y = at_time(j, v->y, sample, t, u),
                                      .kept = v->kept ? at_time(j, v->kept, sample, t, j->kept)
                                                      : b->spare,
                                      .forget = r->forget});
        }
    }
    state_give(j, b, v->h, b->h);
}

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

/* d of the state before, that of time t or, if that is negative, h0: s times the weights, behind what a gru
 * has left in d and dy. */
static void gradient_pass_on(const lk__recurrence_job *j, const rows *b, int64_t t)
{
    const bool gru = j->r->cell == LK_CELL_GRU;
    const int64_t u = j->r->units;
    multiply(j, b, b->s, j->ld_s, j->wide, u, gru ? b->other : b->h, j->ld_h);
    for (int64_t i = 0; i < b->n; i++) {
        char *d = b->h + i * j->ld_h * j->elem;
        if (j->g->dy && t >= 0)
            j->add(d, at_time(j, j->g->dy, b->first + i, t, u), u);
        if (gru)
            j->add(d, b->other + i * j->ld_h * j->elem, u);
    }
}

/* The gates of time t, of sample i of the block; `from`: the time whose state is before it, or -1. */
static void gates_back(const lk__recurrence_job *j, const rows *b, int64_t i, int64_t t,
                       int64_t from)
{
    const lk_recurrence_values *v = j->v;
    const lk_recurrence_grads *g = j->g;
    const int64_t u = j->r->units, sample = b->first + i, row = u * j->elem;
    const bool last = t == (j->r->reverse ? 0 : j->r->times - 1);
    char *s = b->s + i * j->ld_s * j->elem, *before = at_time(j, g->before, sample, t, u);
    memcpy(before,
           from < 0 ? (const char *)v->h0 + sample * row : at_time(j, v->y, sample, from, u),
           (size_t)row);
    j->gates(&(lk__gates_row){.units = u,
                              .s = s,
                              .before = before,
                              .c = g->dc0 ? (char *)g->dc0 + sample * row : NULL,
                              .y = at_time(j, v->y, sample, t, u),
                              .kept = v->kept ? at_time(j, v->kept, sample, t, j->kept) : NULL,
                              .d = b->h + i * j->ld_h * j->elem,
                              .dx = at_time(j, g->dx, sample, t, j->wide),
                              .first = last && !g->dc});
    if (g->ds)
        memcpy(at_time(j, g->ds, sample, t, j->wide), s, (size_t)(j->wide * j->elem));
}

static void block_backward(const lk__recurrence_job *j, const rows *b)
{
    const lk_recurrence *r = j->r;
    const lk_recurrence_grads *g = j->g;
    if (g->dc0)
        dense_set(j, b, g->dc0, g->dc);
    if (r->times == 0) {
        dense_set(j, b, g->dh0, g->dh);
        return;
    }
    gradient_begin(j, b, r->reverse ? 0 : r->times - 1);
    for (int64_t n = r->times - 1; n >= 0; n--) {
        const int64_t t = r->reverse ? r->times - 1 - n : n;
        const int64_t from = n == 0 ? -1 : r->reverse ? t + 1 : t - 1;
        for (int64_t i = 0; i < b->n; i++)
            gates_back(j, b, i, t, from);
        gradient_pass_on(j, b, from);
    }
    state_give(j, b, g->dh0, b->h);
}

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
