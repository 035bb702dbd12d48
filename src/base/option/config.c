/* lk_config: the name of a descriptor (a layer, an optimizer, a format) with the values of its
 * options, read from texts or completed with defaults.  Programs, the command and experiment files
 * make them; any thread.
 *
 *     choices  = choice { "," choice }
 *     choice   = NAME [ "(" options ")" ]
 *     options  = { NAME "=" value }, separated by spaces
 *
 * A value ends at a space, a choice at a comma, unless it stands in parentheses or double quotes.
 */
#include "base/failure.h"
#include "base/option/option.h"

#include <lockstep/extra/suggest.h>

#include <string.h>

lk_status lk_descriptor_find(const lk_registry *kind, const char *name, const lk_descriptor **out)
{
    *out = NULL;
    LK_CHECK(name, LK_EINVAL, "the name of the %s is NULL", kind->name);
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

/* The length of what begins at `text` and ends at `end` outside parentheses and quotes, or with the
 * text. */
static lk_status piece_length(const char *text, char end, size_t *out)
{
    int open = 0;
    bool quoted = false;
    size_t n = 0;
    for (; text[n] && (open > 0 || quoted || text[n] != end); n++) {
        quoted = quoted != (text[n] == '"');
        if (!quoted)
            open += (text[n] == '(') - (text[n] == ')');
        LK_CHECK(open >= 0, LK_EINVAL, "\"%s\" closes a parenthesis that is not open", text);
    }
    LK_CHECK(!quoted, LK_EINVAL, "%s does not close its quotes", text);
    LK_CHECK(open == 0, LK_EINVAL, "\"%s\" does not close its parenthesis", text);
    *out = n;
    return LK_OK;
}

/* A value without the quotes around it, if there are. */
static lk_status unquote(const char *text, lk_arena *arena, const char **out)
{
    size_t n = strlen(text);
    *out = text;
    if (*text != '"')
        return LK_OK;
    LK_CHECK(strchr(text + 1, '"') == text + n - 1, LK_EINVAL, "%s goes on behind its quotes",
             text);
    return LK_TRACE(lk_arena_text(arena, text + 1, n - 2, out));
}

enum { WHAT_SIZE = 96 }; /* of "layer conv" in messages */

/* The rows of what a choice of a named kind may have beside its options. */
static const lk_option name_option = {.name = "name"}, tie_option = {.name = "tie"},
                       stage_option = {.name = "stage",
                                       .type = LK_OPTION_FLAG,
                                       .offset = offsetof(lk_config, stage)};

/* The text of a name or a tie. */
static lk_status read_label(const char *what, const lk_option *row, const char *text,
                            lk_arena *arena, lk_config *choice)
{
    const char *value;
    LK_TRY(unquote(text, arena, &value));
    LK_CHECK(*value, LK_EINVAL, "%s has an empty %s", what, row->name);
    return LK_TRACE(lk_arena_text(arena, value, strlen(value),
                                  row == &tie_option ? &choice->tie : &choice->name));
}

/* The row of NAME=VALUE; NULL: there is none. */
static const lk_option *row_find(const lk_registry *kind, const lk_config *choice, const char *key)
{
    if (kind && kind->named && strcmp(key, "name") == 0)
        return &name_option;
    if (kind && kind->named && strcmp(key, "tie") == 0)
        return &tie_option;
    if (kind && kind->named && strcmp(key, "stage") == 0)
        return &stage_option;
    return lk_option_find(choice->descriptor->options, key);
}

/* NAME=VALUE of `what`, such as "layer conv"; `kind` is NULL of what is of no kind. */
static lk_status read_assignment(const lk_registry *kind, const char *what, const char *text,
                                 lk_arena *arena, lk__option_reader *r, lk_config *choice,
                                 const lk_option **out)
{
    const char *equals = strchr(text, '='), *key, *value;
    LK_CHECK(equals, LK_EINVAL, "%s: \"%s\" is no NAME=VALUE", what, text);
    LK_TRY(lk_arena_text(arena, text, (size_t)(equals - text), &key));
    const lk_option *o = row_find(kind, choice, key);
    *out = o;
    if (o == &name_option || o == &tie_option)
        return read_label(what, o, equals + 1, arena, choice);
    if (!o) {
        const lk_option *near = lk_option_suggest(choice->descriptor->options, key);
        return LK_RAISE(LK_EINVAL, "%s has no option \"%s\"%s%s%s", what, key,
                        near ? "; did you mean \"" : "", near ? near->name : "", near ? "\"?" : "");
    }
    r->at += (size_t)(equals + 1 - text);
    lk_status st = unquote(equals + 1, arena, &value);
    if (st == LK_OK)
        st = lk__option_set(o, o == &stage_option ? (void *)choice : choice->options, value, arena,
                            r);
    if (st == LK_EINVAL)
        lk__error_prefix("%s: %s: ", what, o->name);
    return LK_TRACE(st);
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
                 "%s needs the option \"%s\"", what, o->name);
    return LK_OK;
}

static int count_options(const lk_descriptor *entry)
{
    int n = 0;
    while (entry->options && entry->options[n].name)
        n++;
    return n;
}

