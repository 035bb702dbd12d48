/* The table of `lockstep bench ops`; ops.h says how to read a row.  An op that has none fails a test. */
#include "bench/ops/ops.h"

#include <lockstep/ops.h>

#define ATTR(type, ...) (&(const type){__VA_ARGS__})

/* Element-wise ops: arrays that stay in the second-level cache, and 4 MiB each.  `in` is the list of inputs
 * with the size in place of N. */
#define SMALL "16384"
#define LARGE "1048576"
#define MAP1(op, mark, attr, torch, backward)                   \
    {op, "16K", SMALL mark, attr, torch, "ay", backward, 0, 0}, \
    {                                                           \
        op, "1M", LARGE mark, attr, torch, "ay", backward, 0, 0 \
    }
#define MAP2(op, mark_a, mark_b, torch, backward)                                   \
    {op, "16K", SMALL mark_a " " SMALL mark_b, NULL, torch, "aby", backward, 0, 0}, \
    {                                                                               \
        op, "1M", LARGE mark_a " " LARGE mark_b, NULL, torch, "aby", backward, 0, 0 \
    }

/* One op at two sizes, the same otherwise. */
#define TWO(op, small, large, attr, torch, forward, backward) \
    {op, NULL, small, attr, torch, forward, backward, 0, 0},  \
    {                                                         \
        op, NULL, large, attr, torch, forward, backward, 0, 0 \
    }

#define POOL ATTR(lk_pool_attr, .window = {.ndim = 2, .kernel = {2, 2}, .stride = {2, 2}})
#define RELU_POOL \
    ATTR(lk_pool_attr, .window = {.ndim = 2, .kernel = {2, 2}, .stride = {2, 2}}, .relu = true)
#define PADDED .window = {.kernel = {3, 3}, .pad_lo = {1, 1}, .pad_hi = {1, 1}}
#define AXIS(i) ATTR(lk_axes, .n = 1, .axis = {i})
#define LAST ATTR(lk_softmax_attr, LK_LAST_AXIS)

/* Multiply-adds count twice. */
#define PRODUCT(m, n, k) (2.0 * (m) * (n) * (k))

