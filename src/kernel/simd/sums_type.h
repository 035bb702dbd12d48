/* The functions of sums.c for the element type of VEC; included there once per type. */

/* Vectors of one row: elements of the inputs, and its numbers in all lanes. */
typedef struct LANE(row) {
    const V(elem) * x[LK_SUMS_MAX_IN];
    VEC p[LK_SUMS_MAX_P];
} LANE(row);

LK_INLINE LANE(row) LANE(row_of)(const lk__sheet *t, int64_t r)
{
    LANE(row) row;
    LK_UNROLL for (int k = 0; k < LK_SUMS_MAX_IN; k++)
        row.x[k] = (const V(elem) *)t->x[k] + r * t->step[k];
    LK_UNROLL for (int k = 0; k < LK_SUMS_MAX_P; k++)
        row.p[k] = V(splat)((const V(elem) *)&t->p[k] + r);
    return row;
}

/* x < 0 ? 0 : x. */
LK_INLINE VEC LANE(relu)(VEC x)
{
    return V(blend)(V(mask_above)(x, V(zero)()), V(zero)(), x);
}

/* x where y > 0, elsewhere 0. */
LK_INLINE VEC LANE(above)(VEC y, VEC x)
{
    return V(blend)(V(mask_above)(-y, V(zero)()), x, V(zero)());
}

/* A term of V_lanes elements from number i on, or of the first `rest` of them. */
LK_INLINE VEC LANE(term)(const int term, const LANE(row) * row, int64_t i, const bool all, int rest)
{
    VEC x[LK_SUMS_MAX_IN];
    LK_UNROLL for (int k = 0; k < LK_SUMS_MAX_IN; k++)
        x[k] = all ? V(load)(row->x[k] + i) : V(load_mask)(row->x[k] + i, V(mask_first)(rest));
    const VEC a = x[0], b = x[1], c = x[2], d = x[3], e = x[4], f = x[5], g = x[6];
    const VEC p = row->p[0], q = row->p[1], u = row->p[2], v = row->p[3];
    (void)a, (void)b, (void)c, (void)d, (void)e, (void)f, (void)g, (void)p, (void)q, (void)u,
        (void)v;
#define ROOT(x) V(sqrt)(x)
    switch (term) {
#define RELU(x) LANE(relu)(x)
#define ABOVE(y, x) LANE(above)(y, x)
#define X(code, expression) \
    case LK__TERM_##code: return expression;
        LK__TERMS(X)
#undef X
#undef ABOVE
#undef RELU
    default: return V(zero)();
    }
#undef ROOT
}

/* ---- along rows ---- */

/* to[i] = from[2 i] + from[2 i + 1] for i < n. */
LK_INLINE void LANE(pairs)(const int n, const V(elem) *restrict from, V(elem) *restrict to)
{
    for (int i = 0; i < n; i++)
        to[i] = from[2 * i] + from[2 * i + 1];
}

/* The fixed tree over the lanes of `group` rows. */
LK_INLINE void LANE(lanes_join)(const int group, const V(elem) * lane, V(elem) * p)
{
    V(elem) half[4 * 8], quarter[4 * 4], pair[4 * 2];
    LANE(pairs)(group * 8, lane, half);
    LANE(pairs)(group * 4, half, quarter);
    LANE(pairs)(group * 2, quarter, pair);
    LANE(pairs)(group, pair, p);
}

