/* What tensors.c, tensor_file.c and checkpoint/metadata.c share: the form of a file by its name,
 * and a checkpoint's metadata as those of lk_tensors. */
#ifndef LK_IO_TENSORS_H
#define LK_IO_TENSORS_H

#include <lockstep/checkpoint.h>

/* What tensors are read from. */
typedef enum lk__form { LK__SAFETENSORS, LK__NPZ, LK__NPY, LK__CHECKPOINT } lk__form;

/**
 * What `path` is by its suffix, or by its first bytes for safetensors under another name.
 *
 * Errors: LK_EINVAL for what is none of these, saying which are read; LK_EIO if it cannot be opened.
 */
lk_status lk__form_of(const char *path, lk__form *out) LK_NODISCARD;

/** The metadata of a checkpoint, for `t`, which has an arena and none. */
lk_status lk__checkpoint_metadata(const lk_checkpoint *c, lk_tensors *t) LK_NODISCARD;

#endif /* LK_IO_TENSORS_H */
