/* csv and raw: numbers as text and as plain bytes. */
#include "data_files.h"
#include "faults.h"

static lk_status open_text(const char *text, const char *more, lk_dataset **out)
{
    char options[400];
    snprintf(options, sizeof options, "path=%s %s", test_write("t.csv", text, strlen(text)), more);
    return lk_dataset_open("csv", options, LK_TRAIN, out);
}

static void expect_rows(lk_dataset *ds, int64_t count, int64_t columns, const float *want)
{
    float row[8];
    ASSERT_EQ(lk_dataset_info_of(ds)->count, count);
    ASSERT_TRUE(lk_shape_is_equal(lk_dataset_info_of(ds)->field[0].shape, LK_SHAPE(columns)));
    for (int64_t i = 0; i < count; i++) {
        test_sample(ds, "x", i, row);
        ASSERT_SAME_BITS(row, want + i * columns, columns * 4);
    }
}

TEST(the_last_column_is_the_label)
{
    lk_dataset *ds;
    ASSERT_OK(open_text("a,b,class\n1,2.5,0\r\n\n-3e2, 4 ,2\n", "", &ds));
    expect_rows(ds, 2, 2, (float[]){1, 2.5F, -300, 4});
    ASSERT_EQ(lk_dataset_info_of(ds)->classes, 3);
    ASSERT_EQ(test_label(ds, 1), 2);
    lk_dataset_free(ds);
    ASSERT_OK(open_text("1,2,1", "", &ds)); /* no header, no newline at the end */
    expect_rows(ds, 1, 2, (float[]){1, 2});
    lk_dataset_free(ds);
}

/* The first cell is a number, or the name of a column, whether a mark is before it or not. */
TEST(a_byte_order_mark_is_no_part_of_the_text)
{
    lk_dataset *ds;
    ASSERT_OK(open_text("\xef\xbb\xbf"
                        "1,2,1\n3,4,0\n",
                        "", &ds));
    expect_rows(ds, 2, 2, (float[]){1, 2, 3, 4});
    lk_dataset_free(ds);
    ASSERT_OK(open_text("\xef\xbb\xbfkind,b\n1,2.5\n", "label=kind", &ds));
    expect_rows(ds, 1, 1, (float[]){2.5F});
    ASSERT_EQ(test_label(ds, 0), 1);
    lk_dataset_free(ds);
    ASSERT_FAILS(open_text("\xff\xfe"
                           "1",
                           "", &ds),
                 LK_EIO, "t.csv: offset 0: the text is UTF-16 or UTF-32, not UTF-8");
}

