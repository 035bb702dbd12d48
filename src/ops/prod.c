/* prod: over axes.
 *
 *   y = the product of x over the axes
 *   dx_i = dy * the product of all x_j but x_i
 *
 * Backward divides by nothing, so zeros among the factors do no harm, in higher derivatives
 * neither.  It multiplies pairs of factors, pairs of these products, and so on up to one, and then
 * goes down again: what comes to a product goes to each of its factors, times the other one.  That
 * takes 3 n products, in some log2 n steps that are ops themselves.
 */
#include "ops/common/axes.h"
#include "ops/common/ops.h"
#include "tensor/tensor.h"

static lk_status prod_forward(lk_call *c)
{
    unsigned axes = lk__axes_bits(c->attr, c->x[0]->shape.ndim);
    LK_TRY(lk__reduce_axes(c, LK_REDUCE_AXIS_PROD, c->x[0], axes, lk__tensor_start(c->y[0])));
    return LK_OK;
}

/* *out = the gradient of x [n, ...] from that of the product along its first axis, g [1, ...].
 * Factor i of the lower half makes a pair with factor i of the upper half; of an odd number one is
 * left over. */
static lk_status prod_grad(lk_var x, lk_var g, lk_var *out)
{
    lk_var low, high, rest, up, part[3];
    int64_t n = lk_shape_of(x).dim[0], h = n / 2;
    int n_parts = n % 2 ? 3 : 2;
    if (n == 1) {
        *out = g;
        return LK_OK;
    }
    LK_TRY(lk_slice(x, 0, 0, h, 1, &low));
    LK_TRY(lk_slice(x, 0, h, 2 * h, 1, &high));
    LK_TRY(lk_mul(low, high, &up));
    if (n % 2) {
        LK_TRY(lk_slice(x, 0, 2 * h, n, 1, &rest));
        LK_TRY(lk_concat((lk_var[]){up, rest}, 2, 0, &up));
    }
    LK_TRY(prod_grad(up, g, &up));
    LK_TRY(lk_slice(up, 0, 0, h, 1, &g));
    LK_TRY(lk_mul(g, high, &part[0]));
    LK_TRY(lk_mul(g, low, &part[1]));
    if (n % 2)
        LK_TRY(lk_slice(up, 0, h, h + 1, 1, &part[2]));
    LK_TRY(lk_concat(part, n_parts, 0, out));
    return LK_OK;
}

static lk_status prod_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    lk_shape shape = lk_shape_of(c->in[0]), order = {.ndim = shape.ndim}, flat = {.ndim = 1};
    unsigned axes = lk__axes_bits(c->attr, shape.ndim);
    int forth[LK_MAX_NDIM] = {0}, back[LK_MAX_NDIM] = {0}, n_reduced = 0, at = 0;
    flat.dim[0] = lk__axes_count(shape, axes);
    for (int d = 0; d < shape.ndim; d++)
        n_reduced += (int)(axes >> d & 1);
    for (int d = 0; d < shape.ndim; d++) { /* reduced axes go to the front */
        bool reduced = axes >> d & 1;
        int to = reduced ? at++ : n_reduced + d - at;
        forth[to] = d;
        back[d] = to;
        order.dim[to] = shape.dim[d];
        if (!reduced)
            flat.dim[flat.ndim++] = shape.dim[d];
    }
    if (lk__axes_count(shape, ~0u) == 0) {
        LK_TRY(lk_zeros_like(c->in[0], &din[0]));
        return LK_OK;
    }
    lk_var x, g;
    LK_TRY(lk_permute(c->in[0], forth, &x));
    LK_TRY(lk_reshape(x, flat, &x));
    flat.dim[0] = 1;
    LK_TRY(lk_reshape(dout[0], flat, &g));
    LK_TRY(prod_grad(x, g, &g));
    LK_TRY(lk_reshape(g, order, &g));
    LK_TRY(lk_permute(g, back, &din[0]));
    return LK_OK;
}

extern const lk_op lk__op_prod;

lk_status lk_prod(lk_var x, const lk_axes *axes, lk_var *out)
{
    LK_TRY(lk_apply(x.tape, &lk__op_prod, &x, 1, axes ? axes : &lk__all_axes, out));
    return LK_OK;
}

const lk_op lk__op_prod = {
    .name = "prod",
    .summary = "the product over axes",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .attr_size = sizeof(lk_axes),
    .saves_in = 1,
    .infer = lk__axes_infer,
    .forward = prod_forward,
    .backward = prod_backward,
    .samples =
        (const lk_op_sample[]){
            {.n_in = 1, .in = {LK_IN(2, 3)}, .attr = &lk__all_axes},
            {.n_in = 1,
             .in = {LK_IN_RANGE(0.5, 1.5, 5, 2, 3)},
             .attr = &(lk_axes){.n = 2, .axis = {0, 2}, .keep = true},
             .shard_size = 2},
            {.n_in = 1, .in = {LK_IN(2, 5, 3)}, .attr = &(lk_axes){1, {1}, false}},
            {.n_in = 1, .in = {LK_IN(2, 1)}, .attr = &(lk_axes){1, {1}, false}},
            {0}},
};
