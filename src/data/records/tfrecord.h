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

/** Whether a file of records is packed, and how: what begins with a length and its checksum is not. */
lk_status lk__tfrecord_packing(const lk__source *s, lk__packing *out) LK_NODISCARD;

/** The record number `record` of a file, at `offset`: its data are `*n` bytes from `*at` on, and the next
 * record begins at `*next`.  Checks that all of it is there, and the CRC of the length, not yet that of
 * the data. */
lk_status lk__tfrecord_find(const lk__source *s, int64_t record, int64_t offset, int64_t *at,
                            int64_t *n, int64_t *next) LK_NODISCARD;

/** What the head of a record, LK_TFRECORD_HEAD bytes, says; false if its checksum is wrong. */
bool lk__tfrecord_length(const unsigned char *head, uint64_t *length);

/** Check all of a record whose bytes are in memory, from its length on: `room` of them, behind which the
 * file ends or another record is known to begin.  `*n`: bytes of its data, which lie behind the head. */
lk_status lk__tfrecord_held(const lk__source *s, int64_t record, int64_t offset,
                            const unsigned char *bytes, int64_t room, int64_t *n) LK_NODISCARD;

/** Read the data of the record found at `at`, `n` bytes, through `buffer`, of `room` bytes, and check
 * their CRC. */
lk_status lk__tfrecord_check(const lk__source *s, int64_t record, int64_t at, int64_t n,
                             void *buffer, int64_t room) LK_NODISCARD;

/** What stands before and behind a record of these data. */
void lk__tfrecord_frame(const void *data, int64_t n, unsigned char head[LK_TFRECORD_HEAD],
                        unsigned char tail[LK_TFRECORD_TAIL]);

/** Append a record. */
lk_status lk__tfrecord_write(lk__sink *s, const void *data, int64_t n) LK_NODISCARD;

/* Refuse a record: the message begins with its file, its number in it and where it is wrong. */
#define LK_RECORD_WRONG(status, source, record, offset, fmt, ...)                   \
    LK_RAISE(status, "%s: record %lld, offset %lld: " fmt, lk__source_name(source), \
             (long long)(record), (long long)(offset), __VA_ARGS__)

#endif /* LK_DATA_TFRECORD_H */
