/* .npy and .npz: NumPy's own bytes, round trips, and damage. */
#include "data/arrays/npz.h"
#include "data/packed/crc32.h"
#include "data/packed/inflate.h"
#include "data_files.h"
#include "faults.h"
#include "tensors.h"

#include <lockstep/io.h>

/* numpy.save of numpy.arange(6, dtype="<f4").reshape(2, 3), by NumPy 1.24. */
static const char header[] =
    "\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }"
    "                                                          \n";

/* The file has the one tensor `t`. */
static void expect_back(const char *file, const lk_tensor *t)
{
    lk_tensors *back;
    ASSERT_OK(lk_tensors_load(test_path(file), &back));
    ASSERT_EQ(back->n, 1);
    ASSERT_TRUE(lk_tensor_is_equal(t, back->tensor[0].tensor));
    lk_tensors_free(back);
}

TEST(a_tensor_is_saved_as_numpy_saves_it)
{
    unsigned char want[128 + 24];
    ASSERT_EQ(sizeof header - 1, 128);
    memcpy(want, header, 128);
    for (int i = 0; i < 6; i++)
        memcpy(want + 128 + 4 * i, &(float){(float)i}, 4);
    lk_tensor *t = test_iota(LK_F32, LK_SHAPE(2, 3)), *turned;
    ASSERT_OK(lk__npy_save(t, test_path("a.npy")));
    test_expect_file(test_path("a.npy"), want, sizeof want);
    expect_back("a.npy", t);
    ASSERT_OK(lk_tensor_transpose(t, 0, 1, &turned));
    ASSERT_FAILS(lk__npy_save(turned, test_path("b.npy")), LK_EINVAL, "not contiguous");
    lk_tensor_free(turned);
    lk_tensor_free(t);
}

TEST(every_dtype_and_shape_comes_back)
{
    const lk_shape shapes[] = {LK_SCALAR, LK_SHAPE(3), LK_SHAPE(0, 2),
                               LK_SHAPE(1, 2, 1, 2, 1, 2, 1, 2)};
    for (int dtype = 0; dtype < LK_N_DTYPES; dtype++)
        for (int i = 0; i < 4; i++) {
            lk_tensor *t;
            ASSERT_OK(lk_tensor_zeros((lk_dtype)dtype, shapes[i], &t));
            if (dtype == LK_BF16) {
                ASSERT_FAILS(lk__npy_save(t, test_path("c.npy")), LK_ENOTSUP, "no type for bf16");
                ASSERT_TRUE(access(test_path("c.npy.part"), F_OK) != 0);
            } else {
                ASSERT_OK(lk_tensor_fill_i64(t, 7));
                ASSERT_OK(lk__npy_save(t, test_path("c.npy")));
                expect_back("c.npy", t);
            }
            lk_tensor_free(t);
        }
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

/* Read a file of version `major` with this dictionary and `n` bytes behind it. */
static lk_status read_dictionary(int major, const char *text, size_t n, lk__npy *out)
{
    static unsigned char bytes[4096];
    size_t start = major == 1 ? 10 : 12, length = strlen(text);
    memset(bytes, 0, sizeof bytes);
    memcpy(bytes, "\x93NUMPY", 6);
    bytes[6] = (unsigned char)major;
    bytes[8] = (unsigned char)length;
    bytes[9] = (unsigned char)(length >> 8);
    memcpy(bytes + start, text, length);
    lk__source *s;
    LK_TRY(lk__source_memory("it.npy", bytes, (int64_t)(start + length + n), &s));
    lk_status st = lk__npy_read(s, NULL, 0, lk__source_size(s), out);
    lk__source_free(s);
    return st;
}

TEST(other_writers_headers_are_read)
{
    lk__npy a;
    ASSERT_OK(read_dictionary(1, "{'shape':(2,),'fortran_order':True,'descr':'>i8'}", 16, &a));
    ASSERT_TRUE(a.swap && a.dtype == LK_I64 && lk_shape_is_equal(a.shape, LK_SHAPE(2)));
    ASSERT_OK(
        read_dictionary(2, "{\"descr\": \"|b1\", 'fortran_order': False, 'shape': ()}\n", 1, &a));
    ASSERT_TRUE(a.dtype == LK_U8 && a.shape.ndim == 0 && a.offset == 12 + 54);
    ASSERT_OK(
        read_dictionary(3, "{'descr': '=f8', 'fortran_order': False, 'shape': (0, 5,), }", 0, &a));
}

TEST(wrong_headers_are_refused)
{
    static const struct {
        const char *text;
        lk_status status;
        const char *why;
    } wrong[] = {
        {"{'descr': '<f4', 'fortran_order': True, 'shape': (1, 1), }", LK_ENOTSUP, "Fortran order"},
        {"{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }", LK_ENOTSUP,
         "the array is of dtype \"<c8\", which is not read; arrays are of bool, uint8, int32"},
        {"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", LK_ENOTSUP, "|O"},
        {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", LK_ENOTSUP,
         "structures"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,)", LK_EIO, "does not end"},
        {"{'descr': '<f4', 'fortran_order': False, }", LK_EIO, "a key is missing"},
        {"{'descr': '<f4', 'descr': '<f4', 'shape': (1,), }", LK_EIO, "twice"},
        {"{'descr': '<f4', 'order': False, 'shape': (1,), }", LK_EIO, "no header has"},
        {"{'descr': '<f4', 'fortran_order': 1, 'shape': (1,), }", LK_EIO, "neither True"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1), }", LK_EIO, "no tuple"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", LK_EIO, "a size is missing"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }", LK_EIO,
         "more than 63 bits"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4194305, 4194305, 211106198978564), }",
         LK_EOVERFLOW, ""},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1), }", LK_ENOTSUP,
         "more than 8 axes"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", LK_EIO,
         "f32[2] has 8 bytes, but 4 follow"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,), } x", LK_EIO, "behind"},
        {"import os", LK_EIO, "no dictionary"},
        {"", LK_EIO, "no dictionary"},
    };
    lk__npy a;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        ASSERT_FAILS(read_dictionary(1, wrong[i].text, 4, &a), wrong[i].status, wrong[i].why);
    ASSERT_FAILS(read_dictionary(4, wrong[0].text, 4, &a), LK_ENOTSUP, "version 4.0");
}

