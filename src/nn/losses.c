/* Losses by name, and what they share. */
#include "nn/losses.h"

lk_status lk__loss_same(const char *loss, lk_io out, lk_io target)
{
    LK_CHECK(out.dtype == target.dtype, LK_EDTYPE, "%s: the model gives %s, the targets are %s%s",
             loss, lk_dtype_name(out.dtype), lk_dtype_name(target.dtype),
             lk_dtype_is_real(target.dtype) ? "" : "; data.one_hot=true makes vectors of labels");
    LK_CHECK(lk_shape_equal(out.shape, target.shape), LK_ESHAPE,
             "%s: the model gives %s for a sample, the targets are %s; they must be alike", loss,
             lk_shape_text(out.shape).s, lk_shape_text(target.shape).s);
    return LK_OK;
}

lk_status lk__loss_mean(lk_var sum, int64_t n, lk_var *out)
{
    if (n > 1)
        LK_TRY(lk_affine(sum, 1.0 / (double)n, 0, out));
    else
        *out = sum;
    return LK_OK;
}

static const lk_entry *cost_at(int i)
{
    return lk_costs[i] ? &lk_costs[i]->entry : NULL;
}

const lk_kind lk_kind_loss = {
    .name = "loss", .plural = "losses", .summary = "what training makes small", .at = cost_at};
