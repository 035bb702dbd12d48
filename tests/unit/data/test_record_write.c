/* Writing records to many files: ranges of samples, names, packed files, and all or nothing. */
#include "base/storage/storage.h"
#include "data/packed/inflate.h"
#include "data_files.h"
#include "faults.h"
#include "tensors.h"

#include <errno.h>
#include <stdarg.h>

enum { COUNT = 23, BYTES = 3000 };

/* Row `index` fails, if that is not negative. */
struct made {
    lk_dataset_info info;
    int64_t fails;
};

static lk_status made_row(void *context, int64_t index, void *const *row)
{
    const struct made *m = context;
    LK_CHECK(index != m->fails, LK_EIO, "sample %lld cannot be made", (long long)index);
    for (int i = 0; row[0] && i < BYTES; i++)
        ((unsigned char *)row[0])[i] = (unsigned char)(index * 7 + i / 50);
    if (row[1])
        *(int64_t *)row[1] = index % 5;
    return LK_OK;
}

static struct made made = {
    .info = {.name = "made",
             .count = COUNT,
             .classes = 10,
             .n_fields = 2,
             .field = {{"x", LK_U8, LK_DIMS(BYTES)}, {.name = "y", .dtype = LK_I64}}},
    .fails = -1};

static lk_status write_to(const char *options, const char *path)
{
    lk_dataset *ds;
    LK_TRY(lk_dataset_new(&made.info, made_row, NULL, &made, &ds));
    lk_status st = lk_dataset_write_as(ds, "tfrecord", options, LK_TRAIN, path);
    lk_dataset_free(ds);
    return st;
}

LK_PRINTF(2, 3) static uint64_t hash_at(int64_t *count, const char *format, ...)
{
    char options[600];
    lk_dataset *ds;
    uint64_t hash;
    va_list args;
    va_start(args, format);
    vsnprintf(options, sizeof options, format, args);
    va_end(args);
    ASSERT_OK(lk_dataset_open("tfrecord", options, LK_TRAIN, &ds));
    ASSERT_OK(lk_dataset_hash(ds, &hash));
    *count = lk_dataset_info_of(ds)->count;
    lk_dataset_free(ds);
    return hash;
}

static uint64_t hash_made(void)
{
    lk_dataset *ds;
    uint64_t hash;
    ASSERT_OK(lk_dataset_new(&made.info, made_row, NULL, &made, &ds));
    ASSERT_OK(lk_dataset_hash(ds, &hash));
    lk_dataset_free(ds);
    return hash;
}

TEST(what_is_written_has_a_name)
{
    static const struct {
        const char *format, *options, *path, *name;
    } rows[] = {
        {NULL, NULL, "a/b.tfrecord", "a/b.tfrecord"},
        {NULL, "gzip=true", "b.tfrecord", "b.tfrecord.gz"},
        {NULL, "gzip=true", "b.tfrecord.gz", "b.tfrecord.gz"},
        {NULL, "files=1", "b.tfrecord.gz", "b.tfrecord.gz"},
        {NULL, "files=3", "b.tfrecord.gz", "b-*-of-00003.tfrecord.gz"},
        {"tfrecord", "files=12345 gzip=true", "b", "b-*-of-12345.tfrecord.gz"},
        {NULL, "", "b.npz", "b.npz"},
    };
    lk_arena *arena;
    const char *name;
    ASSERT_OK(lk_arena_new(&arena));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        ASSERT_OK(lk_format_written(rows[i].format, rows[i].options, rows[i].path, arena, &name));
        ASSERT_EQ(strcmp(name, rows[i].name), 0);
    }
    ASSERT_FAILS(lk_format_written(NULL, "files=2", "b.npz", arena, &name), LK_EINVAL,
                 "the format \"npz\" is written without options");
    lk_arena_free(arena);
}

/* A set of some megabytes, in files of which each has its share: memory for a few samples. */
TEST(writing_takes_little_memory)
{
    int64_t n;
    made.info.count = 2000;
    ASSERT_OK(write_to("files=20", test_path("large.tfrecord")));
    ASSERT_TRUE(lk_alloc_stats_now().peak_bytes < 2 << 20);
    (void)hash_at(&n, "path=%s", test_path("large-*.tfrecord"));
    ASSERT_EQ(n, 2000);
    made.info.count = COUNT;
}

