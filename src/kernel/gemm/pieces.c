/* A panel of a block of C whose op(A) is A itself, k cut into pieces.
 *
 * A piece of the panel meets all rows of the block before the next one, so that it is packed but once.
 * Each is a chain into a slot, which holds the panel's part of the block; slots are joined as gemm.h
 * says.
 */
#include "kernel/gemm/gemm.h"

#include <lockstep/extra/alloc.h>

int64_t lk__gemm_pieces_rows(const lk__gemm_job *job)
{
    const int64_t slots = lk__gemm_slots(lk__parts(job->g.k, job->g.piece));
    return LK_GEMM_SLOTS / (slots * job->rows->width[0] * job->elem);
}

/* C = start + (left + sum) for the n columns from j on; left may be NULL. */
static void write_panel(const lk__gemm_job *job, const lk__gemm_run *run, int64_t j, int64_t n,
                        const char *left, char *sum)
{
    const int64_t elem = job->elem;
    for (int64_t m = 0; m < run->n_rows; m++, sum += n * elem) {
        char *c = run->c + (m * job->g.ldc + j) * elem;
        const char *start = job->start == LK_START_BIAS ? job->bias + j * elem : c;
        if (left)
            job->add(n, 0, left + m * n * elem, sum, job->start == LK_START_ZERO ? c : sum);
        if (job->start != LK_START_ZERO)
            job->add(n, 0, start, sum, c);
    }
}

void lk__gemm_pieces(const struct lk__gemm_rows *b, const lk__gemm_job *job,
                     const lk__gemm_run *run, int64_t j)
{
    _Alignas(LK_ALIGN) char slots[LK_GEMM_SLOTS];
    const lk_gemm *g = &job->g;
    const int64_t pieces = lk__parts(g->k, g->piece);
    const int64_t n = lk__min(g->n - j, job->rows->width[lk__rows_pick(job->rows, g->n - j)]);
    const int64_t count = run->n_rows * n, bytes = count * job->elem;
    int64_t off[LK_MICRO_MR];
    for (int m = 0; m < LK_MICRO_MR; m++)
        off[m] = m * n;
    for (int64_t i = 0; i < pieces; i++) {
        const bool last = i == pieces - 1; /* then the highest slot is joined on the way to C */
        int64_t joins = lk__gemm_joins(i, pieces);
        char *slot = slots + bytes * lk__gemm_level(i, pieces);
        const char *from = slots;
        lk__gemm_steps(b, j, i * g->piece, lk__min(g->k, (i + 1) * g->piece),
                       (lk__gemm_target){slot, n, off, LK_START_ZERO});
        for (; joins > (last ? 1 : 0); joins >>= 1, from += bytes)
            if (joins & 1)
                job->add(count, 0, from, slot, slot);
        if (last)
            write_panel(job, run, j, n, i > 0 ? from : NULL, slot);
    }
}
