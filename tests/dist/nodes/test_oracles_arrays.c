/* What ChainerMN's tests expect of messages and collectives on arrays, here on the tape.
 *
 * A tuple of arrays is as many messages.
 */
#include "oracles.h"

/* rank * ones to the next rank, as a tuple of `n` messages; the gradient of reals is then n. */
static void check_chain(lk_comm *comm, lk_dtype dtype, lk_shape shape, int n)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    lk_tape *tape;
    lk_tensor *value;
    lk_var x, y;
    lk_seed loss[3];
    int losses = 0;
    bool real = lk_dtype_is_real(dtype);
    struct leaf leaf = {0};
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_tensor_new(dtype, shape, &value));
    ASSERT_OK(lk_tensor_fill_i64(value, rank));
    if (real)
        leaf = leaf_of(tape, value);
    else
        ASSERT_OK(lk_constant(tape, value, &leaf.var));
    x = leaf.var;
    for (int m = 0; m < n && rank > 0; m++) {
        ASSERT_OK(lk_dist_recv(tape, comm, rank - 1, 0, dtype, shape, "chain", &y));
        expect_value(y, rank - 1, "chain");
        if (real) {
            ASSERT_OK(lk_sum(y, NULL, &y));
            loss[losses++] = (lk_seed){.of = y};
        }
    }
    for (int m = 0; m < n && rank + 1 < size; m++)
        ASSERT_OK(lk_dist_send(comm, x, rank + 1, 0, "chain", NULL));
    ASSERT_OK(lk_backward(tape, loss, losses, 0));
    if (real)
        expect_all(leaf.grad, rank + 1 < size ? n : 0, "the gradient of what was sent");
    lk_tensor_free(value);
    lk_tensor_free(leaf.grad);
    lk_tape_free(tape);
}

RANKS_TEST(arrays_of_all_shapes_and_dtypes_pass_along_the_ranks)
{
    const lk_dtype dtypes[] = {LK_I32, LK_I64, LK_F32, LK_F64};
    const lk_shape shapes[] = {LK_SHAPE(50), LK_SHAPE(50, 20), LK_SHAPE(50, 20, 5),
                               LK_SHAPE(50, 20, 5, 3), LK_SCALAR};
    for (int d = 0; d < LK_COUNT(dtypes); d++)
        for (int s = 0; s < LK_COUNT(shapes); s++) {
            check_chain(comm, dtypes[d], shapes[s], 1);
            check_chain(comm, dtypes[d], shapes[s], 3);
        }
}

/* Every second column of [4,6], whose elements are 0 to 23, and its transpose. */
RANKS_TEST(arrays_that_are_not_contiguous_pass_along_the_ranks)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    lk_tape *tape;
    lk_tensor *value;
    const lk_tensor *got;
    lk_var x, y, loss = LK_NO_VAR;
    double element;
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_tensor_new(LK_F64, LK_SHAPE(4, 6), &value));
    for (int64_t i = 0; i < 24; i++)
        ASSERT_OK(lk_tensor_set_f64(value, LK_AT(i / 6, i % 6), (double)i));
    struct leaf leaf = leaf_of(tape, value);
    ASSERT_OK(lk_slice(leaf.var, 1, 1, 6, 2, &x));
    ASSERT_OK(lk_transpose(x, 0, 1, &x));
    if (rank > 0) {
        ASSERT_OK(lk_dist_recv(tape, comm, rank - 1, 0, LK_F64, LK_SHAPE(3, 4), "columns", &y));
        ASSERT_OK(lk_value(y, &got));
        for (int64_t i = 0; i < 12; i++) {
            ASSERT_OK(lk_tensor_get_f64(got, LK_AT(i / 4, i % 4), &element));
            ASSERT_EQ(element, 6 * (i % 4) + 2 * (i / 4) + 1);
        }
        ASSERT_OK(lk_sum(y, NULL, &loss));
    }
    if (rank + 1 < size)
        ASSERT_OK(lk_dist_send(comm, x, rank + 1, 0, "columns", NULL));
    backward(tape, loss);
    for (int64_t i = 0; i < 24; i++) {
        ASSERT_OK(lk_tensor_get_f64(leaf.grad, LK_AT(i / 6, i % 6), &element));
        ASSERT_EQ(element, rank + 1 < size && i % 2 == 1);
    }
    leaf_free(&leaf);
    lk_tape_free(tape);
}

