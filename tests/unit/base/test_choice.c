/* Choices: entries with options from texts, and their hash. */
#include "faults.h"
#include "options.h"

static lk_arena *arena;

TEST(begin)
{
    ASSERT_OK(lk_arena_new(&arena));
}

TEST(a_choice_has_its_options)
{
    lk_config c;
    ASSERT_OK(
        lk_config_parse(&test_kind_dish, "cake", " layers=3  tiers=5,4 shelf-life=9 ", arena, &c));
    const cake_options *o = c.options;
    ASSERT_TRUE(c.descriptor == &test_dishes[1] && o->layers == 3 && o->tiers.n == 2 &&
                o->shelf == 9);
    ASSERT_TRUE(o->sugar == 0.25 && o->filling.descriptor == &test_dishes[2] && !c.name);
    ASSERT_OK(lk_config_parse(&test_kind_dish, "bread", NULL, arena, &c));
    ASSERT_TRUE(c.descriptor == &test_dishes[0]);
}

TEST(entries_lie_in_entries)
{
    lk_config c;
    ASSERT_OK(lk_config_parse(&test_kind_dish, "cake",
                              "filling=cream(fat=0.5 inside=pie(pieces=6)) "
                              "parts=bread,cake(tiers=9,8 parts=bread,bread),pie(pieces=2)",
                              arena, &c));
    const cake_options *cake = c.options;
    const cream_options *cream = cake->filling.options;
    const pie_options *pie = cream->inside.options;
    ASSERT_TRUE(cream->fat == 0.5 && pie->pieces == 6 && cake->parts.n == 3);
    const cake_options *upper = cake->parts.item[1].options;
    ASSERT_TRUE(upper->tiers.item[1] == 8 && upper->parts.n == 2);
    pie = cake->parts.item[2].options;
    ASSERT_EQ(pie->pieces, 2);
}

TEST(values_in_quotes_may_have_blanks)
{
    lk_config c;
    ASSERT_OK(
        lk_config_parse(&test_kind_dish, "cake", "note=\"for (you\" layers=\"3\"", arena, &c));
    const cake_options *o = c.options;
    ASSERT_TRUE(strcmp(o->note, "for (you") == 0 && o->layers == 3);
    ASSERT_OK(lk_config_parse(&test_kind_dish, "cake",
                              "parts=cake(note=\"a, b) c\"),bread note=\"\"", arena, &c));
    o = c.options;
    ASSERT_TRUE(o->parts.n == 2 && strcmp(o->note, "") == 0);
    o = o->parts.item[0].options;
    ASSERT_TRUE(strcmp(o->note, "a, b) c") == 0);
    ASSERT_FAILS(lk_config_parse(&test_kind_dish, "cake", "layers=3 note=\"for you", arena, &c),
                 LK_EINVAL, "options, column 10: note=\"for you does not close its quotes");
    ASSERT_FAILS(lk_config_parse(&test_kind_dish, "cake", "note=\"for\"you", arena, &c), LK_EINVAL,
                 "options, column 6: dish cake: note: \"for\"you goes on behind its quotes");
    ASSERT_FAILS(lk_config_parse(&test_kind_dish, "cake", "note=\"a\"b\"c\"", arena, &c), LK_EINVAL,
                 "goes on behind its quotes");
}

TEST(a_choice_can_have_a_name)
{
    lk_config c;
    ASSERT_OK(lk_config_parse(&test_kind_dish, "bread", "name=rye", arena, &c));
    ASSERT_TRUE(strcmp(c.name, "rye") == 0);
    ASSERT_OK(lk_config_parse(&test_kind_dish, "bread", "name=\"rye\"", arena, &c));
    ASSERT_TRUE(strcmp(c.name, "rye") == 0);
    lk_registry nameless = test_kind_dish;
    nameless.named = false;
    ASSERT_FAILS(lk_config_parse(&nameless, "bread", "name=rye", arena, &c), LK_EINVAL,
                 "dish bread has no option \"name\"");
}

