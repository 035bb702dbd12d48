/* Lists of devices: those of a process, by default or by LK_DEVICES, and those that a text names.
 *
 *     list = device { "," device }         a device may be a number: an entry of the list before
 *
 * The list before is, for LK_DEVICES, that of all cores; for any other text the one that LK_DEVICES
 * says, as programs count in what they can see.
 */
#include "base/env.h"
#include "comm/device/device.h"

#include <lockstep/extra/alloc.h>

#include <string.h>

typedef lk_status list_fn(lk__machine *m, lk__device_list *out);

/* The entry that a text numbers, of a list that is made when it is needed first. */
static lk_status entry_read(lk__machine *m, const lk__device_text *text, list_fn *before,
                            lk__device_list *numbered, lk_device *out)
{
    int64_t number = 0;
    const char *p = text->at;
    for (; p < text->end && *p >= '0' && *p <= '9'; p++)
        number = number < LK_MAX_PROCESSORS ? 10 * number + (*p - '0') : number;
    LK_CHECK(p == text->end, LK_EINVAL,
             LK__DEVICE_AT "\"%.1s\" is out of place behind a number; ranges need a kind, as in "
                           "core:0-1",
             LK__DEVICE_WHERE(text, p), p);
    if (!numbered->entry)
        LK_TRY(before(m, numbered));
    LK_CHECK(number < numbered->n, LK_EINVAL,
             LK__DEVICE_AT "there is no device %.*s; there are %d, counted from 0",
             LK__DEVICE_WHERE(text, text->at), (int)(p - text->at < 64 ? p - text->at : 64),
             text->at, numbered->n);
    *out = numbered->entry[number];
    return LK_OK;
}

static lk_status device_read(lk__machine *m, const lk__device_text *text, list_fn *before,
                             lk__device_list *numbered, lk_device *out)
{
    if (text->at < text->end && *text->at >= '0' && *text->at <= '9')
        LK_TRY(entry_read(m, text, before, numbered, out));
    else
        LK_TRY(lk__device_read(m, text, out));
    return LK_OK;
}

static lk_status once(const lk__device_text *text, const lk__device_list *list)
{
    const lk_device *last = &list->entry[list->n - 1];
    for (int i = 0; i < list->n - 1; i++)
        LK_CHECK(memcmp(last->processors, list->entry[i].processors, sizeof last->processors) != 0,
                 LK_EINVAL, LK__DEVICE_AT "the device %s is there twice, first as entry %d",
                 LK__DEVICE_WHERE(text, text->at), last->name, i);
    return LK_OK;
}

/* Read a list; the caller frees the entries. */
static lk_status list_read(lk__machine *m, const char *what, const char *whole, list_fn *before,
                           lk__device_list *out)
{
    lk_status st;
    int n = 1;
    lk__device_list list = {NULL, 0}, numbered = {NULL, 0};
    for (const char *p = whole; *p; p++)
        n += *p == ',' && n <= LK_MAX_PROCESSORS;
    LK_CHECK(n <= LK_MAX_PROCESSORS, LK_EINVAL, "%s: a list of more than %d devices", what,
             LK_MAX_PROCESSORS);
    LK_TRY(lk_alloc(&list.entry, n, sizeof *list.entry));
    for (const char *at = whole;; at++) {
        lk__device_text text = {what, whole, at, at + strcspn(at, ",")};
        LK_TRY_TO(done, device_read(m, &text, before, &numbered, &list.entry[list.n++]));
        LK_TRY_TO(done, once(&text, &list));
        at = text.end;
        if (*at == '\0')
            break;
    }
    *out = list;
    list.entry = NULL;
    st = LK_OK;
done:
    lk_free(numbered.entry);
    lk_free(list.entry);
    return st;
}

lk_status lk__devices_now(lk__machine *m, lk__device_list *out)
{
    const char *env = lk__env("LK_DEVICES");
    if (env && *env)
        LK_TRY(list_read(m, "LK_DEVICES", env, lk__devices_all, out));
    else
        LK_TRY(lk__devices_all(m, out));
    return LK_OK;
}

static void list_give(lk__device_list *list, lk_device *out, int room, int *n)
{
    *n = list->n;
    if (room > 0)
        memcpy(out, list->entry, (size_t)(room < *n ? room : *n) * sizeof *out);
    lk_free(list->entry);
}

static lk_status room_check(const lk_device *out, int room, const int *n)
{
    LK_CHECK(n, LK_EINVAL, "n is NULL");
    LK_CHECK(room >= 0, LK_EINVAL, "room for %d devices", room);
    LK_CHECK(out || room == 0, LK_EINVAL, "out is NULL, with room for %d devices", room);
    return LK_OK;
}

lk_status lk__devices_named(const char *text, lk__device_list *out)
{
    lk__machine *m = NULL;
    LK_TRY(lk__machine_new(&m));
    lk_status st;
    LK_TRY_TO(done,
              text ? list_read(m, "devices", text, lk__devices_now, out) : lk__devices_now(m, out));
done:
    lk_free(m);
    return st;
}

lk_status lk_devices_available(lk_device *out, int room, int *n)
{
    lk__device_list list;
    LK_TRY(room_check(out, room, n));
    LK_TRY(lk__devices_named(NULL, &list));
    list_give(&list, out, room, n);
    return LK_OK;
}

lk_status lk_devices_parse(const char *text, lk_device *out, int room, int *n)
{
    lk__device_list list;
    LK_CHECK(text, LK_EINVAL, "text is NULL");
    LK_TRY(room_check(out, room, n));
    LK_TRY(lk__devices_named(text, &list));
    list_give(&list, out, room, n);
    return LK_OK;
}

lk_status lk_device_parse(const char *text, lk_device *out)
{
    lk__machine *m = NULL;
    lk__device_list numbered = {NULL, 0};
    LK_CHECK(text && out, LK_EINVAL, "%s is NULL", text ? "out" : "text");
    lk__device_text whole = {"device", text, text, text + strlen(text)};
    LK_TRY(lk__machine_new(&m));
    lk_status st;
    LK_TRY_TO(done, device_read(m, &whole, lk__devices_now, &numbered, out));
done:
    lk_free(numbered.entry);
    lk_free(m);
    return st;
}
