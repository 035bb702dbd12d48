/* Packets between ranks that are threads of one process: the transports `self` and `local`.
 *
 *     sender                                          receiver
 *     packet with a copy (small), or an offer  ─►     inbox: a stack, pushed by any rank
 *     of the sender's memory (large)                  taken whole, turned round: first in, first out
 *                                                     copies an offer, marks it done
 *     sees its request done                    ◄─     notifies the sender
 *
 * An offer has two holders, sender and packet; the last one frees it.  A sender that gives up takes
 * the offer back, or waits for the copy under way: so no thread touches the memory of a rank that has
 * returned.
 */
#include "comm/local/end.h"

#include <lockstep/extra/alloc.h>

#include <sched.h>
#include <string.h>

enum { EAGER_BYTES = 4096 };

enum { OFFERED, TAKEN, DONE, WITHDRAWN };

struct lk__local_offer {
    _Atomic int state, holders;
    int sender; /* world rank */
    lk_request *request;
};

static void offer_drop(struct lk__local_offer *o)
{
    if (o && atomic_fetch_sub(&o->holders, 1) == 1)
        lk_free(o);
}

void lk__local_drop(lk__world *w, lk__packet *p)
{
    (void)w;
    offer_drop(p->offer);
    lk_free(p);
}

lk_status lk__local_send(lk__world *w, lk_request *r)
{
    lk_status st;
    struct lk__local_end *to = &((struct lk__local_end *)w)->job->end[r->peer];
    bool large = r->bytes > EAGER_BYTES;
    lk__packet *p = NULL;
    LK_TRY(lk_alloc(&p, (int64_t)sizeof *p + (large ? 0 : r->bytes), 1));
    *p = (lk__packet){.label = *r->label, .payload = large ? r->data : p + 1};
    p->label.h.bytes = r->bytes;
    p->label.h.lane = large;
    if (large) {
        struct lk__local_offer *o = NULL;
        LK_TRY_TO(fail, lk_alloc(&o, 1, sizeof *o));
        o->sender = w->rank;
        o->request = r;
        atomic_init(&o->state, OFFERED);
        atomic_init(&o->holders, 2);
        r->offer = p->offer = o;
    } else {
        if (r->bytes > 0)
            memcpy(p + 1, r->data, (size_t)r->bytes);
        atomic_store_explicit(&r->done, 1, memory_order_relaxed);
    }
    w->n_sent++;
    lk__packet *head = atomic_load_explicit(&to->inbox, memory_order_relaxed);
    do
        p->next = head;
    while (!atomic_compare_exchange_weak(&to->inbox, &head, p));
    lk__wakeup_notify(&to->wakeup);
    return LK_OK;
fail:
    lk_free(p);
    return st;
}

lk_status lk__local_poll(lk__world *w)
{
    struct lk__local_end *e = (struct lk__local_end *)w;
    if (!atomic_load_explicit(&e->inbox, memory_order_relaxed))
        return LK_OK;
    lk__packet *p = atomic_exchange(&e->inbox, NULL), *first = NULL;
    while (p) {
        lk__packet *next = p->next;
        p->next = first;
        first = p;
        p = next;
    }
    lk_status st = LK_OK;
    while (first) {
        p = first;
        first = p->next;
        w->n_taken++;
        if (st == LK_OK)
            st = lk__arrive(w, p);
        else
            lk__local_drop(w, p);
    }
    return st;
}

lk_status lk__local_take(lk__world *w, lk__packet *p, lk_request *r)
{
    struct lk__local_offer *o = p->offer;
    int offered = OFFERED;
    if (o && !atomic_compare_exchange_strong(&o->state, &offered, TAKEN)) {
        lk__local_drop(w, p);
        return lk__fault_check(w); /* the sender gave up, which it does after a fault only */
    }
    if (p->label.h.bytes > 0)
        memcpy(r->data, p->payload, (size_t)p->label.h.bytes);
    if (o) {
        w->n_posts++;
        struct lk__local_end *from = &((struct lk__local_end *)w)->job->end[o->sender];
        atomic_store_explicit(&o->request->done, 1, memory_order_release);
        atomic_store_explicit(&o->state, DONE, memory_order_release);
        lk__wakeup_notify(&from->wakeup);
    }
    atomic_store_explicit(&r->done, 1, memory_order_relaxed);
    lk__local_drop(w, p);
    return LK_OK;
}

void lk__local_withdraw(lk__world *w, lk_request *r)
{
    (void)w;
    struct lk__local_offer *o = r->offer;
    if (!o)
        return;
    int offered = OFFERED;
    if (!atomic_compare_exchange_strong(&o->state, &offered, WITHDRAWN))
        while (atomic_load_explicit(&o->state, memory_order_acquire) != DONE)
            sched_yield();
    r->offer = NULL;
    offer_drop(o);
}

int64_t lk__local_nap(lk__world *w, int64_t ns)
{
    (void)w;
    return ns;
}

void lk__local_spread(lk__world *w)
{
    struct lk__local_job *job = ((struct lk__local_end *)w)->job;
    for (int r = 0; r < job->n; r++)
        lk__wakeup_notify(&job->end[r].wakeup);
}
