/* What ChainerMN's tests expect of its differentiable functions, here without delegate variables.
 *
 * Its lists of arrays, whose shapes may differ in every axis, travel here as one flat value that each
 * rank cuts up again.  Errors between what arrived and what is known are exactly 0.
 */
#include "oracles.h"

/* ---- the pipeline: each rank has a layer ---- */

enum { WIDTH = 10 };

/* The layer of rank l: sigmoid(x W'), W = (0, 1, 2, ...) / (100 (l + 1)). */
static struct leaf weights_new(lk_tape *tape, lk_dtype dtype, int l)
{
    lk_tensor *w;
    ASSERT_OK(lk_tensor_new(dtype, LK_SHAPE(WIDTH, WIDTH), &w));
    for (int64_t i = 0; i < WIDTH * WIDTH; i++)
        ASSERT_OK(lk_tensor_set_f64(w, LK_AT(i / WIDTH, i % WIDTH), (double)i / ((l + 1) * 100)));
    return leaf_of(tape, w);
}

static lk_var layer(lk_var x, const struct leaf *w)
{
    lk_var y;
    ASSERT_OK(lk_matmul_trans(x, w->var, false, true, &y));
    ASSERT_OK(lk_sigmoid(y, &y));
    return y;
}

/* [0, 0.1, ..., 0.9], the input and the target. */
static lk_tensor *input_new(lk_dtype dtype)
{
    lk_tensor *x;
    ASSERT_OK(lk_tensor_new(dtype, LK_SHAPE(1, WIDTH), &x));
    for (int64_t i = 0; i < WIDTH; i++)
        ASSERT_OK(lk_tensor_set_f64(x, LK_AT(0, i), (double)i / 10));
    return x;
}

static lk_var error_between(lk_var y, lk_tensor *target)
{
    lk_var t, loss;
    ASSERT_OK(lk_constant(y.tape, target, &t));
    ASSERT_OK(lk_mean_squared_error(y, t, LK_LOSS_DEFAULT, &loss));
    return loss;
}

static lk_var from(lk_tape *tape, lk_comm *comm, int rank, lk_dtype dtype)
{
    lk_var x;
    ASSERT_OK(lk_dist_recv(tape, comm, rank, 0, dtype, LK_SHAPE(1, WIDTH), "pipeline", &x));
    return x;
}

static void to(lk_comm *comm, lk_var x, int rank)
{
    ASSERT_OK(lk_dist_send(comm, x, rank, 0, "pipeline", NULL));
}

/* The whole pipeline on this rank alone: its output, and the gradients of x and the first layer. */
static void alone(lk_dtype dtype, int layers, lk_tensor **output, lk_tensor **gx, lk_tensor **gw)
{
    struct leaf w[8];
    lk_tape *tape;
    const lk_tensor *y;
    ASSERT_TRUE(layers <= LK_COUNT(w));
    ASSERT_OK(lk_tape_new(&tape));
    lk_tensor *target = input_new(dtype);
    struct leaf x = leaf_of(tape, input_new(dtype));
    lk_var h = x.var;
    for (int l = 0; l < layers; l++) {
        w[l] = weights_new(tape, dtype, l);
        h = layer(h, &w[l]);
    }
    ASSERT_OK(lk_value(h, &y));
    ASSERT_OK(lk_tensor_clone(y, dtype, output));
    backward(tape, error_between(h, target));
    *gx = lk_tensor_retain(x.grad);
    *gw = lk_tensor_retain(w[0].grad);
    for (int l = 0; l < layers; l++)
        leaf_free(&w[l]);
    leaf_free(&x);
    lk_tensor_free(target);
    lk_tape_free(tape);
}

