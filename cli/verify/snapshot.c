/* Snapshots: the tensors of all slabs, sorted by layer. */
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
