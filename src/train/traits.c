/* What the trainers of all ranks must have alike: data, layers, parameters, and how they are trained.
 * lk_trainer_new() compares it over ranks (same.h, coll/traits.h).
 */
#include "coll/traits.h"

#include "data/loader/loader.h"
#include "nn/model.h"
#include "train/same.h"
#include "train/trainer.h"

static lk_status choice_trait(const char *name, const lk_config *choice, lk__trait *out)
{
    lk_hash h = lk_hash_start();
    LK_TRY(lk_config_hash(choice, &h));
    *out = (lk__trait){name, (int64_t)lk_hash_value(&h), .is_hash = true};
    return LK_OK;
}

/* How batches are made, beside their size, which is that of the set. */
static lk_status loader_trait(const lk_loader *l, lk__trait *out)
{
    lk_config choice = {.descriptor = &lk_loader_descriptor,
                        .options = (void *)(uintptr_t)&l->options};
    lk_hash h = lk_hash_start();
    LK_TRY(lk_config_hash(&choice, &h));
    lk_hash_add_i64(&h, (int64_t)l->options.dtype);
    lk_hash_add_i64(&h, l->options.indices);
    *out = (lk__trait){"other options of the loader", (int64_t)lk_hash_value(&h), .is_hash = true};
    return LK_OK;
}

static lk_status layers_trait(const lk_model *model, lk__trait *out)
{
    lk_hash h = lk_hash_start();
    for (int64_t i = 0; i < model->n_layers; i++) {
        LK_TRY(lk_config_hash(&model->layer[i], &h));
        /* Where stages begin, which is in no run's identity. */
        lk_hash_add_i64(&h, model->layer[i].stage);
    }
    *out = (lk__trait){"other layers", (int64_t)lk_hash_value(&h), .is_hash = true};
    return LK_OK;
}

/* The values that all ranks hold, which `spread` are not all, nor where features are cut, and where stages are cut
 * none. */
static void values_hash(const lk_model *model, bool spread, bool features, bool stages, lk_hash *h)
{
    const lk_slab *params = lk_model_params(model);
    if (!spread && !features && !stages) {
        lk_slab_hash(params, h);
        return;
    }
    lk_hash_add_i64(h, model->net->spec.seed);
    for (int64_t i = 0; !stages && i < model->net->n_params; i++) {
        lk_slab_slice slice;
        if (lk__net_positions(model->net, i) == 0 &&
            !(features && lk__net_is_cut(model->net, &model->net->start[i].owned)) &&
            lk_slab_layout_slice(lk_slab_layout_of(params), i, &slice) == LK_OK)
            lk_hash_add_bytes(h, (const char *)lk_slab_data(params) + slice.offset,
                              (size_t)slice.bytes);
    }
}

static lk__trait values_trait(const lk_model *model, bool spread, bool features, bool stages)
{
    lk_hash h = lk_hash_start();
    values_hash(model, spread, features, stages, &h);
    if (!stages && !features)
        lk_slab_hash(lk_model_state(model), &h);
    return (lk__trait){"other parameters to begin with", (int64_t)lk_hash_value(&h),
                       .is_hash = true};
}

static lk__trait layout_trait(const lk_parallel_options *p, const lk_pieces *cut)
{
    lk_hash h = lk_hash_start();
    for (int i = 0; i < 3; i++) {
        lk_hash_add_i64(&h, i < p->spatial.n ? p->spatial.item[i] : 1);
        lk_hash_add_i64(&h, cut->tile[i] > 1 ? cut->tile[i] : 1);
    }
    lk_hash_add_i64(&h, cut->least_tile);
    lk_hash_add_i64(&h, cut->blocks > 1 ? cut->blocks : 1);
    lk_hash_add_i64(&h, cut->least_block);
    const int64_t numbers[] = {p->data,     p->features,    p->stages,  p->mode,
                               p->wire,     p->update,      p->overlap, p->double_buffering,
                               p->schedule, p->micro_batch, p->lag,     p->recompute};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        lk_hash_add_i64(&h, numbers[i]);
    lk_hash_add_bytes(&h, &p->bucket_mib, sizeof p->bucket_mib);
    return (lk__trait){"other options of parallel or pieces", (int64_t)lk_hash_value(&h),
                       .is_hash = true};
}

enum { TRAITS = 14, CHAIN_TRAITS = 8 };

