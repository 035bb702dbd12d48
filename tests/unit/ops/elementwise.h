/* Element-wise ops on tables of values, in both types: what they give, and their gradients. */
#ifndef LK_TEST_ELEMENTWISE_H
#define LK_TEST_ELEMENTWISE_H

#include "harness.h"
#include "real.h"

#include <lockstep/lockstep.h>

#define INF HUGE_VAL
#define NOT_A_NUMBER ((double)NAN)

typedef lk_status unary_fn(lk_var x, lk_var *out);
typedef lk_status binary_fn(lk_var x, lk_var y, lk_var *out);

/* y = f(x) and its slope there, exact in f32 and f64. */
struct point1 {
    double x, y, slope;
};

/* z = f(x, y) and its slopes. */
struct point2 {
    double x, y, z, dx, dy;
};

enum { MAX_POINTS = 64 };

/* A tensor of n numbers. */
static inline lk_tensor *tensor_of(lk_dtype t, lk_shape shape, const double *values)
{
    lk_tensor *out = NULL;
    void *data = NULL;
    ASSERT_OK(lk_tensor_new(t, shape, &out));
    ASSERT_OK(lk_tensor_writable_data(out, &data));
    for (int64_t i = 0; i < lk_tensor_count(out); i++)
        real_set(t, data, i, values[i]);
    return out;
}

/* Element `i` of a contiguous tensor or variable. */
static inline double tensor_at(const lk_tensor *t, int64_t i)
{
    ASSERT_TRUE(lk_tensor_is_contiguous(t) && i < lk_tensor_count(t));
    return real_get(lk_tensor_dtype(t), lk_tensor_data(t), i);
}

static inline double var_at(lk_var v, int64_t i)
{
    const lk_tensor *t = NULL;
    ASSERT_OK(lk_value(v, &t));
    return tensor_at(t, i);
}

static inline void expect(lk_dtype t, const char *what, double x, double got, double want)
{
    double rounded = t == LK_F32 ? (double)(float)want : want;
    if (!real_same(got, rounded))
        TEST_FAIL("%s %s at %g is %.17g, not %.17g", lk_dtype_name(t), what, x, got, rounded);
}

/* `n` values through f, on a tape of its own, with a seed of 2 for each. */
struct run1 {
    lk_tape *tape;
    lk_tensor *x, *dx, *seed;
    lk_var y;
};

static inline struct run1 run1_new(lk_dtype t, unary_fn *f, lk_shape shape, const double *values)
{
    struct run1 r = {0};
    lk_var x;
    ASSERT_OK(lk_tape_new(&r.tape));
    r.x = tensor_of(t, shape, values);
    ASSERT_OK(lk_tensor_zeros(t, shape, &r.dx));
    ASSERT_OK(lk_tensor_new(t, shape, &r.seed));
    ASSERT_OK(lk_tensor_fill_f64(r.seed, 2));
    ASSERT_OK(lk_leaf(r.tape, r.x, r.dx, &x));
    ASSERT_OK(f(x, &r.y));
    ASSERT_OK(lk_backward(r.tape, &(lk_seed){r.y, r.seed}, 1, 0));
    return r;
}

static inline void run1_free(struct run1 *r)
{
    lk_tape_free(r->tape);
    lk_tensor_free(r->x);
    lk_tensor_free(r->dx);
    lk_tensor_free(r->seed);
}

/* f gives exactly these values and slopes, in both types. */
static inline void points1_check(unary_fn *f, const struct point1 *p, int n)
{
    for (int type = LK_F32; type <= LK_F64; type++) {
        lk_dtype t = (lk_dtype)type;
        double x[MAX_POINTS];
        ASSERT_TRUE(n <= MAX_POINTS);
        for (int i = 0; i < n; i++)
            x[i] = p[i].x;
        struct run1 r = run1_new(t, f, LK_SHAPE(n), x);
        for (int i = 0; i < n; i++) {
            expect(t, "value", x[i], var_at(r.y, i), p[i].y);
            expect(t, "2 slope", x[i], tensor_at(r.dx, i), 2 * p[i].slope);
        }
        run1_free(&r);
    }
}

