/* Blocks of C whose op(A) is A itself, by the rows micro-kernel.
 *
 * A panel of B is used by all rows of the block.  It is packed first where B is transposed;
 * otherwise the first tile packs it while it computes, or, when few rows would use it, all tiles
 * read it in place.  Rows of A are read in place.
 */
#include "kernel/gemm.h"

#include <lockstep/alloc.h>

/* Panels between two applications of the activation, which likes long rows. */
enum { ACT_PANELS = 8 };

/* Rows that are a multiple of this many bytes apart share a set of the first-level cache, which
 * holds few lines of one set. */
enum { SET_BYTES = 4096, SET_ROWS = 8 };

struct block {
    const lk__gemm_job *job;
    const lk__gemm_run *run;
    const char *a; /* the first row of the run */
    int64_t a_off[LK_MICRO_MR], c_off[LK_MICRO_MR];
    char *room; /* LK_GEMM_ROOM bytes */
};

/* The tiles of one panel and one chunk of k, rows [first, n_rows), as even as they can be. */
static void run_tiles(const struct block *b, const lk__rows_args *args, int width, int64_t first)
{
    const lk_gemm *g = &b->job->g;
    const lk__rows_type *r = b->job->rows;
    const int64_t elem = b->job->elem;
    const int64_t mr = g->lda * elem % SET_BYTES == 0 ? lk__min(r->mr[width], SET_ROWS)
                                                      : r->mr[width];
    lk__rows_args t = *args;
    int64_t left = b->run->n_rows - first;
    if (t.w_packed && t.n_valid == b->job->cross->width[0] && t.n_valid == r->width[width] &&
        b->job->cross->mr <= mr && t.seg->len > 0) {
        const int64_t tiles = left / b->job->cross->mr;
        const lk__strip_args strip = {.a = (const char *)t.a + first * g->lda * elem,
                                      .lda = g->lda,
                                      .k = t.seg->len,
                                      .w = t.w,
                                      .start = t.start,
                                      .bias = t.bias,
                                      .c = (char *)t.c + first * g->ldc * elem,
                                      .ldc = g->ldc,
                                      .n_tiles = tiles};
        b->job->cross->strip(&strip);
        first += tiles * b->job->cross->mr;
        left -= tiles * b->job->cross->mr;
    }
    for (int64_t tiles = lk__parts(left, mr); tiles > 0; tiles--) {
        const int64_t rows = lk__parts(left, tiles);
        t.a = (const char *)args->a + first * g->lda * elem;
        t.c = (char *)args->c + first * g->ldc * elem;
        r->tile[width][rows](&t);
        first += rows;
        left -= rows;
    }
}

/* A chunk of k from k0 on, with the start in `t`. */
static void run_chunk(const struct block *b, lk__rows_args *t, int width, int64_t j, int64_t k0)
{
    const lk_gemm *g = &b->job->g;
    const lk__rows_type *r = b->job->rows;
    const int64_t elem = b->job->elem, mr = r->mr[width];
    const int nr = r->width[width];
    t->a = b->a + k0 * elem;
    if (g->trans_b) {
        r->transpose(b->room, b->run->b + (j * g->ldb + k0) * elem, g->ldb, t->seg->len, t->n_valid,
                     nr);
        t->w_packed = true;
    } else {
        t->w = b->run->b + (k0 * g->ldb + j) * elem;
        t->ldw = g->ldb;
        t->w_packed = false;
        if (width != r->usual || t->n_valid < nr || b->run->n_rows <= mr) {
            run_tiles(b, t, width, 0);
            return;
        }
        t->w_copy = b->room;
        r->copy_tile(t);
        t->w_packed = true;
    }
    t->w = b->room;
    t->ldw = nr;
    run_tiles(b, t, width, g->trans_b ? 0 : mr);
}

static void run_panel(const struct block *b, int64_t j)
{
    const lk__gemm_job *job = b->job;
    const lk_gemm *g = &job->g;
    const int width = lk__rows_pick(job->rows, g->n - j), nr = job->rows->width[width];
    const int64_t chunks = lk__parts(g->k, LK_GEMM_ROOM / (nr * job->elem));
    lk__segment seg = {0};
    lk__rows_args t = {.seg = &seg,
                       .n_seg = g->k > 0,
                       .a_off = b->a_off,
                       .c = b->run->c + j * job->elem,
                       .c_off = b->c_off,
                       .bias = job->bias ? job->bias + j * job->elem : NULL,
                       .start = job->start,
                       .n_valid = (int)lk__min(nr, g->n - j)};
    int64_t k0 = 0;
    for (int64_t left = chunks > 0 ? chunks : 1; left > 0; left--) {
        seg.len = lk__parts(g->k - k0, left);
        run_chunk(b, &t, width, j, k0);
        k0 += seg.len;
        t.start = LK_START_C;
    }
}

void lk__gemm_by_rows(void *arg, int64_t first, int64_t last)
{
    const lk__gemm_job *job = arg;
    const lk_gemm *g = &job->g;
    _Alignas(LK_ALIGN) char room[LK_GEMM_ROOM];
    struct block b = {.job = job, .room = room};
    for (int m = 0; m < LK_MICRO_MR; m++) {
        b.a_off[m] = m * g->lda;
        b.c_off[m] = m * g->ldc;
    }
    while (first < last) {
        const lk__gemm_run run = lk__gemm_next(job, &first, last);
        int64_t done = run.first; /* panels with activation */
        b.run = &run;
        b.a = run.a + run.row * g->lda * job->elem;
        for (int64_t p = run.first; p < run.last; p++) {
            if (g->piece > 0)
                lk__gemm_pieces(job, &run, p * job->panel);
            else
                run_panel(&b, p * job->panel);
            if (p + 1 == run.last || p + 1 - done == ACT_PANELS) {
                const int64_t end = p + 1 == job->n_panels ? g->n : (p + 1) * job->panel;
                lk__gemm_act(job, &run, done * job->panel, end);
                done = p + 1;
            }
        }
    }
}
