/* shapes: images of circles (class 0) and ellipses (class 1), filled, anywhere, in noise. */
#include "data/dataset.h"
#include "data/format.h"
#include "data/generate.h"

#include <math.h>

struct shapes_options {
    struct lk__generated common;
};

static const lk_option options[] = {
    LK_GENERATED_OPTIONS(struct shapes_options, "10000", "2000", "32,32,1", "0.15"),
    {.name = NULL},
};

enum { N_DRAWS = 16 };

/* Fill the pixels where (p . a)^2 + (p . b)^2 <= 1, p from the centre; soft over one pixel. */
static void fill(lk__canvas *c, const float *centre, const float *a, const float *b, float narrow)
{
    for (int y = 0; y < c->rows; y++)
        for (int x = 0; x < c->columns; x++) {
            float px = (float)x + 0.5F - centre[0], py = (float)y + 0.5F - centre[1];
            float s = px * a[0] + py * a[1], t = px * b[0] + py * b[1];
            float ink = 0.5F + narrow * (1 - sqrtf(s * s + t * t));
            c->ink[y * c->columns + x] = ink < 0 ? 0 : ink > 1 ? 1 : ink;
        }
}

static lk_status shapes_sample(const lk__generator *g, int64_t index, void *const *row)
{
    float u[N_DRAWS];
    LK_TRY(lk_rng_uniform_f32(g->rng, (lk_rng_at){0, index, 0}, N_DRAWS, u));
    int64_t class = u[0] < 0.5F ? 0 : 1;
    if (row[1])
        *(int64_t *)row[1] = class;
    if (!row[0])
        return LK_OK;
    lk__canvas c;
    lk__canvas_start(&c, g->info.field[0].shape);
    float side = (float)(c.rows < c.columns ? c.rows : c.columns);
    float wide = side * (0.15F + 0.15F * u[1]);
    float narrow = class == 0 ? wide : wide * (0.45F + 0.3F * u[2]);
    float t = 2 * u[3] - 1, turn = 1 + t * t;
    float cosine = (1 - t * t) / turn, sine = 2 * t / turn;
    float centre[2] = {wide + ((float)c.columns - 2 * wide) * u[4],
                       wide + ((float)c.rows - 2 * wide) * u[5]};
    fill(&c, centre, (float[]){cosine / wide, sine / wide},
         (float[]){-sine / narrow, cosine / narrow}, narrow);
    return LK_TRACE(
        lk__canvas_colour(&c, u + 6, g->rng, (lk_rng_at){0, index, N_DRAWS}, g->noise, row[0]));
}

static lk_status shapes_open(const void *given, lk_split split, lk_dataset **out)
{
    const struct shapes_options *o = given;
    lk_shape shape;
    LK_TRY(lk__canvas_check("shapes", &o->common.shape, &shape));
    lk__generator g = {
        .sample = shapes_sample,
        .info = {.name = "shapes",
                 .classes = 2,
                 .n_fields = 2,
                 .field = {lk__field("x", LK_U8, shape), lk__field("y", LK_I64, LK_SCALAR)}}};
    return LK_TRACE(lk__generate(&g, &o->common, split, out));
}

const lk_format lk__format_shapes = {
    .descriptor = {.name = "shapes",
                   .summary = "generated images of circles (class 0) and ellipses (class 1)",
                   .details = "Needs no file. Size, place, direction and colours vary, with noise.",
                   .options = options,
                   .options_size = sizeof(struct shapes_options)},
    .open = shapes_open,
};
