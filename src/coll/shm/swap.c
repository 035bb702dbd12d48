/* Swap: private buffers pass through stages, segment by segment, two of them under way.
 *
 *     area of rank i, stage s % 2    [cell for rank 0] [cell for rank 1] ...
 *
 *     time t    swap   rank i takes the sums of segment t - 1 out of its cells, and in the same pass
 *                      puts its values of segment t + 1 in; posts `put`
 *               join   rank j joins the cells for j of all rank areas (segment t), and leaves the sum in
 *                      each; posts `got`
 *
 * Both load and store every line they touch, so lines move between the two caches and are never shared,
 * which would make the next store to them slow.
 */
#include "coll/shm/swap.h"

#include <string.h>

enum { DEPTH = 2, BLOCK = 2048 };

/* Elements of a cell, and of a segment: a cell for every rank. */
static int64_t cell_of(const lk__shm_call *c)
{
    return (int64_t)LK_STAGE_BYTES / c->area->n / 64 * 64 / c->elem;
}

static int64_t segments_of(const lk__shm_call *c)
{
    int64_t segment = cell_of(c) * c->area->n;
    return (c->count + segment - 1) / segment;
}

/* The part of segment s that rank j joins. */
static lk_range part_of(const lk__shm_call *c, int64_t s, int j)
{
    int n = c->area->n;
    int64_t segment = cell_of(c) * n, from = s * segment;
    int64_t m = c->count - from < segment ? c->count - from : segment, line = 64 / c->elem;
    int64_t each = ((m + n - 1) / n + line - 1) / line * line;
    int64_t at = each * j < m ? each * j : m;
    return (lk_range){from + at, m - at < each ? m - at : each};
}

static unsigned char *cell(const lk__shm_call *c, int64_t s, int i, int j)
{
    int64_t stage = (int64_t)((c->area->stages + (uint64_t)s) % DEPTH);
    return c->area->rank[i]->stage + stage * LK_STAGE_BYTES + j * cell_of(c) * c->elem;
}

/* Sums of segment `before` out of the cell for rank j, values of segment `s` into it. */
static void swap_cell(lk__shm_call *c, int64_t before, int64_t s, int j)
{
    _Alignas(64) unsigned char room[BLOCK];
    int64_t n_segments = segments_of(c);
    lk_range get = {0}, put = {0};
    if (before >= 0 && before < n_segments)
        get = part_of(c, before, j);
    if (s < n_segments)
        put = part_of(c, s, j);
    unsigned char *at = cell(c, s, c->area->me, j), *to = c->out + get.first * c->elem;
    const unsigned char *from = c->in + put.first * c->elem;
    int64_t get_n = get.n * c->elem, put_n = put.n * c->elem;
    for (int64_t i = 0; i < get_n || i < put_n; i += BLOCK) {
        int64_t g = get_n - i < BLOCK ? get_n - i : BLOCK,
                p = put_n - i < BLOCK ? put_n - i : BLOCK;
        if (g > 0)
            memcpy(room, at + i, (size_t)g);
        if (p > 0)
            memcpy(at + i, from + i, (size_t)p);
        else if (g > 0)
            memset(at + i, 0, (size_t)g);
        if (g > 0)
            memcpy(to + i, room, (size_t)g);
    }
}

static lk_status join_segment(lk__shm_call *c, int64_t s)
{
    lk__shm_area *a = c->area;
    lk_range part = part_of(c, s, a->me);
    lk__eval e;
    lk__shm_area_eval(c, a->n, true, &e);
    if (part.n == 0)
        return LK_OK;
    unsigned char *own = c->out + part.first * c->elem;
    if (c->in != c->out)
        memcpy(own, c->in + part.first * c->elem, (size_t)(part.n * c->elem));
    for (int i = 0; i < a->n; i++)
        e.leaf[i] = e.out[i] = i == a->me ? own : cell(c, s, i, a->me);
    return lk__program_run(&e, 0, part.n);
}

void lk__swap_begin(lk__shm_call *c)
{
    c->segment = -1;
    c->next = 1;
}

/* Time t, first half: the cells for all others, in turn from the next rank on. */
static lk_status swap_cells(lk__shm_call *c, int64_t t, bool *done)
{
    lk__shm_area *a = c->area;
    int64_t n = segments_of(c), s = t + 1, before = s - DEPTH;
    bool gets = before >= 0 && before < n;
    for (; c->next < a->n && (gets || s < n); c->next++) {
        int j = (a->me + c->next) % a->n;
        bool reached = true;
        if (gets)
            LK_TRY(lk__shm_area_reached(c, j, &a->rank[j]->got.value,
                                        a->stages + (uint64_t)before + 1, &reached));
        if (!reached)
            return LK_OK;
        swap_cell(c, before, s, j);
    }
    if (s < n)
        lk__shm_area_publish(c, &a->rank[a->me]->put.value, a->stages + (uint64_t)s + 1);
    *done = true;
    return LK_OK;
}

/* Second half: all have put segment t. */
static lk_status swap_join(lk__shm_call *c, int64_t t, bool *done)
{
    lk__shm_area *a = c->area;
    for (; t >= 0 && t < segments_of(c) && c->next < 2 * a->n; c->next++) {
        int j = c->next - a->n;
        bool reached = true;
        if (j != a->me)
            LK_TRY(lk__shm_area_reached(c, j, &a->rank[j]->put.value, a->stages + (uint64_t)t + 1,
                                        &reached));
        if (!reached)
            return LK_OK;
    }
    if (t >= 0 && t < segments_of(c)) {
        LK_TRY(join_segment(c, t));
        lk__shm_area_publish(c, &a->rank[a->me]->got.value, a->stages + (uint64_t)t + 1);
    }
    *done = true;
    return LK_OK;
}

/* c->next is below n in the first half of a time, and from n on in the second. */
lk_status lk__swap_advance(lk__shm_call *c, bool *end)
{
    int n = c->area->n;
    int64_t last = segments_of(c) + DEPTH - 1;
    *end = false;
    for (; c->segment < last; c->segment++) {
        bool done = false;
        if (c->next < n) {
            LK_TRY(swap_cells(c, c->segment, &done));
            if (!done)
                return LK_OK;
            c->next = n;
        }
        done = false;
        LK_TRY(swap_join(c, c->segment, &done));
        if (!done)
            return LK_OK;
        c->next = 1;
    }
    c->area->stages += (uint64_t)segments_of(c);
    *end = true;
    return LK_OK;
}
