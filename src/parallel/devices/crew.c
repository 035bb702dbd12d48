/* lk__crew: the threads, how they get work, and what becomes of a failure.
 *
 * Members sleep until the number of the order changes; the last one to finish wakes the caller.  All that
 * they share is behind one lock.
 */
#include "parallel/devices/crew.h"

#include "base/failure.h"
#include "coll/agree.h"
#include "comm/local/job.h"
#include "dist/common/dist.h"

#include <lockstep/extra/alloc.h>

#include <pthread.h>

struct lk__crew {
    int n;
    lk_device *device;         /* [n] */
    lk__failure *failure;      /* [n] of the order; st LK_OK: none */
    bool *arrived;             /* [n] to the place where orders are waited for */
    struct lk__local_job *job; /* NULL: there are no threads */
    pthread_mutex_t lock;
    pthread_cond_t ordered, done;
    uint64_t order; /* number of the last one */
    int left;       /* members that have not finished it */
    bool stops, communicates, broken;
    lk__crew_fn *fn;
    void *arg;
};

/* Member `i` is done with its order. */
static void order_end(lk__crew *c, int i, lk_status st)
{
    pthread_mutex_lock(&c->lock);
    if (st == LK_OK)
        c->failure[i].st = LK_OK;
    else
        lk__failure_get(&c->failure[i]);
    c->arrived[i] = true;
    if (--c->left == 0)
        pthread_cond_signal(&c->done);
    pthread_mutex_unlock(&c->lock);
}

/* Wait for an order behind number *seen; false: there is none any more. */
static bool order_take(lk__crew *c, uint64_t *seen)
{
    pthread_mutex_lock(&c->lock);
    while (c->order == *seen && !c->stops)
        pthread_cond_wait(&c->ordered, &c->lock);
    bool go_on = !c->stops;
    *seen = c->order;
    pthread_mutex_unlock(&c->lock);
    return go_on;
}

static lk_status member_main(lk_comm *comm, void *arg)
{
    lk__crew *c = arg;
    int i = lk_comm_rank(comm);
    uint64_t seen = c->order; /* none is given before all have come */
    order_end(c, i, lk_device_bind(&c->device[i]));
    while (order_take(c, &seen)) {
        lk_status st = c->fn(c->arg, i, comm);
        if (st != LK_OK && c->communicates && !lk__is_end(st))
            lk__dist_end_job(comm);
        order_end(c, i, st);
    }
    return LK_OK;
}

/* A thread whose communicator could not be made comes all the same. */
static void member_left(void *arg, int i, lk_status st)
{
    lk__crew *c = arg;
    pthread_mutex_lock(&c->lock);
    bool arrived = c->arrived[i];
    pthread_mutex_unlock(&c->lock);
    if (!arrived)
        order_end(c, i, st);
}

/* Wait until all are done, and make this thread's error of what failed. */
static lk_status order_wait(lk__crew *c)
{
    const lk__failure *first = NULL;
    pthread_mutex_lock(&c->lock);
    while (c->left > 0)
        pthread_cond_wait(&c->done, &c->lock);
    pthread_mutex_unlock(&c->lock);
    for (int i = 0; i < c->n; i++) {
        const lk__failure *f = &c->failure[i];
        if (f->st != LK_OK && (!first || (lk__is_end(first->st) && !lk__is_end(f->st))))
            first = f;
    }
    if (!first)
        return LK_OK;
    int i = (int)(first - c->failure);
    lk__failure_set(first);
    lk__error_prefix("replica %d (%s): ", i, c->device[i].name);
    return first->st;
}

static void crew_stop(lk__crew *c)
{
    lk__failure failure;
    if (!c->job)
        return;
    pthread_mutex_lock(&c->lock);
    c->stops = true;
    pthread_cond_broadcast(&c->ordered);
    pthread_mutex_unlock(&c->lock);
    lk__failure_get(&failure);
    (void)lk__local_end(c->job); /* failures were reported when they occurred */
    lk__failure_set(&failure);
    c->job = NULL;
}

static lk_status crew_start(lk__crew *c)
{
    c->stops = c->broken = false;
    c->left = c->n;
    for (int i = 0; i < c->n; i++)
        c->arrived[i] = false;
    LK_TRY(lk__local_new(c->n, &c->job));
    lk_status st = lk__local_start(c->job, member_main, c, member_left);
    if (st == LK_OK)
        st = order_wait(c);
    if (st != LK_OK)
        crew_stop(c);
    return LK_TRACE(st);
}

lk_status lk__crew_new(const lk_device *devices, int n, lk__crew **out)
{
    lk_status st;
    lk__crew *c = NULL;
    *out = NULL;
    LK_TRY(lk_alloc_zero(&c, 1, sizeof *c));
    c->n = n;
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->ordered, NULL);
    pthread_cond_init(&c->done, NULL);
    LK_TRY_TO(fail, lk_alloc(&c->device, n, sizeof *c->device));
    LK_TRY_TO(fail, lk_alloc_zero(&c->failure, n, sizeof *c->failure));
    LK_TRY_TO(fail, lk_alloc_zero(&c->arrived, n, sizeof *c->arrived));
    for (int i = 0; i < n; i++)
        c->device[i] = devices[i];
    LK_TRY_TO(fail, crew_start(c));
    *out = c;
    return LK_OK;
fail:
    lk__crew_free(c);
    return st;
}

void lk__crew_free(lk__crew *c)
{
    if (!c)
        return;
    crew_stop(c);
    pthread_mutex_destroy(&c->lock);
    pthread_cond_destroy(&c->ordered);
    pthread_cond_destroy(&c->done);
    lk_free(c->device);
    lk_free(c->failure);
    lk_free(c->arrived);
    lk_free(c);
}

lk_status lk__crew_run(lk__crew *c, lk__crew_fn *fn, void *arg, bool communicates)
{
    if (!c) {
        return LK_TRACE(fn(arg, 0, NULL));
    }
    if (c->broken)
        crew_stop(c);
    if (!c->job)
        LK_TRY(crew_start(c));
    pthread_mutex_lock(&c->lock);
    c->fn = fn;
    c->arg = arg;
    c->communicates = communicates;
    c->left = c->n;
    c->order++;
    pthread_cond_broadcast(&c->ordered);
    pthread_mutex_unlock(&c->lock);
    lk_status st = order_wait(c);
    c->broken = st != LK_OK && communicates;
    return LK_TRACE(st);
}
