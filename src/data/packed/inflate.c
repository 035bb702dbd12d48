/* Unpacking with zlib: for source.c, zip.c and the readers of records. */
#include "data/packed/inflate.h"

#include "data/spill.h"

#include <lockstep/extra/alloc.h>

#ifdef LK_HAVE_ZLIB

#    include "data/packed/zlib_memory.h"

#    include <string.h>
#    include <zlib.h>

enum { CHUNK = 1 << 14 };

/* What zlib calls the way a stream is wrapped. */
enum { RAW = -15, GZIP = 15 + 16, ZLIB = 15 };

/* A stream of zlib over a range of a source. */
struct lk__unpacker {
    const lk__source *source;
    int64_t at, end; /* bytes that zlib has not been given yet */
    int64_t start, total;
    int wrapped;
    bool ended;
    lk__take_fn *take; /* given what is unpacked; may be NULL */
    void *arg;
    z_stream z;
    unsigned char in[CHUNK], out[CHUNK];
};

static int64_t position(const lk__unpacker *u)
{
    return u->at - (int64_t)u->z.avail_in;
}

/* Unpacking may not make more than this. */
static lk_status check_ratio(const lk__unpacker *u)
{
    int64_t packed = u->end - u->start;
    int64_t most = packed > INT64_MAX / LK_INFLATE_RATIO ? INT64_MAX : packed * LK_INFLATE_RATIO;
    if (u->total > LK_INFLATE_FREE && u->total > most)
        return LK_DAMAGED(u->source, position(u),
                          "%lld packed bytes become more than %lld, which no data does",
                          (long long)packed, (long long)u->total);
    return LK_OK;
}

static lk_status refill(lk__unpacker *u)
{
    if (u->z.avail_in > 0 || u->at == u->end)
        return LK_OK;
    int64_t n = u->end - u->at < CHUNK ? u->end - u->at : CHUNK;
    LK_TRY(lk__source_read(u->source, u->at, u->in, n, "packed data"));
    u->z.next_in = u->in;
    u->z.avail_in = (unsigned)n;
    u->at += n;
    return LK_OK;
}

/* What to say when zlib got no further. */
static lk_status stuck(const lk__unpacker *u)
{
    if (position(u) == u->end)
        return LK_DAMAGED(u->source, u->end, "%s", "the packed data end too early");
    return LK_DAMAGED(u->source, position(u), "damaged packed data (%s)",
                      u->z.msg ? u->z.msg : "zlib gives no reason");
}

/* Behind the end of a stream: the end of all, or the next member of a gzip file. */
static lk_status member_end(lk__unpacker *u, int *code)
{
    u->ended = position(u) == u->end;
    if (u->ended)
        return LK_OK;
    if (u->wrapped != GZIP)
        return LK_DAMAGED(u->source, position(u), "%s", "bytes behind the packed data");
    *code = inflateReset(&u->z);
    return LK_OK;
}

/* Unpack some, up to `room` bytes, unless all is done.  What was made before a failure counts. */
static lk_status step(lk__unpacker *u, unsigned char *out, unsigned room, unsigned *made)
{
    LK_TRY(refill(u));
    unsigned had = u->z.avail_in;
    u->z.next_out = out;
    u->z.avail_out = room;
    int code = inflate(&u->z, Z_NO_FLUSH);
    *made = room - u->z.avail_out;
    u->total += *made;
    LK_TRY(check_ratio(u));
    LK_CHECK(code != Z_MEM_ERROR, LK_ENOMEM, "%s: no memory to unpack it",
             lk__source_name(u->source));
    if (code == Z_STREAM_END)
        LK_TRY(member_end(u, &code));
    else if (*made == 0 && had == u->z.avail_in)
        return stuck(u);
    if (!u->ended && code != Z_OK && code != Z_BUF_ERROR)
        return stuck(u);
    return LK_OK;
}

/* Unpack everything, some at a time, and give it to `take`. */
static lk_status run(lk__unpacker *u)
{
    bool enough = false;
    while (!u->ended && !enough) {
        unsigned made = 0;
        lk_status st = step(u, u->out, CHUNK, &made);
        if (u->take && made > 0 && (st == LK_OK || st == LK_EIO))
            LK_TRY(u->take(u->arg, u->out, made, &enough));
        LK_TRY(st);
    }
    return LK_OK;
}

