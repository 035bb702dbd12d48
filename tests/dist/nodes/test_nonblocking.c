/* isend, irecv, wait, waitany and sendrecv on the tape: derivatives, and what is misused. */
#include "adjoints.h"

static lk_shape same(int rank, int size)
{
    (void)rank;
    (void)size;
    return LK_SHAPE(2, 3);
}

static lk_shape long_one(int rank, int size)
{
    (void)rank;
    (void)size;
    return LK_SHAPE(1500); /* more than is buffered */
}

static int right_of(lk_comm *c)
{
    return (lk_comm_rank(c) + 1) % lk_comm_size(c);
}

static int left_of(lk_comm *c)
{
    return (lk_comm_rank(c) + lk_comm_size(c) - 1) % lk_comm_size(c);
}

/* The natural program, also of a rank alone with itself. */
static lk_status ring(lk_comm *c, lk_var x, lk_var *y)
{
    lk_var in, out, got;
    LK_TRY(lk_dist_isend(c, x, right_of(c), 3, "ring", &out));
    LK_TRY(lk_dist_irecv(x.tape, c, left_of(c), 3, lk_dtype_of(x), lk_shape_of(x), "ring", &in));
    LK_TRY(lk_dist_wait(in, &got));
    LK_TRY(lk_dist_wait(out, NULL));
    return LK_TRACE(lk_mul(got, x, y));
}

/* Two messages with one tag, which are waited for in the other order. */
static lk_status crossed(lk_comm *c, lk_var x, lk_var *y)
{
    lk_var in[2], out[2], got[2], square, z;
    LK_TRY(lk_square(x, &square));
    for (int i = 0; i < 2; i++)
        LK_TRY(lk_dist_irecv(x.tape, c, left_of(c), 7, lk_dtype_of(x), lk_shape_of(x), "crossed",
                             &in[i]));
    LK_TRY(lk_dist_isend(c, x, right_of(c), 7, "crossed", &out[0]));
    LK_TRY(lk_dist_isend(c, square, right_of(c), 7, "crossed", &out[1]));
    for (int i = 1; i >= 0; i--)
        LK_TRY(lk_dist_wait(in[i], &got[i]));
    for (int i = 0; i < 2; i++)
        LK_TRY(lk_dist_wait(out[i], NULL));
    LK_TRY(lk_mul(got[0], x, &z));
    return LK_TRACE(lk_add(z, got[1], y));
}

/* A transposed value, which is not contiguous, and one that nobody uses. */
static lk_status unused(lk_comm *c, lk_var x, lk_var *y)
{
    lk_var in[2], out[2], got[2], turned;
    LK_TRY(lk_transpose(x, 0, 1, &turned));
    for (int i = 0; i < 2; i++) {
        LK_TRY(lk_dist_irecv(x.tape, c, left_of(c), i, lk_dtype_of(x), lk_shape_of(turned),
                             "unused", &in[i]));
        LK_TRY(lk_dist_isend(c, turned, right_of(c), i, "unused", &out[i]));
    }
    for (int i = 0; i < 2; i++) {
        LK_TRY(lk_dist_wait(out[i], NULL));
        LK_TRY(lk_dist_wait(in[i], &got[i]));
    }
    LK_TRY(lk_transpose(got[1], 0, 1, &got[1]));
    return LK_TRACE(lk_mul(got[1], x, y));
}

/* Rank 0 takes what comes first, and gives the sum of all back to everybody. */
static lk_status any(lk_comm *c, lk_var x, lk_var *y)
{
    int size = lk_comm_size(c);
    lk_var got, in, out, sum = x;
    if (lk_comm_rank(c) > 0) {
        LK_TRY(lk_dist_isend(c, x, 0, lk_comm_rank(c), "up", &out));
        LK_TRY(lk_dist_irecv(x.tape, c, 0, 99, lk_dtype_of(x), lk_shape_of(x), "down", &in));
        LK_TRY(lk_dist_wait(out, NULL));
        return LK_TRACE(lk_dist_wait(in, y));
    }
    for (int r = 1; r < size; r++) {
        LK_TRY(lk_dist_irecv(x.tape, c, LK_ANY_RANK, LK_ANY_TAG, lk_dtype_of(x), lk_shape_of(x),
                             "up", &in));
        LK_TRY(lk_dist_wait(in, &got));
        LK_TRY(lk_square(got, &got));
        LK_TRY(lk_add(sum, got, &sum));
    }
    for (int r = 1; r < size; r++) {
        LK_TRY(lk_dist_isend(c, sum, r, 99, "down", &out));
        LK_TRY(lk_dist_wait(out, NULL));
    }
    *y = sum;
    return LK_OK;
}

