/* Sets of files that loaders keep in memory: the same batches and errors, fewer reads, and what is not kept. */
#include "base/memory/memory.h"
#include "data/loader/loader.h"
#include "data_files.h"
#include "faults.h"
#include "tensors.h"

#include <sys/resource.h>
#include <unistd.h>

/* 40 images u8 [12][10][3] with a label each. */
enum { COUNT = 40, BYTES = 12 * 10 * 3 + 8 };

static const char *const formats[] = {"npz", "tfrecord", "idx"};
enum { N_FORMATS = sizeof formats / sizeof formats[0] };

/* The images in a file of a format, or a folder, written once. */
static lk_dataset *set_of(const char *format)
{
    char options[300], name[32];
    lk_dataset *made, *ds;
    snprintf(name, sizeof name, "it.%s", format);
    const char *path = test_path(name);
    if (access(path, F_OK) != 0) {
        ASSERT_OK(lk_dataset_open("glyphs", "count=40 shape=12,10,3", LK_TRAIN, &made));
        ASSERT_OK(lk_dataset_write(made, format, path));
        lk_dataset_free(made);
    }
    snprintf(options, sizeof options, "path=%s", path);
    ASSERT_OK(lk_dataset_open(format, options, LK_TRAIN, &ds));
    return ds;
}

static lk_loader *loader_of(lk_dataset *ds, const char *options, int keep)
{
    char text[300];
    lk_loader *l;
    snprintf(text, sizeof text, "%s keep=%d", options, keep);
    ASSERT_OK(lk_loader_new(ds, text, 3, &l));
    return l;
}

/* Under a limit of memory, which a test may be run with, there is nothing to see. */
#define UNLESS_LIMITED()             \
    do {                             \
        if (lk__memory_is_limited()) \
            return;                  \
    } while (0)

/* Batch `number` of both loaders is the same. */
static void same_batch(lk_loader *a, lk_loader *b, int64_t epoch, int64_t number)
{
    lk_batch of_a, of_b;
    int64_t n = lk_loader_batch_size(a, number);
    ASSERT_OK(lk_loader_read_batch(a, epoch, number, 0, n, &of_a));
    ASSERT_OK(lk_loader_read_batch(b, epoch, number, 0, n, &of_b));
    ASSERT_TRUE(memcmp(of_a.index, of_b.index, (size_t)n * sizeof *of_a.index) == 0);
    for (int f = 0; f < of_a.n_fields; f++) {
        size_t size = lk_dtype_size(lk_tensor_dtype(of_a.field[f]));
        ASSERT_TRUE(
            lk_shape_is_equal(lk_tensor_shape(of_a.field[f]), lk_tensor_shape(of_b.field[f])));
        ASSERT_TRUE(memcmp(lk_tensor_data(of_a.field[f]), lk_tensor_data(of_b.field[f]),
                           (size_t)lk_tensor_count(of_a.field[f]) * size) == 0);
    }
}

static void same_epochs(lk_loader *a, lk_loader *b)
{
    for (int64_t epoch = 0; epoch < 3; epoch++)
        for (int64_t number = 0; number < lk_loader_batches(a); number++)
            same_batch(a, b, epoch, number);
}

TEST(kept_sets_give_the_batches_of_their_files)
{
    UNLESS_LIMITED();
    static const char *const options[] = {"batch=7", "batch=40 prefetch=0 one_hot=true",
                                          "batch=9 shuffle=false normalise=standard",
                                          "batch=16 crop=3 flip=true readers=3 prefetch=4"};
    const lk_box box = {3, {2, 0, 1}, {5, 10, 2}};
    for (int i = 0; i < N_FORMATS; i++)
        for (int k = 0; k < 2 * 4; k++) {
            lk_dataset *ds = set_of(formats[i]), *part = NULL;
            if (k >= 4)
                ASSERT_OK(lk_dataset_subset(ds, 5, 3, 30, &part));
            lk_loader *file = loader_of(part ? part : ds, options[k % 4], 0);
            lk_loader *kept = loader_of(part ? part : ds, options[k % 4], 1);
            ASSERT_EQ(lk__keep_loader_bytes(file), 0);
            ASSERT_EQ(lk__keep_loader_bytes(kept), (part ? 30 : COUNT) * BYTES);
            same_epochs(file, kept);
            ASSERT_TRUE(kept->kept && !file->kept);
            ASSERT_OK(lk_loader_set_box(file, 0, &box));
            ASSERT_OK(lk_loader_set_box(kept, 0, &box));
            same_epochs(file, kept);
            ASSERT_TRUE(!kept->kept);
            ASSERT_OK(lk_loader_set_box(file, 0, NULL));
            ASSERT_OK(lk_loader_set_box(kept, 0, NULL));
            same_epochs(file, kept);
            ASSERT_TRUE(kept->kept);
            lk_loader_free(file);
            lk_loader_free(kept);
            lk_dataset_free(part);
            lk_dataset_free(ds);
            ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
        }
}

