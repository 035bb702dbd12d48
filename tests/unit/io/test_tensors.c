/* Named tensors through every format: the same names and bits, or a reason why not. */
#include "data/arrays/npz.h"
#include "data_files.h"
#include "faults.h"
#include "tensors.h"

#include <lockstep/io.h>

static const char *const files[] = {"t.safetensors", "t.npz"};

TEST(names_and_bits_come_back_sorted)
{
    lk_tensor *wide = test_iota(LK_F32, LK_SHAPE(2, 3)), *turned,
              *whole = test_iota(LK_I64, LK_SHAPE(4)), *none;
    ASSERT_OK(lk_tensor_transpose(wide, 0, 1, &turned));
    ASSERT_OK(lk_tensor_new(LK_F16, LK_SHAPE(0, 5), &none));
    const lk_named_tensor named[] = {{"b/\xc3\xa9", turned}, {"c", whole}, {"a", none}};
    uint64_t hash[2];
    for (int i = 0; i < 2; i++) {
        lk_tensors *t;
        ASSERT_OK(lk_tensors_save(test_path(files[i]), named, 3, &(lk_metadata){"k", "v"}, 1));
        ASSERT_OK(lk_tensors_load(test_path(files[i]), &t));
        ASSERT_EQ(t->n, 3);
        ASSERT_TRUE(strcmp(t->tensor[0].name, "a") == 0 && strcmp(t->tensor[2].name, "c") == 0);
        for (int k = 0; k < 3; k++)
            ASSERT_TRUE(lk_tensor_is_equal(lk_tensors_find(t, named[k].name), named[k].tensor));
        ASSERT_TRUE(!lk_tensors_find(t, "b"));
        ASSERT_EQ(t->n_metadata, i == 0);
        hash[i] = lk_tensors_hash(t);
        lk_tensors_free(t);
    }
    ASSERT_TRUE(hash[0] == hash[1]);
    lk_tensor_free(wide);
    lk_tensor_free(turned);
    lk_tensor_free(whole);
    lk_tensor_free(none);
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

TEST(an_array_is_named_after_its_file)
{
    lk_tensor *w = test_iota(LK_F64, LK_SHAPE(3)), *turned;
    lk_tensors *t;
    ASSERT_OK(lk_tensor_reshape(w, LK_SHAPE(1, 3), &turned));
    ASSERT_OK(
        lk_tensors_save(test_path("head.weight.npy"), &(lk_named_tensor){"x", turned}, 1, NULL, 0));
    ASSERT_OK(lk_tensors_load(test_path("head.weight.npy"), &t));
    ASSERT_EQ(t->n, 1);
    ASSERT_TRUE(lk_tensor_is_equal(lk_tensors_find(t, "head.weight"), turned));
    lk_tensors_free(t);
    lk_tensor_free(w);
    lk_tensor_free(turned);
}

TEST(the_hash_depends_on_names_types_shapes_and_values)
{
    lk_tensor *t[] = {test_iota(LK_F32, LK_SHAPE(4)), test_iota(LK_F32, LK_SHAPE(2, 2)),
                      test_iota(LK_I32, LK_SHAPE(4)), test_iota(LK_F32, LK_SHAPE(4))};
    ASSERT_OK(lk_tensor_set_f64(t[3], LK_AT(0), -0.0));
    uint64_t hash[5];
    for (int i = 0; i < 5; i++) {
        lk_tensors *file;
        lk_named_tensor named = {i == 4 ? "b" : "a", t[i % 4]};
        ASSERT_OK(lk_tensors_save(test_path("h.npz"), &named, 1, NULL, 0));
        ASSERT_OK(lk_tensors_load(test_path("h.npz"), &file));
        hash[i] = lk_tensors_hash(file);
        lk_tensors_free(file);
        for (int k = 0; k < i; k++)
            ASSERT_TRUE(hash[k] != hash[i]);
    }
    for (int i = 0; i < 4; i++)
        lk_tensor_free(t[i]);
}

TEST(what_a_format_cannot_hold_is_refused_and_leaves_no_file)
{
    lk_tensor *t = test_iota(LK_U8, LK_SHAPE(2)), *half = test_iota(LK_BF16, LK_SHAPE(2));
    const lk_named_tensor two[] = {{"a", t}, {"a", t}}, brain = {"a", half};
    lk_tensors *file;
    ASSERT_FAILS(lk_tensors_save(test_path("x.npz"), two, 2, NULL, 0), LK_EINVAL, "there twice");
    ASSERT_FAILS(lk_tensors_save(test_path("x.npy"), two, 2, NULL, 0), LK_EINVAL,
                 "one array, not 2");
    ASSERT_FAILS(lk_tensors_save(test_path("x.npz"), &brain, 1, NULL, 0), LK_ENOTSUP, "bf16");
    ASSERT_FAILS(lk_tensors_save(test_path("x.npy"), &brain, 1, NULL, 0), LK_ENOTSUP, "bf16");
    ASSERT_TRUE(access(test_path("x.npz"), F_OK) != 0 && access(test_path("x.npy"), F_OK) != 0);
    ASSERT_FAILS(lk_tensors_save("x", two, 1, NULL, 0), LK_EINVAL, "the name ends neither in");
    ASSERT_FAILS(lk_tensors_load("x", &file), LK_EIO, "x: cannot be opened");
    ASSERT_FAILS(lk_tensors_load(NULL, &file), LK_EINVAL, "path is NULL");
    for (int i = 0; i < 2; i++)
        ASSERT_FAILS(lk_tensors_load(test_path(i ? "no.npz" : "no.npy"), &file), LK_EIO,
                     "cannot be opened");
    lk_tensor_free(t);
    lk_tensor_free(half);
}

/* An archive with members of these names, each an array. */
static lk_status archive_open(const char *const *member, int n, lk_tensors **out)
{
    lk__zip_out *z;
    lk_tensor *t = test_iota(LK_U8, LK_SHAPE(2));
    ASSERT_OK(lk__zip_create(test_path("m.npz"), &z));
    for (int i = 0; i < n; i++)
        ASSERT_OK(lk__npz_add(z, member[i], t));
    ASSERT_OK(lk__zip_end(z, LK_OK));
    lk_tensor_free(t);
    return lk_tensors_load(test_path("m.npz"), out);
}

TEST(archives_with_strange_names_are_refused)
{
    lk_tensors *t;
    ASSERT_OK(archive_open((const char *const[]){"b", "a"}, 2, &t));
    lk_tensors_free(t);
    ASSERT_FAILS(archive_open((const char *const[]){"a", "a"}, 2, &t), LK_EIO, "is there twice");
    ASSERT_FAILS(archive_open((const char *const[]){"\xff"}, 1, &t), LK_EIO, "is not UTF-8");
    lk__zip_out *z;
    ASSERT_OK(lk__zip_create(test_path("m.npz"), &z));
    ASSERT_OK(lk__zip_begin(z, "readme.txt", 0, 0));
    ASSERT_OK(lk__zip_end(z, LK_OK));
    ASSERT_FAILS(lk_tensors_load(test_path("m.npz"), &t), LK_EIO,
                 "m.npz: offset 0: \"readme.txt\" is no .npy array");
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

static const char *the_file;
static lk_tensor *the_tensor;

static lk_status save_and_load(void)
{
    lk_tensors *t;
    LK_TRY(lk_tensors_save(test_path(the_file), &(lk_named_tensor){"a", the_tensor}, 1, NULL, 0));
    LK_TRY(lk_tensors_load(test_path(the_file), &t));
    lk_tensors_free(t);
    return LK_OK;
}

TEST(every_allocation_may_fail)
{
    static const char *const formats[] = {"f.safetensors", "f.npz", "f.npy"};
    lk_tensor *t = test_iota(LK_F32, LK_SHAPE(2, 3));
    ASSERT_OK(lk_tensor_transpose(t, 0, 1, &the_tensor));
    for (int i = 0; i < 3; i++) {
        the_file = formats[i];
        ASSERT_TRUE(test_every_allocation_fails(save_and_load) > 8);
    }
    lk_tensor_free(t);
    lk_tensor_free(the_tensor);
}
