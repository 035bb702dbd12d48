/* A rank that runs out of memory in a call of dist.h, or in its backward, tells the others. */
#include "memory_ranks.h"

#include <lockstep/lockstep.h>

/* What a rank has: a leaf [4][6], on a tape that is empty otherwise. */
struct side {
    lk_comm *comm;
    int rank, size, left, right; /* left, right: in the ring */
    lk_tape *tape;
    lk_tensor *t;
    lk_var x;
    lk_multi_node_batch_norm *norm;
};

static lk_status side_begin(lk_comm *comm, void *side)
{
    struct side *s = side;
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    *s = (struct side){comm, rank, size, (rank + size - 1) % size, (rank + 1) % size, .tape = NULL};
    LK_TRY(lk_tape_new(&s->tape));
    LK_TRY(lk_tensor_new(LK_F64, LK_SHAPE(4, 6), &s->t));
    LK_TRY(lk_tensor_fill_f64(s->t, 1));
    LK_TRY(lk_leaf(s->tape, s->t, NULL, &s->x));
    return LK_TRACE(lk_multi_node_batch_norm_new(comm, 6, "dtype=f64", &s->norm));
}

static void side_end(void *side)
{
    struct side *s = side;
    lk_tape_free(s->tape);
    lk_tensor_free(s->t);
    lk_multi_node_batch_norm_free(s->norm);
}

static lk_status allreduce(void *side)
{
    struct side *s = side;
    lk_var y;
    LK_TRY(lk_dist_allreduce(s->comm, s->x, LK_REDUCE_SUM, "x", &y));
    return LK_TRACE(lk_backward(s->tape, NULL, 0, 0));
}

static lk_status allreduce_prod(void *side)
{
    struct side *s = side;
    lk_var y;
    LK_TRY(lk_dist_allreduce(s->comm, s->x, LK_REDUCE_PROD, "x", &y));
    return LK_TRACE(lk_backward(s->tape, NULL, 0, 0));
}

static lk_status allreduce_max(void *side)
{
    struct side *s = side;
    lk_var y;
    LK_TRY(lk_dist_allreduce(s->comm, s->x, LK_REDUCE_MAX, "x", &y));
    return LK_TRACE(lk_backward(s->tape, NULL, 0, 0));
}

static lk_status allreduce_list(void *side)
{
    struct side *s = side;
    lk_var xs[3] = {s->x, s->x, s->x};
    LK_TRY(lk_dist_allreduce_list(s->comm, xs, 3, LK_REDUCE_SUM, "x", xs));
    return LK_TRACE(lk_backward(s->tape, NULL, 0, 0));
}

static lk_status reduce(void *side)
{
    struct side *s = side;
    lk_var y;
    LK_TRY(lk_dist_reduce(s->comm, s->x, LK_REDUCE_SUM, 0, "x", &y));
    LK_TRY(lk_dist_reduce(s->comm, s->x, LK_REDUCE_MIN, 0, "x", &y));
    return LK_TRACE(lk_backward(s->tape, NULL, 0, 0));
}

static lk_status locations(void *side)
{
    struct side *s = side;
    lk_var y, at;
    LK_TRY(lk_dist_allreduce_loc(s->comm, s->x, LK_NO_VAR, LK_REDUCE_MAXLOC, "x", &y, &at));
    LK_TRY(lk_dist_reduce_loc(s->comm, s->x, at, LK_REDUCE_MINLOC, 0, "x", &y, &at));
    return LK_TRACE(lk_backward(s->tape, NULL, 0, 0));
}

static lk_status bcast(void *side)
{
    struct side *s = side;
    lk_var y;
    LK_TRY(lk_dist_bcast(s->comm, s->x, 0, "x", &y));
    return LK_TRACE(lk_backward(s->tape, NULL, 0, 0));
}

static lk_status bcast_list(void *side)
{
    struct side *s = side;
    lk_var at[2] = {s->x, s->x};
    lk_list list = {at, s->rank == 0 ? 2 : 0, 2};
    LK_TRY(lk_dist_bcast_list(s->tape, s->comm, 0, "x", &list));
    return LK_TRACE(lk_backward(s->tape, NULL, 0, 0));
}

static lk_status allgather(void *side)
{
    struct side *s = side;
    lk_var y;
    LK_TRY(lk_dist_allgather(s->comm, s->x, 1, "x", &y));
    return LK_TRACE(lk_backward(s->tape, NULL, 0, 0));
}

