/* Files that appear complete or not at all. */
#include "data/sink.h"

#include "data/source.h"

#include <lockstep/alloc.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum { BUFFER = 1 << 16 };

struct lk__sink {
    int fd;
    int64_t at;
    size_t held;
    char path[LK_PATH_SIZE], part[LK_PATH_SIZE];
    unsigned char buffer[BUFFER];
};

lk_status lk__sink_open(const char *path, lk__sink **out)
{
    *out = NULL;
    lk__sink *s;
    LK_CHECK(strlen(path) + sizeof ".part" <= LK_PATH_SIZE, LK_EINVAL, "the path %s is too long",
             path);
    LK_TRY(lk_alloc(&s, 1, sizeof *s));
    s->at = 0;
    s->held = 0;
    snprintf(s->path, sizeof s->path, "%s", path);
    snprintf(s->part, sizeof s->part, "%.*s.part", LK_PATH_SIZE - 6, path);
    s->fd = open(s->part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (s->fd < 0) {
        lk_status st = LK_RAISE(LK_EIO, "%s: cannot be written: %s", s->part, strerror(errno));
        lk_free(s);
        return st;
    }
    *out = s;
    return LK_OK;
}

static lk_status put(lk__sink *s, const unsigned char *bytes, size_t n)
{
    while (n > 0) {
        ssize_t done = write(s->fd, bytes, n);
        if (done < 0 && errno == EINTR)
            continue;
        LK_CHECK(done >= 0, LK_EIO, "%s: %s", s->part, strerror(errno));
        bytes += done;
        n -= (size_t)done;
    }
    return LK_OK;
}

static lk_status flush(lk__sink *s)
{
    LK_TRY(put(s, s->buffer, s->held));
    s->held = 0;
    return LK_OK;
}

lk_status lk__sink_write(lk__sink *s, const void *bytes, int64_t n)
{
    s->at += n;
    if ((size_t)n > BUFFER - s->held)
        LK_TRY(flush(s));
    if ((size_t)n > BUFFER) {
        LK_TRY(put(s, bytes, (size_t)n));
    } else if (n > 0) {
        memcpy(s->buffer + s->held, bytes, (size_t)n);
        s->held += (size_t)n;
    }
    return LK_OK;
}

int64_t lk__sink_at(const lk__sink *s)
{
    return s->at;
}

static lk_status finish(lk__sink *s)
{
    LK_TRY(flush(s));
    int fd = s->fd;
    s->fd = -1;
    LK_CHECK(close(fd) == 0, LK_EIO, "%s: %s", s->part, strerror(errno));
    LK_CHECK(rename(s->part, s->path) == 0, LK_EIO, "%s: cannot be written: %s", s->path,
             strerror(errno));
    return LK_OK;
}

lk_status lk__sink_close(lk__sink *s)
{
    lk_status st = finish(s);
    if (st != LK_OK) {
        lk__sink_abandon(s);
        LK_TRY(st);
    }
    lk_free(s);
    return LK_OK;
}

void lk__sink_abandon(lk__sink *s)
{
    if (!s)
        return;
    if (s->fd >= 0)
        close(s->fd);
    unlink(s->part);
    lk_free(s);
}

lk_status lk__sink_end(lk__sink *s, lk_status st)
{
    if (st == LK_OK)
        return lk__sink_close(s);
    lk__sink_abandon(s);
    return st;
}
