/* lk_job: opens the data of an experiment, builds its model and makes its trainer.  The command makes
 * one on each rank; so do programs, some of which bring data, or a chain list in place of the model.
 */
#include "train/job.h"

#include "base/failure.h"
#include "base/fpenv.h"
#include "coll/agree.h"
#include "data/cache/cache.h"
#include "data/loader/loader.h"
#include "kernel/runtime/parallel.h"
#include "nn/model.h"
#include "parallel/chain/chain.h"
#include "train/same.h"

#include <string.h>

/* The training set: the program's, or that of the experiment. */
static lk_status train_set_open(const lk_job *job, lk_dataset **out)
{
    const lk_experiment *e = job->experiment;
    if (job->is_given) {
        LK_CHECK(job->spec.set[LK_TRAIN], LK_EINVAL, "a set is given, but no training set");
        *out = lk_dataset_retain(job->spec.set[LK_TRAIN]);
        return LK_OK;
    }
    LK_TRY(lk_dataset_open_config(&e->data, LK_TRAIN, out));
    LK_CHECK(*out, LK_EINVAL, "data: %s has no training set", e->data.descriptor->name);
    return LK_OK;
}

static lk_status set_open(lk_job *job, lk_split split)
{
    if (job->is_given)
        job->set[split] = lk_dataset_retain(job->spec.set[split]);
    else
        LK_TRY(lk_dataset_open_config(&job->experiment->data, split, &job->set[split]));
    return LK_OK;
}

/* What is trained on, and what is kept of it for validation.  A set without fields is for ranks whose samples
 * are on other ranks, never for a model. */
static lk_status sets_cut(lk_job *job, lk_dataset *all)
{
    const lk_experiment *e = job->experiment;
    const lk_dataset_info *info = lk_dataset_info_of(all);
    lk_dataset *chosen;
    LK_CHECK(info->n_fields > 0 || job->spec.chain, LK_EINVAL,
             "the data is empty: it has %lld samples without x and y, a model has nothing to learn "
             "there",
             (long long)info->count);
    LK_TRY(lk_dataset_sample(all, e->seed, e->loader.samples, &chosen));
    lk_status st = lk_dataset_split(chosen, e->seed, e->loader.validation, &job->set[LK_TRAIN],
                                    &job->set[LK_VALIDATION]);
    lk_dataset_free(chosen);
    return LK_TRACE(st);
}

/* Open the sets; what is kept for validation is taken from the training set. */
static lk_status sets_open(lk_job *job)
{
    lk_dataset *all = NULL;
    LK_TRY(train_set_open(job, &all));
    lk_status st = sets_cut(job, all);
    lk_dataset_free(all);
    LK_TRY(st);
    if (!job->set[LK_VALIDATION])
        LK_TRY(set_open(job, LK_VALIDATION));
    return LK_TRACE(set_open(job, LK_TEST));
}

/* Whole numbers that the model takes, or this rank's first model of the chain that takes the data; 0: it
 * takes real numbers. */
static int64_t index_limit(const lk_job *job)
{
    const lk_chain *chain = job->spec.chain;
    if (!chain)
        return lk_model_index_limit(job->model);
    for (int64_t k = 0; k < chain->n; k++)
        if (chain->component[k].is.model && chain->component[k].n_in == 0)
            return lk_model_index_limit(chain->component[k].is.model);
    return 0;
}

/* A set in memory, or kept there, is prefetched where a core is left for it: otherwise the thread would only
 * interrupt a rank, for which the others then wait. */
static lk_status loaders_make(lk_job *job)
{
    lk_loader_options options = job->experiment->loader;
    int ranks = job->comm ? lk_comm_node_size(job->comm) : 1;
    bool left;
    options.dtype = job->experiment->dtype;
    options.indices = index_limit(job);
    options.ranks = ranks;
    LK_TRY(lk__threads_leave_core(ranks, &left));
    const lk_dataset *set = job->set[LK_TRAIN];
    if (!left && (lk_dataset_info_of(set)->in_memory || lk__keep_bytes(set, &options) > 0))
        options.prefetch = 0;
    if (job->experiment->parallel.mode == LK_REDUCTION_FAST) /* the ranks are the shards */
        options.shards = job->comm ? lk_comm_size(job->comm) : 1;
    LK_TRY(lk_loader_new_options(job->set[LK_TRAIN], &options, job->experiment->seed,
                                 &job->loader[LK_TRAIN]));
    for (int split = LK_VALIDATION; split < LK_N_SPLITS; split++)
        if (job->set[split])
            LK_TRY(lk_loader_new_like(job->loader[LK_TRAIN], job->set[split], &job->loader[split]));
    return LK_OK;
}