TEST(wrong_texts_are_refused)
{
    static const char *const wrong[][2] = {
        {"layrs=3", "dish cake has no option \"layrs\"; did you mean \"layers\"?"},
        {"temperature=3", "dish cake has no option \"temperature\""},
        {"layers", "dish cake: \"layers\" is no NAME=VALUE"},
        {"layers=x", "dish cake: layers: \"x\" is not a whole number"},
        {"layers=3 layers=3", "option \"layers\" is given twice"},
        {"filling=cream(fat=x)", "dish cake: filling: dish cream: fat: \"x\" is not a number"},
        {"filling=cream(fat=1", "does not close its parenthesis"},
        {"filling=cream)", "closes a parenthesis that is not open"},
        {"filling=cream(fat=1)x", "goes on behind its options"},
        {"filling=cream()()", "closes a parenthesis"},
        {"name=a name=b", "option \"name\" is given twice"},
        {"name=", "dish cake has an empty name"},
        {"filling=pie()", "dish pie needs the option \"pieces\""},
    };
    lk_config c;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        ASSERT_FAILS(lk_config_parse(&test_kind_dish, "cake", wrong[i][0], arena, &c), LK_EINVAL,
                     wrong[i][1]);
        ASSERT_TRUE(!c.descriptor && !c.options);
    }
    ASSERT_FAILS(lk_config_parse(&test_kind_dish, NULL, "", arena, &c), LK_EINVAL, "NULL");
    ASSERT_FAILS(lk_config_parse(&test_kind_dish, "cak", "", arena, &c), LK_EINVAL,
                 "unknown dish \"cak\"; did you mean \"cake\"?");
}

TEST(messages_have_the_column)
{
    static const char *const wrong[][2] = {
        {"layrs=3", "options, column 1: dish cake has no option \"layrs\""},
        {"  layers=3 sugr=1", "options, column 12: dish cake has no option \"sugr\""},
        {"sugar=0.5 layers=x", "options, column 18: dish cake: layers: \"x\""},
        {"layers=3  layers=3", "options, column 11: dish cake: option \"layers\" is given twice"},
        {"layers=3 form=rund",
         "options, column 15: dish cake: form: \"rund\" is none of square round "
         "heart; did you mean \"round\"?"},
        {"filling=crem",
         "options, column 9: dish cake: filling: unknown dish \"crem\"; did you mean"},
        {"iced=true filling=crem(fat=1)", "options, column 19: dish cake: filling: unknown dish"},
        {"filling=cream(fat=0.1 inside=pie(pieces=0))",
         "options, column 41: dish cake: filling: dish cream: inside: dish pie: pieces: \"0\" is "
         "out"},
        {"filling=cream(fat=0.1) parts=bread,bred",
         "options, column 36: dish cake: parts: unknown"},
        {"filling=cream(fat=0.1) parts=bread,cake(layers=2),cake(iced=no)",
         "options, column 61: dish cake: parts: dish cake: iced: \"no\""},
        {"layers=3 filling=pie()", "options, column 22: dish cake: filling: dish pie needs"},
    };
    lk_config c;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        ASSERT_FAILS(lk_config_parse(&test_kind_dish, "cake", wrong[i][0], arena, &c), LK_EINVAL,
                     wrong[i][1]);
    ASSERT_EQ(lk_config_parse(&test_kind_dish, "pie", NULL, arena, &c), LK_EINVAL);
    ASSERT_TRUE(strcmp(lk_error_message(), "dish pie needs the option \"pieces\"") == 0);
    ASSERT_EQ(lk_config_parse(&test_kind_dish, "cak", "layers=3", arena, &c), LK_EINVAL);
    ASSERT_TRUE(strncmp(lk_error_message(), "unknown dish", 12) == 0);
    lk_error_clear();
}

TEST(a_struct_can_be_read_without_a_kind)
{
    cake_options o;
    ASSERT_OK(lk_options_parse(&test_dishes[1], "layers=3 filling=cream(fat=0.5)", arena, &o));
    const cream_options *cream = o.filling.options;
    ASSERT_TRUE(o.layers == 3 && o.sugar == 0.25 && cream->fat == 0.5);
    ASSERT_OK(lk_options_parse(&test_dishes[1], NULL, arena, &o));
    ASSERT_TRUE(o.layers == 2 && o.filling.descriptor == &test_dishes[2]);
    ASSERT_FAILS(lk_options_parse(&test_dishes[1], "iced=true layers=0", arena, &o), LK_EINVAL,
                 "options, column 18: cake: layers: \"0\" is out of range");
    ASSERT_FAILS(lk_options_parse(&test_dishes[1], "name=x", arena, &o), LK_EINVAL,
                 "options, column 1: cake has no option \"name\"");
    pie_options pie;
    ASSERT_FAILS(lk_options_parse(&test_dishes[3], NULL, arena, &pie), LK_EINVAL,
                 "pie needs the option \"pieces\"");
}

