/* Packing with zlib, as gzip does it: for sinks that are packed.  A build without zlib refuses with
 * LK_ENOTSUP. */
#ifndef LK_DATA_DEFLATE_H
#define LK_DATA_DEFLATE_H

#include <lockstep/status.h>

#include <stdint.h>

typedef struct lk__packer lk__packer;

/** Takes packed bytes, one behind the other. */
typedef lk_status lk__packed_fn(void *arg, const void *bytes, int64_t n);

/** Begin a file that `put` is given; `name` is for messages. */
lk_status lk__packer_open(const char *name, lk__packed_fn *put, void *arg,
                          lk__packer **out) LK_NODISCARD;

/** Append `n` bytes; what is ready is given to `put`. */
lk_status lk__packer_write(lk__packer *p, const void *bytes, int64_t n) LK_NODISCARD;

/** Give the rest to `put`.  Nothing can be appended afterwards. */
lk_status lk__packer_finish(lk__packer *p) LK_NODISCARD;

/** NULL is allowed. */
void lk__packer_close(lk__packer *p);

#endif /* LK_DATA_DEFLATE_H */
