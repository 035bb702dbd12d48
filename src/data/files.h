/* The files that an option names: a file, a folder, a pattern such as train-*.tfrecord, or several of these
 * with commas between them.  For formats whose sets lie in many files.
 */
#ifndef LK_DATA_FILES_H
#define LK_DATA_FILES_H

#include "base/path.h"

#include <lockstep/option.h>

typedef struct lk__files {
    int64_t n;
    const char **path; /* in the arena */
} lk__files;

/**
 * The files that `text` names, in the arena.  Those of a folder are the ones that have `mark` in their
 * names; those of a folder or a pattern are in the order of their names, byte by byte, and what stands
 * between commas is in the order it is given in.  A path that exists is meant as it is, whatever is in it.
 *
 * Files that are numbered, NAME-00003-of-00008, must be complete as far as the text names them, and of
 * one set.  `what` is expected there, for the message if there is nothing.
 *
 * Errors: LK_EIO, naming what is missing; LK_ENOMEM.
 */
lk_status lk__files_find(const char *text, const char *mark, const char *what, lk_arena *arena,
                         lk__files *out) LK_NODISCARD;

#endif /* LK_DATA_FILES_H */
