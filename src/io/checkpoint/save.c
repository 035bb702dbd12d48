/* Saving: all ranks agree on what is to be written, write it, and agree that it is.
 *
 *     begin     each rank plans; boxes are exchanged; rank 0 looks at the disk and makes the temporary folder;
 *               each writer gets its parts from those who hold them; all agree, and start to write
 *     commit    all agree that all is written; checksums go to rank 0, which publishes; all agree
 */
#include "base/failure.h"
#include "io/checkpoint/checkpoint.h"

#include <lockstep/coll.h>
#include <lockstep/extra/alloc.h>

#include <string.h>

/* Nothing is under way any more.  `failed`: on rank 0 the temporary folder goes as well. */
static void save_drop(lk_checkpoint_dir *c, bool failed)
{
    lk__failure failure;
    lk__failure_get(&failure);
    bool other = lk__work_end(&c->writer.work) != LK_OK; /* of a job that has ended meanwhile */
    c->saving = c->there = false;
    lk_checkpoint_free(c->plan);
    c->plan = c->writer.plan = NULL;
    if (failed && c->rank == 0 && lk__path_exists(c->temporary) &&
        lk__storage_remove_folder(c->temporary) != LK_OK) {
        lk__checkpoint_dir_add_message(c, "what was written in vain is left behind");
        other = true;
    }
    if (failed && other)
        lk__failure_set(&failure); /* that which the caller is to see */
}

/* ---- begin ---- */

/* Whether a checkpoint of this step is there that verifies; then it must have this hash.  One with a
 * hash of another format may be anything, and is written again. */
static lk_status there_check(lk_checkpoint_dir *c, bool *there)
{
    char path[LK_PATH_SIZE];
    lk_checkpoint *found = NULL;
    *there = false;
    LK_TRY(lk__step_path(c->folder, c->plan->step, "", path));
    if (!lk__path_exists(path))
        return LK_OK;
    lk_status st = lk__manifest_read(path, &found);
    if (st == LK_OK)
        st = lk__checkpoint_verify_all(found);
    bool comparable = st == LK_OK && found->hash_format == c->plan->hash_format;
    uint64_t hash = comparable ? found->hash : 0;
    lk_checkpoint_free(found);
    *there = comparable;
    if (st != LK_OK && st != LK_ENOMEM) {
        lk__checkpoint_dir_add_message(c, "a checkpoint of this step is replaced");
        return LK_OK;
    }
    LK_TRY(st);
    if (!comparable) {
        lk__out_put(&c->messages, "a checkpoint of this step is replaced: its state is of an older "
                                  "hash format and cannot be compared\n");
        return LK_OK;
    }
    LK_CHECK(
        hash == c->plan->hash, LK_ESTATE,
        "%s: is there with the state %016llx, and now step %lld has the state %016llx: the two "
        "runs differ; use another folder",
        path, (unsigned long long)hash, (long long)c->plan->step,
        (unsigned long long)c->plan->hash);
    return LK_OK;
}

static lk_status space_check(const lk_checkpoint_dir *c)
{
    int64_t needed = 1 << 16, free_bytes; /* for MANIFEST, LATEST and folders */
    for (int64_t i = 0; i < c->plan->n_parts; i++)
        needed += c->plan->part[i].bytes;
    LK_TRY(lk__storage_space(c->folder, &free_bytes));
    LK_CHECK(free_bytes >= needed, LK_EIO,
             "%s: a checkpoint takes %lld bytes, and %lld are free on the disk", c->folder,
             (long long)needed, (long long)free_bytes);
    return LK_OK;
}

/* What rank 0 does before the others may write. */
static lk_status folder_prepare(void *arg)
{
    lk_checkpoint_dir *c = arg;
    LK_TRY(there_check(c, &c->there));
    if (c->there)
        return LK_OK;
    LK_TRY(space_check(c));
    if (lk__path_exists(c->temporary))
        LK_TRY(lk__storage_remove_folder(c->temporary));
    return LK_TRACE(lk__storage_mkdir(c->temporary, 0700));
}

