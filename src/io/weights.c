/* The weights of a model in a file: parameters, then state, by their names.  Programs and runs save and load
 * them, on the rank that has the model.
 *
 * A file is read into slabs laid out as the model's, box by box, and copied when all of it is there.
 */
#include "io/weights.h"

#include "io/checkpoint/checkpoint.h"
#include "io/tensor_file.h"

#include <lockstep/coll.h>
#include <lockstep/extra/alloc.h>
#include <lockstep/extra/suggest.h>

#include <string.h>

/* What a model holds, put aside. */
typedef struct lk__weights {
    lk_slab *slab[2];          /* parameters, state */
    lk_state_tensors *tensors; /* of both */
    lk_tensor **value;         /* the same */
    const char *prefix;        /* of their names in a file that has others as well; "": none */
} weights;

static lk_status slab_of(const lk_model *model, int i, lk_slab **out)
{
    *out = i == 0 ? lk_model_params(model) : lk_model_state(model);
    LK_CHECK(*out, LK_ESTATE, "the model holds no parameters yet: call lk_model_hold() first");
    return LK_OK;
}

lk_status lk_weights_save(lk_comm *comm, const lk_model *model, const char *path,
                          const lk_metadata *metadata, int64_t n_metadata)
{
    lk_state_tensors *tensors = NULL;
    lk_status st = lk_state_tensors_new(&tensors);
    if (st == LK_OK)
        st = lk_state_tensors_add_model(tensors, model);
    st = lk_agree(comm, st);
    if (st == LK_OK)
        st = lk_safetensors_write_boxes(comm, path, tensors->tensor, tensors->n, metadata,
                                        n_metadata);
    lk_state_tensors_free(tensors);
    return LK_TRACE(st);
}

/* ---- put aside ---- */

static void weights_free(weights *w)
{
    for (int64_t i = 0; w->value && i < w->tensors->n; i++)
        lk_tensor_free(w->value[i]);
    lk_free(w->value);
    lk_state_tensors_free(w->tensors);
    lk_slab_free(w->slab[0]);
    lk_slab_free(w->slab[1]);
}

/* Room for what the model holds, its values not yet in it. */
static lk_status weights_make(const lk_model *model, const char *prefix, weights *w)
{
    w->prefix = prefix;
    LK_TRY(lk_state_tensors_new(&w->tensors));
    for (int k = 0; k < 2; k++) {
        lk_slab *own;
        LK_TRY(slab_of(model, k, &own));
        LK_TRY(lk_slab_new(lk_slab_layout_of(own), &w->slab[k]));
        LK_TRY(lk_state_tensors_add_slab(w->tensors, prefix, w->slab[k]));
    }
    LK_TRY(lk_alloc_zero(&w->value, w->tensors->n, sizeof *w->value));
    int64_t params = lk_slab_layout_slices(lk_slab_layout_of(w->slab[0]));
    for (int64_t i = 0; i < w->tensors->n; i++)
        LK_TRY(lk_slab_tensor(w->slab[i >= params], i < params ? i : i - params, &w->value[i]));
    return LK_OK;
}

lk_status lk__weights_copy(const lk_model *model, lk__weights **out)
{
    *out = NULL;
    LK_TRY(lk_alloc_zero(out, 1, sizeof **out));
    lk_status st = weights_make(model, "", *out);
    for (int k = 0; st == LK_OK && k < 2; k++) {
        lk_slab *own;
        st = slab_of(model, k, &own);
        if (st == LK_OK)
            memcpy(lk_slab_data((*out)->slab[k]), lk_slab_data(own),
                   (size_t)lk_slab_layout_bytes(lk_slab_layout_of(own)));
    }
    if (st != LK_OK) {
        lk__weights_free(*out);
        *out = NULL;
        LK_TRY(st);
    }
    return LK_OK;
}

lk_status lk__weights_write(const lk__weights *w, const char *path, const lk_metadata *metadata,
                            int64_t n_metadata)
{
    return LK_TRACE(lk_safetensors_write_boxes(NULL, path, w->tensors->tensor, w->tensors->n,
                                               metadata, n_metadata));
}

void lk__weights_free(lk__weights *w)
{
    if (w)
        weights_free(w);
    lk_free(w);
}

/* ---- whether a file fits ---- */

static lk_status refuse_missing(const lk__tensor_file *f, const char *name)
{
    lk_suggestion s = {.wanted = name};
    for (int64_t i = 0; i < f->n; i++)
        lk_suggest_consider(&s, f->tensor[i].name);
    bool found = lk_suggest_found(&s);
    return LK_RAISE(LK_EINVAL, "%s has no tensor \"%s\"%s%s%s", f->path, name,
                    found ? "; it has \"" : "", found ? s.best : "", found ? "\"" : "");
}

/* All tensors of a file that begin with the prefix are the model's; a checkpoint has the optimizer's as
 * well. */
