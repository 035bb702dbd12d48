/* Receives that leave dtype and shape to the message: what was sent arrives as it was. */
#include "ranks.h"

#include <lockstep/lockstep.h>

enum { TAG = 3, MOST = 6000 * 8 }; /* bytes */

static int right_of(const lk_comm *c)
{
    return (lk_comm_rank(c) + 1) % lk_comm_size(c);
}

static int left_of(const lk_comm *c)
{
    return (lk_comm_rank(c) + lk_comm_size(c) - 1) % lk_comm_size(c);
}

/* Byte `i` of what a rank sends: no pattern of one is that of another. */
static unsigned char pattern(int rank, int64_t i)
{
    return (unsigned char)(17 * rank + 31 * i + i / 256);
}

/* Isend to the right, receive from the left with what `how` leaves open: the bits are the left's. */
static void pass_on(lk_comm *c, lk_tape *tape, lk_dtype dtype, lk_shape shape, int how)
{
    static _Thread_local _Alignas(16) unsigned char mine[MOST], got[MOST], want[MOST];
    lk_var x, y, sent, received;
    int64_t count, bytes;
    ASSERT_OK(lk_shape_count(shape, &count));
    bytes = count * (int64_t)lk_dtype_size(dtype);
    ASSERT_TRUE(bytes <= MOST);
    for (int64_t i = 0; i < bytes; i++) {
        mine[i] = pattern(lk_comm_rank(c), i);
        want[i] = pattern(left_of(c), i);
    }
    ASSERT_OK(lk_constant_data(tape, dtype, shape, mine, &x));
    ASSERT_OK(lk_dist_irecv(tape, c, left_of(c), TAG, how & 1 ? LK_ANY_DTYPE : dtype,
                            how & 2 ? LK_ANY_SHAPE : shape, "parcel", &received));
    ASSERT_OK(lk_dist_isend(c, x, right_of(c), TAG, "parcel", &sent));
    ASSERT_OK(lk_dist_wait(received, &y));
    ASSERT_OK(lk_dist_wait(sent, NULL));
    ASSERT_TRUE(lk_dtype_of(y) == dtype && lk_shape_is_equal(lk_shape_of(y), shape));
    ASSERT_OK(lk_read(y, dtype, count, got));
    ASSERT_SAME_BITS(got, want, (size_t)bytes);
    lk_tape_reset(tape);
}

RANKS_TEST(any_dtype_and_shape_arrives_as_it_was)
{
    static const lk_shape shapes[] = {LK_DIMS(1),
                                      LK_DIMS(5),
                                      LK_DIMS(2, 3),
                                      LK_DIMS(0),
                                      LK_DIMS(3, 0, 2),
                                      LK_DIMS(6000),
                                      LK_DIMS(2, 3000),
                                      LK_DIMS(1, 1, 1, 1, 1, 1, 1, 2),
                                      LK_DIMS(2, 1, 127, 1, 1, 1, 2),
                                      LK_DIMS(128, 1, 2)};
    lk_tape *tape;
    ASSERT_OK(lk_tape_new(&tape));
    for (int dtype = 0; dtype < LK_N_DTYPES; dtype++)
        pass_on(comm, tape, (lk_dtype)dtype, LK_SHAPE(2, 3), 3);
    for (int how = 0; how < 4; how++) {
        pass_on(comm, tape, LK_F64, LK_SCALAR, how);
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
            pass_on(comm, tape, LK_F64, shapes[i], how);
    }
    lk_tape_free(tape);
}

