/* CRC-32C (Castagnoli), the checksum of records and checkpoint parts. */
#ifndef LK_CRC32C_H
#define LK_CRC32C_H

#include <lockstep/api.h>

#include <stddef.h>
#include <stdint.h>

LK_BEGIN_DECLS

/**
 * The CRC-32C of the bytes seen before, whose CRC is `crc`, followed by `n` more.
 *
 * Not collective; thread safe.  Start with 0: lk_crc32c(0, "123456789", 9) is 0xe3069283, and
 * lk_crc32c(lk_crc32c(0, a, m), b, n) is the CRC of a and b together.  Uses the processor's
 * instruction for it where there is one.
 */
LK_API uint32_t lk_crc32c(uint32_t crc, const void *bytes, size_t n);

LK_END_DECLS

#endif /* LK_CRC32C_H */
