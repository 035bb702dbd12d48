/* YAML: what is read becomes a tree with places; what is not allowed is refused at its place. */
#include "faults.h"
#include "yaml.h"

#include <unistd.h>

static lk_arena *arena;

static lk_status read_text(const char *text, lk__yaml_node **out)
{
    return lk__yaml_read("x.yaml", text, strlen(text), arena, out);
}

static lk__yaml_node *tree(const char *text)
{
    return test_yaml(text, arena);
}

/* The tree in one line: [a,b] for lists, {k:v} for maps, "quoted". */
static void show(const lk__yaml_node *node, char *buf, size_t size)
{
    size_t n = strlen(buf);
    const char *ends = node->type == LK__YAML_LIST ? "[]" : "{}";
    if (node->type == LK__YAML_SCALAR) {
        snprintf(buf + n, size - n, node->quoted ? "\"%s\"" : "%s", node->text);
        return;
    }
    snprintf(buf + n, size - n, "%c", ends[0]);
    for (const lk__yaml_node *child = node->first; child; child = child->next) {
        if (child != node->first)
            snprintf(buf + strlen(buf), size - strlen(buf), ",");
        if (child->key)
            snprintf(buf + strlen(buf), size - strlen(buf), "%s:", child->key);
        show(child, buf, size);
    }
    snprintf(buf + strlen(buf), size - strlen(buf), "%c", ends[1]);
}

static void assert_tree(const lk__yaml_node *root, const char *expected)
{
    char shown[1000] = "";
    show(root, shown, sizeof shown);
    if (strcmp(shown, expected) != 0)
        TEST_FAIL("%s, not %s", shown, expected);
}

TEST(begin)
{
    ASSERT_OK(lk_arena_new(&arena));
}

TEST(scalars_lists_and_maps_become_a_tree)
{
    assert_tree(tree("seed: 1\nmodel:\n  - {type: conv, kernel: [3, 5]}\n  - relu\nnote: 'a b'\n"),
                "{seed:1,model:[{type:conv,kernel:[3,5]},relu],note:\"a b\"}");
    assert_tree(tree("a:\nb: []\nc: {}\nd: \"\\u00e4\"\n"), "{a:,b:[],c:{},d:\"ä\"}");
    assert_tree(tree("--- x # comment\n...\n"), "x");
    assert_tree(tree("\xef\xbb\xbfseed: 1\nnote: x\n"), "{seed:1,note:x}"); /* a byte-order mark */
    assert_tree(tree("t: |\n  one\n  two\n"), "{t:\"one\ntwo\n\"}");
}

TEST(nodes_know_their_places)
{
    const lk__yaml_node *root = tree("seed: 1\nmodel:\n  - conv\n  - {type: linear, ü: 10}\n");
    const lk__yaml_node *linear = lk__node_find(root, "model")->last;
    const lk__yaml_node *units = lk__node_find(linear, "ü");
    char where[LK_WHERE];
    ASSERT_TRUE(strcmp(lk__place_text(&units->place, where), "x.yaml:4:23") == 0);
    ASSERT_TRUE(strcmp(lk__place_text(&units->key_place, where), "x.yaml:4:20") == 0);
    ASSERT_TRUE(!lk__node_find(linear, "unit"));
    ASSERT_EQ(lk__node_find(root, "model")->n, 2);
}

