/* The rows micro-kernel on vectors of one type: included once for each, with VEC defined.
 *
 * A tile is mr x nv vectors of accumulators.  Per step of k it loads nv vectors of W and, for each
 * row, one element of A into all lanes.
 *
 * The loops over k have no register to spare: a value that has none is fetched again with every
 * step, perhaps by an instruction that takes the place of a multiply-add.  tools/check-loops looks.
 */

#include "kernel/simd/spaced.h"

/* Every chain's start.  Only the last vector of a row is ever masked. */
LK_INLINE void V(rows_start)(VEC acc[][4], const lk__rows_args *t, const int mr, const int nv)
{
    const int lanes = V(lanes);
    const V(elem) *bias = t->bias, *c = t->c;
    const V(mask) tail = V(mask_first)(t->n_valid - (nv - 1) * lanes);
    if (t->start == LK_START_ZERO) {
        LK_UNROLL
        for (int m = 0; m < mr; m++)
            LK_UNROLL
        for (int j = 0; j < nv; j++)
            acc[m][j] = V(zero)();
        return;
    }
    LK_UNROLL
    for (int m = 0; m < mr; m++) {
        const V(elem) *from = t->start == LK_START_BIAS ? bias : c + t->c_off[m];
        LK_UNROLL
        for (int j = 0; j < nv - 1; j++)
            acc[m][j] = V(load)(from + j * lanes);
        acc[m][nv - 1] = V(load_mask)(from + (nv - 1) * lanes, tail);
    }
}

LK_INLINE void V(rows_store)(VEC acc[][4], const lk__rows_args *t, const int mr, const int nv)
{
    const int lanes = V(lanes), last = (nv - 1) * lanes;
    V(elem) *c = t->c;
    LK_UNROLL
    for (int m = 0; m < mr; m++)
        LK_UNROLL
    for (int j = 0; j < nv - 1; j++)
        V(store)(c + t->c_off[m] + j * lanes, acc[m][j]);
    if (t->n_valid == nv * lanes) {
        LK_UNROLL
        for (int m = 0; m < mr; m++)
            V(store)(c + t->c_off[m] + last, acc[m][nv - 1]);
    } else {
        LK_UNROLL
        for (int m = 0; m < mr; m++)
            V(store_first)(c + t->c_off[m] + last, acc[m][nv - 1], t->n_valid - last);
    }
}

/* Asks for the rows of C that will be written. */
LK_INLINE void V(rows_ahead)(const lk__rows_args *t, const int mr, const int nv)
{
    LK_UNROLL
    for (int m = 0; m < mr; m++) {
        const V(elem) *c = (const V(elem) *)t->c + t->c_off[m];
        LK_UNROLL
        for (int j = 0; j < nv * V(lanes); j += 64 / (int)sizeof *c)
            __builtin_prefetch(c + j, 1, 3);
    }
}

/* One step of k with packed W; a[m] + k is row m's element. */
LK_INLINE void V(rows_step)(VEC acc[][4], const char *const *a, int64_t k, const V(elem) * w,
                            const int mr, const int nv)
{
    VEC w_row[4];
    LK_IN_ORDER(); /* loads for later steps would take the registers of the sums */
    LK_UNROLL
    for (int j = 0; j < nv; j++)
        w_row[j] = V(load)(w + j * V(lanes));
    LK_UNROLL
    for (int m = 0; m < mr; m++) {
        const VEC av = V(splat)((const V(elem) *)(a[m] + k));
        LK_UNROLL
        for (int j = 0; j < nv; j++)
            V(fma_to)(&acc[m][j], av, w_row[j]);
    }
}

/* A tile with W packed to its own width.  The rows' pointers are kept at the end of the segment and
 * k runs from -len up to 0, so that one register serves as index and as counter. */
