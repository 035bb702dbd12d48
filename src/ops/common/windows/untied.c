/* Untied convolution: gather what a site reads, multiply, and put it where it belongs. */
#include "ops/common/windows/untied.h"

#include "kernel/runtime/parallel.h"
#include "ops/common/products.h"
#include "ops/common/windows/conv.h"
#include "tensor/tensor.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/extra/checked.h>
#include <lockstep/extra/gemm.h>

/* Work that is worth a thread, in multiply-adds. */
static const double grain_work = 1 << 18;

/* A box of the positions of a whole, unused axes in front. */
typedef struct box3 {
    int64_t first[3], n[3], count;
} box3;

/* Sizes with the unused axes in front, and the operands. */
typedef struct untied {
    lk_dtype dtype;
    size_t elem;
    int64_t batch, in[3], out[3], kernel[3], stride[3], dilation[3], pad[3];
    int64_t taps, in_channels, out_channels, piece;
    char *x, *w, *y;
    box3 x_box, w_box, y_box, sites;
    lk__untied_result result;
    int64_t n_slots, slot_bytes;
    char *slots;
    _Atomic int failed;
} untied;

/* Room for one site: what it is related to, and two matrices. */
typedef struct slot {
    int64_t at[3];           /* the site */
    int64_t n, *other, *tap; /* places on the other side, and through which tap */
    int64_t *filter;         /* of an input position: the places of their filters */
    char *a, *b;
} slot;

lk_shape lk__untied_weights(const lk_shape *x, const lk_shape *y, const int64_t *kernel)
{
    int ndim = x->ndim - 2;
    lk_shape w = {.ndim = 2 * ndim + 2};
    for (int d = 0; d < ndim; d++) {
        w.dim[d] = y->dim[d + 1];
        w.dim[ndim + d] = kernel[d];
    }
    w.dim[ndim + ndim] = x->dim[ndim + 1];
    w.dim[ndim + ndim + 1] = y->dim[ndim + 1];
    return w;
}

lk_status lk__untied_begin(const lk_call *c, const lk_conv_attr *a, int *ndim)
{
    int64_t groups = 1;
    LK_TRY(lk__conv_begin(c, a, ndim, &groups));
    LK_CHECK(groups == 1, LK_EINVAL, "%s of %s: groups is %lld, must be 1", c->op->name,
             lk_tensor_text(c->x[0]).s, (long long)groups);
    LK_CHECK(a->algorithm == LK_CONV_DIRECT, LK_EINVAL, "%s of %s: algorithm is %d, must be direct",
             c->op->name, lk_tensor_text(c->x[0]).s, (int)a->algorithm);
    return LK_OK;
}

/* ---- sites ---- */

/* Coordinates of position `i` of axes of these sizes. */
static void coordinates(const int64_t *size, int64_t i, int64_t *at)
{
    for (int d = 2; d >= 0; d--) {
        at[d] = i % size[d];
        i /= size[d];
    }
}

/* Where a position lies in the array of a box. */
static int64_t place_in(const box3 *box, const int64_t *at)
{
    int64_t place = 0;
    for (int d = 0; d < 3; d++)
        place = place * box->n[d] + at[d] - box->first[d];
    return place;
}

/* The taps of an output position that are not padding, in raster order. */
static void find_taps(const untied *u, slot *s)
{
    int64_t i[3], t[3];
    s->n = 0;
    for (int64_t tap = 0; tap < u->taps; tap++) {
        bool inside = true;
        coordinates(u->kernel, tap, t);
        for (int d = 0; d < 3; d++) {
            i[d] = s->at[d] * u->stride[d] - u->pad[d] + t[d] * u->dilation[d];
            inside = inside && i[d] >= 0 && i[d] < u->in[d];
        }
        if (inside) {
            s->other[s->n] = place_in(&u->x_box, i);
            s->tap[s->n++] = tap;
        }
    }
}

