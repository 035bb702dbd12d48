/* Shapes of the pooling checks and their parts: a tile is copied out with its halo, as a rank of a
 * spatial layout would hold it. */
#include "selfcheck/check_pool.h"

#include "kernel/reference/place.h"
#include "kernel/reference/reference.h"

#include <lockstep/extra/alloc.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { N = LK_CONV_MAX_NDIM };

static const struct pool_case {
    int ndim, batch, channels;
    int in[N], kernel[N], stride[N], pad_lo[N], pad_hi[N];
    bool count_padding;
} cases[CHECK_POOL_CASES] = {
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

lk_status check_pool_setup(check_case *c)
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
    for (int64_t i = 0; i < c->in[POOL_IN_X].n && c->index % 2 == 1; i++)
        check_set(c->dtype, c->in[POOL_IN_X].data, i,
                  floor(check_get(c->dtype, c->in[POOL_IN_X].data, i)));
    LK_TRY(check_output(c, c->dtype, check_conv_y_size(&g), false));
    LK_TRY(check_output(c, c->dtype, check_conv_x_size(&g), false));
    c->ways = 1U << CONV_WHOLE | 1U << CONV_BATCH | 1U << CONV_IMAGE;
    return LK_OK;
}

static lk_pool_shape pool_shape(const check_case *c, const lk_conv_shape *g)
{
    lk_pool_shape s = {.dtype = g->dtype,
                       .window.ndim = g->window.ndim,
                       .batch = g->batch,
                       .channels = g->in_channels,
                       .count_padding = cases[c->index].count_padding};
    for (int d = 0; d < N; d++) {
        s.in[d] = g->in[d];
        s.out[d] = g->out[d];
        s.window.kernel[d] = g->window.kernel[d];
        s.window.stride[d] = g->window.stride[d];
        s.window.pad_lo[d] = g->window.pad_lo[d];
    }
    return s;
}

/* A tensor of the whole, and the box of it that a tile has a dense copy of. */
struct box {
    size_t bytes; /* of one position: all its channels */
    int64_t batch, channels, sample, first;
    const int64_t *size, *step;
};

static struct box box_of(const lk_conv_shape *g, const check_conv_part *p, bool of_x, size_t elem)
{
    return (struct box){.bytes = elem * (size_t)g->in_channels,
                        .batch = g->batch,
                        .channels = g->in_channels,
                        .sample = of_x ? g->x_sample : g->y_sample,
                        .first = of_x ? p->x : p->y,
                        .size = of_x ? p->shape.in : p->shape.out,
                        .step = of_x ? g->x_step : g->y_step};
}

/* Copy between a box of `whole` and its dense copy `tile`, either way. */
static void copy_box(const struct box *b, void *whole, void *tile, bool to_tile)
{
    if (b->bytes == 0)
        return;
    size_t elem = b->bytes / (size_t)b->channels;
    char *t = tile;
    for (int64_t s = 0; s < b->batch; s++)
        for (lk__ref_place at = place_first(b->size); at.is; at = place_next(at, b->size)) {
            int64_t offset = b->first + s * b->sample + place_offset(at, b->step);
            char *w = (char *)whole + (size_t)offset * elem;
            memcpy(to_tile ? t : w, to_tile ? w : t, b->bytes);
            t += b->bytes;
        }
}

/* Copy a box of one whole tensor to the same place of another, by way of `tile`. */
static void copy_through(const struct box *b, void *from, void *tile, void *to)
{
    copy_box(b, from, tile, true);
    copy_box(b, to, tile, false);
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
    int64_t shift[N];
    for (int d = 0; d < N; d++)
        shift[d] = to_whole ? p->i[d] : -p->i[d];
    int64_t n = g->batch * p->shape.out[0] * p->shape.out[1] * p->shape.out[2] * g->in_channels;
    for (int64_t i = 0; i < n; i++)
        index[i] = to_whole ? moved(index[i], p->shape.in, shift, g->in)
                            : moved(index[i], g->in, shift, p->shape.in);
}

/* Dense copies of a tile's operands; `whole` has room for the dx of everything. */
struct tile {
    void *x, *y, *dx, *dy, *whole;
    int64_t *index;
};

static lk_status tile_new(const lk_conv_shape *g, const check_conv_part *p, bool with_index,
                          struct tile *t)
{
    const lk_conv_shape *s = &p->shape;
    int64_t nx = s->batch * s->in[0] * s->in[1] * s->in[2] * s->in_channels;
    int64_t ny = s->batch * s->out[0] * s->out[1] * s->out[2] * s->in_channels;
    size_t elem = lk_dtype_size(s->dtype);
    LK_TRY(lk_alloc(&t->x, nx, elem));
    LK_TRY(lk_alloc(&t->dx, nx, elem));
    LK_TRY(lk_alloc(&t->y, ny, elem));
    LK_TRY(lk_alloc(&t->dy, ny, elem));
    LK_TRY(lk_alloc(&t->whole, check_conv_x_size(g), elem));
    if (with_index)
        LK_TRY(lk_alloc(&t->index, ny, sizeof *t->index));
    return LK_OK;
}

