/* Sets of records in many files, and fields by the features that options name. */
#include "data/example.h"
#include "data/inflate.h"
#include "data/tfrecord.h"
#include "data_files.h"
#include "faults.h"
#include "tensors.h"

#include <pthread.h>
#include <stdarg.h>
#include <sys/resource.h>

/* A record of some features at the end of a file. */
static void append(lk__sink *s, const lk__feature_out *f, int n)
{
    int64_t size = lk__example_size(f, n);
    unsigned char *bytes = malloc((size_t)size);
    lk__example_write(f, n, bytes);
    ASSERT_OK(lk__tfrecord_write(s, bytes, size));
    free(bytes);
}

/* Samples [first, end): x is [2][3][1] of bytes that count up, y the number of the sample modulo 5; as
 * others write them, without a note. */
static const char *foreign(const char *file, int64_t first, int64_t end)
{
    const int64_t two = 2, three = 3, one = 1;
    lk__sink *s;
    ASSERT_OK(lk__sink_open(test_path(file), &s));
    for (int64_t i = first; i < end; i++) {
        unsigned char x[6];
        int64_t y = i % 5;
        for (int k = 0; k < 6; k++)
            x[k] = (unsigned char)(i * 6 + k);
        const lk__feature_out f[] = {
            {"depth", LK_FEATURE_INTS, &one, 1},   {"height", LK_FEATURE_INTS, &two, 1},
            {"image_raw", LK_FEATURE_BYTES, x, 6}, {"label", LK_FEATURE_INTS, &y, 1},
            {"name", LK_FEATURE_BYTES, "any", 3},  {"width", LK_FEATURE_INTS, &three, 1}};
        append(s, f, 6);
    }
    ASSERT_OK(lk__sink_close(s));
    return test_path(file);
}

enum { N = 4 };

/* One record of each of these lists, N times. */
static const char *of_features(const char *file, const lk__feature_out *f, int n)
{
    lk__sink *s;
    ASSERT_OK(lk__sink_open(test_path(file), &s));
    for (int i = 0; i < N; i++)
        append(s, f, n);
    ASSERT_OK(lk__sink_close(s));
    return test_path(file);
}

static lk_status try_open(const char *options, lk_dataset **out)
{
    return lk_dataset_open("tfrecord", options, LK_TRAIN, out);
}

LK_PRINTF(1, 2) static lk_dataset *open_at(const char *format, ...)
{
    char options[1000];
    lk_dataset *ds;
    va_list args;
    va_start(args, format);
    vsnprintf(options, sizeof options, format, args);
    va_end(args);
    ASSERT_OK(try_open(options, &ds));
    return ds;
}

static uint64_t hash_and_free(lk_dataset *ds)
{
    uint64_t hash;
    ASSERT_OK(lk_dataset_hash(ds, &hash));
    lk_dataset_free(ds);
    return hash;
}

#define REFUSED(status, text, ...)                            \
    do {                                                      \
        char options_[1000];                                  \
        lk_dataset *ds_;                                      \
        snprintf(options_, sizeof options_, __VA_ARGS__);     \
        ASSERT_FAILS(try_open(options_, &ds_), status, text); \
    } while (0)

