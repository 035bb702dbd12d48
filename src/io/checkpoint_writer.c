/* A rank's parts: copied into memory as the files will be, then written by a thread that
 * communicates with nobody. */
#include "base/grow.h"
#include "io/checkpoint.h"

#include <lockstep/alloc.h>
#include <lockstep/checked.h>
#include <lockstep/crc32c.h>

#include <string.h>

/* Bytes of all parts of this writer. */
static lk_status image_bytes(const lk__writer *w, int64_t *out)
{
    *out = 0;
    for (int64_t i = w->place; w->place >= 0 && i < w->plan->n_parts; i += w->writers)
        LK_TRY(lk_add_i64(*out, w->plan->part[i].bytes, out));
    return LK_OK;
}

static lk_status part_copy(const lk__writer *w, const lk_state *state, int64_t part,
                           unsigned char *to)
{
    char *header;
    int64_t n;
    const lk_checkpoint *plan = w->plan;
    LK_TRY(lk__plan_header(plan, part, &header, &n));
    memcpy(to, header, (size_t)n);
    lk_free(header);
    for (int64_t i = lk__part_begin(plan, part); i < lk__part_begin(plan, part + 1); i++)
        if (plan->tensor[i].bytes > 0)
            memcpy(to + plan->tensor[i].offset, state->tensor[i].data,
                   (size_t)plan->tensor[i].bytes);
    return LK_OK;
}

lk_status lk__writer_copy(lk__writer *w, const lk_state *state)
{
    int64_t bytes, at = 0;
    LK_TRY(image_bytes(w, &bytes));
    if (bytes > w->room) {
        lk_free(w->image);
        w->image = NULL;
        w->room = 0;
        LK_TRY(lk_alloc(&w->image, bytes, 1));
        w->room = bytes;
    }
    for (int64_t i = w->place; w->place >= 0 && i < w->plan->n_parts; i += w->writers) {
        LK_TRY(part_copy(w, state, i, w->image + at));
        at += w->plan->part[i].bytes;
    }
    return LK_OK;
}

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
    LK_TRY(lk__storage_put(path, image, plan->part[part].bytes));
    return LK_OK;
}

static lk_status write_all(void *arg)
{
    lk__writer *w = arg;
    int64_t at = 0;
    for (int64_t i = w->place; i < w->plan->n_parts; i += w->writers) {
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
