/* Unpacking with zlib: for source.c and zip.c. */
#include "data/inflate.h"

#include "data/spill.h"

#include <lockstep/extra/alloc.h>

#ifdef LK_HAVE_ZLIB

#    include <string.h>
#    include <zlib.h>

enum { CHUNK = 1 << 14 };

/* A stream of zlib over a range of a source. */
struct unpacker {
    const lk__source *source;
    int64_t at, end; /* bytes that zlib has not been given yet */
    int64_t start, total;
    bool gzip;
    lk__take_fn *take; /* given what is unpacked; NULL: nobody */
    void *arg;
    z_stream z;
    unsigned char in[CHUNK], out[CHUNK];
};

static void *zlib_alloc(void *context, unsigned items, unsigned bytes)
{
    (void)context;
    void *block;
    if (lk_alloc(&block, (int64_t)items, bytes) != LK_OK)
        return NULL;
    return block;
}

static void zlib_free(void *context, void *block)
{
    (void)context;
    lk_free(block);
}

static int64_t position(const struct unpacker *u)
{
    return u->at - (int64_t)u->z.avail_in;
}

/* Unpacking may not make more than this. */
static lk_status check_ratio(const struct unpacker *u)
{
    int64_t packed = u->end - u->start;
    int64_t most = packed > INT64_MAX / LK_INFLATE_RATIO ? INT64_MAX : packed * LK_INFLATE_RATIO;
    if (u->total > LK_INFLATE_FREE && u->total > most)
        return LK_DAMAGED(u->source, position(u),
                          "%lld packed bytes become more than %lld, which no data does",
                          (long long)packed, (long long)u->total);
    return LK_OK;
}

static lk_status refill(struct unpacker *u)
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
static lk_status stuck(const struct unpacker *u)
{
    if (position(u) == u->end)
        return LK_DAMAGED(u->source, u->end, "%s", "the packed data end too early");
    return LK_DAMAGED(u->source, position(u), "damaged packed data (%s)",
                      u->z.msg ? u->z.msg : "zlib gives no reason");
}

/* Unpack everything, some at a time, and give it to whoever takes it. */
static lk_status run(struct unpacker *u)
{
    bool enough = false;
    for (;;) {
        LK_TRY(refill(u));
        unsigned had = u->z.avail_in;
        u->z.next_out = u->out;
        u->z.avail_out = CHUNK;
        int code = inflate(&u->z, Z_NO_FLUSH);
        unsigned made = CHUNK - u->z.avail_out;
        u->total += made;
        LK_TRY(check_ratio(u));
        LK_CHECK(code != Z_MEM_ERROR, LK_ENOMEM, "%s: no memory to unpack it",
                 lk__source_name(u->source));
        if (u->take && made > 0)
            LK_TRY(u->take(u->arg, u->out, made, &enough));
        if (enough)
            return LK_OK;
        if (code == Z_STREAM_END) {
            if (position(u) == u->end)
                return LK_OK;
            if (!u->gzip)
                return LK_DAMAGED(u->source, position(u), "%s", "bytes behind the packed data");
            code = inflateReset(&u->z); /* the next member of the file */
        } else if (made == 0 && had == u->z.avail_in)
            return stuck(u);
        if (code != Z_OK && code != Z_BUF_ERROR)
            return stuck(u);
    }
}

static lk_status start(struct unpacker *u, const lk__source *s, int64_t offset, int64_t packed,
                       bool gzip)
{
    memset(&u->z, 0, sizeof u->z);
    u->source = s;
    u->at = u->start = offset;
    u->end = offset + packed;
    u->total = 0;
    u->gzip = gzip;
    u->z.zalloc = zlib_alloc;
    u->z.zfree = zlib_free;
    int code = inflateInit2(&u->z, gzip ? 15 + 16 : -15);
    LK_CHECK(code == Z_OK, code == Z_MEM_ERROR ? LK_ENOMEM : LK_ENOTSUP, "%s: zlib cannot start%s",
             lk__source_name(s), code == Z_MEM_ERROR ? ": no memory" : "");
    return LK_OK;
}

/* Begin, unpack all of it, and end. */
static lk_status pass(struct unpacker *u, const lk__source *s, int64_t offset, int64_t packed,
                      bool gzip)
{
    LK_TRY(start(u, s, offset, packed, gzip));
    lk_status st = run(u);
    inflateEnd(&u->z);
    LK_TRY(st);
    return LK_OK;
}

static lk_status keep(void *arg, const void *bytes, int64_t n, bool *enough)
{
    lk__spill *s = arg;
    (void)enough;
    LK_CHECK(n <= s->size - s->at, LK_EIO, "%s: the file changed while it was unpacked", s->name);
    LK_TRY(lk__spill_write(s, bytes, n));
    return LK_OK;
}

/* Count, then find room, then unpack; `size` < 0: a gzip file, whatever it is. */
static lk_status unpack(struct unpacker *u, const lk__source *s, int64_t offset, int64_t packed,
                        int64_t size, lk__spill *to)
{
    bool gzip = size < 0;
    u->take = NULL;
    LK_TRY(pass(u, s, offset, packed, gzip));
    if (size >= 0 && u->total != size)
        return LK_DAMAGED(s, offset, "the packed data hold %lld bytes, not %lld",
                          (long long)u->total, (long long)size);
    LK_TRY(lk__spill_open(lk__source_name(s), u->total, to));
    u->take = keep;
    u->arg = to;
    LK_TRY(pass(u, s, offset, packed, gzip));
    LK_CHECK(to->at == to->size, LK_EIO, "%s: the file changed while it was unpacked",
             lk__source_name(s));
    return LK_OK;
}

static lk_status unpack_range(const lk__source *s, int64_t offset, int64_t packed, int64_t size,
                              lk__source **out)
{
    *out = NULL;
    struct unpacker *u;
    lk__spill to = {.fd = -1};
    LK_TRY(lk_alloc(&u, 1, sizeof *u));
    lk_status st = unpack(u, s, offset, packed, size, &to);
    lk_free(u);
    if (st == LK_OK)
        st = lk__spill_source(&to, out);
    lk__spill_close(&to);
    LK_TRY(st);
    return LK_OK;
}

lk_status lk__gunzip(const lk__source *s, lk__source **out)
{
    LK_TRY(unpack_range(s, 0, lk__source_size(s), -1, out));
    return LK_OK;
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
    struct unpacker *u;
    LK_TRY(range_check(s, offset, packed));
    LK_TRY(lk_alloc(&u, 1, sizeof *u));
    u->take = take;
    u->arg = arg;
    lk_status st = pass(u, s, offset, packed, false);
    lk_free(u);
    LK_TRY(st);
    return LK_OK;
}

lk_status lk__inflate(const lk__source *s, int64_t offset, int64_t packed, int64_t size,
                      lk__source **out)
{
    *out = NULL;
    LK_TRY(range_check(s, offset, packed));
    LK_TRY(unpack_range(s, offset, packed, size, out));
    return LK_OK;
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

lk_status lk__gunzip(const lk__source *s, lk__source **out)
{
    *out = NULL;
    return without(lk__source_name(s));
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
