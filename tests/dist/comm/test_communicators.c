/* Communicators: split, dup, grids, and that their messages never meet. */
#include "ranks.h"

/* MPI was not initialised for a second thread; ranks that are threads need nothing. */
RANKS_TEST(progress_is_given_or_refused_with_the_reason)
{
    lk_comm *own = NULL;
    if (strcmp(lk_comm_transport(comm), "mpi") == 0) {
        ASSERT_FAILS(lk_comm_set_progress(comm, true), LK_ENOTSUP, "set LK_PROGRESS=1 before");
    } else {
        ASSERT_OK(lk_comm_set_progress(comm, true));
    }
    ASSERT_OK(lk_comm_dup(comm, &own));
    lk_comm_close(own);
    ASSERT_OK(lk_comm_set_progress(comm, false));
}

RANKS_TEST(split_orders_by_key_then_rank)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    lk_comm *part;
    ASSERT_OK(lk_comm_split(comm, rank % 2, -rank, &part));
    int n = (size + 1 - rank % 2) / 2;
    ASSERT_EQ(lk_comm_size(part), n);
    ASSERT_EQ(lk_comm_rank(part), n - 1 - rank / 2);
    /* The world ranks, round the ring of the part. */
    int at = lk_comm_rank(part), got = -1;
    lk_sendrecv_side send = {&rank, 1, (at + 1) % n, 0}, recv = {&got, 1, (at + n - 1) % n, 0};
    ASSERT_OK(lk_sendrecv(part, LK_I32, &send, &recv, "part", NULL));
    ASSERT_EQ(got, rank + 2 < size ? rank + 2 : rank % 2);
    lk_comm_close(part);
}

RANKS_TEST(a_negative_color_gets_nothing)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    lk_comm *part = comm;
    ASSERT_OK(lk_comm_split(comm, rank == 0 ? -3 : 1, 0, &part));
    ASSERT_EQ(part == NULL, rank == 0);
    if (part)
        ASSERT_EQ(lk_comm_size(part), size - 1);
    lk_comm_close(part);
}

/* The same tag, sent on the one first and received on the other first. */
RANKS_TEST(messages_of_two_communicators_never_meet)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    int to = (rank + 1) % size, from = (rank + size - 1) % size;
    lk_comm *twin, *third;
    ASSERT_OK(lk_comm_dup(comm, &twin));
    ASSERT_OK(lk_comm_dup(twin, &third));
    int value[3] = {rank, 100 + rank, 200 + rank}, got[3] = {-1, -1, -1};
    lk_comm *on[3] = {comm, twin, third};
    lk_request *r[3];
    for (int i = 0; i < 3; i++)
        ASSERT_OK(lk_isend(on[i], &value[i], 1, LK_I32, to, 5, "x", &r[i]));
    for (int i = 2; i >= 0; i--)
        ASSERT_OK(lk_recv(on[i], &got[i], 1, LK_I32, LK_ANY_RANK, LK_ANY_TAG, "x", NULL));
    ASSERT_OK(lk_waitall(3, r));
    for (int i = 0; i < 3; i++)
        ASSERT_EQ(got[i], 100 * i + from);
    lk_comm_close(third);
    lk_comm_close(twin);
}

/* Groups of one split share their context, and their ranks later meet in others. */
RANKS_TEST(splits_of_splits_work)
{
    int rank = lk_comm_rank(comm);
    lk_comm *half, *quarter, *across;
    ASSERT_OK(lk_comm_split(comm, rank / 4, 0, &half));
    ASSERT_OK(lk_comm_split(half, rank % 4 / 2, 0, &quarter));
    ASSERT_OK(lk_comm_split(comm, rank % 4, 0, &across));
    int got = -1, size = lk_comm_size(across), at = lk_comm_rank(across);
    lk_sendrecv_side send = {&rank, 1, (at + 1) % size, 0},
                     recv = {&got, 1, (at + size - 1) % size, 0};
    ASSERT_OK(lk_sendrecv(across, LK_I32, &send, &recv, "across", NULL));
    ASSERT_EQ(got % 4, rank % 4);
    size = lk_comm_size(quarter), at = lk_comm_rank(quarter);
    send = (lk_sendrecv_side){&rank, 1, (at + 1) % size, 0},
    recv = (lk_sendrecv_side){&got, 1, (at + 1) % size, 0};
    ASSERT_OK(lk_sendrecv(quarter, LK_I32, &send, &recv, "quarter", NULL));
    ASSERT_EQ(got / 2, rank / 2);
    lk_comm_close(across);
    lk_comm_close(half);
    lk_comm_close(quarter);
}

RANKS_TEST(a_grid_knows_its_neighbours)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    int rows = size % 2 == 0 ? 2 : 1, dim[] = {rows, size / rows};
    bool periodic[] = {false, true};
    lk_grid g;
    ASSERT_OK(lk_grid_make(comm, 2, dim, periodic, &g));
    ASSERT_EQ(g.at[0] * dim[1] + g.at[1], rank);
    ASSERT_EQ(lk_grid_rank(&g, (int[]){0, 0}), rank);
    ASSERT_EQ(lk_grid_rank(&g, (int[]){1, 0}), g.at[0] + 1 < rows ? rank + dim[1] : -1);
    ASSERT_EQ(lk_grid_rank(&g, (int[]){0, -1}), g.at[0] * dim[1] + (g.at[1] + dim[1] - 1) % dim[1]);
    lk_comm *row;
    ASSERT_OK(lk_grid_split(comm, &g, (bool[]){false, true}, &row));
    ASSERT_EQ(lk_comm_size(row), dim[1]);
    ASSERT_EQ(lk_comm_rank(row), g.at[1]);
    lk_comm_close(row);
    ASSERT_FAILS(lk_grid_make(comm, 2, (int[]){size, 2}, NULL, &g), LK_ESHAPE, "places");
    ASSERT_FAILS(lk_grid_make(comm, 1, (int[]){0}, NULL, &g), LK_EINVAL, "axis 0");
    ASSERT_FAILS(lk_grid_make(comm, 3, (int[]){1 << 30, 1 << 30, 1 << 30}, NULL, &g), LK_ESHAPE,
                 "has more than 2147483647 places");
    ASSERT_FAILS(lk_grid_split(NULL, &g, (bool[]){true, true}, &row), LK_EINVAL, "comm is NULL");
    ASSERT_FAILS(lk_grid_make(comm, 9, dim, NULL, &g), LK_EINVAL, "9 axes");
}

RANKS_TEST(one_node_holds_all)
{
    ASSERT_EQ(lk_comm_node_rank(comm), lk_comm_rank(comm));
    ASSERT_EQ(lk_comm_node_size(comm), lk_comm_size(comm));
    ASSERT_EQ(lk_comm_node(comm), 0);
    ASSERT_EQ(lk_comm_nodes(comm), 1);
}
