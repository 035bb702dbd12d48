/* A rank's parts of a checkpoint, from all ranks that hold them to the disk.
 *
 * Most are collected in memory as the files will be, while the others wait, and written by a thread
 * that does not communicate.  What is more than this rank's share of the state, as a tensor that is
 * larger than many, goes to disk while the save begins, band by band: two have room, one that comes and
 * one that is written.
 */
#include "base/memory/grow.h"
#include "io/checkpoint/checkpoint.h"

#include <lockstep/coll.h>
#include <lockstep/extra/alloc.h>
#include <lockstep/extra/checked.h>
#include <lockstep/extra/crc32c.h>

#include <string.h>

/* What becomes of each part, on all ranks the same. */
typedef struct parts {
    bool *streamed; /* it goes to disk while the save begins */
    int64_t *at;    /* else: where it is in the image of its writer */
    int64_t bytes;  /* of this writer's image */
    bool some;      /* are streamed */
} parts;

/* A writer copies as many of its parts as its share has room for, and one more at most.  Where all ranks
 * hold all, it has room for all. */
static lk_status parts_deal(const lk__writer *w, const lk__exchange *x, int64_t part_bytes,
                            parts *p)
{
    const lk_checkpoint *plan = w->plan;
    int64_t total = 0;
    LK_TRY(lk_arena_alloc(plan->arena, &p->streamed, plan->n_parts, sizeof *p->streamed));
    LK_TRY(lk_arena_alloc(plan->arena, &p->at, plan->n_parts, sizeof *p->at));
    for (int64_t i = 0; i < plan->n_parts; i++)
        LK_TRY(lk_add_i64(total, plan->part[i].bytes, &total));
    int64_t share = x->whole ? total : total / x->size;
    for (int place = 0; place < w->writers; place++) {
        int64_t at = 0;
        for (int64_t i = place; i < plan->n_parts; i += w->writers) {
            p->at[i] = at;
            p->streamed[i] = plan->part[i].bytes - part_bytes > share - at;
            p->some = p->some || p->streamed[i];
            at += p->streamed[i] ? 0 : plan->part[i].bytes;
        }
        if (place == w->place)
            p->bytes = at;
    }
    return LK_OK;
}

lk_status lk__save_bytes(const lk_state *state, int64_t part_bytes, int size, int rank, bool whole,
                         int64_t *image, int64_t *bands)
{
    lk_checkpoint *plan = NULL;
    parts p = {.some = false};
    LK_TRY(lk__plan_make(state, 0, part_bytes, &plan));
    lk__writer w = {.plan = plan, .place = rank, .writers = size};
    lk_status st = parts_deal(&w, &(lk__exchange){.size = size, .whole = whole}, part_bytes, &p);
    *image = p.bytes;
    *bands = (p.some ? 4 : 2) *
             (int64_t)LK__BAND; /* one that is sent, one that comes, two to disk */
    lk_checkpoint_free(plan);
    return LK_TRACE(st);
}

/* ---- into memory ---- */

/* Memory for the image, and the headers in it. */
static lk_status image_make(lk__writer *w, const parts *p)
{
    if (p->bytes > w->room) {
        lk_free(w->image);
        w->image = NULL;
        w->room = 0;
        LK_TRY(lk_alloc(&w->image, p->bytes, 1));
        w->room = p->bytes;
    }
    for (int64_t i = w->place; w->place >= 0 && i < w->plan->n_parts; i += w->writers) {
        char *header;
        int64_t n;
        if (p->streamed[i])
            continue;
        LK_TRY(lk__plan_header(w->plan, i, &header, &n));
        memcpy(w->image + p->at[i], header, (size_t)n);
        lk_free(header);
    }
    return LK_OK;
}

static lk_status image_fill(lk__writer *w, lk__exchange *x, const parts *p)
{
    lk__exchange_start(x, p->streamed, false);
    while (lk__exchange_next(x)) {
        const lk__band *band = lk__exchange_band(x);
        unsigned char *to = band ? w->image + p->at[band->part] + band->offset : NULL;
        LK_TRY(lk__exchange_round(x, to));
    }
    return LK_OK;
}

/* ---- straight to disk ---- */

/* The file that is written band by band. */
typedef struct stream {
    lk__writer *w;
    lk__band band; /* that is written now */
    const unsigned char *bytes;
    int fd; /* -1: none is open */
    char path[LK_PATH_SIZE];
    lk_hash hash;
} stream;

static lk_status stream_open(stream *s)
{
    char *header;
    int64_t n;
    LK_TRY(
        lk__path_join(s->w->folder, s->w->plan->part[s->band.part].file, s->path, sizeof s->path));
    LK_TRY(lk__plan_header(s->w->plan, s->band.part, &header, &n));
    lk_status st = lk__storage_create(s->path, 0600, &s->fd);
    if (st == LK_OK)
        st = lk__storage_write(s->fd, s->path, 0, header, n);
    s->hash = lk_hash_start();
    lk_hash_add_bytes(&s->hash, header, (size_t)n);
    lk_free(header);
    return LK_TRACE(st);
}

static lk_status stream_end(stream *s)
{
    int fd = s->fd;
    s->w->plan->part[s->band.part].hash = lk_hash_value(&s->hash);
    LK_TRY(lk__storage_sync(fd, s->path));
    s->fd = -1;
    return LK_TRACE(lk__storage_close(fd, s->path));
}

