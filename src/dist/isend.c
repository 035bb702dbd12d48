/* isend and irecv, and what their wait leaves on the tape: a message that others overlap.
 *
 *     forward                          backward, in reverse order
 *     h = isend(x)                     dx = wait of the adjoint
 *     wait(h)                          the adjoint: irecv of the gradient of what was received
 *
 *     h = irecv()                      wait of the adjoint
 *     y = wait(h)                      the adjoint: isend of dy
 *
 * So the gradient of a handle is the handle of the adjoint message, and what overlaps in forward
 * overlaps in backward.  Adjoints are made of the same ops: a recorded backward has its own.
 * Messages are kept by the tape (pending.h); an adjoint has the number of its message as tag, as in send.c.
 */
#include "comm/user.h"
#include "dist/common/pending.h"
#include "dist/common/sample_shapes.h"
#include "ops/common/ops.h"
#include "tensor/tensor.h"

#include <string.h>

/* ---- what the ops share ---- */

static lk_status nothing_forward(lk_call *c)
{
    (void)c;
    return LK_OK;
}

static lk_status handle_infer(lk_call *c, lk_output_spec *out)
{
    (void)c;
    out[0] = (lk_output_spec){.dtype = LK_F32, .shape = LK_SHAPE(0)};
    return LK_OK;
}

/* The message of a handle in backward, and the attributes of its adjoint. */
static lk_status pending_of(lk_var handle, lk__pending *out, lk__dist *g)
{
    const lk__pending *p = lk__pending_find(handle);
    LK_CHECK(
        p, LK_ESTATE,
        "backward through a message whose handle is unknown: isend, irecv and their wait belong "
        "into the same segment of lk_recompute()");
    LK_TRY(lk__dist_adjoint(&p->d, p->sends ? "isend" : "irecv", LK_REDUCE_SUM, g));
    *out = *p;
    return LK_OK;
}

/* Wait for the adjoint of a message that `handle` stands for. */
static lk_status take_adjoint(lk_var handle, lk_var *out)
{
    lk__pending *p = lk__pending_find(handle);
    LK_CHECK(p && lk_is_var(p->adjoint), LK_ESTATE, "backward of %s, which has not been waited for",
             p ? lk__pending_text(p).s : "a message");
    lk_var adjoint = p->adjoint;
    p->adjoint = LK_NO_VAR;
    return LK_TRACE(lk_dist_wait(adjoint, out));
}

static bool has_gradient(lk_var handle)
{
    const lk__pending *p = lk__pending_find(handle);
    return !p || lk_dtype_is_real(p->dtype);
}

/* ---- isend: a handle ---- */

static lk_status isend_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    (void)dout;
    if (has_gradient(c->out[0]))
        LK_TRY(take_adjoint(c->out[0], &din[0]));
    return LK_OK;
}

static const lk_op isend_op = {.name = "isend",
                               .summary = "a value to another rank, under way",
                               LK_ARITY(1, 1),
                               .flags = LK_OP_COLLECTIVE,
                               .infer = handle_infer,
                               .forward = nothing_forward,
                               .backward = isend_backward};

lk_status lk__dist_post_send(lk__dist d, lk_var x, int rank, int64_t tag, lk_var *handle)
{
    const lk_tensor *t = NULL;
    lk__pending p = {.d = d, .sends = true, .adjoint = LK_NO_VAR};
    LK_TRY(lk_contiguous(x, &p.data));
    LK_TRY(lk_value(p.data, &t));
    LK_TRY(lk__pending_room(x.tape));
    LK_TRY(lk_apply(x.tape, &isend_op, &p.data, 1, NULL, &p.handle));
    LK_TRY(lk__dist_isend(&d, t, rank, tag, &p.request));
    p.info = lk_request_message(p.request);
    p.dtype = t->dtype;
    p.shape = t->shape;
    lk__pending_add(x.tape, &p);
    *handle = p.handle;
    return LK_OK;
}

