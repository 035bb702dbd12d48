/* Reductions over boxes: the bits of the definition, whatever the steps, instruction set and threads. */
#include "all_threads.h"
#include "boxed.h"
#include "guard.h"
#include "kernel/reference/reference.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/extra/isa.h>
#include <lockstep/thread.h>

#include <fenv.h>

static int64_t pieces_of(const lk_reduce_box_shape *s)
{
    int64_t piece = s->piece > 0 ? s->piece : s->samples;
    return s->samples > 0 ? (s->samples - 1) / piece + 1 : 0;
}

/* A box of an array that ends at a guard page. */
static void check_box(lk_dtype t, lk_reduce_box_shape s, uint64_t *state, int n_threads)
{
    const struct place p = place_make(3, s.samples, s.n, s.channels, state);
    s.sample_step = p.sample;
    memcpy(s.step, p.step, sizeof s.step);
    const size_t elem = lk_dtype_size(t), bytes = (size_t)(pieces_of(&s) * s.channels) * elem;
    struct guard array = guard_new((size_t)p.count * elem);
    struct guard y = guard_new(bytes), want = guard_new(bytes);
    const void *x = (char *)array.data + (size_t)p.first * elem;
    place_fill(&p, t, array.data, false, 3 + *state);
    for (int op = 0; op < LK_N_REDUCE_AXIS_OPS; op++) {
        lk__ref_reduce_box(t, (lk_reduce_axis_op)op, &s, x, want.data);
        for (int isa = 0; isa < LK_N_ISAS; isa++)
            for (int n = 1; n <= n_threads && lk_isa_is_available((lk_isa)isa); n++) {
                ASSERT_OK(lk_isa_set((lk_isa)isa));
                all_threads_set(n);
                memset(y.data, 0x55, bytes);
                ASSERT_OK(lk_reduce_box(t, (lk_reduce_axis_op)op, &s, x, y.data));
                if (memcmp(want.data, y.data, bytes) != 0)
                    TEST_FAIL("%s of %s [%lld][%lld][%lld][%lld][%lld], piece %lld",
                              lk_reduce_axis_op_name((lk_reduce_axis_op)op), lk_dtype_name(t),
                              (long long)s.samples, (long long)s.n[0], (long long)s.n[1],
                              (long long)s.n[2], (long long)s.channels, (long long)s.piece);
            }
    }
    guard_free(&array);
    guard_free(&y);
    guard_free(&want);
}

static lk_reduce_box_shape shape_make(uint64_t *state)
{
    static const int64_t channels[] = {1, 1, 2, 3, 7, 16, 19, 130};
    lk_reduce_box_shape s = {.samples = 1 + below(state, 5),
                             .channels = channels[below(state, 8)],
                             .piece = below(state, 4)};
    for (int d = 0; d < 3; d++)
        s.n[d] = below(state, 3) ? 1 + below(state, 7) : 1;
    if (below(state, 12) == 0)
        s.n[below(state, 3)] = 0;
    if (below(state, 24) == 0)
        s.samples = 0;
    return s;
}

TEST(boxes_give_the_bits_of_their_copies)
{
    uint64_t state = 18;
    for (int i = 0; i < (test_whole() ? 10000 : 500); i++) {
        lk_reduce_box_shape s = shape_make(&state);
        check_box(below(&state, 2) ? LK_F32 : LK_F64, s, &state, 1);
    }
}

TEST(large_boxes_give_the_bits_of_their_copies)
{
    static const lk_reduce_box_shape shape[] = {
        {.samples = 3, .n = {1, 61, 67}, .channels = 5},                /* one piece */
        {.samples = 3, .n = {1, 61, 67}, .channels = 5, .piece = 1},    /* pieces */
        {.samples = 5, .n = {7, 11, 13}, .channels = 300, .piece = 2},  /* blocks of channels */
        {.samples = 1, .n = {1, 37, 41}, .channels = 200},              /* blocks alone */
        {.samples = 1000, .n = {1, 3, 5}, .channels = 2, .piece = 3},   /* many short pieces */
        {.samples = 2, .n = {1, 1, 30011}, .channels = 1, .piece = 99}, /* one channel */
    };
    uint64_t state = 19;
    for (int d = 0; d < 2; d++)
        for (size_t i = 0; i < sizeof shape / sizeof shape[0]; i++)
            check_box(d == 0 ? LK_F32 : LK_F64, shape[i], &state, 3);
}

