/* lk__spill: see spill.h.  inflate.c fills one when a file is opened, on the thread that opens it. */
#include "data/spill.h"

#include "base/env.h"
#include "base/log.h"
#include "base/storage/storage.h"

#include <lockstep/extra/alloc.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *folder(void)
{
    const char *given = lk__env("TMPDIR");
    return given && given[0] ? given : "/tmp";
}

/* A file without a name; -1 if there is none to be had. */
static int file_new(void)
{
    int fd = open(folder(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0)
        return fd;
    char path[LK_PATH_SIZE]; /* file systems that cannot do that */
    int n = snprintf(path, sizeof path, "%s/lockstep-XXXXXX", folder());
    if (n >= LK_PATH_SIZE)
        return -1;
    fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0)
        unlink(path);
    return fd;
}

/* Take memory for all of it, and what the file has. */
static lk_status to_memory(lk__spill *s)
{
    LK_TRY(lk_alloc(&s->block, s->size, 1));
    if (s->fd < 0)
        return LK_OK;
    LK_TRY(lk__storage_read(s->fd, s->name, 0, s->block, s->at));
    lk__storage_release(s->fd);
    s->fd = -1;
    return LK_OK;
}

static void warn(const lk__spill *s, const char *why)
{
    lk_log_write(LK_LOG_WARN,
                 "%s: its %lld unpacked bytes are kept in memory: no file for them can be %s below "
                 "%s (TMPDIR names another folder)",
                 s->name, (long long)s->size, why, folder());
}

lk_status lk__spill_open(const char *name, int64_t size, lk__spill *out)
{
    *out = (lk__spill){.name = name, .size = size, .fd = -1};
    if (size > LK_SPILL_MEMORY)
        out->fd = file_new();
    if (out->fd >= 0)
        return LK_OK;
    if (size > LK_SPILL_MEMORY)
        warn(out, "made");
    return LK_TRACE(to_memory(out));
}

lk_status lk__spill_write(lk__spill *s, const void *bytes, int64_t n)
{
    if (s->fd >= 0 && lk__storage_write(s->fd, s->name, s->at, bytes, n) != LK_OK) {
        lk_error_clear();
        warn(s, "filled");
        LK_TRY(to_memory(s));
    }
    if (s->fd < 0 && n > 0)
        memcpy(s->block + s->at, bytes, (size_t)n);
    s->at += n;
    return LK_OK;
}

lk_status lk__spill_source(lk__spill *s, lk__source **out)
{
    lk_status st = s->fd >= 0 ? lk__source_file(s->name, s->fd, s->size, out)
                              : lk__source_adopt(s->name, s->block, s->size, out);
    s->fd = -1;
    s->block = NULL;
    return st;
}

void lk__spill_close(lk__spill *s)
{
    if (s->fd >= 0)
        lk__storage_release(s->fd);
    s->fd = -1;
    lk_free(s->block);
    s->block = NULL;
}
