/* lk_trainer: made, on all ranks together, with the plan that it runs from; freed, and set to another step.
 * Jobs and programs call it, on the thread that has the communicator.
 */
#include "base/fpenv.h"
#include "data/loader/loader.h"
#include "nn/model.h"
#include "optim/optimizer.h"
#include "parallel/chain/chain.h"
#include "train/pass.h"
#include "train/same.h"

#include <lockstep/extra/plan.h>
#include <lockstep/extra/trainer_plan.h>

#include <stdio.h>
#include <string.h>

#define FIELD(member) offsetof(lk_trainer_options, member)
static const lk_option trainer_options[] = {
    {"loss", LK_OPTION_CONFIG, FIELD(loss), .registry = &lk_registry_loss,
     .flags = LK_OPTION_REQUIRED, .help = "what training makes small"},
    {"metrics", LK_OPTION_CONFIGS, FIELD(metrics), .registry = &lk_registry_metric,
     .help = "what is measured besides the loss"},
    {"optimizer", LK_OPTION_CONFIG, FIELD(optimizer), .registry = &lk_registry_optimizer,
     .flags = LK_OPTION_REQUIRED, .help = "how parameters follow their gradients"},
    {"layers", LK_OPTION_NAMES, FIELD(layers), .value = "NAME,...",
     .help = "layers whose parameters move, the others stay as they are; none: all"},
    {"losses", LK_OPTION_NAMES, FIELD(losses), .flags = LK_OPTION_ONCE | LK_OPTION_LATER,
     .help = "which count: loss, and layers that add one, by their names; all by default"},
    {0}};
#undef FIELD

const lk_descriptor lk_trainer_descriptor = {.name = "trainer",
                                             .summary = "how a model is trained",
                                             .options = trainer_options,
                                             .options_size = sizeof(lk_trainer_options)};

/* ---- ranks ---- */

/* What passes need room for, and the boxes that the loader gives. */
static lk_status passes_make(lk_trainer *t)
{
    LK_TRY(lk__losses_make(t));
    LK_TRY(lk__pass_room_make(t, t->plan, t->tape, &t->room));
    int64_t tiles = 1;
    for (int d = 0; t->plan->tiling && d < LK_TILE_AXES; d++)
        tiles *= t->plan->tiling->tiles[d];
    lk_dtype dtype = lk_tensor_dtype(t->seed);
    LK_TRY(lk__control_new(t->mesh->world, dtype, t->n_summands, t->plan->spec.shards * tiles,
                           &t->control));
    LK_TRY(lk__pass_set_boxes(t, t->spec.train, true));
    t->plan->memory.samples = 0; /* which were by arithmetic on whole samples */
    LK_TRY(lk__samples_plan(t->spec.train, t->plan));
    return LK_TRACE(lk__pipeline_make(t));
}

/* Bytes of a bucket; 0: gradients do not travel during backward. */
static int64_t bucket_bytes(const lk_trainer *t, bool several_nodes)
{
    const lk_parallel_options *p = &t->spec.parallel;
    bool overlap = p->overlap == LK_OVERLAP_AUTO ? several_nodes && !p->double_buffering
                                                 : p->overlap == LK_OVERLAP_YES;
    double mib = p->bucket_mib > 0 ? p->bucket_mib : 1;
    return overlap && !t->spec.parallel_model && !lk_model_has_weight_reuse(t->spec.model) &&
                   !lk_model_needs_batch_sync(t->spec.model) && p->wire != LK_WIRE_F16
               ? (int64_t)(mib * 1048576) + 1
               : 0;
}

/* Copies of parameters that take less stay in the caches next to the cores: there each rank updates its
 * own in less time than it takes to fetch what others have updated. */
enum { NEAR_BYTES = 1 << 20 };

/* Whether the ranks of a node share one copy: not where gradients travel during backward or the next step,
 * because then each rank gets all of them anyway, nor where rows of parameters are brought back behind the update,
 * which the ranges of ranks would cut apart. */
