/* The end of a save, on rank 0: the parts are on disk in the temporary folder.
 *
 *     MANIFEST and its folder synced -> the folder renamed -> the folder above synced    (on disk)
 *     -> checkpoints beyond `keep` renamed -> LATEST replaced, the folder synced -> those removed
 *
 * Wherever this is interrupted, also by a power cut, a checkpoint is there whole under its name, or not
 * at all: files are removed when that they have no name any more is on disk.  What fails in the second
 * line is no failure of the save, and only noted.
 */
#include "io/checkpoint/checkpoint.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/version.h>

#include <string.h>
#include <time.h>

#define ASIDE "-old"

/* Take a checkpoint's name away: it gets one that no loader looks at, and that the next run removes. */
static lk_status set_aside(const lk_checkpoint_dir *c, int64_t step)
{
    char from[LK_PATH_SIZE], to[LK_PATH_SIZE], tail[32];
    snprintf(tail, sizeof tail, ".tmp-%s" ASIDE, c->run);
    LK_TRY(lk__step_path(c->folder, step, "", from));
    LK_TRY(lk__step_path(c->folder, step, tail, to));
    return LK_TRACE(lk__storage_rename(from, to));
}

/* What people may ask, behind what the caller says: how many ranks, which library, and when. */
static lk_status metadata_add(lk_checkpoint_dir *c)
{
    lk_checkpoint *plan = c->plan;
    char ranks[16], date[32] = "";
    time_t now = time(NULL);
    struct tm parts;
    snprintf(ranks, sizeof ranks, "%d", c->comm ? lk_comm_size(c->comm) : 1);
    if (gmtime_r(&now, &parts))
        strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &parts);
    const lk_metadata more[] = {{"ranks", ranks}, {"version", lk_version()}, {"time", date}};
    enum { MORE = sizeof more / sizeof more[0] };
    lk_metadata *metadata;
    LK_TRY(lk_arena_alloc(plan->arena, &metadata, plan->n_metadata + MORE, sizeof *metadata));
    for (int64_t i = 0; i < plan->n_metadata; i++)
        metadata[i] = plan->metadata[i];
    for (int i = 0; i < MORE; i++) {
        metadata[plan->n_metadata + i].name = more[i].name;
        LK_TRY(lk_arena_text(plan->arena, more[i].text, strlen(more[i].text),
                             &metadata[plan->n_metadata + i].text));
    }
    plan->metadata = metadata;
    plan->n_metadata += MORE;
    return LK_OK;
}

static lk_status manifest_write(lk_checkpoint_dir *c)
{
    char path[LK_PATH_SIZE];
    lk__out text = {0};
    LK_TRY(metadata_add(c));
    LK_TRY(lk__path_join(c->temporary, "MANIFEST", path, sizeof path));
    lk__manifest_put(&text, c->plan);
    lk_status st = text.st;
    if (st == LK_OK)
        st = lk__storage_put(path, text.text, text.n);
    lk_free(text.text);
    LK_TRY(st);
    return LK_TRACE(lk__storage_sync_folder(c->temporary));
}

static lk_status latest_write(const lk_checkpoint_dir *c)
{
    char name[LK__STEP_NAME], line[LK__STEP_NAME + 1], file[64];
    char path[LK_PATH_SIZE], latest[LK_PATH_SIZE];
    lk__step_name(c->plan->step, name);
    int n = snprintf(line, sizeof line, "%s\n", name);
    snprintf(file, sizeof file, "LATEST.tmp-%s", c->run);
    LK_TRY(lk__path_join(c->folder, file, path, sizeof path));
    LK_TRY(lk__path_join(c->folder, "LATEST", latest, sizeof latest));
    LK_TRY(lk__storage_remove(path));
    LK_TRY(lk__storage_put(path, line, n));
    return LK_TRACE(lk__storage_rename(path, latest));
}

/* Of those up to the new one, the newest `keep` stay. */
static lk_status prune(const lk_checkpoint_dir *c, lk_arena *arena)
{
    int64_t *step, n, newer = 0;
    if (c->options.keep == 0)
        return LK_OK;
    LK_TRY(lk__steps_list(c->folder, arena, &step, &n));
    while (newer < n && step[n - 1 - newer] > c->plan->step)
        newer++;
    for (int64_t i = 0; i < n - newer - c->options.keep; i++)
        LK_TRY(set_aside(c, step[i]));
    return LK_OK;
}

/* Remove those that this run has set aside. */
static lk_status aside_remove(const lk_checkpoint_dir *c, lk_arena *arena)
{
    const char **name;
    char path[LK_PATH_SIZE];
    int64_t n;
    LK_TRY(lk__storage_list(c->folder, "step-", arena, &name, &n));
    for (int64_t i = 0; i < n; i++)
        if (strstr(name[i], c->run) && lk__path_ends(name[i], ASIDE)) {
            LK_TRY(lk__path_join(c->folder, name[i], path, sizeof path));
            LK_TRY(lk__storage_remove_folder(path));
        }
    return LK_OK;
}

/* What follows when the checkpoint is on disk.  LATEST comes first, for it must not name one that a kill
 * finds removed; then one sync makes both durable, before anything is lost. */
static void publish_rest(lk_checkpoint_dir *c, lk_arena *arena)
{
    if (latest_write(c) != LK_OK)
        lk__checkpoint_dir_add_message(c, "the checkpoint is saved, but LATEST does not say so");
    lk_status st = prune(c, arena);
    if (st == LK_OK)
        st = lk__storage_sync_folder(c->folder);
    if (st == LK_OK)
        st = aside_remove(c, arena);
    if (st != LK_OK)
        lk__checkpoint_dir_add_message(c,
                                       "the checkpoint is saved, but an old one was not removed");
}

lk_status lk__publish(lk_checkpoint_dir *c)
{
    char path[LK_PATH_SIZE];
    lk_arena *arena;
    LK_TRY(manifest_write(c));
    LK_TRY(lk__step_path(c->folder, c->plan->step, "", path));
    if (lk__path_exists(path) && set_aside(c, c->plan->step) != LK_OK)
        lk__checkpoint_dir_add_message(c, "a checkpoint that did not verify");
    LK_TRY(lk_arena_new(&arena));
    lk_status st = lk__storage_rename(c->temporary, path);
    if (st == LK_OK)
        st = lk__storage_sync_folder(c->folder);
    if (st == LK_OK)
        publish_rest(c, arena);
    lk_arena_free(arena);
    return LK_TRACE(st);
}