#define POINTS1(f, ...)                                      \
    do {                                                     \
        static const struct point1 p_[] = {__VA_ARGS__};     \
        points1_check(f, p_, (int)(sizeof p_ / sizeof *p_)); \
    } while (0)

/* The same for two arguments. */
static inline void points2_check(binary_fn *f, const struct point2 *p, int n)
{
    for (int type = LK_F32; type <= LK_F64; type++) {
        lk_dtype t = (lk_dtype)type;
        double in[2][MAX_POINTS], two[MAX_POINTS];
        lk_tape *tape;
        lk_tensor *x[2], *dx[2];
        lk_var v[2], z;
        ASSERT_TRUE(n <= MAX_POINTS);
        for (int i = 0; i < n; i++) {
            in[0][i] = p[i].x;
            in[1][i] = p[i].y;
            two[i] = 2;
        }
        ASSERT_OK(lk_tape_new(&tape));
        for (int k = 0; k < 2; k++) {
            x[k] = tensor_of(t, LK_SHAPE(n), in[k]);
            ASSERT_OK(lk_tensor_zeros(t, LK_SHAPE(n), &dx[k]));
            ASSERT_OK(lk_leaf(tape, x[k], dx[k], &v[k]));
        }
        lk_tensor *seed = tensor_of(t, LK_SHAPE(n), two);
        ASSERT_OK(f(v[0], v[1], &z));
        ASSERT_OK(lk_backward(tape, &(lk_seed){z, seed}, 1, 0));
        for (int i = 0; i < n; i++) {
            expect(t, "value", p[i].x, var_at(z, i), p[i].z);
            expect(t, "2 slope of x", p[i].x, tensor_at(dx[0], i), 2 * p[i].dx);
            expect(t, "2 slope of y", p[i].x, tensor_at(dx[1], i), 2 * p[i].dy);
        }
        lk_tape_free(tape);
        lk_tensor_free(seed);
        for (int k = 0; k < 2; k++) {
            lk_tensor_free(x[k]);
            lk_tensor_free(dx[k]);
        }
    }
}

#define POINTS2(f, ...)                                      \
    do {                                                     \
        static const struct point2 p_[] = {__VA_ARGS__};     \
        points2_check(f, p_, (int)(sizeof p_ / sizeof *p_)); \
    } while (0)

/* On a grid over (lo, hi) values and slopes are within `ulps` units of the type's precision,
 * relative to their size, of what the two functions of long double say. */
static inline void grid_check(unary_fn *f, long double (*value)(long double),
                              long double (*slope)(long double), double lo, double hi, double ulps)
{
    enum { N = 601 };
    for (int type = LK_F32; type <= LK_F64; type++) {
        lk_dtype t = (lk_dtype)type;
        double x[N], unit = t == LK_F32 ? 0x1p-23 : 0x1p-52;
        for (int i = 0; i < N; i++) {
            x[i] = lo + (hi - lo) * (i + 0.37) / N;
            x[i] = t == LK_F32 ? (double)(float)x[i] : x[i];
        }
        struct run1 r = run1_new(t, f, LK_SHAPE(N), x);
        for (int i = 0; i < N; i++) {
            double want = (double)value((long double)x[i]);
            double want_slope = (double)(2 * slope((long double)x[i]));
            ASSERT_NEAR(var_at(r.y, i), want, 4 * unit * fabs(want) + 1e-300);
            ASSERT_NEAR(tensor_at(r.dx, i), want_slope, ulps * unit * fabs(want_slope) + 1e-300);
        }
        run1_free(&r);
    }
}

#endif /* LK_TEST_ELEMENTWISE_H */