/* An empty value may have sizes that nothing else has, and a name may leave no room for them. */
RANKS_TEST(the_shape_travels_before_the_name)
{
    const lk_shape shape = LK_SHAPE(INT64_MAX, 0, INT64_MAX, INT64_C(1) << 62, 5, INT64_MAX,
                                    INT64_MAX, INT64_MAX);
    const char *name = "a name of more than forty characters, of which the end is the part to keep";
    lk_tape *tape;
    lk_var x, y, sent, received;
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_full(tape, LK_U8, shape, 0, &x));
    ASSERT_OK(lk_dist_isend(comm, x, right_of(comm), TAG, name, &sent));
    ASSERT_OK(
        lk_dist_irecv(tape, comm, left_of(comm), TAG, LK_ANY_DTYPE, LK_ANY_SHAPE, name, &received));
    ASSERT_OK(lk_dist_wait(received, &y));
    ASSERT_OK(lk_dist_wait(sent, NULL));
    ASSERT_TRUE(lk_dtype_of(y) == LK_U8 && lk_shape_is_equal(lk_shape_of(y), shape));
    lk_tape_free(tape);
}

/* Rank r sends r + 1 numbers, each of them r + 1, with tag r; rank 0 gives each its own factor. */
RANKS_TEST(gradients_go_back_to_whoever_sent)
{
    enum { RANKS = 8 };
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    double x[RANKS], g[RANKS] = {0}, sum = 0;
    lk_tape *tape;
    lk_var v, y, total = LK_NO_VAR;
    for (int i = 0; i <= rank; i++)
        x[i] = rank + 1;
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_leaf_data(tape, LK_F64, LK_SHAPE(rank + 1), x, g, &v));
    if (rank > 0)
        ASSERT_OK(lk_dist_send(comm, v, 0, rank, "part", NULL));
    for (int r = 1; r < size && rank == 0; r++) {
        ASSERT_OK(lk_dist_recv(tape, comm, LK_ANY_RANK, LK_ANY_TAG, LK_ANY_DTYPE, LK_ANY_SHAPE,
                               "part", &y));
        int64_t n = lk_shape_of(y).dim[0];
        ASSERT_TRUE(lk_shape_of(y).ndim == 1 && n >= 2 && n <= size);
        ASSERT_OK(lk_sum(y, NULL, &y));
        ASSERT_OK(lk_affine(y, (double)(10 * n), 0, &y));
        if (lk_is_var(total))
            ASSERT_OK(lk_add(total, y, &y));
        total = y;
    }
    if (lk_is_var(total))
        ASSERT_OK(lk_item(total, &sum));
    ASSERT_OK(lk_backward(tape, &(lk_seed){.of = total}, lk_is_var(total), 0));
    for (int n = 2; n <= size && rank == 0; n++)
        sum -= 10.0 * n * n * n;
    ASSERT_EQ(sum, 0);
    for (int i = 0; i <= rank; i++)
        ASSERT_EQ(g[i], rank > 0 ? 10.0 * (rank + 1) : 0);
    lk_tape_free(tape);
}

/* Receives take messages in the order they were begun, whether they say what they want or not. */
RANKS_TEST(an_open_receive_keeps_its_turn)
{
    double x[3] = {1, 2, 3}, got;
    lk_tape *tape;
    lk_var v, y, sent[3], received[3];
    ASSERT_OK(lk_tape_new(&tape));
    for (int i = 0; i < 3; i++)
        ASSERT_OK(lk_dist_irecv(tape, comm, left_of(comm), TAG, i == 1 ? LK_F64 : LK_ANY_DTYPE,
                                i == 1 ? LK_SHAPE(1) : LK_ANY_SHAPE, "turn", &received[i]));
    for (int i = 0; i < 3; i++) {
        ASSERT_OK(lk_constant_data(tape, LK_F64, LK_SHAPE(1), &x[i], &v));
        ASSERT_OK(lk_dist_isend(comm, v, right_of(comm), TAG, "turn", &sent[i]));
    }
    for (int i = 2; i >= 0; i--) {
        ASSERT_OK(lk_dist_wait(received[i], &y));
        ASSERT_OK(lk_dist_wait(sent[i], NULL));
        ASSERT_OK(lk_read(y, LK_F64, 1, &got));
        ASSERT_EQ(got, i + 1);
    }
    lk_tape_free(tape);
}

