/* feature_recurrent: recurrent layers whose units are cut over ranks; a block has its units of every gate.
 *
 *   x w + b    one chain, as ops/linear.c, and its dx: linear.c
 *   h' u       one chain over all units: h' of all ranks is gathered before each time
 *   ds u'      the tree over blocks of a chain over the gates, and in each the units of the block: reduced
 *              over ranks behind each time, to each its units
 *   du, db     of what this rank has, as ops/lstm.c
 *
 * Formulas: lockstep/extra/recurrence.h.  Forward keeps h' of each time, which du needs.  What is not said of y
 * or of the last state is zeros in backward, for a collective node gets a gradient of each output.
 *
 * Made by lk_dist_feature_recurrent(), run on the thread of the tape.
 */
#include "autograd/tape_access.h"
#include "base/memory/rehearsal.h"
#include "dist/common/features.h"
#include "kernel/recurrence.h"
#include "ops/common/ops.h"
#include "ops/common/products.h"
#include "tensor/tensor.h"

#include <string.h>

typedef struct recurrent_attr {
    lk__feature_node f; /* n and of: all units */
    lk_cell cell;
    bool reverse, zeros; /* zeros: what the state begins with */
    double forget;
    bool needs_dh; /* in backward: of that */
} recurrent_attr;

enum { X, U, H, MORE };

/* Elements that are kept of a time of a sample: what the kernel keeps, and all units of h' where they were
 * gathered. */
static int64_t kept_of(const recurrent_attr *a)
{
    const lk_feature_split *s = a->f.split;
    return lk_recurrence_kept(a->cell, lk__feature_held(s, a->f.n)) + (s->size > 1 ? a->f.n : 0);
}

/* ---- forward ---- */

static lk_status input_check(const lk_call *c, int i, const char *name, lk_shape expected)
{
    const lk_tensor *x = c->x[X], *v = c->x[i];
    LK_CHECK(v->dtype == x->dtype, LK_EDTYPE, "%s of %s with %s %s: lk_cast() one of them",
             c->op->name, lk_tensor_text(x).s, name, lk_tensor_text(v).s);
    LK_CHECK(lk_shape_is_equal(v->shape, expected), LK_ESHAPE,
             "%s of %s with %s %s: this rank has %s of it", c->op->name, lk_tensor_text(x).s, name,
             lk_tensor_text(v).s, lk_shape_text(expected).s);
    return LK_OK;
}

static lk_status recurrent_infer(lk_call *c, lk_output_spec *out)
{
    const recurrent_attr *a = c->attr;
    const lk_tensor *x = c->x[X];
    int64_t held = lk__feature_held(a->f.split, a->f.n), wide = lk_recurrence_gates(a->cell) * held;
    LK_TRY(lk__feature_check(c, "x w", x, wide));
    LK_CHECK(x->shape.ndim == 3, LK_ESHAPE, "%s of %s: needs [samples, times, ...]", c->op->name,
             lk_tensor_text(x).s);
    LK_CHECK(lk__is_finite(x->dtype, a->forget), LK_EINVAL, "%s of %s with forget %g", c->op->name,
             lk_tensor_text(x).s, a->forget);
    lk_shape state = LK_SHAPE(x->shape.dim[0], held);
    LK_TRY(input_check(c, U, "recurrent weights", LK_SHAPE(a->f.n, wide)));
    LK_TRY(input_check(c, H, "h", state));
    if (a->cell == LK_CELL_LSTM)
        LK_TRY(input_check(c, MORE, "c", state));
    if (a->cell == LK_CELL_GRU)
        LK_TRY(input_check(c, MORE, "bias", LK_SHAPE(held)));
    out[0] = (lk_output_spec){.dtype = x->dtype, .shape = x->shape};
    out[0].shape.dim[2] = held;
    for (int i = 1; i < c->n_out - 1; i++)
        out[i] = (lk_output_spec){.dtype = x->dtype, .shape = state};
    /* It is not read behind a pass that is not recorded. */
    int64_t times = lk__tape_writes(c->tape) ? x->shape.dim[1] : 0;
    out[c->n_out - 1] = (lk_output_spec){
        .dtype = LK_U8,
        .shape = LK_SHAPE(state.dim[0], times,
                          lk__times(kept_of(a), (int64_t)lk_dtype_size(x->dtype)))};
    return LK_OK;
}

