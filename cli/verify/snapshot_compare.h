/* Comparing two snapshots: the layer, the tensor and the element in which they differ. */
#ifndef LK_CLI_SNAPSHOT_COMPARE_H
#define LK_CLI_SNAPSHOT_COMPARE_H

#include <lockstep/io.h>

enum { SNAPSHOT_TEXT = 768 };

/** Compare two files of snapshot_write(), all tensors, by their bytes: `*differ` is how many are not the same,
 * and `text` says of the first, in the order of layers, its layer, tensor, element and both values.
 *
 * Errors: LK_EIO, LK_ENOMEM, LK_ESTATE unless both have the same tensors. */
lk_status snapshot_compare(const lk_safetensors *a, const lk_safetensors *b, int *differ,
                           char text[SNAPSHOT_TEXT]) LK_NODISCARD;

#endif /* LK_CLI_SNAPSHOT_COMPARE_H */
