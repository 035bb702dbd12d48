/* Backward: through the nodes in exactly the reverse order.
 *
 * A pass first marks what it will reach from the seeds, and checks all of it, so that a misuse is
 * found before a gradient is written.  Then it runs each marked node: the gradients of its outputs
 * are complete by then, because the nodes that read them came later.  What a node leaves behind (its
 * outputs, their gradients) is given back at once.
 *
 * Nodes that communicate are run whether marked or not: other ranks may wait for them.
 */
#include "autograd/tape.h"
#include "base/fpenv.h"

enum { FEW = 8 };

/* Whether a gradient of one of its inputs is wanted; lk_backward() wants all. */
static bool leads_on(const lk_tape *t, const lk__node *n)
{
    bool any = t->pass.deposit;
    for (int i = 0; !any && i < n->n_in; i++)
        any = lk__is_wanted(t, lk__value_at(t, n->in[i].value));
    return any;
}

static bool is_reached(const lk_tape *t, const lk__node *n)
{
    if (n->op->flags & LK_OP_COLLECTIVE && !n->consumed)
        return true;
    if (!leads_on(t, n))
        return false;
    for (int j = 0; j < n->op->n_out; j++) {
        const lk__value *v = lk__value_at(t, n->out[j]);
        if (v->reached == t->pass.stamp && lk__is_wanted(t, v))
            return true;
    }
    return false;
}

static lk_status node_check(const lk_tape *t, const lk__node *n, int64_t number)
{
    LK_CHECK(
        !n->consumed, LK_ESTATE,
        "backward has already passed %s #%lld and released its values: give LK_RETAIN_GRAPH to the "
        "first pass, or run forward again",
        n->op->name, (long long)number);
    LK_CHECK(!t->pass.record || !(n->op->flags & LK_OP_FIRST_ORDER), LK_ENOTSUP,
             "the backward of %s #%lld cannot be recorded", n->op->name, (long long)number);
    for (int i = 0; i < n->n_in; i++) {
        const lk__value *v = lk__value_at(t, n->in[i].value);
        bool saved = i < 32 ? n->op->saves_in >> i & 1 : n->op->saves_in == ~0u;
        LK_CHECK(!saved || v->block || v->released ||
                     lk__tensor_version(&v->tensor) == n->in[i].version,
                 LK_ESTATE,
                 "input %d of %s #%lld, a tensor %s, was changed in place after it was used: its "
                 "gradient would be wrong; change it after backward, or use a copy",
                 i, n->op->name, (long long)number, lk_tensor_text(&v->tensor).s);
    }
    return LK_OK;
}

void lk__pass_reach(lk_tape *t, lk__value *v)
{
    v->reached = t->pass.stamp;
    if (v->node != LK_NO_INDEX && v->node < t->pass.lowest)
        t->pass.lowest = v->node;
}

/* Whether there is nothing to do in node `k` and before. */
static bool is_over(const lk_tape *t, int64_t k)
{
    return k < t->pass.lowest && t->n_collective == 0;
}

lk_status lk__pass_mark(lk_tape *t, int64_t first, int64_t last)
{
    for (int64_t k = last - 1; k >= first && !is_over(t, k); k--) {
        const lk__node *n = lk__node_at(t, k);
        if (!is_reached(t, n))
            continue;
        LK_TRY(node_check(t, n, k));
        for (int i = 0; i < n->n_in; i++) {
            lk__value *v = lk__value_at(t, n->in[i].value);
            if (v->needs_grad)
                lk__pass_reach(t, v);
        }
    }
    return LK_OK;
}

void lk__pass_mark_useful(lk_tape *t, int64_t first)
{
    for (int64_t k = first; k < t->n_nodes; k++) {
        const lk__node *n = lk__node_at(t, k);
        /* What another rank gave may depend on what is wanted there. */
        bool useful = n->op->flags & LK_OP_COLLECTIVE;
        for (int i = 0; i < n->n_in; i++)
            useful |= lk__value_at(t, n->in[i].value)->useful == t->pass.stamp;
        for (int j = 0; useful && j < n->op->n_out; j++)
            lk__value_at(t, n->out[j])->useful = t->pass.stamp;
    }
}

bool lk_call_needs_grad(const lk_call *call, int i)
{
    return lk__is_wanted(call->tape, lk__value_at(call->tape, call->in[i].index));
}