TEST(arrays_are_a_dataset)
{
    char options[900];
    lk_dataset *ds;
    lk_tensor *x = test_iota(LK_F64, LK_SHAPE(3, 4)), *y = test_iota(LK_I32, LK_SHAPE(3, 1));
    ASSERT_OK(lk__npy_save(x, test_path("x.npy")));
    ASSERT_OK(lk__npy_save(y, test_path("y.npy")));
    const char *px = test_path("x.npy"), *py = test_path("y.npy");
    snprintf(options, sizeof options, "path=%s labels=%s shape=2,2,1", px, py);
    ASSERT_OK(lk_dataset_open("npy", options, LK_TRAIN, &ds));
    ASSERT_EQ(lk_dataset_info_of(ds)->classes, 3);
    ASSERT_TRUE(lk_shape_is_equal(lk_dataset_info_of(ds)->field[0].shape, LK_SHAPE(2, 2, 1)));
    ASSERT_EQ(test_label(ds, 2), 2);
    double row[4];
    test_sample(ds, "x", 1, row);
    ASSERT_TRUE(row[0] == 4 && row[3] == 7);
    lk_dataset_free(ds);
    snprintf(options, sizeof options, "path=%s labels=%s", px, px);
    ASSERT_OK(lk_dataset_open("npy", options, LK_TRAIN, &ds)); /* real targets */
    ASSERT_EQ(lk_dataset_info_of(ds)->classes, 0);
    ASSERT_OK(lk_dataset_write(ds, NULL, test_path("both.npz")));
    ASSERT_FAILS(lk_dataset_write(ds, NULL, test_path("both.npy")), LK_ENOTSUP, "write .npz");
    lk_dataset_free(ds);
    snprintf(options, sizeof options, "path=%s labels=%s", py, test_path("a.npy"));
    ASSERT_FAILS(lk_dataset_open("npy", options, LK_TRAIN, &ds), LK_EIO, "y has 2 samples");
    lk_tensor_free(x);
    lk_tensor_free(y);
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

/* ---- archives ---- */

TEST(the_crc_has_its_check_value)
{
    ASSERT_EQ(lk__crc32(0, "123456789", 9), 0xcbf43926);
    ASSERT_EQ(lk__crc32(lk__crc32(0, "12345", 5), "6789", 4), 0xcbf43926);
}

static void save_archive(const char *path)
{
    lk_tensor *x = test_iota(LK_U8, LK_SHAPE(3, 2)), *y = test_iota(LK_I64, LK_SHAPE(3));
    lk__zip_out *z;
    ASSERT_OK(lk__zip_create(path, &z));
    ASSERT_OK(lk__npz_add(z, "x", x));
    ASSERT_OK(lk__npz_add(z, "y", y));
    ASSERT_OK(lk__zip_end(z, LK_OK));
    lk_tensor_free(x);
    lk_tensor_free(y);
}

/* Offsets and values from the description of zip (APPNOTE 6.3). */
TEST(an_archive_has_the_published_bytes)
{
    save_archive(test_path("set.npz"));
    size_t n;
    unsigned char *b = test_read(test_path("set.npz"), &n);
    uint32_t crc = lk__crc32(0, b + 35, 134);
    const unsigned char local[] = {'P',  'K', 3, 4, 20, 0, 0,   0,   0,   0,   0,   0,
                                   0x21, 0,   0, 0, 0,  0, 134, 0,   0,   0,   134, 0,
                                   0,    0,   5, 0, 0,  0, 'x', '.', 'n', 'p', 'y'};
    ASSERT_EQ(n, (35 + 134) + (35 + 128 + 24) + 2 * (46 + 5) + 22);
    ASSERT_SAME_BITS(b, local, 14);
    ASSERT_SAME_BITS(b + 14, &crc, 4);
    ASSERT_SAME_BITS(b + 18, local + 18, sizeof local - 18);
    size_t directory = 169 + 187;
    const unsigned char entry[] = {'P', 'K', 1, 2, 45, 3, 20, 0, 0, 0, 0, 0, 0, 0, 0x21, 0};
    ASSERT_SAME_BITS(b + directory, entry, sizeof entry);
    ASSERT_SAME_BITS(b + directory + 16, &crc, 4);
    const unsigned char second[] = {169, 0, 0, 0, 'y', '.', 'n', 'p', 'y'};
    ASSERT_SAME_BITS(b + directory + 51 + 42, second, sizeof second);
    const unsigned char end[] = {'P', 'K', 5, 6, 0, 0,         0,        0, 2, 0, 2,
                                 0,   102, 0, 0, 0, 356 & 255, 356 >> 8, 0, 0, 0, 0};
    ASSERT_SAME_BITS(b + n - 22, end, sizeof end);
    free(b);
}

TEST(an_archive_is_a_dataset_and_damage_is_refused)
{
    char options[300];
    lk_dataset *ds;
    save_archive(test_path("set.npz"));
    snprintf(options, sizeof options, "path=%s", test_path("set.npz"));
    ASSERT_OK(lk_dataset_open("npz", options, LK_TRAIN, &ds));
    ASSERT_EQ(lk_dataset_info_of(ds)->count, 3);
    ASSERT_EQ(test_label(ds, 2), 2);
    uint64_t hash, again;
    ASSERT_OK(lk_dataset_hash(ds, &hash));
    ASSERT_OK(lk_dataset_write(ds, NULL, test_path("again.npz")));
    lk_dataset_free(ds);
    ASSERT_OK(lk_dataset_open("npz", options, LK_TEST, &ds));
    ASSERT_TRUE(!ds);
    size_t n;
    unsigned char *good = test_read(test_path("set.npz"), &n);
    test_expect_file(test_path("again.npz"), good, n);
    snprintf(options, sizeof options, "path=%s", test_path("bad.npz"));
    int refused = test_damage("npz", options, "bad.npz", good, n);
    /* Under no checksum: versions, dates, sizes and names that are in the archive twice. */
    ASSERT_TRUE(refused > 8 * (int)(n - 2 * 30 - 2 * 46 - 22));
    ASSERT_OK(lk_dataset_open("npz", options, LK_TRAIN, &ds));
    ASSERT_OK(lk_dataset_hash(ds, &again));
    ASSERT_EQ(hash, again);
    lk_dataset_free(ds);
    free(good);
}

TEST(names_of_arrays_tell_the_sets)
{
    char options[300];
    lk_dataset *ds;
    lk_tensor *x = test_iota(LK_U8, LK_SHAPE(4, 2)), *y = test_iota(LK_U8, LK_SHAPE(4));
    lk__zip_out *z;
    ASSERT_OK(lk__zip_create(test_path("keras.npz"), &z));
    ASSERT_OK(lk__npz_add(z, "x_test", y));
    ASSERT_OK(lk__npz_add(z, "x_train", x));
    ASSERT_OK(lk__npz_add(z, "y_train", y));
    ASSERT_OK(lk__zip_end(z, LK_OK));
    snprintf(options, sizeof options, "path=%s", test_path("keras.npz"));
    ASSERT_OK(lk_dataset_open("npz", options, LK_TRAIN, &ds));
    ASSERT_EQ(lk_dataset_info_of(ds)->classes, 4);
    lk_dataset_free(ds);
    ASSERT_OK(lk_dataset_open("npz", options, LK_TEST, &ds));
    ASSERT_EQ(lk_dataset_info_of(ds)->n_fields, 1);
    lk_dataset_free(ds);
    snprintf(options, sizeof options, "path=%s x=z", test_path("keras.npz"));
    ASSERT_FAILS(lk_dataset_open("npz", options, LK_TRAIN, &ds), LK_EIO, "no array \"z\"");
    lk_tensor_free(x);
    lk_tensor_free(y);
}

TEST(an_array_that_is_not_read_is_named_with_its_file)
{
    char bytes[128 + 12] = {0}, options[300];
    lk_dataset *ds;
    lk__zip_out *z;
    memcpy(bytes, header, 128);
    memcpy(strstr(bytes + 10, "<f4"), "<i2", 3);
    ASSERT_OK(lk__zip_create(test_path("short.npz"), &z));
    ASSERT_OK(lk__zip_begin(z, "x_train.npy", sizeof bytes, lk__crc32(0, bytes, sizeof bytes)));
    ASSERT_OK(lk__zip_write(z, bytes, sizeof bytes));
    ASSERT_OK(lk__zip_end(z, LK_OK));
    snprintf(options, sizeof options, "path=%s", test_path("short.npz"));
    ASSERT_FAILS(lk_dataset_open("npz", options, LK_TRAIN, &ds), LK_ENOTSUP,
                 "/short.npz: array \"x_train\" is of dtype \"<i2\", which is not read; arrays are "
                 "of bool, uint8, int32, int64, float16, float32 or float64: convert it (astype in "
                 "NumPy) and save it again");
    snprintf(options, sizeof options, "path=%s", test_write("short.npy", bytes, sizeof bytes));
    ASSERT_FAILS(lk_dataset_open("npy", options, LK_TRAIN, &ds), LK_ENOTSUP,
                 "/short.npy: the array is of dtype \"<i2\", which is not read");
}

/* A deflated member, made by hand: one stored block, which needs no compressor. */
TEST(deflated_members_are_unpacked)
{
    if (!lk__inflate_built())
        return;
    save_archive(test_path("set.npz"));
    size_t n;
    unsigned char *b = test_read(test_path("set.npz"), &n), packed[2048];
    size_t at = 35;
    memcpy(packed, b, at);
    packed[8] = 8;        /* method */
    packed[18] = 134 + 5; /* packed size */
    packed[at++] = 1;     /* the last block, stored */
    packed[at++] = 134, packed[at++] = 0, packed[at++] = (unsigned char)~134U, packed[at++] = 0xff;
    memcpy(packed + at, b + 35, n - 35);
    size_t directory = 356 + 5;
    packed[directory + 10] = 8;
    packed[directory + 20] = 134 + 5;
    packed[directory + 51 + 42] = 169 + 5;
    packed[n + 5 - 6] = (unsigned char)directory;
    packed[n + 5 - 5] = (unsigned char)(directory >> 8);
    char options[300];
    lk_dataset *ds;
    uint64_t hash, again;
    snprintf(options, sizeof options, "path=%s", test_path("set.npz"));
    ASSERT_OK(lk_dataset_open("npz", options, LK_TRAIN, &ds));
    ASSERT_OK(lk_dataset_hash(ds, &hash));
    lk_dataset_free(ds);
    snprintf(options, sizeof options, "path=%s", test_write("packed.npz", packed, n + 5));
    ASSERT_OK(lk_dataset_open("npz", options, LK_TRAIN, &ds));
    ASSERT_OK(lk_dataset_hash(ds, &again));
    ASSERT_EQ(hash, again);
    lk_dataset_free(ds);
    test_damage("npz", options, "packed.npz", packed, n + 5);
    free(b);
}

static lk_status round_trip(void)
{
    char options[300];
    lk_dataset *ds;
    snprintf(options, sizeof options, "path=%s", test_path("set.npz"));
    lk_status st = lk_dataset_open("npz", options, LK_TRAIN, &ds);
    if (st == LK_OK)
        st = lk_dataset_write(ds, NULL, test_path("f.npz"));
    lk_dataset_free(ds);
    return st;
}

TEST(failed_allocations_leave_nothing)
{
    ASSERT_TRUE(test_every_allocation_fails(round_trip) >= 15);
}