/* A pass, forward or backward. */
typedef struct pass {
    lk_recurrence r;
    lk_recurrence_values v;
    lk_recurrence_grads g;
    lk__recurrence_parts parts;
    lk__recurrence_job job;
    lk_collective call; /* of each time */
    int64_t call_bytes; /* that it gives */
} pass;

/* `y` as it is here; `kept` as recurrent_infer() has it, or without elements. */
static void pass_describe(const recurrent_attr *a, const lk_tensor *y, const lk_tensor *kept,
                          pass *p)
{
    const lk_feature_split *s = a->f.split;
    p->r = (lk_recurrence){.dtype = y->dtype,
                           .cell = a->cell,
                           .reverse = a->reverse,
                           .forget = a->forget,
                           .samples = y->shape.dim[0],
                           .times = y->shape.dim[1],
                           .units = y->shape.dim[2],
                           .piece = lk__feature_block(s, a->f.n)};
    p->parts = (lk__recurrence_parts){.all = a->f.n, .n = s->size, .own = s->rank};
    if (kept->count == 0)
        return;
    int64_t elems = p->r.samples * p->r.times * lk_recurrence_kept(a->cell, p->r.units);
    p->v.kept = lk__tensor_start(kept);
    p->parts.before = (char *)p->v.kept + elems * (int64_t)lk_dtype_size(y->dtype);
}

/* Room for the pass and what ranks exchange in it. */
static lk_status pass_open(lk_call *c, const recurrent_attr *a, bool backward, pass *p)
{
    const lk_feature_split *s = a->f.split;
    int64_t elem = (int64_t)lk_dtype_size(p->r.dtype), *first = NULL, *counts = NULL, bytes;
    void *room = NULL;
    LK_TRY(lk_call_scratch(c, (s->size + 1) * (int64_t)sizeof *first, &first));
    LK_TRY(lk_call_scratch(c, s->size * (int64_t)sizeof *counts, &counts));
    for (int r = 0; r < s->size; r++) {
        lk_range own = lk_feature_range(s, r, a->f.n);
        first[r] = own.first;
        first[r + 1] = own.first + own.n;
        counts[r] = p->r.samples * own.n;
    }
    p->parts.first = first;
    LK_TRY(lk_call_scratch(c, p->r.samples * a->f.n * elem, &p->parts.by_part));
    p->job = (lk__recurrence_job){
        .r = &p->r, .v = &p->v, .g = backward ? &p->g : NULL, .parts = &p->parts};
    LK_TRY(lk__recurrence_size(&p->job, &bytes));
    LK_TRY(lk_call_scratch(c, bytes, &room));
    LK_TRY(lk__recurrence_open(&p->job, room));
    p->call = (lk_collective){.dtype = p->r.dtype, .counts = counts};
    return LK_OK;
}

/* Time by time: h' is gathered before each. */
static lk_status times_forward(lk_call *c, const recurrent_attr *a, pass *p)
{
    LK_TRY(pass_open(c, a, false, p));
    p->call.call = LK_CALL_ALLGATHER;
    p->call.in = p->v.h;
    p->call.out = p->parts.by_part;
    p->call_bytes = p->r.samples * a->f.n * (int64_t)lk_dtype_size(p->r.dtype);
    LK_TRY(lk__recurrence_step(&p->job, -1));
    for (int64_t n = 0; n < p->r.times; n++) {
        if (n > 0 || !a->zeros)
            LK_TRY(lk__feature_run(c, &a->f, &p->call, p->call_bytes));
        else if (!lk__rehearses())
            memset(p->parts.by_part, 0, (size_t)p->call_bytes);
        LK_TRY(lk__recurrence_step(&p->job, n));
    }
    return LK_OK;
}

