/* The strips of cross.h on vectors of one type: included once for each, with VEC defined, behind
 * cross_tile.h, whose sums they use. */

#include "kernel/simd/spaced.h"

/* Step q of those at once. */
LK_INLINE void V(strip_step)(V(cross_sums) * acc, const V(spaced) * a, const int q,
                             const V(elem) * w, const int mr, const int nv)
{
    VEC w_row[2];
    LK_IN_ORDER(); /* loads for later steps would take the registers of the sums */
    LK_UNROLL
    for (int j = 0; j < nv; j++)
        w_row[j] = V(load)(w + j * V(lanes));
    LK_UNROLL
    for (int m = 0; m < mr; m++) {
        const VEC av = V(splat)(V(spaced_at)(a, m, q));
        LK_UNROLL
        for (int j = 0; j < nv; j++)
            V(fma_to)(&acc->of[m][j], av, w_row[j]);
    }
}

/* A tile of a strip: mr rows of A from `rows` on, nv vectors.  One that does not fetch what is
 * next asks for what is there: a branch would cost more. */
LK_INLINE void V(strip_tile)(const lk__strip_args *t, const V(elem) * rows, const V(elem) * w,
                             V(elem) * c, const V(elem) * start, bool fetch, const int mr,
                             const int nv)
{
    const int nr = nv * V(lanes);
    const char *next = fetch ? t->next : t->w;
    int64_t next_step = fetch ? t->next_step : 0, k = t->k;
    V(spaced) a = V(spaced_rows)(rows, t->lda, mr);
    V(cross_sums) acc;
    V(cross_ahead)(c, t->ldc, mr, nv);
    V(cross_zero)(&acc, mr, nv);
    if (t->start != LK_START_ZERO)
        V(cross_load)(&acc, start, t->start == LK_START_BIAS ? 0 : t->ldc, nr, mr, nv);
    LK_RENEW(next_step);
    for (; k >= STRIP_STEPS; k -= STRIP_STEPS, w += STRIP_STEPS * nr) {
        LK_UNROLL
        for (int q = 0; q < STRIP_STEPS; q++, next += next_step) {
            LK_OPAQUE(next);
            __builtin_prefetch(next, 0, 2);
            V(spaced_move)(&a, 0, mr);
            V(strip_step)(&acc, &a, q, w + q * nr, mr, nv);
        }
        V(spaced_move)(&a, STRIP_STEPS, mr);
    }
    for (; k > 0; k--, w += nr, next += next_step) {
        __builtin_prefetch(next, 0, 2);
        V(strip_step)(&acc, &a, 0, w, mr, nv);
        V(spaced_move)(&a, 1, mr);
    }
    V(cross_store)(&acc, c, t->ldc, mr, nv);
}

/* See lk__strip_args; mr rows, nv vectors. */
LK_INLINE void V(strip)(const lk__strip_args *t, const int mr, const int nv)
{
    const int nr = nv * V(lanes);
    for (int64_t i = 0; i < t->n_tiles; i++)
        for (int64_t p = 0; p < t->n_panels; p++) {
            V(elem) *c = (V(elem) *)t->c + i * mr * t->ldc + p * nr;
            const V(elem) *start = t->start == LK_START_BIAS ? (const V(elem) *)t->bias + p * nr
                                                             : c;
            V(strip_tile)
            (t, (const V(elem) *)t->a + i * mr * t->lda, (const V(elem) *)t->w + p * t->k * nr, c,
             start, t->next && i + p == 0, mr, nv);
        }
}
