/* Datasets out of nothing: sample i is a pure function of (seed, set, i).
 *
 * A generator draws with counter-based randomness and computes with +, -, *, / and square roots
 * alone, so its bytes are the same everywhere.
 */
#ifndef LK_DATA_GENERATE_H
#define LK_DATA_GENERATE_H

#include <lockstep/data.h>
#include <lockstep/rng.h>

#include <stddef.h>

typedef struct lk__generator lk__generator;

/** Write one sample, its label too: `row` as for lk_dataset_row_fn. */
typedef lk_status lk__generate_fn(const lk__generator *g, int64_t index, void *const *row);

/** Write a box of one field of a sample. */
typedef lk_status lk__generate_box_fn(const lk__generator *g, int64_t index, int field,
                                      const lk_box *box, void *out);

struct lk__generator {
    lk__generate_fn *sample;
    lk__generate_box_fn *box; /* NULL: samples are made whole */
    lk_dataset_info info;
    lk_rng rng;
    double noise;
};

/* What the options of all generated sets begin with. */
struct lk__generated {
    int64_t seed, count, test_count;
    lk_option_ints shape;
    double noise;
};

/** The dataset of a generator whose `sample`, `noise` and `info`, but for the count, are set.
 *
 * Up to 256 MiB are made at once and kept: here, or, if there is `box`, when the first whole sample is read.
 * Boxes, and samples of larger sets, are made when they are read. */
lk_status lk__generate(const lk__generator *g, const struct lk__generated *options, lk_split split,
                       lk_dataset **out) LK_NODISCARD;

/** An image canvas of `rows` x `columns`, the ink of each pixel from 0 to 1. */
enum { LK_CANVAS_SIDE = 64 };

typedef struct lk__canvas {
    int rows, columns, channels;
    float ink[LK_CANVAS_SIDE * LK_CANVAS_SIDE];
} lk__canvas;

/** An empty canvas for images of `shape`, [rows][columns][channels].  Errors: LK_EINVAL for sides
 * below 8 or beyond LK_CANVAS_SIDE, and for other than 1 to 4 channels. */
lk_status lk__canvas_check(const char *name, const lk_option_ints *shape,
                           lk_shape *out) LK_NODISCARD;
void lk__canvas_start(lk__canvas *c, lk_shape shape);

/** Draw the line from (x0, y0) to (x1, y1), in pixels, `half` a line's width thick. */
void lk__canvas_line(lk__canvas *c, const float *from, const float *to, float half, float strength);

/** Colour the canvas: between two colours that u[0 ... 2 * channels) decides, with noise that the
 * stream gives at `at`.  `out` is [rows][columns][channels] bytes. */
lk_status lk__canvas_colour(const lk__canvas *c, const float *u, lk_rng rng, lk_rng_at at,
                            double noise, unsigned char *out) LK_NODISCARD;

/* The rows of the options above, for tables; the first macro's arguments are defaults as texts. */
#define LK_GENERATED_OPTIONS(of, counts, test_counts, shapes, noises)                       \
    {.name = "seed",                                                                        \
     .type = LK_OPTION_INT,                                                                 \
     .offset = offsetof(of, common.seed),                                                   \
     .def = "1",                                                                            \
     .help = "decides the samples; not the seed of the run"},                               \
        {.name = "count",                                                                   \
         .type = LK_OPTION_INT,                                                             \
         .offset = offsetof(of, common.count),                                              \
         .def = counts,                                                                     \
         .min = 1,                                                                          \
         .max = 1e9,                                                                        \
         .help = "samples of the training set"},                                            \
        {.name = "test_count",                                                              \
         .type = LK_OPTION_INT,                                                             \
         .offset = offsetof(of, common.test_count),                                         \
         .def = test_counts,                                                                \
         .min = 0,                                                                          \
         .max = 1e9,                                                                        \
         .help = "samples of the test set"},                                                \
        {.name = "shape",                                                                   \
         .type = LK_OPTION_INTS,                                                            \
         .offset = offsetof(of, common.shape),                                              \
         .value = "N,N,...",                                                                \
         .def = shapes,                                                                     \
         .min = 1,                                                                          \
         .max = 1024,                                                                       \
         .help = "the shape of a sample, the channels last"},                               \
    {                                                                                       \
        .name = "noise", .type = LK_OPTION_REAL, .offset = offsetof(of, common.noise),      \
        .def = noises, .min = 0, .max = 10, .help = "how much noise there is in the values" \
    }

#endif /* LK_DATA_GENERATE_H */