/* The output positions that an input position belongs to, in raster order: as taps ascend, positions
 * descend. */
static void find_windows(const untied *u, slot *s)
{
    int64_t o[3], t[3];
    s->n = 0;
    for (int64_t tap = u->taps - 1; tap >= 0; tap--) {
        bool inside = true;
        coordinates(u->kernel, tap, t);
        for (int d = 0; d < 3; d++) {
            int64_t from = s->at[d] + u->pad[d] - t[d] * u->dilation[d];
            o[d] = from / u->stride[d];
            inside = inside && from >= 0 && from % u->stride[d] == 0 && o[d] < u->out[d];
        }
        if (inside) {
            s->other[s->n] = place_in(&u->y_box, o);
            s->filter[s->n] = place_in(&u->w_box, o);
            s->tap[s->n++] = tap;
        }
    }
}

/* a = the elements of the related positions, a row for each sample; `from` has `positions` positions
 * of `channels` channels. */
static void gather_rows(const untied *u, const slot *s, const char *from, int64_t positions,
                        int64_t channels)
{
    const size_t size = (size_t)channels * u->elem;
    char *to = s->a;
    for (int64_t b = 0; b < u->batch; b++)
        for (int64_t j = 0, run; j < s->n; j += run) {
            for (run = 1; j + run < s->n && s->other[j + run] == s->other[j] + run;)
                run++;
            memcpy(to, from + (size_t)(b * positions + s->other[j]) * size, (size_t)run * size);
            to += (size_t)run * size;
        }
}

/* y of one output position. */
static lk_status site_y(const untied *u, slot *s)
{
    const size_t filter = (size_t)(u->in_channels * u->out_channels) * u->elem;
    const char *w = u->w + (size_t)(place_in(&u->w_box, s->at) * u->taps) * filter;
    char *y = u->y + (size_t)(place_in(&u->y_box, s->at) * u->out_channels) * u->elem;
    find_taps(u, s);
    gather_rows(u, s, u->x, u->x_box.count, u->in_channels);
    if (s->n < u->taps) {
        for (int64_t j = 0; j < s->n; j++)
            memcpy(s->b + (size_t)j * filter, w + (size_t)s->tap[j] * filter, filter);
        w = s->b;
    }
    lk_gemm g = {.dtype = u->dtype,
                 .m = u->batch,
                 .n = u->out_channels,
                 .k = s->n * u->in_channels,
                 .lda = s->n * u->in_channels,
                 .ldb = u->out_channels,
                 .ldc = u->y_box.count * u->out_channels};
    return LK_TRACE(lk_gemm_run(&g, s->a, w, NULL, y));
}

/* x of one input position. */
static lk_status site_x(const untied *u, slot *s)
{
    const size_t row = (size_t)u->out_channels * u->elem;
    char *x = u->x + (size_t)(place_in(&u->x_box, s->at) * u->in_channels) * u->elem;
    find_windows(u, s);
    gather_rows(u, s, u->y, u->y_box.count, u->out_channels);
    char *to = s->b; /* transposed: [in_channels][related, out_channels] */
    for (int64_t ic = 0; ic < u->in_channels; ic++)
        for (int64_t j = 0; j < s->n; j++, to += row) {
            int64_t filter = s->filter[j] * u->taps + s->tap[j];
            memcpy(to, u->w + (size_t)(filter * u->in_channels + ic) * row, row);
        }
    lk_gemm g = {.dtype = u->dtype,
                 .trans_b = true,
                 .m = u->batch,
                 .n = u->in_channels,
                 .k = s->n * u->out_channels,
                 .lda = s->n * u->out_channels,
                 .ldb = s->n * u->out_channels,
                 .ldc = u->x_box.count * u->in_channels};
    return LK_TRACE(lk_gemm_run(&g, s->a, s->b, NULL, x));
}

