/* lk__sums: the parts of a state's hash that each rank computes.  Tensors are hashed by sums over
 * elements, so ranks that hold boxes can share them; a trainer makes one.  Collective.
 *
 * Made once for boxes that stay where they are, and used whenever the values have changed.  An element is
 * counted by the lowest rank that holds it; ranks whose boxes are equal share what falls to them evenly.
 */
#ifndef LK_IO_SUMS_H
#define LK_IO_SUMS_H

#include "io/boxes.h"

/* What this rank counts: some elements of a box of a tensor, in their order. */
typedef struct lk__counted {
    int64_t tensor;
    lk_box box;
    lk_range elements;
} lk__counted;

/** Begin with zeros; ended by lk__sums_close(). */
typedef struct lk__sums {
    int64_t n; /* tensors */
    lk_checkpoint_tensor *tensor;
    lk__box_held *held;
    lk__counted *counted;
    int64_t n_counted, room;
} lk__sums;

/**
 * Find what this rank counts of tensors, whose data are borrowed.
 *
 * Collective over `comm`; NULL: one rank.  Errors: as lk_state_hash().
 */
lk_status lk__sums_open(lk__sums *s, lk_comm *comm, const lk_state_tensor *tensor,
                        int64_t n) LK_NODISCARD;

/** The same, but all that this rank holds is counted here, whatever others hold.  Not collective. */
lk_status lk__sums_open_own(lk__sums *s, const lk_state_tensor *tensor, int64_t n) LK_NODISCARD;

/** Also after a failure, and of zeros. */
void lk__sums_close(lk__sums *s);

/** sum [n] = the sums of what this rank counts; those of all ranks are to be added up.  Not collective. */
void lk__sums_count(const lk__sums *s, uint64_t *sum);

#endif /* LK_IO_SUMS_H */
