/* Receives that take dtype or shape from the message, misused: errors that name both, and no hang. */
#include "comm/user.h"
#include "faults.h"

#include <lockstep/lockstep.h>

enum { TAG = 1, LARGE = 5000 }; /* more elements than are buffered */

/* What rank 0 sends, and what rank 1 asks for. */
struct exchange {
    lk_shape sent;
    lk_dtype dtype;
    lk_shape shape;
    bool later; /* irecv */
};

static lk_status receive(lk_tape *tape, lk_comm *comm, const struct exchange *e, lk_var *out)
{
    lk_var handle;
    if (!e->later) {
        return LK_TRACE(lk_dist_recv(tape, comm, 0, TAG, e->dtype, e->shape, "parcel", out));
    }
    LK_TRY(lk_dist_irecv(tape, comm, 0, TAG, e->dtype, e->shape, "parcel", &handle));
    return LK_TRACE(lk_dist_wait(handle, out));
}

static lk_status rank_exchanges(lk_comm *comm, void *arg)
{
    const struct exchange *e = arg;
    lk_status st;
    lk_tape *tape = NULL;
    lk_var x, y;
    LK_TRY_TO(done, lk_comm_set_deadline(comm, 5));
    LK_TRY_TO(done, lk_tape_new(&tape));
    LK_TRY_TO(done, lk_full(tape, LK_F64, e->sent, 1, &x));
    if (lk_comm_rank(comm) == 0)
        LK_TRY_TO(done, lk_dist_send(comm, x, 1, TAG, "parcel", NULL));
    else
        LK_TRY_TO(done, receive(tape, comm, e, &y));
done:
    lk_tape_free(tape);
    return st;
}

static lk_status exchange(lk_shape sent, lk_dtype dtype, lk_shape shape, bool later)
{
    struct exchange e = {sent, dtype, shape, later};
    return lk_run_local(2, rank_exchanges, &e);
}