/* Its wait: a token without elements. */
static lk_status sent_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    lk__pending p;
    lk__dist g;
    (void)dout;
    if (!has_gradient(c->in[0]))
        return LK_OK;
    LK_TRY(pending_of(c->in[0], &p, &g));
    LK_TRY(lk__dist_post_recv(c->tape, g, p.info.rank, LK_ADJOINT_TAG_BASE + p.info.sequence,
                              (lk_output_spec){.dtype = p.dtype, .shape = p.shape}, &din[0]));
    lk__pending_find(c->in[0])->adjoint = din[0];
    return LK_OK;
}

const lk_op lk__dist_sent = {.name = "wait_isend",
                             .summary = "a message is sent",
                             LK_ARITY(1, 1),
                             .flags = LK_OP_COLLECTIVE,
                             .infer = handle_infer,
                             .forward = nothing_forward,
                             .backward = sent_backward};

/* ---- irecv: a handle, and the buffer, which only the pending knows ---- */

static lk_status irecv_infer(lk_call *c, lk_output_spec *out)
{
    LK_TRY(handle_infer(c, out));
    out[1] = *(const lk_output_spec *)c->attr;
    return LK_OK;
}

static lk_status irecv_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    (void)dout;
    (void)din;
    if (has_gradient(c->out[0]))
        LK_TRY(take_adjoint(c->out[0], NULL));
    return LK_OK;
}

static const lk_op irecv_op = {.name = "irecv",
                               .summary = "a value from another rank, under way",
                               LK_ARITY(0, 2),
                               .flags = LK_OP_COLLECTIVE,
                               .attr_size = sizeof(lk_output_spec),
                               .infer = irecv_infer,
                               .forward = nothing_forward,
                               .backward = irecv_backward};

/* A receive that is left open: the handle alone, and the message is claimed. */
static const lk_op claim_op = {.name = "irecv",
                               .summary = "a value from another rank, under way",
                               LK_ARITY(0, 1),
                               .flags = LK_OP_COLLECTIVE,
                               .infer = handle_infer,
                               .forward = nothing_forward,
                               .backward = irecv_backward};

lk_status lk__dist_post_claim(lk_tape *tape, lk__dist d, int rank, int64_t tag, lk_output_spec like,
                              bool blocking, lk_var *handle)
{
    lk__pending p = {
        .d = d, .claims = true, .blocking = blocking, .adjoint = LK_NO_VAR, .info = {.rank = rank}};
    LK_CHECK(like.dtype == LK_ANY_DTYPE || lk_dtype_size(like.dtype) > 0, LK_EDTYPE,
             "recv(\"%s\"): %d is no dtype", d.name, (int)like.dtype);
    if (like.shape.ndim != LK_ANY_SHAPE.ndim)
        LK_TRY(lk_shape_count(like.shape, &(int64_t){0}));
    LK_TRY(lk__pending_room(tape));
    LK_TRY(lk_apply(tape, &claim_op, NULL, 0, NULL, &p.handle));
    p.data = p.handle;
    p.dtype = like.dtype;
    p.shape = like.shape;
    LK_TRY(lk__irecv_claim(d.comm, like.dtype, rank, tag, d.name, !blocking, &p.request));
    lk__pending_add(tape, &p);
    *handle = p.handle;
    return LK_OK;
}

lk_status lk__dist_post_recv(lk_tape *tape, lk__dist d, int rank, int64_t tag, lk_output_spec like,
                             lk_var *handle)
{
    if (lk__dist_is_open(like.dtype, like.shape))
        return lk__dist_post_claim(tape, d, rank, tag, like, false, handle);
    lk_var out[2];
    const lk_tensor *t = NULL;
    lk__pending p = {.d = d, .adjoint = LK_NO_VAR, .info = {.rank = rank}};
    LK_TRY(lk__pending_room(tape));
    LK_TRY(lk_apply(tape, &irecv_op, NULL, 0, &like, out));
    p.handle = out[0];
    p.data = out[1];
    p.dtype = like.dtype;
    p.shape = like.shape;
    LK_TRY(lk_value(p.data, &t));
    LK_TRY(
        lk_irecv(d.comm, lk__tensor_start(t), t->count, t->dtype, rank, tag, d.name, &p.request));
    lk__pending_add(tape, &p);
    *handle = p.handle;
    return LK_OK;
}

