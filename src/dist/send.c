/* send and recv: a message, and in backward its adjoint message.
 *
 *   send   dx = the gradient of what the other side received
 *   recv   sends dy back to the rank that sent the value
 *
 * The tag of an adjoint message is the number of its message among those of the pair, above all tags of
 * programs; the pair, the direction and the communicator do the rest.  A recorded adjoint is itself a
 * message with a number, so its own adjoint is found the same way.
 *
 * A receive that leaves dtype or shape to the message is an irecv and its wait.
 */
#include "dist/common/pending.h"
#include "dist/common/sample_shapes.h"
#include "ops/common/ops.h"
#include "tensor/tensor.h"

#include <string.h>

typedef struct message {
    lk__dist d;
    int peer;
    int64_t tag;
    lk_dtype dtype; /* recv */
    lk_shape shape;
} message;

static message message_of(lk__dist d, int peer, int64_t tag)
{
    message m;
    memset(&m, 0, sizeof m);
    m.d = d;
    m.peer = peer;
    m.tag = tag;
    return m;
}

static const lk_op send_op, recv_op;

/* What backward must know of a message: the other rank, and its number.  An i64 value [2]. */
static void ticket_write(lk_tensor *ticket, const lk_message *info)
{
    int64_t *n = (int64_t *)(void *)lk__tensor_start(ticket);
    n[0] = info->rank;
    n[1] = info->sequence;
}

static lk_status ticket_read(const lk_call *c, message *m)
{
    lk__dist g;
    const lk_tensor *t = NULL;
    LK_TRY(lk__dist_adjoint(&((const message *)c->attr)->d, c->op->name, LK_REDUCE_SUM, &g));
    LK_TRY(lk_value(c->out[1], &t));
    const int64_t *n = lk_tensor_data(t);
    *m = message_of(g, (int)n[0], LK_ADJOINT_TAG_BASE + n[1]);
    return LK_OK;
}

/* ---- send: outputs a token without elements, and the ticket ---- */

static lk_status send_infer(lk_call *c, lk_output_spec *out)
{
    (void)c;
    out[0] = (lk_output_spec){.dtype = LK_F32, .shape = LK_SHAPE(0)};
    out[1] = (lk_output_spec){.dtype = LK_I64, .shape = LK_SHAPE(2)};
    return LK_OK;
}

static lk_status send_forward(lk_call *c)
{
    const message *m = c->attr;
    lk_request *request = NULL;
    LK_TRY(lk__dist_isend(&m->d, c->x[0], m->peer, m->tag, &request));
    lk_message info = lk_request_message(request);
    LK_TRY(lk_wait(&request, NULL));
    ticket_write(c->y[1], &info);
    return LK_OK;
}

static lk_status send_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    message m;
    lk_var got[2];
    (void)dout;
    if (!lk_dtype_is_real(lk_dtype_of(c->in[0])))
        return LK_OK;
    LK_TRY(ticket_read(c, &m));
    m.dtype = lk_dtype_of(c->in[0]);
    m.shape = lk_shape_of(c->in[0]);
    LK_TRY(lk_apply(c->tape, &recv_op, NULL, 0, &m, got));
    din[0] = got[0];
    return LK_OK;
}

static const lk_op send_op = {.name = "send",
                              .summary = "a value to another rank",
                              LK_ARITY(1, 2),
                              .flags = LK_OP_COLLECTIVE,
                              .attr_size = sizeof(message),
                              .infer = send_infer,
                              .forward = send_forward,
                              .backward = send_backward};

/* ---- recv: outputs the value, and the ticket ---- */

static lk_status recv_infer(lk_call *c, lk_output_spec *out)
{
    const message *m = c->attr;
    out[0] = (lk_output_spec){.dtype = m->dtype, .shape = m->shape};
    out[1] = (lk_output_spec){.dtype = LK_I64, .shape = LK_SHAPE(2)};
    return LK_OK;
}

static lk_status recv_forward(lk_call *c)
{
    const message *m = c->attr;
    lk_message info = {0};
    lk_output_spec received;
    LK_TRY(lk_recv(m->d.comm, lk__tensor_start(c->y[0]), c->y[0]->count, m->dtype, m->peer, m->tag,
                   m->d.name, &info));
    LK_TRY(lk__dist_message_spec(&info, &received));
    LK_CHECK(lk__dist_fits(m->shape, &info), LK_ESHAPE,
             "recv(\"%s\") of %s%s: rank %d has sent %s%s", m->d.name, lk_dtype_name(m->dtype),
             lk_shape_text(m->shape).s, info.rank, lk_dtype_name(received.dtype),
             lk_shape_text(received.shape).s);
    ticket_write(c->y[1], &info);
    return LK_OK;
}

