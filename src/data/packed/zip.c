/* lk__zip: the directory of an archive, read and checked, and the bytes of its members.  Readers of .npz files
 * (formats, arrays, tensor_file.c of io) open one on the thread that reads.
 */
#include "data/packed/zip.h"

#include "data/bytes.h"
#include "data/packed/crc32.h"
#include "data/packed/inflate.h"

#include <lockstep/extra/alloc.h>

#include <string.h>

enum { END_SIZE = 22, END64_SIZE = 56, LOCATOR_SIZE = 20, ENTRY_SIZE = 46, LOCAL_SIZE = 30 };

/* Where the central directory lies. */
struct directory {
    int64_t at, size, members;
};

/* The record of the end, 22 bytes and a comment of up to 65535: look from the back. */
static lk_status find_end(const lk__source *s, int64_t *out)
{
    int64_t size = lk__source_size(s);
    int64_t from = size > END_SIZE + 65535 ? size - END_SIZE - 65535 : 0;
    unsigned char *tail;
    if (size < END_SIZE)
        return LK_DAMAGED(s, 0, "%lld bytes are no zip archive", (long long)size);
    LK_TRY(lk__source_load(s, from, size - from, "the end", &tail));
    int64_t at = size - END_SIZE;
    while (at >= from && !(lk__get_le(tail + (at - from), 4) == 0x06054b50 &&
                           (int64_t)lk__get_le(tail + (at - from) + 20, 2) == size - at - END_SIZE))
        at--;
    lk_free(tail);
    if (at < from)
        return LK_DAMAGED(s, size, "%s", "this is no zip archive, or its end is missing");
    *out = at;
    return LK_OK;
}

/* The sizes of zip64, if the locator before the end is there. */
static lk_status find_end64(const lk__source *s, int64_t end, struct directory *d)
{
    unsigned char b[END64_SIZE];
    if (end < LOCATOR_SIZE)
        return LK_DAMAGED(s, end, "%s", "the zip64 locator is missing");
    LK_TRY(lk__source_read(s, end - LOCATOR_SIZE, b, LOCATOR_SIZE, "the zip64 locator"));
    if (lk__get_le(b, 4) != 0x07064b50)
        return LK_DAMAGED(s, end - LOCATOR_SIZE, "%s", "the zip64 locator is missing");
    int64_t at = (int64_t)lk__get_le(b + 8, 8);
    LK_TRY(lk__source_read(s, at, b, END64_SIZE, "the zip64 end"));
    if (lk__get_le(b, 4) != 0x06064b50)
        return LK_DAMAGED(s, at, "%s", "the zip64 end is missing");
    d->members = (int64_t)lk__get_le(b + 32, 8);
    d->size = (int64_t)lk__get_le(b + 40, 8);
    d->at = (int64_t)lk__get_le(b + 48, 8);
    return LK_OK;
}

static lk_status find_directory(const lk__source *s, struct directory *d)
{
    int64_t end;
    unsigned char b[END_SIZE];
    LK_TRY(find_end(s, &end));
    LK_TRY(lk__source_read(s, end, b, END_SIZE, "the end"));
    d->members = (int64_t)lk__get_le(b + 10, 2);
    d->size = (int64_t)lk__get_le(b + 12, 4);
    d->at = (int64_t)lk__get_le(b + 16, 4);
    if (d->members == 0xffff || d->size == 0xffffffff || d->at == 0xffffffff)
        LK_TRY(find_end64(s, end, d));
    if (d->members < 0 || d->members > LK_ZIP_MAX_MEMBERS || d->at < 0 || d->size < 0 ||
        d->at > end || d->size > end - d->at || d->members > d->size / ENTRY_SIZE)
        return LK_DAMAGED(s, end, "a directory of %lld members in %lld bytes at %lld",
                          (long long)d->members, (long long)d->size, (long long)d->at);
    return LK_OK;
}

