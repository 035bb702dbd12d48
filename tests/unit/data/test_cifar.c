/* CIFAR's binary files: planes become channels, labels are checked, folders are joined. */
#include "data_files.h"
#include "faults.h"

enum { RECORD = 3073 };

static unsigned char file[2 * 3074];

/* Two records; pixel i of plane k is a function of both. */
static void make_records(int label_bytes)
{
    for (int r = 0; r < 2; r++) {
        unsigned char *p = file + r * (3072 + label_bytes);
        p[0] = (unsigned char)(3 + r);
        if (label_bytes == 2)
            p[1] = (unsigned char)(90 + r);
        for (int k = 0; k < 3; k++)
            for (int i = 0; i < 1024; i++)
                p[label_bytes + k * 1024 + i] = (unsigned char)(i + 7 * i / 256 + 50 * k + r);
    }
}

static void check_pixels(lk_dataset *ds, int64_t index, int r)
{
    unsigned char x[3072];
    test_sample(ds, "x", index, x);
    for (int i = 0; i < 1024; i++)
        for (int k = 0; k < 3; k++)
            ASSERT_EQ(x[3 * i + k], (unsigned char)(i + 7 * i / 256 + 50 * k + r));
}

TEST(planes_become_channels)
{
    char options[300];
    lk_dataset *ds;
    make_records(1);
    snprintf(options, sizeof options, "path=%s", test_write("one.bin", file, 2 * RECORD));
    ASSERT_OK(lk_dataset_open("cifar10", options, LK_TRAIN, &ds));
    ASSERT_EQ(lk_dataset_info_of(ds)->count, 2);
    ASSERT_EQ(lk_dataset_info_of(ds)->classes, 10);
    check_pixels(ds, 1, 1);
    ASSERT_EQ(test_label(ds, 0), 3);
    ASSERT_EQ(test_label(ds, 1), 4);
    lk_dataset_free(ds);
    ASSERT_OK(lk_dataset_open("cifar10", options, LK_TEST, &ds));
    ASSERT_TRUE(!ds);
}

TEST(a_box_is_cut_from_the_planes)
{
    char options[300];
    lk_dataset *ds;
    lk_tensor *t;
    make_records(1);
    snprintf(options, sizeof options, "path=%s", test_write("one.bin", file, 2 * RECORD));
    ASSERT_OK(lk_dataset_open("cifar10", options, LK_TRAIN, &ds));
    lk_box box = {3, {5, 20, 1}, {9, 12, 2}};
    ASSERT_OK(lk_tensor_new(LK_U8, LK_SHAPE(1, 9, 12, 2), &t));
    ASSERT_OK(lk_dataset_read_box(ds, 0, &box, (int64_t[]){1}, 1, t));
    const unsigned char *x = lk_tensor_data(t);
    for (int r = 0; r < 9; r++)
        for (int c = 0; c < 12; c++)
            for (int k = 0; k < 2; k++) {
                int i = (5 + r) * 32 + 20 + c;
                ASSERT_EQ(x[(r * 12 + c) * 2 + k],
                          (unsigned char)(i + 7 * i / 256 + 50 * (k + 1) + 1));
            }
    lk_tensor_free(t);
    lk_dataset_free(ds);
}

