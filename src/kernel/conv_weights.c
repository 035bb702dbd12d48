/* The weight gradient of a convolution: chunk by chunk, pack and compute.
 *
 *   dw[tap][ic][oc] = tree over pieces of (chain over samples and output positions of
 *                     x[position of the tap][ic] * dy[position][oc])
 *
 * Work is split over the tiles of dw, never over positions.
 */
#include "kernel/conv_weights.h"

#include "kernel/conv_plan.h"
#include "kernel/conv_weights_tiles.h"
#include "kernel/parallel.h"

#include <lockstep/alloc.h>

#include <string.h>

enum { TURNS = 8 }; /* in which a thread takes its share of the tiles */

struct lk__conv_weights {
    lk__weights_plan plan;
    void *x, *y, *tree;
};

lk_status lk__conv_weights_new(const lk__conv_shape *s, struct lk__conv_weights **out)
{
    LK_TRY(lk__conv_weights_new_cut(s, &lk__weights_default, out));
    return LK_OK;
}

lk_status lk__conv_weights_new_cut(const lk__conv_shape *s, const lk__weights_aims *aims,
                                   struct lk__conv_weights **out)
{
    lk_status st;
    struct lk__conv_weights *w;
    size_t elem = (size_t)s->elem;
    *out = NULL;
    LK_TRY(lk_alloc_zero(&w, 1, sizeof *w));
    LK_TRY_TO(failed, lk__weights_plan_make(s, aims, &w->plan));
    LK_TRY_TO(failed, lk_alloc(&w->x, w->plan.x.room, elem));
    LK_TRY_TO(failed, lk_alloc(&w->y, w->plan.y.room, elem));
    LK_TRY_TO(failed, lk_alloc(&w->tree, w->plan.tree_room, elem));
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
    lk_free(part->x);
    lk_free(part->y);
    lk_free(part->tree);
    lk__weights_plan_release(&part->plan);
    lk_free(part);
}

/* A chunk of one side: which positions, from where, to which panels. */
typedef struct packing {
    const lk__weights_plan *p;
    const lk__weights_side *side;
    const char *from;
    int64_t from_sample;
    const int64_t *from_step;
    int64_t channels;
    lk__range box[LK_CUTS], columns;
    int64_t stride;                    /* columns this far apart become neighbours */
    int64_t row_pixels, stride_pixels; /* of a packed row; of those with one remainder */
    void *to;
} packing;

/* Where row `i` of the box begins. */
static const char *row_of(const packing *k, int64_t i)
{
    int64_t rows = k->box[LK_CUT_ROW].hi - k->box[LK_CUT_ROW].lo;
    int64_t planes = k->box[LK_CUT_PLANE].hi - k->box[LK_CUT_PLANE].lo;
    int64_t h = k->box[LK_CUT_ROW].lo + i % rows;
    int64_t d = k->box[LK_CUT_PLANE].lo + i / rows % planes;
    int64_t n = k->box[LK_CUT_SAMPLE].lo + i / rows / planes;
    return k->from +
           (n * k->from_sample + d * k->from_step[0] + h * k->from_step[1]) * k->p->s.elem;
}

/* Rows [first, last) of the box, into panels. */
static void pack_rows(void *arg, int64_t first, int64_t last)
{
    const packing *k = arg;
    lk__panels_args a = {.panel = k->side->slice,
                         .n_panels = k->p->groups * k->side->per_group,
                         .to = k->to,
                         .ld = k->from_step[2] * k->stride,
                         .channels = k->channels};
    for (int64_t i = first; i < last; i++)
        for (int64_t r = 0; r < k->stride && k->columns.lo + r < k->columns.hi; r++) {
            int64_t w = k->columns.lo + r;
            a.from = row_of(k, i) + w * k->from_step[2] * k->p->s.elem;
            a.n_pixels = (k->columns.hi - w + k->stride - 1) / k->stride;
            a.to_pixel = i * k->row_pixels + r * k->stride_pixels;
            k->p->pack(&a);
        }
}

/* The same for depthwise convolution with several output channels per input channel: every column
 * of x with its channels repeated. */
static void spread_rows(void *arg, int64_t first, int64_t last)
{
    const packing *k = arg;
    const lk__conv_shape *s = &k->p->s;
    for (int64_t i = first; i < last; i++) {
        const char *from = row_of(k, i);
        char *to = (char *)k->to + i * k->row_pixels * s->out_channels * s->elem;
        for (int64_t w = k->columns.lo; w < k->columns.hi; w++) {
            for (int64_t c = 0; c < s->out_channels; c++, to += s->elem)
                memcpy(to, from + (w * s->x_step[2] + c / s->group_out) * s->elem, (size_t)s->elem);
        }
    }
}

