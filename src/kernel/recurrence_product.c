/* The product of a block's states, or gradients of gates, with the packed weights of a recurrence.
 *
 * Backward may be cut into pieces, which are packed one behind the other: a tile of the result is one chain for
 * each, and these are joined by the tree, upper halves in the block's room for sums.
 */
#include "kernel/recurrence.h"

#include <lockstep/pieces.h>

enum { GATES = 4 };

/* A tile of the result under way: `rows` rows of `columns`, from `p` on. */
typedef struct tile {
    const lk__recurrence_job *j;
    lk__rows_args args;
    lk__rows_fn *fn;
    int64_t a_off[LK_MICRO_MR], c_off[LK_MICRO_MR], sum_off[LK_MICRO_MR];
    int64_t rows, ldc;
    const char *a, *w;
    char *c, *sums;
} tile;

/* One chain over piece `i`, to c. */
static void piece_run(const tile *t, int64_t i, char *c, const int64_t *c_off)
{
    const lk__recurrence_job *j = t->j;
    const int64_t units = j->r->units, first = i * j->r->piece, left = units - first;
    const int64_t len = left < j->r->piece ? left : j->r->piece, gates = j->wide / units;
    lk__segment seg[GATES];
    lk__rows_args args = t->args;
    for (int64_t g = 0; g < gates; g++)
        seg[g] = (lk__segment){.step = g == 0 ? 0 : units, .len = len, .w_row = g * len};
    args.seg = seg;
    args.n_seg = gates;
    args.a = t->a + first * j->elem;
    args.w = t->w + first * gates * args.ldw * j->elem;
    args.c = c;
    args.c_off = c_off;
    t->fn(&args);
}

/* The tree over n pieces from `first` on, to c, rows ldc apart; upper halves go to `sums`, dense. */
static void pieces_run(const tile *t, int64_t first, int64_t n, char *c, const int64_t *c_off,
                       char *sums)
{
    const int64_t columns = t->args.n_valid, elem = t->j->elem;
    if (n == 1) {
        piece_run(t, first, c, c_off);
        return;
    }
    const int64_t half = lk_tree_half(n);
    pieces_run(t, first, half, c, c_off, sums);
    pieces_run(t, first + half, n - half, sums, t->sum_off, sums + t->rows * columns * elem);
    for (int64_t m = 0; m < t->rows; m++)
        t->j->add(c + c_off[m] * elem, sums + t->sum_off[m] * elem, columns);
}

static void tile_run(tile *t, int64_t k)
{
    const lk_recurrence *r = t->j->r;
    const lk__segment whole = {.len = k};
    if (t->j->g && r->piece > 0 && r->piece < r->units) {
        pieces_run(t, 0, (r->units - 1) / r->piece + 1, t->c, t->c_off, t->sums);
        return;
    }
    t->args.seg = &whole;
    t->args.n_seg = 1;
    t->args.a = t->a;
    t->args.w = t->w;
    t->args.c = t->c;
    t->args.c_off = t->c_off;
    t->fn(&t->args);
}

void lk__recurrence_multiply(const lk__recurrence_job *j, const lk__recurrence_rows *b,
                             const char *a, int64_t lda, char *c, int64_t ldc)
{
    const lk__rows_type *r = j->rows;
    const int64_t width = r->width[r->usual], k = j->g ? j->wide : j->all,
                  n = j->g ? j->all : j->wide;
    tile t = {.j = j, .sums = b->sums};
    t.args = (lk__rows_args){
        .a_off = t.a_off, .ldw = width, .start = LK_START_ZERO, .w_packed = true};
    for (int m = 0; m < LK_MICRO_MR; m++) {
        t.a_off[m] = m * lda;
        t.c_off[m] = m * ldc;
    }
    for (int64_t p = 0; p < n; p += width) {
        int64_t done = 0;
        t.w = j->packed + p * k * j->elem;
        t.args.n_valid = (int)(n - p < width ? n - p : width);
        for (int m = 0; m < LK_MICRO_MR; m++)
            t.sum_off[m] = (int64_t)m * t.args.n_valid;
        for (int64_t tiles = (b->n + r->mr[r->usual] - 1) / r->mr[r->usual]; tiles > 0; tiles--) {
            t.rows = (b->n - done + tiles - 1) / tiles;
            t.fn = r->tile[r->usual][t.rows];
            t.a = a + done * lda * j->elem;
            t.c = c + (done * ldc + p) * j->elem;
            tile_run(&t, k);
            done += t.rows;
        }
    }
}