/* The gradients of a node's outputs; false if none has arrived. */
static lk_status take_douts(lk_tape *t, const lk__node *n, lk_var *dout, bool *any)
{
    *any = n->op->flags & LK_OP_COLLECTIVE;
    for (int j = 0; j < n->op->n_out; j++) {
        const lk__value *v = lk__value_at(t, n->out[j]);
        dout[j] = LK_NO_VAR;
        if (v->grad != LK_NO_INDEX)
            dout[j] = lk__var(t, v->grad);
        else if (n->op->flags & LK_OP_COLLECTIVE)
            LK_TRY(lk_zeros_like(lk__var(t, n->out[j]), &dout[j]));
        *any |= v->grad != LK_NO_INDEX;
    }
    return LK_OK;
}

static lk_status give_din(lk_tape *t, const lk__node *n, int i, lk_var din)
{
    lk__value *to = lk__value_at(t, n->in[i].value), *g = NULL;
    if (!lk_is_var(din) || !lk__is_wanted(t, to))
        return LK_OK;
    LK_CHECK(din.tape == t, LK_EINVAL, "backward of %s gave a value of another tape", n->op->name);
    LK_TRY(lk__find(din, false, &g));
    bool dtypes = g->tensor.dtype == to->tensor.dtype;
    LK_CHECK(dtypes && lk_shape_is_equal(g->tensor.shape, to->tensor.shape),
             dtypes ? LK_ESHAPE : LK_EDTYPE,
             "backward of %s gave the gradient %s for input %d, which is %s", n->op->name,
             lk_tensor_text(&g->tensor).s, i, lk_tensor_text(&to->tensor).s);
    return LK_TRACE(lk__grad_add(t, n->in[i].value, din.index));
}

/* Run one node's backward with room for its inputs' variables and gradients. */
static lk_status node_run(lk_tape *t, const lk__node *n, lk_var *in, lk_var *din)
{
    lk_var out[LK_MAX_OUT], dout[LK_MAX_OUT];
    bool any = false;
    LK_TRY(take_douts(t, n, dout, &any));
    if (!any)
        return LK_OK;
    for (int i = 0; i < n->n_in; i++) {
        in[i] = lk__var(t, n->in[i].value);
        din[i] = LK_NO_VAR;
    }
    for (int j = 0; j < n->op->n_out; j++)
        out[j] = lk__var(t, n->out[j]);
    lk_call call = {t, n->op, n->attr, n->n_in, n->op->n_out, in, out, NULL, NULL, false, false};
    int64_t piece = t->piece;
    t->piece = n->piece; /* sums are cut as in forward */
    lk_status st = n->op->backward(&call, dout, din);
    t->piece = piece;
    LK_TRY(st);
    for (int i = 0; i < n->n_in; i++)
        LK_TRY(give_din(t, n, i, din[i]));
    return LK_OK;
}

static lk_status node_run_scoped(lk_tape *t, const lk__node *n)
{
    lk_status st;
    lk__scope scope;
    lk__block *room = NULL;
    lk_var few[2 * FEW], *in = few;
    if (!t->pass.record)
        lk__scope_open(t, &scope);
    if (n->n_in > FEW) {
        LK_TRY_TO(done, lk__block_new(&t->memory, 2 * (int64_t)sizeof *in * n->n_in, &room));
        in = lk__block_data(room);
    }
    LK_TRY_TO(done, node_run(t, n, in, in + n->n_in));
done:
    lk__block_release(&t->memory, room);
    if (!t->pass.record)
        lk__scope_close(t);
    return st;
}

/* A node is done: its outputs and their gradients are not needed any more. */
static lk_status node_leave(lk_tape *t, lk__node *n, int64_t number)
{
    for (int j = 0; j < n->op->n_out; j++) {
        lk__value *v = lk__value_at(t, n->out[j]);
        if (!v->wanted)
            lk__grad_forget(t, v);
        if (!t->pass.retain && !v->keep && v->holds == 1) /* it may serve as a gradient */
            lk__value_drop(t, v);
    }
    n->consumed = !t->pass.retain;
    for (int i = 0; t->pass.deposit && i < n->n_in; i++) {
        const lk__value *v = lk__value_at(t, n->in[i].value);
        if (v->outside && v->first_use == number)
            LK_TRY(lk__grad_deposit(t, n->in[i].value));
    }
    return LK_OK;
}

lk_status lk__pass_run(lk_tape *t, int64_t first, int64_t last)
{
    for (int64_t k = last - 1; k >= first && !is_over(t, k); k--) {
        lk__node *n = lk__node_at(t, k);
        if (!is_reached(t, n))
            continue;
        LK_TRY(node_check(t, n, k)); /* again: a leaf may have got a gradient in place of a value */
        t->pass.node = k;
        LK_TRY(node_run_scoped(t, n));
        LK_TRY(node_leave(t, n, k));
    }
    return LK_OK;
}

