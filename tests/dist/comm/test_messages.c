/* Messages between ranks: order, tags, sizes on both sides of the eager limit, requests, objects. */
#include "ranks.h"

#include <lockstep/coll.h>

static const int64_t sizes[] = {0, 1, 1000, 1024, 1025, 2048, 2049, 300000};

enum { N_SIZES = sizeof sizes / sizeof sizes[0] };

static float *ramp(int64_t n, float from)
{
    float *x;
    ASSERT_OK(lk_alloc(&x, n, sizeof *x));
    for (int64_t i = 0; i < n; i++)
        x[i] = from + (float)i;
    return x;
}

RANKS_TEST(a_ring_passes_everything_on)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    int next = (rank + 1) % size, before = (rank + size - 1) % size;
    for (int k = 0; k < N_SIZES; k++) {
        int64_t n = sizes[k];
        float *out = ramp(n, (float)rank), *in = ramp(n, -1), *want = ramp(n, (float)before);
        lk_sendrecv_side send = {out, n, next, 7}, recv = {in, n, before, 7};
        lk_message info;
        ASSERT_OK(lk_sendrecv(comm, LK_F32, &send, &recv, "ring", &info));
        ASSERT_EQ(info.rank, before);
        ASSERT_EQ(info.count, n);
        ASSERT_EQ(info.tag, 7);
        ASSERT_EQ(info.sequence, k);
        ASSERT_SAME_BITS(in, want, n * 4);
        lk_free(out);
        lk_free(in);
        lk_free(want);
    }
}

RANKS_TEST(a_border_has_no_partner)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm), mine = rank, got = -5;
    lk_sendrecv_side send = {&mine, 1, rank + 1 < size ? rank + 1 : -1, 0},
                     recv = {&got, 1, rank - 1, 0};
    ASSERT_OK(lk_sendrecv(comm, LK_I32, &send, &recv, "border", NULL));
    ASSERT_EQ(got, rank > 0 ? rank - 1 : -5);
}

/* Tags choose the message, whatever the order it was sent in; large numbers are fine. */
RANKS_TEST(tags_choose_the_message)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    const int64_t far = INT64_C(1) << 60;
    enum { N = 5 };
    lk_request *send[N] = {NULL}, *recv[N] = {NULL};
    int64_t value[N], got[N];
    for (int i = 0; i < N; i++) {
        value[i] = 100 * rank + i;
        ASSERT_OK(
            lk_isend(comm, &value[i], 1, LK_I64, (rank + 1) % size, far + i, "tag", &send[i]));
    }
    for (int i = N - 1; i >= 0; i--)
        ASSERT_OK(lk_irecv(comm, &got[i], 1, LK_I64, LK_ANY_RANK, far + i, "tag", &recv[i]));
    for (int left = N; left > 0; left--) {
        int64_t which;
        lk_message info;
        ASSERT_OK(lk_waitany(N, recv, &which, &info));
        ASSERT_EQ(got[which], 100 * ((rank + size - 1) % size) + which);
        ASSERT_EQ(info.tag, far + which);
        ASSERT_EQ(info.sequence, which);
        ASSERT_TRUE(recv[which] == NULL);
    }
    int64_t which;
    ASSERT_OK(lk_waitany(N, recv, &which, NULL));
    ASSERT_EQ(which, -1);
    ASSERT_OK(lk_waitall(N, send));
    for (int i = 0; i < N; i++)
        ASSERT_TRUE(send[i] == NULL);
}

/* Everybody sends to rank 0, which takes whatever comes; from each sender in order. */
RANKS_TEST(any_source_keeps_the_order_of_each)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    enum { EACH = 20 };
    if (rank > 0)
        for (int i = 0; i < EACH; i++)
            ASSERT_OK(lk_send(comm, &i, 1, LK_I32, 0, i % 3, "any"));
    int next[8] = {0};
    for (int k = 0; rank == 0 && k < EACH * (size - 1); k++) {
        int value;
        lk_message info;
        ASSERT_OK(lk_recv(comm, &value, 1, LK_I32, LK_ANY_RANK, LK_ANY_TAG, "any", &info));
        ASSERT_TRUE(info.rank > 0 && info.rank < size);
        ASSERT_EQ(value, next[info.rank]++);
        ASSERT_EQ(info.tag, value % 3);
    }
}