static lk_status recurrent_forward(lk_call *c)
{
    const recurrent_attr *a = c->attr;
    const bool gru = a->cell == LK_CELL_GRU, lstm = a->cell == LK_CELL_LSTM;
    pass p = {.v = {.x = lk__tensor_start(c->x[X]),
                    .u = lk__tensor_start(c->x[U]),
                    .bias = gru ? lk__tensor_start(c->x[MORE]) : NULL,
                    .h0 = lk__tensor_start(c->x[H]),
                    .c0 = lstm ? lk__tensor_start(c->x[MORE]) : NULL,
                    .y = lk__tensor_start(c->y[0]),
                    .h = lk__tensor_start(c->y[1]),
                    .c = lstm ? lk__tensor_start(c->y[2]) : NULL}};
    void *room = NULL;
    int64_t bytes;
    pass_describe(a, c->y[0], c->y[c->n_out - 1], &p);
    if (p.r.samples == 0) /* on no rank */
        return LK_OK;
    if (a->f.split->size > 1) {
        return LK_TRACE(times_forward(c, a, &p));
    }
    LK_TRY(lk_recurrence_room(&p.r, &bytes));
    LK_TRY(lk_call_scratch(c, bytes, &room));
    return LK_TRACE(lk_recurrence_forward(&p.r, &p.v, room));
}

/* ---- the gradients of x, the state and what that of u is made of ---- */

/* Inputs, the last of an lstm; outputs: of DMORE dc (lstm), ds (gru) or nothing. */
enum { IN_U, IN_H, IN_Y, IN_KEPT, IN_DY, IN_DH, IN_DC };
enum { DX, BEFORE, DH, DMORE };

static lk_status grad_infer(lk_call *c, lk_output_spec *out)
{
    const recurrent_attr *a = c->attr;
    const lk_tensor *y = c->x[IN_Y];
    for (int i = 0; i < c->n_out; i++)
        out[i] = (lk_output_spec){.dtype = y->dtype, .shape = c->x[IN_H]->shape};
    out[DX].shape = out[BEFORE].shape = y->shape;
    out[DX].shape.dim[2] = c->x[IN_U]->shape.dim[1];
    out[BEFORE].shape.dim[2] = a->f.n;
    if (a->cell == LK_CELL_GRU)
        out[DMORE].shape = out[DX].shape;
    if (a->cell == LK_CELL_RNN)
        out[DMORE].shape = LK_SHAPE(0);
    return LK_OK;
}

/* Time by time, from the last: behind each, what ranks say of the state before is joined. */
static lk_status times_backward(lk_call *c, const recurrent_attr *a, pass *p)
{
    void *joined = NULL;
    p->call_bytes = p->r.samples * p->r.units * (int64_t)lk_dtype_size(p->r.dtype);
    LK_TRY(lk_call_scratch(c, p->call_bytes, &joined));
    p->parts.joined = joined;
    LK_TRY(pass_open(c, a, true, p));
    p->call.call = LK_CALL_REDUCE_SCATTER;
    p->call.op = LK_REDUCE_SUM;
    p->call.in = p->parts.by_part;
    p->call.out = joined;
    for (int64_t n = p->r.times - 1; n >= 0; n--) {
        LK_TRY(lk__recurrence_step(&p->job, n));
        if (n > 0 || a->needs_dh)
            LK_TRY(lk__feature_run(c, &a->f, &p->call, p->call_bytes));
    }
    if (a->needs_dh)
        LK_TRY(lk__recurrence_step(&p->job, -1));
    return LK_OK;
}

