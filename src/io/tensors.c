/* lk_tensors: named tensors in files whose suffix says the format, read for the command and for
 * weights.
 */
#include "io/tensors.h"

#include "base/text/text.h"
#include "data/arrays/npz.h"
#include "io/safetensors/safetensors.h"
#include "io/tensor_file.h"

#include <lockstep/checkpoint.h>

#include <stdlib.h>
#include <string.h>

enum { N_SUFFIXES = 3 };

static const char *const suffixes[N_SUFFIXES] = {
    [LK__SAFETENSORS] = ".safetensors", [LK__NPZ] = ".npz", [LK__NPY] = ".npy"};

static bool has_suffix(const char *path, lk__form *out)
{
    for (int i = 0; i < N_SUFFIXES; i++)
        if (lk__path_ends(path, suffixes[i])) {
            *out = (lk__form)i;
            return true;
        }
    return false;
}

/* ---- reading ---- */

lk_status lk__form_of(const char *path, lk__form *out)
{
    lk__source *s;
    bool is_safetensors = false;
    *out = LK__CHECKPOINT;
    if (lk_checkpoint_exists(path))
        return LK_OK;
    LK_CHECK(!lk__path_is_folder(path), LK_EINVAL,
             "%s: a folder without checkpoints in it; those of a run are in its folder checkpoints",
             path);
    if (has_suffix(path, out))
        return LK_OK;
    LK_TRY(lk__source_open(path, &s));
    lk_status st = lk__safetensors_is(s, &is_safetensors);
    lk__source_free(s);
    LK_TRY(st);
    LK_CHECK(
        is_safetensors, LK_EINVAL,
        "%s: this is neither a .safetensors, .npz or .npy file nor a checkpoint, which are what "
        "is read",
        path);
    *out = LK__SAFETENSORS;
    return LK_OK;
}

static lk_status load_metadata(lk_tensors *t, const lk_safetensors *f)
{
    t->n_metadata = lk_safetensors_metadata_count(f);
    LK_TRY(lk_arena_alloc(t->arena, &t->metadata, t->n_metadata, sizeof *t->metadata));
    for (int64_t i = 0; i < t->n_metadata; i++) {
        lk_metadata metadata;
        LK_TRY(lk_safetensors_metadata_at(f, i, &metadata));
        LK_TRY(lk_arena_text(t->arena, metadata.name, strlen(metadata.name), &t->metadata[i].name));
        LK_TRY(lk_arena_text(t->arena, metadata.text, strlen(metadata.text), &t->metadata[i].text));
    }
    return LK_OK;
}

/* All tensors of the file, whole. */
static lk_status load_all(lk_tensors *t, const lk__tensor_file *f)
{
    LK_TRY(lk_alloc_zero(&t->tensor, f->n, sizeof *t->tensor));
    for (int64_t i = 0; i < f->n; i++) {
        const lk__tensor_entry *from = &f->tensor[i];
        lk_named_tensor *to = &t->tensor[i];
        lk__box_held held = {.box = lk_box_whole(from->shape.ndim, from->shape.dim),
                             .of = from->shape};
        void *data;
        LK_TRY(lk_arena_text(t->arena, from->name, strlen(from->name), &to->name));
        LK_TRY(lk_tensor_new(from->dtype, from->shape, &to->tensor));
        t->n++;
        LK_TRY(lk_tensor_writable_data(to->tensor, &data));
        held.data = data;
        LK_TRY(lk__tensor_file_read(f, from, &held));
    }
    return LK_OK;
}

static lk_status load(const char *path, lk_tensors *t)
{
    lk__tensor_file f;
    LK_TRY(lk_arena_new(&t->arena));
    lk_status st = lk__tensor_file_open(&f, path);
    if (st == LK_OK && f.checkpoint)
        st = lk__checkpoint_metadata(f.checkpoint, t);
    if (st == LK_OK && f.safetensors)
        st = load_metadata(t, f.safetensors);
    if (st == LK_OK)
        st = load_all(t, &f);
    lk__tensor_file_close(&f);
    return LK_TRACE(st);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const lk_named_tensor *)a)->name, ((const lk_named_tensor *)b)->name);
}

lk_status lk_tensors_load(const char *path, lk_tensors **out)
{
    lk_tensors *t = NULL;
    *out = NULL;
    LK_CHECK(path, LK_EINVAL, "path is NULL");
    LK_TRY(lk_alloc_zero(&t, 1, sizeof *t));
    lk_status st = load(path, t);
    if (st != LK_OK) {
        lk_tensors_free(t);
        LK_TRY(st);
    }
    *out = t;
    return LK_OK;
}

void lk_tensors_free(lk_tensors *t)
{
    if (!t)
        return;
    for (int64_t i = 0; i < t->n; i++)
        lk_tensor_free(t->tensor[i].tensor);
    lk_free(t->tensor);
    lk_arena_free(t->arena);
    lk_free(t);
}

lk_tensor *lk_tensors_find(const lk_tensors *t, const char *name)
{
    const lk_named_tensor wanted = {.name = name};
    const lk_named_tensor *found = t->n > 0 ? bsearch(&wanted, t->tensor, (size_t)t->n,
                                                      sizeof *t->tensor, by_name)
                                            : NULL;
    return found ? found->tensor : NULL;
}

uint64_t lk_tensors_hash(const lk_tensors *t)
{
    lk_hash h = lk_hash_start();
    for (int64_t i = 0; i < t->n; i++)
        lk_tensor_hash(t->tensor[i].tensor, t->tensor[i].name, &h);
    return lk_hash_value(&h);
}

/* ---- writing ---- */

static lk_status save_members(lk__zip_out *z, const lk_named_tensor *tensor, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        lk_tensor *dense;
        LK_TRY(lk_tensor_contiguous(tensor[i].tensor, &dense));
        lk_status st = lk__npz_add(z, tensor[i].name, dense);
        lk_tensor_free(dense);
        LK_TRY(st);
    }
    return LK_OK;
}

static lk_status save_npz(const char *path, const lk_named_tensor *tensor, int64_t n)
{
    lk__zip_out *z;
    LK_TRY(lk__named_check(tensor, n, NULL, 0));
    LK_TRY(lk__zip_create(path, &z));
    return LK_TRACE(lk__zip_end(z, save_members(z, tensor, n)));
}

static lk_status save_npy(const char *path, const lk_named_tensor *tensor, int64_t n)
{
    lk_tensor *dense;
    LK_CHECK(n == 1, LK_EINVAL, "%s: a .npy file holds one array, not %lld", path, (long long)n);
    LK_TRY(lk_tensor_contiguous(tensor->tensor, &dense));
    lk_status st = lk__npy_save(dense, path);
    lk_tensor_free(dense);
    return LK_TRACE(st);
}

lk_status lk_tensors_save(const char *path, const lk_named_tensor *tensor, int64_t n,
                          const lk_metadata *metadata, int64_t n_metadata)
{
    lk__form form;
    LK_CHECK(path && (tensor || n == 0), LK_EINVAL, "path or tensors are NULL");
    LK_CHECK(has_suffix(path, &form), LK_EINVAL,
             "%s: the name ends neither in .safetensors nor in .npz or .npy", path);
    if (form == LK__SAFETENSORS)
        LK_TRY(lk_safetensors_write(path, tensor, n, metadata, n_metadata));
    else if (form == LK__NPZ)
        LK_TRY(save_npz(path, tensor, n));
    else
        LK_TRY(save_npy(path, tensor, n));
    return LK_OK;
}
