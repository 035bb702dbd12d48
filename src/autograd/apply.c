/* lk_apply(): find the inputs of an op, make its outputs, compute, and write it to the tape.  The typed calls
 * of ops.h, layers, and ops in their backward end here, on the tape's thread.
 */
#include "autograd/tape.h"
#include "base/failure.h"
#include "base/fpenv.h"

enum { FEW = 8 };

/* A call with what it needs while it runs.  `call` comes first: ops see only that. */
typedef struct frame {
    lk_call call;
    lk__block *scratch; /* blocks to release when it ends */
    int64_t *in;        /* values */
    const lk_tensor **x;
    int made; /* outputs */
    int64_t out[LK_MAX_OUT];
    lk_tensor *y[LK_MAX_OUT];
    int64_t few_in[FEW];
    const lk_tensor *few_x[FEW];
} frame;

static lk_status scratch_take(frame *f, int64_t bytes, lk__block **out)
{
    LK_TRY(lk__block_new(&f->call.tape->memory, bytes, out));
    (*out)->next = f->scratch;
    f->scratch = *out;
    return LK_OK;
}

lk_status lk_call_scratch(lk_call *call, int64_t bytes, void *out)
{
    lk__block *b = NULL;
    LK_TRY(scratch_take((frame *)call, bytes, &b));
    void *data = lk__block_data(b);
    memcpy(out, &data, sizeof data);
    return LK_OK;
}

static void frame_end(frame *f)
{
    while (f->scratch) {
        lk__block *b = f->scratch;
        f->scratch = b->next;
        lk__block_release(&f->call.tape->memory, b);
    }
}

/* A contiguous copy of x, until the call ends. */
static lk_status densify(frame *f, const lk_tensor **x)
{
    lk_tensor *dense;
    lk__block *b = NULL;
    int64_t size = (int64_t)lk_dtype_size((*x)->dtype);
    LK_TRY(lk_call_scratch(&f->call, (int64_t)sizeof *dense, &dense));
    LK_TRY(scratch_take(f, (*x)->count * size, &b));
    lk_tensor fields = lk__tensor_fields(*x);
    memcpy(dense, &fields, sizeof fields);
    lk__shape_strides(dense->shape, dense->stride);
    dense->writable = true;
    dense->storage = b->chunk->storage;
    dense->version = &dense->storage->version;
    dense->offset = ((char *)lk__block_data(b) - (char *)dense->storage->data) / size;
    LK_TRY(lk_tensor_copy(*x, dense));
    *x = dense;
    return LK_OK;
}

lk_status lk__input_find(const lk_call *c, int i, lk__value **out)
{
    LK_CHECK(c->in[i].tape == c->tape || !c->in[i].tape, LK_EINVAL,
             "input %d of %s is a value of another tape", i, c->op->name);
    lk_status st = lk__find(c->in[i], false, out);
    if (st != LK_OK)
        lk__error_prefix("input %d of %s: ", i, c->op->name);
    return LK_TRACE(st);
}

static lk_status find_inputs(frame *f)
{
    lk_call *c = &f->call;
    if (c->n_in > FEW) {
        LK_TRY(lk_call_scratch(c, c->n_in * (int64_t)sizeof *f->in, &f->in));
        LK_TRY(lk_call_scratch(c, c->n_in * (int64_t)sizeof *f->x, (void *)&f->x));
    }
    for (int i = 0; i < c->n_in; i++) {
        lk__value *v = NULL;
        LK_TRY(lk__input_find(c, i, &v));
        f->in[i] = c->in[i].index;
        f->x[i] = &v->tensor;
        if (!(c->op->flags & LK_OP_STRIDED) && !lk_tensor_is_contiguous(&v->tensor))
            LK_TRY(densify(f, &f->x[i]));
    }
    c->x = f->x;
    return LK_OK;
}

