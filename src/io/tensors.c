/* Named tensors in files whose suffix says the format. */
#include "io/tensors.h"

#include "base/grow.h"
#include "base/text.h"
#include "data/npz.h"
#include "io/safetensors.h"

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

lk_status lk__tensors_add(lk_tensors *t, int64_t *room, const char *name, size_t n,
                          lk_tensor *tensor)
{
    const char *copy;
    lk_status st = lk_arena_text(t->arena, name, n, &copy);
    if (st == LK_OK)
        st = lk__grow(&t->tensor, room, t->n + 1, sizeof *t->tensor);
    if (st != LK_OK) {
        lk_tensor_free(tensor);
        LK_TRY(st);
    }
    t->tensor[t->n++] = (lk_named_tensor){copy, tensor};
    return LK_OK;
}

static lk_status load_notes(lk_tensors *t, const lk_safetensors *f)
{
    t->n_notes = lk_safetensors_metadata_count(f);
    LK_TRY(lk_arena_alloc(t->arena, &t->note, t->n_notes, sizeof *t->note));
    for (int64_t i = 0; i < t->n_notes; i++) {
        lk_metadata note;
        LK_TRY(lk_safetensors_metadata_at(f, i, &note));
        LK_TRY(lk_arena_text(t->arena, note.name, strlen(note.name), &t->note[i].name));
        LK_TRY(lk_arena_text(t->arena, note.text, strlen(note.text), &t->note[i].text));
    }
    return LK_OK;
}

static lk_status load_all(lk_tensors *t, const lk_safetensors *f)
{
    int64_t room = 0;
    LK_TRY(load_notes(t, f));
    for (int64_t i = 0; i < lk_safetensors_count(f); i++) {
        lk_safetensors_info info;
        lk_tensor *tensor;
        LK_TRY(lk_safetensors_at(f, i, &info));
        LK_TRY(lk_tensor_new(info.dtype, info.shape, &tensor));
        LK_TRY(lk__tensors_add(t, &room, info.name, strlen(info.name), tensor));
        LK_TRY(lk_safetensors_read(f, i, tensor));
    }
    return LK_OK;
}

static lk_status load_safetensors(const char *path, lk_tensors *t)
{
    lk_safetensors *f;
    LK_TRY(lk_safetensors_open(path, &f));
    lk_status st = load_all(t, f);
    lk_safetensors_close(f);
    LK_TRY(st);
    return LK_OK;
}

static lk_status load_members(lk_tensors *t, const lk__zip *z)
{
    int64_t room = 0;
    for (int64_t i = 0; i < z->n; i++) {
        const char *member = z->member[i].name;
        char name[LK_ZIP_NAME];
        lk_tensor *tensor;
        if (!lk__path_ends(member, ".npy"))
            return LK_DAMAGED(z->source, z->member[i].header, "\"%s\" is no .npy array", member);
        snprintf(name, sizeof name, "%.*s", (int)(strlen(member) - 4), member);
        LK_TRY(lk__npz_load(z, name, &tensor));
        LK_TRY(lk__tensors_add(t, &room, name, strlen(name), tensor));
    }
    return LK_OK;
}

static lk_status load_npz(const lk__source *s, lk_tensors *t)
{
    lk__zip z = {0};
    lk_status st = lk__zip_open(s, &z);
    if (st == LK_OK)
        st = load_members(t, &z);
    lk__zip_close(&z);
    LK_TRY(st);
    return LK_OK;
}

static lk_status load_npy(const lk__source *s, const char *path, lk_tensors *t)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    int64_t room = 0;
    lk_tensor *tensor;
    LK_TRY(lk__npy_load(s, NULL, 0, lk__source_size(s), &tensor));
    LK_TRY(lk__tensors_add(t, &room, name, strlen(name) - strlen(".npy"), tensor));
    return LK_OK;
}

static lk_status load_numpy(const char *path, lk__form form, lk_tensors *t)
{
    lk__source *s;
    LK_TRY(lk__source_open(path, &s));
    lk_status st = form == LK__NPZ ? load_npz(s, t) : load_npy(s, path, t);
    lk__source_free(s);
    LK_TRY(st);
    return LK_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const lk_named_tensor *)a)->name, ((const lk_named_tensor *)b)->name);
}

static lk_status load(const char *path, lk_tensors *t)
{
    lk__form form;
    LK_TRY(lk__form_of(path, &form));
    LK_TRY(lk_arena_new(&t->arena));
    if (form == LK__CHECKPOINT)
        LK_TRY(lk__tensors_load_checkpoint(path, t));
    else if (form == LK__SAFETENSORS)
        LK_TRY(load_safetensors(path, t));
    else
        LK_TRY(load_numpy(path, form, t));
    if (t->n > 0)
        qsort(t->tensor, (size_t)t->n, sizeof *t->tensor, by_name);
    for (int64_t i = 0; i < t->n; i++) {
        LK_CHECK(lk__utf8_is(t->tensor[i].name), LK_EIO, "%s: the name \"%s\" is not UTF-8", path,
                 t->tensor[i].name);
        LK_CHECK(i == 0 || by_name(&t->tensor[i - 1], &t->tensor[i]) != 0, LK_EIO,
                 "%s: \"%s\" is there twice", path, t->tensor[i].name);
    }
    return LK_OK;
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
    LK_TRY(lk__zip_end(z, save_members(z, tensor, n)));
    return LK_OK;
}

static lk_status save_npy(const char *path, const lk_named_tensor *tensor, int64_t n)
{
    lk_tensor *dense;
    LK_CHECK(n == 1, LK_EINVAL, "%s: a .npy file holds one array, not %lld", path, (long long)n);
    LK_TRY(lk_tensor_contiguous(tensor->tensor, &dense));
    lk_status st = lk__npy_save(dense, path);
    lk_tensor_free(dense);
    LK_TRY(st);
    return LK_OK;
}

lk_status lk_tensors_save(const char *path, const lk_named_tensor *tensor, int64_t n,
                          const lk_metadata *note, int64_t n_notes)
{
    lk__form form;
    LK_CHECK(path && (tensor || n == 0), LK_EINVAL, "path or tensors are NULL");
    LK_CHECK(has_suffix(path, &form), LK_EINVAL,
             "%s: the name ends neither in .safetensors nor in .npz or .npy", path);
    if (form == LK__SAFETENSORS)
        LK_TRY(lk_safetensors_write(path, tensor, n, note, n_notes));
    else if (form == LK__NPZ)
        LK_TRY(save_npz(path, tensor, n));
    else
        LK_TRY(save_npy(path, tensor, n));
    return LK_OK;
}