static lk_status recv_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    message m;
    lk_var sent[2];
    (void)din;
    if (!lk_dtype_is_real(lk_dtype_of(c->out[0])))
        return LK_OK;
    LK_TRY(ticket_read(c, &m));
    return LK_TRACE(lk_apply(c->tape, &send_op, dout, 1, &m, sent));
}

static const lk_op recv_op = {.name = "recv",
                              .summary = "a value from another rank",
                              LK_ARITY(0, 2),
                              .flags = LK_OP_COLLECTIVE,
                              .attr_size = sizeof(message),
                              .infer = recv_infer,
                              .forward = recv_forward,
                              .backward = recv_backward};

/* ---- calls ---- */

lk_status lk_dist_send(lk_comm *comm, lk_var x, int dest, int64_t tag, const char *name,
                       lk_var *token)
{
    lk_var out[2];
    if (token)
        *token = LK_NO_VAR;
    LK_TRY_DIST(
        comm, lk__dist_peer_check(x.tape, comm, &(lk__dist_peer){"send", dest, tag, .any = false}));
    message m = message_of(lk__dist_of(comm, LK_REDUCE_SUM, 0, name), dest, tag);
    LK_TRY_DIST(comm, lk_apply(x.tape, &send_op, &x, 1, &m, out));
    if (token)
        *token = out[0];
    return LK_OK;
}

lk_status lk_dist_recv(lk_tape *tape, lk_comm *comm, int source, int64_t tag, lk_dtype dtype,
                       lk_shape shape, const char *name, lk_var *out)
{
    lk_var both[2];
    LK_CHECK(out, LK_EINVAL, "recv: out is NULL");
    *out = LK_NO_VAR;
    LK_TRY_DIST(
        comm, lk__dist_peer_check(tape, comm, &(lk__dist_peer){"recv", source, tag, .any = true}));
    message m = message_of(lk__dist_of(comm, LK_REDUCE_SUM, 0, name), source, tag);
    if (lk__dist_is_open(dtype, shape)) {
        LK_TRY_DIST(comm, lk__dist_post_claim(tape, m.d, source, tag,
                                              (lk_output_spec){.dtype = dtype, .shape = shape},
                                              true, &both[0]));
        LK_TRY_DIST(comm, lk_dist_wait(both[0], out));
        return LK_OK;
    }
    m.dtype = dtype;
    m.shape = shape;
    LK_TRY_DIST(comm, lk_apply(tape, &recv_op, NULL, 0, &m, both));
    *out = both[0];
    return LK_OK;
}

/* ---- samples ---- */

/* Round the ring: rank 0 sends first; a rank alone keeps its own. */
static lk_status ring_sample(const lk_dist_sample *s, lk_comm *comm, const lk_var *in, lk_var *out)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    int to = (rank + 1) % size, from = (rank + size - 1) % size;
    (void)s;
    out[0] = in[0];
    if (size > 1 && rank == 0)
        LK_TRY(lk_dist_send(comm, in[0], to, 3, "check", NULL));
    if (size > 1)
        LK_TRY(lk_dist_recv(in[0].tape, comm, from, 3, lk_dtype_of(in[0]), lk_shape_of(in[0]),
                            "check", out));
    if (rank > 0)
        LK_TRY(lk_dist_send(comm, in[0], to, 3, "check", NULL));
    return LK_OK;
}

/* Two values for the next rank, which multiplies them; it takes the second one first. */
static lk_status swapped_sample(const lk_dist_sample *s, lk_comm *comm, const lk_var *in,
                                lk_var *out)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    lk_var a = in[0], b = in[1], product;
    (void)s;
    if (rank + 1 < size) {
        LK_TRY(lk_dist_send(comm, in[0], rank + 1, 1, "first", NULL));
        LK_TRY(lk_dist_send(comm, in[1], rank + 1, 2, "second", NULL));
    }
    if (rank > 0) {
        lk_dtype dtype = lk_dtype_of(in[0]);
        LK_TRY(
            lk_dist_recv(in[0].tape, comm, rank - 1, 2, dtype, lk_shape_of(in[1]), "second", &b));
        LK_TRY(lk_dist_recv(in[0].tape, comm, rank - 1, 1, dtype, lk_shape_of(in[0]), "first", &a));
    }
    LK_TRY(lk_sin(b, &b));
    LK_TRY(lk_mul(a, b, &product));
    return LK_TRACE(lk_mul(product, in[0], out));
}

