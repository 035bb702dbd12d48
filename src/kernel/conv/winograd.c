/* Plan a pass by Winograd's algorithm: tiles, panels, blocks, and room for each worker. */
#include "kernel/conv/winograd.h"

#include "kernel/runtime/parallel.h"

#include <lockstep/extra/alloc.h>

/* The transformed input and the products of a block: as much as stays in the second-level cache
 * while the weights stream past. */
enum { BLOCK_BYTES = 192 * 1024, LINE_BYTES = 64, TILES_MAX = 96 };

/* Axis 0 of a shape is before the two of the image. */
static lk__wino_side side_of(int64_t channels, const int64_t *size, int64_t sample,
                             const int64_t *step)
{
    return (lk__wino_side){.channels = channels,
                           .size = {size[1], size[2]},
                           .sample = sample,
                           .step = {step[1], step[2]}};
}

/* The panels: whole ones for the strip, then what is left in the narrowest that holds it. */
static lk_status panels_make(lk__wino_pass *p)
{
    int nr = p->cross->width[0];
    int64_t line = LINE_BYTES / p->elem, all;
    p->n_panels = p->c.channels / nr;
    p->tail = p->c.channels % nr;
    p->ldc = p->n_panels * nr;
    if (p->tail > 0) {
        p->tail_pick = lk__rows_pick(p->rows, p->tail);
        p->ldc += p->rows->width[p->tail_pick];
    }
    LK_CHECK(!__builtin_mul_overflow(p->a.channels, p->ldc, &p->u_step) &&
                 !__builtin_add_overflow(p->u_step, line, &p->u_step) &&
                 !__builtin_mul_overflow(p->u_step, LK_WINO_PARTS, &all),
             LK_EOVERFLOW, "transformed weights have %lld rows, %lld columns",
             (long long)p->a.channels, (long long)p->ldc);
    LK_TRY(lk_alloc(&p->u, all, (size_t)p->elem));
    return LK_TRACE(lk_alloc_zero(&p->nothing, p->a.channels, (size_t)p->elem));
}

static int64_t round_up(int64_t n, int64_t to)
{
    return (n + to - 1) / to * to;
}

/* Tiles of a block: whole tiles of the micro-kernel, and some blocks for each thread. */
static int64_t block_size(const lk__wino_pass *p, int64_t bytes)
{
    int64_t mr = p->cross->mr, most = round_up((p->n_tiles + p->threads - 1) / p->threads, mr);
    int64_t n = BLOCK_BYTES / bytes / mr * mr;
    n = n < mr ? mr : n > TILES_MAX ? TILES_MAX / mr * mr : n;
    return n < most ? n : most;
}

/* Steps between components are odd numbers of lines where rows are short, so that the components of
 * one tile do not share a set of the first-level cache. */
static lk_status rooms_make(lk__wino_pass *p)
{
    int64_t line = LINE_BYTES / p->elem, bytes, one;
    p->lda = round_up(p->a.channels, line);
    LK_CHECK(!__builtin_add_overflow(p->lda, p->ldc, &bytes) &&
                 !__builtin_mul_overflow(bytes, LK_WINO_PARTS * p->elem, &bytes),
             LK_EOVERFLOW, "a tile has %lld and %lld channels", (long long)p->a.channels,
             (long long)p->c.channels);
    p->block = block_size(p, bytes);
    p->v_step = p->block * p->lda + line;
    p->m_step = round_up(p->block * p->ldc, line) + line;
    LK_CHECK(!__builtin_mul_overflow(p->v_step + p->m_step, LK_WINO_PARTS * p->elem, &p->room_size),
             LK_EOVERFLOW, "a block has %lld tiles of %lld and %lld channels", (long long)p->block,
             (long long)p->a.channels, (long long)p->c.channels);
    int64_t blocks = (p->n_tiles + p->block - 1) / p->block;
    p->n_rooms = blocks < p->threads ? (int)blocks : p->threads;
    LK_CHECK(!__builtin_mul_overflow(p->room_size, p->n_rooms, &one), LK_EOVERFLOW,
             "%d threads need %lld bytes each", p->n_rooms, (long long)p->room_size);
    return LK_TRACE(lk_alloc(&p->room, one, 1));
}

static lk_status pass_fill(lk__wino_pass *p, const lk__conv_shape *s, bool data)
{
    const lk__wino_table *wino = NULL;
    const lk__cross_table *cross = NULL;
    const lk__rows_table *rows = NULL;
    LK_TRY(lk__wino_get(&wino));
    LK_TRY(lk__cross_get(&cross));
    LK_TRY(lk__rows_get(&rows));
    LK_TRY(lk_threads_now(&p->threads));
    p->micro = &wino->of[s->dtype];
    p->cross = &cross->of[s->dtype];
    p->rows = &rows->of[s->dtype];
    p->elem = s->elem;
    p->transposed = data;
    lk__wino_side x = side_of(s->in_channels, s->in, s->x_sample, s->x_step);
    lk__wino_side y = side_of(s->out_channels, s->out, s->y_sample, s->y_step);
    p->a = data ? y : x;
    p->c = data ? x : y;
    p->n_tiles = s->batch;
    for (int d = 0; d < 2; d++) {
        p->pad[d] = data ? s->window.kernel[d + 1] - 1 - s->window.pad_lo[d + 1]
                         : s->window.pad_lo[d + 1];
        p->tiles[d] = (p->c.size[d] + LK_WINO_OUT - 1) / LK_WINO_OUT;
        p->n_tiles *= p->tiles[d]; /* no more than C has positions */
    }
    LK_TRY(panels_make(p));
    return LK_TRACE(rooms_make(p));
}

lk_status lk__wino_pass_ready(const lk__conv_shape *s, bool data, lk__wino_pass **pass)
{
    const lk__wino_table *wino = NULL;
    int threads;
    LK_TRY(lk__wino_get(&wino));
    LK_TRY(lk_threads_now(&threads));
    if (*pass && (*pass)->micro == &wino->of[s->dtype] && (*pass)->threads == threads)
        return LK_OK;
    lk__wino_pass_free(*pass);
    *pass = NULL;
    lk__wino_pass *p;
    LK_TRY(lk_alloc_zero(&p, 1, sizeof *p));
    lk_status st;
    LK_TRY_TO(failed, pass_fill(p, s, data));
    *pass = p;
    return LK_OK;
failed:
    lk__wino_pass_free(p);
    return st;
}

void lk__wino_pass_free(lk__wino_pass *pass)
{
    if (!pass)
        return;
    lk_free(pass->u);
    lk_free(pass->nothing);
    lk_free(pass->room);
    lk_free(pass);
}
