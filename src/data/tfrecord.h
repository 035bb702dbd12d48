/* TFRecord files: records of
 *
 *   u64 length, u32 masked CRC-32C of the length's bytes, the data, u32 masked CRC-32C of the data
 *
 * all little-endian; a CRC c is masked as (c >> 15 | c << 17) + 0xa282ead8.
 */
#ifndef LK_DATA_TFRECORD_H
#define LK_DATA_TFRECORD_H

#include "data/sink.h"
#include "data/source.h"

enum { LK_TFRECORD_HEAD = 12, LK_TFRECORD_TAIL = 4, LK_TFRECORD_MAX = 1 << 30 };

/** The record at `offset`: its data are `*n` bytes from `*at` on, and the next record begins at
 * `*next`.  Checks that all of it is there, and the CRC of the length, not yet that of the data. */
lk_status lk__tfrecord_find(const lk__source *s, int64_t offset, int64_t *at, int64_t *n,
                            int64_t *next) LK_NODISCARD;

/** Read the data of the record found at `at`, `n` bytes, through `buffer`, of `room` bytes, and check their
 * CRC.  If there is room for all, they are in it then. */
lk_status lk__tfrecord_check(const lk__source *s, int64_t at, int64_t n, void *buffer,
                             int64_t room) LK_NODISCARD;

/** What stands before and behind a record of these data. */
void lk__tfrecord_frame(const void *data, int64_t n, unsigned char head[LK_TFRECORD_HEAD],
                        unsigned char tail[LK_TFRECORD_TAIL]);

/** Append a record. */
lk_status lk__tfrecord_write(lk__sink *s, const void *data, int64_t n) LK_NODISCARD;

#endif /* LK_DATA_TFRECORD_H */
