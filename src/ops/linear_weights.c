/* linear_weights: the gradient of a linear layer's weights, a sum over all rows.
 *
 *   dw[i, o] = sum over rows r of x[r, i] dy[r, o]
 *   with g the gradient of dw:  gradient of x = dy g', of dy = x g
 *
 * Rows are all leading axes together.  The sum is cut into pieces of lk_tape_shard_size() samples, that
 * is of all the rows of so many indices of the first axis; each is one chain, joined by the tree.
 */
#include "ops/common/ops.h"
#include "ops/common/products.h"
#include "tensor/tensor.h"

#include <lockstep/extra/gemm.h>

#include <string.h>

static lk_status linear_weights_infer(lk_call *c, lk_output_spec *out)
{
    const lk_tensor *x = c->x[0], *dy = c->x[1];
    int last = x->shape.ndim - 1;
    LK_TRY(lk__same_infer(c, out));
    LK_CHECK(x->dtype == dy->dtype, LK_EDTYPE, "linear_weights of %s and %s: lk_cast() one of them",
             lk_tensor_text(x).s, lk_tensor_text(dy).s);
    lk_shape rows = x->shape;
    if (last >= 1 && dy->shape.ndim == x->shape.ndim)
        rows.dim[last] = dy->shape.dim[last];
    LK_CHECK(last >= 1 && lk_shape_is_equal(rows, dy->shape), LK_ESHAPE,
             "linear_weights of %s and %s: needs [batch, ..., in] and [batch, ..., out]",
             lk_tensor_text(x).s, lk_tensor_text(dy).s);
    out->shape = LK_SHAPE(x->shape.dim[last], dy->shape.dim[last]);
    return LK_OK;
}

static lk_status linear_weights_forward(lk_call *c)
{
    const lk_tensor *x = c->x[0], *dy = c->x[1], *dw = c->y[0];
    int64_t in = dw->shape.dim[0], out = dw->shape.dim[1], samples, rows;
    if (dw->count == 0)
        return LK_OK;
    LK_TRY(lk__rows_of(&x->shape, &samples, &rows));
    char *zeros = NULL; /* adding to zeros is what a bias of zeros does */
    if (c->overwrite) {
        size_t bytes = (size_t)out * lk_dtype_size(dw->dtype);
        LK_TRY(lk_call_scratch(c, (int64_t)bytes, &zeros));
        memset(zeros, 0, bytes);
    }
    lk_gemm g = {.dtype = dw->dtype,
                 .trans_a = true,
                 .accumulate = c->accumulate && !c->overwrite,
                 .m = in,
                 .n = out,
                 .k = samples * rows,
                 .lda = in,
                 .ldb = out,
                 .ldc = out,
                 .piece = lk__piece_of(c->tape, samples) * rows};
    if (c->accumulate && g.piece == 0)
        g.piece = g.k; /* one chain, which is added when it ends */
    return LK_TRACE(
        lk_gemm_run(&g, lk__tensor_start(x), lk__tensor_start(dy), zeros, lk__tensor_start(dw)));
}

static lk_status linear_weights_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    if (lk_call_needs_grad(c, 0))
        LK_TRY(lk_matmul_trans(c->in[1], dout[0], false, true, &din[0]));
    if (lk_call_needs_grad(c, 1))
        LK_TRY(lk_matmul_trans(c->in[0], dout[0], false, false, &din[1]));
    return LK_OK;
}

const lk_op lk__op_linear_weights = {
    .name = "linear_weights",
    .summary = "x' dy, a sum over all rows: the gradient of the weights of linear",
    LK_ARITY(2, 1),
    .flags = LK_OP_ACCUMULATES | LK_OP_OVERWRITES,
    .saves_in = 3,
    .infer = linear_weights_infer,
    .forward = linear_weights_forward,
    .backward = linear_weights_backward,
    .samples =
        (const lk_op_sample[]){{.n_in = 2, .in = {LK_IN(5, 3), LK_IN(5, 2)}, .shard_size = 2},
                               {.n_in = 2, .in = {LK_IN(3, 2, 2), LK_IN(3, 2, 3)}, .shard_size = 1},
                               {.n_in = 2, .in = {LK_IN(4, 1), LK_IN(4, 1)}},
                               {0}},
};

lk_status lk_linear_weights(lk_var x, lk_var dy, lk_var *out)
{
    return LK_TRACE(lk_apply(x.tape, &lk__op_linear_weights, (lk_var[]){x, dy}, 2, NULL, out));
}
