/* The cache of a loader: a file with the boxes that it gives, of every sample, so that a rank on a tile
 * reads whole files once.  With crop and flip it holds what any of them can move into the box.
 *
 * The file, all little-endian: a header of 8-byte numbers, then field by field the boxes of all samples,
 * the hash of all that, and a record of the set's files (head.h).  Boxes that are empty are not
 * there.
 */
#ifndef LK_DATA_CACHE_H
#define LK_DATA_CACHE_H

#include <lockstep/data.h>

typedef struct lk__cache {
    char *path, *rank, *size; /* as they were given; owned; path NULL: there is none */
    char *suffix;             /* behind the path, which names the set; owned */
    lk_dataset *ds;           /* of its boxes; NULL: not open */
    int field[LK_MAX_FIELDS]; /* which of its fields that of the loader is; -1: none */
    lk_box kept[LK_MAX_FIELDS];
} lk__cache;

/** Give a loader the path and the suffix; both are copied, and may be NULL. */
lk_status lk__cache_set(lk_loader *l, const char *path, const char *suffix) LK_NODISCARD;

/** Open the file, made anew if it is not there, unless it is open or there is none. */
lk_status lk__cache_prepare(lk_loader *l) LK_NODISCARD;

/** Let the set have the hash that the file says, if the file was made of the set as it is: it need not be
 * read for it then.  What is wrong with the file is an error when it is opened. */
void lk__cache_know(lk_loader *l);

/** Whether a field is read from it. */
bool lk__cache_has(const lk_loader *l, int f);

/** The box `from` of a field that it has. */
lk_status lk__cache_box(const lk_loader *l, int64_t sample, int f, const lk_box *from,
                        void *out) LK_NODISCARD;

/** Close the file: the boxes are to be others. */
void lk__cache_close(lk_loader *l);

/** Also forget the path. */
void lk__cache_free(lk_loader *l);

#endif /* LK_DATA_CACHE_H */
