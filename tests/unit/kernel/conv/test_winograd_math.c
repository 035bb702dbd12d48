/* The error of convolution by Winograd's algorithm is within what its arithmetic allows.
 *
 * Every operation is rounded once.  A product of an input with a weight passes 2 roundings along
 * each axis of the input's transform, 4 along each of the weights' (one is that of the constant), at
 * most K in the chain over K channels, 3 along each axis of the way back and 1 where the bias is
 * added: K + 19.  So the error of an output is at most
 *
 *     g(K + 19) |A| (sum over channels (|G| |g| |G'|) (|B| |d| |B'|)) |A'|,  g(n) = n u / (1 - n u)
 *
 * with the transforms' matrices in absolute values.
 */
#include "kernel/reference/place.h"
#include "winograd_cases.h"

#include <float.h>

/* The matrices in absolute values. */
static const long double in_abs[6][6] = {{4, 0, 5, 0, 1, 0}, {0, 4, 4, 1, 1, 0},
                                         {0, 4, 4, 1, 1, 0}, {0, 2, 1, 2, 1, 0},
                                         {0, 2, 1, 2, 1, 0}, {0, 4, 0, 5, 0, 1}};
static const long double weights_abs[6][3] = {
    {1 / 4.0L, 0, 0},
    {1 / 6.0L, 1 / 6.0L, 1 / 6.0L},
    {1 / 6.0L, 1 / 6.0L, 1 / 6.0L},
    {1 / 24.0L, 1 / 12.0L, 1 / 6.0L},
    {1 / 24.0L, 1 / 12.0L, 1 / 6.0L},
    {0, 0, 1},
};
static const long double out_abs[4][6] = {
    {1, 1, 1, 1, 1, 0}, {0, 1, 1, 2, 2, 0}, {0, 1, 1, 4, 4, 0}, {0, 1, 1, 8, 8, 1}};

/* A forward pass, its result and what it should be. */
typedef struct trial {
    lk_conv_shape s; /* complete */
    int64_t ny;
    void *x, *w, *bias, *y;
} trial;

static trial trial_new(const lk_conv_shape *s, lk_dtype dtype)
{
    trial t = {.s = lk__ref_conv_shape(s)};
    t.s.dtype = dtype;
    t.ny = lk__ref_conv_extent(&t.s, true);
    t.x = real_new(dtype, lk__ref_conv_extent(&t.s, false), 11, false);
    t.w = real_new(dtype, lk__ref_conv_weights(&t.s), 12, false);
    t.bias = real_new(dtype, s->out_channels, 13, false);
    t.y = real_new(dtype, t.ny, 14, false);
    return t;
}

static void trial_free(trial *t)
{
    free(t->x);
    free(t->w);
    free(t->bias);
    free(t->y);
}

static void trial_run(trial *t, lk_conv_algorithm algorithm)
{
    lk_conv_plan *plan;
    t->s.algorithm = algorithm;
    ASSERT_OK(lk_conv_plan_new(&t->s, &plan));
    ASSERT_OK(lk_conv_forward(plan, t->x, t->w, t->bias, LK_ACT_NONE, t->y));
    lk_conv_plan_free(plan);
}

/* x at a position that may be padding. */
static long double input_at(const trial *t, int64_t n, int64_t i, int64_t j, int64_t k)
{
    const lk_conv_shape *s = &t->s;
    i -= s->window.pad_lo[0];
    j -= s->window.pad_lo[1];
    if (i < 0 || i >= s->in[0] || j < 0 || j >= s->in[1])
        return 0;
    return (long double)real_get(s->dtype, t->x,
                                 n * s->x_sample + i * s->x_step[0] + j * s->x_step[1] + k);
}

static long double weight_at(const trial *t, int r, int c, int64_t k, int64_t j)
{
    return (long double)real_get(t->s.dtype, t->w,
                                 ((3 * r + c) * t->s.in_channels + k) * t->s.out_channels + j);
}

/* Channel j of y at position o. */
static long double output_at(const trial *t, int64_t n, lk__ref_place o, int64_t j)
{
    return (long double)real_get(t->s.dtype, t->y,
                                 n * t->s.y_sample + place_offset(o, t->s.y_step) + j);
}

