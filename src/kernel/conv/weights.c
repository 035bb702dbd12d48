/* The weight gradient of a convolution: stretch by stretch, chunk by chunk, pack and compute.
 *
 *   dw[tap][ic][oc] = tree over pieces of (chain over samples and output positions of
 *                     x[position of the tap][ic] * dy[position][oc])
 *
 * Work is split over subtrees or over the tiles of dw, never along a chain.
 */
#include "kernel/conv/weights.h"

#include "base/fpenv.h"
#include "kernel/conv/plan.h"
#include "kernel/conv/weights_tiles.h"
#include "kernel/reduce.h"
#include "kernel/runtime/parallel.h"

#include <lockstep/extra/alloc.h>

#include <stdatomic.h>
#include <string.h>

enum {
    TURNS = 8,          /* in which a thread takes its share of the tiles */
    SLICE_BYTES = 4096, /* of the sums, joined while they are in cache */
};

/* Where a stretch under way has its copies and slots. */
typedef struct room {
    void *x, *y, *tree;
} room;

/* What a call's memory is cut into, in bytes: rooms, one behind the other, and the sums. */
typedef struct floor_plan {
    int64_t y, tree, each; /* within a room, whose x is at 0; and its size */
    int64_t n_rooms;
    int64_t sums, all; /* of the stretches, each like dw, if there are several; and the end */
} floor_plan;

struct lk__conv_weights {
    lk__weights_plan plan;
    floor_plan floor;
    char *own;       /* memory of calls that bring none; NULL until the first */
    bool is_product; /* then that is what calls compute, and they need no memory */
    lk_gemm product;
};

/* `*end` moves behind `count` elements; false if it does not fit in 64 bits. */
static bool lay(int64_t count, int64_t elem, int64_t *end)
{
    int64_t bytes;
    if (__builtin_mul_overflow(count, elem, &bytes) ||
        __builtin_add_overflow(bytes, LK_ALIGN - 1, &bytes))
        return false;
    return !__builtin_add_overflow(*end, bytes / LK_ALIGN * LK_ALIGN, end);
}

static lk_status floor_make(const lk__weights_plan *p, floor_plan *f)
{
    const lk__conv_shape *s = &p->s;
    int64_t n_sums = p->n_stretches > 1 ? p->n_stretches : 0, sums = 0;
    *f = (floor_plan){.n_rooms = p->n_stretches < p->threads ? p->n_stretches : p->threads};
    bool fits = lay(p->x.room, s->elem, &f->y);
    f->tree = f->y;
    fits = fits && lay(p->y.room, s->elem, &f->tree);
    f->each = f->tree;
    fits = fits && lay(p->tree_room, s->elem, &f->each) &&
           !__builtin_mul_overflow(f->n_rooms, f->each, &f->sums) &&
           !__builtin_mul_overflow(n_sums, s->w_extent, &sums);
    f->all = f->sums;
    LK_CHECK(fits && lay(sums, s->elem, &f->all), LK_EOVERFLOW,
             "room for the gradient of %lld taps, %lld x %lld channels", (long long)s->taps,
             (long long)s->in_channels, (long long)s->out_channels);
    return LK_OK;
}

static room room_at(const floor_plan *f, char *memory, int64_t i)
{
    char *at = memory + i * f->each;
    return (room){at, at + f->y, at + f->tree};
}

lk_status lk__conv_weights_new(const lk__conv_shape *s, struct lk__conv_weights **out)
{
    struct lk__conv_weights *w;
    *out = NULL;
    LK_TRY(lk__conv_weights_new_cut(s, &lk__weights_default, &w));
    w->is_product = lk__conv_weights_product(s, &w->product);
    if (w->is_product)
        w->floor.all = 0;
    *out = w;
    return LK_OK;
}

lk_status lk__conv_weights_new_cut(const lk__conv_shape *s, const lk__weights_aims *aims,
                                   struct lk__conv_weights **out)
{
    lk_status st;
    struct lk__conv_weights *w;
    *out = NULL;
    LK_TRY(lk_alloc_zero(&w, 1, sizeof *w));
    LK_TRY_TO(failed, lk__weights_plan_make(s, aims, &w->plan));
    LK_TRY_TO(failed, floor_make(&w->plan, &w->floor));
    *out = w;
    return LK_OK;
failed:
    lk__conv_weights_free(w);
    return st;
}

