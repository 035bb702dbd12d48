/* lk_loader_set_cache(), and the file behind it: see cache.h.  The thread that reads batches makes and
 * opens it before the first one; the loader's threads read boxes from it.
 */
#include "data/cache/cache.h"

#include "base/storage/storage.h"
#include "data/arrays/table.h"
#include "data/bytes.h"
#include "data/cache/head.h"
#include "data/dataset.h"
#include "data/loader/loader.h"
#include "data/sink.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/extra/clock.h>
#include <lockstep/hash.h>

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { TRAILER = 8, CHUNK = 1 << 16 };

static const char remedy[] = LK_CACHE_REMEDY;

/* ---- names ---- */

static lk_status copy(const char *text, char **out)
{
    *out = NULL;
    if (!text)
        return LK_OK;
    LK_TRY(lk_alloc(out, (int64_t)strlen(text) + 1, 1));
    memcpy(*out, text, strlen(text) + 1);
    return LK_OK;
}

static void replace(char **old, char *new)
{
    lk_free(*old);
    *old = new;
}

lk_status lk__cache_set(lk_loader *l, const char *path, const char *suffix)
{
    char *own = NULL, *end = NULL;
    lk_status st = LK_OK;
    LK_TRY_TO(fail, copy(path, &own));
    LK_TRY_TO(fail, copy(suffix, &end));
    replace(&l->cache.path, own);
    replace(&l->cache.suffix, end);
    l->options.cache = own; /* the text of the options may go */
    return LK_OK;
fail:
    lk_free(own);
    return st;
}

lk_status lk_loader_set_cache(lk_loader *l, const char *path, const char *rank, const char *size)
{
    LK_CHECK(rank && size, LK_EINVAL, "a cache for no %s", rank ? "size" : "rank");
    char *text[3] = {NULL};
    lk_status st = LK_OK;
    LK_TRY_TO(fail, copy(path ? path : l->cache.path, &text[0]));
    LK_TRY_TO(fail, copy(rank, &text[1]));
    LK_TRY_TO(fail, copy(size, &text[2]));
    lk__cache_close(l);
    lk__keep_drop(l);
    if (text[0] && !text[0][0])
        replace(&text[0], NULL);
    replace(&l->cache.path, text[0]);
    replace(&l->cache.rank, text[1]);
    replace(&l->cache.size, text[2]);
    l->options.cache = l->cache.path;
    return LK_OK;
fail:
    for (int i = 0; i < 3; i++)
        lk_free(text[i]);
    return st;
}

/* The path with {rank} and {size} replaced; with `all`, for people, that of every rank's file. */
static lk_status path_make(const lk__cache *c, bool all, char out[LK_PATH_SIZE])
{
    const char *rank = c->rank ? c->rank : "0", *size = c->size ? c->size : "1";
    LK_CHECK(strcmp(size, "1") == 0 || strstr(c->path, "{rank}"), LK_EINVAL,
             "cache: %s has no {rank} in it, and would be the file of all %s tiles or stages",
             c->path, size);
    int n = 0;
    for (const char *p = c->path; *p && n < LK_PATH_SIZE;) {
        const char *put = strncmp(p, "{rank}", 6) == 0   ? (all ? "*" : rank)
                          : strncmp(p, "{size}", 6) == 0 ? size
                                                         : NULL;
        n += put ? snprintf(out + n, (size_t)(LK_PATH_SIZE - n), "%s", put)
                 : snprintf(out + n, (size_t)(LK_PATH_SIZE - n), "%c", *p);
        p += put ? 6 : 1;
    }
    if (n < LK_PATH_SIZE && c->suffix && !all)
        n += snprintf(out + n, (size_t)(LK_PATH_SIZE - n), "%s", c->suffix);
    LK_CHECK(n < LK_PATH_SIZE, LK_EINVAL, "cache: the path %s is too long", c->path);
    return LK_OK;
}

/* ---- boxes ---- */

