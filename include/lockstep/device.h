/* Devices: sets of processors that a rank, or a thread of the host, computes on.
 *
 * A device has a name, which is how it is asked for:
 *
 *     cpu:0          the processor that the system calls 0
 *     core:2-3       cores 2 and 3, with all their hardware threads
 *     socket:1       a package
 *     numa:0         the processors next to a part of the memory
 *     cpu:0-3+8-11   several ranges
 *     1              entry 1 of the list of lk_devices_available()
 *
 * Processors have the system's numbers.  Cores, sockets and NUMA nodes are counted from 0 through the
 * machine, as hwloc does; where it is not there the system's own files say which they are.  A device has
 * only those of its processors that the affinity mask of the calling thread has (that before it was
 * bound); one without any is refused.
 *
 * Calls here may be made on any thread at any time; bindings belong to the thread.
 */
#ifndef LK_DEVICE_H
#define LK_DEVICE_H

#include <lockstep/comm.h>

LK_BEGIN_DECLS

enum { LK_MAX_PROCESSORS = 4096, LK_DEVICE_NAME = 128 };

typedef enum lk_device_kind { LK_DEVICE_CPU } lk_device_kind;

/** A device, by value; a host may fill one itself. */
typedef struct lk_device {
    lk_device_kind kind;       /* what it is made of; the other fields are those of LK_DEVICE_CPU */
    char name[LK_DEVICE_NAME]; /* for reports */
    uint64_t processors[LK_MAX_PROCESSORS / 64]; /* processor p is bit p % 64 of element p / 64 */
} lk_device;

/**
 * Find the device that a text names.  Its name is the text in its shortest form.
 *
 * Not collective, like all calls here.  Errors: LK_EINVAL, with the column and what there is, for a text
 * that names no device of this process; LK_ENOTSUP when sockets or NUMA nodes are not known here, with the
 * reason; LK_ENOMEM; those of lk_devices_available() for a number.
 */
LK_API lk_status lk_device_parse(const char *text, lk_device *out) LK_NODISCARD;

/**
 * Find the devices of a list, "socket:0,socket:1": the first `room` of them are written to `out`, and
 * `*n` is how many there are.  With room 0 `out` may be NULL.
 *
 * Errors: as lk_device_parse(); LK_EINVAL also for a device that is there twice.
 */
LK_API lk_status lk_devices_parse(const char *text, lk_device *out, int room, int *n) LK_NODISCARD;

/**
 * List the devices of this process: the first `room` of them are written to `out`, and `*n` is how many
 * there are.  With room 0 `out` may be NULL.
 *
 * These are the cores of the affinity mask, one device each.  LK_DEVICES in the environment is another
 * list: numbers of cores in this one (`0,1`: the first two), in the order in which it has them, or names
 * (`socket:0,socket:1`).  An empty one is none.
 *
 * Errors: LK_EINVAL when LK_DEVICES is no such list, or has a device twice; LK_ENOTSUP when the system
 * does not tell the mask; LK_ENOMEM.
 */
LK_API lk_status lk_devices_available(lk_device *out, int room, int *n) LK_NODISCARD;

/** How many processors a device has. */
LK_API int lk_device_n_processors(const lk_device *device);

/** Write the numbers of its processors into `out` of `room` bytes, at least 8: "0-3,8", cut at a comma and
 * marked ",..." where there is no room.  Returns the length. */
LK_API int lk_device_processors_text(const lk_device *device, char *out, int room);

/**
 * From now on run the calling thread on the processors of `device`, and its kernels with threads that
 * run there too: one for each processor, see <lockstep/thread.h>.  Another call binds it to another
 * device; NULL gives it the affinity mask back that it had, and the threads that all others share.
 *
 * Threads that it starts begin with its mask, but their kernels are not bound.  After a fork() the child
 * is bound as the thread that forked.
 *
 * Errors, after which it is bound as before: LK_EINVAL when the device has no processor, or one that the
 * thread might not use before it was bound; LK_ENOTSUP when the kind is not LK_DEVICE_CPU, or the system
 * does not give it all the processors.
 */
LK_API lk_status lk_device_bind(const lk_device *device) LK_NODISCARD;

/**
 * Bind the calling thread, which is a rank of `comm`, to the entry of `list` that is its own: entry
 * lk_comm_node_rank(), as there may be a list on each node.  With `list` NULL and n 0 the list is
 * lk_devices_available().  The device is written to `out` unless that is NULL.
 *
 * A list may have a device several times: its ranks share it.
 *
 * Errors: LK_EINVAL when there are more ranks on this node than devices, on all of them; those of
 * lk_device_bind() and lk_devices_available().
 */
LK_API lk_status lk_device_use(lk_comm *comm, const lk_device *list, int n,
                               lk_device *out) LK_NODISCARD;

/** As lk_device_use(), of the list that a text names, as lk_devices_parse() reads it; NULL: of
 * lk_devices_available(). */
LK_API lk_status lk_device_use_named(lk_comm *comm, const char *list, lk_device *out) LK_NODISCARD;

LK_END_DECLS

#endif /* LK_DEVICE_H */
