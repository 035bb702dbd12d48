/* Experiment files: the input is a file; behind a zero byte stand assignments, each ended by one.  It
 * is read as a thing with options of all types, and as an experiment. */
#include "config/bind.h"
#include "fuzz.h"
#include "options.h"

#include <lockstep/config.h>

enum { MAX_ASSIGNMENTS = 16 };

/* Cut the input at its zero bytes: a file, and assignments as on the command line. */
static int cut(const uint8_t *data, size_t size, lk_arena *arena, const char **text)
{
    const char *at;
    int n = 0;
    if (lk_arena_text(arena, (const char *)data, size, &at) != LK_OK)
        abort();
    for (const char *end = at + size; at <= end && n <= MAX_ASSIGNMENTS; at += strlen(at) + 1)
        text[n++] = at;
    return n - 1;
}

static lk_status read_thing(const char *const *text, int n, lk_arena *arena)
{
    lk__yaml_node *root;
    lk_config choice;
    LK_TRY(lk__yaml_read("x.yaml", text[0], strlen(text[0]), arena, &root));
    for (int i = 1; i <= n; i++)
        LK_TRY(lk__node_override(root, text[i], arena));
    LK_TRY(lk__bind_config(root, &test_kind_dish, NULL, arena, &choice));
    lk_hash h = lk_hash_start();
    return lk_config_hash(&choice, &h);
}

static lk_status read_experiment(const char *const *text, int n)
{
    lk_experiment *e;
    uint64_t id;
    lk_status st = LK_OK;
    LK_TRY(lk_experiment_parse("x.yaml", text[0], text + 1, n, &e));
    LK_TRY_TO(done, lk_experiment_expand(e, 1, 2));
    LK_TRY_TO(done, lk_experiment_identity(e, 0, &id));
done:
    lk_experiment_free(e);
    return st;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    lk_arena *arena;
    const char *text[MAX_ASSIGNMENTS + 1];
    if (lk_arena_new(&arena) != LK_OK)
        abort();
    int n = cut(data, size, arena, text);
    fuzz_check_status(read_thing(text, n, arena));
    fuzz_check_status(read_experiment(text, n));
    lk_arena_free(arena);
    fuzz_check_memory();
    return 0;
}