lk_box lk__cache_reach(const lk_loader *l, int f)
{
    const lk_shape *shape = &l->info->field[f].shape;
    lk_box box = l->box[f];
    int axes = l->moves[f] ? l->info->field[l->x].shape.ndim - 1 : 0;
    for (int i = 0; i < axes && box.n[i] > 0; i++) {
        int64_t dim = shape->dim[i], first = box.first[i], end = first + box.n[i];
        if (l->options.flip && i == axes - 1) {
            int64_t mirrored = dim - end;
            end = dim - first > end ? dim - first : end;
            first = mirrored < first ? mirrored : first;
        }
        first = first > l->options.crop ? first - l->options.crop : 0;
        end = dim - end > l->options.crop ? end + l->options.crop : dim;
        box.first[i] = first;
        box.n[i] = end - first;
    }
    return box;
}

bool lk__cache_has(const lk_loader *l, int f)
{
    return l->cache.ds && l->cache.field[f] >= 0;
}

lk_status lk__cache_box(const lk_loader *l, int64_t sample, int f, const lk_box *from, void *out)
{
    lk_box box = *from;
    for (int i = 0; i < box.ndim; i++)
        box.first[i] -= l->cache.kept[f].first[i];
    return LK_TRACE(lk__dataset_box(l->cache.ds, sample, l->cache.field[f], &box, out));
}

void lk__cache_close(lk_loader *l)
{
    if (!l->cache.ds)
        return;
    lk__loader_forget(l);
    lk_dataset_free(l->cache.ds);
    l->cache.ds = NULL;
}

void lk__cache_free(lk_loader *l)
{
    lk_dataset_free(l->cache.ds);
    lk_free(l->cache.path);
    lk_free(l->cache.rank);
    lk_free(l->cache.size);
    lk_free(l->cache.suffix);
}

/* ---- making it ---- */

struct making {
    lk__sink *sink;
    lk_hash hash;
};

static lk_status append(struct making *m, const void *bytes, int64_t n)
{
    lk_hash_add_bytes(&m->hash, bytes, (size_t)n);
    return LK_TRACE(lk__sink_write(m->sink, bytes, n));
}

/* The boxes of field `f` of all samples, through `box` and, of a set that gives rows only, `row`. */
static lk_status append_field(const lk_loader *l, struct making *m, int f, void *const *row,
                              void *part)
{
    const lk_field *field = &l->info->field[f];
    lk_box kept = lk__cache_reach(l, f);
    int64_t bytes = lk__box_bytes(field, &kept);
    for (int64_t i = 0; i < l->info->count && bytes > 0; i++) {
        if (lk__dataset_has_boxes(l->ds)) {
            LK_TRY(lk__dataset_box(l->ds, i, f, &kept, part));
        } else {
            LK_TRY(lk__dataset_row(l->ds, i, row));
            lk__box_cut(field, row[f], &kept, part);
        }
        LK_TRY(append(m, part, bytes));
    }
    return LK_OK;
}

static lk_status append_fields(const lk_loader *l, struct making *m, int f)
{
    const lk_field *field = &l->info->field[f];
    lk_box kept = lk__cache_reach(l, f);
    void *row[LK_MAX_FIELDS] = {NULL}, *part = NULL;
    lk_status st = LK_OK;
    if (!lk__dataset_has_boxes(l->ds))
        LK_TRY(lk_alloc(&row[f], lk__field_bytes(field), 1));
    LK_TRY_TO(done, lk_alloc(&part, lk__box_bytes(field, &kept), 1));
    LK_TRY_TO(done, append_field(l, m, f, row, part));
done:
    lk_free(row[f]);
    lk_free(part);
    return st;
}

static lk_status write_all(const lk_loader *l, struct making *m, const unsigned char *header)
{
    unsigned char trailer[TRAILER], record[LK_CACHE_RECORD];
    LK_TRY(append(m, header, LK_CACHE_HEADER));
    for (int f = 0; f < l->info->n_fields; f++)
        LK_TRY(append_fields(l, m, f));
    lk__put_le(trailer, TRAILER, lk_hash_value(&m->hash));
    LK_TRY(lk__sink_write(m->sink, trailer, TRAILER));
    lk__cache_record(header, lk__dataset_stamp(l->ds), record);
    return LK_TRACE(lk__sink_write(m->sink, record, LK_CACHE_RECORD));
}

