/* What losses share. */
#ifndef LK_NN_LOSSES_H
#define LK_NN_LOSSES_H

#include <lockstep/loss.h>

/** Fail unless the target has the dtype and shape of the output. */
lk_status lk__loss_same(const char *loss, lk_io out, lk_io target) LK_NODISCARD;

/** `sum` divided by how many losses a sample has: `n`. */
lk_status lk__loss_mean(lk_var sum, int64_t n, lk_var *out) LK_NODISCARD;

#endif /* LK_NN_LOSSES_H */
