/* Matrix multiplication: picks a way to compute, cuts C into blocks and gives them to the pool. */
#include "kernel/gemm/gemm.h"

#include "base/fpenv.h"
#include "kernel/runtime/parallel.h"

/* Rows of A that stay in the second-level cache while the panels pass. */
enum { BLOCK_ROWS = 160 };

lk__gemm_run lk__gemm_next(const lk__gemm_job *job, int64_t *next, int64_t last)
{
    const lk_gemm *g = &job->g;
    const int64_t block = *next / job->n_panels, first = *next % job->n_panels;
    const int64_t product = block / job->n_blocks, row = block % job->n_blocks * job->block_rows;
    const int64_t end = lk__min(job->n_panels, first + (last - *next));
    *next += end - first;
    return (lk__gemm_run){.a = job->a + product * job->batch.stride_a * job->elem,
                          .b = job->b + product * job->batch.stride_b * job->elem,
                          .c = job->c + (product * job->batch.stride_c + row * g->ldc) * job->elem,
                          .row = row,
                          .n_rows = lk__min(job->block_rows, g->m - row),
                          .first = first,
                          .last = end};
}

void lk__gemm_act(const lk__gemm_job *job, const lk__gemm_run *run, int64_t first, int64_t last)
{
    if (job->act)
        for (int64_t i = 0; i < run->n_rows; i++)
            job->act(run->c + (i * job->g.ldc + first) * job->elem, last - first);
}

/* One column is one row, transposed, if its elements are as close as those of a row. */
static void turn_column(lk__gemm_job *job)
{
    lk_gemm *g = &job->g;
    if (g->n != 1 || g->m == 1 || g->ldc != 1 || job->bias)
        return;
    const lk__gemm_job old = *job;
    job->a = old.b;
    job->b = old.a;
    job->batch.stride_a = old.batch.stride_b;
    job->batch.stride_b = old.batch.stride_a;
    g->m = 1;
    g->n = old.g.m;
    g->trans_a = !old.g.trans_b;
    g->trans_b = !old.g.trans_a;
    g->lda = old.g.ldb;
    g->ldb = old.g.lda;
    g->ldc = g->n;
}

/* `widest`: the last panel may be as wide. */
static void cut_columns(lk__gemm_job *job, int64_t usual, int64_t widest)
{
    job->panel = usual;
    job->n_panels = job->g.n <= widest ? 1 : lk__parts(job->g.n - widest, usual) + 1;
}

/* Blocks of at most `rows` rows, rounded up to a multiple of mr; smaller ones if threads would be
 * idle. */
static void cut_rows(lk__gemm_job *job, int64_t rows, int64_t mr, int threads)
{
    const int64_t m = job->g.m;
    int64_t blocks = lk__parts(m, rows);
    while (threads > 1 && blocks * job->n_panels * job->batch.count < 4 * (int64_t)threads &&
           m / blocks > 4 * mr)
        blocks *= 2;
    job->block_rows = lk__parts(lk__parts(m, blocks), mr) * mr;
    job->n_blocks = lk__parts(m, job->block_rows);
}

/* Whether lk__gemm_one_row() suits a job: one row, or one step, where storing C takes all the time and
 * long runs are stored fastest. */
static bool is_row(const lk__gemm_job *job)
{
    const lk_gemm *g = &job->g;
    const int64_t usual = job->rows->width[job->rows->usual];
    if (g->m == 1)
        return g->n > 2 * usual && !(g->trans_b && g->ldb * job->elem % LK_GEMM_SET == 0);
    return g->k == 1 && g->piece == 0 && !g->trans_b && g->n >= 4 * usual;
}

