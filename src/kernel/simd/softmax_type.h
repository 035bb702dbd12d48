/* The functions of softmax.c for the element type of VEC; included there once per type.
 * MATH(exp_below) is the function of simd/math/f32.h or math_f64.h. */

/* e[l] = exp(x[l] - max), and lane[l] += e[l], for 16 elements; e may be x. */
LK_INLINE void MATH(exp_block)(const V(elem) * x, V(elem) max, V(elem) * e, V(elem) * lane)
{
    LK_INDEPENDENT_SHORT
    for (int l = 0; l < LK_LANES; l++) {
        e[l] = MATH(exp_below)(x[l] - max);
        lane[l] += e[l];
    }
}

/* The sum of exp(x[i] - max), each of which goes to e[i] if `keep`. */
LK_INLINE V(elem) MATH(exp_sum)(int64_t n, const V(elem) * x, V(elem) max, V(elem) * e, bool keep)
{
    enum { W = V(lanes) };
    const V(elem) nothing = -(V(elem))INFINITY;
    V(elem) lane[LK_LANES] = {0}, block[LK_LANES];
    for (int64_t i = 0; i < n; i += LK_LANES) {
        const int rest = n - i < LK_LANES ? (int)(n - i) : LK_LANES;
        const V(elem) *from = x + i;
        V(elem) *to = keep ? e + i : block;
        if (rest < LK_LANES) {
            LK_UNROLL for (int l = 0; l < LK_LANES; l += W)
            {
                V(mask) m = V(mask_first)(rest - l);
                V(store)(block + l, V(blend)(m, V(load_mask)(from + l, m), V(splat)(&nothing)));
            }
            from = to = block;
        }
        MATH(exp_block)(from, max, to, lane);
        if (keep && rest < LK_LANES)
            LK_UNROLL for (int l = 0; l < LK_LANES; l += W)
                V(store_first)(e + i + l, V(load)(block + l), rest - l);
    }
    LK_UNROLL for (int half = LK_LANES / 2; half > 0; half /= 2)
        LK_UNROLL for (int l = 0; l < half; l++)
            lane[l] = LANE(join_sum)(lane[2 * l], lane[2 * l + 1]);
    return lane[0];
}

static void MATH(exps)(int64_t n, const void *x, void *y, void *sum)
{
    *(V(elem) *)sum = MATH(exp_sum)(n, x, LANE(lane_max)(x, n), y, true);
}

static void MATH(log_sum)(int64_t n, const void *x, void *max, void *log_sum)
{
    const V(elem) top = LANE(lane_max)(x, n);
    *(V(elem) *)max = top;
    *(V(elem) *)log_sum = MATH(log)(MATH(exp_sum)(n, x, top, NULL, false));
}

static void MATH(softmax)(int64_t n, const void *x, void *dst)
{
    V(elem) *y = dst, sum;
    MATH(exps)(n, x, y, &sum);
    for (int64_t i = 0; i < n; i++)
        y[i] = y[i] / sum;
}

static void MATH(log_softmax)(int64_t n, const void *src, void *dst)
{
    const V(elem) *x = src;
    V(elem) *y = dst, max, log_sum;
    MATH(log_sum)(n, x, &max, &log_sum);
    LK_INDEPENDENT
    for (int64_t i = 0; i < n; i++)
        y[i] = (x[i] - max) - log_sum;
}
