/* Convolution by Winograd's algorithm, F(4x4, 3x3): the expressions of docs/reference/numerics.md, every operation
 * rounded to the type. */
#include "kernel/reference/real.h"
#include "kernel/reference/reference.h"

#include <lockstep/extra/alloc.h>

enum { TILE = 4, SIDE = 6, PARTS = SIDE * SIDE }; /* outputs and inputs of a tile along an axis */

/* Along one axis, elements `by` apart. */
static void input_transform(lk_dtype t, const double *d, int64_t by, double *v)
{
    const double d0 = d[0], d1 = d[by], d2 = d[2 * by], d3 = d[3 * by], d4 = d[4 * by],
                 d5 = d[5 * by];
    const double p = real_fma(t, -4, d2, d4), q = real_fma(t, -4, d1, d3);
    const double r = real_sub(t, d4, d2), s = real_sub(t, d3, d1);
    v[0] = real_fma(t, 4, d0, real_fma(t, -5, d2, d4));
    v[by] = real_add(t, p, q);
    v[2 * by] = real_sub(t, p, q);
    v[3 * by] = real_fma(t, 2, s, r);
    v[4 * by] = real_fma(t, -2, s, r);
    v[5 * by] = real_fma(t, 4, d1, real_fma(t, -5, d3, d5));
}

static void weights_transform(lk_dtype t, const double *g, int64_t from, int64_t to, double *u)
{
    const double g0 = g[0], g1 = g[from], g2 = g[2 * from];
    const double sixth = real_round(t, 1.0 / 6), part = real_round(t, 1.0 / 24);
    const double a = real_add(t, g0, g2), b = real_fma(t, 4, g2, g0);
    u[0] = real_mul(t, g0, 0.25);
    u[to] = real_mul(t, real_add(t, a, g1), -sixth);
    u[2 * to] = real_mul(t, real_sub(t, a, g1), -sixth);
    u[3 * to] = real_mul(t, real_fma(t, 2, g1, b), part);
    u[4 * to] = real_mul(t, real_fma(t, -2, g1, b), part);
    u[5 * to] = g2;
}

static void output_transform(lk_dtype t, const double *m, int64_t by, int64_t to, double *y)
{
    const double a = real_add(t, m[by], m[2 * by]), b = real_sub(t, m[by], m[2 * by]);
    const double c = real_add(t, m[3 * by], m[4 * by]), d = real_sub(t, m[3 * by], m[4 * by]);
    y[0] = real_add(t, real_add(t, m[0], a), c);
    y[to] = real_fma(t, 2, d, b);
    y[2 * to] = real_fma(t, 4, c, a);
    y[3 * to] = real_add(t, real_fma(t, 8, d, b), m[5 * by]);
}

/* Backward data in the terms of forward: from dy to dx. */
static lk_conv_shape turned(const lk_conv_shape *s)
{
    lk_conv_shape f = *s;
    f.in_channels = s->out_channels;
    f.out_channels = s->in_channels;
    f.x_sample = s->y_sample;
    f.y_sample = s->x_sample;
    for (int d = 0; d < 2; d++) {
        f.in[d] = s->out[d];
        f.out[d] = s->in[d];
        f.x_step[d] = s->y_step[d];
        f.y_step[d] = s->x_step[d];
        f.window.pad_lo[d] = 2 - s->window.pad_lo[d];
    }
    return f;
}

/* Component by component, channel k of the tile of sample n whose first output is `first`. */
static void tile_make(const lk_conv_shape *f, const void *x, int64_t n, const int64_t first[2],
                      int64_t k, double v[PARTS])
{
    double half[PARTS];
    for (int i = 0; i < PARTS; i++) {
        const int64_t row = first[0] + i / SIDE - f->window.pad_lo[0],
                      col = first[1] + i % SIDE - f->window.pad_lo[1],
                      at = n * f->x_sample + row * f->x_step[0] + col * f->x_step[1] + k;
        const bool inside = row >= 0 && row < f->in[0] && col >= 0 && col < f->in[1];
        v[i] = inside ? real_get(f->dtype, x, at) : 0;
    }
    for (int j = 0; j < SIDE; j++)
        input_transform(f->dtype, v + j, SIDE, half + j);
    for (int64_t i = 0; i < SIDE; i++)
        input_transform(f->dtype, half + SIDE * i, 1, v + SIDE * i);
}