static lk_status save_plan(lk_checkpoint_dir *c, const lk_state *state, lk__box_held **held)
{
    char tail[32];
    LK_TRY(lk__plan_make(state, c->options.identity, c->options.part_bytes, &c->plan));
    snprintf(tail, sizeof tail, ".tmp-%s", c->run);
    LK_TRY(lk__step_path(c->folder, state->step, tail, c->temporary));
    c->writer.plan = c->plan;
    c->writer.folder = c->temporary;
    LK_TRY(lk_arena_alloc(c->plan->arena, held, state->n_tensors, sizeof **held));
    for (int64_t i = 0; i < state->n_tensors; i++)
        (*held)[i] = lk__state_held(&state->tensor[i]);
    return LK_OK;
}

/* Whether this rank describes what rank 0 does. */
static lk_status digest_check(lk_checkpoint_dir *c)
{
    int64_t mine[2] = {0}, first[2];
    if (c->plan) {
        mine[0] = (int64_t)lk__plan_digest(c->plan, true);
        mine[1] = (int64_t)c->plan->hash;
    }
    memcpy(first, mine, sizeof mine);
    LK_TRY(lk_bcast(c->comm, first, 2, LK_I64, 0, "checkpoint"));
    bool same = !c->plan || first[0] == 0 || mine[0] == first[0];
    LK_CHECK(same || mine[1] != first[1], LK_ESTATE,
             "its state at step %lld has other tensors or numbers than that of rank 0",
             (long long)c->plan->step);
    LK_CHECK(same, LK_ESTATE,
             "its state at step %lld is not that of rank 0: the hashes are %016llx and %016llx",
             (long long)c->plan->step, (unsigned long long)mine[1], (unsigned long long)first[1]);
    return LK_OK;
}

/* All describe the same state. */
static lk_status state_agree(lk_checkpoint_dir *c, const lk_state *state, lk__box_held **held)
{
    lk_status st = save_plan(c, state, held);
    if (c->comm) {
        lk__failure own;
        lk__failure_get(&own);
        lk_status same = digest_check(c); /* all take part, also one that has failed */
        if (st != LK_OK)
            lk__failure_set(&own);
        st = st == LK_OK ? same : st;
    }
    return LK_TRACE(lk_agree(c->comm, st));
}

static lk_status begin(lk_checkpoint_dir *c, lk__exchange *x)
{
    int32_t present;
    LK_TRY(lk__exchange_open(x));
    lk_status st = lk__disk_do(&c->disk, c->rank == 0 ? folder_prepare : NULL, c);
    LK_TRY(lk_agree(c->comm, st));
    present = c->there;
    if (c->comm)
        LK_TRY(lk_bcast(c->comm, &present, 1, LK_I32, 0, "checkpoint"));
    c->there = present != 0;
    if (!c->there)
        LK_TRY(lk__writer_fill(&c->writer, x, &c->disk, c->options.part_bytes));
    return LK_OK;
}

static lk_status begin_all(lk_checkpoint_dir *c, const lk_state *state)
{
    lk__box_held *held = NULL;
    c->there = false;
    LK_TRY(state_agree(c, state, &held));
    lk__exchange x = {.comm = c->comm,
                      .rank = c->rank,
                      .size = c->size,
                      .c = c->plan,
                      .place = c->place,
                      .files = c->writer.writers,
                      .saving = true,
                      .held = held,
                      .room = c->band};
    lk_status st = begin(c, &x);
    lk__exchange_close(&x);
    return LK_TRACE(st);
}

lk_status lk_checkpoint_dir_begin(lk_checkpoint_dir *c, const lk_state *state)
{
    LK_CHECK(c && state, LK_EINVAL, "checkpoints or state are NULL");
    LK_CHECK(!c->saving, LK_ESTATE, "the last save is not committed yet");
    lk__out_clear(&c->messages);
    lk_status st = begin_all(c, state);
    if (st != LK_OK) {
        save_drop(c, true);
        LK_TRY(st);
    }
    c->saving = true;
    if (!c->there)
        lk__writer_start(&c->writer);
    return LK_OK;
}

