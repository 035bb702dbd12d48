/* What lk_backward() leaves to lk_backward_rest(): the gradients of postponed leaves.
 *
 *     lk_backward()         runs the nodes; of a postponed leaf it keeps the parts that its gradient is the
 *                           sum of, and the place of its deposit among the others
 *     lk_backward_rest()    leaf by leaf in the order of deposits: its parts in theirs, added up, into `grad`
 *
 * A part is an op that lk_apply_gradient() was called with, with views of its inputs, so that their elements
 * stay when backward gives up the values; or a value, if one came behind such a part.  What comes before
 * the first part is added up in lk_backward(), as that of other leaves.  So the same ops give the same
 * sums, in the same order.
 */
#include "autograd/tape.h"
#include "base/fpenv.h"

#include <string.h>

typedef struct lk__grad_part {
    const lk_op *op; /* NULL: it is in[0] */
    const void *attr;
    lk_var *in;        /* views, owned by the part */
    uint64_t *version; /* of their elements */
    int n_in;
    int64_t piece;              /* lk_tape_shard_size() */
    struct lk__grad_part *next; /* of the leaf; behind the last comes the first */
} lk__grad_part;

/* A value on the elements of another, with one hold besides that of a scope. */
static lk_status view_take(lk_tape *t, const lk__value *of, lk_var *out)
{
    int64_t i;
    LK_TRY(lk__value_new(t, &i));
    lk_tensor fields = lk__tensor_fields(&of->tensor);
    lk__value_view(lk__value_at(t, i), of, &fields);
    lk__value_hold(t, i);
    *out = lk__var(t, i);
    return LK_OK;
}

/* Room for a part with n inputs that is the last one of `leaf`. */
static lk_status part_new(lk_tape *t, int64_t leaf, int n, lk__grad_part **out)
{
    lk__grad_part *p = NULL;
    lk__value *v = lk__value_at(t, leaf);
    LK_TRY(lk__node_arena_take(&t->parts, (int64_t)sizeof *p, &p));
    *p = (lk__grad_part){.piece = t->piece, .next = p};
    LK_TRY(lk__node_arena_take(&t->parts, n * (int64_t)sizeof *p->in, &p->in));
    LK_TRY(lk__node_arena_take(&t->parts, n * (int64_t)sizeof *p->version, &p->version));
    if (v->grad == LK_NO_INDEX && !v->parts)
        LK_TRY(lk__grad_touch(t, leaf));
    if (v->parts) {
        p->next = v->parts->next;
        v->parts->next = p;
    }
    v->parts = p;
    *out = p;
    return LK_OK;
}

static lk_status part_hold(lk_tape *t, lk__grad_part *p, const lk__value *of)
{
    LK_TRY(view_take(t, of, &p->in[p->n_in]));
    p->version[p->n_in++] = of->block ? 0 : lk__tensor_version(&of->tensor);
    return LK_OK;
}

lk_status lk__postpone_op(const lk_call *call, int64_t leaf)
{
    lk_tape *t = call->tape;
    lk__grad_part *p = NULL;
    void *attr;
    LK_TRY(lk__call_check(call));
    LK_TRY(part_new(t, leaf, call->n_in, &p));
    p->op = call->op;
    if (call->op->attr_size > 0) {
        LK_TRY(lk__node_arena_take(&t->parts, (int64_t)call->op->attr_size, &attr));
        memcpy(attr, call->attr, call->op->attr_size);
        p->attr = attr;
    }
    for (int i = 0; i < call->n_in; i++) {
        lk__value *of = NULL;
        LK_TRY(lk__input_find(call, i, &of));
        LK_TRY(part_hold(t, p, of));
    }
    return LK_OK;
}

lk_status lk__postpone_value(lk_tape *t, int64_t leaf, int64_t g)
{
    lk__grad_part *p = NULL;
    LK_TRY(part_new(t, leaf, 1, &p));
    return LK_TRACE(part_hold(t, p, lk__value_at(t, g)));
}

lk_status lk__postpone_deposit(lk_tape *t, int64_t leaf)
{
    lk__value *v = lk__value_at(t, leaf);
    if (v->placed)
        return LK_OK;
    LK_TRY(lk__grow(&t->deposits, &t->deposits_capacity, t->n_deposits + 1, sizeof *t->deposits));
    t->deposits[t->n_deposits++] = leaf;
    v->placed = true;
    return LK_OK;
}

