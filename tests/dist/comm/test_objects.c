/* Plain C objects from and to all ranks: ChainerMN's bcast_obj, gather_obj and allreduce_obj, for bytes. */
#include "coll/objects.h"
#include "ranks.h"

#include <limits.h>

enum { MOST_RANKS = 16, TEXT = 512 };

/* Byte i of an object of rank r. */
static unsigned char byte_of(int64_t r, int64_t i)
{
    return (unsigned char)(31 * r + 7 * i + i / 251);
}

static unsigned char *object_new(int r, int64_t n)
{
    unsigned char *bytes;
    ASSERT_OK(lk_alloc(&bytes, n, 1));
    for (int64_t i = 0; i < n; i++)
        bytes[i] = byte_of(r, i);
    return bytes;
}

static void expect_object(const unsigned char *bytes, int64_t n, int r, int64_t want)
{
    ASSERT_EQ(n, want);
    for (int64_t i = 0; i < n; i++)
        if (bytes[i] != byte_of(r, i))
            TEST_FAIL("byte %lld of the object of rank %d is %d", (long long)i, r, bytes[i]);
}

/* Sizes and pieces as ChainerMN's tests of bcast_obj have them. */
static const struct {
    int64_t n, most;
} broadcasts[] = {{10, 1}, {1024, 7}, {355678, 2378}, {234, INT_MAX - 1}, {0, 5}};

RANKS_TEST(pieces_of_any_length_give_the_object)
{
    int rank = lk_comm_rank(comm);
    for (size_t i = 0; i < sizeof broadcasts / sizeof broadcasts[0]; i++) {
        int root = (int)i % lk_comm_size(comm);
        int64_t n = broadcasts[i].n;
        unsigned char *bytes = object_new(rank, n);
        ASSERT_OK(lk__bcast_pieces(comm, bytes, n, broadcasts[i].most, root, "object"));
        expect_object(bytes, n, root, n);
        lk_free(bytes);
    }
}

RANKS_TEST(an_object_goes_from_any_root_to_all)
{
    int rank = lk_comm_rank(comm);
    for (int root = 0; root < lk_comm_size(comm); root++) {
        for (size_t i = 0; i < sizeof broadcasts / sizeof broadcasts[0]; i++) {
            int64_t n = broadcasts[i].n, got_n;
            unsigned char *bytes = object_new(rank, rank == root ? n : 0);
            void *got;
            ASSERT_OK(lk_bcast_bytes(comm, rank == root ? bytes : NULL, rank == root ? n : -7, root,
                                     "object", &got, &got_n));
            expect_object(got, got_n, root, n);
            lk_free(got);
            lk_free(bytes);
        }
    }
}

/* Rank r has an object of 100 r bytes, so that rank 0 has an empty one. */
RANKS_TEST(objects_of_different_sizes_are_gathered)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    int64_t first[MOST_RANKS + 1], n = INT64_C(100) * rank;
    unsigned char *bytes = object_new(rank, n);
    ASSERT_TRUE(size <= MOST_RANKS);
    for (int root = -1; root < size; root++) {
        void *all = &all;
        if (root < 0)
            ASSERT_OK(
                lk_allgather_bytes(comm, rank ? bytes : NULL, 100 * rank, "objects", &all, first));
        else
            ASSERT_OK(lk_gather_bytes(comm, bytes, n, root, "objects", &all, first));
        ASSERT_EQ(all != NULL, root < 0 || rank == root);
        ASSERT_EQ(first[0], 0);
        for (int r = 0; r < size; r++) {
            if (all)
                expect_object((unsigned char *)all + first[r], first[r + 1] - first[r], r,
                              INT64_C(100) * r);
        }
        lk_free(all);
    }
    lk_free(bytes);
}

/* ---- joined ---- */

/* "(a+b)": what was joined with what can be read. */
static lk_status join_texts(void *context, const void *a, int64_t n_a, const void *b, int64_t n_b,
                            void **out, int64_t *n)
{
    char *text;
    LK_CHECK(context != a, LK_EINVAL, "never");
    *n = n_a + n_b + 3;
    LK_TRY(lk_alloc(&text, *n, 1));
    text[0] = '(';
    memcpy(text + 1, a, (size_t)n_a);
    text[n_a + 1] = '+';
    memcpy(text + n_a + 2, b, (size_t)n_b);
    text[n_a + n_b + 2] = ')';
    *out = text;
    return LK_OK;
}

/* The tree over the ranks from `first` on, as its definition says. */
static void tree_text(int first, int n, char *text)
{
    if (n == 1) {
        sprintf(text + strlen(text), "%d", first);
        return;
    }
    int half = 1;
    while (2 * half < n)
        half *= 2;
    strcat(text, "(");
    tree_text(first, half, text);
    strcat(text, "+");
    tree_text(first + half, n - half, text);
    strcat(text, ")");
}

RANKS_TEST(objects_are_joined_by_the_tree_of_ranks)
{
    char own[16], want[TEXT] = "";
    void *got;
    int64_t n;
    tree_text(0, lk_comm_size(comm), want);
    int length = sprintf(own, "%d", lk_comm_rank(comm));
    ASSERT_OK(lk_allreduce_bytes(comm, own, length, join_texts, NULL, "texts", &got, &n));
    ASSERT_EQ(n, strlen(want));
    ASSERT_SAME_BITS(got, want, n);
    lk_free(got);
}

