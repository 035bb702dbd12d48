/* Whether all ranks have the same experiment, periods and sets: lk_job_new() asks before it trains.
 *
 * Ranks read their files themselves.  If one of them finds others, its part of each batch would be of
 * other samples, without a message.
 */
#include "coll/traits.h"
#include "train/job.h"
#include "train/pass.h"
#include "train/same.h"

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

/* The experiment, without paths and data. */
static lk_status experiment_hash(const lk_experiment *e, uint64_t *out)
{
    lk_hash h = lk_hash_start();
    flow_hash(&e->train, &h);
    lk_hash_add_i64(&h, e->metrics.n);
    return LK_TRACE(lk_experiment_identity(e, lk_hash_value(&h), out));
}

static const char *const name[LK_N_SPLITS] = {"the training set", "the validation set",
                                              "the test set"};

lk_status lk__job_compare_samples(const lk_job *job)
{
    for (int split = 0; split < LK_N_SPLITS; split++)
        if (split != LK_TRAIN && job->loader[split] && !job->spec.chain)
            LK_TRY(lk__pass_compare(job->trainer, name[split], job->loader[split]));
    return LK_OK;
}

lk_status lk__job_compare(const lk_job *job)
{
    uint64_t hash = 0;
    LK_TRY(lk_agree(job->comm, experiment_hash(job->experiment, &hash)));
    LK_TRY(lk__traits_compare(job->comm,
                              &(lk__trait){"another experiment", (int64_t)hash, .is_hash = true}, 1,
                              LK_ESTATE, "train the same"));
    for (int split = 0; split < LK_N_SPLITS; split++)
        LK_TRY(job->spec.chain
                   ? lk__loader_compare_length(job->comm, name[split], job->loader[split])
                   : lk__loader_compare(job->comm, name[split], job->loader[split]));
    return LK_OK;
}
