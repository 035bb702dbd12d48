/* Packets find receives: in the order they were sent, by communicator, sender and tag.
 *
 *     send/recv     context, source or any, tag or any, number of the message that is repeated
 *     collectives   context, source, number of the call; and then the labels must agree, otherwise
 *                   the ranks made different calls
 *
 * A packet without a receive yet is kept in `early`, a receive without a packet in `posted`.
 */
#include "base/journal.h"
#include "comm/comm.h"
#include "comm/progress_thread.h"

#include <lockstep/extra/alloc.h>

#include <string.h>

void lk__world_init(lk__world *w)
{
    w->early_end = &w->early;
    w->status.state = LK_STATE_COMPUTING;
    w->status.peer = -1;
    lk__slot_write(w->board[w->rank], &w->status);
}

void lk__world_clear(lk__world *w)
{
    lk__progress_thread_stop(w);
    while (w->early) {
        lk__packet *p = w->early;
        w->early = p->next;
        w->transport->drop(w, p);
    }
    w->early_end = &w->early;
}

static bool matches(const lk_request *r, const lk__packet *p)
{
    const lk__header *want = &r->label->h, *h = &p->label.h;
    if (h->context != want->context || h->kind != want->kind)
        return false;
    if (r->peer != LK_ANY_RANK && r->peer != h->source)
        return false;
    if (h->kind == LK_KIND_COLLECTIVE)
        return h->sequence == want->sequence;
    if (h->past != want->past)
        return false;
    return r->tag == LK_ANY_TAG ? h->tag < LK_ADJOINT_TAG_BASE : h->tag == r->tag;
}

/* Fetch a payload that comes apart, to room of its own. */
static lk_status fetch(lk_request *r, lk__packet *p)
{
    lk__world *w = r->comm->w;
    LK_TRY(lk_alloc(&r->room, p->label.h.bytes, 1));
    r->claimed = NULL;
    r->peer = p->label.h.source;
    r->data = r->room;
    r->bytes = p->label.h.bytes;
    return LK_TRACE(w->transport->take(w, p, r));
}

/* Keep the message for lk__claim_take(), if what it says of itself can be believed. */
static lk_status claim(lk_request *r, lk__packet *p)
{
    const lk__header *h = &p->label.h;
    int64_t bytes;
    r->claimed = p;
    LK_CHECK(h->count >= 0 && lk_dtype_size(h->dtype) > 0, LK_ECOMM,
             "rank %d has sent %lld elements of dtype number %d", r->info.rank, (long long)h->count,
             (int)h->dtype);
    LK_TRY(lk__extent("recv", h->count, (int64_t)lk_dtype_size(h->dtype), &bytes));
    LK_CHECK(h->bytes == bytes, LK_ECOMM, "rank %d has sent %lld bytes as %s x %lld", r->info.rank,
             (long long)h->bytes, lk_dtype_name(h->dtype), (long long)h->count);
    if (r->prompt && h->lane)
        return fetch(r, p);
    atomic_store_explicit(&r->done, 1, memory_order_relaxed);
    return LK_OK;
}

/* Whether the ranks agree on what is sent. */
static bool agrees(const lk_request *r, const lk__packet *p)
{
    const lk__header *want = &r->label->h, *h = &p->label.h;
    if (h->kind == LK_KIND_COLLECTIVE)
        return lk__label_difference(r->label, &p->label) == LK_SAME && h->bytes == r->bytes;
    return (r->any || h->dtype == want->dtype) && (r->claims || h->bytes <= r->bytes);
}

/* The packet is for this receive: check that the ranks agree, then take the payload. */
static lk_status deliver(lk_request *r, lk__packet *p)
{
    lk_comm *comm = r->comm;
    lk__world *w = comm->w;
    const lk__header *h = &p->label.h;
    if (!agrees(r, p)) {
        lk__label mine = *r->label, theirs = p->label;
        mine.h.bytes = r->bytes;
        if (r->claims)
            mine.h.count = h->count;
        w->transport->drop(w, p);
        return lk__report_mismatch(comm, &mine, &theirs);
    }
    r->info = (lk_message){.rank = lk__comm_rank_of(comm, h->source),
                           .tag = h->tag,
                           .count = h->count,
                           .dtype = h->dtype,
                           .sequence = h->sequence,
                           .ndim = -1};
    r->moved++;
    bool readable = h->kind == LK_KIND_COLLECTIVE ||
                    lk__label_shape(&p->label, &r->info.ndim, r->info.dim);
    if (!readable) {
        w->transport->drop(w, p);
        return LK_RAISE(LK_ECOMM, "rank %d has sent a message whose shape cannot be read",
                        r->info.rank);
    }
    if (r->claims)
        return claim(r, p);
    return LK_TRACE(w->transport->take(w, p, r));
}

