/* The registry of losses, and the checks that they share. */
#include "nn/losses.h"

lk_status lk__loss_same(const char *loss, lk_tensor_type out, lk_tensor_type target)
{
    LK_CHECK(out.dtype == target.dtype, LK_EDTYPE, "%s: the model gives %s, the targets are %s%s",
             loss, lk_dtype_name(out.dtype), lk_dtype_name(target.dtype),
             lk_dtype_is_real(target.dtype) ? "" : "; data.one_hot=true makes vectors of labels");
    bool equal = lk_shape_is_equal(out.shape, target.shape);
    bool fits = lk__loss_elements(out) == lk__loss_elements(target);
    lk_short_string want = lk_shape_text(target.shape);
    LK_CHECK(equal || !fits, LK_ESHAPE,
             "%s: the model gives %s for a sample, the targets are %s: end the model with "
             "{type: reshape, shape: %s}",
             loss, lk_shape_text(out.shape).s, want.s, want.s);
    LK_CHECK(equal, LK_ESHAPE,
             "%s: the model gives %s for a sample, the targets are %s; they must be alike", loss,
             lk_shape_text(out.shape).s, want.s);
    return LK_OK;
}

int64_t lk__loss_elements(lk_tensor_type out)
{
    int64_t n = 1;
    for (int i = 0; i < out.shape.ndim; i++)
        n *= out.shape.dim[i];
    return n;
}

static const lk_descriptor *cost_at(int i)
{
    return lk_losses[i] ? &lk_losses[i]->descriptor : NULL;
}

const lk_registry lk_registry_loss = {
    .name = "loss", .plural = "losses", .summary = "what training makes small", .at = cost_at};
