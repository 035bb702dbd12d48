/* The tensors of a chain list, of all ranks: to train, save and hash it.
 *
 *     rank 0                           rank 1
 *     0.0.linear1.weight  [4,8] here   0.0.linear1.weight  nothing of it
 *     1.0.linear1.weight  nothing      1.0.linear1.weight  [8,2] here
 *
 * All ranks have the same list, in the order of ranks, components and slices.  Parameters lie in one slab:
 * what this rank's models have is there one behind the other, in their own layouts, and the models are
 * bound to it; of the others' it has empty slices.  So one optimizer updates all, and files and hashes go
 * by boxes as those of any state that ranks hold parts of.
 */
#include "coll/agree.h"
#include "nn/model.h"
#include "parallel/chain/chain.h"

#include <stdio.h>
#include <string.h>

/* ---- the list ---- */

static const lk_slab *slab_of(const lk_chain *chain, int64_t component, bool is_state)
{
    const lk_model *model = chain->component[component].is.model;
    return is_state ? lk_model_state(model) : lk_model_params(model);
}

static int64_t slices_of(const lk_chain *chain, int64_t component, bool is_state)
{
    return chain->component[component].is.model
               ? lk_slab_layout_slices(lk_slab_layout_of(slab_of(chain, component, is_state)))
               : 0;
}

/* This rank's tensors: parameters and state of each component. */
static int64_t own_count(const lk_chain *chain)
{
    int64_t n = 0;
    for (int64_t k = 0; k < chain->n; k++)
        n += slices_of(chain, k, false) + slices_of(chain, k, true);
    return n;
}

static lk_status own_write(const lk_chain *chain, lk__chain_tensor *row)
{
    int rank = lk_comm_rank(chain->comm);
    for (int64_t k = 0; k < chain->n; k++)
        for (int is_state = 0; is_state < 2; is_state++)
            for (int64_t i = 0; i < slices_of(chain, k, is_state); i++, row++) {
                lk_slab_slice s;
                LK_TRY(lk_slab_layout_slice(lk_slab_layout_of(slab_of(chain, k, is_state)), i, &s));
                *row = (lk__chain_tensor){.component = k,
                                          .is_state = is_state,
                                          .dtype = (int64_t)s.dtype,
                                          .ndim = s.shape.ndim};
                memcpy(row->dim, s.shape.dim, (size_t)s.shape.ndim * sizeof row->dim[0]);
                int n = snprintf(row->name, sizeof row->name, "%d.%lld.%s", rank, (long long)k,
                                 s.name);
                LK_CHECK(n < (int)sizeof row->name, LK_ENOTSUP,
                         "%s of component %lld: a name of more than %d bytes", s.name, (long long)k,
                         (int)sizeof row->name - 1);
            }
    return LK_OK;
}

static lk_status own_make(const lk_chain *chain, lk__chain_tensor **out)
{
    for (int64_t k = 0; k < chain->n; k++)
        if (chain->component[k].is.model)
            LK_TRY(lk__model_check_whole(chain->component[k].is.model));
    LK_TRY(lk_alloc(out, own_count(chain), sizeof **out));
    return LK_TRACE(own_write(chain, *out));
}

/* What another rank says about its tensors must be what tensors can be. */
static lk_status rows_check(lk__chain_tensor *row, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        bool known = row[i].dtype >= 0 && row[i].dtype < LK_N_DTYPES && row[i].ndim >= 0 &&
                     row[i].ndim <= LK_MAX_NDIM;
        row[i].name[sizeof row[i].name - 1] = '\0';
        LK_CHECK(known, LK_ECOMM, "tensor %lld of the chain has dtype %lld and %lld axes",
                 (long long)i, (long long)row[i].dtype, (long long)row[i].ndim);
    }
    return LK_OK;
}