/* Copy a chunk of a side if the plan says so, and tell where it is. */
static lk_status pack(packing *k, lk__weights_view *view)
{
    bool spread = k->side == &k->p->x && k->p->spread;
    if (!k->side->packed && !spread) {
        *view = (lk__weights_view){.data = k->from, .step = {k->from_sample}};
        memcpy(&view->step[1], k->from_step, 3 * sizeof view->step[0]);
        return LK_OK;
    }
    int64_t n[LK_CUTS], pixel = spread ? k->p->s.out_channels : 1;
    for (int d = 0; d < LK_CUTS; d++)
        n[d] = k->box[d].hi - k->box[d].lo;
    *view = (lk__weights_view){.data = k->to};
    view->step[3] = pixel;
    view->step[2] = k->row_pixels * pixel;
    view->step[1] = n[2] * view->step[2];
    view->step[0] = n[1] * view->step[1];
    for (int d = 0; d < LK_CUTS; d++)
        view->start -= k->box[d].lo * view->step[d];
    if (spread)
        view->start -= k->columns.lo * pixel;
    LK_TRY(lk__parallel(n[0] * n[1] * n[2], 1, spread ? spread_rows : pack_rows, k));
    return LK_OK;
}

static lk_status pack_x(struct lk__conv_weights *w, lk__weights_job *job, const void *x)
{
    const lk__weights_plan *p = &w->plan;
    const lk__conv_shape *s = &p->s;
    packing k = {.p = p,
                 .side = &p->x,
                 .from = x,
                 .from_sample = s->x_sample,
                 .from_step = s->x_step,
                 .channels = s->in_channels,
                 .columns = p->need,
                 .stride = s->stride[2],
                 .row_pixels = p->pack_columns * s->stride[2],
                 .stride_pixels = p->pack_columns,
                 .to = w->x};
    k.box[LK_CUT_SAMPLE] = job->box[LK_CUT_SAMPLE];
    k.box[LK_CUT_PLANE] = lk__weights_reach(s, 0, job->box[LK_CUT_PLANE]);
    k.box[LK_CUT_ROW] = lk__weights_reach(s, 1, job->box[LK_CUT_ROW]);
    LK_TRY(pack(&k, &job->x));
    return LK_OK;
}

static lk_status pack_y(struct lk__conv_weights *w, lk__weights_job *job, const void *dy)
{
    const lk__conv_shape *s = &w->plan.s;
    packing k = {.p = &w->plan,
                 .side = &w->plan.y,
                 .from = dy,
                 .from_sample = s->y_sample,
                 .from_step = s->y_step,
                 .channels = s->out_channels,
                 .columns = {0, s->out[2]},
                 .stride = 1,
                 .row_pixels = s->out[2],
                 .to = w->y};
    memcpy(k.box, job->box, sizeof k.box);
    LK_TRY(pack(&k, &job->y));
    return LK_OK;
}

/* Elements of one side in a chunk, from its first to behind its last, if the tensor is dense. */
static int64_t chunk_span(const lk__weights_job *job, int64_t sample, const int64_t *step,
                          const int64_t *stride)
{
    const lk__conv_shape *s = &job->p->s;
    int64_t n[LK_CUTS];
    for (int d = 0; d < LK_CUTS; d++)
        n[d] = job->box[d].hi - job->box[d].lo;
    if (n[LK_CUT_ROW] < s->out[1])
        return n[LK_CUT_ROW] * stride[1] * step[1];
    if (n[LK_CUT_PLANE] < s->out[0])
        return n[LK_CUT_PLANE] * stride[0] * step[0];
    return n[LK_CUT_SAMPLE] * sample;
}

