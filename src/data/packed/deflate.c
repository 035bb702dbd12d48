/* Packing with zlib: see deflate.h.  The file has neither name nor time in it, so that equal content gives
 * equal bytes. */
#include "data/packed/deflate.h"

#include <lockstep/extra/alloc.h>

#ifdef LK_HAVE_ZLIB

#    include "data/packed/zlib_memory.h"

#    include <string.h>
#    include <zlib.h>

enum { CHUNK = 1 << 15, MOST = 1 << 30, GZIP = 15 + 16, MEMORY = 8 };

struct lk__packer {
    const char *name;
    lk__packed_fn *put;
    void *arg;
    z_stream z;
    unsigned char out[CHUNK];
};

lk_status lk__packer_open(const char *name, lk__packed_fn *put, void *arg, lk__packer **out)
{
    *out = NULL;
    lk__packer *p;
    LK_TRY(lk_alloc(&p, 1, sizeof *p));
    memset(&p->z, 0, sizeof p->z);
    p->name = name;
    p->put = put;
    p->arg = arg;
    p->z.zalloc = lk__zlib_alloc;
    p->z.zfree = lk__zlib_free;
    int code = deflateInit2(&p->z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP, MEMORY,
                            Z_DEFAULT_STRATEGY);
    if (code != Z_OK) {
        lk_free(p);
        return LK_RAISE(code == Z_MEM_ERROR ? LK_ENOMEM : LK_ENOTSUP, "%s: zlib cannot start%s",
                        name, code == Z_MEM_ERROR ? ": no memory" : "");
    }
    *out = p;
    return LK_OK;
}

/* Let zlib have what it was given, and give away what it makes. */
static lk_status run(lk__packer *p, int flush)
{
    int code;
    do {
        p->z.next_out = p->out;
        p->z.avail_out = CHUNK;
        code = deflate(&p->z, flush);
        LK_CHECK(code != Z_STREAM_ERROR, LK_ESTATE, "%s: zlib is not in a state to go on", p->name);
        LK_TRY(p->put(p->arg, p->out, CHUNK - (int64_t)p->z.avail_out));
    } while (p->z.avail_out == 0 || (flush == Z_FINISH && code != Z_STREAM_END));
    return LK_OK;
}

lk_status lk__packer_write(lk__packer *p, const void *bytes, int64_t n)
{
    for (int64_t at = 0, some; at < n; at += some) {
        some = n - at < MOST ? n - at : MOST;
        p->z.next_in = (z_const Bytef *)(const unsigned char *)bytes + at;
        p->z.avail_in = (unsigned)some;
        LK_TRY(run(p, Z_NO_FLUSH));
    }
    return LK_OK;
}

lk_status lk__packer_finish(lk__packer *p)
{
    return LK_TRACE(run(p, Z_FINISH));
}

void lk__packer_close(lk__packer *p)
{
    if (!p)
        return;
    deflateEnd(&p->z);
    lk_free(p);
}

#else

static lk_status without(void)
{
    return LK_RAISE(LK_ENOTSUP, "this build cannot pack files: build with zlib");
}

lk_status lk__packer_open(const char *name, lk__packed_fn *put, void *arg, lk__packer **out)
{
    (void)name, (void)put, (void)arg;
    *out = NULL;
    return without();
}

lk_status lk__packer_write(lk__packer *p, const void *bytes, int64_t n)
{
    (void)p, (void)bytes, (void)n;
    return without();
}

lk_status lk__packer_finish(lk__packer *p)
{
    (void)p;
    return without();
}

void lk__packer_close(lk__packer *p)
{
    (void)p;
}

#endif
