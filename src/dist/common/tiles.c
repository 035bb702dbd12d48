/* Boxes of arrays [samples][box...][channels]: their places, copies and checks. */
#include "dist/common/tiles.h"

#include "base/memory/rehearsal.h"
#include "tensor/tensor.h"

#include <string.h>

lk__tile_part lk__tile_part_of(const lk_box *array, const lk_box *part, int64_t channels)
{
    lk__tile_part p = {.sample = channels};
    for (int d = LK_TILE_AXES - 1; d >= 0; d--) {
        p.n[d] = d < part->ndim ? part->n[d] : 1;
        p.step[d] = p.sample;
        if (d >= part->ndim)
            continue;
        if (part->n[d] > 0)
            p.offset += (part->first[d] - array->first[d]) * p.sample;
        p.sample *= array->n[d];
    }
    return p;
}

/* What is done with a row of a box, which lies side by side in the array, and its place in dense memory. */
typedef void row_fn(char *row, char *dense, size_t bytes);

static void row_take(char *row, char *dense, size_t bytes)
{
    memcpy(dense, row, bytes);
}

static void row_put(char *row, char *dense, size_t bytes)
{
    memcpy(row, dense, bytes);
}

static void row_clear(char *row, char *dense, size_t bytes)
{
    (void)dense;
    memset(row, 0, bytes);
}

/* Apply `fn` to the rows of a box, in order; an element is `bytes`.  `dense` may be NULL. */
static void rows_each(char *array, const lk_box *box, const lk_box *part, int64_t samples,
                      int64_t bytes, char *dense, row_fn *fn)
{
    lk__tile_part p = lk__tile_part_of(box, part, 1);
    int last = part->ndim - 1;
    int64_t row = (last >= 0 ? part->n[last] : 1) * bytes;
    if (lk__box_is_empty(part) || lk__rehearses())
        return;
    for (int64_t s = 0; s < samples; s++)
        for (int64_t i = 0; i < (last > 0 ? p.n[0] : 1); i++)
            for (int64_t j = 0; j < (last > 1 ? p.n[1] : 1); j++) {
                int64_t at = s * p.sample + p.offset + (last > 0 ? i * p.step[0] : 0) +
                             (last > 1 ? j * p.step[1] : 0);
                fn(array + at * bytes, dense, (size_t)row);
                if (dense)
                    dense += row;
            }
}

void lk__tile_pack(const void *array, const lk_box *box, const lk_box *part, int64_t samples,
                   int64_t bytes, void *dense)
{
    rows_each((char *)(uintptr_t)array, box, part, samples, bytes, dense, row_take);
}

void lk__tile_unpack(void *array, const lk_box *box, const lk_box *part, int64_t samples,
                     int64_t bytes, const void *dense)
{
    rows_each(array, box, part, samples, bytes, (char *)(uintptr_t)dense, row_put);
}

void lk__tile_clear_around(void *array, const lk_box *box, const lk_box *keep, int64_t samples,
                           int64_t bytes)
{
    lk_box left = *box;
    if (lk__box_is_empty(keep)) {
        rows_each(array, box, box, samples, bytes, NULL, row_clear);
        return;
    }
    for (int d = 0; d < box->ndim; d++) { /* before and behind along d, then go on within */
        lk_box slab = left;
        slab.n[d] = keep->first[d] - left.first[d];
        rows_each(array, box, &slab, samples, bytes, NULL, row_clear);
        slab.first[d] = keep->first[d] + keep->n[d];
        slab.n[d] = left.first[d] + left.n[d] - slab.first[d];
        rows_each(array, box, &slab, samples, bytes, NULL, row_clear);
        left.first[d] = keep->first[d];
        left.n[d] = keep->n[d];
    }
}

lk_status lk__tile_check(const char *call, const char *what, lk_shape shape, const lk_box *box)
{
    bool fits = shape.ndim == box->ndim + 2;
    for (int d = 0; fits && d < box->ndim; d++)
        fits = shape.dim[d + 1] == box->n[d];
    lk_shape held = {.ndim = box->ndim};
    memcpy(held.dim, box->n, (size_t)box->ndim * sizeof held.dim[0]);
    LK_CHECK(fits, LK_ESHAPE, "%s: %s is %s, where this rank holds positions %s of each sample",
             call, what, lk_shape_text(shape).s, lk_shape_text(held).s);
    return LK_OK;
}

lk_status lk__tile_fetch(lk_fetch *fetch, const lk_tensor *x, const lk_box *box, const char *name)
{
    LK_TRY(lk_fetch_begin(fetch, x->dtype, x->shape.dim[0], x->shape.dim[x->shape.ndim - 1], box,
                          lk__tensor_start(x), name));
    return LK_TRACE(lk_fetch_end(fetch));
}