/* The elements from the first to the last of a tensor, its gaps included. */
static int64_t span(lk_shape shape, const int64_t *stride)
{
    int64_t last = 0;
    for (int d = 0; d < shape.ndim; d++) {
        int64_t step;
        if (shape.dim[d] == 0)
            return 0;
        if (stride[d] < 0 || __builtin_mul_overflow(shape.dim[d] - 1, stride[d], &step) ||
            __builtin_add_overflow(last, step, &last))
            return INT64_MAX;
    }
    return last + 1;
}

/* Output `j` is a view of an input, and must lie within it. */
static lk_status make_view(frame *f, int j, const lk_output_spec *spec, lk__value *v)
{
    const lk_op *op = f->call.op;
    LK_CHECK(spec->view_of >= 0 && spec->view_of < f->call.n_in, LK_EINVAL,
             "output %d of %s is a view of input %d, there are %d", j, op->name, spec->view_of,
             f->call.n_in);
    LK_CHECK(op->flags & LK_OP_STRIDED, LK_EINVAL,
             "output %d of %s is a view, so %s must have LK_OP_STRIDED", j, op->name, op->name);
    const lk__value *of = lk__value_at(f->call.tape, f->in[spec->view_of]);
    lk_tensor view = lk__tensor_fields(&of->tensor);
    view.shape = spec->shape;
    LK_TRY(lk_shape_count(spec->shape, &view.count));
    int64_t all = span(of->tensor.shape, of->tensor.stride), part = span(spec->shape, spec->stride);
    LK_CHECK(spec->dtype == view.dtype && spec->offset >= 0 && part <= all &&
                 (part == 0 || spec->offset <= all - part),
             LK_EINVAL, "output %d of %s, %s%s, is a view beyond input %d, %s", j, op->name,
             lk_dtype_name(spec->dtype), lk_shape_text(spec->shape).s, spec->view_of,
             lk_tensor_text(&of->tensor).s);
    memcpy(view.stride, spec->stride, sizeof view.stride);
    view.offset += view.count > 0 ? spec->offset : 0;
    view.writable = false;
    lk__value_view(v, of, &view);
    return LK_OK;
}

/* Output `j` as `infer` described it. */
static lk_status make_output(frame *f, int j, const lk_output_spec *spec)
{
    lk_tape *t = f->call.tape;
    LK_CHECK(lk_dtype_size(spec->dtype) > 0, LK_EDTYPE, "output %d of %s has dtype number %d", j,
             f->call.op->name, (int)spec->dtype);
    LK_TRY(lk__value_new(t, &f->out[j]));
    f->made = j + 1;
    lk__value *v = lk__value_at(t, f->out[j]);
    if (spec->is_view) {
        LK_TRY(make_view(f, j, spec, v));
    } else {
        LK_TRY(lk__value_make(t, v, spec->dtype, spec->shape));
    }
    f->y[j] = &v->tensor;
    return LK_OK;
}

/* Find the inputs and make the outputs.  *computes: some are no views, so there is something to do. */
static lk_status prepare(frame *f, bool *computes)
{
    lk_call *c = &f->call;
    lk_output_spec spec[LK_MAX_OUT];
    bool all_views = true;
    for (int j = 0; j < c->n_out; j++)
        spec[j] = (lk_output_spec){0};
    LK_TRY(find_inputs(f));
    LK_TRY(c->op->infer(c, spec));
    for (int j = 0; j < c->n_out; j++) {
        LK_TRY(make_output(f, j, &spec[j]));
        all_views &= spec[j].is_view;
    }
    c->y = f->y;
    *computes = !all_views;
    LK_CHECK(c->op->forward || all_views, LK_EINVAL,
             "%s has no forward, and an output that is no view", c->op->name);
    return LK_OK;
}

/* The first run of a segment: remember what it uses from outside. */
static lk_status capture(frame *f)
{
    lk_tape *t = f->call.tape;
    lk__capture *c = &t->capture;
    c->needs_grad = true;
    c->collective |= (f->call.op->flags & LK_OP_COLLECTIVE) != 0;
    for (int i = 0; i < f->call.n_in; i++) {
        lk__value *v = lk__value_at(t, f->in[i]);
        if (!v->needs_grad || v->serial >= c->first_serial || v->captured == c->stamp)
            continue;
        LK_TRY(lk__grow(&c->value, &c->capacity, c->n + 1, sizeof *c->value));
        c->value[c->n++] = f->in[i];
        v->captured = c->stamp;
    }
    for (int j = 0; j < f->call.n_out; j++) {
        lk__value *v = lk__value_at(t, f->out[j]);
        v->needs_grad = lk_dtype_is_real(v->tensor.dtype);
    }
    return LK_OK;
}

