/* Sums over the positions of each leaf. */
#include "dist/common/leaf_sums.h"

#include <lockstep/extra/reduce.h>

#include <string.h>

int64_t lk__leaf_pieces(const lk__leaf_sums *s)
{
    return s->samples > 0 ? (s->samples - 1) / s->piece + 1 : 0;
}

/* Whether a leaf is all of the array, and lies dense in it. */
static bool is_dense(const lk__leaf_sums *s, const lk_box *leaf)
{
    return lk_box_is_equal(s->box, leaf);
}

int64_t lk__leaf_room(const lk__leaf_sums *s)
{
    int64_t most = 0;
    for (int64_t i = 0; i < s->leaves; i++) {
        int64_t n = is_dense(s, &s->leaf[i]) ? 0 : lk_box_count(&s->leaf[i]);
        most = n > most ? n : most;
    }
    return most * s->samples * s->channels;
}

/* Dense rows, `positions` of a sample, piece by piece. */
static lk_status rows_sum(const lk__leaf_sums *s, int64_t positions, const char *x, char *out)
{
    int64_t row = s->channels * (int64_t)lk_dtype_size(s->dtype), last = lk__leaf_pieces(s) - 1;
    lk_reduce_axis_shape equal = {.outer = last, .n = s->piece * positions, .inner = s->channels};
    lk_reduce_axis_shape rest = {
        .outer = 1, .n = (s->samples - last * s->piece) * positions, .inner = s->channels};
    LK_TRY(lk_reduce_axis(s->dtype, LK_REDUCE_AXIS_SUM, &equal, x, out));
    LK_TRY(lk_reduce_axis(s->dtype, LK_REDUCE_AXIS_SUM, &rest, x + last * equal.n * row,
                          out + last * row));
    return LK_OK;
}

lk_status lk__leaf_sum(const lk__leaf_sums *s, const void *x, void *room, void *out)
{
    int64_t bytes = s->channels * (int64_t)lk_dtype_size(s->dtype), pieces = lk__leaf_pieces(s);
    char *to = out;
    if (pieces == 0)
        return LK_OK;
    for (int64_t i = 0; i < s->leaves; i++, to += pieces * bytes) {
        const lk_box *leaf = &s->leaf[i];
        const void *rows = x;
        int64_t positions = lk_box_count(leaf);
        if (positions == 0) {
            memset(to, 0, (size_t)(pieces * bytes));
            continue;
        }
        if (!is_dense(s, leaf)) {
            lk__tile_pack(x, s->box, leaf, s->samples, bytes, room);
            rows = room;
        }
        LK_TRY(rows_sum(s, positions, rows, to));
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