static lk_status pass_begin(lk_tape *t, bool deposit, unsigned flags)
{
    LK_CHECK(!t->pass.on && !t->silent, LK_ESTATE, "backward inside %s",
             t->silent ? "a segment of lk_recompute()" : "backward");
    LK_CHECK((flags & ~(unsigned)(LK_RETAIN_GRAPH | LK_RECORD)) == 0, LK_EINVAL, "flags are %#x",
             flags);
    LK_CHECK(t->n_deposits == 0, LK_ESTATE,
             "the gradients of %lld postponed leaves are left from the backward before: call "
             "lk_backward_rest() first",
             (long long)t->n_deposits);
    if (t->extension)
        LK_TRY(t->extension->ready(t->extension));
    t->pass = (lk__pass){.deposit = deposit,
                         .postpones = deposit && t->n_postponed > 0 && !(flags & LK_RECORD),
                         .record = flags & LK_RECORD,
                         .retain = flags & (LK_RETAIN_GRAPH | LK_RECORD),
                         .lowest = INT64_MAX,
                         .stamp = ++t->stamp};
    return LK_OK;
}

/* Forget the gradients that a failed pass has left. */
static void pass_clear(lk_tape *t)
{
    lk__postponed_forget(t);
    for (int64_t i = 0; i < t->n_values; i++) {
        lk__value *v = lk__value_at(t, i);
        if (v->serial == 0)
            continue;
        lk__grad_forget(t, v);
        v->wanted = v->added = false;
    }
}

/* Leaves whose first use was not passed, and those that nothing has come to. */
static lk_status deposit_rest(lk_tape *t)
{
    for (int64_t i = 0; t->pass.deposit && i < t->n_touched; i++)
        LK_TRY(lk__grad_deposit(t, t->touched[i]));
    for (int64_t i = 0; t->pass.deposit && i < t->n_outside; i++) {
        lk__value *v = lk__value_at(t, t->outside[i]);
        LK_TRY(lk__is_postponed(t, v) ? lk__postpone_deposit(t, t->outside[i]) : lk__grad_set(v));
    }
    return LK_OK;
}

/* The pass itself, after all checks, from n seeds as lk__seeds_set() takes them. */
static lk_status pass_execute(lk_tape *t, const lk_seed *seeds, const lk_var *of,
                              const lk_var *grad, int n)
{
    lk_status st;
    lk__scope scope;
    bool records = t->records;
    int64_t last = t->n_nodes;
    t->n_touched = 0;
    t->pass.on = true;
    t->records = t->pass.record;
    if (!t->pass.record)
        lk__scope_open(t, &scope);
    LK_TRY_TO(done, lk__seeds_set(t, seeds, of, grad, n));
    LK_TRY_TO(done, lk__pass_run(t, 0, last));
    LK_TRY_TO(done, deposit_rest(t));
done:
    if (st != LK_OK)
        pass_clear(t);
    if (st != LK_OK && t->n_collective > 0) /* others wait for what it has not done */
        lk__failed_alone(t, st);
    if (!t->pass.record)
        lk__scope_close(t);
    t->records = records;
    t->pass.on = false;
    LK_TRY(st);
    return LK_TRACE(lk__reset_check(t));
}

/* The status of what comes before a pass, or behind it: where memory has run out there, which the
 * program cannot have known, other ranks wait for the pass all the same. */
static lk_status pass_failed(const lk_tape *t, lk_status st)
{
    if (st == LK_ENOMEM && t->n_collective > 0)
        lk__failed_alone(t, st);
    return st;
}

lk_status lk_backward(lk_tape *t, const lk_seed *seeds, int n, unsigned flags)
{
    LK_FP_GUARD();
    LK_CHECK(t && n >= 0 && (seeds || n == 0), LK_EINVAL, "%s", t ? "no seeds" : "tape is NULL");
    t->canonical = lk__fp_is_canonical(&host_);
    LK_TRY(pass_begin(t, true, flags));
    for (int k = 0; k < n; k++)
        LK_TRY(lk__seed_check(t, seeds[k].of, seeds[k].grad));
    LK_TRY(lk__pass_mark(t, 0, t->n_nodes));
    return LK_TRACE(pass_execute(t, seeds, NULL, NULL, n));
}

