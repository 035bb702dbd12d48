/* Empty datasets: a number of samples, the order of the set that they stand for, and nothing read. */
#include "data_files.h"
#include "faults.h"
#include "tensors.h"
#include "thread_count.h"

enum { COUNT = 23 };

/* The set that an empty one stands for: reading it is an error, and its samples are images. */
static lk_status unreadable(void *context, int64_t index, void *const *row)
{
    (void)context, (void)row;
    return LK_RAISE(LK_EIO, "sample %lld was read", (long long)index);
}

static lk_dataset *unreadable_set(void)
{
    lk_dataset_info info = {.name = "images",
                            .count = COUNT,
                            .classes = 5,
                            .n_fields = 2,
                            .field = {{"x", LK_U8, LK_DIMS(3, 4, 2)}, {"y", LK_I64, LK_DIMS(0)}}};
    lk_dataset *ds;
    info.field[1].shape = LK_SCALAR;
    ASSERT_OK(lk_dataset_new(&info, unreadable, NULL, NULL, &ds));
    return ds;
}

/* As many samples, all bytes 0. */
static lk_dataset *image_set(void)
{
    lk_tensor *tensor[2];
    lk_dataset_info info = {
        .name = "images", .classes = 5, .n_fields = 2, .field = {{.name = "x"}, {.name = "y"}}};
    lk_dataset *ds;
    ASSERT_OK(lk_tensor_zeros(LK_U8, LK_SHAPE(COUNT, 3, 4, 2), &tensor[0]));
    ASSERT_OK(lk_tensor_zeros(LK_I64, LK_SHAPE(COUNT), &tensor[1]));
    ASSERT_OK(lk_dataset_from_tensors(&info, tensor, &ds));
    lk_tensor_free(tensor[0]);
    lk_tensor_free(tensor[1]);
    return ds;
}

static lk_dataset *empty_of(const char *options, lk_split split)
{
    lk_dataset *ds;
    ASSERT_OK(lk_dataset_open("empty", options, split, &ds));
    return ds;
}

static uint64_t hash_of(lk_dataset *ds)
{
    uint64_t hash;
    ASSERT_OK(lk_dataset_hash(ds, &hash));
    lk_dataset_free(ds);
    return hash;
}

TEST(nothing_is_prepared_ahead)
{
    lk_dataset *ds = empty_of("samples=1000000000000000", LK_TRAIN);
    lk_loader *l;
    lk_batch b;
    int before = count_threads();
    ASSERT_OK(lk_loader_new(ds, "batch=100 prefetch=8", 7, &l));
    ASSERT_OK(lk_loader_read_batch(l, 0, 0, 0, 100, &b));
    int64_t calls = lk_alloc_stats_now().calls;
    for (int64_t i = 1; i < 50; i++)
        ASSERT_OK(lk_loader_read_batch(l, i, i, i, i, &b));
    ASSERT_EQ(lk_alloc_stats_now().calls, calls);
    ASSERT_OK(lk_loader_read_batch(l, 0, INT64_C(9999999999999), 0, 100, &b));
    ASSERT_EQ(count_threads(), before);
    lk_loader_free(l);
    lk_dataset_free(ds);
}

