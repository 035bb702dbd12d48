/* Weights of models: saved and loaded by name, or nothing is changed. */
#include "data_files.h"
#include "faults.h"
#include "tensors.h"

#include <lockstep/checkpoint.h>

static lk_model *model_make(const char *name, int units, lk_dtype dtype, int64_t seed)
{
    lk_model *m = NULL;
    char options[64];
    ASSERT_OK(lk_model_new(&m));
    ASSERT_OK(lk_model_add(m, "batch_norm", NULL));
    snprintf(options, sizeof options, "units=%d name=%s", units, name);
    ASSERT_OK(lk_model_add(m, "linear", options));
    lk_model_spec spec = {.in = {dtype, LK_SHAPE(4)}, .dtype = dtype, .seed = seed};
    ASSERT_OK(lk_model_build(m, &spec));
    ASSERT_OK(lk_model_hold(m, NULL));
    return m;
}

static uint64_t hash_of(const lk_model *m)
{
    lk_hash h = lk_hash_start();
    lk_slab_hash(lk_model_params(m), &h);
    lk_slab_hash(lk_model_state(m), &h);
    return lk_hash_value(&h);
}

/* Make every running mean something that no model begins with. */
static void state_fill(lk_model *m, double value)
{
    lk_tensor *t;
    ASSERT_OK(lk_slab_tensor(lk_model_state(m), 0, &t));
    ASSERT_OK(lk_tensor_fill_f64(t, value));
    lk_tensor_free(t);
}

