/* What a run keeps to go on from: lk__saver is opened here, and saves.
 *
 * The state of a checkpoint, in this order: the parameters and the model's state by their names; with double
 * buffering the sums that the next step follows, as "pending.conv1.weight"; the optimizer's slabs as
 * "optimizer.m.conv1.weight"; the numbers of metrics as "seen.accuracy".  Its numbers are those of the
 * optimizer, what the steps of the epoch have seen so far, and the progress of the run.  A run with phases
 * saves the optimizer of the one that runs, and which that is.  resume.c loads it.
 */
#include "io/checkpoint/checkpoint.h"
#include "io/disk.h"
#include "train/run/saver.h"

#include <lockstep/version.h>

#include <stdio.h>
#include <string.h>

/* ---- the state ---- */

lk_status lk__saver_describe(lk__saver *s)
{
    lk_trainer *t = s->trainer;
    LK_TRY(lk_state_tensors_new(&s->tensors));
    for (int64_t i = 0; i < t->held->n; i++)
        LK_TRY(lk_state_tensors_add(s->tensors, "", &t->held->tensor[i]));
    for (int i = 0; i < t->n_metrics; i++) {
        lk_state_tensor seen = {.name = t->metric[i]->descriptor.name,
                                .dtype = LK_F64,
                                .shape = LK_SHAPE(lk__counts_length(t, i)),
                                .data = t->train_counts.sums[i]};
        LK_TRY(lk_state_tensors_add(s->tensors, "seen.", &seen));
    }
    if (t->n_summands > 1) { /* otherwise it is that of the numbers */
        lk_state_tensor seen = {.name = "losses",
                                .dtype = LK_F64,
                                .shape = LK_SHAPE(t->n_summands),
                                .data = t->train_counts.each};
        LK_TRY(lk_state_tensors_add(s->tensors, "seen.", &seen));
    }
    if (t->plan)
        LK_TRY(lk__saver_plan(s, t->plan));
    return LK_OK;
}

lk_status lk__saver_plan(const lk__saver *s, lk_plan *plan)
{
    int ranks, rank = lk__plan_rank(plan, &ranks);
    bool features = plan->split && plan->split->size > 1;
    bool whole = plan->stages == 1 && !features && !lk__plan_spreads(s->trainer, plan);
    lk_state state = {.tensor = s->tensors->tensor, .n_tensors = s->tensors->n};
    int64_t image, bands;
    LK_TRY(lk__save_bytes(&state, LK__PART_BYTES, ranks, rank, whole, &image, &bands));
    plan->memory.saving = image + bands;
    return LK_OK;
}

/* A number that the first checkpoints of 0.1 do not have. */
static lk_state_number later(const char *name, int64_t value)
{
    lk_state_number number = lk_state_i64(name, value);
    number.optional = true;
    return number;
}

int64_t lk__saver_numbers(lk__saver *s)
{
    lk_trainer *t = s->trainer;
    const lk__progress *p = s->progress;
    const char *name;
    double *value;
    int64_t n = 0;
    for (int i = 0; (value = lk_optimizer_number(t->optimizer, i, &name)); i++)
        s->number[n++] = lk_state_f64(name, *value);
    s->number[n++] = lk_state_i64("seen.samples", t->train_counts.samples);
    s->number[n++] = lk_state_f64("seen.loss", t->train_counts.loss);
    s->number[n++] = lk_state_i64("run.without", p->without);
    s->number[n++] = lk_state_i64("run.best_epoch", p->best_epoch);
    s->number[n++] = later("run.best_step", p->best_step);
    s->number[n++] = later("run.missing", p->missing);
    s->number[n++] = lk_state_f64("run.best", p->best);
    s->number[n++] = lk_state_f64("run.rate", p->rate);
    s->number[n++] = lk_state_i64("run.lines_bytes", p->lines_bytes);
    s->number[n++] = lk_state_i64("run.events_bytes", p->events_bytes);
    if (t->pending)
        s->number[n++] = lk_state_i64("pending.shards", lk__pending_shards(t));
    if (s->job->experiment->n_phases > 0) {
        s->number[n++] = lk_state_i64(LK__PHASE, s->job->phase);
        s->number[n++] = lk_state_i64(LK__PHASE_FIRST, t->spec.first);
    }
    return n;
}