/* Everybody to everybody, itself included, waited for as they come; the value depends on who. */
static lk_status waitany(lk_comm *c, lk_var x, lk_var *y)
{
    enum { MOST = 16 };
    int size = lk_comm_size(c), n = 0, which;
    lk_var handle[2 * MOST], got, scaled;
    for (int r = 0; r < size; r++) {
        LK_TRY(lk_dist_irecv(x.tape, c, r, 5, lk_dtype_of(x), lk_shape_of(x), "all", &handle[n++]));
        LK_TRY(lk_dist_isend(c, x, r, 5, "all", &handle[n++]));
    }
    *y = x;
    for (int k = 0; k < n; k++) {
        LK_TRY(lk_dist_waitany(handle, n, &which, &got));
        ASSERT_TRUE(which >= 0 && lk_is_var(handle[which]));
        handle[which] = LK_NO_VAR;
        if (which % 2 == 1)
            continue;
        LK_TRY(lk_affine(got, 1 + 0.5 * which, 0, &scaled));
        LK_TRY(lk_mul(scaled, x, &scaled));
        LK_TRY(lk_add(*y, scaled, y));
    }
    LK_TRY(lk_dist_waitany(handle, n, &which, &got));
    ASSERT_EQ(which, -1);
    ASSERT_TRUE(!lk_is_var(got));
    return LK_OK;
}

/* Along a line with borders. */
static lk_status shift(lk_comm *c, lk_var x, lk_var *y)
{
    int rank = lk_comm_rank(c), size = lk_comm_size(c);
    lk_dist_send_arg to = {x, rank + 1 < size ? rank + 1 : -1, 4};
    lk_dist_recv_arg from = {rank - 1, 4, lk_dtype_of(x), lk_shape_of(x)};
    lk_var got;
    LK_TRY(lk_dist_sendrecv(x.tape, c, &to, &from, "shift", &got));
    ASSERT_EQ(lk_is_var(got), rank > 0);
    *y = x;
    if (rank > 0)
        LK_TRY(lk_mul(x, got, y));
    return LK_OK;
}

/* A rank to itself: received by a call that blocks, sent by one, and both at once. */
static lk_status own_recv(lk_comm *c, lk_var x, lk_var *y)
{
    int own = lk_comm_rank(c);
    lk_var out, got;
    LK_TRY(lk_dist_isend(c, x, own, 2, "own", &out));
    LK_TRY(lk_dist_recv(x.tape, c, own, 2, lk_dtype_of(x), lk_shape_of(x), "own", &got));
    LK_TRY(lk_dist_wait(out, NULL));
    return LK_TRACE(lk_mul(got, x, y));
}

static lk_status own_send(lk_comm *c, lk_var x, lk_var *y)
{
    int own = lk_comm_rank(c);
    lk_var in, got;
    LK_TRY(lk_dist_irecv(x.tape, c, own, 2, lk_dtype_of(x), lk_shape_of(x), "own", &in));
    LK_TRY(lk_dist_send(c, x, own, 2, "own", NULL));
    LK_TRY(lk_dist_wait(in, &got));
    return LK_TRACE(lk_mul(got, x, y));
}

static lk_status own_sendrecv(lk_comm *c, lk_var x, lk_var *y)
{
    int own = lk_comm_rank(c);
    lk_dist_send_arg to = {x, own, 2};
    lk_dist_recv_arg from = {own, 2, lk_dtype_of(x), lk_shape_of(x)};
    LK_TRY(lk_dist_sendrecv(x.tape, c, &to, &from, "own", y));
    return LK_TRACE(lk_mul(*y, x, y));
}

static const struct program programs[] = {{"ring", same, ring},
                                          {"crossed", same, crossed},
                                          {"unused", same, unused},
                                          {"any source", same, any},
                                          {"waitany", same, waitany},
                                          {"shift", same, shift},
                                          {"own recv", same, own_recv},
                                          {"own send", same, own_send},
                                          {"own sendrecv", same, own_sendrecv}};

RANKS_TEST(derivatives_are_those_of_the_sum_of_all_losses)
{
    check_programs(comm, programs, sizeof programs / sizeof programs[0]);
}

