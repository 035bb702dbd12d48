/* feature_conv: convolutions whose filters are cut over ranks.
 *
 *   y  = conv(x, w) + b                       one chain, as ops/conv.c
 *   dx = tree over blocks of filters( backward data of the block's channels of dy )       then an allreduce
 *   dw, db   of what this rank has, as ops/conv.c
 *
 * With an activation y = act(z) of that z, and dy is dz, from dy and y.
 *
 * Where every block has whole groups of a grouped convolution it is one of fewer groups, and nothing
 * travels.  Made by lk_dist_feature_conv(), run on the thread of the tape.
 */
#include "ops/common/windows/conv.h"

#include "dist/common/feature_blocks.h"
#include "dist/common/features.h"
#include "ops/common/act.h"
#include "ops/common/ops.h"
#include "ops/common/products.h"
#include "tensor/tensor.h"

#include <string.h>

typedef struct conv_attr {
    lk_conv_attr conv; /* what ops/conv.c looks at */
    lk__feature_node f;
    lk_feature_sum sum;
    int64_t channels;
    lk_shape x; /* of dx: that of x */
} conv_attr;

static lk_status conv_infer(lk_call *c, lk_output_spec *out)
{
    const conv_attr *a = c->attr;
    const lk_tensor *w = c->x[1];
    LK_TRY(lk__feature_check(c, "x", c->x[0], a->channels));
    LK_TRY(lk__feature_check(c, "w", w, lk__feature_held(a->f.split, a->f.of)));
    return LK_TRACE(lk__op_conv.infer(c, out));
}

static lk_status conv_forward(lk_call *c)
{
    return LK_TRACE(lk__op_conv.forward(c));
}

/* ---- the gradient of x, of dy and w ---- */

static lk_status data_infer(lk_call *c, lk_output_spec *out)
{
    out->dtype = c->x[0]->dtype;
    out->shape = ((const conv_attr *)c->attr)->x;
    return LK_OK;
}

/* What some filters of this rank say of dx. */
static lk_status block_run(lk_call *c, lk_range filters, const void *w, void *dx)
{
    const conv_attr *a = c->attr;
    const lk_tensor *dy = c->x[0];
    int ndim = dy->shape.ndim - 2;
    int64_t step = dy->shape.dim[ndim + 1];
    lk_conv_shape s;
    lk_conv_plan *plan = NULL;
    lk__conv_shape_of(c, &a->conv, c->y[0], dy, c->x[1]->shape.dim, &s);
    s.out_channels = filters.n;
    for (int d = ndim - 1; d >= 0; d--) {
        s.y_step[d] = step;
        step *= s.out[d];
    }
    s.y_sample = step;
    LK_TRY(lk__conv_plan_kept(c, &s, &plan));
    return LK_TRACE(lk_conv_backward_data(
        plan, lk__tensor_start(dy) + filters.first * (int64_t)lk_dtype_size(dy->dtype), w, NULL,
        false, dx));
}

/* A rank without filters gives nothing. */
static lk_status data_forward(lk_call *c)
{
    const conv_attr *a = c->attr;
    const lk_tensor *w = c->x[1];
    int64_t held = w->shape.dim[w->shape.ndim - 1];
    return LK_TRACE(lk__feature_blocks_run(c, lk__feature_block(a->f.split, a->f.of),
                                           held > 0 ? w->count / held : 0, block_run));
}

static const lk_op data_grad = {.name = "feature_conv.data",
                                .summary = "the gradient of x, summed over this rank's blocks",
                                LK_ARITY(2, 1),
                                .flags = LK_OP_FIRST_ORDER,
                                .attr_size = sizeof(conv_attr),
                                .infer = data_infer,
                                .forward = data_forward};

/* dw and db, while dx is joined. */
static lk_status weights_gradients(lk_call *c, lk_var dy, lk_var *din)
{
    if (lk_call_needs_grad(c, 1))
        LK_TRY(lk__conv_weights_gradient(c, c->in[0], dy, &din[1]));
    if (c->n_in > 2 && lk_call_needs_grad(c, 2))
        LK_TRY(lk__bias_gradient(c, 2, dy, &din[2]));
    return LK_OK;
}

