/* lk_tape: made, reset and freed by the program or a trainer; values in and out.  One thread uses a
 * tape. */
#include "autograd/tape.h"

lk_status lk_tape_new(lk_tape **out)
{
    LK_CHECK(out, LK_EINVAL, "out is NULL");
    LK_TRY(lk_alloc_zero(out, 1, sizeof **out));
    (*out)->records = true;
    (*out)->free_value = LK_NO_INDEX;
    return LK_OK;
}

static void release_outside(lk_tape *t)
{
    for (int64_t i = 0; i < t->n_outside; i++) {
        lk__value *v = lk__value_at(t, t->outside[i]);
        lk_tensor_free(v->outside);
        lk_tensor_free(v->leaf_grad);
    }
    t->n_outside = 0;
}

void lk_tape_reset(lk_tape *t)
{
    if (!t)
        return;
    if (t->pass.on || t->scope) { /* a pass still works with the values */
        t->reset_inside = true;
        return;
    }
    if (t->extension)
        t->extension->reset(t->extension);
    release_outside(t);
    t->n_values = t->n_free_values = t->n_nodes = t->n_collective = 0;
    t->free_value = LK_NO_INDEX;
    t->n_postponed = t->n_deposits = 0;
    lk__node_arena_back(&t->parts, (lk__node_arena_mark){NULL, 0});
    lk__node_arena_back(&t->node_arena, (lk__node_arena_mark){NULL, 0});
    lk__memory_reset(&t->memory);
}

void lk__tape_give_back(lk_tape *t)
{
    lk_tape_reset(t);
    lk__memory_free(&t->memory);
    t->memory = (lk__memory){0};
    lk__plans_free(t);
    t->plans = NULL;
    t->n_plans = 0;
}

void lk_tape_free(lk_tape *t)
{
    if (!t)
        return;
    if (t->extension)
        t->extension->free(t->extension);
    release_outside(t);
    lk__plans_free(t);
    lk__node_arena_free(&t->node_arena);
    lk__node_arena_free(&t->parts);
    lk__memory_free(&t->memory);
    lk__pages_free(&t->value_pages);
    lk__pages_free(&t->node_pages);
    lk_free(t->outside);
    lk_free(t->capture.value);
    lk_free(t->touched);
    lk_free(t->deposits);
    lk_free(t);
}

lk__tape_extension **lk__tape_extension_slot(lk_tape *t)
{
    return &t->extension;
}

bool lk__tape_writes(const lk_tape *t)
{
    return t->records && !t->silent;
}

lk_status lk__tape_room(lk_tape *t, int64_t bytes, void *out)
{
    return LK_TRACE(lk__node_arena_take(&t->node_arena, bytes, out));
}

bool lk__tape_is_canonical(const lk_tape *tape)
{
    return tape->canonical;
}

bool lk__tape_retains(const lk_tape *t)
{
    return t->pass.on && t->pass.retain;
}

const void *lk__tape_segment(const lk_tape *t)
{
    const lk__scope *s = t->scope;
    while (s && s->passes_on) /* of a layer within it */
        s = s->outer;
    return t->silent || t->replays ? s : NULL;
}

bool lk_tape_set_recording(lk_tape *t, bool on)
{
    bool before = t && t->records;
    if (t)
        t->records = on;
    return before;
}

bool lk_tape_is_recording(const lk_tape *t)
{
    return t->records;
}

lk_status lk_tape_set_shard_size(lk_tape *t, int64_t samples)
{
    LK_CHECK(samples >= 0, LK_EINVAL, "%lld samples in a piece", (long long)samples);
    t->piece = samples;
    return LK_OK;
}

void lk_tape_set_grad_hook(lk_tape *t, lk_grad_hook *fn, void *arg)
{
    t->on_leaf = fn;
    t->on_leaf_arg = arg;
}

int64_t lk_tape_shard_size(const lk_tape *t)
{
    return t->piece;
}

bool lk_tape_is_recomputing(const lk_tape *t)
{
    return t->replays;
}

lk_tape_stats lk_tape_stats_of(const lk_tape *t)
{
    if (!t)
        return (lk_tape_stats){0};
    return (lk_tape_stats){.nodes = t->n_nodes,
                           .values = t->n_values - t->n_free_values,
                           .live_bytes = t->memory.live,
                           .peak_bytes = t->memory.peak,
                           .held_bytes = t->memory.held};
}