static void a_folder_a_pattern_and_a_list_are_one_set(void)
{
    uint64_t want = hash_and_free(open_at("path=%s", foreign("all", 0, 23)));
    ASSERT_EQ(mkdir(test_path("folder"), 0777), 0);
    foreign("folder/b-10.tfrecord", 7, 7); /* names, not numbers: 10 comes before 2 */
    foreign("folder/b-2.tfrecord", 7, 20);
    foreign("folder/B.tfrecord", 0, 7); /* bytes, not letters */
    foreign("folder/c.tfrecords", 20, 23);
    foreign("folder/c.tfrecord.part", 0, 5);
    foreign("folder/other", 0, 5);
    foreign("folder/.hidden.tfrecord", 0, 5);
    ASSERT_EQ(hash_and_free(open_at("path=%s", test_path("folder"))), want);
    ASSERT_EQ(hash_and_free(open_at("path=%s/*.tfrecord*", test_path("folder"))), want);
    ASSERT_EQ(hash_and_free(open_at("path=%s/[bBc]*.tfrecord*", test_path("folder"))), want);
    ASSERT_EQ(hash_and_free(open_at("path=%s/[bB]*d,%s", test_path("folder"),
                                    test_path("folder/c.tfrecords"))),
              want);
    /* in a list, files are in the order it has */
    lk_dataset *ds = open_at("path=%s,%s", test_path("folder/c.tfrecords"), test_path("all"));
    ASSERT_EQ(lk_dataset_info_of(ds)->count, 26);
    ASSERT_EQ(test_label(ds, 1), 21 % 5);
    ASSERT_EQ(test_label(ds, 3), 0);
    lk_dataset_free(ds);
    /* a path that exists is meant as it is */
    ASSERT_EQ(hash_and_free(open_at("path=%s", foreign("a,b*", 0, 23))), want);
    REFUSED(LK_EIO, "none-*: there is no such file or folder; it is a file, a folder",
            "path=%s/none-*", test_folder());
    REFUSED(LK_EIO, "/gone: there is no such file or folder", "path=%s,%s", test_path("all"),
            test_path("gone"));
    REFUSED(LK_EINVAL, "nothing stands between two commas", "path=%s,", test_path("all"));
    ASSERT_EQ(mkdir(test_path("bare"), 0777), 0);
    REFUSED(LK_EIO, "bare: no file in this folder has .tfrecord in its name", "path=%s",
            test_path("bare"));
    REFUSED(LK_EIO, "there is no record in it", "path=%s", test_path("folder/b-10.tfrecord"));
}

static void numbered_files_are_complete(void)
{
    ASSERT_EQ(mkdir(test_path("numbered"), 0777), 0);
    foreign("numbered/t-00000-of-00003.tfrecord", 0, 4);
    foreign("numbered/t-00002-of-00003.tfrecord", 8, 12);
    REFUSED(LK_EIO, "t-00001-of-00003.tfrecord is missing: ", "path=%s", test_path("numbered"));
    REFUSED(LK_EIO, "t-00001-of-00003.tfrecord is missing: ", "path=%s/t-*", test_path("numbered"));
    /* who names some has some */
    lk_dataset *ds = open_at("path=%s/t-0000[02]-*", test_path("numbered"));
    ASSERT_EQ(lk_dataset_info_of(ds)->count, 8);
    lk_dataset_free(ds);
    foreign("numbered/t-00001-of-00003.tfrecord", 4, 8);
    lk_dataset_free(open_at("path=%s", test_path("numbered")));
    foreign("numbered/t-00000-of-00001.tfrecord", 0, 4);
    REFUSED(LK_EIO, "they are not of one set", "path=%s/t-*", test_path("numbered"));
    /* as others number them, and what is no number */
    ASSERT_EQ(mkdir(test_path("tfds"), 0777), 0);
    foreign("tfds/m-train.tfrecord-00000-of-00002", 0, 4);
    foreign("tfds/one-of-us.tfrecord", 0, 4);
    REFUSED(LK_EIO, "m-train.tfrecord-00001-of-00002 is missing", "path=%s", test_path("tfds"));
}

/* ---- packed files ---- */

/* The bytes of a file as zlib wraps them, without packing them: 78 01, one stored block, Adler-32. */
static const char *wrapped(const char *from, const char *to)
{
    size_t n;
    uint32_t a = 1, b = 0;
    unsigned char *in = test_read(from, &n), *out = malloc(n + 11);
    ASSERT_TRUE(n < 65536);
    const unsigned char head[] = {0x78,
                                  1,
                                  1,
                                  (unsigned char)n,
                                  (unsigned char)(n >> 8),
                                  (unsigned char)~n,
                                  (unsigned char)(~n >> 8)};
    memcpy(out, head, sizeof head);
    memcpy(out + sizeof head, in, n);
    for (size_t i = 0; i < n; i++) {
        a = (a + in[i]) % 65521;
        b = (b + a) % 65521;
    }
    for (int i = 0; i < 4; i++)
        out[n + 7 + (size_t)i] = (unsigned char)((b << 16 | a) >> (24 - 8 * i));
    test_write(to, out, n + 11);
    free(in);
    free(out);
    return test_path(to);
}

