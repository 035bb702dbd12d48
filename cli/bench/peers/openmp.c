/* Reading and setting the variables of three runtimes: that of the standard, GNU's, and LLVM's and Intel's. */
#include "bench/peers/openmp.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

/* More rounds of a loop, and more milliseconds, than one would call a short wait. */
static const double many_rounds = 1e6, many_milliseconds = 10;

static bool is_active(const char *value)
{
    return strcasecmp(value, "active") == 0;
}

struct unit {
    const char *name;
    double factor;
};

/* Whether a number with one of the units, of which the last has no name, is at least `least`, or infinite. */
static bool is_at_least(const char *value, const struct unit *units, double least)
{
    char *end;
    if (strncasecmp(value, "infinit", 7) == 0)
        return true;
    double number = strtod(value, &end);
    if (end == value)
        return false;
    end += *end == ' ';
    for (const struct unit *u = units; u->name; u++)
        if (strcasecmp(end, u->name) == 0)
            return number * u->factor >= least;
    return false;
}

static bool is_many_rounds(const char *value)
{
    static const struct unit units[] = {{"", 1},    {"k", 1e3},  {"M", 1e6},
                                        {"G", 1e9}, {"T", 1e12}, {NULL, 0}};
    return is_at_least(value, units, many_rounds);
}

static bool is_many_milliseconds(const char *value)
{
    static const struct unit units[] = {{"", 1}, {"ms", 1}, {"us", 1e-3}, {"s", 1e3}, {NULL, 0}};
    return is_at_least(value, units, many_milliseconds);
}

static const struct {
    const char *name, *passive;
    bool (*spins)(const char *value); /* NULL: not one of OpenMP's */
} variables[] = {
    {"OMP_WAIT_POLICY", "passive", is_active},
    {"GOMP_SPINCOUNT", "0", is_many_rounds},
    {"KMP_BLOCKTIME", "0", is_many_milliseconds},
    {"OPENBLAS_THREAD_TIMEOUT", "4", NULL}, /* the least: 2^4 ticks */
};

enum { N_VARIABLES = sizeof variables / sizeof variables[0] };

void openmp_wait_passively(void)
{
    for (int i = 0; i < N_VARIABLES; i++)
        (void)setenv(variables[i].name, variables[i].passive, 1); /* no memory: they spin */
}

bool openmp_spins(openmp_spin *out)
{
    for (int i = 0; i < N_VARIABLES; i++) {
        const char *value = secure_getenv(variables[i].name);
        if (!value || !variables[i].spins || !variables[i].spins(value))
            continue;
        *out = (openmp_spin){.name = variables[i].name, .passive = variables[i].passive};
        snprintf(out->value, sizeof out->value, "%s", value);
        return true;
    }
    return false;
}
