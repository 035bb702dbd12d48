/* Finding and opening peer modules, from the place of the command's own file. */
#include "bench/peers/peers.h"

#include "bench/peers/openmp.h"

#include <dlfcn.h>
#include <string.h>
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