TEST(depth_has_an_end)
{
    char text[2000] = "inside=bread";
    lk_config c;
    for (int depth = 2; depth < 40; depth++) {
        lk_status st = lk_config_parse(&test_kind_dish, "cream", text, arena, &c);
        ASSERT_EQ(st, depth <= 32 ? LK_OK : LK_EINVAL);
        char outer[2000];
        snprintf(outer, sizeof outer, "inside=cream(%.1900s)", text);
        memcpy(text, outer, sizeof text);
    }
    lk_error_clear();
}

TEST(defaults_fill_a_choice)
{
    lk_config none = {.descriptor = &test_dishes[1]}, filled, again;
    ASSERT_OK(lk_config_with_defaults(&none, arena, &filled));
    ASSERT_EQ(((cake_options *)filled.options)->layers, 2);
    ASSERT_OK(lk_config_with_defaults(&filled, arena, &again));
    ASSERT_TRUE(again.options == filled.options);
    none.descriptor = &test_dishes[3];
    ASSERT_FAILS(lk_config_with_defaults(&none, arena, &filled), LK_EINVAL,
                 "pie needs the option \"pieces\"");
}

static uint64_t hash_of(const char *text)
{
    lk_config c;
    lk_hash h = lk_hash_start();
    ASSERT_OK(lk_config_parse(&test_kind_dish, "cake", text, arena, &c));
    ASSERT_OK(lk_config_hash(&c, &h));
    return lk_hash_value(&h);
}

TEST(the_hash_knows_every_option_but_those_left_out)
{
    static const char *const other[] = {"iced=true",
                                        "layers=3",
                                        "sugar=0.5",
                                        "note=x",
                                        "tiers=3",
                                        "tiers=2,3",
                                        "weights=1",
                                        "fruits=fig",
                                        "form=heart",
                                        "filling=bread",
                                        "heat=179.9999",
                                        "filling=cream(fat=0.25)",
                                        "parts=bread",
                                        "parts=cream",
                                        "parts=cream(fat=0.1)",
                                        "name=x",
                                        "parts=cream(name=x)"};
    uint64_t plain = hash_of("");
    ASSERT_TRUE(hash_of("layers=2 sugar=0.250") == plain);
    ASSERT_TRUE(hash_of("shelf_life=99") == plain);
    for (size_t i = 0; i < sizeof other / sizeof other[0]; i++) {
        ASSERT_TRUE(hash_of(other[i]) != plain);
        for (size_t j = 0; j < i; j++)
            ASSERT_TRUE(hash_of(other[i]) != hash_of(other[j]));
    }
    lk_config none = {.descriptor = &test_dishes[1]};
    lk_hash h = lk_hash_start();
    ASSERT_OK(lk_config_hash(&none, &h));
    ASSERT_TRUE(lk_hash_value(&h) == plain);
    lk_hash before = h;
    none.descriptor = &test_dishes[3];
    ASSERT_FAILS(lk_config_hash(&none, &h), LK_EINVAL, "pieces");
    ASSERT_SAME_BITS(&h, &before, sizeof h);
}

static lk_status make(void)
{
    lk_arena *a;
    lk_status st = LK_OK;
    lk_config c;
    lk_hash h = lk_hash_start();
    LK_TRY(lk_arena_new(&a));
    for (int i = 0; i < 12; i++)
        LK_TRY_TO(done,
                  lk_config_parse(&test_kind_dish, "cake", "parts=cake,bread layers=3", a, &c));
    cake_options o;
    LK_TRY_TO(done, lk_options_parse(&test_dishes[1], "parts=cake,bread note=\"x y\"", a, &o));
    LK_TRY_TO(done, lk_config_hash(&(lk_config){.descriptor = &test_dishes[1]}, &h));
done:
    lk_arena_free(a);
    return st;
}

TEST(every_allocation_may_fail)
{
    ASSERT_TRUE(test_every_allocation_fails(make) >= 4);
}

TEST(end)
{
    lk_arena_free(arena);
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}