/* Both terms of `group` rows from number r on. */
LK_INLINE void LANE(along_group)(const int first, const int second, const int group,
                                 const lk__sheet *t, int64_t r, V(elem) * p0, V(elem) * p1)
{
    enum { W = V(lanes), VECTORS = LK_LANES / V(lanes), MOST = 4 };
    const int64_t n = t->n;
    LANE(row) row[MOST];
    VEC acc0[MOST][VECTORS], acc1[MOST][VECTORS];
    LK_UNROLL for (int g = 0; g < group; g++)
    {
        row[g] = LANE(row_of)(t, r + g);
        LK_UNROLL for (int v = 0; v < VECTORS; v++) acc0[g][v] = acc1[g][v] = V(zero)();
    }
    int64_t i = 0;
    for (; i + LK_LANES <= n; i += LK_LANES)
        LK_UNROLL for (int g = 0; g < group; g++) LK_UNROLL for (int v = 0; v < VECTORS; v++)
        {
            acc0[g][v] = V(add)(acc0[g][v], LANE(term)(first, &row[g], i + v * W, true, 0));
            if (second)
                acc1[g][v] = V(add)(acc1[g][v], LANE(term)(second, &row[g], i + v * W, true, 0));
        }
    V(elem) lane0[MOST * LK_LANES], lane1[MOST * LK_LANES];
    LK_UNROLL for (int g = 0; g < group; g++) LK_UNROLL for (int v = 0; v < VECTORS; v++)
    {
        const int rest = (int)(n - i) - v * W;
        if (rest > 0) {
            const V(mask) m = V(mask_first)(rest);
            VEC next = V(add)(acc0[g][v], LANE(term)(first, &row[g], i + v * W, false, rest));
            acc0[g][v] = V(blend)(m, next, acc0[g][v]);
            if (second) {
                next = V(add)(acc1[g][v], LANE(term)(second, &row[g], i + v * W, false, rest));
                acc1[g][v] = V(blend)(m, next, acc1[g][v]);
            }
        }
        V(store)(lane0 + g * LK_LANES + v * W, acc0[g][v]);
        if (second)
            V(store)(lane1 + g * LK_LANES + v * W, acc1[g][v]);
    }
    LANE(lanes_join)(group, lane0, p0 + r);
    if (second)
        LANE(lanes_join)(group, lane1, p1 + r);
}

LK_INLINE void LANE(along)(const int first, const int second, const lk__sheet *t, V(elem) * p0,
                           V(elem) * p1)
{
    enum { VECTORS = LK_LANES / V(lanes), GROUP = VECTORS < 4 ? 4 / VECTORS : 1 };
    int64_t r = t->first;
    for (; r + GROUP <= t->last; r += GROUP)
        LANE(along_group)(first, second, GROUP, t, r, p0, p1);
    for (; r < t->last; r++)
        LANE(along_group)(first, second, 1, t, r, p0, p1);
}