TEST(a_folder_is_five_files_and_a_test_set)
{
    char options[300], name[64];
    lk_dataset *ds;
    make_records(1);
    ASSERT_EQ(mkdir(test_path("ten"), 0777), 0);
    snprintf(options, sizeof options, "path=%s", test_path("ten"));
    ASSERT_FAILS(lk_dataset_open("cifar10", options, LK_TRAIN, &ds), LK_EIO, "no data_batch_1.bin");
    for (int i = 1; i <= 4; i++) {
        snprintf(name, sizeof name, "ten/data_batch_%d.bin", i);
        test_write(name, file, (size_t)(i == 2 ? 1 : 2) * RECORD);
    }
    ASSERT_FAILS(lk_dataset_open("cifar10", options, LK_TRAIN, &ds), LK_EIO, "data_batch_5.bin");
    test_write("ten/data_batch_5.bin", file, RECORD);
    ASSERT_OK(lk_dataset_open("cifar10", options, LK_TRAIN, &ds));
    ASSERT_EQ(lk_dataset_info_of(ds)->count, 8);
    check_pixels(ds, 2, 0); /* the only one of the second file */
    check_pixels(ds, 4, 1);
    ASSERT_EQ(test_label(ds, 4), 4);
    lk_dataset_free(ds);
    ASSERT_OK(lk_dataset_open("cifar10", options, LK_TEST, &ds));
    ASSERT_TRUE(!ds);
    test_write("ten/test_batch.bin", file + RECORD, RECORD);
    ASSERT_OK(lk_dataset_open("cifar10", options, LK_TEST, &ds));
    check_pixels(ds, 0, 1);
    lk_dataset_free(ds);
}

TEST(cifar100_has_fine_and_coarse_labels)
{
    char options[300];
    lk_dataset *ds;
    make_records(2);
    ASSERT_EQ(mkdir(test_path("hundred"), 0777), 0);
    test_write("hundred/train.bin", file, 2 * 3074);
    snprintf(options, sizeof options, "path=%s", test_path("hundred"));
    ASSERT_OK(lk_dataset_open("cifar100", options, LK_TRAIN, &ds));
    ASSERT_EQ(test_label(ds, 1), 91);
    check_pixels(ds, 1, 1);
    lk_dataset_free(ds);
    snprintf(options, sizeof options, "path=%s coarse=true", test_path("hundred"));
    ASSERT_OK(lk_dataset_open("cifar100", options, LK_TRAIN, &ds));
    ASSERT_EQ(test_label(ds, 1), 4);
    ASSERT_EQ(lk_dataset_info_of(ds)->classes, 20);
    lk_dataset_free(ds);
}

TEST(damage_is_refused)
{
    char options[300];
    lk_dataset *ds;
    make_records(1);
    snprintf(options, sizeof options, "path=%s", test_path("bad.bin"));
    for (size_t n = 0; n < 2 * RECORD; n += n < 8 ? 1 : 37) {
        if (n % RECORD == 0 && n > 0)
            continue;
        test_write("bad.bin", file, n);
        ASSERT_FAILS(lk_dataset_open("cifar10", options, LK_TRAIN, &ds), LK_EIO, "bad.bin: offset");
    }
    file[RECORD] = 10;
    test_write("bad.bin", file, 2 * RECORD);
    ASSERT_FAILS(lk_dataset_open("cifar10", options, LK_TRAIN, &ds), LK_EIO,
                 "bad.bin: offset 3073: the label 10, but CIFAR-10 has 10 classes");
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

TEST(a_file_that_shrinks_while_it_is_read_is_an_error)
{
    char options[300];
    lk_dataset *ds;
    make_records(1);
    snprintf(options, sizeof options, "path=%s", test_write("shrinks.bin", file, 2 * RECORD));
    ASSERT_OK(lk_dataset_open("cifar10", options, LK_TRAIN, &ds));
    ASSERT_EQ(truncate(test_path("shrinks.bin"), 100), 0);
    ASSERT_FAILS(test_read_all(ds), LK_EIO, "the file became shorter while it was read");
    lk_dataset_free(ds);
}

static lk_status open_scenario(void)
{
    char options[300];
    lk_dataset *ds;
    snprintf(options, sizeof options, "path=%s", test_path("ten"));
    lk_status st = lk_dataset_open("cifar10", options, LK_TRAIN, &ds);
    lk_dataset_free(ds);
    return st;
}

TEST(failed_allocations_leave_nothing)
{
    ASSERT_TRUE(test_every_allocation_fails(open_scenario) >= 10);
}
