/* Tensors with names, as they are read. */
#ifndef LK_IO_TENSORS_H
#define LK_IO_TENSORS_H

#include <lockstep/io.h>

/* What tensors are read from. */
typedef enum lk__form { LK__SAFETENSORS, LK__NPZ, LK__NPY, LK__CHECKPOINT } lk__form;

/**
 * What `path` is by its suffix, or by its first bytes for safetensors under another name.
 *
 * Errors: LK_EINVAL for what is none of these, saying which are read; LK_EIO if it cannot be opened.
 */
lk_status lk__form_of(const char *path, lk__form *out) LK_NODISCARD;

/** Append `tensor`, which `t` owns from here on, also if this fails; `room` begins with 0. */
lk_status lk__tensors_add(lk_tensors *t, int64_t *room, const char *name, size_t n,
                          lk_tensor *tensor) LK_NODISCARD;

/** Read a checkpoint, or the newest of a folder, into `t`, which has an arena and nothing else. */
lk_status lk__tensors_load_checkpoint(const char *path, lk_tensors *t) LK_NODISCARD;

#endif /* LK_IO_TENSORS_H */
