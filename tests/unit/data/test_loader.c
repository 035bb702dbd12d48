/* Loaders: order, parts, normalisation, augmentation, and the thread that prepares batches. */
#include "data_files.h"
#include "faults.h"
#include "tensors.h"

#include <lockstep/rng.h>

#include <stdatomic.h>

static lk_loader_options defaults(void)
{
    lk_loader_options o;
    lk_arena *arena;
    ASSERT_OK(lk_arena_new(&arena));
    ASSERT_OK(lk_options_set_defaults(&lk_loader_descriptor, &o, arena));
    lk_arena_free(arena);
    return o;
}

/* 23 samples: x is u8 [3][4][2] counting up modulo 251, y is the sample's number modulo 5. */
enum { COUNT = 23, PIXELS = 24 };

static lk_dataset *image_set(void)
{
    lk_tensor *tensor[2];
    ASSERT_OK(lk_tensor_new(LK_U8, LK_SHAPE(COUNT, 3, 4, 2), &tensor[0]));
    ASSERT_OK(lk_tensor_new(LK_I64, LK_SHAPE(COUNT), &tensor[1]));
    void *x, *y;
    ASSERT_OK(lk_tensor_writable_data(tensor[0], &x));
    ASSERT_OK(lk_tensor_writable_data(tensor[1], &y));
    for (int i = 0; i < COUNT * PIXELS; i++)
        ((unsigned char *)x)[i] = (unsigned char)(i % 251);
    for (int i = 0; i < COUNT; i++)
        ((int64_t *)y)[i] = i % 5;
    lk_dataset_info info = {
        .name = "images", .classes = 5, .n_fields = 2, .field = {{.name = "x"}, {.name = "y"}}};
    lk_dataset *ds;
    ASSERT_OK(lk_dataset_from_tensors(&info, tensor, &ds));
    lk_tensor_free(tensor[0]);
    lk_tensor_free(tensor[1]);
    return ds;
}

static lk_loader *loader_of(lk_dataset *ds, const lk_loader_options *o)
{
    lk_loader *l;
    ASSERT_OK(lk_loader_new_options(ds, o, 7, &l));
    return l;
}

static unsigned char pixel(int64_t sample, int i)
{
    return (unsigned char)((sample * PIXELS + i) % 251);
}