void lk__conv_weights_free(struct lk__conv_weights *part)
{
    if (!part)
        return;
    lk_free(part->own);
    lk__weights_plan_release(&part->plan);
    lk_free(part);
}

/* One side, to look ahead in: the steps of its axes, how far one output position goes along each,
 * and how many positions there are. */
typedef struct vista {
    int64_t step[LK_CUTS], stride[LK_CUTS], size[LK_CUTS];
} vista;

/* Elements from the first position to output position `at`, in the tensor. */
static int64_t vista_at(const vista *v, int axis, int64_t at)
{
    int64_t to = at * v->stride[axis];
    return (to < v->size[axis] ? to : v->size[axis]) * v->step[axis];
}

/* What lies behind the chunk is, in a dense tensor, the next one: as many bytes as the chunk has. */
static int64_t behind(const lk__weights_job *job, const vista *v, const void *data,
                      const char **from)
{
    const lk__conv_shape *s = &job->p->s;
    const int64_t out[LK_CUTS] = {job->n_samples, s->out[0], s->out[1], s->out[2]};
    int cut = LK_CUTS - 1;
    while (cut > 0 && job->box[cut].hi - job->box[cut].lo == out[cut])
        cut--;
    int64_t at = 0;
    for (int d = 0; d < cut; d++)
        at += vista_at(v, d, job->box[d].lo);
    int64_t lo = at + vista_at(v, cut, job->box[cut].lo);
    int64_t hi = at + vista_at(v, cut, job->box[cut].hi);
    *from = (const char *)data + hi * s->elem;
    return (hi - lo) * s->elem;
}

static void look_ahead(lk__weights_job *job, const void *x, const void *dy)
{
    const lk__conv_shape *s = &job->p->s;
    lk__weights_ahead *a = &job->ahead;
    vista vx = {{s->x_sample}, {1}, {job->n_samples}};
    vista vy = {{s->y_sample}, {1}, {job->n_samples}};
    int64_t pixels = job->p->n_taps * (job->box[0].hi - job->box[0].lo);
    for (int d = 0; d < LK_CONV_AXES; d++) {
        vx.step[d + 1] = s->x_step[d];
        vx.stride[d + 1] = s->window.stride[d];
        vx.size[d + 1] = s->in[d];
        vy.step[d + 1] = s->y_step[d];
        vy.stride[d + 1] = 1;
        vy.size[d + 1] = s->out[d];
        pixels *= job->box[d + 1].hi - job->box[d + 1].lo;
    }
    a->bytes[0] = behind(job, &vx, x, &a->from[0]);
    a->bytes[1] = behind(job, &vy, dy, &a->from[1]);
    a->per_task = (a->bytes[0] + a->bytes[1]) / lk__weights_tasks(job->p) + 1;
    a->per_pixel = a->per_task / pixels + 1;
}

static lk_status chunk_run(lk__weights_job *job, const room *r, const void *x, const void *dy)
{
    const lk__conv_shape *s = &job->p->s;
    lk__range columns = job->box[LK_CUT_COLUMN];
    if (job->p->chunk[LK_CUT_COLUMN] < s->out[2])
        lk__weights_columns_set(job->p, columns);
    LK_TRY(lk__weights_pack(job, x, dy, r->x, r->y));
    bool last = job->box[LK_CUT_SAMPLE].hi == job->n_samples &&
                job->box[LK_CUT_PLANE].hi == s->out[0] && job->box[LK_CUT_ROW].hi == s->out[1] &&
                columns.hi == s->out[2];
    job->ahead = (lk__weights_ahead){0};
    if (!last)
        look_ahead(job, x, dy);
    /* Neighbouring tiles share a slice, so a thread takes several at a time. */
    int64_t tasks = lk__weights_tasks(job->p);
    lk__tasks all = lk__tasks_long(tasks);
    all.least = tasks / ((int64_t)job->p->crew * TURNS);
    return LK_TRACE(lk__parallel(all, lk__weights_tiles, job));
}

