/* Samples of waitany, on which lk_gradcheck_dist() compares its backward with differences. */
#include "dist/checks/shapes.h"

/* Both neighbours on the ring and this rank itself, in whatever order they come. */
static lk_status whoever(const lk_dist_sample *s, lk_comm *comm, const lk_var *in, lk_var *out)
{
    const int to[3] = {right_of(comm), lk_comm_rank(comm), left_of(comm)};
    const int from[3] = {left_of(comm), lk_comm_rank(comm), right_of(comm)};
    lk_var handle[7], got[3], x;
    int which;
    (void)s;
    for (int i = 0; i < 3; i++) {
        LK_TRY(lk_dist_isend(comm, in[i], to[i], 20 + i, "check", &handle[i]));
        LK_TRY(lk_dist_irecv(in[0].tape, comm, from[i], 20 + i, lk_dtype_of(in[0]),
                             lk_shape_of(in[0]), "check", &handle[3 + i]));
    }
    handle[6] = LK_NO_VAR;
    for (int n = 0; n < 6; n++) {
        LK_TRY(lk_dist_waitany(handle, 7, &which, &x));
        handle[which] = LK_NO_VAR;
        if (which >= 3)
            got[which - 3] = x;
    }
    LK_TRY(lk_sin(got[1], &got[1]));
    LK_TRY(lk_mul(got[0], got[1], out));
    LK_TRY(lk_sub(out[0], got[2], out));
    return LK_OK;
}

const lk_dist_check lk__dist_check_waitany = {
    .name = "waitany",
    .summary = "as wait, of the message that is there first",
    .samples = (const lk_dist_sample[]){
        {.name = "three messages", .n_in = 3, .n_out = 1, .shape = shape_same, .run = whoever},
        {0}}};
