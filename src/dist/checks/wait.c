/* Samples of wait, on which lk_gradcheck_dist() compares its backward with differences. */
#include "dist/checks/shapes.h"

/* Two messages of one tag, of which the second is waited for first; in variant 1 nobody uses
 * the first. */
static lk_status crossed(const lk_dist_sample *s, lk_comm *comm, const lk_var *in, lk_var *out)
{
    lk_var received[2], sent[2], got[2], token[2];
    for (int i = 0; i < 2; i++)
        LK_TRY(lk_dist_irecv(in[0].tape, comm, left_of(comm), 7, lk_dtype_of(in[i]),
                             lk_shape_of(in[i]), "check", &received[i]));
    for (int i = 0; i < 2; i++)
        LK_TRY(lk_dist_isend(comm, in[i], right_of(comm), 7, "check", &sent[i]));
    for (int i = 1; i >= 0; i--)
        LK_TRY(lk_dist_wait(received[i], &got[i]));
    for (int i = 0; i < 2; i++)
        LK_TRY(lk_dist_wait(sent[i], &token[i]));
    LK_TRY(lk_sin(got[1], out));
    if (s->variant == 0)
        LK_TRY(lk_mul(out[0], got[0], out));
    LK_TRY(lk_mul(out[0], in[0], out));
    LK_TRY(lk_join(out[0], token, 2, out));
    return LK_OK;
}

#define SAMPLE(text, what, kind)                                                                  \
    {                                                                                             \
        .name = (text), .n_in = 2, .n_out = 1, .shape = (what), .run = crossed, .variant = (kind) \
    }

const lk_dist_check lk__dist_check_wait = {
    .name = "wait",
    .summary =
        "y = the message of a handle; the gradient of a handle is that of its adjoint message",
    .samples = (const lk_dist_sample[]){SAMPLE("out of order", shape_same, 0),
                                        SAMPLE("out of order, one unused", shape_same, 1),
                                        SAMPLE("more than is buffered", shape_long, 0),
                                        {0}}};
