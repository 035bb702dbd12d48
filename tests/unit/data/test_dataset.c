/* Datasets: in memory, from functions, parts and splits, and the hash of their content. */
#include "data_files.h"
#include "faults.h"
#include "tensors.h"

/* 7 samples: x is [2] of 0, 1, 2, ..., y is 0, 1, 2, 0, 1, ... */
static lk_dataset *small_set(void)
{
    lk_tensor *tensor[] = {test_iota(LK_F32, LK_SHAPE(7, 2)), test_iota(LK_I64, LK_SHAPE(7))};
    for (int64_t i = 0; i < 7; i++)
        ASSERT_OK(lk_tensor_set_i64(tensor[1], LK_AT(i), i % 3));
    lk_dataset_info info = {
        .name = "small", .classes = 3, .n_fields = 2, .field = {{.name = "x"}, {.name = "y"}}};
    lk_dataset *ds;
    ASSERT_OK(lk_dataset_from_tensors(&info, tensor, &ds));
    lk_tensor_free(tensor[0]);
    lk_tensor_free(tensor[1]);
    return ds;
}

/* The set that small_set() makes of tensors, of arrays. */
TEST(arrays_are_a_dataset)
{
    float x[7][2];
    int64_t y[7];
    for (int i = 0; i < 14; i++)
        x[i / 2][i % 2] = (float)i;
    for (int i = 0; i < 7; i++)
        y[i] = i % 3;
    lk_dataset *of_tensors = small_set(), *ds;
    uint64_t wanted, hash;
    ASSERT_OK(lk_dataset_from_arrays(7, LK_SHAPE(2), x[0], y, 3, &ds));
    ASSERT_OK(lk_dataset_hash(of_tensors, &wanted));
    ASSERT_OK(lk_dataset_hash(ds, &hash));
    ASSERT_TRUE(hash == wanted);
    lk_dataset_free(of_tensors);
    lk_dataset_free(ds);
    ASSERT_FAILS(lk_dataset_from_arrays(7, LK_SHAPE(2), x[0], y, 0, &ds), LK_EINVAL, "0 classes");
    ASSERT_FAILS(lk_dataset_from_arrays(7, LK_SHAPE(2), x[0], y, 2, &ds), LK_EINVAL,
                 "sample 2 has the label 2");
    ASSERT_FAILS(lk_dataset_from_arrays(-1, LK_SHAPE(2), x[0], y, 3, &ds), LK_EINVAL, "-1");
    ASSERT_FAILS(lk_dataset_from_arrays(7, LK_SHAPE(1, 1, 1, 1, 1, 1, 1, 2), x[0], y, 3, &ds),
                 LK_ESHAPE, "8 axes");
    ASSERT_FAILS(lk_dataset_from_arrays(7, (lk_shape){.ndim = -1}, x[0], y, 3, &ds), LK_ESHAPE,
                 "-1 axes");
    ASSERT_FAILS(lk_dataset_open("given", NULL, LK_TRAIN, &ds), LK_EINVAL, "lk_job_spec.set");
    ASSERT_TRUE(!ds);
}