TEST(samples_are_dealt_in_ranges)
{
    int64_t n;
    ASSERT_OK(write_to(NULL, test_path("one.tfrecord")));
    ASSERT_EQ(hash_at(&n, "path=%s", test_path("one.tfrecord")), hash_made());
    ASSERT_OK(write_to("files=5", test_path("many.tfrecord")));
    ASSERT_EQ(hash_at(&n, "path=%s", test_path("many-*.tfrecord")), hash_made());
    /* file 3 of 5 has samples 13 to 17, by lk_range_split() */
    ASSERT_EQ(lk_range_split(COUNT, 3, 5).first, 13);
    (void)hash_at(&n, "path=%s", test_path("many-00003-of-00005.tfrecord"));
    ASSERT_EQ(n, 5);
    /* one behind the other they are the one file */
    char command[700];
    snprintf(command, sizeof command, "cat '%s'/many-*-of-00005.tfrecord | cmp - '%s'",
             test_folder(), test_path("one.tfrecord"));
    ASSERT_EQ(system(command), 0);
    /* more files than samples: some have none */
    ASSERT_OK(write_to("files=30", test_path("few")));
    ASSERT_EQ(hash_at(&n, "path=%s", test_path("few-*-of-00030.tfrecord")), hash_made());
    ASSERT_EQ(access(test_path("many.tfrecord"), F_OK), -1);
}

TEST(packed_files_have_the_same_records)
{
    int64_t n;
    size_t plain, zipped;
    if (!lk__inflate_built())
        return;
    ASSERT_OK(write_to("gzip=true", test_path("a.tfrecord")));
    ASSERT_EQ(hash_at(&n, "path=%s", test_path("a.tfrecord.gz")), hash_made());
    ASSERT_OK(write_to(NULL, test_path("b.tfrecord.gz"))); /* by its name */
    ASSERT_OK(write_to("files=3", test_path("c.tfrecord.gz")));
    ASSERT_EQ(hash_at(&n, "path=%s", test_path("c-*-of-00003.tfrecord.gz")), hash_made());
    char command[700];
    snprintf(command, sizeof command, "zcat '%s'/c-*.gz | cmp - '%s'", test_folder(),
             test_path("one.tfrecord"));
    ASSERT_EQ(system(command), 0);
    free(test_read(test_path("one.tfrecord"), &plain));
    unsigned char *bytes = test_read(test_path("a.tfrecord.gz"), &zipped);
    ASSERT_TRUE(zipped < plain / 4);
    test_expect_file(test_path("b.tfrecord.gz"), bytes, zipped); /* equal content, equal bytes */
    free(bytes);
}

static int files_of(const char *pattern)
{
    char command[700];
    snprintf(command, sizeof command, "exit $(ls '%s' | grep -c '%s')", test_folder(), pattern);
    return system(command) >> 8;
}

/* A full disk, or a sample that cannot be had, leaves nothing behind. */
TEST(all_files_appear_or_none)
{
    static const lk__storage_call calls[] = {LK__STORAGE_OPEN, LK__STORAGE_WRITE, LK__STORAGE_SYNC,
                                             LK__STORAGE_CLOSE, LK__STORAGE_RENAME};
    int64_t before = lk_alloc_stats_now().live_blocks;
    for (size_t c = 0; c < sizeof calls / sizeof calls[0]; c++)
        for (int n = 1; n <= 4; n += 3) {
            lk__storage_fail(calls[c], n, ENOSPC, false);
            ASSERT_FAILS(write_to("files=4", test_path("broken.tfrecord")), LK_EIO, "broken-0000");
            lk__storage_fail(calls[c], 0, 0, false);
            ASSERT_EQ(files_of("^broken"), 0);
        }
    made.fails = 17;
    ASSERT_FAILS(write_to("files=4", test_path("broken.tfrecord")), LK_EIO,
                 "sample 17 cannot be made");
    ASSERT_FAILS(write_to(NULL, test_path("broken.tfrecord")), LK_EIO, "sample 17 cannot be made");
    made.fails = -1;
    ASSERT_EQ(files_of("^broken"), 0);
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, before);
}

TEST(options_of_writing_are_checked)
{
    lk_dataset *ds;
    ASSERT_FAILS(write_to("files=0", test_path("w.tfrecord")), LK_EINVAL, "files");
    ASSERT_FAILS(write_to("flies=2", test_path("w.tfrecord")), LK_EINVAL,
                 "did you mean \"files\"?");
    ASSERT_OK(lk_dataset_new(&made.info, made_row, NULL, &made, &ds));
    ASSERT_FAILS(lk_dataset_write_as(ds, "npz", "files=2", LK_TRAIN, test_path("w.npz")), LK_EINVAL,
                 "the format \"npz\" is written without options such as files=2");
    lk_dataset_free(ds);
}

static lk_status write_three(void)
{
    return write_to(lk__inflate_built() ? "files=3 gzip=true" : "files=3",
                    test_path("faults.tfrecord"));
}

TEST(failed_allocations_leave_nothing)
{
    ASSERT_TRUE(test_every_allocation_fails(write_three) >= 10);
    ASSERT_EQ(files_of("^faults.*part"), 0);
}
