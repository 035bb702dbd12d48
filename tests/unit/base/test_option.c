/* Options: values are read strictly, refused with a reason, and shown as they are read. */
#include "faults.h"
#include "options.h"

#include <locale.h>

static lk_arena *arena;

static cake_options cake(void)
{
    cake_options c;
    ASSERT_OK(lk_options_set_defaults(&test_dishes[1], &c, arena));
    return c;
}

static lk_status set(cake_options *c, const char *name, const char *text)
{
    const lk_option *o = lk_option_find(cake_table, name);
    ASSERT_TRUE(o);
    return lk_option_set(o, c, text, arena);
}

static const char *shown(const cake_options *c, const char *name)
{
    static char buf[64];
    return lk_option_show(lk_option_find(cake_table, name), c, buf, sizeof buf);
}

#define ASSERT_TEXT(a, b)                                      \
    do {                                                       \
        const char *a_ = (a), *b_ = (b);                       \
        if (strcmp(a_, b_) != 0)                               \
            TEST_FAIL("%s is \"%s\", not \"%s\"", #a, a_, b_); \
    } while (0)

TEST(begin)
{
    ASSERT_OK(lk_arena_new(&arena));
}

TEST(defaults_are_set)
{
    cake_options c = cake();
    ASSERT_TRUE(!c.iced && c.layers == 2 && c.sugar == 0.25 && c.heat == 180 && !c.note);
    ASSERT_TRUE(c.tiers.n == 2 && c.tiers.item[0] == 3 && c.tiers.item[1] == 2);
    ASSERT_TRUE(c.weights.n == 0 && c.fruits.n == 0 && c.form == 1 && c.parts.n == 0);
    ASSERT_TRUE(c.filling.descriptor == &test_dishes[2]);
    const cream_options *cream = c.filling.options;
    ASSERT_TRUE(cream->fat == 0.3 && !cream->inside.descriptor);
}

TEST(values_are_read)
{
    cake_options c = cake();
    ASSERT_OK(set(&c, "iced", "true"));
    ASSERT_OK(set(&c, "layers", "9"));
    ASSERT_OK(set(&c, "sugar", "1e-3"));
    ASSERT_OK(set(&c, "heat", ".5"));
    ASSERT_OK(set(&c, "note", "happy birthday"));
    ASSERT_OK(set(&c, "tiers", "7"));
    ASSERT_OK(set(&c, "weights", "0.5,-2,1E2"));
    ASSERT_OK(set(&c, "fruits", "plum,fig"));
    ASSERT_OK(set(&c, "form", "heart"));
    ASSERT_OK(set(&c, "shelf-life", "-4"));
    ASSERT_TRUE(c.iced && c.layers == 9 && c.sugar == 1e-3 && c.heat == 0.5);
    ASSERT_TEXT(c.note, "happy birthday");
    ASSERT_TRUE(c.tiers.n == 1 && c.tiers.item[0] == 7 && c.form == 2 && c.shelf == -4);
    ASSERT_TRUE(c.weights.n == 3 && c.weights.item[1] == -2 && c.weights.item[2] == 100);
    ASSERT_TRUE(c.fruits.n == 2 && strcmp(c.fruits.item[1], "fig") == 0);
}

TEST(values_are_shown_as_they_are_read)
{
    static const char *const value[][2] = {
        {"iced", "true"},   {"layers", "9"},      {"sugar", "0.1"},          {"heat", "1e+300"},
        {"note", "a b"},    {"tiers", "7,8"},     {"weights", "0.1,-2,100"}, {"fruits", "fig,plum"},
        {"form", "square"}, {"filling", "bread"}, {"parts", "bread,cream"}};
    cake_options c = cake();
    ASSERT_TEXT(shown(&c, "note"), "");
    for (size_t i = 0; i < sizeof value / sizeof value[0]; i++) {
        ASSERT_OK(set(&c, value[i][0], value[i][1]));
        ASSERT_TEXT(shown(&c, value[i][0]), value[i][1]);
    }
    char small[6];
    ASSERT_TEXT(lk_option_show(lk_option_find(cake_table, "fruits"), &c, small, sizeof small),
                "fig,p");
}

TEST(wrong_values_are_refused_with_a_reason)
{
    static const char *const wrong[][3] = {
        {"iced", "yes", "\"yes\" is neither true nor false"},
        {"layers", "7x", "\"7x\" is not a whole number"},
        {"layers", "", "\"\" is not a whole number"},
        {"layers", "2.0", "is not a whole number"},
        {"layers", "0x7", "is not a whole number"},
        {"layers", "07", "is not a whole number"},
        {"layers", " 7", "is not a whole number"},
        {"layers", "99999999999999999999", "is too large a number"},
        {"layers", "0", "\"0\" is out of range, it must be from 1 to 9"},
        {"sugar", "0", "it must be above 0 and at most 1"},
        {"sugar", "x", "\"x\" is not a number"},
        {"sugar", "nan", "is not a number"},
        {"sugar", "inf", "is not a number"},
        {"sugar", "0x1p-3", "is not a number"},
        {"sugar", "00.5", "is not a number"},
        {"sugar", ".", "is not a number"},
        {"sugar", "1e", "is not a number"},
        {"sugar", "0,5", "is not a number"},
        {"sugar", "1e999", "is too large a number"},
        {"sugar", "1e-999", "is too small a number"},
        {"heat", "-1", "it must be at least 0"},
        {"tiers", "1,,2", "\"\" is an empty item"},
        {"tiers", "1,101", "\"101\" is out of range"},
        {"tiers", "4,5,4", "\"4\" is in the list twice"},
        {"weights", "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17",
         "\"17\" is one item too many, at most 16"},
        {"fruits", "a-name-that-has-more-than-31-letters", "is too long a name"},
        {"form", "hart", "is none of square round heart; did you mean \"heart\"?"},
        {"form", "zigzag", "\"zigzag\" is none of square round heart"},
        {"filling", "craem", "unknown dish \"craem\"; did you mean \"cream\"?"},
        {"filling", "soup", "unknown dish \"soup\"; known are bread, cake, cream, pie"},
        {"filling", "pie", "dish pie needs the option \"pieces\""},
        {"parts", "bread,", "ends with a comma"},
        {"parts", "bread,,bread", "unknown dish \"\""},
    };
    cake_options c = cake();
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        ASSERT_FAILS(set(&c, wrong[i][0], wrong[i][1]), LK_EINVAL, wrong[i][2]);
}

TEST(zero_has_many_forms)
{
    cake_options c = cake();
    static const char *const zero[] = {"0", "0.0", "-0", "0e9", "+0.00e-999"};
    for (size_t i = 0; i < sizeof zero / sizeof zero[0]; i++) {
        ASSERT_OK(set(&c, "heat", zero[i]));
        ASSERT_TRUE(c.heat == 0);
    }
}

TEST(the_locale_does_not_matter)
{
    cake_options c = cake();
    if (!setlocale(LC_ALL, "de_DE.UTF-8") && !setlocale(LC_ALL, "fr_FR.UTF-8"))
        puts("no locale with a comma is installed");
    ASSERT_OK(set(&c, "sugar", "0.5"));
    ASSERT_TRUE(c.sugar == 0.5);
    ASSERT_TEXT(shown(&c, "sugar"), "0.5");
    setlocale(LC_ALL, "C");
}

TEST(ranges_are_words)
{
    char buf[80];
    lk_option o = {.name = "x", .type = LK_OPTION_REAL};
    ASSERT_TEXT(lk_option_range(&o, buf, sizeof buf), "");
    o.max = 0.5;
    ASSERT_TEXT(lk_option_range(&o, buf, sizeof buf), "from 0 to 0.5");
    o.flags = LK_OPTION_OPEN_MAX;
    ASSERT_TEXT(lk_option_range(&o, buf, sizeof buf), "at least 0 and below 0.5");
    o.flags |= LK_OPTION_OPEN_MIN;
    ASSERT_TEXT(lk_option_range(&o, buf, sizeof buf), "above 0 and below 0.5");
    o.max = HUGE_VAL;
    ASSERT_TEXT(lk_option_range(&o, buf, sizeof buf), "above 0");
    o.min = -HUGE_VAL;
    ASSERT_TEXT(lk_option_range(&o, buf, sizeof buf), "");
    o.max = 1e15;
    ASSERT_TEXT(lk_option_range(&o, buf, sizeof buf), "below 1000000000000000");
}

TEST(options_are_found_and_suggested)
{
    ASSERT_TRUE(lk_option_find(cake_table, "shelf-life") ==
                lk_option_find(cake_table, "shelf_life"));
    ASSERT_TRUE(!lk_option_find(cake_table, "shelf") && !lk_option_find(NULL, "x"));
    ASSERT_TEXT(lk_option_suggest(cake_table, "shelf-lyfe")->name, "shelf_life");
    ASSERT_TRUE(!lk_option_suggest(cake_table, "temperature") && !lk_option_suggest(NULL, "x"));
}

static lk_status preset(void)
{
    lk_arena *a;
    lk_status st = LK_OK;
    cake_options c;
    LK_TRY(lk_arena_new(&a));
    LK_TRY_TO(done, lk_options_set_defaults(&test_dishes[1], &c, a));
    for (int i = 0; i < 500; i++)
        LK_TRY_TO(done, lk_option_set(lk_option_find(cake_table, "note"), &c, "text", a));
done:
    lk_arena_free(a);
    return st;
}

TEST(every_allocation_may_fail)
{
    ASSERT_TRUE(test_every_allocation_fails(preset) >= 2);
}

TEST(end)
{
    lk_arena_free(arena);
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}
