/* The framing of TFRecord files: records with their lengths and checksums, read and written. */
#include "data/records/tfrecord.h"

#include "data/bytes.h"
#include "data/packed/inflate.h"

#include <lockstep/extra/crc32c.h>

static uint32_t mask(uint32_t c)
{
    return (c >> 15 | c << 17) + 0xa282ead8U;
}

static uint32_t masked_crc(const void *bytes, size_t n)
{
    return mask(lk_crc32c(0, bytes, n));
}

bool lk__tfrecord_length(const unsigned char *head, uint64_t *length)
{
    *length = lk__get_le(head, 8);
    return masked_crc(head, 8) == lk__get_le(head + 8, 4);
}

lk_status lk__tfrecord_packing(const lk__source *s, lk__packing *out)
{
    unsigned char head[LK_TFRECORD_HEAD];
    uint64_t length;
    *out = LK_PACKED_NOT;
    if (lk__source_size(s) < LK_TFRECORD_HEAD)
        return LK_OK;
    LK_TRY(lk__source_read(s, 0, head, sizeof head, "the beginning"));
    if (!lk__tfrecord_length(head, &length))
        LK_TRY(lk__packing_guess(s, out));
    return LK_OK;
}

/* What a record's head says, if its checksum is right and `left` bytes behind it are enough. */
static lk_status read_head(const lk__source *s, int64_t record, int64_t offset,
                           const unsigned char *head, int64_t left, int64_t *n)
{
    uint64_t length;
    if (!lk__tfrecord_length(head, &length))
        return LK_RECORD_WRONG(LK_EIO, s, record, offset, "%s",
                               "the checksum of the record's length is wrong");
    left -= LK_TFRECORD_TAIL;
    if (left < 0 || length > (uint64_t)left)
        return LK_RECORD_WRONG(LK_EIO, s, record, offset,
                               "it has %llu bytes, but the file ends at %lld",
                               (unsigned long long)length,
                               (long long)(offset + LK_TFRECORD_HEAD + left + LK_TFRECORD_TAIL));
    if (length > LK_TFRECORD_MAX)
        return LK_RECORD_WRONG(LK_EIO, s, record, offset,
                               "it has %llu bytes, more than 2^30 are not read",
                               (unsigned long long)length);
    *n = (int64_t)length;
    return LK_OK;
}

static lk_status cut_off(const lk__source *s, int64_t record, int64_t offset)
{
    return LK_RECORD_WRONG(LK_EIO, s, record, offset, "%s", "the file ends in the record's length");
}

static lk_status check_crc(const lk__source *s, int64_t record, int64_t offset, uint32_t sum,
                           const unsigned char *tail, int64_t n)
{
    if (mask(sum) != lk__get_le(tail, 4))
        return LK_RECORD_WRONG(LK_EIO, s, record, offset, "the checksum of its %lld bytes is wrong",
                               (long long)n);
    return LK_OK;
}

lk_status lk__tfrecord_find(const lk__source *s, int64_t record, int64_t offset, int64_t *at,
                            int64_t *n, int64_t *next)
{
    unsigned char head[LK_TFRECORD_HEAD];
    if (lk__source_size(s) - offset < LK_TFRECORD_HEAD)
        return cut_off(s, record, offset);
    LK_TRY(lk__source_read(s, offset, head, sizeof head, "a record's length"));
    *at = offset + LK_TFRECORD_HEAD;
    LK_TRY(read_head(s, record, offset, head, lk__source_size(s) - *at, n));
    *next = *at + *n + LK_TFRECORD_TAIL;
    return LK_OK;
}

lk_status lk__tfrecord_held(const lk__source *s, int64_t record, int64_t offset,
                            const unsigned char *bytes, int64_t room, int64_t *n)
{
    if (room < LK_TFRECORD_HEAD)
        return cut_off(s, record, offset);
    LK_TRY(read_head(s, record, offset, bytes, room - LK_TFRECORD_HEAD, n));
    const unsigned char *data = bytes + LK_TFRECORD_HEAD;
    return LK_TRACE(check_crc(s, record, offset, lk_crc32c(0, data, (size_t)*n), data + *n, *n));
}

lk_status lk__tfrecord_check(const lk__source *s, int64_t record, int64_t at, int64_t n,
                             void *buffer, int64_t room)
{
    unsigned char tail[LK_TFRECORD_TAIL];
    uint32_t sum = 0;
    for (int64_t done = 0, some; done < n; done += some) {
        some = n - done < room ? n - done : room;
        LK_TRY(lk__source_read(s, at + done, buffer, some, "a record"));
        sum = lk_crc32c(sum, buffer, (size_t)some);
    }
    LK_TRY(lk__source_read(s, at + n, tail, sizeof tail, "a record's checksum"));
    return LK_TRACE(check_crc(s, record, at - LK_TFRECORD_HEAD, sum, tail, n));
}

void lk__tfrecord_frame(const void *data, int64_t n, unsigned char head[LK_TFRECORD_HEAD],
                        unsigned char tail[LK_TFRECORD_TAIL])
{
    lk__put_le(head, 8, (uint64_t)n);
    lk__put_le(head + 8, 4, masked_crc(head, 8));
    lk__put_le(tail, 4, masked_crc(data, (size_t)n));
}

lk_status lk__tfrecord_write(lk__sink *s, const void *data, int64_t n)
{
    unsigned char head[LK_TFRECORD_HEAD], tail[LK_TFRECORD_TAIL];
    lk__tfrecord_frame(data, n, head, tail);
    LK_TRY(lk__sink_write(s, head, sizeof head));
    LK_TRY(lk__sink_write(s, data, n));
    return LK_TRACE(lk__sink_write(s, tail, sizeof tail));
}