/* Files that shrink behind its back do not concern who has kept them, and no signal ends it. */
TEST(files_are_not_read_again)
{
    UNLESS_LIMITED();
    lk_dataset *ds = set_of("npz"), *cut;
    size_t n;
    unsigned char *bytes = test_read(test_path("it.npz"), &n);
    char options[300];
    snprintf(options, sizeof options, "path=%s", test_write("cut.npz", bytes, n));
    free(bytes);
    ASSERT_OK(lk_dataset_open("npz", options, LK_TRAIN, &cut));
    lk_loader *whole = loader_of(ds, "batch=8", 0), *kept = loader_of(cut, "batch=8", 1);
    lk_loader *file = loader_of(cut, "batch=8 prefetch=0", 0);
    lk_batch b;
    same_batch(whole, kept, 0, 0);
    ASSERT_EQ(truncate(test_path("cut.npz"), 100), 0);
    same_epochs(whole, kept);
    ASSERT_FAILS(lk_loader_read_batch(file, 0, 0, 0, 8, &b), LK_EIO,
                 "the file became shorter while it was read");
    lk_loader *late = loader_of(cut, "batch=8 prefetch=0", 1);
    ASSERT_FAILS(lk_loader_read_batch(late, 0, 0, 0, 8, &b), LK_EIO,
                 "the file became shorter while it was read");
    lk_loader_free(late);
    lk_loader_free(file);
    lk_loader_free(kept);
    lk_loader_free(whole);
    lk_dataset_free(cut);
    lk_dataset_free(ds);
}

