/* What passes add up: gradients, observed statistics and the loss, in one slab. */
#include "base/fpenv.h"
#include "nn/model.h"

#include <lockstep/map.h>
#include <lockstep/pieces.h>
#include <lockstep/reduce.h>

#include <stdio.h>
#include <string.h>

/* Slices as those of `slab`, with what it holds of each. */
static lk_status slices_like(const lk_slab *slab, const char *prefix, lk_slab_layout *layout)
{
    lk_slab_slice slice;
    char name[320];
    for (int64_t i = 0; i < lk_slab_layout_slices(lk_slab_layout_of(slab)); i++) {
        LK_TRY(lk_slab_layout_slice(lk_slab_layout_of(slab), i, &slice));
        snprintf(name, sizeof name, "%s%s", prefix, slice.name);
        LK_TRY(lk_slab_layout_add_box(layout, name, slice.dtype, slice.shape, slice.box_of,
                                      &slice.box));
    }
    return LK_OK;
}

/* Slices for the gradients of uses that own nothing. */
static lk_status slices_of_uses(const lk__net *net, lk_slab_layout *layout)
{
    lk_slab_slice slice;
    for (int64_t i = 0; i < net->n_uses; i++) {
        if (net->use[i].extra < 0)
            continue;
        LK_TRY(lk_slab_layout_slice(lk_slab_layout_of(net->params), net->use[i].param, &slice));
        LK_TRY(lk_slab_layout_add_box(layout, net->use[i].name, slice.dtype, slice.shape,
                                      slice.box_of, &slice.box));
    }
    return LK_OK;
}

/* The gradient of each use. */
static lk_status grads_make(const lk__net *net, lk_accumulator *sums)
{
    LK_TRY(lk_alloc_zero(&sums->grad, net->n_uses, sizeof *sums->grad));
    for (int64_t i = 0; i < net->n_uses; i++) {
        const lk__param_use *use = &net->use[i];
        int64_t slice = use->extra < 0 ? use->param : net->n_params + use->extra;
        LK_TRY(lk_slab_tensor(sums->slab, slice, &sums->grad[i]));
    }
    return LK_OK;
}

/* The layout: parameters, further uses of them, observed states, the loss. */
static lk_status sums_layout(const lk__net *net, lk_slab_layout *layout)
{
    LK_TRY(slices_like(net->params, "", layout));
    LK_TRY(slices_of_uses(net, layout));
    LK_TRY(slices_like(net->state, "observed.", layout));
    LK_TRY(lk_slab_layout_add(layout, "loss", net->spec.dtype, LK_SHAPE(1)));
    return LK_OK;
}

/* The sums on `memory`, or on their own if it is NULL. */
static lk_status sums_make(const lk__net *net, lk_slab_layout *layout, void *memory,
                           lk_accumulator *sums)
{
    int64_t largest = 0;
    LK_TRY(sums_layout(net, layout));
    if (memory)
        LK_TRY(lk_slab_wrap(layout, memory, lk_slab_layout_bytes(layout), NULL, NULL, &sums->slab));
    else
        LK_TRY(lk_slab_new(layout, &sums->slab));
    LK_TRY(lk_slab_flat(sums->slab, &sums->flat));
    int64_t first = net->n_params + net->n_extra;
    LK_TRY(grads_make(net, sums));
    LK_TRY(lk__slab_tensors(sums->slab, first, net->n_state, &sums->observed));
    LK_TRY(lk_slab_tensor(sums->slab, first + net->n_state, &sums->loss));
    LK_TRY(lk_alloc_zero(&sums->values, net->n_uses, sizeof *sums->values));
    for (int64_t i = 0; i < net->n_state; i++)
        if (lk_tensor_count(sums->observed[i]) > largest)
            largest = lk_tensor_count(sums->observed[i]);
    LK_TRY(lk_alloc_zero(&sums->scratch, largest, sizeof(double)));
    return LK_OK;
}

