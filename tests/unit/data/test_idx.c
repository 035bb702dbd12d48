/* IDX files: exact bytes in and out, folders, packed files, and damage. */
#include "data/packed/inflate.h"
#include "data_files.h"
#include "faults.h"

static const unsigned char images[] = {0, 0, 8, 3, 0, 0, 0, 3, 0, 0, 0, 2,  0,  0,
                                       0, 2, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 255};
static const unsigned char labels[] = {0, 0, 8, 1, 0, 0, 0, 3, 2, 0, 1};

/* FILE.gz, made by gzip. */
static void write_packed(const char *file, const void *bytes, size_t n)
{
    const char *path = test_write(file, bytes, n);
    char command[600];
    snprintf(command, sizeof command, "gzip -nf '%s'", path);
    ASSERT_EQ(system(command), 0);
}

static void check_set(lk_dataset *ds)
{
    const lk_dataset_info *info = lk_dataset_info_of(ds);
    ASSERT_EQ(info->count, 3);
    ASSERT_EQ(info->classes, 3);
    ASSERT_TRUE(lk_shape_is_equal(info->field[0].shape, LK_SHAPE(2, 2, 1)));
    unsigned char x[4];
    test_sample(ds, "x", 2, x);
    ASSERT_SAME_BITS(x, images + 24, 4);
    ASSERT_EQ(test_label(ds, 0), 2);
    ASSERT_EQ(test_label(ds, 2), 1);
}