/* Sizes that do not fit 32 bits are in the extra field of kind 1, in this order. */
static void read_zip64(const unsigned char *extra, int64_t n, lk__zip_member *m)
{
    while (n >= 4) {
        int64_t kind = (int64_t)lk__get_le(extra, 2), size = (int64_t)lk__get_le(extra + 2, 2);
        if (size > n - 4)
            return;
        const unsigned char *p = extra + 4;
        int64_t *const wide[] = {&m->size, &m->packed, &m->header};
        for (int i = 0, left = (int)size; kind == 1 && i < 3 && left >= 8; i++)
            if (*wide[i] == 0xffffffff) {
                *wide[i] = (int64_t)lk__get_le(p, 8);
                p += 8;
                left -= 8;
            }
        extra += 4 + size;
        n -= 4 + size;
    }
}

/* The entry at `p`, of which `left` bytes are there; `*used` is what it takes. */
static lk_status read_entry(const lk__source *s, int64_t at, const unsigned char *p, int64_t left,
                            lk__zip_member *m, int64_t *used)
{
    if (left < ENTRY_SIZE || lk__get_le(p, 4) != 0x02014b50)
        return LK_DAMAGED(s, at, "%s", "an entry of the directory is damaged");
    int64_t name = (int64_t)lk__get_le(p + 28, 2), extra = (int64_t)lk__get_le(p + 30, 2);
    *used = ENTRY_SIZE + name + extra + (int64_t)lk__get_le(p + 32, 2);
    if (*used > left || name >= LK_ZIP_NAME || memchr(p + ENTRY_SIZE, '\0', (size_t)name))
        return LK_DAMAGED(s, at, "%s", "an entry of the directory has an impossible name");
    memcpy(m->name, p + ENTRY_SIZE, (size_t)name);
    m->name[name] = '\0';
    m->method = (int)lk__get_le(p + 10, 2);
    m->crc = (uint32_t)lk__get_le(p + 16, 4);
    m->packed = (int64_t)lk__get_le(p + 20, 4);
    m->size = (int64_t)lk__get_le(p + 24, 4);
    m->header = (int64_t)lk__get_le(p + 42, 4);
    read_zip64(p + ENTRY_SIZE + name, extra, m);
    int64_t end = lk__source_size(s);
    if (m->header < 0 || m->header > end || m->packed < 0 || m->packed > end - m->header ||
        m->size < 0 || (m->method == 0 && m->size != m->packed))
        return LK_DAMAGED(s, at, "member \"%s\" has %lld bytes in %lld at %lld", m->name,
                          (long long)m->size, (long long)m->packed, (long long)m->header);
    LK_CHECK((lk__get_le(p + 8, 2) & 1) == 0 && (m->method == 0 || m->method == 8), LK_ENOTSUP,
             "%s: member \"%s\" is encrypted, or packed by method %d", lk__source_name(s), m->name,
             m->method);
    return LK_OK;
}

static lk_status read_entries(const lk__source *s, const struct directory *d,
                              const unsigned char *bytes, lk__zip *out)
{
    int64_t at = 0, used;
    for (int64_t i = 0; i < d->members; i++, at += used) {
        LK_TRY(read_entry(s, d->at + at, bytes + at, d->size - at, &out->member[i], &used));
        out->n = i;
        if (lk__zip_find(out, out->member[i].name))
            return LK_DAMAGED(s, d->at + at, "member \"%s\" is there twice", out->member[i].name);
        out->n = i + 1;
    }
    return LK_OK;
}

lk_status lk__zip_open(const lk__source *s, lk__zip *out)
{
    struct directory d;
    *out = (lk__zip){.source = s};
    LK_TRY(find_directory(s, &d));
    unsigned char *bytes;
    LK_TRY(lk__source_load(s, d.at, d.size, "the directory", &bytes));
    lk_status st = lk_alloc(&out->member, d.members, sizeof *out->member);
    if (st == LK_OK)
        st = read_entries(s, &d, bytes, out);
    lk_free(bytes);
    return LK_TRACE(st);
}

void lk__zip_close(lk__zip *z)
{
    lk_free(z->member);
    *z = (lk__zip){.source = NULL};
}

const lk__zip_member *lk__zip_find(const lk__zip *z, const char *name)
{
    for (int64_t i = 0; i < z->n; i++)
        if (strcmp(z->member[i].name, name) == 0)
            return &z->member[i];
    return NULL;
}