static lk_status tensors_gather(lk__chain_state *s)
{
    lk_comm *comm = s->chain->comm;
    lk__chain_tensor *own = NULL;
    lk_status st = lk_agree(comm, own_make(s->chain, &own));
    if (st == LK_OK)
        st = lk__rank_rows_gather(comm, own, own_count(s->chain), LK__TENSOR_WORDS,
                                  "chain: tensors", &s->rows);
    if (st == LK_OK) {
        s->tensor = s->rows.row;
        s->n = s->rows.first[lk_comm_size(comm)];
        st = rows_check(s->rows.row, s->n);
    }
    lk_free(own);
    return LK_TRACE(st);
}

/* Whether tensor `i` is this rank's. */
static bool is_own(const lk__chain_state *s, int64_t i)
{
    int rank = lk_comm_rank(s->chain->comm);
    return i >= s->rows.first[rank] && i < s->rows.first[rank + 1];
}

static lk_shape shape_of(const lk__chain_tensor *t)
{
    lk_shape shape = {.ndim = (int)t->ndim};
    memcpy(shape.dim, t->dim, (size_t)t->ndim * sizeof shape.dim[0]);
    return shape;
}

/* ---- the parameters ---- */

static lk_status params_layout(const lk__chain_state *s, lk_slab_layout *layout)
{
    for (int64_t i = 0; i < s->n; i++) {
        const lk__chain_tensor *t = &s->tensor[i];
        /* All along one axis, which has an empty box also where the tensor has no axis. */
        lk_shape shape = shape_of(t), flat = {.ndim = 1};
        if (t->is_state)
            continue;
        LK_TRY(lk_shape_count(shape, &flat.dim[0]));
        if (is_own(s, i))
            LK_TRY(lk_slab_layout_add(layout, t->name, (lk_dtype)t->dtype, shape));
        else
            LK_TRY(lk_slab_layout_add_box(layout, t->name, (lk_dtype)t->dtype, shape, flat,
                                          &(lk_box){.ndim = 1}));
    }
    return LK_OK;
}

/* Let the model of a component have its parameters in the chain's slab, `offset` bytes from its start. */
static lk_status component_bind(lk__chain_state *s, int64_t k, int64_t *offset)
{
    lk_model *model = s->chain->component[k].is.model;
    if (!model || slices_of(s->chain, k, false) == 0)
        return LK_OK;
    LK_CHECK(model->trainers == 0, LK_ESTATE,
             "the model of component %lld is trained by another trainer: free that first",
             (long long)k);
    lk_slab *own = lk_model_params(model);
    int64_t bytes = lk_slab_layout_bytes(lk_slab_layout_of(own));
    char *there = (char *)lk_slab_data(s->params) + *offset;
    LK_TRY(lk_slab_wrap(lk_slab_layout_of(own), there, bytes, NULL, NULL, &s->bound[k]));
    memcpy(there, lk_slab_data(own), (size_t)bytes);
    LK_TRY(lk__model_bind_params(model, s->bound[k]));
    *offset += bytes;
    return LK_OK;
}

static lk_status params_make(lk__chain_state *s)
{
    lk_slab_layout *layout = NULL;
    int64_t offset = 0;
    LK_TRY(lk_slab_layout_new(&layout));
    lk_status st = params_layout(s, layout);
    if (st == LK_OK)
        st = lk_slab_new(layout, &s->params);
    lk_slab_layout_free(layout);
    LK_TRY(st);
    LK_TRY(lk_slab_new_like(s->params, &s->grads));
    LK_TRY(lk_alloc_zero(&s->bound, s->chain->n, sizeof *s->bound));
    for (int64_t k = 0; k < s->chain->n; k++)
        LK_TRY(component_bind(s, k, &offset));
    return LK_OK;
}