static lk_status sums_new(const lk_model *model, void *memory, lk_accumulator **out)
{
    lk_accumulator *sums = NULL;
    lk_slab_layout *layout = NULL;
    *out = NULL;
    LK_TRY(lk__model_check_held(model));
    LK_TRY(lk_alloc_zero(&sums, 1, sizeof *sums));
    sums->model = model;
    lk_status st = lk_slab_layout_new(&layout);
    if (st == LK_OK)
        st = sums_make(model->net, layout, memory, sums);
    lk_slab_layout_free(layout);
    if (st != LK_OK) {
        lk_accumulator_free(sums);
        LK_TRY(st);
    }
    *out = sums;
    return LK_OK;
}

lk_status lk_accumulator_new(const lk_model *model, lk_accumulator **out)
{
    LK_TRY(sums_new(model, NULL, out));
    return LK_OK;
}

lk_status lk_accumulator_wrap(const lk_model *model, void *memory, lk_accumulator **out)
{
    LK_CHECK(memory, LK_EINVAL, "memory is NULL");
    LK_TRY(sums_new(model, memory, out));
    return LK_OK;
}

/* Bytes of the gradients of all uses. */
static int64_t gradient_bytes(const lk__net *net)
{
    int64_t bytes = lk_slab_layout_bytes(lk_slab_layout_of(net->params));
    for (int64_t i = 0; net->n_extra > 0 && i < net->n_uses; i++) {
        int64_t own = lk_tensor_count(net->param[net->use[i].param]) *
                      (int64_t)lk_dtype_size(net->spec.dtype);
        bytes += net->use[i].extra < 0 ? 0 : (own + LK_ALIGN - 1) / LK_ALIGN * LK_ALIGN;
    }
    return bytes;
}

int64_t lk_accumulator_bytes(const lk_model *model)
{
    const lk__net *net = model->net;
    if (!net->params)
        return 0;
    return gradient_bytes(net) + lk_slab_layout_bytes(lk_slab_layout_of(net->state)) + LK_ALIGN;
}

void lk_accumulator_free(lk_accumulator *sums)
{
    if (!sums)
        return;
    lk__tensors_free(sums->grad, sums->model->net->n_uses);
    lk__tensors_free(sums->observed, sums->model->net->n_state);
    lk_tensor_free(sums->loss);
    lk_tensor_free(sums->flat);
    lk_slab_free(sums->slab);
    lk_free(sums->values);
    lk_free(sums->scratch);
    lk_free(sums);
}

void lk_accumulator_clear(lk_accumulator *sums)
{
    lk_slab_zero(sums->slab);
    sums->unset = false;
}

void lk_accumulator_begin(lk_accumulator *sums)
{
    int64_t gradients = gradient_bytes(sums->model->net);
    memset((char *)lk_slab_data(sums->slab) + gradients, 0,
           (size_t)(lk_accumulator_bytes(sums->model) - gradients));
    sums->unset = true;
}

lk_slab *lk_accumulator_slab(const lk_accumulator *sums)
{
    return sums->slab;
}

static lk_status add(lk_dtype dtype, int64_t n, void *to, const void *what)
{
    LK_TRY(lk_map2(dtype, LK_MAP2_ADD, 0, n, to, what, to));
    return LK_OK;
}

lk_status lk_accumulator_add(lk_accumulator *a, const lk_accumulator *b)
{
    LK_FP_GUARD();
    LK_CHECK(a && b && a->model == b->model && a != b, LK_EINVAL,
             "the sums are not two of one model");
    LK_TRY(add(lk_tensor_dtype(a->flat), lk_tensor_count(a->flat), lk_slab_data(a->slab),
               lk_slab_data(b->slab)));
    return LK_OK;
}

/* Join `n` uses of a parameter from use *at on, which moves on behind them, into the first of them. */
static lk_status uses_join(lk_accumulator *sums, int64_t n, int64_t *at)
{
    int64_t first = *at, half = n > 1 ? lk_tree_half(n) : 1;
    void *to = NULL, *from = NULL;
    if (n == 1) {
        *at = sums->model->net->use[*at].next;
        return LK_OK;
    }
    LK_TRY(uses_join(sums, half, at));
    lk_tensor *later = sums->grad[*at];
    LK_TRY(uses_join(sums, n - half, at));
    LK_TRY(lk_tensor_writable_data(sums->grad[first], &to));
    LK_TRY(lk_tensor_writable_data(later, &from));
    int64_t count = lk_tensor_count(later);
    LK_TRY(add(lk_tensor_dtype(later), count, to, from));
    memset(from, 0, (size_t)count * lk_dtype_size(lk_tensor_dtype(later)));
    return LK_OK;
}

