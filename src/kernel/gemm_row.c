/* C of one row: a panel is a run of columns.  B is read in place.  Where it is transposed and its
 * sizes are no multiples of what the micro-kernel takes, the rest is packed by blocks. */
#include "kernel/gemm.h"

#include <lockstep/extra/alloc.h>

#include <string.h>

/* The rows of op(B) in a packed block. */
enum { BLOCK_STEPS = 64 };

/* Columns [j, end) of op(B) from step k on, packed by blocks. */
static void run_packed(const lk__gemm_job *job, const lk__gemm_run *run, int64_t j, int64_t end,
                       int64_t k)
{
    const lk_gemm *g = &job->g;
    const int64_t elem = job->elem, a_step = g->trans_a ? g->lda : 1;
    const int64_t width = lk__parts(end - j, job->rows->dot_columns) * job->rows->dot_columns;
    _Alignas(LK_ALIGN) char room[(size_t)BLOCK_STEPS * LK_GEMM_ROW_PANEL * sizeof(double)];
    for (; k < g->k; k += BLOCK_STEPS) {
        const int64_t n_k = lk__min(BLOCK_STEPS, g->k - k);
        job->rows->transpose(room, run->b + (j * g->ldb + k) * elem, g->ldb, n_k, (int)(end - j),
                             (int)width);
        job->gemv(run->c + j * elem, run->a + k * a_step * elem, a_step, room, width, n_k, end - j);
    }
}

/* Columns [j, end) of op(B), at most a panel. */
static void run_transposed(const lk__gemm_job *job, const lk__gemm_run *run, int64_t j, int64_t end)
{
    const lk_gemm *g = &job->g;
    const lk__rows_type *r = job->rows;
    const int64_t steps = g->k / r->dot_steps * r->dot_steps, elem = job->elem;
    const bool direct = g->k >= BLOCK_STEPS && (!g->trans_a || g->lda == 1);
    for (; direct && end - j >= r->dot_columns; j += r->dot_columns) {
        r->dot(run->c + j * elem, run->a, run->b + j * g->ldb * elem, g->ldb, steps);
        run_packed(job, run, j, j + r->dot_columns, steps);
    }
    if (j < end)
        run_packed(job, run, j, end, 0);
}

void lk__gemm_one_row(void *arg, int64_t first, int64_t last)
{
    const lk__gemm_job *job = arg;
    const lk_gemm *g = &job->g;
    const int64_t elem = job->elem;
    while (first < last) {
        const lk__gemm_run run = lk__gemm_next(job, &first, last);
        const int64_t j = run.first * job->panel, end = lk__min(g->n, run.last * job->panel);
        const size_t bytes = (size_t)((end - j) * elem);
        if (job->start == LK_START_ZERO)
            memset(run.c + j * elem, 0, bytes);
        else if (job->start == LK_START_BIAS)
            memcpy(run.c + j * elem, job->bias + j * elem, bytes);
        if (!g->trans_b)
            job->gemv(run.c + j * elem, run.a, g->trans_a ? g->lda : 1, run.b + j * elem, g->ldb,
                      g->k, end - j);
        for (int64_t i = j; g->trans_b && i < end; i += job->panel)
            run_transposed(job, &run, i, lk__min(end, i + job->panel));
        lk__gemm_act(job, &run, j, end);
    }
}
