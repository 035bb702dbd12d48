/* fractal: images and volumes for segmentation, with a label for each position.
 *
 * A field of fractal noise, the sum of noise on lattices of halving cells with halving amplitudes,
 * is cut into classes by its value.  A voxel shows its class as a level from 0 to 1, hidden by
 * noise of its own: only its neighbours tell it.
 *
 * Label and value of a voxel are functions of (seed, set, sample, shape) and its place alone, so any box
 * can be made by itself, with the same bits.  An image is the first plane of a volume that has no other.
 */
#include "data/dataset.h"
#include "data/format.h"
#include "data/generate.h"

#include <string.h>

struct fractal_options {
    struct lk__generated common;
    int64_t classes;
};

static const lk_option options[] = {
    LK_GENERATED_OPTIONS(struct fractal_options, "64", "16", "32,32,32,1", "0.8"),
    {.name = "classes",
     .type = LK_OPTION_INT,
     .offset = offsetof(struct fractal_options, classes),
     .def = "2",
     .min = 2,
     .max = 16,
     .help = "classes of positions"},
    {.name = NULL},
};

/* A number from 0 to 1 for a point of a lattice: SplitMix64 at a place of its sequence. */
static float lattice(uint64_t key, uint64_t point)
{
    uint64_t v = key + (point + 1) * UINT64_C(0x9e3779b97f4a7c15);
    v = (v ^ v >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    v = (v ^ v >> 27) * UINT64_C(0x94d049bb133111eb);
    v ^= v >> 31;
    return (float)(v >> 40) * 0x1p-24F;
}

static float mix(float a, float b, float t)
{
    return a + (b - a) * t;
}

/* Voxels of a row of columns that are made at once. */
enum { RUN = 256 };

/* Where a row of voxels lies between the points of a lattice: [0] of planes, [1] of rows. */
struct between {
    uint64_t key, low[2];
    float t[2];
};

/* The lattice at its column `q`, between its planes and its rows. */
static float between(const struct between *b, uint64_t q)
{
    float corner[4]; /* [plane][row] */
    for (uint64_t i = 0; i < 4; i++)
        corner[i] = lattice(b->key,
                            ((b->low[0] + (i >> 1)) << 42) + ((b->low[1] + (i & 1)) << 21) + q);
    float near = mix(corner[0], corner[2], b->t[0]), far = mix(corner[1], corner[3], b->t[0]);
    return mix(near, far, b->t[1]);
}

/* Add noise of cells of `cell` voxels, trilinear between the corners of each cell, to the voxels
 * at[2] ... at[2] + n - 1 of row at[1] of plane at[0]. */
static void octave(uint64_t key, const int64_t *at, int64_t n, int64_t cell, float amplitude,
                   float *sum)
{
    struct between b = {.key = key};
    for (int d = 0; d < 2; d++) {
        b.low[d] = (uint64_t)(at[d] / cell);
        b.t[d] = (float)(at[d] % cell) / (float)cell;
    }
    uint64_t q = (uint64_t)(at[2] / cell);
    int64_t in = at[2] % cell; /* the cell */
    float left = between(&b, q), right = between(&b, q + 1);
    for (int64_t i = 0; i < n; i++, in++) {
        if (in == cell) {
            in = 0;
            q++;
            left = right;
            right = between(&b, q + 1);
        }
        sum[i] += amplitude * mix(left, right, (float)in / (float)cell);
    }
}

/* The classes of at most RUN voxels of a row. */
static void classes_at(uint64_t key, const int64_t *at, int64_t n, int64_t side, int64_t classes,
                       int64_t *out)
{
    float sum[RUN] = {0}, amplitude = 1, most = 0;
    for (int64_t cell = side / 2; cell >= 2; cell /= 2) {
        octave(key, at, n, cell, amplitude, sum);
        most += amplitude;
        amplitude *= 0.5F;
        key = key * UINT64_C(6364136223846793005) + 1442695040888963407U;
    }
    for (int64_t i = 0; i < n; i++) {
        float value = most > 0 ? sum[i] / most : 0;
        float spread = 0.5F + 2.5F * (value - 0.5F); /* sums lie around 0.5 */
        float class = spread * (float)classes;
        out[i] = class < 0 ? 0 : class >= (float)classes ? classes - 1 : (int64_t) class;
    }
}

/* A box of a sample as one of a volume, whose sizes are `dim`: an image has one plane. */
static lk_box volume_box(const lk__generator *g, const lk_box *box, int64_t dim[3])
{
    const lk_shape *shape = &g->info.field[1].shape;
    lk_box out = {.ndim = 3, .n = {1, 1, 1}};
    int planes = 3 - shape->ndim;
    dim[0] = dim[1] = dim[2] = 1;
    for (int d = 0; d < shape->ndim; d++) {
        dim[planes + d] = shape->dim[d];
        out.first[planes + d] = box->first[d];
        out.n[planes + d] = box->n[d];
    }
    return out;
}

/* The shortest side of a sample. */
static int64_t side_of(const lk__generator *g)
{
    const lk_shape *shape = &g->info.field[1].shape;
    int64_t side = shape->dim[0];
    for (int d = 1; d < shape->ndim; d++)
        side = shape->dim[d] < side ? shape->dim[d] : side;
    return side;
}

/* A box of values, labels, or both. */
static lk_status fractal_voxels(const lk__generator *g, int64_t index, const lk_box *given,
                                float *x, int64_t *label)
{
    int64_t side = side_of(g), at[3], class[RUN], dim[3];
    lk_box volume = volume_box(g, given, dim);
    const lk_box *box = &volume;
    float noise[RUN];
    uint32_t key[2];
    LK_TRY(lk_rng_bits(g->rng, (lk_rng_at){0, index, 0}, 2, key));
    int64_t end = box->first[2] + box->n[2];
    for (int64_t r = 0; r < box->n[0] * box->n[1]; r++)
        for (int64_t c = box->first[2], n; c < end; c += n) {
            n = end - c < RUN ? end - c : RUN;
            at[0] = box->first[0] + r / box->n[1];
            at[1] = box->first[1] + r % box->n[1];
            at[2] = c;
            classes_at((uint64_t)key[1] << 32 | key[0], at, n, side, g->info.classes, class);
            if (label) {
                memcpy(label, class, (size_t)n * sizeof *label);
                label += n;
            }
            if (!x)
                continue;
            int64_t voxel = (at[0] * dim[1] + at[1]) * dim[2] + c;
            LK_TRY(lk_rng_uniform_f32(g->rng, (lk_rng_at){0, index, 4 + voxel}, n, noise));
            for (int64_t i = 0; i < n; i++)
                *x++ = (float)class[i] / (float)(g->info.classes - 1) +
                       (float)g->noise * (2 * noise[i] - 1);
        }
    return LK_OK;
}

static lk_status fractal_box(const lk__generator *g, int64_t index, int field, const lk_box *box,
                             void *out)
{
    return LK_TRACE(
        fractal_voxels(g, index, box, field == 0 ? out : NULL, field == 1 ? out : NULL));
}

static lk_status fractal_sample(const lk__generator *g, int64_t index, void *const *row)
{
    lk_box whole = lk__field_whole(&g->info.field[1]);
    return LK_TRACE(fractal_voxels(g, index, &whole, row[0], row[1]));
}

static lk_status fractal_open(const void *given, lk_split split, lk_dataset **out)
{
    const struct fractal_options *o = given;
    const int64_t *d = o->common.shape.item;
    lk_shape label = {.ndim = o->common.shape.n - 1}, x;
    bool right = (label.ndim == 2 || label.ndim == 3) && d[label.ndim] == 1;
    for (int i = 0; right && i < label.ndim; i++)
        right = d[i] >= 4;
    LK_CHECK(right, LK_EINVAL,
             "fractal: the shape is rows,columns,1 or planes,rows,columns,1, each side at least 4");
    memcpy(label.dim, d, (size_t)label.ndim * sizeof *d);
    x = label;
    x.dim[x.ndim++] = 1;
    lk__generator g = {
        .sample = fractal_sample,
        .box = fractal_box,
        .info = {.name = "fractal",
                 .classes = o->classes,
                 .n_fields = 2,
                 .field = {lk__field("x", LK_F32, x), lk__field("y", LK_I64, label)}}};
    return LK_TRACE(lk__generate(&g, &o->common, split, out));
}

const lk_format lk__format_fractal = {
    .descriptor =
        {.name = "fractal",
         .summary = "generated images or volumes of fractal noise, a label for each position",
         .details = "Needs no file. Made for segmentation: samples are [rows][columns][1] or "
                    "[planes][rows][columns][1], labels have all these axes but the last. Any box "
                    "of a sample is made by itself.",
         .options = options,
         .options_size = sizeof(struct fractal_options)},
    .open = fractal_open,
};
