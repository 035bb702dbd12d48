/* lk_apply_gradient(): apply an op that gives the gradient of an input: straight into a leaf where that is
 * possible, later where the leaf is postponed, otherwise as any other.  The backward of ops calls it, on the
 * tape's thread. */
#include "autograd/tape.h"

/* Whether one of the inputs shares elements with `y`, which is the program's, or is none. */
static bool is_among(const lk_tensor *y, const lk_var *in, int n_in)
{
    for (int k = 0; k < n_in; k++) {
        lk__value *v = in[k].tape ? lk__value_at(in[k].tape, in[k].index) : NULL;
        if (!v || v->serial != in[k].serial || v->released)
            return true;
        if (!v->block && lk_tensor_overlap(y, &v->tensor)) /* a block is the tape's own */
            return true;
    }
    return false;
}

/* Whether `op` can add to the gradient of a leaf, or set it. */
static bool can_write(const lk_op *op, const lk__value *leaf)
{
    unsigned can = leaf->unset ? LK_OP_ACCUMULATES | LK_OP_OVERWRITES : LK_OP_ACCUMULATES;
    return leaf->leaf_grad && op->flags & can && lk_tensor_is_contiguous(leaf->leaf_grad);
}

/* Whether this call of backward alone gives the gradient of leaf `i`, and now. */
static bool is_alone(const lk_call *call, int i)
{
    const lk_tape *t = call->tape;
    const lk__value *v = lk__value_at(t, call->in[i].index);
    if (!t->pass.deposit || t->pass.record || lk__is_postponed(t, v) || v->grad != LK_NO_INDEX ||
        v->first_use != t->pass.node)
        return false;
    for (int k = 0; k < call->n_in; k++)
        if (k != i && call->in[k].index == call->in[i].index)
            return false;
    for (int k = 0; k < i; k++) { /* what it adds to the same elements comes before this */
        const lk__value *before = lk__value_at(t, call->in[k].index);
        if (before->leaf_grad && lk_tensor_overlap(before->leaf_grad, v->leaf_grad))
            return false;
    }
    return true;
}

/* Whether an op can be applied after backward: it gives nothing else, no rank waits for a message of it, and
 * what it computes with is its inputs. */
static bool can_wait(const lk_op *op, int n_in)
{
    return op->n_out == 1 && n_in > 0 && !(op->flags & LK_OP_COLLECTIVE);
}

lk_status lk_apply_gradient(const lk_call *call, int i, const lk_op *op, const lk_var *in, int n_in,
                            const void *attr, lk_var *out)
{
    lk_tape *t = call->tape;
    int64_t leaf = call->in[i].index;
    const lk__value *v = lk__value_at(t, leaf);
    lk_call gives = {t, op, attr, n_in, op->n_out, in, NULL, NULL, NULL, false, false};
    if (lk__is_postponed(t, v) && can_wait(op, n_in)) {
        lk_status st = lk__postpone_op(&gives, leaf);
        *out = LK_NO_VAR; /* only now: it may be where `in` was */
        LK_TRY(st);
    } else if (can_write(op, v) && is_alone(call, i) && !is_among(v->leaf_grad, in, n_in)) {
        LK_TRY(lk__apply_to_leaf(&gives, leaf, out));
    } else {
        LK_TRY(lk_apply(t, op, in, n_in, attr, out));
    }
    return LK_OK;
}

lk_status lk__apply_part(const lk_call *call, int64_t leaf, bool alone)
{
    lk_var g;
    lk__value *v = lk__value_at(call->tape, leaf), *x = NULL;
    if (alone && can_write(call->op, v) && !is_among(v->leaf_grad, call->in, call->n_in)) {
        return LK_TRACE(lk__apply_to_leaf(call, leaf, &g));
    }
    LK_TRY(lk_apply(call->tape, call->op, call->in, call->n_in, call->attr, &g));
    LK_TRY(lk__find(g, false, &x));
    LK_TRY(lk__gradient_check(call->op, &v->tensor, x->tensor.dtype, x->tensor.shape));
    return LK_TRACE(lk__grad_add(call->tape, leaf, g.index));
}