TEST(weights_come_back_by_name)
{
    lk_model *a = model_make("head", 3, LK_F32, 1), *b = model_make("head", 3, LK_F32, 2);
    const char *path = test_path("w.safetensors");
    lk_safetensors *f;
    state_fill(a, 0.25);
    ASSERT_TRUE(hash_of(a) != hash_of(b));
    ASSERT_OK(lk_weights_save(NULL, a, path, &(lk_metadata){"seed", "1"}, 1));
    ASSERT_OK(lk_weights_load(b, path));
    ASSERT_EQ(hash_of(a), hash_of(b));
    ASSERT_OK(lk_safetensors_open(path, &f));
    ASSERT_TRUE(strcmp(lk_safetensors_metadata(f, "seed"), "1") == 0);
    ASSERT_EQ(lk_safetensors_find(f, "batch_norm1.gamma"), 0);
    ASSERT_EQ(lk_safetensors_find(f, "head.weight"), 2);
    ASSERT_TRUE(lk_safetensors_find(f, "batch_norm1.mean") >= 4);
    lk_safetensors_close(f);
    lk_model_free(a);
    lk_model_free(b);
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

/* Also through NumPy's archive; where it does not fit, nothing changes. */
TEST(weights_come_from_an_archive)
{
    lk_model *a = model_make("head", 3, LK_F32, 1), *b = model_make("head", 3, LK_F32, 2);
    lk_model *c = model_make("heap", 3, LK_F32, 2);
    lk_tensors *t;
    uint64_t before = hash_of(c);
    state_fill(a, 0.25);
    ASSERT_OK(lk_weights_save(NULL, a, test_path("w.safetensors"), NULL, 0));
    ASSERT_OK(lk_tensors_load(test_path("w.safetensors"), &t));
    ASSERT_OK(lk_tensors_save(test_path("w.npz"), t->tensor, t->n, NULL, 0));
    ASSERT_OK(lk_weights_load(b, test_path("w.npz")));
    ASSERT_EQ(hash_of(a), hash_of(b));
    ASSERT_FAILS(lk_weights_load(c, test_path("w.npz")), LK_EINVAL,
                 "w.npz has no tensor \"heap.weight\"; it has \"head.weight\"");
    ASSERT_OK(lk_tensors_save(test_path("few.npz"), t->tensor, t->n - 1, NULL, 0));
    ASSERT_FAILS(lk_weights_load(b, test_path("few.npz")), LK_EINVAL, "few.npz has no tensor");
    lk_tensors_free(t);
    ASSERT_EQ(hash_of(c), before);
    lk_model_free(a);
    lk_model_free(b);
    lk_model_free(c);
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

/* A file of weights is the whole model. */
TEST(a_part_of_a_model_is_no_weights)
{
    lk_model *m = NULL;
    ASSERT_OK(lk_model_new(&m));
    ASSERT_OK(lk_model_add(m, "linear", "units=4"));
    ASSERT_OK(lk_model_build(m, &(lk_model_spec){.in = {LK_F32, LK_SHAPE(3)},
                                                 .pieces = {.blocks = 2, .least_block = 1}}));
    ASSERT_FAILS(lk_weights_save(NULL, m, "part.safetensors", NULL, 0), LK_ESTATE,
                 "holds no parameters yet");
    ASSERT_OK(lk_model_hold(m, &(lk_holding){.blocks = &(lk_range){1, 1}}));
    ASSERT_FAILS(lk_weights_save(NULL, m, "part.safetensors", NULL, 0), LK_EINVAL,
                 "tensor \"linear1.weight\" [3,4]: no rank holds its element [0,0]");
    ASSERT_TRUE(!fopen("part.safetensors", "r"));
    lk_model_free(m);
}

/* The tensors of a slab as those of a state. */
static int64_t state_add(const lk_slab *slab, lk_state_tensor *tensor, int64_t n)
{
    lk_slab_layout *layout = lk_slab_layout_of(slab);
    for (int64_t i = 0; i < lk_slab_layout_slices(layout); i++) {
        lk_slab_slice slice;
        ASSERT_OK(lk_slab_layout_slice(layout, i, &slice));
        tensor[n++] = (lk_state_tensor){slice.name,  slice.dtype,
                                        slice.shape, (char *)lk_slab_data(slab) + slice.offset,
                                        NULL,        NULL};
    }
    return n;
}

TEST(weights_come_from_a_checkpoint)
{
    lk_model *a = model_make("head", 3, LK_F32, 1), *b = model_make("head", 3, LK_F32, 2);
    lk_state_tensor tensor[16];
    double moment[2] = {1, 2};
    lk_state state = {.step = 4, .tensor = tensor};
    lk_checkpoint_dir *c;
    state_fill(a, 0.25);
    state.n_tensors = state_add(lk_model_params(a), tensor, 0);
    state.n_tensors = state_add(lk_model_state(a), tensor, state.n_tensors);
    tensor[state.n_tensors++] = (lk_state_tensor){"optimizer/m", LK_F64, LK_SHAPE(2),
                                                  moment,        NULL,   NULL};
    ASSERT_OK(lk_checkpoint_dir_open(NULL, test_path("run"), &(lk_checkpoint_dir_options){0}, &c));
    ASSERT_OK(lk_checkpoint_dir_save(c, &state));
    state.tensor++; /* another, without the first tensor */
    state.n_tensors--;
    state.step = 5;
    ASSERT_OK(lk_checkpoint_dir_save(c, &state));
    lk_checkpoint_dir_close(c);
    uint64_t before = hash_of(b);
    ASSERT_FAILS(lk_weights_load(b, test_path("run")), LK_EINVAL,
                 "has no tensor \"batch_norm1.gamma\"");
    ASSERT_EQ(hash_of(b), before);
    ASSERT_OK(lk_weights_load(b, test_path("run/step-000000000004")));
    ASSERT_EQ(hash_of(a), hash_of(b));
    lk_model_free(a);
    lk_model_free(b);
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

TEST(another_dtype_is_converted)
{
    lk_model *a = model_make("head", 3, LK_F32, 1), *b = model_make("head", 3, LK_F64, 2),
             *c = model_make("head", 3, LK_F32, 3);
    ASSERT_OK(lk_weights_save(NULL, a, test_path("f32"), NULL, 0));
    ASSERT_OK(lk_weights_load(b, test_path("f32")));
    ASSERT_OK(lk_weights_save(NULL, b, test_path("f64"), NULL, 0));
    ASSERT_OK(lk_weights_load(c, test_path("f64")));
    ASSERT_EQ(hash_of(a), hash_of(c)); /* f64 holds every f32 */
    lk_model_free(a);
    lk_model_free(b);
    lk_model_free(c);
}

static void refuse(lk_model *m, const char *path, lk_status status, const char *message)
{
    uint64_t before = hash_of(m);
    ASSERT_FAILS(lk_weights_load(m, path), status, message);
    ASSERT_EQ(hash_of(m), before);
}

TEST(files_that_do_not_fit_change_nothing)
{
    lk_model *m = model_make("head", 3, LK_F32, 1), *other = model_make("haed", 3, LK_F32, 2),
             *wide = model_make("head", 5, LK_F32, 2);
    ASSERT_OK(lk_weights_save(NULL, other, test_path("other"), NULL, 0));
    refuse(m, test_path("other"), LK_EINVAL, "no tensor \"head.weight\"; it has \"haed.weight\"");
    ASSERT_OK(lk_weights_save(NULL, wide, test_path("wide"), NULL, 0));
    refuse(m, test_path("wide"), LK_ESHAPE, "\"head.weight\" is f32[4,5], the model's is f32[4,3]");
    refuse(m, test_path("nothing"), LK_EIO, "nothing: cannot be opened");
    lk_model_free(other);
    lk_model_free(wide);
    lk_model_free(m);
}

TEST(a_file_that_holds_no_tensors_is_told_what_is_read)
{
    static const char what[] = "this is neither a .safetensors, .npz or .npy file nor a "
                               "checkpoint, which are what is read";
    static const char text[] = "weight,bias\n1,2\n", archive[] = "PK\3\4archive/data.pkl";
    lk_model *m = model_make("head", 3, LK_F32, 1);
    lk_tensors *t;
    const char *const paths[] = {test_write("w.csv", text, strlen(text)), test_write("w", text, 1),
                                 test_write("w.pt", archive, strlen(archive))};
    for (int i = 0; i < 3; i++) {
        refuse(m, paths[i], LK_EINVAL, what);
        ASSERT_FAILS(lk_tensors_load(paths[i], &t), LK_EINVAL, what);
    }
    refuse(m, test_folder(), LK_EINVAL, "a folder without checkpoints in it");
    refuse(m, test_write("w.safetensors", text, strlen(text)), LK_EIO,
           "w.safetensors: offset 0: this is no safetensors file");
    lk_model_free(m);
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

/* The tensors of a model, to be changed and written again. */
enum { MOST = 16 };

static int64_t tensors_of(const lk_model *m, lk_named_tensor *named)
{
    const lk_slab *slabs[] = {lk_model_params(m), lk_model_state(m)};
    int64_t n = 0;
    for (int s = 0; s < 2; s++)
        for (int64_t i = 0; i < lk_slab_layout_slices(lk_slab_layout_of(slabs[s])); i++) {
            lk_slab_slice slice;
            ASSERT_OK(lk_slab_layout_slice(lk_slab_layout_of(slabs[s]), i, &slice));
            named[n].name = slice.name;
            ASSERT_OK(lk_slab_tensor(slabs[s], i, &named[n++].tensor));
        }
    ASSERT_TRUE(n < MOST);
    return n;
}

TEST(a_tensor_too_many_too_few_or_of_integers_is_named)
{
    lk_model *m = model_make("head", 3, LK_F32, 1), *source = model_make("head", 3, LK_F32, 2);
    lk_named_tensor named[MOST];
    int64_t n = tensors_of(source, named);
    const char *path = test_path("changed");
    named[n] = (lk_named_tensor){"a.zebra", test_iota(LK_F32, LK_SHAPE(2))};
    ASSERT_OK(lk_safetensors_write(path, named, n + 1, NULL, 0));
    refuse(m, path, LK_EINVAL, "has a tensor \"a.zebra\", which the model does not know");
    ASSERT_OK(lk_safetensors_write(path, named, n - 1, NULL, 0));
    refuse(m, path, LK_EINVAL, named[n - 1].name);
    lk_tensor *last = named[n - 1].tensor, *whole;
    ASSERT_OK(lk_tensor_new(LK_I32, lk_tensor_shape(last), &whole));
    ASSERT_OK(lk_tensor_fill_i64(whole, 1));
    named[n - 1].tensor = whole;
    ASSERT_OK(lk_safetensors_write(path, named, n, NULL, 0));
    refuse(m, path, LK_EDTYPE, "is i32, not real numbers");
    named[n - 1].tensor = last;
    lk_tensor_free(whole);
    /* Half precision is real, and any order will do. */
    for (int64_t i = 0; i < n; i++) {
        lk_tensor *half;
        ASSERT_OK(lk_tensor_clone(named[i].tensor, i % 2 ? LK_F16 : LK_BF16, &half));
        lk_tensor_free(named[i].tensor);
        named[i].tensor = half;
    }
    lk_named_tensor first = named[0];
    named[0] = named[n - 1];
    named[n - 1] = first;
    ASSERT_OK(lk_safetensors_write(path, named, n, NULL, 0));
    ASSERT_OK(lk_weights_load(m, path));
    for (int64_t i = 0; i <= n; i++)
        lk_tensor_free(named[i].tensor);
    lk_model_free(m);
    lk_model_free(source);
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

TEST(a_damaged_file_changes_nothing)
{
    lk_model *m = model_make("head", 3, LK_F32, 1), *source = model_make("head", 3, LK_F32, 2);
    size_t n;
    ASSERT_OK(lk_weights_save(NULL, source, test_path("whole"), NULL, 0));
    unsigned char *bytes = test_read(test_path("whole"), &n);
    for (size_t cut = 0; cut < n; cut += 7)
        refuse(m, test_write("cut.safetensors", bytes, cut), LK_EIO, "cut.safetensors: offset ");
    free(bytes);
    lk_model_free(m);
    lk_model_free(source);
}

static lk_model *the_model;

static lk_status save_and_load(void)
{
    uint64_t before = hash_of(the_model);
    LK_TRY(lk_weights_save(NULL, the_model, test_path("faults"), NULL, 0));
    lk_status st = lk_weights_load(the_model, test_path("faults"));
    ASSERT_EQ(hash_of(the_model), before);
    return st;
}

TEST(every_allocation_may_fail)
{
    the_model = model_make("head", 3, LK_F32, 1);
    ASSERT_TRUE(test_every_allocation_fails(save_and_load) > 20);
    lk_model_free(the_model);
}