static long double exact(const trial *t, int64_t n, const int64_t *o, int64_t j)
{
    long double sum = (long double)real_get(t->s.dtype, t->bias, j);
    for (int r = 0; r < 3; r++)
        for (int c = 0; c < 3; c++)
            for (int64_t k = 0; k < t->s.in_channels; k++)
                sum += input_at(t, n, o[0] + r, o[1] + c, k) * weight_at(t, r, c, k, j);
    return sum;
}

/* The products of component (i, l) in absolute values, for the tile of `o`. */
static long double component(const trial *t, int64_t n, const int64_t *o, int64_t j, int i, int l)
{
    long double sum = 0;
    for (int64_t k = 0; k < t->s.in_channels; k++) {
        long double d = 0, g = 0;
        for (int r = 0; r < 6; r++)
            for (int c = 0; c < 6; c++)
                d += in_abs[i][r] * in_abs[l][c] *
                     fabsl(input_at(t, n, o[0] / 4 * 4 + r, o[1] / 4 * 4 + c, k));
        for (int r = 0; r < 3; r++)
            for (int c = 0; c < 3; c++)
                g += weights_abs[i][r] * weights_abs[l][c] * fabsl(weight_at(t, r, c, k, j));
        sum += d * g;
    }
    return sum;
}

static long double bound(const trial *t, int64_t n, const int64_t *o, int64_t j)
{
    long double u = (t->s.dtype == LK_F32 ? (long double)FLT_EPSILON : (long double)DBL_EPSILON) /
                    2;
    long double steps = (long double)(t->s.in_channels + 19) * u;
    long double sum = fabsl((long double)real_get(t->s.dtype, t->bias, j));
    for (int i = 0; i < 6; i++)
        for (int l = 0; l < 6; l++)
            sum += out_abs[o[0] % 4][i] * out_abs[o[1] % 4][l] * component(t, n, o, j, i, l);
    return steps / (1 - steps) * sum;
}

TEST(errors_are_within_the_bound)
{
    for (int i = 0; i < N_WINO_CASES; i++)
        for (int dtype = LK_F32; dtype <= LK_F64; dtype++) {
            trial t = trial_new(&wino_cases[i].s, (lk_dtype)dtype);
            trial_run(&t, LK_CONV_WINOGRAD);
            for (lk__ref_place o = place_first(t.s.out); o.is && t.s.batch > 0;
                 o = place_next(o, t.s.out))
                for (int64_t j = 0; j < t.s.out_channels; j += 9) {
                    long double error = fabsl(output_at(&t, 0, o, j) - exact(&t, 0, o.at, j));
                    if (!(error <= bound(&t, 0, o.at, j)))
                        TEST_FAIL("%s, %s: output (%lld, %lld), channel %lld is off by %Lg",
                                  wino_cases[i].name, lk_dtype_name(t.s.dtype), (long long)o.at[0],
                                  (long long)o.at[1], (long long)j, error);
                }
            trial_free(&t);
        }
}

/* The square of the error's L2 norm. */
static long double error_norm(const trial *t)
{
    long double sum = 0;
    for (int64_t n = 0; n < t->s.batch; n++)
        for (lk__ref_place o = place_first(t->s.out); o.is; o = place_next(o, t->s.out))
            for (int64_t j = 0; j < t->s.out_channels; j++) {
                long double e = output_at(t, n, o, j) - exact(t, n, o.at, j);
                sum += e * e;
            }
    return sum;
}

TEST(the_error_is_some_times_that_of_direct)
{
    const lk_conv_shape s = {
        WINO,           .batch = 2,      .in_channels = 32,      .out_channels = 16,
        .in = {16, 16}, .out = {16, 16}, .window.pad_lo = {1, 1}};
    trial t = trial_new(&s, LK_F32);
    trial_run(&t, LK_CONV_DIRECT);
    long double direct = error_norm(&t);
    trial_run(&t, LK_CONV_WINOGRAD);
    long double winograd = error_norm(&t);
    ASSERT_TRUE(winograd > direct);
    ASSERT_TRUE(winograd < 36 * direct); /* of squares */
    trial_free(&t);
}
