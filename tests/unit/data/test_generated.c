/* Generated sets: pure functions of (seed, set, index), with known hashes, and learnable. */
#include "data/dataset.h"
#include "data_files.h"
#include "faults.h"

#include <lockstep/log.h>

static uint64_t hash_of(const char *format, const char *options, lk_split split)
{
    lk_dataset *ds;
    uint64_t hash;
    ASSERT_OK(lk_dataset_open(format, options, split, &ds));
    ASSERT_TRUE(ds);
    ASSERT_OK(lk_dataset_hash(ds, &hash));
    lk_dataset_free(ds);
    return hash;
}

static void expect_hash(const char *format, const char *options, const char *want)
{
    char text[LK_HASH_TEXT];
    lk_hash_text(hash_of(format, options, LK_TRAIN), text);
    if (strcmp(text, want) != 0)
        TEST_FAIL("%s %s has the hash %s, not %s", format, options, text, want);
}

TEST(the_bytes_are_known)
{
    expect_hash("glyphs", "count=300", "32536d5494641922");
    expect_hash("glyphs", "count=100 shape=32,32,3", "ec6e2cf020a42781");
    expect_hash("shapes", "count=300", "136cf4e230254ed0");
    expect_hash("fractal", "count=2 shape=16,16,12,1 classes=3", "e515f79da56c79b6");
    expect_hash("fractal", "count=2 shape=16,12,1 classes=3", "2a13216287baf6c4");
}

TEST(seed_and_set_decide_the_samples_and_the_count_does_not)
{
    uint64_t train = hash_of("glyphs", "count=50 test_count=50", LK_TRAIN);
    ASSERT_TRUE(train != hash_of("glyphs", "count=50 test_count=50", LK_TEST));
    ASSERT_TRUE(train != hash_of("glyphs", "count=50 seed=2", LK_TRAIN));
    lk_dataset *few, *many;
    ASSERT_OK(lk_dataset_open("glyphs", "count=50", LK_TRAIN, &few));
    ASSERT_OK(lk_dataset_open("glyphs", "count=80", LK_TRAIN, &many));
    unsigned char a[784], b[784];
    test_sample(few, "x", 49, a);
    test_sample(many, "x", 49, b);
    ASSERT_SAME_BITS(a, b, 784);
    ASSERT_EQ(test_label(few, 49), test_label(many, 49));
    lk_dataset_free(few);
    lk_dataset_free(many);
    ASSERT_OK(lk_dataset_open("glyphs", NULL, LK_VALIDATION, &few));
    ASSERT_TRUE(!few);
}

/* Sets too large to keep are made as they are read; the samples are the same. */
TEST(large_sets_are_not_kept)
{
    lk_dataset *large, *small;
    int64_t before = lk_alloc_stats_now().live_bytes;
    ASSERT_OK(lk_dataset_open("fractal", "count=100000 shape=16,16,16,1", LK_TRAIN, &large));
    ASSERT_TRUE(lk_alloc_stats_now().live_bytes - before < 1 << 16);
    ASSERT_OK(lk_dataset_open("fractal", "count=3 shape=16,16,16,1", LK_TRAIN, &small));
    static float a[4096], b[4096];
    static int64_t y[4096], z[4096];
    test_sample(large, "x", 2, a);
    test_sample(small, "x", 2, b);
    ASSERT_SAME_BITS(a, b, sizeof a);
    test_sample(large, "y", 2, y);
    test_sample(small, "y", 2, z);
    ASSERT_SAME_BITS(y, z, sizeof y);
    lk_dataset_free(large);
    lk_dataset_free(small);
}

TEST(every_class_is_there_about_equally_often)
{
    lk_dataset *ds;
    int seen[10] = {0};
    ASSERT_OK(lk_dataset_open("glyphs", "count=5000", LK_TRAIN, &ds));
    for (int64_t i = 0; i < 5000; i++)
        seen[test_label(ds, i)]++;
    for (int c = 0; c < 10; c++)
        ASSERT_TRUE(seen[c] > 400 && seen[c] < 600);
    lk_dataset_free(ds);
}

