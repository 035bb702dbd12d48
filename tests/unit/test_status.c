/* The error trace: a message where it happened, a frame for each forward. */
#include "harness.h"

#include <string.h>

static lk_status fails(void)
{
    return LK_RAISE(LK_EINVAL, "the answer is %d", 42);
}

static lk_status forwards(void)
{
    LK_TRY(fails());
    return LK_OK;
}

static void a_forwarded_failure_adds_a_frame(void)
{
    char text[1024] = "";
    ASSERT_EQ(forwards(), LK_EINVAL);
    ASSERT_EQ(lk_error_status(), LK_EINVAL);
    FILE *f = fmemopen(text, sizeof text, "w");
    ASSERT_TRUE(f);
    lk_error_print(f);
    fclose(f);
    ASSERT_TRUE(strstr(text, "error: invalid argument: the answer is 42\n"));
    ASSERT_TRUE(strstr(text, "#0 fails (tests/unit/test_status.c:"));
    ASSERT_TRUE(strstr(text, "#1 forwards (tests/unit/test_status.c:"));
    ASSERT_EQ(lk_error_status(), LK_OK);
}

TEST_MAIN(TEST(a_forwarded_failure_adds_a_frame))
