/* Plan a pass: classes of every axis, blocks of channels, strips of positions. */
#include "kernel/conv/pass.h"

#include <lockstep/extra/alloc.h>

#include <string.h>

/* Input of a chunk of samples: as much as stays in the second-level cache. */
enum { CHUNK_BYTES = 400 * 1024, CHUNK_MAX = 16 };

/* Input and output of a strip: so much that both stay in the second-level cache next to a block of
 * the panel, while all blocks pass by. */
enum { STRIP_BYTES = 192 * 1024, TILES_MIN = 4, TILES_MAX = 32 };

/* A block of the panel up to this size stays in the first-level cache. */
enum { NEAR_BYTES = 16 * 1024 };

/* Channels of a depthwise convolution that are computed together. */
enum { DEPTHWISE_BLOCK = 64 };

/* The width of the next block when `left` channels are left.  A block whose panel is close by does
 * best as wide as it can be, if that leaves no sliver behind. */
static int width_pick(const lk__conv_pass *p, int64_t left)
{
    const lk__rows_type *rows = p->rows;
    int64_t wide = rows->width[rows->close], usual = rows->width[rows->usual];
    bool close = p->taps * p->a_group <= NEAR_BYTES / (wide * p->elem);
    return close && (left == wide || left > 2 * usual) ? rows->close : lk__rows_pick(rows, left);
}

/* Cut the channels of a group of C into blocks. */
static lk_status blocks_make(lk__conv_pass *p)
{
    int usual = p->depthwise ? DEPTHWISE_BLOCK : p->rows->width[p->rows->usual];
    LK_TRY(lk_alloc(&p->block, p->c_group / usual + 1, sizeof *p->block));
    for (int64_t column = 0; column < p->c_group; p->n_blocks++) {
        int64_t left = p->c_group - column;
        int pick = p->depthwise ? 0 : width_pick(p, left);
        int width = p->depthwise ? DEPTHWISE_BLOCK : p->rows->width[pick];
        p->block[p->n_blocks] = (lk__conv_block){
            .column = column, .n_valid = left < width ? (int)left : width, .pick = pick};
        column += width;
    }
    return LK_OK;
}

/* Blocks lie one behind the other, all but the last without a gap. */
static lk_status panel_make(lk__conv_pass *p)
{
    const lk__conv_block *last = &p->block[p->n_blocks - 1];
    int64_t k = p->taps * p->a_group; /* no more than W has */
    int64_t columns = last->column + p->rows->width[last->pick], panel;
    LK_CHECK(!__builtin_mul_overflow(k, columns, &p->group_panel) &&
                 !__builtin_mul_overflow(p->group_panel, p->groups, &panel),
             LK_EOVERFLOW, "packed weights have %lld groups, %lld rows, %lld columns",
             (long long)p->groups, (long long)k, (long long)columns);
    for (int64_t b = 0; b < p->n_blocks; b++)
        p->block[b].panel = p->block[b].column * k;
    return LK_TRACE(lk_alloc(&p->panel, panel, (size_t)p->elem));
}

/* Positions of region r in one sample. */
static int64_t region_size(const lk__conv_pass *p, int64_t r)
{
    int64_t n = 1;
    for (int d = LK_CONV_AXES - 1; d >= 0; d--) {
        n *= p->axis[d].classes[r % p->axis[d].n_classes].n;
        r /= p->axis[d].n_classes;
    }
    return n;
}

/* Positions of a strip: whole tiles. */
static int64_t strip_size(const lk__conv_pass *p)
{
    if (p->depthwise)
        return LK_CONV_STRIP;
    int64_t mr = p->rows->mr[p->block[0].pick];
    int64_t tiles = STRIP_BYTES / ((p->a_group + p->c_group) * p->elem * mr);
    tiles = tiles < TILES_MIN ? TILES_MIN : tiles > TILES_MAX ? TILES_MAX : tiles;
    return tiles * mr <= LK_CONV_STRIP ? tiles * mr : LK_CONV_STRIP / mr * mr;
}

