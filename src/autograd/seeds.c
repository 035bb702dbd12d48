/* The seeds of backward: the gradients of the outputs that a pass starts from, checked and set
 * before it.  backward.c calls it, on the tape's thread. */
#include "autograd/tape.h"

enum { SMALL = 1024 }; /* elements of a seed that are copied sooner than compared with all leaves */

lk_status lk__seed_check(lk_tape *t, lk_var of, const lk_tensor *grad)
{
    lk__value *v = NULL;
    LK_CHECK(of.tape == t, LK_EINVAL, "a seed is %s",
             of.tape ? "a value of another tape" : "LK_NO_VAR, which is no value");
    LK_TRY(lk__find(of, true, &v));
    LK_CHECK(v->needs_grad, LK_EINVAL,
             "backward from a value %s that depends on no leaf: nothing was recorded for it (is "
             "recording on, and was LK_RECORD given to the lk_grad() that made it?)",
             lk_tensor_text(&v->tensor).s);
    LK_CHECK(
        v->node == LK_NO_INDEX || !lk__node_at(t, v->node)->consumed, LK_ESTATE,
        "backward has already passed this value %s, %s #%lld: give LK_RETAIN_GRAPH to the first "
        "pass, or run forward again",
        lk_tensor_text(&v->tensor).s, lk__node_at(t, v->node)->op->name, (long long)v->node);
    LK_CHECK(grad || v->tensor.count == 1, LK_ESHAPE,
             "backward from a value %s, which is not a scalar: give a gradient of this shape as "
             "seed, or reduce it to one number (lk_sum, lk_mean)",
             lk_tensor_text(&v->tensor).s);
    if (grad) {
        LK_CHECK(grad->dtype == v->tensor.dtype, LK_EDTYPE, "a seed %s for a value %s",
                 lk_tensor_text(grad).s, lk_tensor_text(&v->tensor).s);
        LK_CHECK(lk_shape_is_equal(grad->shape, v->tensor.shape), LK_ESHAPE,
                 "a seed %s for a value %s", lk_tensor_text(grad).s, lk_tensor_text(&v->tensor).s);
    }
    lk__pass_reach(t, v);
    v->keep = true;
    return LK_OK;
}

/* Whether backward may write to elements of a seed that it has still to read. */
static bool overlaps_leaf(const lk_tape *t, const lk_tensor *seed)
{
    for (int64_t i = 0; i < t->n_outside; i++) {
        const lk__value *v = lk__value_at(t, t->outside[i]);
        if (v->leaf_grad && lk_tensor_overlap(seed, v->leaf_grad))
            return true;
    }
    return false;
}

/* The gradient to start from as a value.  A message may read it after the pass. */
static lk_status seed_take(lk_tape *t, lk_tensor *seed, lk_var *out)
{
    if (seed->count <= SMALL || t->n_collective > 0 || overlaps_leaf(t, seed))
        LK_TRY(lk__value_copy(t, seed, out));
    else
        LK_TRY(lk_constant(t, seed, out));
    return LK_OK;
}

static lk_status seed_set(lk_tape *t, lk_var of, lk_tensor *seed, lk_var g)
{
    if (!lk__is_wanted(t, lk__value_at(t, of.index)))
        return LK_OK;
    if (seed)
        LK_TRY(seed_take(t, seed, &g));
    else if (!lk_is_var(g))
        LK_TRY(lk_full(t, lk_dtype_of(of), lk_shape_of(of), 1, &g));
    return LK_TRACE(lk__grad_add(t, of.index, g.index));
}

/* What is made here is then owned by the values whose gradient it is, and lives no longer than that. */
lk_status lk__seeds_set(lk_tape *t, const lk_seed *seeds, const lk_var *of, const lk_var *grad,
                        int n)
{
    lk_status st = LK_OK;
    lk__scope scope;
    if (!t->pass.record)
        lk__scope_open(t, &scope);
    for (int k = 0; k < n && st == LK_OK; k++)
        st = seeds ? seed_set(t, seeds[k].of, seeds[k].grad, LK_NO_VAR)
                   : seed_set(t, of[k], NULL, grad[k]);
    if (!t->pass.record)
        lk__scope_close(t);
    return LK_TRACE(st);
}
