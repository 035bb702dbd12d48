/* lk__sink: a file that is written under a temporary name, synced and renamed: it appears complete
 * or not at all.  See sink.h. */
#include "data/sink.h"

#include "base/storage/storage.h"
#include "data/packed/deflate.h"

#include <lockstep/extra/alloc.h>

#include <stdio.h>
#include <string.h>

enum { BUFFER = 1 << 16 };

struct lk__sink {
    int fd; /* -1: closed */
    int64_t at, flushed;
    size_t held;
    lk__packer *packer;    /* NULL: it is not packed */
    unsigned char *buffer; /* NULL: it is sealed */
    char path[LK_PATH_SIZE], part[LK_PATH_SIZE];
};

static void sink_free(lk__sink *s)
{
    lk__packer_close(s->packer);
    lk_free(s->buffer);
    lk_free(s);
}

lk_status lk__sink_open(const char *path, lk__sink **out)
{
    *out = NULL;
    lk__sink *s;
    LK_CHECK(strlen(path) + sizeof ".part" <= LK_PATH_SIZE, LK_EINVAL, "the path %s is too long",
             path);
    LK_TRY(lk_alloc_zero(&s, 1, sizeof *s));
    s->fd = -1;
    snprintf(s->path, sizeof s->path, "%s", path);
    snprintf(s->part, sizeof s->part, "%.*s.part", LK_PATH_SIZE - 6, path);
    lk_status st = lk_alloc(&s->buffer, BUFFER, 1);
    if (st == LK_OK)
        st = lk__storage_remove(s->part); /* of a dead program; of a link, the link */
    if (st == LK_OK)
        st = lk__storage_create(s->part, 0666, &s->fd);
    if (st != LK_OK) {
        sink_free(s);
        LK_TRY(st);
    }
    *out = s;
    return LK_OK;
}

static lk_status put(lk__sink *s, const void *bytes, size_t n)
{
    LK_TRY(lk__storage_write(s->fd, s->part, s->flushed, bytes, (int64_t)n));
    s->flushed += (int64_t)n;
    return LK_OK;
}

static lk_status flush(lk__sink *s)
{
    LK_TRY(put(s, s->buffer, s->held));
    s->held = 0;
    return LK_OK;
}

static lk_status append(void *sink, const void *bytes, int64_t n)
{
    lk__sink *s = sink;
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

lk_status lk__sink_open_gzip(const char *path, lk__sink **out)
{
    LK_TRY(lk__sink_open(path, out));
    lk_status st = lk__packer_open((*out)->path, append, *out, &(*out)->packer);
    if (st != LK_OK) {
        lk__sink_abandon(*out);
        *out = NULL;
        LK_TRY(st);
    }
    return LK_OK;
}

lk_status lk__sink_write(lk__sink *s, const void *bytes, int64_t n)
{
    s->at += n;
    if (s->packer)
        LK_TRY(lk__packer_write(s->packer, bytes, n));
    else
        LK_TRY(append(s, bytes, n));
    return LK_OK;
}

int64_t lk__sink_at(const lk__sink *s)
{
    return s->at;
}

lk_status lk__sink_seal(lk__sink *s)
{
    if (!s->buffer)
        return LK_OK;
    if (s->packer)
        LK_TRY(lk__packer_finish(s->packer));
    LK_TRY(flush(s));
    LK_TRY(lk__storage_sync(s->fd, s->part));
    int fd = s->fd;
    s->fd = -1;
    LK_TRY(lk__storage_close(fd, s->part));
    lk__packer_close(s->packer);
    lk_free(s->buffer);
    s->packer = NULL;
    s->buffer = NULL;
    return LK_OK;
}

static lk_status finish(lk__sink *s)
{
    LK_TRY(lk__sink_seal(s));
    LK_TRY(lk__storage_rename(s->part, s->path));
    return LK_TRACE(lk__storage_sync_parent(s->path));
}

lk_status lk__sink_close(lk__sink *s)
{
    lk_status st = finish(s);
    if (st != LK_OK) {
        lk__sink_abandon(s);
        LK_TRY(st);
    }
    sink_free(s);
    return LK_OK;
}

void lk__sink_abandon(lk__sink *s)
{
    if (!s)
        return;
    if (s->fd >= 0)
        lk__storage_release(s->fd);
    lk__storage_discard(s->part);
    sink_free(s);
}

lk_status lk__sink_end(lk__sink *s, lk_status st)
{
    if (st == LK_OK)
        return lk__sink_close(s);
    lk__sink_abandon(s);
    return st;
}
