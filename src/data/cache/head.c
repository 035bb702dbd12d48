/* The header and the record of a cache's file: see head.h.  cache.c calls it when it opens a file, on
 * the thread that reads batches, or that wants the hash of the set.
 */
#include "data/cache/head.h"

#include "base/storage/storage.h"
#include "data/bytes.h"
#include "data/loader/loader.h"

#include <lockstep/hash.h>

#include <string.h>

/* The numbers of the header; for each field dtype, axes, and where the kept box begins and how large it
 * is, LK_MAX_NDIM numbers each. */
enum { MAGIC, VERSION, CONTENT, SAMPLES, N_FIELDS, CROP, FLIP, FIELDS };
enum { OF_FIELD = 2 + 2 * LK_MAX_NDIM, NUMBERS = FIELDS + LK_MAX_FIELDS * OF_FIELD };
enum { FORMAT_VERSION = 2 };

_Static_assert(LK_CACHE_HEADER == 8 * NUMBERS, "the size of the header");

void lk__cache_header(const lk_loader *l, unsigned char *out)
{
    uint64_t number[NUMBERS] = {0};
    memcpy(&number[MAGIC], "LKCACHE", 8);
    number[VERSION] = FORMAT_VERSION;
    number[SAMPLES] = (uint64_t)l->info->count;
    number[N_FIELDS] = (uint64_t)l->info->n_fields;
    number[CROP] = (uint64_t)l->options.crop;
    number[FLIP] = l->options.flip;
    for (int f = 0; f < l->info->n_fields; f++) {
        uint64_t *field = &number[FIELDS + f * OF_FIELD];
        lk_box kept = lk__cache_reach(l, f);
        field[0] = (uint64_t)l->info->field[f].dtype;
        field[1] = (uint64_t)kept.ndim;
        for (int i = 0; i < kept.ndim; i++) {
            field[2 + i] = (uint64_t)kept.first[i];
            field[2 + LK_MAX_NDIM + i] = (uint64_t)kept.n[i];
        }
    }
    for (int i = 0; i < NUMBERS; i++)
        lk__put_le(out + (size_t)8 * (size_t)i, 8, number[i]);
}

void lk__cache_set_content(unsigned char *header, uint64_t content)
{
    lk__put_le(header + (size_t)8 * CONTENT, 8, content);
}

uint64_t lk__cache_content(const unsigned char *header)
{
    return lk__get_le(header + (size_t)8 * CONTENT, 8);
}

static bool numbers_differ(const unsigned char *a, const unsigned char *b, int from, int to)
{
    return memcmp(a + (size_t)8 * (size_t)from, b + (size_t)8 * (size_t)from,
                  (size_t)8 * (size_t)(to - from)) != 0;
}

lk_status lk__cache_kind_check(const char *path, const char *all, const unsigned char *has,
                               const unsigned char *want)
{
    LK_CHECK(!numbers_differ(has, want, MAGIC, VERSION), LK_EIO,
             "%s: is no cache of a loader; give cache another path, or " LK_CACHE_REMEDY, path);
    LK_CHECK(!numbers_differ(has, want, VERSION, CONTENT), LK_EIO,
             "%s: is a cache of another version; " LK_CACHE_REMEDY_OF_ALL, path, all);
    return LK_OK;
}

lk_status lk__cache_header_check(const char *path, const char *all, const unsigned char *has,
                                 const unsigned char *want)
{
    LK_CHECK(!numbers_differ(has, want, CONTENT, CROP), LK_EIO,
             "%s: the cache was made of other data; " LK_CACHE_REMEDY_OF_ALL, path, all);
    LK_CHECK(!numbers_differ(has, want, CROP, FIELDS), LK_EIO,
             "%s: the cache was made for another crop or flip; " LK_CACHE_REMEDY_OF_ALL, path, all);
    LK_CHECK(!numbers_differ(has, want, FIELDS, NUMBERS), LK_EIO,
             "%s: the cache holds other boxes, as of other tiles; " LK_CACHE_REMEDY_OF_ALL, path,
             all);
    return LK_OK;
}

void lk__cache_record(const unsigned char *header, uint64_t stamp, unsigned char *out)
{
    lk_hash h = lk_hash_start();
    lk__put_le(out, 8, stamp);
    lk_hash_add_bytes(&h, header, LK_CACHE_HEADER);
    lk_hash_add_bytes(&h, out, 8);
    lk__put_le(out + 8, 8, lk_hash_value(&h));
}

bool lk__cache_is_of(const unsigned char *header, const unsigned char *record, uint64_t stamp)
{
    unsigned char want[LK_CACHE_RECORD];
    lk__cache_record(header, stamp, want);
    return stamp != 0 && memcmp(want, record, sizeof want) == 0;
}

void lk__cache_renew(const char *path, const unsigned char *header, uint64_t stamp, int64_t at)
{
    unsigned char record[LK_CACHE_RECORD];
    int fd;
    lk__cache_record(header, stamp, record);
    if (!lk__path_exists(path) || lk__storage_open_write(path, &fd) != LK_OK)
        return;
    lk_status st = lk__storage_write(fd, path, at, record, LK_CACHE_RECORD);
    if (st == LK_OK)
        st = lk__storage_sync(fd, path);
    lk__storage_release(fd);
    (void)st;
}
