/* Bytes that come one behind the other and are then read in any order, such as unpacked files: a few are
 * kept in memory, many in a file without a name, below TMPDIR or /tmp, which is gone when the source is.
 *
 * Where no such file can be made or filled, they are kept in memory after all, with a warning.
 */
#ifndef LK_DATA_SPILL_H
#define LK_DATA_SPILL_H

#include "data/source.h"

enum { LK_SPILL_MEMORY = 1 << 20 }; /* bytes up to which memory is taken */

typedef struct lk__spill {
    const char *name; /* whose bytes they are, borrowed */
    int64_t size, at;
    int fd; /* -1: in memory */
    char *block;
} lk__spill;

/** Room for `size` bytes. */
lk_status lk__spill_open(const char *name, int64_t size, lk__spill *out) LK_NODISCARD;

/** Append; there is room. */
lk_status lk__spill_write(lk__spill *s, const void *bytes, int64_t n) LK_NODISCARD;

/** The source of all bytes, of that name.  Nothing is left of `s`, also after a failure. */
lk_status lk__spill_source(lk__spill *s, lk__source **out) LK_NODISCARD;

/** Release what was not made a source. */
void lk__spill_close(lk__spill *s);

#endif /* LK_DATA_SPILL_H */
