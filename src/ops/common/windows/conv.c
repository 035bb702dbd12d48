/* Sizes and plans of convolutions. */
#include "ops/common/windows/conv.h"

#include "ops/common/products.h"
#include "tensor/tensor.h"

lk_status lk__conv_begin(const lk_call *c, const lk_conv_attr *a, int *ndim, int64_t *groups)
{
    const lk_tensor *x = c->x[0];
    *ndim = x->shape.ndim - 2;
    *groups = lk__or_one(a->groups);
    LK_CHECK(lk_dtype_is_real(x->dtype), LK_EDTYPE, "%s of %s: only f32 and f64 are computed with",
             c->op->name, lk_tensor_text(x).s);
    for (int i = 1; i < c->n_in; i++)
        LK_CHECK(c->x[i]->dtype == x->dtype, LK_EDTYPE, "%s of %s and %s: lk_cast() one of them",
                 c->op->name, lk_tensor_text(x).s, lk_tensor_text(c->x[i]).s);
    LK_CHECK(*ndim >= 1 && *ndim <= LK_CONV_MAX_NDIM, LK_ESHAPE,
             "%s of %s: needs [batch, 1 to %d spatial axes, channels]", c->op->name,
             lk_tensor_text(x).s, LK_CONV_MAX_NDIM);
    int64_t channels = x->shape.dim[*ndim + 1];
    LK_CHECK(*groups >= 1 && channels % *groups == 0, LK_EINVAL,
             "%s of %s: groups is %lld, must divide the %lld channels", c->op->name,
             lk_tensor_text(x).s, (long long)*groups, (long long)channels);
    LK_CHECK(a->act == LK_ACT_NONE, LK_EINVAL,
             "%s of %s: act is %d, and only lk_conv() has an activation", c->op->name,
             lk_tensor_text(x).s, (int)a->act);
    return LK_OK;
}

lk_status lk__conv_out_of(const lk_call *c, const lk_conv_attr *a, int d, int64_t in,
                          int64_t kernel, int64_t *out)
{
    LK_TRY(lk_conv_out(in, kernel, lk__or_one(a->window.stride[d]),
                       lk__or_one(a->window.dilation[d]), a->window.pad_lo[d], a->window.pad_hi[d],
                       out));
    LK_CHECK(*out > 0 || in == 0, LK_ESHAPE,
             "%s of %s: along spatial axis %d a kernel of %lld with dilation %lld does not fit in "
             "%lld positions with padding %lld and %lld",
             c->op->name, lk_tensor_text(c->x[0]).s, d, (long long)kernel,
             (long long)lk__or_one(a->window.dilation[d]), (long long)in,
             (long long)a->window.pad_lo[d], (long long)a->window.pad_hi[d]);
    return LK_OK;
}

/* The fewest positions that give `out`; false if the number does not fit in 64 bits. */
static bool fewest(const lk_conv_attr *a, int d, int64_t out, int64_t kernel, int64_t *in)
{
    int64_t reach;
    return !__builtin_mul_overflow(out - 1, lk__or_one(a->window.stride[d]), in) &&
           !__builtin_mul_overflow(kernel - 1, lk__or_one(a->window.dilation[d]), &reach) &&
           !__builtin_add_overflow(*in, reach, in) && !__builtin_add_overflow(*in, 1, in) &&
           !__builtin_sub_overflow(*in, a->window.pad_lo[d], in) &&
           !__builtin_sub_overflow(*in, a->window.pad_hi[d], in);
}

lk_status lk__conv_in_of(const lk_call *c, const lk_conv_attr *a, int d, int64_t out,
                         int64_t kernel, int64_t *in)
{
    int64_t back = -1;
    LK_CHECK(fewest(a, d, out, kernel, in) && !__builtin_add_overflow(*in, a->extra[d], in),
             LK_EOVERFLOW, "%s of %s: the size along spatial axis %d", c->op->name,
             lk_tensor_text(c->x[0]).s, d);
    if (*in >= 0)
        LK_TRY(lk_conv_out(*in, kernel, lk__or_one(a->window.stride[d]),
                           lk__or_one(a->window.dilation[d]), a->window.pad_lo[d],
                           a->window.pad_hi[d], &back));
    LK_CHECK(
        out > 0 || *in == 0, LK_ESHAPE,
        "%s of %s: spatial axis %d is empty, and with kernel %lld and extra %lld there would be "
        "%lld positions, which no convolution maps to none",
        c->op->name, lk_tensor_text(c->x[0]).s, d, (long long)kernel, (long long)a->extra[d],
        (long long)*in);
    LK_CHECK(back == out, LK_EINVAL,
             "%s of %s: along spatial axis %d, with extra %lld, there would be %lld positions, but "
             "a convolution with kernel %lld, stride %lld, dilation %lld and padding %lld and %lld "
             "does not make %lld of so many",
             c->op->name, lk_tensor_text(c->x[0]).s, d, (long long)a->extra[d], (long long)*in,
             (long long)kernel, (long long)lk__or_one(a->window.stride[d]),
             (long long)lk__or_one(a->window.dilation[d]), (long long)a->window.pad_lo[d],
             (long long)a->window.pad_hi[d], (long long)out);
    return LK_OK;
}

