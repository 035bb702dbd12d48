/* lk__tensor_file: an open file of named tensors, or a checkpoint, of which boxes are read:
 * whatever the form, no whole tensor is ever in memory. weights.c and tensors.c open one, on their
 * caller's thread. */
#ifndef LK_IO_TENSOR_FILE_H
#define LK_IO_TENSOR_FILE_H

#include "data/arrays/npz.h"
#include "io/boxes.h"
#include "io/tensors.h"

/** What a tensor is, and where: `at` is its number in the file. */
typedef struct lk__tensor_entry {
    const char *name;
    lk_dtype dtype;
    lk_shape shape;
    int64_t at;
    lk__npy npy; /* of NumPy's files */
} lk__tensor_entry;

/** Made by lk__tensor_file_open(), ended by lk__tensor_file_close().  Fields are to be read. */
typedef struct lk__tensor_file {
    const char *path; /* borrowed */
    lk__form form;
    lk_arena *arena; /* of names that the file has not in memory */
    int64_t n;
    lk__tensor_entry *tensor; /* sorted by name */
    lk_safetensors *safetensors;
    lk_checkpoint *checkpoint;
    lk__source *source;
    lk__zip zip;
} lk__tensor_file;

/** Errors: those of lk_tensors_load(). */
lk_status lk__tensor_file_open(lk__tensor_file *f, const char *path) LK_NODISCARD;

/** Also after a failure, and of zeros. */
void lk__tensor_file_close(lk__tensor_file *f);

/** The tensor of this name; NULL if there is none. */
const lk__tensor_entry *lk__tensor_file_find(const lk__tensor_file *f, const char *name);

/** Read what is held of a tensor, in its dtype, and check what the form has checksums of.  Errors: LK_EIO,
 * after which `held` may have anything; LK_ENOMEM. */
lk_status lk__tensor_file_read(const lk__tensor_file *f, const lk__tensor_entry *tensor,
                               const lk__box_held *held) LK_NODISCARD;

#endif /* LK_IO_TENSOR_FILE_H */