#define ALONG_DEFINE(code, first, second)                                  \
    static void LANE(along_##code)(const lk__sheet *t, void *p0, void *p1) \
    {                                                                      \
        LANE(along)(LK__TERM_##first, LK__TERM_##second, t, p0, p1);       \
    }
LK__SUMS_ALONG(ALONG_DEFINE)
#undef ALONG_DEFINE

/* ---- down columns ---- */

/* lane[0][i] = (lane[0][i] + `first` of the first row) + ..., for V_lanes elements or the first `rest`, and the
 * same of `second`, if it is a term, in lane[1]. */
LK_INLINE void LANE(down_vector)(const int first, const int second, const int group,
                                 const LANE(row) * row, V(elem) *const lane[2], int64_t i,
                                 const bool all, int rest)
{
    const V(mask) some = V(mask_first)(rest);
    VEC acc0 = all ? V(load)(lane[0] + i) : V(load_mask)(lane[0] + i, some), acc1 = acc0;
    if (second)
        acc1 = all ? V(load)(lane[1] + i) : V(load_mask)(lane[1] + i, some);
    LK_UNROLL for (int g = 0; g < group; g++)
    {
        acc0 = V(add)(acc0, LANE(term)(first, &row[g], i, all, rest));
        if (second)
            acc1 = V(add)(acc1, LANE(term)(second, &row[g], i, all, rest));
    }
    V(store_first)(lane[0] + i, acc0, all ? V(lanes) : rest);
    if (second)
        V(store_first)(lane[1] + i, acc1, all ? V(lanes) : rest);
}

/* `group` rows of lane l, from row r on.  `shared`: inputs from number ROWS_IN on are the same for all rows, and
 * one pointer to each is enough. */
LK_INLINE void LANE(down_group)(const int first, const int second, const int group,
                                const bool shared, const lk__sheet *t, int64_t l, int64_t r)
{
    enum { MOST = 4 };
    LANE(row) row[MOST];
    LK_UNROLL for (int g = 0; g < group; g++)
    {
        row[g] = LANE(row_of)(t, r + g * t->lanes);
        LK_UNROLL for (int k = ROWS_IN; shared && k < LK_SUMS_MAX_IN; k++) row[g].x[k] = row[0]
                                                                                             .x[k];
    }
    const int64_t n = t->n;
    V(elem) *const lane[] = {(V(elem) *)t->lane[0] + l * n,
                             second ? (V(elem) *)t->lane[1] + l * n : NULL};
    int64_t i = 0;
    for (; i + V(lanes) <= n; i += V(lanes))
        LANE(down_vector)(first, second, group, row, lane, i, true, 0);
    if (i < n)
        LANE(down_vector)(first, second, group, row, lane, i, false, (int)(n - i));
}

LK_INLINE void LANE(down)(const int first, const int second, const lk__sheet *t)
{
    enum { GROUP = 4 };
    bool shared = true;
    for (int k = ROWS_IN; k < LK_SUMS_MAX_IN; k++)
        shared = shared && t->step[k] == 0;
    for (int64_t l = t->lane_first; l < t->lane_last; l++) {
        int64_t r = l;
        for (; r + (GROUP - 1) * t->lanes < t->rows; r += GROUP * t->lanes)
            if (shared)
                LANE(down_group)(first, second, GROUP, true, t, l, r);
            else
                LANE(down_group)(first, second, GROUP, false, t, l, r);
        for (; r < t->rows; r += t->lanes)
            LANE(down_group)(first, second, 1, false, t, l, r);
    }
}

#define DOWN_DEFINE(code, first, second)                    \
    static void LANE(down_##code)(const lk__sheet *t)       \
    {                                                       \
        LANE(down)(LK__TERM_##first, LK__TERM_##second, t); \
    }
LK__SUMS_DOWN(DOWN_DEFINE)
#undef DOWN_DEFINE

/* a[i] = a[i] + b[i]. */
static void LANE(join)(int64_t n, void *a, const void *b)
{
    V(elem) *restrict to = a;
    const V(elem) *restrict from = b;
    for (int64_t i = 0; i < n; i++)
        to[i] = to[i] + from[i];
}

/* ---- maps ---- */

/* Adding -0 keeps every number, +0 all but -0. */
LK_INLINE void LANE(map)(const int term, const lk__sheet *t)
{
    const V(elem) start = t->overwrite ? (V(elem))0 : -(V(elem))0;
    const VEC zero = V(splat)(&start);
    const int64_t n = t->n;
    enum { LINE = LK_LINE / sizeof(V(elem)) };
    for (int64_t r = t->first; r < t->last; r++) {
        const LANE(row) row = LANE(row_of)(t, r);
        V(elem) *y = (V(elem) *)t->y + r * t->step_y;
        int64_t i = 0;
        if (t->past && (uintptr_t)y % LK_LINE == 0)
            for (; i + LINE <= n; i += LINE) {
                _Alignas(LK_LINE) V(elem) line[LINE];
                LK_UNROLL for (int l = 0; l < LINE; l += V(lanes))
                    V(store)(line + l, V(add)(LANE(term)(term, &row, i + l, true, 0), zero));
                line_past((char *)(y + i), (const char *)line);
            }
        for (; i + V(lanes) <= n; i += V(lanes))
            V(store)(y + i, V(add)(LANE(term)(term, &row, i, true, 0), zero));
        const int rest = (int)(n - i);
        if (rest > 0)
            V(store_first)(y + i, V(add)(LANE(term)(term, &row, i, false, rest), zero), rest);
    }
    if (t->past)
        past_end();
}

#define MAP_DEFINE(code, expression)                 \
    static void LANE(map_##code)(const lk__sheet *t) \
    {                                                \
        LANE(map)(LK__TERM_##code, t);               \
    }
LK__TERMS(MAP_DEFINE)
#undef MAP_DEFINE

/* ---- numbers of rows ---- */

static void LANE(mean)(const lk__sheet *t, double eps, void *numbers)
{
    const V(elem) count = (V(elem))t->n;
    V(elem) *p = numbers;
    (void)eps;
    for (int64_t r = t->first; r < t->last; r++)
        p[r] = p[r] / count;
}

static void LANE(inverse)(const lk__sheet *t, double eps, void *numbers)
{
    const V(elem) count = (V(elem))t->n, more = (V(elem))eps;
    V(elem) *p = numbers;
    for (int64_t r = t->first; r < t->last; r++)
        p[r] = 1 / SQRT(p[r] / count + more);
}
