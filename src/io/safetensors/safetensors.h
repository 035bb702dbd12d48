/* lk_safetensors from inside: an open file, its header and its tensors.  read.c opens one, which any
 * thread may read; write.c writes a file at once, boxes.c one that all ranks write together.
 */
#ifndef LK_IO_SAFETENSORS_H
#define LK_IO_SAFETENSORS_H

#include "data/source.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/io.h>

enum { LK__SAFETENSORS_MAX_HEADER = 16 << 20 };

/* A tensor's name and its number. */
typedef struct lk__by_name {
    const char *name;
    int64_t i;
} lk__by_name;

struct lk_safetensors {
    lk__source *source;
    lk_arena *arena; /* names and metadata */
    int64_t n, room;
    lk_safetensors_info *tensor; /* sorted by place */
    int64_t n_metadata, metadata_room;
    lk_metadata *metadata; /* sorted by name */
    lk__by_name *by_name;  /* the tensors sorted by name */
};

/** "F32", ...; NULL for a dtype that has no name here. */
const char *lk__safetensors_dtype(lk_dtype dtype);

/** Whether names are UTF-8, not empty and each there once.  Errors: LK_EINVAL, LK_ENOMEM. */
lk_status lk__named_check(const lk_named_tensor *tensor, int64_t n, const lk_metadata *metadata,
                          int64_t n_metadata) LK_NODISCARD;

/** Whether names are UTF-8, not empty and each there once; sorts them.  `what` they name, for the
 * message.  Errors: LK_EINVAL. */
lk_status lk__names_check(const char *what, const char **name, int64_t n) LK_NODISCARD;

/** The bytes of a file before its tensors, which come in this order: the length and the header, in a
 * block that the caller frees.  Of `tensor` name, dtype, shape and bytes are read.  Errors: LK_EINVAL
 * for more than 16 MiB, LK_ENOMEM. */
lk_status lk__safetensors_header(const lk_safetensors_info *tensor, int64_t n,
                                 const lk_metadata *metadata, int64_t n_metadata, char **out,
                                 int64_t *bytes) LK_NODISCARD;

/** Whether the first bytes are those of a file, damaged or not: a length and {. */
lk_status lk__safetensors_is(const lk__source *source, bool *out) LK_NODISCARD;

/** Read the header of a source, which the file then owns, and check all of it. */
lk_status lk__safetensors_parse(lk__source *source, lk_safetensors **out) LK_NODISCARD;

#endif /* LK_IO_SAFETENSORS_H */