static void packed_files_are_told_by_their_bytes(void)
{
    char command[600];
    if (!lk__inflate_built())
        return;
    uint64_t want = hash_and_free(open_at("path=%s", foreign("plain", 0, 23)));
    snprintf(command, sizeof command, "gzip -c '%s' >'%s'", test_path("plain"),
             test_path("zipped"));
    ASSERT_EQ(system(command), 0);
    ASSERT_EQ(hash_and_free(open_at("path=%s", test_path("zipped"))), want);
    ASSERT_EQ(hash_and_free(open_at("path=%s", wrapped(test_path("plain"), "wrapped"))), want);
    /* one that is packed beside one that is not */
    foreign("a.tfrecord", 0, 10);
    foreign("b.tfrecord", 10, 23);
    wrapped(test_path("b.tfrecord"), "c.tfrecord");
    ASSERT_EQ(
        hash_and_free(open_at("path=%s,%s", test_path("a.tfrecord"), test_path("c.tfrecord"))),
        want);
    /* a record of 40056 bytes begins as zlib does: 78 9c */
    unsigned char *x = calloc(1, 40056);
    lk__feature_out f = {"image_raw", LK_FEATURE_BYTES, x, 40056};
    f.n -= lk__example_size(&f, 1) - 40056;
    ASSERT_EQ(lk__example_size(&f, 1), 40056);
    lk_dataset *ds = open_at("path=%s", of_features("like", &f, 1));
    ASSERT_EQ(lk_dataset_info_of(ds)->count, N);
    lk_dataset_free(ds);
    free(x);
}

/* With the number of classes known, opening looks at lengths and at the first record. */
static void checksums_are_checked_when_records_are_read(void)
{
    size_t n;
    int64_t value;
    const char *path = foreign("damaged", 0, 9);
    unsigned char *bytes = test_read(path, &n);
    int64_t each = (int64_t)n / 9;
    bytes[5 * each + 40] ^= 4;
    test_write("damaged", bytes, n);
    free(bytes);
    char text[100];
    snprintf(text, sizeof text, "damaged: record 5, offset %lld: the checksum of its %lld bytes",
             (long long)(5 * each), (long long)each - 16);
    REFUSED(LK_EIO, text, "path=%s", path); /* all labels are read */
    lk_dataset *ds = open_at("path=%s classes=5", path);
    lk_tensor *t[2] = {NULL, NULL};
    ASSERT_OK(lk_tensor_wrap(LK_I64, LK_SHAPE(1), &value, NULL, NULL, &t[1]));
    for (int again = 0; again < 2; again++)
        for (int64_t i = 8; i >= 0; i--)
            if (i == 5)
                ASSERT_FAILS(lk_dataset_read(ds, &i, 1, t), LK_EIO, text);
            else
                ASSERT_OK(lk_dataset_read(ds, &i, 1, t));
    lk_tensor_free(t[1]);
    lk_dataset_free(ds);
}

/* ---- fields ---- */

static void expect_field(const lk_dataset *ds, const char *name, lk_dtype dtype, lk_shape shape)
{
    int f = lk_dataset_find(ds, name);
    ASSERT_TRUE(f >= 0);
    lk_field field = lk_dataset_info_of(ds)->field[f];
    ASSERT_EQ(field.dtype, dtype);
    ASSERT_TRUE(lk_shape_is_equal(field.shape, shape));
}