static bool wants_shares(const lk_trainer *t, int ranks, int ranks_of_node, int64_t bucket)
{
    int update = t->spec.parallel.update;
    if (ranks == 1 || update == LK_UPDATE_EACH || t->spec.parallel.stages > 1 ||
        t->spec.parallel.features > 1 || !lk__optimizer_splits(t->optimizer) ||
        lk_model_has_constraints(t->spec.model) || t->spec.parallel.double_buffering)
        return false;
    if (update == LK_UPDATE_SHARED)
        return true;
    int64_t bytes = lk_slab_layout_bytes(lk_slab_layout_of(lk_model_params(t->spec.model)));
    return ranks_of_node == ranks && bucket == 0 && bytes >= NEAR_BYTES / ranks_of_node;
}

/* What the plan of `ranks` ranks is made from, so many of them on this node. */
static lk_plan_spec plan_spec(const lk_trainer *t, int ranks, int ranks_of_node)
{
    const char *name;
    bool fast = t->spec.parallel.mode == LK_REDUCTION_FAST;
    int64_t batch = lk_loader_batch_size(t->spec.train, 0),
            shard_size = fast ? (batch - 1) / ranks + 1 : lk_loader_shard_size(t->spec.train);
    lk_plan_spec spec = {.batch = batch,
                         .shards = fast ? (batch - 1) / shard_size + 1
                                        : lk_loader_shards(t->spec.train),
                         .shard_size = shard_size,
                         .sample_bytes = lk__sample_bytes(t->spec.train),
                         .clips = lk__optimizer_clips(t->optimizer),
                         .rule_sums = lk__optimizer_most_sums(t->optimizer),
                         .pieces = t->spec.pieces,
                         .fast = fast,
                         .wire = (lk_wire)t->spec.parallel.wire,
                         .double_buffering = t->spec.parallel.double_buffering,
                         .ranks_of_node = ranks_of_node,
                         .bucket_bytes = ranks > 1 ? bucket_bytes(t, ranks_of_node < ranks) : 0,
                         .terms = t->terms.counts,
                         .no_loss = !t->counts_loss,
                         .schedule = (lk_pipeline_kind)t->spec.parallel.schedule,
                         .microbatch = t->spec.parallel.micro_batch,
                         .lag = t->spec.parallel.lag,
                         .recompute_stages = t->spec.parallel.recompute,
                         .recompute = t->spec.recompute,
                         .splits_loss = lk__criteria_splits(t),
                         .places = lk__criteria_takes(t, true),
                         .measures = lk__criteria_takes(t, false)};
    spec.shared = wants_shares(t, ranks, ranks_of_node, spec.bucket_bytes);
    while (lk_optimizer_slab(t->optimizer, (int)spec.optimizer_slabs, &name))
        spec.optimizer_slabs++;
    return spec;
}

static lk_status groups_make(lk_trainer *t)
{
    lk_comm *world = t->mesh->world;
    if (t->chained) { /* nothing is joined but the losses of ranks */
        return LK_TRACE(
            lk_agree(world, lk__control_new(world, LK_F64, 1, lk__trainer_size(t), &t->control)));
    }
    int ranks = lk__trainer_size(t);
    lk_plan_spec spec = plan_spec(t, ranks, world ? lk_comm_node_size(world) : 1);
    LK_TRY(lk_agree(world, lk_plan_new(t->mesh, t->spec.model, &spec, &t->plan)));
    LK_TRY(lk__groups_new(t->plan, t->mesh, t->spec.model, &t->groups));
    t->shards.leaves = lk__groups_leaves(t->groups);
    LK_TRY(lk_agree(world, passes_make(t)));
    lk__unused_pieces_log(t);
    /* Which file is the cache of this rank is known from here on. */
    return LK_TRACE(lk__pass_compare(t, "the training set", t->spec.train));
}

/* Put parameters and the optimizer's state where all ranks of the node see them. */
static lk_status share(lk_trainer *t)
{
    lk_slab *slab;
    const char *name;
    LK_CHECK(t->spec.model->trainers == 1, LK_ESTATE,
             "the model is trained by another trainer as well: free that first, or give this one "
             "parallel.update=each");
    lk_optimizer_free(t->optimizer);
    t->optimizer = NULL;
    LK_TRY(lk__groups_share_slab(t->groups, lk_model_params(t->spec.model), "parameters",
                                 &t->shared_params));
    lk_status st = lk__model_bind_params(t->spec.model, t->shared_params);
    if (st == LK_OK)
        st = lk_optimizer_new_config(t->shared_params, &t->options.optimizer, &t->optimizer);
    LK_TRY(lk_agree(t->spec.comm, st));
    for (int i = 0; (slab = lk_optimizer_slab(t->optimizer, i, &name)); i++) {
        lk_slab *there = NULL;
        LK_TRY(lk__groups_share_slab(t->groups, slab, name, &there));
        st = lk__optimizer_bind_state(t->optimizer, i, there);
        if (st != LK_OK)
            lk_slab_free(there);
        LK_TRY(st);
    }
    t->shares = true;
    return LK_OK;
}

