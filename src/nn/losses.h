/* What losses share: for the files of src/nn/losses. */
#ifndef LK_NN_LOSSES_H
#define LK_NN_LOSSES_H

#include <lockstep/loss.h>

/** Fail unless the target has the dtype and shape of the output. */
lk_status lk__loss_same(const char *loss, lk_tensor_type out, lk_tensor_type target) LK_NODISCARD;

/** The elements of a sample, as parts of its loss. */
int64_t lk__loss_elements(lk_tensor_type out);

#endif /* LK_NN_LOSSES_H */
