/* The text of DDL's options, as `-mode b:4x3 -dump_iter 100`: each once, in any order.
 * lk_ddl_init() reads it. */
#include "coll/ddl/ddl.h"

#include <string.h>

enum { WORD = 80 };

#define NAMES "-mode -dump_iter -dev_sync -rebind_iter -dbg_level"

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n';
}

/* The next word of `*at`, cut at WORD - 1; false at the end. */
static bool word_next(const char **at, char word[WORD])
{
    while (is_space(**at))
        ++*at;
    size_t n = 0;
    for (; **at && !is_space(**at); ++*at)
        if (n < WORD - 1)
            word[n++] = **at;
    word[n] = '\0';
    return n > 0;
}

static lk_status number_parse(const char *name, const char *word, int64_t max, int64_t *out)
{
    int64_t value = 0;
    size_t digits = strspn(word, "0123456789");
    for (size_t i = 0; i < digits && value <= max; i++)
        value = 10 * value + (word[i] - '0');
    LK_CHECK(digits > 0 && word[digits] == '\0' && value <= max, LK_EINVAL,
             "option %s is \"%s\"; it must be a number from 0 to %lld", name, word, (long long)max);
    *out = value;
    return LK_OK;
}

static lk_status value_parse(const char *name, const char *word, lk__ddl_options *o)
{
    int64_t value = 0;
    if (strcmp(name, "-mode") == 0)
        LK_TRY(lk_tier_spec_parse(word, &o->mode));
    else if (strcmp(name, "-dump_iter") == 0)
        LK_TRY(number_parse(name, word, 1000000000, &o->dump_iter));
    else if (strcmp(name, "-rebind_iter") == 0)
        LK_TRY(number_parse(name, word, 1000000000, &o->rebind_iter));
    else {
        LK_TRY(number_parse(name, word, 2, &value));
        *(strcmp(name, "-dev_sync") == 0 ? &o->dev_sync : &o->dbg_level) = (int)value;
    }
    return LK_OK;
}

lk_status lk__ddl_options_parse(const char *text, lk__ddl_options *out)
{
    static const char *const names[] = {"-mode", "-dump_iter", "-dev_sync", "-rebind_iter",
                                        "-dbg_level"};
    enum { N_NAMES = sizeof names / sizeof names[0] };
    lk__ddl_options o = {.mode = {.algorithm = LK_TIER_BEST}};
    bool seen[N_NAMES] = {false};
    char name[WORD] = "", value[WORD] = "";
    while (word_next(&text, name)) {
        int i = 0;
        while (i < N_NAMES && strcmp(names[i], name) != 0)
            i++;
        LK_CHECK(i < N_NAMES, LK_EINVAL, "no option \"%s\"; the options are " NAMES, name);
        LK_CHECK(!seen[i], LK_EINVAL, "option %s is there twice", name);
        LK_CHECK(word_next(&text, value), LK_EINVAL, "option %s lacks its value", name);
        LK_TRY(value_parse(name, value, &o));
        seen[i] = true;
    }
    *out = o;
    return LK_OK;
}
