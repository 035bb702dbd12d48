/* Recurrent ops: shapes, and all times by lk_recurrence_forward() and lk_recurrence_backward(). */
#include "ops/common/recurrent/recurrent.h"

#include "autograd/tape_access.h"
#include "ops/common/ops.h"
#include "ops/common/products.h"
#include "tensor/tensor.h"

enum { X = LK__REC_X, U = LK__REC_U, H = LK__REC_H, MORE = LK__REC_MORE };

static const lk__rec_cell *cell_of(const lk_call *c)
{
    return c->op->data;
}

/* ---- forward ---- */

static lk_status input_check(const lk_call *c, int i, const char *name, lk_shape expected)
{
    const lk_tensor *x = c->x[X], *v = c->x[i];
    LK_CHECK(v->dtype == x->dtype, LK_EDTYPE, "%s of %s with %s %s: lk_cast() one of them",
             c->op->name, lk_tensor_text(x).s, name, lk_tensor_text(v).s);
    LK_CHECK(lk_shape_is_equal(v->shape, expected), LK_ESHAPE, "%s of %s with %s %s: it must be %s",
             c->op->name, lk_tensor_text(x).s, name, lk_tensor_text(v).s,
             lk_shape_text(expected).s);
    return LK_OK;
}

lk_status lk__recurrent_infer(lk_call *c, lk_output_spec *out)
{
    const lk_cell cell = cell_of(c)->cell;
    const lk_recurrent_attr *a = c->attr;
    const lk_tensor *x = c->x[X], *u = c->x[U];
    LK_TRY(lk__same_infer(c, out));
    LK_CHECK(x->shape.ndim == 3, LK_ESHAPE, "%s of %s: needs [samples, times, gates units]",
             c->op->name, lk_tensor_text(x).s);
    int64_t units = u->shape.ndim == 2 ? u->shape.dim[0] : 0, samples = x->shape.dim[0];
    LK_TRY(input_check(c, U, "recurrent weights", LK_SHAPE(units, x->shape.dim[2])));
    LK_CHECK(lk__times(lk_recurrence_gates(cell), units) == x->shape.dim[2], LK_ESHAPE,
             "%s of %s with recurrent weights %s: they must be [units, %lld units]", c->op->name,
             lk_tensor_text(x).s, lk_tensor_text(u).s, (long long)lk_recurrence_gates(cell));
    LK_TRY(input_check(c, H, "h", LK_SHAPE(samples, units)));
    if (cell == LK_CELL_LSTM)
        LK_TRY(input_check(c, MORE, "c", LK_SHAPE(samples, units)));
    if (cell == LK_CELL_GRU)
        LK_TRY(input_check(c, MORE, "bias", LK_SHAPE(units)));
    LK_CHECK(lk__is_finite(x->dtype, a->forget), LK_EINVAL, "%s of %s with forget %g", c->op->name,
             lk_tensor_text(x).s, a->forget);
    out[0].shape.dim[2] = units;
    for (int i = 1; i < c->n_out; i++)
        out[i] = (lk_output_spec){.dtype = x->dtype, .shape = LK_SHAPE(samples, units)};
    if (lk_recurrence_kept(cell, 1) > 0) /* nobody reads it behind a pass that is not recorded */
        out[c->n_out - 1] = (lk_output_spec){
            .dtype = LK_U8,
            .shape = LK_SHAPE(
                samples, lk__tape_writes(c->tape) ? x->shape.dim[1] : 0,
                lk__times(lk_recurrence_kept(cell, units), (int64_t)lk_dtype_size(x->dtype)))};
    return LK_OK;
}

static lk_recurrence recurrence_of(const lk_recurrent_attr *a, lk_cell cell, const lk_tensor *y)
{
    return (lk_recurrence){.dtype = y->dtype,
                           .cell = cell,
                           .reverse = a->reverse,
                           .forget = a->forget,
                           .samples = y->shape.dim[0],
                           .times = y->shape.dim[1],
                           .units = y->shape.dim[2]};
}

lk_status lk__recurrent_forward(lk_call *c)
{
    const lk_cell cell = cell_of(c)->cell;
    lk_recurrence r = recurrence_of(c->attr, cell, c->y[0]);
    const lk_tensor *kept = lk_recurrence_kept(cell, 1) > 0 ? c->y[c->n_out - 1] : NULL;
    lk_recurrence_values v = {.x = lk__tensor_start(c->x[X]),
                              .u = lk__tensor_start(c->x[U]),
                              .bias = cell == LK_CELL_GRU ? lk__tensor_start(c->x[MORE]) : NULL,
                              .h0 = lk__tensor_start(c->x[H]),
                              .c0 = cell == LK_CELL_LSTM ? lk__tensor_start(c->x[MORE]) : NULL,
                              .y = lk__tensor_start(c->y[0]),
                              .h = lk__tensor_start(c->y[1]),
                              .c = cell == LK_CELL_LSTM ? lk__tensor_start(c->y[2]) : NULL,
                              .kept = kept && kept->count > 0 ? lk__tensor_start(kept) : NULL};
    void *room = NULL;
    int64_t bytes;
    LK_TRY(lk_recurrence_room(&r, &bytes));
    LK_TRY(lk_call_scratch(c, bytes, &room));
    return LK_TRACE(lk_recurrence_forward(&r, &v, room));
}

