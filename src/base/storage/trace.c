/* Who observes calls to the disk: the status of a thread's last call, which a thread that waits for
 * it reads (io/disk.c), and the trace of all calls, which tests of power cuts replay. */
#include "base/storage/fault.h"

#include <stdio.h>
#include <string.h>

static _Thread_local lk__storage_status *shown;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void (*trace_fn)(void *arg, const lk__storage_event *event);
static void *trace_arg;

void lk__storage_show(lk__storage_status *status)
{
    shown = status;
}

void lk__storage_status_text(lk__storage_status *status, char text[LK__STORAGE_STATUS_SIZE])
{
    pthread_mutex_lock(&status->lock);
    memcpy(text, status->text, LK__STORAGE_STATUS_SIZE);
    pthread_mutex_unlock(&status->lock);
}

void lk__storage_shows(lk__storage_call call, const char *path)
{
    if (!shown)
        return;
    pthread_mutex_lock(&shown->lock);
    snprintf(shown->text, LK__STORAGE_STATUS_SIZE, "%s of %s", lk__storage_name(call), path);
    pthread_mutex_unlock(&shown->lock);
}

void lk__storage_trace(void (*fn)(void *arg, const lk__storage_event *event), void *arg)
{
    pthread_mutex_lock(&lock);
    trace_fn = fn;
    trace_arg = arg;
    pthread_mutex_unlock(&lock);
}

void lk__storage_made(const lk__storage_event *event)
{
    pthread_mutex_lock(&lock);
    if (trace_fn)
        trace_fn(trace_arg, event);
    pthread_mutex_unlock(&lock);
}