lk_status lk__saver_take_numbers(lk__saver *s)
{
    lk_trainer *t = s->trainer;
    lk__progress *p = s->progress;
    const lk_state_number *number = s->number;
    const char *name;
    double *value;
    for (int i = 0; (value = lk_optimizer_number(t->optimizer, i, &name)); i++)
        *value = (number++)->f64;
    t->train_counts.samples = (number++)->i64;
    t->train_counts.loss = (number++)->f64;
    if (t->n_summands == 1)
        t->train_counts.each[0] = t->train_counts.loss;
    p->without = (number++)->i64;
    p->best_epoch = (number++)->i64;
    p->best_step = (number++)->i64;
    p->missing = (number++)->i64;
    p->best = (number++)->f64;
    p->rate = (number++)->f64;
    p->lines_bytes = (number++)->i64;
    p->events_bytes = (number++)->i64;
    return LK_TRACE(lk__pending_load(t, number->i64));
}

/* ---- the folder ---- */

/* A run is known by its data, all of which is read once: of much, that takes time. */
static void data_report(const lk__saver *s)
{
    enum { MUCH = 256 << 20, MIB = 1 << 20 };
    const lk_dataset_info *info = lk_dataset_info_of(s->job->set[LK_TRAIN]);
    double bytes = 0;
    char text[128];
    for (int f = 0; f < info->n_fields; f++) {
        double one = (double)lk_dtype_size(info->field[f].dtype);
        for (int i = 0; i < info->field[f].shape.ndim; i++)
            one *= (double)info->field[f].shape.dim[i];
        bytes += one * (double)info->count;
    }
    snprintf(text, sizeof text,
             "reading all %lld samples once (%.0f MiB), by which checkpoints know "
             "their run",
             (long long)info->count, bytes / MIB);
    if (bytes >= MUCH)
        s->callbacks->message(s->callbacks->arg, text);
}

lk_status lk__saver_folder(const lk_train_options *o, char path[LK_PATH_SIZE])
{
    if (!o->checkpoint.folder)
        return lk__path_join(o->output, "checkpoints", path, LK_PATH_SIZE);
    LK_CHECK(strlen(o->checkpoint.folder) < LK_PATH_SIZE, LK_EINVAL,
             "the path of the checkpoints is too long");
    snprintf(path, LK_PATH_SIZE, "%s", o->checkpoint.folder);
    return LK_OK;
}

/* All samples are read, which takes as long as the disk does. */
typedef struct identity_work {
    lk_job *job;
    uint64_t identity;
} identity_work;

static lk_status identity_find(void *arg)
{
    identity_work *work = arg;
    return lk_job_identity(work->job, &work->identity);
}

/* The identity of a chain's run is that of all ranks, in their order. */
static lk_status identity_join(const lk__saver *s, uint64_t *identity)
{
    lk_comm *comm = s->job->comm;
    uint64_t *all = s->trainer->states; /* room for one of each rank */
    if (!s->trainer->chained)
        return LK_OK;
    all[0] = *identity;
    if (comm)
        LK_TRY(lk_allgather(comm, identity, all, 1, LK_I64, "identities"));
    lk_hash h = lk_hash_start();
    for (int r = 0; r < lk__trainer_size(s->trainer); r++)
        lk_hash_add_i64(&h, (int64_t)all[r]);
    *identity = lk_hash_value(&h);
    return LK_OK;
}