static lk_status grad_forward(lk_call *c)
{
    const recurrent_attr *a = c->attr;
    const bool gru = a->cell == LK_CELL_GRU, lstm = a->cell == LK_CELL_LSTM;
    void *more = lk__tensor_start(c->y[DMORE]), *room = NULL;
    pass p = {.v = {.u = lk__tensor_start(c->x[IN_U]),
                    .h0 = lk__tensor_start(c->x[IN_H]),
                    .y = lk__tensor_start(c->x[IN_Y])},
              .g = {.dy = lk__tensor_start(c->x[IN_DY]),
                    .dh = lk__tensor_start(c->x[IN_DH]),
                    .dc = lstm ? lk__tensor_start(c->x[IN_DC]) : NULL,
                    .dx = lk__tensor_start(c->y[DX]),
                    .ds = gru ? more : NULL,
                    .before = lk__tensor_start(c->y[BEFORE]),
                    .dh0 = lk__tensor_start(c->y[DH]),
                    .dc0 = lstm ? more : NULL}};
    int64_t bytes;
    pass_describe(a, c->x[IN_Y], c->x[IN_KEPT], &p);
    if (p.r.samples == 0)
        return LK_OK;
    if (a->f.split->size > 1) {
        return LK_TRACE(times_backward(c, a, &p));
    }
    LK_TRY(lk_recurrence_room(&p.r, &bytes));
    LK_TRY(lk_call_scratch(c, bytes, &room));
    return LK_TRACE(lk_recurrence_backward(&p.r, &p.v, &p.g, room));
}

static const lk_op recurrent_grad = {
    .name = "feature_recurrent.data",
    .summary = "the gradients of x and the state, and what that of u is made of",
    .min_in = IN_DC,
    .max_in = IN_DC + 1,
    .n_out = 4,
    .flags = LK_OP_COLLECTIVE | LK_OP_FIRST_ORDER,
    .attr_size = sizeof(recurrent_attr),
    .infer = grad_infer,
    .forward = grad_forward};

static lk_status recurrent_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    recurrent_attr a = *(const recurrent_attr *)c->attr;
    const bool gru = a.cell == LK_CELL_GRU, lstm = a.cell == LK_CELL_LSTM;
    const lk_var in[] = {c->in[U],
                         c->in[H],
                         c->out[0],
                         c->out[c->n_out - 1],
                         dout[0],
                         dout[1],
                         lstm ? dout[2] : LK_NO_VAR};
    lk_var out[4], ds;
    LK_TRY(lk__feature_adjoint(&a.f, c->op->name, &a.f));
    a.needs_dh = !a.zeros && lk_call_needs_grad(c, H);
    LK_TRY(lk_apply(c->tape, &recurrent_grad, in, lstm ? IN_DC + 1 : IN_DC, &a, out));
    din[X] = out[DX];
    if (a.needs_dh)
        din[H] = out[DH];
    if (lstm)
        din[MORE] = out[DMORE];
    if (lk_call_needs_grad(c, U))
        LK_TRY(lk_apply_gradient(c, U, &lk__op_linear_weights,
                                 (lk_var[]){out[BEFORE], out[gru ? DMORE : DX]}, 2, NULL, &din[U]));
    if (gru && lk_call_needs_grad(c, MORE)) {
        int64_t held = lk_shape_of(c->in[MORE]).dim[0];
        LK_TRY(lk_slice(out[DMORE], 2, 2 * held, 3 * held, 1, &ds));
        LK_TRY(lk__bias_gradient(c, MORE, ds, &din[MORE]));
    }
    return LK_OK;
}

/* ---- the call ---- */

#define RECURRENT(inputs, outputs)                                                          \
    {                                                                                       \
        .name = "feature_recurrent", .summary = "a recurrent layer, its units over ranks",  \
        .min_in = (inputs), .max_in = (inputs), .n_out = (outputs),                         \
        .flags = LK_OP_COLLECTIVE | LK_OP_FIRST_ORDER, .attr_size = sizeof(recurrent_attr), \
        .saves_in = ~0U, .infer = recurrent_infer, .forward = recurrent_forward,            \
        .backward = recurrent_backward                                                      \
    }

static const lk_op recurrent[LK_N_CELLS] = {[LK_CELL_RNN] = RECURRENT(3, 3),
                                            [LK_CELL_GRU] = RECURRENT(4, 3),
                                            [LK_CELL_LSTM] = RECURRENT(4, 4)};

