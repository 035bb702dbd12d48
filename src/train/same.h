/* Comparing ranks: jobs and trainers call it when they are made, on all ranks, to find what would otherwise
 * be noticed late, or never.
 */
#ifndef LK_TRAIN_SAME_H
#define LK_TRAIN_SAME_H

#include <lockstep/train.h>

/** All ranks have the same parallel.mode, and no algorithm that its bits would not come from
 * (lk__agree_bits()); otherwise LK_ESTATE on all.  It decides what ranks talk about, so it is compared first.
 * Collective. */
lk_status lk__mode_compare(lk_comm *comm, int mode) LK_NODISCARD;

/** The same for what the set and the batches of a loader are, "the training set".  NULL: the rank has no
 * such set.  Collective. */
lk_status lk__loader_compare(lk_comm *comm, const char *what, const lk_loader *loader) LK_NODISCARD;

/**
 * The same for the samples of the set: all of a set of up to LK__COMPARED_BYTES, of a larger one as many,
 * spread evenly.  What all ranks have compared before is not read again, and nothing is where all know the
 * hash of the set from their caches.  Collective.
 */
lk_status lk__loader_compare_samples(lk_comm *comm, const char *what,
                                     lk_loader *loader) LK_NODISCARD;

/** The same for the number of samples and of those in a batch alone: the ranks of a chain list have data of
 * their own, or none. */
lk_status lk__loader_compare_length(lk_comm *comm, const char *what,
                                    const lk_loader *loader) LK_NODISCARD;

enum { LK__COMPARED_BYTES = 1 << 28 };

#endif /* LK_TRAIN_SAME_H */