/* The gradient of L = sum over ranks of sum of y, twice over the same tape. */
RANKS_TEST(long_messages_and_two_passes)
{
    struct program p = {"long ring", long_one, ring};
    lk_tape *tape;
    lk_tensor *t;
    lk_var x, y, part, g[2];
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_tensor_new(LK_F64, p.shape(0, 1), &t));
    ASSERT_OK(lk_tensor_fill_f64(t, 1 + lk_comm_rank(comm)));
    ASSERT_OK(lk_leaf(tape, t, NULL, &x));
    ASSERT_OK(p.run(comm, x, &y));
    ASSERT_OK(lk_sum(y, NULL, &part));
    for (int i = 0; i < 2; i++)
        ASSERT_OK(lk_grad(tape, &part, NULL, 1, &x, 1, LK_RETAIN_GRAPH, &g[i]));
    for (int i = 0; i < 2; i++) {
        const lk_tensor *v;
        ASSERT_OK(lk_value(g[i], &v));
        /* The left value times this, and this times the right value. */
        double want = 2.0 + left_of(comm) + right_of(comm);
        for (int64_t e = 0; e < lk_tensor_count(v); e++)
            ASSERT_TRUE(((const double *)lk_tensor_data(v))[e] == want);
    }
    lk_tape_free(tape);
    lk_tensor_free(t);
}

struct own {
    lk_comm *comm;
    lk_status (*run)(lk_comm *comm, lk_var x, lk_var *y);
    lk_var x;
};

static lk_status own_run(lk_tape *tape, void *arg, lk_var *out)
{
    struct own *o = arg;
    (void)tape;
    return LK_TRACE(o->run(o->comm, o->x, out));
}

/* y = x * x by a message, whose gradient is 2 x; large ones too, and in segments. */
RANKS_TEST(a_rank_may_send_to_itself)
{
    static lk_status (*const runs[])(lk_comm *, lk_var, lk_var *) = {own_recv, own_send,
                                                                     own_sendrecv};
    for (int i = 0; i < 12; i++) {
        struct own o = {.comm = comm, .run = runs[i % 3]};
        int64_t n = i % 2 ? 1500 : 2;
        lk_tape *tape;
        lk_tensor *t, *grad;
        lk_var y, sum;
        ASSERT_OK(lk_tape_new(&tape));
        ASSERT_OK(lk_tensor_new(LK_F64, LK_SHAPE(n), &t));
        ASSERT_OK(lk_tensor_new(LK_F64, LK_SHAPE(n), &grad));
        ASSERT_OK(lk_tensor_fill_f64(t, 3));
        ASSERT_OK(lk_tensor_fill_f64(grad, 0));
        ASSERT_OK(lk_leaf(tape, t, grad, &o.x));
        ASSERT_OK(i < 6 ? own_run(tape, &o, &y) : lk_recompute(tape, own_run, &o, 1, &y));
        ASSERT_OK(lk_sum(y, NULL, &sum));
        ASSERT_OK(lk_backward(tape, &(lk_seed){sum, NULL}, 1, LK_RETAIN_GRAPH));
        ASSERT_OK(lk_backward(tape, &(lk_seed){sum, NULL}, 1, 0));
        for (int64_t e = 0; e < n; e++)
            ASSERT_TRUE(((const double *)lk_tensor_data(grad))[e] == 12);
        lk_tape_free(tape);
        lk_tensor_free(t);
        lk_tensor_free(grad);
    }
}

/* A message to oneself that could not arrive is refused, and nothing is under way then. */
RANKS_TEST(a_rank_does_not_wait_for_itself)
{
    int own = lk_comm_rank(comm);
    lk_tape *tape;
    lk_var x, y, in, out;
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_full(tape, LK_F64, LK_SHAPE(1), 1 + own, &x));
    ASSERT_FAILS(lk_dist_send(comm, x, own, 1, "own", NULL), LK_EINVAL,
                 "is this one, which has not begun to receive this message: call lk_dist_irecv()");
    ASSERT_FAILS(lk_dist_recv(tape, comm, own, 1, LK_F64, LK_SHAPE(1), "own", &y), LK_EINVAL,
                 "is this one, which has not begun to send such a message: call lk_dist_isend()");
    ASSERT_FAILS(lk_dist_send_list(comm, &x, 1, own, 1, "own", NULL), LK_EINVAL, "never arrives");
    ASSERT_OK(lk_dist_irecv(tape, comm, own, 1, LK_F64, LK_SHAPE(1), "own", &in));
    ASSERT_FAILS(lk_dist_send(comm, x, own, 2, "own", NULL), LK_EINVAL, "is this one");
    ASSERT_OK(lk_dist_isend(comm, x, own, 1, "own", &out));
    ASSERT_FAILS(lk_dist_send(comm, x, own, 1, "own", NULL), LK_EINVAL, "is this one");
    ASSERT_FAILS(lk_dist_recv(tape, comm, own, 1, LK_F64, LK_SHAPE(1), "own", &y), LK_EINVAL,
                 "is this one");
    ASSERT_OK(lk_dist_wait(out, NULL));
    ASSERT_OK(lk_dist_wait(in, &y));
    ASSERT_OK(lk_dist_isend(comm, x, own, 3, "own", &out));
    ASSERT_FAILS(lk_dist_recv(tape, comm, own, 1, LK_F64, LK_SHAPE(1), "own", &y), LK_EINVAL,
                 "is this one");
    ASSERT_OK(lk_dist_recv(tape, comm, own, LK_ANY_TAG, LK_F64, LK_SHAPE(1), "own", &y));
    ASSERT_OK(lk_dist_wait(out, NULL));
    ASSERT_OK(lk_backward(tape, NULL, 0, 0));
    lk_tape_free(tape);
}