/* The loss is on the last rank; in a ring it is on rank 0, which gets the output back. */
static void check_pipeline(lk_comm *comm, lk_dtype dtype, bool ring)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    bool first = rank == 0, last = rank == size - 1, back = ring && size > 1;
    lk_tape *tape;
    lk_tensor *output, *gx, *gw, *target = input_new(dtype);
    lk_var loss = LK_NO_VAR;
    alone(dtype, size, &output, &gx, &gw);
    ASSERT_OK(lk_tape_new(&tape));
    struct leaf x = leaf_of(tape, input_new(dtype)), w = weights_new(tape, dtype, rank);
    lk_var y = layer(first ? x.var : from(tape, comm, rank - 1, dtype), &w);
    if (!last || back)
        to(comm, y, (rank + 1) % size);
    if (last)
        expect_same(y, output, "the output of the pipeline");
    if (back && first)
        y = from(tape, comm, size - 1, dtype);
    if (back ? first : last)
        loss = error_between(y, target);
    backward(tape, loss);
    if (first && !lk_tensor_equal(w.grad, gw))
        TEST_FAIL("%d ranks: the gradient of the first layer has other bits than alone", size);
    if (first && !lk_tensor_equal(x.grad, gx))
        TEST_FAIL("%d ranks: the gradient of the input has other bits than alone", size);
    leaf_free(&x);
    leaf_free(&w);
    lk_tensor_free(output);
    lk_tensor_free(gx);
    lk_tensor_free(gw);
    lk_tensor_free(target);
    lk_tape_free(tape);
}

static void a_pipeline_has_the_bits_of_one_process(lk_comm *comm)
{
    check_pipeline(comm, LK_F32, false);
    check_pipeline(comm, LK_F64, false);
}

static void backward_goes_round_a_ring_without_a_delegate(lk_comm *comm)
{
    check_pipeline(comm, LK_F32, true);
    check_pipeline(comm, LK_F64, true);
}

/* Rank 0 makes the same value n times; all n go from rank to rank, and the last adds them.  The
 * gradient is that of n layer(x) in one process. */
static void check_tuple(lk_comm *comm, int n)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    lk_tape *tape;
    lk_var y[2], loss = LK_NO_VAR, alone_y;
    lk_tensor *target = input_new(LK_F64);
    ASSERT_OK(lk_tape_new(&tape));
    struct leaf x = leaf_of(tape, input_new(LK_F64)), w = weights_new(tape, LK_F64, 0);
    for (int i = 0; i < n; i++)
        y[i] = rank == 0 ? layer(x.var, &w) : from(tape, comm, rank - 1, LK_F64);
    for (int i = 0; i < n && rank + 1 < size; i++)
        to(comm, y[i], rank + 1);
    if (rank + 1 == size) {
        if (n > 1)
            ASSERT_OK(lk_add(y[0], y[1], &y[0]));
        loss = error_between(y[0], target);
    }
    backward(tape, loss);
    struct leaf w1 = weights_new(tape, LK_F64, 0);
    ASSERT_OK(lk_affine(layer(x.var, &w1), n, 0, &alone_y));
    backward(tape, error_between(alone_y, target));
    if (rank == 0 && !lk_tensor_equal(w.grad, w1.grad))
        TEST_FAIL("%d ranks: a tuple of %d has another gradient than alone", size, n);
    leaf_free(&x);
    leaf_free(&w);
    leaf_free(&w1);
    lk_tensor_free(target);
    lk_tape_free(tape);
}

static void tuples_pass_along_the_pipeline(lk_comm *comm)
{
    check_tuple(comm, 1);
    check_tuple(comm, 2);
}

/* Rank 0 sends data, which needs no gradient; the others do not know, and it takes part. */
static void data_that_needs_no_gradient_can_be_sent(lk_comm *comm)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    lk_tape *tape;
    lk_var x, loss = LK_NO_VAR;
    double item;
    ASSERT_OK(lk_tape_new(&tape));
    if (rank == 0)
        ASSERT_OK(lk_full(tape, LK_F64, LK_SHAPE(1, WIDTH), 1, &x));
    else
        x = from(tape, comm, rank - 1, LK_F64);
    if (rank + 1 < size) {
        to(comm, x, rank + 1);
    } else if (rank > 0) {
        ASSERT_OK(lk_sum(x, NULL, &loss));
        ASSERT_OK(lk_square(loss, &loss));
        ASSERT_OK(lk_item(loss, &item));
        ASSERT_EQ(item, WIDTH * WIDTH);
    }
    backward(tape, loss);
    lk_tape_free(tape);
}

