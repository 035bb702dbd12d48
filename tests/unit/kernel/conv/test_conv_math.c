/* What convolution computes: error bounds, starts, and the transposed convolution. */
#include "conv_cases.h"

#include <lockstep/thread.h>

/* A chain of n roundings is off by n u of the sum of absolute products, and a little more. */
TEST(errors_stay_within_the_bound_of_the_chain)
{
    for (int i = 0; i < N_CONV_CASES; i++) {
        lk_conv_shape s = lk__ref_conv_shape(&conv_cases[i].s);
        s.dtype = LK_F32;
        int64_t ny = lk__ref_conv_extent(&s, true), nw = lk__ref_conv_weights(&s);
        float *x = real_new(LK_F32, lk__ref_conv_extent(&s, false), 1, false),
              *w = real_new(LK_F32, nw, 2, false);
        float *y = real_new(LK_F32, ny, 3, false), *want = real_new(LK_F32, ny, 3, false);
        lk__ref_value *exact = calloc((size_t)ny + 1, sizeof *exact);
        ASSERT_TRUE(exact);
        for (int64_t k = 0; k < ny; k++)
            exact[k].hi = (double)y[k]; /* what is beside the outputs stays */
        ASSERT_OK(lk__ref_conv_forward(&s, x, w, NULL, LK_ACT_NONE, want, exact));
        lk_conv_plan *plan;
        ASSERT_OK(lk_conv_plan_new(&s, &plan));
        ASSERT_OK(lk_conv_forward(plan, x, w, NULL, LK_ACT_NONE, y));
        lk_conv_plan_free(plan);
        for (int64_t k = 0; k < ny; k++)
            if (!(fabs(((double)y[k] - exact[k].hi) - exact[k].lo) <= exact[k].bound))
                TEST_FAIL("%s: output %lld is %.9g, exactly %.9g", conv_cases[i].name, (long long)k,
                          (double)y[k], exact[k].hi);
        void *all[] = {x, w, y, want, exact};
        for (size_t k = 0; k < sizeof all / sizeof all[0]; k++)
            free(all[k]);
    }
}

/* With threads, blocks of channels and not whole rows are activated. */
TEST(an_activation_is_the_map_of_the_finished_output)
{
    static const lk_map1_op op[LK_N_ACTS] = {LK_MAP1_COPY, LK_MAP1_RELU, LK_MAP1_SIGMOID,
                                             LK_MAP1_TANH, LK_MAP1_GELU};
    lk_conv_shape s = lk__ref_conv_shape(&conv_cases[1].s);
    s.dtype = LK_F32;
    int64_t ny = lk__ref_conv_extent(&s, true);
    float *x = real_new(LK_F32, lk__ref_conv_extent(&s, false), 1, false);
    float *w = real_new(LK_F32, lk__ref_conv_weights(&s), 2, false);
    float *bias = real_new(LK_F32, s.out_channels, 3, false);
    float *got = real_new(LK_F32, ny, 4, false), *want = real_new(LK_F32, ny, 5, false);
    lk_conv_plan *plan;
    ASSERT_OK(lk_conv_plan_new(&s, &plan));
    for (int threads = 1; threads <= 4; threads++)
        for (int act = 0; act < LK_N_ACTS; act++) {
            ASSERT_OK(lk_threads_set(threads));
            ASSERT_OK(lk_conv_forward(plan, x, w, bias, LK_ACT_NONE, want));
            ASSERT_OK(lk_map1(LK_F32, op[act], 0, ny, want, want));
            ASSERT_OK(lk_conv_forward(plan, x, w, bias, (lk_act)act, got));
            ASSERT_TRUE(memcmp(got, want, (size_t)ny * sizeof *got) == 0);
        }
    lk_conv_plan_free(plan);
    void *all[] = {x, w, bias, got, want};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i]);
}