/* Take away the first part of a leaf, and give back what only it has held. */
static void part_drop(lk_tape *t, lk__value *leaf)
{
    lk__grad_part *first = leaf->parts->next;
    leaf->parts->next = first->next;
    if (first == leaf->parts)
        leaf->parts = NULL;
    for (int i = 0; i < first->n_in; i++)
        lk__value_release(t, first->in[i].index);
}

void lk__postponed_forget(lk_tape *t)
{
    for (int64_t i = 0; t->n_postponed > 0 && i < t->n_outside; i++) {
        lk__value *v = lk__value_at(t, t->outside[i]);
        while (v->parts)
            part_drop(t, v);
        if (v->placed)
            lk__grad_forget(t, v);
        v->placed = v->added = false;
    }
    lk__node_arena_back(&t->parts, (lk__node_arena_mark){NULL, 0});
    t->n_deposits = 0;
}

static lk_status part_check(const lk_tape *t, const lk__grad_part *p)
{
    for (int i = 0; i < p->n_in; i++) {
        const lk__value *v = lk__value_at(t, p->in[i].index);
        LK_CHECK(v->block || lk__tensor_version(&v->tensor) == p->version[i], LK_ESTATE,
                 "a tensor %s that %s is still to read for the gradient of a postponed leaf was "
                 "changed in place: change it after lk_backward_rest(), or use a copy",
                 lk_tensor_text(&v->tensor).s, p->op ? p->op->name : "lk_backward_rest()");
    }
    return LK_OK;
}

static lk_status deposits_check(const lk_tape *t)
{
    for (int64_t i = 0; i < t->n_deposits; i++) {
        const lk__value *v = lk__value_at(t, t->deposits[i]);
        const lk__grad_part *p = v->parts;
        LK_CHECK(v->leaf_grad || (!p && v->grad == LK_NO_INDEX), LK_ESTATE,
                 "a postponed leaf %s has nowhere to put its gradient: lk_leaf_set_grad() says "
                 "where",
                 lk_tensor_text(&v->tensor).s);
        while (p) {
            p = p->next;
            LK_TRY(part_check(t, p));
            p = p == v->parts ? NULL : p;
        }
    }
    return LK_OK;
}

static lk_status part_run(lk_tape *t, int64_t leaf, const lk__grad_part *p, bool alone)
{
    LK_TRY(part_check(t, p)); /* again: a leaf may have got a gradient in place of a value */
    if (!p->op) {
        return LK_TRACE(lk__grad_add(t, leaf, p->in[0].index));
    }
    lk_call call = {t, p->op, p->attr, p->n_in, 1, p->in, NULL, NULL, NULL, false, false};
    t->piece = p->piece;
    return LK_TRACE(lk__apply_part(&call, leaf, alone));
}

static lk_status leaf_run(lk_tape *t, int64_t leaf)
{
    lk_status st = LK_OK;
    lk__scope scope;
    lk__value *v = lk__value_at(t, leaf);
    bool alone = v->grad == LK_NO_INDEX && v->parts && v->parts->next == v->parts;
    lk__scope_open(t, &scope);
    while (v->parts) {
        LK_TRY_TO(done, part_run(t, leaf, v->parts->next, alone));
        part_drop(t, v);
    }
    LK_TRY_TO(done, lk__grad_deposit(t, leaf));
    LK_TRY_TO(done, lk__grad_set(v)); /* nothing has come */
done:
    lk__scope_close(t);
    return st;
}

lk_status lk_backward_rest(lk_tape *t)
{
    LK_FP_GUARD();
    lk_status st = LK_OK;
    LK_CHECK(t, LK_EINVAL, "tape is NULL");
    LK_CHECK(!t->pass.on && !t->silent, LK_ESTATE, "the rest of backward inside %s",
             t->silent ? "a segment of lk_recompute()" : "backward");
    LK_TRY(deposits_check(t));
    bool records = t->records;
    int64_t piece = t->piece;
    t->canonical = lk__fp_is_canonical(&host_);
    t->pass = (lk__pass){.on = true, .deposit = true};
    t->records = false;
    t->n_touched = 0;
    for (int64_t i = 0; i < t->n_deposits; i++)
        LK_TRY_TO(done, leaf_run(t, t->deposits[i]));
done:
    lk__postponed_forget(t);
    t->piece = piece;
    t->records = records;
    t->pass.on = false;
    LK_TRY(st);
    return LK_TRACE(lk__reset_check(t));
}