static void options_say_what_bytes_are_and_what_shape_they_have(void)
{
    const float x[] = {1.5F, -2, 3, 4, 5, 6};
    const unsigned char y[] = {0, 2, 1, 2};
    const float w = 0.25F;
    const int64_t mask[] = {7, -1, 300};
    const lk__feature_out f[] = {{"pixels", LK_FEATURE_BYTES, x, sizeof x},
                                 {"classes", LK_FEATURE_BYTES, y, sizeof y},
                                 {"weight", LK_FEATURE_FLOATS, &w, 1},
                                 {"mask", LK_FEATURE_INTS, mask, 3},
                                 {"place", LK_FEATURE_BYTES, mask, 16}};
    const char *path = of_features("mapped", f, 5);
    lk_dataset *ds = open_at(
        "path=%s image=pixels dtype=f32 shape=3,2 label=classes label_dtype=u8 "
        "label_shape=2,2 fields=weight,mask,place:i64:2x1",
        path);
    float row[6], weight;
    int64_t label[4], place[2], ints[3];
    expect_field(ds, "x", LK_F32, LK_SHAPE(3, 2));
    expect_field(ds, "y", LK_I64, LK_SHAPE(2, 2));
    expect_field(ds, "weight", LK_F32, LK_SCALAR);
    expect_field(ds, "mask", LK_I64, LK_SHAPE(3));
    expect_field(ds, "place", LK_I64, LK_SHAPE(2, 1));
    ASSERT_EQ(lk_dataset_info_of(ds)->classes, 3);
    test_sample(ds, "x", 2, row);
    test_sample(ds, "y", 2, label);
    test_sample(ds, "weight", 2, &weight);
    test_sample(ds, "mask", 2, ints);
    test_sample(ds, "place", 2, place);
    ASSERT_SAME_BITS(row, x, sizeof x);
    ASSERT_TRUE(label[0] == 0 && label[1] == 2 && label[2] == 1 && label[3] == 2);
    ASSERT_SAME_BITS(&weight, &w, sizeof w);
    ASSERT_SAME_BITS(ints, mask, sizeof mask);
    ASSERT_SAME_BITS(place, mask, sizeof place);
    lk_dataset_free(ds);
    ds = open_at("path=%s image=weight label=classes label_dtype=f16", path);
    expect_field(ds, "x", LK_F32, LK_SHAPE(1));
    expect_field(ds, "y", LK_F16, LK_SHAPE(2));
    ASSERT_EQ(lk_dataset_info_of(ds)->classes, 0);
    lk_dataset_free(ds);
    REFUSED(LK_EIO, "\"classes\" has 4 bytes, no whole number of f64",
            "path=%s image=pixels fields=classes:f64", path);
    REFUSED(LK_EIO, "record 0, offset 0: feature \"weight\" has floats, not bytes that could be u8",
            "path=%s image=weight dtype=u8", path);
    REFUSED(LK_EIO, "record 0, offset 0: the record has no feature \"depth\" with values",
            "path=%s image=pixels fields=depth", path);
    REFUSED(LK_EINVAL, "\"x\": a further field has a name of its own", "path=%s fields=x", path);
    REFUSED(LK_EINVAL, "\"0x2\" is no shape", "path=%s fields=mask:i64:0x2", path);
    REFUSED(LK_EINVAL, "no dtype named \"i7\"", "path=%s fields=mask:i7", path);
    REFUSED(LK_EIO, "feature \"mask\" has 3 integers: a label is one integer",
            "path=%s image=pixels label=mask", path);
}

/* ---- rows that are 1 at the class ---- */

static void one_hot_rows_become_labels(void)
{
    const float floats[] = {0, 0, 1}, two[] = {0, 1, 1}, half[] = {0, 0.5F, 0};
    const int64_t ints[] = {0, 0, 1}, none[] = {0, 0, 0};
    const unsigned char bytes[] = {0, 0, 1};
    const lk__feature_out f[] = {{"image_raw", LK_FEATURE_BYTES, "pixels", 6},
                                 {"floats", LK_FEATURE_FLOATS, floats, 3},
                                 {"ints", LK_FEATURE_INTS, ints, 3},
                                 {"bytes", LK_FEATURE_BYTES, bytes, 3},
                                 {"two", LK_FEATURE_FLOATS, two, 3},
                                 {"half", LK_FEATURE_FLOATS, half, 3},
                                 {"none", LK_FEATURE_INTS, none, 3}};
    static const char *const good[] = {"floats", "ints", "bytes label_dtype=u8"};
    const char *path = of_features("hot", f, 7);
    for (int i = 0; i < 3; i++) {
        lk_dataset *ds = open_at("path=%s label_one_hot=true label=%s", path, good[i]);
        expect_field(ds, "y", LK_I64, LK_SCALAR);
        ASSERT_EQ(lk_dataset_info_of(ds)->classes, 3);
        ASSERT_EQ(test_label(ds, 1), 2);
        lk_dataset_free(ds);
    }
    static const char *const wrong[][2] = {{"two",
                                            "record 0, offset 0: \"two\" is no row with one 1 "
                                            "and zeros else: it has 1 at place 2"},
                                           {"half", "it has 0.5 at place 1"},
                                           {"none", "\"none\" is no row with one 1: it has none"}};
    for (int i = 0; i < 3; i++) {
        lk_dataset *ds = open_at("path=%s label_one_hot=true label=%s", path, wrong[i][0]);
        ASSERT_FAILS(test_read_all(ds), LK_EIO, wrong[i][1]);
        lk_dataset_free(ds);
    }
    REFUSED(LK_EINVAL, "the rows of \"ints\" have 3 values for 4 classes",
            "path=%s label_one_hot=true label=ints classes=4", path);
}

