/* JSON of texts, whole numbers and lists.  Texts that are read can be quoted and read again. */
#include "base/text/json.h"
#include "base/text/text.h"
#include "fuzz.h"

enum { DEPTH = 32 };

static void check_text(const char *text, lk_arena *arena)
{
    size_t room = 6 * strlen(text) + 3;
    char *quoted = malloc(room);
    const char *again;
    FUZZ_CHECK(lk__utf8_is(text));
    lk__json j = {.name = "quoted", .text = quoted};
    j.n = (int64_t)lk__json_quote(text, quoted, room);
    FUZZ_CHECK(lk__json_text(&j, arena, &again) == LK_OK && lk__json_end(&j) == LK_OK);
    FUZZ_CHECK(strcmp(text, again) == 0);
    free(quoted);
}

static lk_status read_value(lk__json *j, lk_arena *arena, int depth);

static lk_status read_list(lk__json *j, lk_arena *arena, int depth, bool keys)
{
    bool more;
    if (depth > DEPTH)
        return lk__json_refuse(j, "too deep");
    LK_TRY(lk__json_open(j, keys ? '{' : '['));
    for (;;) {
        const char *key;
        LK_TRY(lk__json_more(j, keys ? '}' : ']', &more));
        if (!more)
            return LK_OK;
        if (keys) {
            LK_TRY(lk__json_key(j, arena, &key));
            check_text(key, arena);
        }
        LK_TRY(read_value(j, arena, depth + 1));
    }
}

static lk_status read_value(lk__json *j, lk_arena *arena, int depth)
{
    const char *text;
    int64_t value;
    while (j->at < j->n && memchr(" \t\r\n", j->text[j->at], 4))
        j->at++;
    switch (j->at < j->n ? j->text[j->at] : '\0') {
    case '{': LK_TRY(read_list(j, arena, depth, true)); break;
    case '[': LK_TRY(read_list(j, arena, depth, false)); break;
    case '"':
        LK_TRY(lk__json_text(j, arena, &text));
        check_text(text, arena);
        break;
    default:
        LK_TRY(lk__json_int(j, &value));
        FUZZ_CHECK(value >= 0);
        break;
    }
    return LK_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    lk_arena *arena;
    char *text = malloc(size + 1), *quoted = malloc(6 * size + 3);
    memcpy(text, data, size);
    text[size] = '\0';
    lk__json j = {.name = "input", .text = (const char *)data, .n = (int64_t)size};
    if (lk_arena_new(&arena) != LK_OK)
        abort();
    lk_status st = read_value(&j, arena, 0);
    if (st == LK_OK)
        st = lk__json_end(&j);
    fuzz_check_status(st);
    FUZZ_CHECK(j.at <= j.n);
    /* Any bytes can be quoted, and then read. */
    j = (lk__json){.name = "quoted", .text = quoted};
    j.n = (int64_t)lk__json_quote(text, quoted, 6 * size + 3);
    FUZZ_CHECK(read_value(&j, arena, 0) == LK_OK && lk__json_end(&j) == LK_OK);
    lk_arena_free(arena);
    free(text);
    free(quoted);
    fuzz_check_memory();
    return 0;
}
