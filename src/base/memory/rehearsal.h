/* Rehearsals: a thread goes through its work for the memory that it asks for, not for what it computes.
 *
 * While a thread rehearses, lk_alloc() gives it large blocks of addresses alone: they are counted as others,
 * but a page of them takes memory only when something touches it, and no limit of data memory knows of
 * them.  And lk__parallel() leaves its tasks undone, so that kernels touch nothing.  Numbers then
 * mean nothing: what comes out of a rehearsal is lk_alloc_stats_now().
 *
 * lk_trainer_rehearse() begins and ends one, on its thread; blocks may be freed on any, at any time.
 */
#ifndef LK_BASE_REHEARSAL_H
#define LK_BASE_REHEARSAL_H

#include <stdbool.h>

/** From now on this thread rehearses, or does not.  Returns whether it did before. */
bool lk__rehearsal_set(bool on);

bool lk__rehearses(void);

#endif /* LK_BASE_REHEARSAL_H */