bool lk_checkpoint_dir_poll(lk_checkpoint_dir *c)
{
    return !c->saving || c->there || lk__work_is_done(&c->writer.work, 0);
}

bool lk_checkpoint_dir_is_saving(const lk_checkpoint_dir *c)
{
    return c->saving;
}

/* ---- commit ---- */

/* The checksums of all ranks' parts, on rank 0: each bit comes from the rank that wrote the part. */
static lk_status checksums_gather(lk_checkpoint_dir *c)
{
    lk_checkpoint *plan = c->plan;
    int64_t *sums = NULL, n = plan->n_parts + plan->n_tensors;
    if (!c->comm)
        return LK_OK;
    lk_status st = lk_agree(c->comm, lk_alloc(&sums, n, sizeof *sums));
    for (int64_t i = 0; st == LK_OK && i < n; i++)
        sums[i] = i < plan->n_parts ? (int64_t)plan->part[i].hash
                                    : (int64_t)plan->tensor[i - plan->n_parts].crc;
    if (st == LK_OK)
        st = lk_allreduce(c->comm, NULL, sums, n, LK_I64, LK_REDUCE_OR, "checkpoint");
    for (int64_t i = 0; st == LK_OK && i < n; i++)
        if (i < plan->n_parts)
            plan->part[i].hash = (uint64_t)sums[i];
        else
            plan->tensor[i - plan->n_parts].crc = (uint32_t)sums[i];
    lk_free(sums);
    return LK_TRACE(st);
}

/* Whether this rank sees the checkpoint under its name, if it writes. */
typedef struct sight {
    const lk_checkpoint_dir *c;
    char path[LK_PATH_SIZE];
    bool sees;
} sight;

static lk_status sight_check(void *arg)
{
    sight *s = arg;
    s->sees = s->c->writer.place < 0 || lk__path_exists(s->path);
    return LK_OK;
}

/* Note on rank 0 when a rank that writes does not see the checkpoint under its name. */
static lk_status seen_check(lk_checkpoint_dir *c)
{
    sight s = {.c = c};
    if (!c->comm)
        return LK_OK;
    LK_TRY(lk__step_path(c->folder, c->plan->step, "/MANIFEST", s.path));
    LK_TRY(lk__disk_do(&c->disk, sight_check, &s));
    lk_value_index first = {.value.i32 = s.sees, .index = lk_comm_rank(c->comm)};
    LK_TRY(lk_allreduce(c->comm, NULL, &first, 1, LK_I32, LK_REDUCE_MINLOC, "checkpoint"));
    if (first.value.i32 == 0 && c->rank == 0) {
        (void)LK_RAISE(LK_EIO, "rank %lld does not see %s", (long long)first.index, s.path);
        lk__checkpoint_dir_add_message(c, "the checkpoint is saved, but not everywhere to be seen");
    }
    return LK_OK;
}

static lk_status publish(void *arg)
{
    return lk__publish(arg);
}

static lk_status commit(lk_checkpoint_dir *c)
{
    LK_TRY(lk__disk_await(&c->disk, &c->writer.work));
    LK_TRY(lk_agree(c->comm, lk__work_end(&c->writer.work)));
    LK_TRY(checksums_gather(c));
    lk_status st = lk__disk_do(&c->disk, c->rank == 0 ? publish : NULL, c);
    LK_TRY(lk_agree(c->comm, st));
    return LK_TRACE(seen_check(c));
}

lk_status lk_checkpoint_dir_commit(lk_checkpoint_dir *c)
{
    LK_CHECK(c && c->saving, LK_ESTATE, "no save is under way");
    lk_status st = c->there ? LK_OK : commit(c);
    save_drop(c, st != LK_OK);
    return LK_TRACE(st);
}

lk_status lk_checkpoint_dir_save(lk_checkpoint_dir *c, const lk_state *state)
{
    LK_TRY(lk_checkpoint_dir_begin(c, state));
    return LK_TRACE(lk_checkpoint_dir_commit(c));
}
