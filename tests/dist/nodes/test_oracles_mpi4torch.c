/* What mpi4torch's tests expect of its operations, here without its dummies.
 *
 * Values are f64, most random, the first root 0.  Losses are sums of elements, so most gradients are
 * numbers of ranks.
 */
#include "oracles.h"

RANKS_TEST(the_gradient_of_allreduce_is_the_number_of_ranks)
{
    lk_tape *tape;
    lk_var y;
    ASSERT_OK(lk_tape_new(&tape));
    struct leaf x = leaf_random(tape, LK_SHAPE(10), "x", lk_comm_rank(comm));
    ASSERT_OK(lk_dist_allreduce(comm, x.var, LK_REDUCE_SUM, "allreduce", &y));
    expect_gradient(&x, y, lk_comm_size(comm), "allreduce");
}

RANKS_TEST(the_gradient_of_reduce_is_one)
{
    lk_tape *tape;
    lk_var y;
    ASSERT_OK(lk_tape_new(&tape));
    struct leaf x = leaf_random(tape, LK_SHAPE(10), "x", lk_comm_rank(comm));
    ASSERT_OK(lk_dist_reduce(comm, x.var, LK_REDUCE_SUM, 0, "reduce", &y));
    if (lk_comm_rank(comm) != 0)
        expect_value(y, 0, "reduce elsewhere");
    expect_gradient(&x, y, 1, "reduce");
}

/* There it is an error to use x again; here reduce leaves it alone, and x + reduce(x) has a gradient
 * of 1 from each term. */
RANKS_TEST(a_value_can_be_used_again_after_reduce)
{
    lk_tape *tape;
    lk_var x0, y;
    ASSERT_OK(lk_tape_new(&tape));
    struct leaf x = leaf_random(tape, LK_SHAPE(10), "x", lk_comm_rank(comm));
    ASSERT_OK(lk_affine(x.var, 1, 0, &x0));
    ASSERT_OK(lk_dist_reduce(comm, x0, LK_REDUCE_SUM, 0, "reduce", &y));
    ASSERT_OK(lk_add(x0, y, &y));
    expect_gradient(&x, y, 2, "x + reduce(x)");
}

RANKS_TEST(the_gradient_of_bcast_is_all_on_its_root)
{
    lk_tape *tape;
    lk_var y;
    int rank = lk_comm_rank(comm);
    ASSERT_OK(lk_tape_new(&tape));
    struct leaf x = leaf_random(tape, LK_SHAPE(10), "x", rank);
    ASSERT_OK(lk_dist_bcast(comm, x.var, 0, "bcast", &y));
    lk_tensor *of_root = random_new(LK_SHAPE(10), "x", 0);
    expect_same(y, of_root, "bcast");
    lk_tensor_free(of_root);
    expect_gradient(&x, y, rank == 0 ? lk_comm_size(comm) : 0, "bcast");
}

/* [2,5,4,2,3], random but for [0,0,:,0,0], which is the rank. */
static lk_tensor *marked_new(int rank)
{
    lk_tensor *t = random_new(LK_SHAPE(2, 5, 4, 2, 3), "marked", rank);
    for (int64_t i = 0; i < 4; i++)
        ASSERT_OK(lk_tensor_set_f64(t, LK_AT(0, 0, i, 0, 0), rank));
    return t;
}

/* The sum of y[0,0,:,0,0]. */
static double marked_sum(lk_var y)
{
    const lk_tensor *t;
    double sum = 0, one;
    ASSERT_OK(lk_value(y, &t));
    for (int64_t i = 0; i < lk_tensor_shape(t).dim[2]; i++) {
        ASSERT_OK(lk_tensor_get_f64(t, LK_AT(0, 0, i, 0, 0), &one));
        sum += one;
    }
    return sum;
}

RANKS_TEST(gather_along_axis_2_has_gradient_one)
{
    lk_tape *tape;
    lk_var y;
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    ASSERT_OK(lk_tape_new(&tape));
    struct leaf x = leaf_of(tape, marked_new(rank));
    ASSERT_OK(lk_dist_gather(comm, x.var, 2, 0, "gather", &y));
    ASSERT_EQ(lk_shape_of(y).dim[2], rank == 0 ? 4 * size : 0);
    if (rank == 0)
        ASSERT_EQ(marked_sum(y), 4 * size * (size - 1) / 2);
    expect_gradient(&x, y, 1, "gather");
}

RANKS_TEST(the_gradient_of_allgather_is_the_number_of_ranks)
{
    lk_tape *tape;
    lk_var y;
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    ASSERT_OK(lk_tape_new(&tape));
    struct leaf x = leaf_of(tape, marked_new(rank));
    ASSERT_OK(lk_dist_allgather(comm, x.var, 2, "allgather", &y));
    ASSERT_EQ(marked_sum(y), 4 * size * (size - 1) / 2);
    expect_gradient(&x, y, size, "allgather");
}

/* There, losses that differ between ranks get a wrong gradient from three ranks on.  With the loss
 * (rank + 1) * sum it is the sum of all factors. */