/* 0, 1, 2, ... plus `shift`. */
static lk_tensor *range_new(lk_shape shape, double shift)
{
    lk_tensor *t;
    void *data;
    ASSERT_OK(lk_tensor_new(LK_F64, shape, &t));
    ASSERT_OK(lk_tensor_writable_data(t, &data));
    for (int64_t i = 0; i < lk_tensor_count(t); i++)
        ((double *)data)[i] = (double)i + shift;
    return t;
}

RANKS_TEST(allreduce_adds_ranges)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    const int64_t counts[] = {1, 18, 32};
    for (int k = 0; k < LK_COUNT(counts); k++) {
        lk_tape *tape;
        lk_var y;
        ASSERT_OK(lk_tape_new(&tape));
        struct leaf x = leaf_of(tape, range_new(LK_SHAPE(counts[k]), rank));
        ASSERT_OK(lk_dist_allreduce(comm, x.var, LK_REDUCE_SUM, "ranges", &y));
        lk_tensor *want = range_new(LK_SHAPE(counts[k]), 0);
        for (int64_t i = 0; i < counts[k]; i++)
            ASSERT_OK(
                lk_tensor_set_f64(want, LK_AT(i), (double)(i * size + size * (size - 1) / 2)));
        expect_same(y, want, "ranges");
        lk_tensor_free(want);
        leaf_free(&x);
        lk_tape_free(tape);
    }
}

/* The rank's number from each; and of [size,4] with elements 0, 1, 2, ... a row to or from each. */
RANKS_TEST(collectives_move_numbers_and_rows)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    lk_tape *tape;
    lk_var one, all, row, y;
    ASSERT_OK(lk_tape_new(&tape));
    lk_tensor *ranks = range_new(LK_SHAPE(size), 0), *rows = range_new(LK_SHAPE(size, 4), 0);
    lk_tensor *own, *copies;
    ASSERT_OK(lk_full(tape, LK_F64, LK_SHAPE(1), rank, &one));
    ASSERT_OK(lk_dist_gather(comm, one, 0, 0, "numbers", &y));
    if (rank == 0)
        expect_same(y, ranks, "gather");
    ASSERT_OK(lk_constant(tape, rows, &all));
    ASSERT_OK(lk_tensor_slice(rows, 0, rank, rank + 1, 1, &own));
    ASSERT_OK(lk_dist_scatter(comm, all, 0, 1, 0, "rows", &row));
    expect_same(row, own, "scatter");
    ASSERT_OK(lk_dist_allgather(comm, row, 0, "rows", &y));
    expect_same(y, rows, "allgather");
    /* Each sends row i to rank i, so rank i gets its row from everybody. */
    ASSERT_OK(lk_dist_alltoall(comm, all, 1, 0, 1, "rows", &y));
    ASSERT_OK(lk_reshape(y, LK_SHAPE(size, 4), &y));
    ASSERT_OK(lk_tensor_broadcast(own, LK_SHAPE(size, 4), &copies));
    expect_same(y, copies, "alltoall");
    lk_tensor_free(ranks);
    lk_tensor_free(rows);
    lk_tensor_free(own);
    lk_tensor_free(copies);
    lk_tape_free(tape);
}

/* Gradients rank, rank + 1 and rank + 2 of three parameters; of the last, odd ranks may have none. */
RANKS_TEST(the_mean_of_gradients_is_that_of_all_ranks)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    const lk_shape shapes[] = {LK_SHAPE(3, 2), LK_SHAPE(4, 3), LK_SHAPE(5)};
    double base = (size - 1) / 2.0, half = 0;
    lk_tape *tape;
    lk_var x, y;
    ASSERT_OK(lk_tape_new(&tape));
    for (int i = 0; i < 3; i++) {
        ASSERT_OK(lk_full(tape, LK_F64, shapes[i], rank + i, &x));
        ASSERT_OK(lk_dist_allreduce(comm, x, LK_REDUCE_AVG, "mean", &y));
        expect_value(y, base + i, "mean");
    }
    for (int i = 0; i < size; i += 2)
        half += i + 2;
    ASSERT_OK(lk_full(tape, LK_F64, shapes[2], rank % 2 ? 0 : rank + 2, &x));
    ASSERT_OK(lk_dist_allreduce(comm, x, LK_REDUCE_AVG, "mean of half", &y));
    expect_value(y, half / size, "mean of half");
    lk_tape_free(tape);
}
