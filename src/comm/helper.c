/* Progress while the rank computes: start, loop and end of the helper. */
#include "comm/helper.h"

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

/* ns.  What comes on the transports of threads rings the bell; others nap for less, but not so little that
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
 * for naps that end on time.  Linux before 6.12 does not take the wish, and nothing changes there. */
static void wake_early(void)
{
    struct scheduling wish = {.size = sizeof wish, .runtime = 100000 /* ns */};
    wish.nice = getpriority(PRIO_PROCESS, 0); /* stays as it is */
    if (sched_getscheduler(0) == SCHED_OTHER)
        (void)!syscall(SYS_sched_setattr, 0, &wish, 0);
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
static void help(lk__helper *h)
{
    lk__world *w = h->w;
    lk__bell *bell = w->bell[w->rank];
    int64_t arrived = w->n_arrived;
    uint32_t heard = lk__bell_drowse(bell);
    /* What goes wrong is the world's fault from now on, and the error of the rank's next call. */
    if (lk__progress(w) == LK_OK && w->n_arrived == arrived && has_work(w)) {
        int64_t ns = w->transport->nap(w, longest_nap);
        ns = ns < shortest_nap ? shortest_nap : ns;
        h->napping = true;
        pthread_mutex_unlock(&h->lock);
        lk__bell_sleep(bell, heard, ns);
        pthread_mutex_lock(&h->lock);
        h->napping = false;
    }
    lk__bell_awake(bell);
}

static void *helper_main(void *arg)
{
    LK_FP_GUARD();
    lk__helper *h = arg;
    (void)!lk_log_set_thread_rank(h->w->rank, h->w->size);
    wake_early();
    pthread_mutex_lock(&h->lock);
    while (!h->stop) {
        if (has_work(h->w)) {
            help(h);
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

void lk__helper_enter(lk__helper *h)
{
    pthread_mutex_lock(&h->lock);
    h->depth++;
}

void lk__helper_leave(lk__helper *h)
{
    if (--h->depth == 0 && h->idle && has_work(h->w))
        pthread_cond_signal(&h->work);
    pthread_mutex_unlock(&h->lock);
}

static int thread_start(lk__helper *h)
{
    pthread_attr_t attr;
    int code = pthread_attr_init(&attr);
    if (code != 0)
        return code;
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    code = lk__thread_start(&h->thread, &attr, helper_main, h);
    pthread_attr_destroy(&attr);
    return code;
}

static void helper_free(lk__helper *h)
{
    pthread_cond_destroy(&h->work);
    pthread_mutex_destroy(&h->lock);
    lk_free(h);
}

lk_status lk__helper_start(lk__world *w)
{
    if (w->helper)
        return LK_OK;
    if (w->transport->share)
        LK_TRY(w->transport->share(w));
    lk__helper *h;
    pthread_mutexattr_t attr;
    LK_TRY(lk_alloc_zero(&h, 1, sizeof *h));
    h->w = w;
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&h->lock, &attr);
    pthread_mutexattr_destroy(&attr);
    pthread_cond_init(&h->work, NULL);
    if (thread_start(h) != 0) {
        helper_free(h);
        return LK_RAISE(LK_ENOMEM, "no thread to make progress for rank %d", w->rank);
    }
    w->helper = h;
    return LK_OK;
}

void lk__helper_stop(lk__world *w)
{
    lk__helper *h = w->helper;
    if (!h)
        return;
    pthread_mutex_lock(&h->lock);
    h->stop = true;
    pthread_cond_signal(&h->work);
    if (h->napping) {
        atomic_fetch_add(&w->bell[w->rank]->rung, 1);
        lk__futex_wake(&w->bell[w->rank]->rung);
    }
    pthread_mutex_unlock(&h->lock);
    pthread_join(h->thread, NULL);
    w->helper = NULL;
    helper_free(h);
}

lk_status lk__helper_wanted(bool *out)
{
    const char *env = lk__env("LK_PROGRESS");
    bool set = env && *env;
    LK_CHECK(!set || strcmp(env, "0") == 0 || strcmp(env, "1") == 0, LK_EINVAL,
             "LK_PROGRESS is \"%s\": it must be 0 or 1", env);
    *out = set && *env == '1';
    return LK_OK;
}

lk_status lk__helper_default(lk__world *w)
{
    bool wanted = false;
    LK_TRY(lk__helper_wanted(&wanted));
    if (wanted)
        LK_TRY(lk__helper_start(w));
    return LK_OK;
}

bool lk__helper_for(lk_comm *comm, const char *what)
{
    if (comm->w->helper)
        return false;
    if (lk__helper_start(comm->w) == LK_OK)
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
        LK_TRY(lk__helper_start(comm->w));
    else
        lk__helper_stop(comm->w);
    return LK_OK;
}