/* The folder of the file is there: the messages of the disk would be about a file beside it. */
static lk_status folder_check(const char *path)
{
    char folder[LK_PATH_SIZE];
    LK_TRY(lk__path_parent(path, folder));
    LK_CHECK(lk__path_is_folder(folder), LK_EIO,
             "cache: there is no folder %s for the file %s: make it (mkdir -p %s), or give cache "
             "another path",
             folder, path, folder);
    return LK_OK;
}

/* Make the file under a name of this call alone, then give it its own: ranks that hold the same boxes
 * may make it at the same time, with the same bytes. */
static lk_status file_make(const lk_loader *l, const char *path, const unsigned char *header)
{
    static _Atomic unsigned number;
    char name[LK_PATH_SIZE + 64];
    struct making m = {.hash = lk_hash_start()};
    LK_TRY(folder_check(path));
    int n = snprintf(name, sizeof name, "%s.%ld-%llx-%u", path, (long)getpid(),
                     (unsigned long long)lk_clock_ns(), atomic_fetch_add(&number, 1));
    LK_CHECK(n >= 0 && n + 8 < LK_PATH_SIZE, LK_EINVAL, "cache: the path %s is too long", path);
    LK_TRY(lk__sink_open(name, &m.sink));
    LK_TRY(lk__sink_end(m.sink, write_all(l, &m, header)));
    lk_status st = lk__storage_rename(name, path);
    if (st != LK_OK)
        lk__storage_discard(name);
    return LK_TRACE(st);
}

/* ---- reading it ---- */

/* Where the trailer begins. */
static int64_t end_of(const lk__source *s)
{
    return lk__source_size(s) - TRAILER - LK_CACHE_RECORD;
}

/* The hash of all before the trailer is what the trailer says. */
static lk_status file_check(const lk__source *s, unsigned char *chunk)
{
    lk_hash h = lk_hash_start();
    int64_t end = end_of(s);
    for (int64_t at = 0, n; at < end; at += n) {
        n = end - at < CHUNK ? end - at : CHUNK;
        LK_TRY(lk__source_read(s, at, chunk, n, "a cache"));
        lk_hash_add_bytes(&h, chunk, (size_t)n);
    }
    LK_TRY(lk__source_read(s, end, chunk, TRAILER, "the checksum of a cache"));
    LK_CHECK(lk__get_le(chunk, TRAILER) == lk_hash_value(&h), LK_EIO,
             "%s: the cache is damaged: its checksum is wrong; %s", lk__source_name(s), remedy);
    return LK_OK;
}

/* The fields of the file as those of a table. */
static lk_status file_fields(lk_loader *l, const lk__source *s, lk__table *t)
{
    int64_t at = LK_CACHE_HEADER;
    t->info.name = lk__source_name(s);
    t->info.count = l->info->count;
    for (int f = 0; f < l->info->n_fields; f++) {
        const lk_field *field = &l->info->field[f];
        lk_box kept = l->cache.kept[f] = lk__cache_reach(l, f);
        int64_t bytes = lk__box_bytes(field, &kept) * l->info->count;
        l->cache.field[f] = bytes > 0 ? t->info.n_fields : -1;
        if (bytes == 0)
            continue;
        LK_CHECK(bytes <= end_of(s) - at, LK_EIO, "%s: the cache is cut off; %s",
                 lk__source_name(s), remedy);
        lk__layout_in in = {.source = s, .offset = at, .dtype = field->dtype};
        in.shape.ndim = kept.ndim;
        memcpy(in.shape.dim, kept.n, (size_t)kept.ndim * sizeof in.shape.dim[0]);
        LK_TRY(lk__table_rows(t, field->name, &in));
        at += bytes;
    }
    LK_CHECK(at == end_of(s), LK_EIO, "%s: the cache is damaged: %lld bytes are too many; %s",
             lk__source_name(s), (long long)(end_of(s) - at), remedy);
    return LK_OK;
}