/* A value on a tensor of the program. */
static lk_status outside(lk_tape *t, lk_tensor *x, lk_tensor *grad, bool needs_grad, lk_var *out)
{
    int64_t i;
    LK_TRY(lk__grow(&t->outside, &t->outside_capacity, t->n_outside + 1, sizeof *t->outside));
    LK_TRY(lk__value_new(t, &i));
    lk__value *v = lk__value_at(t, i);
    lk_tensor fields = lk__tensor_fields(x);
    memcpy(&v->tensor, &fields, sizeof fields);
    v->tensor.writable = false;
    v->outside = lk_tensor_retain(x);
    v->leaf_grad = lk_tensor_retain(grad);
    v->needs_grad = needs_grad;
    v->holds++; /* until the reset, wherever it was made */
    t->outside[t->n_outside++] = i;
    *out = lk__var(t, i);
    return LK_OK;
}

lk_status lk__value_copy(lk_tape *t, const lk_tensor *x, lk_var *out)
{
    int64_t i;
    LK_TRY(lk__value_new(t, &i));
    lk__value *v = lk__value_at(t, i);
    LK_TRY(lk__value_make(t, v, x->dtype, x->shape));
    if (lk_tensor_is_contiguous(x)) /* the usual case, in a few instructions */
        memcpy(lk__tensor_start(&v->tensor), lk__tensor_start(x),
               (size_t)x->count * lk_dtype_size(x->dtype));
    else
        LK_TRY(lk_tensor_copy(x, &v->tensor));
    v->tensor.writable = false;
    *out = lk__var(t, i);
    return LK_OK;
}

lk_status lk__reset_check(lk_tape *t)
{
    bool reset = t->reset_inside;
    t->reset_inside = false;
    LK_CHECK(!reset, LK_ESTATE,
             "lk_tape_reset() was called inside backward or a segment, which still needs the tape");
    return LK_OK;
}

/* Whether the gradient of a leaf can go to `grad`. */
static lk_status grad_check(const lk_tensor *value, const lk_tensor *grad)
{
    LK_CHECK(grad->dtype == value->dtype, LK_EDTYPE, "a leaf %s with the gradient %s",
             lk_tensor_text(value).s, lk_tensor_text(grad).s);
    LK_CHECK(lk_shape_is_equal(grad->shape, value->shape), LK_ESHAPE,
             "a leaf %s with the gradient %s", lk_tensor_text(value).s, lk_tensor_text(grad).s);
    LK_CHECK(grad->writable, LK_EINVAL, "the gradient %s of a leaf is read-only",
             lk_tensor_text(grad).s);
    LK_CHECK(!lk_tensor_overlap(grad, value), LK_EOVERLAP,
             "a leaf %s and its gradient share elements", lk_tensor_text(value).s);
    return LK_OK;
}

lk_status lk_leaf(lk_tape *t, lk_tensor *value, lk_tensor *grad, lk_var *out)
{
    LK_CHECK(out, LK_EINVAL, "out is NULL");
    *out = LK_NO_VAR;
    LK_CHECK(t && value, LK_EINVAL, "%s is NULL", t ? "value" : "tape");
    LK_CHECK(lk_dtype_is_real(value->dtype), LK_EDTYPE,
             "a leaf %s: only f32 and f64 have gradients", lk_tensor_text(value).s);
    LK_CHECK(
        !t->silent && !t->replays, LK_ESTATE,
        "a leaf inside a segment of lk_recompute(): make it before, backward makes another one");
    if (grad)
        LK_TRY(grad_check(value, grad));
    return LK_TRACE(outside(t, value, grad, true, out));
}

lk_status lk_leaf_overwrite(lk_tape *t, lk_tensor *value, lk_tensor *grad, lk_var *out)
{
    LK_TRY(lk_leaf(t, value, grad, out));
    lk__value_at(t, out->index)->unset = grad;
    return LK_OK;
}

/* The value of a leaf, outside backward and segments. */
static lk_status leaf_find(lk_var leaf, lk__value **out)
{
    LK_TRY(lk__find(leaf, false, out));
    LK_CHECK((*out)->outside && (*out)->needs_grad, LK_EINVAL, "a value %s is no leaf",
             lk_tensor_text(&(*out)->tensor).s);
    LK_CHECK(!leaf.tape->pass.on && !leaf.tape->silent, LK_ESTATE,
             "a leaf %s is changed inside backward or a segment",
             lk_tensor_text(&(*out)->tensor).s);
    return LK_OK;
}

lk_status lk_leaf_set_grad(lk_var leaf, lk_tensor *grad, bool overwrite)
{
    lk__value *v = NULL;
    LK_TRY(leaf_find(leaf, &v));
    if (grad)
        LK_TRY(grad_check(v->outside, grad));
    lk_tensor *before = v->leaf_grad;
    v->leaf_grad = lk_tensor_retain(grad);
    v->unset = grad && overwrite;
    lk_tensor_free(before);
    return LK_OK;
}

lk_status lk_leaf_postpone(lk_var leaf)
{
    lk__value *v = NULL;
    LK_TRY(leaf_find(leaf, &v));
    leaf.tape->n_postponed += !v->postponed;
    v->postponed = true;
    return LK_OK;
}

