/* TFRecord files and tf.train.Example: published bytes, round trips, and damage. */
#include "data/records/example.h"
#include "data/records/tfrecord.h"
#include "data_files.h"
#include "faults.h"
#include "tensors.h"

#include <lockstep/extra/crc32c.h>

/* The masked CRC of a record's length, 3: known from the format's description. */
TEST(the_framing_has_the_published_bytes)
{
    lk__sink *s;
    const char *path = test_path("three");
    ASSERT_OK(lk__sink_open(path, &s));
    ASSERT_OK(lk__tfrecord_write(s, "abc", 3));
    ASSERT_OK(lk__sink_close(s));
    unsigned char want[19] = {3, 0, 0, 0, 0, 0, 0, 0, 0xb0, 0x99, 0x49, 0x0e, 'a', 'b', 'c'};
    uint32_t c = lk_crc32c(0, "abc", 3), masked = (c >> 15 | c << 17) + 0xa282ead8U;
    for (int i = 0; i < 4; i++)
        want[15 + i] = (unsigned char)(masked >> 8 * i);
    test_expect_file(path, want, sizeof want);
}

/* By hand, from the definition of the messages. */
static const unsigned char example[] = {
    0x0a, 66, /* features */
    0x0a, 14,   0x0a, 5,   'd',  'e', 'p', 't',  'h', 0x12, 5,   0x1a, 3,    0x0a, 1,    1,    0x0a,
    18,   0x0a, 9,    'i', 'm',  'a', 'g', 'e',  '_', 'r',  'a', 'w',  0x12, 5,    0x0a, 3,    0x0a,
    1,    9,    0x0a, 15,  0x0a, 5,   'l', 'a',  'b', 'e',  'l', 0x12, 6,    0x1a, 4,    0x0a, 2,
    0xac, 0x02, 0x0a, 11,  0x0a, 1,   'f', 0x12, 6,   0x12, 4,   0x0a, 0,    0x50, 7,
};

static lk__source *memory(const void *bytes, size_t n)
{
    lk__source *s;
    ASSERT_OK(lk__source_memory("memory", bytes, (int64_t)n, &s));
    return s;
}

/* Find features in bytes that lie at `offset` of a source. */
static lk_status look(const lk__source *s, int64_t offset, int64_t n, lk__feature *f, int features)
{
    unsigned char bytes[16]; /* less than a record */
    lk__example_window w = {.source = s, .record = 7, .bytes = bytes, .room = sizeof bytes};
    return lk__example_read(&w, offset, n, f, features);
}

TEST(an_example_is_read_by_hand_made_bytes)
{
    unsigned char bytes[100 + sizeof example] = {0};
    memcpy(bytes + 100, example, sizeof example);
    lk__source *s = memory(bytes, sizeof bytes);
    lk__feature f[] = {{.name = "image_raw"}, {.name = "label"}, {.name = "none"}, {.name = "f"}};
    ASSERT_OK(look(s, 100, sizeof example, f, 4));
    ASSERT_EQ(f[0].kind, LK_FEATURE_BYTES);
    ASSERT_EQ(f[0].n, 1);
    ASSERT_EQ(bytes[f[0].at], 9);
    ASSERT_EQ(f[1].kind, LK_FEATURE_INTS);
    ASSERT_EQ(f[1].value[0], 300);
    ASSERT_EQ(f[2].kind, LK_FEATURE_NONE);
    ASSERT_EQ(f[3].kind, LK_FEATURE_NONE); /* an empty list, and a field that nobody knows */
    for (size_t n = 1; n < sizeof example; n++)
        ASSERT_FAILS(look(s, 100, (int64_t)n, f, 4), LK_EIO, "memory: record 7, offset 1");
    lk__source_free(s);
}

TEST(an_example_is_written_by_the_same_bytes)
{
    const int64_t one = 1, label = 300, negative = -1;
    lk__feature_out f[] = {{"depth", LK_FEATURE_INTS, &one, 1},
                           {"image_raw", LK_FEATURE_BYTES, "\x09", 1},
                           {"label", LK_FEATURE_INTS, &label, 1}};
    unsigned char bytes[128];
    ASSERT_EQ(lk__example_size(f, 3), 2 + 16 + 20 + 17);
    lk__example_write(f, 3, bytes);
    ASSERT_EQ(bytes[1], 53);
    ASSERT_SAME_BITS(bytes + 2, example + 2, 53);
    /* Negative numbers take ten bytes, and come back. */
    lk__feature_out g = {"n", LK_FEATURE_INTS, &negative, 1};
    int64_t n = lk__example_size(&g, 1);
    lk__example_write(&g, 1, bytes);
    lk__feature back = {.name = "n"};
    lk__source *s = memory(bytes, (size_t)n);
    ASSERT_OK(look(s, 0, n, &back, 1));
    ASSERT_EQ(back.value[0], -1);
    lk__source_free(s);
}

