/* Options as texts: the input is what stands behind the name of a choice.  What can be read is shown
 * and read again, with the same result. */
#include "fuzz.h"
#include "options.h"

static void check_shown(const lk_config *cake, lk_arena *arena)
{
    for (const lk_option *o = cake_table; o->name; o++) {
        char buf[8192];
        cake_options again = {0};
        bool entries = o->type == LK_OPTION_CONFIG || o->type == LK_OPTION_CONFIGS;
        lk_option_show(o, cake->options, buf, sizeof buf);
        if (!*buf || entries || strlen(buf) == sizeof buf - 1)
            continue;
        FUZZ_CHECK(lk_option_set(o, &again, buf, arena) == LK_OK);
        char second[8192];
        FUZZ_CHECK(strcmp(lk_option_show(o, &again, second, sizeof second), buf) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    lk_arena *arena;
    lk_config cake;
    const char *text;
    if (lk_arena_new(&arena) != LK_OK ||
        lk_arena_text(arena, (const char *)data, size, &text) != LK_OK)
        abort();
    lk_status st = lk_config_parse(&test_kind_dish, "cake", text, arena, &cake);
    if (st == LK_OK)
        check_shown(&cake, arena);
    fuzz_check_status(st);
    lk_arena_free(arena);
    fuzz_check_memory();
    return 0;
}