LK_INLINE void V(rows_packed)(const lk__rows_args *t, const int mr, const int nv)
{
    const int nr = nv * V(lanes);
    const int64_t size = sizeof(V(elem));
    const int steps = nv == 3 && mr >= ROWS_MANY ? 1 : ROWS_STEPS;
    const char *a[LK_MICRO_MR];
    VEC acc[LK_MICRO_MR][4];
    V(rows_ahead)(t, mr, nv);
    LK_UNROLL
    for (int m = 0; m < mr; m++)
        a[m] = (const char *)t->a + t->a_off[m] * size;
    V(rows_start)(acc, t, mr, nv);
    int64_t behind = 0;
    for (int64_t s = 0; s < t->n_seg; s++) {
        const lk__segment *seg = &t->seg[s];
        const V(elem) *w = (const V(elem) *)t->w + seg->w_row * nr;
        LK_UNROLL
        for (int m = 0; m < mr; m++)
            a[m] += (seg->step + seg->len - behind) * size;
        behind = seg->len;
        int64_t k = -seg->len * size; /* in bytes */
        for (; k <= -steps * size; k += steps * size) {
            LK_OPAQUE(k);
            LK_UNROLL
            for (int q = 0; q < steps; q++, w += nr)
                V(rows_step)(acc, a, k + q * size, w, mr, nv);
        }
        for (; steps > 1 && k < 0; k += size, w += nr) {
            LK_OPAQUE(k);
            V(rows_step)(acc, a, k, w, mr, nv);
        }
    }
    V(rows_store)(acc, t, mr, nv);
}

/* W's rows for one step of k.  They are far apart, and asked for early; the last line of each is the
 * one that the tile to the left has not brought. */
LK_INLINE void V(rows_load)(VEC w_row[4], const V(elem) * w, int64_t ahead, const int nv,
                            const V(mask) tail, const bool whole)
{
    enum { LINE = 64 / (int)sizeof *w };
    const int lanes = V(lanes), last = (nv - 1) * lanes;
    LK_UNROLL
    for (int j = 0; j < nv - 1; j++)
        w_row[j] = V(load)(w + j * lanes);
    w_row[nv - 1] = whole ? V(load)(w + last) : V(load_mask)(w + last, tail);
    LK_UNROLL
    for (int j = nv * lanes - 1; j > 0; j -= LINE)
        __builtin_prefetch(w + ahead + j);
}

/* A tile with W in place, or with rows of another width, and rows of A equally far apart; `copy`:
 * W's rows are packed on the way; `whole`: they are readable up to NR. */
LK_INLINE void V(rows_spaced)(const lk__rows_args *t, const int mr, const int nv, const bool copy,
                              const bool whole)
{
    enum { AHEAD = 16 };
    const int lanes = V(lanes);
    const V(mask) tail = V(mask_first)(t->n_valid - (nv - 1) * lanes);
    V(elem) *w_copy = t->w_copy;
    VEC acc[LK_MICRO_MR][4];
    V(spaced) a = V(spaced_rows)(t->a, mr > 1 ? t->a_off[1] - t->a_off[0] : 0, mr);
    V(spaced_move)(&a, t->a_off[0], mr);
    V(rows_ahead)(t, mr, nv);
    V(rows_start)(acc, t, mr, nv);
    for (int64_t s = 0; s < t->n_seg; s++) {
        const lk__segment *seg = &t->seg[s];
        const V(elem) *w = (const V(elem) *)t->w + seg->w_row * t->ldw;
        int64_t ldw = t->ldw, ahead = AHEAD * ldw, k = seg->len;
        V(spaced_move)(&a, seg->step, mr);
        LK_RENEW(ldw);
        LK_RENEW(ahead);
        do {
            VEC w_row[4];
            V(rows_load)(w_row, w, ahead, nv, tail, whole);
            LK_UNROLL
            for (int j = 0; j < nv && copy; j++)
                V(store)(w_copy + j * lanes, w_row[j]);
            LK_UNROLL
            for (int m = 0; m < mr; m++) {
                const VEC av = V(splat)(V(spaced_at)(&a, m, 0));
                LK_UNROLL
                for (int j = 0; j < nv; j++)
                    acc[m][j] = V(fma)(av, w_row[j], acc[m][j]);
            }
            w += ldw;
            w_copy += copy ? nv * lanes : 0;
            V(spaced_move)(&a, 1, mr);
        } while (--k > 0);
        V(spaced_move)(&a, -seg->len, mr);
    }
    V(rows_store)(acc, t, mr, nv);
}
