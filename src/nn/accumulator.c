/* lk_accumulator: gradients, statistics of the batch and the loss, in one slab.
 *
 * Made by the trainer's groups, one for each micro-batch; passes and lk_backward() fill it on the
 * trainer's thread, and the groups join those of all micro-batches.
 */
#include "base/fpenv.h"
#include "nn/model.h"

#include <lockstep/extra/map.h>
#include <lockstep/extra/reduce.h>
#include <lockstep/pieces.h>

#include <stdio.h>
#include <string.h>

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

/* Tiles whose gradients a use keeps apart. */
static int64_t leaves_of(const lk__net *net, const lk__leaves *leaves, int64_t use)
{
    const lk__param_use *u = &net->use[use];
    return leaves && leaves->n > 0 && u->by_tile && leaves->parts[u->instance].tile ? leaves->n : 0;
}

static lk_shape leaf_shape(const lk__net *net, int64_t use, int64_t leaves)
{
    lk_shape own = lk_tensor_shape(net->param[net->use[use].param]);
    lk_shape shape = {.ndim = own.ndim + 1, .dim = {leaves}};
    memcpy(&shape.dim[1], own.dim, (size_t)own.ndim * sizeof own.dim[0]);
    return shape;
}

/* Slices for the gradients of tiles, [leaves][...], of the uses that have them. */
static lk_status slices_of_leaves(const lk__net *net, const lk__leaves *leaves,
                                  lk_slab_layout *layout)
{
    char name[320];
    for (int64_t i = 0; i < net->n_uses; i++) {
        int64_t n = leaves_of(net, leaves, i);
        if (n == 0)
            continue;
        snprintf(name, sizeof name, "tiles.%s", net->use[i].name);
        LK_TRY(lk_slab_layout_add(layout, name, net->spec.dtype, leaf_shape(net, i, n)));
    }
    return LK_OK;
}

/* Bytes of the gradients of all uses, and of their tiles. */
static int64_t gradient_bytes(const lk__net *net, const lk__leaves *leaves)
{
    int64_t bytes = lk_slab_layout_bytes(lk_slab_layout_of(net->params));
    for (int64_t i = 0; i < net->n_uses; i++) {
        const lk__param_use *use = &net->use[i];
        int64_t own = lk_tensor_count(net->param[use->param]);
        bytes += use->extra < 0 ? 0 : lk__slice_bytes(net, own);
        bytes += lk__slice_bytes(net, leaves_of(net, leaves, i) * own);
    }
    return bytes;
}

/* The gradient of each use, and those of its tiles. */
static lk_status grads_make(const lk__net *net, const lk__leaves *leaves,
                            lk_accumulator *accumulator)
{
    int64_t at = net->n_params + net->n_extra;
    accumulator->gradients = gradient_bytes(net, leaves);
    LK_TRY(lk_alloc_zero(&accumulator->grad, net->n_uses, sizeof *accumulator->grad));
    LK_TRY(lk_alloc_zero(&accumulator->leaf, net->n_uses, sizeof *accumulator->leaf));
    for (int64_t i = 0; i < net->n_uses; i++) {
        const lk__param_use *use = &net->use[i];
        int64_t slice = use->extra < 0 ? use->param : net->n_params + use->extra;
        LK_TRY(lk_slab_tensor(accumulator->slab, slice, &accumulator->grad[i]));
        if (leaves_of(net, leaves, i) > 0)
            LK_TRY(lk_slab_tensor(accumulator->slab, at++, &accumulator->leaf[i]));
    }
    return LK_OK;
}

/* The layout: parameters, further uses of them, those of tiles, and what forward observes. */
static lk_status accumulator_layout(const lk__net *net, const lk__leaves *leaves,
                                    lk_slab_layout *layout)
{
    LK_TRY(lk__slices_like(net->params, "", layout));
    LK_TRY(slices_of_uses(net, layout));
    LK_TRY(slices_of_leaves(net, leaves, layout));
    return LK_TRACE(lk__observed_layout(net, leaves, layout));
}

