/* Depthwise convolution on vectors of one type: included once for each, with VEC defined.
 *
 * A tile is mr positions times nv vectors of channels; the positions share the loads of W.
 */

/* Positions m ... m + mr - 1, channels j ... j + nv * lanes - 1, of which with `masked` (nv is 1)
 * only the first `n` exist. */
LK_INLINE void V(depthwise_tile)(const lk__depthwise_args *t, int64_t m, int64_t j, const int mr,
                                 const int nv, const bool masked, int n)
{
    const int lanes = V(lanes);
    const V(mask) some = V(mask_first)(n);
    const V(elem) *w = (const V(elem) *)t->w + j,
                  *bias = (const V(elem) *)t->bias + (t->bias ? j : 0);
    const V(elem) * a[4];
    V(elem) * c[4];
    VEC acc[4][2];
    LK_UNROLL for (int i = 0; i < mr; i++)
    {
        a[i] = (const V(elem) *)t->a + t->a_off[m + i] + j;
        c[i] = (V(elem) *)t->c + t->c_off[m + i] + j;
        const V(elem) *from = t->start == LK_START_BIAS ? bias : c[i];
        LK_UNROLL for (int v = 0; v < nv; v++)
            acc[i][v] = t->start == LK_START_ZERO ? V(zero)()
                        : masked                  ? V(load_mask)(from + v * lanes, some)
                                                  : V(load)(from + v * lanes);
    }
    for (int64_t k = 0; k < t->n_taps; k++) {
        const int64_t at = t->tap[k].a;
        const V(elem) *from = w + t->tap[k].w;
        VEC wv[2];
        LK_UNROLL for (int v = 0; v < nv; v++) wv[v] = masked ? V(load_mask)(from, some)
                                                              : V(load)(from + v * lanes);
        LK_UNROLL for (int i = 0; i < mr; i++) LK_UNROLL for (int v = 0; v < nv; v++) acc[i][v] = V(
            fma)(masked ? V(load_mask)(a[i] + at, some) : V(load)(a[i] + at + v * lanes), wv[v],
                 acc[i][v]);
    }
    LK_UNROLL for (int i = 0; i < mr; i++)
    {
        LK_UNROLL for (int v = 0; v < nv; v++)
        {
            if (masked)
                V(store_first)(c[i], acc[i][v], n);
            else
                V(store)(c[i] + v * lanes, acc[i][v]);
        }
    }
}

/* All channels of mr positions. */
LK_INLINE void V(depthwise_channels)(const lk__depthwise_args *t, int64_t m, const int mr)
{
    const int lanes = V(lanes);
    int64_t j = 0;
    for (; j + 2 * lanes <= t->n_channels; j += 2 * lanes)
        V(depthwise_tile)(t, m, j, mr, 2, false, lanes);
    for (; j + lanes <= t->n_channels; j += lanes)
        V(depthwise_tile)(t, m, j, mr, 1, false, lanes);
    if (j < t->n_channels)
        V(depthwise_tile)(t, m, j, mr, 1, true, (int)(t->n_channels - j));
}

static void V(depthwise)(const lk__depthwise_args *t)
{
    int64_t m = 0;
    for (; m + 4 <= t->n_positions; m += 4)
        V(depthwise_channels)(t, m, 4);
    for (; m < t->n_positions; m++)
        V(depthwise_channels)(t, m, 1);
}