TEST(the_label_can_be_any_column_or_none)
{
    lk_dataset *ds;
    ASSERT_OK(open_text("a;b;c\n1;2;3\n", "label=b separator=semicolon", &ds));
    expect_rows(ds, 1, 2, (float[]){1, 3});
    ASSERT_EQ(test_label(ds, 0), 2);
    lk_dataset_free(ds);
    ASSERT_OK(open_text("5\t6\n", "label=0 separator=tab", &ds));
    ASSERT_EQ(test_label(ds, 0), 5);
    lk_dataset_free(ds);
    ASSERT_OK(open_text("5,6,7,8\n", "label=none shape=2,2", &ds));
    ASSERT_EQ(lk_dataset_info_of(ds)->n_fields, 1);
    ASSERT_TRUE(lk_shape_is_equal(lk_dataset_info_of(ds)->field[0].shape, LK_SHAPE(2, 2)));
    lk_dataset_free(ds);
    ASSERT_OK(open_text("5,6.25\n", "real=true double=true", &ds));
    double y;
    test_sample(ds, "y", 0, &y);
    ASSERT_TRUE(y == 6.25);
    lk_dataset_free(ds);
    ASSERT_OK(open_text("1,2\n3,4\n", "header=yes", &ds));
    ASSERT_EQ(lk_dataset_info_of(ds)->count, 1);
    lk_dataset_free(ds);
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

TEST(wrong_text_is_refused_with_line_and_column)
{
    static const struct {
        const char *text, *options, *why;
    } wrong[] = {
        {"", "", "nothing in it"},
        {"\n \r\n", "", "nothing in it"},
        {"1,2,0\n1,x,0\n", "", "t.csv: offset 8: line 2, column 2: \"x\" is not a number"},
        {"1,2,0\n1,2\n", "", "line 2, column 2: \"2\" is the last cell of a row that is too short"},
        {"1,2,0\n1,2,0,4\n", "", "line 2, column 4: \"4\" is one cell too many"},
        {"1,2,0.5\n", "", "is not a whole number"},
        {"1,2,-1\n", "", "sample 0 has the label -1"},
        {"1,2,7\n", "classes=7", "sample 0 has the label 7, but labels are from 0 to 6"},
        {"1,1e999,0\n", "header=no", "column 2"},
        {"1,nan,0\n", "header=no", "column 2"},
        {"1,0x10,0\n", "header=no", "column 2"},
        {"1,,0\n", "header=no", "column 2: \"\""},
        {"1,\"2\",0\n", "header=no", "column 2"},
    };
    lk_dataset *ds;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        ASSERT_FAILS(open_text(wrong[i].text, wrong[i].options, &ds), LK_EIO, wrong[i].why);
    ASSERT_FAILS(open_text("1,2\n", "label=c", &ds), LK_EINVAL, "no column \"c\", it has 2");
    ASSERT_FAILS(open_text("1\n2\n", "", &ds), LK_EINVAL, "one column");
    ASSERT_FAILS(open_text("1,2\n", "separator=ab", &ds), LK_EINVAL, "no separator");
    ASSERT_FAILS(open_text("1,2,3\n", "shape=3", &ds), LK_ESHAPE, "[3]");
    ASSERT_FAILS(lk_dataset_open("csv", NULL, LK_TRAIN, &ds), LK_EINVAL, "give path");
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

TEST(what_is_written_is_read_again)
{
    lk_dataset *ds, *back;
    ASSERT_OK(open_text("0.1,-2,0\n3e-5,16777217,1\n", "", &ds));
    ASSERT_OK(lk_dataset_write(ds, NULL, test_path("w.csv")));
    static const char want[] =
        "x0,x1,y\n0.10000000149011612,-2,0\n2.9999999242136255e-05,16777216,1\n";
    test_expect_file(test_path("w.csv"), want, sizeof want - 1);
    char options[300];
    snprintf(options, sizeof options, "path=%s label=y", test_path("w.csv"));
    ASSERT_OK(lk_dataset_open("csv", options, LK_TRAIN, &back));
    uint64_t hash, again;
    ASSERT_OK(lk_dataset_hash(ds, &hash));
    ASSERT_OK(lk_dataset_hash(back, &again));
    ASSERT_EQ(hash, again);
    lk_dataset_free(ds);
    lk_dataset_free(back);
}

/* ---- raw ---- */

static const unsigned char bytes[] = {9, 9, 9, 0x3f, 0x80, 0, 0, 0x40, 0, 0, 0, 0, 0, 0x40, 0x40};

TEST(raw_elements_have_a_type_a_shape_and_an_order)
{
    char options[600];
    lk_dataset *ds;
    float row[2];
    const char *path = test_write("raw", bytes, sizeof bytes);
    snprintf(options, sizeof options, "path=%s offset=3 shape=1 order=big", path);
    ASSERT_OK(lk_dataset_open("raw", options, LK_TRAIN, &ds));
    ASSERT_EQ(lk_dataset_info_of(ds)->count, 3);
    test_sample(ds, "x", 0, row);
    ASSERT_TRUE(row[0] == 1);
    lk_dataset_free(ds);
    snprintf(options, sizeof options, "path=%s offset=11 shape=1,1", path);
    ASSERT_OK(lk_dataset_open("raw", options, LK_TRAIN, &ds));
    test_sample(ds, "x", 0, row);
    ASSERT_TRUE(row[0] == 3);
    lk_dataset_free(ds);
    snprintf(options, sizeof options, "path=%s dtype=u8 shape=5 labels=%s label_shape=5", path,
             path);
    ASSERT_OK(lk_dataset_open("raw", options, LK_TRAIN, &ds));
    ASSERT_EQ(lk_dataset_info_of(ds)->classes, 129);
    lk_dataset_free(ds);
    snprintf(options, sizeof options,
             "path=%s dtype=u8 shape=5 labels=%s label_dtype=f32 label_offset=3 label_order=big",
             path, path);
    ASSERT_OK(lk_dataset_open("raw", options, LK_TRAIN, &ds));
    test_sample(ds, "y", 1, row);
    ASSERT_TRUE(row[0] == 2);
    lk_dataset_free(ds);
}

TEST(raw_files_must_hold_whole_samples)
{
    char options[600];
    lk_dataset *ds;
    const char *path = test_path("raw");
    snprintf(options, sizeof options, "path=%s shape=2", path);
    ASSERT_FAILS(lk_dataset_open("raw", options, LK_TRAIN, &ds), LK_EIO,
                 "raw: offset 0: 15 bytes are no whole number of samples f32[2], 8 each");
    snprintf(options, sizeof options, "path=%s shape=1 offset=16", path);
    ASSERT_FAILS(lk_dataset_open("raw", options, LK_TRAIN, &ds), LK_EIO, "offset 16");
    snprintf(options, sizeof options, "path=%s shape=1000000000,1000000000,1000000000", path);
    ASSERT_FAILS(lk_dataset_open("raw", options, LK_TRAIN, &ds), LK_EOVERFLOW, "");
    snprintf(options, sizeof options, "path=%s shape=3 dtype=u8 labels=%s label_shape=5", path,
             path);
    ASSERT_FAILS(lk_dataset_open("raw", options, LK_TRAIN, &ds), LK_EIO, "labels of 3 samples");
    snprintf(options, sizeof options, "path=%s dtype=u8", path);
    ASSERT_FAILS(lk_dataset_open("raw", options, LK_TRAIN, &ds), LK_EINVAL, "shape");
    snprintf(options, sizeof options, "path=%s shape=1 dtype=u8", test_folder());
    ASSERT_FAILS(lk_dataset_open("raw", options, LK_TRAIN, &ds), LK_EIO, "is a folder");
    snprintf(options, sizeof options, "path=/dev/zero shape=1 dtype=u8");
    ASSERT_FAILS(lk_dataset_open("raw", options, LK_TRAIN, &ds), LK_EIO, "a device or pipe");
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

/* ---- all formats ---- */

TEST(files_tell_their_formats)
{
    static const struct {
        const char *file, *bytes, *format;
        size_t n;
    } known[] = {{"g.csv", "1,2", "csv", 3},
                 {"g.npy", "", "npy", 0},
                 {"g.npz", "", "npz", 0},
                 {"g.tfrecord", "", "tfrecord", 0},
                 {"g.tfrecord.gz", "", "tfrecord", 0},
                 {"g.tfrecord-00000-of-00001", "", "tfrecord", 0},
                 {"images", "\0\0\10\3", "idx", 4},
                 {"other", "abcd", NULL, 4},
                 {"empty", "", NULL, 0}};
    lk_arena *arena;
    lk_config choice;
    ASSERT_OK(lk_arena_new(&arena));
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        const char *path = test_write(known[i].file, known[i].bytes, known[i].n);
        if (!known[i].format) {
            ASSERT_FAILS(lk_format_guess(path, arena, &choice), LK_ENOTSUP, "tell no format");
            continue;
        }
        ASSERT_OK(lk_format_guess(path, arena, &choice));
        ASSERT_EQ(strcmp(choice.descriptor->name, known[i].format), 0);
    }
    ASSERT_FAILS(lk_format_guess(test_path("nothing"), arena, &choice), LK_EIO, "no such file");
    ASSERT_EQ(mkdir(test_path("none"), 0777), 0);
    ASSERT_FAILS(lk_format_guess(test_path("none"), arena, &choice), LK_ENOTSUP, "tell no format");
    /* a folder of records, and a pattern of which no file has the name */
    ASSERT_OK(lk_format_guess(test_folder(), arena, &choice));
    ASSERT_EQ(strcmp(choice.descriptor->name, "tfrecord"), 0);
    ASSERT_OK(lk_format_guess(test_path("train-*.tfrecord"), arena, &choice));
    ASSERT_EQ(strcmp(choice.descriptor->name, "tfrecord"), 0);
    lk_arena_free(arena);
}

static lk_status round_trip(void)
{
    lk_dataset *ds;
    lk_status st = open_text("1,2,0\n3,4,1\n", "", &ds);
    if (st == LK_OK)
        st = lk_dataset_write(ds, NULL, test_path("f.csv"));
    lk_dataset_free(ds);
    return st;
}

TEST(failed_allocations_leave_nothing)
{
    ASSERT_TRUE(test_every_allocation_fails(round_trip) >= 9);
}
