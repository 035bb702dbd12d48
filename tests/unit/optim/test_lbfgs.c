/* L-BFGS on several tensors: its steps against the two loops written out in double, and the rule by
 * which its sums are added up. */
#include "harness.h"

#include <lockstep/extra/reduce.h>
#include <lockstep/optim.h>

enum { A = 5003, B = 37, C = 4099, N = A + B + C, STEPS = 12, HISTORY = 4 };

/* Tensors whose ends lie between borders of the slab, so that there are gaps. */
struct problem {
    lk_slab_layout *layout;
    lk_slab *w, *g;
    lk_optimizer *optimizer;
};

static struct problem problem_new(lk_dtype dtype, const char *options)
{
    struct problem p = {0};
    ASSERT_OK(lk_slab_layout_new(&p.layout));
    ASSERT_OK(lk_slab_layout_add(p.layout, "a", dtype, LK_SHAPE(A)));
    ASSERT_OK(lk_slab_layout_add(p.layout, "b", dtype, LK_SHAPE(B)));
    ASSERT_OK(lk_slab_layout_add(p.layout, "c", dtype, LK_SHAPE(C)));
    ASSERT_OK(lk_slab_new(p.layout, &p.w));
    ASSERT_OK(lk_slab_new(p.layout, &p.g));
    ASSERT_OK(lk_optimizer_new(p.w, "lbfgs", options, &p.optimizer));
    return p;
}

static void problem_free(struct problem *p)
{
    lk_optimizer_free(p->optimizer);
    lk_slab_free(p->w);
    lk_slab_free(p->g);
    lk_slab_layout_free(p->layout);
}

/* Element `i` of all tensors, one behind the other. */
static void *element(const struct problem *p, lk_slab *slab, int i)
{
    lk_slab_slice s;
    int64_t k = i < A ? 0 : i < A + B ? 1 : 2, first = k == 0 ? 0 : k == 1 ? A : A + B;
    ASSERT_OK(lk_slab_layout_slice(p->layout, k, &s));
    return (char *)lk_slab_data(slab) + s.offset + (i - first) * (int64_t)lk_dtype_size(s.dtype);
}

static double get(const struct problem *p, lk_dtype dtype, lk_slab *slab, int i)
{
    const void *at = element(p, slab, i);
    return dtype == LK_F32 ? (double)*(const float *)at : *(const double *)at;
}

static void put(const struct problem *p, lk_dtype dtype, lk_slab *slab, int i, double value)
{
    void *at = element(p, slab, i);
    if (dtype == LK_F32)
        *(float *)at = (float)value;
    else
        *(double *)at = value;
}

static double gradient_at(int i, double w)
{
    return (1 + i % 3) * (w - 0.1 * (i % 7)) + 0.05 * w * w * w;
}

static double start_at(int i)
{
    return 0.1 * (i % 37 - 18) + 0.03;
}

static double dot(const double *x, const double *y)
{
    double sum = 0;
    for (int i = 0; i < N; i++)
        sum += x[i] * y[i];
    return sum;
}

/* The textbook: s and y of the last HISTORY steps, two loops, steps of length 1 after the first. */
static void by_hand(double *w)
{
    static double s[STEPS][N], y[STEPS][N], d[N], g[N], before[N];
    double a[STEPS], rate = 0.7;
    for (int n = 0; n < STEPS; n++) {
        int first = n > HISTORY ? n - HISTORY : 0;
        for (int i = 0; i < N; i++) {
            g[i] = gradient_at(i, w[i]);
            if (n > 0)
                y[n - 1][i] = g[i] - before[i];
            d[i] = -g[i];
        }
        for (int k = n - 1; k >= first; k--) {
            a[k] = dot(s[k], d) / dot(s[k], y[k]);
            for (int i = 0; i < N; i++)
                d[i] -= a[k] * y[k][i];
        }
        double scale = n > 0 ? dot(s[n - 1], y[n - 1]) / dot(y[n - 1], y[n - 1]) : 1;
        for (int i = 0; i < N; i++)
            d[i] *= scale;
        for (int k = first; k < n; k++) {
            double b = dot(y[k], d) / dot(s[k], y[k]);
            for (int i = 0; i < N; i++)
                d[i] += (a[k] - b) * s[k][i];
        }
        double magnitude = 0;
        for (int i = 0; i < N; i++)
            magnitude += fabs(g[i]);
        double length = n == 0 && magnitude > 1 ? rate / magnitude : rate;
        for (int i = 0; i < N; i++) {
            s[n][i] = length * d[i];
            w[i] += s[n][i];
            before[i] = g[i];
        }
    }
}

TEST(steps_are_those_of_the_two_loops)
{
    static double expected[N];
    for (int i = 0; i < N; i++)
        expected[i] = start_at(i);
    by_hand(expected);
    for (lk_dtype dtype = LK_F32; dtype <= LK_F64; dtype = (lk_dtype)(dtype + 1)) {
        struct problem p = problem_new(dtype, "rate=0.7 history=4");
        for (int i = 0; i < N; i++)
            put(&p, dtype, p.w, i, start_at(i));
        for (int64_t n = 0; n < STEPS; n++) {
            for (int i = 0; i < N; i++)
                put(&p, dtype, p.g, i, gradient_at(i, get(&p, dtype, p.w, i)));
            lk_optimizer_input step = {.grads = p.g, .at = {.step = n, .steps_per_epoch = 1}};
            ASSERT_OK(lk_optimizer_step(p.optimizer, &step, NULL));
        }
        for (int i = 0; i < N; i++)
            ASSERT_NEAR(get(&p, dtype, p.w, i), expected[i], dtype == LK_F32 ? 1e-4 : 1e-11);
        problem_free(&p);
    }
}

/* The first step is rate / (sum of magnitudes) long: that sum is tree over tensors, in double, of the
 * sums of each tensor by pieces of 4096 elements, in its dtype. */
TEST(sums_are_by_tensors)
{
    static float magnitude[N];
    struct problem p = problem_new(LK_F32, "rate=1");
    float sum[3];
    const char *name;
    for (int i = 0; i < N; i++) {
        put(&p, LK_F32, p.g, i, start_at(i) * (1 + 1e-3 * i));
        magnitude[i] = fabsf((float)get(&p, LK_F32, p.g, i));
    }
    static const int first[] = {0, A, A + B, N};
    for (int k = 0; k < 3; k++) {
        lk_reduce_axis_shape shape = {
            .outer = 1, .n = first[k + 1] - first[k], .inner = 1, .piece = 4096};
        ASSERT_OK(
            lk_reduce_axis(LK_F32, LK_REDUCE_AXIS_SUM, &shape, magnitude + first[k], &sum[k]));
    }
    ASSERT_OK(lk_optimizer_step(
        p.optimizer, &(lk_optimizer_input){.grads = p.g, .at = {.steps_per_epoch = 1}}, NULL));
    double expected = 1 / ((double)sum[0] + (double)sum[1] + (double)sum[2]);
    ASSERT_SAME_BITS(&expected, lk_optimizer_number(p.optimizer, 1, &name), sizeof expected);
    ASSERT_TRUE(strcmp(name, "length") == 0);
    problem_free(&p);
}
