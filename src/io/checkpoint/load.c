/* Loading: all ranks take the newest checkpoint that verifies fully.
 *
 *     rank 0 looks for it, and tells the others its MANIFEST
 *     -> each rank that writes there verifies its parts; all agree, or go on to an older one
 *     -> each reads its parts again, and sends all ranks what their boxes have of them
 *
 * A checkpoint is read twice: once to see that all of it is right, and once into the state, which is
 * touched by nothing less.
 */
#include "coll/agree.h"
#include "io/checkpoint/checkpoint.h"

#include <lockstep/coll.h>
#include <lockstep/extra/alloc.h>

#include <string.h>

/* What a load works with. */
typedef struct load {
    lk_checkpoint_dir *c;
    lk_state *state;
    lk_arena *arena;
    int64_t *map; /* where each tensor of the state is in the checkpoint */
    lk__box_held *held;
    int64_t *step, n_steps; /* of the checkpoints there are; known on rank 0 */
    int64_t at;             /* which of them is tried */
    lk_checkpoint *chosen;  /* NULL: there is none */
} load;

/* ---- rank 0 ---- */

static lk_status steps_find(void *arg)
{
    load *l = arg;
    return lk__steps_list(l->c->folder, l->arena, &l->step, &l->n_steps);
}

/* Open one of the checkpoints, and see that it is of this state. */
static lk_status candidate_open(void *arg)
{
    load *l = arg;
    char path[LK_PATH_SIZE];
    LK_TRY(lk__step_path(l->c->folder, l->step[l->at], "", path));
    LK_TRY(lk__manifest_read(path, &l->chosen));
    LK_TRY(lk__identity_check(l->chosen, l->c->options.identity));
    return LK_TRACE(lk__state_match(l->chosen, l->state, l->map));
}

/* ---- all ranks: one candidate ---- */

/* On other ranks than 0, the MANIFEST out of its text. */
static lk_status manifest_take(load *l, const char *text, int64_t n, int64_t step)
{
    char path[LK_PATH_SIZE];
    LK_TRY(lk__step_path(l->c->folder, step, "", path));
    LK_TRY(lk__manifest_parse(path, text, n, &l->chosen));
    return LK_TRACE(lk__state_match(l->chosen, l->state, l->map));
}

/* The MANIFEST of rank 0 becomes that of all. */
static lk_status manifest_broadcast(load *l)
{
    lk_checkpoint_dir *c = l->c;
    lk_status st;
    lk__out text = {0};
    char *got = NULL;
    int64_t about[2] = {0};
    if (c->rank == 0) {
        lk__manifest_put(&text, l->chosen);
        about[0] = text.n;
        about[1] = l->chosen->step;
    }
    LK_TRY_TO(done, lk_agree(c->comm, text.st));
    LK_TRY_TO(done, lk_bcast(c->comm, about, 2, LK_I64, 0, "checkpoint"));
    st = c->rank == 0 ? LK_OK : lk_alloc(&got, about[0], 1);
    LK_TRY_TO(done, lk_agree(c->comm, st));
    LK_TRY_TO(done,
              lk_bcast(c->comm, c->rank == 0 ? text.text : got, about[0], LK_U8, 0, "checkpoint"));
    st = c->rank == 0 ? LK_OK : manifest_take(l, got, about[0], about[1]);
    LK_TRY_TO(done, lk_agree(c->comm, st));
done:
    lk_free(text.text);
    lk_free(got);
    return st;
}

/* This rank's parts. */
static lk_status parts_verify(void *arg)
{
    const load *l = arg;
    const lk__writer *w = &l->c->writer;
    for (int64_t i = w->place; w->place >= 0 && i < l->chosen->n_parts; i += w->writers)
        LK_TRY(lk_checkpoint_verify(l->chosen, i));
    return LK_OK;
}

static lk_status candidate_try(load *l)
{
    lk_checkpoint_dir *c = l->c;
    lk_status st = lk__disk_do(&c->disk, c->rank == 0 ? candidate_open : NULL, l);
    LK_TRY(lk_agree(c->comm, st));
    if (c->comm)
        LK_TRY(manifest_broadcast(l));
    return LK_TRACE(lk_agree(c->comm, lk__disk_do(&c->disk, parts_verify, l)));
}

/* ---- which one ---- */

/* Called on rank 0: what is wrong with the candidate; `reason` is what was wrong with the first. */
static void candidate_report(load *l, char reason[LK__MESSAGE])
{
    char name[LK__STEP_NAME], what[LK__STEP_NAME + 64];
    if (!reason[0])
        snprintf(reason, LK__MESSAGE, "%s", lk_error_message());
    if (l->c->rank == 0) {
        lk__step_name(l->step[l->at], name);
        snprintf(what, sizeof what, "the checkpoint %s cannot be used and is left out", name);
        lk__checkpoint_dir_add_message(l->c, what);
    }
    lk_error_clear();
}

