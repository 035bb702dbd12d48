/* Reductions: one task per output block and run of pieces, joined by the fixed tree.
 *
 * x [outer][n][inner] is cut into outer samples, blocks of neighbouring columns, and runs of
 * pieces.  A run holds a power of two of pieces and starts at a multiple of that, so it is a whole
 * subtree; the runs are joined in the end.  Runs exist only where outer and columns are too few to
 * occupy all threads, and then their partial results fit into a small buffer:
 *
 *     outer * inner >= threads        tasks (o, block), each joins all its pieces
 *     fewer, and several pieces       tasks (o, block, run), then the tree over runs
 *
 * How it is cut changes no bit: pieces are fixed by the caller and the tree by their number.
 */
#include "kernel/reduce.h"

#include "base/fpenv.h"
#include "base/integer.h"
#include "kernel/runtime/parallel.h"

#include <lockstep/pieces.h>

#include <string.h>

enum {
    BLOCK_BYTES = LK_REDUCE_BLOCK_BYTES,
    LINE_BYTES = LK_REDUCE_LINE_BYTES,
    PARTIAL_BYTES = 16384, /* room for the partial results of runs */
};

static const struct {
    const char *name, *formula;
} ops[LK_N_REDUCE_AXIS_OPS] = {
#define X(code, name, formula) [LK_REDUCE_AXIS_##code] = {name, formula},
    LK_REDUCE_AXIS_MAP(X)
#undef X
};

const char *lk_reduce_axis_op_name(lk_reduce_axis_op op)
{
    return (unsigned)op < LK_N_REDUCE_AXIS_OPS ? ops[op].name : "?";
}

const char *lk_reduce_axis_op_formula(lk_reduce_axis_op op)
{
    return (unsigned)op < LK_N_REDUCE_AXIS_OPS ? ops[op].formula : "?";
}

struct plan {
    const lk_reduce_axis_shape *s;
    const unsigned char *x;
    unsigned char *y; /* [run][outer][inner]; the caller's y if there is one run */
    int64_t elem;
    int64_t piece, n_pieces; /* at least 1, also when n is 0 */
    int64_t run, n_runs;     /* pieces in a run, a power of two unless there is one run */
    int64_t width, n_blocks; /* columns in a block */
    lk__reduce_rows_fn *rows;
    lk__reduce_columns_fn *columns;
    lk__reduce_join_fn *join;
};

/* Columns c ... c + width - 1 of sample o. */
struct target {
    const struct plan *p;
    int64_t o, c, width;
    void *lane;
};

static void piece_reduce(const struct target *t, int64_t piece, void *y)
{
    const struct plan *p = t->p;
    int64_t first = piece * p->piece, n = lk__min(p->piece, p->s->n - first);
    const void *x = p->x + ((t->o * p->s->n + first) * p->s->inner + t->c) * p->elem;
    if (p->s->inner == 1)
        p->rows(1, n, x, y);
    else
        p->columns(&(lk__reduce_block){x, n, t->width, p->s->inner, t->lane}, y);
}

/* y = the tree over `n` > 0 pieces from `first` on. */
static void tree_reduce(const struct target *t, int64_t first, int64_t n, void *y)
{
    if (n == 1) {
        piece_reduce(t, first, y);
        return;
    }
    int64_t half = lk_tree_half(n);
    _Alignas(LINE_BYTES) unsigned char right[BLOCK_BYTES];
    tree_reduce(t, first, half, y);
    tree_reduce(t, first + half, n - half, right);
    t->p->join(t->width, y, right);
}

static void reduce_tasks(void *arg, int64_t first, int64_t last)
{
    const struct plan *p = arg;
    const lk_reduce_axis_shape *s = p->s;
    if (s->inner == 1 && p->n_pieces == 1) {
        p->rows(last - first, s->n, p->x + first * s->n * p->elem, p->y + first * p->elem);
        return;
    }
    _Alignas(LINE_BYTES) unsigned char lane[LK_LANES * BLOCK_BYTES];
    for (int64_t i = first; i < last; i++) {
        int64_t run = i % p->n_runs, block = i / p->n_runs % p->n_blocks;
        struct target t = {p, i / p->n_runs / p->n_blocks, block * p->width, 0, lane};
        t.width = lk__min(p->width, s->inner - t.c);
        int64_t piece = run * p->run;
        void *y = p->y + ((run * s->outer + t.o) * s->inner + t.c) * p->elem;
        tree_reduce(&t, piece, lk__min(p->run, p->n_pieces - piece), y);
    }
}

int64_t lk__reduce_width(int64_t columns, int64_t elem, int64_t wanted)
{
    int64_t line = LINE_BYTES / elem, width = lk__min(columns, BLOCK_BYTES / elem);
    while (width > line && (columns - 1) / width + 1 < wanted)
        width = (width / 2 + line - 1) / line * line;
    return width;
}

