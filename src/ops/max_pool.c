/* max_pool: the largest of each window, and where it was; with the attribute `relu` of x < 0 ? 0 : x.
 *
 *   y[o] = max over valid taps of x,  index[o] = the position of the first of the largest, i64
 *   dx[i] = sum over windows o with index[o] = i of dy[o]              (scatter)
 *
 * Given index, both are linear; the adjoint of the scatter is the gather y[o] = x[index[o]], 0 where
 * the index is -1.  The y of a window is that of relu at its index.  So relu's gradient, which is dy where
 * its output is above 0, can be taken for each window instead of each position.
 */
#include "kernel/runtime/isa.h"
#include "kernel/runtime/parallel.h"
#include "ops/common/act.h"
#include "ops/common/ops.h"
#include "ops/common/windows/pool.h"
#include "tensor/tensor.h"

static lk_status max_pool_infer(lk_call *c, lk_output_spec *out)
{
    LK_TRY(lk__pool_infer(c, &out[0]));
    out[1].dtype = LK_I64;
    out[1].shape = out[0].shape;
    return LK_OK;
}

static lk_status max_pool_forward(lk_call *c)
{
    lk_pool_shape s = lk__pool_shape_of(c->attr, c->x[0], c->y[0]);
    return LK_TRACE(lk_pool_max(&s, lk__tensor_start(c->x[0]), lk__tensor_start(c->y[0]),
                                (int64_t *)(void *)lk__tensor_start(c->y[1])));
}

/* ---- scatter: x [batch, out..., channels] and index of that shape give b->x ---- */

static const lk_op max_pool_gather;

static lk_status scatter_forward(lk_call *c)
{
    const lk__pool_back *b = c->attr;
    lk_pool_shape s = lk__pool_shape_of(&b->pool, c->y[0], c->x[0]);
    return LK_TRACE(lk_pool_max_backward(&s, lk__tensor_start(c->x[0]),
                                         (const int64_t *)(void *)lk__tensor_start(c->x[1]),
                                         lk__tensor_start(c->y[0])));
}

static lk_status scatter_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    if (lk_call_needs_grad(c, 0))
        LK_TRY(lk_apply(c->tape, &max_pool_gather, (lk_var[]){dout[0], c->in[1]}, 2, c->attr,
                        &din[0]));
    return LK_OK;
}

static const lk_op max_pool_scatter = {.name = "max_pool_scatter",
                                       .summary = "the gradient of max_pool",
                                       LK_ARITY(2, 1),
                                       .flags = LK_OP_LINEAR | LK__POOL_BACK_FLAGS,
                                       .attr_size = sizeof(lk__pool_back),
                                       .saves_in = 2,
                                       .infer = lk__pool_back_infer,
                                       .forward = scatter_forward,
                                       .backward = scatter_backward};

/* ---- gather: x of shape b->x and index [batch, out..., channels] give the latter's shape ---- */

static lk_status gather_infer(lk_call *c, lk_output_spec *out)
{
    out->dtype = c->x[0]->dtype;
    out->shape = c->x[1]->shape;
    return LK_OK;
}

typedef struct gather_job {
    const char *x;
    char *y;
    const int64_t *index;
    size_t size;
    int64_t channels, x_sample, y_sample; /* elements of a sample */
} gather_job;

static void gather_elements(void *arg, int64_t first, int64_t last)
{
    const gather_job *j = arg;
    for (int64_t e = first; e < last; e++) {
        char *to = j->y + e * (int64_t)j->size;
        int64_t at = e / j->y_sample * j->x_sample + j->index[e] * j->channels + e % j->channels;
        if (j->index[e] < 0)
            memset(to, 0, j->size);
        else
            memcpy(to, j->x + at * (int64_t)j->size, j->size);
    }
}

