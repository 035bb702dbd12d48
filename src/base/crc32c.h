/* The two implementations of CRC-32C, by instruction and by table: lk_crc32c() takes the first
 * where the processor has it, and a test compares them. */
#ifndef LK_BASE_CRC32C_H
#define LK_BASE_CRC32C_H

#include <lockstep/extra/crc32c.h>

#include <stdbool.h>

/** Whether this processor has an instruction for CRC-32C. */
bool lk__crc32c_has_hardware(void);

/** As lk_crc32c(), by the instruction; only where lk__crc32c_has_hardware(). */
uint32_t lk__crc32c_hardware(uint32_t crc, const void *bytes, size_t n);

/** As lk_crc32c(), by tables; everywhere. */
uint32_t lk__crc32c_table(uint32_t crc, const void *bytes, size_t n);

#endif /* LK_BASE_CRC32C_H */
