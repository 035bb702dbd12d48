/* A strip on the rows micro-kernel: its taps as segments, its positions in tiles. */
#include "kernel/ahead.h"
#include "kernel/conv/run.h"

/* Segments of one call of the micro-kernel.  A longer list is cut, which changes no bit. */
enum { MAX_SEGMENTS = 128 };

/* The segments of the taps from `*tap` on, neighbours in A and in the panel merged.  Advances
 * `*tap` by those that fit and returns how many segments they make. */
static int segments_fill(const lk__conv_strip *s, int64_t *tap, lk__segment *seg)
{
    int64_t len = s->pass->a_group, before = 0;
    int n = 0;
    for (; *tap < s->n_taps; ++*tap) {
        lk__conv_tap t = lk__conv_strip_tap(s, *tap);
        int64_t row = t.place * len;
        if (n > 0 && t.a == before + seg[n - 1].len && row == seg[n - 1].w_row + seg[n - 1].len) {
            seg[n - 1].len += len;
            continue;
        }
        if (n == MAX_SEGMENTS)
            break;
        seg[n++] = (lk__segment){.step = t.a - before, .len = len, .w_row = row};
        before = t.a;
    }
    return n;
}

/* The largest tile.  Rows of A that lie a multiple of a page apart share a set of the first-level cache, which
 * has 8 places. */
static int rows_max(const lk__conv_strip *s, int pick)
{
    enum { PAGE = 4096, WAYS = 8 };
    int mr = s->pass->rows->mr[pick];
    bool crowded = s->n > 1 && (s->a_off[1] - s->a_off[0]) * s->pass->elem % PAGE == 0;
    return crowded && mr > WAYS ? WAYS : mr;
}

/* Ask for the rows of A, by one tap, of the tile from position m on. */
static void rows_ask(const lk__conv_strip *s, const char *a, int64_t m, int64_t n)
{
    const lk__conv_pass *p = s->pass;
    for (int64_t end = m + n < s->n ? m + n : s->n; m < end; m++)
        lk__ask(a + s->a_off[m] * p->elem, p->a_group * p->elem);
}

void lk__conv_run_rows(const lk__conv_strip *s, const lk__conv_call *call, int64_t first,
                       int64_t last)
{
    const lk__conv_pass *p = s->pass;
    int64_t channel = s->group * p->c_group, tap = 0;
    /* The last tap is ahead of the others: what it reads no tile before has read.  Rows that share lines
     * are dense enough for the processor to ask by itself. */
    enum { LINE = 64 };
    const bool asks = s->n_taps > 0 && p->a_group * p->elem >= LINE;
    const int64_t last_tap = asks ? lk__conv_strip_tap(s, s->n_taps - 1).a : 0;
    lk__segment seg[MAX_SEGMENTS];
    lk__rows_args t = {.seg = seg, .start = call->start, .w_packed = true};
    t.a = (const char *)call->a + (s->sample * p->a_sample + s->group * p->a_group) * p->elem;
    do {
        t.n_seg = segments_fill(s, &tap, seg);
        for (int64_t i = first; i < last; i++) {
            const lk__conv_block *b = &p->block[i];
            t.w = (const char *)p->panel + (s->group * p->group_panel + b->panel) * p->elem;
            t.ldw = p->rows->width[b->pick];
            t.c = (char *)call->c + (s->sample * p->c_sample + channel + b->column) * p->elem;
            t.bias = call->bias ? (const char *)call->bias + (channel + b->column) * p->elem : NULL;
            t.n_valid = b->n_valid;
            /* Tiles of as even a size as they can be: small ones are slow. */
            int64_t most = rows_max(s, b->pick), n_tiles = (s->n + most - 1) / most;
            int64_t low = s->n / n_tiles, n_high = s->n % n_tiles;
            for (int64_t k = 0, m = 0, n; k < n_tiles; k++, m += n) {
                n = low + (k < n_high);
                t.a_off = s->a_off + m;
                t.c_off = s->c_off + m;
                if (asks && i == first)
                    rows_ask(s, (const char *)t.a + last_tap * p->elem, m + n, n);
                p->rows->tile[b->pick][n](&t);
            }
        }
        t.start = LK_START_C;
    } while (tap < s->n_taps);
}
