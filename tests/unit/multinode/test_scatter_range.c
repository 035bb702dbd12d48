/* lk_scatter_range(): ChainerMN's scatter_index. */
#include "harness.h"

#include <lockstep/iterator.h>

/* Begin and end, as the original has them. */
TEST(the_numbers_of_the_original)
{
    static const struct {
        int64_t n;
        int size;
        bool equal;
        int64_t range[4][2];
    } known[] = {{10, 3, true, {{0, 4}, {3, 7}, {6, 10}}},
                 {10, 4, true, {{0, 3}, {2, 5}, {5, 8}, {7, 10}}},
                 {1, 4, true, {{0, 1}, {0, 1}, {0, 1}, {0, 1}}},
                 {10, 3, false, {{0, 4}, {4, 7}, {7, 10}}},
                 {10, 4, false, {{0, 3}, {3, 6}, {6, 8}, {8, 10}}},
                 {1, 4, false, {{0, 1}, {1, 1}, {1, 1}, {1, 1}}},
                 {0, 2, true, {{0, 0}, {0, 0}}}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        for (int r = 0; r < known[i].size; r++) {
            lk_range got = lk_scatter_range(known[i].n, r, known[i].size, known[i].equal);
            ASSERT_EQ(got.first, known[i].range[r][0]);
            ASSERT_EQ(got.first + got.n, known[i].range[r][1]);
        }
}

/* Ranges follow each other without a gap, from 0 to n, however large n is. */
TEST(every_sample_is_in_a_range)
{
    const int64_t counts[] = {0, 1, 2, 5, 6, 7, 100, INT64_C(1) << 62, INT64_MAX};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        for (int size = 1; size <= 7; size++)
            for (int equal = 0; equal < 2; equal++) {
                int64_t end = 0, least = INT64_MAX, most = 0;
                for (int r = 0; r < size; r++) {
                    lk_range got = lk_scatter_range(counts[i], r, size, equal);
                    ASSERT_TRUE(got.n >= 0 && (equal ? got.first <= end : got.first == end));
                    end = got.first + got.n;
                    least = got.n < least ? got.n : least;
                    most = got.n > most ? got.n : most;
                }
                ASSERT_EQ(end, counts[i]);
                ASSERT_TRUE(most - least <= !equal);
            }
}