/* Its wait: the buffer. */
static lk_status received_infer(lk_call *c, lk_output_spec *out)
{
    const lk_tensor *buffer = c->x[1];
    out[0] = (lk_output_spec){
        .dtype = buffer->dtype, .shape = buffer->shape, .is_view = true, .view_of = 1};
    memcpy(out[0].stride, buffer->stride, sizeof out[0].stride);
    return LK_OK;
}

static lk_status received_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    lk__pending p;
    lk__dist g;
    if (!has_gradient(c->in[0]))
        return LK_OK;
    LK_TRY(pending_of(c->in[0], &p, &g));
    LK_TRY(lk__dist_post_send(g, dout[0], p.info.rank, LK_ADJOINT_TAG_BASE + p.info.sequence,
                              &din[0]));
    lk__pending_find(c->in[0])->adjoint = din[0];
    return LK_OK;
}

const lk_op lk__dist_received = {.name = "wait_irecv",
                                 .summary = "a message has come",
                                 LK_ARITY(2, 1),
                                 .flags = LK_OP_COLLECTIVE | LK_OP_STRIDED,
                                 .infer = received_infer,
                                 .backward = received_backward};

/* The wait for what was claimed: a value of what the message says, which the pending then has. */
static lk_status claimed_infer(lk_call *c, lk_output_spec *out)
{
    out[0] = *(const lk_output_spec *)c->attr;
    return LK_OK;
}

static lk_status claimed_forward(lk_call *c)
{
    return LK_TRACE(
        lk__claim_take(&lk__pending_find(c->in[0])->request, lk__tensor_start(c->y[0])));
}

const lk_op lk__dist_claimed = {.name = "wait_irecv",
                                .summary = "a message has come",
                                LK_ARITY(1, 1),
                                .flags = LK_OP_COLLECTIVE,
                                .attr_size = sizeof(lk_output_spec),
                                .infer = claimed_infer,
                                .forward = claimed_forward,
                                .backward = received_backward};

/* ---- calls ---- */

lk_status lk_dist_isend(lk_comm *comm, lk_var x, int dest, int64_t tag, const char *name,
                        lk_var *handle)
{
    LK_CHECK(handle, LK_EINVAL, "isend: handle is NULL");
    *handle = LK_NO_VAR;
    LK_TRY_DIST(
        comm, lk__dist_peer_check(
                  x.tape, comm, &(lk__dist_peer){"isend", dest, tag, .any = false, .self = true}));
    LK_TRY_DIST(
        comm, lk__dist_post_send(lk__dist_of(comm, LK_REDUCE_SUM, 0, name), x, dest, tag, handle));
    return LK_OK;
}

lk_status lk_dist_irecv(lk_tape *tape, lk_comm *comm, int source, int64_t tag, lk_dtype dtype,
                        lk_shape shape, const char *name, lk_var *handle)
{
    LK_CHECK(handle, LK_EINVAL, "irecv: handle is NULL");
    *handle = LK_NO_VAR;
    LK_TRY_DIST(comm,
                lk__dist_peer_check(
                    tape, comm, &(lk__dist_peer){"irecv", source, tag, .any = true, .self = true}));
    LK_TRY_DIST(comm,
                lk__dist_post_recv(tape, lk__dist_of(comm, LK_REDUCE_SUM, 0, name), source, tag,
                                   (lk_output_spec){.dtype = dtype, .shape = shape}, handle));
    return LK_OK;
}

/* ---- samples ---- */

/* Round the ring, of a rank alone to itself. */
static lk_status ring_sample(const lk_dist_sample *s, lk_comm *comm, const lk_var *in, lk_var *out)
{
    lk_var handle, got;
    (void)s;
    LK_TRY(lk_dist_isend(comm, in[0], right_of(comm), 3, "check", &handle));
    LK_TRY(lk_dist_recv(in[0].tape, comm, left_of(comm), 3, lk_dtype_of(in[0]), lk_shape_of(in[0]),
                        "check", &got));
    LK_TRY(lk_dist_wait(handle, NULL));
    return LK_TRACE(lk_mul(got, in[0], out));
}

