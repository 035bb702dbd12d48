/* What both evaluations of a program share: its inputs, local ops, and differentiating the losses. */
#include "programs.h"

#include <lockstep/ops.h>

#include <string.h>

lk_status program_inputs(const struct program *p, lk_tape *tape, int rank, lk_tensor **input,
                         lk_tensor **grad, lk_var *var)
{
    for (int v = 0; v < p->n_values; v++) {
        const struct value *of = &p->value[v];
        void *data;
        if (of->rank != rank)
            continue;
        var[v] = LK_NO_VAR;
        if (of->source == COMPUTED)
            continue;
        LK_TRY(lk_tensor_new(of->integer ? LK_I64 : LK_F64, LK_SHAPE(of->length), &input[v]));
        LK_TRY(lk_tensor_writable_data(input[v], &data));
        for (int e = 0; e < of->length; e++)
            if (of->integer)
                ((int64_t *)data)[e] = (int64_t)program_input(p, v, e);
            else
                ((double *)data)[e] = program_input(p, v, e);
        if (of->source == CONSTANT) {
            LK_TRY(lk_constant(tape, input[v], &var[v]));
        } else {
            LK_TRY(lk_tensor_new(LK_F64, LK_SHAPE(of->length), &grad[v]));
            LK_TRY(lk_tensor_fill_f64(grad[v], 0));
            LK_TRY(lk_leaf(tape, input[v], grad[v], &var[v]));
        }
    }
    return LK_OK;
}

lk_status program_local(const struct program *p, const struct instruction *n, lk_var *var)
{
    lk_var x = var[n->in[0]], y = n->in[1] >= 0 ? var[n->in[1]] : LK_NO_VAR, *out = &var[n->out[0]];
    (void)p;
    switch (n->kind) {
    case ADD: LK_TRY(lk_add(x, y, out)); break;
    case SUB: LK_TRY(lk_sub(x, y, out)); break;
    case MUL: LK_TRY(lk_mul(x, y, out)); break;
    case SIN: LK_TRY(lk_sin(x, out)); break;
    case AFFINE: LK_TRY(lk_affine(x, n->scale, n->shift, out)); break;
    case STOP: LK_TRY(lk_stop_gradient(x, out)); break;
    case SLICE: LK_TRY(lk_slice(x, 0, n->start, n->stop, 1, out)); break;
    case CONCAT: LK_TRY(lk_concat((lk_var[]){x, y}, 2, 0, out)); break;
    case WEIGH:
        LK_TRY(lk_cast(y, LK_F64, &y));
        LK_TRY(lk_mul(x, y, out));
        break;
    default: return LK_RAISE(LK_EINVAL, "instruction %d is not local", (int)n->kind);
    }
    return LK_OK;
}

lk_status program_in_segment(lk_var x, lk_var *out)
{
    LK_TRY(lk_sin(x, out));
    return LK_TRACE(lk_mul(*out, *out, out));
}

static lk_status read(lk_var var, double *out)
{
    const lk_tensor *t = NULL;
    lk_tensor *own = NULL;
    LK_TRY(lk_value(var, &t));
    LK_TRY(lk_tensor_clone(t, LK_F64, &own));
    memcpy(out, lk_tensor_data(own), (size_t)lk_tensor_count(own) * sizeof *out);
    lk_tensor_free(own);
    return LK_OK;
}

/* Whose value it is, and whether it has elements. */
static bool is_own(const struct program *p, int v, int rank, const lk_var *var)
{
    return (rank < 0 || p->value[v].rank == rank) && lk_is_var(var[v]);
}

static lk_status losses(const struct program *p, int rank, const lk_var *var, lk_var *loss, int *n)
{
    *n = 0;
    for (int i = 0; i < p->n_losses; i++) {
        lk_var l;
        if (!is_own(p, p->loss[i].value, rank, var))
            continue;
        LK_TRY(lk_affine(var[p->loss[i].value], p->loss[i].weight, 0, &l));
        LK_TRY(lk_sum(l, NULL, &l));
        if (lk_needs_grad(l))
            loss[(*n)++] = l;
    }
    return LK_OK;
}

/* Instead of the losses: the sum of the squares of their gradients. */
static lk_status second(const struct program *p, lk_tape *tape, int rank, const lk_var *var,
                        lk_var *loss, int *n)
{
    lk_var leaf[MAX_VALUES], g[MAX_VALUES];
    int leaves = 0, of = *n;
    leaf[0] = LK_NO_VAR;
    *n = 0;
    for (int v = 0; v < p->n_values; v++)
        if (is_own(p, v, rank, var) && p->value[v].source == LEAF)
            leaf[leaves++] = var[v];
    LK_TRY(lk_grad(tape, loss, NULL, of, leaf, leaves, LK_RECORD, g));
    lk_var sum = LK_NO_VAR;
    for (int i = 0; i < leaves; i++) {
        lk_var x;
        LK_TRY(lk_square(g[i], &x));
        LK_TRY(lk_sum(x, NULL, &x));
        if (i == 0)
            sum = x;
        else
            LK_TRY(lk_add(sum, x, &sum));
    }
    if (leaves > 0 && lk_needs_grad(sum))
        loss[(*n)++] = sum;
    return LK_OK;
}

lk_status program_differentiate(const struct program *p, lk_tape *tape, int rank,
                                lk_tensor *const *grad, const lk_var *var, struct outcome *out)
{
    lk_var loss[MAX_LOSSES];
    lk_seed seed[MAX_LOSSES];
    int n;
    for (int v = 0; v < p->n_values; v++)
        if (is_own(p, v, rank, var))
            LK_TRY(read(var[v], out->value[v]));
    LK_TRY(losses(p, rank, var, loss, &n));
    for (int i = 0; i < n; i++)
        seed[i] = (lk_seed){.of = loss[i]};
    LK_TRY(lk_backward(tape, seed, n, p->second ? LK_RETAIN_GRAPH : 0));
    for (int v = 0; v < p->n_values; v++)
        if (is_own(p, v, rank, var) && grad[v]) {
            memcpy(out->grad[v], lk_tensor_data(grad[v]),
                   (size_t)p->value[v].length * sizeof(double));
            LK_TRY(lk_tensor_fill_f64(grad[v], 0));
        }
    if (!p->second)
        return LK_OK;
    LK_TRY(second(p, tape, rank, var, loss, &n));
    LK_TRY(lk_backward(tape, &(lk_seed){.of = loss[0]}, n, 0));
    for (int v = 0; v < p->n_values; v++)
        if (is_own(p, v, rank, var) && grad[v])
            memcpy(out->dgrad[v], lk_tensor_data(grad[v]),
                   (size_t)p->value[v].length * sizeof(double));
    return LK_OK;
}
