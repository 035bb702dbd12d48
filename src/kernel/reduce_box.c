/* Reductions over boxes of larger arrays: one task per piece and block of channels.
 *
 * lk_reduce_box() is called by ops that sum over a tile, on any thread; the tasks run on the pool.  The
 * rows of a piece are cut into runs of rows that are equally far apart:
 *
 *     a box in a larger array      a run is a line of the last axis
 *     a dense box                  a run is the whole piece
 *
 * A run goes on at the lane where the one before it ended, so how rows are cut into runs changes no bit.
 */
#include "base/fpenv.h"
#include "base/integer.h"
#include "kernel/reduce.h"
#include "kernel/runtime/parallel.h"
#include "kernel/steps.h"

struct plan {
    const unsigned char *x;
    unsigned char *y; /* [n_pieces][channels] */
    int64_t elem;
    int64_t samples, n[3], channels;
    int64_t sample_step, step[3];
    int64_t extent; /* of x, in elements; 0 if there is nothing */
    int64_t piece, n_pieces;
    int64_t width, n_blocks; /* channels in a block */
    lk__reduce_begin_fn *begin;
    lk__reduce_add_fn *add;
    lk__reduce_end_fn *end;
};

/* The rows of a piece: samples and three axes. */
struct rows {
    int64_t n[4], step[4];
};

/* Join axes to the last one, as long as rows stay equally far apart in their order. */
static void axes_join(struct rows *r)
{
    for (int d = 2; d >= 0; d--) {
        if (r->n[3] == 1)
            r->step[3] = r->step[d];
        else if (r->n[d] != 1 && r->step[d] != r->n[3] * r->step[3])
            return;
        r->n[3] *= r->n[d];
        r->n[d] = 1;
    }
}

/* All rows into the lanes of `t`, which begins at the first. */
static void rows_add(const struct plan *p, const struct rows *r, lk__reduce_block *t)
{
    const unsigned char *x = t->x;
    int64_t lane = 0;
    t->n = r->n[3];
    t->ld = r->step[3];
    for (int64_t i0 = 0; i0 < r->n[0]; i0++)
        for (int64_t i1 = 0; i1 < r->n[1]; i1++)
            for (int64_t i2 = 0; i2 < r->n[2]; i2++) {
                int64_t at = i0 * r->step[0] + i1 * r->step[1] + i2 * r->step[2];
                t->x = x + at * p->elem;
                p->add(t, lane);
                lane = (lane + t->n) % LK_LANES;
            }
}

static void box_tasks(void *arg, int64_t first, int64_t last)
{
    const struct plan *p = arg;
    _Alignas(LK_REDUCE_LINE_BYTES) unsigned char lane[LK_LANES * LK_REDUCE_BLOCK_BYTES];
    for (int64_t i = first; i < last; i++) {
        int64_t c = i % p->n_blocks * p->width, piece = i / p->n_blocks, sample = piece * p->piece;
        lk__reduce_block t = {.width = lk__min(p->width, p->channels - c), .lane = lane};
        p->begin(&t);
        if (p->extent > 0) {
            struct rows r = {{lk__min(p->piece, p->samples - sample), p->n[0], p->n[1], p->n[2]},
                             {p->sample_step, p->step[0], p->step[1], p->step[2]}};
            axes_join(&r);
            t.x = p->x + (sample * p->sample_step + c) * p->elem;
            rows_add(p, &r, &t);
        }
        p->end(&t, p->y + (piece * p->channels + c) * p->elem);
    }
}

#define BOX "[%lld][%lld][%lld][%lld][%lld]"
#define BOX_OF(s)                                                                              \
    (long long)(s)->samples, (long long)(s)->n[0], (long long)(s)->n[1], (long long)(s)->n[2], \
        (long long)(s)->channels

