/* Shapes and a reference for the tests of convolution by Winograd's algorithm.
 *
 * The reference is the definition in docs/numerics.md, written without regard to speed or to how
 * the library does it.  It computes in double and rounds to the type after every operation: for
 * sums and products of two f32 that is what f32 does.
 */
#ifndef LK_TEST_WINOGRAD_CASES_H
#define LK_TEST_WINOGRAD_CASES_H

#include "conv_cases.h"

/* clang-format off */
#define WINO .window.ndim = 2, .window.kernel = {3, 3}, .algorithm = LK_CONV_WINOGRAD
static const conv_case wino_cases[] = {
    {"pad 1, primes", {WINO, .batch = 3, .in_channels = 7, .out_channels = 17, .in = {11, 13}, .out = {11, 13}, .window.pad_lo = {1, 1}}},
    {"whole tiles", {WINO, .batch = 2, .in_channels = 16, .out_channels = 32, .in = {8, 12}, .out = {8, 12}, .window.pad_lo = {1, 1}}},
    {"valid", {WINO, .batch = 2, .in_channels = 8, .out_channels = 16, .in = {10, 9}, .out = {8, 7}}},
    {"first layer", {WINO, .batch = 2, .in_channels = 3, .out_channels = 8, .in = {9, 9}, .out = {9, 9}, .window.pad_lo = {1, 1}}},
    {"one channel each", {WINO, .batch = 1, .in_channels = 1, .out_channels = 1, .in = {5, 6}, .out = {5, 6}, .window.pad_lo = {1, 1}}},
    {"one channel to 17", {WINO, .batch = 2, .in_channels = 1, .out_channels = 17, .in = {6, 5}, .out = {6, 5}, .window.pad_lo = {1, 1}}},
    {"50 channels", {WINO, .batch = 2, .in_channels = 17, .out_channels = 50, .in = {7, 6}, .out = {7, 6}, .window.pad_lo = {1, 1}}},
    {"50 to 3", {WINO, .batch = 1, .in_channels = 50, .out_channels = 3, .in = {6, 9}, .out = {6, 9}, .window.pad_lo = {1, 1}}},
    {"100 channels", {WINO, .batch = 1, .in_channels = 33, .out_channels = 100, .in = {5, 5}, .out = {5, 5}, .window.pad_lo = {1, 1}}},
    {"pad 2", {WINO, .batch = 2, .in_channels = 3, .out_channels = 7, .in = {5, 4}, .out = {7, 6}, .window.pad_lo = {2, 2}}},
    {"uneven pads", {WINO, .batch = 2, .in_channels = 8, .out_channels = 3, .in = {6, 7}, .out = {7, 6}, .window.pad_lo = {2, 0}}},
    {"pad behind only", {WINO, .batch = 1, .in_channels = 5, .out_channels = 9, .in = {4, 5}, .out = {4, 5}}},
    {"one position", {WINO, .batch = 5, .in_channels = 3, .out_channels = 10, .in = {1, 1}, .out = {1, 1}, .window.pad_lo = {1, 1}}},
    {"one output", {WINO, .batch = 3, .in_channels = 7, .out_channels = 8, .in = {3, 3}, .out = {1, 1}}},
    {"one row", {WINO, .batch = 2, .in_channels = 7, .out_channels = 8, .in = {1, 19}, .out = {1, 19}, .window.pad_lo = {1, 1}}},
    {"pad larger than the kernel", {WINO, .batch = 2, .in_channels = 3, .out_channels = 4, .in = {3, 4}, .out = {11, 12}, .window.pad_lo = {5, 5}}},
    {"negative pad", {WINO, .batch = 2, .in_channels = 3, .out_channels = 18, .in = {9, 10}, .out = {4, 4}, .window.pad_lo = {-2, -3}}},
    {"outputs behind the image", {WINO, .batch = 1, .in_channels = 2, .out_channels = 3, .in = {4, 4}, .out = {9, 3}, .window.pad_lo = {0, -9}}},
    {"windows", {WINO, .batch = 3, .in_channels = 6, .out_channels = 9, .in = {7, 5}, .out = {7, 5}, .window.pad_lo = {1, 1}, .x_step = {50, 8}, .y_step = {71, 12}, .x_sample = 400, .y_sample = 600}},
    {"many blocks", {WINO, .batch = 37, .in_channels = 3, .out_channels = 5, .in = {9, 6}, .out = {9, 6}, .window.pad_lo = {1, 1}}},
    {"empty batch", {WINO, .batch = 0, .in_channels = 3, .out_channels = 4, .in = {5, 5}, .out = {5, 5}, .window.pad_lo = {1, 1}}},
    {"empty image", {WINO, .batch = 2, .in_channels = 3, .out_channels = 4, .in = {0, 5}, .out = {2, 5}, .window.pad_lo = {2, 1}}},
    {"empty output", {WINO, .batch = 2, .in_channels = 3, .out_channels = 4, .in = {2, 5}, .out = {0, 3}}},
    {"no input channels", {WINO, .batch = 2, .in_channels = 0, .out_channels = 4, .in = {5, 5}, .out = {5, 5}, .window.pad_lo = {1, 1}}},
    {"no output channels", {WINO, .batch = 2, .in_channels = 3, .out_channels = 0, .in = {5, 5}, .out = {5, 5}, .window.pad_lo = {1, 1}}},
};
/* clang-format on */

