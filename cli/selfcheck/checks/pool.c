/* Checks of the three poolings and their backward passes: whole, by samples and by tiles.  A tile is a box of the
 * image, as a rank of a spatial layout has it.
 *
 * Inputs are x and dy; outputs y, dx and, for the maximum, the index.
 */
#include "kernel/reference/place.h"
#include "kernel/reference/reference.h"
#include "selfcheck/check_conv.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/extra/pool.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { IN_X, IN_DY };
enum { OUT_Y, OUT_DX, OUT_INDEX };

/* The operands of one call; `index` is NULL where the pooling has none. */
typedef struct pool_operands {
    const void *x, *dy;
    void *y, *dx;
    int64_t *index;
} pool_operands;

typedef lk_status pool_fn(const lk_pool_shape *s, const pool_operands *o);

/* Which of the three a check is of. */
struct pooling {
    pool_fn *forward, *backward;
    /* Both by definition, into `o` and the values of `truth`. */
    void (*define)(const lk_pool_shape *s, const pool_operands *o, check_truth *truth);
    bool has_index;
};

enum { N = LK_CONV_MAX_NDIM };

static const struct pool_case {
    int ndim, batch, channels;
    int in[N], kernel[N], stride[N], pad_lo[N], pad_hi[N];
    bool count_padding;
} cases[] = {
    {2, 2, 32, {8, 8}, {2, 2}, {2, 2}, {0, 0}, {0, 0}, false},
    {2, 3, 17, {9, 11}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, false},
    {2, 3, 17, {9, 11}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, true},
    {2, 2, 5, {7, 7}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, true},
    {2, 2, 1, {13, 10}, {2, 3}, {3, 4}, {0, 1}, {0, 1}, false},
    {2, 2, 9, {7, 6}, {7, 6}, {1, 1}, {0, 0}, {0, 0}, false},
    {2, 4, 3, {6, 5}, {4, 2}, {1, 1}, {2, 0}, {1, 1}, true},
    {1, 3, 20, {37}, {5}, {2}, {2}, {2}, false},
    {3, 2, 4, {5, 6, 7}, {2, 3, 2}, {2, 1, 2}, {0, 1, 1}, {0, 1, 0}, false},
    {2, 2, 3, {4, 3}, {2, 2}, {1, 1}, {3, 2}, {3, 2}, false}, /* windows without a tap */
    {2, 2, 7, {6, 5}, {1, 1}, {1, 1}, {-1, 0}, {0, -2}, false},
    {2, 0, 3, {5, 5}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, false},
    {2, 2, 0, {5, 5}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, false},
    {2, 2, 3, {2, 5}, {3, 3}, {1, 1}, {0, 0}, {0, 0}, false},
};

enum { N_CASES = sizeof cases / sizeof cases[0] };

/* The geometry of a case as the depthwise convolution that reads the same positions. */
static lk_status geometry_of(const check_case *c, lk_conv_shape *g)
{
    const struct pool_case *k = &cases[c->index];
    lk_conv_shape given = {.dtype = c->dtype,
                           .window.ndim = k->ndim,
                           .batch = k->batch,
                           .in_channels = k->channels,
                           .out_channels = k->channels};
    for (int d = 0; d < k->ndim; d++) {
        given.in[d] = k->in[d];
        given.window.kernel[d] = k->kernel[d];
        given.window.stride[d] = k->stride[d];
        given.window.pad_lo[d] = k->pad_lo[d];
        LK_TRY(lk_conv_out(k->in[d], k->kernel[d], k->stride[d], 1, k->pad_lo[d], k->pad_hi[d],
                           &given.out[d]));
    }
    *g = lk__ref_conv_shape(&given);
    return LK_OK;
}

static lk_status pool_setup(check_case *c)
{
    const struct pool_case *k = &cases[c->index];
    lk_conv_shape g;
    LK_TRY(geometry_of(c, &g));
    snprintf(c->label, sizeof c->label,
             "%d of %lldx%lldx%lldx%d, window %lldx%lldx%lld, stride %lldx%lldx%lld%s", k->batch,
             (long long)g.in[0], (long long)g.in[1], (long long)g.in[2], k->channels,
             (long long)g.window.kernel[0], (long long)g.window.kernel[1],
             (long long)g.window.kernel[2], (long long)g.window.stride[0],
             (long long)g.window.stride[1], (long long)g.window.stride[2],
             k->count_padding ? ", padding counted" : "");
    LK_TRY(check_input(c, c->dtype, check_conv_x_size(&g), -4, 4));
    LK_TRY(check_input(c, c->dtype, check_conv_y_size(&g), -1, 1));
    /* Few different values, so that maxima are shared. */
    for (int64_t i = 0; i < c->in[IN_X].n && c->index % 2 == 1; i++)
        check_set(c->dtype, c->in[IN_X].data, i, floor(check_get(c->dtype, c->in[IN_X].data, i)));
    LK_TRY(check_output(c, c->dtype, check_conv_y_size(&g), false));
    LK_TRY(check_output(c, c->dtype, check_conv_x_size(&g), false));
    if (((const struct pooling *)c->check->data)->has_index)
        LK_TRY(check_output(c, LK_I64, c->out[OUT_Y].n, false));
    c->ways = 1U << CONV_WHOLE | 1U << CONV_BATCH | 1U << CONV_IMAGE;
    return LK_OK;
}