RANKS_TEST(any_of_several_may_be_open)
{
    enum { N = 4, LARGE = 1500 };
    float x[LARGE];
    lk_tape *tape;
    lk_var v, y, sent[N], received[N];
    int which, seen = 0;
    ASSERT_OK(lk_tape_new(&tape));
    for (int i = 0; i < LARGE; i++)
        x[i] = (float)i;
    for (int i = 0; i < N; i++)
        ASSERT_OK(lk_dist_irecv(tape, comm, left_of(comm), i, LK_ANY_DTYPE, LK_ANY_SHAPE,
                                "one of several", &received[i]));
    for (int i = 0; i < N; i++) {
        ASSERT_OK(lk_constant_data(tape, LK_F32, LK_SHAPE(i % 2 ? LARGE : i + 1), x, &v));
        ASSERT_OK(lk_dist_isend(comm, v, right_of(comm), i, "one of several", &sent[i]));
    }
    for (int i = 0; i < N; i++) {
        float got[LARGE];
        ASSERT_OK(lk_dist_waitany(received, N, &which, &y));
        int64_t n = which % 2 ? LARGE : which + 1;
        seen |= 1 << which;
        received[which] = LK_NO_VAR;
        ASSERT_OK(lk_read(y, LK_F32, n, got));
        ASSERT_SAME_BITS(got, x, (size_t)n * sizeof *x);
    }
    ASSERT_EQ(seen, (1 << N) - 1);
    for (int i = 0; i < N; i++)
        ASSERT_OK(lk_dist_wait(sent[i], NULL));
    lk_tape_free(tape);
}

/* Who sends need not wait until the other waits for an open receive that it has begun. */
RANKS_TEST(open_receives_let_large_messages_go)
{
    enum { LARGE = 1500 };
    double x[LARGE], got[LARGE], g[LARGE] = {0};
    lk_tape *tape;
    lk_var v, y[3], sum, handle, sent;
    for (int i = 0; i < LARGE; i++)
        x[i] = i;
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_leaf_data(tape, LK_F64, LK_SHAPE(LARGE), x, g, &v));
    ASSERT_OK(lk_dist_irecv(tape, comm, left_of(comm), TAG, LK_F64, LK_ANY_SHAPE, "way", &handle));
    ASSERT_OK(lk_dist_isend(comm, v, right_of(comm), TAG, "way", &sent));
    ASSERT_OK(lk_dist_wait(sent, NULL));
    ASSERT_OK(lk_dist_wait(handle, &y[0]));
    ASSERT_OK(
        lk_dist_irecv(tape, comm, LK_ANY_RANK, TAG, LK_ANY_DTYPE, LK_SHAPE(LARGE), "way", &handle));
    ASSERT_OK(lk_dist_send(comm, v, right_of(comm), TAG, "way", NULL));
    ASSERT_OK(lk_dist_wait(handle, &y[1]));
    ASSERT_OK(lk_dist_sendrecv(tape, comm, &(lk_dist_send_arg){v, right_of(comm), TAG},
                               &(lk_dist_recv_arg){left_of(comm), TAG, LK_ANY_DTYPE, LK_ANY_SHAPE},
                               "way", &y[2]));
    for (int i = 0; i < 3; i++) {
        ASSERT_OK(lk_read(y[i], LK_F64, LARGE, got));
        ASSERT_SAME_BITS(got, x, sizeof x);
    }
    ASSERT_OK(lk_add(y[0], y[1], &sum));
    ASSERT_OK(lk_add(sum, y[2], &sum));
    ASSERT_OK(lk_sum(sum, NULL, &sum));
    ASSERT_OK(lk_backward(tape, &(lk_seed){.of = sum}, 1, 0));
    ASSERT_TRUE(g[0] == 3 && g[LARGE - 1] == 3);
    lk_tape_free(tape);
}

