/* Copies of boxes: by whole rows, by repeated elements, by transposed tiles, or element by element.
 *
 * The box is first put in order: axes go from the largest to the smallest step of dst, so that it is
 * written as it lies; those that both sides step through as one are joined; a last axis of a few bytes
 * that lies the same way on both sides becomes one larger element.  The last axis is then that of a
 * row, or, if src has its steps of one element along another axis, the two are a transpose.  This plane is
 * cut into pieces that stay in cache; pieces are what threads share.
 *
 * Destinations larger than PAST are written around the cache, where the rows allow it: their lines would
 * be read first, and be gone before they are read again.  On smaller ones that lost.
 */
#include "kernel/copy.h"

#include "base/integer.h"
#include "base/memory/rehearsal.h"
#include "kernel/runtime/parallel.h"

#include <string.h>

enum {
    PIECE = 64 << 10,   /* bytes that a thread takes at a time */
    PIECE_ROWS = 256,   /* of a transpose */
    PAST = 8 << 20,     /* bytes of dst */
    PAST_ROW = 1 << 10, /* bytes of a row that is worth it */
    LONG = 16,          /* elements of a row that is filled by blocks */
    BLOCK = 4 << 10,    /* bytes of these */
    WIDE = 16,          /* bytes of the largest element */
    LINE = 64
};

typedef enum copy_kind { ELEMENTS, ROWS, FILL, TILES } copy_kind;

typedef struct copy_axis {
    int64_t dim, from, to; /* steps in bytes */
} copy_axis;

typedef struct copy_plan {
    int64_t size;
    int n_axes; /* at least 2 once the plane is found; the last two are its rows and columns */
    copy_axis axis[LK_MAX_NDIM + 2];
    copy_kind kind;
    bool past;
    int64_t rows, cols, piece_rows, piece_cols; /* of the plane, before it is cut; of a piece */
    copy_axis row, col;
    const lk__copy_table *table;
    const char *src;
    char *dst;
} copy_plan;

/* ---- rows ---- */

/* `size` is a constant where this is called, so copies of elements are single moves. */
static inline void row_elements(const int64_t size, int64_t n, const char *src, int64_t from,
                                char *dst, int64_t to)
{
    for (int64_t i = 0; i < n; i++)
        memcpy(dst + i * to, src + i * from, (size_t)size);
}

/* n elements `from` and `to` bytes apart. */
static void row_steps(int64_t size, int64_t n, const char *src, int64_t from, char *dst, int64_t to)
{
    switch (size) {
    case 1: row_elements(1, n, src, from, dst, to); break;
    case 2: row_elements(2, n, src, from, dst, to); break;
    case 4: row_elements(4, n, src, from, dst, to); break;
    case 8: row_elements(8, n, src, from, dst, to); break;
    case WIDE: row_elements(WIDE, n, src, from, dst, to); break;
    default: break;
    }
}

/* n > 0 times the same element, by copies of what is there: twice as long each, and then by blocks that
 * stay in cache. */
static void row_fill(int64_t size, int64_t n, const char *src, char *dst)
{
    memcpy(dst, src, (size_t)size);
    for (int64_t have = size, more; have < n * size; have += more) {
        more = lk__min(lk__min(have, BLOCK), n * size - have);
        memcpy(dst + have, dst, (size_t)more);
    }
}

void lk__row_copy(int64_t size, int64_t n, const char *src, int64_t src_step, char *dst,
                  int64_t dst_step)
{
    if (src_step == 1 && dst_step == 1)
        memcpy(dst, src, (size_t)(n * size));
    else if (src_step == 0 && dst_step == 1 && n >= LONG)
        row_fill(size, n, src, dst);
    else
        row_steps(size, n, src, src_step * size, dst, dst_step * size);
}

/* ---- a piece of the plane ---- */

