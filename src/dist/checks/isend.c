/* Samples of isend, on which lk_gradcheck_dist() compares its backward with differences. */
#include "dist/checks/shapes.h"

/* Round the ring, of a rank alone to itself. */
static lk_status ring(const lk_dist_sample *s, lk_comm *comm, const lk_var *in, lk_var *out)
{
    lk_var handle, got;
    (void)s;
    LK_TRY(lk_dist_isend(comm, in[0], right_of(comm), 3, "check", &handle));
    LK_TRY(lk_dist_recv(in[0].tape, comm, left_of(comm), 3, lk_dtype_of(in[0]), lk_shape_of(in[0]),
                        "check", &got));
    LK_TRY(lk_dist_wait(handle, NULL));
    LK_TRY(lk_mul(got, in[0], out));
    return LK_OK;
}

#define SAMPLE(text, what)                                                  \
    {                                                                       \
        .name = (text), .n_in = 1, .n_out = 1, .shape = (what), .run = ring \
    }

const lk_dist_check lk__dist_check_isend = {
    .name = "isend",
    .summary = "y of dest = x of source, later; dx = the dy that dest sends back",
    .samples = (const lk_dist_sample[]){SAMPLE("isend, recv, wait on a ring", shape_same),
                                        SAMPLE("more than is buffered", shape_long),
                                        {0}}};