static lk_status folder_open(lk__saver *s)
{
    const lk_train_options *o = &s->job->experiment->train;
    char path[LK_PATH_SIZE];
    lk_checkpoint_dir_options options = {.keep = o->checkpoint.keep,
                                         .wait_seconds = 10,
                                         .anew = !o->resume,
                                         .replica_sets = o->checkpoint.replica_sets};
    if (s->callbacks && s->callbacks->message && lk__trainer_rank(s->trainer) == 0) {
        options.message = s->callbacks->message;
        options.arg = s->callbacks->arg;
        data_report(s);
    }
    identity_work work = {.job = s->job};
    lk__disk disk = {.comm = s->job->comm, .message = options.message, .arg = options.arg};
    LK_TRY(lk_agree(s->job->comm, lk__disk_do(&disk, identity_find, &work)));
    LK_TRY(identity_join(s, &work.identity));
    options.identity = work.identity;
    LK_TRY(lk__saver_folder(o, path));
    lk_status st = lk_checkpoint_dir_open(s->job->comm, path, &options, &s->folder);
    if (st == LK_EIDENTITY && s->trainer->chained)
        return LK_RAISE(st,
                        "%s; a chain list goes on with the components, the data and the number of "
                        "ranks that it was saved with, of which there are %d here",
                        lk_error_message(), lk__trainer_size(s->trainer));
    if (st == LK_EIDENTITY && lk_experiment_uses_end(s->job->experiment))
        return LK_RAISE(st,
                        "%s; a schedule of the optimizer ends with the last epoch, so another "
                        "train.epochs is another run, unless the schedule is given an end",
                        lk_error_message());
    return LK_TRACE(st);
}

lk_status lk__saver_open(lk_job *job, lk__progress *progress, const lk_run_callbacks *callbacks,
                         lk__saver **out)
{
    const lk_train_options *o = &job->experiment->train;
    lk__saver *s = NULL;
    *out = NULL;
    if (!o->output && !o->checkpoint.folder) {
        LK_CHECK(!o->resume, LK_EINVAL,
                 "there is nothing to resume from without train.output=FOLDER or "
                 "train.checkpoint.folder=FOLDER");
        return LK_OK;
    }
    LK_TRY(lk__agree_alloc(job->comm, &s, sizeof *s));
    s->job = job;
    s->trainer = job->trainer;
    s->progress = progress;
    s->callbacks = callbacks;
    s->saving = s->saved = -1;
    lk_status st = lk_agree(job->comm, lk__saver_describe(s));
    if (st == LK_OK)
        st = folder_open(s);
    if (st != LK_OK) {
        lk__saver_close(s);
        LK_TRY(st);
    }
    *out = s;
    return LK_OK;
}

void lk__saver_close(lk__saver *s)
{
    if (!s)
        return;
    lk_checkpoint_dir_close(s->folder);
    lk_state_tensors_free(s->tensors);
    lk_free(s);
}

int64_t lk__saver_saved(const lk__saver *s)
{
    return s->saved;
}

const char *lk__saver_messages(const lk__saver *s)
{
    return lk_checkpoint_dir_messages(s->folder);
}

/* ---- saving ---- */

lk_status lk__saver_finish(lk__saver *s, int64_t *step)
{
    *step = s->saving;
    if (*step < 0)
        return LK_OK;
    s->saving = -1;
    lk__control_vote(s->trainer->control, LK__VOTE_SAVED, false);
    LK_TRY(lk_checkpoint_dir_commit(s->folder));
    s->saved = *step;
    return LK_OK;
}

lk_status lk__saver_begin(lk__saver *s, uint64_t hash)
{
    lk_trainer *t = s->trainer;
    lk_short_string words = lk_parallel_marks(&s->job->experiment->parallel);
    lk_metadata marks = {"marks", words.s};
    LK_TRY(lk__counts_join_metrics(t, &t->train_counts));
    lk_state state = {.step = t->step,
                      .hash = hash,
                      .tensor = s->tensors->tensor,
                      .n_tensors = s->tensors->n,
                      .number = s->number,
                      .n_numbers = lk__saver_numbers(s),
                      .metadata = &marks,
                      .n_metadata = words.s[0] != '\0'};
    lk_status st = lk_checkpoint_dir_begin(s->folder, &state);
    lk__train_counts_keep_on_first(s->trainer);
    LK_TRY(st);
    s->saving = t->step;
    s->waits = false;
    s->written = 0;
    return LK_OK;
}

bool lk__saver_is_written(lk__saver *s)
{
    lk_trainer *t = s->trainer;
    if (s->saving < 0)
        return false;
    s->written += lk__control_votes(t->control, LK__VOTE_SAVED);
    if (!s->waits && lk_checkpoint_dir_poll(s->folder)) {
        s->waits = true;
        lk__control_vote(t->control, LK__VOTE_SAVED, true);
    }
    return s->written >= lk__trainer_size(t);
}
