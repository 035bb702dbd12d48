/* Zip archives, as far as .npz files need them: members stored or deflated are read, stored ones
 * written; zip64 where sizes ask for it.
 *
 * Sizes come from the central directory.  Members are checked against their CRC-32 before they are
 * used.
 */
#ifndef LK_DATA_ZIP_H
#define LK_DATA_ZIP_H

#include "data/packed/inflate.h"
#include "data/sink.h"
#include "data/source.h"

enum { LK_ZIP_NAME = 256, LK_ZIP_MAX_MEMBERS = 1 << 14 };

typedef struct lk__zip_member {
    char name[LK_ZIP_NAME];
    int64_t header;       /* offset of its local header */
    int64_t size, packed; /* bytes unpacked and as they lie there */
    uint32_t crc;
    int method; /* 0 stored, 8 deflated */
} lk__zip_member;

typedef struct lk__zip {
    const lk__source *source; /* borrowed */
    lk__zip_member *member;
    int64_t n;
} lk__zip;

/** Read the directory.  Release with lk__zip_close(), also after a failure. */
lk_status lk__zip_open(const lk__source *s, lk__zip *out) LK_NODISCARD;

void lk__zip_close(lk__zip *z);

/** The member of this name; NULL if there is none. */
const lk__zip_member *lk__zip_find(const lk__zip *z, const char *name);

/** The bytes of a member: where a stored one lies (`*unpacked` is NULL), or unpacked, as a source that the
 * caller owns.  Checks the CRC. */
lk_status lk__zip_load(const lk__zip *z, const lk__zip_member *m, int64_t *offset,
                       lk__source **unpacked) LK_NODISCARD;

/** Give the bytes of a member to `take`, one behind the other, unpacked, and check size and CRC at the end:
 * what was taken may be wrong until then.  Takes little memory. */
lk_status lk__zip_stream(const lk__zip *z, const lk__zip_member *m, lk__take_fn *take,
                         void *arg) LK_NODISCARD;

/* ---- writing ---- */

typedef struct lk__zip_out lk__zip_out;

/** Begin the archive `path`. */
lk_status lk__zip_create(const char *path, lk__zip_out **out) LK_NODISCARD;

/** Begin a member of `size` bytes with this CRC-32; then write exactly these bytes with
 * lk__zip_write(). */
lk_status lk__zip_begin(lk__zip_out *z, const char *name, int64_t size, uint32_t crc) LK_NODISCARD;
lk_status lk__zip_write(lk__zip_out *z, const void *bytes, int64_t n) LK_NODISCARD;

/** Finish the archive if `st` is LK_OK, else remove it; frees `z`.  NULL is allowed. */
lk_status lk__zip_end(lk__zip_out *z, lk_status st) LK_NODISCARD;

#endif /* LK_DATA_ZIP_H */
