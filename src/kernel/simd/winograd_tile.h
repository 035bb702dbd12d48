/* The transforms of winograd.h on vectors of one type: included once for each, with VEC defined. */

/* The factors, in memory: a copy on the stack would be made for each use. */
static const V(elem) V(wino_factors)[] = {[WINO_2] = 2,
                                          [WINO_MINUS_2] = -2,
                                          [WINO_4] = 4,
                                          [WINO_MINUS_4] = -4,
                                          [WINO_MINUS_5] = -5,
                                          [WINO_8] = 8,
                                          [WINO_QUARTER] = (V(elem))(1.0 / 4),
                                          [WINO_MINUS_6TH] = (V(elem))(-1.0 / 6),
                                          [WINO_24TH] = (V(elem))(1.0 / 24)};

LK_INLINE VEC V(wino_fma)(const enum wino_factor f, VEC a, VEC b)
{
    return V(fma)(V(splat)(&V(wino_factors)[f]), a, b);
}

LK_INLINE VEC V(wino_mul)(const enum wino_factor f, VEC a)
{
    return V(mul)(V(splat)(&V(wino_factors)[f]), a);
}

LK_INLINE VEC V(wino_minus)(VEC a, VEC b)
{
    return a - b;
}

/* v[0], v[by], ... from d[0], ... d[5]. */
LK_INLINE void V(wino_input_axis)(const VEC d[6], VEC *v, const int by)
{
    const VEC p = V(wino_fma)(WINO_MINUS_4, d[2], d[4]), q = V(wino_fma)(WINO_MINUS_4, d[1], d[3]);
    const VEC r = V(wino_minus)(d[4], d[2]), s = V(wino_minus)(d[3], d[1]);
    v[0] = V(wino_fma)(WINO_4, d[0], V(wino_fma)(WINO_MINUS_5, d[2], d[4]));
    v[by] = V(add)(p, q);
    v[2 * by] = V(wino_minus)(p, q);
    v[3 * by] = V(wino_fma)(WINO_2, s, r);
    v[4 * by] = V(wino_fma)(WINO_MINUS_2, s, r);
    v[5 * by] = V(wino_fma)(WINO_4, d[1], V(wino_fma)(WINO_MINUS_5, d[3], d[5]));
}

/* u[0], u[by], ... from g[0], g[1], g[2]. */
LK_INLINE void V(wino_weights_axis)(const VEC g[3], VEC *u, const int by)
{
    const VEC a = V(add)(g[0], g[2]), b = V(wino_fma)(WINO_4, g[2], g[0]);
    u[0] = V(wino_mul)(WINO_QUARTER, g[0]);
    u[by] = V(wino_mul)(WINO_MINUS_6TH, V(add)(a, g[1]));
    u[2 * by] = V(wino_mul)(WINO_MINUS_6TH, V(wino_minus)(a, g[1]));
    u[3 * by] = V(wino_mul)(WINO_24TH, V(wino_fma)(WINO_2, g[1], b));
    u[4 * by] = V(wino_mul)(WINO_24TH, V(wino_fma)(WINO_MINUS_2, g[1], b));
    u[5 * by] = g[2];
}

/* y[0], y[by], ... from m[0], ... m[5]. */
LK_INLINE void V(wino_output_axis)(const VEC m[6], VEC *y, const int by)
{
    const VEC a = V(add)(m[1], m[2]), b = V(wino_minus)(m[1], m[2]);
    const VEC c = V(add)(m[3], m[4]), d = V(wino_minus)(m[3], m[4]);
    y[0] = V(add)(V(add)(m[0], a), c);
    y[by] = V(wino_fma)(WINO_2, d, b);
    y[2 * by] = V(wino_fma)(WINO_4, c, a);
    y[3 * by] = V(add)(V(wino_fma)(WINO_8, d, b), m[5]);
}