TEST(outputs_without_a_valid_tap_are_the_start)
{
    lk_conv_shape s = {.dtype = LK_F32,
                       .window.ndim = 1,
                       .batch = 1,
                       .in_channels = 1,
                       .out_channels = 2,
                       .in = {2},
                       .out = {5},
                       .window.kernel = {1},
                       .window.stride = {3},
                       .window.pad_lo = {3}};
    const float x[2] = {10, 20}, w[2] = {2, 4}, bias[2] = {-0.0F, 5}, one[1] = {7};
    const float want[10] = {-0.0F, 5, 20, 45, -0.0F, 5, -0.0F, 5, -0.0F, 5};
    const float dy[10] = {9, 9, 1, 2, 9, 9, 9, 9, 9, 9};
    const float want_bias[2] = {7 + 10, 7}, want_sum[2] = {1 + 10, -0.0F};
    float y[10], dx[2] = {1, -0.0F};
    lk_conv_plan *plan;
    ASSERT_OK(lk_conv_plan_new(&s, &plan));
    ASSERT_OK(lk_conv_forward(plan, x, w, bias, LK_ACT_NONE, y));
    ASSERT_TRUE(memcmp(y, want, sizeof y) == 0);
    ASSERT_OK(lk_conv_backward_data(plan, dy, w, NULL, true, dx));
    ASSERT_TRUE(memcmp(dx, want_sum, sizeof dx) == 0);
    ASSERT_OK(lk_conv_backward_data(plan, dy, w, one, false, dx));
    ASSERT_TRUE(memcmp(dx, want_bias, sizeof dx) == 0);
    lk_conv_plan_free(plan);
}

/* The transposed convolution of u [5][4][3] by kernel 4, stride 2, pad 1: v [10][8][6]. */
enum { UH = 5, UW = 4, UC = 3, VH = 10, VW = 8, VC = 6, K = 4 };

static const lk_conv_shape transposed = {.dtype = LK_F32,
                                         .window.ndim = 2,
                                         .batch = 1,
                                         .in_channels = VC,
                                         .out_channels = UC,
                                         .in = {VH, VW},
                                         .out = {UH, UW},
                                         .window.kernel = {K, K},
                                         .window.stride = {2, 2},
                                         .window.pad_lo = {1, 1}};

TEST(backward_data_is_a_transposed_convolution)
{
    float *u = real_new(LK_F32, UH * UW * UC, 1, false),
          *w = real_new(LK_F32, K * K * VC * UC, 2, false);
    float *bias = real_new(LK_F32, VC, 3, false), *v = real_new(LK_F32, VH * VW * VC, 4, false);
    float want[VH * VW * VC];
    for (int r = 0; r < VH; r++)
        for (int c = 0; c < VW; c++)
            for (int k = 0; k < VC; k++) {
                float acc = bias[k];
                for (int i = 0; i < UH; i++)
                    for (int j = 0; j < UW; j++) {
                        int tr = r + 1 - 2 * i, tc = c + 1 - 2 * j;
                        if (tr < 0 || tr >= K || tc < 0 || tc >= K)
                            continue;
                        for (int q = 0; q < UC; q++)
                            acc = fmaf(u[(i * UW + j) * UC + q],
                                       w[((tr * K + tc) * VC + k) * UC + q], acc);
                    }
                want[(r * VW + c) * VC + k] = acc;
            }
    lk_conv_plan *plan;
    ASSERT_OK(lk_conv_plan_new(&transposed, &plan));
    ASSERT_OK(lk_conv_backward_data(plan, u, w, bias, false, v));
    ASSERT_TRUE(memcmp(v, want, sizeof want) == 0);
    lk_conv_plan_free(plan);
    free(u);
    free(w);
    free(bias);
    free(v);
}

/* <T u, g> = <u, T* g> for the transposed convolution T and its backward-data pass T*. */
TEST(forward_is_the_adjoint_of_the_transposed_convolution)
{
    float *u = real_new(LK_F32, UH * UW * UC, 1, false),
          *w = real_new(LK_F32, K * K * VC * UC, 2, false);
    float *g = real_new(LK_F32, VH * VW * VC, 3, false), v[VH * VW * VC], du[UH * UW * UC];
    lk_conv_plan *plan;
    ASSERT_OK(lk_conv_plan_new(&transposed, &plan));
    ASSERT_OK(lk_conv_backward_data(plan, u, w, NULL, false, v));
    ASSERT_OK(lk_conv_forward(plan, g, w, NULL, LK_ACT_NONE, du));
    double left = 0, right = 0;
    for (int i = 0; i < VH * VW * VC; i++)
        left += (double)v[i] * (double)g[i];
    for (int i = 0; i < UH * UW * UC; i++)
        right += (double)u[i] * (double)du[i];
    ASSERT_NEAR(left, right, 1e-4);
    ASSERT_TRUE(fabs(left) > 1);
    lk_conv_plan_free(plan);
    free(u);
    free(w);
    free(g);
}
