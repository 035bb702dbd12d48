/* The functions of reduce.c for the element type of VEC; included there once per type. */

#define REDUCE_DEFINE(code, op, neutral, step, join)                                  \
    /* acc[i] = step(acc[i], x[i]) for i < n. */                                      \
    LK_INLINE void LANE(steps_##op)(V(elem) * acc, const V(elem) * x, int64_t n)      \
    {                                                                                 \
        int64_t i = 0;                                                                \
        for (; i + V(lanes) <= n; i += V(lanes))                                      \
            V(store)(acc + i, LANE(step_##op)(V(load)(acc + i), V(load)(x + i)));     \
        if (i == n)                                                                   \
            return;                                                                   \
        V(mask) m = V(mask_first)((int)(n - i));                                      \
        VEC last = LANE(step_##op)(V(load_mask)(acc + i, m), V(load_mask)(x + i, m)); \
        V(store_first)(acc + i, last, (int)(n - i));                                  \
    }                                                                                 \
                                                                                      \
    static void LANE(rows_##op)(int64_t rows, int64_t n, const void *x, void *y)      \
    {                                                                                 \
        for (int64_t r = 0; r < rows; r++)                                            \
            ((V(elem) *)y)[r] = LANE(lane_##op)((const V(elem) *)x + r * n, n);       \
    }                                                                                 \
                                                                                      \
    static void LANE(nodes_##op)(int64_t n, void *a, const void *b)                   \
    {                                                                                 \
        LANE(steps_##join)(a, b, n);                                                  \
    }                                                                                 \
                                                                                      \
    static void LANE(columns_##op)(const lk__reduce_block *t, void *y)                \
    {                                                                                 \
        const V(elem) *x = t->x;                                                      \
        V(elem) *lane = t->lane;                                                      \
        int64_t w = t->width;                                                         \
        for (int64_t i = 0; i < LK_LANES * w; i++)                                    \
            lane[i] = neutral;                                                        \
        if (w == t->ld) /* sixteen rows are one run */                                \
            for (int64_t i = 0; i < t->n * w; i += LK_LANES * w)                      \
                LANE(steps_##op)(lane, x + i, smaller(LK_LANES * w, t->n * w - i));   \
        else                                                                          \
            for (int64_t j = 0; j < t->n; j++)                                        \
                LANE(steps_##op)(lane + j % LK_LANES * w, x + j * t->ld, w);          \
        for (int64_t d = 1; d < LK_LANES; d *= 2)                                     \
            for (int64_t l = 0; l < LK_LANES; l += 2 * d)                             \
                LANE(steps_##join)(lane + l * w, lane + (l + d) * w, w);              \
        memcpy(y, lane, (size_t)w * sizeof *lane);                                    \
    }

LANE_OPS(REDUCE_DEFINE)

#undef REDUCE_DEFINE
