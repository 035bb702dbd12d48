/* Numbers in files, little-endian (le) or big-endian (be) whatever the machine: inline, for readers
 * and writers of formats. */
#ifndef LK_DATA_BYTES_H
#define LK_DATA_BYTES_H

#include <stddef.h>
#include <stdint.h>

static inline uint64_t lk__get_le(const unsigned char *p, int n)
{
    uint64_t v = 0;
    for (int i = n - 1; i >= 0; i--)
        v = v << 8 | p[i];
    return v;
}

static inline uint64_t lk__get_be(const unsigned char *p, int n)
{
    uint64_t v = 0;
    for (int i = 0; i < n; i++)
        v = v << 8 | p[i];
    return v;
}

static inline void lk__put_le(unsigned char *p, int n, uint64_t v)
{
    for (int i = 0; i < n; i++)
        p[i] = (unsigned char)(v >> 8 * i);
}

static inline void lk__put_be(unsigned char *p, int n, uint64_t v)
{
    for (int i = 0; i < n; i++)
        p[i] = (unsigned char)(v >> 8 * (n - 1 - i));
}

/** Turn the bytes of each of `count` elements of `size` bytes round. */
static inline void lk__swap_bytes(void *data, int64_t count, size_t size)
{
    unsigned char *p = data;
    for (int64_t i = 0; i < count; i++, p += size)
        for (size_t a = 0, b = size - 1; a < b; a++, b--) {
            unsigned char keep = p[a];
            p[a] = p[b];
            p[b] = keep;
        }
}

#endif /* LK_DATA_BYTES_H */
