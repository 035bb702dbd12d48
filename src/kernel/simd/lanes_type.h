/* The functions of lanes.h for the element type of VEC; included there once per type. */

#define LANE_JOIN(op, expression)                           \
    LK_INLINE V(elem) LANE(join_##op)(V(elem) a, V(elem) b) \
    {                                                       \
        return expression;                                  \
    }

#define LANE_REDUCE(code, op, neutral, step, join)                                  \
    LK_INLINE VEC LANE(step_##op)(VEC acc, VEC x)                                   \
    {                                                                               \
        return step;                                                                \
    }                                                                               \
                                                                                    \
    static inline V(elem) LANE(lane_##op)(const V(elem) * p, int64_t n)             \
    {                                                                               \
        enum { W = V(lanes), VECTORS = LK_LANES / V(lanes) };                       \
        const V(elem) start = neutral;                                              \
        VEC acc[VECTORS];                                                           \
        LK_UNROLL for (int v = 0; v < VECTORS; v++) acc[v] = V(splat)(&start);      \
        for (; n >= LK_LANES; n -= LK_LANES, p += LK_LANES)                         \
            LK_UNROLL for (int v = 0; v < VECTORS; v++)                             \
                acc[v] = LANE(step_##op)(acc[v], V(load)(p + v * W));               \
        if (n > 0)                                                                  \
            LK_UNROLL for (int v = 0; v < VECTORS; v++)                             \
            {                                                                       \
                V(mask) m = V(mask_first)((int)n - v * W);                          \
                VEC next = LANE(step_##op)(acc[v], V(load_mask)(p + v * W, m));     \
                acc[v] = V(blend)(m, next, acc[v]);                                 \
            }                                                                       \
        V(elem) lane[LK_LANES];                                                     \
        LK_UNROLL for (int v = 0; v < VECTORS; v++) V(store)(lane + v * W, acc[v]); \
        LK_UNROLL for (int half = LK_LANES / 2; half > 0; half /= 2)                \
            LK_UNROLL for (int l = 0; l < half; l++)                                \
                lane[l] = LANE(join_##join)(lane[2 * l], lane[2 * l + 1]);          \
        return lane[0];                                                             \
    }

LANE_JOINS(LANE_JOIN)
LANE_OPS(LANE_REDUCE)

#undef LANE_JOIN
#undef LANE_REDUCE
