/* Which algorithm: the one that is named, or the one of the least predicted cost. */
#include "coll/coll.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Seconds for a message, a byte of it, and joining a byte: orders of magnitude by transport. */
static lk__rates rates_of(const lk_comm *comm)
{
    bool near = lk_comm_inter_size(comm) == 1;
    return near ? (lk__rates){1e-6, 1e-10, 5e-11} : (lk__rates){2e-5, 1e-9, 5e-11};
}

/* LK_ALLREDUCE and so on; NULL if it is not set. */
static const char *named_by_environment(lk_comm_call call)
{
    char variable[48];
    int n = snprintf(variable, sizeof variable, "LK_%s", lk_call_name(call));
    for (int i = 0; i < n; i++)
        variable[i] = (char)toupper((unsigned char)variable[i]);
    const char *value = getenv(variable);
    return value && *value ? value : NULL;
}

static lk_status select_named(const lk__case *k, const char *name, int *number)
{
    char known[256] = "";
    for (int i = 0; lk_colls[i]; i++) {
        const lk_coll *a = lk_colls[i];
        if (a->call != k->c.call)
            continue;
        if (strcmp(a->name, name) == 0) {
            const char *why = "";
            LK_CHECK(!a->eligible || a->eligible(k, &why), LK_ENOTSUP,
                     "%s %s cannot do this call: %s", lk_call_name(a->call), name, why);
            *number = i + 1;
            return LK_OK;
        }
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, " %s", a->name);
    }
    return LK_RAISE(LK_EINVAL, "no %s algorithm named \"%s\"; the names are%s",
                    lk_call_name(k->c.call), name, known);
}

lk_status lk__coll_select(const lk__case *k, int *number)
{
    const char *name = k->c.algorithm ? k->c.algorithm : named_by_environment(k->c.call);
    if (name)
        return select_named(k, name, number);
    lk__rates rates = rates_of(k->comm);
    double best = 0;
    *number = 0;
    for (int i = 0; lk_colls[i]; i++) {
        const lk_coll *a = lk_colls[i];
        const char *why;
        if (a->call != k->c.call || a->measures_only || (a->eligible && !a->eligible(k, &why)))
            continue;
        double cost = a->cost(k, &rates);
        if (*number == 0 || cost < best) {
            best = cost;
            *number = i + 1;
        }
    }
    LK_CHECK(*number > 0, LK_ENOTSUP, "no algorithm can do this %s", lk_call_name(k->c.call));
    return LK_OK;
}

bool lk_coll_list(int i, lk_coll_about *out)
{
    int n = 0;
    while (lk_colls[n])
        n++;
    if (i < 0 || i >= n)
        return false;
    const lk_coll *a = lk_colls[i];
    *out = (lk_coll_about){lk_call_name(a->call), a->name, a->summary, a->measures_only};
    return true;
}