/* What lies behind this chunk is, in a dense tensor, the next one. */
static void look_ahead(lk__weights_job *job, const void *x, const void *dy)
{
    static const int64_t one[LK_CONV_AXES] = {1, 1, 1};
    const lk__conv_shape *s = &job->p->s;
    const lk__range *box = job->box;
    lk__weights_ahead *a = &job->ahead;
    int64_t x_at = box[LK_CUT_SAMPLE].lo * s->x_sample +
                   box[LK_CUT_PLANE].lo * s->stride[0] * s->x_step[0] +
                   box[LK_CUT_ROW].lo * s->stride[1] * s->x_step[1];
    int64_t y_at = box[LK_CUT_SAMPLE].lo * s->y_sample + box[LK_CUT_PLANE].lo * s->y_step[0] +
                   box[LK_CUT_ROW].lo * s->y_step[1];
    int64_t x_span = chunk_span(job, s->x_sample, s->x_step, s->stride);
    int64_t y_span = chunk_span(job, s->y_sample, s->y_step, one);
    a->from[0] = (const char *)x + (x_at + x_span) * s->elem;
    a->from[1] = (const char *)dy + (y_at + y_span) * s->elem;
    a->bytes[0] = x_span * s->elem;
    a->bytes[1] = y_span * s->elem;
    a->per_task = (a->bytes[0] + a->bytes[1]) / lk__weights_tasks(job->p) + 1;
    int64_t pixels = job->p->n_taps * s->out[2];
    for (int d = 0; d < LK_CUTS; d++)
        pixels *= box[d].hi - box[d].lo;
    a->per_pixel = a->per_task / pixels + 1;
}

static lk_status chunk_run(struct lk__conv_weights *w, lk__weights_job *job, const void *x,
                           const void *dy)
{
    const lk__conv_shape *s = &job->p->s;
    LK_TRY(pack_x(w, job, x));
    LK_TRY(pack_y(w, job, dy));
    bool last = job->box[LK_CUT_SAMPLE].hi == s->batch && job->box[LK_CUT_PLANE].hi == s->out[0] &&
                job->box[LK_CUT_ROW].hi == s->out[1];
    job->ahead = (lk__weights_ahead){0};
    if (!last)
        look_ahead(job, x, dy);
    /* Neighbouring tiles share a slice, so a thread takes several at a time. */
    int threads;
    LK_TRY(lk_threads_get(&threads));
    int64_t tasks = lk__weights_tasks(job->p);
    LK_TRY(lk__parallel(tasks, tasks / (threads * TURNS), lk__weights_tiles, job));
    return LK_OK;
}

static lk__range part(int64_t lo, int64_t step, int64_t end)
{
    return (lk__range){lo, lo + step < end ? lo + step : end};
}

static lk_status run(struct lk__conv_weights *w, const void *x, const void *dy, bool accumulate,
                     void *dw)
{
    const lk__conv_shape *s = &w->plan.s;
    const int64_t *chunk = w->plan.chunk;
    lk__weights_job job = {.p = &w->plan, .tree = w->tree, .dw = dw, .accumulate = accumulate};
    for (int64_t n = 0; n < s->batch; n += chunk[LK_CUT_SAMPLE])
        for (int64_t d = 0; d < s->out[0]; d += chunk[LK_CUT_PLANE])
            for (int64_t h = 0; h < s->out[1]; h += chunk[LK_CUT_ROW]) {
                job.box[LK_CUT_SAMPLE] = part(n, chunk[LK_CUT_SAMPLE], s->batch);
                job.box[LK_CUT_PLANE] = part(d, chunk[LK_CUT_PLANE], s->out[0]);
                job.box[LK_CUT_ROW] = part(h, chunk[LK_CUT_ROW], s->out[1]);
                LK_TRY(chunk_run(w, &job, x, dy));
            }
    return LK_OK;
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

/* Make the part, or make it anew if the instruction set is another one now. */
static lk_status part_get(lk_conv *plan)
{
    const lk__columns_table *table = NULL;
    LK_TRY(lk__columns_get(&table));
    if (plan->weights && plan->weights->plan.micro == &table->of[plan->shape.dtype])
        return LK_OK;
    lk__conv_weights_free(plan->weights);
    LK_TRY(lk__conv_weights_new(&plan->shape, &plan->weights));
    return LK_OK;
}

lk_status lk_conv_backward_weights(lk_conv *plan, const void *x, const void *dy, bool accumulate,
                                   void *dw)
{
    LK_TRY(lk__fp_check());
    LK_CHECK(plan, LK_EINVAL, "plan is NULL");
    const lk__conv_shape *s = &plan->shape;
    const lk__conv_operand op[] = {lk__conv_operand_w(s, "dw", dw), lk__conv_operand_x(s, "x", x),
                                   lk__conv_operand_y(s, "dy", dy)};
    LK_TRY(lk__conv_operands_check(op, 3));
    if (s->w_extent == 0)
        return LK_OK;
    if (s->x_extent == 0 || s->y_extent == 0) {
        run_empty(s, accumulate, dw);
        return LK_OK;
    }
    LK_TRY(part_get(plan));
    LK_TRY(run(plan->weights, x, dy, accumulate, dw));
    return LK_OK;
}
