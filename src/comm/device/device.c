/* The names of devices ("core:0-3"), read and written, and the machine they are checked against.
 *
 *     device = kind ":" range { "+" range }        range = number [ "-" number ]
 *     kind   = "cpu" | "core" | "socket" | "numa"
 *
 * Each number must be there: a number of the kind is there when the thread may use one of its
 * processors.  A device's name is the shortest text that reads as the same numbers.
 */
#include "comm/device/device.h"

#include <lockstep/extra/alloc.h>

#include <stdio.h>
#include <string.h>

_Static_assert(sizeof(((lk_device *)NULL)->processors) == sizeof(lk__processors),
               "devices and sets of processors have as many bits");

static const struct kind {
    const char *name, *plural;
    size_t field; /* of lk__processor */
} kinds[] = {
    {"cpu", "processors", 0}, /* the processor itself */
    {"core", "cores", offsetof(lk__processor, core)},
    {"socket", "sockets", offsetof(lk__processor, package)},
    {"numa", "NUMA nodes", offsetof(lk__processor, numa)},
};

enum { CPU, CORE, N_KINDS = sizeof kinds / sizeof kinds[0] };

lk_status lk__machine_new(lk__machine **out)
{
    lk__machine *m = NULL;
    LK_TRY(lk_alloc_zero(&m, 1, sizeof *m));
    if (!lk__processors_unbound(&m->allowed)) {
        lk_free(m);
        return LK_RAISE(LK_ENOTSUP, "the system does not say which processors this thread may use");
    }
    *out = m;
    return LK_OK;
}

/* Ask hwloc, or the system where it cannot be asked.  A processor without a core is one. */
static void machine_know(lk__machine *m)
{
    if (m->known)
        return;
    m->known = true;
    const char *source = lk__machine_read(m->processor);
    if (strcmp(source, "hwloc") != 0) {
        m->reason = source;
        lk__machine_read_system("/sys/devices/system", m->processor);
    }
    int n_cores = 0;
    for (int p = 0; p < LK_MAX_PROCESSORS; p++)
        if (lk__processors_have(&m->allowed, p) && m->processor[p].core >= n_cores)
            n_cores = m->processor[p].core + 1;
    for (int p = 0; p < LK_MAX_PROCESSORS; p++)
        if (lk__processors_have(&m->allowed, p) && m->processor[p].core < 0)
            m->processor[p].core = n_cores++;
}

/* The number of a processor's core, socket, ...; -1: not known. */
static int number_of(const lk__machine *m, int kind, int processor)
{
    if (kind == CPU)
        return processor;
    int number;
    memcpy(&number, (const char *)&m->processor[processor] + kinds[kind].field, sizeof number);
    return number < LK_MAX_PROCESSORS ? number : -1;
}

/* The numbers of a kind that the thread may use. */
static void numbers_there(lk__machine *m, int kind, lk__processors *out)
{
    memset(out, 0, sizeof *out);
    if (kind != CPU)
        machine_know(m);
    for (int p = 0; p < LK_MAX_PROCESSORS; p++) {
        int number = lk__processors_have(&m->allowed, p) ? number_of(m, kind, p) : -1;
        if (number >= 0)
            lk__processors_add(out, number);
    }
}

bool lk__device_set_name(lk_device *device, const char *kind, const lk__processors *numbers)
{
    int n = snprintf(device->name, sizeof device->name, "%s:", kind);
    n += lk__processors_text(numbers, device->name + n, sizeof device->name - (size_t)n);
    for (char *comma = device->name; (comma = strchr(comma, ',')); comma++)
        *comma = '+';
    return device->name[n - 1] != '.';
}

/* The device of some numbers of a kind, all of which are there; false if its name has no room. */
static bool device_make(const lk__machine *m, int kind, const lk__processors *numbers,
                        lk_device *out)
{
    lk__processors set = {{0}};
    *out = (lk_device){.kind = LK_DEVICE_CPU};
    for (int p = 0; p < LK_MAX_PROCESSORS; p++) {
        int number = lk__processors_have(&m->allowed, p) ? number_of(m, kind, p) : -1;
        if (number >= 0 && lk__processors_have(numbers, number))
            lk__processors_add(&set, p);
    }
    memcpy(out->processors, &set, sizeof set);
    return lk__device_set_name(out, kinds[kind].name, numbers);
}

lk_status lk__devices_all(lk__machine *m, lk__device_list *out)
{
    lk__processors cores;
    *out = (lk__device_list){NULL, 0};
    numbers_there(m, CORE, &cores);
    LK_TRY(lk_alloc(&out->entry, lk__processors_count(&cores), sizeof *out->entry));
    for (int c = 0; c < LK_MAX_PROCESSORS; c++)
        if (lk__processors_have(&cores, c)) {
            lk__processors one = {{0}};
            lk__processors_add(&one, c);
            device_make(m, CORE, &one, &out->entry[out->n++]);
        }
    return LK_OK;
}

