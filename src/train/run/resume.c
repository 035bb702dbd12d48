/* Going on from a checkpoint: which phase it is of, then all of its state.
 *
 * lk_job_run() calls this before the first step, on all ranks.  Where the ranks of a node have one copy of
 * parameters and optimizer, the first of them loads it.
 */
#include "io/disk.h"
#include "train/run/saver.h"

#include <lockstep/version.h>

#include <string.h>

/* ---- phases ---- */

lk_status lk__saver_follow(lk__saver *s)
{
    lk_state_tensors_free(s->tensors);
    s->tensors = NULL;
    s->trainer = s->job->trainer;
    return LK_TRACE(lk_agree(s->job->comm, lk__saver_describe(s)));
}

/* A number of a checkpoint, 0 if it is not there. */
static int64_t number_of(const lk_checkpoint *c, const char *name)
{
    for (int64_t i = 0; i < c->n_numbers; i++)
        if (strcmp(c->number[i].name, name) == 0)
            return c->number[i].i64;
    return 0;
}

/* Phase and first step of a run's newest checkpoint. */
typedef struct phase_at {
    const lk__saver *saver;
    int64_t number[2];
} phase_at;

/* On rank 0: of the newest that verifies; zeros if there is none. */
static lk_status phase_read(void *arg)
{
    phase_at *found = arg;
    const lk__saver *s = found->saver;
    int64_t *at = found->number;
    lk_checkpoint *newest = NULL;
    char path[LK_PATH_SIZE];
    LK_TRY(lk__saver_folder(&s->job->experiment->train, path));
    if (!lk_checkpoint_exists(path))
        return LK_OK;
    LK_TRY(lk_checkpoint_read(path, &newest));
    at[0] = number_of(newest, LK__PHASE);
    at[1] = number_of(newest, LK__PHASE_FIRST);
    lk_checkpoint_free(newest);
    LK_CHECK(at[0] >= 0 && at[0] < s->job->experiment->n_phases && at[1] >= 0, LK_EIO,
             "%s: its newest checkpoint is of phase %lld from step %lld on, and there are %lld",
             path, (long long)at[0], (long long)at[1], (long long)s->job->experiment->n_phases);
    return LK_OK;
}

lk_status lk__saver_find_phase(lk__saver *s, int64_t *phase, int64_t *first)
{
    phase_at at = {.saver = s};
    lk_comm *comm = s->job->comm;
    lk__disk disk = {.comm = comm};
    if (s->callbacks && lk__trainer_rank(s->trainer) == 0) {
        disk.message = s->callbacks->message;
        disk.arg = s->callbacks->arg;
    }
    bool reads = !comm || lk_comm_rank(comm) == 0;
    LK_TRY(lk_agree(comm, lk__disk_do(&disk, reads ? phase_read : NULL, &at)));
    if (comm)
        LK_TRY(lk_bcast(comm, at.number, 2, LK_I64, 0, "phase"));
    *phase = at.number[0];
    *first = at.number[1];
    return LK_OK;
}

/* ---- loading ---- */

/* The tensors to load into: of those of another rank's copy, nothing. */
static lk_status load_targets(const lk__saver *s, lk_state_tensors *to)
{
    const lk_trainer *t = s->trainer;
    lk_comm *comm = lk__trainer_comm(t);
    bool other = comm && lk_comm_node_rank(comm) > 0;
    for (int64_t i = 0; i < s->tensors->n; i++) {
        lk_state_tensor tensor = s->tensors->tensor[i];
        lk_shape flat = {.ndim = 1, .dim = {1}};
        lk_box nothing = {.ndim = 1};
        for (int k = 0; k < tensor.shape.ndim; k++)
            flat.dim[0] *= tensor.shape.dim[k];
        if (other && i < t->held->n && lk__held_is_shared(t, i)) {
            tensor.box = &nothing;
            tensor.box_of = &flat; /* which a scalar has no empty box of */
        }
        LK_TRY(lk_state_tensors_add(to, "", &tensor));
    }
    return LK_OK;
}

static lk_status load_into(lk__saver *s, lk_state_tensors *to, lk_state *state, bool *found)
{
    *state = (lk_state){.tensor = to->tensor,
                        .n_tensors = to->n,
                        .number = s->number,
                        .n_numbers = lk__saver_numbers(s)};
    LK_TRY(lk_checkpoint_dir_load(s->folder, state, found));
    if (s->trainer->groups)
        LK_TRY(lk__groups_barrier(s->trainer->groups));
    return LK_OK;
}

/* What was loaded becomes the state of the run, and must have the hash of what was saved, as of the ranks that
 * saved it: in fast mode their number is in it.  A hash of another format says nothing: then the checksums,
 * which have been compared, are all there is. */
static lk_status load_take(lk__saver *s, const lk_state *state)
{
    LK_TRY(lk__saver_take_numbers(s));
    s->trainer->step = state->step;
    lk__train_counts_keep_on_first(s->trainer);
    uint64_t hash;
    int ranks = state->ranks > 0 ? state->ranks : lk__trainer_size(s->trainer);
    LK_TRY(lk__state_hash_as_of(s->trainer, ranks, &hash));
    char is[LK_HASH_TEXT], was[LK_HASH_TEXT];
    LK_CHECK(state->hash_format != LK_HASH_FORMAT || hash == state->hash, LK_EIO,
             "the checkpoint of step %lld was saved with the state %s, but what was loaded has %s",
             (long long)state->step, lk_hash_text(state->hash, was), lk_hash_text(hash, is));
    s->saved = state->step;
    return LK_OK;
}

lk_status lk__saver_load(lk__saver *s, int64_t *step)
{
    lk_state_tensors *to = NULL;
    lk_state state;
    bool found = false;
    *step = -1;
    lk_status st = lk_state_tensors_new(&to);
    if (st == LK_OK)
        st = load_targets(s, to);
    st = lk_agree(s->job->comm, st);
    if (st == LK_OK)
        st = load_into(s, to, &state, &found);
    lk_state_tensors_free(to);
    LK_TRY(st);
    if (!found)
        return LK_OK;
    LK_TRY(lk_agree(s->job->comm, load_take(s, &state)));
    *step = state.step;
    return LK_OK;
}