static lk_status allgather_list(void *side)
{
    struct side *s = side;
    lk_var y[MEMORY_RANKS];
    LK_TRY(lk_dist_allgather_list(s->comm, s->x, "x", y));
    return LK_TRACE(lk_backward(s->tape, NULL, 0, 0));
}

static lk_status gather(void *side)
{
    struct side *s = side;
    lk_var y;
    LK_TRY(lk_dist_gather(s->comm, s->x, 1, 0, "x", &y));
    return LK_TRACE(lk_backward(s->tape, NULL, 0, 0));
}

static lk_status gather_list(void *side)
{
    struct side *s = side;
    lk_var y[MEMORY_RANKS];
    LK_TRY(lk_dist_gather_list(s->comm, s->x, 0, "x", y));
    return LK_TRACE(lk_backward(s->tape, NULL, 0, 0));
}

static lk_status scatter(void *side)
{
    struct side *s = side;
    lk_var y;
    LK_TRY(lk_dist_scatter(s->comm, s->x, 1, s->rank == 0 ? 6 : 0, 0, "x", &y));
    return LK_TRACE(lk_backward(s->tape, NULL, 0, 0));
}

static lk_status scatter_list(void *side)
{
    struct side *s = side;
    lk_var y, xs[MEMORY_RANKS] = {s->x, s->x, s->x, s->x};
    LK_TRY(lk_dist_scatter_list(s->tape, s->comm, xs, 0, "x", &y));
    return LK_TRACE(lk_backward(s->tape, NULL, 0, 0));
}

static lk_status reduce_scatter(void *side)
{
    struct side *s = side;
    lk_var y;
    LK_TRY(lk_dist_reduce_scatter(s->comm, s->x, 1, s->rank == 0 ? 6 : 0, "x", &y));
    return LK_TRACE(lk_backward(s->tape, NULL, 0, 0));
}

static lk_status alltoall(void *side)
{
    struct side *s = side;
    lk_var y;
    LK_TRY(lk_dist_alltoall(s->comm, s->x, 0, 1, s->rank == 0 ? 6 : 0, "x", &y));
    LK_TRY(lk_dist_alltoall(s->comm, s->x, 1, 1, 6, "x", &y));
    return LK_TRACE(lk_backward(s->tape, NULL, 0, 0));
}

static lk_status alltoall_list(void *side)
{
    struct side *s = side;
    lk_var xs[MEMORY_RANKS] = {s->x, s->x, s->x, s->x};
    LK_TRY(lk_dist_alltoall_list(s->comm, xs, "x", xs));
    return LK_TRACE(lk_backward(s->tape, NULL, 0, 0));
}

static lk_status neighbour(void *side)
{
    struct side *s = side;
    lk_var y;
    const int rank[] = {s->left, s->right}, opposite[] = {1, 0};
    const int64_t n[] = {3, 3};
    LK_TRY(lk_dist_neighbor_alltoall(s->comm, s->x, 1, &(lk_neighbours){2, rank, n, n, opposite},
                                     "x", &y));
    return LK_TRACE(lk_backward(s->tape, NULL, 0, 0));
}

static lk_status halo(void *side)
{
    struct side *s = side;
    lk_grid grid;
    lk_var y;
    LK_TRY(lk_grid_make(s->comm, 1, (int[]){s->size}, NULL, &grid));
    LK_TRY(lk_dist_halo(s->comm, &grid, s->x, &(lk_halo){1, 0, 1, 2, true}, 1, "x", &y));
    return LK_TRACE(lk_backward(s->tape, NULL, 0, 0));
}

static lk_status halo_add(void *side)
{
    struct side *s = side;
    lk_grid grid;
    lk_var y;
    LK_TRY(lk_grid_make(s->comm, 1, (int[]){s->size}, NULL, &grid));
    LK_TRY(lk_dist_halo_add(s->comm, &grid, s->x, &(lk_halo){1, 0, 1, 2, true}, 1, "x", &y));
    return LK_TRACE(lk_backward(s->tape, NULL, 0, 0));
}

static lk_status barrier(void *side)
{
    struct side *s = side;
    LK_TRY(lk_dist_barrier(s->tape, s->comm, "x"));
    return LK_TRACE(lk_backward(s->tape, NULL, 0, 0));
}

/* From rank 0 to rank 1, with the shape that is expected and without. */
static lk_status message(void *side)
{
    struct side *s = side;
    lk_var y;
    if (s->rank == 0) {
        LK_TRY(lk_dist_send(s->comm, s->x, 1, 1, "x", NULL));
        LK_TRY(lk_dist_send(s->comm, s->x, 1, 1, "x", NULL));
    }
    if (s->rank == 1) {
        LK_TRY(lk_dist_recv(s->tape, s->comm, 0, 1, LK_F64, LK_SHAPE(4, 6), "x", &y));
        LK_TRY(lk_dist_recv(s->tape, s->comm, 0, 1, LK_ANY_DTYPE, LK_ANY_SHAPE, "x", &y));
    }
    return LK_TRACE(lk_backward(s->tape, NULL, 0, 0));
}