TEST(another_shape_is_named)
{
    for (int later = 0; later < 2; later++) {
        const lk_shape sent = LK_SHAPE(2, 3);
        ASSERT_OK(exchange(sent, LK_F64, sent, later));
        ASSERT_OK(exchange(sent, LK_ANY_DTYPE, sent, later));
        ASSERT_OK(exchange(sent, LK_F64, LK_ANY_SHAPE, later));
        ASSERT_FAILS(exchange(sent, LK_F64, LK_SHAPE(3, 2), later), LK_ESHAPE, " of f64[3,2]: ");
        ASSERT_FAILS(exchange(sent, LK_F64, LK_SHAPE(6), later), LK_ESHAPE, "has sent f64[2,3]");
        ASSERT_FAILS(exchange(sent, LK_F64, LK_SHAPE(7), later), LK_ESHAPE, "has sent f64[2,3]");
        ASSERT_FAILS(exchange(sent, LK_F64, LK_SHAPE(5), later), LK_EMISMATCH,
                     "rank 0 calls send(\"parcel\", f64 x 6, tag 1) but rank 1 calls "
                     "recv(\"parcel\", f64 x 5, tag 1)");
        ASSERT_FAILS(exchange(sent, LK_ANY_DTYPE, LK_SHAPE(3, 2), later), LK_ESHAPE,
                     later ? "irecv(\"parcel\") from rank 0 of [3,2]: it has sent f64[2,3]"
                           : "recv(\"parcel\") from rank 0 of [3,2]: it has sent f64[2,3]");
    }
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

TEST(another_dtype_is_named)
{
    for (int later = 0; later < 2; later++)
        ASSERT_FAILS(exchange(LK_SHAPE(2, 3), LK_F32, LK_ANY_SHAPE, later), LK_EMISMATCH,
                     "rank 0 calls send(\"parcel\", f64 x 6, tag 1) but rank 1 calls "
                     "recv(\"parcel\", f32 x 6, tag 1)");
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

/* Rank 1 asks for what cannot be; nothing is received. */
static lk_status asks_for_nonsense(lk_comm *comm, void *arg)
{
    lk_tape *tape;
    lk_var y;
    (void)arg;
    ASSERT_OK(lk_tape_new(&tape));
    if (lk_comm_rank(comm) == 1) {
        ASSERT_FAILS(lk_dist_recv(tape, comm, 0, TAG, (lk_dtype)99, LK_ANY_SHAPE, "x", &y),
                     LK_EDTYPE, "99 is no dtype");
        ASSERT_TRUE(!lk_is_var(y));
        ASSERT_FAILS(lk_dist_recv(tape, comm, 0, TAG, LK_ANY_DTYPE, LK_SHAPE(-3), "x", &y),
                     LK_EINVAL, "-3");
        ASSERT_FAILS(lk_dist_recv(tape, comm, 0, TAG, LK_ANY_DTYPE, LK_ANY_SHAPE, "x", NULL),
                     LK_EINVAL, "out is NULL");
        ASSERT_FAILS(lk_dist_recv(NULL, comm, 0, TAG, LK_ANY_DTYPE, LK_ANY_SHAPE, "x", &y),
                     LK_EINVAL, "no tape");
        ASSERT_FAILS(lk_dist_irecv(tape, comm, 7, TAG, LK_ANY_DTYPE, LK_ANY_SHAPE, "x", &y),
                     LK_EINVAL, "rank 7 of 2");
        ASSERT_FAILS(lk_full(tape, LK_ANY_DTYPE, LK_SHAPE(1), 0, &y), LK_EDTYPE, "");
        ASSERT_FAILS(lk_full(tape, LK_F64, LK_ANY_SHAPE, 0, &y), LK_EINVAL, "");
    }
    lk_tape_free(tape);
    return LK_OK;
}

TEST(what_cannot_be_received_is_refused)
{
    ASSERT_OK(lk_run_local(2, asks_for_nonsense, NULL));
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

/* A message whose sizes are not those of its elements. */
static lk_status rank_lies(lk_comm *comm, void *arg)
{
    const int64_t *dim = arg;
    const double x[6] = {0};
    lk_status st;
    lk_tape *tape = NULL;
    lk_request *request = NULL;
    lk_var y;
    LK_TRY_TO(done, lk_comm_set_deadline(comm, 5));
    LK_TRY_TO(done, lk_tape_new(&tape));
    if (lk_comm_rank(comm) == 0) {
        lk__array a = {.data = x, .count = 6, .dtype = LK_F64, .ndim = 2, .dim = dim};
        LK_TRY_TO(done, lk__isend_array(comm, &a, 1, TAG, "lie", &request));
        LK_TRY_TO(done, lk_wait(&request, NULL));
    } else {
        LK_TRY_TO(done, lk_dist_recv(tape, comm, 0, TAG, LK_F64,
                                     dim[2] ? LK_SHAPE(2, 3) : LK_ANY_SHAPE, "lie", &y));
    }
done:
    lk_tape_free(tape);
    return st;
}

TEST(a_shape_that_its_elements_do_not_fill_is_not_believed)
{
    static const int64_t lies[][2] = {
        {2, 4}, {1, 5}, {0, 6}, {INT64_MAX, INT64_MAX}, {INT64_C(1) << 32, INT64_C(1) << 32}};
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++)
        for (int given = 0; given < 2; given++)
            ASSERT_FAILS(lk_run_local(2, rank_lies, (int64_t[]){lies[i][0], lies[i][1], given}),
                         LK_ECOMM, "rank 0 has sent 6 elements as [");
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

/* Rank 0 sends, rank 1 begins an open receive and resets, or frees the tape, without a wait. */
static lk_status rank_forgets(lk_comm *comm, void *arg)
{
    int64_t n = *(const int64_t *)arg;
    lk_status st;
    lk_tape *tape = NULL;
    lk_var x, handle;
    LK_TRY_TO(done, lk_comm_set_deadline(comm, 5));
    LK_TRY_TO(done, lk_tape_new(&tape));
    LK_TRY_TO(done, lk_full(tape, LK_F64, LK_SHAPE(n), 1, &x));
    if (lk_comm_rank(comm) == 0) {
        LK_TRY_TO(done, lk_dist_send(comm, x, 1, TAG, "parcel", NULL));
    } else {
        LK_TRY_TO(done,
                  lk_dist_irecv(tape, comm, 0, TAG, LK_ANY_DTYPE, LK_ANY_SHAPE, "parcel", &handle));
        lk_tape_reset(tape);
    }
    LK_TRY_TO(done, lk_dist_barrier(tape, comm, "next"));
done:
    lk_tape_free(tape);
    return st;
}

TEST(an_open_receive_that_nobody_waits_for_is_told_to_all)
{
    for (int64_t n = 1; n <= LARGE; n += LARGE - 1)
        ASSERT_FAILS(lk_run_local(2, rank_forgets, &n), LK_ESTATE,
                     "rank 1 has reset the tape before it has waited for irecv(\"parcel\") from "
                     "rank 0");
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

/* Both directions, second derivatives, and a list, of which the receivers know nothing. */
static lk_status rank_works(lk_comm *comm, void *arg)
{
    static const double data[LARGE] = {2, 3};
    int other = 1 - lk_comm_rank(comm);
    lk_status st;
    lk_tape *tape = NULL;
    lk_var x, y, g, sum, out, in, pair[2], got[2];
    lk_list list = {got, 0, 2};
    (void)arg;
    LK_TRY_TO(done, lk_comm_set_deadline(comm, 5));
    LK_TRY_TO(done, lk_tape_new(&tape));
    LK_TRY_TO(done, lk_leaf_data(tape, LK_F64, LK_SHAPE(LARGE), data, NULL, &x));
    LK_TRY_TO(done, lk_dist_isend(comm, x, other, TAG, "x", &out));
    LK_TRY_TO(done, lk_dist_irecv(tape, comm, other, TAG, LK_ANY_DTYPE, LK_ANY_SHAPE, "x", &in));
    LK_TRY_TO(done, lk_dist_wait(in, &y));
    LK_TRY_TO(done, lk_dist_wait(out, NULL));
    LK_TRY_TO(done, lk_square(y, &y));
    LK_TRY_TO(done, lk_sum(y, NULL, &sum));
    LK_TRY_TO(done, lk_grad(tape, &sum, NULL, 1, &x, 1, LK_RECORD, &g));
    pair[0] = y;
    pair[1] = g;
    if (other == 1)
        LK_TRY_TO(done, lk_dist_send_list(comm, pair, 2, other, TAG, "pair", NULL));
    else
        LK_TRY_TO(done, lk_dist_recv_list(tape, comm, other, TAG, "pair", &list));
    LK_TRY_TO(done, lk_sum(g, NULL, &sum));
    LK_TRY_TO(done, lk_backward(tape, &(lk_seed){.of = sum}, 1, 0));
done:
    lk_tape_free(tape);
    return st;
}

static lk_status two_ranks_work(void)
{
    return lk_run_local(2, rank_works, NULL);
}

TEST(every_allocation_may_fail)
{
    ASSERT_OK(two_ranks_work());
    ASSERT_TRUE(test_every_allocation_fails(two_ranks_work) > 30);
}