static lk_status conv_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    conv_attr a = *(const conv_attr *)c->attr;
    lk_request *request = NULL;
    lk_var dy, partial;
    LK_TRY(lk__feature_adjoint(&a.f, c->op->name, &a.f));
    LK_TRY(lk__act_grad(a.conv.act, dout[0], c->out[0], &dy));
    LK_TRY(lk_contiguous(dy, &dy));
    a.x = lk_shape_of(c->in[0]);
    if (lk_call_needs_grad(c, 0)) {
        LK_TRY(lk_apply(c->tape, &data_grad, (lk_var[]){dy, c->in[1]}, 2, &a, &partial));
        LK_TRY(lk__feature_dx_begin(c, &a.f, a.sum, a.x, partial, &request, &din[0]));
    }
    lk_status st = weights_gradients(c, dy, din);
    return LK_TRACE(lk__feature_dx_end(&request, st));
}

static const lk_op conv = {.name = "feature_conv",
                           .summary = "convolution of x with w, plus b, its filters over ranks",
                           .min_in = 2,
                           .max_in = 3,
                           .n_out = 1,
                           .flags = LK_OP_COLLECTIVE | LK_OP_FIRST_ORDER,
                           .attr_size = sizeof(conv_attr),
                           .saves_in = 3,
                           .infer = conv_infer,
                           .forward = conv_forward,
                           .backward = conv_backward};

/* ---- the call ---- */

bool lk_feature_has_whole_groups(const lk_feature_split *split, int64_t groups, int64_t channels,
                                 int64_t filters)
{
    int64_t in = lk__feature_block(split, channels), out = lk__feature_block(split, filters);
    if (groups < 1 || channels < groups || filters < groups || channels % groups != 0 ||
        filters % groups != 0)
        return false;
    int64_t in_each = channels / groups, out_each = filters / groups;
    return in % in_each == 0 && out % out_each == 0 && in / in_each == out / out_each;
}

lk_status lk__feature_conv_check(const char *call, const lk_feature_split *split,
                                 const lk_feature_conv_attr *a)
{
    LK_CHECK(a, LK_EINVAL, "%s: attr is NULL", call);
    LK_CHECK(a->sum == LK_FEATURE_JOINED || a->sum == LK_FEATURE_PARTIAL, LK_EINVAL,
             "%s: the sum is number %d; there are joined and partial", call, (int)a->sum);
    LK_CHECK(a->channels >= 0 && a->filters >= 0, LK_EINVAL, "%s: %lld channels and %lld filters",
             call, (long long)a->channels, (long long)a->filters);
    int64_t groups = lk__or_one(a->conv.groups);
    LK_CHECK(groups == 1 || !lk_feature_is_cut(split, a->filters) ||
                 lk_feature_has_whole_groups(split, groups, a->channels, a->filters),
             LK_EINVAL,
             "%s: %lld channels and %lld filters in %lld groups: blocks of %lld channels "
             "and %lld filters do not have whole groups, the same ones",
             call, (long long)a->channels, (long long)a->filters, (long long)groups,
             (long long)lk__feature_block(split, a->channels),
             (long long)lk__feature_block(split, a->filters));
    return LK_OK;
}

lk_status lk__feature_conv_local(const lk_feature_split *split, const lk_feature_conv_attr *attr,
                                 lk_conv_attr *out, lk_var *w)
{
    int64_t groups = lk__or_one(attr->conv.groups), each = attr->filters / groups;
    if (each > 0)
        groups = lk__feature_held(split, attr->filters) / each;
    *out = attr->conv;
    out->groups = lk__or_one(groups);
    if (groups == 0 && lk_shape_of(*w).ndim > 1) { /* no filter of no channel */
        lk_shape shape = lk_shape_of(*w);
        shape.dim[shape.ndim - 2] = 0;
        LK_TRY(lk_reshape(*w, shape, w));
    }
    return LK_OK;
}

lk_status lk_dist_feature_conv(const lk_feature_split *split, const lk_feature_conv_attr *attr,
                               lk_var x, lk_var w, lk_var b, const char *name, lk_var *out)
{
    conv_attr a;
    LK_TRY(lk__feature_begin(split, conv.name, x, out));
    LK_TRY(lk__feature_conv_check(conv.name, split, attr));
    if (!lk_feature_is_cut(split, attr->filters) || lk__or_one(attr->conv.groups) > 1) {
        lk_conv_attr own;
        LK_TRY(lk__feature_conv_local(split, attr, &own, &w));
        return LK_TRACE(lk_conv(x, w, b, &own, out));
    }
    memset(&a, 0, sizeof a); /* attributes are compared as bytes */
    a.conv = attr->conv;
    a.f = lk__feature_of(split, 0, attr->filters, name);
    a.sum = attr->sum;
    a.channels = attr->channels;
    LK_TRY_DIST(split->comm,
                lk_apply(x.tape, &conv, (lk_var[]){x, w, b}, lk_is_var(b) ? 3 : 2, &a, out));
    return LK_OK;
}
