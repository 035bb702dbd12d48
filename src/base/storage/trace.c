/* Who looks at the calls to the disk: another thread that waits for them, and tests that replay
 * them. */
#include "base/storage/fault.h"

#include <stdio.h>
#include <string.h>

static _Thread_local lk__storage_doing *shown;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void (*told)(void *arg, const lk__storage_event *event);
static void *told_arg;

void lk__storage_show(lk__storage_doing *doing)
{
    shown = doing;
}

void lk__storage_look(lk__storage_doing *doing, char text[LK__DOING])
{
    pthread_mutex_lock(&doing->lock);
    memcpy(text, doing->text, LK__DOING);
    pthread_mutex_unlock(&doing->lock);
}

void lk__storage_shows(lk__storage_call call, const char *path)
{
    if (!shown)
        return;
    pthread_mutex_lock(&shown->lock);
    snprintf(shown->text, LK__DOING, "%s of %s", lk__storage_name(call), path);
    pthread_mutex_unlock(&shown->lock);
}

void lk__storage_trace(void (*fn)(void *arg, const lk__storage_event *event), void *arg)
{
    pthread_mutex_lock(&lock);
    told = fn;
    told_arg = arg;
    pthread_mutex_unlock(&lock);
}

void lk__storage_made(const lk__storage_event *event)
{
    pthread_mutex_lock(&lock);
    if (told)
        told(told_arg, event);
    pthread_mutex_unlock(&lock);
}
