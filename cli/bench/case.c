/* Layers of three networks: a perceptron for handwritten digits, a small convolutional network on
 * 32x32 images, and a residual network on 224x224 ones. */
#include "bench/case.h"

#include <stdio.h>

/* Samples per piece of a linear layer's weight gradient. */
enum { LINEAR_PIECE = 16 };

static const struct {
    int in, out, rows;
} linears[] = {
    {784, 1000, 1},    {784, 1000, 16}, {784, 1000, 100}, {1000, 1000, 1}, {1000, 1000, 16},
    {1000, 1000, 100}, {1000, 10, 1},   {1000, 10, 16},   {1000, 10, 100},
};

/* The first N_WINOGRAD are measured by Winograd's algorithm too. */
static const struct {
    int size, in, out, kernel, stride, batch;
} convs[] = {
    {32, 3, 32, 3, 1, 32},    {32, 3, 32, 3, 1, 128},  {32, 32, 32, 3, 1, 32},
    {32, 32, 32, 3, 1, 128},  {16, 32, 64, 3, 1, 32},  {16, 32, 64, 3, 1, 128},
    {16, 64, 64, 3, 1, 32},   {16, 64, 64, 3, 1, 128}, {56, 64, 64, 3, 1, 8},
    {28, 128, 128, 3, 1, 8},  {14, 256, 256, 3, 1, 8}, {56, 64, 256, 1, 1, 8},
    {14, 1024, 256, 1, 1, 8}, {56, 64, 128, 3, 2, 8},  {28, 128, 256, 3, 2, 8},
};

enum {
    N_LINEARS = sizeof linears / sizeof linears[0],
    N_CONVS = sizeof convs / sizeof convs[0],
    N_WINOGRAD = 11,
    N_DIRECT_CASES = (N_LINEARS + N_CONVS) * LK_N_PEER_PASSES,
    N_WINOGRAD_PASSES = 2, /* forward and backward-data: weight gradients are direct */
};

const char *bench_pass_name(lk__peer_pass pass)
{
    static const char *const names[LK_N_PEER_PASSES] = {"forward", "backward-data",
                                                        "backward-weights"};
    return names[pass];
}

const char *bench_group_name(bench_group group)
{
    static const char *const names[BENCH_N_GROUPS] = {"linear, 1 row", "linear, 16 rows and more",
                                                      "conv", "conv winograd"};
    return names[group];
}

int bench_n_cases(void)
{
    return N_DIRECT_CASES + N_WINOGRAD * N_WINOGRAD_PASSES;
}

static void get_linear(int i, bench_case *c)
{
    int64_t rows = linears[i].rows, in = linears[i].in, out = linears[i].out;
    c->group = rows == 1 ? BENCH_LINEAR_ONE : BENCH_LINEAR;
    c->flop = 2.0 * (double)rows * (double)in * (double)out;
    snprintf(c->name, sizeof c->name, "linear %d-%d b%d %s", linears[i].in, linears[i].out,
             linears[i].rows, bench_pass_name(c->pass));
    switch (c->pass) {
    case LK_PEER_FORWARD:
        c->gemm = (lk_gemm){.m = rows, .n = out, .k = in, .lda = in, .ldb = out, .ldc = out};
        break;
    case LK_PEER_BACKWARD_DATA:
        c->gemm = (lk_gemm){.m = rows, .n = in, .k = out, .lda = out, .ldb = out, .ldc = in};
        c->gemm.trans_b = true;
        break;
    default:
        c->gemm = (lk_gemm){.m = in, .n = out, .k = rows, .lda = in, .ldb = out, .ldc = out};
        c->gemm.trans_a = true;
        c->gemm.piece = LINEAR_PIECE;
        break;
    }
}

static void get_conv(int i, bench_group group, bench_case *c)
{
    int size = convs[i].size, kernel = convs[i].kernel, stride = convs[i].stride;
    int pad = kernel / 2, out = (size + 2 * pad - kernel) / stride + 1;
    char with[32] = "";
    if (kernel != 3 || stride != 1)
        snprintf(with, sizeof with, " %dx%d/%d", kernel, kernel, stride);
    snprintf(c->name, sizeof c->name, "%s %dx%dx%d-%d%s b%d %s", bench_group_name(group), size,
             size, convs[i].in, convs[i].out, with, convs[i].batch, bench_pass_name(c->pass));
    c->group = group;
    c->conv = (lk_conv_shape){.window.ndim = 2,
                              .batch = convs[i].batch,
                              .in_channels = convs[i].in,
                              .out_channels = convs[i].out,
                              .groups = 1,
                              .in = {size, size},
                              .out = {out, out},
                              .window.kernel = {kernel, kernel},
                              .window.stride = {stride, stride},
                              .window.dilation = {1, 1},
                              .window.pad_lo = {pad, pad},
                              .piece = 1,
                              .algorithm = group == BENCH_WINOGRAD ? LK_CONV_WINOGRAD
                                                                   : LK_CONV_DIRECT};
    c->flop = 2.0 * convs[i].batch * out * out * (double)convs[i].out * kernel * kernel *
              convs[i].in;
}

void bench_case_get(int i, bench_case *c)
{
    *c = (bench_case){.pass = (lk__peer_pass)(i % LK_N_PEER_PASSES)};
    if (i >= N_DIRECT_CASES) {
        i -= N_DIRECT_CASES;
        c->pass = i % N_WINOGRAD_PASSES ? LK_PEER_BACKWARD_DATA : LK_PEER_FORWARD;
        get_conv(i / N_WINOGRAD_PASSES, BENCH_WINOGRAD, c);
        return;
    }
    int layer = i / LK_N_PEER_PASSES;
    if (layer < N_LINEARS)
        get_linear(layer, c);
    else
        get_conv(layer - N_LINEARS, BENCH_CONV, c);
}