static lk_status gather_forward(lk_call *c)
{
    const lk_tensor *x = c->x[0], *y = c->y[0];
    if (y->count == 0)
        return LK_OK;
    gather_job j = {.x = lk__tensor_start(x),
                    .y = lk__tensor_start(y),
                    .index = (const int64_t *)(void *)lk__tensor_start(c->x[1]),
                    .size = lk_dtype_size(x->dtype),
                    .channels = y->shape.dim[y->shape.ndim - 1],
                    .x_sample = x->count / y->shape.dim[0],
                    .y_sample = y->count / y->shape.dim[0]};
    return LK_TRACE(lk__parallel(lk__tasks_functions(y->count, 1), gather_elements, &j));
}

static lk_status gather_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    if (lk_call_needs_grad(c, 0))
        LK_TRY(lk_apply(c->tape, &max_pool_scatter, (lk_var[]){dout[0], c->in[1]}, 2, c->attr,
                        &din[0]));
    return LK_OK;
}

static const lk_op max_pool_gather = {.name = "max_pool_gather",
                                      .summary = "x at the positions of the maxima",
                                      LK_ARITY(2, 1),
                                      .flags = LK_OP_LINEAR,
                                      .attr_size = sizeof(lk__pool_back),
                                      .saves_in = 2,
                                      .infer = gather_infer,
                                      .forward = gather_forward,
                                      .backward = gather_backward};

static lk_status max_pool_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    const lk_pool_attr *a = c->attr;
    lk__pool_back b = {*a, lk_shape_of(c->in[0])};
    lk_var dy = dout[0];
    if (a->relu)
        LK_TRY(lk__act_grad(LK_ACT_RELU, dy, c->out[0], &dy));
    return LK_TRACE(
        lk_apply_gradient(c, 0, &max_pool_scatter, (lk_var[]){dy, c->out[1]}, 2, &b, &din[0]));
}

#define ATTR(...) (&(const lk_pool_attr){__VA_ARGS__})

static const lk_op_sample samples[] = {
    {.n_in = 1, .in = {LK_IN(2, 5, 2)}, .attr = ATTR(.window.kernel = {2})},
    {.n_in = 1,
     .in = {LK_IN(1, 4, 5, 2)},
     .attr = ATTR(.window.kernel = {2, 3}, .window.stride = {2, 2}, .window.pad_lo = {1, 1},
                  .window.pad_hi = {0, 2})},
    {.n_in = 1,
     .in = {LK_IN(1, 3, 3, 2, 2)},
     .attr = ATTR(.window.kernel = {2, 2, 2}, .window.stride = {1, 1, 2})},
    {.n_in = 1,
     .in = {LK_IN(2, 4, 2)},
     .attr = ATTR(.window.kernel = {2}, .window.stride = {2}, .relu = true)},
    {.n_in = 1,
     .in = {LK_IN(1, 4, 5, 2)},
     .attr = ATTR(.window.kernel = {2, 3}, .window.stride = {2, 2}, .window.pad_lo = {1, 1},
                  .window.pad_hi = {0, 2}, .relu = true)},
    {0}};

const lk_op lk__op_max_pool = {
    .name = "max_pool",
    .summary = "the largest of each window of x and its position, in 1 to 3 dimensions",
    LK_ARITY(1, 2),
    .attr_size = sizeof(lk_pool_attr),
    .infer = max_pool_infer,
    .forward = max_pool_forward,
    .backward = max_pool_backward,
    .samples = samples,
};

lk_status lk_max_pool(lk_var x, const lk_pool_attr *attr, lk_var *out, lk_var *index)
{
    lk_var both[2];
    LK_CHECK(out, LK_EINVAL, "out is NULL");
    *out = LK_NO_VAR;
    if (index)
        *index = LK_NO_VAR;
    LK_TRY(lk_apply(x.tape, &lk__op_max_pool, &x, 1, attr, both));
    *out = both[0];
    if (index)
        *index = both[1];
    return LK_OK;
}

lk_status lk_relu_max_pool(lk_var x, const lk_pool_attr *attr, lk_var *out)
{
    lk_pool_attr with = {.relu = true};
    if (attr)
        with.window = attr->window;
    return LK_TRACE(lk_max_pool(x, attr ? &with : NULL, out, NULL));
}
