/* Pooling: the bits of the definition, whatever the shape, instruction set and threads. */
#include "all_threads.h"
#include "guard.h"
#include "harness.h"
#include "kernel/reference/reference.h"
#include "real.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/extra/isa.h>
#include <lockstep/thread.h>

#include <fenv.h>

enum { MAX, AVG, L2 };

/* Operands of all six functions, each ending at a guard page, and what they should become. */
struct operands {
    struct guard x, dy, y[3], dx[3], index, want_y[3], want_dx[3], want_index;
    int64_t n_x, n_y;
};

static struct operands operands_new(const lk_pool_shape *s)
{
    size_t elem = lk_dtype_size(s->dtype);
    struct operands p = {.n_x = s->batch * s->channels, .n_y = s->batch * s->channels};
    for (int d = 0; d < s->window.ndim; d++) {
        p.n_x *= s->in[d];
        p.n_y *= s->out[d];
    }
    p.x = guard_new((size_t)p.n_x * elem);
    p.dy = guard_new((size_t)p.n_y * elem);
    p.index = guard_new((size_t)p.n_y * sizeof(int64_t));
    p.want_index = guard_new((size_t)p.n_y * sizeof(int64_t));
    for (int k = 0; k < 3; k++) {
        p.y[k] = guard_new((size_t)p.n_y * elem);
        p.dx[k] = guard_new((size_t)p.n_x * elem);
        p.want_y[k] = guard_new((size_t)p.n_y * elem);
        p.want_dx[k] = guard_new((size_t)p.n_x * elem);
    }
    return p;
}

static void operands_free(struct operands *p)
{
    guard_free(&p->x);
    guard_free(&p->dy);
    guard_free(&p->index);
    guard_free(&p->want_index);
    for (int k = 0; k < 3; k++) {
        guard_free(&p->y[k]);
        guard_free(&p->dx[k]);
        guard_free(&p->want_y[k]);
        guard_free(&p->want_dx[k]);
    }
}

/* Fill want_*. */
static void reference(const lk_pool_shape *s, struct operands *p)
{
    const void *x = p->x.data, *dy = p->dy.data;
    lk__ref_pool_max(s, x, p->want_y[MAX].data, p->want_index.data, NULL);
    lk__ref_pool_avg(s, x, p->want_y[AVG].data, NULL);
    lk__ref_pool_l2(s, x, p->want_y[L2].data, NULL);
    lk__ref_pool_max_backward(s, dy, p->want_index.data, p->want_dx[MAX].data, NULL);
    lk__ref_pool_avg_backward(s, dy, p->want_dx[AVG].data, NULL);
    lk__ref_pool_l2_backward(s, x, p->want_y[L2].data, dy, p->want_dx[L2].data, NULL);
}

static void check_same(const lk_pool_shape *s, const char *name, const struct guard *want,
                       const struct guard *got, int64_t n)
{
    int64_t i = real_differ(s->dtype, want->data, got->data, n);
    if (i < n)
        TEST_FAIL("%s[%lld] is %a, not %a (%s, %d axes, %lld channels)", name, (long long)i,
                  real_get(s->dtype, got->data, i), real_get(s->dtype, want->data, i),
                  lk_dtype_name(s->dtype), s->window.ndim, (long long)s->channels);
}

static void check_all(const lk_pool_shape *s, struct operands *p)
{
    static const char *const y_name[] = {"max", "avg", "l2"};
    static const char *const dx_name[] = {"max_backward", "avg_backward", "l2_backward"};
    size_t elem = lk_dtype_size(s->dtype);
    for (int k = 0; k < 3; k++) {
        memset(p->y[k].data, 0x55, (size_t)p->n_y * elem);
        memset(p->dx[k].data, 0x55, (size_t)p->n_x * elem);
    }
    memset(p->index.data, 0x55, (size_t)p->n_y * sizeof(int64_t));
    ASSERT_OK(lk_pool_max(s, p->x.data, p->y[MAX].data, NULL));
    check_same(s, "max without index", &p->want_y[MAX], &p->y[MAX], p->n_y);
    ASSERT_OK(lk_pool_max(s, p->x.data, p->y[MAX].data, p->index.data));
    ASSERT_OK(lk_pool_avg(s, p->x.data, p->y[AVG].data));
    ASSERT_OK(lk_pool_l2(s, p->x.data, p->y[L2].data));
    ASSERT_TRUE(memcmp(p->index.data, p->want_index.data, (size_t)p->n_y * sizeof(int64_t)) == 0);
    ASSERT_OK(lk_pool_max_backward(s, p->dy.data, p->index.data, p->dx[MAX].data));
    ASSERT_OK(lk_pool_avg_backward(s, p->dy.data, p->dx[AVG].data));
    ASSERT_OK(lk_pool_l2_backward(s, p->x.data, p->y[L2].data, p->dy.data, p->dx[L2].data));
    for (int k = 0; k < 3; k++) {
        check_same(s, y_name[k], &p->want_y[k], &p->y[k], p->n_y);
        check_same(s, dx_name[k], &p->want_dx[k], &p->dx[k], p->n_x);
    }
}

