/* The control vector: every rank is heard, the loss has the bits of the tree over the pieces, and both
 * together are one collective call. */
#include "comm/comm.h"
#include "kernel/reference/reference.h"
#include "parallel/control.h"
#include "ranks.h"

enum { MOST_PIECES = 21 };

/* Something that rounds: sums of these differ with the order. */
static float loss_of(int64_t piece)
{
    return 1.0F / (float)(3 + 7 * piece);
}

static double tree_of(lk_dtype dtype, int64_t first, int64_t n)
{
    double loss[64];
    ASSERT_TRUE(n <= 64);
    for (int64_t i = 0; i < n; i++)
        loss[i] = (double)loss_of(first + i);
    return lk__ref_tree(dtype, loss, n);
}

/* The losses of the subtrees of a range. */
static void losses_of(int64_t pieces, lk_range range, lk_dtype dtype, double *out)
{
    lk_range node[LK_MAX_SUBTREES];
    int n = lk_range_subtrees(pieces, range, node);
    for (int k = 0; k < n; k++)
        out[k] = tree_of(dtype, node[k].first, node[k].n);
}

/* One loss. */
static lk_status exchange(lk__control *c, const lk__deal *deal, const double *own, double *total)
{
    lk__loss_sum sum = {.deal = *deal, .own = own};
    LK_TRY(lk__control_exchange(c, &sum, 1));
    *total = sum.total;
    return LK_OK;
}

static void expect_tree(lk_comm *comm, lk__control *c, lk_dtype dtype, const lk__deal *deal)
{
    int rank = lk_comm_rank(comm);
    double own[LK_MAX_SUBTREES] = {0}, total = 0, want = tree_of(dtype, 0, deal->shards);
    lk_range range = lk_range_split(deal->shards, rank, lk_comm_size(comm));
    if (deal->first)
        range = (lk_range){deal->first[rank], deal->first[rank + 1] - deal->first[rank]};
    losses_of(deal->shards, range, dtype, own);
    ASSERT_OK(exchange(c, deal, own, &total));
    ASSERT_EQ(memcmp(&total, &want, sizeof total), 0);
}

RANKS_TEST(the_loss_is_the_tree_over_the_pieces)
{
    int64_t first[9];
    for (int d = 0; d < 2; d++) {
        lk_dtype dtype = d ? LK_F64 : LK_F32;
        lk__control *even = NULL, *one = NULL;
        ASSERT_OK(lk__control_new(comm, dtype, 1, MOST_PIECES, &even));
        ASSERT_OK(lk__control_new(comm, dtype, 1, MOST_PIECES, &one));
        for (int64_t pieces = 1; pieces <= MOST_PIECES; pieces++) {
            lk_subtree_partition(pieces, lk_comm_size(comm), first);
            expect_tree(comm, even, dtype, &(lk__deal){.shards = pieces});
            expect_tree(comm, one, dtype, &(lk__deal){.shards = pieces, .first = first});
        }
        lk__control_free(even);
        lk__control_free(one);
    }
}

/* Nothing is written where there is no room; all ranks say so, and go on. */
RANKS_TEST(a_loss_of_more_numbers_than_there_is_room_for_is_refused)
{
    int size = lk_comm_size(comm);
    double own[LK_MAX_SUBTREES] = {0}, total = 0;
    int64_t first[9];
    lk__control *c = NULL;
    ASSERT_OK(lk__control_new(comm, LK_F32, 1, size, &c));
    for (int r = 0; r <= size; r++)
        first[r] = 3 * r;
    if (size > 1)
        ASSERT_FAILS(exchange(c, &(lk__deal){.shards = 3 * size, .first = first}, own, &total),
                     LK_EINVAL, "room for");
    lk_tiling tiling = {.tiles = {2, 1, 1}, .held = {{0, 2}, {0, 1}, {0, 1}}};
    lk__deal tiled = {.shards = size, .parts = size, .part = lk_comm_rank(comm), .tiling = &tiling};
    ASSERT_FAILS(exchange(c, &tiled, own, &total), LK_EINVAL, "room for");
    expect_tree(comm, c, LK_F32, &(lk__deal){.shards = size});
    lk__control_free(c);
}

/* One piece is rank 0's alone; the others have nothing to give but their votes. */
RANKS_TEST(a_rank_without_samples_is_heard)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    lk__control *c = NULL;
    double own = rank == 0 ? 2.5 : 0, total = 0;
    int64_t first[9] = {0};
    for (int r = 1; r <= size; r++)
        first[r] = 1;
    ASSERT_OK(lk__control_new(comm, LK_F32, 1, 8, &c));
    lk__control_vote(c, LK__VOTE_STOP, rank == size - 1);
    lk__control_vote(c, LK__VOTE_SAVED, true);
    ASSERT_OK(exchange(c, &(lk__deal){.shards = 1, .first = first}, &own, &total));
    ASSERT_TRUE(total == 2.5);
    ASSERT_EQ(lk__control_votes(c, LK__VOTE_STOP), 1);
    ASSERT_EQ(lk__control_votes(c, LK__VOTE_SAVED), size);
    ASSERT_EQ(lk__control_votes(c, LK__VOTE_FAILED), 0);
    ASSERT_OK(exchange(c, &(lk__deal){.shards = 1, .first = first}, &own, &total));
    ASSERT_EQ(lk__control_votes(c, LK__VOTE_STOP), 0);
    lk__control_free(c);
}

/* An evaluation exchanges losses after those of the step whose votes are yet to be read. */
RANKS_TEST(votes_wait_until_they_are_read)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    lk__control *c = NULL;
    double own[LK_MAX_SUBTREES] = {0}, total = 0;
    ASSERT_OK(lk__control_new(comm, LK_F32, 1, MOST_PIECES, &c));
    lk__control_vote(c, LK__VOTE_SAVED, rank == 0);
    lk__control_vote(c, LK__VOTE_STOP, true);
    for (int i = 0; i < 3; i++)
        ASSERT_OK(exchange(c, &(lk__deal){.shards = MOST_PIECES}, own, &total));
    lk__control_vote(c, LK__VOTE_SAVED, rank > 0);
    ASSERT_OK(exchange(c, &(lk__deal){.shards = MOST_PIECES}, own, &total));
    ASSERT_EQ(lk__control_votes(c, LK__VOTE_SAVED), size);
    ASSERT_EQ(lk__control_votes(c, LK__VOTE_SAVED), 0);
    ASSERT_EQ(lk__control_votes(c, LK__VOTE_STOP), size);
    lk__control_free(c);
}

RANKS_TEST(an_exchange_is_one_collective_call)
{
    lk__control *c = NULL;
    double own[LK_MAX_SUBTREES] = {0}, total = 0;
    ASSERT_OK(lk__control_new(comm, LK_F64, 1, MOST_PIECES, &c));
    int64_t before = comm->n_calls;
    ASSERT_OK(exchange(c, &(lk__deal){.shards = MOST_PIECES}, own, &total));
    ASSERT_EQ(comm->n_calls - before, 1);
    lk__control_free(c);
}

RANKS_TEST(this_rank_alone_hears_itself)
{
    lk__control *c = NULL;
    double own = 3, total = 0;
    (void)comm;
    ASSERT_OK(lk__control_new(NULL, LK_F32, 1, 4, &c));
    lk__control_vote(c, LK__VOTE_FAILED, true);
    ASSERT_OK(exchange(c, &(lk__deal){.shards = 4}, &own, &total));
    ASSERT_TRUE(total == 3 && lk__control_votes(c, LK__VOTE_FAILED) == 1);
    lk__control_free(c);
}