static lk_status start(lk__unpacker *u, const lk__source *s, int64_t offset, int64_t packed,
                       int wrapped)
{
    memset(&u->z, 0, sizeof u->z);
    u->source = s;
    u->at = u->start = offset;
    u->end = offset + packed;
    u->total = 0;
    u->wrapped = wrapped;
    u->ended = false;
    u->z.zalloc = lk__zlib_alloc;
    u->z.zfree = lk__zlib_free;
    int code = inflateInit2(&u->z, wrapped);
    LK_CHECK(code == Z_OK, code == Z_MEM_ERROR ? LK_ENOMEM : LK_ENOTSUP, "%s: zlib cannot start%s",
             lk__source_name(s), code == Z_MEM_ERROR ? ": no memory" : "");
    return LK_OK;
}

/* Begin, unpack all of it, and end. */
static lk_status pass(lk__unpacker *u, const lk__source *s, int64_t offset, int64_t packed,
                      int wrapped)
{
    LK_TRY(start(u, s, offset, packed, wrapped));
    lk_status st = run(u);
    inflateEnd(&u->z);
    return LK_TRACE(st);
}

static lk_status keep(void *arg, const void *bytes, int64_t n, bool *enough)
{
    lk__spill *s = arg;
    (void)enough;
    LK_CHECK(n <= s->size - s->at, LK_EIO, "%s: the file changed while it was unpacked", s->name);
    return LK_TRACE(lk__spill_write(s, bytes, n));
}

/* A range of a source that is packed. */
struct packed {
    const lk__source *source;
    int64_t offset, n;
    int wrapped;
    int64_t size; /* what it must unpack to; -1: whatever it is */
    bool *cut;    /* not NULL: what comes before damage is enough, and this is set then */
};

/* All of it, or as much as can be unpacked where that is enough. */
static lk_status pass_over(lk__unpacker *u, const struct packed *p)
{
    lk_status st = pass(u, p->source, p->offset, p->n, p->wrapped);
    if (st == LK_EIO && p->cut) {
        *p->cut = true;
        lk_error_clear();
        st = LK_OK;
    }
    return LK_TRACE(st);
}

/* Count, then find room, then unpack. */
static lk_status unpack(lk__unpacker *u, const struct packed *p, lk__spill *to)
{
    const char *name = lk__source_name(p->source);
    u->take = NULL;
    LK_TRY(pass_over(u, p));
    if (p->size >= 0 && u->total != p->size)
        return LK_DAMAGED(p->source, p->offset, "the packed data hold %lld bytes, not %lld",
                          (long long)u->total, (long long)p->size);
    LK_TRY(lk__spill_open(name, u->total, to));
    u->take = keep;
    u->arg = to;
    LK_TRY(pass_over(u, p));
    LK_CHECK(to->at == to->size, LK_EIO, "%s: the file changed while it was unpacked", name);
    return LK_OK;
}

static lk_status unpack_range(const struct packed *p, lk__source **out)
{
    *out = NULL;
    lk__unpacker *u;
    lk__spill to = {.fd = -1};
    LK_TRY(lk_alloc(&u, 1, sizeof *u));
    lk_status st = unpack(u, p, &to);
    lk_free(u);
    if (st == LK_OK)
        st = lk__spill_source(&to, out);
    lk__spill_close(&to);
    return LK_TRACE(st);
}

lk_status lk__unpack(const lk__source *s, lk__packing how, bool *cut, lk__source **out)
{
    const struct packed p = {s,  0,  lk__source_size(s), how == LK_PACKED_GZIP ? GZIP : ZLIB,
                             -1, cut};
    return LK_TRACE(unpack_range(&p, out));
}

static lk_status range_check(const lk__source *s, int64_t offset, int64_t packed)
{
    LK_CHECK(offset >= 0 && packed >= 0 && packed <= lk__source_size(s) - offset, LK_EIO,
             "%s: offset %lld: %lld packed bytes, but the file ends at %lld", lk__source_name(s),
             (long long)offset, (long long)packed, (long long)lk__source_size(s));
    return LK_OK;
}