static void a_message_to_oneself_is_refused(lk_comm *comm)
{
    int rank = lk_comm_rank(comm);
    lk_tape *tape;
    lk_var x;
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_full(tape, LK_F64, LK_SHAPE(1), 1, &x));
    ASSERT_FAILS(lk_dist_send(comm, x, rank, 0, "self", NULL), LK_EINVAL, "is this one");
    ASSERT_FAILS(lk_dist_recv(tape, comm, rank, 0, LK_F64, LK_SHAPE(1), "self", &x), LK_EINVAL,
                 "is this one");
    lk_tape_free(tape);
}

/* ---- collective functions on lists of arrays ---- */

typedef lk_shape shape_fn(int i);

static lk_shape square_100(int i)
{
    (void)i;
    return LK_SHAPE(100, 100);
}

static lk_shape growing_columns(int i)
{
    return LK_SHAPE(10, i + 1);
}

static lk_shape growing_square(int i)
{
    return LK_SHAPE(i + 1, i + 1);
}

static lk_var flat(lk_var x)
{
    int64_t n;
    ASSERT_OK(lk_shape_count(lk_shape_of(x), &n));
    ASSERT_OK(lk_reshape(x, LK_SHAPE(n), &x));
    return x;
}

/* The sum of the errors between pieces of `y`, one behind the other, and the arrays known to all. */
static lk_var error_of_all(lk_var y, int n, shape_fn *shape)
{
    lk_var sum = LK_NO_VAR, piece;
    int64_t at = 0, count;
    for (int i = 0; i < n; i++) {
        lk_tensor *known = random_new(shape(i), "array", i);
        count = lk_tensor_count(known);
        ASSERT_OK(lk_slice(y, 0, at, at + count, 1, &piece));
        ASSERT_OK(lk_reshape(piece, shape(i), &piece));
        piece = error_between(piece, known);
        if (i == 0)
            sum = piece;
        else
            ASSERT_OK(lk_add(sum, piece, &sum));
        at += count;
        lk_tensor_free(known);
    }
    return sum;
}

static void expect_no_error(lk_var loss)
{
    double item;
    ASSERT_OK(lk_item(loss, &item));
    if (item != 0)
        TEST_FAIL("the error is %g", item);
}

/* Gather, to root or to all, what is known: the error is 0, and so is its gradient. */
static void check_gather(lk_comm *comm, shape_fn *shape, bool all)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    lk_tape *tape;
    lk_var y, loss = LK_NO_VAR;
    ASSERT_OK(lk_tape_new(&tape));
    struct leaf x = leaf_random(tape, shape(rank), "array", rank);
    ASSERT_OK(lk_tensor_fill_f64(x.grad, 7));
    if (all)
        ASSERT_OK(lk_dist_allgather(comm, flat(x.var), 0, "arrays", &y));
    else
        ASSERT_OK(lk_dist_gather(comm, flat(x.var), 0, 0, "arrays", &y));
    if (all || rank == 0) {
        loss = error_of_all(y, size, shape);
        expect_no_error(loss);
    }
    backward(tape, loss);
    expect_all(x.grad, 7, "the gradient of no error"); /* 7 + 0 */
    leaf_free(&x);
    lk_tape_free(tape);
}

static void gathered_arrays_have_no_error(lk_comm *comm)
{
    check_gather(comm, square_100, false);
    check_gather(comm, growing_square, false);
    check_gather(comm, growing_columns, true);
    check_gather(comm, growing_square, true);
}

