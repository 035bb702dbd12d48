/* Choices: entries found by name, with options read from texts.
 *
 *     choices  = choice { "," choice }
 *     choice   = NAME [ "(" options ")" ]
 *     options  = { NAME "=" value }, separated by spaces
 *
 * A value ends at a space, a choice at a comma, unless it stands in parentheses.
 */
#include "base/failure.h"
#include "base/option.h"

#include <lockstep/suggest.h>

#include <string.h>

lk_status lk_descriptor_find(const lk_registry *kind, const char *name, const lk_descriptor **out)
{
    *out = NULL;
    LK_CHECK(name, LK_EINVAL, "the name of a %s is NULL", kind->name);
    lk_suggestion s = {.wanted = name};
    const lk_descriptor *e;
    for (int i = 0; (e = kind->at(i)); i++) {
        if (strcmp(e->name, name) == 0) {
            *out = e;
            return LK_OK;
        }
        lk_suggest_consider(&s, e->name);
    }
    if (lk_suggest_found(&s))
        return LK_RAISE(LK_EINVAL, "unknown %s \"%s\"; did you mean \"%s\"?", kind->name, name,
                        s.best);
    char all[256] = "";
    size_t used = 0;
    int n = 0;
    for (; (e = kind->at(n)) && used < sizeof all; n++)
        used += (size_t)snprintf(all + used, sizeof all - used, "%s%s", n > 0 ? ", " : "", e->name);
    if (n > 12 || used >= sizeof all)
        return LK_RAISE(LK_EINVAL, "unknown %s \"%s\"; \"lockstep list %s\" shows all", kind->name,
                        name, kind->plural);
    return LK_RAISE(LK_EINVAL, "unknown %s \"%s\"; known are %s", kind->name, name, all);
}

/* The length of what begins at `text` and ends at `end` outside parentheses, or with the text. */
static lk_status piece_length(const char *text, char end, size_t *out)
{
    int open = 0;
    size_t n = 0;
    for (; text[n] && (open > 0 || text[n] != end); n++) {
        open += (text[n] == '(') - (text[n] == ')');
        LK_CHECK(open >= 0, LK_EINVAL, "\"%s\" closes a parenthesis that is not open", text);
    }
    LK_CHECK(open == 0, LK_EINVAL, "\"%s\" does not close its parenthesis", text);
    *out = n;
    return LK_OK;
}

/* The rows of what a choice of a named kind may have beside its options. */
static const lk_option name_option = {.name = "name"}, tie_option = {.name = "tie"};

/* NAME=VALUE. */
static lk_status read_assignment(const lk_registry *kind, const char *text, lk_arena *arena,
                                 int depth, lk_config *choice, const lk_option **out)
{
    const char *name = choice->descriptor->name, *equals = strchr(text, '='), *key;
    LK_CHECK(equals, LK_EINVAL, "%s %s: \"%s\" is no NAME=VALUE", kind->name, name, text);
    LK_TRY(lk_arena_text(arena, text, (size_t)(equals - text), &key));
    if (kind->named && (strcmp(key, "name") == 0 || strcmp(key, "tie") == 0)) {
        bool tie = key[0] == 't';
        LK_CHECK(equals[1], LK_EINVAL, "%s %s has an empty %s", kind->name, name, key);
        *out = tie ? &tie_option : &name_option;
        return lk_arena_text(arena, equals + 1, strlen(equals + 1),
                             tie ? &choice->tie : &choice->name);
    }
    const lk_option *o = lk_option_find(choice->descriptor->options, key);
    if (!o) {
        const lk_option *near = lk_option_suggest(choice->descriptor->options, key);
        return LK_RAISE(LK_EINVAL, "%s %s has no option \"%s\"%s%s%s", kind->name, name, key,
                        near ? "; did you mean \"" : "", near ? near->name : "", near ? "\"?" : "");
    }
    lk_status st = lk__option_set(o, choice->options, equals + 1, arena, depth);
    if (st == LK_EINVAL)
        lk__error_prefix("%s %s: %s: ", kind->name, name, o->name);
    LK_TRY(st);
    *out = o;
    return LK_OK;
}

/* Whether `o` is one of the `n` rows that were given. */
static bool was_given(const lk_option *o, const lk_option *const *given, int n)
{
    for (int i = 0; i < n; i++)
        if (given[i] == o)
            return true;
    return false;
}

