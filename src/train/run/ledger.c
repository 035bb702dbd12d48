/* lk__ledger: a bit for each file of the run that is not on disk as it should be, and one warning
 * for each.  See ledger.h. */
#include "train/run/ledger.h"

#include "base/path.h"

#include <stdio.h>

void lk__ledger_clear(lk__ledger *l, lk_missing file)
{
    l->missing &= ~(unsigned)file;
    l->warned &= ~(unsigned)file;
}

bool lk__ledger_is_older(const lk__ledger *l, lk_missing file, const char *name)
{
    char path[LK_PATH_SIZE];
    if (!(file & (LK_MISSING_WEIGHTS | LK_MISSING_BEST | LK_MISSING_REPORT)))
        return false;
    if (lk__path_join(l->folder, name, path, sizeof path) == LK_OK)
        return lk__path_exists(path);
    lk_error_clear();
    return false;
}

void lk__ledger_record(lk__ledger *l, lk_missing file, const char *name, lk_status st,
                       lk_status *first)
{
    if (st == LK_OK) {
        lk__ledger_clear(l, file);
        return;
    }
    if (l->missing == 0 || *first == LK_OK)
        snprintf(l->reason, sizeof l->reason, "%s", lk_error_message());
    if (!(l->warned & file)) {
        lk__out_put(&l->warnings, "warning: no ");
        lk__out_put(&l->warnings, name);
        lk__out_put(&l->warnings, ", or not all of it: ");
        lk__out_put(&l->warnings, lk_error_message());
        if (lk__ledger_is_older(l, file, name))
            lk__out_put(&l->warnings, "; the one that is there is older");
        lk__out_put(&l->warnings, "\n");
    }
    l->missing |= file;
    l->warned |= file;
    *first = *first == LK_OK ? st : *first;
    lk_error_clear();
}

lk_status lk__ledger_status(const lk__ledger *l, lk_status first)
{
    return first == LK_OK ? LK_OK : LK_RAISE(first, "%s", l->reason);
}
