/* lk_checkpoint_dir: opening the folder of a run's checkpoints, which one run has at a time: lock,
 * identity, and removing what interrupted runs left.  Collective, on the rank's thread. */
#include "base/fpenv.h"
#include "io/checkpoint/checkpoint.h"

#include <lockstep/coll.h>
#include <lockstep/extra/alloc.h>

#include <inttypes.h>
#include <string.h>
#include <sys/random.h>

void lk__checkpoint_dir_add_message(lk_checkpoint_dir *c, const char *what)
{
    lk__out_put(&c->messages, what);
    lk__out_put(&c->messages, ": ");
    lk__out_put(&c->messages, lk_error_message());
    lk__out_put(&c->messages, "\n");
    lk_error_clear();
}

const char *lk_checkpoint_dir_messages(const lk_checkpoint_dir *c)
{
    return c->messages.n > 0 ? c->messages.text : "";
}

/* ---- rank 0 ---- */

static lk_status run_name(char name[LK__RUN_NAME])
{
    uint64_t random;
    LK_CHECK(getrandom(&random, sizeof random, 0) == sizeof random, LK_EIO,
             "there are no random numbers for the name of the run");
    lk_hash_text(random, name);
    return LK_OK;
}

/* Remove what dead runs left: the lock is ours, so no other lives. */
static lk_status leftovers_remove(lk_checkpoint_dir *c, lk_arena *arena)
{
    const char **name;
    char path[LK_PATH_SIZE];
    int64_t n;
    LK_TRY(lk__storage_list(c->folder, "", arena, &name, &n));
    for (int64_t i = 0; i < n; i++) {
        bool ours = strncmp(name[i], "step-", 5) == 0 || strncmp(name[i], "LATEST", 6) == 0;
        if (!ours || !strstr(name[i], ".tmp-"))
            continue;
        lk_status st = lk__path_join(c->folder, name[i], path, sizeof path);
        if (st == LK_OK)
            st = lk__path_is_folder(path) ? lk__storage_remove_folder(path)
                                          : lk__storage_remove(path);
        if (st != LK_OK)
            lk__checkpoint_dir_add_message(c, "what an earlier run left is not removed");
    }
    return LK_OK;
}

lk_status lk__identity_check(const lk_checkpoint *found, uint64_t identity)
{
    LK_CHECK(
        found->identity == identity, LK_EIDENTITY,
        "%s: is of another run: its identity is %016" PRIx64 ", this run's is %016" PRIx64
        " (model, loss, optimizer, phases, early stopping, data, seed, dtype, pieces, the numerics "
        "epoch or parallel.mode, wire or double_buffering differ); give this run another "
        "folder, or remove the checkpoints of that one, whose weights `lockstep eval "
        "--weights` takes",
        found->path, found->identity, identity);
    return LK_OK;
}

/* Checkpoints that can be read are of this run. */
static lk_status identities_check(lk_checkpoint_dir *c, lk_arena *arena)
{
    char path[LK_PATH_SIZE];
    int64_t *step, n;
    LK_TRY(lk__steps_list(c->folder, arena, &step, &n));
    for (int64_t i = n - 1; i >= 0; i--) {
        lk_checkpoint *found;
        LK_TRY(lk__step_path(c->folder, step[i], "", path));
        lk_status st = lk__manifest_read(path, &found);
        if (st == LK_OK)
            st = lk__identity_check(found, c->options.identity);
        lk_checkpoint_free(found);
        if (st == LK_EIDENTITY || st == LK_ENOMEM)
            LK_TRY(st);
        lk_error_clear(); /* loading will say what is wrong with it */
    }
    return LK_OK;
}

/* Rename the checkpoints of the run before, so that no run goes on from them in place of this run's. */
static lk_status set_aside(lk_checkpoint_dir *c, lk_arena *arena)
{
    char path[LK_PATH_SIZE], to[LK_PATH_SIZE], name[32], text[LK_PATH_SIZE + 128];
    const char **before;
    int64_t *step, n, n_before;
    LK_TRY(lk__steps_list(c->folder, arena, &step, &n));
    LK_TRY(lk__storage_list(c->folder, "before-", arena, &before, &n_before));
    for (int64_t i = 0; n > 0 && i < n_before; i++) {
        LK_TRY(lk__path_join(c->folder, before[i], path, sizeof path));
        LK_TRY(lk__storage_remove_folder(path));
    }
    for (int64_t i = 0; i < n; i++) {
        snprintf(name, sizeof name, "before-%012lld", (long long)step[i]);
        LK_TRY(lk__step_path(c->folder, step[i], "", path));
        LK_TRY(lk__path_join(c->folder, name, to, sizeof to));
        LK_TRY(lk__storage_rename(path, to));
    }
    if (n > 0)
        LK_TRY(lk__storage_sync_folder(c->folder));
    if (n > 0 && c->options.message) {
        snprintf(text, sizeof text,
                 "%s: checkpoints up to step %lld of the run before are renamed to before-*, and "
                 "stay until the next start without resuming",
                 c->folder, (long long)step[n - 1]);
        c->options.message(c->options.arg, text);
    }
    return LK_OK;
}

