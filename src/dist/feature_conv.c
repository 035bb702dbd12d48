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
#include "dist/common/features.h"
#include "ops/common/act.h"
#include "ops/common/conv.h"
#include "ops/common/ops.h"
#include "ops/common/products.h"
#include "tensor/tensor.h"

#include <lockstep/extra/map.h>

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
    LK_TRY(lk__op_conv.infer(c, out));
    return LK_OK;
}

static lk_status conv_forward(lk_call *c)
{
    LK_TRY(lk__op_conv.forward(c));
    return LK_OK;
}

/* ---- the gradient of x, of dy and w ---- */

enum { DEPTH = 32 };

/* A call under way: the blocks of this rank, and room for the sums of upper halves. */
typedef struct blocks_job {
    lk_call *c;
    int64_t size, held; /* filters of a block, and of this rank */
    void *columns;      /* of w, room for those of a block; NULL: there is one */
    void *room[DEPTH];
} blocks_job;

static lk_status data_infer(lk_call *c, lk_output_spec *out)
{
    out->dtype = c->x[0]->dtype;
    out->shape = ((const conv_attr *)c->attr)->x;
    return LK_OK;
}

/* The columns of w of filters from `first` on, dense. */
static const void *columns_of(const blocks_job *j, int64_t first, int64_t n)
{
    const lk_tensor *w = j->c->x[1];
    int64_t elem = (int64_t)lk_dtype_size(w->dtype);
    if (!j->columns)
        return lk__tensor_start(w);
    for (int64_t i = 0; i < w->count / j->held; i++)
        memcpy((char *)j->columns + i * n * elem,
               lk__tensor_start(w) + (i * j->held + first) * elem, (size_t)(n * elem));
    return j->columns;
}

/* What block `b` of this rank says of dx. */
static lk_status block_run(const blocks_job *j, int64_t b, void *dx)
{
    lk_call *c = j->c;
    const conv_attr *a = c->attr;
    const lk_tensor *dy = c->x[0];
    int ndim = dy->shape.ndim - 2;
    int64_t first = b * j->size, n = j->held - first < j->size ? j->held - first : j->size;
    int64_t step = j->held;
    lk_conv_shape s;
    lk_conv_plan *plan = NULL;
    lk__conv_shape_of(c, &a->conv, c->y[0], dy, c->x[1]->shape.dim, &s);
    s.out_channels = n;
    for (int d = ndim - 1; d >= 0; d--) {
        s.y_step[d] = step;
        step *= s.out[d];
    }
    s.y_sample = step;
    LK_TRY(lk__conv_plan_kept(c, &s, &plan));
    LK_TRY(lk_conv_backward_data(plan,
                                 lk__tensor_start(dy) + first * (int64_t)lk_dtype_size(dy->dtype),
                                 columns_of(j, first, n), NULL, false, dx));
    return LK_OK;
}

/* The tree over n blocks from `first` on; upper halves come to the room of their depth. */
static lk_status blocks_run(blocks_job *j, int64_t first, int64_t n, int depth, void *dx)
{
    const lk_tensor *y = j->c->y[0];
    if (n == 1) {
        LK_TRY(block_run(j, first, dx));
        return LK_OK;
    }
    int64_t half = lk_tree_half(n);
    if (!j->room[depth])
        LK_TRY(lk_call_scratch(j->c, y->count * (int64_t)lk_dtype_size(y->dtype), &j->room[depth]));
    LK_TRY(blocks_run(j, first, half, depth + 1, dx));
    LK_TRY(blocks_run(j, first + half, n - half, depth + 1, j->room[depth]));
    LK_TRY(lk_map2(y->dtype, LK_MAP2_ADD, 0, y->count, dx, j->room[depth], dx));
    return LK_OK;
}

static lk_status data_forward(lk_call *c)
{
    const conv_attr *a = c->attr;
    const lk_tensor *dy = c->x[0], *w = c->x[1];
    blocks_job j = {.c = c,
                    .size = lk__feature_block(a->f.split, a->f.of),
                    .held = dy->shape.dim[dy->shape.ndim - 1]};
    if (j.held == 0) /* this rank gives nothing */
        return LK_OK;
    if (j.held > j.size)
        LK_TRY(lk_call_scratch(c, w->count / j.held * j.size * (int64_t)lk_dtype_size(w->dtype),
                               &j.columns));
    LK_TRY(blocks_run(&j, 0, (j.held - 1) / j.size + 1, 0, lk__tensor_start(c->y[0])));
    return LK_OK;
}

static const lk_op data_grad = {.name = "feature_conv.data",
                                .summary = "the gradient of x, summed over this rank's blocks",
                                .min_in = 2,
                                .max_in = 2,
                                .n_out = 1,
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
    LK_TRY(lk__feature_dx_end(&request, st));
    return LK_OK;
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

static int64_t or_one(int64_t n)
{
    return n == 0 ? 1 : n;
}

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

static lk_status attr_check(const lk_feature_split *split, const lk_feature_conv_attr *a)
{
    LK_CHECK(a, LK_EINVAL, "feature_conv: attr is NULL");
    LK_CHECK(a->sum == LK_FEATURE_JOINED || a->sum == LK_FEATURE_PARTIAL, LK_EINVAL,
             "feature_conv: the sum is number %d; there are joined and partial", (int)a->sum);
    LK_CHECK(a->channels >= 0 && a->filters >= 0, LK_EINVAL,
             "feature_conv: %lld channels and %lld filters", (long long)a->channels,
             (long long)a->filters);
    int64_t groups = or_one(a->conv.groups);
    LK_CHECK(groups == 1 || !lk_feature_is_cut(split, a->filters) ||
                 lk_feature_has_whole_groups(split, groups, a->channels, a->filters),
             LK_EINVAL,
             "feature_conv: %lld channels and %lld filters in %lld groups: blocks of %lld channels "
             "and %lld filters do not have whole groups, the same ones",
             (long long)a->channels, (long long)a->filters, (long long)groups,
             (long long)lk__feature_block(split, a->channels),
             (long long)lk__feature_block(split, a->filters));
    return LK_OK;
}

/* lk_conv() of what this rank has: all of it, or whole groups. */
static lk_status conv_local(const lk_feature_conv_attr *attr, int64_t groups, lk_var x, lk_var w,
                            lk_var b, lk_var *out)
{
    lk_conv_attr a = attr->conv;
    a.groups = or_one(groups);
    if (groups == 0 && lk_shape_of(w).ndim > 1) { /* no filter of no channel */
        lk_shape shape = lk_shape_of(w);
        shape.dim[shape.ndim - 2] = 0;
        LK_TRY(lk_reshape(w, shape, &w));
    }
    LK_TRY(lk_conv(x, w, b, &a, out));
    return LK_OK;
}

lk_status lk_dist_feature_conv(const lk_feature_split *split, const lk_feature_conv_attr *attr,
                               lk_var x, lk_var w, lk_var b, const char *name, lk_var *out)
{
    conv_attr a;
    LK_TRY(lk__feature_begin(split, conv.name, x, out));
    LK_TRY(attr_check(split, attr));
    int64_t groups = or_one(attr->conv.groups);
    if (!lk_feature_is_cut(split, attr->filters) || groups > 1) {
        int64_t each = attr->filters / groups, held = lk__feature_held(split, attr->filters);
        LK_TRY(conv_local(attr, each > 0 ? held / each : groups, x, w, b, out));
        return LK_OK;
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
