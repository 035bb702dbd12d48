/* lk__source: bytes to read from: a file, a compressed file that was unpacked (spill.h), or memory.
 * Readers open one and free it; any thread may read.
 *
 * All readers of formats stand on it.  It never reads beyond the end, and its errors name the file
 * and the offset, so a reader only has to check what the bytes say.
 */
#ifndef LK_DATA_SOURCE_H
#define LK_DATA_SOURCE_H

#include "base/path.h"

#include <lockstep/tensor.h>

#include <stdbool.h>
#include <stdint.h>

typedef struct lk__source lk__source;

/* How a file is packed. */
typedef enum lk__packing { LK_PACKED_NOT, LK_PACKED_GZIP, LK_PACKED_ZLIB } lk__packing;

/** Open a regular file; one whose name ends in ".gz" is unpacked. */
lk_status lk__source_open(const char *path, lk__source **out) LK_NODISCARD;

/** Open a regular file as it is, packed or not. */
lk_status lk__source_open_packed(const char *path, lk__source **out) LK_NODISCARD;

/** Put what a source unpacks to in its place, as lk__unpack() does it (inflate.h); `*s` is NULL after a
 * failure. */
lk_status lk__source_unpack(lk__source **s, lk__packing how, bool *cut) LK_NODISCARD;

/** A source of `n` bytes in memory, borrowed; `name` stands for a path in messages. */
lk_status lk__source_memory(const char *name, const void *bytes, int64_t n,
                            lk__source **out) LK_NODISCARD;

/** As lk__source_memory(), but the source owns the block from here on, also if this fails. */
lk_status lk__source_adopt(const char *name, void *block, int64_t n, lk__source **out) LK_NODISCARD;

/** A source of an open file of `n` bytes, which it owns from here on, also if this fails. */
lk_status lk__source_file(const char *name, int fd, int64_t n, lk__source **out) LK_NODISCARD;

/** NULL is allowed. */
void lk__source_free(lk__source *s);

int64_t lk__source_size(const lk__source *s);

/** A hash of what tells one state of a file from another without reading it: inode, size, and when
 * contents and inode were changed last, as of opening; that of the packed file if it was unpacked.  0: it
 * is no file. */
uint64_t lk__source_stamp(const lk__source *s);

/** The path, for messages; borrowed. */
const char *lk__source_name(const lk__source *s);

/** Copy `n` bytes from `offset` on to `out`; `what` they are, for the message if they are not there.
 * Thread safe. */
lk_status lk__source_read(const lk__source *s, int64_t offset, void *out, int64_t n,
                          const char *what) LK_NODISCARD;

/** Copy a box, which is not empty and lies in the array of `shape` at `offset`, of elements of `size` bytes, to `out`, dense.
 * Thread safe.  Takes little memory. */
lk_status lk__source_read_box(const lk__source *s, int64_t offset, const lk_shape *shape,
                              const lk_box *box, size_t size, void *out) LK_NODISCARD;

/** All bytes from `offset` on, `n` of them, in a block of their own that the caller frees. */
lk_status lk__source_load(const lk__source *s, int64_t offset, int64_t n, const char *what,
                          void *out) LK_NODISCARD;

/* Refuse what a source holds: the message begins with its name and `offset`. */
#define LK_DAMAGED(source, offset, fmt, ...)                                                \
    LK_RAISE(LK_EIO, "%s: offset %lld: " fmt, lk__source_name(source), (long long)(offset), \
             __VA_ARGS__)

#endif /* LK_DATA_SOURCE_H */
