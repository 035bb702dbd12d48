/* Copy a chunk of x and dy into panels, where the plan says so. */
#include "kernel/conv/weights_tiles.h"
#include "kernel/runtime/parallel.h"

#include <string.h>

/* A chunk of one side: which positions, from where, to which panels. */
typedef struct packing {
    const lk__weights_plan *p;
    const lk__weights_side *side;
    const char *from;
    int64_t from_sample;
    const int64_t *from_step;
    int64_t channels;
    lk__range box[LK_CUTS];            /* what is copied */
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
        for (int64_t r = 0;
             r < k->stride && k->box[LK_CUT_COLUMN].lo + r < k->box[LK_CUT_COLUMN].hi; r++) {
            int64_t w = k->box[LK_CUT_COLUMN].lo + r;
            a.from = row_of(k, i) + w * k->from_step[2] * k->p->s.elem;
            a.n_pixels = (k->box[LK_CUT_COLUMN].hi - w + k->stride - 1) / k->stride;
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
        for (int64_t w = k->box[LK_CUT_COLUMN].lo; w < k->box[LK_CUT_COLUMN].hi; w++) {
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
    int64_t n[LK_CUT_COLUMN], pixel = spread ? k->p->s.out_channels : 1;
    for (int d = 0; d < LK_CUT_COLUMN; d++)
        n[d] = k->box[d].hi - k->box[d].lo;
    *view = (lk__weights_view){.data = k->to};
    view->step[3] = pixel;
    view->step[2] = k->row_pixels * pixel;
    view->step[1] = n[2] * view->step[2];
    view->step[0] = n[1] * view->step[1];
    for (int d = 0; d < LK_CUT_COLUMN; d++)
        view->start -= k->box[d].lo * view->step[d];
    if (spread)
        view->start -= k->box[LK_CUT_COLUMN].lo * pixel;
    const int64_t bytes = k->row_pixels * k->channels * k->p->s.elem;
    return LK_TRACE(lk__parallel(lk__tasks_bytes(n[0] * n[1] * n[2], bytes),
                                 spread ? spread_rows : pack_rows, k));
}

static lk_status pack_x(lk__weights_job *job, const void *x, void *room)
{
    const lk__weights_plan *p = job->p;
    const lk__conv_shape *s = &p->s;
    packing k = {.p = p,
                 .side = &p->x,
                 .from = x,
                 .from_sample = s->x_sample,
                 .from_step = s->x_step,
                 .channels = s->in_channels,
                 .stride = s->window.stride[2] < s->in[2] ? s->window.stride[2] : s->in[2],
                 .row_pixels = p->pack_row,
                 .stride_pixels = p->pack_columns,
                 .to = room};
    k.box[LK_CUT_SAMPLE] = job->box[LK_CUT_SAMPLE];
    for (int d = 0; d < LK_CONV_AXES; d++)
        k.box[LK_CUT_PLANE + d] = lk__weights_reach(s, d, job->box[LK_CUT_PLANE + d]);
    return LK_TRACE(pack(&k, &job->x));
}

static lk_status pack_y(lk__weights_job *job, const void *dy, void *room)
{
    const lk__weights_plan *p = job->p;
    const lk__conv_shape *s = &p->s;
    packing k = {.p = p,
                 .side = &p->y,
                 .from = dy,
                 .from_sample = s->y_sample,
                 .from_step = s->y_step,
                 .channels = s->out_channels,
                 .stride = 1,
                 .row_pixels = p->chunk[LK_CUT_COLUMN],
                 .to = room};
    memcpy(k.box, job->box, sizeof k.box);
    LK_TRY(pack(&k, &job->y));
    if (p->y.packed)
        job->y.start -= job->box[LK_CUT_COLUMN].lo;
    return LK_OK;
}

lk_status lk__weights_pack(lk__weights_job *job, const void *x, const void *dy, void *x_room,
                           void *y_room)
{
    LK_TRY(pack_x(job, x, x_room));
    return LK_TRACE(pack_y(job, dy, y_room));
}