RANKS_TEST(allgather_is_right_when_losses_differ)
{
    lk_tape *tape;
    lk_var y;
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    ASSERT_OK(lk_tape_new(&tape));
    struct leaf x = leaf_of(tape, marked_new(rank));
    ASSERT_OK(lk_dist_allgather(comm, x.var, 2, "allgather", &y));
    ASSERT_OK(lk_affine(y, rank + 1, 0, &y));
    expect_gradient(&x, y, size * (size + 1) / 2, "allgather");
}

/* On the root [2,5,size,2,3], with the index along axis 2 at [0,0,:,0,0]; elsewhere one number, of
 * which only the dtype matters. */
RANKS_TEST(scatter_gives_each_its_part_and_gather_takes_it_back)
{
    lk_tape *tape;
    lk_var y, back;
    const lk_tensor *part;
    double mark;
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    lk_shape shape = rank == 0 ? LK_SHAPE(2, 5, size, 2, 3) : LK_SHAPE(1);
    ASSERT_OK(lk_tape_new(&tape));
    lk_tensor *value = random_new(shape, "whole", rank);
    for (int64_t i = 0; rank == 0 && i < size; i++)
        ASSERT_OK(lk_tensor_set_f64(value, LK_AT(0, 0, i, 0, 0), (double)i));
    struct leaf x = leaf_of(tape, value);
    ASSERT_OK(lk_dist_scatter(comm, x.var, 2, 1, 0, "scatter", &y));
    ASSERT_OK(lk_value(y, &part));
    ASSERT_OK(lk_tensor_get_f64(part, LK_AT(0, 0, 0, 0, 0), &mark));
    ASSERT_EQ(mark, rank);
    ASSERT_OK(lk_dist_gather(comm, y, 2, 0, "gather", &back));
    if (rank == 0)
        expect_same(back, value, "gather of scatter");
    expect_gradient(&x, y, rank == 0 ? 1 : 0, "scatter");
}

/* alltoall from axis 4 to axis 2 of [3,4,mine,4,all,2] is gather along 2, then scatter along 4, on
 * whatever rank. */
static void check_equivalence(lk_comm *comm, int64_t mine, int64_t all, int64_t count)
{
    lk_tape *tape;
    lk_var at_once, gathered, in_two;
    const lk_tensor *t;
    ASSERT_OK(lk_tape_new(&tape));
    struct leaf x = leaf_random(tape, LK_SHAPE(3, 4, mine, 4, all, 2), "x", lk_comm_rank(comm));
    ASSERT_OK(lk_dist_alltoall(comm, x.var, 2, 4, count, "alltoall", &at_once));
    ASSERT_OK(lk_dist_gather(comm, x.var, 2, 0, "gather", &gathered));
    ASSERT_OK(lk_dist_scatter(comm, gathered, 4, count, 0, "scatter", &in_two));
    ASSERT_OK(lk_value(in_two, &t));
    expect_same(at_once, t, "alltoall");
    ASSERT_EQ(lk_shape_of(at_once).dim[4], count);
    expect_gradient(&x, at_once, 1, "alltoall");
}

RANKS_TEST(alltoall_is_scatter_of_gather)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    check_equivalence(comm, 1, size, 1);
    check_equivalence(comm, 2, size, 1);
    check_equivalence(comm, rank + 1, size * (size + 1) / 2, rank + 1);
}

RANKS_TEST(alltoall_and_back_is_the_identity)
{
    lk_tape *tape;
    lk_var y;
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    ASSERT_OK(lk_tape_new(&tape));
    struct leaf x = leaf_random(tape, LK_SHAPE(3, 4, 2, 4, 3 * size, 2), "x", rank);
    ASSERT_OK(lk_dist_alltoall(comm, x.var, 2, 4, 3, "there", &y));
    ASSERT_OK(lk_dist_alltoall(comm, y, 4, 2, 2, "back", &y));
    expect_same(y, x.value, "there and back");
    expect_gradient(&x, y, 1, "there and back");
}

/* Rank r holds r + 1 of 0, 1, 2, ... and asks for size - r: of 3 ranks [0,1,2], [3,4], [5]. */
RANKS_TEST(alltoall_along_one_axis_cuts_anew)
{
    lk_tape *tape;
    lk_tensor *value;
    lk_var y;
    const lk_tensor *got;
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    int64_t first = rank * (rank + 1) / 2, want = 0;
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_tensor_new(LK_F64, LK_SHAPE(rank + 1), &value));
    for (int64_t i = 0; i <= rank; i++)
        ASSERT_OK(lk_tensor_set_f64(value, LK_AT(i), (double)(first + i)));
    struct leaf x = leaf_of(tape, value);
    ASSERT_OK(lk_dist_alltoall(comm, x.var, 0, 0, size - rank, "cut", &y));
    for (int r = 0; r < rank; r++)
        want += size - r;
    ASSERT_OK(lk_value(y, &got));
    ASSERT_EQ(lk_tensor_count(got), size - rank);
    for (int64_t i = 0; i < size - rank; i++) {
        double element;
        ASSERT_OK(lk_tensor_get_f64(got, LK_AT(i), &element));
        ASSERT_EQ(element, want + i);
    }
    expect_gradient(&x, y, 1, "cut");
}