/* The filter of one output position. */
static lk_status site_w(const untied *u, slot *s)
{
    const size_t filter = (size_t)(u->in_channels * u->out_channels) * u->elem;
    char *w = u->w + (size_t)(place_in(&u->w_box, s->at) * u->taps) * filter;
    const char *y = u->y + (size_t)(place_in(&u->y_box, s->at) * u->out_channels) * u->elem;
    find_taps(u, s);
    gather_rows(u, s, u->x, u->x_box.count, u->in_channels);
    const bool all = s->n == u->taps;
    lk_gemm g = {.dtype = u->dtype,
                 .trans_a = true,
                 .m = s->n * u->in_channels,
                 .n = u->out_channels,
                 .k = u->batch,
                 .lda = s->n * u->in_channels,
                 .ldb = u->y_box.count * u->out_channels,
                 .ldc = u->out_channels,
                 .piece = u->piece};
    LK_TRY(lk_gemm_run(&g, s->a, y, NULL, all ? w : s->b));
    if (all)
        return LK_OK;
    memset(w, 0, (size_t)u->taps * filter);
    for (int64_t j = 0; j < s->n; j++)
        memcpy(w + (size_t)s->tap[j] * filter, s->b + (size_t)j * filter, filter);
    return LK_OK;
}

/* ---- all sites ---- */

/* Cut the room of slot `k`. */
static slot slot_at(const untied *u, int64_t k)
{
    char *room = u->slots + k * u->slot_bytes;
    slot s = {.other = (int64_t *)(void *)room};
    int64_t wide = u->in_channels > u->out_channels ? u->in_channels : u->out_channels;
    s.tap = s.other + u->taps;
    s.filter = s.tap + u->taps;
    s.a = (char *)(s.filter + u->taps);
    s.b = s.a + (size_t)(u->batch * u->taps * wide) * u->elem;
    return s;
}

static lk_status slot_room(untied *u)
{
    int64_t wide = u->in_channels > u->out_channels ? u->in_channels : u->out_channels, rows, both,
            bytes;
    LK_TRY(lk_mul_i64(u->in_channels, u->out_channels, &both));
    LK_TRY(lk_mul_i64(u->batch, wide, &rows));
    LK_TRY(lk_add_i64(rows, both, &both));
    LK_TRY(lk_mul_i64(both, (int64_t)u->elem, &bytes));
    LK_TRY(lk_add_i64(bytes, 3 * (int64_t)sizeof(int64_t), &bytes));
    LK_TRY(lk_mul_i64(bytes, u->taps, &bytes));
    return LK_TRACE(lk_round_up_i64(bytes, LK_ALIGN, &u->slot_bytes));
}

static void run_slots(void *arg, int64_t first, int64_t last)
{
    untied *u = arg;
    for (int64_t k = first; k < last; k++) {
        slot s = slot_at(u, k);
        int64_t end = (k + 1) * u->sites.count / u->n_slots;
        for (int64_t i = k * u->sites.count / u->n_slots; i < end; i++) {
            coordinates(u->sites.n, i, s.at);
            for (int d = 0; d < 3; d++)
                s.at[d] += u->sites.first[d];
            lk_status st = u->result == LK_UNTIED_Y   ? site_y(u, &s)
                           : u->result == LK_UNTIED_X ? site_x(u, &s)
                                                      : site_w(u, &s);
            if (st != LK_OK)
                u->failed = st;
        }
    }
}

static box3 box_of(const lk_box *box, int ndim)
{
    box3 b = {.count = 1};
    for (int d = 0; d < 3; d++) {
        int own = d - (3 - ndim);
        b.first[d] = own >= 0 ? box->first[own] : 0;
        b.n[d] = own >= 0 ? box->n[own] : 1;
        b.count *= b.n[d];
    }
    return b;
}

