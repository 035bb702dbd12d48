/* The arithmetic of <lockstep/pieces.h>: ranges, shards, tiles, blocks, boxes and the fixed tree of
 * a sum.  Pure functions of their arguments, which every room that cuts work asks. */
#include "base/integer.h"

#include <lockstep/pieces.h>

#include <string.h>

lk_range lk_range_split(int64_t total, int64_t i, int64_t parts)
{
    /* i * total / parts without the product: total = q * parts + rest. */
    int64_t q = total / parts, rest = total % parts;
    int64_t first = i * q + i * rest / parts, next = (i + 1) * q + (i + 1) * rest / parts;
    return (lk_range){first, next - first};
}

int64_t lk_shards_for(int64_t samples, int64_t parts)
{
    if (parts <= 1)
        return 1;
    int64_t largest = (samples - 1) / (parts - 1); /* a shard that leaves some for the last part */
    return (samples - 1) / largest + 1;
}

int lk_range_subtrees(int64_t total, lk_range range, lk_range *out)
{
    /* Depth first, the lower half first; the stack holds upper halves still to be looked at. */
    lk_range stack[64];
    int n_stack = 0, n = 0;
    int64_t last = range.first + range.n;
    if (range.n <= 0)
        return 0;
    lk_range at = {0, total};
    for (;;) {
        bool inside = range.first <= at.first && at.first + at.n <= last;
        bool outside = at.first >= last || at.first + at.n <= range.first;
        if (inside || outside) {
            if (inside && out)
                out[n] = at;
            n += inside;
            if (n_stack == 0)
                return n;
            at = stack[--n_stack];
            continue;
        }
        int64_t half = lk_tree_half(at.n);
        stack[n_stack++] = (lk_range){at.first + half, at.n - half};
        at.n = half;
    }
}

/* ---- one subtree for each ---- */

/* The tree cut into subtrees of at most `most` pieces, from left to right; of those that have as many, the
 * first `spare` are halved. */
typedef struct cut {
    int64_t total, most, spare;
    int64_t *first;  /* where each begins; may be NULL */
    int64_t largest; /* of them */
} cut;

/* Returns how many there are; stops above `limit`. */
static int64_t cut_tree(cut *c, int64_t limit)
{
    lk_range stack[64], at = {0, c->total};
    int n_stack = 0;
    int64_t n = 0, spare = c->spare;
    c->largest = 0;
    while (n <= limit) {
        bool halve = at.n == c->most && at.n > 1 && spare > 0;
        if (at.n > c->most || halve) {
            int64_t half = lk_tree_half(at.n);
            spare -= halve;
            stack[n_stack++] = (lk_range){at.first + half, at.n - half};
            at.n = half;
            continue;
        }
        if (c->first)
            c->first[n] = at.first;
        c->largest = at.n > c->largest ? at.n : c->largest;
        n++;
        if (n_stack == 0)
            break;
        at = stack[--n_stack];
    }
    return n;
}

void lk_subtree_partition(int64_t total, int parts, int64_t *first)
{
    cut best = {.total = total, .most = total};
    int64_t n = 1;
    for (;;) {
        cut finer = {.total = total, .most = best.most - 1};
        int64_t subtrees = finer.most > 0 ? cut_tree(&finer, parts) : INT64_MAX;
        if (subtrees > parts)
            break;
        best.most = finer.largest;
        n = subtrees;
    }
    best.first = first;
    best.spare = parts - n;
    for (n = cut_tree(&best, parts); n <= parts; n++)
        first[n] = total;
}

/* ---- tiles and blocks ---- */

static int64_t tile_first(int64_t n, int64_t t, int64_t tiles, int64_t grid)
{
    /* t * n / (tiles * grid) without the product: n = q * tiles * grid + rest. */
    int64_t unit = tiles * grid, q = n / unit, rest = n % unit;
    return lk__min(n, grid * (t * q + lk__div_up(t * rest, unit)));
}

