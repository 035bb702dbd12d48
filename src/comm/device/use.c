/* lk_device_bind() and lk_device_use(): bind the calling thread to the processors of a device, by
 * name or by its rank in a communicator. */
#include "comm/device/device.h"

#include <lockstep/extra/alloc.h>

#include <string.h>

static lk__processors set_of(const lk_device *device)
{
    lk__processors set;
    memcpy(&set, device->processors, sizeof set);
    return set;
}

int lk_device_n_processors(const lk_device *device)
{
    lk__processors set = set_of(device);
    return lk__processors_count(&set);
}

int lk_device_processors_text(const lk_device *device, char *out, int room)
{
    lk__processors set = set_of(device);
    return lk__processors_text(&set, out, (size_t)room);
}

lk_status lk_device_bind(const lk_device *device)
{
    if (!device) {
        return LK_TRACE(lk__thread_bind(NULL));
    }
    LK_CHECK(device->kind == LK_DEVICE_CPU, LK_ENOTSUP,
             "device \"%.*s\" is of kind %d; threads are bound to processors (LK_DEVICE_CPU) alone",
             LK_DEVICE_NAME, device->name, (int)device->kind);
    lk__processors set = set_of(device);
    LK_CHECK(lk__processors_count(&set) > 0, LK_EINVAL, "device \"%.*s\" has no processors",
             LK_DEVICE_NAME, device->name);
    return LK_TRACE(lk__thread_bind(&set));
}

lk_status lk_device_use(lk_comm *comm, const lk_device *list, int n, lk_device *out)
{
    LK_CHECK(comm, LK_EINVAL, "comm is NULL");
    LK_CHECK(list || n == 0, LK_EINVAL, "list is NULL, but has %d devices", n);
    if (!list) {
        return LK_TRACE(lk_device_use_named(comm, NULL, out));
    }
    int rank = lk_comm_node_rank(comm), ranks = lk_comm_node_size(comm);
    LK_CHECK(
        ranks <= n, LK_EINVAL,
        "%d ranks on this node, but %d device%s for them: each takes the one of its number "
        "there; start fewer ranks, name more devices, or do not let the launcher bind each rank "
        "(mpirun --bind-to none)",
        ranks, n, n == 1 ? "" : "s");
    lk_device own = list[rank]; /* `out` may lie in the list */
    LK_TRY(lk_device_bind(&own));
    if (out)
        *out = own;
    return LK_OK;
}

lk_status lk_device_use_named(lk_comm *comm, const char *list, lk_device *out)
{
    lk__device_list named;
    LK_CHECK(comm, LK_EINVAL, "comm is NULL");
    LK_TRY(lk__devices_named(list, &named));
    lk_status st;
    LK_TRY_TO(done, lk_device_use(comm, named.entry, named.n, out));
done:
    lk_free(named.entry);
    return st;
}