static void fill_past(const copy_plan *p, int64_t n, const char *src, char *dst)
{
    char block[BLOCK];
    const int64_t blocks = n * p->size / BLOCK, done = blocks * BLOCK;
    row_fill(p->size, BLOCK / p->size, src, block);
    p->table->past(blocks, BLOCK, block, 0, dst, BLOCK);
    memcpy(dst + done, block, (size_t)(n * p->size - done));
}

static void piece_copy(const copy_plan *p, int64_t rows, int64_t cols, const char *src, char *dst)
{
    if (p->kind == TILES) {
        const int which = __builtin_ctz((unsigned)p->size);
        p->table->tiles[which](rows, cols, src, p->col.from, dst, p->row.to, p->past);
        return;
    }
    if (p->kind == ROWS && p->past) {
        p->table->past(rows, cols * p->size, src, p->row.from, dst, p->row.to);
        return;
    }
    for (int64_t r = 0; r < rows; r++, src += p->row.from, dst += p->row.to) {
        if (p->kind == ROWS)
            memcpy(dst, src, (size_t)(cols * p->size));
        else if (p->kind == FILL && p->past)
            fill_past(p, cols, src, dst);
        else if (p->kind == FILL)
            row_fill(p->size, cols, src, dst);
        else
            row_steps(p->size, cols, src, p->col.from, dst, p->col.to);
    }
}

/* Pieces [first, last), counted in row-major order over the axes. */
static void pieces_copy(void *arg, int64_t first, int64_t last)
{
    const copy_plan *p = arg;
    const int n = p->n_axes;
    int64_t index[LK_MAX_NDIM + 2], from = 0, to = 0;
    for (int64_t i = n - 1, number = first; i >= 0; i--) {
        index[i] = number % p->axis[i].dim;
        number /= p->axis[i].dim;
        from += index[i] * p->axis[i].from;
        to += index[i] * p->axis[i].to;
    }
    for (int64_t k = first; k < last; k++) {
        piece_copy(p, lk__min(p->piece_rows, p->rows - index[n - 2] * p->piece_rows),
                   lk__min(p->piece_cols, p->cols - index[n - 1] * p->piece_cols), p->src + from,
                   p->dst + to);
        for (int i = n - 1; i >= 0; i--) {
            const copy_axis *a = &p->axis[i];
            from += a->from;
            to += a->to;
            if (++index[i] < a->dim)
                break;
            from -= a->dim * a->from;
            to -= a->dim * a->to;
            index[i] = 0;
        }
    }
}

/* ---- the plan ---- */

/* Axes of more than one element from the largest to the smallest step of dst; those joined that are
 * stepped through as one. */
static void axes_order(copy_plan *p, const lk__copy_box *box)
{
    int n = 0;
    for (int d = 0; d < box->ndim; d++) {
        if (box->dim[d] == 1)
            continue;
        copy_axis a = {box->dim[d], box->from[d] * box->size, box->to[d] * box->size};
        int at = n++;
        for (; at > 0 && p->axis[at - 1].to < a.to; at--)
            p->axis[at] = p->axis[at - 1];
        p->axis[at] = a;
    }
    p->n_axes = 0;
    for (int i = 0; i < n; i++) {
        const copy_axis a = p->axis[i];
        copy_axis *last = p->n_axes > 0 ? &p->axis[p->n_axes - 1] : NULL;
        if (last && last->from == a.from * a.dim && last->to == a.to * a.dim)
            *last = (copy_axis){last->dim * a.dim, a.from, a.to};
        else
            p->axis[p->n_axes++] = a;
    }
}

/* A last axis of 2, 4, 8 or 16 bytes is one element, where all steps are whole ones of it. */
static void element_widen(copy_plan *p)
{
    const int last = p->n_axes - 1;
    if (last < 1 || p->axis[last].from != p->size || p->axis[last].to != p->size)
        return;
    const int64_t size = p->size * p->axis[last].dim;
    bool fits = size <= WIDE && (size & (size - 1)) == 0;
    for (int i = 0; i < last; i++)
        fits = fits && p->axis[i].from % size == 0 && p->axis[i].to % size == 0;
    if (!fits)
        return;
    p->size = size;
    p->n_axes--;
}