TEST(it_is_a_number_of_samples_and_nothing_else)
{
    lk_dataset *like = unreadable_set(), *ds;
    ASSERT_OK(lk_dataset_new_empty_like(like, &ds));
    lk_dataset_free(like);
    const lk_dataset_info *info = lk_dataset_info_of(ds);
    ASSERT_EQ(info->count, COUNT);
    ASSERT_EQ(info->n_fields, 0);
    ASSERT_EQ(info->classes, 0);
    ASSERT_TRUE(info->in_memory);
    ASSERT_EQ(lk_dataset_find(ds, "x"), -1);
    lk_tensor *none[LK_MAX_FIELDS] = {NULL};
    ASSERT_OK(lk_dataset_read(ds, (int64_t[]){22, 0}, 2, none));
    ASSERT_FAILS(lk_dataset_read(ds, (int64_t[]){23}, 1, none), LK_EINVAL, "there is no sample 23");
    lk_dataset_free(ds);
    ASSERT_FAILS(lk_dataset_new_empty_like(NULL, &ds), LK_EINVAL, "NULL");
    ASSERT_TRUE(ds == NULL);
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

TEST(the_format_has_the_sets_that_it_is_told)
{
    lk_dataset *ds = empty_of("samples=60000 test_samples=10000", LK_TRAIN);
    ASSERT_EQ(lk_dataset_info_of(ds)->count, 60000);
    lk_dataset_free(ds);
    ds = empty_of("samples=60000 test_samples=10000", LK_TEST);
    ASSERT_EQ(lk_dataset_info_of(ds)->count, 10000);
    lk_dataset_free(ds);
    ASSERT_TRUE(empty_of("samples=60000", LK_TEST) == NULL);
    ASSERT_TRUE(empty_of("samples=60000 test_samples=10000", LK_VALIDATION) == NULL);
    ASSERT_FAILS(lk_dataset_open("empty", NULL, LK_TRAIN, &ds), LK_EINVAL, "samples");
    ASSERT_FAILS(lk_dataset_open("empty", "samples=0", LK_TRAIN, &ds), LK_EINVAL, "out of range");
}

TEST(the_hash_is_of_the_number)
{
    lk_dataset *like = unreadable_set(), *ds;
    ASSERT_OK(lk_dataset_new_empty_like(like, &ds));
    lk_dataset_free(like);
    uint64_t hash = hash_of(ds);
    ASSERT_TRUE(hash == hash_of(empty_of("samples=23", LK_TRAIN)));
    ASSERT_TRUE(hash == hash_of(empty_of("samples=5 test_samples=23", LK_TEST)));
    ASSERT_TRUE(hash != hash_of(empty_of("samples=24", LK_TRAIN)));
    ASSERT_TRUE(hash != hash_of(empty_of("samples=1000000000000000", LK_TRAIN))); /* at once */
}

TEST(parts_of_it_are_as_long_as_those_of_the_set)
{
    lk_dataset *like = unreadable_set(), *empty, *part[2][2];
    ASSERT_OK(lk_dataset_new_empty_like(like, &empty));
    for (int i = 1; i < 8; i++) {
        double share = i < 4 ? 0.2 * i : i; /* below 1: a share, else a number */
        ASSERT_OK(lk_dataset_split(like, 7, share, &part[0][0], &part[0][1]));
        ASSERT_OK(lk_dataset_split(empty, 7, share, &part[1][0], &part[1][1]));
        for (int k = 0; k < 2; k++) {
            ASSERT_EQ(lk_dataset_info_of(part[1][k])->count, lk_dataset_info_of(part[0][k])->count);
            ASSERT_EQ(lk_dataset_info_of(part[1][k])->n_fields, 0);
            lk_dataset_free(part[0][k]);
            lk_dataset_free(part[1][k]);
        }
    }
    ASSERT_FAILS(lk_dataset_subset(empty, 7, 20, 4, &part[0][0]), LK_EINVAL, "samples 20 to 23");
    ASSERT_FAILS(lk_dataset_split(empty, 7, COUNT, &part[0][0], &part[0][1]), LK_EINVAL,
                 "leave nothing on one side");
    lk_dataset_free(empty);
    lk_dataset_free(like);
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

/* Batches, and parts of them, of both loaders: the same samples at the same places. */
static void compare(lk_loader *full, lk_loader *empty)
{
    ASSERT_EQ(lk_loader_batches(empty), lk_loader_batches(full));
    ASSERT_EQ(lk_loader_shards(empty), lk_loader_shards(full));
    ASSERT_EQ(lk_loader_shard_size(empty), lk_loader_shard_size(full));
    for (int64_t i = 0; i < 9; i++) {
        int64_t number = i % 3, size = lk_loader_batch_size(full, number);
        int64_t first = i < 6 ? 0 : size / 3, n = i < 6 ? size : size / 2;
        lk_batch a, b;
        ASSERT_OK(lk_loader_read_batch(full, i / 3, number, first, n, &a));
        ASSERT_OK(lk_loader_read_batch(empty, i / 3, number, first, n, &b));
        ASSERT_EQ(b.epoch, i / 3);
        ASSERT_EQ(b.number, number);
        ASSERT_EQ(b.size, size);
        ASSERT_EQ(b.first, first);
        ASSERT_EQ(b.n, n);
        ASSERT_SAME_BITS(b.index, a.index, (size_t)n * sizeof *a.index);
        ASSERT_TRUE(a.x && a.y && !b.x && !b.y && b.n_fields == 0);
    }
    lk_batch b;
    ASSERT_FAILS(lk_loader_read_batch(empty, 0, 3, 0, 1, &b), LK_EINVAL, "there are 3 batches");
    ASSERT_FAILS(lk_loader_read_batch(empty, 0, 2, 0, 4, &b), LK_EINVAL, "a batch of 3");
}

TEST(its_batches_have_the_order_of_the_set)
{
    static const char *const options[] = {
        "batch=10 shards=4",
        "batch=10 shards=4 shuffle=false prefetch=5",
        "batch=10 prefetch=5 crop=1 flip=true one_hot=true normalise=standard mean=3 std=2",
    };
    for (int i = 0; i < 3; i++) {
        lk_dataset *set = image_set(), *hollow;
        lk_loader *full, *empty, *test[2];
        ASSERT_OK(lk_dataset_new_empty_like(set, &hollow));
        ASSERT_OK(lk_loader_new(set, options[i], 7, &full));
        ASSERT_OK(lk_loader_new(hollow, options[i], 7, &empty));
        compare(full, empty);
        ASSERT_OK(lk_loader_new_like(full, set, &test[0]));
        ASSERT_OK(lk_loader_new_like(empty, hollow, &test[1]));
        compare(test[0], test[1]);
        ASSERT_EQ(lk_loader_field(empty, 0).name[0], '\0');
        lk_loader_free(test[0]);
        lk_loader_free(test[1]);
        lk_loader_free(empty);
        lk_loader_free(full);
        lk_dataset_free(hollow);
        lk_dataset_free(set);
    }
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

TEST(what_needs_a_field_refuses)
{
    lk_dataset *set = image_set(), *hollow, *ds;
    lk_loader *full, *empty, *l;
    ASSERT_OK(lk_dataset_new_empty_like(set, &hollow));
    ASSERT_OK(lk_loader_new(set, "batch=10 shards=4", 7, &full));
    ASSERT_OK(lk_loader_new(hollow, "batch=10 shards=4", 7, &empty));
    ASSERT_FAILS(lk_loader_new_like(full, hollow, &l), LK_ESHAPE,
                 "dataset empty is empty, images is not");
    ASSERT_FAILS(lk_loader_new_like(empty, set, &l), LK_ESHAPE,
                 "dataset images is not empty, empty is");
    ASSERT_FAILS(lk_dataset_write(hollow, NULL, "/no/such/folder/a.npz"), LK_ENOTSUP,
                 "the data is empty: 23 samples without fields, there is nothing to write");
    lk_dataset_info info = {.name = "it", .count = 2};
    ASSERT_FAILS(lk_dataset_new(&info, unreadable, NULL, NULL, &ds), LK_EINVAL,
                 "0 fields, there must be 1 to 8; one without fields is made by");
    ASSERT_FAILS(lk_dataset_from_tensors(&info, NULL, &ds), LK_EINVAL, "0 fields");
    lk_loader_free(empty);
    lk_loader_free(full);
    lk_dataset_free(hollow);
    lk_dataset_free(set);
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

static lk_status scenario(void)
{
    lk_dataset *ds = NULL, *train = NULL, *valid = NULL;
    lk_loader *l = NULL, *like = NULL;
    lk_status st = LK_OK;
    lk_batch b;
    uint64_t hash;
    LK_TRY_TO(done, lk_dataset_open("empty", "samples=23", LK_TRAIN, &ds));
    LK_TRY_TO(done, lk_dataset_split(ds, 1, 0.5, &train, &valid));
    LK_TRY_TO(done, lk_dataset_hash(valid, &hash));
    LK_TRY_TO(done, lk_loader_new(train, "batch=10", 7, &l));
    LK_TRY_TO(done, lk_loader_new_like(l, valid, &like));
    LK_TRY_TO(done, lk_loader_read_batch(like, 0, 1, 0, 1, &b));
done:
    lk_loader_free(like);
    lk_loader_free(l);
    lk_dataset_free(train);
    lk_dataset_free(valid);
    lk_dataset_free(ds);
    return st;
}

TEST(failed_allocations_leave_nothing)
{
    ASSERT_TRUE(test_every_allocation_fails(scenario) >= 9);
}

/* The first counts threads: no loader of another test may be ending one. */