lk_status lk__record(lk_tape *t, const lk_call *call, const int64_t *in, const int64_t *out)
{
    lk__node *n = NULL;
    lk__use *uses;
    void *attr = NULL;
    LK_TRY(lk__node_arena_take(&t->node_arena, call->n_in * (int64_t)sizeof *uses, &uses));
    if (call->op->attr_size > 0) {
        LK_TRY(lk__node_arena_take(&t->node_arena, (int64_t)call->op->attr_size, &attr));
        memcpy(attr, call->attr, call->op->attr_size);
    }
    LK_TRY(lk__node_new(t, &n));
    *n = (lk__node){
        .op = call->op, .attr = attr, .in = uses, .n_in = call->n_in, .piece = t->piece};
    t->n_collective += (call->op->flags & LK_OP_COLLECTIVE) != 0;
    int64_t number = t->n_nodes - 1;
    for (int i = 0; i < call->n_in; i++) {
        lk__value *v = lk__value_at(t, in[i]);
        uses[i] = (lk__use){in[i], v->block ? 0 : lk__tensor_version(&v->tensor)};
        if (v->first_use == LK_NO_INDEX)
            v->first_use = number;
    }
    for (int j = 0; j < call->n_out; j++) {
        lk__value *v = lk__value_at(t, out[j]);
        n->out[j] = out[j];
        v->node = number;
        v->needs_grad = lk_dtype_is_real(v->tensor.dtype);
    }
    return LK_OK;
}

/* Whether backward must know of this call. */
static bool to_be_recorded(const frame *f)
{
    const lk_call *c = &f->call;
    if (!c->tape->records || !c->op->backward)
        return false;
    bool any = c->op->flags & LK_OP_COLLECTIVE;
    for (int i = 0; i < c->n_in; i++)
        any |= lk__value_at(c->tape, f->in[i])->needs_grad;
    return any;
}

/* Elements that a failed call has made, from output `first` on, are of no use. */
static void drop_outputs(frame *f, int first)
{
    for (int j = first; j < f->made; j++)
        lk__value_drop(f->call.tape, lk__value_at(f->call.tape, f->out[j]));
}

lk_status lk__call_check(const lk_call *c)
{
    const lk_op *op = c->op;
    LK_CHECK(op->infer, LK_EINVAL, "op %s has no infer", op->name);
    LK_CHECK(c->tape, LK_EINVAL, "%s is applied to LK_NO_VAR, which is no value", op->name);
    LK_CHECK(c->in || c->n_in == 0, LK_EINVAL, "%s is applied to %d inputs, in is NULL", op->name,
             c->n_in);
    LK_CHECK(c->n_in >= op->min_in && c->n_in <= op->max_in, LK_EINVAL,
             "%s is applied to %d inputs, takes %d to %d", op->name, c->n_in, op->min_in,
             op->max_in);
    LK_CHECK(c->attr || op->attr_size == 0, LK_EINVAL, "%s needs attributes, attr is NULL",
             op->name);
    return LK_OK;
}

