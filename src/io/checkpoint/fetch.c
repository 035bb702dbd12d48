/* The tensors of a checkpoint, from the files to the boxes of all ranks.
 *
 * Each rank that writes there reads its parts band by band, on a thread; while one is read, the one before
 * goes to those who hold something of it.  Where all hold all, bands of large tensors are read to
 * where they belong, and go on to the others from there.
 */
#include "io/checkpoint/checkpoint.h"

#include <lockstep/coll.h>
#include <lockstep/extra/alloc.h>
#include <lockstep/extra/crc32c.h>

/* The bands of this rank's files, which are read one ahead of those that travel. */
typedef struct reader {
    const lk_checkpoint *c;
    lk__bands bands;
    lk__band band; /* that is read now */
    unsigned char *bytes;
    int fd; /* -1: none is open */
    char path[LK_PATH_SIZE];
    uint32_t crc; /* of the tensor that the last band ended in */
    lk__work work;
    lk__failure failure;
} reader;

static lk_status part_open(reader *r)
{
    int64_t bytes;
    LK_TRY(lk__path_join(r->c->path, r->c->part[r->band.part].file, r->path, sizeof r->path));
    return LK_TRACE(lk__storage_open(r->path, &r->fd, &bytes));
}

static void part_close(reader *r)
{
    if (r->fd >= 0)
        lk__storage_release(r->fd);
    r->fd = -1;
}

static lk_status band_read(void *arg)
{
    reader *r = arg;
    const lk_checkpoint *c = r->c;
    if (r->fd < 0)
        LK_TRY(part_open(r));
    LK_TRY(lk__storage_read(r->fd, r->path, r->band.offset, r->bytes, r->band.bytes));
    for (int64_t i = r->band.tensor; i < r->band.end; i++) {
        lk_range in = lk__band_bytes(c, &r->band, i);
        r->crc = lk_crc32c(r->crc, r->bytes + in.first, (size_t)in.n);
        if (i == r->band.end - 1 && r->band.last < lk__tensor_count(c, i))
            return LK_OK; /* it goes on in the next band */
        LK_TRY(lk__crc_check(r->path, &c->tensor[i], r->crc));
        r->crc = 0;
    }
    if (r->band.offset + r->band.bytes == c->part[r->band.part].bytes)
        part_close(r);
    return LK_OK;
}

/* Begin to read the next band, if there is one and none has failed: to its place in what is held, or to
 * `room`.  Returns where. */
static unsigned char *read_start(reader *r, const lk__exchange *x, unsigned char *room)
{
    if (!lk__bands_next(&r->bands, &r->band))
        return room;
    unsigned char *place = lk__exchange_direct(x, &r->band);
    r->bytes = place ? place : room;
    if (r->failure.st == LK_OK)
        lk__work_start(&r->work, band_read, r);
    return r->bytes;
}

/* Wait for all who read.  A failure here is kept: what was not read travels all the same. */
static lk_status read_end(reader *r, const lk__disk *disk)
{
    LK_TRY(lk__disk_await(disk, &r->work));
    if (lk__work_end(&r->work) != LK_OK)
        lk__failure_get(&r->failure);
    return LK_OK;
}

static lk_status bands_move(reader *r, lk__exchange *x, const lk__disk *disk, unsigned char *room)
{
    lk__exchange_start(x, NULL, false);
    unsigned char *next = read_start(r, x, room);
    for (int64_t k = 0; lk__exchange_next(x); k++) {
        unsigned char *band = next;
        LK_TRY(read_end(r, disk));
        next = read_start(r, x, room + (k + 1) % 2 * x->room);
        LK_TRY(lk__exchange_round(x, band));
    }
    return LK_OK;
}

static lk_status fetch(reader *r, lk__exchange *x, const lk__disk *disk)
{
    unsigned char *room = NULL;
    LK_TRY(lk__exchange_open(x));
    r->bands = lk__bands_start(r->c, x->place[x->rank], x->files, x->room);
    lk_status st = lk_agree(x->comm, lk_alloc(&room, 2 * x->room, 1));
    if (st == LK_OK)
        st = bands_move(r, x, disk, room);
    lk__failure end;
    lk__failure_get(&end);
    if (lk__work_end(&r->work) != LK_OK || st != LK_OK)
        lk__failure_set(&end); /* of a job that has ended */
    lk_free(room);
    part_close(r);
    LK_TRY(st);
    if (r->failure.st != LK_OK)
        lk__failure_set(&r->failure);
    return LK_TRACE(lk_agree(x->comm, r->failure.st));
}

lk_status lk__tensors_fetch(lk_checkpoint_dir *c, const lk_checkpoint *from, lk__box_held *held)
{
    if (!c->comm) {
        for (int64_t i = 0; i < from->n_tensors; i++)
            LK_TRY(lk__checkpoint_read_held(from, i, &held[i]));
        return LK_OK;
    }
    reader r = {.c = from, .fd = -1};
    lk__exchange x = {.comm = c->comm,
                      .rank = c->rank,
                      .size = c->size,
                      .c = from,
                      .place = c->place,
                      .files = c->writer.writers,
                      .held = held,
                      .room = c->band};
    lk__work_init(&r.work);
    lk_status st = fetch(&r, &x, &c->disk);
    lk__exchange_close(&x);
    return LK_TRACE(st);
}
