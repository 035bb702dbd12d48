/* What `lockstep bench data` measures: files of records and the loaders that read them, alone or as several
 * copies at once, and copies of memory to compare with.  See data.h.
 */
#include "bench/data.h"

#include <lockstep/extra/clock.h>
#include <lockstep/lockstep.h>

#include <stdlib.h>
#include <string.h>

enum { FILES = 4, PIXELS = DATA_BYTES - 1, PREFETCH = 4 };

const data_case data_cases[] = {
    {"plain shuffled", "plain-*.tfrecord", "", ""},
    {"plain in order", "plain-*.tfrecord", "", "shuffle=false"},
    {"plain stream", "plain-*.tfrecord", "stream=true", "shuffle_buffer=2000"},
    {"gzip shuffled", "gzip-*.tfrecord.gz", "", ""},
    {"gzip in order", "gzip-*.tfrecord.gz", "", "shuffle=false"},
    {"gzip stream", "gzip-*.tfrecord.gz", "stream=true", "shuffle_buffer=2000"},
    {NULL, NULL, NULL, NULL},
};

/* ---- the files ---- */

/* A ramp with noise, which packs about as well as photographs. */
static lk_status image_row(void *context, int64_t index, void *const *row)
{
    const lk_rng *rng = context;
    uint32_t bits[PIXELS / 4];
    LK_TRY(lk_rng_bits(*rng, (lk_rng_at){0, index, 0}, PIXELS / 4, bits));
    unsigned char *x = row[0];
    for (int64_t i = 0; i < PIXELS; i++)
        x[i] = (unsigned char)((bits[i / 4] >> i % 4 * 8 & 63) + index % 64 + i / 32);
    *(int64_t *)row[1] = index % 10;
    return LK_OK;
}

static lk_status files_write(const char *folder, int64_t samples)
{
    lk_rng rng = lk_rng_start(1, "bench", "data");
    lk_dataset_info info = {.name = "images", .count = samples, .classes = 10, .n_fields = 2};
    info.field[0] = (lk_field){"x", LK_U8, LK_SHAPE(32, 32, 3)};
    info.field[1] = (lk_field){"y", LK_I64, LK_SCALAR};
    char path[DATA_PATH + 32], options[64];
    lk_dataset *ds;
    LK_TRY(lk_dataset_new(&info, image_row, NULL, &rng, &ds));
    lk_status st = LK_OK;
    for (int gzip = 0; gzip < 2 && st == LK_OK; gzip++) {
        snprintf(path, sizeof path, "%s/%s.tfrecord", folder, gzip ? "gzip" : "plain");
        snprintf(options, sizeof options, "files=%d gzip=%s", FILES, gzip ? "true" : "false");
        st = lk_dataset_write_as(ds, "tfrecord", options, LK_TRAIN, path);
    }
    lk_dataset_free(ds);
    return LK_TRACE(st);
}

lk_status data_folder_make(const char *parent, int64_t samples, char folder[DATA_PATH])
{
    LK_TRY(scratch_make(parent, "bench", folder));
    lk_status st = files_write(folder, samples);
    if (st != LK_OK)
        scratch_remove(folder);
    return LK_TRACE(st);
}

/* ---- loaders ---- */

lk_status data_side_open(const char *folder, const data_case *c, int readers, data_side *out)
{
    char options[DATA_PATH + 128];
    *out = (data_side){.next = 0};
    snprintf(options, sizeof options, "path=\"%s/%s\" %s", folder, c->files, c->format);
    LK_TRY(lk_dataset_open("tfrecord", options, LK_TRAIN, &out->ds));
    snprintf(options, sizeof options, "batch=%d prefetch=%d readers=%d keep=0 %s", DATA_BATCH,
             PREFETCH, readers, c->loader);
    return LK_TRACE(lk_loader_new(out->ds, options, 1, &out->loader));
}

void data_side_close(data_side *s)
{
    lk_loader_free(s->loader);
    lk_dataset_free(s->ds);
    *s = (data_side){.next = 0};
}

lk_status data_side_read(data_side *s, int64_t n, double *seconds)
{
    /* whole batches alone: the last one of an epoch has fewer samples */
    int64_t each = lk_dataset_info_of(s->ds)->count / DATA_BATCH, start = lk_clock_ns();
    for (int64_t i = 0; i < n; i++, s->next++) {
        lk_batch batch;
        LK_TRY(
            lk_loader_read_batch(s->loader, s->next / each, s->next % each, 0, DATA_BATCH, &batch));
    }
    *seconds = 1e-9 * (double)(lk_clock_ns() - start);
    return LK_OK;
}

struct race {
    data_side *side;
    int64_t n;
    double seconds[DATA_MOST_READERS];
};

static lk_status copy_read(lk_comm *comm, void *arg)
{
    struct race *r = arg;
    int i = lk_comm_rank(comm);
    LK_TRY(lk_barrier(comm, "begin"));
    return LK_TRACE(data_side_read(&r->side[i], r->n, &r->seconds[i]));
}

lk_status data_copies_read(data_side *s, int copies, int64_t n, double *seconds)
{
    struct race r = {.side = s, .n = n};
    LK_TRY(lk_run_local(copies, copy_read, &r));
    *seconds = 0;
    for (int i = 0; i < copies; i++)
        *seconds = r.seconds[i] > *seconds ? r.seconds[i] : *seconds;
    return LK_OK;
}

/* ---- memory ---- */

enum { BLOCK = 64 << 20 };

lk_status data_blocks_new(data_blocks *out)
{
    *out = (data_blocks){.from = NULL};
    LK_TRY(lk_tensor_new(LK_U8, LK_SHAPE(BLOCK), &out->from));
    LK_TRY(lk_tensor_new(LK_U8, LK_SHAPE(BLOCK), &out->to));
    LK_TRY(
        lk_tensor_fill_i64(out->from, 1)); /* pages that were never written are all the same one */
    return LK_TRACE(lk_tensor_fill_i64(out->to, 2));
}

void data_blocks_free(data_blocks *b)
{
    lk_tensor_free(b->from);
    lk_tensor_free(b->to);
    *b = (data_blocks){.from = NULL};
}

lk_status data_memory_copy(const data_blocks *b, int64_t n, double *seconds)
{
    const void *source = lk_tensor_data(b->from);
    void *target;
    LK_TRY(lk_tensor_writable_data(b->to, &target));
    int64_t left = n * DATA_BATCH * DATA_BYTES, start = lk_clock_ns();
    for (int64_t some; left > 0; left -= some) {
        some = left < BLOCK ? left : BLOCK;
        memcpy(target, source, (size_t)some);
        __asm__ volatile("" ::"r"(target) : "memory"); /* or the copy could be left out */
    }
    *seconds = 1e-9 * (double)(lk_clock_ns() - start);
    return LK_OK;
}
