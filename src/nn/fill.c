/* The memory of a net: its slabs, and what they begin with. */
#include "nn/model.h"

void lk__tensors_free(lk_tensor **tensor, int64_t n)
{
    for (int64_t i = 0; tensor && i < n; i++)
        lk_tensor_free(tensor[i]);
    lk_free(tensor);
}

lk_status lk__slab_tensors(const lk_slab *slab, int64_t first, int64_t n, lk_tensor ***out)
{
    lk_status st;
    lk_tensor **tensor = NULL;
    *out = NULL;
    LK_TRY(lk_alloc_zero(&tensor, n, sizeof *tensor));
    for (int64_t i = 0; i < n; i++)
        LK_TRY_TO(fail, lk_slab_tensor(slab, first + i, &tensor[i]));
    *out = tensor;
    return LK_OK;
fail:
    lk__tensors_free(tensor, n);
    return st;
}

/* Draw parameter `i` in f64, and round once. */
static lk_status param_fill(lk__net *net, int64_t i)
{
    lk_status st;
    lk_slab_slice slice;
    lk_tensor *draws = NULL;
    const lk__start *start = &net->start[i];
    const lk_init *init = (const lk_init *)(const void *)start->init.entry;
    LK_TRY(lk_layout_get(net->params_layout, i, &slice));
    LK_TRY(lk_tensor_new(LK_F64, slice.shape, &draws));
    lk_init_call call = {.options = start->init.options,
                         .stream = lk_rng_start(net->spec.seed, slice.name, "init"),
                         .fan_in = start->fan_in,
                         .fan_out = start->fan_out,
                         .count = slice.count};
    void *data = NULL;
    LK_TRY_TO(done, lk_tensor_writable_data(draws, &data));
    call.out = data;
    LK_TRY_TO(done, init->fill(&call));
    LK_TRY_TO(done, lk_tensor_copy(draws, net->param[i]));
done:
    lk_tensor_free(draws);
    return st;
}

/* Memory for the parameters; if there is not enough, say who wants the most. */
static lk_status params_new(lk__net *net)
{
    lk_slab_slice slice, largest = {.name = NULL};
    lk_status st = lk_slab_new(net->params_layout, &net->params);
    for (int64_t i = 0; st == LK_ENOMEM && i < net->n_params; i++)
        if (lk_layout_get(net->params_layout, i, &slice) == LK_OK &&
            (!largest.name || slice.count > largest.count))
            largest = slice;
    LK_CHECK(!largest.name, LK_ENOMEM,
             "there is no memory for %lld bytes of parameters; the largest is %s %s%s",
             (long long)lk_layout_bytes(net->params_layout), largest.name,
             lk_dtype_name(largest.dtype), lk_shape_text(largest.shape).s);
    return st;
}

lk_status lk__net_fill(lk__net *net)
{
    LK_TRY(params_new(net));
    LK_TRY(lk_slab_new(net->state_layout, &net->state));
    LK_TRY(lk__slab_tensors(net->params, 0, net->n_params, &net->param));
    LK_TRY(lk__slab_tensors(net->state, 0, net->n_state, &net->state_of));
    for (int64_t i = 0; i < net->n_params; i++)
        LK_TRY(param_fill(net, i));
    for (int64_t i = 0; i < net->n_state; i++)
        LK_TRY(lk_tensor_fill_f64(net->state_of[i], net->moving[i].start));
    return LK_OK;
}

static const lk_entry *init_at(int i)
{
    return lk_inits[i] ? &lk_inits[i]->entry : NULL;
}

const lk_kind lk_kind_init = {
    .name = "init", .plural = "inits", .summary = "what a parameter begins with", .at = init_at};