/* Few different values, so that maxima tie; with `odd` also NaN, infinities and zeros. */
static void fill(lk_dtype t, void *p, int64_t n, uint64_t seed, bool odd)
{
    static const double special[] = {-0.0, 0.0, 0.0, -HUGE_VAL, HUGE_VAL, (double)NAN};
    uint64_t state = seed;
    for (int64_t i = 0; i < n; i++) {
        uint32_t r = real_random(&state) >> 5;
        real_set(t, p, i, odd && r % 4 == 0 ? special[r / 4 % 6] : (double)(r % 9) * 0.37 - 1.5);
    }
}

static void check_shape(const lk_pool_shape *shape, int kind, int n_threads)
{
    for (int d = 0; d < 2; d++) {
        lk_pool_shape s = *shape;
        s.dtype = d == 0 ? LK_F32 : LK_F64;
        struct operands p = operands_new(&s);
        if (kind == 0)
            real_fill(s.dtype, p.x.data, p.n_x, 5, false);
        else
            fill(s.dtype, p.x.data, p.n_x, 7, kind == 2);
        real_fill(s.dtype, p.dy.data, p.n_y, 9, kind == 2);
        reference(&s, &p);
        for (int isa = 0; isa < LK_N_ISAS; isa++)
            for (int threads = 1; threads <= n_threads && lk_isa_is_available((lk_isa)isa);
                 threads++) {
                ASSERT_OK(lk_isa_set((lk_isa)isa));
                all_threads_set(threads);
                check_all(&s, &p);
            }
        operands_free(&p);
    }
}

/* Geometry only; batch and channels come from the tests. */
static const lk_pool_shape geometry[] = {
    {.window.ndim = 1, .in = {9}, .out = {4}, .window.kernel = {2}, .window.stride = {2}},
    {.window.ndim = 1,
     .in = {7},
     .out = {3},
     .window.kernel = {2},
     .window.stride = {3},
     .window.pad_lo = {1}}, /* gaps */
    {.window.ndim = 1,
     .in = {10},
     .out = {6},
     .window.kernel = {4},
     .window.stride = {1},
     .window.pad_lo = {-1}},
    {.window.ndim = 1,
     .in = {5},
     .out = {9},
     .window.kernel = {2},
     .window.stride = {1},
     .window.pad_lo = {3}}, /* no taps */
    {.window.ndim = 1,
     .in = {6},
     .out = {1},
     .window.kernel = {1000},
     .window.stride = {0},
     .window.pad_lo = {500}},
    {.window.ndim = 1, .in = {0}, .out = {3}, .window.kernel = {2}, .window.pad_lo = {1}},
    {.window.ndim = 1, .in = {4}, .out = {0}, .window.kernel = {2}},
    {.window.ndim = 2,
     .in = {6, 8},
     .out = {3, 4},
     .window.kernel = {2, 2},
     .window.stride = {2, 2}},
    {.window.ndim = 2,
     .in = {7, 5},
     .out = {4, 3},
     .window.kernel = {3, 3},
     .window.stride = {2, 2},
     .window.pad_lo = {1, 1}},
    {.window.ndim = 2,
     .in = {5, 6},
     .out = {5, 6},
     .window.kernel = {3, 3},
     .window.stride = {1, 1},
     .window.pad_lo = {1, 1}},
    {.window.ndim = 2,
     .in = {5, 7},
     .out = {3, 2},
     .window.kernel = {1, 4},
     .window.stride = {2, 3},
     .window.pad_lo = {0, -1}},
    {.window.ndim = 2, .in = {7, 7}, .out = {1, 1}, .window.kernel = {7, 7}},
    {.window.ndim = 2,
     .in = {3, 0},
     .out = {2, 2},
     .window.kernel = {2, 2},
     .window.pad_lo = {0, 1}},
    {.window.ndim = 3,
     .in = {4, 4, 4},
     .out = {2, 2, 2},
     .window.kernel = {2, 2, 2},
     .window.stride = {2, 2, 2}},
    {.window.ndim = 3,
     .in = {3, 4, 5},
     .out = {3, 2, 3},
     .window.kernel = {3, 2, 3},
     .window.stride = {1, 2, 2},
     .window.pad_lo = {1, 0, 1}},
};

enum { N_GEOMETRY = sizeof geometry / sizeof geometry[0] };

