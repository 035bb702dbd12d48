/* Streams: sets that are read in order, and the shuffle buffer. */
#include "data/packed/inflate.h"
#include "faults.h"
#include "record_sets.h"
#include "tensors.h"

#include <lockstep/log.h>
#include <lockstep/rng.h>

#include <unistd.h>

enum { COUNT = 57, VALUES = 30, BATCH = 7, SEED = 5 };

static lk_status made_row(void *context, int64_t index, void *const *row)
{
    (void)context;
    for (int i = 0; row[0] && i < VALUES; i++)
        ((float *)row[0])[i] = (float)(index * 100 + i);
    if (row[1])
        *(int64_t *)row[1] = index % 9;
    return LK_OK;
}

static const lk_dataset_info made = {
    .name = "made",
    .count = COUNT,
    .classes = 9,
    .n_fields = 2,
    .field = {{"x", LK_F32, LK_DIMS(5, 6, 1)}, {.name = "y", .dtype = LK_I64}}};

/* The set in `files` files NAME-0000?-of-0000N.tfrecord[.gz]. */
static void write_set(const char *name, int files, bool gzip)
{
    lk_dataset *ds;
    char options[60];
    snprintf(options, sizeof options, "files=%d gzip=%s", files, gzip ? "true" : "false");
    ASSERT_OK(lk_dataset_new(&made, made_row, NULL, NULL, &ds));
    ASSERT_OK(lk_dataset_write_as(ds, "tfrecord", options, LK_TRAIN, test_path(name)));
    lk_dataset_free(ds);
}

LK_PRINTF(2, 3) static lk_loader *loader_of(lk_dataset *ds, const char *format, ...)
{
    char options[300];
    lk_loader *l;
    va_list args;
    va_start(args, format);
    vsnprintf(options, sizeof options, format, args);
    va_end(args);
    ASSERT_OK(lk_loader_new(ds, options, SEED, &l));
    return l;
}

/* The order of an epoch as docs/reference/data.md has it, of files that begin with these samples. */
static void order_of(int64_t epoch, int64_t count, const int64_t *first, int64_t files,
                     int64_t size, int64_t *out)
{
    int64_t file[8], read[COUNT], n = 0, begin = 0, number = 0, each;
    size = size < count ? size : count;
    ASSERT_OK(lk_rng_permute(lk_rng_start(SEED, "data", "files"), epoch, files, 0, files, file));
    for (int64_t i = 0; i < files; i++) {
        int64_t end = file[i] + 1 < files ? first[file[i] + 1] : count;
        for (int64_t s = first[file[i]]; s < end; s++)
            read[n++] = s;
    }
    ASSERT_EQ(n, count);
    ASSERT_OK(lk_rng_below(lk_rng_start(SEED, "data", "buffer"), (lk_rng_at){epoch, 0, 0}, size, 1,
                           &each));
    each = size == count ? count : each + 1;
    for (; begin < count; begin += each, each = size, number++) {
        int64_t place[COUNT], many = (count + size - 1) / size + 1;
        int64_t here = count - begin < each ? count - begin : each;
        ASSERT_OK(lk_rng_permute(lk_rng_start(SEED, "data", "shuffle"), epoch * many + number, here,
                                 0, here, place));
        for (int64_t i = 0; i < here; i++)
            out[begin + i] = read[begin + place[i]];
    }
}

/* All batches of an epoch have these samples, and their values. */
static void expect_epoch(lk_loader *l, int64_t epoch, const int64_t *order, int64_t count)
{
    for (int64_t b = 0; b < lk_loader_batches(l); b++) {
        lk_batch batch;
        int64_t n = lk_loader_batch_size(l, b);
        ASSERT_OK(lk_loader_read_batch(l, epoch, b, 0, n, &batch));
        for (int64_t i = 0; i < n; i++) {
            int64_t sample = order[b * BATCH + i];
            ASSERT_EQ(batch.index[i], sample);
            ASSERT_EQ(((const int64_t *)lk_tensor_data(batch.y))[i], sample % 9);
            for (int k = 0; k < VALUES; k++)
                ASSERT_TRUE(((const float *)lk_tensor_data(batch.x))[i * VALUES + k] ==
                            (float)(sample * 100 + k));
        }
    }
    ASSERT_EQ((count - 1) / BATCH + 1, lk_loader_batches(l));
}