/* Channels j ... j + lanes - 1, of which with `masked` only the first `left` exist. */
LK_INLINE void V(wino_input_at)(const lk__wino_input *t, int64_t j, const bool masked, int left)
{
    const V(mask) some = V(mask_first)(left);
    V(elem) *to = (V(elem) *)t->v + j;
    VEC half[LK_WINO_PARTS], d[6], v[6];
    LK_UNROLL
    for (int c = 0; c < 6; c++) {
        LK_UNROLL
        for (int r = 0; r < 6; r++) {
            const V(elem) *from = (const V(elem) *)t->at[6 * r + c] + j;
            d[r] = masked ? V(load_mask)(from, some) : V(load)(from);
        }
        V(wino_input_axis)(d, half + c, 6);
    }
    for (int i = 0; i < 6; i++) {
        V(wino_input_axis)(half + 6 * i, v, 1);
        LK_UNROLL
        for (int c = 0; c < 6; c++)
            V(store)(to + (6 * i + c) * t->step, v[c]);
    }
}

static void V(wino_input)(const lk__wino_input *t)
{
    const int lanes = V(lanes);
    int64_t j = 0;
    for (; j + lanes <= t->n; j += lanes)
        V(wino_input_at)(t, j, false, lanes);
    if (j < t->n)
        V(wino_input_at)(t, j, true, (int)(t->n - j));
}

static void V(wino_weights)(const lk__wino_weights *t)
{
    const int lanes = V(lanes);
    for (int64_t k = 0; k < t->n_k; k++)
        for (int j = 0; j < t->width; j += lanes) {
            const V(mask) valid = V(mask_first)(t->n_valid - j);
            V(elem) *to = (V(elem) *)t->u + k * t->width + j;
            VEC half[18], g[3], u[6];
            LK_UNROLL
            for (int c = 0; c < 3; c++) {
                LK_UNROLL
                for (int r = 0; r < 3; r++)
                    g[r] = V(load_mask)((const V(elem) *)t->tap[3 * r + c] + k * t->ld + j, valid);
                V(wino_weights_axis)(g, half + c, 3);
            }
            for (int i = 0; i < 6; i++) {
                V(wino_weights_axis)(half + 3 * i, u, 1);
                LK_UNROLL
                for (int c = 0; c < 6; c++)
                    V(store_first)(to + (6 * i + c) * t->step, u[c], t->width - j);
            }
        }
}

/* Channels j ... j + lanes - 1, of which with `masked` only the first `left` exist. */
LK_INLINE void V(wino_output_at)(const lk__wino_output *t, int64_t j, const bool masked, int left)
{
    const V(mask) some = V(mask_first)(left);
    const V(elem) *from = (const V(elem) *)t->m + j;
    VEC half[24], m[6], y[4], bias = V(zero)();
    if (t->start == LK_START_BIAS)
        bias = V(load_mask)((const V(elem) *)t->bias + j, some);
    LK_UNROLL
    for (int c = 0; c < 6; c++) {
        LK_UNROLL
        for (int i = 0; i < 6; i++)
            m[i] = masked ? V(load_mask)(from + (6 * i + c) * t->step, some)
                          : V(load)(from + (6 * i + c) * t->step);
        V(wino_output_axis)(m, half + c, 6);
    }
    for (int r = 0; r < t->rows; r++) {
        V(elem) *c = (V(elem) *)t->c + r * t->c_row + j;
        V(wino_output_axis)(half + 6 * r, y, 1);
        LK_UNROLL
        for (int s = 0; s < 4; s++, c += t->c_col) {
            if (s >= t->cols)
                break;
            if (t->start == LK_START_BIAS)
                y[s] = V(add)(y[s], bias);
            else if (t->start == LK_START_C)
                y[s] = V(add)(y[s], masked ? V(load_mask)(c, some) : V(load)(c));
            if (masked)
                V(store_first)(c, y[s], left);
            else
                V(store)(c, y[s]);
        }
    }
}

static void V(wino_output)(const lk__wino_output *t)
{
    const int lanes = V(lanes);
    int64_t j = 0;
    for (; j + lanes <= t->n; j += lanes)
        V(wino_output_at)(t, j, false, lanes);
    if (j < t->n)
        V(wino_output_at)(t, j, true, (int)(t->n - j));
}