/* What later records lack, or have otherwise, is told when they are read. */
static void every_record_is_like_the_first(void)
{
    const int64_t one = 1, two = 2, three = 3;
    static const char *const said[] = {
        "mixed: record 1, offset 108: it has 5 bytes in \"image_raw\", but the first one 6 bytes",
        "mixed: record 1, offset 108: the record has no feature \"label\" with values",
        "it has 1 floats in \"image_raw\", but the first one 6 bytes",
        "\"height\" is not 2, as in the first record"};
    for (int wrong = 0; wrong < 4; wrong++) {
        lk__sink *s;
        ASSERT_OK(lk__sink_open(test_path("mixed"), &s));
        for (int i = 0; i < 2; i++) {
            lk__feature_out f[] = {
                {"image_raw", LK_FEATURE_BYTES, "pixels", i && wrong == 0 ? 5 : 6},
                {i && wrong == 1 ? "other" : "label", LK_FEATURE_INTS, &one, 1},
                {"height", LK_FEATURE_INTS, i && wrong == 3 ? &three : &two, 1},
                {"width", LK_FEATURE_INTS, i && wrong == 3 ? &two : &three, 1},
                {"depth", LK_FEATURE_INTS, &one, 1}};
            if (i && wrong == 2)
                f[0].kind = LK_FEATURE_FLOATS, f[0].n = 1;
            append(s, f, 5);
        }
        ASSERT_OK(lk__sink_close(s));
        lk_dataset *ds = open_at("path=%s classes=5", test_path("mixed"));
        ASSERT_FAILS(test_read_all(ds), LK_EIO, said[wrong]);
        lk_dataset_free(ds);
    }
}

/* ---- what is written ---- */

struct sort {
    lk_dtype x, y;
    lk_shape x_shape, y_shape;
    int64_t classes;
};

static lk_status sort_row(void *context, int64_t index, void *const *row)
{
    const lk_dataset_info *info = context;
    for (int f = 0; f < info->n_fields; f++) {
        int64_t n;
        ASSERT_OK(lk_shape_count(info->field[f].shape, &n));
        if (f == 1 && info->classes > 0)
            for (int64_t i = 0; i < n; i++)
                ((int64_t *)row[f])[i] = (index + i) % 3;
        else
            for (size_t i = 0; i < (size_t)n * lk_dtype_size(info->field[f].dtype); i++)
                ((unsigned char *)row[f])[i] = (unsigned char)(((size_t)index * 31 + i) % 60);
    }
    return LK_OK;
}

/* Any dtype and shape, and classes that no label shows: the hash is the same. */
static void whatever_is_written_is_read_again(void)
{
    static const struct sort sorts[] = {
        {LK_U8, LK_I64, LK_DIMS(2, 3, 1), LK_DIMS(0), 10},
        {LK_F64, LK_I64, LK_DIMS(2, 3, 2, 1), LK_DIMS(2, 3, 2), 7},
        {LK_F16, LK_F64, LK_DIMS(5), LK_DIMS(2, 2), 0},
        {LK_BF16, LK_F32, LK_DIMS(1), LK_DIMS(1), 0},
        {LK_I32, LK_I64, LK_DIMS(2, 2), LK_DIMS(1), 4},
        {LK_F32, LK_U8, LK_DIMS(2, 2, 2), LK_DIMS(3), 0},
        {LK_I64, LK_I64, LK_DIMS(4), LK_DIMS(2), 0},
    };
    for (size_t i = 0; i < sizeof sorts / sizeof sorts[0]; i++) {
        lk_dataset_info info = {.name = "made", .count = 9, .classes = sorts[i].classes};
        lk_dataset *ds;
        info.n_fields = 2;
        info.field[0] = (lk_field){"x", sorts[i].x, sorts[i].x_shape};
        info.field[1] = (lk_field){"y", sorts[i].y, sorts[i].y_shape};
        if (i == 0)
            info.field[1].shape = LK_SCALAR;
        if (i == 3)
            info.field[0].shape = LK_SCALAR;
        ASSERT_OK(lk_dataset_new(&info, sort_row, NULL, &info, &ds));
        ASSERT_OK(lk_dataset_write(ds, NULL, test_path("w.tfrecord")));
        uint64_t want = hash_and_free(ds);
        ASSERT_EQ(hash_and_free(open_at("path=%s", test_path("w.tfrecord"))), want);
    }
}