static lk_pool_shape pool_shape(const check_case *c, const lk_conv_shape *g)
{
    lk_pool_shape s = {.dtype = g->dtype,
                       .window.ndim = g->window.ndim,
                       .batch = g->batch,
                       .channels = g->in_channels,
                       .count_padding = cases[c->index].count_padding,
                       .x_sample = g->x_sample,
                       .y_sample = g->y_sample};
    for (int d = 0; d < N; d++) {
        s.in[d] = g->in[d];
        s.out[d] = g->out[d];
        s.window.kernel[d] = g->window.kernel[d];
        s.window.stride[d] = g->window.stride[d];
        s.window.pad_lo[d] = g->window.pad_lo[d];
        s.x_step[d] = g->x_step[d];
        s.y_step[d] = g->y_step[d];
    }
    return s;
}

/* Position `at` (in raster order of the sizes `from`), moved by `shift` into the sizes `to`; -1 if
 * it is not in there. */
static int64_t moved(int64_t at, const int64_t *from, const int64_t *shift, const int64_t *to)
{
    if (at < 0)
        return -1;
    int64_t p[N], result = 0;
    for (int d = N - 1; d >= 0; d--) {
        p[d] = at % from[d] + shift[d];
        at /= from[d];
    }
    for (int d = 0; d < N; d++) {
        if (p[d] < 0 || p[d] >= to[d])
            return -1;
        result = result * to[d] + p[d];
    }
    return result;
}

/* Translate the indices of a tile to the whole's positions or back. */
static void move_indices(const lk_conv_shape *g, const check_conv_part *p, int64_t *index,
                         bool to_whole)
{
    const lk_conv_shape *s = &p->shape;
    int64_t shift[N];
    for (int d = 0; d < N; d++)
        shift[d] = to_whole ? p->i[d] : -p->i[d];
    for (int64_t b = 0; b < s->batch; b++)
        for (lk__ref_place o = place_first(s->out); o.is; o = place_next(o, s->out)) {
            int64_t *v = &index[p->y + b * s->y_sample + place_offset(o, s->y_step)];
            for (int64_t k = 0; k < s->out_channels; k++)
                v[k] = to_whole ? moved(v[k], s->in, shift, g->in)
                                : moved(v[k], g->in, shift, s->in);
        }
}

/* Copy the inputs of a part from one tensor to another. */
static void copy_inputs(const check_conv_part *p, const void *from, void *to)
{
    const lk_conv_shape *s = &p->shape;
    for (int64_t b = 0; b < s->batch; b++)
        for (lk__ref_place i = place_first(s->in); i.is; i = place_next(i, s->in)) {
            int64_t at = p->x + b * s->x_sample + place_offset(i, s->x_step);
            memcpy(check_at(s->dtype, to, at), check_at(s->dtype, from, at),
                   (size_t)s->in_channels * lk_dtype_size(s->dtype));
        }
}

/* One pass on a part, in place. */
static lk_status run_part(const check_case *c, const check_conv_part *p, pool_fn *fn,
                          void *const *out)
{
    lk_pool_shape s = pool_shape(c, &p->shape);
    pool_operands o = {
        .x = check_at(c->dtype, c->in[IN_X].data, p->x),
        .dy = check_at(c->dtype, c->in[IN_DY].data, p->y),
        .y = check_at(c->dtype, out[OUT_Y], p->y),
        .dx = check_at(c->dtype, out[OUT_DX], p->x),
        .index = c->n_out > OUT_INDEX ? (int64_t *)out[OUT_INDEX] + p->y : NULL,
    };
    return LK_TRACE(fn(&s, &o));
}

/* Backward on a tile: it has all inputs under its windows, since an average depends on their number, and
 * only those that are its own are taken from it. */
static lk_status run_tile_back(const check_case *c, const lk_conv_shape *g,
                               const check_conv_part *own, pool_fn *fn, void *const *out)
{
    lk_status st;
    check_conv_part p = check_conv_widen(g, own);
    void *tile[CHECK_MAX_OUTPUTS] = {[OUT_Y] = out[OUT_Y]};
    LK_TRY_TO(done, lk_alloc(&tile[OUT_DX], c->out[OUT_DX].n, lk_dtype_size(c->dtype)));
    if (c->n_out > OUT_INDEX) {
        int64_t n = c->out[OUT_INDEX].n;
        LK_TRY_TO(done, lk_alloc(&tile[OUT_INDEX], n, sizeof(int64_t)));
        memcpy(tile[OUT_INDEX], out[OUT_INDEX], (size_t)n * sizeof(int64_t));
        move_indices(g, &p, tile[OUT_INDEX], false);
    }
    LK_TRY_TO(done, run_part(c, &p, fn, tile));
    copy_inputs(own, tile[OUT_DX], out[OUT_DX]);
done:
    lk_free(tile[OUT_DX]);
    lk_free(tile[OUT_INDEX]);
    return st;
}

