/* Every kernel in a host that traps: none raises a signal, and flags and traps are left alone. */
#include "all_threads.h"
#include "traps.h"
#include "unit/kernel/conv/conv_cases.h"

#include <lockstep/extra/conv.h>
#include <lockstep/extra/gemm.h>
#include <lockstep/extra/half.h>
#include <lockstep/extra/map.h>
#include <lockstep/extra/pool.h>
#include <lockstep/extra/reduce.h>

enum { N = 3 * 8192 + 5 };

static _Alignas(64) double x[N], y[N], z[N], out[N];

/* Inputs may be read as f32 or f64: there is room for both. */
static void inputs_fill(lk_dtype dtype, int sort)
{
    traps_fill(dtype, sort, N, x);
    memcpy(y, x, sizeof y);
    memcpy(z, x, sizeof z);
    memset(out, 0, sizeof out);
    size_t size = lk_dtype_size(dtype);
    memcpy(y, (char *)x + 7 * size, sizeof y - 7 * size); /* not the same number everywhere */
    memcpy(z, (char *)x + 3 * size, sizeof z - 3 * size);
}

static void maps(lk_dtype dtype, int sort)
{
    inputs_fill(dtype, sort);
    for (int op = 0; op < LK_N_MAP1; op++)
        TRAPPING(lk_map1(dtype, (lk_map1_op)op, 1.5, N, x, out), TRAPS_HOW,
                 TRAPS_HOW_OF(lk_map1_name((lk_map1_op)op), dtype, sort));
    for (int op = 0; op < LK_N_MAP2; op++)
        TRAPPING(lk_map2(dtype, (lk_map2_op)op, 1.5, N, x, y, out), TRAPS_HOW,
                 TRAPS_HOW_OF(lk_map2_name((lk_map2_op)op), dtype, sort));
}

static void reductions(lk_dtype dtype, int sort)
{
    static const lk_reduce_axis_shape shape[] = {
        {.outer = 5, .n = 1001, .inner = 1},
        {.outer = 3, .n = 100, .inner = 67, .piece = 16},
        {.outer = 1, .n = 20000, .inner = 1, .piece = 4096}};
    inputs_fill(dtype, sort);
    for (int op = 0; op < LK_N_REDUCE_AXIS_OPS; op++)
        for (int k = 0; k < 3; k++)
            TRAPPING(lk_reduce_axis(dtype, (lk_reduce_axis_op)op, &shape[k], x, out), TRAPS_HOW,
                     TRAPS_HOW_OF(lk_reduce_axis_op_name((lk_reduce_axis_op)op), dtype, sort));
    lk_reduce_box_shape box = {
        .samples = 3, .n = {1, 10, 9}, .channels = 67, .step = {0, 670, 0}, .piece = 2};
    for (int op = 0; op < LK_N_REDUCE_AXIS_OPS; op++)
        TRAPPING(lk_reduce_box(dtype, (lk_reduce_axis_op)op, &box, x, out), TRAPS_HOW,
                 TRAPS_HOW_OF(lk_reduce_axis_op_name((lk_reduce_axis_op)op), dtype, sort));
    lk_rows rows = {.rows = 67, .cols = 37, .ld_x = 37, .ld_y = 37};
    TRAPPING(lk_softmax_rows(dtype, &rows, x, out), TRAPS_HOW,
             TRAPS_HOW_OF("softmax", dtype, sort));
    TRAPPING(lk_log_softmax_rows(dtype, &rows, x, out), TRAPS_HOW,
             TRAPS_HOW_OF("log_softmax", dtype, sort));
    lk_tree *tree;
    ASSERT_OK(lk_tree_new(dtype, N, &tree));
    for (int k = 0; k < 3; k++)
        TRAPPING(lk_tree_push(tree, k % 2 ? y : x), TRAPS_HOW, TRAPS_HOW_OF("tree", dtype, sort));
    TRAPPING(lk_tree_finish(tree, out), TRAPS_HOW, TRAPS_HOW_OF("tree", dtype, sort));
    lk_tree_free(tree);
}

static void products(lk_dtype dtype, int sort)
{
    static const int64_t size[][3] = {{67, 61, 37}, {1, 61, 37}, {67, 1, 37}, {3, 5, 1000}};
    inputs_fill(dtype, sort);
    for (int k = 0; k < 4; k++)
        for (int way = 0; way < 8; way++) {
            const int64_t m = size[k][0], n = size[k][1], depth = size[k][2];
            lk_gemm g = {.dtype = dtype,
                         .trans_a = way & 1,
                         .trans_b = way & 2,
                         .act = way & 4 ? LK_ACT_RELU : LK_ACT_NONE,
                         .piece = way & 4 ? 16 : 0,
                         .m = m,
                         .n = n,
                         .k = depth,
                         .lda = way & 1 ? m : depth,
                         .ldb = way & 2 ? depth : n,
                         .ldc = n};
            TRAPPING(lk_gemm_run(&g, x, y, z, out), TRAPS_HOW, TRAPS_HOW_OF("gemm", dtype, sort));
        }
    lk_gemm g = {.dtype = dtype, .m = 5, .n = 7, .k = 9, .lda = 9, .ldb = 7, .ldc = 7};
    lk_gemm_batch batch = {.count = 50, .stride_a = 45, .stride_b = 63, .stride_c = 35};
    TRAPPING(lk_gemm_run_batched(&g, &batch, x, y, NULL, out), TRAPS_HOW,
             TRAPS_HOW_OF("gemm_batched", dtype, sort));
}

