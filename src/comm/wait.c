/* Waiting: poll for a moment, then sleep, and look at the clock.
 *
 * With a core for each rank the answer is usually there within microseconds, and falling asleep
 * would cost more; with more ranks than cores the one that is waited for needs the core.  So a rank
 * polls w->spins times and then naps until it is notified (wakeup.h); what arrives begins the polls anew.  If
 * polls take long, its core is not its own after all, and it naps earlier: Open MPI may offer the core
 * to others in each.  With more ranks than cores a rank offers the core to the others between w->yields
 * polls instead: a switch that way takes a fifth of the time of a nap and a wake, and while all ranks
 * come soon, none has to be woken.  With very many ranks such polls would be most of what the cores do,
 * and it naps at once.
 * Naps are short enough to see a fault and the deadline.  The deadline counts from the beginning of the
 * wait, and anew whenever what is waited for comes further: a message of it is matched or complete, a
 * flag of it is posted.  Other messages are no reason to wait longer.  When those who are waited for are
 * known to have left or ended, the deadline is not waited for; and from time to time their calls are
 * compared with this rank's, for two that wait for each other in different calls send nothing.  Nor is
 * it waited for when all ranks wait in vain: vain.h.
 */
#include "base/futex.h"
#include "comm/comm.h"
#include "comm/faults/vain.h"
#include "comm/progress_thread.h"

#include <lockstep/extra/clock.h>

#include <sched.h>

enum { POLLS_PER_CLOCK = 256, POLLS_PER_GLANCE = 16, SPINS = 2000, YIELDS = 10, CROWD = 8 };

/* In ns.  A rank has been seen gone for `grace` before it is reported: what it sent has then arrived.
 * Between two looks at the clock at most `longest_look` counts: more means that this process did not
 * run, and has not looked at what arrived meanwhile. */
static const int64_t longest_nap = 50000000, grace = 100000000, longest_look = 200000000;

/* In ns: polls that take longer than this are no way to wait. */
static const int64_t longest_spin = 5000000;

/* In ns: when the calls of who is waited for are compared first, and how often after that. */
static const int64_t first_compare = 50000000, next_compare = 250000000;

/* In ns: when a wait is shown to others as a rest, and when they are first asked.  Waits that are short
 * pay nothing for it, and calls that differ have been compared before. */
static const int64_t first_rest = 50000000, first_question = 100000000;

void lk__wait_pace(lk__world *w, int64_t ranks, int64_t cores)
{
    w->spins = ranks <= cores ? SPINS : 0;
    w->yields = ranks > cores && ranks <= CROWD * cores ? YIELDS : 0;
}

lk_status lk__progress(lk__world *w)
{
    LK_TRY(lk__fault_check(w));
    LK_TRY_COMM(w, w->transport->poll(w));
    if (w->begun)
        LK_TRY_COMM(w, lk__check_early(w));
    for (lk_request *r = w->active, *next; r; r = next) {
        next = r->next;
        if (!lk__request_done(r))
            LK_TRY_COMM(w, r->advance(r));
    }
    return LK_OK;
}

static bool any_done(int64_t n, lk_request *const *requests, int64_t *which)
{
    for (*which = 0; *which < n; ++*which)
        if (requests[*which] && lk__request_done(requests[*which]))
            return true;
    return false;
}

/* Write on the board whom this rank waits for, when it changes. */
static void show_peer(lk__world *w, const lk_request *r)
{
    const lk__header *h = &r->label->h;
    if (w->status.state == LK_STATE_CALLING && w->status.peer == r->peer)
        return;
    bool newest = h->kind == LK_KIND_COLLECTIVE && h->context == w->shown_comm &&
                  h->sequence == w->shown_call;
    w->status.state = LK_STATE_CALLING;
    w->status.peer = r->peer;
    w->status.at = w->status.at % LK_BOARD_CALLS + (newest ? 0 : LK_ASIDE);
    if (newest)
        lk__slot_write(w->board[w->rank], &w->status);
    else
        lk__slot_write_call(w->board[w->rank], &w->status, r->label);
}

/* Whether no rank is left that could complete one of the requests.  A rank that is `blocked` sends itself
 * nothing more. */
static bool all_gone(int64_t n, lk_request *const *requests, bool blocked)
{
    for (int64_t i = 0; i < n; i++) {
        const lk_request *r = requests[i];
        if (!r || (r->peer >= 0 && lk__rank_gone(r->comm->w, r->peer)))
            continue;
        if (r->peer != LK_ANY_RANK || r->type != LK_REQUEST_RECV)
            return false;
        for (int k = 0; k < r->comm->size; k++) {
            bool own = r->comm->member[k] == r->comm->w->rank;
            if (own ? !blocked : !lk__rank_gone(r->comm->w, r->comm->member[k]))
                return false;
        }
    }
    return true;
}

static int64_t moved(int64_t n, lk_request *const *requests)
{
    int64_t sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += requests[i] ? requests[i]->moved : 0;
    return sum;
}

