/* Convolution by Winograd's algorithm, F(4x4, 3x3): the expressions of docs/numerics.md, every operation
 * rounded to the type. */
#include "kernel/reference/place.h"
#include "kernel/reference/real.h"
#include "kernel/reference/reference.h"

#include <lockstep/extra/alloc.h>

enum { TILE = 4, SIDE = 6, PARTS = SIDE * SIDE }; /* outputs and inputs of a tile along an axis */

/* Along one axis, elements `by` apart. */
static void input_transform(lk_dtype t, const double *d, int by, double *v)
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

static void weights_transform(lk_dtype t, const double *g, int from, int to, double *u)
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

static void output_transform(lk_dtype t, const double *m, int by, int to, double *y)
{
    const double a = real_add(t, m[by], m[2 * by]), b = real_sub(t, m[by], m[2 * by]);
    const double c = real_add(t, m[3 * by], m[4 * by]), d = real_sub(t, m[3 * by], m[4 * by]);
    y[0] = real_add(t, real_add(t, m[0], a), c);
    y[to] = real_fma(t, 2, d, b);
    y[2 * to] = real_fma(t, 4, c, a);
    y[3 * to] = real_add(t, real_fma(t, 8, d, b), m[5 * by]);
}

/* A pass in the terms of forward: what is read, and what is written. */
struct side {
    const int64_t *size, *step;
    int64_t sample, channels;
};

struct pass {
    const lk_conv_shape *s;
    bool data;
    struct side in, out;
    int64_t pad[2];
};

static struct pass pass_of(const lk_conv_shape *s, bool data)
{
    const struct side x = {s->in, s->x_step, s->x_sample, s->in_channels},
                      y = {s->out, s->y_step, s->y_sample, s->out_channels};
    struct pass p = {.s = s, .data = data, .in = data ? y : x, .out = data ? x : y};
    for (int d = 0; d < 2; d++)
        p.pad[d] = data ? 2 - s->window.pad_lo[d] : s->window.pad_lo[d];
    return p;
}

/* Component by component, channel k of the tile of sample n whose first output is `first`. */
static void tile_make(const struct pass *p, const void *in, int64_t n, const int64_t first[2],
                      int64_t k, double v[PARTS])
{
    const lk_dtype t = p->s->dtype;
    double half[PARTS];
    for (int i = 0; i < PARTS; i++) {
        const int64_t row = first[0] + i / SIDE - p->pad[0], col = first[1] + i % SIDE - p->pad[1];
        const bool inside = row >= 0 && row < p->in.size[0] && col >= 0 && col < p->in.size[1];
        v[i] = inside ? real_get(t, in,
                                 n * p->in.sample + row * p->in.step[0] + col * p->in.step[1] + k)
                      : 0;
    }
    for (int j = 0; j < SIDE; j++)
        input_transform(t, v + j, SIDE, half + j);
    for (int i = 0; i < SIDE; i++)
        input_transform(t, half + SIDE * i, 1, v + SIDE * i);
}

/* The weights from channel k of what is read to channel j of what is written. */
static void weights_make(const struct pass *p, const void *w, int64_t k, int64_t j, double u[PARTS])
{
    const lk_conv_shape *s = p->s;
    double g[9], half[18];
    for (int tap = 0; tap < 9; tap++) {
        const int64_t place = p->data ? 8 - tap : tap, ic = p->data ? j : k, oc = p->data ? k : j;
        g[tap] = real_get(s->dtype, w, (place * s->in_channels + ic) * s->out_channels + oc);
    }
    for (int c = 0; c < 3; c++)
        weights_transform(s->dtype, g + c, 3, 3, half + c);
    for (int i = 0; i < SIDE; i++)
        weights_transform(s->dtype, half + 3 * i, 1, 1, u + SIDE * i);
}

/* Outputs of a tile from its 36 chains. */
static void tile_finish(lk_dtype t, const double m[PARTS], double y[TILE * TILE])
{
    double half[TILE * SIDE];
    for (int j = 0; j < SIDE; j++)
        output_transform(t, m + j, SIDE, SIDE, half + j);
    for (int i = 0; i < TILE; i++)
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
static void tile_write(const struct pass *p, const struct ending *e, int64_t n,
                       const int64_t first[2], int64_t j, const double y[TILE * TILE])
{
    const lk_dtype t = p->s->dtype;
    for (int i = 0; i < TILE * TILE; i++) {
        const int64_t row = first[0] + i / TILE, col = first[1] + i % TILE,
                      to = n * p->out.sample + row * p->out.step[0] + col * p->out.step[1] + j;
        if (row >= p->out.size[0] || col >= p->out.size[1])
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
static void tile_compute(const struct pass *p, const struct ending *e, const void *in, int64_t n,
                         const int64_t first[2], const double *u, double *v)
{
    const int64_t channels = p->in.channels, filters = p->out.channels;
    for (int64_t k = 0; k < channels; k++)
        tile_make(p, in, n, first, k, v + k * PARTS);
    for (int64_t j = 0; j < filters; j++) {
        double m[PARTS] = {0}, y[TILE * TILE];
        for (int64_t k = 0; k < channels; k++)
            for (int c = 0; c < PARTS; c++)
                m[c] = real_fma(p->s->dtype, v[k * PARTS + c], u[(k * filters + j) * PARTS + c],
                                m[c]);
        tile_finish(p->s->dtype, m, y);
        tile_write(p, e, n, first, j, y);
    }
}

lk_status lk__ref_conv_winograd(const lk_conv_shape *shape, bool data, const void *in,
                                const void *w, const void *bias, bool accumulate, lk_act act,
                                void *out)
{
    const lk_conv_shape s = lk__ref_conv_shape(shape);
    const struct pass p = pass_of(&s, data);
    const struct ending e = {bias, accumulate, act, out};
    const int64_t channels = p.in.channels, filters = p.out.channels;
    double *u = NULL, *v = NULL;
    lk_status st;
    LK_TRY_TO(done, lk_alloc(&u, channels * filters * PARTS, sizeof *u));
    LK_TRY_TO(done, lk_alloc(&v, channels * PARTS, sizeof *v));
    for (int64_t i = 0; i < channels * filters; i++)
        weights_make(&p, w, i / filters, i % filters, u + i * PARTS);
    for (int64_t n = 0; n < s.batch; n++)
        for (int64_t row = 0; row < p.out.size[0]; row += TILE)
            for (int64_t col = 0; col < p.out.size[1]; col += TILE)
                tile_compute(&p, &e, in, n, (int64_t[]){row, col}, u, v);
done:
    lk_free(u);
    lk_free(v);
    return st;
}
