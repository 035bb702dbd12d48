/* Snapshots: the tensors of all slabs, sorted by layer; compared bit by bit. */
#include "verify/snapshot.h"

#include <lockstep/checkpoint.h>
#include <lockstep/coll.h>
#include <lockstep/extra/alloc.h>

#include <stdio.h>
#include <string.h>

static lk_status state_add(lk_state_tensors *to, const lk_trainer *trainer)
{
    const lk_model *model = lk_trainer_model(trainer);
    lk_optimizer *optimizer = lk_trainer_optimizer(trainer);
    const char *name;
    const lk_slab *slab;
    double *number;
    char before[128];
    LK_TRY(lk_state_tensors_add_slab(to, "", lk_model_params(model)));
    LK_TRY(lk_state_tensors_add_slab(to, "state/", lk_model_state(model)));
    for (int i = 0; (slab = lk_optimizer_slab(optimizer, i, &name)); i++) {
        snprintf(before, sizeof before, "optimizer/%s/", name);
        LK_TRY(lk_state_tensors_add_slab(to, before, slab));
    }
    for (int i = 0; (number = lk_optimizer_number(optimizer, i, &name)); i++) {
        lk_state_tensor scalar = {
            .name = name, .dtype = LK_F64, .shape = LK_SCALAR, .data = number};
        LK_TRY(lk_state_tensors_add(to, "optimizer/", &scalar));
    }
    return LK_OK;
}

/* The number of the layer that has a tensor, the innermost; behind all layers if none has. */
static lk_status layer_of(const lk_model *model, const char *tensor, int64_t *out)
{
    const char *slash = strrchr(tensor, '/'), *name = slash ? slash + 1 : tensor;
    size_t longest = 0;
    *out = lk_model_layers(model);
    for (int64_t i = 0; i < lk_model_layers(model); i++) {
        lk_layer_info layer;
        LK_TRY(lk_model_layer(model, i, &layer));
        size_t n = strlen(layer.name);
        if (n > longest && strncmp(name, layer.name, n) == 0 && name[n] == '.') {
            longest = n;
            *out = i;
        }
    }
    return LK_OK;
}

/* Their order within a layer stays. */
static lk_status sort_by_layer(const lk_model *model, lk_state_tensors *all)
{
    int64_t *layer = NULL, k = 0;
    lk_state_tensor *sorted = NULL;
    lk_status st;
    LK_TRY_TO(done, lk_alloc(&layer, all->n, sizeof *layer));
    LK_TRY_TO(done, lk_alloc(&sorted, all->n, sizeof *sorted));
    for (int64_t i = 0; i < all->n; i++)
        LK_TRY_TO(done, layer_of(model, all->tensor[i].name, &layer[i]));
    for (int64_t l = 0; l <= lk_model_layers(model); l++)
        for (int64_t i = 0; i < all->n; i++)
            if (layer[i] == l)
                sorted[k++] = all->tensor[i];
    if (k > 0)
        memcpy(all->tensor, sorted, sizeof *sorted * (size_t)k);
done:
    lk_free(layer);
    lk_free(sorted);
    return st;
}

lk_status snapshot_write(lk_comm *comm, const lk_trainer *trainer, const char *path)
{
    lk_state_tensors *all = NULL;
    lk_status st = lk_state_tensors_new(&all);
    if (st == LK_OK)
        st = state_add(all, trainer);
    if (st == LK_OK)
        st = sort_by_layer(lk_trainer_model(trainer), all);
    st = lk_agree(comm, st);
    if (st == LK_OK)
        st = lk_safetensors_write_boxes(comm, path, all->tensor, all->n, NULL, 0);
    lk_state_tensors_free(all);
    return st;
}

/* ---- comparing ---- */

/* The first element that differs; -1 if none does. */
static int64_t first_difference(const lk_tensor *a, const lk_tensor *b)
{
    size_t size = lk_dtype_size(lk_tensor_dtype(a));
    const char *x = lk_tensor_data(a), *y = lk_tensor_data(b);
    for (int64_t i = 0; i < lk_tensor_count(a); i++)
        if (memcmp(x + (size_t)i * size, y + (size_t)i * size, size) != 0)
            return i;
    return -1;
}

enum { TENSOR_TEXT = 512, PART = 128 }; /* names are cut to a PART */

static int part(ptrdiff_t length)
{
    return length < PART ? (int)length : PART;
}

