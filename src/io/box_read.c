/* lk__fill: picking the elements of a box out of a tensor that is read a MiB at a time: see
 * box_read.h. */
#include "io/box_read.h"

#include "io/checkpoint/checkpoint.h"

#include <lockstep/extra/alloc.h>

#include <string.h>

/* The elements from the first to the last of a box that is not empty, counted in the tensor. */
static lk_range box_span(const lk_box *box, const int64_t *dim)
{
    int64_t first = 0, last = 0;
    for (int i = 0; i < box->ndim; i++) {
        first = first * dim[i] + box->first[i];
        last = last * dim[i] + box->first[i] + box->n[i] - 1;
    }
    return (lk_range){first, last + 1 - first};
}

static lk_checkpoint_tensor tensor_of(lk_dtype dtype, int64_t offset, const lk__box_held *held)
{
    lk_box whole = lk_box_whole(held->of.ndim, held->of.dim);
    return (lk_checkpoint_tensor){.dtype = dtype,
                                  .shape = held->of,
                                  .offset = offset,
                                  .bytes = lk_box_count(&whole) * (int64_t)lk_dtype_size(dtype)};
}

/* Elements [first, last) of a tensor as a band. */
static lk__band band_of(const lk_checkpoint_tensor *t, int64_t first, int64_t last)
{
    int64_t size = (int64_t)lk_dtype_size(t->dtype);
    return (lk__band){.end = 1,
                      .first = first,
                      .last = last,
                      .offset = t->offset + first * size,
                      .bytes = (last - first) * size};
}

/* Read the one tensor of `c` as far as it flows into the box `held`; chunk has LK__BAND bytes. */
static lk_status box_read(const lk__source *source, const lk_checkpoint *c, const lk__flow *flow,
                          const lk__box_held *held, unsigned char *chunk)
{
    lk_range span = box_span(&flow->piece->box, c->tensor->shape.dim);
    lk__band band = {.end = 1};
    lk__endpoint file = {.c = c, .flow = flow, .band = &band, .base = chunk};
    lk__endpoint end = {.c = c, .flow = flow, .band = &band, .held = held};
    for (int64_t at = span.first; at < span.first + span.n; at = band.last) {
        int64_t left = span.first + span.n - at;
        int64_t room = LK__BAND / (int64_t)lk_dtype_size(c->tensor->dtype);
        band = band_of(c->tensor, at, at + (left < room ? left : room));
        unsigned char *to = lk__endpoint_direct(&end, band.bytes);
        LK_TRY(lk__source_read(source, band.offset, to ? to : chunk, band.bytes, "a tensor"));
        if (!to)
            lk__endpoint_copy(&file, &end);
    }
    return LK_OK;
}

lk_status lk__source_read_held(const lk__source *s, int64_t offset, lk_dtype dtype,
                               const lk__box_held *held)
{
    unsigned char *chunk;
    lk_checkpoint_tensor tensor = tensor_of(dtype, offset, held);
    lk_checkpoint one = {.tensor = &tensor, .n_tensors = 1};
    lk__piece piece = {0, held->box};
    lk__flow flow = {.piece = &piece, .n = 1};
    if (lk_box_count(&held->box) == 0)
        return LK_OK;
    LK_TRY(lk_alloc(&chunk, LK__BAND, 1));
    lk_status st = box_read(s, &one, &flow, held, chunk);
    lk_free(chunk);
    return LK_TRACE(st);
}

/* ---- bytes in their order ---- */

lk_status lk__fill_start(lk__fill *f, lk_dtype dtype, const lk__box_held *held)
{
    *f = (lk__fill){.held = held, .tensor = tensor_of(dtype, 0, held)};
    return LK_TRACE(lk_alloc(&f->chunk, LK__BAND, 1));
}

/* Keep what the box has of the whole elements in the chunk. */
static void chunk_keep(lk__fill *f)
{
    int64_t size = (int64_t)lk_dtype_size(f->tensor.dtype);
    lk_checkpoint one = {.tensor = &f->tensor, .n_tensors = 1};
    lk__piece piece = {0, f->held->box};
    lk__flow flow = {.piece = &piece, .n = lk_box_count(&piece.box) > 0};
    lk__band band = band_of(&f->tensor, f->at / size, (f->at + f->n) / size);
    lk__endpoint from = {.c = &one, .flow = &flow, .band = &band, .base = f->chunk};
    lk__endpoint to = {.c = &one, .flow = &flow, .band = &band, .held = f->held};
    lk__endpoint_copy(&from, &to);
    f->at += f->n;
    f->n = 0;
}

void lk__fill_add(lk__fill *f, const unsigned char *bytes, int64_t n)
{
    while (n > 0 && f->at + f->n < f->tensor.bytes) {
        int64_t left = f->tensor.bytes - f->at - f->n, room = LK__BAND - f->n;
        int64_t k = n < left ? n : left;
        k = k < room ? k : room;
        memcpy(f->chunk + f->n, bytes, (size_t)k);
        f->n += k;
        bytes += k;
        n -= k;
        if (f->n == LK__BAND || f->at + f->n == f->tensor.bytes)
            chunk_keep(f);
    }
}

void lk__fill_end(lk__fill *f)
{
    lk_free(f->chunk);
    *f = (lk__fill){.held = NULL};
}
