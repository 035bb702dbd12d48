/* Whether a checkpoint fits a state: the same tensors in any order, and the same numbers. load.c
 * asks before it reads. */
#include "io/checkpoint/checkpoint.h"

#include <lockstep/extra/alloc.h>

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* A name and its place in a list. */
typedef struct place {
    const char *name;
    int64_t i;
} place;

static int by_name(const void *a, const void *b)
{
    return strcmp(((const place *)a)->name, ((const place *)b)->name);
}

/* map[i]: where in the checkpoint the state's tensor i is; sorted [n_tensors] is room. */
static lk_status tensors_match(const lk_checkpoint *c, const lk_state *s, place *sorted,
                               int64_t *map)
{
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
        LK_CHECK(have->dtype == t->dtype && lk_shape_is_equal(have->shape, t->shape), LK_ESHAPE,
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

lk_status lk__state_match(const lk_checkpoint *c, const lk_state *s, int64_t *map)
{
    place *sorted = NULL;
    LK_CHECK(c->n_tensors == s->n_tensors, LK_ESHAPE, "%s: has %lld tensors, the state %lld",
             c->path, (long long)c->n_tensors, (long long)s->n_tensors);
    LK_TRY(lk_alloc(&sorted, c->n_tensors, sizeof *sorted));
    lk_status st = tensors_match(c, s, sorted, map);
    lk_free(sorted);
    LK_TRY(st);
    return LK_TRACE(numbers_match(c, s));
}

/* What the fact "ranks" says, the last of that name: who saves may have added another. */
static int ranks_of(const lk_checkpoint *c)
{
    for (int64_t i = c->n_metadata - 1; i >= 0; i--)
        if (strcmp(c->metadata[i].name, "ranks") == 0) {
            char *end;
            long ranks = strtol(c->metadata[i].text, &end, 10);
            return *end == '\0' && ranks > 0 && ranks <= INT_MAX ? (int)ranks : 0;
        }
    return 0;
}

void lk__state_take(const lk_checkpoint *c, lk_state *s)
{
    for (int64_t i = 0; i < s->n_numbers; i++) {
        const lk_state_number *have = number_find(c, s->number[i].name);
        if (!have)
            continue;
        s->number[i].i64 = have->i64;
        s->number[i].f64 = have->f64;
    }
    s->step = c->step;
    s->hash = c->hash;
    s->hash_format = c->hash_format;
    s->ranks = ranks_of(c);
}