/* What a tensor of a snapshot is: "layer conv1, parameter weight". */
static void tensor_text(const char *name, char out[TENSOR_TEXT])
{
    const char *slash = strrchr(name, '/'), *own = slash ? slash + 1 : name;
    const char *dot = strrchr(own, '.'), *of = dot ? dot + 1 : own;
    static const char state[] = "state/", optimizer[] = "optimizer/";
    const char *kept = name + strlen(optimizer);
    char layer[PART + 16] = "";
    if (dot)
        snprintf(layer, sizeof layer, "layer %.*s, ", part(dot - own), own);
    if (strncmp(name, optimizer, strlen(optimizer)) != 0)
        snprintf(out, TENSOR_TEXT, "%s%s %.*s", layer,
                 strncmp(name, state, strlen(state)) == 0 ? "state" : "parameter", PART, of);
    else if (own > kept)
        snprintf(out, TENSOR_TEXT, "%sthe optimizer's %.*s of %.*s", layer, part(slash - kept),
                 kept, PART, of);
    else
        snprintf(out, TENSOR_TEXT, "the optimizer's number %.*s", PART, of);
}

/* "layer L, parameter P, element I: A and B", with the bits where the decimals could look the same. */
static lk_status describe(const char *name, int64_t at, const lk_tensor *a, const lk_tensor *b,
                          char text[SNAPSHOT_TEXT])
{
    lk_tensor *x = NULL, *y = NULL;
    char tensor[TENSOR_TEXT];
    lk_status st = lk_tensor_clone(a, LK_F64, &x);
    if (st == LK_OK)
        st = lk_tensor_clone(b, LK_F64, &y);
    tensor_text(name, tensor);
    if (st == LK_OK)
        snprintf(text, SNAPSHOT_TEXT, "%s, element %lld of %lld: %.17g (%a) and %.17g (%a)", tensor,
                 (long long)at, (long long)lk_tensor_count(a),
                 ((const double *)lk_tensor_data(x))[at], ((const double *)lk_tensor_data(x))[at],
                 ((const double *)lk_tensor_data(y))[at], ((const double *)lk_tensor_data(y))[at]);
    lk_tensor_free(x);
    lk_tensor_free(y);
    return st;
}

/* Read tensor `i` of both files and compare; `*differ` is counted up. */
static lk_status tensor_compare(const lk_safetensors *a, const lk_safetensors *b, int64_t i,
                                int *differ, char text[SNAPSHOT_TEXT])
{
    lk_safetensors_info info, other;
    lk_tensor *x = NULL, *y = NULL;
    lk_status st;
    LK_TRY(lk_safetensors_at(a, i, &info));
    LK_TRY(lk_safetensors_at(b, i, &other));
    LK_CHECK(strcmp(info.name, other.name) == 0 && info.dtype == other.dtype &&
                 lk_shape_is_equal(info.shape, other.shape),
             LK_ESTATE, "the tensors %s and %s do not match", info.name, other.name);
    LK_TRY_TO(done, lk_tensor_new(info.dtype, info.shape, &x));
    LK_TRY_TO(done, lk_tensor_new(other.dtype, other.shape, &y));
    LK_TRY_TO(done, lk_safetensors_read(a, i, x));
    LK_TRY_TO(done, lk_safetensors_read(b, i, y));
    int64_t at = first_difference(x, y);
    if (at >= 0 && ++*differ == 1)
        st = describe(info.name, at, x, y, text);
done:
    lk_tensor_free(x);
    lk_tensor_free(y);
    return st;
}

lk_status snapshot_compare(const lk_safetensors *a, const lk_safetensors *b, int *differ,
                           char text[SNAPSHOT_TEXT])
{
    long long n = (long long)lk_safetensors_count(a), of = (long long)lk_safetensors_count(b);
    *differ = 0;
    text[0] = '\0';
    LK_CHECK(n == of, LK_ESTATE, "%lld tensors and %lld do not match", n, of);
    for (int64_t i = 0; i < n; i++)
        LK_TRY(tensor_compare(a, b, i, differ, text));
    size_t at = strlen(text);
    if (*differ > 1)
        snprintf(text + at, SNAPSHOT_TEXT - at, "; %d other tensor%s", *differ - 1,
                 *differ == 2 ? " differs" : "s differ");
    return LK_OK;
}