TEST(every_geometry_gives_the_bits_of_the_definition)
{
    static const int64_t channels[] = {0, 1, 3, 11};
    for (int g = 0; g < N_GEOMETRY; g++)
        for (int c = 0; c < 4; c++)
            for (int padding = 0; padding < 2; padding++) {
                lk_pool_shape s = geometry[g];
                s.batch = 1 + (g + c) % 2;
                s.channels = channels[c];
                s.count_padding = padding;
                check_shape(&s, padding, 2);
            }
    lk_pool_shape s = geometry[7];
    s.channels = 5; /* and an empty batch */
    check_shape(&s, 0, 1);
}

TEST(every_number_of_channels_gives_the_bits_of_the_definition)
{
    lk_pool_shape s = geometry[8];
    s.batch = 1;
    for (s.channels = 1; s.channels <= 70; s.channels++)
        check_shape(&s, 1, 1);
}

TEST(nan_infinities_and_ties_keep_to_the_definition)
{
    for (int g = 0; g < N_GEOMETRY; g++) {
        lk_pool_shape s = geometry[g];
        s.batch = 2;
        s.channels = 9;
        check_shape(&s, 2, 1);
    }
}

TEST(large_images_give_the_bits_of_the_definition)
{
    lk_pool_shape s = {.window.ndim = 2,
                       .batch = 2,
                       .channels = 40,
                       .in = {13, 15},
                       .out = {7, 8},
                       .window.kernel = {3, 3},
                       .window.stride = {2, 2},
                       .window.pad_lo = {1, 1}};
    check_shape(&s, 1, 4);
    lk_pool_shape global = {.window.ndim = 2,
                            .batch = 2,
                            .channels = 333,
                            .in = {9, 8},
                            .out = {1, 1},
                            .window.kernel = {9, 8}};
    check_shape(&global, 1, 4); /* few positions: channels are split */
    lk_pool_shape line = {.window.ndim = 1,
                          .batch = 1,
                          .channels = 40,
                          .in = {300},
                          .out = {299},
                          .window.kernel = {2}};
    check_shape(&line, 1, 4);
}

TEST(averages_and_norms_are_as_exact_as_their_chain)
{
    enum { IN = 30, CHANNELS = 5 };
    lk_pool_shape s = {.dtype = LK_F32,
                       .window.ndim = 2,
                       .batch = 1,
                       .channels = CHANNELS,
                       .in = {IN, IN},
                       .out = {1, 1},
                       .window.kernel = {IN, IN}};
    static float x[IN * IN][CHANNELS];
    float avg[CHANNELS], l2[CHANNELS];
    real_fill(LK_F32, x, IN * IN * CHANNELS, 3, false);
    ASSERT_OK(lk_pool_avg(&s, x, avg));
    ASSERT_OK(lk_pool_l2(&s, x, l2));
    for (int c = 0; c < CHANNELS; c++) {
        double sum = 0, size = 0, squares = 0, n = IN * IN;
        for (int i = 0; i < IN * IN; i++) {
            sum += (double)x[i][c];
            size += fabs((double)x[i][c]);
            squares += (double)x[i][c] * (double)x[i][c];
        }
        ASSERT_NEAR(avg[c], sum / n, 1.01 * (n + 1) * 0x1p-24 * size / n);
        ASSERT_NEAR(l2[c], sqrt(squares), 1.01 * (n / 2 + 1) * 0x1p-24 * sqrt(squares));
    }
}

/* Also where squares underflow, and without a division by zero that a host might trap. */
TEST(windows_of_norm_zero_pass_nothing_back)
{
    enum { N = 21 };
    lk_pool_shape s = {.dtype = LK_F32,
                       .window.ndim = 1,
                       .batch = 1,
                       .channels = N,
                       .in = {2},
                       .out = {1},
                       .window.kernel = {2}};
    float x[2][N], y[N], dy[N], dx[2][N];
    for (int c = 0; c < N; c++) {
        x[0][c] = c % 2 ? 0 : 1e-30F;
        x[1][c] = c % 3 ? 0 : -1e-30F;
        dy[c] = c % 5 ? 1 : HUGE_VALF;
    }
    ASSERT_OK(lk_threads_set(1));
    for (int isa = 0; isa < LK_N_ISAS; isa++) {
        if (!lk_isa_is_available((lk_isa)isa))
            continue;
        ASSERT_OK(lk_isa_set((lk_isa)isa));
        ASSERT_OK(lk_pool_l2(&s, x, y));
        feclearexcept(FE_ALL_EXCEPT);
        ASSERT_OK(lk_pool_l2_backward(&s, x, y, dy, dx));
        ASSERT_EQ(fetestexcept(FE_DIVBYZERO), 0);
        for (int c = 0; c < N; c++)
            ASSERT_TRUE(y[c] == 0 && dx[0][c] == 0 && dx[1][c] == 0);
    }
}

TEST(nothing_is_allocated)
{
    int64_t calls = lk_alloc_stats_now().calls;
    lk_pool_shape s = geometry[8];
    s.batch = 3;
    s.channels = 64;
    check_shape(&s, 1, 3);
    ASSERT_EQ(lk_alloc_stats_now().calls, calls);
}