static lk_status band_put(stream *s)
{
    lk_checkpoint *plan = s->w->plan;
    if (s->band.offset == plan->tensor[lk__part_begin(plan, s->band.part)].offset)
        LK_TRY(stream_open(s));
    LK_TRY(lk__storage_write(s->fd, s->path, s->band.offset, s->bytes, s->band.bytes));
    lk_hash_add_bytes(&s->hash, s->bytes, (size_t)s->band.bytes);
    for (int64_t i = s->band.tensor; i < s->band.end; i++) {
        lk_range in = lk__band_bytes(plan, &s->band, i);
        plan->tensor[i].crc = lk_crc32c(plan->tensor[i].crc, s->bytes + in.first, (size_t)in.n);
    }
    if (s->band.offset + s->band.bytes == plan->part[s->band.part].bytes)
        LK_TRY(stream_end(s));
    return LK_OK;
}

/* Write a band; a file that failed is removed again. */
static lk_status band_write(void *arg)
{
    stream *s = arg;
    lk_status st = band_put(s);
    if (st == LK_OK)
        return LK_OK;
    if (s->fd >= 0)
        lk__storage_release(s->fd);
    s->fd = -1;
    lk__storage_discard(s->path);
    return LK_TRACE(st);
}

/* Bands come and go to disk; after a failure here they still come.  `failure` is it, or none. */
static lk_status bands_stream(stream *s, lk__exchange *x, const lk__disk *disk, unsigned char *room,
                              lk__failure *failure)
{
    for (int64_t k = 0; lk__exchange_next(x); k++) {
        unsigned char *bytes = room + k % 2 * x->room;
        const lk__band *band = lk__exchange_band(x);
        LK_TRY(lk__exchange_round(x, bytes));
        LK_TRY(lk__disk_await(disk, &s->w->work));
        if (lk__work_end(&s->w->work) != LK_OK)
            lk__failure_get(failure);
        if (!band || failure->st != LK_OK)
            continue;
        s->band = *band;
        s->bytes = bytes;
        lk__work_start(&s->w->work, band_write, s);
    }
    return LK_TRACE(lk__disk_await(disk, &s->w->work));
}

static lk_status parts_stream(lk__writer *w, lk__exchange *x, const lk__disk *disk, const parts *p)
{
    unsigned char *room = NULL;
    stream s = {.w = w, .fd = -1};
    lk__failure failure = {.st = LK_OK};
    lk_status st = lk_agree(x->comm, lk_alloc(&room, 2 * x->room, 1));
    lk__exchange_start(x, p->streamed, true);
    if (st == LK_OK)
        st = bands_stream(&s, x, disk, room, &failure);
    lk__failure end;
    lk__failure_get(&end);
    if (lk__work_end(&w->work) != LK_OK)
        lk__failure_get(&failure);
    if (st != LK_OK)
        lk__failure_set(&end); /* the end of the job matters more */
    else if (failure.st != LK_OK)
        lk__failure_set(&failure);
    if (s.fd >= 0)
        lk__storage_release(s.fd); /* the job ended in the middle of a file */
    lk_free(room);
    LK_TRY(st);
    return LK_TRACE(lk_agree(x->comm, failure.st));
}

lk_status lk__writer_fill(lk__writer *w, lk__exchange *x, const lk__disk *disk, int64_t part_bytes)
{
    parts p = {.some = false};
    lk_status st = parts_deal(w, x, part_bytes, &p);
    if (st == LK_OK)
        st = image_make(w, &p);
    LK_TRY(lk_agree(x->comm, st));
    LK_TRY(image_fill(w, x, &p));
    w->streamed = p.streamed;
    if (p.some)
        LK_TRY(parts_stream(w, x, disk, &p));
    return LK_OK;
}

/* ---- from memory to disk ---- */

/* Checksums, and the file. */
static lk_status part_write(lk__writer *w, int64_t part, const unsigned char *image)
{
    char path[LK_PATH_SIZE];
    lk_checkpoint *plan = w->plan;
    lk_hash h = lk_hash_start();
    for (int64_t i = lk__part_begin(plan, part); i < lk__part_begin(plan, part + 1); i++)
        plan->tensor[i].crc = lk_crc32c(0, image + plan->tensor[i].offset,
                                        (size_t)plan->tensor[i].bytes);
    lk_hash_add_bytes(&h, image, (size_t)plan->part[part].bytes);
    plan->part[part].hash = lk_hash_value(&h);
    LK_TRY(lk__path_join(w->folder, plan->part[part].file, path, sizeof path));
    return LK_TRACE(lk__storage_put(path, image, plan->part[part].bytes));
}

static lk_status write_all(void *arg)
{
    lk__writer *w = arg;
    int64_t at = 0;
    for (int64_t i = w->place; i < w->plan->n_parts; i += w->writers) {
        if (w->streamed[i])
            continue;
        LK_TRY(part_write(w, i, w->image + at));
        at += w->plan->part[i].bytes;
    }
    return LK_OK;
}

void lk__writer_start(lk__writer *w)
{
    if (w->place >= 0 && w->place < w->plan->n_parts)
        lk__work_start(&w->work, write_all, w);
}