static lk_status attr_check(const lk_feature_recurrent_attr *a, const lk_var *param)
{
    LK_CHECK(a && param, LK_EINVAL, "feature_recurrent: %s is NULL", a ? "param" : "attr");
    LK_CHECK((unsigned)a->cell < LK_N_CELLS, LK_EINVAL,
             "feature_recurrent: the cell is number %d; there are rnn, gru and lstm", (int)a->cell);
    LK_CHECK(a->sum == LK_FEATURE_JOINED || a->sum == LK_FEATURE_SCATTERED ||
                 a->sum == LK_FEATURE_PARTIAL,
             LK_EINVAL, "feature_recurrent: the sum is number %d", (int)a->sum);
    LK_CHECK(a->in >= 0 && a->units >= 1, LK_EINVAL, "feature_recurrent: %lld inputs, %lld units",
             (long long)a->in, (long long)a->units);
    return LK_OK;
}

static lk_cell cell_of(const lk_feature_recurrent_attr *a)
{
    static const lk_cell cells[] = {[LK_FEATURE_RNN] = LK_CELL_RNN,
                                    [LK_FEATURE_GRU] = LK_CELL_GRU,
                                    [LK_FEATURE_LSTM] = LK_CELL_LSTM};
    return cells[a->cell];
}

/* The op of all units, on every rank: in[] are x w + b, u, h and c or bias. */
static lk_status whole_apply(const lk_feature_recurrent_attr *attr, const lk_var *in, lk_var *out)
{
    if (attr->cell == LK_FEATURE_RNN)
        LK_TRY(lk_rnn(in[X], in[U], in[H], &attr->recurrent, &out[0], &out[1]));
    else if (attr->cell == LK_FEATURE_GRU)
        LK_TRY(lk_gru(in[X], in[U], in[H], in[MORE], &attr->recurrent, &out[0], &out[1]));
    else
        LK_TRY(lk_lstm(in[X], in[U], in[H], in[MORE], &attr->recurrent, &out[0], &out[1]));
    return LK_OK;
}

static lk_status cut_apply(const lk_feature_split *split, const lk_feature_recurrent_attr *attr,
                           const lk_var *in, bool zeros, const char *name, lk_var *out)
{
    const lk_op *op = &recurrent[cell_of(attr)];
    recurrent_attr a;
    memset(&a, 0, sizeof a); /* attributes are compared as bytes */
    a.f = lk__feature_of(split, attr->units, attr->units, name);
    a.cell = cell_of(attr);
    a.reverse = attr->recurrent.reverse;
    a.forget = attr->recurrent.forget;
    a.zeros = zeros;
    LK_TRY_DIST(split->comm, lk_apply(in[X].tape, op, in, op->min_in, &a, out));
    return LK_OK;
}

lk_status lk_dist_feature_recurrent(const lk_feature_split *split,
                                    const lk_feature_recurrent_attr *attr, lk_var x,
                                    const lk_var *param, const lk_var *state, const char *name,
                                    lk_var *y, lk_var *last)
{
    lk_var in[4] = {LK_NO_VAR, LK_NO_VAR, LK_NO_VAR, LK_NO_VAR}, out[4], zeros;
    LK_TRY(lk__feature_begin(split, "feature_recurrent", x, y));
    LK_TRY(attr_check(attr, param));
    bool lstm = attr->cell == LK_FEATURE_LSTM;
    lk_feature_linear_attr projection = {
        .sum = attr->sum, .in = attr->in, .units = attr->units, .act = LK_ACT_NONE};
    LK_TRY(lk__feature_linear(split, &projection, lk_recurrence_gates(cell_of(attr)), x, param[0],
                              param[2], name, &in[X]));
    LK_TRY_DIST(split->comm,
                lk_full(x.tape, lk_dtype_of(x),
                        LK_SHAPE(lk_shape_of(x).dim[0], lk__feature_held(split, attr->units)), 0,
                        &zeros));
    in[U] = param[1];
    in[H] = state ? state[0] : zeros;
    if (attr->cell != LK_FEATURE_RNN)
        in[MORE] = !lstm ? param[3] : state ? state[1] : zeros;
    if (lk_feature_is_cut(split, attr->units))
        LK_TRY(cut_apply(split, attr, in, !state, name, out));
    else
        LK_TRY(whole_apply(attr, in, out));
    *y = out[0];
    for (int i = 0; last && i < (lstm ? 2 : 1); i++)
        last[i] = out[1 + i];
    return LK_OK;
}
