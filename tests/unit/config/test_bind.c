/* Binding: values reach their fields; what is wrong is named with its place. */
#include "config/bind.h"
#include "faults.h"
#include "options.h"
#include "yaml.h"

static lk_arena *arena;

static lk_status bind(const char *text, lk_config *out)
{
    return lk__bind_config(test_yaml(text, arena), &test_kind_dish, NULL, arena, out);
}

TEST(begin)
{
    ASSERT_OK(lk_arena_new(&arena));
}

TEST(every_type_is_bound)
{
    lk_config c;
    ASSERT_OK(bind("type: cake\n"
                   "name: sacher\n"
                   "iced: true\n"
                   "layers: 4\n"
                   "sugar: 1e-1\n"
                   "note: '7'\n"
                   "tiers: [5, 4]\n"
                   "weights: 0.5\n"
                   "fruits: [fig, plum]\n"
                   "form: heart\n"
                   "filling: {type: cream, fat: 0.5, inside: bread}\n"
                   "parts: [bread, {type: pie, pieces: 3, name: p}]\n",
                   &c));
    const cake_options *o = c.options;
    ASSERT_TRUE(c.descriptor == &test_dishes[1] && strcmp(c.name, "sacher") == 0);
    ASSERT_TRUE(o->iced && o->layers == 4 && o->sugar == 0.1 && o->heat == 180);
    ASSERT_TRUE(strcmp(o->note, "7") == 0 && o->tiers.n == 2 && o->tiers.item[1] == 4);
    ASSERT_TRUE(o->weights.n == 1 && o->weights.item[0] == 0.5 && o->form == 2);
    ASSERT_TRUE(o->fruits.n == 2 && strcmp(o->fruits.item[1], "plum") == 0);
    const cream_options *cream = o->filling.options;
    ASSERT_TRUE(cream->fat == 0.5 && cream->inside.descriptor == &test_dishes[0]);
    ASSERT_TRUE(o->parts.n == 2 && o->parts.item[0].descriptor == &test_dishes[0]);
    ASSERT_TRUE(strcmp(o->parts.item[1].name, "p") == 0 && !o->parts.item[0].name);
    ASSERT_EQ(((const pie_options *)o->parts.item[1].options)->pieces, 3);
}

TEST(a_name_alone_has_the_defaults)
{
    lk_config c;
    ASSERT_OK(bind("cake", &c));
    const cake_options *o = c.options;
    ASSERT_TRUE(o->layers == 2 && o->tiers.n == 2 && o->filling.descriptor == &test_dishes[2]);
}

TEST(scalars_serve_as_lists_and_lists_may_be_empty)
{
    lk_config c;
    ASSERT_OK(bind("{type: cake, tiers: 7, parts: bread, fruits: []}", &c));
    const cake_options *o = c.options;
    ASSERT_TRUE(o->tiers.n == 1 && o->tiers.item[0] == 7 && o->parts.n == 1 && o->fruits.n == 0);
    ASSERT_OK(bind("{type: cake, tiers: [], parts: []}", &c));
    o = c.options;
    ASSERT_TRUE(o->tiers.n == 0 && o->parts.n == 0);
}

