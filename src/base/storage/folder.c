/* The calls of storage.h on names: rename, folders, remove, list, and how much space is left. */
#include "base/memory/grow.h"
#include "base/storage/fault.h"

#include <lockstep/extra/alloc.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

lk_status lk__storage_rename(const char *from, const char *to)
{
    int failed;
    do {
        errno = lk__storage_error(LK__STORAGE_RENAME, from);
        failed = errno ? -1 : rename(from, to);
    } while (failed && errno == EINTR);
    LK_CHECK(!failed, LK_EIO, "%s: cannot be renamed to %s: %s", from, to, strerror(errno));
    lk__storage_made(&(lk__storage_event){.call = LK__STORAGE_RENAME, .path = from, .to = to});
    return LK_OK;
}

/* Make a folder, as mkdir(). */
static int make_again(const char *path, unsigned mode)
{
    int failed;
    do {
        errno = lk__storage_error(LK__STORAGE_MKDIR, path);
        failed = errno ? -1 : mkdir(path, (mode_t)mode);
    } while (failed && errno == EINTR);
    if (!failed)
        lk__storage_made(&(lk__storage_event){.call = LK__STORAGE_MKDIR, .path = path});
    return failed;
}

static lk_status make_refused(const char *path, int error)
{
    bool is_file = error == EEXIST && lk__path_exists(path) && !lk__path_is_folder(path);
    LK_CHECK(!is_file && error != ENOTDIR, LK_EIO,
             "%s: cannot be made: it %s a file, where a folder is needed", path,
             is_file ? "is" : "lies in");
    return LK_RAISE(LK_EIO, "%s: cannot be made: %s", path, strerror(error));
}

lk_status lk__storage_mkdir(const char *path, unsigned mode)
{
    return make_again(path, mode) == 0 ? LK_OK : make_refused(path, errno);
}

lk_status lk__storage_folder(const char *path)
{
    if (make_again(path, 0777) != 0 && !(errno == EEXIST && lk__path_is_folder(path)))
        return make_refused(path, errno);
    LK_TRY(lk__storage_sync_parent(path)); /* also if it was there: who made it may not have */
    return LK_OK;
}

lk_status lk__storage_sync_folder(const char *path)
{
    int fd;
    do {
        errno = lk__storage_error(LK__STORAGE_OPEN, path);
        fd = errno ? -1 : open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    } while (fd < 0 && errno == EINTR);
    if (fd < 0 && errno == EACCES) /* a folder to write to, but not to look into */
        return LK_OK;
    LK_CHECK(fd >= 0, LK_EIO, "%s: cannot be opened: %s", path, strerror(errno));
    int failed = lk__storage_fsync(fd, path, true), error = errno;
    close(fd);
    LK_CHECK(!failed || error == EINVAL, LK_EIO, "%s: cannot be brought to disk: %s", path,
             strerror(error));
    return LK_OK;
}

lk_status lk__storage_sync_parent(const char *path)
{
    char parent[LK_PATH_SIZE];
    LK_TRY(lk__path_parent(path, parent));
    if (lk__storage_sync_folder(parent) != LK_OK)
        return LK_RAISE(LK_EIO, "%s: its name is not on disk: %s", path, lk_error_message());
    return LK_OK;
}

/* Remove `name` in an open folder, or by its path, as unlinkat(); `path` is for messages. */
static int remove_again(int at, const char *name, const char *path, int flags)
{
    int failed;
    do {
        errno = lk__storage_error(LK__STORAGE_REMOVE, path);
        failed = errno ? -1 : unlinkat(at, name, flags);
    } while (failed && errno == EINTR);
    if (!failed)
        lk__storage_made(&(lk__storage_event){
            .call = LK__STORAGE_REMOVE, .path = path, .folder = flags == AT_REMOVEDIR});
    return failed && errno != ENOENT ? -1 : 0;
}

static lk_status remove_check(int failed, const char *path)
{
    LK_CHECK(!failed, LK_EIO, "%s: cannot be removed: %s", path, strerror(errno));
    return LK_OK;
}

lk_status lk__storage_remove(const char *path)
{
    return remove_check(remove_again(AT_FDCWD, path, path, 0), path);
}

void lk__storage_discard(const char *path)
{
    if (unlink(path) == 0)
        lk__storage_made(&(lk__storage_event){.call = LK__STORAGE_REMOVE, .path = path});
}

static lk_status open_folder(const char *path, int flags, DIR **out)
{
    int fd;
    do {
        errno = lk__storage_error(LK__STORAGE_LIST, path);
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

/* Remove the files of a folder, which is open. */
static lk_status files_remove(DIR *folder, const char *path)
{
    char name[LK_PATH_SIZE];
    for (const struct dirent *e; (e = readdir(folder));) {
        if (!is_entry(e->d_name))
            continue;
        LK_TRY(lk__path_join(path, e->d_name, name, sizeof name));
        LK_TRY(remove_check(remove_again(dirfd(folder), e->d_name, name, 0), name));
    }
    return LK_OK;
}

lk_status lk__storage_remove_folder(const char *path)
{
    DIR *folder;
    LK_TRY(open_folder(path, O_NOFOLLOW, &folder));
    lk_status st = files_remove(folder, path);
    closedir(folder);
    LK_TRY(st);
    return remove_check(remove_again(AT_FDCWD, path, path, AT_REMOVEDIR), path);
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
    return LK_TRACE(st);
}

lk_status lk__storage_space(const char *folder, int64_t *bytes)
{
    struct statvfs about;
    int failed;
    do {
        errno = lk__storage_error(LK__STORAGE_SPACE, folder);
        failed = errno ? -1 : statvfs(folder, &about);
    } while (failed && errno == EINTR);
    LK_CHECK(!failed, LK_EIO, "%s: its free space cannot be found: %s", folder, strerror(errno));
    bool unknown = about.f_blocks == 0 || about.f_frsize == 0; /* some file systems do not say */
    *bytes = unknown || about.f_bavail > (uint64_t)INT64_MAX / about.f_frsize
                 ? INT64_MAX
                 : (int64_t)(about.f_bavail * about.f_frsize);
    return LK_OK;
}
