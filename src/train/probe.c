/* Whether all ranks train the same: a look at the experiment and at some samples of each set.
 *
 * Ranks read their data themselves.  If one of them finds other files, its part of each batch would be
 * of other samples, and nobody would notice.
 */
#include "train/job.h"

enum { PROBES = 64 };

/* Some samples of a set, evenly spread: the values of all fields. */
static lk_status samples_hash(const lk_dataset *set, lk_hash *h)
{
    const lk_dataset_info *info = lk_dataset_get_info(set);
    int64_t index[PROBES], n = info->count < PROBES ? info->count : PROBES;
    lk_tensor *tensor[LK_MAX_FIELDS] = {NULL};
    lk_status st = LK_OK;
    for (int64_t i = 0; i < n; i++)
        index[i] = (info->count - 1) / (n > 1 ? n - 1 : 1) * i;
    for (int f = 0; f < info->n_fields && st == LK_OK; f++) {
        lk_shape one = info->field[f].shape, shape = {.ndim = one.ndim + 1, .dim = {n}};
        for (int i = 0; i < one.ndim; i++)
            shape.dim[i + 1] = one.dim[i];
        st = lk_tensor_new(info->field[f].dtype, shape, &tensor[f]);
    }
    if (st == LK_OK)
        st = lk_dataset_read(set, index, n, tensor);
    for (int f = 0; f < info->n_fields; f++) {
        if (st == LK_OK)
            lk_tensor_hash(tensor[f], info->field[f].name, h);
        lk_tensor_free(tensor[f]);
    }
    LK_TRY(st);
    return LK_OK;
}

/* What decides when ranks talk to each other, besides what is in the identity of the run. */
static void flow_hash(const lk_train_options *o, lk_hash *h)
{
    const lk_period periods[] = {o->evaluate, o->log, o->checkpoint.every};
    for (int i = 0; i < 3; i++) {
        lk_hash_add_i64(h, periods[i].n);
        lk_hash_add_i64(h, periods[i].steps);
    }
    lk_hash_add_i64(h, o->epochs);
    lk_hash_add_i64(h, o->steps);
    lk_hash_add_i64(h, o->resume);
    lk_hash_add_i64(h, o->checkpoint.wait);
    lk_hash_add_i64(h, o->checkpoint.on_error);
    lk_hash_add_i64(h, o->output != NULL);
    lk_hash_add_i64(h, o->checkpoint.folder != NULL);
}

/* What a rank sees: its experiment, without paths, and its sets. */
static lk_status probe(const lk_job *job, uint64_t *out)
{
    lk_hash h = lk_hash_start();
    flow_hash(&job->experiment->train, &h);
    lk_hash_add_i64(&h, job->experiment->metrics.n);
    for (int split = 0; split < LK_N_SPLITS; split++) {
        const lk_dataset *set = job->set[split];
        lk_hash_add_i64(&h, set ? lk_dataset_get_info(set)->count : -1);
        if (set && lk_dataset_get_info(set)->count > 0)
            LK_TRY(samples_hash(set, &h));
    }
    LK_TRY(lk_experiment_identity(job->experiment, lk_hash_value(&h), out));
    return LK_OK;
}

lk_status lk__ranks_compare(const lk_job *job)
{
    uint64_t mine = 0, first;
    if (!job->comm || lk_comm_size(job->comm) == 1)
        return LK_OK;
    LK_TRY(lk_agree(job->comm, probe(job, &mine)));
    first = mine;
    LK_TRY(lk_bcast(job->comm, &first, (int64_t)sizeof first, LK_U8, 0, "experiment and data"));
    lk_status st = LK_OK;
    if (first != mine)
        st = LK_RAISE(
            LK_ESTATE,
            "this rank has another experiment, or other data, than rank 0: all ranks must "
            "read the same");
    LK_TRY(lk_agree(job->comm, st));
    return LK_OK;
}
