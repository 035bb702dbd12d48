/* lk__yaml_node: finding and appending entries, and raising errors with FILE:LINE:COLUMN.
 * See node.h. */
#include "config/node.h"

#include <stdarg.h>
#include <string.h>

lk__yaml_node *lk__node_find(const lk__yaml_node *map, const char *key)
{
    for (lk__yaml_node *child = map->first; child; child = child->next)
        if (child->key && strcmp(child->key, key) == 0)
            return child;
    return NULL;
}

void lk__node_append(lk__yaml_node *parent, lk__yaml_node *child)
{
    child->next = NULL;
    if (parent->last)
        parent->last->next = child;
    else
        parent->first = child;
    parent->last = child;
    parent->n++;
}

const char *lk__place_text(const lk__yaml_pos *place, char *buf)
{
    enum { LONGEST = LK_WHERE - 64 }; /* leaves room for line and column */
    size_t n = strlen(place->name);
    const char *tail = n > LONGEST ? place->name + n - LONGEST : place->name;
    int used = snprintf(buf, LK_WHERE, "%s%s", n > LONGEST ? "..." : "", tail);
    if (place->line > 0)
        snprintf(buf + used, LK_WHERE - (size_t)used, ":%lld:%lld", (long long)place->line,
                 (long long)place->column);
    return buf;
}

void lk__raise_at(const lk__yaml_pos *at, const char *file, int line, const char *func,
                  const char *fmt, ...)
{
    char where[LK_WHERE], what[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    lk__raise(LK_EINVAL, file, line, func, "%s: %s", lk__place_text(at, where), what);
}