lk_status lk__accumulator_layout(const lk_model *model, const lk__leaves *leaves,
                                 lk_slab_layout **out)
{
    lk_slab_layout *layout = NULL;
    *out = NULL;
    LK_TRY(lk__model_check_held(model));
    LK_TRY(lk_slab_layout_new(&layout));
    lk_status st = accumulator_layout(model->net, leaves, layout);
    if (st != LK_OK)
        lk_slab_layout_free(layout);
    LK_TRY(st);
    *out = layout;
    return LK_OK;
}

int64_t lk__use_leaves(const lk_model *model, const lk__leaves *leaves, int64_t use)
{
    return leaves_of(model->net, leaves, use);
}

/* Uses that have leaves. */
static int64_t leaf_slices(const lk__net *net, const lk__leaves *leaves)
{
    int64_t n = 0;
    for (int64_t i = 0; i < net->n_uses; i++)
        n += leaves_of(net, leaves, i) > 0;
    return n;
}

/* The accumulator on `memory`, or on its own if that is NULL. */
static lk_status accumulator_fill(const lk__net *net, const lk__leaves *leaves,
                                  lk_slab_layout *layout, void *memory, lk_accumulator *accumulator)
{
    LK_TRY(accumulator_layout(net, leaves, layout));
    if (memory)
        LK_TRY(lk_slab_wrap(layout, memory, lk_slab_layout_bytes(layout), NULL, NULL,
                            &accumulator->slab));
    else
        LK_TRY(lk_slab_new(layout, &accumulator->slab));
    LK_TRY(grads_make(net, leaves, accumulator));
    return LK_TRACE(lk__observed_make(
        net, leaves, net->n_params + net->n_extra + leaf_slices(net, leaves), accumulator));
}

lk_status lk__accumulator_new(const lk_model *model, const lk__leaves *leaves, void *memory,
                              lk_accumulator **out)
{
    lk_accumulator *accumulator = NULL;
    lk_slab_layout *layout = NULL;
    *out = NULL;
    LK_TRY(lk__model_check_held(model));
    LK_TRY(lk_alloc_zero(&accumulator, 1, sizeof *accumulator));
    accumulator->model = model;
    lk_status st = lk_slab_layout_new(&layout);
    if (st == LK_OK)
        st = accumulator_fill(model->net, leaves, layout, memory, accumulator);
    lk_slab_layout_free(layout);
    if (st != LK_OK) {
        lk_accumulator_free(accumulator);
        LK_TRY(st);
    }
    *out = accumulator;
    return LK_OK;
}

lk_status lk_accumulator_new(const lk_model *model, lk_accumulator **out)
{
    return LK_TRACE(lk__accumulator_new(model, NULL, NULL, out));
}

lk_status lk_accumulator_wrap(const lk_model *model, void *memory, lk_accumulator **out)
{
    LK_CHECK(memory, LK_EINVAL, "memory is NULL");
    return LK_TRACE(lk__accumulator_new(model, NULL, memory, out));
}

int64_t lk__accumulator_bytes(const lk_model *model, const lk__leaves *leaves)
{
    const lk__net *net = model->net;
    if (!net->params)
        return 0;
    return gradient_bytes(net, leaves) + lk_slab_layout_bytes(lk_slab_layout_of(net->state)) +
           lk__accumulator_loss_bytes(model, leaves);
}

int64_t lk_accumulator_bytes(const lk_model *model)
{
    return lk__accumulator_bytes(model, NULL);
}

void lk_accumulator_free(lk_accumulator *accumulator)
{
    if (!accumulator)
        return;
    lk__tensors_free(accumulator->grad, accumulator->model->net->n_uses);
    lk__tensors_free(accumulator->leaf, accumulator->model->net->n_uses);
    lk__tensors_free(accumulator->each, accumulator->model->net->n_uses);
    lk_free(accumulator->each_of);
    lk__tensors_free(accumulator->batch_stats, accumulator->model->net->n_state);
    lk_tensor_free(accumulator->loss);
    lk_tensor_free(accumulator->terms);
    lk_free(accumulator->term_at);
    lk_tensor_free(accumulator->flat);
    lk_slab_free(accumulator->slab);
    lk_free(accumulator->values);
    lk_free(accumulator->scratch);
    lk_free(accumulator);
}