/* Integers have no gradient, and a constant's is thrown away; neither disturbs the others. */
RANKS_TEST(integers_and_constants_travel_too)
{
    lk_tape *tape;
    lk_tensor *t, *grad;
    lk_var x, k, c, in[3], out[3], got[3], y;
    double item;
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_tensor_new(LK_F64, LK_SHAPE(1), &t));
    ASSERT_OK(lk_tensor_fill_f64(t, 3));
    ASSERT_OK(lk_tensor_new(LK_F64, LK_SHAPE(1), &grad));
    ASSERT_OK(lk_tensor_fill_f64(grad, 0));
    ASSERT_OK(lk_leaf(tape, t, grad, &x));
    ASSERT_OK(lk_full(tape, LK_I64, LK_SHAPE(1), lk_comm_rank(comm), &k));
    ASSERT_OK(lk_full(tape, LK_F64, LK_SHAPE(1), 10 + lk_comm_rank(comm), &c));
    const lk_var send[3] = {x, k, c};
    for (int i = 0; i < 3; i++) {
        ASSERT_OK(lk_dist_isend(comm, send[i], right_of(comm), i, "v", &out[i]));
        ASSERT_OK(lk_dist_irecv(tape, comm, left_of(comm), i, i == 1 ? LK_I64 : LK_F64, LK_SHAPE(1),
                                "v", &in[i]));
    }
    for (int i = 2; i >= 0; i--) {
        ASSERT_OK(lk_dist_wait(in[i], &got[i]));
        ASSERT_OK(lk_dist_wait(out[i], NULL));
    }
    ASSERT_OK(lk_item(got[1], &item));
    ASSERT_TRUE(item == left_of(comm));
    ASSERT_TRUE(!lk_needs_grad(got[1]) || lk_dtype_of(got[1]) != LK_I64);
    ASSERT_OK(lk_mul(got[0], got[2], &y));
    ASSERT_OK(lk_backward(tape, &(lk_seed){y, NULL}, 1, 0));
    ASSERT_OK(lk_tensor_get_f64(grad, LK_SHAPE(0), &item));
    ASSERT_TRUE(item == 10 + lk_comm_rank(comm));
    lk_tape_free(tape);
    lk_tensor_free(t);
    lk_tensor_free(grad);
}

/* Second step of a training loop: no memory is taken. */
RANKS_TEST(a_step_like_the_last_takes_no_memory)
{
    lk_tape *tape;
    lk_tensor *t, *grad;
    int64_t blocks[4] = {0};
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_tensor_new(LK_F64, LK_SHAPE(2, 3), &t));
    ASSERT_OK(lk_tensor_fill_f64(t, 1));
    ASSERT_OK(lk_tensor_new(LK_F64, LK_SHAPE(2, 3), &grad));
    ASSERT_OK(lk_tensor_fill_f64(grad, 0));
    for (int step_no = 0; step_no < 4; step_no++) {
        lk_var x, y, part;
        lk_tape_reset(tape);
        ASSERT_OK(lk_leaf(tape, t, grad, &x));
        ASSERT_OK(crossed(comm, x, &y));
        ASSERT_OK(lk_sum(y, NULL, &part));
        ASSERT_OK(lk_backward(tape, &(lk_seed){part, NULL}, 1, 0));
        blocks[step_no] = lk_tape_stats_of(tape).held_bytes;
    }
    ASSERT_EQ(blocks[3], blocks[1]);
    lk_tape_free(tape);
    lk_tensor_free(t);
    lk_tensor_free(grad);
}
