/* Which pool a thread has, and work that is split over it.
 *
 * Threads that are not bound share one pool.  For each set of processors that threads are bound to there
 * is another, found when the first of them calls a kernel, and kept until another set needs its place: a
 * thread looks whether its pool is still that of its set, under the pool's lock.  All memory is static:
 * nothing is allocated, and a forked child only has to forget the workers it does not have.
 *
 * `sets.lock` guards the places.  No thread waits for a pool while holding it: a worker that calls a kernel
 * inside a job needs it to find that its pool is busy.
 */
#include "base/memory/rehearsal.h"
#include "kernel/runtime/workers.h"

#include <lockstep/extra/threads.h>

enum { MAX_SETS = 64 }; /* more than fit on a machine side by side: a set of one needs no pool */

static lk__workers common = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct {
    pthread_mutex_t lock;
    int n;    /* places that were ever taken */
    int next; /* the place to look at first when one must be given up */
    lk__workers pool[MAX_SETS];
} sets = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local lk__workers *found; /* where the pool of this thread's set was last */

static bool survives_fork;

static atomic_bool shares_all;

static void forget_workers(void)
{
    lk__workers_forget(&common);
    pthread_mutex_init(&sets.lock, NULL);
    for (int i = 0; i < MAX_SETS; i++)
        lk__workers_forget(&sets.pool[i]);
}

static void watch_forks(void)
{
    survives_fork = pthread_atfork(NULL, NULL, forget_workers) == 0;
}

/* Give a place to a set; NULL if all are busy.  `sets.lock` is held. */
static lk__workers *place_take(const lk__bound_set *bound)
{
    lk__workers *p = NULL;
    if (sets.n < MAX_SETS) {
        p = &sets.pool[sets.n++];
        pthread_mutex_init(&p->lock, NULL);
        pthread_mutex_lock(&p->lock);
    }
    for (int i = 0; i < MAX_SETS && !p; i++) {
        lk__workers *other = &sets.pool[(sets.next + i) % MAX_SETS];
        if (pthread_mutex_trylock(&other->lock) == 0)
            p = other;
    }
    if (!p)
        return NULL;
    sets.next = (int)(p - sets.pool + 1) % MAX_SETS;
    lk__workers_stop(p);
    p->set = bound->set;
    p->n_processors = bound->n;
    pthread_mutex_unlock(&p->lock);
    return p;
}

static lk__workers *place_find(const lk__bound_set *bound)
{
    lk__workers *p = NULL;
    pthread_mutex_lock(&sets.lock);
    for (int i = 0; i < sets.n && !p; i++)
        if (lk__processors_same(&sets.pool[i].set, &bound->set))
            p = &sets.pool[i];
    if (!p)
        p = place_take(bound);
    pthread_mutex_unlock(&sets.lock);
    return p;
}

/* The pool of a bound thread, locked; NULL if it is busy. */
static lk__workers *pool_of_set(const lk__bound_set *bound)
{
    for (int tries = 0; tries < 2; tries++) {
        if (!found)
            found = place_find(bound);
        if (!found || pthread_mutex_trylock(&found->lock) != 0)
            return NULL;
        if (lk__processors_same(&found->set, &bound->set))
            return found;
        pthread_mutex_unlock(&found->lock); /* this thread's set is another, or the place's */
        found = NULL;
    }
    return NULL;
}

static lk__workers *pool_lock(const lk__bound_set *bound)
{
    if (bound)
        return pool_of_set(bound);
    return pthread_mutex_trylock(&common.lock) == 0 ? &common : NULL;
}

static void pool_restart(lk__workers *p, int n_wanted)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    lk__workers_stop(p);
    if (survives_fork)
        lk__workers_start(p, n_wanted);
}

void lk_threads_share_all(bool all)
{
    atomic_store(&shares_all, all);
}

lk_status lk__parallel(lk__tasks tasks, lk__task_fn *fn, void *arg)
{
    const lk__bound_set *bound = lk__thread_binding();
    int threads;
    LK_TRY(lk__threads_of(bound, &threads));
    if (tasks.n <= 0 || lk__rehearses())
        return LK_OK;
    if (atomic_load_explicit(&shares_all, memory_order_relaxed))
        tasks.ns = lk__tasks_long(tasks.n).ns;
    bool alone = threads == 1 || tasks.n == 1 || (double)tasks.n * tasks.ns < LK__WORKERS_LEAST_NS;
    lk__workers *pool = alone ? NULL : pool_lock(bound);
    if (!pool) {
        fn(arg, 0, tasks.n);
        return LK_OK;
    }
    if (pool->n_wanted != threads - 1)
        pool_restart(pool, threads - 1);
    lk__workers_run(pool, &tasks, fn, arg);
    pthread_mutex_unlock(&pool->lock);
    return LK_OK;
}

static int sets_taken(void)
{
    pthread_mutex_lock(&sets.lock);
    int n = sets.n;
    pthread_mutex_unlock(&sets.lock);
    return n;
}

static void pool_stop(lk__workers *p)
{
    pthread_mutex_lock(&p->lock);
    lk__workers_stop(p);
    pthread_mutex_unlock(&p->lock);
}

void lk_threads_stop(void)
{
    pool_stop(&common);
    for (int i = 0, n = sets_taken(); i < n; i++)
        pool_stop(&sets.pool[i]);
}

static void pool_stop_idle(lk__workers *p)
{
    if (pthread_mutex_trylock(&p->lock) != 0)
        return;
    lk__workers_stop(p);
    pthread_mutex_unlock(&p->lock);
}

/* Workers must not outlive their code when a host unloads the library. */
__attribute__((destructor)) static void stop_at_unload(void)
{
    pool_stop_idle(&common);
    for (int i = 0; i < sets.n; i++)
        pool_stop_idle(&sets.pool[i]);
}
