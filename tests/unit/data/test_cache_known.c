/* A cache of a set that is known not to have changed: nothing of the set is read. */
#include "cached_sets.h"
#include "data/dataset.h"
#include "data/loader/loader.h"

#include <fcntl.h>

/* Read a set whose stamp is known through the cache `path`, in two epochs; how often it was asked. */
static int reads_of(uint64_t stamp, const char *path, uint64_t *hash)
{
    lk_dataset *ds = set_of(true);
    lk_batch b;
    lk__dataset_set_stamp(ds, stamp);
    lk_loader *l = loader_of(ds, "batch=4 crop=1 prefetch=0");
    int before = reads;
    set_tile(l);
    ASSERT_OK(lk_loader_set_cache(l, path, "0", "1"));
    lk__cache_know(l);
    ASSERT_OK(lk_dataset_hash(ds, hash));
    for (int i = 0; i < 6; i++)
        ASSERT_OK(lk_loader_read_batch(l, i / 3, i % 3, 0, lk_loader_batch_size(l, i % 3), &b));
    lk_loader_free(l);
    lk_dataset_free(ds);
    return reads - before;
}

/* The next start reads nothing of the set, not even for its hash. */
TEST(a_set_that_is_known_is_not_read)
{
    lk_dataset *ds = set_of(true);
    uint64_t hash, found;
    size_t n;
    const char *path = test_path("known");
    ASSERT_OK(lk_dataset_hash(ds, &hash));
    ASSERT_TRUE(reads_of(77, path, &found) > 0);
    ASSERT_EQ(reads_of(77, path, &found), 0);
    ASSERT_TRUE(found == hash);
    ASSERT_TRUE(reads_of(78, path, &found) > 0); /* made anew, with the same content */
    ASSERT_EQ(reads_of(78, path, &found), 0);    /* which is noted */
    ASSERT_TRUE(found == hash);
    ASSERT_TRUE(reads_of(0, path, &found) > 0); /* nobody knows */
    ASSERT_EQ(reads_of(78, path, &found), 0);
    unsigned char *cache = test_read(path, &n);
    for (size_t i = 1; i <= 16; i++) { /* a record that is not whole says nothing */
        cache[n - i] ^= 1;
        test_write("known", cache, n);
        cache[n - i] ^= 1;
        ASSERT_TRUE(reads_of(78, path, &found) > 0);
        ASSERT_TRUE(found == hash);
    }
    cache[17] ^= 1; /* of the hash in the header */
    test_write("known", cache, n);
    lk__dataset_set_stamp(ds, 78);
    ASSERT_FAILS(read_one(ds, "batch=4 crop=1", path, true), LK_EIO, "made of other data");
    free(cache);
    lk_dataset_free(ds);
}

/* A start with a set of a file and a cache. */
static lk_status start_with(const char *options, const char *cache)
{
    lk_dataset *ds;
    LK_TRY(lk_dataset_open("raw", options, LK_TRAIN, &ds));
    lk_status st = read_one(ds, "batch=4 prefetch=0", cache, false);
    lk_dataset_free(ds);
    return LK_TRACE(st);
}

static uint64_t stamp_of(const char *options)
{
    lk_dataset *ds;
    ASSERT_OK(lk_dataset_open("raw", options, LK_TRAIN, &ds));
    uint64_t stamp = lk__dataset_stamp(ds);
    lk_dataset_free(ds);
    ASSERT_TRUE(stamp != 0);
    return stamp;
}

/* What is another file, or may be, is read; what is another set is refused. */
TEST(changed_files_are_found)
{
    char options[500], bytes[8 * 6] = "what is in this file?";
    const char *cache = test_path("file-cache");
    const char *file = test_write("file.raw", bytes, sizeof bytes);
    snprintf(options, sizeof options, "path=%s shape=3,2 dtype=u8", file);
    ASSERT_OK(start_with(options, cache));
    uint64_t stamp = stamp_of(options);
    ASSERT_TRUE(stamp_of(options) == stamp);
    char other[500]; /* the same bytes mean something else */
    snprintf(other, sizeof other, "path=%s shape=2,3 dtype=u8", file);
    ASSERT_TRUE(stamp_of(other) != stamp);
    ASSERT_EQ(utimensat(AT_FDCWD, file, (struct timespec[2]){{1000, 0}, {1000, 0}}, 0), 0);
    uint64_t touched = stamp_of(options);
    ASSERT_TRUE(touched != stamp);
    ASSERT_OK(start_with(options, cache)); /* the content is the same */
    struct stat about;
    ASSERT_EQ(stat(file, &about), 0);
    bytes[40] = 1; /* in place, and the time put back */
    int fd = open(file, O_WRONLY);
    ASSERT_TRUE(fd >= 0 && pwrite(fd, bytes, sizeof bytes, 0) == (ssize_t)sizeof bytes);
    close(fd);
    ASSERT_EQ(utimensat(AT_FDCWD, file, (struct timespec[2]){about.st_atim, about.st_mtim}, 0), 0);
    ASSERT_TRUE(stamp_of(options) != touched);
    ASSERT_FAILS(start_with(options, cache), LK_EIO,
                 "file-cache: the cache was made of other data");
}

/* Sets of formats have a stamp, their subsets another; a program's own have none. */
TEST(stamps_are_of_files_and_options)
{
    lk_dataset *ds, *more, *a, *b, *own = set_of(true);
    ASSERT_OK(lk_dataset_open("shapes", "count=20 shape=8,8,1", LK_TRAIN, &ds));
    ASSERT_OK(lk_dataset_open("shapes", "count=20 shape=8,8,1 seed=2", LK_TRAIN, &more));
    ASSERT_OK(lk_dataset_split(ds, 1, 4, &a, &b));
    uint64_t stamp[] = {lk__dataset_stamp(ds), lk__dataset_stamp(more), lk__dataset_stamp(a),
                        lk__dataset_stamp(b), 0};
    for (int i = 0; i < 5; i++)
        for (int j = 0; j < i; j++)
            ASSERT_TRUE(stamp[i] != stamp[j]);
    ASSERT_TRUE(lk__dataset_stamp(own) == 0);
    lk_dataset_free(ds);
    lk_dataset_free(more);
    lk_dataset_free(a);
    lk_dataset_free(b);
    lk_dataset_free(own);
}
