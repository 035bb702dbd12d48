/* The hash of a state that ranks hold in parts is that of the whole, whoever holds what of it. */
#include "held_models.h"
#include "ranks.h"

#include <lockstep/coll.h>

static const held_size small = {16, 40};

enum { SEED = 3 };

RANKS_TEST(parts_have_the_hash_of_the_whole)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    uint64_t want = held_hash_of_whole(small, SEED, true);
    held_model h = held_make(small, SEED, held_blocks(rank, size), true);
    ASSERT_TRUE(held_hash_by_blocks(small, SEED, true) == want);
    ASSERT_TRUE(held_hash(comm, &h) == want);
    if (rank == 0)
        ((float *)h.all->tensor[2].data)[0] += 1;
    ASSERT_TRUE(held_hash(comm, &h) != want);
    held_free(&h);
}

/* Blocks that several hold: all of them, the same ones by pairs, or some of the next rank's too. */
RANKS_TEST(what_several_hold_is_counted_once)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    uint64_t want = held_hash_of_whole(small, SEED, true);
    for (int how = 0; how < 3; how++) {
        lk_range blocks = held_blocks(rank / 2, (size + 1) / 2);
        if (how == 0)
            blocks = (lk_range){0, HELD_BLOCKS};
        else if (how == 2) {
            lk_range next = held_blocks(rank + 1 < size ? rank + 1 : rank, size);
            blocks = held_blocks(rank, size);
            blocks.n = next.first + next.n - blocks.first;
        }
        held_model h = held_make(small, SEED, blocks, true);
        ASSERT_TRUE(held_hash(comm, &h) == want);
        held_free(&h);
    }
}

/* One rank has all and the others nothing, seen with any axes; of a scalar too. */
RANKS_TEST(ranks_that_hold_nothing_count_nothing)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    float data[24] = {1, 2, 3}, one = 4;
    lk_shape flat = LK_SHAPE(24), single = LK_SHAPE(1);
    lk_box nothing = {.ndim = 1};
    lk_state_tensor t[] = {
        {.name = "gates", .dtype = LK_F32, .shape = LK_SHAPE(2, 12), .data = data},
        {.name = "scalar", .dtype = LK_F32, .shape = LK_SCALAR, .data = &one}};
    lk_hash want = lk_hash_start(), h = lk_hash_start();
    for (int i = 0; i < 2; i++)
        ASSERT_OK(lk_hash_add_array(&want, t[i].name, LK_F32, t[i].shape.ndim, t[i].shape.dim,
                                    t[i].data));
    if (rank < size - 1)
        for (int i = 0; i < 2; i++) {
            t[i].box = &nothing;
            t[i].box_of = i == 0 ? &flat : &single;
            t[i].data = NULL;
        }
    ASSERT_OK(lk_state_hash(comm, t, 2, &h));
    ASSERT_TRUE(lk_hash_value(&h) == lk_hash_value(&want));
    ASSERT_OK(lk_state_hash(comm, NULL, 0, &h));
    ASSERT_TRUE(lk_hash_value(&h) == lk_hash_value(&want));
}

RANKS_TEST(what_cannot_be_hashed_is_named)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    float data[24] = {0};
    lk_shape gates = LK_SHAPE(2, 3, 4), other = LK_SHAPE(2, 4, 3), wrong = LK_SHAPE(25);
    lk_box first = {3, {0, 0, 0}, {2, 3, 2}}, out = {3, {0, 0, 3}, {2, 3, 2}};
    lk_state_tensor t = {"gates", LK_F32, LK_SHAPE(2, 12), data, &first, &gates};
    lk_hash h = lk_hash_start(), before = h;
    ASSERT_FAILS(lk_state_hash(comm, &t, 1, &h), LK_EINVAL,
                 "tensor \"gates\" [2,3,4]: no rank holds its element [0,0,2]");
    t.box = &out;
    ASSERT_FAILS(
        lk_state_hash(comm, &t, 1, &h), LK_ESHAPE,
        "tensor \"gates\" is [2,3,4], its box of [2,3,2] from [0,0,3] on is not within it");
    t.box = NULL;
    t.box_of = &wrong;
    ASSERT_FAILS(lk_state_hash(comm, &t, 1, &h), LK_ESHAPE,
                 "tensor \"gates\" is [2,12], but its box one of [25]");
    if (size > 1) {
        t.box = &first;
        t.box_of = rank == size - 1 ? &other : &gates;
        ASSERT_FAILS(lk_state_hash(comm, &t, 1, &h), LK_ESHAPE, "but with other axes on another");
        t.name = rank == size - 1 ? "bias" : "gates";
        t.box = NULL;
        t.box_of = NULL;
        ASSERT_FAILS(lk_state_hash(comm, &t, 1, &h), LK_ESTATE, "not those of rank 0");
    }
    ASSERT_SAME_BITS(&h, &before, sizeof h);
}