static void unlink_posted(lk__world *w, lk_request *r)
{
    *(r->prev ? &r->prev->next : &w->posted) = r->next;
    if (r->next)
        r->next->prev = r->prev;
    else
        w->posted_last = r->prev;
    r->in_list = false;
}

lk_status lk__check_label(lk__world *w, const lk__label *label)
{
    const lk__header *h = &label->h;
    lk_comm *c = w->comms;
    while (c && c->context != h->context)
        c = c->next;
    if (h->kind != LK_KIND_COLLECTIVE || !c || h->sequence > c->n_calls ||
        h->sequence <= c->n_calls - LK_RECENT)
        return LK_OK;
    const lk__label *mine = &c->recent[h->sequence % LK_RECENT];
    if (mine->h.sequence != h->sequence || lk__label_difference(mine, label) == LK_SAME)
        return LK_OK;
    return lk__report_mismatch(c, mine, label);
}

lk_status lk__check_early(lk__world *w)
{
    w->begun = false;
    for (const lk__packet *p = w->early; p; p = p->next)
        LK_TRY(lk__check_label(w, &p->label));
    return LK_OK;
}

lk_status lk__arrive(lk__world *w, lk__packet *p)
{
    w->n_arrived++;
    w->n_to_itself -= p->label.h.source == w->rank;
    for (lk_request *r = w->posted; r; r = r->next) {
        if (!matches(r, p))
            continue;
        unlink_posted(w, r);
        return deliver(r, p);
    }
    p->next = NULL;
    *w->early_end = p;
    w->early_end = &p->next;
    return lk__check_label(w, &p->label); /* that it is not received may be the mistake */
}

lk_status lk__pending_send(lk_request *r)
{
    r->type = LK_REQUEST_SEND;
    lk__world *w = r->comm->w;
    LK_TRY(w->transport->send(w, r));
    w->n_to_itself += r->peer == w->rank;
    return LK_OK;
}

lk_status lk__pending_recv(lk_request *r)
{
    lk__world *w = r->comm->w;
    r->type = LK_REQUEST_RECV;
    for (lk__packet **at = &w->early; *at; at = &(*at)->next) {
        lk__packet *p = *at;
        if (!matches(r, p))
            continue;
        *at = p->next;
        if (!p->next)
            w->early_end = at;
        return deliver(r, p);
    }
    r->in_list = true;
    r->next = NULL;
    r->prev = w->posted_last;
    *(r->prev ? &r->prev->next : &w->posted) = r;
    w->posted_last = r;
    return LK_OK;
}

/* The two ends of a message of this rank to itself, of which one is there. */
static bool is_own_message(const lk_comm *comm, const lk__header *h)
{
    return h->kind == LK_KIND_P2P && h->context == comm->context &&
           (h->past != 0) == lk__journal_repeats();
}

lk_status lk__comm_matches_itself(lk_comm *comm, bool receives, int64_t tag, bool *out)
{
    lk__world *w = comm->w;
    LK_INSIDE(w);
    *out = false;
    do
        LK_TRY(lk__progress(w));
    while (w->n_to_itself > 0);
    for (const lk__packet *p = w->early; receives && p && !*out; p = p->next)
        *out = is_own_message(comm, &p->label.h) && p->label.h.source == w->rank &&
               (tag == LK_ANY_TAG ? p->label.h.tag < LK_ADJOINT_TAG_BASE : p->label.h.tag == tag);
    for (const lk_request *r = w->posted; !receives && r && !*out; r = r->next)
        *out = is_own_message(comm, &r->label->h) && (r->tag == LK_ANY_TAG || r->tag == tag) &&
               (r->peer == LK_ANY_RANK || r->peer == w->rank);
    return LK_OK;
}

void lk__activate(lk_request *r)
{
    lk__world *w = r->comm->w;
    r->type = LK_REQUEST_COLLECTIVE;
    r->in_list = true;
    r->prev = NULL;
    r->next = w->active;
    if (r->next)
        r->next->prev = r;
    w->active = r;
}

static void unlink_active(lk__world *w, lk_request *r)
{
    *(r->prev ? &r->prev->next : &w->active) = r->next;
    if (r->next)
        r->next->prev = r->prev;
    r->in_list = false;
}

void lk__request_end(lk_request *r)
{
    lk__world *w = r->comm->w;
    if (r->in_list && r->type == LK_REQUEST_RECV)
        unlink_posted(w, r);
    else if (r->in_list)
        unlink_active(w, r);
    if (r->type == LK_REQUEST_RECV && r->claimed)
        w->transport->drop(w, r->claimed);
    if (r->type == LK_REQUEST_RECV && lk__request_done(r))
        lk__journal_write(r->place, r->info.rank, r->info.sequence);
    if (r->type != LK_REQUEST_COLLECTIVE)
        w->transport->withdraw(w, r);
    if (r->type == LK_REQUEST_RECV)
        lk_free(r->room);
    if (r->after)
        r->after->free(r->after);
    if (r->release)
        r->release(r);
}
