/* lk_job: opens the data of an experiment, builds its model and makes its trainer.  The command makes
 * one on each rank.
 */
#include "train/job.h"

#include "base/fpenv.h"
#include "coll/agree.h"
#include "kernel/parallel.h"

#include <lockstep/thread.h>

#include <string.h>

/* A set without fields is for programs whose samples are on other ranks, never for a model. */
static lk_status data_check(const lk_dataset *set)
{
    const lk_dataset_info *info = lk_dataset_info_of(set);
    LK_CHECK(info->n_fields > 0, LK_EINVAL,
             "the data is empty: it has %lld samples without x and y, a model has nothing to learn "
             "there",
             (long long)info->count);
    return LK_OK;
}

/* Open the sets; what is kept for validation is taken from the training set. */
static lk_status sets_open(lk_job *job)
{
    const lk_experiment *e = job->experiment;
    lk_dataset *all = NULL;
    LK_TRY(lk_dataset_open_config(&e->data, LK_TRAIN, &all));
    LK_CHECK(all, LK_EINVAL, "data: %s has no training set", e->data.descriptor->name);
    lk_status st = data_check(all);
    if (st == LK_OK)
        st = lk_dataset_split(all, e->seed, e->loader.validation, &job->set[LK_TRAIN],
                              &job->set[LK_VALIDATION]);
    lk_dataset_free(all);
    LK_TRY(st);
    if (!job->set[LK_VALIDATION])
        LK_TRY(lk_dataset_open_config(&e->data, LK_VALIDATION, &job->set[LK_VALIDATION]));
    LK_TRY(lk_dataset_open_config(&e->data, LK_TEST, &job->set[LK_TEST]));
    return LK_OK;
}

/* Whether a core of this rank's is left when its threads compute. */
static lk_status core_left(const lk_job *job, bool *out)
{
    int threads, ranks = job->comm ? lk_comm_node_size(job->comm) : 1;
    LK_TRY(lk_threads_now(&threads));
    *out = lk__threads_share(lk__cores(), lk__cores_of_node(), ranks) > threads;
    return LK_OK;
}

/* A set in memory is prefetched where a core is left for it: otherwise the thread would only
 * interrupt a rank, for which the others then wait. */
static lk_status loaders_make(lk_job *job)
{
    lk_loader_options options = job->experiment->loader;
    bool left;
    options.dtype = job->experiment->dtype;
    options.indices = lk_model_index_limit(job->model);
    LK_TRY(core_left(job, &left));
    if (!left && lk_dataset_info_of(job->set[LK_TRAIN])->in_memory)
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
    LK_TRY(lk_model_new(&job->model));
    for (int64_t i = 0; i < e->model.n; i++)
        LK_TRY(lk_model_add_config(job->model, &e->model.item[i]));
    return LK_OK;
}

static lk_status model_build(lk_job *job)
{
    const lk_experiment *e = job->experiment;
    int x = lk_dataset_find(job->set[LK_TRAIN], "x");
    lk_field field = lk_loader_field(job->loader[LK_TRAIN], x);
    LK_TRY(lk_model_build(
        job->model,
        &(lk_model_spec){.in = {field.dtype, field.shape}, .dtype = e->dtype, .seed = e->seed}));
    LK_TRY(lk_model_hold(job->model, NULL));
    return LK_OK;
}

/* What each rank does for itself. */
static lk_status parts_make(lk_job *job)
{
    LK_TRY(sets_open(job));
    LK_TRY(layers_add(job));
    LK_TRY(loaders_make(job));
    LK_TRY(model_build(job));
    return LK_OK;
}

static lk_status job_make(lk_job *job)
{
    const lk_experiment *e = job->experiment;
    LK_TRY(lk_agree(job->comm, parts_make(job)));
    LK_TRY(lk__job_compare(job));
    LK_TRY(lk_trainer_new_options(&(lk_trainer_spec){.model = job->model,
                                                     .train = job->loader[LK_TRAIN],
                                                     .epochs = e->train.epochs,
                                                     .comm = job->comm,
                                                     .pieces = e->pieces.cut,
                                                     .parallel = e->parallel},
                                  &(lk_trainer_options){e->loss, e->metrics, e->optimizer},
                                  &job->trainer));
    return LK_OK;
}

lk_status lk_job_new(const lk_experiment *experiment, lk_comm *comm, lk_job **out)
{
    LK_FP_GUARD();
    lk_job *job = NULL;
    *out = NULL;
    LK_CHECK(experiment, LK_EINVAL, "experiment is NULL");
    if (experiment->parallel.mode != LK_REDUCTION_FAST)
        LK_TRY(lk__agree_bits(comm));
    LK_TRY(lk__agree_alloc(comm, &job, sizeof *job));
    job->experiment = experiment;
    job->comm = comm;
    lk_status st = job_make(job);
    if (st != LK_OK) {
        lk_job_free(job);
        LK_TRY(st);
    }
    *out = job;
    return LK_OK;
}

void lk_job_free(lk_job *job)
{
    if (!job)
        return;
    lk_trainer_free(job->trainer);
    lk_model_free(job->model);
    for (int split = 0; split < LK_N_SPLITS; split++) {
        lk_loader_free(job->loader[split]);
        lk_dataset_free(job->set[split]);
    }
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

lk_status lk_job_identity(lk_job *job, uint64_t *out)
{
    uint64_t data;
    LK_TRY(lk_dataset_hash(job->set[LK_TRAIN], &data));
    LK_TRY(lk_experiment_identity(job->experiment, data, out));
    if (job->experiment->parallel.mode == LK_REDUCTION_FAST)
        *out = ~*out; /* another run: its bits are others */
    return LK_OK;
}
