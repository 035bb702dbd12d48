/* What a run keeps to go on from.
 *
 * The state of a checkpoint, in this order: the parameters and the model's state by their names; the
 * optimizer's slabs as "optimizer.m.conv1.weight"; the numbers of metrics as "seen.accuracy".  Its
 * numbers are those of the optimizer, what the steps of the epoch have seen so far, and the progress
 * of the run.
 *
 * Where the ranks of a node have one copy of parameters and optimizer, the first of them loads it.
 */
#include "train/save.h"

#include "base/grow.h"
#include "io/disk.h"
#include "train/job.h"
#include "train/trainer.h"

#include <lockstep/version.h>

#include <stdio.h>
#include <string.h>

enum { MAX_NUMBERS = 16 };

struct lk__saver {
    lk_job *job;
    lk_trainer *trainer;
    lk__progress *progress;
    const lk_run_callbacks *watcher; /* told, on rank 0, what takes time; NULL: nobody */
    lk_checkpoint_dir *folder;
    lk_arena *arena; /* names */
    lk_state_tensor *tensor;
    bool *shared; /* of each tensor: the node has one copy of it */
    int64_t n_tensors, max_tensors, max_shared;
    lk_box nothing[LK_MAX_NDIM + 1]; /* empty boxes, by their number of axes */
    int64_t aside;                   /* what is loaded in vain */
    lk_state_number number[MAX_NUMBERS];
    bool waits;            /* this rank has told that its part is written */
    int64_t written;       /* ranks that have told so */
    int64_t saving, saved; /* steps */
};

/* ---- the state ---- */

static lk_status tensor_add(lk__saver *s, const char *prefix, const char *name, lk_dtype dtype,
                            lk_shape shape, void *data)
{
    char text[512];
    const char *kept;
    int n = snprintf(text, sizeof text, "%s%s", prefix, name);
    LK_CHECK(n < (int)sizeof text, LK_EINVAL, "the name \"%.40s...\" is too long", text);
    LK_TRY(lk_arena_text(s->arena, text, (size_t)n, &kept));
    LK_TRY(lk__grow(&s->tensor, &s->max_tensors, s->n_tensors + 1, sizeof *s->tensor));
    LK_TRY(lk__grow(&s->shared, &s->max_shared, s->n_tensors + 1, sizeof *s->shared));
    s->shared[s->n_tensors] = false;
    s->tensor[s->n_tensors++] = (lk_state_tensor){kept, dtype, shape, data, NULL};
    return LK_OK;
}

static lk_status slab_add(lk__saver *s, const char *prefix, const lk_slab *slab, bool shared)
{
    lk_slab_layout *layout = lk_slab_layout_of(slab);
    lk_slab_slice part;
    LK_CHECK(lk_slab_layout_is_whole(layout, &part), LK_ENOTSUP,
             "a checkpoint of a part: of %s there is %s here", part.name,
             lk_slab_slice_text(&part).s);
    for (int64_t i = 0; i < lk_slab_layout_slices(layout); i++) {
        lk_slab_slice slice;
        LK_TRY(lk_slab_layout_slice(layout, i, &slice));
        LK_TRY(tensor_add(s, prefix, slice.name, slice.dtype, slice.shape,
                          (char *)lk_slab_data(slab) + slice.offset));
        s->shared[s->n_tensors - 1] = shared;
    }
    return LK_OK;
}

static lk_status tensors_describe(lk__saver *s)
{
    lk_trainer *t = s->trainer;
    lk_slab *slab;
    const char *name;
    char prefix[128];
    LK_TRY(slab_add(s, "", lk_model_params(t->spec.model), t->shares));
    LK_TRY(slab_add(s, "", lk_model_state(t->spec.model), false));
    for (int i = 0; (slab = lk_optimizer_slab(t->optimizer, i, &name)); i++) {
        snprintf(prefix, sizeof prefix, "optimizer.%s.", name);
        LK_TRY(slab_add(s, prefix, slab, t->shares));
    }
    for (int i = 0; i < t->n_metrics; i++)
        LK_TRY(tensor_add(s, "seen.", t->metric[i]->descriptor.name, LK_F64,
                          LK_SHAPE(lk__counts_numbers(t, i)), t->seen.number[i]));
    return LK_OK;
}

