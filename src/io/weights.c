/* The weights of a model in a file: parameters, then state, by their names. */
#include "io/weights.h"

#include "io/tensors.h"

#include <lockstep/alloc.h>
#include <lockstep/suggest.h>

#include <string.h>

/* All slices of the model's slabs as tensors with names. */
typedef struct lk__weights {
    int64_t n;
    lk_named_tensor *named;
} weights;

static void weights_free(weights *w)
{
    for (int64_t i = 0; w->named && i < w->n; i++)
        lk_tensor_free(w->named[i].tensor);
    lk_free(w->named);
}

static lk_status slab_add(const lk_slab *slab, weights *w)
{
    lk_slab_layout *layout = lk_slab_layout_of(slab);
    lk_slab_slice part;
    LK_CHECK(lk_slab_layout_is_whole(layout, &part), LK_ESTATE,
             "weights of a model that holds a part of itself: of %s there is %s here", part.name,
             lk_slab_slice_text(&part).s);
    for (int64_t i = 0; i < lk_slab_layout_slices(layout); i++) {
        lk_slab_slice slice;
        LK_TRY(lk_slab_layout_slice(layout, i, &slice));
        LK_TRY(lk_slab_tensor(slab, i, &w->named[w->n].tensor));
        w->named[w->n++].name = slice.name;
    }
    return LK_OK;
}

static lk_status weights_make(const lk_model *model, weights *w)
{
    lk_slab *params = lk_model_params(model), *state = lk_model_state(model);
    LK_CHECK(params, LK_ESTATE, "the model holds no parameters yet: call lk_model_hold() first");
    int64_t n = lk_slab_layout_slices(lk_slab_layout_of(params)) +
                lk_slab_layout_slices(lk_slab_layout_of(state));
    LK_TRY(lk_alloc_zero(&w->named, n, sizeof *w->named));
    LK_TRY(slab_add(params, w));
    LK_TRY(slab_add(state, w));
    return LK_OK;
}

lk_status lk_weights_save(const lk_model *model, const char *path, const lk_metadata *note,
                          int64_t n_notes)
{
    weights w = {0};
    LK_CHECK(model && path, LK_EINVAL, "model or path is NULL");
    lk_status st = weights_make(model, &w);
    if (st == LK_OK)
        st = lk_safetensors_write(path, w.named, w.n, note, n_notes);
    weights_free(&w);
    LK_TRY(st);
    return LK_OK;
}

/* ---- loading ---- */

/* The file lacks a tensor of the model. */
static lk_status refuse_missing(const lk_safetensors *file, const char *path, const char *name)
{
    lk_suggestion s = {.wanted = name};
    for (int64_t i = 0; i < lk_safetensors_count(file); i++) {
        lk_safetensors_info t;
        LK_TRY(lk_safetensors_at(file, i, &t));
        lk_suggest_consider(&s, t.name);
    }
    bool found = lk_suggest_found(&s);
    return LK_RAISE(LK_EINVAL, "%s has no tensor \"%s\"%s%s%s", path, name,
                    found ? "; it has \"" : "", found ? s.best : "", found ? "\"" : "");
}

/* The file has more tensors than the model, all of whose are there. */
static lk_status refuse_unknown(const weights *w, const lk_safetensors *file, const char *path)
{
    lk_safetensors_info t = {0};
    for (int64_t i = 0, k = 0; k < w->n; i++) {
        LK_TRY(lk_safetensors_at(file, i, &t));
        for (k = 0; k < w->n && strcmp(w->named[k].name, t.name) != 0;)
            k++;
    }
    return LK_RAISE(LK_EINVAL, "%s has a tensor \"%s\", which the model does not know", path,
                    t.name);
}

/* What can be copied into one of the model's tensors. */
static lk_status kind_check(const char *path, const char *name, lk_dtype dtype, lk_shape shape,
                            const lk_tensor *own)
{
    LK_CHECK(lk_shape_is_equal(shape, lk_tensor_shape(own)), LK_ESHAPE,
             "%s: \"%s\" is %s%s, the model's is %s", path, name, lk_dtype_name(dtype),
             lk_shape_text(shape).s, lk_tensor_text(own).s);
    LK_CHECK(lk_dtype_is_real(dtype) || dtype == LK_F16 || dtype == LK_BF16, LK_EDTYPE,
             "%s: \"%s\" is %s, not real numbers", path, name, lk_dtype_name(dtype));
    return LK_OK;
}

static lk_status fit_check(const weights *w, const lk_safetensors *file, const char *path)
{
    for (int64_t i = 0; i < w->n; i++) {
        lk_safetensors_info t;
        int64_t at = lk_safetensors_find(file, w->named[i].name);
        if (at < 0)
            return refuse_missing(file, path, w->named[i].name);
        LK_TRY(lk_safetensors_at(file, at, &t));
        LK_TRY(kind_check(path, t.name, t.dtype, t.shape, w->named[i].tensor));
    }
    if (lk_safetensors_count(file) != w->n)
        return refuse_unknown(w, file, path);
    return LK_OK;
}

/* Read all tensors of the file before the model is touched. */
static lk_status read_all(const weights *w, const lk_safetensors *file, lk_tensor **read)
{
    lk_safetensors_info t;
    for (int64_t i = 0; i < w->n; i++) {
        int64_t at = lk_safetensors_find(file, w->named[i].name);
        LK_TRY(lk_safetensors_at(file, at, &t));
        LK_TRY(lk_tensor_new(t.dtype, t.shape, &read[i]));
        LK_TRY(lk_safetensors_read(file, at, read[i]));
    }
    for (int64_t i = 0; i < w->n; i++)
        LK_TRY(lk_tensor_copy(read[i], w->named[i].tensor));
    return LK_OK;
}