/* Put a Feature under the name "f" into an Example, and read it. */
static lk_status read_one(const unsigned char *feature, size_t n, lk__feature *out)
{
    unsigned char bytes[64] = {
        0x0a, (unsigned char)(n + 7), 0x0a, (unsigned char)(n + 5), 0x0a, 1, 'f',
        0x12, (unsigned char)n};
    memcpy(bytes + 9, feature, n);
    lk__source *s = memory(bytes, n + 9);
    *out = (lk__feature){.name = "f"};
    lk_status st = look(s, 0, (int64_t)n + 9, out, 1);
    lk__source_free(s);
    return st;
}

/* Parsers of protobuf join what comes twice, but of a oneof's members the last one counts. */
TEST(a_list_in_two_fields_is_joined_and_another_kind_replaces_it)
{
    static const unsigned char ints[] = {0x1a, 3, 0x0a, 1, 7, 0x1a, 4, 0x0a, 2, 8, 9};
    static const unsigned char bytes[] = {0x1a, 3, 0x0a, 1, 7, 0x0a, 3, 0x0a, 1, 'x'};
    static const unsigned char back[] = {0x1a, 3,   0x0a, 1, 7,    0x0a, 3, 0x0a,
                                         1,    'x', 0x1a, 3, 0x0a, 1,    8};
    lk__feature f;
    ASSERT_OK(read_one(ints, sizeof ints, &f));
    ASSERT_TRUE(f.kind == LK_FEATURE_INTS && f.n == 3 && f.scattered);
    ASSERT_TRUE(f.value[0] == 7 && f.value[1] == 8 && f.value[2] == 9);
    ASSERT_OK(read_one(bytes, sizeof bytes, &f));
    ASSERT_TRUE(f.kind == LK_FEATURE_BYTES && f.n == 1);
    ASSERT_OK(read_one(back, sizeof back, &f));
    ASSERT_TRUE(f.kind == LK_FEATURE_INTS && f.n == 1 && f.value[0] == 8 && !f.scattered);
}

/* The value of one entry in two fields is one Feature; a second entry of the name replaces the first. */
TEST(an_entry_is_joined_and_replaced_by_the_next_of_its_name)
{
    static const unsigned char joined[] = {0x0a, 19, 0x0a, 17,   0x0a, 1,    'f', 0x12, 5, 0x1a, 3,
                                           0x0a, 1,  7,    0x12, 5,    0x1a, 3,   0x0a, 1, 8};
    static const unsigned char replaced[] = {0x0a, 17,   0x0a, 10, 0x0a, 1, 'f',  0x12, 5,  0x1a,
                                             3,    0x0a, 1,    7,  0x0a, 3, 0x0a, 1,    'f'};
    lk__feature f = {.name = "f"};
    lk__source *s = memory(joined, sizeof joined);
    ASSERT_OK(look(s, 0, sizeof joined, &f, 1));
    ASSERT_TRUE(f.n == 2 && f.value[0] == 7 && f.value[1] == 8);
    lk__source_free(s);
    s = memory(replaced, sizeof replaced);
    ASSERT_OK(look(s, 0, sizeof replaced, &f, 1));
    ASSERT_EQ(f.kind, LK_FEATURE_NONE);
    lk__source_free(s);
}

TEST(what_is_valid_but_not_supported_is_not_called_damaged)
{
    static const unsigned char bytes[] = {0x0a, 6, 0x0a, 1, 'x', 0x0a, 1, 'y'};
    static const unsigned char floats[] = {0x12, 10, 0x0d, 0, 0, 0x80, 0x3f, 0x0d, 0, 0, 0, 0x40};
    static const unsigned char type[] = {0x12, 2, 0x08, 1};
    lk__feature f;
    ASSERT_FAILS(read_one(bytes, sizeof bytes, &f), LK_ENOTSUP,
                 "feature \"f\": more than one value of bytes is not supported");
    ASSERT_FAILS(read_one(floats, sizeof floats, &f), LK_ENOTSUP,
                 "feature \"f\": floats that are not packed in one piece are not supported");
    ASSERT_FAILS(read_one(type, sizeof type, &f), LK_EIO, "a float list has wire type 0");
}

