#include "dist/checks/shapes.h"

/* Everybody's for everybody, itself included, from any rank; the sum of what came. */
static lk_status from_any(const lk_dist_sample *s, lk_comm *comm, const lk_var *in, lk_var *out)
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

/* irecv first, then a blocking send: of a long value the only order there is. */
static lk_status before_send(const lk_dist_sample *s, lk_comm *comm, const lk_var *in, lk_var *out)
{
    lk_var handle;
    (void)s;
    out[0] = in[0];
    if (lk_comm_size(comm) == 1)
        return LK_OK;
    LK_TRY(lk_dist_irecv(in[0].tape, comm, left_of(comm), 1, lk_dtype_of(in[0]), lk_shape_of(in[0]),
                         "check", &handle));
    LK_TRY(lk_dist_send(comm, in[0], right_of(comm), 1, "check", NULL));
    LK_TRY(lk_dist_wait(handle, out));
    return LK_OK;
}

#define SAMPLE(text, what, how)                                                                 \
    {                                                                                           \
        .name = (text), .n_in = 1, .n_out = 1, .shape = (what), .run = (how), .is_linear = true \
    }

const lk_dist_check lk_dist_check_irecv = {
    .name = "irecv",
    .summary = "y = what was sent here, later; its dy goes back to the sender",
    .samples = (const lk_dist_sample[]){SAMPLE("from any rank", shape_same, from_any),
                                        SAMPLE("irecv, send, wait", shape_same, before_send),
                                        SAMPLE("more than is buffered", shape_long, before_send),
                                        {0}}};
