/* Panels of a transposed matrix, and its product with one row: included once for each vector type, with VEC defined. */

/* `lanes` columns of a panel from as many rows of the source, by halves of squares; n_k is at least
 * a half.  The last half overlaps the one before. */
LK_INLINE void V(transpose_columns)(V(elem) * d, const V(elem) * s, int64_t ld, int64_t n_k,
                                    const int64_t width)
{
    enum { HALF = V(lanes) / 2 };
    for (int64_t k = 0; k < n_k; k += HALF) {
        const int64_t at = k + HALF <= n_k ? k : n_k - HALF;
        VEC v[HALF];
        V(half_square)(v, s + at, ld);
        LK_UNROLL
        for (int q = 0; q < HALF; q++)
            V(store)(d + (at + q) * width, v[q]);
    }
}

/* The part of a square where the source ends, by way of a square of zeros. */
static void V(transpose_edge)(V(elem) * dst, const V(elem) * src, int64_t ld, int n_k, int n_j,
                              int width)
{
    const int lanes = V(lanes);
    V(elem) from[V(lanes)][V(lanes)], to[V(lanes)][V(lanes)];
    const V(mask) tail = V(mask_first)(n_k);
    for (int j = 0; j < lanes; j++)
        V(store)(from[j], j < n_j ? V(load_mask)(src + j * ld, tail) : V(zero)());
    V(transpose_columns)(to[0], from[0], V(lanes), V(lanes), V(lanes));
    for (int k = 0; k < n_k && k < lanes; k++)
        V(store)(dst + k * width, V(load)(to[k]));
}

/* Any panel: apart from the fast ones, which would have to save its registers. */
__attribute__((noinline)) static void V(transpose_any)(V(elem) * dst, const V(elem) * src,
                                                       int64_t ld, int64_t n_k, int n_valid,
                                                       int width)
{
    const int lanes = V(lanes);
    for (int j = 0; j < width; j += lanes) {
        const V(elem) *s = src + j * ld;
        V(elem) *d = dst + j;
        if (n_valid - j >= lanes && n_k >= lanes / 2) {
            V(transpose_columns)(d, s, ld, n_k, width);
            continue;
        }
        for (int64_t k = 0; k < n_k; k += lanes) {
            const int left = n_k - k < lanes ? (int)(n_k - k) : lanes;
            V(transpose_edge)(d + k * width, s + k, ld, left, n_valid - j, width);
        }
    }
}

/* See lk__transpose_fn; the widths are multiples of V_lanes.  Full panels are fast. */
static void V(transpose_panel)(void *dst, const void *src, int64_t ld, int64_t n_k, int n_valid,
                               int width)
{
    enum { LANES = V(lanes) };
    if (width != 2 * LANES || n_valid < width || n_k < LANES / 2) {
        V(transpose_any)(dst, src, ld, n_k, n_valid, width);
        return;
    }
    V(transpose_columns)(dst, src, ld, n_k, 2 * LANES);
    V(transpose_columns)
    ((V(elem) *)dst + LANES, (const V(elem) *)src + LANES * ld, ld, n_k, 2 * LANES);
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
