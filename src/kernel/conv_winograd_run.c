/* Run a pass by Winograd's algorithm: blocks of tiles, each transformed, multiplied and transformed
 * back by one worker in its room. */
#include "kernel/conv_winograd.h"
#include "kernel/parallel.h"

#include <stdatomic.h>

/* Panels that are multiplied together stay in the first-level cache. */
enum { NEAR_BYTES = 16 * 1024 };

typedef struct run {
    const lk__wino_pass *p;
    const lk__conv_call *call;
    _Atomic int64_t next; /* block */
} run;

/* Where a tile is: its sample, and its first position of C. */
typedef struct place {
    int64_t sample, at[2];
} place;

static place tile_place(const lk__wino_pass *p, int64_t tile)
{
    int64_t column = tile % p->tiles[1], row = tile / p->tiles[1];
    return (place){.sample = row / p->tiles[0],
                   .at = {row % p->tiles[0] * LK_WINO_OUT, column * LK_WINO_OUT}};
}

static void tile_read(const lk__wino_pass *p, const char *a, place t, lk__wino_input *args)
{
    const lk__wino_side *s = &p->a;
    int64_t y = t.at[0] - p->pad[0], x = t.at[1] - p->pad[1];
    for (int r = 0; r < LK_WINO_IN; r++) {
        bool in_row = y + r >= 0 && y + r < s->size[0];
        int64_t row = in_row ? t.sample * s->sample + (y + r) * s->step[0] : 0;
        for (int c = 0; c < LK_WINO_IN; c++) {
            bool inside = in_row && x + c >= 0 && x + c < s->size[1];
            args->at[LK_WINO_IN * r + c] = inside ? a + (row + (x + c) * s->step[1]) * p->elem
                                                  : p->nothing;
        }
    }
    p->micro->input(args);
}

static int at_most_out(int64_t left)
{
    return left < LK_WINO_OUT ? (int)left : LK_WINO_OUT;
}

/* Apply the activation to a tile, in as long runs as there are. */
static void tile_activate(const lk__wino_pass *p, lk__act_fn *act, const lk__wino_output *t)
{
    bool dense = t->c_col == t->n;
    for (int r = 0; r < t->rows; r++)
        for (int s = 0; s < (dense ? 1 : t->cols); s++)
            act((char *)t->c + (r * t->c_row + s * t->c_col) * p->elem,
                dense ? t->cols * t->n : t->n);
}

static void tile_write(const lk__wino_pass *p, const lk__conv_call *call, place t,
                       lk__wino_output *args)
{
    const lk__wino_side *s = &p->c;
    args->c = (char *)call->c +
              (t.sample * s->sample + t.at[0] * s->step[0] + t.at[1] * s->step[1]) * p->elem;
    args->rows = at_most_out(s->size[0] - t.at[0]);
    args->cols = at_most_out(s->size[1] - t.at[1]);
    p->micro->output(args);
    if (call->act)
        tile_activate(p, call->act, args);
}

/* n rows of the panels of the strip's width, as many at a time as are close by. */
static void panels_multiply(const lk__wino_pass *p, lk__strip_args t, int64_t n)
{
    const int64_t mr = p->cross->mr, nr = p->cross->width[0], full = n / mr, rest = n % mr;
    const int64_t panel_bytes = t.k * nr * p->elem;
    const char *a = t.a, *w = t.w;
    char *c = t.c;
    int64_t group = panel_bytes == 0 ? p->n_panels : NEAR_BYTES / panel_bytes;
    group = group < 1 ? 1 : group;
    for (int64_t i = 0; i < p->n_panels; i += group) {
        t.n_panels = p->n_panels - i < group ? p->n_panels - i : group;
        t.a = a;
        t.w = w + i * panel_bytes;
        t.c = c + i * nr * p->elem;
        t.n_tiles = full;
        p->cross->strip[mr](&t);
        if (rest > 0) {
            t.a = a + full * mr * t.lda * p->elem;
            t.c = (char *)t.c + full * mr * t.ldc * p->elem;
            t.n_tiles = 1;
            p->cross->strip[rest](&t);
        }
    }
}

/* n rows of the last panel, if it is narrower. */
static void tail_multiply(const lk__wino_pass *p, const lk__strip_args *s, int64_t n)
{
    const int64_t column = p->n_panels * p->cross->width[0], mr = p->rows->mr[p->tail_pick];
    const int width = p->rows->width[p->tail_pick];
    const lk__segment seg = {.len = s->k};
    int64_t a_off[LK_MICRO_MR], c_off[LK_MICRO_MR];
    for (int m = 0; m < LK_MICRO_MR; m++) {
        a_off[m] = m * s->lda;
        c_off[m] = m * s->ldc;
    }
    lk__rows_args t = {.seg = &seg,
                       .n_seg = s->k > 0,
                       .a_off = a_off,
                       .w = (const char *)s->w + column * s->k * p->elem,
                       .ldw = width,
                       .c_off = c_off,
                       .start = LK_START_ZERO,
                       .n_valid = width,
                       .w_packed = true};
    for (int64_t m = 0; m < n; m += mr) {
        t.a = (const char *)s->a + m * s->lda * p->elem;
        t.c = (char *)s->c + (m * s->ldc + column) * p->elem;
        p->rows->tile[p->tail_pick][n - m < mr ? n - m : mr](&t);
    }
}

/* Tiles q ... q + n - 1. */
static void block_run(const run *r, char *room, int64_t q, int64_t n)
{
    const lk__wino_pass *p = r->p;
    char *v = room, *m = room + LK_WINO_PARTS * p->v_step * p->elem;
    lk__wino_input in = {.n = p->a.channels, .step = p->v_step};
    for (int64_t i = 0; i < n; i++) {
        in.v = v + i * p->lda * p->elem;
        tile_read(p, r->call->a, tile_place(p, q + i), &in);
    }
    for (int c = 0; c < LK_WINO_PARTS; c++) {
        lk__strip_args t = {.a = v + c * p->v_step * p->elem,
                            .lda = p->lda,
                            .k = p->a.channels,
                            .w = (const char *)p->u + c * p->u_step * p->elem,
                            .start = LK_START_ZERO,
                            .c = m + c * p->m_step * p->elem,
                            .ldc = p->ldc};
        panels_multiply(p, t, n);
        if (p->tail > 0)
            tail_multiply(p, &t, n);
    }
    lk__wino_output out = {.step = p->m_step,
                           .n = p->c.channels,
                           .c_row = p->c.step[0],
                           .c_col = p->c.step[1],
                           .start = r->call->start,
                           .bias = r->call->bias};
    for (int64_t i = 0; i < n; i++) {
        out.m = m + i * p->ldc * p->elem;
        tile_write(p, r->call, tile_place(p, q + i), &out);
    }
}

/* Task: with one room, blocks as long as there are any. */
static void run_rooms(void *arg, int64_t first, int64_t last)
{
    run *r = arg;
    const lk__wino_pass *p = r->p;
    for (int64_t i = first; i < last; i++)
        for (;;) {
            int64_t q = atomic_fetch_add(&r->next, 1) * p->block;
            if (q >= p->n_tiles)
                break;
            block_run(r, p->room + i * p->room_size, q,
                      p->n_tiles - q < p->block ? p->n_tiles - q : p->block);
        }
}

lk_status lk__wino_pass_run(lk__wino_pass *pass, const lk__conv_call *call)
{
    run r = {.p = pass, .call = call};
    LK_TRY(lk__parallel(pass->n_rooms, 1, run_rooms, &r));
    return LK_OK;
}
