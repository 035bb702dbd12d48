/* A small state that tests save and load: what it holds follows from its step. */
#ifndef LK_TEST_CHECKPOINTS_H
#define LK_TEST_CHECKPOINTS_H

#include "harness.h"

#include <lockstep/checkpoint.h>
#include <lockstep/extra/alloc.h>

enum { STATE_TENSORS = 5, STATE_NUMBERS = 3, STATE_IDENTITY = 0x1234 };

typedef struct test_state {
    float weight[7][11];
    double moment[13];
    int64_t count[1];
    uint8_t mask[129];
    lk_state_tensor tensor[STATE_TENSORS];
    lk_state_number number[STATE_NUMBERS];
    lk_state state;
} test_state;

/* What the elements are at a step. */
static inline void test_state_fill(test_state *s, int64_t step)
{
    for (int i = 0; i < 77; i++)
        s->weight[i / 11][i % 11] = (float)(step * 1000 + i) / 7;
    for (int i = 0; i < 13; i++)
        s->moment[i] = (double)(step * 100 + i) / 3;
    s->count[0] = step * step;
    for (int i = 0; i < 129; i++)
        s->mask[i] = (uint8_t)(step + INT64_C(31) * i);
    s->number[0] = lk_state_i64("seen", -step - 1);
    s->number[1] = lk_state_f64("best loss", step == 0 ? (double)NAN : 1.0 / (double)(3 * step));
    s->number[2] = lk_state_f64("scale", -0.0);
    s->state.step = step;
    s->state.hash = 0xabc0000000000000U + (uint64_t)step;
}

static inline lk_state *test_state_at(test_state *s, int64_t step)
{
    static const lk_metadata fact = {"note", "a \"fact\""};
    memset(s, 0, sizeof *s);
    s->tensor[0] = (lk_state_tensor){"fc1.weight", LK_F32, LK_DIMS(7, 11), s->weight, NULL, NULL};
    s->tensor[1] = (lk_state_tensor){"optimizer/moment", LK_F64, LK_DIMS(13),
                                     s->moment,          NULL,   NULL};
    s->tensor[2] = (lk_state_tensor){"count", LK_I64, {.ndim = 0}, s->count, NULL, NULL};
    s->tensor[3] = (lk_state_tensor){"m\xc3\xa4sk", LK_U8, LK_DIMS(3, 43), s->mask, NULL, NULL};
    s->tensor[4] = (lk_state_tensor){"empty", LK_F32, LK_DIMS(4, 0), NULL, NULL, NULL};
    s->state = (lk_state){.tensor = s->tensor,
                          .n_tensors = STATE_TENSORS,
                          .number = s->number,
                          .n_numbers = STATE_NUMBERS,
                          .metadata = &fact,
                          .n_metadata = 1};
    test_state_fill(s, step);
    return &s->state;
}

static inline bool same_bits(const void *a, const void *b, size_t bytes)
{
    return memcmp(a, b, bytes) == 0;
}

/* Both hold the same, to the bit. */
static inline bool test_state_equal(const test_state *a, const test_state *b)
{
    bool same = same_bits(a->weight, b->weight, sizeof a->weight) &&
                same_bits(a->moment, b->moment, sizeof a->moment) && a->count[0] == b->count[0] &&
                same_bits(a->mask, b->mask, sizeof a->mask) && a->state.step == b->state.step &&
                a->state.hash == b->state.hash;
    for (int i = 0; same && i < STATE_NUMBERS; i++)
        same = a->number[i].dtype == LK_I64
                   ? a->number[i].i64 == b->number[i].i64
                   : same_bits(&a->number[i].f64, &b->number[i].f64, sizeof(double));
    return same;
}

/* `s` is the state of this step, and of no other. */
static inline void test_state_expect(const test_state *s, int64_t step)
{
    test_state want;
    test_state_at(&want, step);
    ASSERT_EQ(s->state.step, step);
    ASSERT_TRUE(test_state_equal(s, &want));
}

/* Options with parts so small that the state has three. */
static inline lk_checkpoint_dir_options test_options(int64_t keep)
{
    return (lk_checkpoint_dir_options){.identity = STATE_IDENTITY, .keep = keep, .part_bytes = 112};
}

/* The newest is that of this step; -1: there is none. */
static inline void test_newest_expect(lk_checkpoint_dir *c, int64_t step)
{
    test_state s;
    bool found;
    test_state_at(&s, 999);
    ASSERT_OK(lk_checkpoint_dir_load(c, &s.state, &found));
    ASSERT_EQ(found, step >= 0);
    test_state_expect(&s, found ? step : 999);
}

#endif /* LK_TEST_CHECKPOINTS_H */
