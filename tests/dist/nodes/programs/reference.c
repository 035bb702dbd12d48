/* What a program means: all ranks on one tape, without communication.
 *
 * A message is the value itself; a collective is made of local ops on the values of all members.
 */
#include "programs.h"

#include <lockstep/ops.h>

#include <string.h>

struct group {
    int n, member[MAX_RANKS];
};

static struct group group_of(const struct program *p, const struct instruction *n)
{
    struct group g = {0, {0}};
    int own;
    for (int r = 0; r < p->size && g.n == 0; r++)
        if (n->in[r] >= 0)
            g.n = program_members(p, n->comm, r, g.member, &own);
    return g;
}

/* 1 where rank `i` of the group is the lowest that has the smallest or largest element, else 0. */
static lk_status chosen(const struct program *p, const struct instruction *n, const struct group *g,
                        int i, const lk_var *var, lk_var *out)
{
    const lk_tensor *x[MAX_RANKS], *mask;
    const double *e[MAX_RANKS];
    int length = p->value[n->in[g->member[0]]].length;
    LK_TRY(lk_full(var[n->in[g->member[0]]].tape, LK_F64, LK_SHAPE(length), 0, out));
    LK_TRY(lk_value(*out, &mask));
    for (int j = 0; j < g->n; j++) {
        LK_TRY(lk_value(var[n->in[g->member[j]]], &x[j]));
        e[j] = lk_tensor_data(x[j]);
    }
    double *at = (double *)(uintptr_t)lk_tensor_data(mask);
    for (int k = 0; k < length; k++) {
        int best = 0;
        for (int j = 1; j < g->n; j++)
            if (n->fold == LK_REDUCE_MIN ? e[j][k] < e[best][k] : e[j][k] > e[best][k])
                best = j;
        at[k] = best == i;
    }
    return LK_OK;
}

/* The values of all members folded into one. */
static lk_status fold(const struct program *p, const struct instruction *n, const struct group *g,
                      lk_var *var, lk_var *out)
{
    bool extreme = n->fold == LK_REDUCE_MIN || n->fold == LK_REDUCE_MAX;
    for (int i = 0; i < g->n; i++) {
        lk_var x = var[n->in[g->member[i]]], mask;
        if (extreme) {
            LK_TRY(chosen(p, n, g, i, var, &mask));
            LK_TRY(lk_mul(x, mask, &x));
        }
        if (i == 0)
            *out = x;
        else if (n->fold == LK_REDUCE_PROD)
            LK_TRY(lk_mul(*out, x, out));
        else
            LK_TRY(lk_add(*out, x, out));
    }
    if (n->fold == LK_REDUCE_AVG)
        LK_TRY(lk_affine(*out, 1.0 / g->n, 0, out));
    return LK_OK;
}

/* Sums of integers are made by hand: no op adds them. */
static lk_status fold_integers(const struct program *p, const struct instruction *n,
                               const struct group *g, lk_var *var, lk_var *out)
{
    const lk_tensor *t;
    int length = p->value[n->in[g->member[0]]].length;
    LK_TRY(lk_full(var[n->in[g->member[0]]].tape, LK_I64, LK_SHAPE(length), 0, out));
    LK_TRY(lk_value(*out, &t));
    int64_t *sum = (int64_t *)(uintptr_t)lk_tensor_data(t);
    for (int i = 0; i < g->n; i++) {
        LK_TRY(lk_value(var[n->in[g->member[i]]], &t));
        for (int k = 0; k < length; k++)
            sum[k] += ((const int64_t *)lk_tensor_data(t))[k];
    }
    return LK_OK;
}

/* Part `i` of `x`, cut into the parts of all members, in reverse if `mirrored`. */
static lk_status part(lk_var x, const struct group *g, int i, bool mirrored, lk_var *out)
{
    int length = (int)lk_shape_of(x).dim[0], start = 0;
    for (int j = 0; j < i; j++)
        start += program_part(length, mirrored ? g->n - 1 - j : j, g->n);
    int stop = start + program_part(length, mirrored ? g->n - 1 - i : i, g->n);
    return LK_TRACE(lk_slice(x, 0, start, stop, 1, out));
}