lk_status lk_accumulator_join_uses(lk_accumulator *sums)
{
    LK_FP_GUARD();
    const lk__net *net = sums->model->net;
    for (int64_t i = 0; net->n_extra > 0 && i < net->n_params; i++) {
        int64_t at = net->start[i].first_use;
        if (net->start[i].n_uses > 1)
            LK_TRY(uses_join(sums, net->start[i].n_uses, &at));
    }
    return LK_OK;
}

lk_status lk_accumulator_add_loss(lk_accumulator *sums, lk_var loss)
{
    LK_FP_GUARD();
    double value, before;
    LK_TRY(lk_item(loss, &value));
    LK_TRY(lk_tensor_get_f64(sums->loss, LK_AT(0), &before));
    LK_TRY(lk_tensor_set_f64(sums->loss, LK_AT(0), before + value));
    return LK_OK;
}

double lk_accumulator_loss(const lk_accumulator *sums)
{
    double value = 0;
    if (lk_tensor_get_f64(sums->loss, LK_AT(0), &value) != LK_OK)
        lk_error_clear();
    return value;
}

/* ---- observed statistics ---- */

lk_status lk_pass_batch_stat(const lk_pass *pass, const lk_layer_instance *unit, int i, lk_var seen)
{
    lk_accumulator *sums = pass->sums;
    const lk_tensor *t = NULL;
    if (!sums || lk_tape_is_recomputing(pass->tape))
        return LK_OK;
    LK_TRY(lk_value(seen, &t));
    lk_tensor *to = sums->observed[unit->state + i];
    int64_t n = lk_tensor_count(to), pieces = lk_tensor_shape(t).dim[0];
    void *data = NULL;
    LK_CHECK(lk_tensor_is_contiguous(t) && lk_tensor_count(t) == pieces * n &&
                 lk_tensor_dtype(t) == lk_tensor_dtype(to),
             LK_ESHAPE, "observed %s for a state of %s", lk_tensor_text(t).s, lk_tensor_text(to).s);
    lk_reduce_axis_shape shape = {.outer = 1, .n = pieces, .inner = n, .piece = 1};
    LK_TRY(lk_reduce_axis(lk_tensor_dtype(t), LK_REDUCE_AXIS_SUM, &shape, lk_tensor_data(t),
                          sums->scratch));
    LK_TRY(lk_tensor_writable_data(to, &data));
    LK_TRY(add(lk_tensor_dtype(t), n, data, sums->scratch));
    return LK_OK;
}

/* state = state + rate * (observed / pieces - state), each step rounded. */
static lk_status state_move(lk_tensor *state, const lk_tensor *observed, double rate, double pieces)
{
    void *data = NULL;
    LK_TRY(lk_tensor_writable_data(state, &data));
    const void *seen = lk_tensor_data(observed);
    for (int64_t i = 0; i < lk_tensor_count(state); i++) {
        if (lk_tensor_dtype(state) == LK_F32) {
            float *s = (float *)data + i, r = (float)rate;
            *s += r * (((const float *)seen)[i] / (float)pieces - *s);
        } else {
            double *s = (double *)data + i;
            *s += rate * (((const double *)seen)[i] / pieces - *s);
        }
    }
    return LK_OK;
}

lk_status lk_model_update_running_stats(lk_model *model, const lk_accumulator *sums, int64_t pieces)
{
    LK_FP_GUARD();
    LK_CHECK(model && model->net && sums && sums->model == model, LK_EINVAL,
             "the sums belong to another model");
    LK_CHECK(pieces >= 1, LK_EINVAL, "%lld pieces", (long long)pieces);
    for (int64_t i = 0; i < model->net->n_state; i++)
        LK_TRY(state_move(model->net->state_of[i], sums->observed[i], model->net->moving[i].rate,
                          model->net->moving[i].once ? 1 : (double)pieces));
    return LK_OK;
}