TEST(an_epoch_is_the_permutation_in_batches)
{
    lk_dataset *ds = image_set();
    lk_loader_options o = defaults();
    o.batch = 10;
    o.shards = 4;
    lk_loader *l = loader_of(ds, &o);
    ASSERT_EQ(lk_loader_batches(l), 3);
    ASSERT_EQ(lk_loader_batch_size(l, 2), 3);
    ASSERT_EQ(lk_loader_shard_size(l), 3);
    int64_t order[COUNT];
    for (int64_t epoch = 0; epoch < 3; epoch++) {
        ASSERT_OK(
            lk_rng_permute(lk_rng_start(7, "data", "shuffle"), epoch, COUNT, 0, COUNT, order));
        for (int64_t b = 0; b < 3; b++) {
            lk_batch batch;
            int64_t size = lk_loader_batch_size(l, b);
            ASSERT_OK(lk_loader_read_batch(l, epoch, b, 0, size, &batch));
            ASSERT_EQ(batch.size, size);
            test_expect_text(batch.x, size == 10 ? "f32[10,3,4,2]" : "f32[3,3,4,2]");
            const float *x = lk_tensor_data(batch.x);
            const int64_t *y = lk_tensor_data(batch.y);
            for (int64_t i = 0; i < size; i++) {
                int64_t sample = order[b * 10 + i];
                ASSERT_EQ(batch.index[i], sample);
                ASSERT_EQ(y[i], sample % 5);
                for (int k = 0; k < PIXELS; k++) {
                    float want = (float)pixel(sample, k) * (float)(1.0 / 255) + 0.0F;
                    ASSERT_SAME_BITS(&x[i * PIXELS + k], &want, 4);
                }
            }
        }
    }
    lk_loader_free(l);
    lk_dataset_free(ds);
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

/* Any part, in any order, with any prefetching, has the rows of the whole. */
/* Whatever was prepared ahead, the next batch is that of a loader that was made with the seed. */
/* With a shuffle buffer of that many samples, or 0, and so many batches ahead. */
static void change_seed(int64_t buffer, int64_t prefetch)
{
    lk_dataset *ds = image_set();
    lk_loader_options o = defaults();
    o.batch = 10;
    o.crop = 1;
    o.flip = true;
    o.shuffle_buffer = buffer;
    o.prefetch = prefetch;
    lk_loader *l = loader_of(ds, &o), *other;
    lk_batch batch, want;
    ASSERT_OK(lk_loader_new_options(ds, &o, 8, &other));
    for (int64_t b = 0; b < 3; b++) {
        int64_t size = lk_loader_batch_size(l, b);
        ASSERT_EQ(lk_loader_seed(l), b == 0 ? 7 : 8);
        ASSERT_OK(lk_loader_read_batch(l, 0, b, 0, size, &batch));
        ASSERT_OK(lk_loader_read_batch(other, 0, b, 0, size, &want));
        ASSERT_EQ(memcmp(batch.index, want.index, (size_t)size * sizeof *want.index) == 0, b > 0);
        ASSERT_EQ(lk_tensor_is_equal(batch.x, want.x), b > 0);
        if (b == 0)
            lk_loader_set_seed(l, 8);
    }
    lk_loader_free(l);
    lk_loader_free(other);
    lk_dataset_free(ds);
}

TEST(the_seed_can_be_changed_between_batches)
{
    change_seed(0, 2);
    change_seed(COUNT, 0);
    change_seed(9, 2);
}

/* Each of `steps` steps of 3 to an epoch at which something is due, as a bit. */
static int due_at(lk_period period, int steps)
{
    int bits = 0;
    for (int step = 0; step <= steps; step++)
        if (lk_period_is_due(period, &(lk_position){step, step / 3, step % 3, 3}))
            bits |= 1 << step;
    return bits;
}

TEST(periods_are_due_by_steps_or_by_epochs)
{
    ASSERT_EQ(due_at((lk_period){1, true}, 6), 0x7e);
    ASSERT_EQ(due_at((lk_period){4, true}, 13), 1 << 4 | 1 << 8 | 1 << 12);
    ASSERT_EQ(due_at((lk_period){1, false}, 13), 1 << 3 | 1 << 6 | 1 << 9 | 1 << 12);
    ASSERT_EQ(due_at((lk_period){2, false}, 13), 1 << 6 | 1 << 12);
    ASSERT_EQ(due_at((lk_period){0, false}, 13) | due_at((lk_period){0, true}, 13), 0);
}

TEST(parts_and_order_of_asking_do_not_matter)
{
    lk_dataset *ds = image_set();
    lk_loader_options o = defaults();
    o.batch = 10;
    o.crop = 1;
    o.flip = true;
    o.prefetch = 0;
    lk_loader *plain = loader_of(ds, &o);
    for (int prefetch = 0; prefetch < 12; prefetch++) {
        o.prefetch = prefetch % 4;
        o.readers = prefetch / 4 + 1;
        lk_loader *l = loader_of(ds, &o);
        for (int trial = 0; trial < 60; trial++) {
            int64_t epoch = trial % 3 ? trial / 20 : test_random(4);
            int64_t number = trial % 3 ? trial % 3 : test_random(3);
            int64_t size = lk_loader_batch_size(l, number), first = test_random(size + 1);
            int64_t n = test_random(size - first + 1);
            lk_batch whole, part;
            lk_tensor *rows;
            ASSERT_OK(lk_loader_read_batch(l, epoch, number, first, n, &part));
            ASSERT_OK(lk_loader_read_batch(plain, epoch, number, 0, size, &whole));
            for (int f = 0; f < 2; f++) {
                ASSERT_OK(lk_tensor_slice(whole.field[f], 0, first, first + n, 1, &rows));
                ASSERT_TRUE(lk_tensor_is_equal(rows, part.field[f]));
                lk_tensor_free(rows);
            }
        }
        lk_loader_free(l);
    }
    lk_loader_free(plain);
    lk_dataset_free(ds);
}

TEST(nothing_is_allocated_after_the_first_batches)
{
    lk_dataset *ds = image_set();
    for (int prefetch = 0; prefetch < 3; prefetch++) {
        lk_loader_options o = defaults();
        o.batch = 5;
        o.crop = 1;
        o.prefetch = prefetch;
        lk_loader *l = loader_of(ds, &o);
        lk_batch b;
        int64_t calls = 0;
        for (int64_t i = 0; i < 25; i++) {
            ASSERT_OK(lk_loader_read_batch(l, i / 5, i % 5, 0, lk_loader_batch_size(l, i % 5), &b));
            if (i == 3) /* before the first partial batch */
                calls = lk_alloc_stats_now().calls;
        }
        lk_loader_free(l);
        ASSERT_EQ(lk_alloc_stats_now().calls, calls);
    }
    lk_dataset_free(ds);
}

TEST(crop_and_flip_are_drawn_by_epoch_and_sample)
{
    lk_dataset *ds = image_set();
    lk_loader_options o = defaults();
    o.batch = COUNT;
    o.crop = 2;
    o.flip = true;
    o.normalise = LK_NORMALISE_NONE;
    o.shift = 1; /* what comes from outside is 0 before it */
    lk_loader *l = loader_of(ds, &o);
    lk_batch b;
    int flipped = 0, moved = 0;
    for (int64_t epoch = 0; epoch < 3; epoch++) {
        ASSERT_OK(lk_loader_read_batch(l, epoch, 0, 0, COUNT, &b));
        const float *x = lk_tensor_data(b.x);
        for (int64_t i = 0; i < COUNT; i++) {
            int64_t d[2], s = b.index[i];
            uint32_t bits;
            lk_rng_at at = {epoch, s, 0};
            ASSERT_OK(lk_rng_below(lk_rng_start(7, "data", "crop"), at, 5, 2, d));
            ASSERT_OK(lk_rng_bits(lk_rng_start(7, "data", "flip"), at, 1, &bits));
            flipped += (int)(bits >> 31);
            moved += d[0] != 2 || d[1] != 2;
            for (int64_t r = 0; r < 3; r++)
                for (int64_t c = 0; c < 4; c++)
                    for (int64_t k = 0; k < 2; k++) {
                        int64_t fr = r + d[0] - 2, fc = (bits >> 31 ? 3 - c : c) + d[1] - 2;
                        bool inside = fr >= 0 && fr < 3 && fc >= 0 && fc < 4;
                        int v = inside ? pixel(s, (int)(fr * 8 + fc * 2 + k)) : 0;
                        ASSERT_TRUE(x[i * PIXELS + r * 8 + c * 2 + k] == (float)(v + 1));
                    }
        }
    }
    ASSERT_TRUE(flipped > 15 && flipped < 55 && moved > 50);
    lk_loader_free(l);
    lk_dataset_free(ds);
}

TEST(labels_of_pixels_move_with_them)
{
    lk_dataset *ds;
    ASSERT_OK(lk_dataset_open("fractal", "count=6 shape=4,6,8,1 noise=0", LK_TRAIN, &ds));
    lk_loader_options o = defaults();
    o.batch = 6;
    o.crop = 2;
    o.flip = true;
    lk_loader *l = loader_of(ds, &o);
    lk_batch b;
    ASSERT_OK(lk_loader_read_batch(l, 1, 0, 0, 6, &b));
    const float *x = lk_tensor_data(b.x); /* without noise, the value is the label */
    const int64_t *y = lk_tensor_data(b.y);
    int ones = 0;
    for (int i = 0; i < 6 * 4 * 6 * 8; i++) {
        ASSERT_TRUE(x[i] == (float)y[i]);
        ones += y[i] == 1;
    }
    ASSERT_TRUE(ones > 50);
    lk_loader_free(l);
    lk_dataset_free(ds);
}

TEST(normalisation_is_given_or_measured)
{
    lk_dataset *ds = image_set();
    lk_loader_options o = defaults();
    o.batch = COUNT;
    o.shuffle = false;
    o.dtype = LK_F64;
    o.normalise = LK_NORMALISE_STANDARD;
    lk_loader *l = loader_of(ds, &o);
    lk_batch b;
    ASSERT_OK(lk_loader_read_batch(l, 0, 0, 0, COUNT, &b));
    const double *x = lk_tensor_data(b.x);
    double sum[2] = {0}, square[2] = {0};
    for (int i = 0; i < COUNT * PIXELS; i++) {
        sum[i % 2] += x[i];
        square[i % 2] += x[i] * x[i];
    }
    for (int c = 0; c < 2; c++) {
        ASSERT_NEAR(sum[c], 0, 1e-9);
        ASSERT_NEAR(square[c] / (COUNT * PIXELS / 2), 1, 1e-12);
    }
    lk_loader_free(l);
    o.mean = (lk_option_reals){2, {0.5, 0.25}};
    o.std = (lk_option_reals){1, {0.125}};
    o.scale = 2;
    o.shift = 10;
    l = loader_of(ds, &o);
    ASSERT_OK(lk_loader_read_batch(l, 0, 0, 0, COUNT, &b));
    x = lk_tensor_data(b.x);
    double a = 2 * (1.0 / 255) / 0.125, b0 = 10 - 2 * 0.5 / 0.125, b1 = 10 - 2 * 0.25 / 0.125;
    ASSERT_TRUE(x[100] == 100 * a + b0 && x[101] == 101 * a + b1);
    lk_loader_free(l);
    o.normalise = LK_NORMALISE_UNIT;
    ASSERT_FAILS(lk_loader_new_options(ds, &o, 7, &l), LK_EINVAL, "need normalise: standard");
    o.normalise = LK_NORMALISE_STANDARD;
    o.mean.n = 3;
    ASSERT_FAILS(lk_loader_new_options(ds, &o, 7, &l), LK_EINVAL,
                 "3 numbers of mean for 2 channels");
    lk_dataset_free(ds);
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

/* Every dtype a file can have becomes f32 and f64. */
TEST(every_dtype_is_converted)
{
    for (int dtype = 0; dtype < LK_N_DTYPES; dtype++)
        for (int to = 0; to < 2; to++) {
            lk_tensor *t = test_iota((lk_dtype)dtype, LK_SHAPE(4, 3));
            lk_dataset_info info = {.name = "it", .n_fields = 1, .field = {{.name = "x"}}};
            lk_dataset *ds;
            ASSERT_OK(lk_dataset_from_tensors(&info, &t, &ds));
            lk_loader_options o = defaults();
            o.batch = 4;
            o.shuffle = false;
            o.normalise = LK_NORMALISE_NONE;
            o.scale = to + 1;
            o.dtype = to ? LK_F64 : LK_F32;
            lk_loader *l = loader_of(ds, &o);
            lk_batch b;
            ASSERT_OK(lk_loader_read_batch(l, 0, 0, 0, 4, &b));
            ASSERT_TRUE(!b.y);
            for (int64_t i = 0; i < 12; i++) {
                double v;
                ASSERT_OK(lk_tensor_get_f64(b.x, LK_AT(i / 3, i % 3), &v));
                ASSERT_TRUE(v == (double)(i * (to + 1)));
            }
            lk_loader_free(l);
            lk_dataset_free(ds);
            lk_tensor_free(t);
        }
}

TEST(labels_can_be_one_hot)
{
    lk_dataset *ds = image_set();
    lk_loader_options o = defaults();
    o.batch = 4;
    o.one_hot = true;
    o.shuffle = false;
    lk_loader *l = loader_of(ds, &o);
    lk_batch b;
    ASSERT_OK(lk_loader_read_batch(l, 0, 1, 1, 2, &b)); /* samples 5 and 6 */
    test_expect_text(b.y, "f32[2,5]");
    TEST_EXPECT(b.y, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0);
    ASSERT_EQ(lk_loader_field(l, 1).shape.dim[0], 5);
    lk_loader_free(l);
    lk_dataset_free(ds);
}

TEST(evaluation_is_in_order_with_the_same_normalisation)
{
    lk_dataset *ds = image_set(), *train, *test;
    ASSERT_OK(lk_dataset_split(ds, 1, 8, &train, &test));
    lk_loader_options o = defaults();
    o.batch = 5;
    o.crop = 2;
    o.flip = true;
    o.normalise = LK_NORMALISE_STANDARD;
    lk_loader *l = loader_of(train, &o), *eval, *same, *other;
    ASSERT_OK(lk_loader_new_like(l, test, &eval));
    ASSERT_OK(lk_loader_new_like(l, train, &same));
    ASSERT_OK(lk_loader_new_options(
        test,
        &(lk_loader_options){
            .batch = 5, .shards = 1, .scale = 1, .normalise = LK_NORMALISE_STANDARD},
        7, &other));
    lk_batch a, b, c;
    ASSERT_OK(lk_loader_read_batch(eval, 0, 1, 0, 3, &a));
    ASSERT_OK(lk_loader_read_batch(other, 0, 1, 0, 3, &b));
    ASSERT_EQ(a.index[0], 5);
    ASSERT_TRUE(!lk_tensor_is_equal(a.x, b.x)); /* measured over another set */
    ASSERT_OK(lk_loader_read_batch(eval, 3, 1, 0, 3, &c));
    ASSERT_TRUE(lk_tensor_is_equal(a.x, c.x));
    ASSERT_OK(lk_loader_read_batch(same, 0, 0, 0, 5, &b));
    ASSERT_EQ(b.index[4], 4);
    lk_tensor *t = test_iota(LK_F32, LK_SHAPE(4, 3));
    lk_dataset *wrong;
    lk_dataset_info info = {.name = "wrong", .n_fields = 1, .field = {{.name = "x"}}};
    ASSERT_OK(lk_dataset_from_tensors(&info, &t, &wrong));
    lk_loader *none;
    ASSERT_FAILS(lk_loader_new_like(l, wrong, &none), LK_ESHAPE,
                 "wrong: field 0 is not as in images");
    lk_tensor_free(t);
    lk_dataset_free(wrong);
    lk_loader_free(l);
    lk_loader_free(eval);
    lk_loader_free(same);
    lk_loader_free(other);
    lk_dataset_free(train);
    lk_dataset_free(test);
    lk_dataset_free(ds);
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

/* ---- errors ---- */

static _Atomic int broken;

static lk_status breaking_row(void *context, int64_t index, void *const *row)
{
    (void)context;
    LK_CHECK(!(atomic_load(&broken) && index >= 40), LK_EIO, "set.bin: offset %lld: gone",
             (long long)index);
    *(float *)row[0] = (float)index;
    return LK_OK;
}

TEST(errors_of_readers_are_returned_when_their_batch_is_due)
{
    lk_dataset *ds;
    lk_dataset_info info = {.name = "it", .count = 60, .n_fields = 1, .field = {{.name = "x"}}};
    ASSERT_OK(lk_dataset_new(&info, breaking_row, NULL, NULL, &ds));
    lk_loader_options o = defaults();
    o.batch = 10;
    o.shuffle = false;
    o.prefetch = 3;
    for (o.readers = 1; o.readers <= 5; o.readers++) {
        lk_loader *l = loader_of(ds, &o);
        lk_batch b;
        atomic_store(&broken, 1);
        for (int round = 0; round < 2; round++) {
            for (int64_t i = 0; i < 4; i++)
                ASSERT_OK(lk_loader_read_batch(l, 0, i, 0, 10, &b));
            ASSERT_FAILS(lk_loader_read_batch(l, 0, 4, 0, 10, &b), LK_EIO,
                         "set.bin: offset 40: gone");
            ASSERT_FAILS(lk_loader_read_batch(l, 0, 4, 0, 10, &b), LK_EIO, "offset 40");
        }
        atomic_store(&broken, 0);
        ASSERT_OK(lk_loader_read_batch(l, 0, 4, 0, 10, &b));
        ASSERT_TRUE(((const float *)lk_tensor_data(b.x))[9] == 49);
        lk_loader_free(l);
    }
    lk_dataset_free(ds);
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

TEST(wrong_options_and_requests_are_refused)
{
    lk_dataset *ds = image_set(), *flat;
    lk_loader *l;
    lk_loader_options o = defaults();
    o.batch = 0;
    ASSERT_FAILS(lk_loader_new_options(ds, &o, 1, &l), LK_EINVAL, "batches of 0 samples");
    o.batch = 4;
    o.dtype = LK_U8;
    ASSERT_FAILS(lk_loader_new_options(ds, &o, 1, &l), LK_EDTYPE, "batches of u8");
    o.dtype = LK_F32;
    lk_tensor *t = test_iota(LK_F32, LK_SHAPE(4, 3));
    lk_dataset_info info = {.name = "flat", .n_fields = 1, .field = {{.name = "x"}}};
    ASSERT_OK(lk_dataset_from_tensors(&info, &t, &flat));
    o.flip = true;
    ASSERT_FAILS(lk_loader_new_options(flat, &o, 1, &l), LK_EINVAL, "not for samples of [3]");
    o.flip = false;
    o.one_hot = true;
    ASSERT_FAILS(lk_loader_new_options(flat, &o, 1, &l), LK_EINVAL, "no classes");
    lk_dataset_free(flat);
    lk_tensor_free(t);
    l = loader_of(ds, &o);
    lk_batch b;
    ASSERT_FAILS(lk_loader_read_batch(l, 0, 6, 0, 1, &b), LK_EINVAL, "there are 6 batches");
    ASSERT_FAILS(lk_loader_read_batch(l, 0, 5, 2, 2, &b), LK_EINVAL,
                 "positions 2 to 3 of a batch of 3");
    ASSERT_FAILS(lk_loader_read_batch(l, -1, 0, 0, 1, &b), LK_EINVAL, "epoch -1");
    lk_loader_free(l);
    lk_dataset_free(ds);
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

/* A set and its loader: from texts, and from the structs that hold the same. */
TEST(texts_and_structs_give_the_same_batches)
{
    char format[] = "count=20 noise=0.5", text[] = "batch=7 crop=2 normalise=standard";
    lk_arena *arena;
    lk_config config;
    lk_loader_options options;
    lk_dataset *by_text, *by_config;
    lk_loader *a, *b;
    ASSERT_OK(lk_arena_new(&arena));
    ASSERT_OK(lk_config_parse(&lk_registry_format, "glyphs", format, arena, &config));
    ASSERT_OK(lk_dataset_open_config(&config, LK_TRAIN, &by_config));
    ASSERT_OK(lk_dataset_open("glyphs", format, LK_TRAIN, &by_text));
    ASSERT_OK(lk_options_parse(&lk_loader_descriptor, text, arena, &options));
    ASSERT_OK(lk_loader_new_options(by_config, &options, 3, &b));
    ASSERT_OK(lk_loader_new(by_text, text, 3, &a));
    memset(format, 'x', sizeof format - 1);
    memset(text, 'x', sizeof text - 1);
    ASSERT_EQ(lk_loader_batches(a), 3);
    for (int64_t i = 0; i < 3; i++) {
        lk_batch x, y;
        int64_t n = lk_loader_batch_size(a, i);
        ASSERT_OK(lk_loader_read_batch(a, 1, i, 0, n, &x));
        ASSERT_OK(lk_loader_read_batch(b, 1, i, 0, n, &y));
        ASSERT_SAME_BITS(lk_tensor_data(x.x), lk_tensor_data(y.x),
                         (size_t)lk_tensor_count(x.x) * sizeof(float));
    }
    lk_loader_free(a);
    lk_loader_free(b);
    lk_dataset_free(by_text);
    lk_dataset_free(by_config);
    lk_arena_free(arena);
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

TEST(wrong_texts_are_told_with_their_place)
{
    lk_dataset *ds = image_set(), *none;
    lk_loader *l;
    ASSERT_FAILS(lk_loader_new(ds, "batch=5 shrads=2", 1, &l), LK_EINVAL,
                 "options, column 9: loader has no option \"shrads\"; did you mean \"shards\"?");
    ASSERT_FAILS(lk_loader_new(ds, "batch=0", 1, &l), LK_EINVAL,
                 "options, column 7: loader: batch: \"0\" is out of range");
    ASSERT_FAILS(
        lk_loader_new(ds, "normalise=unti", 1, &l), LK_EINVAL,
        "options, column 11: loader: normalise: \"unti\" is none of auto none unit standard; "
        "did you mean \"unit\"?");
    ASSERT_FAILS(lk_loader_new(ds, "mean=1,2,3", 1, &l), LK_EINVAL, "need normalise: standard");
    ASSERT_TRUE(!l);
    ASSERT_FAILS(lk_dataset_open("glyhps", NULL, LK_TRAIN, &none), LK_EINVAL,
                 "unknown format \"glyhps\"; did you mean \"glyphs\"?");
    ASSERT_FAILS(lk_dataset_open("glyphs", "count=4 noise=loud", LK_TRAIN, &none), LK_EINVAL,
                 "options, column 15: format glyphs: noise: \"loud\" is not a number");
    ASSERT_FAILS(lk_dataset_open("csv", "path=\"no such/file (1).csv\"", LK_TRAIN, &none), LK_EIO,
                 "no such/file (1).csv: there is no such file");
    ASSERT_TRUE(!none);
    lk_dataset_free(ds);
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

static lk_status text_scenario(void)
{
    lk_dataset *ds = NULL;
    lk_loader *l = NULL;
    lk_status st;
    LK_TRY_TO(done, lk_dataset_open("glyphs", "count=20", LK_TRAIN, &ds));
    LK_TRY_TO(done, lk_loader_new(ds, "batch=7 prefetch=0", 3, &l));
done:
    lk_loader_free(l);
    lk_dataset_free(ds);
    return st;
}

/* A loader that is freed while its thread works, or before it began. */
TEST(a_loader_can_be_freed_at_any_time)
{
    lk_dataset *ds = image_set();
    lk_loader_options o = defaults();
    o.batch = 7;
    for (int i = 0; i < 50; i++) {
        lk_loader *l = loader_of(ds, &o);
        lk_batch b;
        for (int k = 0; k < i % 4; k++)
            ASSERT_OK(lk_loader_read_batch(l, k, 0, 0, 7, &b));
        lk_loader_free(l);
    }
    lk_dataset_free(ds);
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

static int scenario_prefetch, scenario_readers;

static lk_status epoch_scenario(void)
{
    unsigned char value[5 * 12] = {0};
    lk_tensor *x;
    lk_dataset *ds = NULL;
    lk_loader *l = NULL, *eval = NULL;
    lk_batch b;
    LK_TRY(lk_tensor_wrap(LK_U8, LK_SHAPE(5, 3, 4, 1), value, NULL, NULL, &x));
    lk_dataset_info info = {.name = "it", .n_fields = 1, .field = {{.name = "x"}}};
    lk_loader_options o = {.batch = 2,
                           .shards = 1,
                           .shuffle = true,
                           .scale = 1,
                           .crop = 1,
                           .normalise = LK_NORMALISE_STANDARD,
                           .prefetch = scenario_prefetch,
                           .readers = scenario_readers};
    lk_status st = LK_OK;
    LK_TRY_TO(done, lk_dataset_from_tensors(&info, &x, &ds));
    LK_TRY_TO(done, lk_loader_new_options(ds, &o, 1, &l));
    LK_TRY_TO(done, lk_loader_new_like(l, ds, &eval));
    for (int64_t i = 0; i < 3; i++)
        LK_TRY_TO(done, lk_loader_read_batch(l, 0, i, 0, lk_loader_batch_size(l, i), &b));
    LK_TRY_TO(done, lk_loader_read_batch(eval, 0, 0, 0, 1, &b));
done:
    lk_loader_free(l);
    lk_loader_free(eval);
    lk_dataset_free(ds);
    lk_tensor_free(x);
    return st;
}

TEST(failed_allocations_leave_nothing)
{
    ASSERT_TRUE(test_every_allocation_fails(epoch_scenario) >= 20);
    ASSERT_TRUE(test_every_allocation_fails(text_scenario) >= 8);
}

/* With threads it is not known whose allocation fails, only that nothing breaks or leaks. */
TEST(failed_allocations_of_readers_leave_nothing)
{
    scenario_prefetch = 2;
    for (int64_t n = 1; n < 160; n++) {
        scenario_readers = n < 80 ? 1 : 3;
        lk_alloc_fail_at(n % 80);
        lk_status st = epoch_scenario();
        lk_alloc_fail_at(0);
        ASSERT_TRUE(st == LK_OK || st == LK_ENOMEM);
        lk_error_clear();
        ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
    }
}
