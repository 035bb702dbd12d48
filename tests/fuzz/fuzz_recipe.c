/* Recipes: whatever is read has no loops, and is as large as it says. */
#include "fuzz.h"

#include <lockstep/extra/recipe.h>

/* Values below a node, each time an alias is used. */
static int64_t walk(const lk_recipe_node *node, int64_t depth)
{
    int64_t n = 1;
    if (depth > 32 || (node->type == LK_RECIPE_SCALAR && !node->text))
        abort();
    for (const lk_recipe_entry *e = node->first; e; e = e->next)
        n += walk(e->value, depth + 1);
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    lk_arena *arena;
    const lk_recipe_node *root;
    if (lk_arena_new(&arena) != LK_OK)
        abort();
    lk_status st = lk_recipe_read("x.yaml", data, size, arena, &root);
    fuzz_check_status(st);
    if (st == LK_OK && (root->size > 100000 || walk(root, 0) != root->size))
        abort();
    lk_arena_free(arena);
    fuzz_check_memory();
    return 0;
}