/* Cut into blocks and runs so that all threads have work. */
static void plan_cut(struct plan *p, int threads)
{
    const lk_reduce_axis_shape *s = p->s;
    bool small = s->outer * s->n * s->inner * p->elem <= LK_REDUCE_SMALL;
    int64_t wanted = small ? 1 : threads;
    p->width = lk__reduce_width(s->inner, p->elem, (wanted - 1) / s->outer + 1);
    p->n_blocks = (s->inner - 1) / p->width + 1;
    p->run = p->n_pieces;
    p->n_runs = 1;
    int64_t outputs = s->outer * s->inner, room = PARTIAL_BYTES / p->elem / outputs;
    if (s->outer * p->n_blocks >= wanted || room < 2)
        return;
    /* More runs than threads, so that a thread that is late costs little. */
    p->run = 1;
    while ((p->n_pieces - 1) / p->run + 1 > lk__min(room, 8 * wanted))
        p->run *= 2;
    p->n_runs = (p->n_pieces - 1) / p->run + 1;
}

static lk_status plan_run(struct plan *p, void *y)
{
    const lk_reduce_axis_shape *s = p->s;
    int threads;
    LK_TRY(lk_threads_now(&threads));
    plan_cut(p, threads);
    _Alignas(LINE_BYTES) unsigned char partial[PARTIAL_BYTES];
    p->y = p->n_runs > 1 ? partial : y;
    int64_t per_task = lk__min(s->n, p->run * p->piece) * p->width;
    const int64_t tasks = s->outer * p->n_blocks * p->n_runs;
    LK_TRY(lk__parallel(lk__tasks_bytes(tasks, per_task * p->elem), reduce_tasks, p));
    if (p->n_runs == 1)
        return LK_OK;
    int64_t outputs = s->outer * s->inner;
    for (int64_t d = 1; d < p->n_runs; d *= 2)
        for (int64_t r = 0; r + d < p->n_runs; r += 2 * d)
            p->join(outputs, partial + r * outputs * p->elem,
                    partial + (r + d) * outputs * p->elem);
    memcpy(y, partial, (size_t)(outputs * p->elem));
    return LK_OK;
}

#define SHAPE "[%lld][%lld][%lld]"
#define SHAPE_OF(s) (long long)(s)->outer, (long long)(s)->n, (long long)(s)->inner

static lk_status check(lk_dtype dtype, lk_reduce_axis_op op, const lk_reduce_axis_shape *s,
                       const void *x, const void *y)
{
    LK_CHECK(lk_dtype_is_real(dtype), LK_EDTYPE, "lk_reduce_axis: x is %s: it must be f32 or f64",
             lk_dtype_name(dtype));
    LK_CHECK((unsigned)op < LK_N_REDUCE_AXIS_OPS, LK_EINVAL,
             "lk_reduce_axis: no operator has number %d", (int)op);
    LK_CHECK(s, LK_EINVAL, "lk_reduce_axis: the shape is NULL");
    LK_CHECK(s->outer >= 0 && s->n >= 0 && s->inner >= 0, LK_EINVAL,
             "lk_reduce_axis: x " SHAPE " has a negative size", SHAPE_OF(s));
    LK_CHECK(s->piece >= 0, LK_EINVAL, "lk_reduce_axis: pieces of %lld elements of x " SHAPE,
             (long long)s->piece, SHAPE_OF(s));
    int64_t elem = (int64_t)lk_dtype_size(dtype), nx, ny;
    bool fits = !__builtin_mul_overflow(s->outer, s->inner, &ny) &&
                !__builtin_mul_overflow(ny, elem, &ny) && !__builtin_mul_overflow(ny, s->n, &nx);
    LK_CHECK(fits, LK_EOVERFLOW, "lk_reduce_axis: x " SHAPE " of %s", SHAPE_OF(s),
             lk_dtype_name(dtype));
    LK_CHECK(x || nx == 0, LK_EINVAL, "lk_reduce_axis: x " SHAPE " is NULL", SHAPE_OF(s));
    LK_CHECK(y || ny == 0, LK_EINVAL, "lk_reduce_axis: y [%lld][%lld] is NULL", (long long)s->outer,
             (long long)s->inner);
    uintptr_t px = (uintptr_t)x, py = (uintptr_t)y;
    LK_CHECK(nx == 0 || ny == 0 || px + (uintptr_t)nx <= py || py + (uintptr_t)ny <= px,
             LK_EOVERLAP, "lk_reduce_axis: y [%lld][%lld] overlaps x " SHAPE, (long long)s->outer,
             (long long)s->inner, SHAPE_OF(s));
    return LK_OK;
}

lk_status lk_reduce_axis(lk_dtype dtype, lk_reduce_axis_op op, const lk_reduce_axis_shape *s,
                         const void *x, void *y)
{
    LK_FP_GUARD();
    LK_TRY(LK_FP_CHECK());
    LK_TRY(check(dtype, op, s, x, y));
    if (s->outer == 0 || s->inner == 0)
        return LK_OK;
    const lk__reduce_table *table = NULL;
    LK_TRY(lk__reduce_get(&table));
    struct plan p = {
        .s = s,
        .x = s->n > 0 ? x : y, /* an empty x may be NULL, and is not read */
        .elem = (int64_t)lk_dtype_size(dtype),
        .piece = s->piece > 0 && s->piece < s->n ? s->piece : s->n,
        .n_pieces = 1,
        .rows = table->of[dtype].rows[op],
        .columns = table->of[dtype].columns[op],
        .join = table->of[dtype].join[op],
    };
    if (p.piece > 0)
        p.n_pieces = (s->n - 1) / p.piece + 1;
    return LK_TRACE(plan_run(&p, y));
}
