/* The strips of cross.h on vectors of one type: included once for each, with VEC defined, behind
 * cross_tile.h, whose sums they use. */

/* A tile of a strip: mr rows of A from `rows` on, nv vectors.  One that does not fetch what is
 * next asks for what is there: a branch would cost more. */
LK_INLINE void V(strip_tile)(const lk__strip_args *t, const V(elem) * rows, const V(elem) * w,
                             V(elem) * c, const V(elem) * start, bool fetch, const int mr,
                             const int nv)
{
    const int lanes = V(lanes);
    const char *next = fetch ? t->next : t->w;
    const int64_t next_step = fetch ? t->next_step : 0;
    const V(elem) * a[LK_MICRO_MR];
    V(cross_sums) acc;
    V(cross_ahead)(c, t->ldc, mr, nv);
    LK_UNROLL
    for (int m = 0; m < mr; m++) {
        a[m] = rows + m * t->lda + t->k;
        LK_OPAQUE(a[m]);
    }
    V(cross_zero)(&acc, mr, nv);
    if (t->start != LK_START_ZERO)
        V(cross_load)
    (&acc, start, t->start == LK_START_BIAS ? 0 : t->ldc, nv * lanes, mr, nv);
    for (int64_t k = -t->k * (int64_t)sizeof *w; k < 0; k += (int64_t)sizeof *w) {
        VEC w_row[2];
        LK_OPAQUE(k);
        __builtin_prefetch(next, 0, 2);
        next += next_step;
        LK_UNROLL
        for (int j = 0; j < nv; j++)
            w_row[j] = V(load)(w + j * lanes);
        LK_UNROLL
        for (int m = 0; m < mr; m++) {
            const VEC av = V(splat)((const V(elem) *)((const char *)a[m] + k));
            LK_UNROLL
            for (int j = 0; j < nv; j++)
                acc.of[m][j] = V(fma)(av, w_row[j], acc.of[m][j]);
        }
        w += nv * lanes;
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