/* Copy the shape with its defaults filled in. */
static lk_status shape_check(const lk_reduce_box_shape *s, struct plan *p)
{
    LK_CHECK(s, LK_EINVAL, "lk_reduce_box: the shape is NULL");
    LK_CHECK(s->samples >= 0 && s->n[0] >= 0 && s->n[1] >= 0 && s->n[2] >= 0 && s->channels >= 0,
             LK_EINVAL, "lk_reduce_box: x " BOX " has a negative size", BOX_OF(s));
    LK_CHECK(s->piece >= 0, LK_EINVAL, "lk_reduce_box: pieces of %lld samples of x " BOX,
             (long long)s->piece, BOX_OF(s));
    LK_CHECK(s->sample_step >= 0 && s->step[0] >= 0 && s->step[1] >= 0 && s->step[2] >= 0,
             LK_EINVAL,
             "lk_reduce_box: x " BOX " has a negative step: %lld between samples, %lld, %lld and "
             "%lld along the axes",
             BOX_OF(s), (long long)s->sample_step, (long long)s->step[0], (long long)s->step[1],
             (long long)s->step[2]);
    p->samples = s->samples;
    p->channels = s->channels;
    p->sample_step = s->sample_step;
    for (int d = 0; d < 3; d++) {
        p->n[d] = s->n[d];
        p->step[d] = s->step[d];
    }
    const lk__steps steps = {.name = "x",
                             .size_name = "n",
                             .step_name = "step",
                             .sample_name = "sample_step",
                             .batch = p->samples,
                             .channels = p->channels,
                             .size = p->n,
                             .sample = &p->sample_step,
                             .step = p->step,
                             .extent = &p->extent};
    LK_TRY(lk__steps_fill(&steps, p->elem));
    p->piece = s->piece > 0 && s->piece < s->samples ? s->piece : s->samples;
    p->n_pieces = s->samples > 0 ? (s->samples - 1) / p->piece + 1 : 0;
    return LK_OK;
}

static lk_status operands_check(const struct plan *p, const void *x, const void *y)
{
    int64_t nx = p->extent * p->elem, ny;
    LK_CHECK(!__builtin_mul_overflow(p->n_pieces, p->channels, &ny) &&
                 !__builtin_mul_overflow(ny, p->elem, &ny),
             LK_EOVERFLOW, "lk_reduce_box: y [%lld][%lld]", (long long)p->n_pieces,
             (long long)p->channels);
    LK_CHECK(x || nx == 0, LK_EINVAL, "lk_reduce_box: x " BOX " is NULL", BOX_OF(p));
    LK_CHECK(y || ny == 0, LK_EINVAL, "lk_reduce_box: y [%lld][%lld] is NULL",
             (long long)p->n_pieces, (long long)p->channels);
    uintptr_t px = (uintptr_t)x, py = (uintptr_t)y;
    LK_CHECK(nx == 0 || ny == 0 || px + (uintptr_t)nx <= py || py + (uintptr_t)ny <= px,
             LK_EOVERLAP, "lk_reduce_box: y [%lld][%lld] overlaps x " BOX, (long long)p->n_pieces,
             (long long)p->channels, BOX_OF(p));
    return LK_OK;
}

/* Cut into blocks so that all threads have work. */
static lk_status plan_run(struct plan *p)
{
    int threads;
    LK_TRY(lk_threads_now(&threads));
    int64_t positions = p->extent > 0 ? p->n[0] * p->n[1] * p->n[2] : 0;
    bool small = p->samples * positions * p->channels * p->elem <= LK_REDUCE_SMALL;
    int64_t wanted = small ? 1 : threads;
    p->width = lk__reduce_width(p->channels, p->elem, (wanted - 1) / p->n_pieces + 1);
    p->n_blocks = (p->channels - 1) / p->width + 1;
    const int64_t bytes = p->piece * positions * p->width * p->elem;
    return LK_TRACE(lk__parallel(lk__tasks_bytes(p->n_pieces * p->n_blocks, bytes), box_tasks, p));
}

lk_status lk_reduce_box(lk_dtype dtype, lk_reduce_axis_op op, const lk_reduce_box_shape *s,
                        const void *x, void *y)
{
    LK_FP_GUARD();
    LK_TRY(LK_FP_CHECK());
    LK_CHECK(lk_dtype_is_real(dtype), LK_EDTYPE, "lk_reduce_box: x is %s: it must be f32 or f64",
             lk_dtype_name(dtype));
    LK_CHECK((unsigned)op < LK_N_REDUCE_AXIS_OPS, LK_EINVAL,
             "lk_reduce_box: no operator has number %d", (int)op);
    struct plan p = {.x = x, .y = y, .elem = (int64_t)lk_dtype_size(dtype)};
    LK_TRY(shape_check(s, &p));
    LK_TRY(operands_check(&p, x, y));
    if (p.n_pieces == 0 || p.channels == 0)
        return LK_OK;
    const lk__reduce_table *table = NULL;
    LK_TRY(lk__reduce_get(&table));
    p.begin = table->of[dtype].begin[op];
    p.add = table->of[dtype].add[op];
    p.end = table->of[dtype].end[op];
    return LK_TRACE(plan_run(&p));
}
