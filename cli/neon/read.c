/* Keys and values of a neon recipe, and lists of what cannot be converted. */
#include "neon/neon.h"

#include <lockstep/extra/suggest.h>
#include <lockstep/extra/text.h>

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

LK_PRINTF(2, 0)
static neon_remark *remark_new(neon_recipe *r, const char *fmt, va_list ap)
{
    char text[1024], clean[1024];
    neon_remark *remark = NULL;
    vsnprintf(text, sizeof text, fmt, ap);
    size_t n = lk_sanitize_text(text, clean, sizeof clean);
    lk_status st = lk_arena_alloc(r->arena, &remark, 1, sizeof *remark);
    if (st == LK_OK)
        st = lk_arena_text(r->arena, clean, n, &remark->text);
    if (st != LK_OK)
        r->status = st;
    return st == LK_OK ? remark : NULL;
}

/* Of what an alias stands for, things are seen as often as it is used, and named once.  Behind a thousand
 * the others are left out. */
void neon_issue(neon_recipe *r, int64_t line, int64_t column, const char *fmt, ...)
{
    enum { MOST = 1000 };
    va_list ap;
    if (r->n_issues >= MOST)
        return;
    va_start(ap, fmt);
    neon_remark *remark = remark_new(r, fmt, ap);
    va_end(ap);
    if (!remark)
        return;
    remark->line = line;
    remark->column = column;
    neon_remark **at = &r->issues;
    while (*at && ((*at)->line < line || ((*at)->line == line && (*at)->column <= column))) {
        if ((*at)->line == line && (*at)->column == column &&
            strcmp((*at)->text, remark->text) == 0)
            return;
        at = &(*at)->next;
    }
    remark->next = *at;
    *at = remark;
    r->n_issues++;
}

void neon_note(neon_recipe *r, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    neon_remark *remark = remark_new(r, fmt, ap);
    va_end(ap);
    if (!remark)
        return;
    if (r->last_note)
        r->last_note->next = remark;
    else
        r->notes = remark;
    r->last_note = remark;
}

const char *neon_class(neon_recipe *r, const lk_recipe_node *node)
{
    static const char dist[] = "Dist";
    if (!node->class_name)
        return "";
    const char *dot = strrchr(node->class_name, '.'), *name = dot ? dot + 1 : node->class_name;
    const char *without = name;
    size_t n = strlen(name), tail = sizeof dist - 1;
    if (n <= tail || strcmp(name + n - tail, dist) != 0)
        return name;
    lk_status st = lk_arena_text(r->arena, name, n - tail, &without);
    if (st != LK_OK)
        r->status = st;
    return without;
}

/* Whether `word` is one of those in `list`, with blanks between them; the nearest in `s`. */
static bool is_among(const char *word, const char *list, char *buf, lk_suggestion *s)
{
    memcpy(buf, list, strlen(list) + 1);
    for (char *at = buf, *end; *at; at = end) {
        end = at + strcspn(at, " ");
        if (*end)
            *end++ = 0;
        if (strcmp(at, word) == 0)
            return true;
        lk_suggest_consider(s, at);
    }
    return false;
}

void neon_keys(neon_recipe *r, const lk_recipe_node *map, const char *what, const char *known)
{
    enum { LONGEST = 512 };
    char buf[LONGEST];
    if (strlen(known) >= sizeof buf)
        return;
    for (const lk_recipe_entry *e = map->first; e; e = e->next) {
        lk_suggestion s = {.wanted = e->key};
        if (is_among(e->key, known, buf, &s))
            continue;
        bool near = lk_suggest_found(&s);
        neon_issue(r, e->line, e->column, "key \"%s\" of %s is not known%s%s%s", e->key, what,
                   near ? "; did you mean \"" : "", near ? s.best : "", near ? "\"?" : "");
    }
}

const lk_recipe_node *neon_map(neon_recipe *r, const lk_recipe_node *map, const char *key)
{
    const lk_recipe_entry *e = lk_recipe_find(map, key);
    if (!e || e->value->type == LK_RECIPE_MAP)
        return e ? e->value : NULL;
    neon_issue(r, e->line, e->column, "key \"%s\" must be a map", key);
    return NULL;
}