/* The batches before a damaged record are there, and it is told with the batch that has it. */
TEST(errors_come_with_their_batch)
{
    lk_dataset_free(set_of("tfrecord"));
    size_t n;
    unsigned char *bytes = test_read(test_path("it.tfrecord"), &n);
    bytes[n - 40] ^= 1;
    char options[300];
    snprintf(options, sizeof options, "path=%s", test_write("bad.tfrecord", bytes, n));
    free(bytes);
    for (int keep = 0; keep < 2; keep++)
        for (int prefetch = 0; prefetch < 3; prefetch += 2) {
            lk_dataset *ds;
            lk_batch b;
            ASSERT_OK(lk_dataset_open("tfrecord", options, LK_TRAIN, &ds));
            lk_loader *l = loader_of(
                ds, prefetch ? "batch=10 shuffle=false" : "batch=10 shuffle=false prefetch=0",
                keep);
            for (int64_t number = 0; number < 3; number++)
                ASSERT_OK(lk_loader_read_batch(l, 0, number, 0, 10, &b));
            ASSERT_FAILS(lk_loader_read_batch(l, 0, 3, 0, 10, &b), LK_EIO,
                         "bad.tfrecord: record 39, offset");
            ASSERT_OK(lk_loader_read_batch(l, 1, 0, 0, 10, &b));
            lk_loader_free(l);
            lk_dataset_free(ds);
        }
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

static lk_status own_row(void *context, int64_t index, void *const *row)
{
    (void)context;
    if (row[0])
        *(double *)row[0] = (double)index;
    return LK_OK;
}

TEST(only_small_sets_of_files_are_kept)
{
    UNLESS_LIMITED();
    static const char *const not [] = {"batch=8 keep=0", "batch=8 shuffle_buffer=8",
                                       "batch=8 cache=/nowhere"};
    lk_dataset *ds = set_of("npz"), *own, *stream, *made;
    lk_loader *l;
    for (int i = 0; i < (int)(sizeof not / sizeof not [0]); i++) {
        ASSERT_OK(lk_loader_new(ds, not [i], 1, &l));
        ASSERT_EQ(lk__keep_loader_bytes(l), 0);
        lk_loader_free(l);
    }
    lk_loader_options o = {.batch = 8, .shards = 1, .scale = 1, .keep = 1};
    ASSERT_EQ(lk__keep_bytes(ds, &o), COUNT * BYTES);
    o.ranks = INT64_C(1) << 40; /* that share what there is */
    ASSERT_EQ(lk__keep_bytes(ds, &o), 0);
    o.ranks = 0;
    /* What a program writes may be another each time, and what is in memory needs no copy. */
    lk_dataset_info info = {
        .name = "own", .count = 9, .n_fields = 1, .field = {{.name = "x", .dtype = LK_F64}}};
    ASSERT_OK(lk_dataset_new(&info, own_row, NULL, NULL, &own));
    ASSERT_OK(lk_dataset_open("glyphs", "count=10 shape=12,10,3", LK_TRAIN, &made));
    lk_dataset_free(set_of("tfrecord"));
    char options[300];
    snprintf(options, sizeof options, "path=%s stream=true", test_path("it.tfrecord"));
    ASSERT_OK(lk_dataset_open("tfrecord", options, LK_TRAIN, &stream));
    ASSERT_EQ(lk__keep_bytes(own, &o) + lk__keep_bytes(made, &o) + lk__keep_bytes(stream, &o), 0);
    lk_dataset_free(own);
    lk_dataset_free(made);
    lk_dataset_free(stream);
    lk_dataset_free(ds);
}

/* A set of one byte more than `keep` is not kept. */
TEST(the_size_is_a_limit)
{
    UNLESS_LIMITED();
    enum { MIB = 1 << 20 };
    unsigned char *bytes = calloc(1, MIB + 1);
    const lk_loader_options o = {.batch = 8, .shards = 1, .scale = 1, .keep = 1};
    for (int more = 0; more < 2; more++) {
        char options[300];
        lk_dataset *ds;
        snprintf(options, sizeof options, "path=%s dtype=u8 shape=1",
                 test_write("large.raw", bytes, MIB + (size_t)more));
        ASSERT_OK(lk_dataset_open("raw", options, LK_TRAIN, &ds));
        ASSERT_EQ(lk__keep_bytes(ds, &o), more ? 0 : MIB);
        lk_dataset_free(ds);
    }
    free(bytes);
}

TEST(nothing_is_kept_under_a_limit_of_memory)
{
    const lk_loader_options o = {.batch = 8, .shards = 1, .scale = 1, .keep = 1};
    lk_dataset *ds = set_of("npz");
    for (int i = 0; i < 2; i++) {
        struct rlimit before, limit;
        ASSERT_EQ(getrlimit(i == 0 ? RLIMIT_DATA : RLIMIT_AS, &before), 0);
        limit = before;
        limit.rlim_cur = (rlim_t)1 << 50; /* more than there is, also under sanitizers */
        if (setrlimit(i == 0 ? RLIMIT_DATA : RLIMIT_AS, &limit) != 0)
            continue; /* there is a lower one already */
        ASSERT_EQ(lk__keep_bytes(ds, &o), 0);
        ASSERT_EQ(setrlimit(i == 0 ? RLIMIT_DATA : RLIMIT_AS, &before), 0);
    }
    lk_dataset_free(ds);
}

static lk_status load_scenario(void)
{
    lk_dataset *ds = NULL;
    lk_loader *l = NULL;
    lk_batch b;
    char options[300];
    lk_status st = LK_OK;
    snprintf(options, sizeof options, "path=%s", test_path("it.npz"));
    LK_TRY_TO(done, lk_dataset_open("npz", options, LK_TRAIN, &ds));
    LK_TRY_TO(done, lk_loader_new(ds, "batch=8 prefetch=0 keep=1", 1, &l));
    LK_TRY_TO(done, lk_loader_read_batch(l, 0, 0, 0, 8, &b));
    LK_TRY_TO(done, lk_loader_read_batch(l, 0, 1, 0, 8, &b));
done:
    lk_loader_free(l);
    lk_dataset_free(ds);
    return st;
}

/* Without memory for the set it is read from the file: of all allocations that can fail, those of the copy
 * do no harm. */
TEST(without_memory_files_are_read)
{
    lk_dataset_free(set_of("npz"));
    enum { OF_THE_COPY = 10 };
    ASSERT_TRUE(test_allocations_fail_but(load_scenario, OF_THE_COPY) >= 20);
}
