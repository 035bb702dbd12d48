/* Channels of batch norm, and what is kept of its statistics. */
#include "ops/common/norm/batch_norm.h"

#include "ops/common/act.h"
#include "ops/common/ops.h"
#include "tensor/tensor.h"

static const char *const names[] = {"x", "gamma", "beta", "mean", "variance"};

lk_status lk__batch_norm_infer(lk_call *c, lk_output_spec *out)
{
    const lk_tensor *x = c->x[0];
    const lk_batch_norm_attr *a = c->attr;
    LK_TRY(lk__same_infer(c, out));
    LK_TRY(lk__act_check(c->op->name, a->act));
    LK_CHECK(x->shape.ndim >= 2, LK_ESHAPE,
             "%s of %s, which needs a first axis of samples and a last one of channels",
             c->op->name, lk_tensor_text(x).s);
    LK_CHECK(a->eps >= 0 && lk__is_finite(x->dtype, a->eps), LK_EINVAL,
             "%s of %s with eps %g, which must be finite and not negative", c->op->name,
             lk_tensor_text(x).s, a->eps);
    for (int i = 1; i < c->n_in; i++) {
        const lk_tensor *v = c->x[i];
        LK_CHECK(v->dtype == x->dtype, LK_EDTYPE, "%s of %s with %s %s: one dtype for all",
                 c->op->name, lk_tensor_text(x).s, names[i], lk_tensor_text(v).s);
        LK_CHECK(lk_shape_is_equal(v->shape, LK_SHAPE(x->shape.dim[x->shape.ndim - 1])), LK_ESHAPE,
                 "%s of %s with %s %s: it has one number for each channel", c->op->name,
                 lk_tensor_text(x).s, names[i], lk_tensor_text(v).s);
    }
    return LK_OK;
}

lk_status lk__batch_norm_inverse(const lk_call *c, lk_var variance, lk_var *out)
{
    lk_var one;
    LK_TRY(lk_affine(variance, 1, lk__batch_norm_eps(c), out));
    LK_TRY(lk_sqrt(*out, out));
    LK_TRY(lk_full(c->tape, lk_dtype_of(variance), LK_SCALAR, 1, &one));
    return LK_TRACE(lk_div(one, *out, out));
}

lk_status lk__running_stat_move(lk_tensor *state, const lk_tensor *sum, double rate, double pieces)
{
    void *data = NULL;
    LK_TRY(lk_tensor_writable_data(state, &data));
    const void *sums = lk_tensor_data(sum);
    for (int64_t i = 0; i < lk_tensor_count(state); i++) {
        if (lk_tensor_dtype(state) == LK_F32) {
            float *s = (float *)data + i, r = (float)rate;
            *s += r * (((const float *)sums)[i] / (float)pieces - *s);
        } else {
            double *s = (double *)data + i;
            *s += rate * (((const double *)sums)[i] / pieces - *s);
        }
    }
    return LK_OK;
}