/* Whether a model of any rank uses a weight more than once: then no other may need the whole batch. */
static lk_status reuse_find(lk__chain_state *s)
{
    int32_t any[2] = {0}; /* reuse, statistics of the batch */
    for (int64_t k = 0; k < s->chain->n; k++) {
        const lk_model *model = s->chain->component[k].is.model;
        any[0] = any[0] || (model && lk_model_has_weight_reuse(model));
        any[1] = any[1] || (model && lk_model_needs_batch_sync(model));
    }
    LK_TRY(lk_allreduce(s->chain->comm, NULL, any, 2, LK_I32, LK_REDUCE_MAX, "chain: reuse"));
    LK_CHECK(!any[0] || !any[1], LK_ENOTSUP,
             "a model of the chain uses a parameter more than once, so that batches pass shard by "
             "shard, and a layer takes statistics over the whole batch: use statistics: shard");
    s->has_weight_reuse = any[0];
    return LK_OK;
}

lk_status lk__chain_state_new(lk_chain *chain, lk__chain_state **out)
{
    lk__chain_state *s = NULL;
    *out = NULL;
    LK_TRY(lk__agree_alloc(chain->comm, &s, sizeof *s));
    s->chain = chain;
    lk_status st = lk_agree(chain->comm, chain->built
                                             ? LK_OK
                                             : LK_RAISE(LK_ESTATE, "the chain is not built: call "
                                                                   "lk_chain_build() first"));
    if (st == LK_OK)
        st = tensors_gather(s);
    if (st == LK_OK)
        st = lk_agree(chain->comm, params_make(s));
    if (st == LK_OK)
        st = reuse_find(s);
    if (st != LK_OK) {
        lk__chain_state_free(s);
        LK_TRY(st);
    }
    *out = s;
    return LK_OK;
}

void lk__chain_state_free(lk__chain_state *s)
{
    if (!s)
        return;
    for (int64_t k = 0; s->bound && k < s->chain->n; k++) {
        if (s->bound[k])
            lk__model_unbind_params(s->chain->component[k].is.model);
        lk_slab_free(s->bound[k]);
    }
    lk_free(s->bound);
    lk_slab_free(s->params);
    lk_slab_free(s->grads);
    lk__rank_rows_free(&s->rows);
    lk_free(s);
}

/* ---- what it is used for ---- */

lk_status lk__chain_state_data(const lk__chain_state *s, int64_t i, void **out)
{
    const lk__chain_tensor *t = &s->tensor[i];
    int64_t first = i;
    lk_slab_slice slice;
    *out = NULL;
    if (!is_own(s, i))
        return LK_OK;
    while (first > 0 && is_own(s, first - 1) && s->tensor[first - 1].component == t->component &&
           s->tensor[first - 1].is_state == t->is_state)
        first--;
    const lk_slab *slab = slab_of(s->chain, t->component, t->is_state);
    LK_TRY(lk_slab_layout_slice(lk_slab_layout_of(slab), i - first, &slice));
    *out = (char *)lk_slab_data(slab) + slice.offset;
    return LK_OK;
}

lk_status lk__chain_state_take_gradients(lk__chain_state *s)
{
    char *to = lk_slab_data(s->grads);
    for (int64_t k = 0; k < s->chain->n; k++) {
        lk_accumulator *a = s->chain->component[k].accumulator;
        if (!a || !s->bound[k])
            continue;
        LK_TRY(lk_accumulator_join_uses(a));
        int64_t bytes = lk_slab_layout_bytes(lk_slab_layout_of(s->bound[k]));
        memcpy(to, lk_slab_data(lk_accumulator_slab(a)), (size_t)bytes);
        to += bytes;
    }
    return LK_OK;
}

lk_status lk__chain_state_join_sums(void *state, double *sum, int64_t n)
{
    const lk__chain_state *s = state;
    /* As integers, of which one rank has the bits and the others 0: nothing is rounded. */
    return LK_TRACE(lk_allreduce(s->chain->comm, NULL, (int64_t *)(void *)sum, n, LK_I64,
                                 LK_REDUCE_SUM, "sums over parameters"));
}
