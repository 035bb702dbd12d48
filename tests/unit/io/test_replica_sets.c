/* Replica sets: the partitions that ChainerMN's tests expect, and wrong ones, which are named. */
#include "harness.h"
#include "io/checkpoint/checkpoint.h"

enum { MOST = 16 };

/* The partition of `size` ranks as a text, one letter for each rank, and its masters as another. */
static void expect(const char *sets, int size, const char *letters, const char *masters)
{
    int set[MOST], seen[MOST], n = 0;
    char got[MOST + 1] = "", writes[MOST + 1] = "";
    ASSERT_OK(lk__replica_sets_read(sets, size, set));
    for (int r = 0; r < size; r++) { /* letters in the order in which sets appear */
        int k = 0;
        while (k < n && seen[k] != set[r])
            k++;
        if (k == n)
            seen[n++] = set[r];
        got[r] = (char)('a' + k);
        writes[r] = lk__replica_is_master(set, r) ? '1' : '0';
    }
    if (strcmp(got, letters) != 0 || strcmp(writes, masters) != 0)
        TEST_FAIL("\"%s\" of %d: %s %s, not %s %s", sets, size, got, writes, letters, masters);
}

TEST(partitions_are_those_of_chainermn)
{
    expect("0", 4, "abbb", "1100");       /* ([0], 4) */
    expect("0;1", 4, "abcc", "1110");     /* ([0, 1], 4) */
    expect("0,1;2,3", 4, "aabb", "1010"); /* ([[0, 1], [2, 3]], 4) */
    expect("", 4, "aaaa", "1000");        /* ([], 4) */
    expect("0,2,4,6,8,10,12,14", 16, "abababababababab", "1100000000000000");
}

TEST(ranges_and_blanks_are_read)
{
    expect("0-3;4-7", 8, "aaaabbbb", "10001000");
    expect("2-3,0; 5", 6, "abaabc", "110001");
    expect(" 0 - 1 , 3 ", 4, "aaba", "1010");
    expect("0-0", 1, "a", "1");
}

TEST(wrong_sets_are_named)
{
    static const struct {
        const char *sets, *text;
    } wrong[] = {
        {"0,1;1,2", "replica_sets \"0,1;1,2\": rank 1 is named twice"},
        {"0-2,2", "rank 2 is named twice"},
        {"0,4", "there is no rank 4 among 4"},
        {"0-4000000000", "there is no rank 4000000000 among 4"},
        {"-1", "column 1: \"\" is no rank"},
        {"3-1", "3-1 ends before it begins"},
        {"0,x", "column 3: \"x\" is no rank"},
        {"0;", "column 2: give ranks with"},
        {"0;;1", "column 3: \"\" is no rank"},
        {",0", "column 1: \"\" is no rank"},
        {"0 1", "column 3: give ranks with"},
        {"0-", "\"\" is no rank"},
        {"01", "\"01\" is no rank"},
        {"99999999999999999999999999", "is no rank"},
    };
    int set[4];
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        ASSERT_FAILS(lk__replica_sets_read(wrong[i].sets, 4, set), LK_EINVAL, wrong[i].text);
}
