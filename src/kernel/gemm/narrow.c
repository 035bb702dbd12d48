/* Blocks of a C that is narrower than a panel, where op(A) is the transpose of A and k has pieces.
 *
 * Vectors along such short rows would be partly empty.  So a block is computed as its transpose,
 * whose rows are long: A and B change places, and with them the two factors of each product, which
 * does not change its bits.  C's start is added when the block has been turned back.
 */
#include "kernel/gemm/gemm.h"

#include <lockstep/extra/alloc.h>

#include <string.h>

enum {
    PANEL = 128, /* bytes of a row of a panel, at most */
    BACK = 32,   /* rows that are turned back at once */
    CHUNK = 32   /* bytes that are copied at once */
};

/* A quarter of the panel would be empty, and the sum of several pieces is worth turning. */
bool lk__gemm_is_narrow(const lk__gemm_job *job)
{
    const lk_gemm *g = &job->g;
    return g->trans_a && !g->trans_b && g->piece > 0 && g->piece < g->k &&
           4 * g->n <= 3 * (int64_t)job->cross->width[0] && 4 * g->n < g->m;
}

/* The transpose of the rows of a run, to a room whose rows are as long as the run. */
static void run_turned(const lk__gemm_job *job, const lk__gemm_run *run, char *room)
{
    const lk_gemm *g = &job->g;
    lk__gemm_job turned = *job;
    turned.g = (lk_gemm){.dtype = g->dtype,
                         .trans_a = true,
                         .m = g->n,
                         .n = run->n_rows,
                         .k = g->k,
                         .lda = g->ldb,
                         .ldb = g->lda,
                         .ldc = run->n_rows,
                         .piece = g->piece};
    turned.batch = (lk_gemm_batch){.count = 1};
    turned.a = run->b;
    turned.b = run->a + run->row * job->elem;
    turned.c = room;
    turned.bias = NULL;
    turned.start = LK_START_ZERO;
    turned.act = NULL;
    turned.panel = job->cross->width[0];
    turned.n_panels = lk__parts(run->n_rows, turned.panel);
    const int64_t rows = lk__gemm_columns_rows(&turned);
    turned.block_rows = lk__min(rows, g->n);
    turned.n_blocks = lk__parts(g->n, turned.block_rows);
    lk__gemm_by_columns(&turned, 0, turned.n_blocks * turned.n_panels);
}

/* Copies of a constant size are fast; the last two may overlap. */
static void copy_row(char *to, const char *from, int64_t bytes)
{
    if (bytes < CHUNK) {
        memcpy(to, from, (size_t)bytes);
        return;
    }
    for (int64_t i = 0; i + CHUNK < bytes; i += CHUNK)
        memcpy(to + i, from + i, CHUNK);
    memcpy(to + bytes - CHUNK, from + bytes - CHUNK, CHUNK);
}

/* n rows of C from c on = start + sum, whose rows are a panel's width apart. */
static void write_rows(const lk__gemm_job *job, int64_t n, char *c, char *sum)
{
    const lk_gemm *g = &job->g;
    const int64_t elem = job->elem, width = job->cross->width[0];
    for (int64_t i = 0; i < n; i++, c += g->ldc * elem) {
        char *from = sum + i * width * elem;
        if (job->start != LK_START_ZERO)
            job->add(g->n, 0, job->start == LK_START_C ? c : job->bias, from, from);
        copy_row(c, from, g->n * elem);
    }
}

void lk__gemm_narrow(void *arg, int64_t first, int64_t last)
{
    const lk__gemm_job *job = arg;
    const int width = job->cross->width[0];
    _Alignas(LK_ALIGN) char turned[LK_GEMM_NARROW_ROWS * PANEL], back[BACK * PANEL];
    while (first < last) {
        const lk__gemm_run run = lk__gemm_next(job, &first, last);
        const int64_t row = run.n_rows * job->elem;
        run_turned(job, &run, turned);
        memset(turned + job->g.n * row, 0, (size_t)((width - job->g.n) * row));
        for (int64_t i = 0; i < run.n_rows; i += BACK) {
            const int64_t n = lk__min(BACK, run.n_rows - i);
            job->rows->transpose(back, turned + i * job->elem, run.n_rows, n, width, width);
            write_rows(job, n, run.c + i * job->g.ldc * job->elem, back);
        }
        lk__gemm_act(job, &run, 0, job->g.n);
    }
}
