/* Files and datasets for tests of the room data. */
#ifndef LK_TEST_DATA_FILES_H
#define LK_TEST_DATA_FILES_H

#include "harness.h"

#include <lockstep/data.h>
#include <lockstep/extra/alloc.h>

#include <sys/stat.h>

/* A folder of the test's own, removed at exit with the files that test_path() named. */
static char test_folder_name[64];

static inline void test_folder_remove(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", test_folder_name);
    if (system(command) != 0)
        fprintf(stderr, "cannot remove %s\n", test_folder_name);
}

static inline const char *test_folder(void)
{
    if (!test_folder_name[0]) {
        snprintf(test_folder_name, sizeof test_folder_name, "/tmp/lockstep-test-XXXXXX");
        if (!mkdtemp(test_folder_name))
            TEST_FAIL("no folder for files");
        atexit(test_folder_remove);
    }
    return test_folder_name;
}

/* The path of a file in the test's folder; valid until the fourth call from now. */
static inline const char *test_path(const char *file)
{
    static char path[4][256];
    static int next;
    next = (next + 1) % 4;
    snprintf(path[next], sizeof path[next], "%s/%s", test_folder(), file);
    return path[next];
}

/* A new file, in place of an old one: an old one that is written again is flushed to the disk. */
static inline const char *test_write(const char *file, const void *bytes, size_t n)
{
    const char *path = test_path(file);
    remove(path);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(bytes, 1, n, f) != n || fclose(f) != 0)
        TEST_FAIL("%s cannot be written", path);
    return path;
}

/* The whole file in a block that the test frees. */
static inline unsigned char *test_read(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    struct stat about;
    if (!f || fstat(fileno(f), &about) != 0)
        TEST_FAIL("%s cannot be read", path);
    unsigned char *bytes = malloc((size_t)about.st_size + 1);
    *n = fread(bytes, 1, (size_t)about.st_size, f);
    fclose(f);
    return bytes;
}

/* The file has exactly these bytes. */
static inline void test_expect_file(const char *path, const void *want, size_t n)
{
    size_t got;
    unsigned char *bytes = test_read(path, &got);
    if (got != n)
        TEST_FAIL("%s has %zu bytes, not %zu", path, got, n);
    for (size_t i = 0; i < n; i++)
        if (bytes[i] != ((const unsigned char *)want)[i])
            TEST_FAIL("%s: byte %zu is %02x, not %02x", path, i, bytes[i],
                      ((const unsigned char *)want)[i]);
    free(bytes);
}

/* One sample's field into `out`. */
static inline void test_sample(const lk_dataset *ds, const char *field, int64_t index, void *out)
{
    int f = lk_dataset_find(ds, field);
    ASSERT_TRUE(f >= 0);
    lk_field about = lk_dataset_info_of(ds)->field[f];
    lk_shape shape = {.ndim = about.shape.ndim + 1, .dim = {1}};
    memcpy(shape.dim + 1, about.shape.dim, (size_t)about.shape.ndim * sizeof shape.dim[0]);
    lk_tensor *tensor[LK_MAX_FIELDS] = {NULL};
    ASSERT_OK(lk_tensor_wrap(about.dtype, shape, out, NULL, NULL, &tensor[f]));
    ASSERT_OK(lk_dataset_read(ds, &index, 1, tensor));
    lk_tensor_free(tensor[f]);
}

static inline int64_t test_label(const lk_dataset *ds, int64_t index)
{
    int64_t label;
    test_sample(ds, "y", index, &label);
    return label;
}

/* Read every sample into memory and throw it away; the first error. */
static inline lk_status test_read_all(lk_dataset *ds)
{
    uint64_t hash;
    return lk_dataset_hash(ds, &hash);
}

/* Write `n` bytes as `file` cut at each byte, then with each bit changed, and open it: it must be
 * refused, or be read in full; a refusal names the file.  Returns how many changed bits were
 * refused. */
static inline int test_damage(const char *format, const char *options, const char *file,
                              const unsigned char *good, size_t n)
{
    lk_dataset *ds;
    int refused = 0;
    for (size_t cut = 0; cut < n; cut++) {
        test_write(file, good, cut);
        if (lk_dataset_open(format, options, LK_TRAIN, &ds) == LK_OK)
            TEST_FAIL("%s cut at byte %zu of %zu is read", file, cut, n);
        if (!strstr(lk_error_message(), file))
            TEST_FAIL("the message does not name %s: %s", file, lk_error_message());
        lk_error_clear();
    }
    unsigned char *bad = malloc(n);
    for (size_t bit = 0; bit < 8 * n; bit++) {
        memcpy(bad, good, n);
        bad[bit / 8] ^= (unsigned char)(1 << bit % 8);
        test_write(file, bad, n);
        lk_status st = lk_dataset_open(format, options, LK_TRAIN, &ds);
        if (st == LK_OK)
            st = test_read_all(ds);
        refused += st != LK_OK;
        lk_dataset_free(ds);
        lk_error_clear();
    }
    free(bad);
    test_write(file, good, n);
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
    return refused;
}

#endif /* LK_TEST_DATA_FILES_H */
