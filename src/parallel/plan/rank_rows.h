/* lk__rank_rows: a table to which each rank gives some rows of numbers, and which all then have.
 *
 * Chain lists tell each other so what they consist of.  Made and read on the thread that calls.
 */
#ifndef LK_PARALLEL_RANK_ROWS_H
#define LK_PARALLEL_RANK_ROWS_H

#include <lockstep/coll.h>

/** Rows of `words` numbers; those of rank r are numbers first[r] to first[r + 1] - 1.  Begin with zeros, end
 * with lk__rank_rows_free(). */
typedef struct lk__rank_rows {
    int64_t *first; /* [ranks + 1] */
    void *row;
} lk__rank_rows;

/**
 * Gather the rows of all ranks, of which this one gives `n`.
 *
 * Collective, two small allgathers; `name` is for messages.  Errors: LK_ENOMEM, on all ranks; those of
 * communication.
 */
lk_status lk__rank_rows_gather(lk_comm *comm, const void *own, int64_t n, int64_t words,
                               const char *name, lk__rank_rows *out) LK_NODISCARD;

void lk__rank_rows_free(lk__rank_rows *rows);

#endif /* LK_PARALLEL_RANK_ROWS_H */
