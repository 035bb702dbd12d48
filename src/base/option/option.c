/* Tables of options (<lockstep/option.h>): a value is read from text into the field of a struct
 * that its row names, checked against the row's range, or set to the default.  Experiment files,
 * the command line and texts of configs all come through here. */
#include "base/option/option.h"

#include "base/fpenv.h"
#include "base/text/number.h"

#include <lockstep/extra/suggest.h>

#include <math.h>
#include <string.h>

static bool same_name(const char *a, const char *b)
{
    for (; *a || *b; a++, b++)
        if ((*a == '-' ? '_' : *a) != (*b == '-' ? '_' : *b))
            return false;
    return true;
}

const lk_option *lk_option_find(const lk_option *table, const char *name)
{
    for (const lk_option *o = table; o && o->name; o++)
        if (same_name(o->name, name))
            return o;
    return NULL;
}

const lk_option *lk_option_suggest(const lk_option *table, const char *name)
{
    char wanted[64]; /* enough to compare with any name of a table */
    snprintf(wanted, sizeof wanted, "%s", name);
    for (char *c = wanted; *c; c++)
        if (*c == '-')
            *c = '_';
    lk_suggestion s = {.wanted = wanted};
    for (const lk_option *o = table; o && o->name; o++)
        lk_suggest_consider(&s, o->name);
    return lk_suggest_found(&s) ? lk_option_find(table, s.best) : NULL;
}

/* ---- ranges ---- */

/* A limit as text: whole numbers with all their digits. */
static void limit_text(double limit, char *buf)
{
    if (limit == floor(limit) && fabs(limit) < 1e16)
        snprintf(buf, LK_NUMBER_TEXT, "%.0f", limit);
    else
        lk__number_show(limit, buf);
}

const char *lk_option_range(const lk_option *o, char *buf, size_t size)
{
    LK_FP_GUARD();
    char low[LK_NUMBER_TEXT], high[LK_NUMBER_TEXT];
    bool above = o->flags & LK_OPTION_OPEN_MIN, below = o->flags & LK_OPTION_OPEN_MAX;
    buf[0] = '\0';
    if (o->min >= o->max || (isinf(o->min) && isinf(o->max)))
        return buf;
    if (isfinite(o->min))
        limit_text(o->min, low);
    if (isfinite(o->max))
        limit_text(o->max, high);
    if (isinf(o->max))
        snprintf(buf, size, "%s %s", above ? "above" : "at least", low);
    else if (isinf(o->min))
        snprintf(buf, size, "%s %s", below ? "below" : "at most", high);
    else if (!above && !below)
        snprintf(buf, size, "from %s to %s", low, high);
    else
        snprintf(buf, size, "%s %s and %s %s", above ? "above" : "at least", low,
                 below ? "below" : "at most", high);
    return buf;
}

static lk_status check_range(const lk_option *o, const char *text, double v)
{
    if (o->min >= o->max)
        return LK_OK;
    bool low = o->flags & LK_OPTION_OPEN_MIN ? v > o->min : v >= o->min;
    bool high = o->flags & LK_OPTION_OPEN_MAX ? v < o->max : v <= o->max;
    char range[2 * LK_NUMBER_TEXT + 32];
    LK_CHECK(low && high, LK_EINVAL, "\"%s\" is out of range, it must be %s", text,
             lk_option_range(o, range, sizeof range));
    return LK_OK;
}

/* ---- reading ---- */

static lk_status read_int(const lk_option *o, const char *text, int64_t *out)
{
    const char *wrong = lk__number_read_int(text, out);
    LK_CHECK(!wrong, LK_EINVAL, "\"%s\" %s", text, wrong);
    return check_range(o, text, (double)*out);
}

static lk_status read_real(const lk_option *o, const char *text, double *out)
{
    const char *wrong = lk__number_read_real(text, out);
    LK_CHECK(!wrong, LK_EINVAL, "\"%s\" %s", text, wrong);
    return check_range(o, text, *out);
}

static lk_status read_flag(const char *text, bool *out)
{
    *out = strcmp(text, "true") == 0;
    LK_CHECK(*out || strcmp(text, "false") == 0, LK_EINVAL, "\"%s\" is neither true nor false",
             text);
    return LK_OK;
}

const char *lk_option_word(const char *choices, int i, int *n)
{
    for (;; choices += *n) {
        choices += strspn(choices, " ");
        *n = (int)strcspn(choices, " ");
        if (*n == 0 || i-- == 0)
            return choices;
    }
}

static lk_status read_choice(const lk_option *o, const char *text, int *out)
{
    char words[16][LK_OPTION_NAME_SIZE]; /* enough to suggest one of them */
    lk_suggestion s = {.wanted = text};
    for (int i = 0;; i++) {
        int n;
        const char *word = lk_option_word(o->choices, i, &n);
        if (n == 0)
            break;
        if (strlen(text) == (size_t)n && memcmp(word, text, (size_t)n) == 0) {
            *out = i;
            return LK_OK;
        }
        if (i < 16) {
            snprintf(words[i], sizeof words[i], "%.*s", n, word);
            lk_suggest_consider(&s, words[i]);
        }
    }
    bool near = lk_suggest_found(&s);
    return LK_RAISE(LK_EINVAL, "\"%s\" is none of %s%s%s%s", text, o->choices,
                    near ? "; did you mean \"" : "", near ? s.best : "", near ? "\"?" : "");
}

