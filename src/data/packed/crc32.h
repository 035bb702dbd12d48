/* CRC-32, the checksum of zip and gzip. */
#ifndef LK_DATA_CRC32_H
#define LK_DATA_CRC32_H

#include <stddef.h>
#include <stdint.h>

/** The CRC-32 of the bytes seen before, whose CRC is `crc` (0 at first), followed by `n` more. */
uint32_t lk__crc32(uint32_t crc, const void *bytes, size_t n);

#endif /* LK_DATA_CRC32_H */
