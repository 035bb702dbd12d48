/* Samples of join, on which lk_gradcheck_dist() compares its backward with differences. */
#include "dist/checks/shapes.h"

/* x of the first rank for the last, with the tokens of the messages joined to what comes after. */
static lk_status run(const lk_dist_sample *s, lk_comm *comm, const lk_var *in, lk_var *out)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    lk_var token[2], got;
    (void)s;
    out[0] = in[0];
    if (rank == 0 && size > 1) {
        LK_TRY(lk_dist_send(comm, in[0], size - 1, 1, "check", &token[0]));
        LK_TRY(lk_dist_send(comm, in[0], size - 1, 2, "check", &token[1]));
        LK_TRY(lk_join(in[0], token, 2, out));
    }
    for (int tag = 1; rank > 0 && rank == size - 1 && tag <= 2; tag++) {
        LK_TRY(lk_dist_recv(in[0].tape, comm, 0, tag, lk_dtype_of(in[0]), lk_shape_of(in[0]),
                            "check", &got));
        LK_TRY(lk_add(out[0], got, out));
    }
    return LK_OK;
}

/* The ring as mpi4torch has it: a handle that depends on what was received. */
static lk_status handle(const lk_dist_sample *s, lk_comm *comm, const lk_var *in, lk_var *out)
{
    lk_var sent, received, joined, token;
    (void)s;
    LK_TRY(lk_dist_isend(comm, in[0], right_of(comm), 5, "check", &sent));
    LK_TRY(lk_join_handle(sent, in, 1, &joined));
    LK_TRY(lk_dist_irecv(in[0].tape, comm, left_of(comm), 5, lk_dtype_of(in[0]), lk_shape_of(in[0]),
                         "check", &received));
    LK_TRY(lk_dist_wait(received, out));
    LK_TRY(lk_dist_wait(joined, &token));
    LK_TRY(lk_join(out[0], &token, 1, out));
    return LK_OK;
}

/* As ChainerMN has it: what comes after a send hangs on its delegate variable. */
static lk_status delegate(const lk_dist_sample *s, lk_comm *comm, const lk_var *in, lk_var *out)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    lk_var token = LK_NO_VAR;
    (void)s;
    if (rank + 1 < size)
        LK_TRY(lk_dist_send(comm, in[0], rank + 1, 1, "check", &token));
    LK_TRY(lk_pseudo_connect(token, in, 2, out));
    if (rank > 0)
        LK_TRY(lk_dist_recv(in[0].tape, comm, rank - 1, 1, lk_dtype_of(in[0]), lk_shape_of(in[0]),
                            "check", &out[0]));
    return LK_OK;
}

#define SAMPLE(text, n, how)                                                          \
    {                                                                                 \
        .name = (text), .n_in = (n), .n_out = (n), .shape = shape_same, .run = (how), \
        .is_linear = true                                                             \
    }

const lk_dist_check lk__dist_check_join = {
    .name = "join",
    .summary = "y = x, depending on tokens besides; dx = dy",
    .samples = (const lk_dist_sample[]){SAMPLE("tokens of two messages", 1, run),
                                        SAMPLE("a joined handle", 1, handle),
                                        SAMPLE("a delegate variable", 2, delegate),
                                        {0}}};