static lk_status metrics_trait(const lk_configs *metrics, lk__trait *out)
{
    lk_hash h = lk_hash_start();
    for (int64_t i = 0; i < metrics->n; i++)
        LK_TRY(lk_config_hash(&metrics->item[i], &h));
    *out = (lk__trait){"other metrics", (int64_t)lk_hash_value(&h), .is_hash = true};
    return LK_OK;
}

static lk__trait frozen_trait(const lk_trainer *t)
{
    lk_hash h = lk_hash_start();
    for (int64_t i = 0; i < lk_slab_layout_slices(lk_model_layout(t->spec.model)); i++)
        lk_hash_add_i64(&h, t->frozen[i]);
    return (lk__trait){"other layers that move", (int64_t)lk_hash_value(&h), .is_hash = true};
}

/* Which losses count. */
static lk__trait losses_trait(const lk_trainer *t)
{
    lk_hash h = lk_hash_start();
    for (int64_t i = 0; i < t->n_summands; i++)
        lk_hash_add_i64(&h, t->summand[i].term);
    return (lk__trait){"other losses", (int64_t)lk_hash_value(&h), .is_hash = true};
}

/* What the ranks of a chain must have alike: their models and data are their own. */
static lk_status chain_traits_of(const lk_trainer *t, lk__trait *out)
{
    const lk_trainer_spec *s = &t->spec;
    out[0] = (lk__trait){"the seed of the loader", s->train->seed, .is_hash = false};
    out[1] = (lk__trait){"the number of metrics", t->options.metrics.n, .is_hash = false};
    out[2] = (lk__trait){"the number of epochs", s->epochs, .is_hash = false};
    LK_TRY(choice_trait("another loss", &t->options.loss, &out[3]));
    LK_TRY(choice_trait("another optimizer", &t->options.optimizer, &out[4]));
    out[5] = (lk__trait){"the number of shards", lk_loader_shards(s->train), .is_hash = false};
    out[6] = (lk__trait){"shuffle of the loader", s->train->options.shuffle, .is_hash = false};
    return LK_TRACE(metrics_trait(&t->options.metrics, &out[7]));
}

/* What all ranks must have alike; what the steps do depends on nothing else. */
static lk_status traits_of(const lk_trainer *t, lk__trait *out)
{
    const lk_trainer_spec *s = &t->spec;
    out[0] = (lk__trait){"the seed of the loader", s->train->seed, .is_hash = false};
    out[1] = (lk__trait){"the number of metrics", t->options.metrics.n, .is_hash = false};
    out[2] = (lk__trait){"the number of epochs", s->epochs, .is_hash = false};
    LK_TRY(loader_trait(s->train, &out[3]));
    LK_TRY(choice_trait("another loss", &t->options.loss, &out[4]));
    LK_TRY(choice_trait("another optimizer", &t->options.optimizer, &out[5]));
    LK_TRY(layers_trait(s->model, &out[6]));
    out[7] = values_trait(s->model, t->spread, t->mesh->n[LK_AXIS_FEATURES] > 1,
                          t->mesh->n[LK_AXIS_STAGES] > 1);
    out[8] = (lk__trait){"the number of shards", lk_loader_shards(s->train), .is_hash = false};
    LK_TRY(metrics_trait(&t->options.metrics, &out[9]));
    out[10] = (lk__trait){"recompute", s->recompute, .is_hash = false};
    out[11] = losses_trait(t);
    out[12] = (lk__trait){"the first step", s->first, .is_hash = false};
    out[13] = frozen_trait(t);
    return LK_OK;
}

lk_status lk__layout_compare(const lk_trainer *t)
{
    lk__trait trait = layout_trait(&t->spec.parallel, &t->spec.pieces);
    return LK_TRACE(lk__traits_compare(t->spec.comm, &trait, 1, LK_ESTATE, "train the same"));
}

lk_status lk__trainer_compare(const lk_trainer *t)
{
    lk_comm *comm = t->spec.comm;
    lk__trait trait[TRAITS] = {{.name = ""}};
    if (!comm || lk_comm_size(comm) == 1)
        return LK_OK;
    if (t->chained) {
        LK_TRY(lk__loader_compare_length(comm, "the training set", t->spec.train));
        LK_TRY(lk_agree(comm, chain_traits_of(t, trait)));
        return LK_TRACE(lk__traits_compare(comm, trait, CHAIN_TRAITS, LK_ESTATE, "train the same"));
    }
    LK_TRY(lk__loader_compare(comm, "the training set", t->spec.train));
    LK_TRY(lk_agree(comm, traits_of(t, trait)));
    return LK_TRACE(lk__traits_compare(comm, trait, TRAITS, LK_ESTATE, "train the same"));
}