static untied untied_of(const lk__untied_boxes *b)
{
    int ndim = b->window.ndim;
    untied u = {.dtype = b->dtype,
                .elem = lk_dtype_size(b->dtype),
                .batch = b->batch,
                .taps = 1,
                .in_channels = b->in_channels,
                .out_channels = b->out_channels,
                .x = b->x,
                .w = b->w,
                .y = b->y,
                .x_box = box_of(&b->x_box, ndim),
                .w_box = box_of(&b->w_box, ndim),
                .y_box = box_of(&b->y_box, ndim),
                .sites = box_of(&b->sites, ndim)};
    for (int d = 0; d < 3; d++) {
        int own = d - (3 - ndim);
        bool used = own >= 0;
        u.in[d] = used ? b->in[own] : 1;
        u.out[d] = used ? b->out[own] : 1;
        u.kernel[d] = used ? b->window.kernel[own] : 1;
        u.stride[d] = used && b->window.stride[own] > 0 ? b->window.stride[own] : 1;
        u.dilation[d] = used && b->window.dilation[own] > 0 ? b->window.dilation[own] : 1;
        u.pad[d] = used ? b->window.pad_lo[own] : 0;
        u.taps *= u.kernel[d];
    }
    return u;
}

lk_status lk__untied_run_boxes(lk_call *c, lk__untied_result result, const lk__untied_boxes *boxes)
{
    int threads = 1;
    int64_t bytes;
    untied u = untied_of(boxes);
    u.result = result;
    if (u.sites.count == 0)
        return LK_OK;
    u.piece = lk__piece_of(c->tape, u.batch);
    LK_TRY(lk_threads_now(&threads));
    double work = (double)u.batch * (double)u.taps * (double)u.in_channels *
                  (double)u.out_channels * (double)u.sites.count;
    u.n_slots = threads == 1 ? 1 : 4 * (int64_t)threads;
    if (work < grain_work * (double)u.n_slots)
        u.n_slots = 1 + (int64_t)(work / grain_work);
    if (u.n_slots > u.sites.count)
        u.n_slots = u.sites.count;
    LK_TRY(slot_room(&u));
    LK_TRY(lk_mul_i64(u.slot_bytes, u.n_slots, &bytes));
    LK_TRY(lk_call_scratch(c, bytes, &u.slots));
    LK_TRY(lk__parallel(lk__tasks_products(u.n_slots, work / (double)u.n_slots), run_slots, &u));
    LK_CHECK(u.failed == LK_OK, (lk_status)u.failed, "%s: a part of the positions failed",
             c->op->name);
    return LK_OK;
}

lk_status lk__untied_run(lk_call *c, const lk_conv_attr *a, lk__untied_result result,
                         const lk_tensor *x, const lk_tensor *w, const lk_tensor *y)
{
    int ndim = x->shape.ndim - 2;
    if (x->count == 0 || w->count == 0 || y->count == 0) {
        memset(lk__tensor_start(c->y[0]), 0, (size_t)c->y[0]->count * lk_dtype_size(x->dtype));
        return LK_OK;
    }
    lk__untied_boxes b = {.dtype = x->dtype,
                          .window = a->window,
                          .batch = x->shape.dim[0],
                          .in_channels = x->shape.dim[ndim + 1],
                          .out_channels = y->shape.dim[ndim + 1],
                          .x = lk__tensor_start(x),
                          .w = lk__tensor_start(w),
                          .y = lk__tensor_start(y),
                          .x_box = lk_box_whole(ndim, &x->shape.dim[1]),
                          .y_box = lk_box_whole(ndim, &y->shape.dim[1])};
    b.window.ndim = ndim;
    b.w_box = b.y_box;
    b.sites = result == LK_UNTIED_X ? b.x_box : b.y_box;
    for (int d = 0; d < ndim; d++) {
        b.in[d] = x->shape.dim[d + 1];
        b.out[d] = y->shape.dim[d + 1];
        b.window.kernel[d] = w->shape.dim[ndim + d];
    }
    return LK_TRACE(lk__untied_run_boxes(c, result, &b));
}
