/* lk__ledger: which files of a run are not on disk as they should be.  It belongs to the run's output,
 * on rank 0.
 */
#ifndef LK_TRAIN_LEDGER_H
#define LK_TRAIN_LEDGER_H

#include "io/out.h"

#include <lockstep/train.h>

enum { LK__REASON = 512 };

/** Begin with zeros; end with lk_free(warnings.text). */
typedef struct lk__ledger {
    unsigned missing;        /* bits of lk_missing */
    unsigned warned;         /* those of them that were warned of */
    lk__out warnings;        /* a line each, not said yet */
    char reason[LK__REASON]; /* why the first of them is missing */
    const char *folder;      /* of the files; borrowed */
} lk__ledger;

/** A file was written, or not: of one that stays missing it is said once.  The failure is forgotten;
 * the first of several stays in `*first`. */
void lk__ledger_record(lk__ledger *l, lk_missing file, const char *name, lk_status st,
                       lk_status *first);

/** Whether a file that was to be written as a whole is there from before: it is an older one. */
bool lk__ledger_is_older(const lk__ledger *l, lk_missing file, const char *name);

/** The failure of which lk__ledger_record() has left the status in `first`. */
lk_status lk__ledger_status(const lk__ledger *l, lk_status first) LK_NODISCARD;

/** A file is as it should be. */
void lk__ledger_clear(lk__ledger *l, lk_missing file);

#endif /* LK_TRAIN_LEDGER_H */
