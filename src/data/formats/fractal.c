/* fractal: volumes for segmentation, with a label for each voxel.
 *
 * A field of fractal noise, the sum of noise on lattices of halving cells with halving amplitudes,
 * is cut into classes by its value.  A voxel shows its class as a level from 0 to 1, hidden by
 * noise of its own: only its neighbours tell it.
 */
#include "data/dataset.h"
#include "data/format.h"
#include "data/generate.h"

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
     .help = "classes of voxels"},
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

/* Noise of cells of `cell` voxels at a voxel: trilinear between the corners of its cell. */
static float octave(uint64_t key, const int64_t *at, int64_t cell)
{
    uint64_t low[3];
    float t[3], corner[8];
    for (int d = 0; d < 3; d++) {
        low[d] = (uint64_t)(at[d] / cell);
        t[d] = (float)(at[d] % cell) / (float)cell;
    }
    for (int i = 0; i < 8; i++)
        corner[i] = lattice(key, ((low[0] + (uint64_t)(i >> 2)) << 42) +
                                     ((low[1] + (uint64_t)(i >> 1 & 1)) << 21) + low[2] +
                                     (uint64_t)(i & 1));
    for (int i = 0; i < 4; i++)
        corner[i] = mix(corner[i], corner[i + 4], t[0]);
    for (int i = 0; i < 2; i++)
        corner[i] = mix(corner[i], corner[i + 2], t[1]);
    return mix(corner[0], corner[1], t[2]);
}

/* The class of a voxel. */
static int64_t class_at(uint64_t key, const int64_t *at, int64_t side, int64_t classes)
{
    float sum = 0, amplitude = 1, most = 0;
    for (int64_t cell = side / 2; cell >= 2; cell /= 2) {
        sum += amplitude * octave(key, at, cell);
        most += amplitude;
        amplitude *= 0.5F;
        key = key * UINT64_C(6364136223846793005) + 1442695040888963407U;
    }
    float value = most > 0 ? sum / most : 0;
    float spread = 0.5F + 2.5F * (value - 0.5F); /* sums lie around 0.5 */
    float class = spread * (float)classes;
    return class < 0 ? 0 : class >= (float)classes ? classes - 1 : (int64_t) class;
}

static lk_status fractal_sample(const lk__generator *g, int64_t index, void *const *row)
{
    const int64_t *dim = g->info.field[0].shape.dim;
    int64_t side = dim[0], at[3], *label = row[1];
    float *x = row[0], noise[256];
    uint32_t key[2];
    for (int d = 1; d < 3; d++)
        side = dim[d] < side ? dim[d] : side;
    LK_TRY(lk_rng_bits(g->rng, (lk_rng_at){0, index, 0}, 2, key));
    int64_t i = 0, count = dim[0] * dim[1] * dim[2];
    for (at[0] = 0; at[0] < dim[0]; at[0]++)
        for (at[1] = 0; at[1] < dim[1]; at[1]++)
            for (at[2] = 0; at[2] < dim[2]; at[2]++, i++) {
                if (i % 256 == 0 && x)
                    LK_TRY(lk_rng_uniform_f32(g->rng, (lk_rng_at){0, index, 4 + i},
                                              count - i < 256 ? count - i : 256, noise));
                int64_t class = class_at((uint64_t)key[1] << 32 | key[0], at, side,
                                         g->info.classes);
                if (label)
                    label[i] = class;
                if (x)
                    x[i] = (float)class / (float)(g->info.classes - 1) +
                           (float)g->noise * (2 * noise[i % 256] - 1);
            }
    return LK_OK;
}

static lk_status fractal_open(const void *given, lk_split split, lk_dataset **out)
{
    const struct fractal_options *o = given;
    const int64_t *d = o->common.shape.item;
    LK_CHECK(o->common.shape.n == 4 && d[0] >= 4 && d[1] >= 4 && d[2] >= 4 && d[3] == 1, LK_EINVAL,
             "fractal: the shape is planes,rows,columns,1, each side at least 4");
    lk__generator g = {.sample = fractal_sample,
                       .info = {.name = "fractal",
                                .classes = o->classes,
                                .n_fields = 2,
                                .field = {lk__field("x", LK_F32, LK_SHAPE(d[0], d[1], d[2], 1)),
                                          lk__field("y", LK_I64, LK_SHAPE(d[0], d[1], d[2]))}}};
    LK_TRY(lk__generate(&g, &o->common, split, out));
    return LK_OK;
}

const lk_format lk__format_fractal = {
    .descriptor =
        {.name = "fractal",
         .summary = "generated volumes of fractal noise with a label for each voxel",
         .details = "Needs no file. Made for segmentation: labels are [planes][rows][columns].",
         .options = options,
         .options_size = sizeof(struct fractal_options)},
    .open = fractal_open,
};