lk_status lk_constant(lk_tape *t, lk_tensor *value, lk_var *out)
{
    LK_CHECK(out, LK_EINVAL, "out is NULL");
    *out = LK_NO_VAR;
    LK_CHECK(t && value, LK_EINVAL, "%s is NULL", t ? "value" : "tape");
    return LK_TRACE(outside(t, value, NULL, false, out));
}

lk_status lk_full(lk_tape *t, lk_dtype dtype, lk_shape shape, double value, lk_var *out)
{
    lk_status st;
    int64_t i;
    LK_CHECK(out, LK_EINVAL, "out is NULL");
    *out = LK_NO_VAR;
    LK_CHECK(t, LK_EINVAL, "tape is NULL");
    LK_CHECK(lk_dtype_size(dtype) > 0, LK_EDTYPE, "dtype number %d of a value", (int)dtype);
    LK_TRY(lk__value_new(t, &i));
    lk__value *v = lk__value_at(t, i);
    LK_TRY_TO(done, lk__value_make(t, v, dtype, shape));
    LK_TRY_TO(done, lk_tensor_fill_f64(&v->tensor, value));
    v->tensor.writable = false;
    *out = lk__var(t, i);
done:
    return st;
}

lk_status lk_zeros_like(lk_var like, lk_var *out)
{
    lk_status st;
    lk__value *x = NULL;
    int64_t i;
    *out = LK_NO_VAR;
    LK_TRY(lk__find(like, true, &x));
    lk_tape *t = like.tape;
    lk_shape shape = x->tensor.shape;
    int64_t count = x->tensor.count;
    LK_TRY(lk__value_new(t, &i));
    lk__value *v = lk__value_at(t, i);
    LK_TRY_TO(done, lk__value_make(t, v, x->tensor.dtype, LK_SCALAR));
    LK_TRY_TO(done, lk_tensor_fill_f64(&v->tensor, 0));
    v->tensor.shape = shape;
    v->tensor.count = count;
    v->tensor.writable = false;
    memset(v->tensor.stride, 0, sizeof v->tensor.stride);
    *out = lk__var(t, i);
done:
    return st;
}

void lk__find_raise(lk_var v)
{
    if (!v.tape)
        (void)LK_RAISE(LK_EINVAL, "a variable is LK_NO_VAR, which is no value");
    else if (v.index >= v.tape->n_values || lk__value_at(v.tape, v.index)->serial != v.serial)
        (void)LK_RAISE(LK_ESTATE,
                       "a variable is used after lk_tape_reset(), or outside the segment it was "
                       "made in: its value is gone");
    else
        (void)LK_RAISE(LK_ESTATE,
                       "a value %s was released when backward passed it, or the layer behind it "
                       "in a pass that is not recorded: read it before, name it to "
                       "lk_retain_value(), or give LK_RETAIN_GRAPH to backward",
                       lk_tensor_text(&lk__value_at(v.tape, v.index)->tensor).s);
}

lk_status lk_value(lk_var v, const lk_tensor **out)
{
    lk__value *x = NULL;
    LK_CHECK(out, LK_EINVAL, "out is NULL");
    *out = NULL;
    LK_TRY(lk__find(v, false, &x));
    *out = &x->tensor;
    return LK_OK;
}

lk_status lk_item(lk_var v, double *out)
{
    lk__value *x = NULL;
    LK_CHECK(out, LK_EINVAL, "out is NULL");
    LK_TRY(lk__find(v, false, &x));
    LK_CHECK(x->tensor.count == 1, LK_ESHAPE, "a value %s has %lld elements, an item is one",
             lk_tensor_text(&x->tensor).s, (long long)x->tensor.count);
    lk_shape index = {.ndim = x->tensor.shape.ndim};
    return LK_TRACE(lk_tensor_get_f64(&x->tensor, index, out));
}

lk_status lk_retain_value(lk_var v)
{
    lk__value *x = NULL;
    LK_TRY(lk__find(v, false, &x));
    x->keep = true;
    return LK_OK;
}

static const lk__value *valid(lk_var v)
{
    if (!v.tape || v.index >= v.tape->n_values)
        return NULL;
    const lk__value *x = lk__value_at(v.tape, v.index);
    return x->serial == v.serial ? x : NULL;
}

bool lk_needs_grad(lk_var v)
{
    const lk__value *x = valid(v);
    return x && x->needs_grad;
}

lk_dtype lk_dtype_of(lk_var v)
{
    const lk__value *x = valid(v);
    return x ? x->tensor.dtype : LK_F32;
}

lk_shape lk_shape_of(lk_var v)
{
    const lk__value *x = valid(v);
    return x ? x->tensor.shape : LK_SCALAR;
}