/* The files of lk_range_split(COUNT, k, 4). */
static const int64_t firsts[] = {0, 14, 28, 42};

TEST(the_order_is_a_function_of_seed_epoch_and_position)
{
    static const int64_t sizes[] = {1, 5, 7, 20, 56, 57, 1000};
    write_set("plain.tfrecord", 4, false);
    lk_dataset *ds = records_open("path=%s stream=true", test_path("plain-*"));
    ASSERT_TRUE(lk_dataset_info_of(ds)->stream);
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        lk_loader *l = loader_of(ds, "batch=%d shuffle_buffer=%d normalise=none", BATCH,
                                 (int)sizes[s]);
        for (int64_t epoch = 0; epoch < 4; epoch++) {
            int64_t order[COUNT], seen = 0;
            order_of(epoch, COUNT, firsts, 4, sizes[s], order);
            expect_epoch(l, epoch, order, COUNT);
            for (int i = 0; i < COUNT; i++)
                seen |= INT64_C(1) << order[i];
            ASSERT_EQ(seen, (INT64_C(1) << COUNT) - 1);
        }
        lk_loader_free(l);
    }
    /* a size that is not given holds all of so small a set */
    int64_t order[COUNT];
    order_of(2, COUNT, firsts, 4, COUNT, order);
    lk_loader *l = loader_of(ds, "batch=%d normalise=none", BATCH);
    expect_epoch(l, 2, order, COUNT);
    lk_loader_free(l);
    lk_dataset_free(ds);
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