/* ---- recurrent_grad: all times at once, for a backward that is not recorded ---- */

typedef struct grad_attr {
    lk_recurrent_attr recurrent;
    lk_cell cell;
    bool has[3]; /* dy, dh, dc */
} grad_attr;

/* Its inputs: u, h, y, what was kept (rnn: y again), then those of dy, dh and dc that there are.  Its outputs:
 * dx, h before each time, dh, and dc (lstm) or ds (gru) or nothing. */
enum { IN_U, IN_H, IN_Y, IN_KEPT, IN_GRADS };
enum { DX, BEFORE, DH, DMORE };

static lk_status grad_infer(lk_call *c, lk_output_spec *out)
{
    const lk_cell cell = ((const grad_attr *)c->attr)->cell;
    const lk_tensor *y = c->x[IN_Y];
    for (int i = 0; i < c->n_out; i++)
        out[i] = (lk_output_spec){.dtype = y->dtype, .shape = c->x[IN_H]->shape};
    out[DX].shape = out[BEFORE].shape = y->shape;
    out[DX].shape.dim[2] = c->x[IN_U]->shape.dim[1];
    if (cell == LK_CELL_GRU)
        out[DMORE].shape = out[DX].shape;
    if (cell == LK_CELL_RNN)
        out[DMORE].shape = LK_SHAPE(0);
    return LK_OK;
}

static lk_status grad_forward(lk_call *c)
{
    const grad_attr *a = c->attr;
    const void *grad[3] = {NULL};
    for (int i = 0, next = IN_GRADS; i < 3; i++)
        if (a->has[i])
            grad[i] = lk__tensor_start(c->x[next++]);
    lk_recurrence r = recurrence_of(&a->recurrent, a->cell, c->x[IN_Y]);
    lk_recurrence_values v = {.u = lk__tensor_start(c->x[IN_U]),
                              .h0 = lk__tensor_start(c->x[IN_H]),
                              .y = lk__tensor_start(c->x[IN_Y]),
                              .kept = lk__tensor_start(c->x[IN_KEPT])};
    void *more = lk__tensor_start(c->y[DMORE]), *room = NULL;
    lk_recurrence_grads g = {.dy = grad[0],
                             .dh = grad[1],
                             .dc = grad[2],
                             .dx = lk__tensor_start(c->y[DX]),
                             .ds = a->cell == LK_CELL_GRU ? more : NULL,
                             .before = lk__tensor_start(c->y[BEFORE]),
                             .dh0 = lk__tensor_start(c->y[DH]),
                             .dc0 = a->cell == LK_CELL_LSTM ? more : NULL};
    int64_t bytes;
    LK_TRY(lk_recurrence_room(&r, &bytes));
    LK_TRY(lk_call_scratch(c, bytes, &room));
    return LK_TRACE(lk_recurrence_backward(&r, &v, &g, room));
}

static const lk_op recurrent_grad = {
    .name = "recurrent_grad",
    .summary = "the gradients of x and the state, and what that of u is made of",
    .min_in = IN_GRADS,
    .max_in = IN_GRADS + 3,
    .n_out = 4,
    .attr_size = sizeof(grad_attr),
    .infer = grad_infer,
    .forward = grad_forward,
};

static lk_status fuse(lk_call *c, lk_cell cell, const lk_var *dout, lk_var *din)
{
    grad_attr a = {.recurrent = *(const lk_recurrent_attr *)c->attr, .cell = cell};
    lk_var in[IN_GRADS + 3] = {c->in[U], c->in[H], c->out[0], c->out[0]}, out[4];
    int n = IN_GRADS, outputs = c->n_out;
    if (lk_recurrence_kept(cell, 1) > 0)
        in[IN_KEPT] = c->out[--outputs];
    for (int i = 0; i < outputs; i++)
        if (lk_is_var(dout[i])) {
            a.has[i] = true;
            in[n++] = dout[i];
        }
    LK_TRY(lk_apply(c->tape, &recurrent_grad, in, n, &a, out));
    din[X] = out[DX];
    din[H] = out[DH];
    if (lk_call_needs_grad(c, U))
        LK_TRY(lk_apply_gradient(c, U, &lk__op_linear_weights,
                                 (lk_var[]){out[BEFORE], out[cell == LK_CELL_GRU ? DMORE : DX]}, 2,
                                 NULL, &din[U]));
    if (cell == LK_CELL_LSTM)
        din[MORE] = out[DMORE];
    if (cell == LK_CELL_GRU && lk_call_needs_grad(c, MORE)) {
        lk_shape bias = lk_shape_of(c->in[MORE]);
        lk_var ds;
        LK_TRY(lk_slice(out[DMORE], 2, 2 * bias.dim[0], 3 * bias.dim[0], 1, &ds));
        LK_TRY(lk__bias_gradient(c, MORE, ds, &din[MORE]));
    }
    return LK_OK;
}

lk_status lk__recurrent_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    if (lk_tape_is_recording(c->tape))
        LK_TRY(lk__recurrent_compose(c, cell_of(c), dout, din));
    else
        LK_TRY(fuse(c, cell_of(c)->cell, dout, din));
    return LK_OK;
}
