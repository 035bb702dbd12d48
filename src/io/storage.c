/* Files and folders of checkpoints. */
#include "io/storage.h"

#include "base/grow.h"
#include "data/source.h"
#include "io/storage_fault.h"

#include <lockstep/alloc.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* The errno of a call that is made to fail, 0 of one that is not. */
static int injected(lk__storage_call call)
{
    int error;
    return lk__storage_fails(call, &error) ? error : 0;
}

static int open_again(const char *path, int flags, unsigned mode)
{
    for (;;) {
        errno = injected(LK__STORAGE_OPEN);
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

lk_status lk__storage_create(const char *path, int *fd)
{
    *fd = open_again(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
    LK_CHECK(*fd >= 0, LK_EIO, "%s: cannot be made: %s", path, strerror(errno));
    return LK_OK;
}

lk_status lk__storage_open(const char *path, int *fd, int64_t *bytes)
{
    struct stat about;
    *bytes = 0;
    *fd = open_again(path, O_RDONLY | O_NONBLOCK, 0);
    LK_CHECK(*fd >= 0, LK_EIO, "%s: cannot be opened: %s", path, strerror(errno));
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

lk_status lk__storage_open_lock(const char *path, int *fd)
{
    *fd = open_again(path, O_RDWR | O_CREAT | O_NOFOLLOW, 0666);
    LK_CHECK(*fd >= 0, LK_EIO, "%s: cannot be opened to write: %s", path, strerror(errno));
    return LK_OK;
}

/* One write, or a part of one: as write(). */
static ssize_t write_some(int fd, const char *bytes, size_t n)
{
    int error;
    if (!lk__storage_fails(LK__STORAGE_WRITE, &error))
        return write(fd, bytes, n);
    ssize_t half = error == EINTR ? 0 : write(fd, bytes, error ? n / 2 : (n + 1) / 2);
    if (error == 0 || half < 0)
        return half;
    if (error == LK__STORAGE_KILL)
        raise(SIGKILL);
    errno = error;
    return -1;
}

lk_status lk__storage_write(int fd, const char *path, const void *bytes, int64_t n)
{
    for (int64_t done = 0; done < n;) {
        ssize_t got = write_some(fd, (const char *)bytes + done, (size_t)(n - done));
        if (got < 0 && errno == EINTR)
            continue;
        LK_CHECK(got >= 0, LK_EIO, "%s: cannot be written at offset %lld: %s", path,
                 (long long)done, strerror(errno));
        done += got;
    }
    return LK_OK;
}

/* One read, or a part of one: as pread(). */
static ssize_t read_some(int fd, void *out, size_t n, int64_t offset)
{
    int error;
    if (!lk__storage_fails(LK__STORAGE_READ, &error))
        return pread(fd, out, n, (off_t)offset);
    if (error == 0)
        return pread(fd, out, (n + 1) / 2, (off_t)offset);
    errno = error;
    return -1;
}

lk_status lk__storage_read(int fd, const char *path, int64_t offset, void *out, int64_t n)
{
    for (int64_t done = 0; done < n;) {
        ssize_t got = read_some(fd, (char *)out + done, (size_t)(n - done), offset + done);
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

lk_status lk__storage_sync(int fd, const char *path)
{
    int failed;
    do {
        errno = injected(LK__STORAGE_SYNC);
        failed = errno ? -1 : atomic_load(&sync_skipped) ? 0 : fsync(fd);
    } while (failed && errno == EINTR);
    LK_CHECK(!failed, LK_EIO, "%s: cannot be brought to disk: %s", path, strerror(errno));
    return LK_OK;
}

lk_status lk__storage_close(int fd, const char *path)
{
    int error = injected(LK__STORAGE_CLOSE);
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
    LK_TRY(lk__storage_create(path, &fd));
    lk_status st = lk__storage_write(fd, path, bytes, n);
    if (st == LK_OK)
        st = lk__storage_sync(fd, path);
    if (st != LK_OK)
        lk__storage_release(fd);
    else
        st = lk__storage_close(fd, path);
    if (st != LK_OK)
        unlink(path);
    LK_TRY(st);
    return LK_OK;
}

lk_status lk__storage_rename(const char *from, const char *to)
{
    int failed;
    do {
        errno = injected(LK__STORAGE_RENAME);
        failed = errno ? -1 : rename(from, to);
    } while (failed && errno == EINTR);
    LK_CHECK(!failed, LK_EIO, "%s: cannot be renamed to %s: %s", from, to, strerror(errno));
    return LK_OK;
}

/* ---- folders ---- */

lk_status lk__storage_mkdir(const char *path, unsigned mode, bool or_there)
{
    int failed;
    do {
        errno = injected(LK__STORAGE_MKDIR);
        failed = errno ? -1 : mkdir(path, (mode_t)mode);
    } while (failed && errno == EINTR);
    if (!failed || (errno == EEXIST && or_there && lk__path_is_folder(path)))
        return LK_OK;
    return lk__folder_refused(path, errno);
}

lk_status lk__storage_sync_folder(const char *path)
{
    int fd = open_again(path, O_RDONLY | O_DIRECTORY, 0);
    LK_CHECK(fd >= 0, LK_EIO, "%s: cannot be opened: %s", path, strerror(errno));
    lk_status st = lk__storage_sync(fd, path);
    close(fd);
    LK_TRY(st);
    return LK_OK;
}

/* unlink(), or rmdir() with AT_REMOVEDIR. */
static int remove_at(int folder, const char *name, int flags)
{
    int failed;
    do {
        errno = injected(LK__STORAGE_REMOVE);
        failed = errno ? -1 : unlinkat(folder, name, flags);
    } while (failed && errno == EINTR);
    return failed && errno != ENOENT ? -1 : 0;
}

lk_status lk__storage_remove(const char *path)
{
    LK_CHECK(remove_at(AT_FDCWD, path, 0) == 0, LK_EIO, "%s: cannot be removed: %s", path,
             strerror(errno));
    return LK_OK;
}

static lk_status open_folder(const char *path, int flags, DIR **out)
{
    int fd;
    do {
        errno = injected(LK__STORAGE_LIST);
        fd = errno ? -1 : open(path, flags | O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    } while (fd < 0 && errno == EINTR);
    *out = fd >= 0 ? fdopendir(fd) : NULL;
    int error = errno;
    if (fd >= 0 && !*out)
        close(fd);
    LK_CHECK(*out, LK_EIO, "%s: cannot be looked into: %s", path, strerror(error));
    return LK_OK;
}

static bool is_entry(const char *name)
{
    return strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

lk_status lk__storage_remove_folder(const char *path)
{
    DIR *folder;
    LK_TRY(open_folder(path, O_NOFOLLOW, &folder));
    lk_status st = LK_OK;
    for (const struct dirent *e; st == LK_OK && (e = readdir(folder));)
        if (is_entry(e->d_name) && remove_at(dirfd(folder), e->d_name, 0) != 0)
            st = LK_RAISE(LK_EIO, "%s/%s: cannot be removed: %s", path, e->d_name, strerror(errno));
    closedir(folder);
    LK_TRY(st);
    LK_CHECK(remove_at(AT_FDCWD, path, AT_REMOVEDIR) == 0, LK_EIO, "%s: cannot be removed: %s",
             path, strerror(errno));
    return LK_OK;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* All names to a list that grows. */
static lk_status list_all(DIR *folder, const char *path, const char *prefix, lk_arena *arena,
                          const char ***names, int64_t *n)
{
    int64_t room = 0;
    errno = 0;
    for (const struct dirent *e; (e = readdir(folder)); errno = 0) {
        if (!is_entry(e->d_name) || strncmp(e->d_name, prefix, strlen(prefix)) != 0)
            continue;
        LK_TRY(lk__grow(names, &room, *n + 1, sizeof **names));
        LK_TRY(lk_arena_text(arena, e->d_name, strlen(e->d_name), &(*names)[*n]));
        (*n)++;
    }
    LK_CHECK(errno == 0, LK_EIO, "%s: cannot be looked into: %s", path, strerror(errno));
    return LK_OK;
}

lk_status lk__storage_list(const char *folder, const char *prefix, lk_arena *arena,
                           const char ***out, int64_t *n)
{
    DIR *open;
    const char **names = NULL;
    *n = 0;
    LK_TRY(open_folder(folder, 0, &open));
    lk_status st = list_all(open, folder, prefix, arena, &names, n);
    closedir(open);
    if (st == LK_OK)
        st = lk_arena_alloc(arena, out, *n, sizeof **out);
    if (st == LK_OK && *n > 0) {
        memcpy(*out, names, (size_t)*n * sizeof **out);
        qsort(*out, (size_t)*n, sizeof **out, by_text);
    }
    lk_free(names);
    LK_TRY(st);
    return LK_OK;
}

lk_status lk__storage_space(const char *folder, int64_t *bytes)
{
    struct statvfs about;
    int failed;
    do {
        errno = injected(LK__STORAGE_SPACE);
        failed = errno ? -1 : statvfs(folder, &about);
    } while (failed && errno == EINTR);
    LK_CHECK(!failed, LK_EIO, "%s: its free space cannot be found: %s", folder, strerror(errno));
    bool unknown = about.f_blocks == 0 || about.f_frsize == 0; /* some file systems do not say */
    *bytes = unknown || about.f_bavail > (uint64_t)INT64_MAX / about.f_frsize
                 ? INT64_MAX
                 : (int64_t)(about.f_bavail * about.f_frsize);
    return LK_OK;
}
