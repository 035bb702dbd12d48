/* Values of samples with few and many channels: times a, plus b of their channel, whole and by boxes. */
#include "data_files.h"
#include "tensors.h"

#include <math.h>

/* 5 samples of 7 positions, so that channels fill no vectors evenly. */
enum { COUNT = 5, POSITIONS = 7, MOST = 1100 };

static unsigned char value[COUNT][POSITIONS][MOST];

static lk_dataset *set_of(int channels)
{
    lk_tensor *x;
    lk_dataset *ds;
    void *data;
    unsigned char *to;
    ASSERT_OK(lk_tensor_new(LK_U8, LK_SHAPE(COUNT, POSITIONS, channels), &x));
    ASSERT_OK(lk_tensor_writable_data(x, &data));
    to = data;
    for (int s = 0; s < COUNT; s++)
        for (int p = 0; p < POSITIONS; p++)
            for (int c = 0; c < channels; c++)
                *to++ = value[s][p][c] = (unsigned char)((s * 37 + p * 101 + c * c * 13 + c) % 256);
    lk_dataset_info info = {.name = "it", .n_fields = 1, .field = {{.name = "x"}}};
    ASSERT_OK(lk_dataset_from_tensors(&info, &x, &ds));
    lk_tensor_free(x);
    return ds;
}

/* Factor and summand of a channel as the header of data.h has them, of means and deviations that are
 * measured. */
static void factors(int c, float *a, float *b)
{
    double mean = 0, dev = 0, unit = 1.0 / 255;
    for (int s = 0; s < COUNT; s++) {
        double sum = 0;
        for (int p = 0; p < POSITIONS; p++)
            sum += value[s][p][c];
        mean += sum;
    }
    mean /= COUNT * POSITIONS;
    for (int s = 0; s < COUNT; s++) {
        double sum = 0;
        for (int p = 0; p < POSITIONS; p++)
            sum += (value[s][p][c] - mean) * (value[s][p][c] - mean);
        dev += sum;
    }
    dev = sqrt(dev / (COUNT * POSITIONS));
    dev = dev == 0 ? 1 : dev;
    *a = (float)(2 * unit / (dev * unit));
    *b = (float)(0.5 - 2 * (mean * unit) / (dev * unit));
}

/* A batch is all samples in order, of channels [first, first + n). */
static void check(lk_loader *l, int first, int n)
{
    static float want[COUNT * POSITIONS * MOST];
    lk_batch batch;
    for (int c = 0; c < n; c++) {
        float a, b;
        factors(first + c, &a, &b);
        for (int s = 0; s < COUNT; s++)
            for (int p = 0; p < POSITIONS; p++) {
                float product = (float)value[s][p][first + c] * a;
                want[(s * POSITIONS + p) * n + c] = product + b;
            }
    }
    ASSERT_OK(lk_loader_read_batch(l, 0, 0, 0, COUNT, &batch));
    size_t bytes = (size_t)(COUNT * POSITIONS * n) * sizeof want[0];
    ASSERT_EQ(lk_tensor_count(batch.x), COUNT * POSITIONS * n);
    ASSERT_TRUE(memcmp(lk_tensor_data(batch.x), (const void *)want, bytes) == 0);
}

TEST(each_channel_has_its_factor_and_summand)
{
    static const int channels[] = {1, 2, 3, 7, 64, 65, 255, 511, 512, 513, MOST};
    for (int i = 0; i < (int)(sizeof channels / sizeof channels[0]); i++) {
        int n = channels[i], some = n / 2 + 1;
        lk_dataset *ds = set_of(n);
        lk_loader *l, *eval;
        ASSERT_OK(lk_loader_new(
            ds, "batch=5 shards=1 shuffle=false normalise=standard scale=2 shift=0.5", 1, &l));
        ASSERT_OK(lk_loader_new_like(l, ds, &eval));
        lk_box part = {2, {0, n - some}, {POSITIONS, some}}, none = {2, {0, 0}, {POSITIONS, 0}};
        check(l, 0, n);
        check(eval, 0, n);
        ASSERT_OK(lk_loader_set_box(l, 0, &part));
        check(l, n - some, some);
        ASSERT_OK(lk_loader_set_box(l, 0, &none));
        check(l, 0, 0);
        ASSERT_OK(lk_loader_set_box(l, 0, NULL));
        check(l, 0, n);
        lk_loader_free(l);
        lk_loader_free(eval);
        lk_dataset_free(ds);
        ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
    }
}