/* ---- from tensors in memory: of a checkpoint, or of NumPy's files ---- */

static lk_status tensor_find(const lk_tensors *from, const char *path, const char *name,
                             const lk_tensor **out)
{
    lk_suggestion s = {.wanted = name};
    *out = lk_tensors_find(from, name);
    for (int64_t i = 0; !*out && i < from->n; i++)
        lk_suggest_consider(&s, from->tensor[i].name);
    bool found = lk_suggest_found(&s);
    LK_CHECK(*out, LK_EINVAL, "%s has no tensor \"%s\"%s%s%s", path, name,
             found ? "; it has \"" : "", found ? s.best : "", found ? "\"" : "");
    return LK_OK;
}

/* All tensors are the model's. */
static lk_status unknown_check(const weights *w, const lk_tensors *from, const char *path)
{
    for (int64_t i = 0; i < from->n; i++) {
        int64_t k = 0;
        while (k < w->n && strcmp(w->named[k].name, from->tensor[i].name) != 0)
            k++;
        LK_CHECK(k < w->n, LK_EINVAL, "%s has a tensor \"%s\", which the model does not know", path,
                 from->tensor[i].name);
    }
    return LK_OK;
}

/* A checkpoint has the optimizer's tensors as well; a file has none but the model's: `all`. */
static lk_status copy_all(const weights *w, const lk_tensors *from, const char *path, bool all)
{
    const lk_tensor *t = NULL;
    for (int64_t i = 0; i < w->n; i++) {
        const char *name = w->named[i].name;
        LK_TRY(tensor_find(from, path, name, &t));
        LK_TRY(kind_check(path, name, lk_tensor_dtype(t), lk_tensor_shape(t), w->named[i].tensor));
    }
    if (all)
        LK_TRY(unknown_check(w, from, path));
    for (int64_t i = 0; i < w->n; i++)
        LK_TRY(lk_tensor_copy(lk_tensors_find(from, w->named[i].name), w->named[i].tensor));
    return LK_OK;
}

/* ---- put aside ---- */

/* In place of the model's own tensors, copies. */
static lk_status clone_all(weights *w)
{
    for (int64_t i = 0; i < w->n; i++) {
        lk_tensor *own = w->named[i].tensor, *copy = NULL;
        LK_TRY(lk_tensor_clone(own, lk_tensor_dtype(own), &copy));
        w->named[i].tensor = copy;
        lk_tensor_free(own);
    }
    return LK_OK;
}

lk_status lk__weights_copy(const lk_model *model, lk__weights **out)
{
    *out = NULL;
    LK_TRY(lk_alloc_zero(out, 1, sizeof **out));
    lk_status st = weights_make(model, *out);
    if (st == LK_OK)
        st = clone_all(*out);
    if (st != LK_OK) {
        lk__weights_free(*out);
        *out = NULL;
        LK_TRY(st);
    }
    return LK_OK;
}

lk_status lk__weights_of_checkpoint(const lk_model *model, const char *path, lk__weights **out)
{
    lk_tensors *from = NULL;
    LK_TRY(lk__weights_copy(model, out));
    lk_status st = lk_tensors_load(path, &from);
    if (st == LK_OK)
        st = copy_all(*out, from, path, false);
    lk_tensors_free(from);
    if (st != LK_OK) {
        lk__weights_free(*out);
        *out = NULL;
        LK_TRY(st);
    }
    return LK_OK;
}

lk_status lk__weights_write(const lk__weights *w, const char *path, const lk_metadata *note,
                            int64_t n_notes)
{
    LK_TRY(lk_safetensors_write(path, w->named, w->n, note, n_notes));
    return LK_OK;
}

void lk__weights_free(lk__weights *w)
{
    if (w)
        weights_free(w);
    lk_free(w);
}

/* ---- loading checkpoints and archives ---- */

static lk_status load_tensors(lk_model *model, const char *path, bool all)
{
    weights w = {0};
    lk_tensors *from = NULL;
    lk_status st = lk_tensors_load(path, &from);
    if (st == LK_OK)
        st = weights_make(model, &w);
    if (st == LK_OK)
        st = copy_all(&w, from, path, all);
    weights_free(&w);
    lk_tensors_free(from);
    LK_TRY(st);
    return LK_OK;
}

lk_status lk_weights_load(lk_model *model, const char *path)
{
    lk_status st;
    weights w = {0};
    lk_safetensors *file = NULL;
    lk_tensor **read = NULL;
    lk__form form;
    LK_CHECK(model && path, LK_EINVAL, "model or path is NULL");
    LK_TRY(lk__form_of(path, &form));
    if (form != LK__SAFETENSORS)
        return load_tensors(model, path, form != LK__CHECKPOINT);
    LK_TRY_TO(done, lk_safetensors_open(path, &file));
    LK_TRY_TO(done, weights_make(model, &w));
    LK_TRY_TO(done, fit_check(&w, file, path));
    LK_TRY_TO(done, lk_alloc_zero(&read, w.n, sizeof *read));
    LK_TRY_TO(done, read_all(&w, file, read));
done:
    for (int64_t i = 0; read && i < w.n; i++)
        lk_tensor_free(read[i]);
    lk_free(read);
    weights_free(&w);
    lk_safetensors_close(file);
    return st;
}