/* The layers, which say what loaders are to give. */
static lk_status layers_add(lk_job *job)
{
    const lk_experiment *e = job->experiment;
    if (job->spec.chain) {
        LK_CHECK(e->model.n == 0, LK_EINVAL,
                 "model: has layers, but the program trains a chain list: write `model: chain`");
        return LK_OK;
    }
    LK_CHECK(
        e->model.n > 0, LK_EINVAL,
        "model: `chain` stands for a chain list that a program brings (lk_job_new_spec()); here "
        "there is none");
    LK_TRY(lk_model_new(&job->model));
    for (int64_t i = 0; i < e->model.n; i++)
        LK_TRY(lk_model_add_config(job->model, &e->model.item[i]));
    return LK_OK;
}

static lk_status model_build(lk_job *job)
{
    const lk_experiment *e = job->experiment;
    if (job->spec.chain)
        return LK_OK;
    int x = lk_dataset_find(job->set[LK_TRAIN], "x");
    lk_field field = lk_loader_field(job->loader[LK_TRAIN], x);
    LK_TRY(lk_model_build(job->model, &(lk_model_spec){.in = {field.dtype, field.shape},
                                                       .dtype = e->dtype,
                                                       .seed = e->seed,
                                                       .pieces = e->pieces.cut}));
    if (e->parallel.devices.n >
        0) /* they hold all of it; otherwise the trainer knows what to hold */
        LK_TRY(lk_model_hold(job->model, NULL));
    return LK_OK;
}

/* The model on the devices of parallel.devices, if there are some. */
static lk_status devices_make(lk_job *job)
{
    const lk_option_names *name = &job->experiment->parallel.devices;
    lk_device *device = NULL;
    if (name->n == 0)
        return LK_OK;
    LK_CHECK(!job->spec.chain, LK_EINVAL,
             "parallel.devices is for models: a component of a chain list is on one rank");
    LK_TRY(lk_alloc(&device, name->n, sizeof *device));
    lk_status st = LK_OK;
    for (int64_t i = 0; i < name->n && st == LK_OK; i++)
        st = lk_device_parse(name->item[i], &device[i]);
    if (st == LK_OK)
        st = lk_make_parallel_options(job->model, device, (int)name->n, NULL, &job->parallel);
    lk_free(device);
    if (st == LK_EINVAL && job->comm && lk_comm_size(job->comm) > 1)
        st = LK_RAISE(st,
                      "%s; where the launcher binds ranks to cores, numbers ([0, 1]) name those of "
                      "each rank, and all are there with mpirun --bind-to none",
                      lk_error_message());
    if (st != LK_OK)
        lk__error_prefix("parallel.devices: ");
    return LK_TRACE(st);
}

/* What each rank does for itself. */
static lk_status parts_make(lk_job *job)
{
    LK_TRY(layers_add(job));
    LK_TRY(sets_open(job));
    LK_TRY(loaders_make(job));
    LK_TRY(model_build(job));
    return LK_TRACE(devices_make(job));
}

/* The experiment of a program's text, if that is what it brings. */
static lk_status text_parse(const lk_job_spec *spec, lk_experiment **out)
{
    LK_CHECK(!spec->experiment == !!spec->text, LK_EINVAL,
             "a job needs an experiment or its text, one of them");
    if (spec->text)
        LK_TRY(lk_experiment_parse("text", spec->text, NULL, 0, out));
    return LK_OK;
}

lk_status lk_job_new_spec(const lk_job_spec *spec, lk_job **out)
{
    LK_FP_GUARD();
    lk_job *job = NULL;
    lk_experiment *parsed = NULL;
    lk_status st = LK_OK;
    *out = NULL;
    LK_CHECK(spec, LK_EINVAL, "the job's spec is NULL");
    lk_comm *comm = spec->chain && !spec->comm ? spec->chain->comm : spec->comm;
    LK_TRY_TO(fail, lk__agree_first(comm, text_parse(spec, &parsed)));
    const lk_experiment *experiment = parsed ? parsed : spec->experiment;
    LK_TRY_TO(fail, lk__mode_compare(comm, experiment->parallel.mode));
    LK_TRY_TO(fail, lk__agree_alloc(comm, &job, sizeof *job));
    job->experiment = experiment;
    job->parsed = parsed;
    job->comm = comm;
    job->spec = *spec;
    for (int split = 0; split < LK_N_SPLITS; split++)
        job->is_given = job->is_given || spec->set[split];
    LK_TRY_TO(fail, lk_agree(comm, parts_make(job)));
    LK_TRY_TO(fail, lk__job_compare(job));
    LK_TRY_TO(fail, lk__job_begin_phases(job));
    LK_TRY_TO(fail, lk__job_compare_samples(job));
    *out = job;
    return LK_OK;
fail:
    if (job)
        lk_job_free(job); /* and what was parsed */
    else
        lk_experiment_free(parsed);
    return st;
}

