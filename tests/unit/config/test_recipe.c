/* Recipes: tags, anchors and aliases as a tree in which nothing is copied, under the limits of experiments. */
#include "faults.h"
#include "harness.h"

#include <lockstep/extra/recipe.h>

#include <stdlib.h>
#include <string.h>

static lk_arena *arena;

static lk_status recipe(const char *text, const lk_recipe_node **out)
{
    return lk_recipe_read("x.yaml", text, strlen(text), arena, out);
}

static const lk_recipe_node *value_of(const lk_recipe_node *map, const char *key)
{
    const lk_recipe_entry *e = lk_recipe_find(map, key);
    ASSERT_TRUE(e);
    return e->value;
}

TEST(begin)
{
    const lk_recipe_node *root;
    ASSERT_OK(lk_arena_new(&arena));
    lk_status st = recipe("a: 1", &root);
    if (st == LK_ENOTSUP) {
        printf("SKIPPED: %s\n", lk_error_message());
        exit(77);
    }
    ASSERT_OK(st);
}

TEST(classes_texts_and_places_are_kept)
{
    const lk_recipe_node *root;
    ASSERT_OK(recipe(
        "# first\n!obj:a.b.C {\n  n: 3, q: '3',\n  empty: !obj:d.E , list: [x, y],\n}\n", &root));
    ASSERT_TRUE(strcmp(root->class_name, "a.b.C") == 0);
    ASSERT_EQ(root->n, 4);
    ASSERT_EQ(root->line, 2);
    ASSERT_EQ(root->column, 1);
    ASSERT_TRUE(strcmp(value_of(root, "n")->text, "3") == 0);
    ASSERT_TRUE(!value_of(root, "n")->quoted && value_of(root, "q")->quoted);
    ASSERT_TRUE(!value_of(root, "n")->class_name);
    const lk_recipe_node *empty = value_of(root, "empty"), *list = value_of(root, "list");
    ASSERT_TRUE(strcmp(empty->class_name, "d.E") == 0);
    ASSERT_TRUE(empty->type == LK_RECIPE_MAP && empty->n == 0);
    ASSERT_TRUE(list->type == LK_RECIPE_LIST && list->n == 2);
    ASSERT_TRUE(strcmp(list->first->next->value->text, "y") == 0);
    ASSERT_EQ(lk_recipe_find(root, "list")->line, 4);
    ASSERT_EQ(lk_recipe_find(root, "list")->column, 21);
    ASSERT_TRUE(!lk_recipe_find(root, "none"));
    ASSERT_EQ(root->size, 7);
    ASSERT_EQ(root->depth, 2);
}

TEST(an_alias_is_the_node_itself)
{
    const lk_recipe_node *root;
    ASSERT_OK(recipe("a: &a {x: [1, 2]}\nb: *a\nc: [*a, *a]\na2: &a 5\nd: *a\n", &root));
    ASSERT_TRUE(value_of(root, "b") == value_of(root, "a"));
    ASSERT_TRUE(value_of(root, "c")->first->value == value_of(root, "a"));
    ASSERT_TRUE(value_of(root, "d") == value_of(root, "a2")); /* the last of a name */
    ASSERT_EQ(lk_recipe_find(root, "b")->line, 2);
    ASSERT_EQ(value_of(root, "a")->size, 4);
    ASSERT_EQ(value_of(root, "c")->size, 9); /* two times */
    ASSERT_EQ(root->size, 1 + 4 + 4 + 9 + 1 + 1);
    ASSERT_EQ(root->depth, 4);
}

TEST(what_aliases_stand_for_is_counted)
{
    const lk_recipe_node *root;
    char text[4096];
    int n = snprintf(text, sizeof text, "a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for (int i = 1; i < 6; i++) /* each ten times as large */
        n += snprintf(text + n, sizeof text - (size_t)n,
                      "a%d: &a%d [*a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d]\n", i, i,
                      i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1);
    ASSERT_FAILS(recipe(text, &root), LK_EINVAL, "x.yaml:6:");
    ASSERT_FAILS(recipe(text, &root), LK_EINVAL, "more than 100000 values");
    ASSERT_TRUE(!root);
    n = snprintf(text, sizeof text, "d0: &d0 [x]\n");
    for (int i = 1; i < 31; i++)
        n += snprintf(text + n, sizeof text - (size_t)n, "d%d: &d%d [*d%d]\n", i, i, i - 1);
    ASSERT_OK(recipe(text, &root));
    ASSERT_EQ(root->depth, 32);
    snprintf(text + n, sizeof text - (size_t)n, "d31: [*d30]\n");
    ASSERT_FAILS(recipe(text, &root), LK_EINVAL, "x.yaml:32:7: with what aliases (*) stand for");
}

TEST(texts_that_are_none_are_refused)
{
    const lk_recipe_node *root;
    ASSERT_FAILS(recipe("", &root), LK_EINVAL, "x.yaml: nothing is in it");
    ASSERT_FAILS(recipe("a: \xff", &root), LK_EINVAL, "not valid UTF-8");
    ASSERT_FAILS(recipe("\xff\xfe\x61\x00", &root), LK_EINVAL, "save it as UTF-8");
    ASSERT_FAILS(recipe("a: &a [*a]", &root), LK_EINVAL, "x.yaml:1:8: alias *a stands within");
    ASSERT_FAILS(recipe("{&a b: 1}", &root), LK_EINVAL, "a key has an anchor or a tag");
    ASSERT_FAILS(recipe("? [a]\n: 1", &root), LK_EINVAL, "x.yaml:1:3: a key must be a text");
    ASSERT_FAILS(recipe("a: \"x\\0y\"", &root), LK_EINVAL, "a text has a zero byte");
    ASSERT_FAILS(lk_recipe_read_file("/nowhere/x.yaml", arena, &root), LK_EIO, "cannot be opened");
}

static lk_status read_one(void)
{
    static const char text[] = "a: &a !obj:m.C {x: 1}\nb: [*a, 'y']\n";
    const lk_recipe_node *root;
    lk_arena *own;
    LK_TRY(lk_arena_new(&own));
    lk_status st = lk_recipe_read("x", text, sizeof text - 1, own, &root);
    lk_arena_free(own);
    return st;
}

TEST(every_allocation_may_fail)
{
    ASSERT_TRUE(test_every_allocation_fails(read_one) >= 2);
}

TEST(end)
{
    lk_arena_free(arena);
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}
