/* lk_op_find(): ops by name, those of the build and those that the program registered; any thread.
 */
#include <lockstep/extra/suggest.h>
#include <lockstep/op.h>

#include <pthread.h>
#include <string.h>

enum { MAX_REGISTERED = 256 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const lk_op *registered[MAX_REGISTERED];
static int n_registered;

static const lk_op *built_in(const char *name)
{
    for (const lk_op *const *op = lk_ops; *op; op++)
        if (strcmp((*op)->name, name) == 0)
            return *op;
    return NULL;
}

static const lk_op *among_registered(const char *name)
{
    for (int i = 0; i < n_registered; i++)
        if (strcmp(registered[i]->name, name) == 0)
            return registered[i];
    return NULL;
}

/* The name of an op that is nearest to `name`, or NULL; the caller holds the lock. */
static const char *near_name(const char *name)
{
    lk_suggestion s = {.wanted = name};
    for (const lk_op *const *op = lk_ops; *op; op++)
        lk_suggest_consider(&s, (*op)->name);
    for (int i = 0; i < n_registered; i++)
        lk_suggest_consider(&s, registered[i]->name);
    return lk_suggest_found(&s) ? s.best : NULL;
}

lk_status lk_op_find(const char *name, const lk_op **out)
{
    const char *near = NULL;
    *out = NULL;
    LK_CHECK(name, LK_EINVAL, "name is NULL");
    *out = built_in(name);
    if (!*out) {
        pthread_mutex_lock(&lock);
        *out = among_registered(name);
        near = *out ? NULL : near_name(name);
        pthread_mutex_unlock(&lock);
    }
    LK_CHECK(*out || !near, LK_EINVAL, "there is no op \"%s\"; did you mean \"%s\"?", name, near);
    LK_CHECK(*out, LK_EINVAL, "there is no op \"%s\" (\"lockstep list ops\" shows those there are)",
             name);
    return LK_OK;
}

static lk_status add(const lk_op *op)
{
    LK_CHECK(!among_registered(op->name), LK_EINVAL, "an op \"%s\" is registered already",
             op->name);
    LK_CHECK(n_registered < MAX_REGISTERED, LK_ENOTSUP, "op \"%s\" is one more than %d", op->name,
             MAX_REGISTERED);
    registered[n_registered++] = op;
    return LK_OK;
}

lk_status lk_op_register(const lk_op *op)
{
    LK_CHECK(op && op->name && op->name[0], LK_EINVAL, "an op %s",
             op ? "without a name" : "is NULL");
    LK_CHECK(op->infer, LK_EINVAL, "op \"%s\" has no infer", op->name);
    LK_CHECK(op->n_out >= 1 && op->n_out <= LK_MAX_OUT, LK_EINVAL,
             "op \"%s\" has %d outputs, 1 to %d are possible", op->name, op->n_out, LK_MAX_OUT);
    LK_CHECK(op->min_in >= 0 && op->min_in <= op->max_in, LK_EINVAL,
             "op \"%s\" takes %d to %d inputs", op->name, op->min_in, op->max_in);
    LK_CHECK(!built_in(op->name), LK_EINVAL, "op \"%s\" is built in", op->name);
    pthread_mutex_lock(&lock);
    lk_status st = add(op);
    pthread_mutex_unlock(&lock);
    return LK_TRACE(st);
}
