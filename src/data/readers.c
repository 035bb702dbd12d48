/* The readers of a loader: threads that prepare the next batches in a ring of slots, while the caller uses
 * one.  Without them the caller fills a slot when it asks for it.
 */
#include "base/fpenv.h"
#include "base/thread.h"
#include "data/loader/loader.h"

/* Whether two requests give the same tensors. */
static bool same(const lk_loader *l, const lk__request *a, const lk__request *b)
{
    bool random = l->options.shuffle || l->moves_any;
    return a->number == b->number && a->first == b->first && a->n == b->n &&
           (a->epoch == b->epoch || !random);
}

/* The same part of the next batch. */
static lk__request following(const lk_loader *l, const lk__request *r)
{
    lk__request next = *r;
    if (++next.number == lk_loader_batches(l)) {
        next.number = 0;
        next.epoch++;
    }
    int64_t size = lk_loader_batch_size(l, next.number);
    next.first = l->part_first < size ? l->part_first : size;
    next.n = l->part_n < size - next.first ? l->part_n : size - next.first;
    return next;
}

static void fill(lk__reader *r, lk__loader_slot *s)
{
    s->status = lk__slot_fill(r->loader, r, s);
    if (s->status != LK_OK) {
        snprintf(s->message, sizeof s->message, "%s", lk_error_message());
        lk_error_clear();
    }
}

/* Use the time while all slots are prepared: read ahead for those that come.  The lock is given away
 * meanwhile; false: there is nothing to read. */
static bool read_ahead(lk_loader *l)
{
    lk__request next = l->next;
    lk_range part = {l->part_first, l->part_n};
    if (l->order_size == 0)
        return false;
    l->busy++;
    pthread_mutex_unlock(&l->lock);
    bool did = lk__buffers_ahead(l, next.epoch, next.number * l->options.batch + next.first, part);
    pthread_mutex_lock(&l->lock);
    l->busy--;
    pthread_cond_signal(&l->done);
    return did;
}

/* Whether a reader has to wait. */
static bool is_full(const lk_loader *l)
{
    return !l->stop && (l->idle || l->begun == l->n_slots - 1);
}

static void *prepare(void *context)
{
    LK_FP_GUARD();
    lk__reader *r = context;
    lk_loader *l = r->loader;
    pthread_mutex_lock(&l->lock);
    for (;;) {
        while (is_full(l))
            if ((l->idle || !read_ahead(l)) && is_full(l))
                pthread_cond_wait(&l->work, &l->lock);
        if (l->stop)
            break;
        lk__loader_slot *s = &l->slot[(l->head + l->begun++) % l->n_slots];
        s->request = l->next;
        s->ready = false;
        l->next = following(l, &l->next);
        l->busy++;
        pthread_mutex_unlock(&l->lock);
        fill(r, s);
        pthread_mutex_lock(&l->lock);
        l->busy--;
        s->ready = true;
        if (s->status != LK_OK)
            l->idle = true;            /* until the caller has seen the failure */
        pthread_cond_signal(&l->done); /* the caller alone waits for it */
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

void lk__readers_start(lk_loader *l)
{
    if (l->started > 0 || l->n_slots == 1)
        return;
    while (l->started < l->n_readers && lk__thread_start(&l->reader[l->started].thread, NULL,
                                                         prepare, &l->reader[l->started]) == 0)
        l->started++;
}

/* The same with the lock held. */
static void pause_locked(lk_loader *l)
{
    l->idle = true; /* so that nothing new is begun */
    while (l->busy > 0)
        pthread_cond_wait(&l->done, &l->lock);
    l->begun = 0;
}

void lk__loader_pause(lk_loader *l)
{
    pthread_mutex_lock(&l->lock);
    pause_locked(l);
    pthread_mutex_unlock(&l->lock);
}

void lk__loader_forget(lk_loader *l)
{
    lk__loader_pause(l);
    lk__scratch_drop(l);
    lk__buffers_drop(l);
}

/* The prepared slot of request `r`, which may have to be waited for. */
static lk__loader_slot *take(lk_loader *l, const lk__request *r)
{
    pthread_mutex_lock(&l->lock);
    if (lk_loader_batch_size(l, r->number) == l->options.batch || lk_loader_batches(l) == 1) {
        l->part_first = r->first;
        l->part_n = r->n;
    }
    const lk__request *expected = l->begun > 0 ? &l->slot[l->head].request : &l->next;
    if ((l->idle && l->begun == 0) || !same(l, expected, r)) {
        pause_locked(l);
        l->next = *r;
        l->idle = false;
        pthread_cond_broadcast(&l->work);
    }
    lk__loader_slot *s = &l->slot[l->head];
    while (l->begun == 0 || !s->ready)
        pthread_cond_wait(&l->done, &l->lock);
    l->head = (l->head + 1) % l->n_slots;
    l->begun--;
    pthread_cond_signal(&l->work);
    pthread_mutex_unlock(&l->lock);
    return s;
}

lk__loader_slot *lk__readers_get(lk_loader *l, const lk__request *r)
{
    if (l->started > 0)
        return take(l, r);
    l->slot[0].request = *r;
    fill(&l->reader[0], &l->slot[0]);
    return &l->slot[0];
}

void lk__readers_stop(lk_loader *l)
{
    pthread_mutex_lock(&l->lock);
    l->stop = true;
    pthread_cond_broadcast(&l->work);
    pthread_mutex_unlock(&l->lock);
    for (int i = 0; i < l->started; i++)
        pthread_join(l->reader[i].thread, NULL);
}