static lk_status run_pass(const check_case *c, int way, bool backward, pool_fn *fn,
                          void *const *out)
{
    lk_conv_shape g;
    LK_TRY(geometry_of(c, &g));
    for (int i = 0; i < check_conv_n_parts(&g, way); i++) {
        check_conv_part p = check_conv_get_part(&g, way, i, backward);
        if (way == CONV_IMAGE && backward)
            LK_TRY(run_tile_back(c, &g, &p, fn, out));
        else
            LK_TRY(run_part(c, &p, fn, out));
        if (way == CONV_IMAGE && !backward && c->n_out > OUT_INDEX)
            move_indices(&g, &p, out[OUT_INDEX], true);
    }
    return LK_OK;
}

static lk_status pool_run(const check_case *c, int way, void *const *out)
{
    const struct pooling *p = c->check->data;
    LK_TRY(run_pass(c, way, false, p->forward, out));
    return LK_TRACE(run_pass(c, way, true, p->backward, out));
}

static lk_status pool_expect(const check_case *c, check_truth *truth)
{
    lk_conv_shape g;
    LK_TRY(geometry_of(c, &g));
    lk_pool_shape s = pool_shape(c, &g);
    pool_operands o = {.x = c->in[IN_X].data,
                       .dy = c->in[IN_DY].data,
                       .y = truth->bits[OUT_Y],
                       .dx = truth->bits[OUT_DX],
                       .index = truth->bits[OUT_INDEX]};
    for (int i = 0; i < c->n_out; i++)
        truth->has_bits[i] = true;
    ((const struct pooling *)c->check->data)->define(&s, &o, truth);
    return LK_OK;
}

/* ---- the three ---- */

static lk_status avg_forward(const lk_pool_shape *s, const pool_operands *o)
{
    return LK_TRACE(lk_pool_avg(s, o->x, o->y));
}

static lk_status avg_backward(const lk_pool_shape *s, const pool_operands *o)
{
    return LK_TRACE(lk_pool_avg_backward(s, o->dy, o->dx));
}

static void avg_define(const lk_pool_shape *s, const pool_operands *o, check_truth *truth)
{
    lk__ref_pool_avg(s, o->x, o->y, truth->value[OUT_Y]);
    lk__ref_pool_avg_backward(s, o->dy, o->dx, truth->value[OUT_DX]);
}

const lk__check lk__check_pool_avg = {
    .name = "pool_avg",
    .summary = "average pooling, with and without the padding counted, and the backward pass",
    .n_cases = N_CASES,
    .ways = {"whole", "split batch", "split image"},
    .setup = pool_setup,
    .run = pool_run,
    .expect = pool_expect,
    .data = &(const struct pooling){avg_forward, avg_backward, avg_define, false},
};

static lk_status l2_forward(const lk_pool_shape *s, const pool_operands *o)
{
    return LK_TRACE(lk_pool_l2(s, o->x, o->y));
}

static lk_status l2_backward(const lk_pool_shape *s, const pool_operands *o)
{
    return LK_TRACE(lk_pool_l2_backward(s, o->x, o->y, o->dy, o->dx));
}

static void l2_define(const lk_pool_shape *s, const pool_operands *o, check_truth *truth)
{
    lk__ref_pool_l2(s, o->x, o->y, truth->value[OUT_Y]);
    lk__ref_pool_l2_backward(s, o->x, o->y, o->dy, o->dx, truth->value[OUT_DX]);
}

const lk__check lk__check_pool_l2 = {
    .name = "pool_l2",
    .summary = "L2 pooling and its backward pass",
    .n_cases = N_CASES,
    .ways = {"whole", "split batch", "split image"},
    .setup = pool_setup,
    .run = pool_run,
    .expect = pool_expect,
    .data = &(const struct pooling){l2_forward, l2_backward, l2_define, false},
};

static lk_status max_forward(const lk_pool_shape *s, const pool_operands *o)
{
    return LK_TRACE(lk_pool_max(s, o->x, o->y, o->index));
}

static lk_status max_backward(const lk_pool_shape *s, const pool_operands *o)
{
    return LK_TRACE(lk_pool_max_backward(s, o->dy, o->index, o->dx));
}

static void max_define(const lk_pool_shape *s, const pool_operands *o, check_truth *truth)
{
    lk__ref_pool_max(s, o->x, o->y, o->index, truth->value[OUT_Y]);
    lk__ref_pool_max_backward(s, o->dy, o->index, o->dx, truth->value[OUT_DX]);
}

const lk__check lk__check_pool_max = {
    .name = "pool_max",
    .summary = "max pooling: values, positions and the backward pass",
    .n_cases = N_CASES,
    .ways = {"whole", "split batch", "split image"},
    .setup = pool_setup,
    .run = pool_run,
    .expect = pool_expect,
    .data = &(const struct pooling){max_forward, max_backward, max_define, true},
};
