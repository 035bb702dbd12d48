/* Loading: rank 0 takes the newest checkpoint that verifies fully, reads it, and tells the others.
 *
 * A checkpoint is read twice: once to see that all of it is right, and once into the state, which is
 * touched by nothing less.
 */
#include "io/checkpoint.h"

#include <lockstep/alloc.h>
#include <lockstep/coll.h>

#include <stdlib.h>
#include <string.h>

/* ---- whether a checkpoint is of this state ---- */

/* A name and its place in a list. */
typedef struct place {
    const char *name;
    int64_t i;
} place;

static int by_name(const void *a, const void *b)
{
    return strcmp(((const place *)a)->name, ((const place *)b)->name);
}

/* map[i]: where in the checkpoint the state's tensor i is. */
static lk_status tensors_match(const lk_checkpoint *c, const lk_state *s, place *sorted,
                               int64_t *map)
{
    LK_CHECK(c->n_tensors == s->n_tensors, LK_ESHAPE, "%s: has %lld tensors, the state %lld",
             c->path, (long long)c->n_tensors, (long long)s->n_tensors);
    for (int64_t i = 0; i < c->n_tensors; i++)
        sorted[i] = (place){c->tensor[i].name, i};
    if (c->n_tensors > 0)
        qsort(sorted, (size_t)c->n_tensors, sizeof *sorted, by_name);
    for (int64_t i = 0; i < s->n_tensors; i++) {
        const lk_state_tensor *t = &s->tensor[i];
        const place *found = bsearch(&(place){.name = t->name}, sorted, (size_t)c->n_tensors,
                                     sizeof *sorted, by_name);
        LK_CHECK(found, LK_ESHAPE, "%s: has no tensor \"%s\"", c->path, t->name);
        const lk_checkpoint_tensor *have = &c->tensor[found->i];
        LK_CHECK(have->dtype == t->dtype && lk_shape_equal(have->shape, t->shape), LK_ESHAPE,
                 "%s: \"%s\" is %s%s, the state's is %s%s", c->path, t->name,
                 lk_dtype_name(have->dtype), lk_shape_text(have->shape).s, lk_dtype_name(t->dtype),
                 lk_shape_text(t->shape).s);
        map[i] = found->i;
    }
    return LK_OK;
}

static const lk_state_number *number_find(const lk_checkpoint *c, const char *name)
{
    for (int64_t i = 0; i < c->n_numbers; i++)
        if (strcmp(c->number[i].name, name) == 0)
            return &c->number[i];
    return NULL;
}

static lk_status numbers_match(const lk_checkpoint *c, const lk_state *s)
{
    int64_t absent = 0;
    for (int64_t i = 0; i < s->n_numbers; i++)
        absent += s->number[i].optional && !number_find(c, s->number[i].name);
    LK_CHECK(c->n_numbers == s->n_numbers - absent, LK_ESHAPE,
             "%s: has %lld numbers, the state %lld", c->path, (long long)c->n_numbers,
             (long long)(s->n_numbers - absent));
    for (int64_t i = 0; i < s->n_numbers; i++) {
        const lk_state_number *have = number_find(c, s->number[i].name);
        if (!have && s->number[i].optional)
            continue;
        LK_CHECK(have, LK_ESHAPE, "%s: has no number \"%s\"", c->path, s->number[i].name);
        LK_CHECK(have->dtype == s->number[i].dtype, LK_EDTYPE,
                 "%s: \"%s\" is %s, the state's is %s", c->path, have->name,
                 lk_dtype_name(have->dtype), lk_dtype_name(s->number[i].dtype));
    }
    return LK_OK;
}

/* ---- rank 0 ---- */

/* What a load works with. */
typedef struct load {
    lk_checkpoints *c;
    lk_state *state;
    lk_arena *arena;
    place *sorted;
    int64_t *map;
    lk_checkpoint *chosen; /* NULL: there is none */
} load;

/* Open one of the checkpoints, and see that all of it is right. */
static lk_status candidate_try(load *l, int64_t step)
{
    char path[LK_PATH_SIZE];
    LK_TRY(lk__step_path(l->c->folder, step, "", path));
    LK_TRY(lk__manifest_read(path, &l->chosen));
    LK_TRY(lk__identity_check(l->chosen, l->c->options.identity));
    LK_TRY(tensors_match(l->chosen, l->state, l->sorted, l->map));
    LK_TRY(numbers_match(l->chosen, l->state));
    LK_TRY(lk__checkpoint_verify_all(l->chosen));
    return LK_OK;
}

static lk_status choose(load *l)
{
    char name[LK__STEP_NAME], what[LK__STEP_NAME + 64], reason[LK__MESSAGE] = "";
    int64_t *step, n;
    LK_TRY(lk__steps_list(l->c->folder, l->arena, &step, &n));
    for (int64_t i = n - 1; i >= 0; i--) {
        lk_status st = candidate_try(l, step[i]);
        lk__step_name(step[i], name);
        if (st == LK_OK && i < n - 1)
            lk__out_format(&l->c->messages, "%s, which is older, is used instead\n", name);
        if (st == LK_OK)
            return LK_OK;
        lk_checkpoint_free(l->chosen);
        l->chosen = NULL;
        if (st == LK_EIDENTITY || st == LK_ENOMEM)
            LK_TRY(st);
        if (!reason[0])
            snprintf(reason, sizeof reason, "%s", lk_error_message());
        snprintf(what, sizeof what, "the checkpoint %s cannot be used and is left out", name);
        lk__checkpoints_note(l->c, what);
    }
    LK_CHECK(n == 0, LK_EIO, "%s: none of its %lld checkpoints can be used; the newest: %.300s",
             l->c->folder, (long long)n, reason);
    return LK_OK;
}