lk_status lk__inflate_to(const lk__source *s, int64_t offset, int64_t packed, lk__take_fn *take,
                         void *arg)
{
    lk__unpacker *u;
    LK_TRY(range_check(s, offset, packed));
    LK_TRY(lk_alloc(&u, 1, sizeof *u));
    u->take = take;
    u->arg = arg;
    lk_status st = pass(u, s, offset, packed, RAW);
    lk_free(u);
    return LK_TRACE(st);
}

lk_status lk__inflate(const lk__source *s, int64_t offset, int64_t packed, int64_t size,
                      lk__source **out)
{
    *out = NULL;
    LK_TRY(range_check(s, offset, packed));
    const struct packed p = {s, offset, packed, RAW, size, NULL};
    return LK_TRACE(unpack_range(&p, out));
}

lk_status lk__unpacker_open(const lk__source *s, lk__packing how, lk__unpacker **out)
{
    LK_TRY(lk_alloc(out, 1, sizeof **out));
    lk_status st = start(*out, s, 0, lk__source_size(s), how == LK_PACKED_GZIP ? GZIP : ZLIB);
    if (st != LK_OK) {
        lk_free(*out);
        *out = NULL;
    }
    return LK_TRACE(st);
}

lk_status lk__unpacker_read(lk__unpacker *u, void *out, int64_t n, int64_t *got)
{
    enum { MOST = 1 << 30 };
    for (*got = 0; *got < n && !u->ended;) {
        unsigned made = 0, room = n - *got < MOST ? (unsigned)(n - *got) : MOST;
        lk_status st = step(u, (unsigned char *)out + *got, room, &made);
        *got += made;
        LK_TRY(st);
    }
    return LK_OK;
}

void lk__unpacker_close(lk__unpacker *u)
{
    if (!u)
        return;
    inflateEnd(&u->z);
    lk_free(u);
}

bool lk__inflate_built(void)
{
    return true;
}

#else

bool lk__inflate_built(void)
{
    return false;
}

static lk_status without(const char *name)
{
    return LK_RAISE(LK_ENOTSUP, "%s: this build cannot read compressed data: build with zlib",
                    name);
}

lk_status lk__unpack(const lk__source *s, lk__packing how, bool *cut, lk__source **out)
{
    (void)how, (void)cut;
    *out = NULL;
    return without(lk__source_name(s));
}

lk_status lk__unpacker_open(const lk__source *s, lk__packing how, lk__unpacker **out)
{
    (void)how;
    *out = NULL;
    return without(lk__source_name(s));
}

lk_status lk__unpacker_read(lk__unpacker *u, void *out, int64_t n, int64_t *got)
{
    (void)u, (void)out, (void)n;
    *got = 0;
    return without("a packed file");
}

void lk__unpacker_close(lk__unpacker *u)
{
    (void)u;
}

lk_status lk__inflate(const lk__source *s, int64_t offset, int64_t packed, int64_t size,
                      lk__source **out)
{
    (void)offset, (void)packed, (void)size;
    *out = NULL;
    return without(lk__source_name(s));
}

lk_status lk__inflate_to(const lk__source *s, int64_t offset, int64_t packed, lk__take_fn *take,
                         void *arg)
{
    (void)offset, (void)packed, (void)take, (void)arg;
    return without(lk__source_name(s));
}

#endif

lk_status lk__packing_guess(const lk__source *s, lk__packing *out)
{
    unsigned char first[2];
    *out = LK_PACKED_NOT;
    if (lk__source_size(s) < 2)
        return LK_OK;
    LK_TRY(lk__source_read(s, 0, first, sizeof first, "the beginning"));
    if (first[0] == 0x1f && first[1] == 0x8b)
        *out = LK_PACKED_GZIP;
    else if ((first[0] & 15) == 8 && first[0] >> 4 <= 7 && (first[0] << 8 | first[1]) % 31 == 0)
        *out = LK_PACKED_ZLIB;
    return LK_OK;
}