static void tile_free(struct tile *t)
{
    lk_free(t->x);
    lk_free(t->y);
    lk_free(t->dx);
    lk_free(t->dy);
    lk_free(t->whole);
    lk_free(t->index);
}

/* One pass on tile `which` of the image.  Backward the tile has all inputs under its windows, since
 * an average depends on their number, and only those that are its own are taken from it. */
static lk_status run_tile(const check_case *c, const lk_conv_shape *g, int which, bool backward,
                          check_pool_fn *fn, void *const *out)
{
    lk_status st;
    check_conv_part own = check_conv_tile(g, which, backward);
    check_conv_part p = backward ? check_conv_widen(g, &own) : own;
    lk_pool_shape s = pool_shape(c, &p.shape);
    size_t elem = lk_dtype_size(c->dtype);
    struct box x = box_of(g, &p, true, elem), y = box_of(g, &p, false, elem);
    struct box own_x = box_of(g, &own, true, elem);
    struct box i = box_of(g, &p, false, sizeof(int64_t));
    struct tile t = {.x = NULL};
    LK_TRY_TO(done, tile_new(g, &p, c->n_out > POOL_OUT_INDEX, &t));
    copy_box(&x, c->in[POOL_IN_X].data, t.x, true);
    copy_box(&y, c->in[POOL_IN_DY].data, t.dy, true);
    copy_box(&y, out[POOL_OUT_Y], t.y, true);
    if (t.index && backward) {
        copy_box(&i, out[POOL_OUT_INDEX], t.index, true);
        move_indices(g, &p, t.index, false);
    }
    check_pool_operands o = {.x = t.x, .dy = t.dy, .y = t.y, .dx = t.dx, .index = t.index};
    LK_TRY_TO(done, fn(&s, &o));
    if (backward) {
        copy_box(&x, t.whole, t.dx, false);
        copy_through(&own_x, t.whole, t.dx, out[POOL_OUT_DX]);
        goto done;
    }
    copy_box(&y, out[POOL_OUT_Y], t.y, false);
    if (t.index) {
        move_indices(g, &p, t.index, true);
        copy_box(&i, out[POOL_OUT_INDEX], t.index, false);
    }
done:
    tile_free(&t);
    return st;
}

/* One pass on samples [b[0], b[1]), in place. */
static lk_status run_samples(const check_case *c, const lk_conv_shape *g, const int64_t b[2],
                             check_pool_fn *fn, void *const *out)
{
    check_conv_part p = check_conv_samples(g, b);
    lk_pool_shape s = pool_shape(c, &p.shape);
    check_pool_operands o = {
        .x = check_at(c->dtype, c->in[POOL_IN_X].data, p.x),
        .dy = check_at(c->dtype, c->in[POOL_IN_DY].data, p.y),
        .y = check_at(c->dtype, out[POOL_OUT_Y], p.y),
        .dx = check_at(c->dtype, out[POOL_OUT_DX], p.x),
        .index = c->n_out > POOL_OUT_INDEX ? (int64_t *)out[POOL_OUT_INDEX] + p.y : NULL,
    };
    LK_TRY(fn(&s, &o));
    return LK_OK;
}

static lk_status run_pass(const check_case *c, int way, bool backward, check_pool_fn *fn,
                          void *const *out)
{
    lk_conv_shape g;
    LK_TRY(geometry_of(c, &g));
    if (way == CONV_IMAGE) {
        for (int i = 0; i < 1 << g.window.ndim; i++)
            LK_TRY(run_tile(c, &g, i, backward, fn, out));
        return LK_OK;
    }
    int64_t middle = way == CONV_BATCH ? (g.batch + 1) / 2 : g.batch;
    LK_TRY(run_samples(c, &g, (int64_t[]){0, middle}, fn, out));
    if (way == CONV_BATCH)
        LK_TRY(run_samples(c, &g, (int64_t[]){middle, g.batch}, fn, out));
    return LK_OK;
}

lk_status check_pool_run(const check_case *c, int way, check_pool_fn *forward,
                         check_pool_fn *backward, void *const *out)
{
    LK_TRY(run_pass(c, way, false, forward, out));
    LK_TRY(run_pass(c, way, true, backward, out));
    return LK_OK;
}

lk_status check_pool_expect(const check_case *c, check_truth *truth, lk_pool_shape *s,
                            check_pool_operands *o)
{
    lk_conv_shape g;
    LK_TRY(geometry_of(c, &g));
    *s = pool_shape(c, &g);
    *o = (check_pool_operands){.x = c->in[POOL_IN_X].data,
                               .dy = c->in[POOL_IN_DY].data,
                               .y = truth->bits[POOL_OUT_Y],
                               .dx = truth->bits[POOL_OUT_DX],
                               .index = truth->bits[POOL_OUT_INDEX]};
    for (int i = 0; i < c->n_out; i++)
        truth->has_bits[i] = true;
    return LK_OK;
}