TEST(tensors_are_a_dataset)
{
    lk_dataset *ds = small_set();
    const lk_dataset_info *info = lk_dataset_info_of(ds);
    ASSERT_EQ(info->count, 7);
    ASSERT_EQ(info->classes, 3);
    ASSERT_EQ(lk_dataset_find(ds, "y"), 1);
    ASSERT_EQ(lk_dataset_find(ds, "z"), -1);
    ASSERT_EQ(info->field[0].shape.ndim, 1);
    ASSERT_EQ(info->field[1].shape.ndim, 0);
    lk_tensor *tensor[2] = {NULL, NULL};
    ASSERT_OK(lk_tensor_new(LK_F32, LK_SHAPE(3, 2), &tensor[0]));
    ASSERT_OK(lk_dataset_read(ds, (int64_t[]){6, 0, 6}, 3, tensor));
    TEST_EXPECT(tensor[0], 12, 13, 0, 1, 12, 13);
    lk_tensor_free(tensor[0]);
    lk_dataset_free(ds);
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

/* Twice the values of another set, with its labels. */
static lk_status doubled_row(void *context, int64_t index, void *const *row)
{
    lk_tensor *x, *y = NULL;
    LK_TRY(lk_tensor_new(LK_F32, LK_SHAPE(1, 2), &x));
    lk_status st = lk_tensor_new(LK_I64, LK_SHAPE(1), &y);
    if (st == LK_OK)
        st = lk_dataset_read(context, &index, 1, (lk_tensor *[]){x, y});
    for (int i = 0; st == LK_OK && row[0] && i < 2; i++)
        ((float *)row[0])[i] = 2 * ((const float *)lk_tensor_data(x))[i];
    if (st == LK_OK && row[1])
        memcpy(row[1], lk_tensor_data(y), sizeof(int64_t));
    lk_tensor_free(x);
    lk_tensor_free(y);
    return st;
}

/* As DataFlow's sets are made of others, in batches and again and again. */
TEST(a_set_can_be_made_of_another)
{
    lk_dataset *of = small_set(), *ds;
    lk_dataset_info info = *lk_dataset_info_of(of);
    lk_loader *loader;
    ASSERT_OK(lk_dataset_new(&info, doubled_row, NULL, of, &ds));
    ASSERT_OK(lk_loader_new(ds, "batch=3 shuffle=false", 1, &loader));
    for (int64_t epoch = 0; epoch < 2; epoch++)
        for (int64_t i = 0; i < 3; i++) {
            lk_batch b;
            ASSERT_OK(lk_loader_read_batch(loader, epoch, i, 0, i < 2 ? 3 : 1, &b));
            const float *x = lk_tensor_data(b.x);
            for (int64_t k = 0; k < (i < 2 ? 6 : 2); k++)
                ASSERT_TRUE(x[k] == (float)(2 * (6 * i + k)));
        }
    lk_loader_free(loader);
    lk_dataset_free(ds);
    lk_dataset_free(of);
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

TEST(targets_that_do_not_fit_are_refused)
{
    lk_dataset *ds = small_set();
    lk_tensor *x, *y, *wide;
    ASSERT_OK(lk_tensor_new(LK_F32, LK_SHAPE(2, 2), &x));
    ASSERT_OK(lk_tensor_new(LK_I32, LK_SHAPE(2), &y));
    ASSERT_OK(lk_tensor_new(LK_F32, LK_SHAPE(2, 3), &wide));
    int64_t index[] = {0, 7};
    ASSERT_FAILS(lk_dataset_read(ds, index, 2, (lk_tensor *[]){x, NULL}), LK_EINVAL,
                 "no sample 7, it has 7");
    ASSERT_FAILS(lk_dataset_read(ds, index, 1, (lk_tensor *[]){x, NULL}), LK_ESHAPE, "f32[2,2]");
    ASSERT_FAILS(lk_dataset_read(ds, index, 2, (lk_tensor *[]){wide, NULL}), LK_ESHAPE,
                 "field \"x\" are [2,2], the tensor for them f32[2,3]");
    ASSERT_FAILS(lk_dataset_read(ds, index, 2, (lk_tensor *[]){NULL, y}), LK_EDTYPE,
                 "field \"y\" is i64");
    ASSERT_FAILS(lk_dataset_read(ds, index, -1, (lk_tensor *[]){NULL, NULL}), LK_EINVAL, "-1");
    lk_tensor_free(x);
    lk_tensor_free(y);
    lk_tensor_free(wide);
    lk_dataset_free(ds);
}

static lk_status no_row(void *context, int64_t index, void *const *row)
{
    (void)context, (void)index, (void)row;
    return LK_RAISE(LK_EIO, "row %lld is gone", (long long)index);
}

TEST(wrong_descriptions_are_refused)
{
    lk_dataset *ds;
    lk_dataset_info info = {.name = "it", .count = 2, .n_fields = 1, .field = {{.name = "x"}}};
    ASSERT_OK(lk_dataset_new(&info, no_row, NULL, NULL, &ds));
    uint64_t hash;
    ASSERT_FAILS(lk_dataset_hash(ds, &hash), LK_EIO, "row 0 is gone");
    lk_dataset_free(ds);
    info.classes = 2;
    ASSERT_FAILS(lk_dataset_new(&info, no_row, NULL, NULL, &ds), LK_EINVAL, "no field \"y\"");
    info.classes = 0;
    info.n_fields = 2;
    ASSERT_FAILS(lk_dataset_new(&info, no_row, NULL, NULL, &ds), LK_EINVAL, "has no name");
    info.field[1] = info.field[0];
    ASSERT_FAILS(lk_dataset_new(&info, no_row, NULL, NULL, &ds), LK_EINVAL, "two fields");
    info.n_fields = 1;
    info.field[0].shape = (lk_shape)LK_DIMS(INT64_C(1) << 40, INT64_C(1) << 20);
    ASSERT_FAILS(lk_dataset_new(&info, no_row, NULL, NULL, &ds), LK_EOVERFLOW, "");
    info.field[0].shape.dim[1] = 0; /* then the other axis does not matter */
    info.field[0].shape.dim[0] = INT64_MAX;
    ASSERT_OK(lk_dataset_new(&info, no_row, NULL, NULL, &ds));
    lk_dataset_free(ds);
    info.field[0].shape = LK_SCALAR;
    info.count = -1;
    ASSERT_FAILS(lk_dataset_new(&info, no_row, NULL, NULL, &ds), LK_EINVAL, "-1 samples");
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

TEST(a_label_that_is_no_class_is_refused)
{
    lk_tensor *tensor[] = {test_iota(LK_F32, LK_SHAPE(4, 2)), test_iota(LK_I64, LK_SHAPE(4))};
    lk_dataset_info info = {
        .name = "it", .classes = 3, .n_fields = 2, .field = {{.name = "x"}, {.name = "y"}}};
    lk_dataset *ds;
    ASSERT_FAILS(lk_dataset_from_tensors(&info, tensor, &ds), LK_EINVAL,
                 "sample 3 has the label 3, but 3 classes are numbered from 0");
    lk_tensor *fewer = test_iota(LK_I64, LK_SHAPE(3));
    ASSERT_FAILS(lk_dataset_from_tensors(&info, (lk_tensor *[]){tensor[0], fewer}, &ds), LK_ESHAPE,
                 "field \"y\" has 3 samples, field \"x\" 4");
    lk_tensor_free(fewer);
    lk_tensor_free(tensor[0]);
    lk_tensor_free(tensor[1]);
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

TEST(the_hash_is_of_the_content)
{
    lk_dataset *ds = small_set();
    uint64_t hash, again;
    ASSERT_OK(lk_dataset_hash(ds, &hash));
    ASSERT_OK(lk_dataset_hash(ds, &again));
    ASSERT_EQ(hash, again);
    /* The definition, written out. */
    lk_hash h = lk_hash_start();
    lk_hash_add_i64(&h, 7);
    lk_hash_add_i64(&h, 3);
    lk_hash_add_i64(&h, 2);
    lk_hash_add_header(&h, "x", LK_F32, 1, (int64_t[]){2});
    lk_hash_add_header(&h, "y", LK_I64, 0, NULL);
    for (int i = 0; i < 7; i++) {
        float x[] = {(float)(2 * i), (float)(2 * i + 1)};
        int64_t y = i % 3;
        lk_hash_add_bytes(&h, x, sizeof x);
        lk_hash_add_bytes(&h, &y, sizeof y);
    }
    ASSERT_EQ(hash, lk_hash_value(&h));
    lk_dataset_free(ds);
}

TEST(a_split_is_a_partition_that_the_seed_decides)
{
    lk_dataset *ds = small_set(), *train, *valid;
    int seen[7] = {0};
    ASSERT_OK(lk_dataset_split(ds, 5, 0.3, &train, &valid));
    ASSERT_EQ(lk_dataset_info_of(train)->count, 5);
    ASSERT_EQ(lk_dataset_info_of(valid)->count, 2);
    for (int part = 0; part < 2; part++) {
        lk_dataset *from = part ? valid : train;
        for (int64_t i = 0; i < lk_dataset_info_of(from)->count; i++) {
            float x[2];
            test_sample(from, "x", i, x);
            seen[(int)x[0] / 2]++;
            ASSERT_EQ(test_label(from, i), (int)x[0] / 2 % 3);
        }
    }
    for (int i = 0; i < 7; i++)
        ASSERT_EQ(seen[i], 1);
    uint64_t hash, other;
    ASSERT_OK(lk_dataset_hash(valid, &hash));
    lk_dataset_free(train);
    lk_dataset_free(valid);
    ASSERT_OK(lk_dataset_split(ds, 5, 2, &train, &valid));
    ASSERT_OK(lk_dataset_hash(valid, &other));
    ASSERT_EQ(hash, other);
    lk_dataset_free(train);
    lk_dataset_free(valid);
    ASSERT_OK(lk_dataset_split(ds, 5, 0, &train, &valid));
    ASSERT_TRUE(train == ds && !valid);
    lk_dataset_free(train);
    ASSERT_FAILS(lk_dataset_split(ds, 5, 7, &train, &valid), LK_EINVAL, "7 of 7 samples");
    ASSERT_FAILS(lk_dataset_split(ds, 5, 0.01, &train, &valid), LK_EINVAL, "0 of 7 samples");
    ASSERT_FAILS(lk_dataset_split(ds, 5, -1, &train, &valid), LK_EINVAL, "-1");
    ASSERT_FAILS(lk_dataset_subset(ds, 5, 5, 3, &train), LK_EINVAL, "samples 5 to 7 of 7");
    lk_dataset_free(ds);
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

TEST(a_choice_of_samples_is_one_that_the_seed_decides)
{
    lk_dataset *ds = small_set(), *some, *again, *other;
    int seen[7] = {0};
    ASSERT_OK(lk_dataset_sample(ds, 5, 4, &some));
    ASSERT_EQ(lk_dataset_info_of(some)->count, 4);
    for (int64_t i = 0; i < 4; i++) {
        float x[2];
        test_sample(some, "x", i, x);
        ASSERT_EQ(seen[(int)x[0] / 2]++, 0);
        ASSERT_EQ(test_label(some, i), (int)x[0] / 2 % 3);
    }
    uint64_t hash, same, differs;
    ASSERT_OK(lk_dataset_sample(ds, 5, 0.6, &again)); /* 4.2 samples are 4 */
    ASSERT_OK(lk_dataset_sample(ds, 6, 4, &other));
    ASSERT_OK(lk_dataset_hash(some, &hash));
    ASSERT_OK(lk_dataset_hash(again, &same));
    ASSERT_OK(lk_dataset_hash(other, &differs));
    ASSERT_EQ(hash, same);
    ASSERT_TRUE(hash != differs);
    lk_dataset_free(some);
    lk_dataset_free(again);
    lk_dataset_free(other);
    ASSERT_OK(lk_dataset_sample(ds, 5, 0, &some));
    ASSERT_TRUE(some == ds);
    lk_dataset_free(some);
    ASSERT_OK(lk_dataset_sample(ds, 5, 7, &some));
    lk_dataset_free(some);
    ASSERT_FAILS(lk_dataset_sample(ds, 5, 8, &some), LK_EINVAL,
                 "8 samples are to be taken, it has 7");
    ASSERT_FAILS(lk_dataset_sample(ds, 5, 2.5, &some), LK_EINVAL,
                 "2.5 samples are to be taken: from");
    ASSERT_FAILS(lk_dataset_sample(ds, 5, 0.1, &some), LK_EINVAL, "a share of 0.1 of 7 samples");
    ASSERT_FAILS(lk_dataset_sample(ds, 5, -1, &some), LK_EINVAL, "-1 samples");
    ASSERT_TRUE(!some);
    lk_dataset_free(ds);
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

static lk_status split_scenario(void)
{
    lk_dataset *ds = NULL, *train = NULL, *valid = NULL;
    float value[4] = {0};
    lk_tensor *x;
    LK_TRY(lk_tensor_wrap(LK_F32, LK_SHAPE(4), value, NULL, NULL, &x));
    lk_status st = LK_OK;
    uint64_t hash;
    lk_dataset_info info = {.name = "it", .n_fields = 1, .field = {{.name = "x"}}};
    LK_TRY_TO(done, lk_dataset_from_tensors(&info, &x, &ds));
    LK_TRY_TO(done, lk_dataset_split(ds, 1, 0.5, &train, &valid));
    LK_TRY_TO(done, lk_dataset_hash(valid, &hash));
done:
    lk_tensor_free(x);
    lk_dataset_free(ds);
    lk_dataset_free(train);
    lk_dataset_free(valid);
    return st;
}

TEST(failed_allocations_leave_nothing)
{
    ASSERT_TRUE(test_every_allocation_fails(split_scenario) >= 6);
}