TEST(what_is_not_allowed_is_refused_at_its_place)
{
    static const char *const wrong[][2] = {
        {"a: &x 1", "x.yaml:1:4: anchors (&) are not allowed"},
        {"a: &x [1]", "x.yaml:1:4: anchors (&) are not allowed"},
        {"a: *x", "x.yaml:1:4: aliases (*) are not allowed"},
        {"a: !obj:b.C {}", "x.yaml:1:4: tags (!) are not allowed"},
        {"a: !!str 1", "x.yaml:1:4: tags (!) are not allowed"},
        {"a: ! 1", "x.yaml:1:4: tags (!) are not allowed"},
        {"<<: {}", "x.yaml:1:1: merge keys (<<) are not allowed"},
        {"a: 1\nb: 2\na: 3", "x.yaml:3:1: key \"a\" is given twice, first in line 1"},
        {"{a: 1, 'a': 2}", "x.yaml:1:8: key \"a\" is given twice"},
        {"[1]: 2", "x.yaml:1:1: a key must be a text"},
        {"? {a: 1}\n: 2", "x.yaml:1:3: a key must be a text"},
        {"'': 1", "x.yaml:1:1: a key is empty"},
        {"a: 1\n---\nb: 2", "x.yaml:2:1: a second document begins"},
        {"a: [1, 2", "x.yaml:2:1: not valid YAML: did not find expected ',' or ']'"},
        {"a: 'x", "not valid YAML: found unexpected end of stream"},
        {"a:\n\t- b", "x.yaml:2:1: not valid YAML: found character that cannot start any token"},
        {"a: \"\\0\"", "x.yaml:1:4: a text has a zero byte"},
        {"", "x.yaml: nothing is in it"},
        {"# only a comment", "x.yaml: nothing is in it"},
        {"a: 1\nb: \xff\n", "x.yaml:2:4: not valid UTF-8 text: invalid leading UTF-8 octet"},
        {"a: \xc3", "x.yaml:1:4: not valid UTF-8 text: incomplete UTF-8 octet sequence"},
        {"ä: \xed\xa0\x80", "x.yaml:1:4: not valid UTF-8 text: invalid Unicode character"},
        {"a: \x1b[31m", "x.yaml:1:4: not valid UTF-8 text: control characters are not allowed"},
        {"\xff\xfe"
         "a",
         "x.yaml:1:1: the text is UTF-16 or UTF-32: save it as UTF-8"},
        {"\xfe\xff\x01", "x.yaml:1:1: the text is UTF-16 or UTF-32: save it as UTF-8"},
        {"\xef\xbb\xbf", "x.yaml: nothing is in it"},
        {"\xef\xbb\xbfü: *x", "x.yaml:1:4: aliases (*) are not allowed"},
    };
    lk__yaml_node *root;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        ASSERT_FAILS(read_text(wrong[i][0], &root), LK_EINVAL, wrong[i][1]);
        ASSERT_TRUE(!root);
    }
}

TEST(controls_in_keys_are_escaped_in_messages)
{
    lk__yaml_node *root;
    ASSERT_FAILS(read_text("\"\\e[2J\": 1\n\"\\e[2J\": 2", &root), LK_EINVAL, "\"\\x1b[2J\"");
}

/* `n` times `text`, then `tail`, in memory that the caller frees. */
static char *repeated(const char *text, int n, const char *tail)
{
    size_t len = strlen(text);
    char *all = malloc(len * (size_t)n + strlen(tail) + 1);
    ASSERT_TRUE(all);
    for (int i = 0; i < n; i++)
        memcpy(all + len * (size_t)i, text, len);
    memcpy(all + len * (size_t)n, tail, strlen(tail) + 1);
    return all;
}

static void assert_repeated_fails(const char *text, int n, const char *tail, const char *message)
{
    lk__yaml_node *root;
    char *all = repeated(text, n, tail);
    ASSERT_FAILS(read_text(all, &root), LK_EINVAL, message);
    free(all);
}

TEST(limits_hold)
{
    char *deep = repeated("[", 32, "]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]");
    tree(deep);
    free(deep);
    assert_repeated_fails("[", 33, "]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]",
                          "x.yaml:1:33: lists and maps lie within each other more than 32 deep");
    assert_repeated_fails("[", 100000, "", "more than 32 deep");
    assert_repeated_fails("{a: ", 100000, "", "more than 32 deep");
    assert_repeated_fails("- ", 100000, "", "more than 32 deep");
    assert_repeated_fails("- 1\n", 100000, "", "x.yaml:100000:3: more than 100000 values");
    char *many = repeated("- 1\n", 99999, "");
    ASSERT_EQ(tree(many)->n, 99999);
    free(many);
    assert_repeated_fails("k", 257, ": 1", "x.yaml:1:1: a key has more than 256 bytes");
    assert_repeated_fails("x", LK_YAML_SIZE + 1, "", "x.yaml: more than 1048576 bytes");
    char keys[32 * 1001] = "";
    size_t n = 0;
    for (int i = 0; i < 1001; i++)
        n += (size_t)snprintf(keys + n, sizeof keys - n, "k%d: 1\n", i);
    lk__yaml_node *root;
    ASSERT_FAILS(read_text(keys, &root), LK_EINVAL, "x.yaml:1001:1: a map has more than 1000 keys");
}

TEST(long_names_keep_their_ends)
{
    char name[1000], where[LK_WHERE];
    memset(name, 'a', sizeof name);
    snprintf(name + 900, 100, "/mnist.yaml");
    lk__yaml_pos at = {name, INT64_MAX, INT64_MAX};
    ASSERT_TRUE(strstr(lk__place_text(&at, where), "/mnist.yaml:9223372036854775807:92"));
    ASSERT_TRUE(strncmp(where, "...aaa", 6) == 0);
}