static void convolve(const lk_conv_shape *s, const char *name, int sort)
{
    lk_conv_plan *plan = NULL;
    if (s->algorithm == LK_CONV_WINOGRAD && lk_conv_plan_new(s, &plan) == LK_ESHAPE) {
        lk_error_clear();
        return;
    }
    if (!plan)
        ASSERT_OK(lk_conv_plan_new(s, &plan));
    TRAPPING(lk_conv_forward(plan, x, y, z, LK_ACT_TANH, out), TRAPS_HOW,
             TRAPS_HOW_OF(name, s->dtype, sort));
    TRAPPING(lk_conv_backward_data(plan, x, y, NULL, false, out), TRAPS_HOW,
             TRAPS_HOW_OF(name, s->dtype, sort));
    TRAPPING(lk_conv_backward_weights(plan, x, y, false, out), TRAPS_HOW,
             TRAPS_HOW_OF(name, s->dtype, sort));
    lk_conv_plan_free(plan);
}

static void convolutions(lk_dtype dtype, int sort)
{
    inputs_fill(dtype, sort);
    for (int k = 0; k < N_CONV_CASES; k++) {
        lk_conv_shape s = conv_cases[k].s;
        s.dtype = dtype;
        convolve(&s, conv_cases[k].name, sort);
        s.algorithm = LK_CONV_WINOGRAD;
        convolve(&s, conv_cases[k].name, sort);
    }
}

static void pooling(lk_dtype dtype, int sort)
{
    static int64_t index[N];
    inputs_fill(dtype, sort);
    for (int way = 0; way < 4; way++) { /* windows that overlap, and some that do not */
        lk_pool_shape s = {.dtype = dtype,
                           .window.ndim = 2,
                           .batch = 2,
                           .channels = way & 2 ? 5 : 83,
                           .in = {9, 8},
                           .out = {5, 4},
                           .window.kernel = {way & 1 ? 3 : 2, 2},
                           .window.stride = {2, 2},
                           .window.pad_lo = {1, 0}};
        TRAPPING(lk_pool_max(&s, x, out, index), TRAPS_HOW, TRAPS_HOW_OF("max", dtype, sort));
        TRAPPING(lk_pool_max_backward(&s, y, index, out), TRAPS_HOW,
                 TRAPS_HOW_OF("max, backward", dtype, sort));
        TRAPPING(lk_pool_avg(&s, x, out), TRAPS_HOW, TRAPS_HOW_OF("avg", dtype, sort));
        TRAPPING(lk_pool_avg_backward(&s, y, out), TRAPS_HOW,
                 TRAPS_HOW_OF("avg, backward", dtype, sort));
        TRAPPING(lk_pool_l2(&s, x, y), TRAPS_HOW, TRAPS_HOW_OF("l2", dtype, sort));
        TRAPPING(lk_pool_l2_backward(&s, x, y, z, out), TRAPS_HOW,
                 TRAPS_HOW_OF("l2, backward", dtype, sort));
    }
}

TEST(maps_do_not_trap)
{
    traps_each(maps);
}

TEST(reductions_do_not_trap)
{
    traps_each(reductions);
}

TEST(products_do_not_trap)
{
    traps_each(products);
}

TEST(convolutions_do_not_trap)
{
    traps_each(convolutions);
}

TEST(pooling_does_not_trap)
{
    traps_each(pooling);
}

TEST(halves_do_not_trap)
{
    static uint16_t half[N];
    for (int sort = 0; sort < N_TRAPS_SORTS; sort++) {
        inputs_fill(LK_F32, sort);
        traps_begin("%s numbers to f16 and bf16", traps_sort_name[sort]);
        lk_f16_encode_array(N, (float *)x, half);
        lk_f16_decode_array(N, half, (float *)out);
        lk_bf16_encode_array(N, (float *)x, half);
        lk_bf16_decode_array(N, half, (float *)out);
        traps_end();
    }
}

/* The pool's threads come to be while the host traps, and inherit that. */
TEST(threads_that_begin_in_a_trapping_host_do_not_trap)
{
    inputs_fill(LK_F32, TRAPS_MIXED);
    all_threads_set(3);
    for (int k = 0; k < 20; k++) {
        lk_threads_stop();
        TRAPPING(lk_map2(LK_F32, LK_MAP2_DIV, 0, N, x, y, out), "%s", "a new pool");
    }
    ASSERT_OK(lk_threads_set(0));
}
