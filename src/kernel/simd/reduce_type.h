/* The functions of reduce.c for the element type of VEC; included there once per type. */

#define REDUCE_DEFINE(code, op, neutral, step, join)                                    \
    /* acc[i] = step(acc[i], x[i]) for i < n. */                                        \
    LK_INLINE void LANE(steps_##op)(V(elem) * acc, const V(elem) * x, int64_t n)        \
    {                                                                                   \
        int64_t i = 0;                                                                  \
        for (; i + V(lanes) <= n; i += V(lanes))                                        \
            V(store)(acc + i, LANE(step_##op)(V(load)(acc + i), V(load)(x + i)));       \
        if (i == n)                                                                     \
            return;                                                                     \
        V(mask) m = V(mask_first)((int)(n - i));                                        \
        VEC last = LANE(step_##op)(V(load_mask)(acc + i, m), V(load_mask)(x + i, m));   \
        V(store_first)(acc + i, last, (int)(n - i));                                    \
    }                                                                                   \
                                                                                        \
    static void LANE(rows_##op)(int64_t rows, int64_t n, const void *x, void *y)        \
    {                                                                                   \
        for (int64_t r = 0; r < rows; r++)                                              \
            ((V(elem) *)y)[r] = LANE(lane_##op)((const V(elem) *)x + r * n, n);         \
    }                                                                                   \
                                                                                        \
    static void LANE(nodes_##op)(int64_t n, void *a, const void *b)                     \
    {                                                                                   \
        LANE(steps_##join)(a, b, n);                                                    \
    }                                                                                   \
                                                                                        \
    static void LANE(begin_##op)(const lk__reduce_block *t)                             \
    {                                                                                   \
        V(elem) *lane = t->lane;                                                        \
        for (int64_t i = 0; i < LK_LANES * t->width; i++)                               \
            lane[i] = neutral;                                                          \
    }                                                                                   \
                                                                                        \
    /* Lanes of one element take x in whole rounds of 16; returns how many elements. */ \
    LK_INLINE int64_t LANE(rounds_##op)(V(elem) * lane, const V(elem) * x, int64_t n)   \
    {                                                                                   \
        enum { W = V(lanes), VECTORS = LK_LANES / V(lanes) };                           \
        int64_t i = 0;                                                                  \
        VEC acc[VECTORS];                                                               \
        LK_UNROLL for (int v = 0; v < VECTORS; v++) acc[v] = V(load)(lane + v * W);     \
        for (; i + LK_LANES <= n; i += LK_LANES)                                        \
            LK_UNROLL for (int v = 0; v < VECTORS; v++)                                 \
                acc[v] = LANE(step_##op)(acc[v], V(load)(x + i + v * W));               \
        LK_UNROLL for (int v = 0; v < VECTORS; v++) V(store)(lane + v * W, acc[v]);     \
        return i;                                                                       \
    }                                                                                   \
                                                                                        \
    static void LANE(add_##op)(const lk__reduce_block *t, int64_t first)                \
    {                                                                                   \
        const V(elem) *x = t->x;                                                        \
        V(elem) *lane = t->lane;                                                        \
        int64_t w = t->width, n = t->n * w, head = lk__min((LK_LANES - first) * w, n);  \
        if (w != t->ld) {                                                               \
            const bool far = t->ld * (int64_t)sizeof *x > PAGE;                         \
            for (int64_t j = 0; j < t->n; j++) {                                        \
                if (far && j + AHEAD < t->n)                                            \
                    lk__ask(x + (j + AHEAD) * t->ld, w * (int64_t)sizeof *x);           \
                LANE(steps_##op)(lane + (first + j) % LK_LANES * w, x + j * t->ld, w);  \
            }                                                                           \
            return;                                                                     \
        } /* otherwise rows up to the last lane are one run */                          \
        LANE(steps_##op)(lane + first * w, x, head);                                    \
        if (w == 1)                                                                     \
            head += LANE(rounds_##op)(lane, x + head, n - head);                        \
        for (int64_t i = head; i < n; i += LK_LANES * w)                                \
            LANE(steps_##op)(lane, x + i, lk__min(LK_LANES * w, n - i));                \
    }                                                                                   \
                                                                                        \
    static void LANE(end_##op)(const lk__reduce_block *t, void *y)                      \
    {                                                                                   \
        V(elem) *lane = t->lane;                                                        \
        int64_t w = t->width;                                                           \
        for (int64_t d = 1; d < LK_LANES; d *= 2)                                       \
            for (int64_t l = 0; l < LK_LANES; l += 2 * d)                               \
                LANE(steps_##join)(lane + l * w, lane + (l + d) * w, w);                \
        memcpy(y, lane, (size_t)w * sizeof *lane);                                      \
    }                                                                                   \
                                                                                        \
    static void LANE(columns_##op)(const lk__reduce_block *t, void *y)                  \
    {                                                                                   \
        LANE(begin_##op)(t);                                                            \
        LANE(add_##op)(t, 0);                                                           \
        LANE(end_##op)(t, y);                                                           \
    }

LANE_OPS(REDUCE_DEFINE)

#undef REDUCE_DEFINE
