/* The slices of a slab (parameters, optimizer state) as named tensors of an lk_state, for
 * checkpoints and hashes. */
#include "base/memory/grow.h"

#include <lockstep/checkpoint.h>
#include <lockstep/extra/alloc.h>

#include <stdio.h>
#include <string.h>

lk_status lk_state_tensors_new(lk_state_tensors **out)
{
    lk_state_tensors *l = NULL;
    *out = NULL;
    LK_TRY(lk_alloc_zero(&l, 1, sizeof *l));
    lk_status st = lk_arena_new(&l->arena);
    if (st != LK_OK) {
        lk_free(l);
        LK_TRY(st);
    }
    *out = l;
    return LK_OK;
}

void lk_state_tensors_free(lk_state_tensors *l)
{
    if (!l)
        return;
    lk_arena_free(l->arena);
    lk_free(l->tensor);
    lk_free(l);
}

lk_status lk_state_tensors_add(lk_state_tensors *l, const char *prefix, const lk_state_tensor *t)
{
    char *name;
    lk_box *box = NULL;
    lk_shape *of = NULL;
    LK_CHECK(l && prefix && t && t->name, LK_EINVAL, "a list, prefix, tensor or name is NULL");
    size_t bytes = strlen(prefix) + strlen(t->name) + 1;
    LK_TRY(lk_arena_alloc(l->arena, &name, (int64_t)bytes, 1));
    snprintf(name, bytes, "%s%s", prefix, t->name);
    if (t->box) {
        LK_TRY(lk_arena_alloc(l->arena, &box, 1, sizeof *box));
        *box = *t->box;
    }
    if (t->box_of) {
        LK_TRY(lk_arena_alloc(l->arena, &of, 1, sizeof *of));
        *of = *t->box_of;
    }
    LK_TRY(lk__grow(&l->tensor, &l->room, l->n + 1, sizeof *l->tensor));
    l->tensor[l->n++] = (lk_state_tensor){name, t->dtype, t->shape, t->data, box, of};
    return LK_OK;
}

lk_status lk_state_tensors_add_slab(lk_state_tensors *l, const char *prefix, const lk_slab *slab)
{
    LK_CHECK(l && slab, LK_EINVAL, "a list or slab is NULL");
    lk_slab_layout *layout = lk_slab_layout_of(slab);
    for (int64_t i = 0; i < lk_slab_layout_slices(layout); i++) {
        lk_slab_slice s;
        LK_TRY(lk_slab_layout_slice(layout, i, &s));
        lk_state_tensor t = {.name = s.name,
                             .dtype = s.dtype,
                             .shape = s.shape,
                             .data = (char *)lk_slab_data(slab) + s.offset,
                             .box = &s.box,
                             .box_of = &s.box_of};
        LK_TRY(lk_state_tensors_add(l, prefix, &t));
    }
    return LK_OK;
}

lk_status lk_state_tensors_add_model(lk_state_tensors *l, const lk_model *model)
{
    LK_CHECK(l && model, LK_EINVAL, "a list or model is NULL");
    LK_CHECK(lk_model_params(model), LK_ESTATE,
             "the model holds no parameters yet: call lk_model_hold() first");
    LK_TRY(lk_state_tensors_add_slab(l, "", lk_model_params(model)));
    return LK_TRACE(lk_state_tensors_add_slab(l, "", lk_model_state(model)));
}
