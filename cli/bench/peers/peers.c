/* Finding and opening peer modules, from the place of the command's own file; variables for their threads. */
#include "bench/peers/peers.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

const peer_entry peer_entries[] = {
    {"onednn", "libdnnl-dev", "matrix products and convolutions in f32"},
    {"openblas", "libopenblas-dev", "matrix products in f32 and f64"},
    {NULL, NULL, NULL},
};

const peer_entry *peer_find(const char *name)
{
    for (const peer_entry *e = peer_entries; e->name; e++)
        if (strcmp(e->name, name) == 0)
            return e;
    return NULL;
}

/* The folder of this program's file, without a slash at the end; false if it is not known. */
static bool own_folder(char *buf, size_t size)
{
    ssize_t n = readlink("/proc/self/exe", buf, size - 1);
    if (n <= 0)
        return false;
    buf[n] = '\0';
    char *slash = strrchr(buf, '/');
    if (!slash)
        return false;
    *slash = '\0';
    return true;
}

bool peer_file(const char *name, char *path, size_t size)
{
    static const char *const places[] = {LK_PEERS_BUILT, LK_PEERS_INSTALLED};
    char folder[PEER_PATH / 2];
    if (!own_folder(folder, sizeof folder))
        return false;
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        int n = snprintf(path, size, "%s/%s/%s", folder, places[i], name);
        if (n > 0 && (size_t)n < size && access(path, R_OK) == 0)
            return true;
    }
    return false;
}

static void *open_module(const char *name, char *why, size_t size)
{
    char file[64], path[PEER_PATH];
    snprintf(file, sizeof file, "lockstep-peer-%s.so", name);
    snprintf(why, size, "it was not installed when Lockstep was built");
    if (!peer_file(file, path, sizeof path))
        return NULL;
    openmp_wait_passively();
    void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!module)
        snprintf(why, size, "%s", dlerror());
    return module;
}

const lk__peer *peer_open(const peer_entry *entry, char *why, size_t size)
{
    void *module = open_module(entry->name, why, size);
    if (!module)
        return NULL;
    char symbol[64];
    snprintf(symbol, sizeof symbol, "lk__peer_%s", entry->name);
    const lk__peer *peer = dlsym(module, symbol);
    if (peer && peer->interface == LK_PEER_INTERFACE)
        return peer;
    snprintf(why, size, "its module belongs to another build of Lockstep");
    dlclose(module);
    return NULL;
}

/* ---- how threads wait ---- */

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

/* Of three runtimes: that of the standard, GNU's, and LLVM's and Intel's. */
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