/* A pass of backward has LK_FP_GUARD() around all of its ops; other ops need one here. */
lk_status lk_apply(lk_tape *tape, const lk_op *op, const lk_var *in, int n_in, const void *attr,
                   lk_var *out)
{
    lk_status st;
    bool computes;
    frame f;
    LK_CHECK(op && out, LK_EINVAL, "%s is NULL", op ? "out" : "op");
    LK_CHECK(op->n_out >= 1 && op->n_out <= LK_MAX_OUT, LK_EINVAL,
             "op %s has %d outputs, 1 to %d are possible", op->name, op->n_out, LK_MAX_OUT);
    f.made = 0;
    f.call = (lk_call){tape, op, attr, n_in, op->n_out, in, NULL, NULL, NULL, false, false};
    f.scratch = NULL;
    bool guarded = tape && tape->pass.on;
    lk__fp_host host = lk__fp_enter_unless(guarded);
    LK_TRY_TO(done, lk__call_check(&f.call));
    if (!guarded)
        tape->canonical = lk__fp_is_canonical(&host);
    f.in = f.few_in;
    f.x = f.few_x;
    LK_TRY_TO(done, prepare(&f, &computes));
    if (computes) {
        LK_TRY_TO(done, op->forward(&f.call));
        for (int j = 0; j < f.call.n_out; j++)
            f.y[j]->writable = false; /* what is saved for backward must not change */
    }
    if (to_be_recorded(&f))
        LK_TRY_TO(done, tape->silent ? capture(&f) : lk__record(tape, &f.call, f.in, f.out));
    for (int j = 0; j < op->n_out; j++)
        out[j] = lk__var(tape, f.out[j]);
done:
    if (st != LK_OK)
        drop_outputs(&f, 0);
    if (st == LK_ENOMEM && op->flags & LK_OP_COLLECTIVE)
        lk__failed_alone(tape, st);
    for (int j = 0; st != LK_OK && j < op->n_out; j++)
        out[j] = LK_NO_VAR; /* only now: it may be where `in` was */
    frame_end(&f);
    lk__fp_leave_unless(guarded, host);
    return st;
}

lk_status lk__gradient_check(const lk_op *op, const lk_tensor *leaf, lk_dtype dtype, lk_shape shape)
{
    LK_CHECK(dtype == leaf->dtype && lk_shape_is_equal(shape, leaf->shape), LK_ESHAPE,
             "%s gives %s%s for the gradient of a leaf, which is %s", op->name,
             lk_dtype_name(dtype), lk_shape_text(shape).s, lk_tensor_text(leaf).s);
    return LK_OK;
}

/* y = y + the first output of the frame's op, where y is the gradient of `leaf`; the others are made. */
static lk_status add_result(frame *f, lk__value *leaf)
{
    lk_call *c = &f->call;
    lk_tensor *y = leaf->leaf_grad;
    lk_output_spec spec[LK_MAX_OUT] = {{0}};
    LK_TRY(find_inputs(f));
    LK_TRY(c->op->infer(c, spec));
    LK_TRY(lk__gradient_check(c->op, y, spec[0].dtype, spec[0].shape));
    f->y[0] = y;
    for (int j = 1; j < c->n_out; j++)
        LK_TRY(make_output(f, j, &spec[j]));
    c->y = f->y;
    c->accumulate = c->op->flags & LK_OP_ACCUMULATES;
    c->overwrite = leaf->unset && c->op->flags & LK_OP_OVERWRITES;
    if (!c->overwrite)
        LK_TRY(lk__grad_set(leaf));
    if (y->storage != leaf->outside->storage) /* else the write would count as one to the value */
        lk__tensor_writes(y);
    LK_TRY(c->op->forward(c));
    for (int j = 1; j < c->n_out; j++)
        f->y[j]->writable = false;
    leaf->unset = false;
    leaf->added = true;
    return LK_OK;
}

lk_status lk__apply_to_leaf(const lk_call *call, int64_t leaf, lk_var *out)
{
    frame f;
    f.made = 0;
    f.scratch = NULL;
    f.in = f.few_in;
    f.x = f.few_x;
    f.call = *call;
    lk_status st = lk__call_check(call);
    if (st == LK_OK)
        st = add_result(&f, lk__value_at(call->tape, leaf));
    if (st != LK_OK)
        drop_outputs(&f, 1);
    frame_end(&f);
    for (int j = 0; j < call->n_out; j++)
        out[j] = st == LK_OK && j > 0 ? lk__var(call->tape, f.out[j]) : LK_NO_VAR;
    return LK_TRACE(st);
}
