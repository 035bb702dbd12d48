/* lk__append: a file that only grows, kept open for JSON lines and event files: see append.h. */
#include "io/append.h"

#include "base/failure.h"
#include "base/storage/storage.h"
#include "io/out.h"

#include <lockstep/extra/alloc.h>

#include <stdio.h>
#include <string.h>

struct lk__append {
    int fd;
    int64_t at; /* bytes that are written */
    lk__out kept;
    bool lost, torn; /* bytes that are nowhere; a half of something behind `at` */
    char path[];
};

static lk_status open_at(lk__append *a)
{
    if (a->at == 0 && lk__path_is_link(a->path))
        LK_TRY(lk__storage_remove(a->path));
    LK_TRY(lk__storage_open_write(a->path, &a->fd));
    LK_TRY(lk__storage_truncate(a->fd, a->path, a->at));
    return LK_TRACE(lk__storage_sync_parent(a->path));
}

static void append_free(lk__append *a)
{
    if (a->fd >= 0)
        lk__storage_release(a->fd);
    lk_free(a->kept.text);
    lk_free(a);
}

lk_status lk__append_open(const char *path, int64_t at, lk__append **out)
{
    size_t length = strlen(path) + 1;
    lk__append *a = NULL;
    *out = NULL;
    LK_TRY(lk_alloc_zero(&a, 1, sizeof *a + length));
    a->at = at;
    a->fd = -1;
    memcpy(a->path, path, length);
    lk_status st = open_at(a);
    if (st != LK_OK) {
        append_free(a);
        LK_TRY(st);
    }
    *out = a;
    return LK_OK;
}

/* Cut off what a failed write left; if that fails too, it is tried again before the next write. */
static lk_status mend(lk__append *a)
{
    if (!a->torn)
        return LK_OK;
    LK_TRY(lk__storage_truncate(a->fd, a->path, a->at));
    a->torn = false;
    return LK_OK;
}

/* Write bytes behind the last ones, all or none. */
static lk_status put(lk__append *a, const void *bytes, int64_t n)
{
    LK_TRY(mend(a));
    lk_status st = lk__storage_write(a->fd, a->path, a->at, bytes, n);
    if (st == LK_OK) {
        a->at += n;
        return LK_OK;
    }
    lk__failure why;
    lk__failure_get(&why);
    a->torn = true;
    if (mend(a) != LK_OK)
        return LK_RAISE(LK_EIO, "%s; and what was written of it stays for now", why.message);
    lk__failure_set(&why);
    return LK_TRACE(st);
}

static lk_status put_kept(lk__append *a)
{
    if (a->kept.n == 0)
        return LK_OK;
    LK_TRY(put(a, a->kept.text, a->kept.n));
    lk__out_clear(&a->kept);
    return LK_OK;
}

lk_status lk__append_write(lk__append *a, const void *bytes, int64_t n)
{
    lk_status st = put_kept(a);
    if (st == LK_OK)
        st = put(a, bytes, n);
    if (st == LK_OK)
        return LK_OK;
    int64_t before = a->kept.n;
    if (!a->lost && before + n <= LK__APPEND_KEPT)
        lk__out_bytes(&a->kept, bytes, n);
    if (a->kept.n == before) { /* what follows would stand behind a gap */
        a->kept.st = LK_OK;
        a->lost = true;
    }
    return st;
}

int64_t lk__append_bytes(const lk__append *a)
{
    return a->at + a->kept.n;
}

lk_status lk__append_sync(lk__append *a)
{
    LK_TRY(put_kept(a));
    LK_TRY(mend(a));
    LK_TRY(lk__storage_sync(a->fd, a->path));
    LK_CHECK(!a->lost, LK_EIO, "%s: has gaps: it could not be written for too long", a->path);
    return LK_OK;
}

lk_status lk__append_close(lk__append *a)
{
    if (!a)
        return LK_OK;
    lk_status st = lk__append_sync(a);
    if (st == LK_OK) {
        int fd = a->fd;
        a->fd = -1;
        st = lk__storage_close(fd, a->path);
    }
    append_free(a);
    return st;
}
