/* Modes: what is read, what is refused and how, and that nothing else happens on any text. */
#include "harness.h"

#include <lockstep/topology.h>

#include <limits.h>

TEST(modes_are_read_as_written)
{
    static const char *const texts[] = {
        "b:4x3",     "n:1", "r:64", "m:2x2x2", "c:4x8x2",
        "p:6x2x1x1", "p",   "b",    "r",       "b:1000000x1x1x1000000"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        lk_tier_spec m;
        char text[LK_TIER_SPEC_TEXT];
        ASSERT_OK(lk_tier_spec_parse(texts[i], &m));
        ASSERT_EQ(lk_tier_spec_text(&m, text), strlen(texts[i]));
        ASSERT_TRUE(strcmp(text, texts[i]) == 0);
    }
    lk_tier_spec m;
    ASSERT_OK(lk_tier_spec_parse("4x3", &m));
    ASSERT_EQ(m.algorithm, LK_TIER_BEST);
    ASSERT_EQ(m.n_tiers, 2);
    ASSERT_EQ(m.size[0], 4);
    ASSERT_EQ(m.size[1], 3);
    ASSERT_OK(lk_tier_spec_parse("p", &m));
    ASSERT_EQ(m.n_tiers, 0);
}

TEST(errors_say_what_and_where)
{
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"", "mode \"\": it is empty; say b:4x3"},
        {"q:4", "mode \"q:4\": no algorithm \"q\"; the letters are b n r m c p"},
        {"B:4", "no algorithm \"B\""},
        {"b4", "mode \"b4\": a colon is missing at character 2"},
        {"b:", "mode \"b:\": a number is missing at character 3"},
        {"b:4x", "mode \"b:4x\": a number is missing at character 5"},
        {"b:x4", "a number is missing at character 3"},
        {"b:-4", "a number is missing at character 3"},
        {"b: 4", "a number is missing at character 3"},
        {"b:4X3", "mode \"b:4X3\": \"X\" at character 4; dimensions are written 4x3"},
        {"4x3 ", "\" \" at character 4"},
        {"b:0x3", "mode \"b:0x3\": dimension 1 is 0; it must be from 1 to 1000000"},
        {"b:4x03", "dimension 2 is 03; it must be from 1 to 1000000"},
        {"1000001", "dimension 1 is 1000001; it must be from 1 to 1000000"},
        {"9999999999999999999999999999", "dimension 1 is 999999999999999999999999; it must be"},
        {"b:1x2x3x4x5", "mode \"b:1x2x3x4x5\": more than 4 dimensions"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        lk_tier_spec m = {.n_tiers = -7};
        ASSERT_FAILS(lk_tier_spec_parse(bad[i].text, &m), LK_EINVAL, bad[i].says);
        ASSERT_EQ(m.n_tiers, -7);
    }
    ASSERT_FAILS(lk_tier_spec_parse(NULL, NULL), LK_EINVAL, "text is NULL");
}

TEST(dimensions_must_hold_the_ranks)
{
    lk_tier_spec m;
    ASSERT_OK(lk_tier_spec_parse("b:4x3", &m));
    ASSERT_OK(lk_tier_spec_fit(&m, 12));
    ASSERT_FAILS(lk_tier_spec_fit(&m, 8), LK_ESHAPE,
                 "mode b:4x3: the dimensions 4x3 hold 12 ranks, but there are 8");
    ASSERT_OK(lk_tier_spec_parse("r:1000000x1000000x1000000x1000000", &m));
    ASSERT_FAILS(lk_tier_spec_fit(&m, 1), LK_ESHAPE, "hold 1e+24 ranks");
    ASSERT_OK(lk_tier_spec_parse("c", &m));
    ASSERT_OK(lk_tier_spec_fit(&m, 5));
}

/* Modes that no text gives. */
TEST(made_up_modes_are_refused)
{
    char text[LK_TIER_SPEC_TEXT];
    lk_tier_spec m = {.n_tiers = 2, .size = {-1, -4}};
    ASSERT_FAILS(lk_tier_spec_fit(&m, 4), LK_EINVAL, "dimension 1 of a mode is -1");
    ASSERT_FAILS(lk_tier_spec_fit(&(lk_tier_spec){.n_tiers = 50}, 4), LK_EINVAL, "50 dimensions");
    ASSERT_FAILS(lk_tier_spec_fit(&(lk_tier_spec){.n_tiers = -1}, 4), LK_EINVAL, "-1 dimensions");
    m = (lk_tier_spec){(lk_tier_algorithm)77, 50, {INT_MIN, INT_MIN, INT_MIN, INT_MIN}};
    ASSERT_EQ(lk_tier_spec_text(&m, text), strlen(text));
    ASSERT_TRUE(text[0] == '?' && strlen(text) < LK_TIER_SPEC_TEXT);
}

/* Texts made of the characters that matter, and of any: read or refused with a message, and what
 * was read is written and read back the same. */
TEST(any_text_is_read_or_refused)
{
    static const char useful[] = "bnrmcp:x0123456789";
    uint32_t seed = 1;
    int read = 0, refused = 0;
    for (int k = 0; k < 300000; k++) {
        char text[40];
        int n = 0;
        for (;; n++) {
            seed = seed * 1664525U + 1013904223U;
            uint32_t r = seed >> 8;
            if (n == (int)sizeof text - 1 || r % 7 == 0)
                break;
            text[n] = k % 5 == 0 ? (char)(1 + r / 7 % 255) : useful[r / 7 % (sizeof useful - 1)];
        }
        text[n] = '\0';
        lk_tier_spec m, again;
        memset(&m, 0, sizeof m);
        memset(&again, 0, sizeof again);
        if (lk_tier_spec_parse(text, &m) != LK_OK) {
            ASSERT_EQ(lk_error_status(), LK_EINVAL);
            ASSERT_TRUE(strncmp(lk_error_message(), "mode \"", 6) == 0);
            lk_error_clear();
            refused++;
            continue;
        }
        char out[LK_TIER_SPEC_TEXT];
        ASSERT_TRUE(lk_tier_spec_text(&m, out) < LK_TIER_SPEC_TEXT);
        ASSERT_OK(lk_tier_spec_parse(out, &again));
        ASSERT_SAME_BITS(&m, &again, sizeof m);
        read++;
    }
    ASSERT_TRUE(read > 1000 && refused > 1000);
}

TEST(letters_explain_themselves)
{
    for (int i = 0; i < LK_N_TIER_ALGORITHMS; i++) {
        ASSERT_TRUE(strchr("bnrmcp", lk_tier_algorithm_letter((lk_tier_algorithm)i)) != NULL);
        ASSERT_TRUE(strlen(lk_tier_algorithm_summary((lk_tier_algorithm)i)) > 10);
    }
    ASSERT_EQ(lk_tier_algorithm_letter(LK_N_TIER_ALGORITHMS), '?');
    ASSERT_TRUE(lk_tier_algorithm_is_canonical(LK_TIER_BEST) &&
                !lk_tier_algorithm_is_canonical(LK_TIER_RING));
}
