/* Loaders for models that take whole numbers: kept as they are, checked, never normalised. */
#include "data_files.h"
#include "tensors.h"

#include <lockstep/nn.h>

static const lk_loader_options options = {.batch = 4, .shards = 1, .scale = 1, .indices = 100};

/* A set of a field x of the tensor, which is freed. */
static lk_dataset *set_of(lk_tensor *x)
{
    lk_dataset_info info = {.name = "a test", .n_fields = 1, .field = {{.name = "x"}}};
    lk_dataset *ds;
    ASSERT_OK(lk_dataset_from_tensors(&info, &x, &ds));
    lk_tensor_free(x);
    return ds;
}

TEST(numbers_stay_whole_from_every_dtype)
{
    const lk_dtype from[] = {LK_U8, LK_I32, LK_I64, LK_F32, LK_F64, LK_F16, LK_BF16};
    const lk_dtype to[] = {LK_I32, LK_I32, LK_I64, LK_I64, LK_I64, LK_I64, LK_I64};
    for (int k = 0; k < 7; k++) {
        lk_dataset *ds = set_of(test_iota(from[k], LK_SHAPE(4, 3)));
        lk_loader *l, *like;
        lk_batch batch;
        ASSERT_OK(lk_loader_new_options(ds, &options, 1, &l));
        ASSERT_OK(lk_loader_new_like(l, ds, &like));
        ASSERT_EQ(lk_loader_field(l, 0).dtype, to[k]);
        for (int i = 0; i < 2; i++) {
            ASSERT_OK(lk_loader_read_batch(i ? like : l, 0, 0, 0, 4, &batch));
            lk_tensor *want = test_iota(to[k], LK_SHAPE(4, 3));
            ASSERT_EQ(lk_tensor_dtype(batch.x), to[k]);
            ASSERT_SAME_BITS(lk_tensor_data(batch.x), lk_tensor_data(want),
                             12 * lk_dtype_size(to[k]));
            lk_tensor_free(want);
        }
        lk_loader_free(like);
        lk_loader_free(l);
        lk_dataset_free(ds);
    }
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

/* One value of sample 2 is `value`; its batch is refused with these words, or made. */
static void expect_value(lk_dtype dtype, double value, int64_t below, const char *words)
{
    lk_tensor *x = test_iota(dtype, LK_SHAPE(4, 3));
    lk_loader_options o = options;
    lk_loader *l;
    lk_batch batch;
    o.indices = below;
    ASSERT_OK(lk_tensor_set_f64(x, LK_AT(2, 1), value));
    lk_dataset *ds = set_of(x);
    ASSERT_OK(lk_loader_new_options(ds, &o, 1, &l));
    lk_status st = lk_loader_read_batch(l, 0, 0, 0, 4, &batch);
    if (words) {
        ASSERT_EQ(st, LK_EIO);
        ASSERT_TRUE(strstr(lk_error_message(), words));
    } else {
        ASSERT_OK(st);
        ASSERT_TRUE(((const int64_t *)lk_tensor_data(batch.x))[7] == (int64_t)value);
    }
    lk_loader_free(l);
    lk_dataset_free(ds);
}

TEST(what_is_no_index_is_told_with_its_sample)
{
    const int64_t many = (int64_t)1 << 60;
    expect_value(LK_I64, 100, 100,
                 "sample 2 has the value 100 at element 1, but the model takes 0 to 99");
    expect_value(LK_I64, -1, 100, "sample 2 has the value -1 at element 1");
    expect_value(LK_I32, 1e9, 100, "sample 2 has the value 1000000000 at element 1");
    expect_value(LK_U8, 12, 12, "sample 2 has the value 12 at element 1");
    expect_value(LK_F32, 2.5, 100,
                 "sample 2 has the value 2.5 at element 1, but the model takes whole");
    expect_value(LK_F32, -3, 100,
                 "sample 2 has the value -3 at element 1, but the model takes 0 to 99");
    expect_value(LK_F32, (double)NAN, 100, "at element 1, but the model takes whole");
    expect_value(LK_F64, (double)INFINITY, 100, "at element 1, but the model takes whole");
    expect_value(LK_F32, 16777215, many, NULL);
    expect_value(LK_F32, 16777217, many, "from 16777216 on, whole numbers are not exact as f32");
    expect_value(LK_F64, 16777217, many, NULL);
    expect_value(LK_F64, 9007199254740992, many, "are not exact as f64");
    expect_value(LK_F16, 2048, many, "from 2048 on, whole numbers are not exact as f16");
    expect_value(LK_BF16, 256, many, "from 256 on, whole numbers are not exact as bf16");
}

TEST(they_are_not_normalised)
{
    lk_dataset *ds = set_of(test_iota(LK_I64, LK_SHAPE(4, 3)));
    lk_loader *l;
    for (int wrong = 0; wrong < 6; wrong++) {
        lk_loader_options o = options;
        o.normalise = wrong == 0   ? LK_NORMALISE_UNIT
                      : wrong == 1 ? LK_NORMALISE_STANDARD
                                   : LK_NORMALISE_NONE;
        o.scale = wrong == 2 ? 2 : 1;
        o.shift = wrong == 3 ? 1 : 0;
        if (wrong == 4)
            o.mean = (lk_option_reals){.n = 1, .item = {1}};
        if (wrong == 5)
            o.indices = -1;
        ASSERT_FAILS(lk_loader_new_options(ds, &o, 1, &l), LK_EINVAL,
                     wrong == 5 ? "indices below -1" : "which are not normalised");
    }
    lk_dataset_free(ds);
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

/* What a model of these layers takes. */
static int64_t indices_of(const char *const *layer, const char *const *with)
{
    lk_model *model;
    ASSERT_OK(lk_model_new(&model));
    for (int i = 0; layer[i]; i++)
        ASSERT_OK(lk_model_add(model, layer[i], with[i]));
    int64_t n = lk_model_index_limit(model);
    lk_model_free(model);
    return n;
}

TEST(the_first_layer_says_what_a_model_takes)
{
    const char *const options_of[] = {"rows=7 units=2", NULL, NULL};
    ASSERT_EQ(indices_of((const char *[]){"embedding", "relu", NULL}, options_of), 7);
    ASSERT_EQ(indices_of((const char *[]){"flatten", "reshape", "embedding", NULL},
                         (const char *[]){NULL, "shape=2,3", "rows=9 units=2"}),
              9);
    ASSERT_EQ(indices_of((const char *[]){"relu", "embedding", NULL},
                         (const char *[]){NULL, "rows=9 units=2"}),
              0);
    ASSERT_EQ(indices_of((const char *[]){"linear", NULL}, (const char *[]){"units=3"}), 0);
    ASSERT_EQ(indices_of((const char *[]){"flatten", NULL}, (const char *[]){NULL}), 0);
}