lk_status lk_job_new(const lk_experiment *experiment, lk_comm *comm, lk_job **out)
{
    LK_FP_GUARD();
    return LK_TRACE(lk_job_new_spec(&(lk_job_spec){.experiment = experiment, .comm = comm}, out));
}

void lk_job_free(lk_job *job)
{
    if (!job)
        return;
    lk_trainer_free(job->trainer);
    lk_parallel_model_free(job->parallel);
    lk_model_free(job->model);
    for (int split = 0; split < LK_N_SPLITS; split++) {
        lk_loader_free(job->loader[split]);
        lk_dataset_free(job->set[split]);
    }
    lk_experiment_free(job->parsed);
    lk_free(job);
}

lk_trainer *lk_job_trainer(const lk_job *job)
{
    return job->trainer;
}

const lk_experiment *lk_job_experiment(const lk_job *job)
{
    return job->experiment;
}

lk_loader *lk_job_loader(const lk_job *job, lk_split split)
{
    return split >= 0 && split < LK_N_SPLITS ? job->loader[split] : NULL;
}

lk_loader *lk_job_evaluation(const lk_job *job, const char **name)
{
    lk_split split = job->loader[LK_VALIDATION] ? LK_VALIDATION : LK_TEST;
    *name = lk_split_name(split);
    return job->loader[split];
}

/* What makes this rank's chain another: names and connections of its components, and its models' layers. */
static lk_status chain_hash(const lk_chain *chain, lk_hash *h)
{
    lk_hash_add_i64(h, lk_comm_size(chain->comm));
    lk_hash_add_i64(h, lk_comm_rank(chain->comm));
    for (int64_t k = 0; k < chain->n; k++) {
        const lk__component *c = &chain->component[k];
        lk_hash_add_text(h, c->name);
        lk_hash_add_i64(h, c->n_in);
        lk_hash_add_i64(h, c->takes_carry | c->gives_carry << 1 | c->is.carry_only << 2);
        for (int i = 0; i < lk__component_takes(c) + lk__component_gives(c); i++)
            lk_hash_add_i64(h, c->in[i]);
        if (c->is.model) {
            lk_hash_add_i64(h, c->is.model->net->spec.seed);
            lk_hash_add_i64(h, (int64_t)c->is.model->net->spec.dtype);
        }
        for (int64_t i = 0; c->is.model && i < c->is.model->n_layers; i++)
            LK_TRY(lk_config_hash(&c->is.model->layer[i], h));
    }
    return LK_OK;
}

lk_status lk_job_identity(lk_job *job, uint64_t *out)
{
    uint64_t data;
    lk__cache_know(job->loader[LK_TRAIN]);
    LK_TRY(lk_dataset_hash(job->set[LK_TRAIN], &data));
    int64_t buffer = job->loader[LK_TRAIN]->options.shuffle ? job->loader[LK_TRAIN]->order_size : 0;
    if (buffer > 0) { /* another order of the samples */
        lk_hash h = lk_hash_start();
        lk_hash_add_i64(&h, (int64_t)data);
        lk_hash_add_text(&h, "shuffle_buffer");
        lk_hash_add_i64(&h, buffer);
        data = lk_hash_value(&h);
    }
    if (job->spec.chain) {
        lk_hash h = lk_hash_start();
        lk_hash_add_i64(&h, (int64_t)data);
        LK_TRY(chain_hash(job->spec.chain, &h));
        data = lk_hash_value(&h);
    }
    LK_TRY(lk_experiment_identity(job->experiment, data, out));
    const lk_parallel_options *p = &job->experiment->parallel;
    if (p->mode == LK_REDUCTION_FAST)
        *out = ~*out; /* another run: its bits are others */
    if (p->wire != LK_WIRE_DTYPE || p->double_buffering) {
        lk_hash h = lk_hash_start();
        lk_hash_add_i64(&h, (int64_t)*out);
        lk_hash_add_text(&h, lk_wire_name((lk_wire)p->wire));
        lk_hash_add_i64(&h, p->double_buffering);
        *out = lk_hash_value(&h);
    }
    return LK_OK;
}
