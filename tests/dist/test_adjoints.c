/* Communication on the tape: every node against differences of the sum of all ranks' losses, with
 * cotangents that differ between ranks, and its second derivative. */
#include "adjoints.h"

static lk_shape same(int rank, int size)
{
    (void)rank;
    (void)size;
    return LK_SHAPE(2, 3);
}

static lk_shape ragged(int rank, int size)
{
    (void)size;
    return LK_SHAPE(2, rank % 3, 2); /* also nothing */
}

/* As many along axis 1 as all ranks together ask for: rank r for 1 + r % 2. */
static int64_t asked(int rank)
{
    return 1 + rank % 2;
}

static lk_shape whole(int rank, int size)
{
    int64_t n = 0;
    (void)rank;
    for (int r = 0; r < size; r++)
        n += asked(r);
    return LK_SHAPE(2, n);
}

static lk_status sum(lk_comm *c, lk_var x, lk_var *y)
{
    return lk_dist_allreduce(c, x, LK_FOLD_SUM, "sum", y);
}

static lk_status avg(lk_comm *c, lk_var x, lk_var *y)
{
    return lk_dist_allreduce(c, x, LK_FOLD_AVG, "avg", y);
}

static lk_status prod(lk_comm *c, lk_var x, lk_var *y)
{
    return lk_dist_allreduce(c, x, LK_FOLD_PROD, "prod", y);
}

static lk_status min(lk_comm *c, lk_var x, lk_var *y)
{
    return lk_dist_allreduce(c, x, LK_FOLD_MIN, "min", y);
}

static lk_status max_to(lk_comm *c, lk_var x, lk_var *y)
{
    return lk_dist_reduce(c, x, LK_FOLD_MAX, lk_comm_size(c) - 1, "max", y);
}

static lk_status reduce(lk_comm *c, lk_var x, lk_var *y)
{
    return lk_dist_reduce(c, x, LK_FOLD_SUM, lk_comm_size(c) / 2, "reduce", y);
}

static lk_status bcast(lk_comm *c, lk_var x, lk_var *y)
{
    return lk_dist_bcast(c, x, lk_comm_size(c) - 1, "bcast", y);
}

static lk_status allgather(lk_comm *c, lk_var x, lk_var *y)
{
    return lk_dist_allgather(c, x, 1, "allgather", y);
}

static lk_status gather(lk_comm *c, lk_var x, lk_var *y)
{
    return lk_dist_gather(c, x, 1, lk_comm_size(c) - 1, "gather", y);
}

static lk_status reduce_scatter(lk_comm *c, lk_var x, lk_var *y)
{
    return lk_dist_reduce_scatter(c, x, 1, asked(lk_comm_rank(c)), "reduce_scatter", y);
}

static lk_status scatter(lk_comm *c, lk_var x, lk_var *y)
{
    return lk_dist_scatter(c, x, 1, asked(lk_comm_rank(c)), lk_comm_size(c) / 2, "scatter", y);
}

static lk_shape rows_differ(int rank, int size)
{
    lk_shape s = whole(rank, size);
    s.dim[0] = rank % 3;
    return s;
}

static lk_status alltoall(lk_comm *c, lk_var x, lk_var *y)
{
    return lk_dist_alltoall(c, x, 0, 1, asked(lk_comm_rank(c)), "alltoall", y);
}

static lk_shape own_part(int rank, int size)
{
    (void)size;
    return LK_SHAPE(2, asked(rank));
}

/* The last rank's part goes to the first and so on. */
static lk_status repartition(lk_comm *c, lk_var x, lk_var *y)
{
    int mirror = lk_comm_size(c) - 1 - lk_comm_rank(c);
    return lk_dist_alltoall(c, x, 1, 1, asked(mirror), "repartition", y);
}

/* Round the ring, even ranks first; and a rank alone keeps its own. */
static lk_status ring(lk_comm *c, lk_var x, lk_var *y)
{
    int rank = lk_comm_rank(c), size = lk_comm_size(c);
    int to = (rank + 1) % size, from = (rank + size - 1) % size;
    lk_var got = x;
    if (size > 1 && rank == 0)
        LK_TRY(lk_dist_send(c, x, to, 3, "ring", NULL));
    if (size > 1)
        LK_TRY(lk_dist_recv(x.tape, c, from, 3, LK_F64, lk_shape_of(x), "ring", &got));
    if (rank > 0)
        LK_TRY(lk_dist_send(c, x, to, 3, "ring", NULL));
    LK_TRY(lk_dist_barrier(x.tape, c, "ring"));
    LK_TRY(lk_mul(got, x, y));
    return LK_OK;
}

/* A segment that backward runs again, with all its communication. */
struct segment {
    lk_comm *comm;
    lk_var x;
};

static lk_status segment(lk_tape *tape, void *arg, lk_var *out)
{
    struct segment *s = arg;
    lk_var sum, in, gone;
    int rank = lk_comm_rank(s->comm), size = lk_comm_size(s->comm);
    LK_TRY(lk_dist_isend(s->comm, s->x, (rank + 1) % size, 1, "inside", &gone));
    LK_TRY(lk_dist_allreduce(s->comm, s->x, LK_FOLD_SUM, "inside", &sum));
    LK_TRY(lk_dist_irecv(tape, s->comm, (rank + size - 1) % size, 1, LK_F64, lk_shape_of(s->x),
                         "inside", &in));
    LK_TRY(lk_dist_wait(in, &in));
    LK_TRY(lk_dist_wait(gone, NULL));
    LK_TRY(lk_mul(sum, in, out));
    return LK_OK;
}

/* Odd ranks do not use what they computed. */
static lk_status recompute(lk_comm *c, lk_var x, lk_var *y)
{
    static _Thread_local struct segment s; /* must live until backward */
    lk_var z;
    s = (struct segment){c, x};
    LK_TRY(lk_recompute(x.tape, segment, &s, 1, &z));
    *y = x;
    if (lk_comm_rank(c) % 2 == 0)
        LK_TRY(lk_mul(z, x, y));
    return LK_OK;
}

static const struct program programs[] = {{"sum", same, sum},
                                          {"avg", same, avg},
                                          {"prod", same, prod},
                                          {"min", same, min},
                                          {"max to one", same, max_to},
                                          {"reduce", same, reduce},
                                          {"bcast", same, bcast},
                                          {"allgather", ragged, allgather},
                                          {"gather", ragged, gather},
                                          {"reduce_scatter", whole, reduce_scatter},
                                          {"scatter", whole, scatter},
                                          {"alltoall", rows_differ, alltoall},
                                          {"repartition", own_part, repartition},
                                          {"ring", same, ring},
                                          {"recompute", same, recompute}};

static void gradients_are_those_of_the_sum_of_all_losses(lk_comm *comm)
{
    check_first(comm, programs, sizeof programs / sizeof programs[0]);
}

static void second_derivatives_pass_between_ranks(lk_comm *comm)
{
    check_second(comm, programs, sizeof programs / sizeof programs[0]);
}

RANKS_MAIN(TEST(gradients_are_those_of_the_sum_of_all_losses),
           TEST(second_derivatives_pass_between_ranks))
