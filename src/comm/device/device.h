/* What the files behind <lockstep/device.h> share: the machine as the calling thread may use it,
 * and the reader of device names.  Made for a call and freed in it. */
#ifndef LK_COMM_DEVICE_H
#define LK_COMM_DEVICE_H

#include "base/processors.h"
#include "comm/topology/machine.h"

#include <lockstep/device.h>

/** The machine, as the calling thread may use it.  Made for one call. */
typedef struct lk__machine {
    lk__processors allowed;
    bool known;         /* what follows was read */
    const char *reason; /* why hwloc says nothing; NULL if it does */
    lk__processor processor[LK_MAX_PROCESSORS];
} lk__machine;

/** Devices in a list; the entries are the holder's to free. */
typedef struct lk__device_list {
    lk_device *entry;
    int n;
} lk__device_list;

/** Some characters of a text, in which a device is named. */
typedef struct lk__device_text {
    const char *what; /* "device", "LK_DEVICES": how reports call it */
    const char *whole;
    const char *at, *end;
} lk__device_text;

/* How each report about a text begins: a format and its arguments. */
#define LK__DEVICE_AT "%s \"%.160s\", column %d: "
#define LK__DEVICE_WHERE(t, place) (t)->what, (t)->whole, (int)((place) - (t)->whole) + 1

/** The caller frees it.  Errors: LK_ENOMEM; LK_ENOTSUP when the affinity mask cannot be read. */
lk_status lk__machine_new(lk__machine **out) LK_NODISCARD;

/** Every core that the thread may use, a device each; the caller frees the entries. */
lk_status lk__devices_all(lk__machine *m, lk__device_list *out) LK_NODISCARD;

/** The same, or what LK_DEVICES says. */
lk_status lk__devices_now(lk__machine *m, lk__device_list *out) LK_NODISCARD;

/** The devices of a text; NULL: lk__devices_now(). */
lk_status lk__devices_named(const char *text, lk__device_list *out) LK_NODISCARD;

/** Name a device after the numbers of a kind that it is made of, "core:0-3+8"; false: it was cut. */
bool lk__device_set_name(lk_device *device, const char *kind, const lk__processors *numbers);

/** The device of a text that is no number. */
lk_status lk__device_read(lk__machine *m, const lk__device_text *text, lk_device *out) LK_NODISCARD;

#endif /* LK_COMM_DEVICE_H */
