/* The end of a save, on rank 0: the parts are on disk in the temporary folder.
 *
 *     MANIFEST and its folder synced -> the folder renamed -> the folder above synced    (on disk)
 *     -> LATEST replaced -> checkpoints beyond `keep` renamed away, then removed
 *
 * Wherever this is interrupted, a checkpoint is there whole under its name, or not at all.  What
 * fails in the second line is no failure of the save, and only noted.
 */
#include "io/checkpoint.h"

#include <lockstep/alloc.h>
#include <lockstep/version.h>

#include <string.h>
#include <time.h>

/* A name beside `step`'s that no loader looks at, and that the next run removes. */
static lk_status aside_path(const lk_checkpoints *c, int64_t step, char path[LK_PATH_SIZE])
{
    char tail[32];
    snprintf(tail, sizeof tail, ".tmp-%s-old", c->run);
    LK_TRY(lk__step_path(c->folder, step, tail, path));
    return LK_OK;
}

/* Take a checkpoint away: first its name, then its files. */
static lk_status take_away(const lk_checkpoints *c, int64_t step)
{
    char from[LK_PATH_SIZE], to[LK_PATH_SIZE];
    LK_TRY(lk__step_path(c->folder, step, "", from));
    LK_TRY(aside_path(c, step, to));
    LK_TRY(lk__storage_rename(from, to));
    LK_TRY(lk__storage_remove_folder(to));
    return LK_OK;
}

/* What people may ask, behind what the caller says: how many ranks, which library, and when. */
static lk_status facts_add(lk_checkpoints *c)
{
    lk_checkpoint *plan = c->plan;
    char ranks[16], date[32] = "";
    time_t now = time(NULL);
    struct tm parts;
    snprintf(ranks, sizeof ranks, "%d", c->comm ? lk_comm_size(c->comm) : 1);
    if (gmtime_r(&now, &parts))
        strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &parts);
    const lk_note more[] = {{"ranks", ranks}, {"version", lk_version()}, {"time", date}};
    enum { MORE = sizeof more / sizeof more[0] };
    lk_note *fact;
    LK_TRY(lk_arena_alloc(plan->arena, &fact, plan->n_facts + MORE, sizeof *fact));
    for (int64_t i = 0; i < plan->n_facts; i++)
        fact[i] = plan->fact[i];
    for (int i = 0; i < MORE; i++) {
        fact[plan->n_facts + i].name = more[i].name;
        LK_TRY(lk_arena_text(plan->arena, more[i].text, strlen(more[i].text),
                             &fact[plan->n_facts + i].text));
    }
    plan->fact = fact;
    plan->n_facts += MORE;
    return LK_OK;
}

static lk_status manifest_write(lk_checkpoints *c)
{
    char path[LK_PATH_SIZE];
    lk__out text = {0};
    LK_TRY(facts_add(c));
    LK_TRY(lk__path_join(c->temporary, "MANIFEST", path, sizeof path));
    lk__manifest_put(&text, c->plan);
    lk_status st = text.st;
    if (st == LK_OK)
        st = lk__storage_put(path, text.text, text.n);
    lk_free(text.text);
    LK_TRY(st);
    LK_TRY(lk__storage_sync_folder(c->temporary));
    return LK_OK;
}

static lk_status latest_write(const lk_checkpoints *c)
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
    LK_TRY(lk__storage_rename(path, latest));
    LK_TRY(lk__storage_sync_folder(c->folder));
    return LK_OK;
}

/* Of those up to the new one, the newest `keep` stay. */
static lk_status prune(const lk_checkpoints *c, lk_arena *arena)
{
    int64_t *step, n, newer = 0;
    LK_TRY(lk__steps_list(c->folder, arena, &step, &n));
    while (newer < n && step[n - 1 - newer] > c->plan->step)
        newer++;
    for (int64_t i = 0; i < n - newer - c->options.keep; i++)
        LK_TRY(take_away(c, step[i]));
    return LK_OK;
}

static lk_status prune_all(const lk_checkpoints *c)
{
    lk_arena *arena;
    if (c->options.keep == 0)
        return LK_OK;
    LK_TRY(lk_arena_new(&arena));
    lk_status st = prune(c, arena);
    lk_arena_free(arena);
    LK_TRY(st);
    return LK_OK;
}

lk_status lk__publish(lk_checkpoints *c)
{
    char path[LK_PATH_SIZE];
    LK_TRY(manifest_write(c));
    LK_TRY(lk__step_path(c->folder, c->plan->step, "", path));
    if (lk__path_exists(path) && take_away(c, c->plan->step) != LK_OK)
        lk__checkpoints_note(c, "a checkpoint that did not verify");
    LK_TRY(lk__storage_rename(c->temporary, path));
    LK_TRY(lk__storage_sync_folder(c->folder));
    if (latest_write(c) != LK_OK)
        lk__checkpoints_note(c, "the checkpoint is saved, but LATEST does not say so");
    if (prune_all(c) != LK_OK)
        lk__checkpoints_note(c, "the checkpoint is saved, but an old one was not removed");
    return LK_OK;
}
