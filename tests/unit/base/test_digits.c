/* Numbers within lists: what is read, where reading stops, and what is too large. */
#include "base/text/digits.h"
#include "harness.h"

TEST(digits_are_read_up_to_the_first_other_character)
{
    const struct {
        const char *text;
        bool found;
        int64_t value;
        int read;
    } row[] = {{"0", true, 0, 1},
               {"007x", true, 7, 3},
               {"12,3", true, 12, 2},
               {"", false, 0, 0},
               {"-1", false, 0, 0},
               {" 1", false, 0, 0},
               {"1000", true, 1000, 4},
               {"1001", true, 1000, 4},
               {"99999999999999999999999999", true, 1000, 26}};
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        const char *at = row[i].text;
        int64_t n = -1;
        ASSERT_EQ(lk__digits_read(&at, 1000, &n), row[i].found);
        ASSERT_EQ(n, row[i].value);
        ASSERT_EQ(at - row[i].text, row[i].read);
    }
}

TEST(no_number_of_digits_overflows)
{
    const char *text = "99999999999999999999999999", *at = text;
    int64_t n = -1;
    ASSERT_TRUE(lk__digits_read(&at, INT64_MAX, &n));
    ASSERT_EQ(n, INT64_MAX);
    at = "9223372036854775807";
    ASSERT_TRUE(lk__digits_read(&at, INT64_MAX, &n));
    ASSERT_EQ(n, INT64_MAX);
    at = "9223372036854775806";
    ASSERT_TRUE(lk__digits_read(&at, INT64_MAX, &n));
    ASSERT_EQ(n, INT64_MAX - 1);
}

TEST(an_entry_is_a_count_with_or_without_how_often)
{
    const struct {
        const char *text;
        bool found;
        int64_t count, times;
        int read;
    } row[] = {{"4", true, 4, 1, 1},       {"4(x2),3", true, 4, 2, 5},
               {"3,4(x2)", true, 3, 1, 1}, {"4(x2", false, 4, 2, 4},
               {"4(x)", false, 4, 0, 3},   {"4(2)", true, 4, 1, 1},
               {"(x2)", false, 0, 1, 0},   {"4(x-2)", false, 4, 0, 3},
               {"4(x 2)", false, 4, 0, 3}, {"4(x2000)", true, 4, 1000, 8}};
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        const char *at = row[i].text;
        int64_t count = -1, times = -1;
        ASSERT_EQ(lk__repeated_read(&at, 1000, &count, &times), row[i].found);
        ASSERT_EQ(count, row[i].count);
        ASSERT_EQ(times, row[i].times);
        ASSERT_EQ(at - row[i].text, row[i].read);
    }
}
