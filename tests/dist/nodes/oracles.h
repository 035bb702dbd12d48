/* What the tests of other systems' oracles have in common: leaves with their gradients, values known
 * to all ranks, and exact comparisons. */
#ifndef LK_TEST_ORACLES_H
#define LK_TEST_ORACLES_H

#include "ranks.h"

#include <lockstep/lockstep.h>

/* A leaf on a tape with the tensor that its gradient is added to. */
struct leaf {
    lk_tensor *value, *grad;
    lk_var var;
};

/* Takes `value`. */
static inline struct leaf leaf_of(lk_tape *tape, lk_tensor *value)
{
    struct leaf l = {.value = value};
    ASSERT_OK(lk_tensor_zeros(lk_tensor_dtype(value), lk_tensor_shape(value), &l.grad));
    ASSERT_OK(lk_leaf(tape, l.value, l.grad, &l.var));
    return l;
}

static inline void leaf_free(struct leaf *l)
{
    lk_tensor_free(l->value);
    lk_tensor_free(l->grad);
}

/* f64 numbers in [0, 1) that depend on `purpose` and `number` alone: every rank can make those of
 * another. */
static inline lk_tensor *random_new(lk_shape shape, const char *purpose, int number)
{
    lk_tensor *t;
    void *data;
    ASSERT_OK(lk_tensor_new(LK_F64, shape, &t));
    ASSERT_OK(lk_tensor_writable_data(t, &data));
    ASSERT_OK(lk_rng_uniform_f64(lk_rng_start(42, "oracles", purpose),
                                 (lk_rng_at){.sample = number}, lk_tensor_count(t), data));
    return t;
}

static inline struct leaf leaf_random(lk_tape *tape, lk_shape shape, const char *purpose,
                                      int number)
{
    return leaf_of(tape, random_new(shape, purpose, number));
}

/* Every element of an f64 tensor is exactly `value`. */
static inline void expect_all(const lk_tensor *t, double value, const char *what)
{
    lk_tensor *flat;
    ASSERT_OK(lk_tensor_clone(t, LK_F64, &flat));
    const double *v = lk_tensor_data(flat);
    for (int64_t i = 0; i < lk_tensor_count(flat); i++)
        if (v[i] != value)
            TEST_FAIL("%s: element %lld of %s is %.17g, not %.17g", what, (long long)i,
                      lk_tensor_text(t).s, v[i], value);
    lk_tensor_free(flat);
}

static inline void expect_value(lk_var v, double value, const char *what)
{
    const lk_tensor *t;
    ASSERT_OK(lk_value(v, &t));
    expect_all(t, value, what);
}

/* The value has the shape and the bits of `want`. */
static inline void expect_same(lk_var v, const lk_tensor *want, const char *what)
{
    const lk_tensor *got;
    ASSERT_OK(lk_value(v, &got));
    if (!lk_tensor_is_equal(got, want))
        TEST_FAIL("%s: %s differs from %s", what, lk_tensor_text(got).s, lk_tensor_text(want).s);
}

/* Backward of this rank's loss, or without one: all ranks take part. */
static inline void backward(lk_tape *tape, lk_var loss)
{
    ASSERT_OK(lk_backward(tape, &(lk_seed){.of = loss}, lk_is_var(loss), 0));
}

/* Backward of the sum of all elements of y, on all ranks. */
static inline void backward_of_sum(lk_var y)
{
    lk_var loss;
    ASSERT_OK(lk_sum(y, NULL, &loss));
    backward(y.tape, loss);
}

/* Backward of the sum of y gives x this gradient everywhere; then both are no longer needed. */
static inline void expect_gradient(struct leaf *x, lk_var y, double grad, const char *what)
{
    backward_of_sum(y);
    expect_all(x->grad, grad, what);
    leaf_free(x);
    lk_tape_free(y.tape);
}

/* n numbers to the right, those from the left times the rank: the gradient is the rank on the right.
 * A rank alone is its own neighbour. */
static inline void check_ring(lk_comm *comm, int64_t n)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    int right = (rank + 1) % size, left = (rank + size - 1) % size;
    lk_tape *tape;
    lk_var out, in, got;
    ASSERT_OK(lk_tape_new(&tape));
    struct leaf x = leaf_random(tape, LK_SHAPE(n), "x", rank);
    ASSERT_OK(lk_dist_isend(comm, x.var, right, 0, "x", &out));
    ASSERT_OK(lk_dist_irecv(tape, comm, left, 0, LK_F64, LK_SHAPE(n), "x", &in));
    ASSERT_OK(lk_dist_wait(out, NULL));
    ASSERT_OK(lk_dist_wait(in, &got));
    lk_tensor *sent = random_new(LK_SHAPE(n), "x", left);
    expect_same(got, sent, "from the left");
    lk_tensor_free(sent);
    ASSERT_OK(lk_affine(got, rank, 0, &got));
    expect_gradient(&x, got, right, "from the right");
}

#endif /* LK_TEST_ORACLES_H */
