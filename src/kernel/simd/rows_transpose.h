/* Panels of a transposed matrix, and its product with one row: included once for each vector type, with VEC defined. */

/* dst[i][j] = src[j][i] for i < n, which is V_lanes or half of it, and j < V_lanes. */
LK_INLINE void V(transpose)(V(elem) * dst, int64_t ldd, const V(elem) * src, int64_t lds,
                            const int n)
{
    LK_UNROLL
    for (int i = 0; i < n; i += V(lanes) / 2) {
        VEC v[V(lanes) / 2];
        V(half_square)(v, src + i, lds);
        LK_UNROLL
        for (int q = 0; q < V(lanes) / 2; q++)
            V(store)(dst + (i + q) * ldd, v[q]);
    }
}

/* The part of a square where the source ends, by way of a square of zeros. */
LK_INLINE void V(transpose_edge)(V(elem) * dst, const V(elem) * src, int64_t ld, int n_k, int n_j,
                                 int width)
{
    const int lanes = V(lanes);
    V(elem) from[V(lanes)][V(lanes)], to[V(lanes)][V(lanes)];
    const V(mask) tail = V(mask_first)(n_k);
    for (int j = 0; j < lanes; j++)
        V(store)(from[j], j < n_j ? V(load_mask)(src + j * ld, tail) : V(zero)());
    V(transpose)(to[0], lanes, from[0], lanes, V(lanes));
    for (int k = 0; k < n_k && k < lanes; k++)
        V(store)(dst + k * width, V(load)(to[k]));
}

/* `lanes` columns of a panel: the squares of V_lanes rows of the source, all of them there. */
LK_INLINE void V(transpose_columns)(V(elem) * d, const V(elem) * s, int64_t ld, int64_t n_k,
                                    const int64_t width)
{
    const int lanes = V(lanes), half = lanes / 2;
    int64_t k = 0;
    for (; k + lanes <= n_k; k += lanes)
        V(transpose)(d + k * width, width, s + k, ld, V(lanes));
    /* The last square, or half of it, overlaps the one before. */
    if (n_k - k > half)
        V(transpose)(d + (n_k - lanes) * width, width, s + n_k - lanes, ld, V(lanes));
    else if (n_k > k)
        V(transpose)(d + (n_k - half) * width, width, s + n_k - half, ld, V(lanes) / 2);
}

/* See lk__transpose_fn; the widths are multiples of V_lanes. */
static void V(transpose_panel)(void *dst, const void *src, int64_t ld, int64_t n_k, int n_valid,
                               int width)
{
    const int lanes = V(lanes);
    for (int j = 0; j < width; j += lanes) {
        const V(elem) *s = (const V(elem) *)src + j * ld;
        V(elem) *d = (V(elem) *)dst + j;
        if (n_valid - j >= lanes && n_k >= lanes) {
            if (width == 2 * lanes)
                V(transpose_columns)(d, s, ld, n_k, 2 * V(lanes));
            else
                V(transpose_columns)(d, s, ld, n_k, width);
            continue;
        }
        for (int64_t k = 0; k < n_k; k += lanes) {
            const int left = n_k - k < lanes ? (int)(n_k - k) : lanes;
            V(transpose_edge)(d + k * width, s + k, ld, left, n_valid - j, width);
        }
    }
}

/* See lk__dot_fn.  Several sums, because each waits for itself. */
static void V(dot)(void *c, const void *a, const void *w, int64_t ldw, int64_t k)
{
    enum { SUMS = 4 };
    const V(elem) *row = a;
    VEC acc[SUMS];
    LK_UNROLL
    for (int s = 0; s < SUMS; s++)
        acc[s] = V(load)((V(elem) *)c + s * V(lanes));
    for (int64_t i = 0; i < k; i += V(lanes) / 2) {
        LK_UNROLL
        for (int s = 0; s < SUMS; s++) {
            VEC v[V(lanes) / 2];
            V(half_square)(v, (const V(elem) *)w + s * V(lanes) * ldw + i, ldw);
            LK_UNROLL
            for (int q = 0; q < V(lanes) / 2; q++)
                acc[s] = V(fma)(V(splat)(row + i + q), v[q], acc[s]);
        }
    }
    LK_UNROLL
    for (int s = 0; s < SUMS; s++)
        V(store)((V(elem) *)c + s * V(lanes), acc[s]);
}
