/* The framing of TFRecord files: records with their lengths and checksums, read and written. */
#include "data/tfrecord.h"

#include "data/bytes.h"

#include <lockstep/extra/crc32c.h>

static uint32_t mask(uint32_t c)
{
    return (c >> 15 | c << 17) + 0xa282ead8U;
}

static uint32_t masked_crc(const void *bytes, size_t n)
{
    return mask(lk_crc32c(0, bytes, n));
}

lk_status lk__tfrecord_find(const lk__source *s, int64_t offset, int64_t *at, int64_t *n,
                            int64_t *next)
{
    unsigned char head[LK_TFRECORD_HEAD];
    LK_TRY(lk__source_read(s, offset, head, sizeof head, "a record's length"));
    uint64_t length = lk__get_le(head, 8);
    if (masked_crc(head, 8) != lk__get_le(head + 8, 4))
        return LK_DAMAGED(s, offset, "%s", "the checksum of a record's length is wrong");
    *at = offset + LK_TFRECORD_HEAD;
    int64_t left = lk__source_size(s) - *at - LK_TFRECORD_TAIL;
    if (left < 0 || length > (uint64_t)left)
        return LK_DAMAGED(s, offset, "a record of %llu bytes, but the file ends at %lld",
                          (unsigned long long)length, (long long)lk__source_size(s));
    if (length > LK_TFRECORD_MAX)
        return LK_DAMAGED(s, offset, "a record of %llu bytes, more than 2^30 are not read",
                          (unsigned long long)length);
    *n = (int64_t)length;
    *next = *at + *n + LK_TFRECORD_TAIL;
    return LK_OK;
}

lk_status lk__tfrecord_check(const lk__source *s, int64_t at, int64_t n, void *buffer, int64_t room)
{
    unsigned char crc[LK_TFRECORD_TAIL];
    uint32_t sum = 0;
    for (int64_t done = 0, some; done < n; done += some) {
        some = n - done < room ? n - done : room;
        LK_TRY(lk__source_read(s, at + done, buffer, some, "a record"));
        sum = lk_crc32c(sum, buffer, (size_t)some);
    }
    LK_TRY(lk__source_read(s, at + n, crc, sizeof crc, "a record's checksum"));
    if (mask(sum) != lk__get_le(crc, 4))
        return LK_DAMAGED(s, at, "the checksum of a record of %lld bytes is wrong", (long long)n);
    return LK_OK;
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
    LK_TRY(lk__sink_write(s, tail, sizeof tail));
    return LK_OK;
}
