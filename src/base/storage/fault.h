/* What stands between a storage call and the system: injected faults (fault.c), the trace that
 * tests replay, and the status that other threads read (trace.c).  For storage.c, folder.c and
 * tests. */
#ifndef LK_BASE_STORAGE_FAULT_H
#define LK_BASE_STORAGE_FAULT_H

#include "base/storage/storage.h"

/** Show and count a call; whether it is to fail, and with which errno (0: it is to be short, not to
 * fail).  A call that is to be slow waits here. */
bool lk__storage_fails(lk__storage_call call, const char *path, int *error);

/** The errno of a call that is to fail, 0 of one that is not. */
int lk__storage_error(lk__storage_call call, const char *path);

/** fsync(), 0 or -1 with errno. */
int lk__storage_fsync(int fd, const char *path, bool folder);

/** Show a call that begins. */
void lk__storage_shows(lk__storage_call call, const char *path);

/* ---- the trace ---- */

/** A call that has changed what is on the disk, or brought it there. */
typedef struct lk__storage_event {
    lk__storage_call call;
    const char *path, *to; /* `to` of a rename */
    bool folder;           /* of a sync: the entries of a folder; of a remove: the folder itself */
    int64_t offset, bytes; /* of a write; of a truncate `bytes` is where it cuts */
    const void *data;      /* of a write */
} lk__storage_event;

/** Call `trace_fn` after each such call, one at a time; NULL: no function.  For tests: what a disk may
 * hold after a power cut follows from the order of these. */
void lk__storage_trace(void (*trace_fn)(void *arg, const lk__storage_event *event), void *arg);

/** Tell of a call that was made. */
void lk__storage_made(const lk__storage_event *event);

#endif /* LK_BASE_STORAGE_FAULT_H */