static lk_status wanted_check(lk_tape *t, lk_var v)
{
    lk__value *x = NULL;
    LK_CHECK(v.tape == t, LK_EINVAL, "wrt has %s",
             v.tape ? "a value of another tape" : "LK_NO_VAR, which is no value");
    LK_TRY(lk__find(v, true, &x));
    LK_CHECK(x->needs_grad, LK_EINVAL,
             "wrt has a value %s that needs no gradient: it depends on no "
             "leaf",
             lk_tensor_text(&x->tensor).s);
    x->useful = t->pass.stamp;
    return LK_OK;
}

/* Hand the gradients over to the program. */
static lk_status collect(lk_tape *t, const lk_var *wrt, int n, lk_var *out)
{
    for (int k = 0; k < n; k++) {
        const lk__value *v = lk__value_at(t, wrt[k].index);
        if (v->grad == LK_NO_INDEX) {
            LK_TRY(lk_zeros_like(wrt[k], &out[k]));
        } else {
            lk__value_hold(t, v->grad);
            out[k] = lk__var(t, v->grad);
        }
    }
    for (int k = 0; k < n; k++) {
        lk__value *v = lk__value_at(t, wrt[k].index);
        v->wanted = false;
        lk__grad_forget(t, v);
    }
    return LK_OK;
}

/* What lk_grad() was asked for; copies, because the results may be written over the arguments. */
typedef struct request {
    int n_of, n_wrt;
    lk_var *of, *grad, *wrt;
} request;

static lk_status request_copy(lk_tape *t, const lk_var *of, const lk_var *grad_of,
                              const lk_var *wrt, request *r)
{
    LK_TRY(lk__node_arena_take(&t->node_arena, (2 * r->n_of + r->n_wrt) * (int64_t)sizeof *of,
                               &r->of));
    r->grad = r->of + r->n_of;
    r->wrt = r->grad + r->n_of;
    for (int k = 0; k < r->n_of; k++) {
        r->of[k] = of[k];
        r->grad[k] = grad_of ? grad_of[k] : LK_NO_VAR;
    }
    for (int k = 0; k < r->n_wrt; k++)
        r->wrt[k] = wrt[k];
    return LK_OK;
}

/* The first node that read a value that is wanted. */
static int64_t first_use(const lk_tape *t, const request *r)
{
    int64_t first = t->n_nodes;
    for (int k = 0; k < r->n_wrt; k++) {
        const lk__value *v = lk__value_at(t, r->wrt[k].index);
        if (v->first_use != LK_NO_INDEX && v->first_use < first)
            first = v->first_use;
    }
    return first;
}

static lk_status request_check(lk_tape *t, const request *r)
{
    for (int k = 0; k < r->n_of; k++) {
        const lk_tensor *g = NULL;
        LK_CHECK(r->grad[k].tape == t || !lk_is_var(r->grad[k]), LK_EINVAL,
                 "grad_of has a value of another tape");
        if (lk_is_var(r->grad[k]))
            LK_TRY(lk_value(r->grad[k], &g));
        LK_TRY(lk__seed_check(t, r->of[k], g));
    }
    for (int k = 0; k < r->n_wrt; k++)
        LK_TRY(wanted_check(t, r->wrt[k]));
    lk__pass_mark_useful(t, t->n_collective > 0 ? 0 : first_use(t, r));
    return LK_TRACE(lk__pass_mark(t, 0, t->n_nodes));
}

lk_status lk_grad(lk_tape *t, const lk_var *of, const lk_var *grad_of, int n_of, const lk_var *wrt,
                  int n_wrt, unsigned flags, lk_var *out)
{
    LK_FP_GUARD();
    request r = {.n_of = n_of, .n_wrt = n_wrt};
    LK_CHECK(t && out && n_of >= 0 && n_wrt >= 0 && (of || n_of == 0) && (wrt || n_wrt == 0),
             LK_EINVAL, "%s", t ? "an argument is NULL or negative" : "tape is NULL");
    t->canonical = lk__fp_is_canonical(&host_);
    LK_TRY(pass_failed(t, request_copy(t, of, grad_of, wrt, &r)));
    for (int k = 0; k < n_wrt; k++)
        out[k] = LK_NO_VAR;
    LK_TRY(pass_begin(t, false, flags));
    LK_TRY(request_check(t, &r));
    for (int k = 0; k < n_wrt; k++)
        lk__value_at(t, r.wrt[k].index)->wanted = true;
    LK_TRY(pass_execute(t, NULL, r.of, r.grad, n_of));
    lk_status st = collect(t, r.wrt, n_wrt, out);
    if (st != LK_OK)
        pass_clear(t);
    return LK_TRACE(pass_failed(t, st));
}
