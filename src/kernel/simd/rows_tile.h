/* The rows micro-kernel on vectors of one type: included once for each, with VEC defined.
 *
 * A tile is mr x nv vectors of accumulators.  Per step of k it loads nv vectors of W and, for each
 * row, one element of A into all lanes.  The rows' pointers are kept at the end of the segment and
 * k runs from -len up to 0, so that one register serves as index and as counter.
 */

/* Every chain's start.  Only the last vector of a row is ever masked. */
LK_INLINE void V(rows_start)(VEC acc[][3], const lk__rows_args *t, const int mr, const int nv)
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

LK_INLINE void V(rows_store)(VEC acc[][3], const lk__rows_args *t, const int mr, const int nv)
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

/* W's rows for one step of k.  Rows that are far apart are asked for early; the last line of each
 * is the one that the tile to the left has not brought. */
LK_INLINE void V(rows_load)(VEC w_row[3], const V(elem) * w, const lk__rows_args *t, const int nv,
                            const enum rows_mode mode, const V(mask) tail)
{
    enum { AHEAD = 16, LINE = 64 / (int)sizeof *w };
    const int lanes = V(lanes);
    LK_UNROLL
    for (int j = 0; j < nv - 1; j++)
        w_row[j] = V(load)(w + j * lanes);
    w_row[nv - 1] = mode == ROWS_IN_PLACE ? V(load_mask)(w + (nv - 1) * lanes, tail)
                                          : V(load)(w + (nv - 1) * lanes);
    if (mode != ROWS_PACKED) {
        LK_UNROLL
        for (int j = nv * lanes - 1; j > 0; j -= LINE)
            __builtin_prefetch(w + AHEAD * t->ldw + j);
    }
}

LK_INLINE void V(rows)(const lk__rows_args *t, const int mr, const int nv,
                       const enum rows_mode mode)
{
    const int lanes = V(lanes);
    const int64_t ldw = t->ldw;
    const V(mask) tail = V(mask_first)(t->n_valid - (nv - 1) * lanes);
    const V(elem) * a[LK_MICRO_MR];
    V(elem) *w_copy = t->w_copy;
    VEC acc[LK_MICRO_MR][3];
    LK_UNROLL
    for (int m = 0; m < mr; m++) {
        const V(elem) *c = (const V(elem) *)t->c + t->c_off[m];
        a[m] = (const V(elem) *)t->a + t->a_off[m];
        LK_UNROLL
        for (int j = 0; j < nv * lanes; j += 64 / (int)sizeof *c)
            __builtin_prefetch(c + j, 1, 3);
    }
    V(rows_start)(acc, t, mr, nv);
    int64_t behind = 0;
    for (int64_t s = 0; s < t->n_seg; s++) {
        const lk__segment *seg = &t->seg[s];
        const V(elem) *w = (const V(elem) *)t->w + seg->w_row * ldw;
        LK_UNROLL
        for (int m = 0; m < mr; m++)
            a[m] += seg->step + seg->len - behind;
        behind = seg->len;
        int64_t k = -seg->len * (int64_t)sizeof(V(elem)); /* in bytes */
        do {
            LK_OPAQUE(k);
            VEC w_row[3];
            V(rows_load)(w_row, w, t, nv, mode, tail);
            LK_UNROLL
            for (int j = 0; j < nv && mode == ROWS_COPY; j++)
                V(store)(w_copy + j * lanes, w_row[j]);
            LK_UNROLL
            for (int m = 0; m < mr; m++) {
                const VEC av = V(splat)((const V(elem) *)((const char *)a[m] + k));
                LK_UNROLL
                for (int j = 0; j < nv; j++)
                    acc[m][j] = V(fma)(av, w_row[j], acc[m][j]);
            }
            w += ldw;
            w_copy += mode == ROWS_COPY ? nv * lanes : 0;
            k += (int64_t)sizeof(V(elem));
        } while (k);
    }
    V(rows_store)(acc, t, mr, nv);
}
