/* Lists of values, minloc and maxloc, and the calls of ported programs, on the tape. */
#include "adjoints.h"

enum { MOST = 16 };

static lk_shape same(int rank, int size)
{
    (void)rank;
    (void)size;
    return LK_SHAPE(2, 3);
}

static lk_shape square_one(int rank, int size)
{
    (void)size;
    return LK_SHAPE(rank % 3, rank % 3); /* also nothing */
}

/* The sum of all elements of x times `by`, in the shape of y. */
static lk_status add_sum(lk_var x, double by, lk_var *y)
{
    lk_var s;
    LK_TRY(lk_sum(x, NULL, &s));
    LK_TRY(lk_affine(s, by, 0, &s));
    return LK_TRACE(lk_add(*y, s, y));
}

/* Round the ring, rank 0 first: x, integers, x^2 turned, nothing, x as f32. */
static lk_status tuples(lk_comm *c, lk_var x, lk_var *y)
{
    int rank = lk_comm_rank(c), size = lk_comm_size(c);
    lk_var xs[5] = {x}, got[5];
    lk_list list = {got, 0, 5};
    *y = x;
    LK_TRY(lk_full(x.tape, LK_I32, LK_SHAPE(3), 40 + rank, &xs[1]));
    LK_TRY(lk_square(x, &xs[2]));
    LK_TRY(lk_transpose(xs[2], 0, 1, &xs[2]));
    LK_TRY(lk_slice(x, 0, 0, 0, 1, &xs[3]));
    LK_TRY(lk_cast(x, LK_F32, &xs[4]));
    if (size == 1)
        return LK_OK;
    int to = (rank + 1) % size, from = (rank + size - 1) % size;
    if (rank == 0)
        LK_TRY(lk_dist_send_list(c, xs, 5, to, 3, "tuple", NULL));
    LK_TRY(lk_dist_recv_list(x.tape, c, rank == 1 ? LK_ANY_RANK : from, rank == 1 ? LK_ANY_TAG : 3,
                             "tuple", &list));
    if (rank > 0)
        LK_TRY(lk_dist_send_list(c, xs, 5, to, 3, "tuple", NULL));
    ASSERT_EQ(list.n, 5);
    double item;
    const lk_tensor *t;
    ASSERT_OK(lk_value(got[1], &t));
    ASSERT_OK(lk_tensor_get_f64(t, LK_SHAPE(2), &item));
    ASSERT_TRUE(item == 40 + from && lk_dtype_of(got[1]) == LK_I32);
    ASSERT_TRUE(lk_shape_is_equal(lk_shape_of(got[2]), LK_SHAPE(3, 2)));
    ASSERT_TRUE(lk_shape_is_equal(lk_shape_of(got[3]), LK_SHAPE(0, 3)));
    ASSERT_TRUE(lk_dtype_of(got[4]) == LK_F32);
    LK_TRY(lk_transpose(got[2], 0, 1, &got[2]));
    LK_TRY(lk_mul(got[2], x, y));
    return LK_TRACE(add_sum(got[0], 2, y));
}

static lk_status bcast(lk_comm *c, lk_var x, lk_var *y)
{
    int root = lk_comm_size(c) - 1;
    lk_var at[2];
    lk_list list = {at, 0, 2};
    if (lk_comm_rank(c) == root) {
        at[0] = x;
        LK_TRY(lk_square(x, &at[1]));
        LK_TRY(lk_reshape(at[1], LK_SHAPE(6), &at[1]));
        list.n = 2;
    }
    LK_TRY(lk_dist_bcast_list(x.tape, c, root, "tuple", &list));
    ASSERT_TRUE(list.n == 2 && lk_shape_is_equal(lk_shape_of(at[1]), LK_SHAPE(6)));
    LK_TRY(lk_mul(at[0], x, y));
    return LK_TRACE(add_sum(at[1], 3, y));
}