static lk_status choose(load *l)
{
    char name[LK__STEP_NAME], reason[LK__MESSAGE] = "";
    int64_t n = l->n_steps;
    for (l->at = n - 1; l->at >= 0; l->at--) {
        lk_status st = candidate_try(l);
        if (st == LK_OK && l->at < n - 1 && l->c->rank == 0) {
            lk__step_name(l->chosen->step, name);
            lk__out_format(&l->c->messages, "%s, which is older, is used instead\n", name);
        }
        if (st == LK_OK)
            return LK_OK;
        lk_checkpoint_free(l->chosen);
        l->chosen = NULL;
        if (st == LK_EIDENTITY || st == LK_ESTATE || st == LK_ENOMEM || lk__is_end(st))
            LK_TRY(st);
        candidate_report(l, reason);
    }
    LK_CHECK(n == 0, LK_EIO, "%s: none of its %lld checkpoints can be used; the newest: %.300s",
             l->c->folder, (long long)n, reason);
    return LK_OK;
}

/* ---- all of it ---- */

/* A state that could be saved can be loaded: the same checks; and whether rank 0 describes it so too. */
static lk_status state_check(const lk_checkpoint_dir *c, const lk_state *state, uint64_t *digest)
{
    lk_checkpoint *plan;
    lk_state from_zero = *state;
    from_zero.step = 0;
    from_zero.hash = 0;
    *digest = 0;
    LK_TRY(lk__plan_make(&from_zero, c->options.identity, c->options.part_bytes, &plan));
    *digest = lk__plan_digest(plan, false);
    lk_checkpoint_free(plan);
    return LK_OK;
}

static lk_status load_prepare(load *l)
{
    lk_checkpoint_dir *c = l->c;
    uint64_t mine, first;
    lk_status st = state_check(c, l->state, &mine);
    if (st == LK_OK)
        st = lk_arena_new(&l->arena);
    if (st == LK_OK)
        st = lk_arena_alloc(l->arena, &l->map, l->state->n_tensors, sizeof *l->map);
    if (st == LK_OK)
        st = lk_arena_alloc(l->arena, &l->held, l->state->n_tensors, sizeof *l->held);
    LK_TRY(lk_agree(c->comm, st));
    first = mine;
    if (c->comm)
        LK_TRY(lk_bcast(c->comm, &first, 1, LK_I64, 0, "checkpoint"));
    st = mine == first ? LK_OK
                       : LK_RAISE(LK_ESTATE, "the tensors and numbers of its state are not those "
                                             "of rank 0");
    return LK_TRACE(lk_agree(c->comm, st));
}

/* What was found, into the state. */
static lk_status state_load(load *l)
{
    lk_state *s = l->state;
    for (int64_t i = 0; i < s->n_tensors; i++)
        l->held[l->map[i]] = lk__state_held(&s->tensor[i]);
    lk_status st = lk__tensors_fetch(l->c, l->chosen, l->held);
    if (st == LK_EIO)
        return LK_RAISE(LK_EIO, "%s (it had verified before; what was loaded is not whole)",
                        lk_error_message());
    LK_TRY(st);
    lk__state_take(l->chosen, s);
    return LK_OK;
}

static lk_status load_all(load *l, bool *found)
{
    lk_checkpoint_dir *c = l->c;
    LK_TRY(load_prepare(l));
    lk_status st = lk__disk_do(&c->disk, c->rank == 0 ? steps_find : NULL, l);
    LK_TRY(lk_agree(c->comm, st));
    if (c->comm)
        LK_TRY(lk_bcast(c->comm, &l->n_steps, 1, LK_I64, 0, "checkpoint"));
    LK_TRY(choose(l));
    if (l->chosen)
        LK_TRY(state_load(l));
    *found = l->chosen != NULL;
    return LK_OK;
}

lk_status lk_checkpoint_dir_load(lk_checkpoint_dir *c, lk_state *state, bool *found)
{
    LK_CHECK(c && state && found, LK_EINVAL, "checkpoints, state or found is NULL");
    LK_CHECK(!c->saving, LK_ESTATE, "a save is not committed yet");
    load l = {.c = c, .state = state};
    *found = false;
    lk__out_clear(&c->messages);
    lk_status st = load_all(&l, found);
    lk_checkpoint_free(l.chosen);
    lk_arena_free(l.arena);
    return LK_TRACE(st);
}
