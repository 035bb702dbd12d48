/* lk__disk_do(): work on one rank's disk while the others wait within their deadline, and reports
 * of a slow one; disk.h says how.  On the thread that has the communicator. */
#include "io/disk.h"

#include "base/fpenv.h"
#include "base/thread.h"
#include "comm/comm.h"

#include <lockstep/coll.h>
#include <lockstep/extra/clock.h>
#include <lockstep/log.h>

#include <errno.h>
#include <stdio.h>
#include <time.h>

/* In ns: ranks communicate that often, or four times within a deadline; a wait is reported after the latter,
 * then each time it has doubled. */
static const int64_t longest_pause = 1000000000, first_report = 5000000000;

/* ---- the work of this rank ---- */

void lk__work_init(lk__work *w)
{
    *w = (lk__work){.done = true, .status = LK__STORAGE_STATUS_INIT};
    pthread_condattr_t by_clock;
    pthread_mutex_init(&w->lock, NULL);
    pthread_condattr_init(&by_clock);
    pthread_condattr_setclock(&by_clock, CLOCK_MONOTONIC);
    pthread_cond_init(&w->ended, &by_clock);
    pthread_condattr_destroy(&by_clock);
}

static void *work_run(void *arg)
{
    LK_FP_GUARD();
    lk__work *w = arg;
    lk__storage_show(&w->status);
    lk_status st = w->fn(w->arg);
    lk__storage_show(NULL);
    if (st != LK_OK)
        lk__failure_get(&w->failure);
    pthread_mutex_lock(&w->lock);
    w->done = true;
    pthread_cond_signal(&w->ended);
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

void lk__work_start(lk__work *w, lk__work_fn *fn, void *arg)
{
    w->fn = fn;
    w->arg = arg;
    w->done = false;
    w->running = lk__thread_start(&w->thread, NULL, work_run, w) == 0;
    if (!w->running)
        (void)work_run(w);
}

bool lk__work_is_done(lk__work *w, int64_t ns)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    int64_t end = until.tv_nsec + ns;
    until.tv_sec += (time_t)(end / 1000000000);
    until.tv_nsec = (long)(end % 1000000000);
    pthread_mutex_lock(&w->lock);
    while (!w->done && ns > 0 && pthread_cond_timedwait(&w->ended, &w->lock, &until) != ETIMEDOUT)
        ;
    bool done = w->done;
    pthread_mutex_unlock(&w->lock);
    return done;
}

lk_status lk__work_end(lk__work *w)
{
    if (w->running)
        pthread_join(w->thread, NULL);
    w->running = false;
    lk_status st = w->failure.st;
    if (st != LK_OK)
        lk__failure_set(&w->failure);
    w->failure.st = LK_OK;
    return st;
}

/* ---- all ranks ---- */

/* What rank `busy` does on its disk, reported on rank 0 when it is time to. */
static lk_status busy_report(const lk__disk *d, int busy, lk__work *own, int64_t began,
                             int64_t *next)
{
    char status[LK__STORAGE_STATUS_SIZE] = "", text[LK__STORAGE_STATUS_SIZE + 96];
    if (own && lk_comm_rank(d->comm) == busy)
        lk__storage_status_text(&own->status, status);
    LK_TRY(lk_bcast(d->comm, status, sizeof status, LK_U8, busy, "disk"));
    int64_t waited = lk_clock_ns() - began;
    if (lk_comm_rank(d->comm) != 0 || waited < *next)
        return LK_OK;
    *next = 2 * waited;
    snprintf(text, sizeof text, "waiting for the disk of rank %d since %.0f s: %.*s", busy,
             1e-9 * (double)waited, LK__STORAGE_STATUS_SIZE - 1, status);
    if (d->message)
        d->message(d->arg, text);
    else
        lk_log_write(LK_LOG_WARN, "%s", text);
    return LK_OK;
}

lk_status lk__disk_await(const lk__disk *d, lk__work *own)
{
    LK_FP_GUARD();
    if (!d->comm || lk_comm_size(d->comm) == 1)
        return LK_OK;
    int32_t rank = lk_comm_rank(d->comm), size = lk_comm_size(d->comm);
    int64_t deadline = d->comm->deadline_ns, began = lk_clock_ns();
    bool soon = deadline > 0 && deadline / 4 < longest_pause;
    int64_t pause = soon ? deadline / 4 : longest_pause;
    int64_t next = soon ? 2 * pause : first_report;
    for (;;) {
        int32_t busy = own && !lk__work_is_done(own, pause) ? rank : size;
        LK_TRY(lk_allreduce(d->comm, NULL, &busy, 1, LK_I32, LK_REDUCE_MIN, "disk"));
        if (busy == size)
            return LK_OK;
        LK_TRY(busy_report(d, busy, own, began, &next));
    }
}

lk_status lk__disk_do(const lk__disk *d, lk__work_fn *fn, void *arg)
{
    lk__work work;
    if (!d->comm || lk_comm_size(d->comm) == 1)
        return fn ? fn(arg) : LK_OK;
    if (!fn)
        return lk__disk_await(d, NULL);
    lk__work_init(&work);
    lk__work_start(&work, fn, arg);
    lk_status st = lk__disk_await(d, &work);
    lk__failure end;
    lk__failure_get(&end);
    lk_status done = lk__work_end(&work);
    if (st != LK_OK && done != LK_OK)
        lk__failure_set(&end); /* the end of the job matters more */
    LK_TRY(st);
    return LK_TRACE(done);
}