static lk_status unknown_check(const weights *w, const lk__tensor_file *f)
{
    for (int64_t i = 0; f->form != LK__CHECKPOINT && i < f->n; i++) {
        int64_t k = 0;
        if (strncmp(f->tensor[i].name, w->prefix, strlen(w->prefix)) != 0)
            continue;
        while (k < w->tensors->n && strcmp(w->tensors->tensor[k].name, f->tensor[i].name) != 0)
            k++;
        LK_CHECK(k < w->tensors->n, LK_EINVAL,
                 "%s has a tensor \"%s\", which the model does not know", f->path,
                 f->tensor[i].name);
    }
    return LK_OK;
}

static lk_status fit_check(const weights *w, const lk__tensor_file *f)
{
    for (int64_t i = 0; i < w->tensors->n; i++) {
        const lk_state_tensor *own = &w->tensors->tensor[i];
        const lk__tensor_entry *t = lk__tensor_file_find(f, own->name);
        if (!t)
            return refuse_missing(f, own->name);
        LK_CHECK(lk_shape_is_equal(t->shape, own->shape), LK_ESHAPE,
                 "%s: \"%s\" is %s%s, the model's is %s%s", f->path, t->name,
                 lk_dtype_name(t->dtype), lk_shape_text(t->shape).s, lk_dtype_name(own->dtype),
                 lk_shape_text(own->shape).s);
        LK_CHECK(lk_dtype_is_real(t->dtype) || t->dtype == LK_F16 || t->dtype == LK_BF16, LK_EDTYPE,
                 "%s: \"%s\" is %s, not real numbers", f->path, t->name, lk_dtype_name(t->dtype));
    }
    return LK_TRACE(unknown_check(w, f));
}

/* ---- loading ---- */

/* What is held of tensor `i`, out of a file that has it in another dtype. */
static lk_status tensor_convert(const weights *w, int64_t i, const lk__tensor_file *f,
                                const lk__tensor_entry *t)
{
    lk__box_held held = lk__state_held(&w->tensors->tensor[i]);
    lk_tensor *read;
    void *data;
    LK_TRY(lk_tensor_new(t->dtype, lk_tensor_shape(w->value[i]), &read));
    lk_status st = lk_tensor_writable_data(read, &data);
    held.data = data;
    if (st == LK_OK)
        st = lk__tensor_file_read(f, t, &held);
    if (st == LK_OK)
        st = lk_tensor_copy(read, w->value[i]);
    lk_tensor_free(read);
    return LK_TRACE(st);
}

/* Read all that is held into what was put aside. */
static lk_status weights_read(weights *w, const lk__tensor_file *f)
{
    LK_TRY(fit_check(w, f));
    for (int64_t i = 0; i < w->tensors->n; i++) {
        const lk_state_tensor *own = &w->tensors->tensor[i];
        const lk__tensor_entry *t = lk__tensor_file_find(f, own->name);
        lk__box_held held = lk__state_held(own);
        if (t->dtype != own->dtype)
            LK_TRY(tensor_convert(w, i, f, t));
        else
            LK_TRY(lk__tensor_file_read(f, t, &held));
    }
    return LK_OK;
}

static lk_status weights_load(weights *w, const char *path)
{
    lk__tensor_file f;
    lk_status st = lk__tensor_file_open(&f, path);
    if (st == LK_OK)
        st = weights_read(w, &f);
    lk__tensor_file_close(&f);
    return LK_TRACE(st);
}

lk_status lk__weights_of_checkpoint(const lk_model *model, const char *path, lk__weights **out)
{
    *out = NULL;
    LK_TRY(lk_alloc_zero(out, 1, sizeof **out));
    lk_status st = weights_make(model, "", *out);
    if (st == LK_OK)
        st = weights_load(*out, path);
    if (st != LK_OK) {
        lk__weights_free(*out);
        *out = NULL;
        LK_TRY(st);
    }
    return LK_OK;
}

/* Give the model its new values; own [n] is room for its tensors. */
static lk_status model_take(lk_model *model, const weights *w, lk_tensor **own)
{
    int64_t params = lk_slab_layout_slices(lk_slab_layout_of(w->slab[0]));
    for (int64_t i = 0; i < w->tensors->n; i++) {
        lk_slab *slab;
        LK_TRY(slab_of(model, i >= params, &slab));
        LK_TRY(lk_slab_tensor(slab, i < params ? i : i - params, &own[i]));
    }
    for (int64_t i = 0; i < w->tensors->n; i++)
        LK_TRY(lk_tensor_copy(w->value[i], own[i]));
    return LK_OK;
}

lk_status lk_weights_load(lk_model *model, const char *path)
{
    return LK_TRACE(lk_weights_load_prefix(model, path, ""));
}

lk_status lk_weights_load_prefix(lk_model *model, const char *path, const char *prefix)
{
    lk_status st;
    weights w = {0};
    lk_tensor **own = NULL;
    LK_CHECK(model && path && prefix, LK_EINVAL, "model, path or prefix is NULL");
    LK_TRY_TO(done, weights_make(model, prefix, &w));
    LK_TRY_TO(done, weights_load(&w, path));
    LK_TRY_TO(done, lk_alloc_zero(&own, w.tensors->n, sizeof *own));
    LK_TRY_TO(done, model_take(model, &w, own));
done:
    for (int64_t i = 0; own && i < w.tensors->n; i++)
        lk_tensor_free(own[i]);
    lk_free(own);
    weights_free(&w);
    return st;
}