static lk_status run_job(lk__gemm_job *job)
{
    const lk_gemm *g = &job->g;
    const lk__rows_type *r = job->rows;
    int threads = 1;
    LK_TRY(lk_threads_now(&threads));
    lk__task_fn *fn = lk__gemm_by_rows;
    int64_t together = 1; /* panels that share what a task prepares */
    if (is_row(job)) {
        fn = lk__gemm_one_row;
        cut_columns(job, LK_GEMM_ROW_PANEL, LK_GEMM_ROW_PANEL);
        cut_rows(job, 1, 1, 1);
    } else if (lk__gemm_is_narrow(job)) {
        fn = lk__gemm_narrow;
        cut_columns(job, g->n, g->n);
        cut_rows(job, LK_GEMM_NARROW_ROWS, job->cross->width[0], threads);
    } else if (g->trans_a) {
        fn = lk__gemm_by_columns;
        cut_columns(job, job->cross->width[0], job->cross->width[0]);
        const int64_t rows = lk__gemm_columns_rows(job);
        cut_rows(job, rows, lk__min(rows, job->cross->mr), threads);
        together = 8;
    } else {
        const int64_t steps = g->piece > 0 ? g->piece : g->k, mr = r->mr[r->usual];
        const int64_t rows = g->piece > 0 ? lk__gemm_pieces_rows(job) / mr * mr : BLOCK_ROWS;
        cut_columns(job, r->width[r->usual], r->width[0]);
        cut_rows(job, lk__min(BLOCK_ROWS, rows), mr, threads);
        job->n_chunks = lk__parts(steps, LK_GEMM_ROOM / (r->width[0] * job->elem));
    }
    const double work = (double)lk__min(job->block_rows, g->m) * (double)job->panel *
                        (double)(g->k + 1);
    lk__tasks tasks = lk__tasks_products(job->batch.count * job->n_blocks * job->n_panels, work);
    tasks.least = together;
    return LK_TRACE(lk__parallel(tasks, fn, job));
}

lk_status lk_gemm_run_batched(const lk_gemm *g, const lk_gemm_batch *batch, const void *a,
                              const void *b, const void *bias, void *c)
{
    const lk__rows_table *rows = NULL;
    const lk__cross_table *cross = NULL;
    const lk__maps2_table *maps = NULL;
    LK_CHECK(g && batch, LK_EINVAL, "%s is NULL", g ? "batch" : "g");
    LK_FP_GUARD();
    LK_TRY(LK_FP_CHECK());
    LK_TRY(lk__gemm_check(g, batch, (const void *const[]){a, b, bias}, c));
    if (g->m == 0 || g->n == 0 || batch->count == 0)
        return LK_OK;
    LK_TRY(lk__rows_get(&rows));
    LK_TRY(lk__cross_get(&cross));
    lk__gemm_job job = {.g = *g,
                        .batch = *batch,
                        .elem = (int64_t)lk_dtype_size(g->dtype),
                        .a = a,
                        .b = b,
                        .bias = bias,
                        .c = c,
                        .start = g->accumulate ? LK_START_C
                                 : bias        ? LK_START_BIAS
                                               : LK_START_ZERO,
                        .rows = &rows->of[g->dtype],
                        .cross = &cross->of[g->dtype],
                        .gemv = cross->gemv[g->dtype]};
    job.g.piece = lk__min(g->piece, g->k); /* k = 0: no pieces, C is its start */
    if (job.g.piece == g->k && job.start == LK_START_ZERO)
        job.g.piece = 0; /* a piece to which nothing is added is a chain */
    if (g->k == 0) { /* A and B, which may be NULL then, are nowhere: what points there lies in C */
        job.a = job.b = c;
        job.g.lda = job.g.ldb = job.batch.stride_a = job.batch.stride_b = 0;
    }
    if (job.g.piece > 0) {
        LK_TRY(lk__maps2_get(&maps));
        job.add = maps->add[g->dtype];
    }
    LK_TRY(lk__act_get(g->dtype, g->act, &job.act));
    turn_column(&job);
    return LK_TRACE(run_job(&job));
}

lk_status lk_gemm_run(const lk_gemm *g, const void *a, const void *b, const void *bias, void *c)
{
    return LK_TRACE(lk_gemm_run_batched(g, &(lk_gemm_batch){.count = 1}, a, b, bias, c));
}