RANKS_TEST(test_says_when_it_is_done)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    enum { N = 50000 };
    float *out = ramp(N, (float)rank), *in = ramp(N, 0);
    lk_request *r[2] = {NULL};
    ASSERT_OK(lk_irecv(comm, in, N, LK_F32, (rank + size - 1) % size, 0, "test", &r[0]));
    ASSERT_OK(lk_isend(comm, out, N, LK_F32, (rank + 1) % size, 0, "test", &r[1]));
    for (int left = 2; left > 0;) {
        for (int i = 0; i < 2; i++) {
            bool done = false, was = r[i] == NULL;
            ASSERT_OK(lk_test(&r[i], &done, NULL));
            ASSERT_EQ(done, r[i] == NULL);
            left -= done && !was;
        }
    }
    ASSERT_TRUE(in[N - 1] == (float)((rank + size - 1) % size + N - 1));
    lk_free(out);
    lk_free(in);
}

RANKS_TEST(objects_bring_their_size)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    char text[64];
    snprintf(text, sizeof text, "an object of rank %d%*s", rank, rank, "");
    if (rank > 0)
        ASSERT_OK(lk_send_bytes(comm, text, (int64_t)strlen(text) + 1, 0, 3, "object"));
    for (int r = 1; rank == 0 && r < size; r++) {
        void *got;
        int64_t n;
        snprintf(text, sizeof text, "an object of rank %d%*s", r, r, "");
        ASSERT_OK(lk_recv_bytes(comm, r, 3, "object", &got, &n));
        ASSERT_EQ(n, strlen(text) + 1);
        ASSERT_TRUE(strcmp(got, text) == 0);
        lk_free(got);
    }
}

/* Objects as only a program that is wrong sends them: a length that is none, or too long. */
RANKS_TEST(a_length_is_not_believed)
{
    static const int64_t lengths[] = {4, -5, INT64_MIN};
    if (lk_comm_size(comm) < 2 || lk_comm_rank(comm) > 1)
        return;
    for (int i = 0; i < 4; i++) {
        int64_t n;
        void *block = NULL;
        if (lk_comm_rank(comm) == 0) {
            ASSERT_OK(lk_send(comm, i < 3 ? &lengths[i] : NULL, i < 3, LK_I64, 1, i, "object"));
            if (i == 0)
                ASSERT_OK(lk_send(comm, "ab", 2, LK_U8, 1, i, "object"));
        } else {
            ASSERT_FAILS(lk_recv_bytes(comm, 0, i, "object", &block, &n), LK_EMISMATCH,
                         i == 0 ? "rank 0 has sent 2 bytes of 4"
                                : "what rank 0 sends is no object");
            ASSERT_TRUE(!block && n == 0);
        }
    }
}

RANKS_TEST(bad_arguments_are_refused)
{
    float x = 1;
    int size = lk_comm_size(comm);
    ASSERT_FAILS(lk_send(comm, &x, 1, LK_F32, size, 0, "w"), LK_EINVAL, "send(\"w\"): rank");
    ASSERT_FAILS(lk_send(comm, &x, 1, LK_F32, LK_ANY_RANK, 0, "w"), LK_EINVAL, "rank -1");
    ASSERT_FAILS(lk_send(comm, &x, 1, LK_F32, 0, -1, "w"), LK_EINVAL, "tag -1");
    ASSERT_FAILS(lk_recv(comm, &x, -1, LK_F32, 0, 0, "w", NULL), LK_EINVAL, "-1 elements");
    ASSERT_FAILS(lk_recv(comm, NULL, 1, LK_F32, 0, 0, "w", NULL), LK_EINVAL, "NULL");
    ASSERT_FAILS(lk_recv(comm, &x, 1, LK_N_DTYPES, 0, 0, "w", NULL), LK_EDTYPE, "dtype");
    ASSERT_FAILS(lk_recv(comm, &x, INT64_MAX, LK_F32, 0, 0, "w", NULL), LK_EOVERFLOW,
                 "9223372036854775807 elements of 4 bytes are no memory");
    ASSERT_FAILS(lk_send(comm, &x, INT64_C(1) << 60, LK_U8, 0, 0, "w"), LK_EOVERFLOW, "no memory");
    ASSERT_FAILS(lk_allreduce(comm, NULL, &x, INT64_C(1) << 60, LK_U8, LK_REDUCE_SUM, "w"),
                 LK_EOVERFLOW, "allreduce: 1152921504606846976 elements of 1 bytes are no memory");
}