static lk__range part(int64_t lo, int64_t step, int64_t end)
{
    return (lk__range){lo, lo + step < end ? lo + step : end};
}

/* All chunks of a stretch in raster order: the last axis first, the sample last. */
static lk_status stretch_run(lk__weights_job *job, const room *r, const void *x, const void *dy)
{
    const lk__conv_shape *s = &job->p->s;
    const int64_t *chunk = job->p->chunk;
    const int64_t end[LK_CUTS] = {job->n_samples, s->out[0], s->out[1], s->out[2]};
    job->tree = r->tree;
    job->n_pieces = (job->n_samples + s->piece - 1) / s->piece;
    for (int d = 0; d < LK_CUTS; d++)
        job->box[d] = part(0, chunk[d], end[d]);
    for (int d = 0; d >= 0;) {
        LK_TRY(chunk_run(job, r, x, dy));
        for (d = LK_CUTS - 1; d >= 0 && job->box[d].hi == end[d]; d--)
            job->box[d] = part(0, chunk[d], end[d]);
        if (d >= 0)
            job->box[d] = part(job->box[d].hi, chunk[d], end[d]);
    }
    return LK_OK;
}

/* A call with several stretches. */
typedef struct shared_run {
    struct lk__conv_weights *w;
    char *memory, *sums;
    const char *x, *dy;
    char *dw;
    bool accumulate;
    lk__reduce_join_fn *join;
    _Atomic int64_t next; /* stretch */
    _Atomic lk_status failed;
} shared_run;

/* Task: with one room, stretches as long as there are any. */
static void stretches_run(void *arg, int64_t first, int64_t last)
{
    shared_run *run = arg;
    lk__weights_plan *p = &run->w->plan;
    const lk__conv_shape *s = &p->s;
    for (int64_t i = first; i < last; i++) {
        room r = room_at(&run->w->floor, run->memory, i);
        for (;;) {
            int64_t q = atomic_fetch_add(&run->next, 1);
            if (q >= p->n_stretches)
                break;
            lk__range n = part(q * p->stretch, p->stretch, s->batch);
            lk__weights_job job = {.p = p, .n_samples = n.hi - n.lo};
            job.dw = run->sums + q * s->w_extent * s->elem;
            lk_status st = stretch_run(&job, &r, run->x + n.lo * s->x_sample * s->elem,
                                       run->dy + n.lo * s->y_sample * s->elem);
            if (st != LK_OK)
                atomic_store(&run->failed, st);
        }
    }
}

/* Task: slices of dw, from those of the sums. */
static void sums_join(void *arg, int64_t first, int64_t last)
{
    const shared_run *run = arg;
    const lk__conv_shape *s = &run->w->plan.s;
    int64_t bytes = s->w_extent * s->elem, n = run->w->plan.n_stretches;
    for (int64_t i = first; i < last; i++) {
        lk__range r = part(i * SLICE_BYTES, SLICE_BYTES, bytes);
        int64_t count = (r.hi - r.lo) / s->elem;
        char *sum = run->sums + r.lo;
        for (int64_t d = 1; d < n; d *= 2)
            for (int64_t k = 0; k + d < n; k += 2 * d)
                run->join(count, sum + k * bytes, sum + (k + d) * bytes);
        if (run->accumulate)
            run->join(count, run->dw + r.lo, sum);
        else
            memcpy(run->dw + r.lo, sum, (size_t)(r.hi - r.lo));
    }
}

