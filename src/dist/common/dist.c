/* Attributes, counts and axes of the ops of this room. */
#include "base/failure.h"
#include "comm/user.h"
#include "dist/common/pending.h"
#include "tensor/tensor.h"

#include <lockstep/extra/checked.h>

#include <stdio.h>
#include <string.h>

/* Append a text as far as there is room. */
static void name_add(lk__dist *d, size_t at, const char *text)
{
    size_t n = strnlen(text, sizeof d->name - 1 - at);
    memcpy(d->name + at, text, n);
}

lk__dist lk__dist_of(lk_comm *comm, lk_reduce_op reduce_op, int root, const char *name)
{
    lk__dist d;
    memset(&d, 0, sizeof d); /* attributes are compared as bytes */
    d.comm = comm;
    d.reduce_op = reduce_op;
    d.root = root;
    if (name)
        name_add(&d, 0, name);
    return d;
}

/* A number behind `text`; returns its end. */
static char *digits_add(char *text, int64_t value)
{
    char digit[20];
    int n = 0;
    do
        digit[n++] = (char)('0' + value % 10);
    while (value /= 10);
    while (n > 0)
        *text++ = digit[--n];
    return text;
}

/* Let the name end with a text, over its own end where there is no room. */
static void name_end(lk__dist *d, const char *text)
{
    size_t n = strlen(d->name), room = sizeof d->name - 1, length = strlen(text);
    name_add(d, length >= room ? 0 : n + length > room ? room - length : n, text);
}

void lk__dist_shaped(lk__dist *d, lk_shape shape, int axis)
{
    enum { MOST = LK_MAX_NDIM * 21 + 2 };
    char text[MOST + 1], *at = text;
    if (shape.ndim < 2)
        return;
    *at++ = '[';
    for (int i = 0; i < shape.ndim; i++) {
        if (i == axis)
            *at++ = '*';
        else
            at = digits_add(at, shape.dim[i]);
        *at++ = i + 1 < shape.ndim ? ',' : ']';
    }
    *at = '\0';
    name_end(d, text);
}

void lk__dist_noted(lk__dist *d, const char *what, int value)
{
    char text[48];
    snprintf(text, sizeof text, " %.16s %d", what, value);
    name_end(d, text);
}

lk_status lk__dist_adjoint(const lk__dist *d, const char *op, lk_reduce_op reduce_op, lk__dist *g)
{
    LK_CHECK(!lk__comm_is_freed(d->comm), LK_ESTATE,
             "backward of %s(\"%s\"), whose communicator was freed: free it after the tape's reset",
             op, d->name);
    *g = lk__dist_of(d->comm, reduce_op, d->root, d->name);
    size_t n = strlen(d->name), most = sizeof d->name - sizeof ".grad";
    name_add(g, n < most ? n : most, ".grad");
    return LK_OK;
}

lk_status lk__dist_adjoint_with(lk_call *c, const lk_op *op, lk_reduce_op reduce_op,
                                const lk_var *in, int n, lk_var *din)
{
    lk__dist g;
    if (!lk_dtype_is_real(lk_dtype_of(c->in[0])))
        return LK_OK;
    LK_TRY(lk__dist_adjoint(c->attr, c->op->name, reduce_op, &g));
    return LK_TRACE(lk_apply(c->tape, op, in, n, &g, din));
}

/* A blocking message of this rank to itself: its other end must have begun. */
static lk_status self_check(lk_comm *comm, const lk__dist_peer *p)
{
    bool begun = false;
    if (!p->list)
        LK_TRY(lk__comm_matches_itself(comm, p->any, p->tag, &begun));
    LK_CHECK(begun, LK_EINVAL, "%s: rank %d is this one, which has not begun to %s: %s", p->call,
             p->rank, p->any ? "send such a message" : "receive this message",
             p->list  ? "a list for oneself never arrives"
             : p->any ? "call lk_dist_isend() before"
                      : "call lk_dist_irecv() before, or lk_dist_isend() instead");
    return LK_OK;
}

lk_status lk__dist_peer_check(lk_tape *tape, lk_comm *comm, const lk__dist_peer *p)
{
    LK_CHECK(comm, LK_EINVAL, "%s: comm is NULL", p->call);
    LK_CHECK(tape, LK_EINVAL, "%s: there is no %s", p->call, p->any ? "tape" : "value to send");
    LK_CHECK((p->rank >= 0 && p->rank < lk_comm_size(comm)) || (p->any && p->rank == LK_ANY_RANK),
             LK_EINVAL, "%s: rank %d of %d", p->call, p->rank, lk_comm_size(comm));
    LK_CHECK((p->tag >= 0 && p->tag < LK_ADJOINT_TAG_BASE) || (p->any && p->tag == LK_ANY_TAG),
             LK_EINVAL, "%s: tag %lld, from 0 to 2^62 - 1", p->call, (long long)p->tag);
    LK_TRY(lk__dist_uses(tape, comm, p->call));
    if (!p->self && p->rank == lk_comm_rank(comm))
        LK_TRY(self_check(comm, p));
    return LK_OK;
}

lk_status lk__dist_valid(const char *call, lk_var x)
{
    const lk_tensor *t = NULL;
    LK_CHECK(lk_is_var(x), LK_EINVAL, "%s of LK_NO_VAR, which is no value", call);
    lk_status st = lk_value(x, &t);
    if (st != LK_OK)
        lk__error_prefix("%s: ", call);
    return LK_TRACE(st);
}