TEST(integers_beyond_the_end_are_refused)
{
    static const unsigned char one[] = {5};
    int64_t value;
    lk_shape shape = LK_SHAPE(1);
    lk_box box = lk_box_whole(1, shape.dim);
    lk__source *s = memory(one, sizeof one);
    lk__example_place from = {0, 0};
    unsigned char bytes[16];
    lk__example_window w = {.source = s, .bytes = bytes, .room = sizeof bytes};
    ASSERT_OK(lk__example_ints(&w, 1, &from, &shape, &box, &value));
    ASSERT_EQ(value, 5);
    ASSERT_TRUE(from.number == 1 && from.offset == 1);
    from = (lk__example_place){0, 1};
    ASSERT_FAILS(lk__example_ints(&w, 1, &from, &shape, &box, &value), LK_EIO, "cut off");
    from = (lk__example_place){0, 1};
    ASSERT_FAILS(lk__example_ints(&w, 2, &from, &shape, &box, &value), LK_EIO,
                 "the file ends at 1");
    lk__source_free(s);
}

TEST(a_feature_without_values_needs_no_data)
{
    lk__feature_out f = {"f", LK_FEATURE_BYTES, NULL, 0};
    unsigned char bytes[32];
    int64_t n = lk__example_size(&f, 1);
    lk__example_write(&f, 1, bytes);
    lk__feature back = {.name = "f"};
    lk__source *s = memory(bytes, (size_t)n);
    ASSERT_OK(look(s, 0, n, &back, 1));
    ASSERT_TRUE(back.kind == LK_FEATURE_BYTES && back.n == 0);
    lk__source_free(s);
}

static lk_dataset *image_set(lk_dtype dtype, int64_t count)
{
    lk_tensor *tensor[] = {test_iota(dtype, LK_SHAPE(count, 2, 3, 1)),
                           test_iota(LK_I64, LK_SHAPE(count))};
    lk_dataset_info info = {
        .name = "images", .classes = 5, .n_fields = 2, .field = {{.name = "x"}, {.name = "y"}}};
    lk_dataset *ds;
    ASSERT_OK(lk_dataset_from_tensors(&info, tensor, &ds));
    lk_tensor_free(tensor[0]);
    lk_tensor_free(tensor[1]);
    return ds;
}

/* Reading goes on where it ended, but in the same record only, and never backwards. */
TEST(parts_of_integers_are_found_in_any_order)
{
    char options[300];
    lk_dataset *ds = image_set(LK_I64, 5), *back;
    ASSERT_OK(lk_dataset_write(ds, NULL, test_path("parts.tfrecord")));
    lk_dataset_free(ds);
    snprintf(options, sizeof options, "path=%s", test_path("parts.tfrecord"));
    ASSERT_OK(lk_dataset_open("tfrecord", options, LK_TRAIN, &back));
    lk_tensor *t;
    ASSERT_OK(lk_tensor_new(LK_I64, LK_SHAPE(1, 1, 1, 1), &t));
    for (int i = 0; i < 200; i++) {
        int64_t sample = test_random(3) + 2, r = test_random(2), c = test_random(3);
        lk_box box = {3, {r, c, 0}, {1, 1, 1}};
        ASSERT_OK(lk_dataset_read_box(back, 0, &box, &sample, 1, t));
        TEST_EXPECT(t, sample * 6 + r * 3 + c);
    }
    lk_tensor_free(t);
    lk_dataset_free(back);
}

