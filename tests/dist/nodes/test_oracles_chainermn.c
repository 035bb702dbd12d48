/* What ChainerMN's tests expect of its differentiable functions, here without delegate variables, and
 * once with them, as a program ported line by line has them.
 *
 * Errors between what arrived and what is known are exactly 0.
 */
#include "oracles.h"

/* ---- the pipeline: each rank has a layer ---- */

enum { WIDTH = 10, MOST_RANKS = 8 };

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

static lk_var to(lk_comm *comm, lk_var x, int rank)
{
    lk_var phi;
    ASSERT_OK(lk_dist_send(comm, x, rank, 0, "pipeline", &phi));
    return phi;
}

/* The whole pipeline on this rank alone: its output, and the gradients of x and the first layer. */
static void alone(lk_dtype dtype, int layers, lk_tensor **output, lk_tensor **gx, lk_tensor **gw)
{
    struct leaf w[MOST_RANKS];
    lk_tape *tape;
    const lk_tensor *y;
    ASSERT_TRUE(layers <= MOST_RANKS);
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

enum ring { NO_RING, RING, RING_WITH_DELEGATES };

/* The loss is on the last rank; in a ring it is on rank 0, which gets the output back. */
static void check_pipeline(lk_comm *comm, lk_dtype dtype, enum ring ring)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    bool first = rank == 0, last = rank == size - 1, back = ring && size > 1;
    lk_tape *tape;
    lk_tensor *output, *gx, *gw, *target = input_new(dtype);
    lk_var loss = LK_NO_VAR, phi = LK_NO_VAR;
    alone(dtype, size, &output, &gx, &gw);
    ASSERT_OK(lk_tape_new(&tape));
    struct leaf x = leaf_of(tape, input_new(dtype)), w = weights_new(tape, dtype, rank);
    lk_var y = layer(first ? x.var : from(tape, comm, rank - 1, dtype), &w);
    if (!last || back)
        phi = to(comm, y, (rank + 1) % size);
    if (last)
        expect_same(y, output, "the output of the pipeline");
    if (back && first)
        y = from(tape, comm, size - 1, dtype);
    if (ring == RING_WITH_DELEGATES)
        ASSERT_OK(lk_pseudo_connect(phi, &y, 1, &y));
    if (back ? first : last)
        loss = error_between(y, target);
    else if (ring == RING_WITH_DELEGATES)
        ASSERT_OK(lk_sum(phi, NULL, &loss)); /* the delegate's own backward */
    backward(tape, loss);
    if (first && !lk_tensor_is_equal(w.grad, gw))
        TEST_FAIL("%d ranks: the gradient of the first layer has other bits than alone", size);
    if (first && !lk_tensor_is_equal(x.grad, gx))
        TEST_FAIL("%d ranks: the gradient of the input has other bits than alone", size);
    leaf_free(&x);
    leaf_free(&w);
    lk_tensor_free(output);
    lk_tensor_free(gx);
    lk_tensor_free(gw);
    lk_tensor_free(target);
    lk_tape_free(tape);
}

RANKS_TEST(a_pipeline_has_the_bits_of_one_process)
{
    check_pipeline(comm, LK_F32, NO_RING);
    check_pipeline(comm, LK_F64, NO_RING);
}

RANKS_TEST(backward_goes_round_a_ring_without_a_delegate)
{
    check_pipeline(comm, LK_F32, RING);
    check_pipeline(comm, LK_F64, RING);
}

RANKS_TEST(delegates_change_nothing)
{
    check_pipeline(comm, LK_F32, RING_WITH_DELEGATES);
    check_pipeline(comm, LK_F64, RING_WITH_DELEGATES);
}

/* Rank 0 makes the same value n times; all n go from rank to rank as one list, and the last adds
 * them.  The gradient is that of n layer(x) in one process. */
static void check_tuple(lk_comm *comm, int n)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    lk_tape *tape;
    lk_var y[2], loss = LK_NO_VAR, alone_y;
    lk_tensor *target = input_new(LK_F64);
    ASSERT_OK(lk_tape_new(&tape));
    struct leaf x = leaf_of(tape, input_new(LK_F64)), w = weights_new(tape, LK_F64, 0);
    for (int i = 0; i < n && rank == 0; i++)
        y[i] = layer(x.var, &w);
    if (rank > 0) {
        lk_list list = {.at = y, .room = LK_COUNT(y)};
        ASSERT_OK(lk_dist_recv_list(tape, comm, rank - 1, 0, "tuple", &list));
        ASSERT_EQ(list.n, n);
    }
    if (rank + 1 < size) {
        ASSERT_OK(lk_dist_send_list(comm, y, n, rank + 1, 0, "tuple", NULL));
    } else {
        if (n > 1)
            ASSERT_OK(lk_add(y[0], y[1], &y[0]));
        loss = error_between(y[0], target);
    }
    backward(tape, loss);
    struct leaf w1 = weights_new(tape, LK_F64, 0);
    ASSERT_OK(lk_affine(layer(x.var, &w1), n, 0, &alone_y));
    backward(tape, error_between(alone_y, target));
    if (rank == 0 && !lk_tensor_is_equal(w.grad, w1.grad))
        TEST_FAIL("%d ranks: a tuple of %d has another gradient than alone", size, n);
    leaf_free(&x);
    leaf_free(&w);
    leaf_free(&w1);
    lk_tensor_free(target);
    lk_tape_free(tape);
}

