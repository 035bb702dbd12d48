/* Adding up gradients: of a value during backward, and into the leaves at its end. backward.c and
 * ops call it, on the tape's thread. */
#include "autograd/tape.h"
#include "base/fpenv.h"
#include "kernel/each.h"

#include <string.h>

static lk_status accumulate_infer(lk_call *c, lk_output_spec *out)
{
    out[0].dtype = c->x[0]->dtype;
    out[0].shape = c->x[0]->shape;
    return LK_OK;
}

static lk_status accumulate_forward(lk_call *c)
{
    return LK_TRACE(lk_map2(c->x[0]->dtype, LK_MAP2_ADD, 0, c->x[0]->count,
                            lk__tensor_start(c->x[0]), lk__tensor_start(c->x[1]),
                            lk__tensor_start(c->y[0])));
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

/* Whether elements side by side in a row lie farther apart than those in a column, as in a transpose: then a
 * copy, which goes by strips, is faster than rows. */
static bool jumps(const lk_tensor *g)
{
    int64_t step = g->shape.ndim > 0 ? g->stride[g->shape.ndim - 1] : 0;
    for (int d = 0; d < g->shape.ndim - 1; d++)
        if (g->shape.dim[d] > 1 && g->stride[d] > 0 && g->stride[d] < step)
            return true;
    return false;
}

/* acc = acc + g, or 0 + g where `first`, in one pass unless g jumps.  acc is contiguous and shares no
 * elements with g, which has any strides, such as those of a repeated row; `t` has an open scope. */
static lk_status add_in_place(lk_tape *t, const lk_tensor *acc, const lk_tensor *g, bool first)
{
    if (acc->count == 0)
        return LK_OK;
    if (!lk_tensor_is_contiguous(g) && jumps(g)) {
        lk_var copy;
        LK_TRY(lk__value_copy(t, g, &copy));
        g = &lk__value_at(t, copy.index)->tensor;
    }
    if (!t->canonical)
        LK_TRY(lk__fp_check());
    char *sum = lk__tensor_start(acc), *x = lk__tensor_start(g);
    size_t size = lk_dtype_size(acc->dtype);
    lk__each_job j = {.loop = first ? LK__LOOP_COPY : LK__LOOP_ADD,
                      .store = first ? LK_EACH_FIRST : LK_EACH_STORE,
                      .dtype = acc->dtype,
                      .y = sum,
                      .n = acc->count,
                      .n_in = first ? 1 : 2,
                      .ndim = acc->shape.ndim,
                      .in = {{.start = x, .size = size, .direct = lk_tensor_is_contiguous(g)},
                             {.start = sum, .size = size, .direct = true}}};
    memcpy(j.dim, acc->shape.dim, sizeof j.dim);
    memcpy(j.in[0].stride, g->stride, sizeof j.in[0].stride);
    return LK_TRACE(lk__each_job_run(&j));
}

/* Whether no other tensor has the elements of a gradient. */
static bool may_write(const lk__value *v)
{
    return v->holds == 1 && v->node == LK_NO_INDEX && v->block && v->block->holds == 1 &&
           lk_tensor_is_contiguous(&v->tensor);
}

lk_status lk__grad_touch(lk_tape *t, int64_t i)
{
    LK_TRY(lk__grow(&t->touched, &t->touched_capacity, t->n_touched + 1, sizeof *t->touched));
    t->touched[t->n_touched++] = i;
    return LK_OK;
}

lk_status lk__grad_add(lk_tape *t, int64_t i, int64_t g)
{
    lk__value *v = lk__value_at(t, i);
    if (v->parts && t->pass.postpones) { /* it must be added to what these will give */
        return LK_TRACE(lk__postpone_value(t, i, g));
    }
    if (v->grad == LK_NO_INDEX) {
        if (v->outside)
            LK_TRY(lk__grad_touch(t, i));
        v->grad = g;
        lk__value_hold(t, g);
        return LK_OK;
    }
    lk__value *first = lk__value_at(t, v->grad), *second = lk__value_at(t, g);
    if (!t->records && may_write(first)) {
        return LK_TRACE(add_in_place(t, &first->tensor, &second->tensor, false));
    }
    lk_var sum;
    LK_TRY(lk_apply(t, &accumulate, (lk_var[]){lk__var(t, v->grad), lk__var(t, g)}, 2, NULL, &sum));
    lk__value_hold(t, sum.index);
    lk__value_release(t, v->grad);
    v->grad = sum.index;
    return LK_OK;
}

/* acc = acc + g by way of the tape, which has an open scope: tensors of any strides, also such that
 * share elements. */
static lk_status add_by_tape(lk_tape *t, lk_tensor *acc, int64_t g)
{
    lk_var old, sum;
    const lk_tensor *result = NULL;
    LK_TRY(lk_constant(t, acc, &old));
    LK_TRY(lk_apply(t, &accumulate, (lk_var[]){old, lk__var(t, g)}, 2, NULL, &sum));
    LK_TRY(lk_value(sum, &result));
    return LK_TRACE(lk_tensor_copy(result, acc));
}

lk_status lk__grad_set(lk__value *v)
{
    lk_tensor *g = v->leaf_grad;
    if (!v->unset)
        return LK_OK;
    v->unset = false;
    if (!lk_tensor_is_contiguous(g)) {
        return LK_TRACE(lk_tensor_fill_f64(g, 0));
    }
    if (g->storage != v->outside->storage)
        lk__tensor_writes(g);
    memset(lk__tensor_start(g), 0, (size_t)g->count * lk_dtype_size(g->dtype));
    return LK_OK;
}

/* Add v's gradient to the program's tensor.  A write that cannot touch the leaf's own value, though both
 * are parts of one tensor, is not counted. */
static lk_status add_to_leaf(lk_tape *t, lk__value *v)
{
    lk_tensor *acc = v->leaf_grad;
    const lk__value *g = lk__value_at(t, v->grad);
    bool apart = g->block || !lk_tensor_overlap(acc, &g->tensor); /* a block is the tape's own */
    if (!apart || !lk_tensor_is_contiguous(acc)) {
        LK_TRY(lk__grad_set(v));
        return LK_TRACE(add_by_tape(t, acc, v->grad));
    }
    if (acc->storage != v->outside->storage)
        lk__tensor_writes(acc);
    LK_TRY(add_in_place(t, acc, &g->tensor, v->unset));
    v->unset = false;
    return LK_OK;
}

lk_status lk__grad_deposit(lk_tape *t, int64_t i)
{
    lk__value *v = lk__value_at(t, i);
    if (v->grad == LK_NO_INDEX && !v->added && !v->parts)
        return LK_OK;
    if (lk__is_postponed(t, v)) {
        return LK_TRACE(lk__postpone_deposit(t, i));
    }
    if (v->leaf_grad && !v->added)
        LK_TRY(add_to_leaf(t, v));
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