/* Whoever asks, for whichever part, in any order, with any number of readers: the rows of the whole. */
TEST(parts_readers_and_packing_do_not_matter)
{
    write_set("zipped.tfrecord", 4, lk__inflate_built());
    lk_dataset *ds[3] = {records_open("path=%s stream=true", test_path("plain-*")),
                         records_open("path=%s stream=true", test_path("zipped-*")),
                         records_open("path=%s", test_path("plain-*"))};
    lk_loader *plain = loader_of(ds[0], "batch=7 shuffle_buffer=10 crop=1 flip=true prefetch=0");
    for (int i = 0; i < 36; i++) {
        lk_loader *l = loader_of(
            ds[i % 3], "batch=7 shuffle_buffer=10 crop=1 flip=true prefetch=%d readers=%d",
            i / 3 % 4, i / 12 + 1);
        int64_t part = i % 2 ? test_random(7) : 0, length = i % 2 ? 1 + test_random(7 - part) : 7;
        for (int trial = 0; trial < 40; trial++) {
            bool jump = trial % 13 == 12; /* as a resumed run does */
            int64_t at = jump ? test_random(27) : trial, epoch = at / 9, number = at % 9;
            int64_t size = lk_loader_batch_size(l, number);
            int64_t first = part < size ? part : size;
            int64_t n = length < size - first ? length : size - first;
            lk_batch whole, some;
            lk_tensor *rows;
            ASSERT_OK(lk_loader_read_batch(l, epoch, number, first, n, &some));
            ASSERT_OK(lk_loader_read_batch(plain, epoch, number, 0, size, &whole));
            ASSERT_SAME_BITS(some.index, whole.index + first, (size_t)n * sizeof *some.index);
            for (int f = 0; f < 2; f++) {
                ASSERT_OK(lk_tensor_slice(whole.field[f], 0, first, first + n, 1, &rows));
                ASSERT_TRUE(lk_tensor_is_equal(rows, some.field[f]));
                lk_tensor_free(rows);
            }
        }
        lk_loader_free(l);
    }
    lk_loader_free(plain);
    for (int i = 0; i < 3; i++)
        lk_dataset_free(ds[i]);
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

/* A shuffle buffer is no matter of records: sets in memory are read so, too. */
/* Requests in any order, of any parts: shorter ones, such as those of the last batch, before longer ones. */
TEST(any_part_can_be_asked_for)
{
    static const char *const options[] = {"prefetch=0", "readers=1", "readers=3 prefetch=4"};
    int64_t order[2][COUNT], r[4];
    lk_dataset *ds = records_open("path=%s stream=true", test_path("plain-*"));
    for (int e = 0; e < 2; e++)
        order_of(e, COUNT, firsts, 4, 20, order[e]);
    for (int o = 0; o < 3; o++) {
        lk_loader *l = loader_of(ds, "batch=%d shuffle_buffer=20 normalise=none %s", BATCH,
                                 options[o]);
        for (int64_t i = 0; i < 400; i++) {
            lk_batch batch;
            ASSERT_OK(lk_rng_below(lk_rng_start(SEED, "test", "parts"), (lk_rng_at){o, i, 0},
                                   INT64_C(1) << 30, 4, r));
            int64_t epoch = r[0] % 2, last = lk_loader_batches(l) - 1;
            int64_t b = i % 3 == 0 ? last : r[1] % last, size = lk_loader_batch_size(l, b);
            int64_t from = r[2] % size, n = i % 2 == 0 ? size - from : 1 + r[3] % (size - from);
            ASSERT_OK(lk_loader_read_batch(l, epoch, b, from, n, &batch));
            for (int64_t j = 0; j < n; j++) {
                int64_t sample = order[epoch][b * BATCH + from + j];
                ASSERT_EQ(batch.index[j], sample);
                ASSERT_EQ(((const int64_t *)lk_tensor_data(batch.y))[j], sample % 9);
                ASSERT_TRUE(((const float *)lk_tensor_data(batch.x))[j * VALUES] ==
                            (float)(sample * 100));
            }
        }
        lk_loader_free(l);
    }
    lk_dataset_free(ds);
}

TEST(every_set_can_be_shuffled_in_a_buffer)
{
    static const int64_t one[] = {0};
    lk_dataset *ds;
    int64_t order[COUNT];
    ASSERT_OK(lk_dataset_new(&made, made_row, NULL, NULL, &ds));
    lk_loader *l = loader_of(ds, "batch=%d shuffle_buffer=16 normalise=none readers=2", BATCH);
    for (int64_t epoch = 0; epoch < 3; epoch++) {
        order_of(epoch, COUNT, one, 1, 16, order);
        expect_epoch(l, epoch, order, COUNT);
    }
    lk_loader_free(l);
    l = loader_of(ds, "batch=%d shuffle_buffer=16 shuffle=false normalise=none", BATCH);
    for (int64_t i = 0; i < COUNT; i++)
        order[i] = i;
    expect_epoch(l, 1, order, COUNT);
    lk_loader_free(l);
    lk_dataset_free(ds);
}

TEST(evaluation_and_hashes_go_in_order)
{
    int64_t order[COUNT];
    uint64_t want, hash;
    lk_dataset *ds = records_open("path=%s stream=true", test_path("zipped-*")), *whole;
    ASSERT_OK(lk_dataset_new(&made, made_row, NULL, NULL, &whole));
    ASSERT_OK(lk_dataset_hash(whole, &want));
    ASSERT_OK(lk_dataset_hash(ds, &hash));
    ASSERT_EQ(hash, want);
    for (int64_t i = 0; i < COUNT; i++)
        order[i] = i;
    lk_loader *train = loader_of(ds, "batch=%d normalise=none readers=2", BATCH), *eval;
    ASSERT_OK(lk_loader_new_like(train, ds, &eval));
    for (int64_t epoch = 0; epoch < 2; epoch++) {
        lk_batch b; /* in turn, from one set */
        ASSERT_OK(lk_loader_read_batch(train, epoch, 3, 0, 7, &b));
        expect_epoch(eval, epoch, order, COUNT);
    }
    lk_loader_free(eval);
    lk_loader_free(train);
    /* any sample can be had, only not soon */
    for (int64_t i = COUNT - 1; i >= 0; i -= 11)
        ASSERT_EQ(test_label(ds, i), i % 9);
    lk_dataset_free(ds);
    lk_dataset_free(whole);
}

/* What is kept of a stream are its last samples, and a choice its first. */
TEST(parts_of_a_stream_are_streams)
{
    lk_dataset *ds = records_open("path=%s stream=true", test_path("zipped-*")), *train, *kept,
               *few;
    int64_t order[COUNT];
    static const int64_t of_kept[] = {0, 5};
    ASSERT_OK(lk_dataset_split(ds, SEED, 20, &train, &kept));
    ASSERT_TRUE(lk_dataset_info_of(kept)->stream);
    for (int64_t i = 0; i < 20; i++)
        ASSERT_EQ(test_label(kept, i), (37 + i) % 9);
    lk_loader *l = loader_of(kept, "batch=%d shuffle_buffer=6 normalise=none", BATCH);
    order_of(1, 20, of_kept, 2, 6, order); /* the files begin with samples 28 and 42 */
    for (int64_t b = 0; b < 3; b++) {
        lk_batch batch;
        ASSERT_OK(lk_loader_read_batch(l, 1, b, 0, lk_loader_batch_size(l, b), &batch));
        for (int64_t i = 0; i < batch.n; i++) {
            ASSERT_EQ(batch.index[i], order[b * BATCH + i]);
            ASSERT_EQ(((const int64_t *)lk_tensor_data(batch.y))[i], (37 + batch.index[i]) % 9);
        }
    }
    lk_loader_free(l);
    l = loader_of(train, "batch=%d shuffle_buffer=6 normalise=none", BATCH);
    order_of(1, 37, firsts, 3, 6, order);
    expect_epoch(l, 1, order, 37);
    lk_loader_free(l);
    ASSERT_OK(lk_dataset_sample(ds, SEED, 3, &few));
    for (int64_t i = 0; i < 3; i++)
        ASSERT_EQ(test_label(few, i), i);
    lk_dataset_free(few);
    lk_dataset_free(train);
    lk_dataset_free(kept);
    lk_dataset_free(ds);
}

/* Going on in the middle of an epoch reads one file up to the buffer, and no file before it. */
TEST(going_on_reads_from_the_beginning_of_one_file)
{
    int64_t file[4], order[COUNT];
    lk_batch b;
    write_set("later.tfrecord", 4, lk__inflate_built());
    lk_dataset *ds = records_open("path=%s stream=true classes=9", test_path("later-*"));
    ASSERT_OK(lk_rng_permute(lk_rng_start(SEED, "data", "files"), 3, 4, 0, 4, file));
    for (int i = 0; i < 2; i++) { /* the first two of epoch 3 are nowhere now */
        char name[100];
        snprintf(name, sizeof name, "later-0000%d-of-00004.tfrecord%s", (int)file[i],
                 lk__inflate_built() ? ".gz" : "");
        ASSERT_EQ(truncate(test_path(name), 0), 0);
    }
    lk_loader *l = loader_of(ds, "batch=7 shuffle_buffer=5 normalise=none prefetch=0");
    order_of(3, COUNT, firsts, 4, 5, order);
    for (int64_t number = 6; number < 9; number++) {
        ASSERT_OK(lk_loader_read_batch(l, 3, number, 0, lk_loader_batch_size(l, number), &b));
        ASSERT_SAME_BITS(b.index, order + number * 7, (size_t)b.n * sizeof *b.index);
    }
    ASSERT_FAILS(lk_loader_read_batch(l, 3, 0, 0, 7, &b), LK_EIO, "later-0000");
    ASSERT_OK(lk_loader_read_batch(l, 3, 8, 0, 1, &b)); /* and nothing is broken by it */
    lk_loader_free(l);
    lk_dataset_free(ds);
}

TEST(damaged_records_are_left_out_of_streams)
{
    size_t n;
    uint64_t hash[2];
    lk_log_set_level(LK_LOG_ERROR);
    write_set("holes.tfrecord", 1, false);
    unsigned char *bytes = test_read(test_path("holes.tfrecord"), &n);
    size_t each = n / COUNT;
    bytes[5 * each + 40] ^= 1;       /* data */
    bytes[5 * each + each + 2] ^= 1; /* a length behind it */
    bytes[30 * each + 40] ^= 1;
    test_write("holes.tfrecord", bytes, n);
    for (int stream = 0; stream < 2; stream++) {
        lk_dataset *ds = records_open("path=%s damaged=skip stream=%s", test_path("holes.tfrecord"),
                                      stream ? "true" : "false");
        const lk_dataset_info *info = lk_dataset_info_of(ds);
        ASSERT_TRUE(info->count == COUNT - 3 && info->skipped == 2 && info->gaps == 1);
        ASSERT_OK(lk_dataset_hash(ds, &hash[stream]));
        ASSERT_EQ(test_label(ds, 5), 7);
        ASSERT_EQ(test_label(ds, 28), 31 % 9);
        ASSERT_EQ(test_label(ds, 27), 29 % 9);
        lk_dataset_free(ds);
    }
    ASSERT_EQ(hash[0], hash[1]);
    /* one that is damaged later is none of them */
    test_write("now", bytes, n);
    lk_dataset *ds = records_open("path=%s damaged=skip stream=true", test_path("now"));
    ASSERT_EQ(test_label(ds, 20), 22 % 9); /* and what was read is behind it */
    FILE *f = fopen(test_path("now"), "r+b");
    int other = bytes[10 * each + 40] ^ 1;
    ASSERT_TRUE(f && fseek(f, (long)(10 * each + 40), SEEK_SET) == 0 && putc(other, f) == other);
    ASSERT_EQ(fclose(f), 0);
    int64_t index = 8, y;
    lk_tensor *t[2] = {NULL, NULL};
    ASSERT_OK(lk_tensor_wrap(LK_I64, LK_SHAPE(1), &y, NULL, NULL, &t[1]));
    ASSERT_FAILS(lk_dataset_read(ds, &index, 1, t), LK_EIO, "now: record 10, offset ");
    index = 7;
    ASSERT_OK(lk_dataset_read(ds, &index, 1, t));
    ASSERT_EQ(y, 0);
    lk_tensor_free(t[1]);
    lk_dataset_free(ds);
    char options[300];
    snprintf(options, sizeof options, "path=%s stream=true", test_path("now"));
    ASSERT_FAILS(lk_dataset_open("tfrecord", options, LK_TRAIN, &ds), LK_EIO,
                 "now: record 5, offset ");
    free(bytes);
}

/* A rank that has a quarter of each batch keeps a quarter of a buffer. */
static lk_status wide_row(void *context, int64_t index, void *const *row)
{
    (void)context;
    memset(row[0], (int)index, 1 << 16);
    return LK_OK;
}

TEST(a_part_is_all_that_is_kept)
{
    lk_dataset_info info = {.name = "wide", .count = 256, .n_fields = 1};
    lk_dataset *ds;
    lk_batch b;
    info.field[0] = (lk_field){"x", LK_U8, LK_SHAPE(1 << 16, 1)};
    ASSERT_OK(lk_dataset_new(&info, wide_row, NULL, NULL, &ds));
    lk_loader *l = loader_of(ds, "batch=16 shuffle_buffer=64 prefetch=1");
    for (int64_t number = 0; number < 16; number++)
        ASSERT_OK(lk_loader_read_batch(l, 0, number, 4, 4, &b));
    /* two buffers of 64, a quarter each; two slots of four as f32 */
    ASSERT_TRUE(lk_alloc_stats_now().live_bytes < (2 * 16 + 2 * 4 * 4 + 4) << 16);
    lk_loader_free(l);
    lk_dataset_free(ds);
}

TEST(a_cache_keeps_the_order)
{
    int64_t order[COUNT];
    lk_dataset *ds = records_open("path=%s stream=true", test_path("zipped-*"));
    order_of(1, COUNT, firsts, 4, 9, order);
    for (int again = 0; again < 2; again++) {
        lk_loader *l = loader_of(ds, "batch=%d shuffle_buffer=9 normalise=none readers=2 cache=%s",
                                 BATCH, test_path("cache"));
        expect_epoch(l, 1, order, COUNT);
        lk_loader_free(l);
    }
    lk_dataset_free(ds);
}

static int scenario_readers;

static lk_status read_stream(void)
{
    char options[400];
    lk_dataset *ds = NULL;
    lk_loader *l = NULL;
    lk_batch b;
    lk_status st = LK_OK;
    snprintf(options, sizeof options, "path=%s stream=true", test_path("zipped-*"));
    LK_TRY_TO(done, lk_dataset_open("tfrecord", options, LK_TRAIN, &ds));
    snprintf(options, sizeof options, "batch=7 shuffle_buffer=20 prefetch=%d readers=%d",
             scenario_readers, scenario_readers + 1);
    LK_TRY_TO(done, lk_loader_new(ds, options, 1, &l));
    for (int64_t i = 0; i < 9; i++)
        LK_TRY_TO(done, lk_loader_read_batch(l, 0, i, 0, 1, &b));
done:
    lk_loader_free(l);
    lk_dataset_free(ds);
    return st;
}

TEST(failed_allocations_leave_nothing)
{
    ASSERT_TRUE(test_every_allocation_fails(read_stream) >= 20);
    scenario_readers = 2;
    for (int64_t n = 1; n < 120; n++) { /* of a thread, nobody knows which it is */
        lk_alloc_fail_at(n);
        lk_status st = read_stream();
        lk_alloc_fail_at(0);
        ASSERT_TRUE(st == LK_OK || st == LK_ENOMEM);
        lk_error_clear();
        ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
    }
}
