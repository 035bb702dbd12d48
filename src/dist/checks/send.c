/* Samples of send, on which lk_gradcheck_dist() compares its backward with differences. */
#include "dist/checks/shapes.h"

/* Round the ring: rank 0 sends first; a rank alone keeps its own. */
static lk_status ring(const lk_dist_sample *s, lk_comm *comm, const lk_var *in, lk_var *out)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    int to = (rank + 1) % size, from = (rank + size - 1) % size;
    (void)s;
    out[0] = in[0];
    if (size > 1 && rank == 0)
        LK_TRY(lk_dist_send(comm, in[0], to, 3, "check", NULL));
    if (size > 1)
        LK_TRY(lk_dist_recv(in[0].tape, comm, from, 3, lk_dtype_of(in[0]), lk_shape_of(in[0]),
                            "check", out));
    if (rank > 0)
        LK_TRY(lk_dist_send(comm, in[0], to, 3, "check", NULL));
    return LK_OK;
}

/* Two values for the next rank, which multiplies them; it takes the second one first. */
static lk_status swapped(const lk_dist_sample *s, lk_comm *comm, const lk_var *in, lk_var *out)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    lk_var a = in[0], b = in[1], product;
    (void)s;
    if (rank + 1 < size) {
        LK_TRY(lk_dist_send(comm, in[0], rank + 1, 1, "first", NULL));
        LK_TRY(lk_dist_send(comm, in[1], rank + 1, 2, "second", NULL));
    }
    if (rank > 0) {
        lk_dtype dtype = lk_dtype_of(in[0]);
        LK_TRY(
            lk_dist_recv(in[0].tape, comm, rank - 1, 2, dtype, lk_shape_of(in[1]), "second", &b));
        LK_TRY(lk_dist_recv(in[0].tape, comm, rank - 1, 1, dtype, lk_shape_of(in[0]), "first", &a));
    }
    LK_TRY(lk_sin(b, &b));
    LK_TRY(lk_mul(a, b, &product));
    LK_TRY(lk_mul(product, in[0], out));
    return LK_OK;
}

/* What nobody uses: the last rank throws it away, and gives no output itself. */
static lk_status unused(const lk_dist_sample *s, lk_comm *comm, const lk_var *in, lk_var *out)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    lk_var got, token = LK_NO_VAR;
    (void)s;
    if (rank + 1 < size)
        LK_TRY(lk_dist_send(comm, in[0], size - 1, 0, "thrown away", &token));
    for (int r = 0; rank + 1 == size && r + 1 < size; r++)
        LK_TRY(lk_dist_recv(in[0].tape, comm, LK_ANY_RANK, LK_ANY_TAG, lk_dtype_of(in[0]),
                            lk_shape_of(in[0]), "thrown away", &got));
    if (rank + 1 < size || size == 1)
        LK_TRY(lk_join(in[0], &token, lk_is_var(token), out));
    return LK_OK;
}

const lk_dist_check lk__dist_check_send = {
    .name = "send",
    .summary = "y of dest = x of source; dx = the dy that dest sends back",
    .samples = (const lk_dist_sample[]){
        {.name = "ring",
         .n_in = 1,
         .n_out = 1,
         .shape = shape_same,
         .run = ring,
         .is_linear = true},
        {.name = "out of order", .n_in = 2, .n_out = 1, .shape = shape_same, .run = swapped},
        {.name = "unused, from any rank",
         .n_in = 1,
         .n_out = 1,
         .shape = shape_same,
         .run = unused,
         .is_linear = true},
        {0}}};
