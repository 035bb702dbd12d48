/* Safetensors: exact bytes out, and what is written comes back. */
#include "data_files.h"
#include "faults.h"
#include "safetensors_file.h"
#include "tensors.h"

TEST(a_file_has_the_bytes_of_the_published_format)
{
    static const char header[] =
        "{\"__metadata__\":{\"a\":\"b\\\"\"},"
        "\"w\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,16]},"
        "\"n.k\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[16,24]},"
        "\"e\":{\"dtype\":\"U8\",\"shape\":[3,0],\"data_offsets\":[24,24]}}    ";
    static const unsigned char data[] = {0, 0, 0,  0,  0,    0,    128, 63,  0,   0,   0,   64,
                                         0, 0, 64, 64, 0xfe, 0xff, 255, 255, 255, 255, 255, 255};
    lk_tensor *w = test_iota(LK_F32, LK_SHAPE(2, 2)), *k, *e;
    unsigned char want[512];
    ASSERT_OK(lk_tensor_new(LK_I64, LK_SCALAR, &k));
    ASSERT_OK(lk_tensor_set_i64(k, LK_SCALAR, -2));
    ASSERT_OK(lk_tensor_new(LK_U8, LK_SHAPE(3, 0), &e));
    ASSERT_OK(lk_safetensors_write(test_path("f"),
                                   (lk_named_tensor[]){{"w", w}, {"n.k", k}, {"e", e}}, 3,
                                   &(lk_metadata){"a", "b\""}, 1));
    lk__put_le(want, 8, strlen(header));
    memcpy(want + 8, header, strlen(header));
    memcpy(want + 8 + strlen(header), data, sizeof data);
    ASSERT_EQ(strlen(header) % 8, 0);
    test_expect_file(test_path("f"), want, 8 + strlen(header) + sizeof data);
    lk_tensor_free(w);
    lk_tensor_free(k);
    lk_tensor_free(e);
}