static lk_status strips_make(lk__conv_pass *p, int64_t a_sample_bytes)
{
    p->chunk = a_sample_bytes > CHUNK_BYTES ? 1 : CHUNK_BYTES / (a_sample_bytes + 1);
    if (p->chunk > CHUNK_MAX)
        p->chunk = CHUNK_MAX;
    if (p->chunk > p->batch)
        p->chunk = p->batch;
    p->n_chunks = (p->batch + p->chunk - 1) / p->chunk;

    p->strip = strip_size(p);
    p->n_regions = p->axis[0].n_classes * p->axis[1].n_classes * p->axis[2].n_classes;
    LK_TRY(lk_alloc(&p->strips, p->n_regions + 1, sizeof *p->strips));
    p->strips[0] = 0;
    for (int64_t r = 0; r < p->n_regions; r++)
        p->strips[r + 1] = p->strips[r] + (region_size(p, r) * p->chunk + p->strip - 1) / p->strip;
    return LK_OK;
}

/* The depthwise micro-kernel, or NULL where it does not fit. */
static lk_status depthwise_find(const lk__conv_shape *s, lk__depthwise_fn **out)
{
    *out = NULL;
    if (s->groups == 1 || s->group_in != 1 || s->group_out != 1)
        return LK_OK;
    const lk__depthwise_table *table = NULL;
    LK_TRY(lk__depthwise_get(&table));
    *out = table->of[s->dtype];
    return LK_OK;
}

static lk_status pass_fill(lk__conv_pass *p, const lk__conv_shape *s, bool data)
{
    const lk__rows_table *table = NULL;
    LK_TRY(lk__rows_get(&table));
    LK_TRY(depthwise_find(s, &p->depthwise));
    const int64_t *a_size = data ? s->out : s->in;
    bool a_empty = (data ? s->y_extent : s->x_extent) == 0;
    p->rows = &table->of[s->dtype];
    p->transposed = data;
    p->elem = s->elem;
    p->batch = s->batch;
    p->groups = p->depthwise ? 1 : s->groups;
    p->a_sample = data ? s->y_sample : s->x_sample;
    p->c_sample = data ? s->x_sample : s->y_sample;
    p->a_group = a_empty ? 0 : data ? s->group_out : s->group_in;
    p->c_group = p->depthwise ? s->groups : data ? s->group_in : s->group_out;
    p->taps = s->taps;
    for (int d = 0; d < LK_CONV_AXES; d++)
        LK_TRY(data ? lk__conv_axis_data(s, d, &p->axis[d])
                    : lk__conv_axis_forward(s, d, &p->axis[d]));
    LK_TRY(blocks_make(p));
    if (!p->depthwise)
        LK_TRY(panel_make(p));
    int64_t a_bytes = a_empty ? 0 : (data ? s->out_channels : s->in_channels) * s->elem;
    for (int d = 0; d < LK_CONV_AXES && !a_empty; d++)
        a_bytes *= a_size[d];
    return LK_TRACE(strips_make(p, a_bytes));
}

lk_status lk__conv_pass_new(const lk__conv_shape *s, bool data, lk__conv_pass **out)
{
    *out = NULL;
    lk__conv_pass *p;
    LK_TRY(lk_alloc_zero(&p, 1, sizeof *p));
    lk_status st;
    LK_TRY_TO(failed, pass_fill(p, s, data));
    *out = p;
    return LK_OK;
failed:
    lk__conv_pass_free(p);
    return st;
}

void lk__conv_pass_free(lk__conv_pass *pass)
{
    if (!pass)
        return;
    for (int d = 0; d < LK_CONV_AXES; d++)
        lk__conv_axis_free(&pass->axis[d]);
    lk_free(pass->block);
    lk_free(pass->panel);
    lk_free(pass->strips);
    lk_free(pass);
}

lk_status lk__conv_pass_ready(const lk__conv_shape *s, bool data, lk__conv_pass **pass)
{
    const lk__rows_table *table = NULL;
    LK_TRY(lk__rows_get(&table));
    if (*pass && (*pass)->rows == &table->of[s->dtype])
        return LK_OK;
    lk__conv_pass_free(*pass);
    return LK_TRACE(lk__conv_pass_new(s, data, pass));
}

int64_t lk__conv_pass_tap(const lk__conv_pass *p, int64_t place)
{
    const lk__conv_axis *axis = p->axis;
    int64_t j2 = place % axis[2].n_taps;
    int64_t j1 = place / axis[2].n_taps % axis[1].n_taps;
    int64_t j0 = place / axis[2].n_taps / axis[1].n_taps;
    return (axis[0].order[j0] * axis[1].n_taps + axis[1].order[j1]) * axis[2].n_taps +
           axis[2].order[j2];
}