static lk_status state_read(load *l)
{
    lk_state *s = l->state;
    for (int64_t i = 0; i < s->n_tensors; i++)
        if (lk_checkpoint_read(l->chosen, l->map[i], s->tensor[i].data) != LK_OK)
            return LK_RAISE(LK_EIO, "%s (it had verified before; what was loaded is not whole)",
                            lk_error_message());
    for (int64_t i = 0; i < s->n_numbers; i++) {
        const lk_state_number *have = number_find(l->chosen, s->number[i].name);
        if (!have)
            continue;
        s->number[i].i64 = have->i64;
        s->number[i].f64 = have->f64;
    }
    s->step = l->chosen->step;
    s->hash = l->chosen->hash;
    s->hash_format = l->chosen->hash_format;
    return LK_OK;
}

static lk_status load_first(void *arg)
{
    load *l = arg;
    LK_TRY(lk_arena_new(&l->arena));
    LK_TRY(lk_arena_alloc(l->arena, &l->sorted, l->state->n_tensors, sizeof *l->sorted));
    LK_TRY(lk_arena_alloc(l->arena, &l->map, l->state->n_tensors, sizeof *l->map));
    LK_TRY(choose(l));
    if (l->chosen)
        LK_TRY(state_read(l));
    return LK_OK;
}

/* ---- all ranks ---- */

/* What is told before the numbers: whether there is anything, step, hash and its format. */
enum { HEAD = 4 };

/* What rank 0 has, to the others: the head, numbers, tensors. */
static lk_status tell(lk_comm *comm, lk_state *s, int64_t *numbers, bool *found)
{
    numbers[0] = *found;
    numbers[1] = s->step;
    numbers[2] = (int64_t)s->hash;
    numbers[3] = s->hash_format;
    for (int64_t i = 0; i < s->n_numbers; i++)
        memcpy(&numbers[HEAD + i],
               s->number[i].dtype == LK_I64 ? (void *)&s->number[i].i64 : (void *)&s->number[i].f64,
               8);
    LK_TRY(lk_bcast(comm, numbers, HEAD + s->n_numbers, LK_I64, 0, "checkpoint"));
    *found = numbers[0] != 0;
    if (!*found)
        return LK_OK;
    s->step = numbers[1];
    s->hash = (uint64_t)numbers[2];
    s->hash_format = (int)numbers[3];
    for (int64_t i = 0; i < s->n_numbers; i++)
        memcpy(s->number[i].dtype == LK_I64 ? (void *)&s->number[i].i64 : (void *)&s->number[i].f64,
               &numbers[HEAD + i], 8);
    for (int64_t i = 0; i < s->n_tensors; i++) {
        int64_t count;
        LK_TRY(lk_shape_count(s->tensor[i].shape, &count));
        LK_TRY(lk_bcast(comm, s->tensor[i].data, count * (int64_t)lk_dtype_size(s->tensor[i].dtype),
                        LK_U8, 0, s->tensor[i].name));
    }
    return LK_OK;
}

/* A state that could be saved can be loaded: the same checks. */
static lk_status state_check(const lk_checkpoints *c, const lk_state *state)
{
    lk_checkpoint *plan;
    lk_state from_zero = *state;
    from_zero.step = 0;
    LK_TRY(lk__plan_make(&from_zero, c->options.identity, c->options.part_bytes, &plan));
    lk_checkpoint_free(plan);
    return LK_OK;
}

static lk_status load_all(load *l, bool *found)
{
    lk_checkpoints *c = l->c;
    int64_t *numbers = NULL;
    lk_status st = state_check(c, l->state);
    if (st == LK_OK)
        st = lk_alloc(&numbers, HEAD + l->state->n_numbers, sizeof *numbers);
    st = lk_agree(c->comm, st);
    if (st == LK_OK)
        st = lk_agree(c->comm, lk__disk_do(&c->disk, c->rank == 0 ? load_first : NULL, l));
    *found = st == LK_OK && l->chosen;
    if (st == LK_OK && c->comm)
        st = tell(c->comm, l->state, numbers, found);
    lk_free(numbers);
    LK_TRY(st);
    return LK_OK;
}

lk_status lk_checkpoints_load(lk_checkpoints *c, lk_state *state, bool *found)
{
    LK_CHECK(c && state && found, LK_EINVAL, "checkpoints, state or found is NULL");
    LK_CHECK(!c->saving, LK_ESTATE, "a save is not committed yet");
    load l = {.c = c, .state = state};
    *found = false;
    lk__out_clear(&c->messages);
    lk_status st = load_all(&l, found);
    lk_checkpoint_free(l.chosen);
    lk_arena_free(l.arena);
    LK_TRY(st);
    return LK_OK;
}
