/* Which files of a run are not on disk as they should be. */
#include "train/ledger.h"

#include <stdio.h>

void lk__ledger_clear(lk__ledger *l, lk_missing file)
{
    l->missing &= ~(unsigned)file;
    l->told &= ~(unsigned)file;
}

void lk__ledger_note(lk__ledger *l, lk_missing file, const char *name, lk_status st,
                     lk_status *first)
{
    if (st == LK_OK) {
        lk__ledger_clear(l, file);
        return;
    }
    if (l->missing == 0 || *first == LK_OK)
        snprintf(l->reason, sizeof l->reason, "%s", lk_error_message());
    if (!(l->told & file)) {
        lk__out_put(&l->warnings, "warning: no ");
        lk__out_put(&l->warnings, name);
        lk__out_put(&l->warnings, ", or not all of it: ");
        lk__out_put(&l->warnings, lk_error_message());
        lk__out_put(&l->warnings, "\n");
    }
    l->missing |= file;
    l->told |= file;
    *first = *first == LK_OK ? st : *first;
    lk_error_clear();
}

lk_status lk__ledger_status(const lk__ledger *l, lk_status first)
{
    return first == LK_OK ? LK_OK : LK_RAISE(first, "%s", l->reason);
}
