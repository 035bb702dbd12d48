/* sendrecv: a message out and a message in, both under way at once; made of isend, irecv and wait. */
#include "dist/common/dist.h"
#include "dist/common/sample_shapes.h"

lk_status lk_dist_sendrecv(lk_tape *tape, lk_comm *comm, const lk_dist_send_arg *send,
                           const lk_dist_recv_arg *recv, const char *name, lk_var *out)
{
    lk_var in = LK_NO_VAR, gone = LK_NO_VAR;
    LK_CHECK(send && recv && out, LK_EINVAL, "sendrecv: %s is NULL",
             !send  ? "send"
             : recv ? "out"
                    : "recv");
    *out = LK_NO_VAR;
    LK_CHECK(send->rank < 0 || send->x.tape == tape, LK_EINVAL,
             "sendrecv: what is sent is no value of this tape");
    if (send->rank >= 0) { /* before anything has begun */
        LK_TRY_DIST(comm, lk__dist_valid("sendrecv", send->x));
        LK_TRY_DIST(comm, lk__dist_peer_check(
                              tape, comm,
                              &(lk__dist_peer){"sendrecv", send->rank, send->tag, .self = true}));
    }
    if (recv->rank >= 0)
        LK_TRY_DIST(comm, lk_dist_irecv(tape, comm, recv->rank, recv->tag, recv->dtype, recv->shape,
                                        name, &in));
    if (send->rank >= 0)
        LK_TRY_DIST(comm, lk_dist_isend(comm, send->x, send->rank, send->tag, name, &gone));
    if (lk_is_var(gone))
        LK_TRY_DIST(comm, lk_dist_wait(gone, NULL));
    if (lk_is_var(in))
        LK_TRY_DIST(comm, lk_dist_wait(in, out));
    return LK_OK;
}

/* ---- samples ---- */

/* To the right by `other`; round the ring, or in variant 1 with borders; in variant 2 the message says
 * what it is. */
static lk_status shift_sample(const lk_dist_sample *s, lk_comm *comm, const lk_var *in, lk_var *out)
{
    int size = lk_comm_size(comm), rank = lk_comm_rank(comm), to = rank + s->other,
        from = rank - s->other;
    if (s->variant != 1) {
        to %= size;
        from = (from % size + size) % size;
    }
    lk_dist_send_arg send = {.x = in[0], .rank = to < size ? to : -1, .tag = 9};
    lk_dist_recv_arg recv = {
        .rank = from, .tag = 9, .dtype = lk_dtype_of(in[0]), .shape = s->shape(s, from, size, 0)};
    if (s->variant == 2) {
        recv.dtype = LK_ANY_DTYPE;
        recv.shape = LK_ANY_SHAPE;
    }
    LK_TRY(lk_dist_sendrecv(in[0].tape, comm, &send, &recv, "check", out));
    if (s->variant == 1 && !lk_is_var(out[0]))
        out[0] = in[0];
    return LK_OK;
}

const lk_dist_check lk__dist_check_sendrecv = {
    .name = "sendrecv",
    .summary = "y = what comes, while x goes; dx = what comes back, while dy goes",
    .samples = (const lk_dist_sample[]){
        {LINEAR_SAMPLE("round the ring", shape_ragged, shift_sample), .other = 1, .axis = 1},
        {LINEAR_SAMPLE("two steps round the ring", shape_ragged, shift_sample), .other = 2,
         .axis = 1},
        {LINEAR_SAMPLE("to oneself", shape_ragged, shift_sample), .axis = 1},
        {LINEAR_SAMPLE("with borders", shape_ragged, shift_sample), .other = 1, .axis = 1,
         .variant = 1},
        {LINEAR_SAMPLE("round the ring, of any shape", shape_ragged, shift_sample), .other = 1,
         .axis = 1, .variant = 2},
        {0}}};