TEST(files_are_read)
{
    lk__yaml_node *root;
    char path[] = "/tmp/test_yaml.XXXXXX";
    int fd = mkstemp(path);
    ASSERT_TRUE(fd >= 0 && write(fd, "a: [1]\nb", 8) == 8 && close(fd) == 0);
    ASSERT_FAILS(lk__yaml_read_file(path, arena, &root), LK_EINVAL,
                 ": not valid YAML: could not find expected ':'");
    ASSERT_EQ(truncate(path, 6), 0);
    ASSERT_OK(lk__yaml_read_file(path, arena, &root));
    assert_tree(root, "{a:[1]}");
    ASSERT_TRUE(strcmp(root->place.name, path) == 0);
    unlink(path);
    ASSERT_FAILS(lk__yaml_read_file(path, arena, &root), LK_EIO, "cannot be opened: No such file");
    ASSERT_FAILS(lk__yaml_read_file("/tmp", arena, &root), LK_EIO,
                 "/tmp: cannot be read: Is a dir");
}

static void override_all(const char *text, const char *const *assignment, const char *expected)
{
    lk__yaml_node *root = tree(text);
    for (; *assignment; assignment++)
        ASSERT_OK(lk__node_override(root, *assignment, arena));
    assert_tree(root, expected);
}

#define OVERRIDE(text, expected, ...) \
    override_all(text, (const char *const[]){__VA_ARGS__, NULL}, expected)

TEST(assignments_change_the_tree)
{
    const char
        *text = "optimizer: sgd\nmodel:\n- {type: conv, filters: 8}\n- relu\ndata: {batch: 1}";
    OVERRIDE(text, "{optimizer:sgd,model:[{type:conv,filters:16},relu],data:{batch:64}}",
             "model.0.filters=16", "data.batch=64");
    OVERRIDE("optimizer: sgd\na: 1", "{optimizer:{type:sgd,rate:0.1},a:1}", "optimizer.rate=0.1");
    OVERRIDE("a: 1", "{a:1,train:{checkpoint:{every:1 epoch}}}", "train.checkpoint.every=1 epoch");
    OVERRIDE("a: [1, x, 3]", "{a:[1,{k:[5,\"6\"]},3]}", "a.1={k: [5, '6']}");
    OVERRIDE("a: {b: 1, c: 2}", "{a:7,d:3}", "a=7", "d=3");
    OVERRIDE("a: x\nb: 2", "{a:{type:x,k:a=b},b:2}", "a.k=a=b");
}

TEST(wrong_assignments_are_refused)
{
    static const char *const wrong[][2] = {
        {"epochs", "\"epochs\" is no KEY=VALUE"},
        {"=1", "=1: KEY must be names with points between them"},
        {"a..b=1", "a..b=1: KEY must be names"},
        {"a=", "a=: VALUE is missing"},
        {"a=[1", "a=[1: VALUE:2:1: not valid YAML"},
        {"a=*x", "aliases (*) are not allowed"},
        {"l.2=1", "l.2=1: there is no item 2, the list has 2"},
        {"l.x=1", "l.x=1: \"x\" must be the number of an item, from 0"},
        {"l.-1=1", "must be the number of an item"},
        {"l.99999999999999999999=1", "must be the number of an item"},
        {"l.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0=1", "KEY has 32 names"},
    };
    lk__yaml_node *root = tree("l: [1, 2]");
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        ASSERT_FAILS(lk__node_override(root, wrong[i][0], arena), LK_EINVAL, wrong[i][1]);
}

static lk_status read_and_override(void)
{
    lk_arena *a;
    lk__yaml_node *root;
    lk_status st = LK_OK;
    static char text[20000];
    for (int i = 0; i < 3000; i++)
        memcpy(text + 4 * i, "- 1\n", 4);
    LK_TRY(lk_arena_new(&a));
    LK_TRY_TO(done, lk__yaml_read("x", text, strlen(text), a, &root));
    for (int i = 0; i < 100; i++)
        LK_TRY_TO(done, lk__node_override(root, "7.b.c=[1, 2, 3]", a));
done:
    lk_arena_free(a);
    return st;
}

TEST(every_allocation_may_fail)
{
    ASSERT_TRUE(test_every_allocation_fails(read_and_override) > 10);
}

TEST(end)
{
    lk_arena_free(arena);
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}
