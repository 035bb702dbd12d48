/* Experiment files: the input is a file; behind a zero byte stand assignments, each ended by one. */
#include "config/bind.h"
#include "fuzz.h"
#include "options.h"

/* The assignments of the input, as they are given on the command line. */
static lk_status override_all(lk_node *root, const uint8_t *data, size_t size, lk_arena *arena)
{
    while (size > 0) {
        const uint8_t *end = memchr(data, 0, size);
        size_t n = end ? (size_t)(end - data) : size;
        const char *assignment;
        LK_TRY(lk_arena_text(arena, (const char *)data, n, &assignment));
        LK_TRY(lk__node_override(root, assignment, arena));
        n += end != NULL;
        data += n;
        size -= n;
    }
    return LK_OK;
}

static lk_status read_all(const uint8_t *data, size_t size, lk_arena *arena)
{
    const uint8_t *end = memchr(data, 0, size);
    size_t n = end ? (size_t)(end - data) : size;
    lk_node *root;
    lk_choice choice;
    LK_TRY(lk__yaml_read("x.yaml", data, n, arena, &root));
    if (end)
        LK_TRY(override_all(root, end + 1, size - n - 1, arena));
    LK_TRY(lk__bind_choice(root, &test_kind_dish, NULL, arena, &choice));
    lk_hash h = lk_hash_start();
    return lk_choice_hash(&choice, &h);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    lk_arena *arena;
    if (lk_arena_new(&arena) != LK_OK)
        abort();
    fuzz_check_status(read_all(data, size, arena));
    lk_arena_free(arena);
    fuzz_check_memory();
    return 0;
}