enum { N_WINO_CASES = (int)(sizeof wino_cases / sizeof wino_cases[0]) };

static inline double wino_round(lk_dtype t, double v)
{
    return t == LK_F32 ? (double)(float)v : v;
}

static inline void wino_ref_input(lk_dtype t, const double *d, int by, double *v)
{
    double d0 = d[0], d1 = d[by], d2 = d[2 * by], d3 = d[3 * by], d4 = d[4 * by], d5 = d[5 * by];
    double p = value_fma(t, -4, d2, d4), q = value_fma(t, -4, d1, d3);
    double r = wino_round(t, d4 - d2), s = wino_round(t, d3 - d1);
    v[0] = value_fma(t, 4, d0, value_fma(t, -5, d2, d4));
    v[by] = wino_round(t, p + q);
    v[2 * by] = wino_round(t, p - q);
    v[3 * by] = value_fma(t, 2, s, r);
    v[4 * by] = value_fma(t, -2, s, r);
    v[5 * by] = value_fma(t, 4, d1, value_fma(t, -5, d3, d5));
}

static inline void wino_ref_weights(lk_dtype t, double g0, double g1, double g2, int by, double *u)
{
    double sixth = wino_round(t, 1.0 / 6), part = wino_round(t, 1.0 / 24);
    double a = wino_round(t, g0 + g2), b = value_fma(t, 4, g2, g0);
    u[0] = wino_round(t, g0 / 4);
    u[by] = wino_round(t, wino_round(t, a + g1) * -sixth);
    u[2 * by] = wino_round(t, wino_round(t, a - g1) * -sixth);
    u[3 * by] = wino_round(t, value_fma(t, 2, g1, b) * part);
    u[4 * by] = wino_round(t, value_fma(t, -2, g1, b) * part);
    u[5 * by] = g2;
}

static inline void wino_ref_output(lk_dtype t, const double *m, int by, int to, double *y)
{
    double a = wino_round(t, m[by] + m[2 * by]), b = wino_round(t, m[by] - m[2 * by]);
    double c = wino_round(t, m[3 * by] + m[4 * by]), d = wino_round(t, m[3 * by] - m[4 * by]);
    y[0] = wino_round(t, wino_round(t, m[0] + a) + c);
    y[to] = value_fma(t, 2, d, b);
    y[2 * to] = value_fma(t, 4, c, a);
    y[3 * to] = wino_round(t, value_fma(t, 8, d, b) + m[5 * by]);
}

/* A pass as the definition sees it: forward, or backward data in the terms of forward. */
typedef struct wino_ref {
    lk_dtype t;
    bool data;
    conv_side a, c;
    int64_t pad[2];
    const lk_conv_shape *s;
    const void *in, *w;
} wino_ref;

static inline wino_ref wino_ref_of(const lk_conv_shape *s, bool data, const void *in, const void *w)
{
    wino_ref r = {.t = s->dtype, .data = data, .s = s, .in = in, .w = w};
    r.a = conv_side_of(s, data);
    r.c = conv_side_of(s, !data);
    for (int d = 0; d < 2; d++)
        r.pad[d] = data ? 2 - s->window.pad_lo[d] : s->window.pad_lo[d];
    return r;
}