static void further_fields_are_written_under_their_names(void)
{
    lk_dataset_info info = {.name = "made", .count = 3, .n_fields = 2};
    lk_dataset *ds;
    info.field[0] = (lk_field){"x", LK_F32, LK_SHAPE(4)};
    info.field[1] = (lk_field){"weight", LK_F64, LK_SHAPE(2, 1)};
    ASSERT_OK(lk_dataset_new(&info, sort_row, NULL, &info, &ds));
    ASSERT_OK(lk_dataset_write(ds, NULL, test_path("w.tfrecord")));
    uint64_t want = hash_and_free(ds);
    ASSERT_EQ(hash_and_free(open_at("path=%s fields=weight", test_path("w.tfrecord"))), want);
    info.field[1] = (lk_field){"height", LK_F64, LK_SHAPE(2, 1)};
    ASSERT_OK(lk_dataset_new(&info, sort_row, NULL, &info, &ds));
    ASSERT_FAILS(lk_dataset_write(ds, NULL, test_path("w.tfrecord")), LK_ENOTSUP,
                 "the field \"height\" of made has the name of another feature");
    lk_dataset_free(ds);
    info.field[1] = (lk_field){"y", LK_F64, LK_SHAPE(2, 1)};
    info.field[0] = (lk_field){"z", LK_F32, LK_SHAPE(4)};
    ASSERT_OK(lk_dataset_new(&info, sort_row, NULL, &info, &ds));
    ASSERT_FAILS(lk_dataset_write(ds, NULL, test_path("w.tfrecord")), LK_ENOTSUP,
                 "records hold a field x, which made has not");
    lk_dataset_free(ds);
}

/* A note says nothing that the values do not allow. */
static void a_note_is_not_trusted(void)
{
    static const char *const notes[] = {
        "x u8[2,2]", "x f64[]",     "x u8[9223372036854775807,2]", "x u8[", "x",
        "x u8[3,2",  "x u8[-1,-6]", "y i64[], -3 classes",         ""};
    const int64_t label = 2;
    for (size_t i = 0; i < sizeof notes / sizeof notes[0]; i++) {
        const lk__feature_out f[] = {
            {"image_raw", LK_FEATURE_BYTES, "pixels", 6},
            {"label", LK_FEATURE_INTS, &label, 1},
            {"lockstep", LK_FEATURE_BYTES, notes[i], (int64_t)strlen(notes[i])}};
        const char *path = of_features("noted", f, 3);
        if (i == 1) {
            REFUSED(LK_EIO, "has 6 bytes, no whole number of f64", "path=%s", path);
            continue;
        }
        lk_dataset *ds = open_at("path=%s", path);
        expect_field(ds, "x", LK_U8, LK_SHAPE(6));
        lk_dataset_free(ds);
    }
    foreign("first", 0, 3);
    const lk__feature_out f[] = {{"image_raw", LK_FEATURE_BYTES, "pixels", 6},
                                 {"lockstep", LK_FEATURE_BYTES, "x u8[6]", 7}};
    const lk__feature_out g[] = {{"image_raw", LK_FEATURE_BYTES, "pixels", 6},
                                 {"lockstep", LK_FEATURE_BYTES, "x u8[7]", 7}};
    of_features("one", f, 2);
    of_features("other", g, 2);
    lk_dataset *ds = open_at("path=%s,%s", test_path("one"), test_path("other"));
    ASSERT_FAILS(test_read_all(ds), LK_EIO,
                 "other: record 0, offset 0: it is not of the same set as the first, of x u8[6]");
    lk_dataset_free(ds);
}

/* ---- reading from several threads, and with few open files ---- */

enum { THREADS = 5, SAMPLES = 60 };

struct readers {
    lk_dataset *ds;
    int number;
};

static void *read_some(void *arg)
{
    const struct readers *r = arg;
    for (int64_t k = 0; k < INT64_C(4) * SAMPLES; k++) {
        int64_t step = 2 * r->number + 1, i = k * step % SAMPLES, y;
        unsigned char x[6];
        test_sample(r->ds, "x", i, x);
        test_sample(r->ds, "y", i, &y);
        for (int b = 0; b < 6; b++)
            ASSERT_EQ(x[b], (unsigned char)(i * 6 + b));
        ASSERT_EQ(y, i % 5);
    }
    return NULL;
}

