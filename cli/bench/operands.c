/* Operands: random numbers, and room for the results. */
#include "bench/operands.h"

#include <lockstep/extra/alloc.h>

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
