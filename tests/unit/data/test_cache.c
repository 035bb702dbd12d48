/* The cache of a loader: the same batches, made once, and never used when it does not fit. */
#include "base/storage/storage.h"
#include "cached_sets.h"
#include "faults.h"
#include "tensors.h"

#include <dirent.h>
#include <pthread.h>

static void expect_same(lk_loader *a, lk_loader *b)
{
    for (int64_t i = 0; i < 9; i++) {
        lk_batch x, y;
        int64_t n = lk_loader_batch_size(a, i % 3);
        ASSERT_OK(lk_loader_read_batch(a, i / 3, i % 3, 0, n, &x));
        ASSERT_OK(lk_loader_read_batch(b, i / 3, i % 3, 0, n, &y));
        for (int f = 0; f < 3; f++)
            ASSERT_TRUE(lk_tensor_is_equal(x.field[f], y.field[f]));
    }
}

/* Files in the test's folder that begin so. */
static int files_of(const char *start)
{
    int n = 0;
    DIR *d = opendir(test_folder());
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        n += strncmp(e->d_name, start, strlen(start)) == 0;
    closedir(d);
    return n;
}

TEST(batches_from_a_cache_are_the_same)
{
    static const char *const options[] = {"batch=4", "batch=4 crop=2 prefetch=0",
                                          "batch=4 flip=true normalise=standard",
                                          "batch=4 crop=9 flip=true prefetch=1"};
    for (int i = 0; i < 16; i++) {
        bool boxes = i & 1, cut = i & 2;
        char name[40];
        snprintf(name, sizeof name, "same%d-{rank}-of-{size}", i);
        lk_dataset *ds = set_of(boxes);
        lk_loader *plain = loader_of(ds, options[i / 4]);
        for (int again = 0; again < 2; again++) { /* made, then found */
            lk_loader *l = loader_of(ds, options[i / 4]);
            if (cut) {
                set_tile(l);
                set_tile(plain);
            }
            ASSERT_OK(lk_loader_set_cache(l, test_path(name), cut ? "3" : "0", cut ? "2x2" : "1"));
            expect_same(l, plain);
            lk_loader_free(l);
        }
        snprintf(name, sizeof name, "same%d-%s", i, cut ? "3-of-2x2" : "0-of-1");
        ASSERT_EQ(files_of(name), 1);
        lk_loader_free(plain);
        lk_dataset_free(ds);
    }
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

/* Once it is there, nobody asks the set. */
TEST(a_cache_is_read_instead_of_the_set)
{
    lk_dataset *ds = set_of(true);
    lk_loader *l = loader_of(ds, "batch=4 crop=1 flip=true prefetch=0");
    lk_batch b;
    set_tile(l);
    ASSERT_OK(lk_loader_set_cache(l, test_path("instead"), "0", "1"));
    ASSERT_OK(lk_loader_read_batch(l, 0, 0, 0, 4, &b));
    int before = reads;
    for (int i = 0; i < 6; i++)
        ASSERT_OK(lk_loader_read_batch(l, i / 3, i % 3, 0, lk_loader_batch_size(l, i % 3), &b));
    ASSERT_EQ(reads, before);
    /* The tile and its reach: rows 0-3; columns 5-7, mirrored 0-2, so all of them; z. */
    struct stat about;
    ASSERT_EQ(stat(test_path("instead"), &about), 0);
    ASSERT_EQ(about.st_size, 8 * (7 + 8 * 18) + COUNT * (4 * 8 * 3 + 4 * 8 * 8 + 8) + 8 + 16);
    ASSERT_OK(lk_loader_set_cache(l, "", "0", "1")); /* no more */
    ASSERT_OK(lk_loader_read_batch(l, 0, 0, 0, 4, &b));
    ASSERT_TRUE(reads > before);
    lk_loader_free(l);
    lk_dataset_free(ds);
}

TEST(what_does_not_fit_is_refused)
{
    lk_dataset *ds = set_of(true), *other;
    const char *path = test_path("stale"), *options = "batch=4 crop=1 prefetch=0";
    ASSERT_OK(read_one(ds, options, path, true));
    ASSERT_OK(read_one(ds, "batch=5 crop=1 normalise=standard", path, true)); /* all the same */
    ASSERT_FAILS(read_one(ds, "batch=4 crop=2", path, true), LK_EIO,
                 "stale: the cache was made for another crop or flip; delete it");
    ASSERT_FAILS(read_one(ds, "batch=4 crop=1 flip=true", path, true), LK_EIO, "another crop");
    ASSERT_FAILS(read_one(ds, options, path, false), LK_EIO,
                 "stale: the cache holds other boxes, as of other tiles; delete it");
    salt = 1;
    other = set_of(true);
    ASSERT_FAILS(read_one(other, options, path, true), LK_EIO,
                 "stale: the cache was made of other data; delete it");
    salt = 0;
    lk_dataset_free(other);
    ASSERT_OK(read_one(ds, options, path, true));
    test_write("text", "# not a cache of anything, but long enough", 42);
    ASSERT_FAILS(read_one(ds, options, test_path("text"), true), LK_EIO, "text: the cache is cut");
    lk_dataset_free(ds);
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

TEST(another_box_needs_another_file)
{
    lk_dataset *ds = set_of(true);
    lk_loader *l = loader_of(ds, "batch=4"), *plain = loader_of(ds, "batch=4");
    lk_batch b;
    set_tile(l);
    ASSERT_OK(lk_loader_set_cache(l, test_path("box-{rank}"), "0", "2x2"));
    ASSERT_OK(lk_loader_read_batch(l, 0, 0, 0, 4, &b));
    ASSERT_OK(lk_loader_set_box(l, 1, NULL));
    ASSERT_FAILS(lk_loader_read_batch(l, 0, 0, 0, 4, &b), LK_EIO, "box-0: the cache holds other");
    ASSERT_FAILS(lk_loader_read_batch(l, 0, 0, 0, 4, &b), LK_EIO,
                 "box-*, and with .test or .validation behind it");
    ASSERT_OK(lk_loader_set_cache(l, NULL, "1", "2x2"));
    ASSERT_OK(lk_loader_set_box(plain, 0, &tile[0]));
    expect_same(l, plain);
    ASSERT_EQ(files_of("box-"), 2);
    lk_loader_free(l);
    lk_loader_free(plain);
    lk_dataset_free(ds);
}

TEST(damage_is_refused)
{
    lk_dataset *ds = set_of(true);
    const char *options = "batch=4 prefetch=0";
    size_t n;
    ASSERT_OK(read_one(ds, options, test_path("good"), true));
    unsigned char *good = test_read(test_path("good"), &n), *bad = malloc(n + 1);
    for (size_t at = 0; at < n; at += at < 80 || at + 20 > n ? 1 : 61) {
        memcpy(bad, good, n);
        bad[at] ^= (unsigned char)(1 << at % 8);
        if (at < n - 16) /* the record is not looked at: nobody knows what this set is made from */
            ASSERT_FAILS(read_one(ds, options, test_write("bad", bad, n), true), LK_EIO, "/bad: ");
        ASSERT_FAILS(read_one(ds, options, test_write("bad", good, at), true), LK_EIO, "delete it");
    }
    memcpy(bad, good, n);
    bad[n] = 0;
    ASSERT_FAILS(read_one(ds, options, test_write("bad", bad, n + 1), true), LK_EIO, "too many");
    free(bad);
    free(good);
    lk_dataset_free(ds);
}

TEST(every_set_has_a_file_of_its_own)
{
    lk_dataset *ds = set_of(true), *train, *rest;
    lk_batch b;
    char options[300];
    snprintf(options, sizeof options, "batch=3 cache=%s", test_path("split-{size}-{rank}"));
    ASSERT_OK(lk_dataset_split(ds, 1, 4, &train, &rest));
    lk_loader *l = loader_of(train, options), *validation, *eval;
    ASSERT_OK(lk_loader_new_like(l, rest, &validation));
    ASSERT_OK(lk_loader_new_like(l, ds, &eval));
    ASSERT_OK(lk_loader_read_batch(l, 0, 0, 0, 3, &b));
    ASSERT_OK(lk_loader_read_batch(validation, 0, 0, 0, 3, &b));
    ASSERT_OK(lk_loader_read_batch(eval, 0, 0, 0, 3, &b));
    ASSERT_EQ(files_of("split-1-0"), 3);
    ASSERT_EQ(files_of("split-1-0.validation"), 1);
    ASSERT_EQ(files_of("split-1-0.eval"), 1);
    lk_loader_free(l);
    lk_loader_free(validation);
    lk_loader_free(eval);
    lk_dataset_free(train);
    lk_dataset_free(rest);
    lk_dataset_free(ds);
}

TEST(tiles_do_not_share_a_file)
{
    lk_dataset *ds = set_of(true);
    lk_loader *l = loader_of(ds, "batch=4");
    lk_batch b;
    ASSERT_OK(lk_loader_set_cache(l, test_path("one"), "1", "2x2"));
    ASSERT_FAILS(lk_loader_read_batch(l, 0, 0, 0, 4, &b), LK_EINVAL,
                 "one has no {rank} in it, and would be the file of all 2x2 tiles or stages");
    ASSERT_FAILS(lk_loader_set_cache(l, NULL, NULL, "1"), LK_EINVAL, "a cache for no rank");
    ASSERT_OK(lk_loader_set_cache(l, test_path("nowhere/{rank}"), "1", "2x2"));
    char message[700];
    snprintf(message, sizeof message,
             "cache: there is no folder %s for the file %s/1: make it (mkdir -p %s), or give cache "
             "another path",
             test_path("nowhere"), test_path("nowhere"), test_path("nowhere"));
    ASSERT_FAILS(lk_loader_read_batch(l, 0, 0, 0, 4, &b), LK_EIO, message);
    lk_loader_free(l);
    lk_dataset_free(ds);
}

static char race[300]; /* the file */

static void *read_at_once(void *ds)
{
    ASSERT_OK(read_one(ds, "batch=4", race, true));
    return NULL;
}

/* Ranks that hold the same tile may make the file at the same time. */
TEST(many_may_make_it_at_once)
{
    lk_dataset *ds = set_of(true);
    snprintf(race, sizeof race, "%s", test_path("race"));
    for (int round = 0; round < 5; round++) {
        pthread_t thread[4];
        remove(race);
        for (int i = 0; i < 4; i++)
            ASSERT_EQ(pthread_create(&thread[i], NULL, read_at_once, ds), 0);
        for (int i = 0; i < 4; i++)
            ASSERT_EQ(pthread_join(thread[i], NULL), 0);
        ASSERT_EQ(files_of("race"), 1);
    }
    lk_dataset_free(ds);
}

TEST(a_failed_write_leaves_nothing)
{
    lk_dataset *ds = set_of(true);
    const lk__storage_call call[] = {LK__STORAGE_OPEN, LK__STORAGE_WRITE, LK__STORAGE_SYNC,
                                     LK__STORAGE_RENAME};
    lk__storage_sync_skip(true);
    for (size_t i = 0; i < sizeof call / sizeof call[0]; i++)
        for (int n = 1; n <= (call[i] == LK__STORAGE_RENAME ? 2 : 1); n++) {
            lk__storage_fail(call[i], n, 28 /* ENOSPC */, false);
            ASSERT_FAILS(read_one(ds, "batch=4", test_path("full"), true), LK_EIO, "full");
            lk__storage_fail(call[i], 0, 0, false);
            ASSERT_EQ(files_of("full"), 0);
        }
    ASSERT_OK(read_one(ds, "batch=4", test_path("full"), true));
    lk_dataset_free(ds);
}

static lk_status scenario(void)
{
    lk_dataset *ds = NULL;
    lk_status st;
    remove(test_path("faults"));
    LK_TRY_TO(done, lk_dataset_new(&made_info, made_row, NULL, NULL, &ds));
    LK_TRY_TO(done, read_one(ds, "batch=4 crop=1 prefetch=0", test_path("faults"), true));
done:
    lk_dataset_free(ds);
    return st;
}

TEST(every_allocation_can_fail)
{
    ASSERT_TRUE(test_every_allocation_fails(scenario) > 20);
}