/* A number that the first checkpoints of 0.1 do not have. */
static lk_state_number later(const char *name, int64_t value)
{
    lk_state_number number = lk_state_i64(name, value);
    number.optional = true;
    return number;
}

/* The numbers as they are now; returns how many. */
static int64_t numbers_describe(lk__saver *s)
{
    lk_trainer *t = s->trainer;
    const lk__progress *p = s->progress;
    const char *name;
    double *value;
    int64_t n = 0;
    for (int i = 0; (value = lk_optimizer_number(t->optimizer, i, &name)); i++)
        s->number[n++] = lk_state_f64(name, *value);
    s->number[n++] = lk_state_i64("seen.samples", t->seen.samples);
    s->number[n++] = lk_state_f64("seen.loss", t->seen.loss);
    s->number[n++] = lk_state_i64("run.without", p->without);
    s->number[n++] = lk_state_i64("run.best_epoch", p->best_epoch);
    s->number[n++] = later("run.best_step", p->best_step);
    s->number[n++] = later("run.missing", p->missing);
    s->number[n++] = lk_state_f64("run.best", p->best);
    s->number[n++] = lk_state_f64("run.rate", p->rate);
    s->number[n++] = lk_state_i64("run.lines_bytes", p->lines_bytes);
    s->number[n++] = lk_state_i64("run.events_bytes", p->events_bytes);
    return n;
}

/* Numbers that were loaded go to where they belong, in the order in which they are described. */
static void numbers_take(lk__saver *s)
{
    lk_trainer *t = s->trainer;
    lk__progress *p = s->progress;
    const lk_state_number *number = s->number;
    const char *name;
    double *value;
    for (int i = 0; (value = lk_optimizer_number(t->optimizer, i, &name)); i++)
        *value = (number++)->f64;
    t->seen.samples = (number++)->i64;
    t->seen.loss = (number++)->f64;
    p->without = (number++)->i64;
    p->best_epoch = (number++)->i64;
    p->best_step = (number++)->i64;
    p->missing = (number++)->i64;
    p->best = (number++)->f64;
    p->rate = (number++)->f64;
    p->lines_bytes = (number++)->i64;
    p->events_bytes = (number++)->i64;
}

/* ---- the folder ---- */

/* A run is known by its data, all of which is read once: of much, that takes time. */
static void data_tell(const lk__saver *s)
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
        s->watcher->message(s->watcher->arg, text);
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

static lk_status folder_open(lk__saver *s)
{
    const lk_train_options *o = &s->job->experiment->train;
    char path[LK_PATH_SIZE];
    lk_checkpoint_dir_options options = {
        .keep = o->checkpoint.keep, .wait = 10, .anew = !o->resume};
    if (s->watcher && s->watcher->message && lk__trainer_rank(s->trainer) == 0) {
        options.tell = s->watcher->message;
        options.arg = s->watcher->arg;
        data_tell(s);
    }
    identity_work work = {.job = s->job};
    lk__disk disk = {.comm = s->job->comm, .tell = options.tell, .arg = options.arg};
    LK_TRY(lk_agree(s->job->comm, lk__disk_do(&disk, identity_find, &work)));
    options.identity = work.identity;
    LK_TRY(lk__saver_folder(o, path));
    lk_status st = lk_checkpoint_dir_open(s->job->comm, path, &options, &s->folder);
    if (st == LK_EIDENTITY && lk_experiment_uses_end(s->job->experiment))
        return LK_RAISE(st,
                        "%s; a schedule of the optimizer ends with the last epoch, so another "
                        "train.epochs is another run, unless the schedule is given an end",
                        lk_error_message());
    LK_TRY(st);
    return LK_OK;
}

static lk_status saver_make(lk__saver *s)
{
    lk_status st = lk_arena_new(&s->arena);
    if (st == LK_OK)
        st = tensors_describe(s);
    LK_TRY(lk_agree(s->job->comm, st));
    LK_TRY(folder_open(s));
    return LK_OK;
}

