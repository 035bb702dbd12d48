/* Samples of recv, on which lk_gradcheck_dist() compares its backward with differences. */
#include "dist/checks/shapes.h"

/* The first rank adds up what comes from all others, in whatever order it comes. */
static lk_status from_any(const lk_dist_sample *s, lk_comm *comm, const lk_var *in, lk_var *out)
{
    int root = lk_dist_root(s, comm);
    if (lk_comm_rank(comm) != root) {
        LK_TRY(lk_dist_send(comm, in[0], root, 7, "check", NULL));
        return LK_OK;
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
static lk_status of_any_shape(const lk_dist_sample *s, lk_comm *comm, const lk_var *in, lk_var *out)
{
    lk_dtype dtype = s->variant == 0 ? LK_ANY_DTYPE : lk_dtype_of(in[0]);
    if (lk_comm_rank(comm) != 0) {
        LK_TRY(lk_dist_send(comm, in[0], 0, 7, "check", NULL));
        return LK_OK;
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
    .samples = (const lk_dist_sample[]){{.name = "from any rank to the first",
                                         .n_in = 1,
                                         .n_out = 1,
                                         .shape = shape_same,
                                         .run = from_any,
                                         .is_linear = true},
                                        {.name = "from any rank to the last",
                                         .n_in = 1,
                                         .n_out = 1,
                                         .shape = shape_same,
                                         .run = from_any,
                                         .root = -1,
                                         .is_linear = true},
                                        {.name = "of any dtype and shape",
                                         .n_in = 1,
                                         .n_out = 1,
                                         .axis = 1,
                                         .shape = shape_uneven,
                                         .run = of_any_shape},
                                        {.name = "of any shape",
                                         .n_in = 1,
                                         .n_out = 1,
                                         .axis = 0,
                                         .variant = 1,
                                         .shape = shape_uneven,
                                         .run = of_any_shape},
                                        {0}}};
