/* lk_request: wait, test, wait for all or any, and what the message was.  A request belongs to the
 * rank that made it, and ends in one of these calls. */
#include "base/failure.h"
#include "base/journal.h"
#include "comm/comm.h"
#include "comm/progress_thread.h"
#include "comm/user.h"

#include <lockstep/extra/alloc.h>

#include <string.h>

/* The request is over, well or not: give the host its result and release it, unless it has claimed a
 * message that is still to be taken. */
static void finish(lk_request **request, lk_message *info)
{
    lk_request *r = *request;
    if (lk__request_claimed(r) && info) {
        *info = r->info;
        lk__call_end(r->comm);
        return;
    }
    *request = NULL;
    if (info && r->type != LK_REQUEST_COLLECTIVE)
        *info = r->info;
    lk__call_end(r->comm);
    bool heap = r->heap;
    lk__request_end(r);
    if (heap)
        lk_free(r);
}

/* A request that is done: what belongs to it besides. */
static lk_status settle(const lk_request *r, bool wait, bool *done)
{
    *done = true;
    return r->after ? r->after->settle(r->after, wait, done) : LK_OK;
}

static lk_status wait_one(lk_request *r)
{
    bool done;
    LK_TRY(lk__wait_one(r));
    return LK_TRACE(settle(r, true, &done));
}

lk_status lk_wait(lk_request **request, lk_message *info)
{
    LK_CHECK(request, LK_EINVAL, "request is NULL");
    if (!*request)
        return LK_OK;
    LK_INSIDE((*request)->comm->w);
    lk_status st = wait_one(*request);
    finish(request, st == LK_OK ? info : NULL);
    return LK_TRACE(st);
}

lk_status lk_test(lk_request **request, bool *done, lk_message *info)
{
    LK_CHECK(request && done, LK_EINVAL, "%s is NULL", request ? "done" : "request");
    *done = true;
    if (!*request)
        return LK_OK;
    lk__world *w = (*request)->comm->w;
    LK_INSIDE(w);
    lk_status st = lk__progress(w);
    if (st == LK_OK && !lk__request_done(*request))
        st = lk__fault_check(w);
    if (st == LK_OK && !lk__request_done(*request))
        st = lk__watch_test(*request);
    *done = st != LK_OK || lk__request_done(*request);
    if (st == LK_OK && *done)
        st = settle(*request, false, done);
    *done |= st != LK_OK;
    if (*done)
        finish(request, st == LK_OK ? info : NULL);
    return LK_TRACE(st);
}

lk_status lk_waitall(int64_t n, lk_request **requests)
{
    LK_CHECK(n >= 0 && (requests || n == 0), LK_EINVAL, "%lld requests at %p", (long long)n,
             (void *)requests);
    lk__failure first = {.st = LK_OK}; /* the others are waited for all the same */
    for (int64_t i = 0; i < n; i++) {
        if (!requests[i])
            continue;
        LK_INSIDE(requests[i]->comm->w);
        lk_status st = wait_one(requests[i]);
        if (st != LK_OK && first.st == LK_OK)
            lk__failure_get(&first);
        finish(&requests[i], NULL);
    }
    if (first.st != LK_OK)
        lk__failure_set(&first);
    return LK_TRACE(first.st);
}

/* Wait for one of them; in a segment that is run again, for the one that its first run got. */
static lk_status wait_any(int64_t n, lk_request **requests, int64_t *which)
{
    int64_t place, first[2];
    const lk__journal_key key = {{UINT64_MAX, (uint64_t)n}};
    if (lk__journal_take(key, first) && requests[first[0]]) {
        *which = first[0];
        LK_TRY(lk__wait_one(requests[*which]));
    } else {
        LK_TRY(lk__wait_any(n, requests, which));
    }
    LK_TRY_COMM(requests[*which]->comm->w, lk__journal_add(key, &place));
    lk__journal_write(place, *which, 0);
    return LK_OK;
}

lk_status lk_waitany(int64_t n, lk_request **requests, int64_t *which, lk_message *info)
{
    LK_CHECK(which, LK_EINVAL, "which is NULL");
    *which = -1;
    LK_CHECK(n >= 0 && (requests || n == 0), LK_EINVAL, "%lld requests at %p", (long long)n,
             (void *)requests);
    int64_t some = 0;
    while (some < n && !requests[some])
        some++;
    if (some == n)
        return LK_OK;
    LK_INSIDE(requests[some]->comm->w);
    bool done;
    lk_status st = wait_any(n, requests, which);
    if (st != LK_OK)
        *which = some;
    else
        st = settle(requests[*which], true, &done);
    finish(&requests[*which], st == LK_OK ? info : NULL);
    return LK_TRACE(st);
}

lk_message lk_request_message(const lk_request *request)
{
    LK_INSIDE(request->comm->w);
    return request->info;
}

/* The payload is still where the packet is, or with its sender. */
static lk_status claimed_take(lk_request *r, void *data)
{
    lk__world *w = r->comm->w;
    lk__packet *p = r->claimed;
    r->claimed = NULL;
    r->peer = p->label.h.source;
    r->data = data;
    r->bytes = p->label.h.bytes;
    atomic_store_explicit(&r->done, 0, memory_order_relaxed);
    lk_status st = w->transport->take(w, p, r);
    return st == LK_OK ? lk__wait_one(r) : lk__fault_raise(w);
}

lk_status lk__claim_take(lk_request **request, void *data)
{
    lk_request *r = *request;
    lk_status st = LK_OK;
    LK_INSIDE(r->comm->w);
    if (r->room)
        memcpy(data, r->room, (size_t)r->bytes);
    else
        st = claimed_take(r, data);
    finish(request, NULL);
    return LK_TRACE(st);
}

/* A sender may still wait for a claimed message to be taken. */
bool lk__request_is_over(lk_request *r)
{
    bool claimed = r->type == LK_REQUEST_RECV && r->claimed;
    return lk__request_done(r) && !(claimed && r->claimed->label.h.lane);
}

void lk__request_drop(lk_request **request)
{
    finish(request, NULL);
}