static lk_status add_name(lk_option_names *list, const char *item, bool *twice)
{
    LK_CHECK(strlen(item) < LK_OPTION_NAME_SIZE, LK_EINVAL, "\"%s\" is too long a name", item);
    for (int i = 0; i < list->n; i++)
        *twice = *twice || strcmp(list->item[i], item) == 0;
    snprintf(list->item[list->n++], LK_OPTION_NAME_SIZE, "%s", item);
    return LK_OK;
}

/* Numbers of a list, which both of its lengths have behind how many there are. */
static double *reals_of(const lk_option *o, void *field)
{
    return o->flags & LK_OPTION_LONG ? ((lk_option_long_reals *)field)->item
                                     : ((lk_option_reals *)field)->item;
}

static lk_status add_real(const lk_option *o, void *field, const char *item, bool *twice)
{
    double *list = reals_of(o, field);
    int *n = field;
    LK_TRY(read_real(o, item, &list[*n]));
    for (int i = 0; i < *n && o->flags & LK_OPTION_ONCE; i++)
        *twice = *twice || list[i] == list[*n];
    ++*n;
    return LK_OK;
}

lk_status lk_option_add(const lk_option *o, void *fields, const char *item)
{
    LK_FP_GUARD();
    void *field = (char *)fields + o->offset;
    const int *n = field; /* all lists begin with their length */
    bool twice = false;
    LK_CHECK(*item, LK_EINVAL, "\"\" is an empty item of the list");
    int most = o->flags & LK_OPTION_LONG ? LK_OPTION_MAX_LONG : LK_OPTION_MAX_ITEMS;
    LK_CHECK(*n < most, LK_EINVAL, "\"%s\" is one item too many, at most %d are allowed", item,
             most);
    if (o->type == LK_OPTION_INTS) {
        lk_option_ints *list = field;
        LK_TRY(read_int(o, item, &list->item[list->n]));
        for (int i = 0; i < list->n; i++)
            twice = twice || list->item[i] == list->item[list->n];
        list->n++;
    } else if (o->type == LK_OPTION_REALS) {
        LK_TRY(add_real(o, field, item, &twice));
    } else {
        LK_TRY(add_name(field, item, &twice));
    }
    LK_CHECK(!twice || !(o->flags & LK_OPTION_ONCE), LK_EINVAL, "\"%s\" is in the list twice",
             item);
    return LK_OK;
}

static lk_status read_list(const lk_option *o, void *fields, const char *text)
{
    int *n = (int *)(void *)((char *)fields + o->offset);
    *n = 0;
    for (const char *at = text;;) {
        char item[64];
        size_t len = strcspn(at, ",");
        LK_CHECK(len < sizeof item, LK_EINVAL, "\"%s\" has too long an item", text);
        memcpy(item, at, len);
        item[len] = '\0';
        LK_TRY(lk_option_add(o, fields, item));
        if (at[len] == '\0')
            return LK_OK;
        at += len + 1;
    }
}

lk_status lk__option_set(const lk_option *o, void *fields, const char *text, lk_arena *arena,
                         lk__option_reader *r)
{
    LK_FP_GUARD();
    void *field = (char *)fields + o->offset;
    switch (o->type) {
    case LK_OPTION_FLAG: return read_flag(text, field);
    case LK_OPTION_INT: return read_int(o, text, field);
    case LK_OPTION_REAL: return read_real(o, text, field);
    case LK_OPTION_TEXT: return lk_arena_text(arena, text, strlen(text), field);
    case LK_OPTION_INTS:
    case LK_OPTION_REALS:
    case LK_OPTION_NAMES: return read_list(o, fields, text);
    case LK_OPTION_CHOICE: return read_choice(o, text, field);
    case LK_OPTION_CONFIG: return lk__config_read(o->registry, text, arena, r, field);
    case LK_OPTION_CONFIGS: return lk__configs_read(o->registry, text, arena, r, field);
    }
    return LK_RAISE(LK_EINVAL, "option %s has type number %d", o->name, (int)o->type);
}

lk_status lk_option_set(const lk_option *o, void *fields, const char *text, lk_arena *arena)
{
    return lk__option_set(o, fields, text, arena, &(lk__option_reader){.depth = 0});
}

lk_status lk__options_set_defaults(const lk_descriptor *entry, void *fields, lk_arena *arena,
                                   lk__option_reader *r)
{
    if (entry->options_size > 0)
        memset(fields, 0, entry->options_size);
    for (const lk_option *o = entry->options; o && o->name; o++)
        if (o->def)
            LK_TRY(lk__option_set(o, fields, o->def, arena, r));
    return LK_OK;
}

lk_status lk_options_set_defaults(const lk_descriptor *entry, void *fields, lk_arena *arena)
{
    return lk__options_set_defaults(entry, fields, arena, &(lk__option_reader){.depth = 0});
}
