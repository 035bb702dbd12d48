/* The end of the job: one report, told to every rank.
 *
 * What goes wrong inside communication (a mismatch, a stall, no memory for a packet) cannot be undone
 * by one rank alone: others may wait for what it did not send.  So the first error is kept, spread
 * to all ranks, and returned by each of them from now on.
 */
#include "comm/comm.h"

#include <stdio.h>
#include <unistd.h>

/* One that is being written is not waited for: its writer may have been killed. */
bool lk__fault_is_there(const lk__world *w)
{
    return atomic_load_explicit(&w->fault->state, memory_order_acquire) == 2;
}

lk_status lk__fault_check(lk__world *w)
{
    return lk__fault_is_there(w) ? LK_RAISE(w->fault->status, "%s", w->fault->text) : LK_OK;
}

bool lk__fault_set(lk__fault *f, lk_status status, int rank, const char *text)
{
    int none = 0;
    if (!atomic_compare_exchange_strong(&f->state, &none, 1))
        return false;
    f->status = status;
    f->rank = rank;
    snprintf(f->text, sizeof f->text, "%s", text);
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
    if (lk__fault_set(w->fault, named ? st : LK_ECOMM, w->rank, text)) {
        w->transport->spread(w);
        return st;
    }
    /* Another one was first: wait a moment until it is written.  Its writer may have been killed. */
    for (int i = 0; i < 1000 && atomic_load(&w->fault->state) != 2; i++)
        usleep(100);
    lk_status first = named ? lk__fault_check(w) : LK_OK;
    return first == LK_OK ? st : first;
}
