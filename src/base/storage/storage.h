/* All calls to the disk for files that a run writes, in one place, so that a test can make the n-th
 * fail, and replay all of them up to a power cut.  Sinks, caches, checkpoints and metrics use them.
 *
 * Calls that a signal interrupts are made again, and short writes and reads go on.  Errors are
 * LK_EIO and name the path and the reason.  Thread safe, and no call but lk__storage_list()
 * allocates.
 *
 * What stays after a power cut is what was synced: the bytes of a file with lk__storage_sync(), its
 * name with lk__storage_sync_folder() of the folder that it lies in.
 */
#ifndef LK_BASE_STORAGE_H
#define LK_BASE_STORAGE_H

#include "base/path.h"

#include <lockstep/option.h>

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* What can be made to fail: enumerator, name. */
#define LK__STORAGE_MAP(X)  \
    X(OPEN, "open")         \
    X(READ, "read")         \
    X(WRITE, "write")       \
    X(TRUNCATE, "truncate") \
    X(SYNC, "sync")         \
    X(CLOSE, "close")       \
    X(RENAME, "rename")     \
    X(MKDIR, "mkdir")       \
    X(REMOVE, "remove")     \
    X(LIST, "list")         \
    X(SPACE, "space")

typedef enum lk__storage_call {
#define X(code, name) LK__STORAGE_##code,
    LK__STORAGE_MAP(X)
#undef X
        LK__N_STORAGE_CALLS
} lk__storage_call;

/* Instead of an errno: the process is killed; or the call takes that long, and does not fail. */
enum { LK__STORAGE_KILL = -1, LK__STORAGE_SLOW = -1000 };
#define LK__STORAGE_SLOW_MS(ms) (LK__STORAGE_SLOW - (ms))

/** "open", ... */
const char *lk__storage_name(lk__storage_call call);

/**
 * Fault injection, for tests: the n-th call of this kind from now (1 is the next one) fails with
 * `error`, an errno, whichever thread makes it; `lasting`: all later ones too.  A write that is to
 * fail has written half of what it was given (none with EINTR).  With error 0 a write or read is
 * short, and does not fail; with LK__STORAGE_KILL the process dies there; with
 * LK__STORAGE_SLOW_MS(ms) the call waits that long before it is made.  n = 0 switches it off.
 *
 * From outside: LK_STORAGE_FAULT="write:3:ENOSPC", or "write:3+:ENOSPC" for a lasting one, with
 * EIO, ENOSPC, EDQUOT, EACCES, ENOENT, EINTR, EROFS, KILL or such as 1500ms, read once by the first
 * call.
 */
void lk__storage_fail(lk__storage_call call, int64_t n, int error, bool lasting);

/** For tests that save thousands of times: syncs are counted and may be made to fail, but not done. */
void lk__storage_sync_skip(bool skip);

/** Calls of this kind so far. */
int64_t lk__storage_calls(lk__storage_call call);

/* ---- files ---- */

/** Make a file that must not be there yet, to write to; a link of that name is not followed. */
lk_status lk__storage_create(const char *path, unsigned mode, int *fd) LK_NODISCARD;

/** Open a regular file to read. */
lk_status lk__storage_open(const char *path, int *fd, int64_t *bytes) LK_NODISCARD;

/** Open a regular file, made if it is not there, to read and write: a lock, or one that grows.  A link
 * is refused. */
lk_status lk__storage_open_write(const char *path, int *fd) LK_NODISCARD;

/** Write `n` bytes from byte `offset` of the file on. */
lk_status lk__storage_write(int fd, const char *path, int64_t offset, const void *bytes,
                            int64_t n) LK_NODISCARD;
lk_status lk__storage_read(int fd, const char *path, int64_t offset, void *out,
                           int64_t n) LK_NODISCARD;

/** Cut the file to `bytes`. */
lk_status lk__storage_truncate(int fd, const char *path, int64_t bytes) LK_NODISCARD;

/** Wait until a file is on disk.  After a failure it counts as lost: trying again proves nothing. */
lk_status lk__storage_sync(int fd, const char *path) LK_NODISCARD;

/** Close a file; the descriptor is gone after an error as well. */
lk_status lk__storage_close(int fd, const char *path) LK_NODISCARD;

/** Close a file to which nothing was written, or that is to be thrown away: what fails does not
 * matter. */
void lk__storage_release(int fd);

/** Make, write, sync and close a file for its owner alone; one that failed is removed again. */
lk_status lk__storage_put(const char *path, const void *bytes, int64_t n) LK_NODISCARD;

/* ---- folders ---- */

lk_status lk__storage_rename(const char *from, const char *to) LK_NODISCARD;

/** Make a folder, which must not be there yet. */
lk_status lk__storage_mkdir(const char *path, unsigned mode) LK_NODISCARD;

/** Make a folder unless it is there, and sync its name. */
lk_status lk__storage_folder(const char *path) LK_NODISCARD;

/** Wait until the entries of a folder are on disk.  One that this user may not read, or whose file
 * system cannot do it, is no error. */
lk_status lk__storage_sync_folder(const char *path) LK_NODISCARD;

/** lk__storage_sync_folder() of the folder that `path` lies in. */
lk_status lk__storage_sync_parent(const char *path) LK_NODISCARD;

/** Remove a file.  One that is not there is no error. */
lk_status lk__storage_remove(const char *path) LK_NODISCARD;

/** Remove a file that was written in vain: what fails does not matter. */
void lk__storage_discard(const char *path);

/** Remove a folder and the files in it; folders in it are not entered. */
lk_status lk__storage_remove_folder(const char *path) LK_NODISCARD;

/** The names in a folder that begin with `prefix`, sorted, in the arena. */
lk_status lk__storage_list(const char *folder, const char *prefix, lk_arena *arena,
                           const char ***out, int64_t *n) LK_NODISCARD;

/** Bytes that this user can still write to the file system of a folder. */
lk_status lk__storage_space(const char *folder, int64_t *bytes) LK_NODISCARD;

/* ---- looking on ---- */

enum { LK__STORAGE_STATUS_SIZE = 320 };

/** The call that a thread is in or has made last, for another thread to see. */
typedef struct lk__storage_status {
    pthread_mutex_t lock;
    char text[LK__STORAGE_STATUS_SIZE]; /* "sync of out/weights.safetensors.part" */
} lk__storage_status;

#define LK__STORAGE_STATUS_INIT              \
    {                                        \
        PTHREAD_MUTEX_INITIALIZER, "nothing" \
    }

/** Show the calls of this thread in `doing` from now on; NULL: no more. */
void lk__storage_show(lk__storage_status *status);

/** What it shows now. */
void lk__storage_status_text(lk__storage_status *status, char text[LK__STORAGE_STATUS_SIZE]);

#endif /* LK_BASE_STORAGE_H */