/* A value that is not used: the last rank throws it away, and gives no output itself. */
static lk_status unused_sample(const lk_dist_sample *s, lk_comm *comm, const lk_var *in,
                               lk_var *out)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    lk_var got, token = LK_NO_VAR;
    (void)s;
    if (rank + 1 < size)
        LK_TRY(lk_dist_send(comm, in[0], size - 1, 0, "thrown away", &token));
    for (int r = 0; rank + 1 == size && r + 1 < size; r++)
        LK_TRY(lk_dist_recv(in[0].tape, comm, LK_ANY_RANK, LK_ANY_TAG, lk_dtype_of(in[0]),
                            lk_shape_of(in[0]), "thrown away", &got));
    if (rank + 1 < size || size == 1)
        LK_TRY(lk_join(in[0], &token, lk_is_var(token), out));
    return LK_OK;
}

const lk_dist_check lk__dist_check_send = {
    .name = "send",
    .summary = "y of dest = x of source; dx = the dy that dest sends back",
    .samples = (const lk_dist_sample[]){
        {LINEAR_SAMPLE("ring", shape_same, ring_sample)},
        {.name = "out of order", .n_in = 2, .n_out = 1, .shape = shape_same, .run = swapped_sample},
        {LINEAR_SAMPLE("unused, from any rank", shape_same, unused_sample)},
        {0}}};

/* The first rank adds up what comes from all others, in whatever order it comes. */
static lk_status from_any_sample(const lk_dist_sample *s, lk_comm *comm, const lk_var *in,
                                 lk_var *out)
{
    int root = lk_dist_root(s, comm);
    if (lk_comm_rank(comm) != root) {
        return LK_TRACE(lk_dist_send(comm, in[0], root, 7, "check", NULL));
    }
    out[0] = in[0];
    for (int r = 1; r < lk_comm_size(comm); r++) {
        lk_var got;
        LK_TRY(lk_dist_recv(in[0].tape, comm, LK_ANY_RANK, 7, lk_dtype_of(in[0]),
                            lk_shape_of(in[0]), "check", &got));
        LK_TRY(lk_add(out[0], got, out));
    }
    return LK_OK;
}

/* Of what the others have, which differs, only the tag is known; in variant 1 also the dtype. */
static lk_status of_any_shape_sample(const lk_dist_sample *s, lk_comm *comm, const lk_var *in,
                                     lk_var *out)
{
    lk_dtype dtype = s->variant == 0 ? LK_ANY_DTYPE : lk_dtype_of(in[0]);
    if (lk_comm_rank(comm) != 0) {
        return LK_TRACE(lk_dist_send(comm, in[0], 0, 7, "check", NULL));
    }
    LK_TRY(lk_sum(in[0], NULL, out));
    for (int r = 1; r < lk_comm_size(comm); r++) {
        lk_var got;
        LK_TRY(lk_dist_recv(in[0].tape, comm, LK_ANY_RANK, LK_ANY_TAG, dtype, LK_ANY_SHAPE, "check",
                            &got));
        LK_TRY(lk_square(got, &got));
        LK_TRY(lk_sum(got, NULL, &got));
        LK_TRY(lk_mul(out[0], got, out));
    }
    return LK_OK;
}

const lk_dist_check lk__dist_check_recv = {
    .name = "recv",
    .summary = "y = what was sent here; its dy goes back to the sender",
    .samples = (const lk_dist_sample[]){
        {LINEAR_SAMPLE("from any rank to the first", shape_same, from_any_sample)},
        {LINEAR_SAMPLE("from any rank to the last", shape_same, from_any_sample), .root = -1},
        {SAMPLE("of any dtype and shape", shape_uneven, of_any_shape_sample), .axis = 1},
        {SAMPLE("of any shape", shape_uneven, of_any_shape_sample), .axis = 0, .variant = 1},
        {0}}};