const bench_op bench_op_cases[] = {
    /* functions */
    MAP1("abs", "", NULL, "torch.abs(a)", "yaa"),
    MAP1("affine", "", ATTR(lk_affine_attr, 1.5, 0.25), "a * 1.5 + 0.25", "ya"),
    MAP1("clip", "", ATTR(lk_clip_attr, -1, 1), "torch.clamp(a, -1, 1)", "yaa"),
    MAP1("cos", "", NULL, "torch.cos(a)", "yaa"),
    MAP1("elu", "", ATTR(lk_elu_attr, 1), "F.elu(a)", "yya"),
    MAP1("erf", "", NULL, "torch.erf(a)", "yaa"),
    MAP1("exp", "", NULL, "torch.exp(a)", "yya"),
    MAP1("gelu", "", NULL, "F.gelu(a)", "yaa"),
    MAP1("leaky_relu", "", ATTR(lk_leaky_relu_attr, 0.01), "F.leaky_relu(a)", "yaa"),
    MAP1("log", "+", NULL, "torch.log(a)", "yaa"),
    MAP1("neg", "", NULL, "-a", "ya"),
    MAP1("pow_scalar", "+", ATTR(lk_pow_scalar_attr, 1.5), "a ** 1.5", "yaa"),
    MAP1("relu", "", NULL, "F.relu(a)", "yya"),
    MAP1("sigmoid", "", NULL, "torch.sigmoid(a)", "yya"),
    MAP1("sin", "", NULL, "torch.sin(a)", "yaa"),
    MAP1("softplus", "", NULL, "F.softplus(a)", "yaa"),
    MAP1("sqrt", "+", NULL, "torch.sqrt(a)", "yya"),
    MAP1("square", "", NULL, "torch.square(a)", "yaa"),
    MAP1("tanh", "", NULL, "torch.tanh(a)", "yya"),

    /* arithmetic */
    MAP2("add", "", "", "a + b", "yab"),
    {"add", "1024x1024+1024", "1024x1024 1024", NULL, "a + b", "aby", "yab", 0, 0},
    {"add_act", "16K", SMALL " " SMALL, ATTR(lk_add_act_attr, LK_ACT_RELU), "F.relu(a + b)", "aby",
     "yyab", 0, 0},
    {"add_act", "1M", LARGE " " LARGE, ATTR(lk_add_act_attr, LK_ACT_RELU), "F.relu(a + b)", "aby",
     "yyab", 0, 0},
    MAP2("div", "", "+", "a / b", "yabab"),
    MAP2("maximum", "", "", "torch.maximum(a, b)", "yabab"),
    MAP2("minimum", "", "", "torch.minimum(a, b)", "yabab"),
    MAP2("mul", "", "", "a * b", "yabab"),
    {"mul", "1024x1024*1024", "1024x1024 1024", NULL, "a * b", "aby", "yabab", 0, 0},
    MAP2("pow", "+", "", "a ** b", "yabyab"),
    MAP2("sub", "", "", "a - b", "yab"),
    {"where", "16K", SMALL "m " SMALL " " SMALL, NULL, "torch.where(a, b, c)", "abcy", "yabc", 0,
     0},
    {"where", "1M", LARGE "m " LARGE " " LARGE, NULL, "torch.where(a, b, c)", "abcy", "yabc", 0, 0},
    TWO("bias", "128x128 128", "1024x1024 1024", NULL, "a + b", "aby", "yab"),

    /* shapes and elements */
    MAP1("cast", "", ATTR(lk_cast_attr, LK_F64), "a.double()", "ya"),
    MAP1("copy", "", NULL, "a.clone()", "ya"),
    {"reshape", NULL, "2048x2048", &LK_SHAPE(4194304), "a.reshape(-1)", "", "ya", 0, 0},
    {"stop_gradient", NULL, "2048x2048", NULL, "a.detach()", "", "", 0, 0},
    {"broadcast", "copy 1024-1024x1024", "1024", &LK_SHAPE(1024, 1024),
     "a.expand(1024, 1024).clone()", "ay", "ya", 0, BENCH_OP_COPIED},
    {"transpose", "copy 128x128", "128x128", ATTR(lk_transpose_attr, {1, 0}), "a.t().contiguous()",
     "ay", "ya", 0, BENCH_OP_COPIED},
    {"transpose", "copy 2048x2048", "2048x2048", ATTR(lk_transpose_attr, {1, 0}),
     "a.t().contiguous()", "ay", "ya", 0, BENCH_OP_COPIED},
    {"slice", NULL, "2048x2048", ATTR(lk_slice_attr, .axis = 1, .start = 512, .stop = 1536),
     "a[:, 512:1536]", "", "ya", 0, 0},
    TWO("concat", "128x64 128x64", "2048x1024 2048x1024", ATTR(lk_concat_attr, 1),
        "torch.cat((a, b), 1)", "aby", "yab"),
    TWO("stack", "128x64 128x64", "2048x1024 2048x1024", ATTR(lk_concat_attr, 0),
        "torch.stack((a, b))", "aby", "yab"),
    TWO("pad", "2x32x32x8", "32x56x56x32",
        ATTR(lk_pad_attr, .before = {0, 1, 1}, .after = {0, 1, 1}), "F.pad(a, (0, 0, 1, 1, 1, 1))",
        "ay", "ya"),
    TWO("gather_index", "256x64 512i256", "50000x64 8192i50000", ATTR(lk_index_attr, .axis = 0),
        "torch.index_select(a, 0, b)", "byy", "bya"),
    {"scatter_index", NULL, "512x64 512i256", ATTR(lk_index_attr, .size = 256),
     "torch.zeros(256, 64).index_add(0, b, a)", "aby", "bya", 0, 0},
    {"scatter_index", NULL, "8192x64 8192i50000", ATTR(lk_index_attr, .size = 50000),
     "torch.zeros(50000, 64).index_add(0, b, a)", "aby", "bya", 0, 0},
    TWO("embedding", "256x64 512i256", "50000x64 8192i50000", NULL, "F.embedding(b, a)", "byy",
        "bya"),

    /* reductions */
    {"sum", "all 2048x2048", "2048x2048", NULL, "a.sum()", "ay", "ya", 0, 0},
    {"sum", "axis 0 128x128", "128x128", AXIS(0), "a.sum(0)", "ay", "ya", 0, 0},
    {"sum", "axis 0 2048x2048", "2048x2048", AXIS(0), "a.sum(0)", "ay", "ya", 0, 0},
    {"sum", "axis 1 128x128", "128x128", AXIS(1), "a.sum(1)", "ay", "ya", 0, 0},
    {"sum", "axis 1 2048x2048", "2048x2048", AXIS(1), "a.sum(1)", "ay", "ya", 0, 0},
    {"sum_to", "2048x2048-2048", "2048x2048", &LK_SHAPE(2048), "a.sum_to_size(2048)", "ay", "ya", 0,
     0},
    TWO("mean", "128x128", "2048x2048", AXIS(1), "a.mean(1)", "ay", "ya"),
    TWO("max", "128x128", "2048x2048", AXIS(1), "torch.max(a, 1)[0]", "ay", "ya"),
    TWO("min", "128x128", "2048x2048", AXIS(1), "torch.min(a, 1)[0]", "ay", "ya"),
    TWO("prod", "1024x16+", "131072x16+", AXIS(1), "a.prod(1)", "ay", "yyaa"),
    TWO("norm", "128x128", "2048x2048", AXIS(1), "torch.linalg.vector_norm(a, dim=1)", "ay",
        "yyaa"),
    TWO("argmax", "128x128", "2048x2048", AXIS(1), "torch.argmax(a, 1)", "ay", ""),

    /* products */
    {"matmul", "256", "256x256 256x256", NULL, "a @ b", "aby", "yabab", PRODUCT(256, 256, 256), 0},
    {"matmul", "2048", "2048x2048 2048x2048", NULL, "a @ b", "aby", "yabab",
     PRODUCT(2048, 2048, 2048), 0},
    {"matmul", "64 of 128x64x128", "64x128x64 64x64x128", NULL, "a @ b", "aby", "yabab",
     PRODUCT(64 * 128, 128, 64), 0},
    {"linear", "784-1000 b128", "128x784 784x1000t 1000", NULL, "F.linear(a, b, c)", "abcy",
     "yababc", PRODUCT(128, 1000, 784), 0},
    {"linear", "1000-10 b128", "128x1000 1000x10t 10", NULL, "F.linear(a, b, c)", "abcy", "yababc",
     PRODUCT(128, 10, 1000), 0},
    {"linear", "784-1000 b128 relu", "128x784 784x1000t 1000", ATTR(lk_linear_attr, LK_ACT_RELU),
     "F.relu(F.linear(a, b, c))", "abcy", "yyababc", PRODUCT(128, 1000, 784), 0},
    {"linear_weights", "784-1000 b128", "128x784 128x1000", NULL, "a.t() @ b", "aby", "yabab",
     PRODUCT(784, 1000, 128), 0},
    {"rnn", "64x128 b32", "32x64x128 128x128 32x128", NULL, NULL, "abcy", "yyababc",
     PRODUCT(32 * 64, 128, 128), 0},
    {"gru", "64x128 b32", "32x64x384 128x384 32x128 128", NULL, NULL, "abcdy", "yyababcd",
     PRODUCT(32 * 64, 384, 128), 0},
    {"lstm", "64x128 b32", "32x64x512 128x512 32x128 32x128", NULL, NULL, "abcdy", "yyababcd",
     PRODUCT(32 * 64, 512, 128), 0},
    {"conv", "32x32x32-32 b16", "16x32x32x32n 3x3x32x32w 32", ATTR(lk_conv_attr, PADDED),
     "F.conv2d(a, b, c, padding=1)", "abcy", "yababc", PRODUCT(16 * 32 * 32, 32, 9 * 32), 0},
    {"conv", "32x32x32-32 b16 relu", "16x32x32x32n 3x3x32x32w 32",
     ATTR(lk_conv_attr, PADDED, .act = LK_ACT_RELU), "F.relu(F.conv2d(a, b, c, padding=1))", "abcy",
     "yyababc", PRODUCT(16 * 32 * 32, 32, 9 * 32), 0},
    {"conv_transpose", "16x16x64-32 b16", "16x16x16x64n 2x2x32x64w 32",
     ATTR(lk_conv_attr, .window.stride = {2, 2}), "F.conv_transpose2d(a, b, c, 2)", "abcy",
     "yababc", PRODUCT(16 * 16 * 16, 32, 4 * 64), 0},
    {"conv_weights", "32x32x32-32 b16", "16x32x32x32n 16x32x32x32n", ATTR(lk_conv_attr, PADDED),
     "torch.nn.grad.conv2d_weight(a, (32, 32, 3, 3), b, padding=1).permute(2, 3, 1, 0)", "aby",
     "yabab", PRODUCT(16 * 32 * 32, 32, 9 * 32), 0},
    {"local_conv", "16x16x16-16 b16", "16x16x16x16 14x14x3x3x16x16", NULL, NULL, "aby", "yabab",
     PRODUCT(16 * 14 * 14, 16, 9 * 16), 0},
    {"local_conv_transpose", "14x14x16-16 b16", "16x14x14x16 14x14x3x3x16x16", NULL, NULL, "aby",
     "yabab", PRODUCT(16 * 14 * 14, 16, 9 * 16), 0},
    {"local_conv_weights", "16x16x16-16 b16", "16x16x16x16 16x14x14x16",
     ATTR(lk_conv_attr, .window.kernel = {3, 3}), NULL, "aby", "yabab",
     PRODUCT(16 * 14 * 14, 16, 9 * 16), 0},

    /* pooling */
    TWO("avg_pool", "2x16x16x32n", "32x32x32x64n", POOL, "F.avg_pool2d(a, 2)", "ay", "ya"),
    TWO("max_pool", "2x16x16x32n", "32x32x32x64n", POOL, "F.max_pool2d(a, 2)", "ay", "ya"),
    {"max_pool", "2x16x16x32 relu", "2x16x16x32n", RELU_POOL, "F.max_pool2d(F.relu(a), 2)", "ay",
     "ya", 0, 0},
    {"max_pool", "32x32x32x64 relu", "32x32x32x64n", RELU_POOL, "F.max_pool2d(F.relu(a), 2)", "ay",
     "ya", 0, 0},
    TWO("l2_pool", "2x16x16x32n", "32x32x32x64n", POOL, "F.lp_pool2d(a, 2, 2)", "ay", "yyaa"),

    /* normalisation and dropout */
    TWO("layer_norm", "64x256 256 256", "2048x512 512 512", NULL, "F.layer_norm(a, b.shape, b, c)",
        "abcy", "yababc"),
    {"layer_norm", NULL, "8192x64 64 64", NULL, "F.layer_norm(a, b.shape, b, c)", "abcy", "yababc",
     0, 0},
    TWO("batch_norm", "2x16x16x32n 32 32", "32x32x32x64n 64 64", NULL,
        "F.batch_norm(a, None, None, b, c, True)", "aabcy", "yabyabac"),
    {"batch_norm", "32x32x32x64 relu", "32x32x32x64n 64 64",
     ATTR(lk_batch_norm_attr, .act = LK_ACT_RELU),
     "F.relu(F.batch_norm(a, None, None, b, c, True))", "aabcy", "yabyabac", 0, 0},
    TWO("batch_norm_inference", "2x16x16x32n 32 32 32c 32+c", "32x32x32x64n 64 64 64c 64+c", NULL,
        "F.batch_norm(a, d, e, b, c, False)", "abcdey", "yabdeabc"),
    {"lcn", NULL, "8x32x32x3", ATTR(lk_lcn_attr, {5, 5}), NULL, "ay", "yaa", 0, 0},
    {"dropout", "16K", "128x128", ATTR(lk_dropout_attr, .stream = {{1, 2}}, .keep = 0.5),
     "F.dropout(a, 0.5)", "ay", "ya", 0, BENCH_OP_RANDOM},
    {"dropout", "1M", "1024x1024", ATTR(lk_dropout_attr, .stream = {{1, 2}}, .keep = 0.5),
     "F.dropout(a, 0.5)", "ay", "ya", 0, BENCH_OP_RANDOM},
    {"dropout", "1M and sum", "1024x1024 1024x1024",
     ATTR(lk_dropout_attr, .stream = {{1, 2}}, .keep = 0.5), "a + F.dropout(b, 0.5)", "aby", "yab",
     0, BENCH_OP_RANDOM},

    /* softmax and losses */
    TWO("softmax", "128x128", "2048x2048", LAST, "a.softmax(-1)", "ay", "yya"),
    {"softmax", NULL, "64x50000", LAST, "a.softmax(-1)", "ay", "yya", 0, 0},
    TWO("log_softmax", "128x128", "2048x2048", LAST, "a.log_softmax(-1)", "ay", "yya"),
    TWO("softmax_cross_entropy", "128x10 128i10", "2048x1000 2048i1000", NULL,
        "F.cross_entropy(a, b)", "aby", "aba"),
    {"softmax_cross_entropy", NULL, "64x50000 64i50000", NULL, "F.cross_entropy(a, b)", "aby",
     "aba", 0, 0},
    MAP2("logistic_cross_entropy", "", "c", "F.binary_cross_entropy_with_logits(a, b)", "aba"),
    MAP2("mean_squared_error", "", "c", "F.mse_loss(a, b)", "aba"),
    MAP2("sum_squared_error", "", "c", "0.5 * F.mse_loss(a, b, reduction='sum')", "aba"),
    {.op = NULL},
};
