/* Writing zip archives of stored members, in the date of 1980-01-01, so that equal content gives
 * equal bytes. */
#include "data/bytes.h"
#include "data/packed/zip.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/status.h>

#include <string.h>

enum { DATE = 0x21, VERSION = 20, VERSION64 = 45 };

#define WIDE INT64_C(0xffffffff) /* sizes from here on need zip64 */

struct lk__zip_out {
    lk__sink *sink;
    lk__zip_member *member;
    int64_t n, room;
};

lk_status lk__zip_create(const char *path, lk__zip_out **out)
{
    *out = NULL;
    lk__zip_out *z;
    LK_TRY(lk_alloc_zero(&z, 1, sizeof *z));
    lk_status st = lk__sink_open(path, &z->sink);
    if (st != LK_OK) {
        lk_free(z);
        return st;
    }
    *out = z;
    return LK_OK;
}

/* Room for one more member. */
static lk_status grow(lk__zip_out *z)
{
    if (z->n < z->room)
        return LK_OK;
    lk__zip_member *more;
    int64_t room = z->room ? 2 * z->room : 16;
    LK_TRY(lk_alloc(&more, room, sizeof *more));
    if (z->n > 0)
        memcpy(more, z->member, (size_t)z->n * sizeof *more);
    lk_free(z->member);
    z->member = more;
    z->room = room;
    return LK_OK;
}

enum { UTF8_NAME = 0x800 };

static bool is_ascii(const char *text)
{
    while (*text && (unsigned char)*text < 0x80)
        text++;
    return *text == '\0';
}

/* What local headers and entries share: from the version needed to the length of the name. */
static void put_common(unsigned char *p, const lk__zip_member *m, bool wide)
{
    uint64_t size = wide ? WIDE : (uint64_t)m->size;
    lk__put_le(p, 2, wide ? VERSION64 : VERSION);
    lk__put_le(p + 2, 2, is_ascii(m->name) ? 0 : UTF8_NAME); /* flags */
    lk__put_le(p + 4, 2, 0);                                 /* stored */
    lk__put_le(p + 6, 2, 0);                                 /* time */
    lk__put_le(p + 8, 2, DATE);
    lk__put_le(p + 10, 4, m->crc);
    lk__put_le(p + 14, 4, size);
    lk__put_le(p + 18, 4, size);
    lk__put_le(p + 22, 2, strlen(m->name));
}

lk_status lk__zip_begin(lk__zip_out *z, const char *name, int64_t size, uint32_t crc)
{
    LK_CHECK(strlen(name) < LK_ZIP_NAME && z->n < LK_ZIP_MAX_MEMBERS, LK_ENOTSUP,
             "a zip archive with a name as long as \"%s\", or with so many members", name);
    LK_TRY(grow(z));
    lk__zip_member *m = &z->member[z->n++];
    *m = (lk__zip_member){.header = lk__sink_at(z->sink), .size = size, .packed = size, .crc = crc};
    memcpy(m->name, name, strlen(name) + 1);
    unsigned char head[30] = "PK\3\4", extra[20];
    bool wide = size >= WIDE;
    put_common(head + 4, m, wide);
    lk__put_le(head + 28, 2, wide ? sizeof extra : 0);
    LK_TRY(lk__sink_write(z->sink, head, sizeof head));
    LK_TRY(lk__sink_write(z->sink, name, (int64_t)strlen(name)));
    if (wide) {
        lk__put_le(extra, 2, 1);
        lk__put_le(extra + 2, 2, 16);
        lk__put_le(extra + 4, 8, (uint64_t)size);
        lk__put_le(extra + 12, 8, (uint64_t)size);
        LK_TRY(lk__sink_write(z->sink, extra, sizeof extra));
    }
    return LK_OK;
}

lk_status lk__zip_write(lk__zip_out *z, const void *bytes, int64_t n)
{
    return LK_TRACE(lk__sink_write(z->sink, bytes, n));
}

static lk_status write_entry(lk__sink *s, const lk__zip_member *m)
{
    bool wide = m->size >= WIDE || m->header >= WIDE;
    unsigned char entry[46] = "PK\1\2", extra[28];
    lk__put_le(entry + 4, 2, 3 << 8 | VERSION64); /* made on Unix */
    put_common(entry + 6, m, wide);
    lk__put_le(entry + 30, 2, wide ? sizeof extra : 0);
    lk__put_le(entry + 38, 4, UINT32_C(0100644) << 16); /* a file that all may read */
    lk__put_le(entry + 42, 4, wide ? WIDE : (uint64_t)m->header);
    LK_TRY(lk__sink_write(s, entry, sizeof entry));
    LK_TRY(lk__sink_write(s, m->name, (int64_t)strlen(m->name)));
    if (wide) {
        lk__put_le(extra, 2, 1);
        lk__put_le(extra + 2, 2, 24);
        lk__put_le(extra + 4, 8, (uint64_t)m->size);
        lk__put_le(extra + 12, 8, (uint64_t)m->size);
        lk__put_le(extra + 20, 8, (uint64_t)m->header);
        LK_TRY(lk__sink_write(s, extra, sizeof extra));
    }
    return LK_OK;
}

/* The records of the end, with those of zip64 where they are needed. */
static lk_status write_end(lk__sink *s, int64_t n, int64_t at, int64_t size)
{
    unsigned char end64[56] = "PK\6\6", locator[20] = "PK\6\7", end[22] = "PK\5\6";
    bool wide = n >= 0xffff || at >= WIDE || size >= WIDE;
    if (wide) {
        lk__put_le(end64 + 4, 8, sizeof end64 - 12);
        lk__put_le(end64 + 12, 2, 3 << 8 | VERSION64);
        lk__put_le(end64 + 14, 2, VERSION64);
        lk__put_le(end64 + 24, 8, (uint64_t)n);
        lk__put_le(end64 + 32, 8, (uint64_t)n);
        lk__put_le(end64 + 40, 8, (uint64_t)size);
        lk__put_le(end64 + 48, 8, (uint64_t)at);
        lk__put_le(locator + 8, 8, (uint64_t)(at + size));
        lk__put_le(locator + 16, 4, 1);
        LK_TRY(lk__sink_write(s, end64, sizeof end64));
        LK_TRY(lk__sink_write(s, locator, sizeof locator));
    }
    lk__put_le(end + 8, 2, wide ? 0xffff : (uint64_t)n);
    lk__put_le(end + 10, 2, wide ? 0xffff : (uint64_t)n);
    lk__put_le(end + 12, 4, wide ? WIDE : (uint64_t)size);
    lk__put_le(end + 16, 4, wide ? WIDE : (uint64_t)at);
    return LK_TRACE(lk__sink_write(s, end, sizeof end));
}

static lk_status write_directory(lk__zip_out *z)
{
    int64_t at = lk__sink_at(z->sink);
    for (int64_t i = 0; i < z->n; i++)
        LK_TRY(write_entry(z->sink, &z->member[i]));
    return LK_TRACE(write_end(z->sink, z->n, at, lk__sink_at(z->sink) - at));
}

lk_status lk__zip_end(lk__zip_out *z, lk_status st)
{
    if (!z)
        return st;
    if (st == LK_OK)
        st = write_directory(z);
    st = lk__sink_end(z->sink, st);
    lk_free(z->member);
    lk_free(z);
    return st;
}