const lk_dist_check lk__dist_check_isend = {
    .name = "isend",
    .summary = "y of dest = x of source, later; dx = the dy that dest sends back",
    .samples = (const lk_dist_sample[]){
        {SAMPLE("isend, recv, wait on a ring", shape_same, ring_sample)},
        {SAMPLE("more than is buffered", shape_long, ring_sample)},
        {0}}};

/* From each rank to each, itself included, received from any rank; the sum of what came. */
static lk_status from_any_sample(const lk_dist_sample *s, lk_comm *comm, const lk_var *in,
                                 lk_var *out)
{
    (void)s;
    for (int r = 0; r < lk_comm_size(comm); r++) {
        lk_var sent, received, got;
        LK_TRY(lk_dist_isend(comm, in[0], (lk_comm_rank(comm) + r) % lk_comm_size(comm), 4, "check",
                             &sent));
        LK_TRY(lk_dist_irecv(in[0].tape, comm, LK_ANY_RANK, 4, lk_dtype_of(in[0]),
                             lk_shape_of(in[0]), "check", &received));
        LK_TRY(lk_dist_wait(received, &got));
        LK_TRY(lk_dist_wait(sent, NULL));
        if (r > 0)
            LK_TRY(lk_add(out[0], got, &got));
        out[0] = got;
    }
    return LK_OK;
}

/* Two messages of one tag that the receiver knows nothing of; the second is waited for first. */
static lk_status of_any_shape_sample(const lk_dist_sample *s, lk_comm *comm, const lk_var *in,
                                     lk_var *out)
{
    lk_var received[2], sent[2], got[2];
    (void)s;
    for (int i = 0; i < 2; i++)
        LK_TRY(lk_dist_irecv(in[0].tape, comm, left_of(comm), 1, LK_ANY_DTYPE, LK_ANY_SHAPE,
                             "check", &received[i]));
    for (int i = 0; i < 2; i++)
        LK_TRY(lk_dist_isend(comm, in[i], right_of(comm), 1, "check", &sent[i]));
    for (int i = 1; i >= 0; i--)
        LK_TRY(lk_dist_wait(received[i], &got[i]));
    for (int i = 0; i < 2; i++)
        LK_TRY(lk_dist_wait(sent[i], NULL));
    LK_TRY(lk_sin(got[1], out));
    return LK_TRACE(lk_mul(out[0], got[0], out));
}

/* irecv first, then a blocking send: of a long value the only order there is. */
static lk_status before_send_sample(const lk_dist_sample *s, lk_comm *comm, const lk_var *in,
                                    lk_var *out)
{
    lk_var handle;
    (void)s;
    out[0] = in[0];
    if (lk_comm_size(comm) == 1)
        return LK_OK;
    LK_TRY(lk_dist_irecv(in[0].tape, comm, left_of(comm), 1, lk_dtype_of(in[0]), lk_shape_of(in[0]),
                         "check", &handle));
    LK_TRY(lk_dist_send(comm, in[0], right_of(comm), 1, "check", NULL));
    return LK_TRACE(lk_dist_wait(handle, out));
}

const lk_dist_check lk__dist_check_irecv = {
    .name = "irecv",
    .summary = "y = what was sent here, later; its dy goes back to the sender",
    .samples = (const lk_dist_sample[]){
        {LINEAR_SAMPLE("from any rank", shape_same, from_any_sample)},
        {LINEAR_SAMPLE("irecv, send, wait", shape_same, before_send_sample)},
        {LINEAR_SAMPLE("more than is buffered", shape_long, before_send_sample)},
        {.name = "of any dtype and shape",
         .n_in = 2,
         .n_out = 1,
         .axis = 1,
         .shape = shape_uneven,
         .run = of_any_shape_sample},
        {.name = "of any shape, more than is buffered",
         .n_in = 2,
         .n_out = 1,
         .shape = shape_long,
         .run = of_any_shape_sample},
        {0}}};