void lk__conv_extra(lk_conv_attr *a, int ndim, const int64_t *x, const int64_t *y,
                    const int64_t *kernel)
{
    for (int d = 0; d < ndim; d++) {
        int64_t in = 0;
        if (fewest(a, d, y[d], kernel[d], &in))
            a->extra[d] = x[d] - in;
    }
}

lk_status lk__conv_no_extra(const lk_call *c, const lk_conv_attr *a, int ndim)
{
    for (int d = 0; d < ndim; d++)
        LK_CHECK(a->extra[d] == 0, LK_EINVAL, "%s of %s: extra[%d] is %lld, must be 0", c->op->name,
                 lk_tensor_text(c->x[0]).s, d, (long long)a->extra[d]);
    return LK_OK;
}

lk_status lk__conv_related(const lk_call *c, const lk_conv_attr *a, int ndim)
{
    const lk_tensor *x = c->x[0], *y = c->x[1];
    bool fits = x->shape.ndim == y->shape.ndim && x->shape.dim[0] == y->shape.dim[0];
    for (int d = 0; fits && d < ndim; d++) {
        int64_t out = 0;
        LK_TRY(lk__conv_out_of(c, a, d, x->shape.dim[d + 1], a->window.kernel[d], &out));
        fits = out == y->shape.dim[d + 1];
    }
    LK_CHECK(fits, LK_ESHAPE,
             "%s of %s and %s: no convolution with these attributes maps one to the other",
             c->op->name, lk_tensor_text(x).s, lk_tensor_text(y).s);
    return LK_OK;
}

static lk_status plan_make(const void *key, void **out)
{
    lk_conv_plan *plan = NULL;
    LK_TRY(lk_conv_plan_new(key, &plan));
    *out = plan;
    return LK_OK;
}

static void plan_free(void *plan)
{
    lk_conv_plan_free(plan);
}

lk_status lk__conv_plan_kept(lk_call *c, const lk_conv_shape *s, lk_conv_plan **out)
{
    void *plan = NULL;
    LK_TRY(lk_call_plan(c, s, sizeof *s, plan_make, plan_free, &plan));
    *out = plan;
    return LK_OK;
}

void lk__conv_shape_of(const lk_call *c, const lk_conv_attr *a, const lk_tensor *x,
                       const lk_tensor *y, const int64_t *kernel, lk_conv_shape *s)
{
    int ndim = x->shape.ndim - 2;
    memset(s, 0, sizeof *s); /* gaps too: it is a key */
    s->dtype = x->dtype;
    s->window.ndim = ndim;
    s->batch = x->shape.dim[0];
    s->in_channels = x->shape.dim[ndim + 1];
    s->out_channels = y->shape.dim[ndim + 1];
    s->groups = lk__or_one(a->groups);
    s->piece = lk__piece_of(c->tape, x->shape.dim[0]);
    s->algorithm = a->algorithm;
    if (s->piece == 0)
        s->piece = s->batch;
    for (int d = 0; d < ndim; d++) {
        s->in[d] = x->shape.dim[d + 1];
        s->out[d] = y->shape.dim[d + 1];
        s->window.kernel[d] = kernel[d];
        s->window.stride[d] = lk__or_one(a->window.stride[d]);
        s->window.dilation[d] = lk__or_one(a->window.dilation[d]);
        s->window.pad_lo[d] = a->window.pad_lo[d];
    }
}

lk_status lk__conv_plan_of(lk_call *c, const lk_conv_attr *a, const lk_tensor *x,
                           const lk_tensor *y, const int64_t *kernel, lk_conv_plan **out)
{
    lk_conv_shape s;
    lk__conv_shape_of(c, a, x, y, kernel, &s);
    return LK_TRACE(lk__conv_plan_kept(c, &s, out));
}

lk_status lk__conv_weights_apply(const lk_op *op, lk_var x, lk_var dy, const lk_conv_attr *attr,
                                 const int64_t *kernel, lk_var *out)
{
    lk_conv_attr a = {.window.ndim = 0};
    int ndim = lk_shape_of(x).ndim - 2;
    LK_CHECK(kernel && out, LK_EINVAL, "%s is NULL", kernel ? "out" : "kernel");
    if (attr)
        a = *attr;
    for (int d = 0; d < ndim && d < LK_CONV_MAX_NDIM; d++)
        a.window.kernel[d] = kernel[d];
    return LK_TRACE(lk_apply(x.tape, op, (lk_var[]){x, dy}, 2, &a, out));
}