/* The plane: the last axis, and of the others that with the smallest steps in src, if the last one is not
 * that, else the one before. */
static void plane_find(copy_plan *p)
{
    while (p->n_axes < 2) { /* an axis of one element in front */
        memmove(p->axis + 1, p->axis, (size_t)p->n_axes * sizeof *p->axis);
        p->axis[0] = (copy_axis){.dim = 1};
        p->n_axes++;
    }
    const int last = p->n_axes - 1;
    int row = last - 1;
    p->col = p->axis[last];
    if (p->col.from > p->size)
        for (int i = last - 1; i >= 0; i--)
            if (p->axis[i].from > 0 &&
                (p->axis[row].from == 0 || p->axis[i].from < p->axis[row].from))
                row = i;
    p->row = p->axis[row];
    memmove(p->axis + row, p->axis + row + 1, (size_t)(last - row) * sizeof *p->axis);
    p->n_axes -= 2;
    const bool dense = p->col.to == p->size;
    if (dense && p->col.from == p->size)
        p->kind = ROWS;
    else if (dense && p->col.from == 0 && p->col.dim >= LONG)
        p->kind = FILL;
    else if (dense && p->row.from == p->size && p->row.dim > 1 && p->size < WIDE)
        p->kind = TILES;
    else
        p->kind = ELEMENTS;
}

/* Cut the plane into pieces, whose numbers become the last two axes.  Columns are cut where lines end. */
static void plane_cut(copy_plan *p)
{
    const int64_t n = PIECE / p->size, line = lk__max(LINE / p->size, 1);
    const bool transposed = p->kind == TILES || p->kind == ELEMENTS;
    p->rows = p->row.dim;
    p->cols = p->col.dim;
    if (transposed) {
        p->piece_rows = lk__min(p->rows, PIECE_ROWS);
        p->piece_cols = lk__min(p->cols, (n / p->piece_rows + line - 1) / line * line);
    } else {
        p->piece_cols = lk__min(p->cols, n);
        p->piece_rows = lk__min(p->rows, lk__max(n / p->piece_cols, 1));
    }
    p->axis[p->n_axes++] = (copy_axis){.dim = (p->rows + p->piece_rows - 1) / p->piece_rows,
                                       .from = p->piece_rows * p->row.from,
                                       .to = p->piece_rows * p->row.to};
    p->axis[p->n_axes++] = (copy_axis){.dim = (p->cols + p->piece_cols - 1) / p->piece_cols,
                                       .from = p->piece_cols * p->col.from,
                                       .to = p->piece_cols * p->col.to};
}

lk_status lk__copy_run(const lk__copy_box *box, const char *src, char *dst)
{
    copy_plan p = {.size = box->size, .src = src, .dst = dst};
    int64_t count = 1, pieces = 1;
    for (int d = 0; d < box->ndim; d++)
        count *= box->dim[d];
    if (count == 0)
        return LK_OK;
    axes_order(&p, box);
    element_widen(&p);
    plane_find(&p);
    plane_cut(&p);
    for (int i = 0; i < p.n_axes; i++)
        pieces *= p.axis[i].dim;
    p.past = count * box->size >= PAST && p.kind != ELEMENTS &&
             (p.kind == TILES || p.piece_cols * p.size >= PAST_ROW);
    if (p.kind == TILES || p.past)
        LK_TRY(lk__copy_get(&p.table));
    const int64_t bytes = lk__min(p.piece_rows * p.piece_cols * p.size, PIECE);
    if (lk__rehearses())
        pieces_copy(&p, 0, pieces);
    else
        LK_TRY(lk__parallel(lk__tasks_bytes(pieces, bytes), pieces_copy, &p));
    return LK_OK;
}