lk_status lk__saver_open(lk_job *job, lk__progress *progress, const lk_run_callbacks *watcher,
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
    s->watcher = watcher;
    s->saving = s->saved = -1;
    lk_status st = saver_make(s);
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
    lk_free(s->tensor);
    lk_free(s->shared);
    lk_arena_free(s->arena);
    lk_free(s);
}

int64_t lk__saver_saved(const lk__saver *s)
{
    return s->saved;
}

int64_t lk__saver_saving(const lk__saver *s)
{
    return s->saving;
}

const char *lk__saver_messages(const lk__saver *s)
{
    return lk_checkpoint_dir_messages(s->folder);
}

/* ---- loading ---- */

/* The tensors to load into: of those of another rank's copy, nothing. */
static lk_status load_targets(lk__saver *s, lk_state_tensor **tensor)
{
    lk_comm *comm = lk__trainer_comm(s->trainer);
    bool other = comm && lk_comm_node_rank(comm) > 0;
    LK_TRY(lk_alloc(tensor, s->n_tensors, sizeof **tensor));
    for (int64_t i = 0; i < s->n_tensors; i++) {
        lk_state_tensor *t = &(*tensor)[i];
        *t = s->tensor[i];
        if (!other || !s->shared[i])
            continue;
        s->nothing[t->shape.ndim].ndim = t->shape.ndim;
        t->box = &s->nothing[t->shape.ndim];
        t->data = &s->aside; /* of a scalar there is no empty box */
    }
    return LK_OK;
}

static lk_status load_into(lk__saver *s, lk_state_tensor *tensor, lk_state *state, bool *found)
{
    *state = (lk_state){.tensor = tensor,
                        .n_tensors = s->n_tensors,
                        .number = s->number,
                        .n_numbers = numbers_describe(s)};
    LK_TRY(lk_checkpoint_dir_load(s->folder, state, found));
    LK_TRY(lk__groups_meet(s->trainer->groups));
    return LK_OK;
}

/* What was loaded becomes the state of the run, and must have the hash of what was saved.  A hash of
 * another format says nothing: then the checksums, which have been compared, are all there is. */
static lk_status load_take(lk__saver *s, const lk_state *state)
{
    numbers_take(s);
    s->trainer->step = state->step;
    lk__seen_keep_on_first(s->trainer);
    uint64_t hash;
    LK_TRY(lk_trainer_hash(s->trainer, &hash));
    char is[LK_HASH_TEXT], was[LK_HASH_TEXT];
    LK_CHECK(state->hash_format != LK_HASH_FORMAT || hash == state->hash, LK_EIO,
             "the checkpoint of step %lld was saved with the state %s, but what was loaded has %s",
             (long long)state->step, lk_hash_text(state->hash, was), lk_hash_text(hash, is));
    s->saved = state->step;
    return LK_OK;
}

lk_status lk__saver_load(lk__saver *s, int64_t *step)
{
    lk_state_tensor *tensor = NULL;
    lk_state state;
    bool found = false;
    *step = -1;
    lk_status st = lk_agree(s->job->comm, load_targets(s, &tensor));
    if (st == LK_OK)
        st = load_into(s, tensor, &state, &found);
    lk_free(tensor);
    LK_TRY(st);
    if (!found)
        return LK_OK;
    LK_TRY(lk_agree(s->job->comm, load_take(s, &state)));
    *step = state.step;
    return LK_OK;
}

/* ---- saving ---- */

lk_status lk__saver_finish(lk__saver *s)
{
    if (s->saving < 0)
        return LK_OK;
    int64_t step = s->saving;
    s->saving = -1;
    lk__control_vote(s->trainer->control, LK__VOTE_SAVED, false);
    LK_TRY(lk_checkpoint_dir_commit(s->folder));
    s->saved = step;
    return LK_OK;
}

lk_status lk__saver_begin(lk__saver *s, uint64_t hash)
{
    lk_trainer *t = s->trainer;
    LK_TRY(lk__counts_join(t, &t->seen));
    lk_state state = {.step = t->step,
                      .hash = hash,
                      .tensor = s->tensor,
                      .n_tensors = s->n_tensors,
                      .number = s->number,
                      .n_numbers = numbers_describe(s)};
    lk_status st = lk_checkpoint_dir_begin(s->folder, &state);
    lk__seen_keep_on_first(s->trainer);
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
