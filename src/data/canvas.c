/* Drawing strokes and shapes into the images of generated datasets, with +, -, *, / and square
 * roots alone: the same pixels on every machine. */
#include "data/generate.h"

#include <math.h>
#include <string.h>

lk_status lk__canvas_check(const char *name, const lk_option_ints *shape, lk_shape *out)
{
    const int64_t *d = shape->item;
    LK_CHECK(shape->n == 3 && d[0] >= 8 && d[0] <= LK_CANVAS_SIDE && d[1] >= 8 &&
                 d[1] <= LK_CANVAS_SIDE && d[2] <= 4,
             LK_EINVAL, "%s: the shape is rows,columns,channels: 8 to %d, 8 to %d, 1 to 4", name,
             LK_CANVAS_SIDE, LK_CANVAS_SIDE);
    *out = LK_SHAPE(d[0], d[1], d[2]);
    return LK_OK;
}

void lk__canvas_start(lk__canvas *c, lk_shape shape)
{
    c->rows = (int)shape.dim[0];
    c->columns = (int)shape.dim[1];
    c->channels = (int)shape.dim[2];
    memset(c->ink, 0, sizeof c->ink);
}

static int clamp_int(float v, int least, int most)
{
    int i = (int)v;
    return i < least ? least : i > most ? most : i;
}

static float clamp_unit(float v)
{
    return v < 0 ? 0 : v > 1 ? 1 : v;
}

void lk__canvas_line(lk__canvas *c, const float *from, const float *to, float half, float strength)
{
    float dx = to[0] - from[0], dy = to[1] - from[1], reach = half + 1;
    float length = dx * dx + dy * dy;
    float inverse = length > 0 ? 1 / length : 0;
    float x0 = dx < 0 ? to[0] : from[0], x1 = dx < 0 ? from[0] : to[0];
    float y0 = dy < 0 ? to[1] : from[1], y1 = dy < 0 ? from[1] : to[1];
    int left = clamp_int(x0 - reach, 0, c->columns),
        right = clamp_int(x1 + reach + 1, 0, c->columns);
    int top = clamp_int(y0 - reach, 0, c->rows), bottom = clamp_int(y1 + reach + 1, 0, c->rows);
    for (int y = top; y < bottom; y++)
        for (int x = left; x < right; x++) {
            float px = (float)x + 0.5F - from[0], py = (float)y + 0.5F - from[1];
            float t = clamp_unit((px * dx + py * dy) * inverse);
            float ex = px - t * dx, ey = py - t * dy;
            float ink = strength * clamp_unit(half + 0.5F - sqrtf(ex * ex + ey * ey));
            float *pixel = &c->ink[y * c->columns + x];
            *pixel = ink > *pixel ? ink : *pixel;
        }
}

lk_status lk__canvas_colour(const lk__canvas *c, const float *u, lk_rng rng, lk_rng_at at,
                            double noise, unsigned char *out)
{
    float ground[4], figure[4], spread = (float)(noise * 255);
    int n = c->channels;
    for (int64_t k = 0; k < n; k++) {
        ground[k] = 90 * u[2 * k];
        figure[k] = ground[k] + 60 + 100 * u[2 * k + 1];
    }
    float grain[256];
    int64_t pixels = (int64_t)c->rows * c->columns, some = 256 / n;
    for (int64_t p = 0; p < pixels; p++) {
        if (p % some == 0) {
            int64_t left = pixels - p < some ? pixels - p : some;
            LK_TRY(lk_rng_uniform_f32(rng, (lk_rng_at){at.step, at.sample, at.element + p * n},
                                      left * n, grain));
        }
        for (int k = 0; k < n; k++) {
            float v = ground[k] + (figure[k] - ground[k]) * c->ink[p];
            v += spread * (2 * grain[p % some * n + k] - 1);
            out[p * n + k] = v <= 0 ? 0 : v >= 255 ? 255 : (unsigned char)v;
        }
    }
    return LK_OK;
}
