/* Samples of irecv, on which lk_gradcheck_dist() compares its backward with differences. */
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

/* Two messages of one tag that the receiver knows nothing of; the second is waited for first. */
static lk_status of_any_shape(const lk_dist_sample *s, lk_comm *comm, const lk_var *in, lk_var *out)
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
    LK_TRY(lk_mul(out[0], got[0], out));
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

const lk_dist_check lk__dist_check_irecv = {
    .name = "irecv",
    .summary = "y = what was sent here, later; its dy goes back to the sender",
    .samples = (const lk_dist_sample[]){SAMPLE("from any rank", shape_same, from_any),
                                        SAMPLE("irecv, send, wait", shape_same, before_send),
                                        SAMPLE("more than is buffered", shape_long, before_send),
                                        {.name = "of any dtype and shape",
                                         .n_in = 2,
                                         .n_out = 1,
                                         .axis = 1,
                                         .shape = shape_uneven,
                                         .run = of_any_shape},
                                        {.name = "of any shape, more than is buffered",
                                         .n_in = 2,
                                         .n_out = 1,
                                         .shape = shape_long,
                                         .run = of_any_shape},
                                        {0}}};
