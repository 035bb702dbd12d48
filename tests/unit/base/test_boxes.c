/* Ranges and boxes: the walk over a box visits each element of it once, where it lies in the tensor. */
#include "harness.h"

#include <lockstep/pieces.h>

#include <string.h>

enum { MOST = 4 * 3 * 5 };

/* The places of the elements of a box of a tensor [a][b][c], by three plain loops. */
static int64_t places_by_loops(const lk_box *box, const int64_t *dim, int64_t *place)
{
    int64_t n = 0;
    for (int64_t i = 0; i < box->n[0]; i++)
        for (int64_t j = 0; j < box->n[1]; j++)
            for (int64_t k = 0; k < box->n[2]; k++)
                place[n++] = ((box->first[0] + i) * dim[1] + box->first[1] + j) * dim[2] +
                             box->first[2] + k;
    return n;
}

static void walk_one_box(const lk_box *box, const int64_t *dim)
{
    int64_t want[MOST], got[MOST], n = 0;
    int64_t count = places_by_loops(box, dim, want);
    ASSERT_EQ(lk_box_count(box), count);
    lk_box_walk walk = lk_box_start(box, dim);
    while (lk_box_next(&walk)) {
        ASSERT_EQ(walk.at, n);
        ASSERT_TRUE(walk.n > 0);
        for (int64_t i = 0; i < walk.n; i++)
            got[n++] = walk.place + i;
    }
    ASSERT_EQ(n, count);
    ASSERT_TRUE(memcmp(want, got, (size_t)n * sizeof got[0]) == 0);
}

TEST(a_walk_visits_all_elements_in_order)
{
    const int64_t dim[] = {4, 3, 5};
    for (int64_t a = 0; a < 4 * 5; a++)
        for (int64_t b = 0; b < 3 * 4; b++)
            for (int64_t c = 0; c < 5 * 6; c++) {
                lk_box box = {3, {a / 5, b / 4, c / 6}, {a % 5, b % 4, c % 6}};
                if (lk_box_is_within(&box, dim))
                    walk_one_box(&box, dim);
            }
}

TEST(whole_axes_behind_are_one_stretch)
{
    const int64_t dim[] = {4, 3, 5};
    lk_box rows = {3, {1, 0, 0}, {2, 3, 5}};
    lk_box_walk walk = lk_box_start(&rows, dim);
    ASSERT_TRUE(lk_box_next(&walk));
    ASSERT_EQ(walk.n, 30);
    ASSERT_EQ(walk.place, 15);
    ASSERT_TRUE(!lk_box_next(&walk));
}

TEST(a_scalar_is_one_element)
{
    lk_box box = lk_box_whole(0, NULL);
    lk_box_walk walk = lk_box_start(&box, NULL);
    ASSERT_EQ(lk_box_count(&box), 1);
    ASSERT_TRUE(lk_box_next(&walk));
    ASSERT_EQ(walk.n, 1);
    ASSERT_EQ(walk.place, 0);
    ASSERT_TRUE(!lk_box_next(&walk));
}

TEST(boxes_that_reach_out_are_not_within)
{
    const int64_t dim[] = {4, 3};
    lk_box whole = lk_box_whole(2, dim);
    ASSERT_TRUE(lk_box_is_within(&whole, dim));
    ASSERT_TRUE(lk_box_is_within(&(lk_box){2, {4, 0}, {0, 3}}, dim));
    ASSERT_TRUE(!lk_box_is_within(&(lk_box){2, {1, 0}, {4, 3}}, dim));
    ASSERT_TRUE(!lk_box_is_within(&(lk_box){2, {-1, 0}, {1, 3}}, dim));
    ASSERT_TRUE(!lk_box_is_within(&(lk_box){2, {0, 0}, {1, -1}}, dim));
    ASSERT_TRUE(!lk_box_is_within(&(lk_box){2, {INT64_MAX, 0}, {2, 3}}, dim));
    ASSERT_TRUE(!lk_box_is_within(&(lk_box){9, {0}, {0}}, dim));
}

TEST(what_lies_in_both_boxes_is_their_intersection)
{
    lk_box a = {2, {0, 2}, {3, 4}}, b = {2, {1, 0}, {9, 3}};
    lk_box both = lk_box_intersect(&a, &b), again = lk_box_intersect(&b, &a);
    ASSERT_TRUE(lk_box_is_equal(&both, &(lk_box){2, {1, 2}, {2, 1}}));
    ASSERT_TRUE(lk_box_is_equal(&both, &again));
    ASSERT_TRUE(!lk_box_is_equal(&both, &a));
    lk_box away = {2, {3, 0}, {1, 9}};
    both = lk_box_intersect(&a, &away);
    ASSERT_EQ(lk_box_count(&both), 0);
}
