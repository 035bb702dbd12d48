/* All of a trainer's state in a file, for verbs that compare layouts: written, and compared with another. */
#ifndef LK_CLI_SNAPSHOT_H
#define LK_CLI_SNAPSHOT_H

#include <lockstep/comm.h>
#include <lockstep/io.h>
#include <lockstep/train.h>

/**
 * Write all that lk_trainer_hash() looks at to a .safetensors file, layer by layer in the order of the
 * model: of each its parameters ("conv1.weight"), its state ("state/batch_norm1.mean") and what the
 * optimizer keeps of them ("optimizer/momentum/conv1.weight"); then the optimizer's numbers
 * ("optimizer/NAME").
 *
 * Collective over `comm`, the trainer's.  Rank 0 writes; ranks may hold boxes of the tensors.  Errors:
 * those of lk_safetensors_write_boxes(), LK_ENOMEM.
 */
lk_status snapshot_write(lk_comm *comm, const lk_trainer *trainer, const char *path) LK_NODISCARD;

enum { SNAPSHOT_TEXT = 768 };

/** Compare two files of snapshot_write(), all tensors, by their bytes: `*differ` is how many are not the same,
 * and `text` says of the first, in the order of layers, its layer, tensor, element and both values.
 *
 * Errors: LK_EIO, LK_ENOMEM, LK_ESTATE unless both have the same tensors. */
lk_status snapshot_compare(const lk_safetensors *a, const lk_safetensors *b, int *differ,
                           char text[SNAPSHOT_TEXT]) LK_NODISCARD;

#endif /* LK_CLI_SNAPSHOT_H */
