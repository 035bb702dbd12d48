/* OpenBLAS as a peer: matrix products by cblas_sgemm and cblas_dgemm. */
#include "peer.h"

#include <cblas.h>
#include <limits.h>
#include <stdlib.h>

struct lk__peer_job {
    lk_gemm gemm;
    const void *a, *b;
    void *c;
};

static const char *openblas_about(void)
{
    return openblas_get_config();
}

static const char *openblas_path(void)
{
    return openblas_get_corename();
}

static void openblas_threads(int n)
{
    openblas_set_num_threads(n);
}

static lk__peer_job *openblas_gemm_new(const lk_gemm *g, const void *a, const void *b, void *c,
                                       const char **why)
{
    if (g->m > INT_MAX || g->n > INT_MAX || g->k > INT_MAX) {
        *why = "sizes are limited to 31 bits";
        return NULL;
    }
    lk__peer_job *job = malloc(sizeof *job);
    if (!job) {
        *why = "out of memory";
        return NULL;
    }
    *job = (lk__peer_job){*g, a, b, c};
    return job;
}

static bool openblas_run(lk__peer_job *job)
{
    const lk_gemm *g = &job->gemm;
    enum CBLAS_TRANSPOSE ta = g->trans_a ? CblasTrans : CblasNoTrans;
    enum CBLAS_TRANSPOSE tb = g->trans_b ? CblasTrans : CblasNoTrans;
    int m = (int)g->m, n = (int)g->n, k = (int)g->k;
    int lda = (int)g->lda, ldb = (int)g->ldb, ldc = (int)g->ldc;
    if (g->dtype == LK_F32)
        cblas_sgemm(CblasRowMajor, ta, tb, m, n, k, 1.0F, job->a, lda, job->b, ldb, 0.0F, job->c,
                    ldc);
    else
        cblas_dgemm(CblasRowMajor, ta, tb, m, n, k, 1.0, job->a, lda, job->b, ldb, 0.0, job->c,
                    ldc);
    return true;
}

static const char *openblas_job_about(const lk__peer_job *job)
{
    return job->gemm.dtype == LK_F32 ? "sgemm" : "dgemm";
}

static void openblas_free(lk__peer_job *job)
{
    free(job);
}

LK_API extern const lk__peer lk__peer_openblas;
const lk__peer lk__peer_openblas = {
    .interface = LK_PEER_INTERFACE,
    .name = "openblas",
    .about = openblas_about,
    .path = openblas_path,
    .set_threads = openblas_threads,
    .gemm_new = openblas_gemm_new,
    .job_about = openblas_job_about,
    .job_run = openblas_run,
    .job_free = openblas_free,
};