static lk_status check_required(const char *what, const lk_descriptor *entry,
                                const lk_option *const *given, int n)
{
    for (const lk_option *o = entry->options; o && o->name; o++)
        LK_CHECK(!(o->flags & LK_OPTION_REQUIRED) || was_given(o, given, n), LK_EINVAL,
                 "%s%s%s needs the option \"%s\"", what, *what ? " " : "", entry->name, o->name);
    return LK_OK;
}

static int count_options(const lk_descriptor *entry)
{
    int n = 0;
    while (entry->options && entry->options[n].name)
        n++;
    return n;
}

static lk_status read_options(const lk_registry *kind, const char *text, lk_arena *arena, int depth,
                              lk_config *choice)
{
    const lk_descriptor *entry = choice->descriptor;
    int max = count_options(entry), n = 0;
    const lk_option **given;
    LK_TRY(lk_arena_alloc(arena, &choice->options, 1, entry->options_size));
    LK_TRY(lk_arena_alloc(arena, &given, max + 2, sizeof *given));
    LK_TRY(lk__options_set_defaults(entry, choice->options, arena, depth));
    for (const char *at = text + strspn(text, " "); *at; at += strspn(at, " ")) {
        size_t len;
        const char *piece;
        const lk_option *o;
        LK_TRY(piece_length(at, ' ', &len));
        LK_TRY(lk_arena_text(arena, at, len, &piece));
        LK_TRY(read_assignment(kind, piece, arena, depth, choice, &o));
        LK_CHECK(!was_given(o, given, n), LK_EINVAL, "%s %s: option \"%s\" is given twice",
                 kind->name, entry->name, o->name);
        given[n++] = o;
        at += len;
    }
    return check_required(kind->name, entry, given, n);
}

static lk_status choice_make(const lk_registry *kind, const char *name, const char *text,
                             lk_arena *arena, int depth, lk_config *out)
{
    lk_config choice = {0};
    *out = choice;
    LK_CHECK(depth < LK_OPTION_MAX_DEPTH, LK_EINVAL, "%s \"%s\" lies within more than %d others",
             kind->name, name, LK_OPTION_MAX_DEPTH);
    LK_TRY(lk_descriptor_find(kind, name, &choice.descriptor));
    LK_TRY(read_options(kind, text ? text : "", arena, depth + 1, &choice));
    *out = choice;
    return LK_OK;
}

lk_status lk__config_read(const lk_registry *kind, const char *text, lk_arena *arena, int depth,
                          lk_config *out)
{
    const char *open = strchr(text, '('), *name, *options;
    if (!open)
        return choice_make(kind, text, NULL, arena, depth, out);
    size_t n = strlen(open);
    size_t closed;
    LK_TRY(piece_length(open, '\0', &closed));
    LK_CHECK(open[n - 1] == ')', LK_EINVAL, "\"%s\" goes on behind its options", text);
    LK_TRY(lk_arena_text(arena, text, (size_t)(open - text), &name));
    LK_TRY(lk_arena_text(arena, open + 1, n - 2, &options));
    return choice_make(kind, name, options, arena, depth, out);
}

lk_status lk__configs_read(const lk_registry *kind, const char *text, lk_arena *arena, int depth,
                           lk_configs *out)
{
    *out = (lk_configs){0};
    lk_configs list = {.n = 1};
    for (const char *c = text; *c; c++)
        list.n += *c == ','; /* those in parentheses too: an upper bound */
    LK_TRY(lk_arena_alloc(arena, &list.item, list.n, sizeof *list.item));
    list.n = 0;
    for (const char *at = text; *at;) {
        size_t len;
        const char *piece;
        LK_TRY(piece_length(at, ',', &len));
        LK_TRY(lk_arena_text(arena, at, len, &piece));
        LK_TRY(lk__config_read(kind, piece, arena, depth, &list.item[list.n]));
        list.n++;
        at += len;
        LK_CHECK(*at == '\0' || at[1], LK_EINVAL, "\"%s\" ends with a comma", text);
        at += *at == ',';
    }
    *out = list;
    return LK_OK;
}

lk_status lk_config_parse(const lk_registry *kind, const char *name, const char *text,
                          lk_arena *arena, lk_config *out)
{
    return choice_make(kind, name, text, arena, 0, out);
}

lk_status lk_config_with_defaults(const lk_config *choice, lk_arena *arena, lk_config *out)
{
    lk_config filled = *choice;
    if (filled.descriptor && !filled.options) {
        LK_TRY(check_required("", filled.descriptor, NULL, 0));
        LK_TRY(lk_arena_alloc(arena, &filled.options, 1, filled.descriptor->options_size));
        LK_TRY(lk_options_set_defaults(filled.descriptor, filled.options, arena));
    }
    *out = filled;
    return LK_OK;
}
