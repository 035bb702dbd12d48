/* CRC-32C: the polynomial 0x1edc6f41 bit-reversed, start and end inverted.
 *
 * The instruction takes 8 bytes at a time.  The tables do too ("slicing by 8"): table[k][b] is the
 * remainder of byte b followed by k zero bytes, so the remainder of 8 bytes is the exclusive or of
 * 8 entries.
 */
#include "base/crc32c.h"

#include <pthread.h>

#if defined __x86_64__
#    include <nmmintrin.h>
#elif defined __aarch64__
#    include <sys/auxv.h>
#endif

static const uint32_t polynomial_reversed = 0x82f63b78;
static uint32_t table[8][256];
static pthread_once_t table_once = PTHREAD_ONCE_INIT;

static void table_build(void)
{
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t r = b;
        for (int bit = 0; bit < 8; bit++)
            r = r >> 1 ^ (r & 1 ? polynomial_reversed : 0U);
        table[0][b] = r;
    }
    for (int k = 1; k < 8; k++)
        for (int b = 0; b < 256; b++)
            table[k][b] = table[k - 1][b] >> 8 ^ table[0][table[k - 1][b] & 0xff];
}

static uint64_t load_le64(const unsigned char *p)
{
    uint64_t v = 0;
    for (int i = 0; i < 8; i++)
        v |= (uint64_t)p[i] << (8 * i);
    return v;
}

uint32_t lk__crc32c_table(uint32_t crc, const void *bytes, size_t n)
{
    pthread_once(&table_once, table_build);
    const unsigned char *p = bytes;
    uint32_t r = ~crc;
    for (; n >= 8; n -= 8, p += 8) {
        uint64_t v = load_le64(p) ^ r;
        r = 0;
        for (int k = 0; k < 8; k++)
            r ^= table[7 - k][v >> (8 * k) & 0xff];
    }
    for (; n > 0; n--, p++)
        r = r >> 8 ^ table[0][(r ^ *p) & 0xff];
    return ~r;
}

#if defined __x86_64__

bool lk__crc32c_has_hardware(void)
{
    return __builtin_cpu_supports("sse4.2");
}

__attribute__((target("sse4.2"))) uint32_t lk__crc32c_hardware(uint32_t crc, const void *bytes,
                                                               size_t n)
{
    const unsigned char *p = bytes;
    uint64_t r = ~crc;
    for (; n >= 8; n -= 8, p += 8)
        r = _mm_crc32_u64(r, load_le64(p));
    for (; n > 0; n--, p++)
        r = _mm_crc32_u8((uint32_t)r, *p);
    return ~(uint32_t)r;
}

#elif defined __aarch64__

bool lk__crc32c_has_hardware(void)
{
    return getauxval(AT_HWCAP) & HWCAP_CRC32;
}

/* Assembly, because arm_acle.h hides the intrinsics unless the whole file is built for them. */
uint32_t lk__crc32c_hardware(uint32_t crc, const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    uint32_t r = ~crc;
    for (; n >= 8; n -= 8, p += 8)
        __asm__(".arch_extension crc\n\tcrc32cx %w0, %w0, %x1" : "+r"(r) : "r"(load_le64(p)));
    for (; n > 0; n--, p++)
        __asm__(".arch_extension crc\n\tcrc32cb %w0, %w0, %w1" : "+r"(r) : "r"((uint32_t)*p));
    return ~r;
}

#else

bool lk__crc32c_has_hardware(void)
{
    return false;
}

uint32_t lk__crc32c_hardware(uint32_t crc, const void *bytes, size_t n)
{
    return lk__crc32c_table(crc, bytes, n);
}

#endif

uint32_t lk_crc32c(uint32_t crc, const void *bytes, size_t n)
{
    return lk__crc32c_has_hardware() ? lk__crc32c_hardware(crc, bytes, n)
                                     : lk__crc32c_table(crc, bytes, n);
}
