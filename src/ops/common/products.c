/* Rows, pieces and biases. */
#include "ops/common/products.h"

#include "ops/common/ops.h"
#include "tensor/tensor.h"

#include <lockstep/extra/checked.h>

lk_status lk__rows_of(const lk_shape *x, int64_t *samples, int64_t *rows)
{
    int64_t all;
    *samples = x->dim[0];
    LK_TRY(lk_product_i64(x->ndim - 1, x->dim, &all));
    *rows = *samples == 0 ? 0 : all / *samples;
    return LK_OK;
}

int64_t lk__piece_of(const lk_tape *tape, int64_t samples)
{
    int64_t piece = lk_tape_shard_size(tape);
    return piece < samples ? piece : samples;
}

lk_status lk__bias_check(const lk_call *c, int i, int64_t channels)
{
    const lk_tensor *x = c->x[0], *b = c->x[i];
    LK_CHECK(b->dtype == x->dtype, LK_EDTYPE, "%s of %s with a bias %s: lk_cast() one of them",
             c->op->name, lk_tensor_text(x).s, lk_tensor_text(b).s);
    LK_CHECK(b->shape.ndim == 1 && b->shape.dim[0] == channels, LK_ESHAPE,
             "%s of %s with a bias %s: it must be [%lld]", c->op->name, lk_tensor_text(x).s,
             lk_tensor_text(b).s, (long long)channels);
    return LK_OK;
}

lk_status lk__bias_gradient(const lk_call *c, int i, lk_var dy, lk_var *out)
{
    lk_shape b = lk_shape_of(c->in[i]);
    *out = dy;
    if (lk_shape_of(dy).ndim > b.ndim)
        LK_TRY(lk_apply_gradient(c, i, &lk__op_sum_to, &dy, 1, &b, out));
    return LK_OK;
}
