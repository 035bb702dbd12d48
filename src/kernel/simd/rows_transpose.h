/* Panels of a transposed matrix: included once for each vector type, with VEC defined. */

/* The part of a square where the source ends, by way of a square of zeros. */
LK_INLINE void V(transpose_edge)(V(elem) * dst, const V(elem) * src, int64_t ld, int n_k, int n_j,
                                 int width)
{
    const int lanes = V(lanes);
    V(elem) from[V(lanes)][V(lanes)], to[V(lanes)][V(lanes)];
    const V(mask) tail = V(mask_first)(n_k);
    for (int j = 0; j < lanes; j++)
        V(store)(from[j], j < n_j ? V(load_mask)(src + j * ld, tail) : V(zero)());
    V(transpose)(to[0], lanes, from[0], lanes);
    for (int k = 0; k < n_k && k < lanes; k++)
        V(store)(dst + k * width, V(load)(to[k]));
}

/* `lanes` columns of a panel: the squares of V_lanes rows of the source, all of them there. */
LK_INLINE void V(transpose_columns)(V(elem) * d, const V(elem) * s, int64_t ld, int64_t n_k,
                                    const int64_t width)
{
    const int lanes = V(lanes);
    int64_t k = 0;
    for (; k + lanes <= n_k; k += lanes)
        V(transpose)(d + k * width, width, s + k, ld);
    if (k < n_k) /* the last square overlaps the one before */
        V(transpose)(d + (n_k - lanes) * width, width, s + n_k - lanes, ld);
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
