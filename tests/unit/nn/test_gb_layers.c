/* Local filtering, L2 pooling and local contrast normalisation in the shapes of neon's sparse autoencoder, of
 * MNIST's images and CIFAR's, against another program (tests/data/gb.py says how): what each layer makes, and
 * gradients of image and filters. */
#include "real.h"
#include "written.h"

#include <lockstep/nn.h>
#include <lockstep/op.h>

#include <math.h>

enum { LAYERS = 9, SOME = 16 };

static const char *const layers[LAYERS][3] = {
    {"local_conv", "filters=8 kernel=4 name=filter1", "filter1"},
    {"l2pool", "size=3 stride=1", "norm1"},
    {"lcn", "size=3", "contrast1"},
    {"local_conv", "filters=8 kernel=3 name=filter2", "filter2"},
    {"l2pool", "size=3 stride=1", "norm2"},
    {"lcn", "size=3", "contrast2"},
    {"local_conv", "filters=8 kernel=3 name=filter3", "filter3"},
    {"l2pool", "size=3 stride=1", "norm3"},
    {"lcn", "size=3", "contrast3"}};

/* The numbers that both programs draw. */
static void drawn_set(lk_dtype dtype, uint64_t stream, int64_t n, void *out)
{
    for (int64_t i = 0; i < n; i++) {
        stream = stream * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        double value = (double)((int64_t)((stream >> 33) % 129) - 64) / 64;
        numbers_set(dtype,
                    dtype == LK_F32 ? (void *)((float *)out + i) : (void *)((double *)out + i),
                    &value, 1);
    }
}

static lk_tensor *drawn(lk_dtype dtype, uint64_t stream, lk_shape shape)
{
    lk_tensor *t = NULL;
    void *data = NULL;
    ASSERT_OK(lk_tensor_zeros(dtype, shape, &t));
    ASSERT_OK(lk_tensor_writable_data(t, &data));
    drawn_set(dtype, stream, lk_tensor_count(t), data);
    return t;
}

/* A model of the first layers. */
static lk_model *model_of(lk_dtype dtype, int64_t size, int64_t channels, int n)
{
    lk_model *m = NULL;
    lk_model_spec spec = {.in = {dtype, LK_SHAPE(size, size, channels)}, .dtype = dtype};
    ASSERT_OK(lk_model_new(&m));
    for (int i = 0; i < n; i++)
        ASSERT_OK(lk_model_add(m, layers[i][0], layers[i][1]));
    ASSERT_OK(lk_model_build(m, &spec));
    ASSERT_OK(lk_model_hold(m, NULL));
    for (int i = 0; i < n; i += 3) {
        char name[64];
        int64_t bytes;
        snprintf(name, sizeof name, "%s.weight", layers[i][2]);
        void *w = slice_of(lk_model_params(m), name, &bytes);
        drawn_set(dtype, 10 + (uint64_t)i / 3, bytes / (int64_t)lk_dtype_size(dtype), w);
    }
    return m;
}

/* "value NAME COUNT : SUM SCALE VALUE..." must be said of `name` next. */
static void check_next(FILE *f, const char *name, lk_dtype dtype, const void *data, int64_t count)
{
    char line[4096], title[64];
    double value[MOST_VALUES], sum = 0, tolerance = dtype == LK_F32 ? 2e-5 : 1e-13;
    long long n;
    ASSERT_TRUE(fgets(line, sizeof line, f));
    ASSERT_EQ(sscanf(line, "value %63s %lld", title, &n), 2);
    ASSERT_TRUE(strcmp(title, name) == 0 && n == count);
    ASSERT_EQ(read_values(line, value), 2 + SOME);
    for (int64_t i = 0; i < count; i++)
        sum += real_get(dtype, data, i) * (double)(37 * i % 229 - 114) / 64;
    if (!(fabs(sum - value[0]) <= tolerance * value[1]))
        TEST_FAIL("%s: the sum is %.17g, not %.17g, where the scale is %.17g", name, sum, value[0],
                  value[1]);
    for (int k = 0; k < SOME; k++)
        check_near(name, real_get(dtype, data, k * count / SOME), value[2 + k], 100 * tolerance);
}

static void check_values(FILE *f, lk_dtype dtype, int64_t size, int64_t channels)
{
    lk_tensor *x = drawn(dtype, 1, LK_SHAPE(1, size, size, channels));
    for (int n = 1; n <= LAYERS; n++) {
        lk_model *m = model_of(dtype, size, channels, n);
        lk_tape *tape = NULL;
        const lk_tensor *made = NULL;
        lk_var v, y;
        ASSERT_OK(lk_tape_new(&tape));
        ASSERT_OK(lk_constant(tape, x, &v));
        ASSERT_OK(lk_model_forward(m, &(lk_pass){.tape = tape}, v, &y));
        ASSERT_OK(lk_value(y, &made));
        check_next(f, layers[n - 1][2], dtype, lk_tensor_data(made), lk_tensor_count(made));
        lk_tape_free(tape);
        lk_model_free(m);
    }
    lk_tensor_free(x);
}

static void check_gradients(FILE *f, lk_dtype dtype, int64_t size, int64_t channels)
{
    static const char *const names[] = {"filter3.weight", "filter2.weight", "filter1.weight"};
    lk_model *m = model_of(dtype, size, channels, LAYERS);
    lk_shape image = LK_SHAPE(1, size, size, channels), out = lk_model_out(m).shape;
    lk_tensor *x = drawn(dtype, 1, image), *dx = NULL,
              *seed = drawn(dtype, 2, LK_SHAPE(1, out.dim[0], out.dim[1], out.dim[2]));
    lk_accumulator *sums = NULL;
    lk_tape *tape = NULL;
    lk_var v, y;
    ASSERT_OK(lk_tensor_zeros(dtype, image, &dx));
    ASSERT_OK(lk_accumulator_new(m, &sums));
    ASSERT_OK(lk_tape_new(&tape));
    lk_accumulator_begin(sums);
    ASSERT_OK(lk_leaf(tape, x, dx, &v));
    ASSERT_OK(lk_model_forward(m, &(lk_pass){.tape = tape, .accumulator = sums, .training = true},
                               v, &y));
    ASSERT_OK(lk_backward(tape, &(lk_seed){y, seed}, 1, 0));
    for (int i = 0; i < 3; i++) {
        int64_t bytes;
        const void *dw = slice_of(lk_accumulator_slab(sums), names[i], &bytes);
        check_next(f, names[i], dtype, dw, bytes / (int64_t)lk_dtype_size(dtype));
    }
    check_next(f, "x", dtype, lk_tensor_data(dx), lk_tensor_count(dx));
    lk_tape_free(tape);
    lk_accumulator_free(sums);
    lk_tensor_free(x);
    lk_tensor_free(dx);
    lk_tensor_free(seed);
    lk_model_free(m);
}

static void check_all(lk_dtype dtype)
{
    FILE *f = fopen("tests/data/gb.txt", "r");
    char line[256];
    long long size, channels;
    ASSERT_TRUE(f && fgets(line, sizeof line, f));
    for (int i = 0; i < 2; i++) {
        ASSERT_TRUE(fgets(line, sizeof line, f));
        ASSERT_EQ(sscanf(line, "case %*s %lld %lld", &size, &channels), 2);
        check_values(f, dtype, size, channels);
        check_gradients(f, dtype, size, channels);
    }
    ASSERT_EQ(fclose(f), 0);
}

TEST(double_precision_has_the_values_of_plain_loops)
{
    check_all(LK_F64);
}

TEST(single_precision_is_near_to_them)
{
    check_all(LK_F32);
}
