/* Samples of sendrecv, on which lk_gradcheck_dist() compares its backward with differences. */
#include "dist/checks/shapes.h"

/* To the right by `other`; round the ring, or in variant 1 with borders; in variant 2 the message says
 * what it is. */
static lk_status shift(const lk_dist_sample *s, lk_comm *comm, const lk_var *in, lk_var *out)
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

#define SAMPLE(text, steps, kind)                                                              \
    {                                                                                          \
        .name = (text), .n_in = 1, .n_out = 1, .shape = shape_ragged, .run = shift, .axis = 1, \
        .other = (steps), .variant = (kind), .is_linear = true                                 \
    }

const lk_dist_check lk__dist_check_sendrecv = {
    .name = "sendrecv",
    .summary = "y = what comes, while x goes; dx = what comes back, while dy goes",
    .samples = (const lk_dist_sample[]){SAMPLE("round the ring", 1, 0),
                                        SAMPLE("two steps round the ring", 2, 0),
                                        SAMPLE("to oneself", 0, 0),
                                        SAMPLE("with borders", 1, 1),
                                        SAMPLE("round the ring, of any shape", 1, 2),
                                        {0}}};