/* Lists of Python's sum: one behind the other, so that 0, 1, ... stay in order and none is lost. */
static lk_status join_lists(void *context, const void *a, int64_t n_a, const void *b, int64_t n_b,
                            void **out, int64_t *n)
{
    char *list;
    (void)context;
    LK_TRY(lk_alloc(&list, n_a + n_b, 1));
    if (n_a > 0)
        memcpy(list, a, (size_t)n_a);
    if (n_b > 0)
        memcpy(list + n_a, b, (size_t)n_b);
    *out = list;
    *n = n_a + n_b;
    return LK_OK;
}

RANKS_TEST(lists_are_joined_lower_ranks_first)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    int32_t own[MOST_RANKS];
    void *got;
    int64_t n = 4, at = 0;
    for (int i = 0; i < rank; i++)
        own[i] = 100 * rank + i;
    ASSERT_OK(lk_allreduce_bytes(comm, own, n * rank, join_lists, NULL, "lists", &got, &n));
    ASSERT_EQ(n, 4 * size * (size - 1) / 2);
    for (int r = 0; r < size; r++)
        for (int i = 0; i < r; i++)
            ASSERT_EQ(((int32_t *)got)[at++], 100 * r + i);
    lk_free(got);
}

/* ---- failures ---- */

/* A rank that gives no object fails as usual, the others with its words. */
RANKS_TEST(an_object_that_is_none_fails_on_all)
{
    int rank = lk_comm_rank(comm), last = lk_comm_size(comm) - 1;
    char words[64], x = 'x';
    int64_t n = rank == last ? -3 : 1, first[MOST_RANKS + 1], got_n;
    void *got;
    snprintf(words, sizeof words, "rank %d: an object of -3 bytes", last);
    if (rank == last)
        snprintf(words, sizeof words, "an object of -3 bytes");
    ASSERT_FAILS(lk_bcast_bytes(comm, &x, n, last, "x", &got, &got_n), LK_EINVAL, words);
    ASSERT_FAILS(lk_gather_bytes(comm, &x, n, 0, "x", &got, first), LK_EINVAL, words);
    ASSERT_FAILS(lk_allgather_bytes(comm, &x, n, "x", &got, first), LK_EINVAL, words);
    ASSERT_FAILS(lk_allreduce_bytes(comm, &x, n, join_lists, NULL, "x", &got, &got_n), LK_EINVAL,
                 words);
    ASSERT_TRUE(!got);
    ASSERT_OK(lk_barrier(comm, "and the ranks go on"));
}

RANKS_TEST(arguments_are_refused)
{
    int64_t n, first[MOST_RANKS + 1];
    void *got;
    ASSERT_FAILS(lk_bcast_bytes(comm, "x", 1, 0, "x", NULL, &n), LK_EINVAL, "out is NULL");
    ASSERT_FAILS(lk_bcast_bytes(comm, "x", 1, 0, "x", &got, NULL), LK_EINVAL, "n_out is NULL");
    ASSERT_FAILS(lk_bcast_bytes(comm, "x", 1, -1, "x", &got, &n), LK_EINVAL, "root -1");
    ASSERT_FAILS(lk_gather_bytes(comm, "x", 1, lk_comm_size(comm), "x", &got, first), LK_EINVAL,
                 "root");
    ASSERT_FAILS(lk_allgather_bytes(comm, "x", 1, "x", &got, NULL), LK_EINVAL, "first is NULL");
    ASSERT_FAILS(lk_allreduce_bytes(comm, "x", 1, NULL, NULL, "x", &got, &n), LK_EINVAL,
                 "join is NULL");
}

/* Fails where rank `*context` joins for the first time. */
static lk_status join_planted(void *context, const void *a, int64_t n_a, const void *b, int64_t n_b,
                              void **out, int64_t *n)
{
    LK_CHECK(!*(bool *)context, LK_ENOTSUP, "planted in a join");
    return join_lists(NULL, a, n_a, b, n_b, out, n);
}

static lk_status join_nothing(void *context, const void *a, int64_t n_a, const void *b, int64_t n_b,
                              void **out, int64_t *n)
{
    (void)context, (void)a, (void)n_a, (void)b, (void)n_b, (void)out, (void)n;
    return LK_OK;
}

/* Rank 0 joins last, rank 2 in the middle: whoever fails, all do. */
RANKS_TEST(a_join_that_fails_fails_on_all)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    void *got;
    int64_t n;
    for (int who = 0; who + 1 < size; who += 2) {
        bool fails = rank == who;
        ASSERT_FAILS(lk_allreduce_bytes(comm, "x", 1, join_planted, &fails, "x", &got, &n),
                     LK_ENOTSUP, "planted in a join");
        ASSERT_TRUE(!got && n == 0);
    }
    if (size > 1)
        ASSERT_FAILS(lk_allreduce_bytes(comm, "x", 1, join_nothing, NULL, "x", &got, &n), LK_EINVAL,
                     "joined are 0 bytes at");
}
