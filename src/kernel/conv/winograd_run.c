/* Run a pass by Winograd's algorithm: blocks of tiles, each transformed, multiplied and transformed
 * back by one worker in its room. */
#include "kernel/ahead.h"
#include "kernel/conv/winograd.h"
#include "kernel/runtime/parallel.h"

#include <stdatomic.h>

/* Panels that are multiplied together stay in the first-level cache.  All of them stay in the second if they
 * are no more than CLOSE_BYTES; otherwise they come from further away, and nothing else may delay them. */
enum { NEAR_BYTES = 16 * 1024, CLOSE_BYTES = 640 * 1024 };

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

/* The tile behind `t`. */
static void place_move(const lk__wino_pass *p, place *t)
{
    t->at[1] += LK_WINO_OUT;
    if (t->at[1] < p->c.size[1])
        return;
    t->at[1] = 0;
    t->at[0] += LK_WINO_OUT;
    if (t->at[0] < p->c.size[0])
        return;
    t->at[0] = 0;
    t->sample++;
}

/* Ask for the 4x4 positions of a side from (y, x) on, as far as they exist. */
static void positions_ask(const lk__wino_pass *p, const lk__wino_side *s, const char *from,
                          int64_t sample, int64_t y, int64_t x)
{
    const int64_t left = x < 0 ? 0 : x, top = y < 0 ? 0 : y;
    const int64_t right = x + LK_WINO_OUT < s->size[1] ? x + LK_WINO_OUT : s->size[1];
    const int64_t end = y + LK_WINO_OUT < s->size[0] ? y + LK_WINO_OUT : s->size[0];
    const int64_t bytes = (right - left) * s->step[1] * p->elem;
    for (int64_t i = top; i < end; i++)
        lk__ask(from + (sample * s->sample + i * s->step[0] + left * s->step[1]) * p->elem, bytes);
}

/* Ask for what a tile writes. */
static void tile_ask_c(const run *r, const place *t)
{
    positions_ask(r->p, &r->p->c, r->call->c, t->sample, t->at[0], t->at[1]);
}

/* Ask for what a tile reads and those to the left and above have not: all but two columns and rows. */
static void tile_ask_a(const run *r, const place *t)
{
    enum { SHARED = LK_WINO_IN - LK_WINO_OUT };
    positions_ask(r->p, &r->p->a, r->call->a, t->sample, t->at[0] + SHARED - r->p->pad[0],
                  t->at[1] + SHARED - r->p->pad[1]);
}

static void tile_read(const lk__wino_pass *p, const char *a, place t, lk__wino_input *args)
{
    const lk__wino_side *s = &p->a;
    const int64_t y = t.at[0] - p->pad[0], x = t.at[1] - p->pad[1];
    int64_t column[LK_WINO_IN]; /* bytes from the first of a row, or -1 for none */
    for (int c = 0; c < LK_WINO_IN; c++)
        column[c] = x + c >= 0 && x + c < s->size[1] ? (x + c) * s->step[1] * p->elem : -1;
    for (int r = 0; r < LK_WINO_IN; r++) {
        const bool in_row = y + r >= 0 && y + r < s->size[0];
        const char *row = in_row ? a + (t.sample * s->sample + (y + r) * s->step[0]) * p->elem : a;
        for (int c = 0; c < LK_WINO_IN; c++)
            args->at[LK_WINO_IN * r + c] = in_row && column[c] >= 0 ? row + column[c] : p->nothing;
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

/* The products of n tiles from q on, one component after the other.  Where memory is idle meanwhile, it is
 * asked for what these tiles write and for what the next n read. */
static void block_multiply(const run *r, char *v, char *m, int64_t q, int64_t n)
{
    const lk__wino_pass *p = r->p;
    const int64_t n_next = p->n_tiles - q - n < n ? p->n_tiles - q - n : n;
    const bool idle = LK_WINO_PARTS * p->u_step * p->elem <= CLOSE_BYTES;
    place here = tile_place(p, q), next = tile_place(p, q + n);
    for (int64_t c = 0, i = 0; c < LK_WINO_PARTS; c++) {
        lk__strip_args t = {.a = v + c * p->v_step * p->elem,
                            .lda = p->lda,
                            .k = p->a.channels,
                            .w = (const char *)p->u + c * p->u_step * p->elem,
                            .start = LK_START_ZERO,
                            .c = m + c * p->m_step * p->elem,
                            .ldc = p->ldc};
        for (; idle && i * LK_WINO_PARTS < (c + 1) * n; i++) {
            tile_ask_c(r, &here);
            if (i < n_next)
                tile_ask_a(r, &next);
            place_move(p, &here);
            place_move(p, &next);
        }
        panels_multiply(p, t, n);
        if (p->tail > 0)
            tail_multiply(p, &t, n);
    }
}

/* Tiles q ... q + n - 1. */
static void block_run(const run *r, char *room, int64_t q, int64_t n)
{
    const lk__wino_pass *p = r->p;
    char *v = room, *m = room + LK_WINO_PARTS * p->v_step * p->elem;
    const place first = tile_place(p, q);
    lk__wino_input in = {.n = p->a.channels, .step = p->v_step};
    place t = first;
    for (int64_t i = 0; i < n; i++) {
        in.v = v + i * p->lda * p->elem;
        tile_read(p, r->call->a, t, &in);
        place_move(p, &t);
    }
    block_multiply(r, v, m, q, n);
    lk__wino_output out = {.step = p->m_step,
                           .n = p->c.channels,
                           .c_row = p->c.step[0],
                           .c_col = p->c.step[1],
                           .start = r->call->start,
                           .bias = r->call->bias};
    t = first;
    for (int64_t i = 0; i < n; i++) {
        out.m = m + i * p->ldc * p->elem;
        tile_write(p, r->call, t, &out);
        place_move(p, &t);
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
    return LK_TRACE(lk__parallel(lk__tasks_long(pass->n_rooms), run_rooms, &r));
}
