/* Partial sums of a stream make the tree, whatever the number of pieces. */
#include "base/partials.h"
#include "harness.h"

#include <lockstep/pieces.h>

enum { MOST = 300 };

/* An operator that is neither commutative nor associative. */
static uint64_t joined(uint64_t older, uint64_t newer)
{
    return (older * 0x9e3779b97f4a7c15u) ^ (newer + 0x632be59bd9b4e019u);
}

static uint64_t piece_of(int64_t i)
{
    return (uint64_t)(i + 1) * 0xd1342543de82ef95u;
}

static uint64_t tree_of(int64_t first, int64_t n)
{
    if (n == 1)
        return piece_of(first);
    int64_t half = lk_tree_half(n);
    return joined(tree_of(first, half), tree_of(first + half, n - half));
}

static void chain_join(void **chain, int n)
{
    for (int i = 1; i < n; i++)
        *(uint64_t *)chain[i] = joined(*(uint64_t *)chain[i], *(uint64_t *)chain[i - 1]);
}

/* Returns the buffers that were needed. */
static int check(lk__partials *p, uint64_t *room, int64_t pieces, int used)
{
    void *chain[LK__CHAIN];
    p->n = 0;
    for (int64_t i = 0; i < pieces; i++) {
        uint64_t piece = piece_of(i);
        int n = lk__partials_chain(p, &piece, chain);
        chain_join(chain, n);
        ASSERT_EQ(piece, piece_of(i));
        if (n == 1) {
            if (!p->level[0])
                p->level[0] = &room[used++];
            *(uint64_t *)p->level[0] = piece;
        }
        lk__partials_carry(p);
    }
    int n = lk__partials_rest(p, chain);
    ASSERT_EQ(n, __builtin_popcountll((unsigned long long)pieces));
    if (n > 0) {
        chain_join(chain, n);
        ASSERT_TRUE(*(uint64_t *)chain[n - 1] == tree_of(0, pieces));
    }
    return used;
}

TEST(any_number_of_pieces_makes_the_tree)
{
    uint64_t room[16];
    lk__partials again = {0};
    int used = 0;
    for (int64_t pieces = 0; pieces <= MOST; pieces++)
        used = check(&again, room, pieces, used);
}

TEST(there_are_no_more_buffers_than_sums_at_one_time)
{
    for (int64_t pieces = 0; pieces <= MOST; pieces++) {
        uint64_t room[16];
        lk__partials p = {0};
        int most = 0; /* bits that are set in any number up to `pieces` */
        while ((INT64_C(2) << most) - 1 <= pieces)
            most++;
        ASSERT_EQ(check(&p, room, pieces, 0), most);
    }
}