static lk_status folder_take(void *arg)
{
    lk_checkpoint_dir *c = arg;
    lk_arena *arena;
    LK_TRY(run_name(c->run));
    LK_TRY(lk__storage_folder(c->folder));
    LK_TRY(lk__lock_take(c->folder, c->run, &c->options, &c->lock));
    LK_TRY(lk_arena_new(&arena));
    lk_status st = c->lock >= 0 ? leftovers_remove(c, arena) : LK_OK;
    if (st == LK_OK)
        st = identities_check(c, arena);
    if (st == LK_OK && c->lock >= 0 && c->options.anew)
        st = set_aside(c, arena);
    lk_arena_free(arena);
    return LK_TRACE(st);
}

/* ---- all ranks ---- */

/* Whether this rank sees the folder of rank 0. */
typedef struct sight {
    const lk_checkpoint_dir *c;
    int32_t sees;
} sight;

static lk_status sight_check(void *arg)
{
    sight *s = arg;
    s->sees = s->c->rank == 0 || lk__lock_is_seen(s->c->folder, s->c->run);
    return LK_OK;
}

/* Who writes: the ranks that see the folder of rank 0, or of these the lowest of each replica set, in their
 * order.  Rank 0 is always one. */
static lk_status writers_find(lk_checkpoint_dir *c)
{
    sight mine = {.c = c};
    LK_TRY(lk__disk_do(&c->disk, sight_check, &mine));
    LK_TRY(lk_agree(c->comm, lk_alloc(&c->place, c->size, sizeof *c->place)));
    mine.sees = mine.sees && c->is_master;
    if (c->comm)
        LK_TRY(lk_allgather(c->comm, &mine.sees, c->place, 1, LK_I32, "checkpoints"));
    else
        c->place[0] = 1;
    for (int i = 0; i < c->size; i++)
        c->place[i] = c->place[i] ? c->writer.writers++ : -1;
    c->writer.place = c->place[c->rank];
    return LK_OK;
}

static lk_status open_all(lk_comm *comm, lk_checkpoint_dir *c)
{
    if (comm && lk_comm_size(comm) > 1)
        LK_TRY(lk_comm_dup(comm, &c->comm));
    c->disk.comm = c->comm;
    lk_status st = lk__disk_do(&c->disk, c->rank == 0 ? folder_take : NULL, c);
    LK_TRY(lk_agree(c->comm, st));
    if (c->comm)
        LK_TRY(lk_bcast(c->comm, c->run, sizeof c->run, LK_U8, 0, "checkpoints"));
    return LK_TRACE(writers_find(c));
}

/* Whether this rank is to write, if it can: of its replica set it is the lowest. */
static lk_status master_find(lk_checkpoint_dir *c, const char *replica_sets)
{
    int *set = NULL;
    c->is_master = true;
    if (!replica_sets)
        return LK_OK;
    LK_TRY(lk_alloc(&set, c->size, sizeof *set));
    lk_status st = lk__replica_sets_read(replica_sets, c->size, set);
    c->is_master = st == LK_OK && lk__replica_is_master(set, c->rank);
    lk_free(set);
    return LK_TRACE(st);
}

static lk_status checkpoints_make(lk_comm *comm, const char *folder,
                                  const lk_checkpoint_dir_options *o, lk_checkpoint_dir **out)
{
    lk_checkpoint_dir *c = NULL;
    *out = NULL;
    LK_CHECK(folder && o && folder[0], LK_EINVAL, "folder or options are NULL, or folder is empty");
    LK_CHECK(strlen(folder) < LK_PATH_SIZE - 128, LK_EINVAL, "the path of the folder is too long");
    LK_CHECK(o->keep >= 0 && o->part_bytes >= 0 && o->wait_seconds >= 0, LK_EINVAL,
             "keep, part_bytes or wait is negative");
    LK_TRY(lk_alloc_zero(&c, 1, sizeof *c));
    c->rank = comm ? lk_comm_rank(comm) : 0;
    c->size = comm ? lk_comm_size(comm) : 1;
    c->band = LK__BAND;
    c->options = *o;
    c->options.keep = o->keep == 1 ? 2 : o->keep;
    c->options.part_bytes = o->part_bytes ? o->part_bytes : LK__PART_BYTES;
    c->lock = -1;
    c->disk = (lk__disk){.message = o->message, .arg = o->arg};
    lk__work_init(&c->writer.work);
    snprintf(c->folder, sizeof c->folder, "%s", folder);
    *out = c;
    LK_TRY(master_find(c, o->replica_sets));
    c->options.replica_sets = NULL; /* the caller's */
    return LK_OK;
}

lk_status lk_checkpoint_dir_open(lk_comm *comm, const char *folder,
                                 const lk_checkpoint_dir_options *options, lk_checkpoint_dir **out)
{
    LK_FP_GUARD();
    lk_status st = checkpoints_make(comm, folder, options, out);
    st = lk_agree(comm, st);
    if (st == LK_OK && *out)
        st = open_all(comm, *out);
    if (st != LK_OK) {
        lk_checkpoint_dir_close(*out);
        *out = NULL;
        LK_TRY(st);
    }
    return LK_OK;
}

void lk_checkpoint_dir_close(lk_checkpoint_dir *c)
{
    if (!c)
        return;
    if (lk__work_end(&c->writer.work) != LK_OK)
        lk_error_clear();
    if (c->saving && !c->there && c->rank == 0 && lk__storage_remove_folder(c->temporary) != LK_OK)
        lk_error_clear(); /* the next run removes it */
    if (c->lock >= 0)
        lk__storage_release(c->lock);
    lk_checkpoint_free(c->plan);
    lk_free(c->writer.image);
    lk_free(c->place);
    lk_free(c->messages.text);
    lk_comm_close(c->comm);
    lk_free(c);
}