TEST(steps_of_zero_are_dense)
{
    enum { SAMPLES = 3, ROWS = 4, COLUMNS = 5, CHANNELS = 6 };
    float x[SAMPLES][ROWS][COLUMNS][CHANNELS], y[2][CHANNELS], want[2][CHANNELS];
    real_fill(LK_F32, x, sizeof x / 4, 5, false);
    lk_reduce_box_shape s = {
        .samples = SAMPLES, .n = {1, ROWS, COLUMNS}, .channels = CHANNELS, .piece = 2};
    lk_reduce_axis_shape two = {1, (int64_t)2 * ROWS * COLUMNS, CHANNELS, 0};
    lk_reduce_axis_shape one = {1, ROWS * COLUMNS, CHANNELS, 0};
    ASSERT_OK(lk_reduce_axis(LK_F32, LK_REDUCE_AXIS_SUM, &two, x, want[0]));
    ASSERT_OK(lk_reduce_axis(LK_F32, LK_REDUCE_AXIS_SUM, &one, x[2], want[1]));
    ASSERT_OK(lk_reduce_box(LK_F32, LK_REDUCE_AXIS_SUM, &s, x, y));
    ASSERT_TRUE(memcmp(y, want, sizeof y) == 0);
}

TEST(an_empty_box_gives_the_neutral_element)
{
    static const double neutral[] = {[LK_REDUCE_AXIS_SUM] = 0,
                                     [LK_REDUCE_AXIS_PROD] = 1,
                                     [LK_REDUCE_AXIS_MAX] = -HUGE_VAL,
                                     [LK_REDUCE_AXIS_MIN] = HUGE_VAL,
                                     [LK_REDUCE_AXIS_SUMSQ] = 0};
    for (int op = 0; op < LK_N_REDUCE_AXIS_OPS; op++)
        for (int d = 0; d < 3; d++) {
            lk_reduce_box_shape s = {.samples = 5, .n = {4, 4, 4}, .channels = 3, .piece = 2};
            s.n[d] = 0;
            double y[3][3];
            ASSERT_OK(lk_reduce_box(LK_F64, (lk_reduce_axis_op)op, &s, NULL, y));
            for (int i = 0; i < 9; i++)
                ASSERT_TRUE(real_same(y[i / 3][i % 3], neutral[op]));
        }
}

TEST(no_samples_and_no_channels_are_nothing)
{
    lk_reduce_box_shape s = {.n = {INT64_MAX, INT64_MAX, 1}, .channels = 3, .piece = 2};
    ASSERT_OK(lk_reduce_box(LK_F32, LK_REDUCE_AXIS_SUM, &s, NULL, NULL));
    s = (lk_reduce_box_shape){.samples = INT64_MAX, .n = {INT64_MAX, INT64_MAX, 1}, .piece = 2};
    ASSERT_OK(lk_reduce_box(LK_F32, LK_REDUCE_AXIS_SUM, &s, NULL, NULL));
}

static void check_refused(lk_status want, const char *words, const lk_reduce_box_shape *s,
                          const float *x, float *y)
{
    ASSERT_EQ(lk_reduce_box(LK_F32, LK_REDUCE_AXIS_SUM, s, x, y), want);
    if (!strstr(lk_error_message(), words))
        TEST_FAIL("\"%s\" does not say \"%s\"", lk_error_message(), words);
    lk_error_clear();
}

