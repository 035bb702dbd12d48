/* Pooling on vectors of one type: included once for each, with VEC defined.
 *
 * A tile is `nv` vectors of channels from `c` on; with `masked` (nv is 1) only the first `n` lanes
 * of the vector exist.
 */

#ifndef POOL_EACH
/* For each position of the box in raster order: `at` elements and `place` positions from its
 * first. */
#    define POOL_EACH(t)                                                                         \
        for (int64_t i0 = 0; i0 < (t)->n[0]; i0++)                                               \
            for (int64_t i1 = 0; i1 < (t)->n[1]; i1++)                                           \
                for (int64_t i2 = 0, at = i0 * (t)->step[0] + i1 * (t)->step[1]; i2 < (t)->n[2]; \
                     i2++, at += (t)->step[2])

enum { POOL_NV = 4 };

/* All channels: `tile`(t, c, nv, masked, n). */
#    define POOL_DEFINE(name)                                                \
        static void V(name)(const lk__pool_args *t)                          \
        {                                                                    \
            const int lanes = V(lanes);                                      \
            int64_t c = 0;                                                   \
            for (; c + POOL_NV * lanes <= t->channels; c += POOL_NV * lanes) \
                V(name##_tile)(t, c, POOL_NV, false, lanes);                 \
            for (; c + lanes <= t->channels; c += lanes)                     \
                V(name##_tile)(t, c, 1, false, lanes);                       \
            if (c < t->channels)                                             \
                V(name##_tile)(t, c, 1, true, (int)(t->channels - c));       \
        }
#endif

LK_INLINE VEC V(pool_get)(const V(elem) * p, const bool masked, int n)
{
    return masked ? V(load_mask)(p, V(mask_first)(n)) : V(load)(p);
}

LK_INLINE void V(pool_put)(V(elem) * p, VEC v, const bool masked, int n)
{
    if (masked)
        V(store_first)(p, v, n);
    else
        V(store)(p, v);
}

/* `where` holds integers in its lanes: positions from the first tap. */
LK_INLINE void V(pool_max_of)(const lk__pool_args *t, int64_t c, const int nv, const bool masked,
                              int n, const bool relu)
{
    const int lanes = V(lanes);
    const V(elem) *x = t->from, lowest = -(V(elem))INFINITY;
    VEC best[POOL_NV], where[POOL_NV];
    LK_UNROLL for (int v = 0; v < nv; v++)
    {
        best[v] = V(splat)(&lowest);
        where[v] = V(zero)();
    }
    POOL_EACH(t)
    {
        POOL_INT place = (POOL_INT)(i0 * t->place_step[0] + i1 * t->place_step[1] + i2);
        V(elem) bits;
        memcpy(&bits, &place, sizeof bits);
        LK_UNROLL for (int v = 0; v < nv; v++)
        {
            VEC tap = V(pool_get)(x + c + at + v * lanes, masked, n);
            if (relu)
                tap = V(blend)(V(mask_above)(tap, V(zero)()), V(zero)(), tap);
            V(mask) better = V(mask_above)(best[v], tap);
            best[v] = V(blend)(better, tap, best[v]);
            where[v] = V(blend)(better, V(splat)(&bits), where[v]);
        }
    }
    const bool none = t->n[0] * t->n[1] * t->n[2] == 0;
    LK_UNROLL for (int v = 0; v < nv; v++)
    {
        V(pool_put)((V(elem) *)t->to + c + v * lanes, best[v], masked, n);
        if (!t->index)
            continue;
        POOL_INT place[V(lanes)];
        V(elem) bits[V(lanes)];
        V(store)(bits, where[v]);
        memcpy(place, bits, sizeof place);
        for (int l = 0; l < n; l++)
            t->index[c + v * lanes + l] = none ? -1 : t->place + place[l];
    }
}

LK_INLINE void V(pool_max_tile)(const lk__pool_args *t, int64_t c, const int nv, const bool masked,
                                int n)
{
    V(pool_max_of)(t, c, nv, masked, n, false);
}

LK_INLINE void V(pool_max_relu_tile)(const lk__pool_args *t, int64_t c, const int nv,
                                     const bool masked, int n)
{
    V(pool_max_of)(t, c, nv, masked, n, true);
}

LK_INLINE void V(pool_avg_tile)(const lk__pool_args *t, int64_t c, const int nv, const bool masked,
                                int n)
{
    const int lanes = V(lanes);
    const V(elem) *x = t->from;
    VEC acc[POOL_NV];
    LK_UNROLL for (int v = 0; v < nv; v++) acc[v] = V(zero)();
    POOL_EACH(t)
    LK_UNROLL for (int v = 0; v < nv; v++)
        acc[v] = V(add)(acc[v], V(pool_get)(x + c + at + v * lanes, masked, n));
    int64_t taps = t->n[0] * t->n[1] * t->n[2];
    const V(elem) count = (V(elem))(t->s->divisor > 0 ? t->s->divisor : taps > 0 ? taps : 1);
    LK_UNROLL for (int v = 0; v < nv; v++)
        V(pool_put)((V(elem) *)t->to + c + v * lanes, V(div)(acc[v], V(splat)(&count)), masked, n);
}

LK_INLINE void V(pool_l2_tile)(const lk__pool_args *t, int64_t c, const int nv, const bool masked,
                               int n)
{
    const int lanes = V(lanes);
    const V(elem) *x = t->from;
    VEC acc[POOL_NV];
    LK_UNROLL for (int v = 0; v < nv; v++) acc[v] = V(zero)();
    POOL_EACH(t)
    LK_UNROLL for (int v = 0; v < nv; v++)
    {
        VEC tap = V(pool_get)(x + c + at + v * lanes, masked, n);
        acc[v] = V(fma)(tap, tap, acc[v]);
    }
    LK_UNROLL for (int v = 0; v < nv; v++)
        V(pool_put)((V(elem) *)t->to + c + v * lanes, V(sqrt)(acc[v]), masked, n);
}

LK_INLINE void V(pool_max_backward_tile)(const lk__pool_args *t, int64_t c, const int nv,
                                         const bool masked, int n)
{
    const int lanes = V(lanes);
    const V(elem) *dy = t->from;
    const int64_t *take = t->take;
    VEC acc[POOL_NV];
    LK_UNROLL for (int v = 0; v < nv; v++) acc[v] = V(zero)();
    POOL_EACH(t)
    LK_UNROLL for (int v = 0; v < nv; v++)
    {
        int64_t first[V(lanes)] = {0}; /* lanes behind n are not stored */
        if (masked)
            memcpy(first, take + c + at, (size_t)n * sizeof first[0]);
        V(mask) here = V(mask_equal)(masked ? first : take + c + at + v * lanes, t->place);
        VEC more = V(add)(acc[v], V(pool_get)(dy + c + at + v * lanes, masked, n));
        acc[v] = V(blend)(here, more, acc[v]);
    }
    LK_UNROLL for (int v = 0; v < nv; v++)
        V(pool_put)((V(elem) *)t->to + c + v * lanes, acc[v], masked, n);
}

/* From one window to all its positions, where no other window covers them. */
LK_INLINE void V(pool_max_spread_tile)(const lk__pool_args *t, int64_t c, const int nv,
                                       const bool masked, int n)
{
    const int lanes = V(lanes);
    const V(elem) *dy = t->x;
    V(elem) *dx = t->box;
    VEC g[POOL_NV];
    int64_t first[V(lanes)] = {0}; /* lanes behind n are not stored */
    if (masked)
        memcpy(first, t->chosen + c, (size_t)n * sizeof first[0]);
    LK_UNROLL for (int v = 0; v < nv; v++)
        g[v] = V(add)(V(zero)(), V(pool_get)(dy + c + v * lanes, masked, n));
    POOL_EACH(t)
    {
        int64_t place = t->place + i0 * t->place_step[0] + i1 * t->place_step[1] + i2;
        LK_UNROLL for (int v = 0; v < nv; v++)
        {
            V(mask) here = V(mask_equal)(masked ? first : t->chosen + c + v * lanes, place);
            V(pool_put)(dx + c + at + v * lanes, V(blend)(here, g[v], V(zero)()), masked, n);
        }
    }
}

LK_INLINE void V(pool_avg_backward_tile)(const lk__pool_args *t, int64_t c, const int nv,
                                         const bool masked, int n)
{
    const int lanes = V(lanes);
    const V(elem) *dy = t->from;
    VEC acc[POOL_NV];
    LK_UNROLL for (int v = 0; v < nv; v++) acc[v] = V(zero)();
    POOL_EACH(t)
    {
        int64_t unused, taps = t->s->divisor;
        if (taps == 0)
            taps = lk__pool_taps(t->s, 0, t->first[0] + i0, &unused) *
                   lk__pool_taps(t->s, 1, t->first[1] + i1, &unused) *
                   lk__pool_taps(t->s, 2, t->first[2] + i2, &unused);
        const V(elem) count = (V(elem))taps;
        LK_UNROLL for (int v = 0; v < nv; v++) acc[v] = V(add)(
            acc[v], V(div)(V(pool_get)(dy + c + at + v * lanes, masked, n), V(splat)(&count)));
    }
    LK_UNROLL for (int v = 0; v < nv; v++)
        V(pool_put)((V(elem) *)t->to + c + v * lanes, acc[v], masked, n);
}

/* A window whose y is 0 is skipped: what the division by it gives is dropped. */
LK_INLINE void V(pool_l2_backward_tile)(const lk__pool_args *t, int64_t c, const int nv,
                                        const bool masked, int n)
{
    const int lanes = V(lanes);
    const V(elem) *dy = t->from, *y = t->y;
    const V(elem) *x = (const V(elem) *)t->x + c;
    VEC acc[POOL_NV], here[POOL_NV];
    LK_UNROLL for (int v = 0; v < nv; v++)
    {
        acc[v] = V(zero)();
        here[v] = V(pool_get)(x + v * lanes, masked, n);
    }
    POOL_EACH(t)
    LK_UNROLL for (int v = 0; v < nv; v++)
    {
        VEC norm = V(pool_get)(y + c + at + v * lanes, masked, n);
        V(mask) some = V(mask_above)(V(zero)(), norm);
        VEC part = V(div)(here[v], norm);
        VEC more = V(fma)(V(pool_get)(dy + c + at + v * lanes, masked, n), part, acc[v]);
        acc[v] = V(blend)(some, more, acc[v]);
    }
    LK_UNROLL for (int v = 0; v < nv; v++)
        V(pool_put)((V(elem) *)t->to + c + v * lanes, acc[v], masked, n);
}

POOL_DEFINE(pool_max)
POOL_DEFINE(pool_max_relu)
POOL_DEFINE(pool_avg)
POOL_DEFINE(pool_l2)
POOL_DEFINE(pool_max_backward)
POOL_DEFINE(pool_max_spread)
POOL_DEFINE(pool_avg_backward)
POOL_DEFINE(pool_l2_backward)