/* Small ones of two dtypes, a large one between them, and one that nobody uses. */
static lk_status allreduce(lk_comm *c, lk_var x, lk_var *y)
{
    lk_var v[7], out[7];
    lk_shape wide = LK_SHAPE(6000, 2, 3);
    double item;
    LK_TRY(lk_square(x, &v[0]));
    LK_TRY(lk_full(x.tape, LK_I64, LK_SHAPE(2), 5, &v[1]));
    LK_TRY(lk_broadcast(x, wide, &v[2]));
    LK_TRY(lk_transpose(x, 0, 1, &v[3]));
    LK_TRY(lk_sum(x, NULL, &v[4]));
    LK_TRY(lk_cast(x, LK_F32, &v[5]));
    v[6] = x;
    LK_TRY(lk_dist_allreduce_list(c, v, 7, LK_REDUCE_SUM, "group", out));
    for (int i = 0; i < 7; i++)
        ASSERT_TRUE(lk_shape_is_equal(lk_shape_of(out[i]), lk_shape_of(v[i])));
    const lk_tensor *t;
    ASSERT_OK(lk_value(out[1], &t));
    ASSERT_OK(lk_tensor_get_f64(t, LK_SHAPE(1), &item));
    ASSERT_TRUE(item == 5 * lk_comm_size(c));
    LK_TRY(lk_transpose(out[3], 0, 1, &out[3]));
    LK_TRY(lk_mul(out[0], out[3], y));
    LK_TRY(lk_mul(*y, out[4], y));
    LK_TRY(lk_mul(*y, x, y));
    LK_TRY(lk_slice(out[2], 0, 7, 8, 1, &out[2]));
    return LK_TRACE(add_sum(out[2], 1, y));
}

static lk_status allgather(lk_comm *c, lk_var x, lk_var *y)
{
    lk_var all[MOST];
    LK_TRY(lk_dist_allgather_list(c, x, "all", all));
    LK_TRY(lk_square(x, y));
    for (int r = 0; r < lk_comm_size(c); r++) {
        ASSERT_TRUE(lk_shape_is_equal(lk_shape_of(all[r]), square_one(r, 0)));
        LK_TRY(add_sum(all[r], 1 + r, y));
    }
    return LK_OK;
}

static lk_status gather(lk_comm *c, lk_var x, lk_var *y)
{
    lk_var all[MOST];
    int root = lk_comm_size(c) / 2;
    LK_TRY(lk_dist_gather_list(c, x, root, "all", lk_comm_rank(c) == root ? all : NULL));
    LK_TRY(lk_full(x.tape, lk_dtype_of(x), LK_SHAPE(2), 1, y));
    LK_TRY(add_sum(x, 0.5, y));
    for (int r = 0; lk_comm_rank(c) == root && r < lk_comm_size(c); r++) {
        LK_TRY(lk_square(all[r], &all[r]));
        LK_TRY(add_sum(all[r], 1 + r, y));
    }
    return LK_OK;
}

/* Row r of root's x to rank r, as [r, 3]. */
static lk_status scatter(lk_comm *c, lk_var x, lk_var *y)
{
    lk_var xs[MOST], got;
    int root = lk_comm_size(c) - 1, rank = lk_comm_rank(c);
    for (int r = 0; r < lk_comm_size(c); r++)
        LK_TRY(lk_slice(x, 0, 0, r % 3, 1, &xs[r]));
    LK_TRY(lk_dist_scatter_list(x.tape, c, rank == root ? xs : NULL, root, "rows", &got));
    ASSERT_TRUE(lk_shape_is_equal(lk_shape_of(got), LK_SHAPE(rank % 3, 3)));
    LK_TRY(lk_square(got, &got));
    LK_TRY(lk_square(x, y));
    return LK_TRACE(add_sum(got, 1, y));
}

