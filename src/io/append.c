/* Files that grow. */
#include "io/append.h"

#include <lockstep/alloc.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

struct lk__append {
    int fd;
    int64_t at;
    char path[];
};

static lk_status open_at(lk__append *a)
{
    a->fd = open(a->path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    LK_CHECK(a->fd >= 0, LK_EIO, "%s: cannot be written: %s", a->path, strerror(errno));
    LK_CHECK(ftruncate(a->fd, (off_t)a->at) == 0, LK_EIO, "%s: cannot be cut to %lld bytes: %s",
             a->path, (long long)a->at, strerror(errno));
    return LK_OK;
}

lk_status lk__append_open(const char *path, int64_t at, lk__append **out)
{
    size_t length = strlen(path) + 1;
    lk__append *a = NULL;
    *out = NULL;
    LK_TRY(lk_alloc(&a, 1, sizeof *a + length));
    a->at = at;
    memcpy(a->path, path, length);
    lk_status st = open_at(a);
    if (st != LK_OK) {
        if (a->fd >= 0)
            close(a->fd);
        lk_free(a);
        LK_TRY(st);
    }
    *out = a;
    return LK_OK;
}

lk_status lk__append_write(lk__append *a, const void *bytes, int64_t n)
{
    for (int64_t done = 0; done < n;) {
        ssize_t got = pwrite(a->fd, (const char *)bytes + done, (size_t)(n - done),
                             (off_t)(a->at + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            lk_status st = LK_RAISE(LK_EIO, "%s: offset %lld: %s", a->path, (long long)a->at,
                                    strerror(errno));
            if (ftruncate(a->fd, (off_t)a->at) != 0)
                return LK_RAISE(LK_EIO, "%s: offset %lld: %s, and what was written stays", a->path,
                                (long long)a->at, strerror(errno));
            return st;
        }
        done += got;
    }
    a->at += n;
    return LK_OK;
}

lk_status lk__append_close(lk__append *a)
{
    if (!a)
        return LK_OK;
    lk_status st = LK_OK;
    if (close(a->fd) != 0)
        st = LK_RAISE(LK_EIO, "%s: %s", a->path, strerror(errno));
    lk_free(a);
    return st;
}