static lk_status kind_read(const lk__device_text *text, const char **at, int *out)
{
    const char *p = text->at;
    while (p < text->end && *p != ':')
        p++;
    size_t n = (size_t)(p - text->at);
    LK_CHECK(n > 0, LK_EINVAL, LK__DEVICE_AT "a device is missing; say cpu:0, core:2-3 or socket:1",
             LK__DEVICE_WHERE(text, p));
    for (int kind = 0; kind < N_KINDS; kind++)
        if (strlen(kinds[kind].name) == n && memcmp(kinds[kind].name, text->at, n) == 0) {
            LK_CHECK(p < text->end, LK_EINVAL,
                     LK__DEVICE_AT "a number is missing: say %s:0, or %s:0-1",
                     LK__DEVICE_WHERE(text, p), kinds[kind].name, kinds[kind].name);
            *out = kind;
            *at = p + 1;
            return LK_OK;
        }
    return LK_RAISE(LK_EINVAL,
                    LK__DEVICE_AT
                    "no kind of device \"%.*s\"; there are cpu:N, core:N, socket:N and "
                    "numa:N, and numbers in the list of devices",
                    LK__DEVICE_WHERE(text, text->at), (int)(n < 64 ? n : 64), text->at);
}

/* Read a number, no more than LK_MAX_PROCESSORS, at `*at`, and move behind it. */
static lk_status number_read(const lk__device_text *text, const char **at, int *out)
{
    const char *p = *at;
    int n = 0;
    for (; p < text->end && *p >= '0' && *p <= '9'; p++)
        n = n < LK_MAX_PROCESSORS ? 10 * n + (*p - '0') : n;
    LK_CHECK(p > *at, LK_EINVAL, LK__DEVICE_AT "a number is missing", LK__DEVICE_WHERE(text, *at));
    *out = n < LK_MAX_PROCESSORS ? n : LK_MAX_PROCESSORS;
    *at = p;
    return LK_OK;
}

/* Read a range at `*at` into `numbers`, all of which must be among `there`, and move behind it. */
static lk_status range_read(const lk__device_text *text, int kind, const lk__processors *there,
                            const char **at, lk__processors *numbers)
{
    const char *from = *at;
    int first, last;
    LK_TRY(number_read(text, at, &first));
    last = first;
    if (*at < text->end && **at == '-') {
        ++*at;
        LK_TRY(number_read(text, at, &last));
    }
    LK_CHECK(first <= last, LK_EINVAL, LK__DEVICE_AT "the range %d-%d runs backwards; say %d-%d",
             LK__DEVICE_WHERE(text, from), first, last, last, first);
    for (int n = first; n <= last; n++) {
        if (n == LK_MAX_PROCESSORS || !lk__processors_have(there, n)) {
            char list[96];
            lk__processors_text(there, list, sizeof list);
            return LK_RAISE(LK_EINVAL,
                            LK__DEVICE_AT "there is no %s:%.*s that this thread may use; there are "
                                          "%s:%s",
                            LK__DEVICE_WHERE(text, from), kinds[kind].name,
                            (int)(*at - from < 64 ? *at - from : 64), from, kinds[kind].name, list);
        }
        LK_CHECK(!lk__processors_have(numbers, n), LK_EINVAL, LK__DEVICE_AT "%s:%d is there twice",
                 LK__DEVICE_WHERE(text, from), kinds[kind].name, n);
        lk__processors_add(numbers, n);
    }
    return LK_OK;
}

lk_status lk__device_read(lk__machine *m, const lk__device_text *text, lk_device *out)
{
    int kind = CPU;
    const char *at = text->at;
    lk__processors there, numbers = {{0}};
    LK_TRY(kind_read(text, &at, &kind));
    numbers_there(m, kind, &there);
    LK_CHECK(lk__processors_count(&there) > 0, LK_ENOTSUP,
             LK__DEVICE_AT "%s are not known here: %s, and the system does not tell",
             LK__DEVICE_WHERE(text, text->at), kinds[kind].plural,
             m->reason ? m->reason : "hwloc finds none");
    for (;;) {
        LK_TRY(range_read(text, kind, &there, &at, &numbers));
        if (at == text->end)
            break;
        LK_CHECK(*at == '+', LK_EINVAL,
                 LK__DEVICE_AT "\"%.1s\" is out of place: ranges are written 0-3+8-11",
                 LK__DEVICE_WHERE(text, at), at);
        at++;
    }
    lk_device device;
    LK_CHECK(device_make(m, kind, &numbers, &device), LK_EINVAL,
             LK__DEVICE_AT "too many ranges: a device's name has at most %d characters",
             LK__DEVICE_WHERE(text, text->at), LK_DEVICE_NAME - 1);
    *out = device;
    return LK_OK;
}
