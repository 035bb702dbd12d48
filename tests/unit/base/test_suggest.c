/* Suggestions: near names are found, far ones are not. */
#include "harness.h"

#include <lockstep/extra/suggest.h>

static const char *const known[] = {"conv", "concat", "softmax", "log_softmax", "sum", "sum_to"};

/* What is suggested for `wanted`; "" for nothing. */
static const char *suggested(const char *wanted)
{
    lk_suggestion s = {.wanted = wanted};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        lk_suggest_consider(&s, known[i]);
    return lk_suggest_found(&s) ? s.best : "";
}

TEST(one_letter_wrong_missing_added_or_swapped_is_near)
{
    ASSERT_TRUE(strcmp(suggested("softmaz"), "softmax") == 0);
    ASSERT_TRUE(strcmp(suggested("sofmax"), "softmax") == 0);
    ASSERT_TRUE(strcmp(suggested("softmmax"), "softmax") == 0);
    ASSERT_TRUE(strcmp(suggested("sfotmax"), "softmax") == 0);
}

TEST(the_beginning_of_a_name_is_near)
{
    ASSERT_TRUE(strcmp(suggested("log"), "log_softmax") == 0);
}

TEST(the_first_of_equally_near_names_is_kept)
{
    ASSERT_TRUE(strcmp(suggested("con"), "conv") == 0);
}

TEST(a_far_name_is_not_suggested)
{
    ASSERT_TRUE(strcmp(suggested("attention"), "") == 0);
    ASSERT_TRUE(strcmp(suggested(""), "") == 0);
    lk_suggestion none = {.wanted = "sum"};
    ASSERT_TRUE(!lk_suggest_found(&none));
}

TEST(a_long_name_does_no_harm)
{
    char name[1000];
    memset(name, 's', sizeof name - 1);
    name[sizeof name - 1] = 0;
    lk_suggestion s = {.wanted = name};
    lk_suggest_consider(&s, "sum");
    lk_suggest_consider(&s, name);
    ASSERT_TRUE(s.best == name && s.distance == 0 && lk_suggest_found(&s));
}
