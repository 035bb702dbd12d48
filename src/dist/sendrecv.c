/* sendrecv: a message out and a message in, both under way at once; made of isend, irecv and wait. */
#include "dist/common/dist.h"

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
