/* lk__pending: the messages under way of a tape, and the communicators that it has seen. */
#include "dist/common/pending.h"

#include "autograd/tape_access.h"
#include "comm/user.h"

#include <lockstep/extra/alloc.h>

#include <stdio.h>
#include <string.h>

/* A communicator that the tape has seen. */
typedef struct seen {
    lk__comm_user user;
    struct seen *next;
    struct pending_list *owner;
    lk_comm *comm;
} seen;

/* Of one tape.  Posts are in the order of their handles. */
typedef struct pending_list {
    lk__tape_extension extension;
    int64_t n, capacity;
    lk__pending *pending;
    seen *seen;
    const lk_comm *last; /* seen, and not freed */
} pending_list;

lk_short_string lk__pending_text(const lk__pending *p)
{
    lk_short_string t;
    int rank = p->info.rank;
    const char *call = p->sends ? "isend" : p->blocking ? "recv" : "irecv";
    if (rank >= 0)
        snprintf(t.s, sizeof t.s, "%s(\"%s\") %s rank %d", call, p->d.name,
                 p->sends ? "to" : "from", rank);
    else
        snprintf(t.s, sizeof t.s, "%s(\"%s\") from any rank", call, p->d.name);
    return t;
}

/* End what is under way on `comm` (NULL: any).  Where others may wait for it, or it is `wrong` that
 * it was not waited for, the job ends. */
static void give_up(pending_list *s, const lk_comm *comm, const char *why, bool wrong)
{
    for (int64_t i = 0; i < s->n; i++) {
        lk__pending *p = &s->pending[i];
        if (!p->request || (comm && p->d.comm != comm))
            continue;
        if (wrong || !lk__request_is_over(p->request)) {
            char report[320];
            snprintf(report, sizeof report,
                     "rank %d %s before it has waited for %s: lk_dist_wait() is missing",
                     lk_comm_rank(p->d.comm), why, lk__pending_text(p).s);
            lk__comm_end_job(p->d.comm, wrong ? LK_ESTATE : LK_ECOMM, report);
        }
        lk__request_drop(&p->request);
    }
}

static void comm_freed(lk__comm_user *user)
{
    seen *c = (seen *)(void *)user;
    give_up(c->owner, c->comm, "has freed the communicator", false);
    c->owner->last = NULL;
}

/* Forget communicators: all, or those that were freed. */
static void forget(pending_list *s, bool all)
{
    for (seen **at = &s->seen; *at;) {
        seen *c = *at;
        if (!all && !lk__comm_is_freed(c->comm)) {
            at = &c->next;
            continue;
        }
        *at = c->next;
        lk__comm_leave(c->comm, &c->user);
        lk_free(c);
    }
}

static void pending_reset(lk__tape_extension *g)
{
    pending_list *s = (pending_list *)g;
    give_up(s, NULL, "has reset the tape", true);
    s->n = 0;
    forget(s, false);
}

static void pending_free(lk__tape_extension *g)
{
    pending_list *s = (pending_list *)g;
    give_up(s, NULL, "has freed the tape", false);
    forget(s, true);
    lk_free(s->pending);
    lk_free(s);
}

static lk_status pending_ready(lk__tape_extension *g)
{
    const pending_list *s = (const pending_list *)g;
    for (int64_t i = 0; i < s->n; i++)
        LK_CHECK(s->pending[i].waited || !s->pending[i].recorded, LK_ESTATE,
                 "backward before %s has been waited for: lk_dist_wait() is missing",
                 lk__pending_text(&s->pending[i]).s);
    return LK_OK;
}

void lk__dist_end_job(lk_comm *comm)
{
    char report[400];
    if (lk__comm_is_freed(comm) || lk_comm_size(comm) == 1)
        return;
    snprintf(report, sizeof report, "rank %d failed: %s: %.300s", lk_comm_rank(comm),
             lk_status_text(lk_error_status()), lk_error_message());
    lk__comm_end_job(comm, LK_ECOMM, report);
}

/* A sum that is not finite has failed on all its ranks alike. */
static void pending_failed(lk__tape_extension *g, lk_status st)
{
    const pending_list *s = (const pending_list *)g;
    if (st == LK_ENAN)
        return;
    for (const seen *c = s->seen; c; c = c->next)
        lk__dist_end_job(c->comm);
}

lk_status lk__dist_failed(lk_comm *comm, lk_status st)
{
    if (st == LK_ENOMEM && comm)
        lk__dist_end_job(comm);
    return st;
}

static lk_status pending_of(lk_tape *t, pending_list **out)
{
    lk__tape_extension **extension = lk__tape_extension_slot(t);
    if (!*extension) {
        LK_TRY(lk_alloc_zero(out, 1, sizeof **out));
        (*out)->extension = (lk__tape_extension){pending_reset, pending_ready, pending_failed,
                                                 pending_free};
        *extension = &(*out)->extension;
    }
    *out = (pending_list *)*extension;
    return LK_OK;
}

lk_status lk__dist_uses(lk_tape *t, lk_comm *comm, const char *call)
{
    pending_list *s = NULL;
    LK_TRY(pending_of(t, &s));
    if (s->last == comm)
        return LK_OK;
    seen *c = s->seen;
    while (c && c->comm != comm)
        c = c->next;
    LK_CHECK(!c || !lk__comm_is_freed(comm), LK_ESTATE,
             "%s: the communicator was freed; free it after the tape", call);
    if (!c) {
        LK_TRY(lk_alloc(&c, 1, sizeof *c));
        *c = (seen){.user = {.freed = comm_freed}, .next = s->seen, .owner = s, .comm = comm};
        s->seen = c;
        lk__comm_use(comm, &c->user);
    }
    s->last = comm;
    return LK_OK;
}

lk_status lk__pending_room(lk_tape *t)
{
    pending_list *s = NULL;
    LK_TRY(pending_of(t, &s));
    if (s->n < s->capacity)
        return LK_OK;
    int64_t capacity = s->n < 8 ? 16 : 2 * s->n;
    lk__pending *more = NULL;
    LK_TRY(lk_alloc(&more, capacity, sizeof *more));
    if (s->n > 0)
        memcpy(more, s->pending, (size_t)s->n * sizeof *more);
    lk_free(s->pending);
    s->pending = more;
    s->capacity = capacity;
    return LK_OK;
}

void lk__pending_add(lk_tape *t, const lk__pending *pending)
{
    pending_list *s = (pending_list *)*lk__tape_extension_slot(t);
    s->pending[s->n] = *pending;
    s->pending[s->n].recorded = lk__tape_writes(t);
    s->pending[s->n].segment = lk__tape_segment(t);
    s->n++;
    lk__var_hold(pending->handle);
    lk__var_hold(pending->data);
}

lk__pending *lk__pending_find(lk_var handle)
{
    pending_list *s = handle.tape ? (pending_list *)*lk__tape_extension_slot(handle.tape) : NULL;
    int64_t low = 0, high = s ? s->n : 0;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (s->pending[middle].handle.serial < handle.serial)
            low = middle + 1;
        else
            high = middle;
    }
    return s && low < s->n && s->pending[low].handle.serial == handle.serial ? &s->pending[low]
                                                                             : NULL;
}

void lk__pending_done(lk_var handle)
{
    pending_list *s = (pending_list *)*lk__tape_extension_slot(handle.tape);
    lk__pending *p = lk__pending_find(handle);
    lk__var_release(p->data);
    lk__var_release(p->handle);
    p->waited = true;
    while (s->n > 0 && s->pending[s->n - 1].waited && !s->pending[s->n - 1].recorded)
        s->n--;
}