lk_status lk__dist_check(const lk__dist *d, const char *call, lk_var x)
{
    LK_CHECK(d->comm, LK_EINVAL, "%s: comm is NULL", call);
    LK_TRY(lk__dist_valid(call, x));
    LK_CHECK(d->root >= 0 && d->root < lk_comm_size(d->comm), LK_EINVAL, "%s: root %d of %d ranks",
             call, d->root, lk_comm_size(d->comm));
    return LK_TRACE(lk__dist_uses(x.tape, d->comm, call));
}

_Static_assert((int)LK_MESSAGE_AXES == (int)LK_MAX_NDIM, "a message can have any shape");

lk_status lk__dist_isend(const lk__dist *d, const lk_tensor *x, int rank, int64_t tag,
                         lk_request **out)
{
    return LK_TRACE(lk__isend_array(d->comm,
                                    &(lk__array){.data = lk__tensor_start(x),
                                                 .count = x->count,
                                                 .dtype = x->dtype,
                                                 .ndim = x->shape.ndim,
                                                 .dim = x->shape.dim},
                                    rank, tag, d->name, out));
}

bool lk__dist_is_open(lk_dtype dtype, lk_shape shape)
{
    return dtype == LK_ANY_DTYPE || shape.ndim == LK_ANY_SHAPE.ndim;
}

lk_status lk__dist_message_spec(const lk_message *m, lk_output_spec *out)
{
    int64_t count;
    *out = (lk_output_spec){.dtype = m->dtype, .shape = LK_SHAPE(m->count)};
    if (m->ndim < 0)
        return LK_OK;
    out->shape.ndim = m->ndim;
    memcpy(out->shape.dim, m->dim, sizeof out->shape.dim);
    LK_CHECK(lk_shape_count(out->shape, &count) == LK_OK && count == m->count, LK_ECOMM,
             "rank %d has sent %lld elements as %s", m->rank, (long long)m->count,
             lk_shape_text(out->shape).s);
    return LK_OK;
}

bool lk__dist_fits(lk_shape shape, const lk_message *m)
{
    lk_shape sent = {.ndim = m->ndim};
    int64_t count;
    if (shape.ndim == LK_ANY_SHAPE.ndim)
        return true;
    if (m->ndim < 0)
        return lk_shape_count(shape, &count) == LK_OK && count == m->count;
    memcpy(sent.dim, m->dim, sizeof sent.dim);
    return lk_shape_is_equal(shape, sent);
}

lk_status lk__dist_counts(const lk__dist *d, lk_tape *tape, int64_t own, int64_t *sum, lk_var *out)
{
    const lk_tensor *t = NULL;
    int size = lk_comm_size(d->comm);
    LK_TRY(lk_full(tape, LK_I64, LK_SHAPE(size), 0, out));
    LK_TRY(lk_value(*out, &t));
    int64_t *counts = (int64_t *)(void *)lk__tensor_start(t), total = 0;
    LK_TRY(lk_allgather(d->comm, &own, counts, 1, LK_I64, d->name));
    for (int r = 0; r < size; r++)
        LK_TRY(lk_add_i64(total, counts[r], &total));
    if (sum)
        *sum = total;
    return LK_OK;
}

lk_status lk__dist_elements(lk_call *c, const lk_tensor *counts, int64_t row, int64_t **out)
{
    const int64_t *count = lk_tensor_data(counts);
    LK_TRY(lk_call_scratch(c, counts->count * (int64_t)sizeof **out, out));
    for (int64_t r = 0; r < counts->count; r++)
        LK_TRY(lk_mul_i64(count[r], row, &(*out)[r]));
    return LK_OK;
}

int64_t lk__dist_row(lk_shape shape)
{
    int64_t row = 1;
    for (int d = 1; d < shape.ndim; d++)
        row *= shape.dim[d];
    return row;
}

lk_status lk__dist_front(const char *call, lk_var x, int axis, lk_var *out)
{
    lk_shape shape = lk_shape_of(x);
    int axes[LK_MAX_NDIM] = {axis};
    LK_CHECK(axis >= 0 && axis < shape.ndim, LK_EINVAL, "%s: axis %d of a value %s", call, axis,
             lk_shape_text(shape).s);
    for (int d = 0, k = 1; d < shape.ndim; d++)
        if (d != axis)
            axes[k++] = d;
    *out = x;
    if (axis > 0)
        LK_TRY(lk_permute(x, axes, out));
    return LK_OK;
}

lk_shape lk__dist_moved_back(lk_shape shape, int axis)
{
    lk_shape out = shape;
    for (int d = 0; d < shape.ndim && axis < shape.ndim; d++)
        out.dim[d] = shape.dim[d < axis ? d + 1 : d == axis ? 0 : d];
    return out;
}

lk_status lk__dist_adds_up(const char *call, lk_dtype dtype, lk_shape shape, int axis, int64_t sum)
{
    LK_CHECK(axis >= 0 && axis < shape.ndim, LK_EINVAL, "%s: axis %d of a value %s", call, axis,
             lk_shape_text(shape).s);
    LK_CHECK(shape.dim[axis] == sum, LK_ESHAPE,
             "%s: a value %s%s, where the counts of all ranks add up to %lld along axis %d", call,
             lk_dtype_name(dtype), lk_shape_text(shape).s, (long long)sum, axis);
    return LK_OK;
}

lk_status lk__dist_back(lk_var x, int axis, lk_var *out)
{
    int axes[LK_MAX_NDIM], ndim = lk_shape_of(x).ndim;
    for (int d = 0; d < ndim; d++)
        axes[d] = d < axis ? d + 1 : d == axis ? 0 : d;
    *out = x;
    if (axis > 0)
        LK_TRY(lk_permute(x, axes, out));
    return LK_OK;
}