/* The scalar of a key; NULL if there is none, or something else. */
static const lk_recipe_node *scalar_of(neon_recipe *r, const lk_recipe_node *map, const char *key,
                                       const char *kind)
{
    const lk_recipe_entry *e = lk_recipe_find(map, key);
    if (!e || e->value->type == LK_RECIPE_SCALAR)
        return e ? e->value : NULL;
    neon_issue(r, e->line, e->column, "key \"%s\" must be %s", key, kind);
    return NULL;
}

static bool wrong(neon_recipe *r, const lk_recipe_node *map, const char *key, const char *kind,
                  const char *text)
{
    const lk_recipe_entry *e = lk_recipe_find(map, key);
    neon_issue(r, e->line, e->column, "key \"%s\" must be %s, not \"%.100s\"", key, kind, text);
    return false;
}

/* A decimal number: no hexadecimal, nothing infinite. */
static bool number_of(const lk_recipe_node *node, double *out)
{
    char *end;
    if (node->quoted || !*node->text || node->text[strspn(node->text, "0123456789+-.eE")])
        return false;
    errno = 0;
    *out = strtod(node->text, &end);
    return !*end && errno == 0;
}

static bool whole_of(const lk_recipe_node *node, int64_t min, int64_t *out)
{
    double value;
    if (!number_of(node, &value) || value < (double)min || value > 1e9 ||
        value != (double)(int64_t)value)
        return false;
    *out = (int64_t)value;
    return true;
}

bool neon_whole(neon_recipe *r, const lk_recipe_node *map, const char *key, int64_t min,
                int64_t *out)
{
    char kind[64];
    const lk_recipe_node *node = scalar_of(r, map, key, "a whole number");
    snprintf(kind, sizeof kind, "a whole number from %lld to 1e9", (long long)min);
    if (!node)
        return false;
    return whole_of(node, min, out) || wrong(r, map, key, kind, node->text);
}

bool neon_real(neon_recipe *r, const lk_recipe_node *map, const char *key, double min, double *out)
{
    char kind[64];
    double value;
    const lk_recipe_node *node = scalar_of(r, map, key, "a number");
    snprintf(kind, sizeof kind, min > -1e30 ? "a number from %g on" : "a number", min);
    if (!node)
        return false;
    if (!number_of(node, &value) || value < min || value > 1e30 || value < -1e30)
        return wrong(r, map, key, kind, node->text);
    *out = value;
    return true;
}

bool neon_flag(neon_recipe *r, const lk_recipe_node *map, const char *key, bool *out)
{
    char buf[64];
    lk_suggestion s = {.wanted = ""};
    const lk_recipe_node *node = scalar_of(r, map, key, "True or False");
    if (!node)
        return false;
    bool yes = is_among(node->text, "true True TRUE yes Yes on", buf, &s);
    if (node->quoted || (!yes && !is_among(node->text, "false False FALSE no No off", buf, &s)))
        return wrong(r, map, key, "True or False", node->text);
    *out = yes;
    return true;
}

bool neon_text(neon_recipe *r, const lk_recipe_node *map, const char *key, const char **out)
{
    const lk_recipe_node *node = scalar_of(r, map, key, "a text");
    if (!node)
        return false;
    if (!*node->text)
        return wrong(r, map, key, "a text", "");
    *out = node->text;
    return true;
}

bool neon_pair(neon_recipe *r, const lk_recipe_node *map, const char *key, int64_t out[2])
{
    const lk_recipe_entry *e = lk_recipe_find(map, key);
    int64_t value[2] = {0, 0}, n = 0;
    bool good = e && e->value->type == LK_RECIPE_LIST && e->value->n == 2;
    for (const lk_recipe_entry *item = good ? e->value->first : NULL; item; item = item->next)
        good = good && item->value->type == LK_RECIPE_SCALAR &&
               whole_of(item->value, 1, &value[n++]);
    if (e && !good)
        neon_issue(r, e->line, e->column,
                   "key \"%s\" must be a list of two whole numbers from 1 on", key);
    if (!good)
        return false;
    memcpy(out, value, sizeof value);
    return true;
}

void neon_need(neon_recipe *r, const lk_recipe_node *map, const char *what, const char *key)
{
    if (!lk_recipe_find(map, key))
        neon_issue(r, map->line, map->column, "%s has no key \"%s\"", what, key);
}