TEST(every_dtype_and_view_comes_back)
{
    static const struct {
        lk_dtype dtype;
        lk_shape shape;
    } cases[] = {{LK_F32, LK_DIMS(3, 5)},
                 {LK_F64, LK_DIMS(7)},
                 {LK_F16, LK_DIMS(2, 1, 3)},
                 {LK_BF16, LK_DIMS(1)},
                 {LK_I32, LK_DIMS(1, 2, 3, 4)},
                 {LK_I64, LK_DIMS(2, 2)},
                 {LK_U8, LK_DIMS(1, 1, 1, 1, 1, 1, 1, 5)}};
    enum { N = sizeof cases / sizeof cases[0] };
    static const char *const names[N] = {"z", "y", "x", "w", "a/\xc3\xa9 \"\\", "b", "c"};
    lk_named_tensor named[N + 1];
    for (int i = 0; i < N; i++)
        named[i] = (lk_named_tensor){names[i], test_iota(cases[i].dtype, cases[i].shape)};
    named[N].name = "turned";
    ASSERT_OK(lk_tensor_transpose(named[0].tensor, 0, 1, &named[N].tensor));
    const char *path = test_path("round.safetensors");
    ASSERT_OK(lk_safetensors_write(path, named, N + 1, NULL, 0));
    lk_safetensors *f;
    ASSERT_OK(lk_safetensors_open(path, &f));
    ASSERT_EQ(lk_safetensors_count(f), N + 1);
    ASSERT_EQ(lk_safetensors_metadata_count(f), 0);
    for (int i = 0; i <= N; i++) {
        lk_safetensors_info t;
        lk_tensor *read;
        ASSERT_EQ(lk_safetensors_find(f, named[i].name), i);
        ASSERT_OK(lk_safetensors_at(f, i, &t));
        ASSERT_TRUE(strcmp(t.name, named[i].name) == 0);
        ASSERT_OK(lk_tensor_new(t.dtype, t.shape, &read));
        ASSERT_OK(lk_safetensors_read(f, i, read));
        ASSERT_TRUE(lk_tensor_is_equal(read, named[i].tensor));
        lk_tensor_free(read);
        lk_tensor_free(named[i].tensor);
    }
    ASSERT_EQ(lk_safetensors_find(f, "v"), -1);
    lk_safetensors_close(f);
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

TEST(notes_come_back)
{
    const lk_metadata notes[] = {{"b", "line\nline"}, {"a", ""}, {"\xc3\xa9", "\xf0\x9f\x98\x80"}};
    lk_safetensors *f;
    lk_metadata note;
    char *large = malloc(2000001);
    memset(large, 'x', 2000000);
    large[2000000] = '\0';
    ASSERT_OK(lk_safetensors_write(test_path("n"), NULL, 0, notes, 3));
    ASSERT_OK(lk_safetensors_open(test_path("n"), &f));
    ASSERT_EQ(lk_safetensors_count(f), 0);
    ASSERT_EQ(lk_safetensors_metadata_count(f), 3);
    ASSERT_TRUE(strcmp(lk_safetensors_metadata(f, "b"), "line\nline") == 0);
    ASSERT_TRUE(strcmp(lk_safetensors_metadata(f, "a"), "") == 0);
    ASSERT_TRUE(strcmp(lk_safetensors_metadata(f, "\xc3\xa9"), "\xf0\x9f\x98\x80") == 0);
    ASSERT_TRUE(!lk_safetensors_metadata(f, "c"));
    ASSERT_OK(lk_safetensors_metadata_at(f, 0, &note));
    ASSERT_TRUE(strcmp(note.name, "a") == 0);
    ASSERT_FAILS(lk_safetensors_metadata_at(f, 3, &note), LK_EINVAL, "metadata 3 of 3");
    lk_safetensors_close(f);
    ASSERT_OK(lk_safetensors_write(test_path("n"), NULL, 0, &(lk_metadata){"large", large}, 1));
    ASSERT_OK(lk_safetensors_open(test_path("n"), &f));
    ASSERT_TRUE(strcmp(lk_safetensors_metadata(f, "large"), large) == 0);
    lk_safetensors_close(f);
    free(large);
}

TEST(what_cannot_be_written_is_refused_and_leaves_no_file)
{
    lk_tensor *t = test_iota(LK_U8, LK_SHAPE(1));
    const char *path = test_path("never");
    char *large = malloc((16 << 20) + 1);
    memset(large, 'x', 16 << 20);
    large[16 << 20] = '\0';
#define WRITE(name1, name2) \
    lk_safetensors_write(path, (lk_named_tensor[]){{name1, t}, {name2, t}}, 2, NULL, 0)
    ASSERT_FAILS(WRITE("a", "a"), LK_EINVAL, "the tensor \"a\" is there twice");
    ASSERT_FAILS(WRITE("a", ""), LK_EINVAL, "a tensor has an empty name");
    ASSERT_FAILS(WRITE("a", NULL), LK_EINVAL, "tensor 1 or its name is NULL");
    ASSERT_FAILS(WRITE("__metadata__", "a"), LK_EINVAL, "cannot be named __metadata__");
    ASSERT_FAILS(WRITE("a", "\xff"), LK_EINVAL, "not UTF-8");
    ASSERT_FAILS(WRITE("a", large), LK_EINVAL, "a file has room for 16777216");
#define NOTE(...) lk_safetensors_write(path, NULL, 0, (lk_metadata[]){__VA_ARGS__}, 2)
    ASSERT_FAILS(NOTE({"a", "x"}, {"a", "y"}), LK_EINVAL, "the metadata \"a\" is there twice");
    ASSERT_FAILS(NOTE({"a", "x"}, {"b", "\xc0"}), LK_EINVAL, "text of metadata \"b\" is not UTF-8");
    ASSERT_FAILS(NOTE({"a", "x"}, {"b", NULL}), LK_EINVAL, "metadata 1 or its name is NULL");
    ASSERT_TRUE(access(path, F_OK) != 0);
    ASSERT_FAILS(lk_safetensors_write("/nowhere/f", NULL, 0, NULL, 0), LK_EIO, "/nowhere/f");
    ASSERT_FAILS(lk_safetensors_write(NULL, NULL, 0, NULL, 0), LK_EINVAL, "path is NULL");
    lk_tensor_free(t);
    free(large);
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

TEST(reading_needs_a_tensor_that_fits)
{
    size_t n;
    unsigned char *bytes = file_make("{" ONE "," TWO "}", 6, &n);
    lk_safetensors *f;
    lk_safetensors_info info;
    lk_tensor *wide = test_iota(LK_U8, LK_SHAPE(4, 2)), *column, *f32, *other;
    ASSERT_OK(file_parse(bytes, n, &f));
    ASSERT_OK(lk_tensor_select(wide, 1, 0, &column));
    ASSERT_OK(lk_tensor_new(LK_F32, LK_SHAPE(4), &f32));
    ASSERT_OK(lk_tensor_new(LK_U8, LK_SHAPE(2, 2), &other));
    ASSERT_FAILS(lk_safetensors_read(f, 0, column), LK_ESHAPE, "a is [4]");
    ASSERT_FAILS(lk_safetensors_read(f, 0, f32), LK_EDTYPE,
                 "a is u8, the tensor to read into f32[4]");
    ASSERT_FAILS(lk_safetensors_read(f, 0, other), LK_ESHAPE,
                 "a is [4], the tensor to read into u8[2,2]");
    ASSERT_FAILS(lk_safetensors_read(f, 2, other), LK_EINVAL, "tensor 2 of 2");
    ASSERT_FAILS(lk_safetensors_at(f, -1, &info), LK_EINVAL, "tensor -1 of 2");
    lk_tensor_free(wide);
    lk_tensor_free(column);
    lk_tensor_free(f32);
    lk_tensor_free(other);
    lk_safetensors_close(f);
    free(bytes);
    ASSERT_FAILS(lk_safetensors_open("/nowhere/x", &f), LK_EIO, "/nowhere/x: cannot be opened");
    ASSERT_FAILS(lk_safetensors_open(test_folder(), &f), LK_EIO, "a folder, not a file");
}

static lk_status write_and_read(void)
{
    lk_status st;
    lk_tensor *t = NULL, *turned = NULL;
    lk_safetensors *f = NULL;
    const char *path = test_path("faults");
    LK_TRY_TO(done, lk_tensor_zeros(LK_F32, LK_SHAPE(2, 3), &t));
    LK_TRY_TO(done, lk_tensor_transpose(t, 0, 1, &turned));
    LK_TRY_TO(done, lk_safetensors_write(path, (lk_named_tensor[]){{"a", t}, {"b", turned}}, 2,
                                         &(lk_metadata){"k", "v"}, 1));
    LK_TRY_TO(done, lk_safetensors_open(path, &f));
    LK_TRY_TO(done, lk_safetensors_read(f, 0, t));
done:
    lk_safetensors_close(f);
    lk_tensor_free(turned);
    lk_tensor_free(t);
    return st;
}

TEST(every_allocation_may_fail)
{
    ASSERT_TRUE(test_every_allocation_fails(write_and_read) > 10);
}

/* A program of another language, which knows nothing of this library, reads the file. */
TEST(python_reads_the_file)
{
    lk_tensor *w = test_iota(LK_F32, LK_SHAPE(2, 3)), *k = test_iota(LK_I64, LK_SHAPE(4));
    char command[600];
    if (system("python3 -c '' 2>/dev/null") != 0) {
        printf("there is no python3\n");
        lk_tensor_free(w);
        lk_tensor_free(k);
        return;
    }
    ASSERT_OK(lk_safetensors_write(test_path("p"),
                                   (lk_named_tensor[]){{"w", w}, {"k \"\xc3\xa9\"", k}}, 2,
                                   &(lk_metadata){"note", "a\tb"}, 1));
    snprintf(command, sizeof command, "python3 tests/unit/io/read_safetensors.py '%s'",
             test_path("p"));
    ASSERT_EQ(system(command), 0);
    lk_tensor_free(w);
    lk_tensor_free(k);
}