TEST(a_folder_is_found_by_its_names_plain_and_packed)
{
    char options[300];
    snprintf(options, sizeof options, "path=%s", test_folder());
    lk_dataset *ds;
    ASSERT_FAILS(lk_dataset_open("idx", options, LK_TRAIN, &ds), LK_EIO,
                 "no train-images-idx3-ubyte");
    test_write("train-images-idx3-ubyte", images, sizeof images);
    test_write("train-labels-idx1-ubyte", labels, sizeof labels);
    ASSERT_OK(lk_dataset_open("idx", options, LK_TRAIN, &ds));
    check_set(ds);
    uint64_t plain, packed;
    ASSERT_OK(lk_dataset_hash(ds, &plain));
    lk_dataset_free(ds);
    ASSERT_OK(lk_dataset_open("idx", options, LK_TEST, &ds));
    ASSERT_TRUE(!ds);
    ASSERT_OK(lk_dataset_open("idx", options, LK_VALIDATION, &ds));
    ASSERT_TRUE(!ds);
    if (!lk__inflate_built())
        return;
    write_packed("train-images-idx3-ubyte", images, sizeof images);
    write_packed("train-labels-idx1-ubyte", labels, sizeof labels);
    ASSERT_OK(lk_dataset_open("idx", options, LK_TRAIN, &ds));
    check_set(ds);
    ASSERT_OK(lk_dataset_hash(ds, &packed));
    ASSERT_EQ(plain, packed);
    lk_dataset_free(ds);
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

TEST(files_can_be_named_one_by_one)
{
    char options[900];
    lk_dataset *ds;
    const char *x = test_write("a", images, sizeof images);
    const char *y = test_write("b", labels, sizeof labels);
    snprintf(options, sizeof options, "images=%s labels=%s classes=3", x, y);
    ASSERT_OK(lk_dataset_open("idx", options, LK_TRAIN, &ds));
    check_set(ds);
    lk_dataset_free(ds);
    ASSERT_OK(lk_dataset_open("idx", options, LK_TEST, &ds));
    ASSERT_TRUE(!ds);
    snprintf(options, sizeof options, "test_images=%s test_labels=%s", x, y);
    ASSERT_OK(lk_dataset_open("idx", options, LK_TEST, &ds));
    check_set(ds);
    lk_dataset_free(ds);
    snprintf(options, sizeof options, "images=%s labels=%s classes=2", x, y);
    ASSERT_FAILS(lk_dataset_open("idx", options, LK_TRAIN, &ds), LK_EIO,
                 "/b: sample 0 has the label 2, but labels are from 0 to 1");
    snprintf(options, sizeof options, "images=%s path=%s", x, y);
    ASSERT_FAILS(lk_dataset_open("idx", options, LK_TRAIN, &ds), LK_EINVAL,
                 "either path or images");
    snprintf(options, sizeof options, "images=%s labels=%s", x, x);
    ASSERT_FAILS(lk_dataset_open("idx", options, LK_TRAIN, &ds), LK_EIO, "3 labels of shape [2,2]");
    snprintf(options, sizeof options, "path=%s", test_path("none"));
    ASSERT_FAILS(lk_dataset_open("idx", options, LK_TRAIN, &ds), LK_EIO,
                 "none: there is no such file or folder; path of the format idx is a folder");
}

TEST(wide_elements_are_big_endian)
{
    static const unsigned char reals[] = {0, 0, 13,   2,    0, 0, 0,    1,    0, 0,
                                          0, 2, 0x3f, 0x80, 0, 0, 0xc0, 0x20, 0, 0};
    char options[300];
    lk_dataset *ds;
    snprintf(options, sizeof options, "path=%s", test_write("reals", reals, sizeof reals));
    ASSERT_OK(lk_dataset_open("idx", options, LK_TRAIN, &ds));
    float x[2];
    test_sample(ds, "x", 0, x);
    ASSERT_TRUE(x[0] == 1.0F && x[1] == -2.5F);
    ASSERT_OK(lk_dataset_write(ds, "idx", test_path("copy")));
    test_expect_file(test_path("copy/train-images-idx3-ubyte"), reals, sizeof reals);
    lk_dataset_free(ds);
}

TEST(what_is_written_has_the_same_bytes)
{
    char options[900];
    lk_dataset *ds;
    snprintf(options, sizeof options, "images=%s labels=%s", test_path("a"), test_path("b"));
    ASSERT_OK(lk_dataset_open("idx", options, LK_TRAIN, &ds));
    ASSERT_OK(lk_dataset_write(ds, "idx", test_path("out")));
    test_expect_file(test_path("out/train-images-idx3-ubyte"), images, sizeof images);
    test_expect_file(test_path("out/train-labels-idx1-ubyte"), labels, sizeof labels);
    ASSERT_FAILS(lk_dataset_write(ds, "idx", test_path("a")), LK_EIO,
                 "/a: cannot be made: it is a file, where a folder is needed");
    ASSERT_FAILS(lk_dataset_write(ds, "idx", test_path("a/b")), LK_EIO,
                 "/a/b: cannot be made: it lies in a file, where a folder is needed");
    lk_dataset_free(ds);
}

/* A file cut at any byte, or with any bit of its header changed, is refused. */
TEST(damage_is_refused_with_file_and_offset)
{
    char options[300];
    lk_dataset *ds;
    unsigned char bytes[sizeof images];
    snprintf(options, sizeof options, "path=%s", test_path("cut"));
    for (size_t n = 0; n < sizeof images; n++) {
        test_write("cut", images, n);
        ASSERT_FAILS(lk_dataset_open("idx", options, LK_TRAIN, &ds), LK_EIO, "/cut: offset ");
    }
    for (int bit = 0; bit < 16 * 8; bit++) {
        memcpy(bytes, images, sizeof images);
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
        test_write("cut", bytes, sizeof bytes);
        ASSERT_FAILS(lk_dataset_open("idx", options, LK_TRAIN, &ds), LK_EIO, "/cut: ");
    }
    memset(bytes + 4, 0xff, 12);
    bytes[2] = 14;
    test_write("cut", bytes, sizeof bytes);
    ASSERT_FAILS(lk_dataset_open("idx", options, LK_TRAIN, &ds), LK_EIO,
                 "/cut: offset 4: 4294967295 samples of f64[4294967295,4294967295] are more bytes");
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

TEST(an_empty_set_of_huge_samples_takes_no_memory)
{
    static const unsigned char empty[] = {0, 0, 8, 3, 0, 0, 0, 0, 0x7f, 0, 0, 0, 0x7f, 0, 0, 0};
    char options[300];
    lk_dataset *ds;
    snprintf(options, sizeof options, "path=%s", test_write("empty", empty, sizeof empty));
    ASSERT_OK(lk_dataset_open("idx", options, LK_TRAIN, &ds));
    ASSERT_OK(test_read_all(ds));
    ASSERT_OK(lk_dataset_write(ds, "idx", test_path("empty_too")));
    lk_dataset_free(ds);
    static const unsigned char nothing[] = {0, 0, 8, 2, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0};
    snprintf(options, sizeof options, "path=%s", test_write("nothing", nothing, sizeof nothing));
    ASSERT_FAILS(lk_dataset_open("idx", options, LK_TRAIN, &ds), LK_EIO,
                 "nothing: offset 12: 4294967295 samples of shape [0] have no values");
}

TEST(damaged_packed_files_are_refused)
{
    if (!lk__inflate_built())
        return;
    write_packed("packed", images, sizeof images);
    size_t n;
    unsigned char *good = test_read(test_path("packed.gz"), &n), *bad = malloc(n + 1);
    char options[300];
    lk_dataset *ds;
    snprintf(options, sizeof options, "path=%s", test_path("bad.gz"));
    for (size_t cut = 0; cut < n; cut++) {
        test_write("bad.gz", good, cut);
        ASSERT_FAILS(lk_dataset_open("idx", options, LK_TRAIN, &ds), LK_EIO, "/bad.gz: offset ");
    }
    int refused = 0;
    for (size_t bit = 0; bit < 8 * n; bit++) {
        memcpy(bad, good, n);
        bad[bit / 8] ^= (unsigned char)(1 << bit % 8);
        test_write("bad.gz", bad, n);
        refused += lk_dataset_open("idx", options, LK_TRAIN, &ds) != LK_OK;
        lk_dataset_free(ds);
        lk_error_clear();
    }
    /* Only time, system and flags of the header may change without being seen. */
    ASSERT_TRUE(refused >= (int)(8 * n) - 8 * 8);
    memcpy(bad, good, n);
    bad[n] = 7;
    test_write("bad.gz", bad, n + 1);
    ASSERT_FAILS(lk_dataset_open("idx", options, LK_TRAIN, &ds), LK_EIO, "offset");
    free(good);
    free(bad);
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

/* 128 MiB of zeros in 130 kB. */
TEST(a_bomb_is_refused_before_it_takes_memory)
{
    if (!lk__inflate_built())
        return;
    char command[600], options[300];
    snprintf(command, sizeof command, "head -c 134217728 /dev/zero | gzip -n1 >'%s'",
             test_path("bomb.gz"));
    ASSERT_EQ(system(command), 0);
    int64_t peak = lk_alloc_stats_now().peak_bytes;
    lk_dataset *ds;
    snprintf(options, sizeof options, "path=%s", test_path("bomb.gz"));
    lk_status st = lk_dataset_open("idx", options, LK_TRAIN, &ds);
    ASSERT_EQ(st, LK_EIO);
    ASSERT_TRUE(strstr(lk_error_message(), "which no data does"));
    lk_error_clear();
    ASSERT_TRUE(lk_alloc_stats_now().peak_bytes - peak < 1 << 20);
}

static lk_status open_scenario(void)
{
    static char options[300];
    snprintf(options, sizeof options, "path=%s", test_folder());
    lk_dataset *ds;
    lk_status st = lk_dataset_open("idx", options, LK_TRAIN, &ds);
    if (st == LK_OK)
        st = test_read_all(ds);
    if (st == LK_OK)
        st = lk_dataset_write(ds, "idx", test_path("again"));
    lk_dataset_free(ds);
    return st;
}

TEST(failed_allocations_leave_nothing)
{
    if (lk__inflate_built()) {
        write_packed("train-images-idx3-ubyte", images, sizeof images);
        write_packed("train-labels-idx1-ubyte", labels, sizeof labels);
    } else {
        test_write("train-images-idx3-ubyte", images, sizeof images);
        test_write("train-labels-idx1-ubyte", labels, sizeof labels);
    }
    ASSERT_TRUE(test_every_allocation_fails(open_scenario) >= (lk__inflate_built() ? 15 : 12));
}
