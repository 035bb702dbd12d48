/* Fields of samples by the features of records that options name, and what is written comes back. */
#include "record_sets.h"

static void expect_field(const lk_dataset *ds, const char *name, lk_dtype dtype, lk_shape shape)
{
    int f = lk_dataset_find(ds, name);
    ASSERT_TRUE(f >= 0);
    lk_field field = lk_dataset_info_of(ds)->field[f];
    ASSERT_EQ(field.dtype, dtype);
    ASSERT_TRUE(lk_shape_is_equal(field.shape, shape));
}

TEST(options_say_what_bytes_are_and_what_shape_they_have)
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
    const char *path = records_write("mapped", f, 5);
    lk_dataset *ds = records_open(
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
    ds = records_open("path=%s image=weight label=classes label_dtype=f16", path);
    expect_field(ds, "x", LK_F32, LK_SHAPE(1));
    expect_field(ds, "y", LK_F16, LK_SHAPE(2));
    ASSERT_EQ(lk_dataset_info_of(ds)->classes, 0);
    lk_dataset_free(ds);
    RECORDS_REFUSED(LK_EIO, "\"classes\" has 4 bytes, no whole number of f64",
                    "path=%s image=pixels fields=classes:f64", path);
    RECORDS_REFUSED(LK_EIO,
                    "record 0, offset 0: feature \"weight\" has floats, not bytes that could be u8",
                    "path=%s image=weight dtype=u8", path);
    RECORDS_REFUSED(LK_EIO, "record 0, offset 0: the record has no feature \"depth\" with values",
                    "path=%s image=pixels fields=depth", path);
    RECORDS_REFUSED(LK_EINVAL, "\"x\": a further field has a name of its own", "path=%s fields=x",
                    path);
    RECORDS_REFUSED(LK_EINVAL, "\"0x2\" is no shape", "path=%s fields=mask:i64:0x2", path);
    RECORDS_REFUSED(LK_EINVAL, "no dtype named \"i7\"", "path=%s fields=mask:i7", path);
    RECORDS_REFUSED(LK_EIO, "feature \"mask\" has 3 integers: a label is one integer",
                    "path=%s image=pixels label=mask", path);
}

/* ---- rows that are 1 at the class ---- */

TEST(one_hot_rows_become_labels)
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
    const char *path = records_write("hot", f, 7);
    for (int i = 0; i < 3; i++) {
        lk_dataset *ds = records_open("path=%s label_one_hot=true label=%s", path, good[i]);
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
        lk_dataset *ds = records_open("path=%s label_one_hot=true label=%s", path, wrong[i][0]);
        ASSERT_FAILS(test_read_all(ds), LK_EIO, wrong[i][1]);
        lk_dataset_free(ds);
    }
    RECORDS_REFUSED(LK_EINVAL, "the rows of \"ints\" have 3 values for 4 classes",
                    "path=%s label_one_hot=true label=ints classes=4", path);
}

/* What later records lack, or have otherwise, is told when they are read. */
TEST(every_record_is_like_the_first)
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
            record_append(s, f, 5);
        }
        ASSERT_OK(lk__sink_close(s));
        lk_dataset *ds = records_open("path=%s classes=5", test_path("mixed"));
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
TEST(whatever_is_written_is_read_again)
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
        uint64_t want = records_hash(ds);
        ASSERT_EQ(records_hash(records_open("path=%s", test_path("w.tfrecord"))), want);
    }
}

TEST(further_fields_are_written_under_their_names)
{
    lk_dataset_info info = {.name = "made", .count = 3, .n_fields = 2};
    lk_dataset *ds;
    info.field[0] = (lk_field){"x", LK_F32, LK_SHAPE(4)};
    info.field[1] = (lk_field){"weight", LK_F64, LK_SHAPE(2, 1)};
    ASSERT_OK(lk_dataset_new(&info, sort_row, NULL, &info, &ds));
    ASSERT_OK(lk_dataset_write(ds, NULL, test_path("w.tfrecord")));
    uint64_t want = records_hash(ds);
    ASSERT_EQ(records_hash(records_open("path=%s fields=weight", test_path("w.tfrecord"))), want);
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
TEST(a_note_is_not_trusted)
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
        const char *path = records_write("noted", f, 3);
        if (i == 1) {
            RECORDS_REFUSED(LK_EIO, "has 6 bytes, no whole number of f64", "path=%s", path);
            continue;
        }
        lk_dataset *ds = records_open("path=%s", path);
        expect_field(ds, "x", LK_U8, LK_SHAPE(6));
        lk_dataset_free(ds);
    }
    const lk__feature_out f[] = {{"image_raw", LK_FEATURE_BYTES, "pixels", 6},
                                 {"lockstep", LK_FEATURE_BYTES, "x u8[6]", 7}};
    const lk__feature_out g[] = {{"image_raw", LK_FEATURE_BYTES, "pixels", 6},
                                 {"lockstep", LK_FEATURE_BYTES, "x u8[7]", 7}};
    const lk__feature_out *const both[] = {f, g};
    const char *const said[] = {"its samples are x u8[7], but those of the first x u8[6]",
                                "its samples are x u8[6], but those of the first x u8[7]"};
    for (int i = 0; i < 2; i++) {
        records_write("one", both[i], 2);
        records_write("other", both[1 - i], 2);
        lk_dataset *ds = records_open("path=%s,%s", test_path("one"), test_path("other"));
        ASSERT_FAILS(test_read_all(ds), LK_EIO, said[i]);
        lk_dataset_free(ds);
    }
    /* one without a note is refused in both orders, and what it says or lacks is told */
    records_write("noted", f, 2);
    records_write("bare", f, 1);
    lk_dataset *ds = records_open("path=%s,%s", test_path("noted"), test_path("bare"));
    ASSERT_FAILS(test_read_all(ds), LK_EIO,
                 "bare: record 0, offset 0: the record has no feature \"lockstep\", which says \"x "
                 "u8[6]\" in the first one");
    lk_dataset_free(ds);
    ds = records_open("path=%s,%s", test_path("bare"), test_path("noted"));
    ASSERT_FAILS(test_read_all(ds), LK_EIO,
                 "noted: record 0, offset 0: the record has a feature \"lockstep\", which says \"x "
                 "u8[6]\", but the first one has none");
    lk_dataset_free(ds);
}