TEST(what_is_written_is_read_again)
{
    char options[300];
    const lk_dtype dtypes[] = {LK_U8, LK_F32};
    for (int i = 0; i < 2; i++) {
        lk_dataset *ds = image_set(dtypes[i], 5), *back;
        uint64_t hash, again;
        ASSERT_OK(lk_dataset_hash(ds, &hash));
        ASSERT_OK(lk_dataset_write(ds, NULL, test_path("set.tfrecord")));
        lk_dataset_free(ds);
        snprintf(options, sizeof options, "path=%s", test_path("set.tfrecord"));
        ASSERT_OK(lk_dataset_open("tfrecord", options, LK_TRAIN, &back));
        ASSERT_OK(lk_dataset_hash(back, &again));
        ASSERT_EQ(hash, again);
        lk_dataset_free(back);
        ASSERT_OK(lk_dataset_open("tfrecord", options, LK_TEST, &back));
        ASSERT_TRUE(!back);
    }
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

/* Integers as values, of one byte and of ten, more than are read at once; and real targets. */
TEST(integers_and_targets_are_read_again)
{
    enum { COUNT = 3, VALUES = 1500 };
    static int64_t value[COUNT * VALUES];
    float target[COUNT * 2] = {0.5F, -1, 2.25F, 1e30F, 0, -0.125F};
    for (int i = 0; i < COUNT * VALUES; i++)
        value[i] = i % 5 == 0 ? -i : i % 5 == 1 ? INT64_MAX - i : (int64_t)i * i;
    for (int64_t n = 1; n <= 2; n++) {
        lk_tensor *tensor[2];
        lk_shape y = n == 1 ? LK_SHAPE(COUNT) : LK_SHAPE(COUNT, 2);
        lk_dataset_info info = {
            .name = "it", .n_fields = 2, .field = {{.name = "x"}, {.name = "y"}}};
        lk_dataset *ds, *back;
        char options[300];
        int64_t row[VALUES];
        float row_target[2];
        uint64_t hash, again;
        ASSERT_OK(lk_tensor_wrap(LK_I64, LK_SHAPE(COUNT, VALUES), value, NULL, NULL, &tensor[0]));
        ASSERT_OK(lk_tensor_wrap(LK_F32, y, target, NULL, NULL, &tensor[1]));
        ASSERT_OK(lk_dataset_from_tensors(&info, tensor, &ds));
        ASSERT_OK(lk_dataset_hash(ds, &hash));
        ASSERT_OK(lk_dataset_write(ds, NULL, test_path("ints.tfrecord")));
        snprintf(options, sizeof options, "path=%s", test_path("ints.tfrecord"));
        ASSERT_OK(lk_dataset_open("tfrecord", options, LK_TRAIN, &back));
        ASSERT_EQ(lk_dataset_info_of(back)->classes, 0);
        ASSERT_OK(lk_dataset_hash(back, &again));
        ASSERT_EQ(hash, again);
        for (int64_t i = COUNT - 1; i >= 0; i--) {
            test_sample(back, "x", i, row);
            test_sample(back, "y", i, row_target);
            ASSERT_SAME_BITS(row, value + i * VALUES, sizeof row);
            ASSERT_SAME_BITS(row_target, target + i * n, (size_t)n * sizeof *target);
        }
        lk_dataset_free(back);
        lk_dataset_free(ds);
        lk_tensor_free(tensor[0]);
        lk_tensor_free(tensor[1]);
    }
}

/* Labels that are none say what they are; integers that are not packed are no values. */
TEST(labels_and_values_that_are_none_are_told)
{
    static const unsigned char scattered[] = {0x0a, 22,   0x0a, 20,   0x0a, 9,    'i', 'm',
                                              'a',  'g',  'e',  '_',  'r',  'a',  'w', 0x12,
                                              7,    0x1a, 5,    0x08, 1,    0x0a, 1,   2};
    const int64_t labels[] = {1, 2};
    lk__feature_out f[] = {{"image_raw", LK_FEATURE_BYTES, "pixels", 6},
                           {"label", LK_FEATURE_BYTES, "cat", 3}};
    unsigned char bytes[128];
    char options[300];
    lk__sink *s;
    lk_dataset *ds;
    snprintf(options, sizeof options, "path=%s", test_path("odd"));
    for (int wrong = 0; wrong < 2; wrong++) {
        if (wrong == 1)
            f[1] = (lk__feature_out){"label", LK_FEATURE_INTS, labels, 2};
        lk__example_write(f, 2, bytes);
        ASSERT_OK(lk__sink_open(test_path("odd"), &s));
        ASSERT_OK(lk__tfrecord_write(s, bytes, lk__example_size(f, 2)));
        ASSERT_OK(lk__sink_close(s));
        ASSERT_FAILS(lk_dataset_open("tfrecord", options, LK_TRAIN, &ds), LK_EIO,
                     wrong == 0 ? "odd: record 0, offset 0: feature \"label\" has 3 bytes: a label "
                                  "is one integer, targets are floats"
                                : "feature \"label\" has 2 integers: a label is one integer");
    }
    ASSERT_OK(lk__sink_open(test_path("odd"), &s));
    ASSERT_OK(lk__tfrecord_write(s, scattered, sizeof scattered));
    ASSERT_OK(lk__sink_close(s));
    ASSERT_FAILS(lk_dataset_open("tfrecord", options, LK_TRAIN, &ds), LK_ENOTSUP,
                 "record 0, offset 0: the integers of \"image_raw\" are not packed");
}

TEST(features_can_have_other_names_and_shapes)
{
    char options[500];
    lk_dataset *ds = image_set(LK_U8, 5), *back;
    ASSERT_OK(lk_dataset_write(ds, NULL, test_path("set.tfrecord")));
    lk_dataset_free(ds);
    const char *path = test_path("set.tfrecord");
    snprintf(options, sizeof options, "path=%s label=none height=none", path);
    ASSERT_OK(lk_dataset_open("tfrecord", options, LK_TRAIN, &back));
    ASSERT_EQ(lk_dataset_info_of(back)->n_fields, 1);
    ASSERT_EQ(lk_dataset_info_of(back)->classes, 0);
    lk_dataset_free(back);
    snprintf(options, sizeof options, "path=%s shape=3,2", path);
    ASSERT_OK(lk_dataset_open("tfrecord", options, LK_TRAIN, &back));
    ASSERT_TRUE(lk_shape_is_equal(lk_dataset_info_of(back)->field[0].shape, LK_SHAPE(3, 2)));
    lk_dataset_free(back);
    snprintf(options, sizeof options, "path=%s shape=3,3", path);
    ASSERT_FAILS(lk_dataset_open("tfrecord", options, LK_TRAIN, &back), LK_ESHAPE, "[3,3]");
    snprintf(options, sizeof options, "path=%s image=pixels", path);
    ASSERT_FAILS(lk_dataset_open("tfrecord", options, LK_TRAIN, &back), LK_EIO,
                 "no feature \"pixels\" with values");
    snprintf(options, sizeof options, "path=%s classes=4", path);
    ASSERT_OK(lk_dataset_open("tfrecord", options, LK_TRAIN, &back));
    ASSERT_FAILS(test_read_all(back), LK_EIO,
                 "set.tfrecord: record 4, offset 632: the label 4, but labels are from 0 to 3");
    lk_dataset_free(back);
    ASSERT_FAILS(lk_dataset_open("tfrecord", NULL, LK_TRAIN, &back), LK_EINVAL, "give path");
}

/* Every byte is under a checksum, so every changed bit is seen; a cut between records is not. */
TEST(damage_is_refused)
{
    char options[300];
    lk_dataset *ds = image_set(LK_U8, 1);
    ASSERT_OK(lk_dataset_write(ds, NULL, test_path("one.tfrecord")));
    lk_dataset_free(ds);
    size_t n;
    unsigned char *good = test_read(test_path("one.tfrecord"), &n);
    snprintf(options, sizeof options, "path=%s", test_path("bad"));
    ASSERT_EQ(test_damage("tfrecord", options, "bad", good, n), 8 * n);
    free(good);
}

TEST(absurd_lengths_are_refused_before_memory_is_taken)
{
    unsigned char head[16] = {0};
    char options[300];
    lk_dataset *ds;
    memset(head, 0xff, 8);
    uint32_t c = lk_crc32c(0, head, 8), masked = (c >> 15 | c << 17) + 0xa282ead8U;
    for (int i = 0; i < 4; i++)
        head[8 + i] = (unsigned char)(masked >> 8 * i);
    snprintf(options, sizeof options, "path=%s", test_write("long", head, sizeof head));
    int64_t peak = lk_alloc_stats_now().peak_bytes;
    ASSERT_FAILS(lk_dataset_open("tfrecord", options, LK_TRAIN, &ds), LK_EIO,
                 "long: record 0, offset 0: it has 18446744073709551615 bytes");
    ASSERT_EQ(lk_alloc_stats_now().peak_bytes, peak);
}

TEST(an_unknown_format_is_not_written)
{
    ASSERT_FAILS(lk_dataset_write(NULL, "nothing", "x"), LK_EINVAL, "unknown format");
}

static lk_status round_trip(void)
{
    char options[300];
    float value[12] = {0};
    lk_tensor *x;
    LK_TRY(lk_tensor_wrap(LK_F32, LK_SHAPE(2, 6), value, NULL, NULL, &x));
    lk_dataset_info info = {.name = "it", .n_fields = 1, .field = {{.name = "x"}}};
    lk_dataset *ds = NULL, *back = NULL;
    lk_status st = LK_OK;
    LK_TRY_TO(done, lk_dataset_from_tensors(&info, &x, &ds));
    LK_TRY_TO(done, lk_dataset_write(ds, NULL, test_path("f.tfrecord")));
    snprintf(options, sizeof options, "path=%s", test_path("f.tfrecord"));
    LK_TRY_TO(done, lk_dataset_open("tfrecord", options, LK_TRAIN, &back));
done:
    lk_tensor_free(x);
    lk_dataset_free(ds);
    lk_dataset_free(back);
    return st;
}

TEST(failed_allocations_leave_nothing)
{
    ASSERT_TRUE(test_every_allocation_fails(round_trip) >= 15);
    ASSERT_TRUE(access(test_path("f.tfrecord.part"), F_OK) != 0);
}
