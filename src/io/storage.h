/* The disk as checkpoints see it: every call in one place, so that a test can make the n-th fail.
 *
 * Calls that a signal interrupts are made again, and short writes and reads go on.  Errors are
 * LK_EIO and name the path and the reason.  Thread safe, and no call but lk__storage_list()
 * allocates.
 */
#ifndef LK_IO_STORAGE_H
#define LK_IO_STORAGE_H

#include <lockstep/option.h>

#include <stdbool.h>
#include <stdint.h>

/* What can be made to fail: enumerator, name. */
#define LK__STORAGE_MAP(X) \
    X(OPEN, "open")        \
    X(READ, "read")        \
    X(WRITE, "write")      \
    X(SYNC, "sync")        \
    X(CLOSE, "close")      \
    X(RENAME, "rename")    \
    X(MKDIR, "mkdir")      \
    X(REMOVE, "remove")    \
    X(LIST, "list")        \
    X(SPACE, "space")

typedef enum lk__storage_call {
#define X(code, name) LK__STORAGE_##code,
    LK__STORAGE_MAP(X)
#undef X
        LK__N_STORAGE_CALLS
} lk__storage_call;

/* Instead of an errno: the process is killed. */
enum { LK__STORAGE_KILL = -1 };

/** "open", ... */
const char *lk__storage_name(lk__storage_call call);

/**
 * Fault injection, for tests: the n-th call of this kind from now (1 is the next one) fails with
 * `error`, an errno, whichever thread makes it; `lasting`: all later ones too.  A write that is to
 * fail has written half of what it was given (none with EINTR).  With error 0 a write or read is
 * short, and does not fail; with LK__STORAGE_KILL the process dies there.  n = 0 switches it off.
 *
 * From outside: LK_STORAGE_FAULT="write:3:ENOSPC", or "write:3+:ENOSPC" for a lasting one, with
 * EIO, ENOSPC, EDQUOT, EACCES, ENOENT, EINTR, EROFS or KILL, read once by the first call.
 */
void lk__storage_fail(lk__storage_call call, int64_t n, int error, bool lasting);

/** For tests that save thousands of times: syncs are counted and may be made to fail, but not done. */
void lk__storage_sync_skip(bool skip);

/** Calls of this kind so far. */
int64_t lk__storage_calls(lk__storage_call call);

/** Make a file that must not be there yet, for its owner alone, to write to. */
lk_status lk__storage_create(const char *path, int *fd) LK_NODISCARD;

/** Open a regular file to read. */
lk_status lk__storage_open(const char *path, int *fd, int64_t *bytes) LK_NODISCARD;

/** Open a file, made if it is not there, to read and write: a lock. */
lk_status lk__storage_open_lock(const char *path, int *fd) LK_NODISCARD;

lk_status lk__storage_write(int fd, const char *path, const void *bytes, int64_t n) LK_NODISCARD;
lk_status lk__storage_read(int fd, const char *path, int64_t offset, void *out,
                           int64_t n) LK_NODISCARD;

/** Wait until a file is on disk.  After a failure it counts as lost: trying again proves nothing. */
lk_status lk__storage_sync(int fd, const char *path) LK_NODISCARD;

/** Close a file; the descriptor is gone after an error as well. */
lk_status lk__storage_close(int fd, const char *path) LK_NODISCARD;

/** Close a file to which nothing was written, or that is to be thrown away: what fails does not
 * matter. */
void lk__storage_release(int fd);

/** Make, write, sync and close a file; one that failed is removed again. */
lk_status lk__storage_put(const char *path, const void *bytes, int64_t n) LK_NODISCARD;

lk_status lk__storage_rename(const char *from, const char *to) LK_NODISCARD;

/** Make a folder; one that is there is an error unless `or_there`. */
lk_status lk__storage_mkdir(const char *path, unsigned mode, bool or_there) LK_NODISCARD;

/** Wait until the entries of a folder are on disk. */
lk_status lk__storage_sync_folder(const char *path) LK_NODISCARD;

/** Remove a file.  One that is not there is no error. */
lk_status lk__storage_remove(const char *path) LK_NODISCARD;

/** Remove a folder and the files in it; folders in it are not entered. */
lk_status lk__storage_remove_folder(const char *path) LK_NODISCARD;

/** The names in a folder that begin with `prefix`, sorted, in the arena. */
lk_status lk__storage_list(const char *folder, const char *prefix, lk_arena *arena,
                           const char ***out, int64_t *n) LK_NODISCARD;

/** Bytes that this user can still write to the file system of a folder. */
lk_status lk__storage_space(const char *folder, int64_t *bytes) LK_NODISCARD;

#endif /* LK_IO_STORAGE_H */