/* Compare the calls of those who are waited for, now and then. */
static lk_status compare(lk__watch *t, int64_t n, lk_request *const *requests)
{
    enum { MOST = 16 };
    int64_t next = t->compared == 0 ? first_compare : t->compared + next_compare;
    if (t->waited < next)
        return LK_OK;
    t->compared = t->waited;
    for (int64_t i = 0; i < n && i < MOST; i++)
        if (requests[i])
            LK_TRY(lk__compare_peer(requests[i]));
    return LK_OK;
}

/* Look at the clock: report if the wait is in vain, otherwise say how long it may go on. */
static lk_status watch(lk__watch *t, int64_t n, lk_request *const *requests,
                       const lk_request *first, bool blocked, int64_t *left)
{
    lk__world *w = first->comm->w;
    const int64_t deadline = first->comm->deadline_ns, now = lk_clock_ns();
    int64_t so_far = moved(n, requests);
    if (t->last == 0 || t->moved != so_far)
        *t = (lk__watch){.last = now, .moved = so_far};
    int64_t more = now - t->last < longest_look ? now - t->last : longest_look;
    bool gone = t->waited >= grace && all_gone(n, requests, blocked);
    t->last = now;
    t->waited += more;
    t->gone = !gone ? 0 : t->gone == 0 ? 1 : t->gone + more; /* from the first look at it on */
    LK_TRY_COMM(w, compare(t, n, requests));
    if ((deadline > 0 && t->waited >= deadline) || t->gone >= grace)
        LK_TRY_COMM(w, lk__report_stall(first, t->waited));
    if (blocked && t->waited >= first_question)
        LK_TRY_COMM(w, lk__vain_check(w, now));
    int64_t waited = t->waited;
    *left = deadline > 0 && deadline - waited < longest_nap ? deadline - waited : longest_nap;
    return LK_OK;
}

/* Sleep, unless a last look finds that something has changed. */
static lk_status sleep_on_wakeup(const lk_request *first, int64_t n, lk_request *const *requests,
                                 bool rests, int64_t ns)
{
    lk__world *w = first->comm->w;
    uint64_t question = rests ? lk__rest_question(w) : 0;
    lk__wakeup *own = w->wakeup[w->rank];
    int64_t arrived = w->n_arrived, which;
    uint32_t seen = lk__wakeup_prepare(own);
    lk_status st = lk__progress(w);
    bool same = st == LK_OK && arrived == w->n_arrived && !any_done(n, requests, &which);
    if (same && rests)
        lk__rest_show(w, first, question);
    if (same && atomic_load(&w->fault->state) != 2)
        lk__wakeup_wait(own, seen, w->transport->nap(w, ns));
    if (!w->progress_thread || !w->progress_thread->napping) /* else it is still to be woken */
        lk__wakeup_cancel(own);
    return st;
}

/* Whether the polls since the first call, if this is not it, have taken too long. */
static bool spins_long(int64_t *since)
{
    int64_t now = lk_clock_ns();
    if (*since == 0)
        *since = now;
    return now - *since > longest_spin;
}

static lk_status wait_any(const lk_request *first, int64_t n, lk_request *const *requests,
                          int64_t *which)
{
    lk__world *w = first->comm->w;
    lk__watch t = {0};
    int64_t arrived = w->n_arrived, spins_since = 0;
    for (int64_t polls = 1;; polls++) {
        int64_t left = 0;
        LK_TRY(lk__progress(w));
        if (any_done(n, requests, which))
            return LK_OK;
        LK_TRY(lk__fault_check(w));
        if (arrived != w->n_arrived) { /* it goes on: what is waited for now may come soon, too */
            arrived = w->n_arrived;
            polls = 1;
            spins_since = 0;
        }
        if (polls <= w->spins) {
            lk__relax();
            if (polls % POLLS_PER_GLANCE == 0 && spins_long(&spins_since))
                polls = w->spins;
            if (polls % POLLS_PER_CLOCK && polls < w->spins)
                continue;
        } else if (polls <= w->yields) {
            sched_yield();
            continue;
        }
        show_peer(w, first);
        LK_TRY(watch(&t, n, requests, first, true, &left));
        if (polls > w->spins)
            LK_TRY(sleep_on_wakeup(first, n, requests, t.waited >= first_rest, left));
    }
}

lk_status lk__wait_any(int64_t n, lk_request *const *requests, int64_t *which)
{
    const lk_request *first = NULL;
    for (int64_t i = 0; i < n && !first; i++)
        first = requests[i];
    lk__world *w = first->comm->w;
    lk_status st = wait_any(first, n, requests, which);
    if (w->rest.epoch % 2)
        lk__rest_end(w);
    return st;
}

lk_status lk__watch_test(lk_request *r)
{
    int64_t left;
    return watch(&r->tested, 1, (lk_request *const[]){r}, r, false, &left);
}

lk_status lk__wait_one(lk_request *r)
{
    int64_t which;
    return lk__wait_any(1, (lk_request *const[]){r}, &which);
}
