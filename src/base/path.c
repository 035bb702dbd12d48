/* Paths in the file system: see path.h. */
#include "base/path.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool lk__path_exists(const char *path)
{
    return access(path, F_OK) == 0;
}

bool lk__path_is_folder(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

bool lk__path_is_link(const char *path)
{
    struct stat about;
    return lstat(path, &about) == 0 && S_ISLNK(about.st_mode);
}

bool lk__path_ends(const char *path, const char *suffix)
{
    size_t n = strlen(path), k = strlen(suffix);
    return n >= k && strcmp(path + n - k, suffix) == 0;
}

lk_status lk__path_join(const char *folder, const char *file, char *buf, size_t size)
{
    int n = snprintf(buf, size, "%s/%s", folder, file);
    LK_CHECK(n >= 0 && (size_t)n < size, LK_EINVAL, "the path %s/%s is too long", folder, file);
    return LK_OK;
}

lk_status lk__path_parent(const char *path, char buf[LK_PATH_SIZE])
{
    size_t n = strlen(path);
    LK_CHECK(n < LK_PATH_SIZE, LK_EINVAL, "the path %s is too long", path);
    while (n > 1 && path[n - 1] == '/') /* a/b/ is b in a */
        n--;
    while (n > 0 && path[n - 1] != '/')
        n--;
    while (n > 1 && path[n - 1] == '/')
        n--;
    memcpy(buf, n > 0 ? path : ".", n > 0 ? n : 1);
    buf[n > 0 ? n : 1] = '\0';
    return LK_OK;
}
