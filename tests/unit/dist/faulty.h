/* allreduce, send and recv written again, each with a fault that can be planted.
 *
 *   SCALE     the adjoint of a mean is a sum: it lacks its 1 / P
 *   PRUNED    the allreduce is like any other op, so backward leaves it out where nobody used it
 *   SWAPPED   the answer to a message does not carry its number: answers to messages that were
 *             received in another order than they were sent change places
 *
 * Without a fault they are right.
 */
#ifndef LK_TEST_FAULTY_H
#define LK_TEST_FAULTY_H

#include "dist/nodes/programs/programs.h"
#include "tensor/tensor.h"

#include <lockstep/ops.h>

#include <string.h>

enum fault { NO_FAULT, SCALE, PRUNED, SWAPPED };

static enum fault planted; /* set before ranks start */

/* ---- allreduce: sum and avg ---- */

struct fold_attr {
    lk_comm *comm;
    lk_reduce_op fold;
};

static lk_status faulty_infer(lk_call *c, lk_output_spec *out)
{
    out->dtype = c->x[0]->dtype;
    out->shape = c->x[0]->shape;
    return LK_OK;
}

static lk_status faulty_forward(lk_call *c)
{
    const struct fold_attr *a = c->attr;
    return LK_TRACE(lk_allreduce(a->comm, lk__tensor_start(c->x[0]), lk__tensor_start(c->y[0]),
                                 c->x[0]->count, c->x[0]->dtype, a->fold, "faulty"));
}

static lk_status faulty_allreduce(lk_comm *comm, lk_var x, lk_reduce_op fold, const char *name,
                                  lk_var *out);

static lk_status faulty_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    const struct fold_attr *a = c->attr;
    if (lk_dtype_is_real(lk_dtype_of(c->in[0])))
        LK_TRY(faulty_allreduce(a->comm, dout[0], planted == SCALE ? LK_REDUCE_SUM : a->fold,
                                "faulty", din));
    return LK_OK;
}

#define FAULTY_OP(op, name_, flag)                                  \
    static const lk_op op = {.name = name_,                         \
                             .min_in = 1,                           \
                             .max_in = 1,                           \
                             .n_out = 1,                            \
                             .flags = flag,                         \
                             .attr_size = sizeof(struct fold_attr), \
                             .infer = faulty_infer,                 \
                             .forward = faulty_forward,             \
                             .backward = faulty_backward}

FAULTY_OP(faulty_op, "faulty", LK_OP_COLLECTIVE);
FAULTY_OP(pruned_op, "pruned", 0);

static lk_status faulty_allreduce(lk_comm *comm, lk_var x, lk_reduce_op fold, const char *name,
                                  lk_var *out)
{
    struct fold_attr a;
    if (fold != LK_REDUCE_SUM && fold != LK_REDUCE_AVG)
        return lk_dist_allreduce(comm, x, fold, name, out);
    memset(&a, 0, sizeof a);
    a.comm = comm;
    a.fold = fold;
    return LK_TRACE(lk_apply(x.tape, planted == PRUNED ? &pruned_op : &faulty_op, &x, 1, &a, out));
}

/* ---- send and recv ---- */

struct message_attr {
    lk_comm *comm;
    int peer;
    int64_t tag;
    lk_dtype dtype;
    lk_shape shape;
};

static const lk_op faulty_send_op, faulty_recv_op;

/* What backward must know: the other rank, and the number of the message, as i64 [2]. */
static void ticket_spec(lk_output_spec *out)
{
    out->dtype = LK_I64;
    out->shape = LK_SHAPE(2);
}

static void ticket_write(lk_tensor *ticket, lk_message info)
{
    int64_t *n = (int64_t *)(void *)lk__tensor_start(ticket);
    n[0] = info.rank;
    n[1] = info.sequence;
}

static lk_status answer_of(lk_call *c, struct message_attr *m)
{
    const lk_tensor *t = NULL;
    LK_TRY(lk_value(c->out[1], &t));
    const int64_t *n = lk_tensor_data(t);
    memset(m, 0, sizeof *m);
    m->comm = ((const struct message_attr *)c->attr)->comm;
    m->peer = (int)n[0];
    m->tag = LK_ADJOINT_TAG_BASE + (planted == SWAPPED ? 0 : n[1]);
    return LK_OK;
}