/* The CRC of bytes that stay in the source. */
static lk_status source_crc(const lk__source *s, int64_t at, int64_t n, uint32_t *out)
{
    unsigned char chunk[8192];
    *out = 0;
    for (int64_t done = 0, k; done < n; done += k) {
        k = n - done < (int64_t)sizeof chunk ? n - done : (int64_t)sizeof chunk;
        LK_TRY(lk__source_read(s, at + done, chunk, k, "a member"));
        *out = lk__crc32(*out, chunk, (size_t)k);
    }
    return LK_OK;
}

/* Where the bytes of a member begin. */
static lk_status member_find(const lk__zip *z, const lk__zip_member *m, int64_t *offset)
{
    unsigned char local[LOCAL_SIZE];
    LK_TRY(lk__source_read(z->source, m->header, local, LOCAL_SIZE, "a member's header"));
    if (lk__get_le(local, 4) != 0x04034b50)
        return LK_DAMAGED(z->source, m->header, "the header of member \"%s\" is damaged", m->name);
    *offset = m->header + LOCAL_SIZE + (int64_t)lk__get_le(local + 26, 2) +
              (int64_t)lk__get_le(local + 28, 2);
    return LK_OK;
}

static lk_status refuse_crc(const lk__zip *z, const lk__zip_member *m, int64_t offset)
{
    return LK_DAMAGED(z->source, offset, "the checksum of member \"%s\" is wrong", m->name);
}

lk_status lk__zip_load(const lk__zip *z, const lk__zip_member *m, int64_t *offset,
                       lk__source **unpacked)
{
    uint32_t crc;
    int64_t at;
    *unpacked = NULL;
    LK_TRY(member_find(z, m, &at));
    *offset = at;
    if (m->method != 0) {
        LK_TRY(lk__inflate(z->source, at, m->packed, m->size, unpacked));
        *offset = 0;
    }
    lk_status st = source_crc(*unpacked ? *unpacked : z->source, *offset, m->size, &crc);
    if (st == LK_OK && crc != m->crc)
        st = refuse_crc(z, m, at);
    if (st != LK_OK) {
        lk__source_free(*unpacked);
        *unpacked = NULL;
    }
    return LK_TRACE(st);
}

/* What goes by, counted. */
typedef struct passing {
    const lk__zip *z;
    const lk__zip_member *m;
    lk__take_fn *take;
    void *arg;
    int64_t offset, n; /* where the member is; bytes that have passed */
    uint32_t crc;
    bool enough;
} passing;

static lk_status pass(void *arg, const void *bytes, int64_t n, bool *enough)
{
    passing *p = arg;
    if (n > p->m->size - p->n)
        return LK_DAMAGED(p->z->source, p->offset, "the packed data hold more than %lld bytes",
                          (long long)p->m->size);
    p->crc = lk__crc32(p->crc, bytes, (size_t)n);
    p->n += n;
    LK_TRY(p->take(p->arg, bytes, n, &p->enough));
    *enough = p->enough;
    return LK_OK;
}

static lk_status stored_pass(passing *p)
{
    unsigned char chunk[8192];
    bool enough = false;
    while (p->n < p->m->size && !enough) {
        int64_t left = p->m->size - p->n,
                n = left < (int64_t)sizeof chunk ? left : (int64_t)sizeof chunk;
        LK_TRY(lk__source_read(p->z->source, p->offset + p->n, chunk, n, "a member"));
        LK_TRY(pass(p, chunk, n, &enough));
    }
    return LK_OK;
}

lk_status lk__zip_stream(const lk__zip *z, const lk__zip_member *m, lk__take_fn *take, void *arg)
{
    passing p = {.z = z, .m = m, .take = take, .arg = arg};
    LK_TRY(member_find(z, m, &p.offset));
    if (m->method == 0)
        LK_TRY(stored_pass(&p));
    else
        LK_TRY(lk__inflate_to(z->source, p.offset, m->packed, pass, &p));
    if (p.enough)
        return LK_OK;
    if (p.n != m->size)
        return LK_DAMAGED(z->source, p.offset, "the packed data hold %lld bytes, not %lld",
                          (long long)p.n, (long long)m->size);
    if (p.crc != m->crc)
        return refuse_crc(z, m, p.offset);
    return LK_OK;
}