/* The options of `choice`, whose fields are there; `kind` as for read_assignment(). */
static lk_status read_options(const lk_registry *kind, const char *text, lk_arena *arena,
                              lk__option_reader *r, lk_config *choice)
{
    const lk_descriptor *entry = choice->descriptor;
    int max = count_options(entry), n = 0;
    size_t begin = r->at;
    const lk_option **given;
    char what[WHAT_SIZE];
    snprintf(what, sizeof what, "%s%s%s", kind ? kind->name : "", kind ? " " : "", entry->name);
    LK_TRY(lk_arena_alloc(arena, &given, max + 3, sizeof *given));
    LK_TRY(lk__options_set_defaults(entry, choice->options, arena, r));
    for (const char *at = text + strspn(text, " "); *at; at += strspn(at, " ")) {
        size_t len, here = begin + (size_t)(at - text);
        const char *piece;
        const lk_option *o;
        r->at = here;
        LK_TRY(piece_length(at, ' ', &len));
        LK_TRY(lk_arena_text(arena, at, len, &piece));
        LK_TRY(read_assignment(kind, what, piece, arena, r, choice, &o));
        r->at = here;
        LK_CHECK(!was_given(o, given, n), LK_EINVAL, "%s: option \"%s\" is given twice", what,
                 o->name);
        given[n++] = o;
        at += len;
    }
    r->at = begin;
    return check_required(what, entry, given, n);
}

/* `text` has the options, and begins `ahead` characters behind the name. */
static lk_status choice_make(const lk_registry *kind, const char *name, const char *text,
                             size_t ahead, lk_arena *arena, lk__option_reader *r, lk_config *out)
{
    lk_config choice = {0};
    *out = choice;
    LK_CHECK(r->depth < LK_OPTION_MAX_DEPTH, LK_EINVAL, "%s \"%s\" lies within more than %d others",
             kind->name, name, LK_OPTION_MAX_DEPTH);
    LK_TRY(lk_descriptor_find(kind, name, &choice.descriptor));
    LK_TRY(lk_arena_alloc(arena, &choice.options, 1, choice.descriptor->options_size));
    r->depth++;
    r->at += ahead;
    LK_TRY(read_options(kind, text, arena, r, &choice));
    r->at -= ahead;
    r->depth--;
    *out = choice;
    return LK_OK;
}

lk_status lk__config_read(const lk_registry *kind, const char *text, lk_arena *arena,
                          lk__option_reader *r, lk_config *out)
{
    const char *open = strchr(text, '('), *name, *options;
    if (!open)
        return choice_make(kind, text, "", 0, arena, r, out);
    size_t n = strlen(open), closed;
    LK_TRY(piece_length(open, '\0', &closed));
    LK_CHECK(open[n - 1] == ')', LK_EINVAL, "\"%s\" goes on behind its options", text);
    LK_TRY(lk_arena_text(arena, text, (size_t)(open - text), &name));
    LK_TRY(lk_arena_text(arena, open + 1, n - 2, &options));
    return choice_make(kind, name, options, (size_t)(open + 1 - text), arena, r, out);
}

lk_status lk__configs_read(const lk_registry *kind, const char *text, lk_arena *arena,
                           lk__option_reader *r, lk_configs *out)
{
    size_t begin = r->at;
    *out = (lk_configs){0};
    lk_configs list = {.n = 1};
    for (const char *c = text; *c; c++)
        list.n += *c == ','; /* those in parentheses too: an upper bound */
    LK_TRY(lk_arena_alloc(arena, &list.item, list.n, sizeof *list.item));
    list.n = 0;
    for (const char *at = text; *at;) {
        size_t len;
        const char *piece;
        r->at = begin + (size_t)(at - text);
        LK_TRY(piece_length(at, ',', &len));
        LK_TRY(lk_arena_text(arena, at, len, &piece));
        LK_TRY(lk__config_read(kind, piece, arena, r, &list.item[list.n]));
        list.n++;
        at += len;
        LK_CHECK(*at == '\0' || at[1], LK_EINVAL, "\"%s\" ends with a comma", text);
        at += *at == ',';
    }
    r->at = begin;
    *out = list;
    return LK_OK;
}

/* Where in `text`, which a caller gave, reading has failed. */
static void column_say(lk_status st, const char *text, const lk__option_reader *r)
{
    if (st == LK_EINVAL && r->depth > 0 && *text)
        lk__error_prefix("options, column %zu: ", r->at + 1);
}

lk_status lk_config_parse(const lk_registry *kind, const char *name, const char *text,
                          lk_arena *arena, lk_config *out)
{
    lk__option_reader r = {.depth = 0};
    text = text ? text : "";
    lk_status st = choice_make(kind, name, text, 0, arena, &r, out);
    column_say(st, text, &r);
    return st;
}

lk_status lk_options_parse(const lk_descriptor *descriptor, const char *text, lk_arena *arena,
                           void *fields)
{
    lk__option_reader r = {.depth = 1};
    text = text ? text : "";
    lk_status st = read_options(NULL, text, arena, &r,
                                &(lk_config){.descriptor = descriptor, .options = fields});
    column_say(st, text, &r);
    return st;
}

lk_status lk_config_with_defaults(const lk_config *choice, lk_arena *arena, lk_config *out)
{
    lk_config filled = *choice;
    if (filled.descriptor && !filled.options) {
        LK_TRY(check_required(filled.descriptor->name, filled.descriptor, NULL, 0));
        LK_TRY(lk_arena_alloc(arena, &filled.options, 1, filled.descriptor->options_size));
        LK_TRY(lk_options_set_defaults(filled.descriptor, filled.options, arena));
    }
    *out = filled;
    return LK_OK;
}