static lk_status message_list(void *side)
{
    struct side *s = side;
    lk_var at[2] = {s->x, s->x};
    lk_list list = {at, 0, 2};
    if (s->rank == 0)
        LK_TRY(lk_dist_send_list(s->comm, at, 2, 1, 1, "x", NULL));
    if (s->rank == 1)
        LK_TRY(lk_dist_recv_list(s->tape, s->comm, 0, 1, "x", &list));
    return LK_TRACE(lk_backward(s->tape, NULL, 0, 0));
}

static lk_status ring(void *side)
{
    struct side *s = side;
    lk_var sent, got, y;
    int which;
    LK_TRY(lk_dist_isend(s->comm, s->x, s->right, 1, "x", &sent));
    LK_TRY(lk_dist_irecv(s->tape, s->comm, s->left, 1, LK_ANY_DTYPE, LK_ANY_SHAPE, "x", &got));
    LK_TRY(lk_dist_waitany(&got, 1, &which, &y));
    LK_TRY(lk_dist_wait(sent, NULL));
    LK_TRY(lk_dist_sendrecv(s->tape, s->comm, &(lk_dist_send_arg){y, s->right, 1},
                            &(lk_dist_recv_arg){s->left, 1, LK_F64, LK_SHAPE(4, 6)}, "y", &y));
    return LK_TRACE(lk_backward(s->tape, NULL, 0, 0));
}

static lk_status batch_norm(void *side)
{
    struct side *s = side;
    lk_var scale, y[3];
    const lk_dist_batch batch = {.comm = s->comm, .samples = 4 * s->size};
    int64_t at = lk__alloc_fail_here(0);
    LK_TRY(lk_full(s->tape, LK_F64, LK_SHAPE(6), 1, &scale));
    (void)lk__alloc_fail_here(at);
    LK_TRY(lk_dist_batch_norm(&batch, s->x, scale, scale, NULL, "x", y));
    return LK_TRACE(lk_backward(s->tape, NULL, 0, 0));
}

static lk_status multi_node_batch_norm(void *side)
{
    struct side *s = side;
    lk_var y;
    LK_TRY(lk_multi_node_batch_norm_forward(s->norm, s->x, NULL, true, &y));
    return LK_TRACE(lk_backward(s->tape, NULL, 0, 0));
}

static lk_status sums(lk_tape *tape, void *arg, lk_var *out)
{
    struct side *s = arg;
    (void)tape;
    return LK_TRACE(lk_dist_allreduce(s->comm, s->x, LK_REDUCE_SUM, "x", out));
}

static lk_status segment(void *side)
{
    struct side *s = side;
    lk_var y;
    LK_TRY(lk_recompute(s->tape, sums, s, 1, &y));
    return LK_TRACE(lk_backward(s->tape, NULL, 0, 0));
}

static const struct memory_sides sides = {sizeof(struct side), side_begin, side_end};

TEST(the_others_are_told_at_once)
{
    static const struct memory_work all[] = {{"allreduce", allreduce},
                                             {"allreduce_prod", allreduce_prod},
                                             {"allreduce_max", allreduce_max},
                                             {"allreduce_list", allreduce_list},
                                             {"reduce", reduce},
                                             {"locations", locations},
                                             {"bcast", bcast},
                                             {"bcast_list", bcast_list},
                                             {"allgather", allgather},
                                             {"allgather_list", allgather_list},
                                             {"gather", gather},
                                             {"gather_list", gather_list},
                                             {"scatter", scatter},
                                             {"scatter_list", scatter_list},
                                             {"reduce_scatter", reduce_scatter},
                                             {"alltoall", alltoall},
                                             {"alltoall_list", alltoall_list},
                                             {"neighbour", neighbour},
                                             {"halo", halo},
                                             {"halo_add", halo_add},
                                             {"barrier", barrier},
                                             {"message", message},
                                             {"message_list", message_list},
                                             {"ring", ring},
                                             {"batch_norm", batch_norm},
                                             {"multi_node_batch_norm", multi_node_batch_norm},
                                             {"segment", segment}};
    memory_runs_out_on_few(all, (int)(sizeof all / sizeof *all), &sides);
}
