/* Naming the allreduce of a configuration, by LK_ALLREDUCE. */
#include "verify/algorithm.h"

#include "verb.h"

#include <lockstep/extra/algorithms.h>

#include <stdlib.h>
#include <string.h>

static const char *const variable = "LK_ALLREDUCE";

const char *verify_named(void)
{
    static char given[64];
    static bool read;
    const char *value = secure_getenv(variable);
    if (!read && value)
        snprintf(given, sizeof given, "%s", value);
    read = true;
    return *given ? given : NULL;
}

void verify_algorithm_set(const char *name)
{
    const char *value = name ? name : verify_named();
    if (value)
        setenv(variable, value, 1);
    else
        unsetenv(variable);
}

int verify_algorithm_check(bool fast, const char *who, const char *name)
{
    lk_coll_info about = {.benchmark_only = false};
    bool known = false;
    for (int k = 0; !known && lk_coll_list(k, &about); k++)
        known = strcmp(about.call, "allreduce") == 0 && strcmp(about.name, name) == 0;
    if (!known)
        return verb_refuse("lockstep verify: %s: there is no allreduce \"%s\"; see \"lockstep list "
                           "collectives\"",
                           who, name);
    if (about.benchmark_only && !fast)
        return verb_refuse("lockstep verify: %s: %s is there to measure against and may give other "
                           "bits: leave it out, or give parallel.mode=fast",
                           who, name);
    return LK_EXIT_DONE;
}