static void threads_read_one_set(void)
{
    ASSERT_EQ(mkdir(test_path("threads"), 0777), 0);
    for (int i = 0; i < 12; i++) {
        char name[60];
        snprintf(name, sizeof name, "threads/%c.tfrecord", 'a' + i);
        foreign(name, INT64_C(5) * i, INT64_C(5) * i + 5);
    }
    struct rlimit limit, few;
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    for (int scarce = 0; scarce < 2; scarce++) {
        few = limit;
        few.rlim_cur = 16; /* eight are held open, the others are not */
        if (scarce)
            ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
        lk_dataset *ds = open_at("path=%s", test_path("threads"));
        pthread_t thread[THREADS];
        struct readers r[THREADS];
        for (int t = 0; t < THREADS; t++) {
            r[t] = (struct readers){ds, t};
            ASSERT_EQ(pthread_create(&thread[t], NULL, read_some, &r[t]), 0);
        }
        for (int t = 0; t < THREADS; t++)
            ASSERT_EQ(pthread_join(thread[t], NULL), 0);
        if (scarce) { /* what is opened again must be the same */
            foreign("threads/l.tfrecord", 0, 5);
            int64_t last = SAMPLES - 1, y;
            lk_tensor *t[2] = {NULL, NULL};
            ASSERT_OK(lk_tensor_wrap(LK_I64, LK_SHAPE(1), &y, NULL, NULL, &t[1]));
            ASSERT_FAILS(lk_dataset_read(ds, &(int64_t){0}, 1, t) == LK_OK
                             ? lk_dataset_read(ds, &last, 1, t)
                             : LK_OK,
                         LK_EIO, "l.tfrecord: the file was changed since it was opened");
            lk_tensor_free(t[1]);
        }
        lk_dataset_free(ds);
        ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    }
}

/* Records that no cursor can hold are read through for their checksum, then by parts. */
static void large_records_are_read_by_parts(void)
{
    enum { BYTES = 300000 };
    unsigned char *x = malloc(BYTES), *back = malloc(BYTES);
    for (int i = 0; i < BYTES; i++)
        x[i] = (unsigned char)(i * 7 % 253);
    const int64_t label = 3;
    const lk__feature_out f[] = {{"image_raw", LK_FEATURE_BYTES, x, BYTES},
                                 {"label", LK_FEATURE_INTS, &label, 1}};
    const char *path = of_features("large", f, 2);
    lk_dataset *ds = open_at("path=%s shape=300,1000", path);
    for (int64_t i = N - 1; i >= 0; i--) {
        test_sample(ds, "x", i, back);
        ASSERT_SAME_BITS(back, x, BYTES);
        ASSERT_EQ(test_label(ds, i), 3);
    }
    lk_dataset_free(ds);
    size_t n;
    unsigned char *file = test_read(path, &n);
    file[n - 5] ^= 1;
    test_write("large", file, n);
    free(file);
    ds = open_at("path=%s classes=5", path);
    int64_t last = N - 1, y;
    lk_tensor *t[2] = {NULL, NULL};
    ASSERT_OK(lk_tensor_wrap(LK_I64, LK_SHAPE(1), &y, NULL, NULL, &t[1]));
    for (int again = 0; again < 2; again++)
        ASSERT_FAILS(lk_dataset_read(ds, &last, 1, t), LK_EIO, "large: record 3, offset ");
    lk_tensor_free(t[1]);
    lk_dataset_free(ds);
    free(x);
    free(back);
}

static lk_status open_and_read(void)
{
    char options[600];
    lk_dataset *ds;
    snprintf(options, sizeof options, "path=%s/[ab].tfrecord,%s", test_path("threads"),
             test_path("all"));
    LK_TRY(try_open(options, &ds));
    lk_status st = test_read_all(ds);
    lk_dataset_free(ds);
    return st;
}

static void failed_allocations_leave_nothing(void)
{
    ASSERT_TRUE(test_every_allocation_fails(open_and_read) >= 12);
}

TEST_MAIN(TEST(a_folder_a_pattern_and_a_list_are_one_set), TEST(numbered_files_are_complete),
          TEST(packed_files_are_told_by_their_bytes),
          TEST(checksums_are_checked_when_records_are_read),
          TEST(options_say_what_bytes_are_and_what_shape_they_have),
          TEST(one_hot_rows_become_labels), TEST(every_record_is_like_the_first),
          TEST(whatever_is_written_is_read_again),
          TEST(further_fields_are_written_under_their_names), TEST(a_note_is_not_trusted),
          TEST(threads_read_one_set), TEST(large_records_are_read_by_parts),
          TEST(failed_allocations_leave_nothing))
