/* The calls of storage.h on files: create, open, read, write, sync, close. */
#include "base/storage/fault.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int open_again(const char *path, int flags, unsigned mode)
{
    for (;;) {
        errno = lk__storage_error(LK__STORAGE_OPEN, path);
        int fd = errno ? -1 : open(path, flags | O_CLOEXEC, mode);
        if (fd >= 0 || errno != EINTR)
            return fd;
    }
}

static atomic_bool sync_skipped;

void lk__storage_sync_skip(bool skip)
{
    atomic_store(&sync_skipped, skip);
}

/* ---- files ---- */

lk_status lk__storage_create(const char *path, unsigned mode, int *fd)
{
    *fd = open_again(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode);
    LK_CHECK(*fd >= 0, LK_EIO, "%s: cannot be made: %s", path, strerror(errno));
    lk__storage_made(&(lk__storage_event){.call = LK__STORAGE_OPEN, .path = path});
    return LK_OK;
}

/* The length of an open regular file; another kind is closed again. */
static lk_status regular_check(const char *path, int *fd, int64_t *bytes)
{
    struct stat about;
    bool known = fstat(*fd, &about) == 0;
    if (known && S_ISREG(about.st_mode)) {
        *bytes = about.st_size;
        return LK_OK;
    }
    lk_status st = LK_RAISE(LK_EIO, "%s: %s", path, known ? "is not a file" : strerror(errno));
    close(*fd);
    *fd = -1;
    return st;
}

lk_status lk__storage_open(const char *path, int *fd, int64_t *bytes)
{
    *bytes = 0;
    *fd = open_again(path, O_RDONLY | O_NONBLOCK, 0);
    LK_CHECK(*fd >= 0, LK_EIO, "%s: cannot be opened: %s", path, strerror(errno));
    return LK_TRACE(regular_check(path, fd, bytes));
}

lk_status lk__storage_open_write(const char *path, int *fd)
{
    int64_t bytes;
    *fd = open_again(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK, 0666);
    LK_CHECK(*fd >= 0 || errno != ELOOP, LK_EIO,
             "%s: is a symbolic link, which is not written through; remove it", path);
    LK_CHECK(*fd >= 0, LK_EIO, "%s: cannot be written: %s", path, strerror(errno));
    LK_TRY(regular_check(path, fd, &bytes));
    lk__storage_made(&(lk__storage_event){.call = LK__STORAGE_OPEN, .path = path});
    return LK_OK;
}

/* pwrite(), and the trace records what it has written. */
static ssize_t write_traced(int fd, const char *path, int64_t offset, const void *bytes, size_t n)
{
    ssize_t got = pwrite(fd, bytes, n, (off_t)offset);
    if (got > 0)
        lk__storage_made(&(lk__storage_event){.call = LK__STORAGE_WRITE,
                                              .path = path,
                                              .offset = offset,
                                              .bytes = got,
                                              .data = bytes});
    return got;
}

/* One write, or a part of one: as pwrite(). */
static ssize_t write_some(int fd, const char *path, int64_t offset, const void *bytes, size_t n)
{
    int error;
    if (!lk__storage_fails(LK__STORAGE_WRITE, path, &error))
        return write_traced(fd, path, offset, bytes, n);
    ssize_t half = error == EINTR
                       ? 0
                       : write_traced(fd, path, offset, bytes, error ? n / 2 : (n + 1) / 2);
    if (error == 0 || half < 0)
        return half;
    if (error == LK__STORAGE_KILL)
        raise(SIGKILL);
    errno = error;
    return -1;
}

lk_status lk__storage_write(int fd, const char *path, int64_t offset, const void *bytes, int64_t n)
{
    for (int64_t done = 0; done < n;) {
        ssize_t got = write_some(fd, path, offset + done, (const char *)bytes + done,
                                 (size_t)(n - done));
        if (got < 0 && errno == EINTR)
            continue;
        LK_CHECK(got >= 0, LK_EIO, "%s: cannot be written at offset %lld: %s", path,
                 (long long)(offset + done), strerror(errno));
        done += got;
    }
    return LK_OK;
}

/* One read, or a part of one: as pread(). */
static ssize_t read_some(int fd, const char *path, void *out, size_t n, int64_t offset)
{
    int error;
    if (!lk__storage_fails(LK__STORAGE_READ, path, &error))
        return pread(fd, out, n, (off_t)offset);
    if (error == 0)
        return pread(fd, out, (n + 1) / 2, (off_t)offset);
    errno = error;
    return -1;
}

lk_status lk__storage_read(int fd, const char *path, int64_t offset, void *out, int64_t n)
{
    for (int64_t done = 0; done < n;) {
        ssize_t got = read_some(fd, path, (char *)out + done, (size_t)(n - done), offset + done);
        if (got < 0 && errno == EINTR)
            continue;
        LK_CHECK(got >= 0, LK_EIO, "%s: cannot be read at offset %lld: %s", path,
                 (long long)(offset + done), strerror(errno));
        LK_CHECK(got > 0, LK_EIO, "%s: ends at offset %lld, %lld bytes too early", path,
                 (long long)(offset + done), (long long)(n - done));
        done += got;
    }
    return LK_OK;
}

lk_status lk__storage_truncate(int fd, const char *path, int64_t bytes)
{
    int failed;
    do {
        errno = lk__storage_error(LK__STORAGE_TRUNCATE, path);
        failed = errno ? -1 : ftruncate(fd, (off_t)bytes);
    } while (failed && errno == EINTR);
    LK_CHECK(!failed, LK_EIO, "%s: cannot be cut to %lld bytes: %s", path, (long long)bytes,
             strerror(errno));
    lk__storage_made(
        &(lk__storage_event){.call = LK__STORAGE_TRUNCATE, .path = path, .bytes = bytes});
    return LK_OK;
}

int lk__storage_fsync(int fd, const char *path, bool folder)
{
    int failed;
    do {
        errno = lk__storage_error(LK__STORAGE_SYNC, path);
        failed = errno ? -1 : atomic_load(&sync_skipped) ? 0 : fsync(fd);
    } while (failed && errno == EINTR);
    if (!failed)
        lk__storage_made(
            &(lk__storage_event){.call = LK__STORAGE_SYNC, .path = path, .folder = folder});
    return failed;
}

lk_status lk__storage_sync(int fd, const char *path)
{
    LK_CHECK(lk__storage_fsync(fd, path, false) == 0, LK_EIO, "%s: cannot be brought to disk: %s",
             path, strerror(errno));
    return LK_OK;
}

lk_status lk__storage_close(int fd, const char *path)
{
    int error = lk__storage_error(LK__STORAGE_CLOSE, path);
    if (close(fd) != 0)
        error = errno;
    /* The descriptor is closed when a signal interrupts, and what was synced is on disk. */
    LK_CHECK(error == 0 || error == EINTR, LK_EIO, "%s: cannot be closed: %s", path,
             strerror(error));
    return LK_OK;
}

void lk__storage_release(int fd)
{
    close(fd);
}

lk_status lk__storage_put(const char *path, const void *bytes, int64_t n)
{
    int fd;
    LK_TRY(lk__storage_create(path, 0600, &fd));
    lk_status st = lk__storage_write(fd, path, 0, bytes, n);
    if (st == LK_OK)
        st = lk__storage_sync(fd, path);
    if (st != LK_OK)
        lk__storage_release(fd);
    else
        st = lk__storage_close(fd, path);
    if (st != LK_OK)
        lk__storage_discard(path);
    return LK_TRACE(st);
}