TEST(bad_input_is_refused_by_name)
{
    static float x[200], y[8];
    const lk_reduce_box_shape good = {.samples = 2, .n = {1, 3, 5}, .channels = 4, .piece = 1};
    lk_reduce_box_shape s = good;
    ASSERT_EQ(lk_reduce_box(LK_I32, LK_REDUCE_AXIS_SUM, &s, x, y), LK_EDTYPE);
    ASSERT_EQ(lk_reduce_box(LK_F32, LK_N_REDUCE_AXIS_OPS, &s, x, y), LK_EINVAL);
    lk_error_clear();
    check_refused(LK_EINVAL, "shape is NULL", NULL, x, y);
    check_refused(LK_EINVAL, "x [2][1][3][5][4] is NULL", &s, NULL, y);
    check_refused(LK_EINVAL, "y [2][4] is NULL", &s, x, NULL);
    check_refused(LK_EOVERLAP, "y [2][4] overlaps x [2][1][3][5][4]", &s, x, x + 119);
    check_refused(LK_EOVERLAP, "y [2][4] overlaps x [2][1][3][5][4]", &s, y + 7, y);
    s.sample_step = 70; /* x ends at 70 + 60 */
    check_refused(LK_EOVERLAP, "y [2][4] overlaps", &s, x, x + 129);
    ASSERT_OK(lk_reduce_box(LK_F32, LK_REDUCE_AXIS_SUM, &s, x, x + 130));
    s = good;
    s.n[1] = -3;
    check_refused(LK_EINVAL, "x [2][1][-3][5][4] has a negative size", &s, x, y);
    s = good;
    s.piece = -1;
    check_refused(LK_EINVAL, "pieces of -1 samples", &s, x, y);
    s = good;
    s.step[2] = -4;
    check_refused(LK_EINVAL, "negative step: 0 between samples, 0, 0 and -4", &s, x, y);
    s.step[2] = 3;
    check_refused(LK_ESHAPE, "step[2] is 3, but what lies within one step takes 4", &s, x, y);
    s = good;
    s.step[1] = 19;
    check_refused(LK_ESHAPE, "step[1] is 19, but what lies within one step takes 20", &s, x, y);
    s = good;
    s.sample_step = 59;
    check_refused(LK_ESHAPE, "sample_step is 59, but one sample takes 60", &s, x, y);
    s.sample_step = INT64_MAX / 2;
    check_refused(LK_EOVERFLOW, "x has 2 samples of 60 elements", &s, x, y);
    s = good;
    s.n[0] = s.n[1] = (int64_t)1 << 31;
    check_refused(LK_EOVERFLOW, "x has 2147483648 positions along n[0]", &s, x, y);
    s = (lk_reduce_box_shape){.samples = INT64_MAX, .n = {0, 1, 1}, .channels = 4, .piece = 1};
    check_refused(LK_EOVERFLOW, "y [9223372036854775807][4]", &s, x, y);
}

TEST(a_thread_that_rounds_otherwise_is_refused)
{
    float x[1] = {1}, y[1] = {0};
    lk_reduce_box_shape s = {.samples = 1, .n = {1, 1, 1}, .channels = 1};
    fesetround(FE_UPWARD);
    lk_status st = lk_reduce_box(LK_F32, LK_REDUCE_AXIS_SUM, &s, x, y);
    fesetround(FE_TONEAREST);
    ASSERT_EQ(st, LK_EFPENV);
}

TEST(nothing_is_allocated)
{
    static float x[100000], y[1000];
    int64_t calls = lk_alloc_stats_now().calls;
    ASSERT_OK(lk_threads_set(3));
    lk_reduce_box_shape s = {
        .samples = 4, .n = {5, 10, 10}, .channels = 30, .step = {0, 330, 0}, .piece = 3};
    ASSERT_OK(lk_reduce_box(LK_F32, LK_REDUCE_AXIS_SUM, &s, x, y));
    ASSERT_EQ(lk_alloc_stats_now().calls, calls);
}
