/* The files that an option names: a file, a folder, a pattern such as train-*.tfrecord, or several of these
 * with commas between them.  For formats whose sets lie in many files.
 */
#ifndef LK_DATA_FILES_H
#define LK_DATA_FILES_H

#include "base/path.h"

#include <lockstep/data.h>

typedef struct lk__files {
    int64_t n;
    const char **path; /* in the arena */
} lk__files;

/** Whether a name ends in `suffix`, such as ".tfrecord", or in what stands for it: with an s, numbers as in
 * NAME.tfrecord-00003-of-00008, and .gz behind it, each or none. */
bool lk__files_has_suffix(const char *name, const char *suffix);

/**
 * The files of set `split` that `text` names, in the arena.  Those of a folder are the ones whose names end
 * in `suffix`, and of these the ones of that set, where names tell sets apart: see lk__files_has_split().
 * Those of a folder or a pattern are in the order of their names, byte by byte, and what stands between
 * commas is in the order it is given in.  A path that exists is meant as it is, whatever is in it.
 *
 * Files that are numbered, NAME-00003-of-00008, must be complete as far as the text names them, and of
 * one set.  The same name plain and packed (.gz), or with numbers and without, is refused.
 *
 * Errors: LK_EIO, naming what is missing or what does not fit together; LK_ENOMEM.
 */
lk_status lk__files_find(const char *text, const char *suffix, lk_split split, lk_arena *arena,
                         lk__files *out) LK_NODISCARD;

/**
 * Whether `path` is a folder with files of several sets, and some of set `split`.  A name is of the set
 * that the last of its words begins with which tells one: train, val or test.
 *
 * Errors: LK_EIO where some names tell a set that is not for training, and others none; LK_ENOMEM.
 */
lk_status lk__files_has_split(const char *path, const char *suffix, lk_split split, lk_arena *arena,
                              bool *out) LK_NODISCARD;

#endif /* LK_DATA_FILES_H */