RANKS_TEST(joined_dummies_have_gradient_zero)
{
    lk_tape *tape;
    lk_var y;
    int rank = lk_comm_rank(comm);
    ASSERT_OK(lk_tape_new(&tape));
    struct leaf x = leaf_random(tape, LK_SHAPE(10), "x", rank);
    struct leaf a = leaf_random(tape, LK_SHAPE(10), "a", rank);
    struct leaf b = leaf_random(tape, LK_SHAPE(10), "b", rank);
    ASSERT_OK(lk_dist_allreduce(comm, x.var, LK_REDUCE_SUM, "allreduce", &y));
    ASSERT_OK(lk_join(y, (lk_var[]){a.var, b.var}, 2, &y));
    backward_of_sum(y);
    expect_all(x.grad, lk_comm_size(comm), "x");
    expect_all(a.grad, 0, "a");
    expect_all(b.grad, 0, "b");
    leaf_free(&x);
    leaf_free(&a);
    leaf_free(&b);
    lk_tape_free(tape);
}

/* There the order of these calls must be spelled out with dummies, or the gradient is 1. */
RANKS_TEST(isend_recv_wait_has_gradient_two)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm), left = (rank + size - 1) % size;
    lk_tape *tape;
    lk_tensor *value;
    lk_var handle, b, res;
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_tensor_new(LK_F64, LK_SHAPE(1), &value));
    ASSERT_OK(lk_tensor_fill_f64(value, 1 + rank));
    struct leaf a = leaf_of(tape, value);
    ASSERT_OK(lk_dist_isend(comm, a.var, (rank + 1) % size, 0, "a", &handle));
    ASSERT_OK(lk_dist_recv(tape, comm, left, 0, LK_F64, LK_SHAPE(1), "a", &b));
    ASSERT_OK(lk_dist_wait(handle, NULL));
    ASSERT_OK(lk_add(a.var, b, &res));
    expect_value(res, 2 + rank + left, "a + b");
    backward(tape, res);
    expect_all(a.grad, 2, "isend, recv, wait");
    leaf_free(&a);
    lk_tape_free(tape);
}

/* The same with all the dummies that it needs there: they change nothing. */
RANKS_TEST(dummies_change_nothing)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm), left = (rank + size - 1) % size;
    lk_tape *tape;
    lk_tensor *value;
    lk_var handle, a_after, b, waited, res;
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_tensor_new(LK_F64, LK_SHAPE(1), &value));
    ASSERT_OK(lk_tensor_fill_f64(value, 1 + rank));
    struct leaf a = leaf_of(tape, value);
    ASSERT_OK(lk_dist_isend(comm, a.var, (rank + 1) % size, 0, "a", &handle));
    ASSERT_OK(lk_join(a.var, &handle, 1, &a_after));
    ASSERT_OK(lk_dist_recv(tape, comm, left, 0, LK_F64, LK_SHAPE(1), "a", &b));
    ASSERT_OK(lk_join_handle(handle, &b, 1, &handle));
    ASSERT_OK(lk_dist_wait(handle, &waited));
    ASSERT_OK(lk_add(a_after, b, &res));
    ASSERT_OK(lk_join(res, &waited, 1, &res));
    expect_value(res, 2 + rank + left, "a + b");
    backward(tape, res);
    expect_all(a.grad, 2, "with dummies");
    leaf_free(&a);
    lk_tape_free(tape);
}

/* There the adjoint of a message with tag 0 has tag 10.  Here a receive of the program that waits during
 * backward, for any tag from any rank, gets what the program sends behind it. */
RANKS_TEST(backward_uses_no_tags_of_the_program)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    int left = (rank + size - 1) % size, right = (rank + 1) % size;
    double sent = 100 + rank, received = 0;
    lk_request *request = NULL;
    lk_tape *tape;
    lk_var handle, b;
    ASSERT_OK(lk_tape_new(&tape));
    struct leaf a = leaf_random(tape, LK_SHAPE(1), "a", rank);
    ASSERT_OK(lk_dist_isend(comm, a.var, right, 0, "a", &handle));
    ASSERT_OK(lk_dist_recv(tape, comm, left, 0, LK_F64, LK_SHAPE(1), "a", &b));
    ASSERT_OK(lk_dist_wait(handle, NULL));
    ASSERT_OK(lk_irecv(comm, &received, 1, LK_F64, LK_ANY_RANK, LK_ANY_TAG, "plain", &request));
    backward(tape, b);
    expect_all(a.grad, 1, "ring");
    ASSERT_OK(lk_send(comm, &sent, 1, LK_F64, left, 10, "plain"));
    ASSERT_OK(lk_wait(&request, NULL));
    ASSERT_TRUE(received == 100 + right);
    leaf_free(&a);
    lk_tape_free(tape);
}

/* Longer than any buffer; tests/long has it with ten million numbers. */
RANKS_TEST(a_long_ring_has_the_right_rank_as_gradient)
{
    check_ring(comm, 100000);
}
