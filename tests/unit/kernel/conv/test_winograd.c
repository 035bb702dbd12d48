/* Convolution by Winograd's algorithm gives the bits of its definition on every instruction set and
 * number of threads, and however a batch is cut; an image may be cut between tiles. */
#include "conv_bits.h"
#include "kernel/conv/plan.h"
#include "kernel/conv/winograd.h"
#include "winograd_cases.h"

/* Otherwise the tests above would say little. */
TEST(a_plan_follows_the_instruction_set)
{
    for (int v = 0; v < N_VARIANTS; v++) {
        check k = check_new(&wino_cases[0], LK_F32, (variant)v, false);
        for (int isa = 0; isa < LK_N_ISAS; isa++) {
            if (!lk_isa_is_available((lk_isa)isa))
                continue;
            const lk__wino_table *table;
            ASSERT_OK(lk_isa_set((lk_isa)isa));
            ASSERT_OK(lk__wino_get(&table));
            check_run(&k, (lk_isa)isa, 1);
            ASSERT_TRUE((v >= DATA ? k.plan->wino_data : k.plan->wino_forward)->micro ==
                        &table->of[LK_F32]);
        }
        check_free(&k);
    }
}

TEST(f32_follows_the_definition)
{
    check_cases(wino_cases, N_WINO_CASES, LK_F32, false);
}

TEST(f64_follows_the_definition)
{
    check_cases(wino_cases, N_WINO_CASES, LK_F64, false);
}

TEST(zeros_denormals_and_infinities_follow_the_definition)
{
    check_cases(wino_cases, N_WINO_CASES, LK_F32, true);
    check_cases(wino_cases, N_WINO_CASES, LK_F64, true);
}

/* A convolution in f32 with its operands, and one result of each pass. */
typedef struct whole {
    lk_conv_shape s;
    float *x, *w, *y, *dx;
    int64_t nx, ny;
} whole;

static whole whole_new(lk_conv_shape s)
{
    whole o = {.s = lk__ref_conv_shape(&s)};
    o.s.dtype = LK_F32;
    o.nx = lk__ref_conv_extent(&o.s, false);
    o.ny = lk__ref_conv_extent(&o.s, true);
    o.x = real_new(LK_F32, o.nx, 5, false);
    o.w = real_new(LK_F32, lk__ref_conv_weights(&o.s), 6, false);
    o.y = real_new(LK_F32, o.ny, 7, false);
    o.dx = real_new(LK_F32, o.nx, 8, false);
    return o;
}

static void whole_free(whole *o)
{
    free(o->x);
    free(o->y);
    free(o->dx);
    free(o->w);
}

/* Forward from x_at to y_at, then backward data from there to dx at x_at. */
static void run(whole *o, const lk_conv_shape *s, int64_t x_at, int64_t y_at)
{
    lk_conv_plan *plan;
    ASSERT_OK(lk_conv_plan_new(s, &plan));
    ASSERT_OK(lk_conv_forward(plan, o->x + x_at, o->w, NULL, LK_ACT_NONE, o->y + y_at));
    ASSERT_OK(lk_conv_backward_data(plan, o->y + y_at, o->w, NULL, false, o->dx + x_at));
    lk_conv_plan_free(plan);
}

static const lk_conv_shape image = {
    WINO,           .batch = 5,      .in_channels = 7,       .out_channels = 19,
    .in = {11, 13}, .out = {11, 13}, .window.pad_lo = {1, 1}};

TEST(a_batch_in_two_calls_gives_the_same_bits)
{
    for (int64_t first = 1; first < image.batch; first++) {
        whole want = whole_new(image), got = whole_new(image);
        run(&want, &want.s, 0, 0);
        lk_conv_shape s = got.s;
        s.batch = first;
        run(&got, &s, 0, 0);
        s.batch = image.batch - first;
        run(&got, &s, first * s.x_sample, first * s.y_sample);
        ASSERT_TRUE(memcmp(got.y, want.y, (size_t)want.ny * sizeof(float)) == 0);
        ASSERT_TRUE(memcmp(got.dx, want.dx, (size_t)want.nx * sizeof(float)) == 0);
        whole_free(&want);
        whole_free(&got);
    }
}

/* Whether forward in two parts, rows [0, cut) and [cut, ...) of y, has the bits of the whole. */
static bool cut_is_exact(int64_t cut)
{
    whole want = whole_new(image), got = whole_new(image);
    run(&want, &want.s, 0, 0);
    lk_conv_shape s = got.s;
    s.out[0] = cut;
    s.in[0] = cut + 1;
    lk_conv_plan *plan;
    ASSERT_OK(lk_conv_plan_new(&s, &plan));
    ASSERT_OK(lk_conv_forward(plan, got.x, got.w, NULL, LK_ACT_NONE, got.y));
    lk_conv_plan_free(plan);
    s.out[0] = image.out[0] - cut;
    s.in[0] = image.in[0] - (cut - 1);
    s.window.pad_lo[0] = 0;
    ASSERT_OK(lk_conv_plan_new(&s, &plan));
    ASSERT_OK(lk_conv_forward(plan, got.x + (cut - 1) * s.x_step[0], got.w, NULL, LK_ACT_NONE,
                              got.y + cut * s.y_step[0]));
    lk_conv_plan_free(plan);
    bool same = memcmp(got.y, want.y, (size_t)want.ny * sizeof(float)) == 0;
    whole_free(&want);
    whole_free(&got);
    return same;
}

TEST(an_image_cut_between_tiles_gives_the_same_bits)
{
    ASSERT_TRUE(cut_is_exact(4));
    ASSERT_TRUE(cut_is_exact(8));
    ASSERT_TRUE(!cut_is_exact(6)); /* a tile of the whole has become parts of two */
}

TEST(the_weight_gradient_is_the_direct_one)
{
    whole o = whole_new(image);
    int64_t n = lk__ref_conv_weights(&o.s);
    float *dw = malloc((size_t)n * sizeof *dw), *direct = malloc((size_t)n * sizeof *dw);
    run(&o, &o.s, 0, 0);
    for (int i = 0; i < 2; i++) {
        lk_conv_plan *plan;
        o.s.algorithm = i == 0 ? LK_CONV_WINOGRAD : LK_CONV_DIRECT;
        ASSERT_OK(lk_conv_plan_new(&o.s, &plan));
        ASSERT_OK(lk_conv_backward_weights(plan, o.x, o.y, false, i == 0 ? dw : direct));
        lk_conv_plan_free(plan);
    }
    ASSERT_TRUE(memcmp(dw, direct, (size_t)n * sizeof *dw) == 0);
    free(dw);
    free(direct);
    whole_free(&o);
}