/* Of rows of 16 voxels. */
static void expect_regions(const char *options)
{
    lk_dataset *ds;
    ASSERT_OK(lk_dataset_open("fractal", options, LK_TRAIN, &ds));
    static int64_t y[4096];
    int ones = 0, same = 0, pairs = 0;
    for (int64_t i = 0; i < 4; i++) {
        test_sample(ds, "y", i, y);
        for (int k = 0; k < 4096; k++) {
            ones += y[k] == 1;
            pairs += k % 16 != 15;
            same += k % 16 != 15 && y[k] == y[k + 1];
        }
    }
    ASSERT_TRUE(ones > 4096 && ones < 3 * 4096);
    ASSERT_TRUE(same > pairs * 8 / 10);
    lk_dataset_free(ds);
}

/* Voxels of both classes, in connected regions: a neighbour mostly has the same label. */
TEST(fractal_labels_are_regions)
{
    static const char *const options[] = {"count=4 shape=16,16,16,1", "count=4 shape=256,16,1"};
    for (int i = 0; i < 2; i++)
        expect_regions(options[i]);
}

/* Of a volume that is as thick, so that its lattices are the same. */
TEST(fractal_images_are_the_first_planes_of_volumes)
{
    lk_dataset *images, *volumes;
    float x[192], plane[3072];
    int64_t y[192], labels[3072];
    ASSERT_OK(lk_dataset_open("fractal", "count=3 classes=4 shape=16,12,1", LK_TRAIN, &images));
    ASSERT_OK(lk_dataset_open("fractal", "count=3 classes=4 shape=16,16,12,1", LK_TRAIN, &volumes));
    for (int64_t i = 0; i < 3; i++) {
        test_sample(images, "x", i, x);
        test_sample(volumes, "x", i, plane);
        ASSERT_SAME_BITS(x, plane, sizeof x);
        test_sample(images, "y", i, y);
        test_sample(volumes, "y", i, labels);
        ASSERT_SAME_BITS(y, labels, sizeof y);
    }
    lk_dataset_free(images);
    lk_dataset_free(volumes);
}

/* A rule that needs no learning must not do: the nearest mean image of each class. */
TEST(the_nearest_mean_does_not_tell_the_glyphs)
{
    lk_dataset *ds;
    static double mean[10][784];
    static unsigned char x[784];
    int n[10] = {0}, right = 0;
    ASSERT_OK(lk_dataset_open("glyphs", "count=4000", LK_TRAIN, &ds));
    for (int64_t i = 0; i < 3000; i++) {
        test_sample(ds, "x", i, x);
        int64_t c = test_label(ds, i);
        n[c]++;
        for (int k = 0; k < 784; k++)
            mean[c][k] += x[k];
    }
    for (int64_t i = 3000; i < 4000; i++) {
        double best = (double)INFINITY;
        int64_t pick = 0;
        test_sample(ds, "x", i, x);
        for (int c = 0; c < 10; c++) {
            double d = 0;
            for (int k = 0; k < 784; k++)
                d += (x[k] - mean[c][k] / n[c]) * (x[k] - mean[c][k] / n[c]);
            if (d < best) {
                best = d;
                pick = c;
            }
        }
        right += pick == test_label(ds, i);
    }
    ASSERT_TRUE(right > 150 && right < 700); /* more than by chance, far from learned */
    lk_dataset_free(ds);
}