void lk_accumulator_clear(lk_accumulator *accumulator)
{
    lk_slab_zero(accumulator->slab);
    accumulator->overwrite = false;
}

void lk_accumulator_begin(lk_accumulator *accumulator)
{
    memset((char *)lk_slab_data(accumulator->slab) + accumulator->gradients, 0,
           (size_t)(lk_slab_layout_bytes(lk_slab_layout_of(accumulator->slab)) -
                    accumulator->gradients));
    accumulator->overwrite = true;
}

lk_slab *lk_accumulator_slab(const lk_accumulator *accumulator)
{
    return accumulator->slab;
}

lk_status lk__accumulator_each(lk_accumulator *accumulator, int64_t use, lk_tensor **out)
{
    const lk__net *net = accumulator->model->net;
    const lk_tensor *param = net->param[net->use[use].param];
    if (accumulator->each_of[use] != param) { /* the first time, and where others are bound */
        lk_tensor *each = NULL;
        LK_TRY(lk_tensor_broadcast(param, leaf_shape(net, use, accumulator->leaves.n), &each));
        lk_tensor_free(accumulator->each[use]);
        accumulator->each[use] = each;
        accumulator->each_of[use] = param;
    }
    *out = accumulator->each[use];
    return LK_OK;
}

lk_tensor *lk__accumulator_leaves(const lk_accumulator *accumulator, int64_t use)
{
    return accumulator->leaf[use];
}

lk_tensor *lk__accumulator_total(const lk_accumulator *accumulator, int64_t use)
{
    return accumulator->grad[use];
}

static lk_status add(lk_dtype dtype, int64_t n, void *to, const void *what)
{
    return LK_TRACE(lk_map2(dtype, LK_MAP2_ADD, 0, n, to, what, to));
}

lk_status lk_accumulator_add(lk_accumulator *a, const lk_accumulator *b)
{
    LK_FP_GUARD();
    LK_CHECK(a && b && a->model == b->model && a != b, LK_EINVAL,
             "the accumulators are not two of one model");
    return LK_TRACE(add(lk_tensor_dtype(a->flat), lk_tensor_count(a->flat), lk_slab_data(a->slab),
                        lk_slab_data(b->slab)));
}

/* Join `n` uses of a parameter from use *at on, which moves on behind them, into the first of them. */
static lk_status uses_join(lk_accumulator *accumulator, int64_t n, int64_t *at)
{
    int64_t first = *at, half = n > 1 ? lk_tree_half(n) : 1;
    void *to = NULL, *from = NULL;
    if (n == 1) {
        *at = accumulator->model->net->use[*at].next;
        return LK_OK;
    }
    LK_TRY(uses_join(accumulator, half, at));
    lk_tensor *later = accumulator->grad[*at];
    LK_TRY(uses_join(accumulator, n - half, at));
    LK_TRY(lk_tensor_writable_data(accumulator->grad[first], &to));
    LK_TRY(lk_tensor_writable_data(later, &from));
    int64_t count = lk_tensor_count(later);
    LK_TRY(add(lk_tensor_dtype(later), count, to, from));
    memset(from, 0, (size_t)count * lk_dtype_size(lk_tensor_dtype(later)));
    return LK_OK;
}

lk_status lk_accumulator_join_uses(lk_accumulator *accumulator)
{
    LK_FP_GUARD();
    const lk__net *net = accumulator->model->net;
    for (int64_t i = 0; net->n_extra > 0 && i < net->n_params; i++) {
        int64_t at = net->start[i].first_use;
        if (net->start[i].n_uses > 1)
            LK_TRY(uses_join(accumulator, net->start[i].n_uses, &at));
    }
    return LK_OK;
}