/* The root's arrays, one behind the other. */
static void check_scatter(lk_comm *comm, shape_fn *shape)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    struct leaf x[8] = {{0}};
    lk_var list[8], y, loss;
    lk_tape *tape;
    ASSERT_TRUE(size <= LK_COUNT(x));
    ASSERT_OK(lk_tape_new(&tape));
    for (int i = 0; i < size; i++) {
        x[i] = leaf_random(tape, shape(i), "array", i);
        list[i] = flat(x[i].var);
    }
    int64_t count = lk_tensor_count(x[rank].value);
    if (rank == 0)
        ASSERT_OK(lk_concat(list, size, 0, &y));
    else
        ASSERT_OK(lk_full(tape, LK_F64, LK_SHAPE(0), 0, &y));
    ASSERT_OK(lk_dist_scatter(comm, y, 0, count, 0, "arrays", &y));
    ASSERT_OK(lk_reshape(y, shape(rank), &y));
    loss = error_between(y, x[rank].value);
    expect_no_error(loss);
    ASSERT_OK(lk_sum(y, NULL, &y));
    ASSERT_OK(lk_add(loss, y, &loss));
    backward(tape, loss); /* of no error and of the sum */
    for (int i = 0; i < size; i++) {
        expect_all(x[i].grad, rank == 0 ? 1 : 0, "the gradient of the sums");
        leaf_free(&x[i]);
    }
    lk_tape_free(tape);
}

static void scattered_arrays_have_no_error(lk_comm *comm)
{
    check_scatter(comm, square_100);
    check_scatter(comm, growing_square);
}

static void a_broadcast_array_has_no_error(lk_comm *comm)
{
    int rank = lk_comm_rank(comm);
    lk_tape *tape;
    lk_var y, loss;
    ASSERT_OK(lk_tape_new(&tape));
    struct leaf x = leaf_random(tape, LK_SHAPE(100, 100), "array", rank);
    lk_tensor *known = random_new(LK_SHAPE(100, 100), "array", 0);
    ASSERT_OK(lk_tensor_fill_f64(x.grad, 7));
    ASSERT_OK(lk_dist_bcast(comm, x.var, 0, "array", &y));
    loss = error_between(y, known);
    expect_no_error(loss);
    backward(tape, loss);
    expect_all(x.grad, 7, "the gradient of no error");
    lk_tensor_free(known);
    leaf_free(&x);
    lk_tape_free(tape);
}

/* Rank r sends [r + shift, i + shift] to rank i, with shift 0 nothing among them: together
 * [r + shift, all columns], cut along axis 1 and gathered along axis 0. */
static void check_alltoall(lk_comm *comm, int shift)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    int64_t whole = size * (size - 1) / 2 + size * shift;
    lk_tape *tape;
    lk_var y;
    ASSERT_OK(lk_tape_new(&tape));
    struct leaf x = leaf_random(tape, LK_SHAPE(rank + shift, whole), "array", rank);
    ASSERT_OK(lk_dist_alltoall(comm, x.var, 0, 1, rank + shift, "arrays", &y));
    ASSERT_EQ(lk_shape_of(y).dim[0], whole);
    ASSERT_EQ(lk_shape_of(y).dim[1], rank + shift);
    backward_of_sum(y);
    expect_all(x.grad, 1, "alltoall");
    leaf_free(&x);
    lk_tape_free(tape);
}

static void alltoall_takes_ragged_and_empty_arrays(lk_comm *comm)
{
    check_alltoall(comm, 0);
    check_alltoall(comm, 1);
}

RANKS_MAIN(TEST(a_pipeline_has_the_bits_of_one_process),
           TEST(backward_goes_round_a_ring_without_a_delegate),
           TEST(tuples_pass_along_the_pipeline), TEST(data_that_needs_no_gradient_can_be_sent),
           TEST(a_message_to_oneself_is_refused), TEST(gathered_arrays_have_no_error),
           TEST(scattered_arrays_have_no_error), TEST(a_broadcast_array_has_no_error),
           TEST(alltoall_takes_ragged_and_empty_arrays))
