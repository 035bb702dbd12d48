/* Notes of first runs that second runs take. */
#include "base/journal.h"
#include "harness.h"

#include <lockstep/extra/alloc.h>

#include <string.h>

static const lk__journal_key red = {{1, 2}}, blue = {{1, 3}};

static int64_t note(lk__journal_key key, int64_t value)
{
    int64_t place;
    ASSERT_OK(lk__journal_add(key, &place));
    lk__journal_write(place, value, -value);
    return place;
}

/* The value of the next note, or -1. */
static int64_t take(lk__journal_key key)
{
    int64_t v[2];
    if (!lk__journal_take(key, v))
        return -1;
    ASSERT_TRUE(v[1] == -v[0]);
    return v[0];
}

/* A copy of the notes since `begin`, as a tape keeps it. */
static lk__journal keep(int64_t begin, lk__journal_entry *room)
{
    lk__journal j = lk__journal_since(begin);
    if (j.n > 0)
        memcpy(room, j.entry, (size_t)j.n * sizeof *room);
    j.entry = room;
    return j;
}

TEST(notes_are_taken_by_key_in_their_order)
{
    lk__journal_entry room[8];
    int64_t begin = lk__journal_begin();
    note(red, 1);
    note(blue, 2);
    note(red, 3);
    lk__journal j = keep(begin, room);
    lk__journal_end();
    for (int pass = 0; pass < 2; pass++) {
        lk__journal_read(&j);
        ASSERT_TRUE(lk__journal_repeats());
        ASSERT_EQ(take(blue), 2); /* one that is not asked for stops nobody */
        ASSERT_EQ(take(blue), -1);
        ASSERT_EQ(take(red), 1);
        ASSERT_EQ(take(red), 3);
        ASSERT_EQ(take(red), -1);
        lk__journal_shut(&j);
        ASSERT_TRUE(!lk__journal_repeats());
    }
}

TEST(without_a_first_run_nothing_is_noted)
{
    ASSERT_EQ(note(red, 1), 0);
    ASSERT_EQ(take(red), -1);
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

TEST(a_note_that_is_written_too_late_is_not_known)
{
    lk__journal_entry room[8];
    int64_t place, begin = lk__journal_begin();
    ASSERT_OK(lk__journal_add(red, &place));
    lk__journal j = keep(begin, room);
    lk__journal_end();
    begin = lk__journal_begin();
    note(blue, 5);
    lk__journal_write(place, 9, -9);
    lk__journal other = lk__journal_since(begin);
    ASSERT_EQ(other.n, 1);
    ASSERT_EQ(other.entry[0].value[0], 5);
    lk__journal_end();
    lk__journal_read(&j);
    ASSERT_EQ(take(red), -1);
    lk__journal_shut(&j);
}

TEST(a_first_run_inside_a_second_has_notes_of_its_own)
{
    lk__journal_entry room[8], inner_room[8];
    int64_t begin = lk__journal_begin();
    note(red, 1);
    note(red, 2);
    lk__journal outer = keep(begin, room);
    lk__journal_end();
    lk__journal_read(&outer);
    ASSERT_EQ(note(red, 7), 0);
    ASSERT_EQ(take(red), 1);
    begin = lk__journal_begin();
    ASSERT_EQ(take(red), 2);
    note(red, 12);
    lk__journal inner = keep(begin, inner_room);
    lk__journal_end();
    lk__journal_shut(&outer);
    lk__journal_read(&inner);
    ASSERT_EQ(take(red), 12);
    ASSERT_EQ(take(red), -1);
    lk__journal_shut(&inner);
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

TEST(a_run_has_the_notes_of_those_inside_it)
{
    lk__journal_entry room[8];
    int64_t outer = lk__journal_begin();
    note(red, 1);
    int64_t inner = lk__journal_begin();
    note(red, 2);
    ASSERT_EQ(lk__journal_since(inner).n, 1);
    lk__journal_end();
    note(red, 3);
    lk__journal j = keep(outer, room);
    lk__journal_end();
    ASSERT_EQ(j.n, 3);
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}
