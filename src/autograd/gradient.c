/* Sums of gradients: of a value during a pass, and into the leaves. */
#include "autograd/tape.h"

#include <lockstep/extra/map.h>

#include <string.h>

static lk_status accumulate_infer(lk_call *c, lk_output_spec *out)
{
    out[0].dtype = c->x[0]->dtype;
    out[0].shape = c->x[0]->shape;
    return LK_OK;
}

static lk_status accumulate_forward(lk_call *c)
{
    LK_TRY(lk_map2(c->x[0]->dtype, LK_MAP2_ADD, 0, c->x[0]->count, lk__tensor_start(c->x[0]),
                   lk__tensor_start(c->x[1]), lk__tensor_start(c->y[0])));
    return LK_OK;
}

static lk_status accumulate_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    (void)c;
    din[0] = din[1] = dout[0];
    return LK_OK;
}

static const lk_op accumulate = {.name = "accumulate",
                                 .summary = "x + y, where two gradients of a value meet",
                                 .min_in = 2,
                                 .max_in = 2,
                                 .n_out = 1,
                                 .flags = LK_OP_LINEAR,
                                 .infer = accumulate_infer,
                                 .forward = accumulate_forward,
                                 .backward = accumulate_backward};

/* Whether nobody else can see the elements of a gradient. */
static bool may_write(const lk__value *v)
{
    return v->holds == 1 && v->node == LK_NO_INDEX && v->block && v->block->holds == 1 &&
           lk_tensor_is_contiguous(&v->tensor);
}

lk_status lk__grad_add(lk_tape *t, int64_t i, int64_t g)
{
    lk__value *v = lk__value_at(t, i);
    if (v->grad == LK_NO_INDEX) {
        if (v->outside) {
            LK_TRY(
                lk__grow(&t->touched, &t->touched_capacity, t->n_touched + 1, sizeof *t->touched));
            t->touched[t->n_touched++] = i;
        }
        v->grad = g;
        lk__value_hold(t, g);
        return LK_OK;
    }
    lk__value *first = lk__value_at(t, v->grad), *second = lk__value_at(t, g);
    if (!t->records && may_write(first) && lk_tensor_is_contiguous(&second->tensor)) {
        char *sum = lk__tensor_start(&first->tensor);
        LK_TRY(lk_map2(first->tensor.dtype, LK_MAP2_ADD, 0, first->tensor.count, sum,
                       lk__tensor_start(&second->tensor), sum));
        return LK_OK;
    }
    lk_var sum;
    LK_TRY(lk_apply(t, &accumulate, (lk_var[]){lk__var(t, v->grad), lk__var(t, g)}, 2, NULL, &sum));
    lk__value_hold(t, sum.index);
    lk__value_release(t, v->grad);
    v->grad = sum.index;
    return LK_OK;
}

/* acc = acc + g for tensors of any strides; `t` has an open scope.  A write that cannot touch the
 * leaf's own value, though both are parts of one tensor, is not counted. */
static lk_status add_to(lk_tape *t, const lk_tensor *value, lk_tensor *acc, int64_t g)
{
    lk__value *grad = lk__value_at(t, g);
    if (lk_tensor_is_contiguous(acc) && lk_tensor_is_contiguous(&grad->tensor)) {
        char *sum = lk__tensor_start(acc);
        if (acc->storage != value->storage)
            lk__tensor_writes(acc);
        LK_TRY(lk_map2(acc->dtype, LK_MAP2_ADD, 0, acc->count, sum, lk__tensor_start(&grad->tensor),
                       sum));
        return LK_OK;
    }
    lk_var old, sum;
    const lk_tensor *result = NULL;
    LK_TRY(lk_constant(t, acc, &old));
    LK_TRY(lk_apply(t, &accumulate, (lk_var[]){old, lk__var(t, g)}, 2, NULL, &sum));
    LK_TRY(lk_value(sum, &result));
    LK_TRY(lk_tensor_copy(result, acc));
    return LK_OK;
}

lk_status lk__grad_set(lk__value *v)
{
    lk_tensor *g = v->leaf_grad;
    if (!v->unset)
        return LK_OK;
    v->unset = false;
    if (!lk_tensor_is_contiguous(g)) {
        LK_TRY(lk_tensor_fill_f64(g, 0));
        return LK_OK;
    }
    if (g->storage != v->outside->storage)
        lk__tensor_writes(g);
    memset(lk__tensor_start(g), 0, (size_t)g->count * lk_dtype_size(g->dtype));
    return LK_OK;
}

lk_status lk__grad_deposit(lk_tape *t, int64_t i)
{
    lk__value *v = lk__value_at(t, i);
    if (v->grad == LK_NO_INDEX && !v->added)
        return LK_OK;
    LK_TRY(lk__grad_set(v));
    if (v->leaf_grad && !v->added)
        LK_TRY(add_to(t, v->outside, v->leaf_grad, v->grad));
    v->added = false;
    lk__grad_forget(t, v);
    if (t->on_leaf && v->leaf_grad)
        LK_TRY(t->on_leaf(t->on_leaf_arg, v->leaf_grad));
    return LK_OK;
}

void lk__grad_forget(lk_tape *t, lk__value *v)
{
    if (v->grad == LK_NO_INDEX)
        return;
    lk__value_release(t, v->grad);
    v->grad = LK_NO_INDEX;
}