static lk_status faulty_send_infer(lk_call *c, lk_output_spec *out)
{
    (void)c;
    out[0] = (lk_output_spec){.dtype = LK_F32, .shape = LK_SHAPE(0)};
    ticket_spec(&out[1]);
    return LK_OK;
}

static lk_status faulty_send_forward(lk_call *c)
{
    const struct message_attr *m = c->attr;
    lk_request *request = NULL;
    LK_TRY(lk_isend(m->comm, lk__tensor_start(c->x[0]), c->x[0]->count, c->x[0]->dtype, m->peer,
                    m->tag, "faulty", &request));
    ticket_write(c->y[1], lk_request_message(request));
    return LK_TRACE(lk_wait(&request, NULL));
}

static lk_status faulty_send_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    struct message_attr m;
    lk_var got[2];
    (void)dout;
    if (!lk_dtype_is_real(lk_dtype_of(c->in[0])))
        return LK_OK;
    LK_TRY(answer_of(c, &m));
    m.dtype = lk_dtype_of(c->in[0]);
    m.shape = lk_shape_of(c->in[0]);
    LK_TRY(lk_apply(c->tape, &faulty_recv_op, NULL, 0, &m, got));
    din[0] = got[0];
    return LK_OK;
}

static lk_status faulty_recv_infer(lk_call *c, lk_output_spec *out)
{
    const struct message_attr *m = c->attr;
    out[0] = (lk_output_spec){.dtype = m->dtype, .shape = m->shape};
    ticket_spec(&out[1]);
    return LK_OK;
}

static lk_status faulty_recv_forward(lk_call *c)
{
    const struct message_attr *m = c->attr;
    lk_message info;
    LK_TRY(lk_recv(m->comm, lk__tensor_start(c->y[0]), c->y[0]->count, m->dtype, m->peer, m->tag,
                   "faulty", &info));
    ticket_write(c->y[1], info);
    return LK_OK;
}

static lk_status faulty_recv_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    struct message_attr m;
    lk_var sent[2];
    (void)din;
    if (!lk_dtype_is_real(lk_dtype_of(c->out[0])))
        return LK_OK;
    LK_TRY(answer_of(c, &m));
    return LK_TRACE(lk_apply(c->tape, &faulty_send_op, dout, 1, &m, sent));
}

static const lk_op faulty_send_op = {.name = "faulty_send",
                                     .min_in = 1,
                                     .max_in = 1,
                                     .n_out = 2,
                                     .flags = LK_OP_COLLECTIVE,
                                     .attr_size = sizeof(struct message_attr),
                                     .infer = faulty_send_infer,
                                     .forward = faulty_send_forward,
                                     .backward = faulty_send_backward};

static const lk_op faulty_recv_op = {.name = "faulty_recv",
                                     .min_in = 0,
                                     .max_in = 0,
                                     .n_out = 2,
                                     .flags = LK_OP_COLLECTIVE,
                                     .attr_size = sizeof(struct message_attr),
                                     .infer = faulty_recv_infer,
                                     .forward = faulty_recv_forward,
                                     .backward = faulty_recv_backward};

static lk_status faulty_send(lk_comm *comm, lk_var x, int dest, int64_t tag, const char *name,
                             lk_var *token)
{
    struct message_attr m;
    lk_var out[2];
    (void)name;
    (void)token;
    memset(&m, 0, sizeof m);
    m.comm = comm;
    m.peer = dest;
    m.tag = tag;
    return LK_TRACE(lk_apply(x.tape, &faulty_send_op, &x, 1, &m, out));
}

static lk_status faulty_recv(lk_tape *tape, lk_comm *comm, int source, int64_t tag, lk_dtype dtype,
                             lk_shape shape, const char *name, lk_var *out)
{
    struct message_attr m;
    lk_var both[2];
    (void)name;
    memset(&m, 0, sizeof m);
    m.comm = comm;
    m.peer = source;
    m.tag = tag;
    m.dtype = dtype;
    m.shape = shape;
    LK_TRY(lk_apply(tape, &faulty_recv_op, NULL, 0, &m, both));
    *out = both[0];
    return LK_OK;
}

static const struct program_calls faulty_calls = {
    .allreduce = faulty_allreduce, .send = faulty_send, .recv = faulty_recv};

#endif /* LK_TEST_FAULTY_H */