/* How a trainer was told what to do: by a struct, or if that is NULL by a text. */
struct settings {
    const lk_trainer_options *options;
    const char *text;
};

static lk_status options_take(lk_trainer *t, const struct settings *settings)
{
    if (settings->options)
        t->options = *settings->options;
    else
        LK_TRY(lk_options_parse(&lk_trainer_descriptor, settings->text, t->arena, &t->options));
    LK_CHECK(t->options.loss.descriptor && t->options.optimizer.descriptor, LK_EINVAL,
             "loss or optimizer is not given");
    return LK_OK;
}

/* What each rank does for itself, first with what it was given. */
static lk_status own_begin(lk_trainer *t, const struct settings *settings)
{
    LK_TRY(lk_arena_new(&t->arena));
    LK_TRY(options_take(t, settings));
    LK_TRY(lk_tape_new(&t->tape));
    LK_TRY(lk_tape_set_shard_size(t->tape, lk_loader_shard_size(t->spec.train)));
    LK_CHECK(t->spec.chain || t->spec.model->net, LK_ESTATE,
             "the model is not built: call lk_model_build() first");
    LK_TRY(lk__trainer_layout_check(&t->spec, t->spec.comm ? lk_comm_size(t->spec.comm) : 1));
    if (t->spec.chain)
        return LK_OK;
    LK_TRY(lk__model_begin_training(t->spec.model));
    t->trains = true;
    t->out = lk_model_out(t->spec.model);
    t->shards.model = t->spec.model;
    return LK_OK;
}

/* Then with what is to come out. */
static lk_status own_make(lk_trainer *t)
{
    LK_TRY(lk__losses_choose(t));
    LK_TRY(lk__frozen_make(t));
    LK_TRY(lk__criteria_make(t));
    if (!t->chained)
        LK_TRY(lk__positions_make(t));
    LK_TRY(
        t->spread || t->mesh->n[LK_AXIS_STAGES] > 1 || t->mesh->n[LK_AXIS_FEATURES] > 1
            ? lk__optimizer_new_parts(lk__trainer_params(t), &t->options.optimizer, &t->optimizer)
            : lk_optimizer_new_config(lk__trainer_params(t), &t->options.optimizer, &t->optimizer));
    if (!t->chained)
        LK_TRY(lk__blocks_make(t));
    if (t->spec.parallel_model)
        LK_TRY(lk_parallel_model_check_optimizer(t->spec.parallel_model, t->optimizer));
    return LK_TRACE(lk_tensor_zeros(t->out.dtype, LK_SCALAR, &t->seed));
}

static lk_status trainer_make(lk_trainer *t, const struct settings *settings)
{
    LK_TRY(lk_agree(t->spec.comm, own_begin(t, settings)));
    if (t->spec.chain)
        LK_TRY(lk__chained_make(t));
    LK_TRY(lk__trainer_place(t));
    LK_TRY(lk_agree(t->spec.comm, own_make(t)));
    LK_TRY(lk__trainer_compare(t));
    LK_TRY(groups_make(t));
    if (t->plan && t->plan->spec.shared)
        LK_TRY(share(t));
    return LK_TRACE(lk__state_hash_make(t));
}