static lk_status run(struct lk__conv_weights *w, char *memory, const void *x, const void *dy,
                     bool accumulate, void *dw)
{
    lk__weights_plan *p = &w->plan;
    const lk__conv_shape *s = &p->s;
    if (p->n_stretches == 1) {
        lk__weights_job job = {.p = p, .n_samples = s->batch, .dw = dw, .accumulate = accumulate};
        room r = room_at(&w->floor, memory, 0);
        return LK_TRACE(stretch_run(&job, &r, x, dy));
    }
    const lk__reduce_table *table = NULL;
    LK_TRY(lk__reduce_get(&table));
    shared_run run = {.w = w, .x = x, .dy = dy, .dw = dw, .accumulate = accumulate};
    run.memory = memory;
    run.sums = memory + w->floor.sums;
    run.join = table->of[s->dtype].join[LK_REDUCE_AXIS_SUM];
    LK_TRY(lk__parallel(lk__tasks_long(w->floor.n_rooms), stretches_run, &run));
    lk_status st = atomic_load(&run.failed);
    LK_CHECK(st == LK_OK, st, "some samples could not be computed");
    int64_t slices = (s->w_extent * s->elem + SLICE_BYTES - 1) / SLICE_BYTES;
    return LK_TRACE(
        lk__parallel(lk__tasks_bytes(slices, SLICE_BYTES * p->n_stretches), sums_join, &run));
}

/* No position takes part in any sum: all pieces are +0. */
static void run_empty(const lk__conv_shape *s, bool accumulate, void *dw)
{
    if (!accumulate) {
        memset(dw, 0, (size_t)(s->w_extent * s->elem));
        return;
    }
    for (int64_t i = 0; s->batch > 0 && i < s->w_extent; i++)
        if (s->dtype == LK_F32)
            ((float *)dw)[i] += 0.0F;
        else
            ((double *)dw)[i] += 0.0;
}

/* Make the part, or make it anew if it was made for another instruction set or number of threads. */
static lk_status part_get(lk_conv_plan *plan)
{
    const lk__columns_table *table = NULL;
    int threads;
    LK_TRY(lk__columns_get(&table));
    LK_TRY(lk_threads_now(&threads));
    if (plan->weights && plan->weights->plan.micro == &table->of[plan->shape.dtype] &&
        plan->weights->plan.threads == threads)
        return LK_OK;
    lk__conv_weights_free(plan->weights);
    return LK_TRACE(lk__conv_weights_new(&plan->shape, &plan->weights));
}

/* Whether some position takes part in some sum. */
static bool has_sums(const lk__conv_shape *s)
{
    return s->w_extent > 0 && s->x_extent > 0 && s->y_extent > 0;
}

lk_status lk__conv_weights_room(lk_conv_plan *plan, int64_t *bytes)
{
    *bytes = 0;
    if (!has_sums(&plan->shape))
        return LK_OK;
    LK_TRY(part_get(plan));
    *bytes = plan->weights->floor.all;
    return LK_OK;
}

lk_status lk__conv_weights_in(lk_conv_plan *plan, void *memory, int64_t bytes, const void *x,
                              const void *dy, bool accumulate, void *dw)
{
    LK_FP_GUARD();
    LK_TRY(LK_FP_CHECK());
    LK_CHECK(plan, LK_EINVAL, "plan is NULL");
    const lk__conv_shape *s = &plan->shape;
    const lk__conv_operand op[] = {lk__conv_operand_w(s, "dw", dw), lk__conv_operand_x(s, "x", x),
                                   lk__conv_operand_y(s, "dy", dy)};
    LK_TRY(lk__conv_operands_check(op, 3));
    if (s->w_extent == 0)
        return LK_OK;
    if (!has_sums(s)) {
        run_empty(s, accumulate, dw);
        return LK_OK;
    }
    int64_t needed;
    LK_TRY(lk__conv_weights_room(plan, &needed));
    if (plan->weights->is_product) {
        lk_gemm g = plan->weights->product;
        g.accumulate = accumulate;
        return LK_TRACE(lk_gemm_run(&g, x, dy, NULL, dw));
    }
    if (!memory || needed > bytes) {
        if (!plan->weights->own)
            LK_TRY(lk_alloc(&plan->weights->own, needed, 1));
        memory = plan->weights->own;
    }
    return LK_TRACE(run(plan->weights, memory, x, dy, accumulate, dw));
}

lk_status lk_conv_backward_weights(lk_conv_plan *plan, const void *x, const void *dy,
                                   bool accumulate, void *dw)
{
    return LK_TRACE(lk__conv_weights_in(plan, NULL, 0, x, dy, accumulate, dw));
}