/* Through `chunk`; `want` is the header without the set's hash, which is filled in. */
static lk_status file_open(lk_loader *l, const lk__source *s, unsigned char *want, lk__table *t,
                           unsigned char *chunk)
{
    const char *path = lk__source_name(s);
    unsigned char record[LK_CACHE_RECORD];
    char all[LK_PATH_SIZE];
    LK_TRY(path_make(&l->cache, true, all));
    LK_TRY(lk__source_read(s, 0, chunk, LK_CACHE_HEADER, "the header of a cache"));
    LK_TRY(lk__source_read(s, end_of(s) + TRAILER, record, LK_CACHE_RECORD, "the end of a cache"));
    LK_TRY(lk__cache_kind_check(path, all, chunk, want));
    bool known = lk__cache_is_of(chunk, record, lk__dataset_stamp(l->ds));
    if (known && !lk__dataset_is_hashed(l->ds))
        lk__dataset_set_hash(l->ds, lk__cache_content(chunk));
    uint64_t content;
    LK_TRY(lk_dataset_hash(l->ds, &content));
    lk__cache_set_content(want, content);
    LK_TRY(lk__cache_header_check(path, all, chunk, want));
    LK_TRY(file_fields(l, s, t));
    LK_TRY(file_check(s, chunk));
    if (!known && lk__dataset_stamp(l->ds) != 0)
        lk__cache_renew(path, want, lk__dataset_stamp(l->ds), end_of(s) + TRAILER);
    return LK_OK;
}

static lk_status file_read(lk_loader *l, const char *path, unsigned char *want, lk__table *t)
{
    const lk__source *s;
    unsigned char *chunk;
    LK_TRY(lk__table_open(t, path, &s));
    LK_CHECK(end_of(s) >= LK_CACHE_HEADER, LK_EIO, "%s: the cache is cut off; %s", path, remedy);
    LK_TRY(lk_alloc(&chunk, CHUNK, 1));
    lk_status st = LK_OK;
    LK_TRY_TO(done, file_open(l, s, want, t, chunk));
    if (t->info.n_fields > 0)
        LK_TRY_TO(done, lk__table_finish(t, &l->cache.ds));
done:
    lk_free(chunk);
    return st;
}

static lk_status prepare(lk_loader *l, unsigned char *header)
{
    char path[LK_PATH_SIZE];
    uint64_t content;
    lk__table *t;
    LK_TRY(path_make(&l->cache, false, path));
    lk__cache_header(l, header);
    if (!lk__path_exists(path)) {
        LK_TRY(lk_dataset_hash(l->ds, &content));
        lk__cache_set_content(header, content);
        LK_TRY(file_make(l, path, header));
    }
    LK_TRY(lk__table_new(&t));
    lk_status st = file_read(l, path, header, t);
    if (!l->cache.ds) /* which owns it otherwise */
        lk__table_free(t);
    return LK_TRACE(st);
}

/* The header and the record of the file, if it has both. */
static bool ends_read(const char *path, unsigned char *header, unsigned char *record)
{
    lk__source *s = NULL;
    bool read = lk__path_exists(path) && lk__source_open(path, &s) == LK_OK &&
                end_of(s) >= LK_CACHE_HEADER &&
                lk__source_read(s, 0, header, LK_CACHE_HEADER, "the header of a cache") == LK_OK &&
                lk__source_read(s, end_of(s) + TRAILER, record, LK_CACHE_RECORD, "its end") ==
                    LK_OK;
    lk__source_free(s);
    return read;
}

void lk__cache_know(lk_loader *l)
{
    char path[LK_PATH_SIZE];
    unsigned char header[LK_CACHE_HEADER], record[LK_CACHE_RECORD];
    uint64_t stamp = lk__dataset_stamp(l->ds);
    if (!l->cache.path || stamp == 0 || lk__dataset_is_hashed(l->ds) ||
        path_make(&l->cache, false, path) != LK_OK)
        return;
    if (ends_read(path, header, record) && lk__cache_is_of(header, record, stamp))
        lk__dataset_set_hash(l->ds, lk__cache_content(header));
}

lk_status lk__cache_prepare(lk_loader *l)
{
    unsigned char *header;
    if (!l->cache.path || l->cache.ds || l->info->n_fields == 0)
        return LK_OK;
    lk__loader_forget(l);
    LK_TRY(lk_alloc(&header, LK_CACHE_HEADER, 1));
    lk_status st = prepare(l, header);
    lk_free(header);
    return LK_TRACE(st);
}