static lk_status collective(const struct program *p, const struct instruction *n, lk_var *var)
{
    struct group g = group_of(p, n);
    lk_var in[MAX_RANKS], all = LK_NO_VAR;
    for (int i = 0; i < g.n; i++)
        in[i] = var[n->in[g.member[i]]];
    bool integer = p->value[n->in[g.member[0]]].integer;
    if (n->kind == ALLREDUCE || n->kind == REDUCE || n->kind == REDUCE_SCATTER)
        LK_TRY((integer ? fold_integers : fold)(p, n, &g, var, &all));
    else if (n->kind == BCAST || n->kind == SCATTER)
        all = in[n->root];
    else if (n->kind != SENDRECV)
        LK_TRY(lk_concat(in, g.n, 0, &all));
    for (int i = 0; i < g.n; i++) {
        int v = n->out[g.member[i]];
        if (v < 0)
            continue;
        var[v] = all;
        if (n->kind == REDUCE && i != n->root)
            LK_TRY(lk_full(all.tape, LK_F64, lk_shape_of(all), 0, &var[v]));
        if (n->kind == REDUCE_SCATTER || n->kind == SCATTER || n->kind == ALLTOALL)
            LK_TRY(part(all, &g, i, n->kind == ALLTOALL, &var[v]));
        if (n->kind == SENDRECV)
            var[v] = in[(i - n->root + g.n) % g.n];
    }
    return LK_OK;
}

/* All of them together: what ranks have alone, and the sum where it goes. */
static lk_status segments(const struct program *p, const struct instruction *n, lk_var *var)
{
    lk_var sum = LK_NO_VAR;
    for (int r = 0; r < p->size; r++) {
        if (n->in[r] < 0)
            continue;
        lk_var *own = &var[n->out[r]];
        LK_TRY(program_in_segment(var[n->in[r]], own));
        if (lk_is_var(sum))
            LK_TRY(lk_add(sum, *own, &sum));
        else
            sum = *own;
    }
    for (int r = 0; r < p->size; r++)
        if (n->in[r] >= 0 && (n->way == WAY_ALLREDUCE || r == n->root))
            var[n->out[r]] = sum;
    return LK_OK;
}

static lk_status message(const struct program *p, int id, lk_var *var)
{
    const struct message *m = &p->message[id];
    lk_var x = var[m->value];
    if (p->dropped[m->group])
        return LK_OK;
    if (m->large) {
        int length = p->value[m->value].length;
        LK_TRY(lk_slice(x, 0, m->pick % length, m->pick % length + 1, 1, &x));
    }
    var[m->got] = x;
    return LK_OK;
}

static lk_status instruction(const struct program *p, const struct instruction *n, lk_var *var)
{
    switch (n->kind) {
    case ALLREDUCE:
    case REDUCE:
    case BCAST:
    case ALLGATHER:
    case GATHER:
    case REDUCE_SCATTER:
    case SCATTER:
    case ALLTOALL:
    case SENDRECV: LK_TRY(collective(p, n, var)); break;
    case SEGMENTS: LK_TRY(segments(p, n, var)); break;
    case RECV:
    case WAIT_RECV: LK_TRY(message(p, n->message, var)); break;
    case WAITANY:
        for (int i = 0; i < n->n_waits; i++)
            if (n->wait[i] % 2)
                LK_TRY(message(p, n->wait[i] / 2, var));
        break;
    case RECV_ALL:
        var[n->out[0]] = var[p->message[n->wait[0]].value];
        for (int i = 1; i < n->n_waits; i++)
            LK_TRY(lk_add(var[n->out[0]], var[p->message[n->wait[i]].value], &var[n->out[0]]));
        break;
    case BARRIER:
    case SEND:
    case ISEND:
    case IRECV:
    case WAIT_SEND: break;
    default: LK_TRY(program_local(p, n, var)); break;
    }
    return LK_OK;
}

lk_status program_reference(const struct program *p, struct outcome *out)
{
    lk_status st;
    lk_tape *tape = NULL;
    lk_tensor *input[MAX_VALUES] = {NULL}, *grad[MAX_VALUES] = {NULL};
    lk_var var[MAX_VALUES];
    memset(out, 0, sizeof *out);
    LK_TRY_TO(done, lk_tape_new(&tape));
    for (int r = 0; r < p->size; r++)
        LK_TRY_TO(done, program_inputs(p, tape, r, input, grad, var));
    for (int i = 0; i < p->n_instructions; i++)
        if (p->instruction[i].group < 0 || !p->dropped[p->instruction[i].group])
            LK_TRY_TO(done, instruction(p, &p->instruction[i], var));
    LK_TRY_TO(done, program_differentiate(p, tape, -1, grad, var, out));
done:
    lk_tape_free(tape);
    for (int v = 0; v < p->n_values; v++) {
        lk_tensor_free(input[v]);
        lk_tensor_free(grad[v]);
    }
    return st;
}
