/* C of one row, or row by row: a panel is a run of columns.  B is read in place.  Where it is transposed
 * and its sizes are no multiples of what the micro-kernel takes, the rest is packed by blocks.  Pieces go
 * to slots of as many columns as fit, which are joined as gemm.h says. */
#include "kernel/gemm/gemm.h"

#include <lockstep/extra/alloc.h>

#include <string.h>

/* The rows of op(B) in a packed block. */
enum { BLOCK_STEPS = 64 };

/* A row under way, and the steps of k at hand. */
struct row {
    const lk__gemm_job *job;
    const lk__gemm_run *run;
    const char *a; /* of op(A) */
    int64_t k0, k1;
};

/* Columns [j, end) of op(B) from step k on, packed by blocks; c is column j. */
static void run_packed(const struct row *r, int64_t j, int64_t end, int64_t k, char *c)
{
    const lk__gemm_job *job = r->job;
    const lk_gemm *g = &job->g;
    const int64_t elem = job->elem, a_step = g->trans_a ? g->lda : 1;
    const int64_t width = lk__parts(end - j, job->rows->dot_columns) * job->rows->dot_columns;
    _Alignas(LK_ALIGN) char room[(size_t)BLOCK_STEPS * LK_GEMM_ROW_PANEL * sizeof(double)];
    for (; k < r->k1; k += BLOCK_STEPS) {
        const int64_t n_k = lk__min(BLOCK_STEPS, r->k1 - k);
        job->rows->transpose(room, r->run->b + (j * g->ldb + k) * elem, g->ldb, n_k, (int)(end - j),
                             (int)width);
        job->gemv(c, r->a + k * a_step * elem, a_step, room, width, n_k, end - j, false);
    }
}

/* Columns [j, end) of op(B), at most a panel. */
static void run_transposed(const struct row *r, int64_t j, int64_t end, char *c)
{
    const lk_gemm *g = &r->job->g;
    const lk__rows_type *rows = r->job->rows;
    const int64_t elem = r->job->elem, n_k = r->k1 - r->k0;
    const int64_t steps = n_k / rows->dot_steps * rows->dot_steps;
    const bool direct = n_k >= BLOCK_STEPS && (!g->trans_a || g->lda == 1);
    for (; direct && end - j >= rows->dot_columns; j += rows->dot_columns) {
        rows->dot(c, r->a + r->k0 * elem, r->run->b + (j * g->ldb + r->k0) * elem, g->ldb, steps);
        run_packed(r, j, j + rows->dot_columns, r->k0 + steps, c);
        c += rows->dot_columns * elem;
    }
    if (j < end)
        run_packed(r, j, end, r->k0, c);
}

/* The chains of columns [j, end) go on from c, which is column j, or begin with +0 if `zero`. */
static void run_chains(const struct row *r, int64_t j, int64_t end, char *c, bool zero)
{
    const lk__gemm_job *job = r->job;
    const lk_gemm *g = &job->g;
    const int64_t elem = job->elem, a_step = g->trans_a ? g->lda : 1;
    if (zero && (g->trans_b || r->k0 == r->k1))
        memset(c, 0, (size_t)((end - j) * elem));
    if (!g->trans_b)
        job->gemv(c, r->a + r->k0 * a_step * elem, a_step, r->run->b + (r->k0 * g->ldb + j) * elem,
                  g->ldb, r->k1 - r->k0, end - j, zero);
    for (int64_t i = j; g->trans_b && i < end; i += job->panel)
        run_transposed(r, i, lk__min(end, i + job->panel), c + (i - j) * elem);
}

/* Columns [j, end) of C by pieces, which have room in the slots. */
static void run_pieces(struct row *r, int64_t j, int64_t end, char *slots)
{
    const lk__gemm_job *job = r->job;
    const lk_gemm *g = &job->g;
    const int64_t pieces = lk__parts(g->k, g->piece), n = end - j, bytes = n * job->elem;
    char *c = r->run->c + j * job->elem, *slot = slots;
    for (int64_t i = 0; i < pieces; i++) {
        slot = slots + lk__gemm_level(i, pieces) * bytes;
        r->k0 = i * g->piece;
        r->k1 = lk__min(g->k, r->k0 + g->piece);
        run_chains(r, j, end, slot, true);
        const char *from = slots;
        for (int64_t joins = lk__gemm_joins(i, pieces); joins > 0; joins >>= 1, from += bytes)
            if (joins & 1)
                job->add(n, 0, from, slot, slot);
    }
    if (job->start == LK_START_ZERO)
        memcpy(c, slot, (size_t)bytes);
    else
        job->add(n, 0, job->start == LK_START_C ? c : job->bias + j * job->elem, slot, c);
}

/* Columns [j, end) of C as one chain each. */
static void run_whole(struct row *r, int64_t j, int64_t end)
{
    const lk__gemm_job *job = r->job;
    char *c = r->run->c + j * job->elem;
    if (job->start == LK_START_BIAS)
        memcpy(c, job->bias + j * job->elem, (size_t)((end - j) * job->elem));
    r->k0 = 0;
    r->k1 = job->g.k;
    run_chains(r, j, end, c, job->start == LK_START_ZERO);
}

void lk__gemm_one_row(void *arg, int64_t first, int64_t last)
{
    const lk__gemm_job *job = arg;
    const lk_gemm *g = &job->g;
    _Alignas(LK_ALIGN) char slots[LK_GEMM_SLOTS];
    const int64_t n_slots = g->piece > 0 ? lk__gemm_slots(lk__parts(g->k, g->piece)) : 1;
    const int64_t most = LK_GEMM_SLOTS / (n_slots * job->panel * job->elem) * job->panel;
    while (first < last) {
        const lk__gemm_run run = lk__gemm_next(job, &first, last);
        const int64_t j = run.first * job->panel, end = lk__min(g->n, run.last * job->panel);
        struct row r = {
            .job = job, .run = &run, .a = run.a + run.row * (g->trans_a ? 1 : g->lda) * job->elem};
        if (g->piece == 0)
            run_whole(&r, j, end);
        for (int64_t i = j; g->piece > 0 && i < end; i += most)
            run_pieces(&r, i, lk__min(end, i + most), slots);
        lk__gemm_act(job, &run, j, end);
    }
}