RANKS_TEST(tuples_pass_along_the_pipeline)
{
    check_tuple(comm, 1);
    check_tuple(comm, 2);
}

/* Rank 0 sends data, which needs no gradient; the others do not know, and it takes part. */
RANKS_TEST(data_that_needs_no_gradient_can_be_sent)
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

RANKS_TEST(a_message_to_oneself_that_nobody_takes_is_refused)
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

/* The sum of the errors between y[0..n) and the arrays known to all. */
static lk_var error_of_all(const lk_var *y, int n, shape_fn *shape)
{
    lk_var sum = LK_NO_VAR;
    for (int i = 0; i < n; i++) {
        lk_tensor *known = random_new(shape(i), "array", i);
        lk_var error = error_between(y[i], known);
        if (i == 0)
            sum = error;
        else
            ASSERT_OK(lk_add(sum, error, &sum));
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
    lk_var y[MOST_RANKS], loss = LK_NO_VAR;
    ASSERT_TRUE(size <= MOST_RANKS);
    ASSERT_OK(lk_tape_new(&tape));
    struct leaf x = leaf_random(tape, shape(rank), "array", rank);
    ASSERT_OK(lk_tensor_fill_f64(x.grad, 7));
    if (all)
        ASSERT_OK(lk_dist_allgather_list(comm, x.var, "arrays", y));
    else
        ASSERT_OK(lk_dist_gather_list(comm, x.var, 0, "arrays", y));
    if (all || rank == 0) {
        loss = error_of_all(y, size, shape);
        expect_no_error(loss);
    }
    backward(tape, loss);
    expect_all(x.grad, 7, "the gradient of no error"); /* 7 + 0 */
    leaf_free(&x);
    lk_tape_free(tape);
}

RANKS_TEST(gathered_arrays_have_no_error)
{
    check_gather(comm, square_100, false);
    check_gather(comm, growing_square, false);
    check_gather(comm, growing_columns, true);
    check_gather(comm, growing_square, true);
}

/* The root's arrays; the gradient of the sum of each is 1. */
static void check_scatter(lk_comm *comm, shape_fn *shape)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    struct leaf x[MOST_RANKS];
    lk_var list[MOST_RANKS], y, loss;
    lk_tape *tape;
    ASSERT_TRUE(size <= MOST_RANKS);
    ASSERT_OK(lk_tape_new(&tape));
    for (int i = 0; i < size; i++) {
        x[i] = leaf_random(tape, shape(i), "array", i);
        list[i] = x[i].var;
    }
    ASSERT_OK(lk_dist_scatter_list(tape, comm, rank == 0 ? list : NULL, 0, "arrays", &y));
    loss = error_between(y, x[rank].value);
    expect_no_error(loss);
    ASSERT_OK(lk_sum(y, NULL, &y));
    ASSERT_OK(lk_add(loss, y, &loss));
    backward(tape, loss);
    for (int i = 0; i < size; i++) {
        expect_all(x[i].grad, rank == 0 ? 1 : 0, "the gradient of the sums");
        leaf_free(&x[i]);
    }
    lk_tape_free(tape);
}

RANKS_TEST(scattered_arrays_have_no_error)
{
    check_scatter(comm, square_100);
    check_scatter(comm, growing_square);
}

RANKS_TEST(a_broadcast_array_has_no_error)
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

/* Rank r sends [r + shift, i + shift] to rank i; with shift 0 nothing is among them. */
static void check_alltoall(lk_comm *comm, int shift)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    struct leaf x[MOST_RANKS];
    lk_var list[MOST_RANKS], loss = LK_NO_VAR;
    lk_tape *tape;
    ASSERT_TRUE(size <= MOST_RANKS);
    ASSERT_OK(lk_tape_new(&tape));
    for (int i = 0; i < size; i++) {
        x[i] = leaf_random(tape, LK_SHAPE(rank + shift, i + shift), "array", MOST_RANKS * rank + i);
        list[i] = x[i].var;
    }
    ASSERT_OK(lk_dist_alltoall_list(comm, list, "arrays", list));
    for (int i = 0; i < size; i++) {
        lk_tensor *sent = random_new(LK_SHAPE(i + shift, rank + shift), "array",
                                     MOST_RANKS * i + rank);
        expect_same(list[i], sent, "alltoall");
        lk_tensor_free(sent);
        ASSERT_OK(lk_sum(list[i], NULL, &list[i]));
        if (i == 0)
            loss = list[0];
        else
            ASSERT_OK(lk_add(loss, list[i], &loss));
    }
    backward(tape, loss);
    for (int i = 0; i < size; i++) {
        expect_all(x[i].grad, 1, "alltoall");
        leaf_free(&x[i]);
    }
    lk_tape_free(tape);
}

RANKS_TEST(alltoall_takes_ragged_and_empty_arrays)
{
    check_alltoall(comm, 0);
    check_alltoall(comm, 1);
}
