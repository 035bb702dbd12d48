/* CRC-32 by tables, four bytes at a time; the tables are made at the first use. */
#include "data/packed/crc32.h"

#include "data/bytes.h"

#include <pthread.h>

static uint32_t table[4][256];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void make_tables(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int bit = 0; bit < 8; bit++)
            c = c & 1 ? c >> 1 ^ 0xedb88320U : c >> 1;
        table[0][i] = c;
    }
    for (int k = 1; k < 4; k++)
        for (int i = 0; i < 256; i++)
            table[k][i] = table[k - 1][i] >> 8 ^ table[0][table[k - 1][i] & 0xff];
}

uint32_t lk__crc32(uint32_t crc, const void *bytes, size_t n)
{
    pthread_once(&once, make_tables);
    const unsigned char *p = bytes;
    uint32_t c = ~crc;
    for (; n >= 4; n -= 4, p += 4) {
        c ^= (uint32_t)lk__get_le(p, 4);
        c = table[3][c & 0xff] ^ table[2][c >> 8 & 0xff] ^ table[1][c >> 16 & 0xff] ^
            table[0][c >> 24];
    }
    for (; n > 0; n--)
        c = c >> 8 ^ table[0][(c ^ *p++) & 0xff];
    return ~c;
}