lk_range lk_tile_range(int64_t n, int64_t t, int64_t tiles, int64_t grid)
{
    int64_t first = tile_first(n, t, tiles, grid);
    return (lk_range){first, tile_first(n, t + 1, tiles, grid) - first};
}

int64_t lk_block_size(int64_t n, int64_t blocks, int64_t least)
{
    int64_t unit = lk__min(16, least < 1 ? 1 : least);
    int64_t size = lk__div_up(lk__div_up(n, blocks), unit) * unit;
    return size < least ? least : size < 1 ? 1 : size;
}

lk_range lk_block_range(int64_t n, int64_t size, lk_range blocks)
{
    int64_t first = lk__min(n, blocks.first * size);
    return (lk_range){first, lk__min(n, (blocks.first + blocks.n) * size) - first};
}

/* ---- boxes ---- */

lk_box lk_box_whole(int ndim, const int64_t *dim)
{
    lk_box box = {.ndim = ndim};
    for (int i = 0; i < ndim; i++)
        box.n[i] = dim[i];
    return box;
}

int64_t lk_box_count(const lk_box *box)
{
    int64_t count = 1;
    for (int i = 0; i < box->ndim; i++)
        count *= box->n[i];
    return count;
}

bool lk_box_is_equal(const lk_box *a, const lk_box *b)
{
    size_t bytes = (size_t)a->ndim * sizeof a->first[0];
    return a->ndim == b->ndim && memcmp(a->first, b->first, bytes) == 0 &&
           memcmp(a->n, b->n, bytes) == 0;
}

bool lk_box_is_within(const lk_box *box, const int64_t *dim)
{
    if (box->ndim < 0 || box->ndim > LK_MAX_NDIM)
        return false;
    for (int i = 0; i < box->ndim; i++)
        if (box->first[i] < 0 || box->n[i] < 0 || box->n[i] > dim[i] ||
            box->first[i] > dim[i] - box->n[i])
            return false;
    return true;
}

lk_box lk_box_intersect(const lk_box *a, const lk_box *b)
{
    lk_box both = {.ndim = a->ndim};
    for (int i = 0; i < a->ndim; i++) {
        int64_t a_end = a->first[i] + a->n[i], b_end = b->first[i] + b->n[i];
        int64_t end = a_end < b_end ? a_end : b_end;
        both.first[i] = a->first[i] > b->first[i] ? a->first[i] : b->first[i];
        both.n[i] = end > both.first[i] ? end - both.first[i] : 0;
    }
    return both;
}

lk_box_walk lk_box_start(const lk_box *box, const int64_t *dim)
{
    lk_box_walk walk = {.n = 1, .left = 1};
    int inner = box->ndim;
    int64_t step = 1;
    /* The last axes, as long as they are whole, and the one before them make one stretch. */
    for (bool whole = true; whole && inner > 0; step *= dim[inner]) {
        inner--;
        walk.n *= box->n[inner];
        walk.place += box->first[inner] * step;
        whole = box->n[inner] == dim[inner];
    }
    walk.outer = inner;
    for (int i = inner; i-- > 0; step *= dim[i]) {
        walk.size[i] = box->n[i];
        walk.step[i] = step;
        walk.place += box->first[i] * step;
        walk.left *= box->n[i];
    }
    if (walk.n == 0)
        walk.left = 0;
    walk.at = -walk.n;
    return walk;
}

bool lk_box_next(lk_box_walk *walk)
{
    bool begun = walk->at >= 0;
    if (walk->left == 0)
        return false;
    walk->left--;
    walk->at += walk->n;
    for (int i = begun ? walk->outer : 0; i-- > 0;) {
        walk->place += walk->step[i];
        if (++walk->index[i] < walk->size[i])
            break;
        walk->place -= walk->size[i] * walk->step[i];
        walk->index[i] = 0;
    }
    return true;
}
