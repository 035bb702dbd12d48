/* The end of the job: one report, sent to every rank.
 *
 * What goes wrong inside communication (a mismatch, a stall, no memory for a packet) cannot be undone
 * by one rank alone: others may wait for what it did not send.  So the first error is kept, spread
 * to all ranks, and returned by each of them from now on.
 */
#include "base/failure.h"
#include "comm/comm.h"
#include "comm/progress_thread.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* One that is being written is not waited for: its writer may have been killed. */
bool lk__fault_is_there(const lk__world *w)
{
    return atomic_load_explicit(&w->fault->state, memory_order_acquire) == 2;
}

/* Where a rank could not tell the other nodes, the first of its node that sees the report does. */
bool lk__fault_forward(lk__world *w)
{
    bool there = lk__fault_is_there(w);
    if (there && atomic_exchange(&w->fault->unreported, false))
        w->transport->spread(w);
    return there;
}

lk_status lk__fault_check(lk__world *w)
{
    return lk__fault_forward(w) ? LK_RAISE(w->fault->status, "%s", w->fault->text) : LK_OK;
}

/* Also called by signal handlers: nothing here that they must not do. */
bool lk__fault_set(lk__fault *f, lk_status status, int rank, const char *text, bool reported)
{
    int none = 0;
    if (!atomic_compare_exchange_strong(&f->state, &none, 1))
        return false;
    size_t n = strnlen(text, sizeof f->text - 1);
    f->status = status;
    f->rank = rank;
    memcpy(f->text, text, n);
    f->text[n] = '\0';
    atomic_store_explicit(&f->unreported, !reported, memory_order_relaxed);
    atomic_store_explicit(&f->state, 2, memory_order_release);
    return true;
}

lk_status lk__fault_raise(lk__world *w)
{
    lk_status st = lk_error_status();
    bool named = st == LK_EMISMATCH || st == LK_ESTALL;
    char text[LK_FAULT_TEXT];
    if (named)
        snprintf(text, sizeof text, "%s", lk_error_message());
    else
        snprintf(text, sizeof text, "rank %d failed: %s: %.300s", w->rank, lk_status_text(st),
                 lk_error_message());
    if (lk__fault_set(w->fault, named ? st : LK_ECOMM, w->rank, text, true)) {
        w->transport->spread(w);
        return st;
    }
    /* Another one was first: wait a moment until it is written.  Its writer may have been killed. */
    for (int i = 0; i < 1000 && atomic_load(&w->fault->state) != 2; i++)
        usleep(100);
    lk_status first = named ? lk__fault_check(w) : LK_OK;
    return first == LK_OK ? st : first;
}

void lk__world_host(const lk__world *w, lk__host *out)
{
    *out = (lk__host){""};
    if (w->host)
        *out = w->host[w->rank];
    else if (gethostname(out->name, sizeof out->name - 1) != 0)
        snprintf(out->name, sizeof out->name, "?");
}

/* Tell all ranks of this thread's last failure, which stays what it is. */
static void failure_report(lk__world *w)
{
    lk__failure own;
    LK_INSIDE(w);
    lk__failure_get(&own);
    (void)!lk__fault_raise(w);
    lk__failure_set(&own);
}

int lk_comm_fail(lk_comm *comm, FILE *errors)
{
    lk__world *w = comm ? comm->w : NULL;
    if (lk_error_status() == LK_OK)
        (void)LK_RAISE(LK_ESTATE, "it has given up, and says no reason");
    if (w)
        failure_report(w);
    if (errors && w && w->size > 1) {
        lk__host host;
        lk__world_host(w, &host);
        fprintf(errors, "rank %d of %d on host \"%s\" failed\n", w->rank, w->size, host.name);
    }
    if (errors)
        lk_error_print(errors);
    return 1;
}
