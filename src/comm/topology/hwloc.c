/* Packages, caches, cores and NUMA nodes as hwloc knows them.
 *
 * hwloc is opened when it is needed, and not linked: the library works without it, on machines that
 * lack it and in programs that are linked statically, where dlopen() has the address 0.  Built
 * without its header, nothing is known.
 */
#include "comm/topology/machine.h"

#include <stddef.h>

static void clear(lk__processor *out)
{
    for (int i = 0; i < LK_MAX_PROCESSORS; i++)
        out[i] = (lk__processor){-1, -1, -1, -1};
}

#ifdef LK_HWLOC

#    include <dlfcn.h>
#    include <hwloc.h>
#    include <string.h>

#    pragma weak dlopen
#    pragma weak dlsym
#    pragma weak dlclose

/* What is called of hwloc. */
#    define CALLS(X)        \
        X(topology_init)    \
        X(topology_load)    \
        X(topology_destroy) \
        X(get_api_version)  \
        X(get_type_depth) X(get_nbobjs_by_depth) X(get_obj_by_depth) X(bitmap_next)

struct hwloc {
#    define X(name) __typeof__(&hwloc_##name) name;
    CALLS(X)
#    undef X
};

static const char *calls_find(void *handle, struct hwloc *h)
{
#    define X(name)                                       \
        {                                                 \
            void *symbol = dlsym(handle, "hwloc_" #name); \
            if (!symbol)                                  \
                return "hwloc lacks hwloc_" #name;        \
            memcpy(&h->name, &symbol, sizeof symbol);     \
        }
    CALLS(X)
#    undef X
    if (h->get_api_version() >> 16 != HWLOC_API_VERSION >> 16)
        return "hwloc has another version than the library was built with";
    return NULL;
}

/* Write the number of each object of a type to its processors. */
static void objects_mark(const struct hwloc *h, hwloc_topology_t t, hwloc_obj_type_t type,
                         size_t field, lk__processor *out)
{
    int depth = h->get_type_depth(t, type);
    if (depth == HWLOC_TYPE_DEPTH_UNKNOWN || depth == HWLOC_TYPE_DEPTH_MULTIPLE)
        return; /* that of NUMA nodes is negative, too */
    unsigned n = h->get_nbobjs_by_depth(t, depth);
    for (unsigned i = 0; i < n; i++) {
        hwloc_obj_t object = h->get_obj_by_depth(t, depth, i);
        for (int p = h->bitmap_next(object->cpuset, -1); p >= 0 && p < LK_MAX_PROCESSORS;
             p = h->bitmap_next(object->cpuset, p)) {
            int number = (int)i;
            memcpy((char *)&out[p] + field, &number, sizeof number);
        }
    }
}

static const char *machine_read(const struct hwloc *h, lk__processor *out)
{
    hwloc_topology_t t;
    if (h->topology_init(&t) != 0)
        return "hwloc_topology_init failed";
    const char *source = "hwloc_topology_load failed";
    if (h->topology_load(t) == 0) {
        source = "hwloc";
        objects_mark(h, t, HWLOC_OBJ_PACKAGE, offsetof(lk__processor, package), out);
        objects_mark(h, t, HWLOC_OBJ_L3CACHE, offsetof(lk__processor, cache), out);
        objects_mark(h, t, HWLOC_OBJ_CORE, offsetof(lk__processor, core), out);
        objects_mark(h, t, HWLOC_OBJ_NUMANODE, offsetof(lk__processor, numa), out);
    }
    h->topology_destroy(t);
    return source;
}

const char *lk__machine_read(lk__processor *out)
{
    struct hwloc h;
    clear(out);
    if (!dlopen || !dlsym || !dlclose)
        return "a program that is linked statically cannot open hwloc";
    void *handle = dlopen("libhwloc.so.15", RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return "hwloc is not installed (libhwloc.so.15)";
    const char *source = calls_find(handle, &h);
    if (!source)
        source = machine_read(&h, out);
    dlclose(handle);
    return source;
}

#else

const char *lk__machine_read(lk__processor *out)
{
    clear(out);
    return "this build has no hwloc";
}

#endif