TEST(what_is_wrong_is_named_with_its_place)
{
    static const char *const wrong[][2] = {
        {"{type: cake, layrs: 2}",
         "x.yaml:1:14: unknown key \"layrs\" of dish cake; did you mean \"layers\"?"},
        {"{type: cake, shelf-life: 2}", "unknown key \"shelf-life\" of dish cake; did you mean "
                                        "\"shelf_life\"?"},
        {"{type: cake, zzz: 2}", "x.yaml:1:14: unknown key \"zzz\" of dish cake"},
        {"{type: cake, layers: many}",
         "x.yaml:1:22: layers of dish cake: \"many\" is not a whole number"},
        {"{type: cake, layers: 10}", "x.yaml:1:22: layers of dish cake: \"10\" is out of range, it "
                                     "must be from 1 to 9"},
        {"{type: cake, layers: 0x2}", "\"0x2\" is not a whole number"},
        {"{type: cake, layers: 010}", "\"010\" is not a whole number"},
        {"{type: cake, layers: '2'}",
         "x.yaml:1:22: layers of dish cake must be a whole number, not "
         "the text \"2\""},
        {"{type: cake, layers: [2]}", "layers of dish cake must be a whole number, not a list"},
        {"{type: cake, heat: 1e999}", "heat of dish cake: \"1e999\" is too large a number"},
        {"{type: cake, heat: .nan}", "heat of dish cake: \".nan\" is not a number"},
        {"{type: cake, heat: .inf}", "is not a number"},
        {"{type: cake, iced: yes}", "iced of dish cake: \"yes\" is neither true nor false"},
        {"{type: cake, heat: }", "x.yaml:1:20: heat of dish cake has no value"},
        {"{type: cake, note: ~}", "note of dish cake has no value"},
        {"{type: cake, note: {a: 1}}", "note of dish cake must be a text, not a map"},
        {"{type: cake, tiers: [1, [2]]}",
         "x.yaml:1:25: tiers of dish cake must be a whole number or a list of them, not a list"},
        {"{type: cake, tiers: [1, 1]}",
         "x.yaml:1:25: tiers of dish cake: \"1\" is in the list twice"},
        {"{type: cake, form: oval}", "form of dish cake: \"oval\" is none of square round heart"},
        {"{type: cake, filling: craem}",
         "x.yaml:1:23: unknown dish \"craem\"; did you mean \"cream\"?"},
        {"{type: cake, filling: [bread]}",
         "x.yaml:1:23: dish must be a name or a map with a type, not a list"},
        {"{type: cake, parts: [{type: pie}]}", "x.yaml:1:22: dish pie needs the key \"pieces\""},
        {"{type: cake, parts: [bread, pie]}", "x.yaml:1:29: dish pie needs the key \"pieces\""},
        {"{type: cake, parts: [{pieces: 1}]}", "x.yaml:1:22: dish needs the key \"type\""},
        {"{type: [cake]}", "x.yaml:1:8: the type of dish must be a name, not a list"},
        {"{type: }", "x.yaml:1:8: the type of dish has no value"},
        {"{type: bread, name: ''}", "x.yaml:1:1: dish bread has an empty name"},
        {"{type: \"\\e[1mcake\"}", "unknown dish \"\\x1b[1mcake\""},
    };
    lk_config c;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        ASSERT_FAILS(bind(wrong[i][0], &c), LK_EINVAL, wrong[i][1]);
        ASSERT_TRUE(!c.descriptor);
    }
}

TEST(several_structs_share_a_map)
{
    cream_options cream;
    pie_options pie;
    const lk__binding both[] = {{&test_dishes[2], &cream, NULL}, {&test_dishes[3], &pie, "pie"}};
    const lk__yaml_node *map = test_yaml("fat: 0.7\npie: {pieces: 4}\n", arena);
    ASSERT_OK(lk__bind_map(map, NULL, "menu", false, both, 2, arena));
    ASSERT_TRUE(cream.fat == 0.7 && pie.pieces == 4);
    map = test_yaml("fat: 0.7\npie: {piece: 4}\n", arena);
    ASSERT_FAILS(lk__bind_map(map, NULL, "menu", false, both, 2, arena), LK_EINVAL,
                 "x.yaml:2:7: unknown key \"piece\" of menu.pie; did you mean \"pieces\"?");
    map = test_yaml("pies: {pieces: 4}\n", arena);
    ASSERT_FAILS(lk__bind_map(map, NULL, "menu", false, both, 2, arena), LK_EINVAL,
                 "x.yaml:1:1: unknown key \"pies\" of menu; did you mean \"pie\"?");
    map = test_yaml("pie: 4\n", arena);
    ASSERT_FAILS(lk__bind_map(map, NULL, "menu", false, both, 2, arena), LK_EINVAL,
                 "x.yaml:1:6: menu.pie must be a map, not \"4\"");
    map = test_yaml("pie: {}\n", arena);
    ASSERT_FAILS(lk__bind_map(map, NULL, "menu", false, both, 2, arena), LK_EINVAL,
                 "x.yaml:1:6: menu.pie needs the key \"pieces\"");
    ASSERT_OK(lk__bind_map(NULL, NULL, "menu", false, both, 1, arena));
    ASSERT_TRUE(cream.fat == 0.3);
}

static lk_status read_and_bind(void)
{
    static const char text[] = "{type: cake, parts: [bread, cake, cake, cake, cake], note: x}";
    lk_arena *a;
    lk_status st = LK_OK;
    lk_config c;
    lk__yaml_node *root;
    LK_TRY(lk_arena_new(&a));
    LK_TRY_TO(done, lk__yaml_read("x", text, sizeof text - 1, a, &root));
    for (int i = 0; i < 3; i++)
        LK_TRY_TO(done, lk__bind_config(root, &test_kind_dish, NULL, a, &c));
done:
    lk_arena_free(a);
    return st;
}

TEST(every_allocation_may_fail)
{
    ASSERT_TRUE(test_every_allocation_fails(read_and_bind) >= 3);
}

TEST(end)
{
    lk_arena_free(arena);
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}
