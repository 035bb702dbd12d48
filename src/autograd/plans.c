/* The cache of plans on a tape: objects that ops compute once per shape (a convolution's plan), the
 * 512 used last.  lk_call_plan() asks it, on the tape's thread. */
#include "autograd/tape.h"

#include <lockstep/hash.h>

enum { MAX_PLANS = 512, MAX_KEY = 512 };

typedef struct lk__plan {
    uint64_t hash;
    void (*free)(void *object);
    void *object;
    size_t key_size;
    _Alignas(16) char key[MAX_KEY];
} lk__plan;

/* Plan `i` becomes the first: the one used last. */
static void move_to_front(lk_tape *t, int i)
{
    lk__plan *p = t->plans[i];
    memmove(&t->plans[1], &t->plans[0], (size_t)i * sizeof *t->plans);
    t->plans[0] = p;
}

static void plan_free(lk__plan *p)
{
    p->free(p->object);
    lk_free(p);
}

void lk__plans_free(lk_tape *t)
{
    for (int i = 0; i < t->n_plans; i++)
        plan_free(t->plans[i]);
    lk_free(t->plans);
}

lk_status lk_call_plan(lk_call *call, const void *key, size_t key_size,
                       lk_status (*make)(const void *key, void **out), void (*free)(void *object),
                       void **out)
{
    lk_status st;
    lk_tape *t = call->tape;
    lk__plan *p = NULL;
    lk_hash h = lk_hash_start();
    *out = NULL;
    LK_CHECK(key_size <= MAX_KEY, LK_EINVAL, "the key of a plan of %s has %zu bytes, at most %d",
             call->op->name, key_size, MAX_KEY);
    lk_hash_add_bytes(&h, key, key_size);
    uint64_t hash = lk_hash_value(&h);
    for (int i = 0; i < t->n_plans; i++) {
        p = t->plans[i];
        if (p->hash != hash || p->free != free || p->key_size != key_size ||
            memcmp(p->key, key, key_size) != 0)
            continue;
        move_to_front(t, i);
        *out = p->object;
        return LK_OK;
    }
    if (!t->plans)
        LK_TRY(lk_alloc(&t->plans, MAX_PLANS, sizeof *t->plans));
    LK_TRY(lk_alloc(&p, 1, sizeof *p));
    p->hash = hash;
    p->free = free;
    p->key_size = key_size;
    memcpy(p->key, key, key_size);
    LK_TRY_TO(fail, make(p->key, &p->object));
    if (t->n_plans == MAX_PLANS)
        plan_free(t->plans[--t->n_plans]);
    t->plans[t->n_plans++] = p;
    move_to_front(t, t->n_plans - 1);
    *out = p->object;
    return LK_OK;
fail:
    lk_free(p);
    return st;
}
