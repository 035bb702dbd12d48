/* lk__progress_thread: its start, its loop and its end.  See progress_thread.h. */
#include "comm/progress_thread.h"

#include "base/env.h"
#include "base/fpenv.h"
#include "base/thread.h"
#include "comm/comm.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/log.h>

#include <sched.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { STACK_BYTES = 1 << 20 };

/* ns.  What comes on the transports of threads notifies the wakeup; others nap for less, but not so little that
 * looking for messages takes the core from those who compute. */
static const int64_t shortest_nap = 500000, longest_nap = 1000000000;

/* As sched_setattr(2) has it, which has no function in every C library. */
struct scheduling {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
};

/* Where computing threads have all cores, a thread that wakes waits until one of them has had its slice, some
 * milliseconds in which a link stands still: ask for the shortest slices, which go before longer ones, and
 * for naps that end on time.  Linux before 6.12 ignores this, and nothing changes there. */
static void wake_early(void)
{
    struct scheduling wanted = {.size = sizeof wanted, .runtime = 100000 /* ns */};
    wanted.nice = getpriority(PRIO_PROCESS, 0); /* stays as it is */
    if (sched_getscheduler(0) == SCHED_OTHER)
        (void)!syscall(SYS_sched_setattr, 0, &wanted, 0);
    (void)prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
}

/* Whether a request is under way that could go on without the rank. */
static bool has_work(lk__world *w)
{
    bool work = w->posted || (w->transport->busy && w->transport->busy(w));
    for (lk_request *r = w->active; r && !work; r = r->next)
        work = !lk__request_done(r);
    return work && atomic_load(&w->fault->state) == 0;
}

/* Look once; sleep, without the lock, until there may be more to see. */
static void progress_once(lk__progress_thread *h)
{
    lk__world *w = h->w;
    lk__wakeup *wakeup = w->wakeup[w->rank];
    int64_t arrived = w->n_arrived;
    uint32_t seen = lk__wakeup_prepare(wakeup);
    /* What goes wrong is the world's fault from now on, and the error of the rank's next call. */
    if (lk__progress(w) == LK_OK && w->n_arrived == arrived && has_work(w)) {
        int64_t ns = w->transport->nap(w, longest_nap);
        ns = ns < shortest_nap ? shortest_nap : ns;
        h->napping = true;
        pthread_mutex_unlock(&h->lock);
        lk__wakeup_wait(wakeup, seen, ns);
        pthread_mutex_lock(&h->lock);
        h->napping = false;
    }
    lk__wakeup_cancel(wakeup);
}

static void *progress_main(void *arg)
{
    LK_FP_GUARD();
    lk__progress_thread *h = arg;
    (void)!lk_log_set_thread_rank(h->w->rank, h->w->size);
    wake_early();
    pthread_mutex_lock(&h->lock);
    while (!h->stop) {
        if (has_work(h->w)) {
            progress_once(h);
            continue;
        }
        h->idle = true;
        pthread_cond_wait(&h->work, &h->lock);
        h->idle = false;
    }
    pthread_mutex_unlock(&h->lock);
    lk_error_clear();
    return NULL;
}

void lk__progress_thread_enter(lk__progress_thread *h)
{
    pthread_mutex_lock(&h->lock);
    h->depth++;
}

void lk__progress_thread_leave(lk__progress_thread *h)
{
    if (--h->depth == 0 && h->idle && has_work(h->w))
        pthread_cond_signal(&h->work);
    pthread_mutex_unlock(&h->lock);
}

static int thread_start(lk__progress_thread *h)
{
    pthread_attr_t attr;
    int code = pthread_attr_init(&attr);
    if (code != 0)
        return code;
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    code = lk__thread_start(&h->thread, &attr, progress_main, h);
    pthread_attr_destroy(&attr);
    return code;
}

static void progress_thread_free(lk__progress_thread *h)
{
    pthread_cond_destroy(&h->work);
    pthread_mutex_destroy(&h->lock);
    lk_free(h);
}

lk_status lk__progress_thread_start(lk__world *w)
{
    if (w->progress_thread)
        return LK_OK;
    if (w->transport->share)
        LK_TRY(w->transport->share(w));
    lk__progress_thread *h;
    pthread_mutexattr_t attr;
    LK_TRY(lk_alloc_zero(&h, 1, sizeof *h));
    h->w = w;
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&h->lock, &attr);
    pthread_mutexattr_destroy(&attr);
    pthread_cond_init(&h->work, NULL);
    if (thread_start(h) != 0) {
        progress_thread_free(h);
        return LK_RAISE(LK_ENOMEM, "no thread to make progress for rank %d", w->rank);
    }
    w->progress_thread = h;
    return LK_OK;
}

void lk__progress_thread_stop(lk__world *w)
{
    lk__progress_thread *h = w->progress_thread;
    if (!h)
        return;
    pthread_mutex_lock(&h->lock);
    h->stop = true;
    pthread_cond_signal(&h->work);
    if (h->napping) {
        atomic_fetch_add(&w->wakeup[w->rank]->epoch, 1);
        lk__futex_wake(&w->wakeup[w->rank]->epoch);
    }
    pthread_mutex_unlock(&h->lock);
    pthread_join(h->thread, NULL);
    w->progress_thread = NULL;
    progress_thread_free(h);
}

lk_status lk__progress_thread_wanted(bool *out)
{
    const char *env = lk__env("LK_PROGRESS");
    bool set = env && *env;
    LK_CHECK(!set || strcmp(env, "0") == 0 || strcmp(env, "1") == 0, LK_EINVAL,
             "LK_PROGRESS is \"%s\": it must be 0 or 1", env);
    *out = set && *env == '1';
    return LK_OK;
}

lk_status lk__progress_thread_default(lk__world *w)
{
    bool wanted = false;
    LK_TRY(lk__progress_thread_wanted(&wanted));
    if (wanted)
        LK_TRY(lk__progress_thread_start(w));
    return LK_OK;
}

bool lk__progress_thread_for(lk_comm *comm, const char *what)
{
    if (comm->w->progress_thread)
        return false;
    if (lk__progress_thread_start(comm->w) == LK_OK)
        return true;
    if (lk_comm_rank(comm) == 0)
        lk_log_write(LK_LOG_WARN, "%s: messages progress inside calls alone (%s)", what,
                     lk_error_message());
    lk_error_clear();
    return false;
}

lk_status lk_comm_set_progress(lk_comm *comm, bool on)
{
    LK_CHECK(comm, LK_EINVAL, "comm is NULL");
    if (on)
        LK_TRY(lk__progress_thread_start(comm->w));
    else
        lk__progress_thread_stop(comm->w);
    return LK_OK;
}