TEST(wrong_shapes_are_refused)
{
    lk_dataset *ds;
    ASSERT_FAILS(lk_dataset_open("glyphs", "shape=28,28", LK_TRAIN, &ds), LK_EINVAL,
                 "rows,columns");
    ASSERT_FAILS(lk_dataset_open("glyphs", "shape=65,28,1", LK_TRAIN, &ds), LK_EINVAL, "8 to 64");
    ASSERT_FAILS(lk_dataset_open("shapes", "shape=28,28,5", LK_TRAIN, &ds), LK_EINVAL, "1 to 4");
    ASSERT_FAILS(lk_dataset_open("fractal", "shape=28,28,28", LK_TRAIN, &ds), LK_EINVAL, "planes");
    ASSERT_FAILS(lk_dataset_open("fractal", "shape=28,1", LK_TRAIN, &ds), LK_EINVAL,
                 "rows,columns,1");
    ASSERT_FAILS(lk_dataset_open("fractal", "shape=28,3,1", LK_TRAIN, &ds), LK_EINVAL,
                 "at least 4");
}

static lk_status open_scenario(void)
{
    lk_dataset *ds;
    lk_status st = lk_dataset_open("shapes", "count=5", LK_TRAIN, &ds);
    lk_dataset_free(ds);
    return st;
}

TEST(failed_allocations_leave_nothing)
{
    ASSERT_TRUE(test_every_allocation_fails(open_scenario) >= 8);
}

/* ---- sets that are looked for ---- */

static char said[256];

static void listen(void *context, lk_log_level level, const char *line)
{
    (void)context, (void)level;
    snprintf(said, sizeof said, "%s", line);
}

TEST(without_files_mnist_and_cifar10_are_glyphs_with_a_message)
{
    lk_dataset *ds;
    ASSERT_EQ(setenv("LK_DATASETS", test_path("none"), 1), 0);
    lk_log_set_sink(listen, NULL);
    ASSERT_OK(lk_dataset_open("mnist", NULL, LK_TEST, &ds));
    ASSERT_TRUE(said[0] == '\0'); /* once is enough */
    ASSERT_EQ(lk_dataset_info_of(ds)->count, 10000);
    lk_dataset_free(ds);
    ASSERT_OK(lk_dataset_open("cifar10", NULL, LK_TRAIN, &ds));
    ASSERT_TRUE(strstr(said, "cifar10: no path is given") && strstr(said, "generated glyphs"));
    ASSERT_EQ(lk_dataset_info_of(ds)->count, 50000);
    ASSERT_TRUE(lk_shape_is_equal(lk_dataset_info_of(ds)->field[0].shape, LK_SHAPE(32, 32, 3)));
    lk_dataset_free(ds);
    lk_log_set_sink(NULL, NULL);
    ASSERT_FAILS(lk_dataset_open("idx", NULL, LK_TRAIN, &ds), LK_EIO,
                 "install dataset-fashion-mnist");
    ASSERT_FAILS(lk_dataset_open("mnist", "path=/nowhere", LK_TRAIN, &ds), LK_EIO, "/nowhere");
}

TEST(installed_sets_are_found)
{
    static const unsigned char images[] = {0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 9};
    static const unsigned char labels[] = {0, 0, 8, 1, 0, 0, 0, 1, 7};
    ASSERT_EQ(mkdir(test_path("fashion-mnist"), 0777), 0);
    test_write("fashion-mnist/train-images-idx3-ubyte", images, sizeof images);
    test_write("fashion-mnist/train-labels-idx1-ubyte", labels, sizeof labels);
    ASSERT_EQ(setenv("LK_DATASETS", test_folder(), 1), 0);
    const char *formats[] = {"mnist", "idx"};
    for (int i = 0; i < 2; i++) {
        lk_dataset *ds;
        ASSERT_OK(lk_dataset_open(formats[i], NULL, LK_TRAIN, &ds));
        ASSERT_EQ(test_label(ds, 0), 7);
        ASSERT_EQ(lk_dataset_info_of(ds)->classes, i == 0 ? 10 : 8);
        lk_dataset_free(ds);
    }
    ASSERT_EQ(unsetenv("LK_DATASETS"), 0);
}
