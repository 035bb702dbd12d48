/* C of one row, B in place: a panel is a run of columns. */
#include "kernel/gemm.h"

#include <string.h>

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
        job->gemv(run.c + j * elem, run.a, g->trans_a ? g->lda : 1, run.b + j * elem, g->ldb, g->k,
                  end - j);
        lk__gemm_act(job, &run, j, end);
    }
}