static lk_status alltoall(lk_comm *c, lk_var x, lk_var *y)
{
    lk_var xs[MOST], got[MOST];
    int rank = lk_comm_rank(c);
    for (int r = 0; r < lk_comm_size(c); r++) {
        LK_TRY(lk_slice(x, 0, 0, rank % 3, 1, &xs[r]));
        LK_TRY(lk_slice(xs[r], 1, 0, r % 4, 1, &xs[r]));
    }
    LK_TRY(lk_dist_alltoall_list(c, xs, "parts", got));
    LK_TRY(lk_square(x, y));
    for (int r = 0; r < lk_comm_size(c); r++) {
        ASSERT_TRUE(lk_shape_is_equal(lk_shape_of(got[r]), LK_SHAPE(r % 3, rank % 4)));
        LK_TRY(lk_square(got[r], &got[r]));
        LK_TRY(add_sum(got[r], 1 + r, y));
    }
    return LK_OK;
}

/* The places of elements count down with the rank, so that indices are not ranks. */
static lk_status index_of(lk_comm *c, lk_var x, lk_var *index)
{
    return lk_full(x.tape, LK_I64, lk_shape_of(x), 100 - lk_comm_rank(c), index);
}

static lk_status maxloc(lk_comm *c, lk_var x, lk_var *y)
{
    lk_var index, where;
    LK_TRY(index_of(c, x, &index));
    LK_TRY(lk_dist_allreduce_loc(c, x, index, LK_REDUCE_MAXLOC, "largest", y, &where));
    return LK_TRACE(lk_mul(*y, x, y));
}

static lk_status minloc(lk_comm *c, lk_var x, lk_var *y)
{
    lk_var where;
    LK_TRY(lk_dist_reduce_loc(c, x, LK_NO_VAR, LK_REDUCE_MINLOC, lk_comm_size(c) - 1, "least", y,
                              &where));
    return LK_TRACE(lk_mul(*y, x, y));
}

static lk_status minloc_value(lk_comm *c, lk_var x, lk_var *y)
{
    return lk_dist_allreduce(c, x, LK_REDUCE_MINLOC, "least", y);
}

/* As mpi4torch and ChainerMN have it: every dummy joined, every delegate connected. */
static lk_status ported(lk_comm *c, lk_var x, lk_var *y)
{
    int rank = lk_comm_rank(c), size = lk_comm_size(c);
    int right = (rank + 1) % size, left = (rank + size - 1) % size;
    lk_var out, in, got, token, joined;
    LK_TRY(lk_dist_isend(c, x, right, 1, "ring", &out));
    LK_TRY(lk_dist_irecv(x.tape, c, left, 1, lk_dtype_of(x), lk_shape_of(x), "ring", &in));
    LK_TRY(lk_join_handle(in, &out, 1, &in));
    LK_TRY(lk_join(x, (lk_var[]){out, in}, 2, &joined));
    LK_TRY(lk_dist_wait(in, &got));
    LK_TRY(lk_join_handle(out, &got, 1, &out));
    LK_TRY(lk_dist_wait(out, &token));
    LK_TRY(lk_join(got, &token, 1, &got));
    lk_var both[2] = {got, joined};
    LK_TRY(lk_pseudo_connect(token, both, 2, both));
    LK_TRY(lk_pseudo_connect(LK_NO_VAR, both, 1, both));
    return LK_TRACE(lk_mul(both[0], both[1], y));
}

static const struct program programs[] = {
    {"tuples", same, tuples},       {"bcast", same, bcast},
    {"allreduce", same, allreduce}, {"allgather", square_one, allgather},
    {"gather", square_one, gather}, {"scatter", same, scatter},
    {"alltoall", same, alltoall},   {"maxloc", same, maxloc},
    {"minloc", same, minloc},       {"minloc for its value", same, minloc_value},
    {"ported", same, ported}};

RANKS_TEST(derivatives_are_those_of_the_sum_of_all_losses)
{
    check_programs(comm, programs, sizeof programs / sizeof programs[0]);
}

