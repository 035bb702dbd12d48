/* Matrix products. */
#include "kernel/reference/chain.h"

/* One element of C. */
struct element {
    const lk_gemm *g;
    const void *a, *b;
    int64_t i, j;
    bool traced;
};

/* The chain over steps [k, end). */
static lk__ref_chain steps(const struct element *e, int64_t k, int64_t end, double start)
{
    const lk_gemm *g = e->g;
    lk__ref_chain c = chain_start(g->dtype, start, e->traced);
    for (; k < end; k++)
        chain_fma(&c, real_get(g->dtype, e->a, g->trans_a ? k * g->lda + e->i : e->i * g->lda + k),
                  real_get(g->dtype, e->b, g->trans_b ? e->j * g->ldb + k : k * g->ldb + e->j));
    return c;
}

static lk__ref_chain piece_leaf(const void *of, int64_t p)
{
    const struct element *e = of;
    const int64_t begin = p * e->g->piece;
    return steps(e, begin, e->g->k - begin < e->g->piece ? e->g->k : begin + e->g->piece, 0);
}

void lk__ref_gemm(const lk_gemm *g, const void *a, const void *b, const void *bias, void *c,
                  lk__ref_value *exact)
{
    for (int64_t i = 0; i < g->m; i++)
        for (int64_t j = 0; j < g->n; j++) {
            const struct element e = {g, a, b, i, j, exact != NULL};
            const int64_t at = i * g->ldc + j;
            const double start = g->accumulate ? real_get(g->dtype, c, at)
                                 : bias        ? real_get(g->dtype, bias, j)
                                               : 0;
            lk__ref_chain sum;
            if (g->piece == 0 || g->k == 0) {
                sum = steps(&e, 0, g->k, start);
            } else {
                sum = lk__ref_chain_tree(piece_leaf, &e, 0, (g->k - 1) / g->piece + 1);
                if (g->accumulate || bias)
                    sum = lk__ref_chain_join(chain_start(g->dtype, start, e.traced), sum);
            }
            chain_store(&sum, g->act, at, c, exact);
        }
}
