/* The end of the job: one report, told to every rank.
 *
 * What goes wrong inside communication (a mismatch, a stall, no memory for a packet) cannot be undone
 * by one rank alone: others may wait for what it did not send.  So the first error is kept, spread
 * to all ranks, and returned by each of them from now on.
 */
#include "comm/comm.h"

#include <lockstep/clock.h>

#include <stdio.h>
#include <string.h>

lk_status lk__fault_check(lk__world *w)
{
    lk__fault *f = w->fault;
    int state = atomic_load_explicit(&f->state, memory_order_acquire);
    if (state == 0)
        return LK_OK;
    while (state != 2)
        state = atomic_load_explicit(&f->state, memory_order_acquire);
    return LK_RAISE(f->status, "%s", f->text);
}

lk_status lk__fault_raise(lk__world *w)
{
    lk__fault *f = w->fault;
    lk_status st = lk_error_status();
    int none = 0;
    if (!atomic_compare_exchange_strong(&f->state, &none, 1))
        return st;
    f->rank = w->rank;
    if (st == LK_EMISMATCH || st == LK_ESTALL) {
        f->status = st;
        snprintf(f->text, sizeof f->text, "%s", lk_error_message());
    } else {
        f->status = LK_ECOMM;
        snprintf(f->text, sizeof f->text, "rank %d failed: %s: %.300s", w->rank, lk_status_text(st),
                 lk_error_message());
    }
    atomic_store_explicit(&f->state, 2, memory_order_release);
    w->transport->spread(w);
    return st;
}

lk_status lk__report_mismatch(lk_comm *comm, const lk__label *a, const lk__label *b)
{
    char text[2][LK_CALL_TEXT];
    int mine = comm->rank, other = lk__comm_rank_of(comm, b->h.source);
    const lk__label *first = mine < other ? a : b, *second = mine < other ? b : a;
    const char *what = lk__label_difference(a, b);
    bool earlier = what && strcmp(what, "an earlier call") == 0;
    return LK_RAISE(LK_EMISMATCH, "mismatch%s: rank %d calls %s but rank %d calls %s",
                    earlier ? " in an earlier call" : "", mine < other ? mine : other,
                    lk__label_text(first, text[0]), mine < other ? other : mine,
                    lk__label_text(second, text[1]));
}

/* What a rank is doing, as the end of "rank 1, which ...". */
static void doing_text(const lk__doing *d, char *out, size_t size)
{
    char call[LK_CALL_TEXT] = "no call";
    if (d->call.h.call != LK_CALL_NONE)
        lk__label_text(&d->call, call);
    switch ((lk__state)d->state) {
    case LK_STATE_COMPUTING: snprintf(out, size, "which computes after %s", call); break;
    case LK_STATE_LEFT: snprintf(out, size, "which left after %s", call); break;
    case LK_STATE_CALLING: snprintf(out, size, "which is in %s", call); break;
    case LK_STATE_UNKNOWN: snprintf(out, size, "of which nothing is known"); break;
    }
}

lk_status lk__report_stall(const lk_request *r, int64_t ns)
{
    lk_comm *comm = r->comm;
    lk__world *w = comm->w;
    char call[LK_CALL_TEXT], end[LK_CALL_TEXT + 32] = "", chain[160] = "";
    lk__label_text(r->label, call);
    if (r->peer < 0)
        return LK_RAISE(LK_ESTALL, "stall: rank %d waits %.1f s in %s for any rank", comm->rank,
                        (double)ns / 1e9, call);
    int at = r->peer;
    lk__doing d = lk__slot_read(w->board[at]);
    for (int hops = 0; hops < w->size && d.state == LK_STATE_CALLING && d.peer >= 0; hops++) {
        size_t used = strlen(chain);
        snprintf(chain + used, sizeof chain - used, ", which waits for rank %d",
                 lk__comm_rank_of(comm, d.peer) >= 0 ? lk__comm_rank_of(comm, d.peer) : d.peer);
        at = d.peer;
        if (at == w->rank)
            break;
        d = lk__slot_read(w->board[at]);
    }
    if (at != w->rank)
        doing_text(&d, end, sizeof end);
    return LK_RAISE(LK_ESTALL, "stall: rank %d waits %.1f s in %s for rank %d%s%s%s", comm->rank,
                    (double)ns / 1e9, call, lk__comm_rank_of(comm, r->peer), chain,
                    *end ? ", " : "", end);
}
