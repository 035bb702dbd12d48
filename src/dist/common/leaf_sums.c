/* Sums over the positions of each leaf. */
#include "dist/common/leaf_sums.h"

#include <lockstep/extra/reduce.h>

#include <string.h>

lk__leaf_sums lk__leaf_sums_of(const lk_tile *tile, lk_dtype dtype, lk_shape x, int64_t piece)
{
    return (lk__leaf_sums){.dtype = dtype,
                           .box = &tile->x.box,
                           .leaf = tile->x_leaf,
                           .leaves = tile->leaves,
                           .samples = x.dim[0],
                           .channels = x.dim[x.ndim - 1],
                           .piece = piece};
}

lk_shape lk__tile_shape(const lk_box *box, int64_t samples, int64_t channels)
{
    lk_shape s = {.ndim = box->ndim + 2, .dim = {samples}};
    memcpy(&s.dim[1], box->n, (size_t)box->ndim * sizeof s.dim[0]);
    s.dim[s.ndim - 1] = channels;
    return s;
}

int64_t lk__leaf_pieces(const lk__leaf_sums *s)
{
    return s->samples > 0 ? (s->samples - 1) / s->piece + 1 : 0;
}

lk_status lk__leaf_sum(const lk__leaf_sums *s, const void *x, void *out)
{
    int64_t elem = (int64_t)lk_dtype_size(s->dtype), width = s->over_channels ? 1 : s->channels;
    int64_t each = lk__leaf_pieces(s) * width * elem;
    int last = s->box->ndim - 1;
    char *to = out;
    for (int64_t i = 0; i < s->leaves && each > 0; i++, to += each) {
        const lk_box *leaf = &s->leaf[i];
        lk__tile_part p = lk__tile_part_of(s->box, leaf, s->channels);
        lk_reduce_box_shape rows = {.samples = s->samples,
                                    .n = {p.n[0], p.n[1], p.n[2]},
                                    .channels = width,
                                    .sample_step = p.sample,
                                    .step = {p.step[0], p.step[1], p.step[2]},
                                    .piece = s->piece};
        if (s->over_channels) {
            rows.n[last] *= s->channels;
            rows.step[last] = 1;
        }
        if (lk__box_is_empty(leaf))
            memset(to, 0, (size_t)each);
        else
            LK_TRY(lk_reduce_box(s->dtype, LK_REDUCE_AXIS_SUM, &rows,
                                 (const char *)x + p.offset * elem, to));
    }
    return LK_OK;
}

/* One sample of one leaf: its vector at each of its positions. */
static void positions_set(const lk__tile_part *p, char *sample, const char *v, int64_t channels,
                          int64_t elem)
{
    for (int64_t i = 0; i < p->n[0]; i++)
        for (int64_t j = 0; j < p->n[1]; j++)
            for (int64_t k = 0; k < p->n[2]; k++) {
                int64_t at = p->offset + i * p->step[0] + j * p->step[1] + k * p->step[2];
                memcpy(sample + at * elem, v, (size_t)(channels * elem));
            }
}

void lk__leaf_spread(const lk__leaf_sums *s, const lk_box *tile, const void *v, void *y)
{
    int64_t elem = (int64_t)lk_dtype_size(s->dtype);
    const char *from = v;
    lk__tile_clear_around(y, s->box, tile, s->samples, s->channels * elem);
    for (int64_t i = 0; i < s->leaves; i++) {
        lk__tile_part p = lk__tile_part_of(s->box, &s->leaf[i], s->channels);
        for (int64_t n = 0; n < s->samples; n++, from += s->channels * elem)
            positions_set(&p, (char *)y + n * p.sample * elem, from, s->channels, elem);
    }
}