/* Ties go to the lowest index, and their gradient to one rank. */
RANKS_TEST(the_index_is_the_lowest_that_has_it)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    lk_tape *tape;
    lk_tensor *t, *grad;
    lk_var x, k, y, where, index;
    double item;
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_tensor_new(LK_F32, LK_SCALAR, &t));
    ASSERT_OK(lk_tensor_new(LK_F32, LK_SCALAR, &grad));
    ASSERT_OK(lk_tensor_fill_f64(t, rank == 0 && size > 1 ? 1 : 7));
    ASSERT_OK(lk_tensor_fill_f64(grad, 0));
    ASSERT_OK(lk_leaf(tape, t, grad, &x));
    /* The ranks from 1 on have the largest; by index the last one, where two share an index. */
    ASSERT_OK(lk_full(tape, LK_I64, LK_SCALAR, 50 - rank / 2, &index));
    ASSERT_OK(lk_dist_allreduce_loc(comm, x, index, LK_REDUCE_MAXLOC, "k", &y, &where));
    ASSERT_OK(lk_item(where, &item));
    ASSERT_TRUE(item == 50 - (size - 1) / 2 && !lk_needs_grad(where));
    ASSERT_OK(lk_backward(tape, &(lk_seed){y, NULL}, 1, 0));
    ASSERT_OK(lk_tensor_get_f64(grad, LK_SCALAR, &item));
    int winner = (size - 1) / 2 * 2; /* the lower of the two */
    if (winner == 0)
        winner = size > 1 ? 1 : 0;
    ASSERT_TRUE(item == (rank == winner ? size : 0));
    /* Integers too. */
    ASSERT_OK(lk_full(tape, LK_I32, LK_SHAPE(2), rank + 3, &k));
    ASSERT_OK(lk_dist_reduce_loc(comm, k, LK_NO_VAR, LK_REDUCE_MINLOC, 0, "k", &y, &where));
    ASSERT_TRUE(lk_dtype_of(y) == LK_I32 && !lk_needs_grad(y));
    const lk_tensor *v;
    ASSERT_OK(lk_value(y, &v));
    ASSERT_OK(lk_tensor_get_f64(v, LK_SHAPE(1), &item));
    ASSERT_TRUE(item == (rank == 0 ? 3 : 0));
    lk_tape_free(tape);
    lk_tensor_free(t);
    lk_tensor_free(grad);
}

/* Nothing is sent when arguments are refused. */
RANKS_TEST(what_has_no_derivative_is_refused)
{
    lk_tape *tape;
    lk_var x, n, y, where;
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_full(tape, LK_F64, LK_SHAPE(2), 1, &x));
    ASSERT_OK(lk_full(tape, LK_I64, LK_SHAPE(2), 1, &n));
    static const lk_reduce_op bits[] = {LK_REDUCE_AND, LK_REDUCE_OR, LK_REDUCE_XOR};
    for (int i = 0; i < 3; i++) {
        ASSERT_FAILS(lk_dist_allreduce(comm, n, bits[i], "flags", &y), LK_ENOTSUP,
                     "has no derivative: it acts on bits");
        ASSERT_FAILS(lk_dist_reduce(comm, n, bits[i], 0, "flags", &y), LK_ENOTSUP,
                     lk_reduce_op_name(bits[i]));
    }
    ASSERT_FAILS(lk_dist_allreduce_loc(comm, x, LK_NO_VAR, LK_REDUCE_SUM, "s", &y, &where),
                 LK_EINVAL, "only minloc and maxloc");
    ASSERT_FAILS(lk_dist_allreduce_loc(comm, x, x, LK_REDUCE_MAXLOC, "s", &y, &where), LK_EDTYPE,
                 "must be i64");
    ASSERT_FAILS(lk_join_handle(x, NULL, 0, &y), LK_EINVAL, "no handle");
    ASSERT_FAILS(lk_dist_send_list(comm, NULL, 0, 0, 0, "s", NULL), LK_EINVAL, "0 values");
    ASSERT_FAILS(lk_dist_allreduce_list(comm, (lk_var[]){x, LK_NO_VAR}, 2, LK_REDUCE_SUM, "s", &y),
                 LK_EINVAL, "value 1 is LK_NO_VAR");
    lk_tape_free(tape);
}