/* Elements that lk_send() has sent have no shape but their number. */
RANKS_TEST(plain_elements_are_a_vector)
{
    const double x[6] = {1, 2, 3, 4, 5, 6};
    double got[6];
    lk_tape *tape;
    lk_var y, handle;
    ASSERT_OK(lk_tape_new(&tape));
    for (int open = 0; open < 2; open++) {
        lk_request *request = NULL;
        lk_shape want = open ? LK_SHAPE(6) : LK_SHAPE(2, 3);
        ASSERT_OK(lk_isend(comm, x, 6, LK_F64, right_of(comm), TAG, "plain", &request));
        ASSERT_OK(lk_dist_irecv(tape, comm, left_of(comm), TAG, LK_F64, open ? LK_ANY_SHAPE : want,
                                "plain", &handle));
        ASSERT_OK(lk_dist_wait(handle, &y));
        ASSERT_OK(lk_wait(&request, NULL));
        ASSERT_TRUE(lk_shape_is_equal(lk_shape_of(y), want));
        ASSERT_OK(lk_read(y, LK_F64, 6, got));
        ASSERT_SAME_BITS(got, x, sizeof x);
    }
    lk_tape_free(tape);
}

/* The shape of a value is there for a plain receive, too. */
RANKS_TEST(a_message_says_its_shape)
{
    double x[6] = {1, 2, 3, 4, 5, 6}, got[6];
    lk_tape *tape;
    lk_var v, handle;
    lk_message info;
    lk_request *request = NULL;
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_constant_data(tape, LK_F64, LK_SHAPE(3, 2), x, &v));
    ASSERT_OK(lk_irecv(comm, got, 6, LK_F64, left_of(comm), TAG, "plain", &request));
    ASSERT_OK(lk_dist_isend(comm, v, right_of(comm), TAG, "plain", &handle));
    ASSERT_OK(lk_wait(&request, &info));
    ASSERT_OK(lk_dist_wait(handle, NULL));
    ASSERT_TRUE(info.count == 6 && info.ndim == 2 && info.dim[0] == 3 && info.dim[1] == 2);
    ASSERT_OK(lk_isend(comm, x, 6, LK_F64, right_of(comm), TAG, "plain", &request));
    ASSERT_OK(lk_recv(comm, got, 6, LK_F64, left_of(comm), TAG, "plain", &info));
    ASSERT_OK(lk_wait(&request, NULL));
    ASSERT_EQ(info.ndim, -1);
    lk_tape_free(tape);
}

struct around {
    lk_comm *comm;
    lk_var x;
};

static lk_status turn_round(lk_tape *tape, void *arg, lk_var *out)
{
    const struct around *a = arg;
    lk_var sent, received;
    LK_TRY(lk_dist_isend(a->comm, a->x, right_of(a->comm), TAG, "segment", &sent));
    LK_TRY(lk_dist_irecv(tape, a->comm, left_of(a->comm), TAG, LK_ANY_DTYPE, LK_ANY_SHAPE,
                         "segment", &received));
    LK_TRY(lk_dist_wait(received, out));
    LK_TRY(lk_dist_wait(sent, NULL));
    return LK_TRACE(lk_square(*out, out));
}

/* In a segment that backward runs again the message comes again. */
RANKS_TEST(a_segment_may_have_open_receives)
{
    double x[2] = {3.0 + lk_comm_rank(comm), 5}, g[2] = {0};
    lk_tape *tape;
    struct around a = {.comm = comm};
    lk_var y;
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_leaf_data(tape, LK_F64, LK_SHAPE(2), x, g, &a.x));
    ASSERT_OK(lk_recompute(tape, turn_round, &a, 1, &y));
    ASSERT_OK(lk_sum(y, NULL, &y));
    ASSERT_OK(lk_backward(tape, &(lk_seed){.of = y}, 1, 0));
    ASSERT_TRUE(g[0] == 2 * x[0] && g[1] == 10);
    lk_tape_free(tape);
}
