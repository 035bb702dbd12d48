/* Tensors that the command reads: files, and checkpoints. */
#ifndef LK_CLI_TENSORS_FILE_H
#define LK_CLI_TENSORS_FILE_H

#include <lockstep/checkpoint.h>

/** lk_tensors_load(), with a warning on stderr for each newer checkpoint that was left out. */
lk_status tensors_open(const char *path, lk_tensors **out) LK_NODISCARD;

/** lk_checkpoint_read(), with the same warnings. */
lk_status checkpoint_open(const char *path, lk_checkpoint **out) LK_NODISCARD;

/** The text of the metadata of this name; NULL if there is none. */
const char *tensors_metadata(const lk_tensors *tensors, const char *name);

#endif /* LK_CLI_TENSORS_FILE_H */