/* The 36 components of channel k of the tile of sample n whose first output is (y, x). */
static inline void wino_ref_tile(const wino_ref *r, int64_t n, int64_t y, int64_t x, int64_t k,
                                 double v[36])
{
    double half[36];
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 6; j++) {
            int64_t at[3] = {y + i - r->pad[0], x + j - r->pad[1], 0};
            bool inside = at[0] >= 0 && at[0] < r->a.size[0] && at[1] >= 0 && at[1] < r->a.size[1];
            v[6 * i + j] = inside ? value_get(r->t, r->in, conv_side_at(&r->a, n, at) + k) : 0;
        }
    for (int j = 0; j < 6; j++)
        wino_ref_input(r->t, v + j, 6, half + j);
    for (int i = 0; i < 6; i++)
        wino_ref_input(r->t, half + 6 * i, 1, v + 6 * i);
}

/* The 36 components of the weights from channel k to channel j. */
static inline void wino_ref_kernel(const wino_ref *r, int64_t k, int64_t j, double u[36])
{
    double g[9], half[18];
    for (int tap = 0; tap < 9; tap++) {
        int place = r->data ? 8 - tap : tap;
        int64_t at[3] = {place / 3, place % 3, 0};
        g[tap] = value_get(r->t, r->w,
                           r->data ? conv_w_at(r->s, at, j, k) : conv_w_at(r->s, at, k, j));
    }
    for (int c = 0; c < 3; c++)
        wino_ref_weights(r->t, g[c], g[3 + c], g[6 + c], 3, half + c);
    for (int i = 0; i < 6; i++)
        wino_ref_weights(r->t, half[3 * i], half[3 * i + 1], half[3 * i + 2], 1, u + 6 * i);
}

static inline void wino_ref_inverse(lk_dtype t, const double m[36], double y[16])
{
    double half[24];
    for (int j = 0; j < 6; j++)
        wino_ref_output(t, m + j, 6, 6, half + j);
    for (int i = 0; i < 4; i++)
        wino_ref_output(t, half + 6 * i, 1, 1, y + 4 * i);
}

/* One channel of one tile: what is behind the last position is left out. */
static inline void wino_ref_write(const wino_ref *r, int64_t n, const int64_t at[2], int64_t j,
                                  const double y[16], const void *bias, bool accumulate, bool relu,
                                  void *out)
{
    for (int i = 0; i < 16; i++) {
        int64_t p[3] = {at[0] + i / 4, at[1] + i % 4, 0};
        if (p[0] >= r->c.size[0] || p[1] >= r->c.size[1])
            continue;
        int64_t to = conv_side_at(&r->c, n, p) + j;
        double v = y[i];
        if (bias)
            v = wino_round(r->t, v + value_get(r->t, bias, j));
        if (accumulate)
            v = wino_round(r->t, v + value_get(r->t, out, to));
        value_set(r->t, out, to, relu && v < 0 ? 0 : v);
    }
}

/* What forward, or (`data`) backward data, must give. */
static inline void wino_ref_pass(const lk_conv_shape *s, bool data, const void *in, const void *w,
                                 const void *bias, bool accumulate, bool relu, void *out)
{
    wino_ref r = wino_ref_of(s, data, in, w);
    int64_t nk = r.a.channels, nj = r.c.channels;
    double *u = malloc((size_t)(nk * nj * 36 + 1) * sizeof *u);
    double *v = malloc((size_t)(nk * 36 + 1) * sizeof *v);
    for (int64_t i = 0; i < nk * nj; i++)
        wino_ref_kernel(&r, i / nj, i % nj, u + i * 36);
    for (int64_t n = 0; n < s->batch; n++)
        for (int64_t y = 0; y < r.c.size[0]; y += 4)
            for (int64_t x = 0; x < r.c.size[1]; x += 4) {
                for (int64_t k = 0; k < nk; k++)
                    wino_ref_tile(&r, n, y, x, k, v + k * 36);
                for (int64_t j = 0; j < nj; j++) {
                    double m[36] = {0}, tile[16];
                    for (int64_t k = 0; k < nk; k++)
                        for (int c = 0; c < 36; c++)
                            m[c] = value_fma(r.t, v[k * 36 + c], u[(k * nj + j) * 36 + c], m[c]);
                    wino_ref_inverse(r.t, m, tile);
                    wino_ref_write(&r, n, (int64_t[]){y, x}, j, tile, bias, accumulate, relu, out);
                }
            }
    free(u);
    free(v);
}

#endif /* LK_TEST_WINOGRAD_CASES_H */