/* The weights from channel k to channel j: those of `s`, or (`data`) turned around. */
static void weights_make(const lk_conv_shape *s, bool data, const void *w, int64_t k, int64_t j,
                         double u[PARTS])
{
    double g[9], half[18];
    for (int tap = 0; tap < 9; tap++) {
        const int64_t place = data ? 8 - tap : tap, ic = data ? j : k, oc = data ? k : j;
        g[tap] = real_get(s->dtype, w, (place * s->in_channels + ic) * s->out_channels + oc);
    }
    for (int c = 0; c < 3; c++)
        weights_transform(s->dtype, g + c, 3, 3, half + c);
    for (int64_t i = 0; i < SIDE; i++)
        weights_transform(s->dtype, half + 3 * i, 1, 1, u + SIDE * i);
}

/* Outputs of a tile from its 36 chains. */
static void tile_finish(lk_dtype t, const double m[PARTS], double y[TILE * TILE])
{
    double half[TILE * SIDE];
    for (int j = 0; j < SIDE; j++)
        output_transform(t, m + j, SIDE, SIDE, half + j);
    for (int64_t i = 0; i < TILE; i++)
        output_transform(t, half + SIDE * i, 1, 1, y + TILE * i);
}

/* What the outputs end with. */
struct ending {
    const void *bias;
    bool accumulate;
    lk_act act;
    void *out;
};

/* Channel j of one tile, but for what is behind the last position. */
static void tile_write(const lk_conv_shape *f, const struct ending *e, int64_t n,
                       const int64_t first[2], int64_t j, const double y[TILE * TILE])
{
    const lk_dtype t = f->dtype;
    for (int i = 0; i < TILE * TILE; i++) {
        const int64_t row = first[0] + i / TILE, col = first[1] + i % TILE,
                      to = n * f->y_sample + row * f->y_step[0] + col * f->y_step[1] + j;
        if (row >= f->out[0] || col >= f->out[1])
            continue;
        double v = y[i];
        if (e->bias)
            v = real_add(t, v, real_get(t, e->bias, j));
        if (e->accumulate)
            v = real_add(t, v, real_get(t, e->out, to));
        real_set(t, e->out, to, lk__ref_act(t, e->act, v));
    }
}

/* All channels of one tile; `u` has the weights, `v` room for the tile. */
static void tile_compute(const lk_conv_shape *f, const struct ending *e, const void *x, int64_t n,
                         const int64_t first[2], const double *u, double *v)
{
    for (int64_t k = 0; k < f->in_channels; k++)
        tile_make(f, x, n, first, k, v + k * PARTS);
    for (int64_t j = 0; j < f->out_channels; j++) {
        double m[PARTS] = {0}, y[TILE * TILE];
        for (int64_t k = 0; k < f->in_channels; k++)
            for (int c = 0; c < PARTS; c++)
                m[c] = real_fma(f->dtype, v[k * PARTS + c],
                                u[(k * f->out_channels + j) * PARTS + c], m[c]);
        tile_finish(f->dtype, m, y);
        tile_write(f, e, n, first, j, y);
    }
}

lk_status lk__ref_conv_winograd(const lk_conv_shape *shape, bool data, const void *in,
                                const void *w, const void *bias, bool accumulate, lk_act act,
                                void *out)
{
    const lk_conv_shape s = lk__ref_conv_shape(shape), f = data ? turned(&s) : s;
    const struct ending e = {bias, accumulate, act, out};
    const int64_t pairs = f.in_channels * f.out_channels;
    double *u = NULL, *v = NULL;
    lk_status st;
    LK_TRY_TO(done, lk_alloc(&u, pairs * PARTS, sizeof *u));
    LK_TRY_TO(done, lk_alloc(&v, f.in_channels * PARTS, sizeof *v));
    for (int64_t i = 0; i < pairs; i++)
        weights_make(&s, data, w, i / f.out_channels, i % f.out_channels, u + i * PARTS);
    for (int64_t n = 0; n < s.batch; n++)
        for (int64_t row = 0; row < f.out[0]; row += TILE)
            for (int64_t col = 0; col < f.out[1]; col += TILE)
                tile_compute(&f, &e, in, n, (int64_t[]){row, col}, u, v);
done:
    lk_free(u);
    lk_free(v);
    return st;
}