static lk_status trainer_new(const lk_trainer_spec *spec, const struct settings *settings,
                             lk_trainer **out)
{
    lk_trainer *t = NULL;
    *out = NULL;
    LK_CHECK(spec && spec->train && (spec->model || spec->chain) && spec->first >= 0, LK_EINVAL,
             "model or loader is not given, or its first step is below 0");
    LK_CHECK(!spec->model || !spec->chain, LK_EINVAL, "both a model and a chain are given");
    LK_CHECK(!spec->parallel_model || spec->model, LK_EINVAL,
             "a parallel model is given without the model that it is made of");
    lk_comm *comm = spec->chain && !spec->comm ? spec->chain->comm : spec->comm;
    LK_TRY(lk__mode_compare(comm, spec->parallel.mode));
    LK_TRY(lk__agree_alloc(comm, &t, sizeof *t));
    t->spec = *spec;
    t->spec.comm = comm;
    t->step = spec->first;
    lk_status st = trainer_make(t, settings);
    if (st != LK_OK) {
        if (st == LK_ENOMEM && !spec->chain)
            lk__report_memory_use();
        lk_trainer_free(t);
        LK_TRY(st);
    }
    *out = t;
    return LK_OK;
}

lk_status lk_trainer_new(const lk_trainer_spec *spec, const char *options, lk_trainer **out)
{
    LK_FP_GUARD();
    return LK_TRACE(trainer_new(spec, &(struct settings){.text = options}, out));
}

lk_status lk_trainer_new_options(const lk_trainer_spec *spec, const lk_trainer_options *options,
                                 lk_trainer **out)
{
    LK_FP_GUARD();
    *out = NULL;
    LK_CHECK(options, LK_EINVAL, "options is NULL");
    return LK_TRACE(trainer_new(spec, &(struct settings){.options = options}, out));
}

void lk_trainer_free(lk_trainer *t)
{
    if (!t)
        return;
    lk_tape_free(t->tape);
    lk__shard_sums_free(&t->shards);
    lk_tensor_free(t->seed);
    lk__state_hash_free(t);
    lk_optimizer_free(t->optimizer);
    lk__chained_free(t);
    lk__frozen_free(t);
    if (t->trains) {
        lk__model_unbind_params(t->spec.model);
        lk__model_end_training(t->spec.model);
    }
    lk_slab_free(t->shared_params);
    lk__control_free(t->control);
    lk__losses_free(t);
    lk__pipeline_free(t->pipeline);
    lk__pass_room_free(&t->room);
    if (t->spec.train && t->plan)
        (void)!lk__pass_set_boxes(t, t->spec.train, false);
    lk__groups_free(t->groups);
    lk_plan_free(t->plan);
    lk_mesh_free(t->mesh);
    lk_arena_free(t->train_counts.text);
    lk_arena_free(t->eval_counts.text);
    lk_arena_free(t->arena);
    lk_free(t);
}

lk_status lk_trainer_seek(lk_trainer *t, int64_t step)
{
    LK_CHECK(step >= t->spec.first, LK_EINVAL, "step %lld of a training that begins with %lld",
             (long long)step, (long long)t->spec.first);
    LK_TRY(lk__pending_load(t, 0)); /* of another step */
    t->step = step;
    lk__counts_clear(t, &t->train_counts);
    return LK_OK;
}

/* What a trainer of that layout would refuse. */
static lk_status mesh_check(const lk_trainer *t, const lk_mesh *mesh, int ranks)
{
    lk_trainer_spec spec = t->spec;
    lk_parallel_options *p = &spec.parallel;
    p->data = mesh->n[LK_AXIS_DATA];
    p->features = mesh->n[LK_AXIS_FEATURES];
    p->stages = mesh->n[LK_AXIS_STAGES];
    p->spatial.n = mesh->space.ndim;
    for (int i = 0; i < mesh->space.ndim; i++)
        p->spatial.item[i] = mesh->space.dim[i];
    return LK_TRACE(lk__trainer_layout_check(&spec, ranks));
}

lk_status lk_trainer_plan_of(const lk_trainer *t, const lk_mesh_shape *shape, int ranks, int rank,
                             lk_plan **out)
{
    LK_FP_GUARD();
    lk_mesh mesh;
    *out = NULL;
    LK_CHECK(t->spec.model, LK_ENOTSUP, "a chain list has no plan: it says itself who has what");
    LK_TRY(lk_mesh_at(shape, ranks, rank, &mesh));
    LK_TRY(mesh_check(t, &mesh, ranks));
    lk_plan_spec spec = plan_spec(t, ranks, ranks);
    return LK_TRACE(lk_plan_new(&mesh, t->spec.model, &spec, out));
}
