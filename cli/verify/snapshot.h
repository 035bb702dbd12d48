/* All of a trainer's state in a file, for verbs that compare layouts. */
#ifndef LK_CLI_SNAPSHOT_H
#define LK_CLI_SNAPSHOT_H

#include <lockstep/comm.h>
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

#endif /* LK_CLI_SNAPSHOT_H */
