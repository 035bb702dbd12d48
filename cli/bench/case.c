/* Layers of four networks: a perceptron for handwritten digits, a small convolutional network and
 * ResNet-20 on 32x32 images, and a residual network on 224x224 ones; operands of random numbers, and room for the
 * results. */
#include "bench/case.h"

#include <lockstep/extra/alloc.h>

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
    {28, 128, 128, 3, 1, 8},  {14, 256, 256, 3, 1, 8}, {32, 16, 16, 3, 1, 128},
    {16, 32, 32, 3, 1, 128},  {8, 64, 64, 3, 1, 128},  {56, 64, 256, 1, 1, 8},
    {14, 1024, 256, 1, 1, 8}, {56, 64, 128, 3, 2, 8},  {28, 128, 256, 3, 2, 8},
    {32, 16, 32, 3, 2, 128},
};

enum {
    N_LINEARS = sizeof linears / sizeof linears[0],
    N_CONVS = sizeof convs / sizeof convs[0],
    N_WINOGRAD = 14,
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

/* ---- operands ---- */

static lk_status random_array(lk_dtype dtype, int64_t n, uint32_t seed, void **out)
{
    LK_TRY(lk_alloc(out, n, lk_dtype_size(dtype)));
    uint64_t state = seed;
    for (int64_t i = 0; i < n; i++) {
        state = state * 6364136223846793005U + 1442695040888963407U;
        double v = (double)(state >> 33) * 0x1p-30 - 1;
        if (dtype == LK_F32)
            ((float *)*out)[i] = (float)v;
        else
            ((double *)*out)[i] = v;
    }
    return LK_OK;
}

static lk_status fill_gemm(bench_operands *o)
{
    const lk_gemm *g = &o->c->gemm;
    LK_TRY(random_array(g->dtype, g->m * g->k, 1, &o->first));
    LK_TRY(random_array(g->dtype, g->k * g->n, 2, &o->second));
    o->n_out = g->m * g->n;
    return LK_OK;
}

static lk_status fill_conv(bench_operands *o)
{
    const lk_conv_shape *s = &o->c->conv;
    int64_t nx = s->batch * s->in[0] * s->in[1] * s->in_channels;
    int64_t ny = s->batch * s->out[0] * s->out[1] * s->out_channels;
    int64_t nw = s->window.kernel[0] * s->window.kernel[1] * s->in_channels * s->out_channels;
    bool forward = o->c->pass == LK_PEER_FORWARD, data = o->c->pass == LK_PEER_BACKWARD_DATA;
    LK_TRY(random_array(s->dtype, data ? ny : nx, 1, &o->first));
    LK_TRY(random_array(s->dtype, forward || data ? nw : ny, 2, &o->second));
    LK_TRY(random_array(s->dtype, s->out_channels, 3, &o->bias));
    o->n_out = forward ? ny : data ? nx : nw;
    return LK_TRACE(lk_conv_plan_new(s, &o->plan));
}

lk_status bench_operands_fill(bench_operands *o, const bench_case *c, int n_out)
{
    o->c = c;
    if (bench_is_conv(o->c))
        LK_TRY(fill_conv(o));
    else
        LK_TRY(fill_gemm(o));
    lk_dtype dtype = bench_is_conv(o->c) ? o->c->conv.dtype : o->c->gemm.dtype;
    for (int i = 0; i < n_out; i++)
        LK_TRY(lk_alloc_zero(&o->out[i], o->n_out, lk_dtype_size(dtype)));
    return LK_OK;
}

void bench_operands_free(bench_operands *o)
{
    lk_conv_plan_free(o->plan);
    lk_free(o->first);
    lk_free(o->second);
    lk_free(o->bias);
    for (int i = 0; i < BENCH_MAX_OUT; i++)
        lk_free(o->out[i]);
}

lk_status bench_operands_run(const bench_operands *o)
{
    if (!bench_is_conv(o->c))
        LK_TRY(lk_gemm_run(&o->c->gemm, o->first, o->second, NULL, o->out[0]));
    else if (o->c->pass == LK_PEER_FORWARD)
        LK_TRY(lk_conv_forward(o->plan, o->first, o->second, o->bias, LK_ACT_NONE, o->out[0]));
    else if (o->c->pass == LK_PEER_BACKWARD_DATA)
        LK_TRY(lk_conv_backward_data(o->plan, o->first, o->second, NULL, false, o->out[0]));
    else
        LK_TRY(lk_conv_backward_weights(o->plan, o->first, o->second, false, o->out[0]));
    return LK_OK;
}
