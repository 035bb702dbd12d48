/* glyphs: images of ten classes of strokes, the digits.
 *
 * Each is moved, turned by up to 23 degrees, scaled, sheared, bent at its corners and drawn with a
 * pen of varying width among two short strokes that belong to nothing, in varying colours with
 * noise.  So the class is in no single pixel; a network has to learn the strokes.
 */
#include "data/dataset.h"
#include "data/format.h"
#include "data/generate.h"

struct glyphs_options {
    struct lk__generated common;
};

static const lk_option options[] = {
    LK_GENERATED_OPTIONS(struct glyphs_options, "60000", "10000", "28,28,1", "0.15"),
    {.name = NULL},
};

enum { MAX_POINTS = 12, N_DRAWS = 64 };

/* Polylines in [-1, 1] x [-1, 1], y downwards. */
static const struct {
    int n;
    struct {
        signed char x, y; /* in tenths */
    } point[MAX_POINTS];
} glyphs[10] = {
    {9, {{0, -10}, {5, -7}, {6, 0}, {5, 7}, {0, 10}, {-5, 7}, {-6, 0}, {-5, -7}, {0, -10}}},
    {3, {{-4, -6}, {1, -10}, {1, 10}}},
    {7, {{-6, -6}, {-3, -10}, {3, -10}, {6, -6}, {4, -1}, {-6, 10}, {6, 10}}},
    {8, {{-6, -9}, {3, -10}, {6, -6}, {0, -1}, {6, 4}, {4, 9}, {-2, 10}, {-6, 8}}},
    {5, {{3, 10}, {3, -10}, {-6, 4}, {7, 4}, {3, 4}}},
    {8, {{6, -10}, {-4, -10}, {-5, -2}, {2, -3}, {6, 2}, {5, 8}, {-1, 10}, {-6, 7}}},
    {9, {{4, -10}, {-3, -5}, {-6, 3}, {-3, 9}, {2, 10}, {6, 6}, {4, 1}, {-1, 0}, {-6, 4}}},
    {3, {{-6, -10}, {6, -10}, {-1, 10}}},
    {11,
     {{0, -1},
      {-5, -5},
      {-2, -10},
      {3, -10},
      {5, -5},
      {0, -1},
      {-6, 4},
      {-3, 10},
      {3, 10},
      {6, 4},
      {0, -1}}},
    {9, {{6, -5}, {1, -1}, {-4, -2}, {-6, -6}, {-3, -10}, {3, -10}, {6, -6}, {5, 3}, {-1, 10}}},
};

/* From -1 to 1. */
static float both_ways(float u)
{
    return 2 * u - 1;
}

/* The corners of a glyph in pixels. */
static void place(int class, const lk__canvas *c, const float *u, float (*point)[2])
{
    float t = 0.2F * both_ways(u[0]), turn = 1 + t * t;
    float cosine = (1 - t * t) / turn, sine = 2 * t / turn; /* of twice atan t */
    float side = (float)(c->rows < c->columns ? c->rows : c->columns);
    float size = side * (0.26F + 0.12F * u[1]), wide = 0.8F + 0.4F * u[2];
    float shear = 0.3F * both_ways(u[3]);
    float at_x = 0.5F * (float)c->columns + 0.13F * side * both_ways(u[4]);
    float at_y = 0.5F * (float)c->rows + 0.13F * side * both_ways(u[5]);
    for (int i = 0; i < glyphs[class].n; i++) {
        float x = 0.1F * (float)glyphs[class].point[i].x + 0.13F * both_ways(u[6 + 2 * i]);
        float y = 0.1F * (float)glyphs[class].point[i].y + 0.13F * both_ways(u[7 + 2 * i]);
        x = wide * x + shear * y;
        point[i][0] = at_x + size * (cosine * x - sine * y);
        point[i][1] = at_y + size * (sine * x + cosine * y);
    }
}

static lk_status glyphs_sample(const lk__generator *g, int64_t index, void *const *row)
{
    float u[N_DRAWS], point[MAX_POINTS][2];
    LK_TRY(lk_rng_uniform_f32(g->rng, (lk_rng_at){0, index, 0}, N_DRAWS, u));
    int64_t class = (int64_t)(10 * u[63]);
    if (row[1])
        *(int64_t *)row[1] = class;
    if (!row[0])
        return LK_OK;
    lk__canvas c;
    lk__canvas_start(&c, g->info.field[0].shape);
    place((int)class, &c, u, point);
    float half = (float)c.rows * (0.02F + 0.03F * u[30]);
    for (int i = 1; i < glyphs[class].n; i++)
        lk__canvas_line(&c, point[i - 1], point[i], half, 1);
    for (int i = 0; i < 2; i++) {
        const float *v = &u[32 + 4 * i];
        float from[2] = {(float)c.columns * v[0], (float)c.rows * v[1]};
        float to[2] = {from[0] + 0.3F * (float)c.columns * both_ways(v[2]),
                       from[1] + 0.3F * (float)c.rows * both_ways(v[3])};
        lk__canvas_line(&c, from, to, half, 0.7F);
    }
    return LK_TRACE(
        lk__canvas_colour(&c, u + 40, g->rng, (lk_rng_at){0, index, N_DRAWS}, g->noise, row[0]));
}

static lk_status glyphs_open(const void *given, lk_split split, lk_dataset **out)
{
    const struct glyphs_options *o = given;
    lk_shape shape;
    LK_TRY(lk__canvas_check("glyphs", &o->common.shape, &shape));
    lk__generator g = {
        .sample = glyphs_sample,
        .info = {.name = "glyphs",
                 .classes = 10,
                 .n_fields = 2,
                 .field = {lk__field("x", LK_U8, shape), lk__field("y", LK_I64, LK_SCALAR)}}};
    return LK_TRACE(lk__generate(&g, &o->common, split, out));
}

const lk_format lk__format_glyphs = {
    .descriptor =
        {.name = "glyphs",
         .summary = "generated images of ten classes of strokes, the digits",
         .details = "Needs no file. Strokes are moved, turned, scaled, bent and drawn in noise, "
                    "so that a network has to learn them.",
         .options = options,
         .options_size = sizeof(struct glyphs_options)},
    .open = glyphs_open,
};
