/* Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3",
 * 2011), to be inlined into the loops that draw.
 *
 * A round multiplies two of the four words by constants and mixes the halves of the products into
 * the other two; the key grows by a Weyl constant from round to round.  For a fixed key the block
 * is a bijection of the counter, so no two places of a stream share a block.
 */
#ifndef LK_BASE_PHILOX_H
#define LK_BASE_PHILOX_H

#include <stdint.h>

enum { LK__PHILOX_ROUNDS = 10, LK__PHILOX_LANES = 8 };

#define LK__PHILOX_WEYL_0 0x9e3779b9U
#define LK__PHILOX_WEYL_1 0xbb67ae85U

/* One round of one block; a macro, so that lanes of it become vectors. */
#define LK__PHILOX_ROUND(c0, c1, c2, c3, k0, k1)    \
    do {                                            \
        uint64_t p0_ = (uint64_t)0xd2511f53 * (c0); \
        uint64_t p1_ = (uint64_t)0xcd9e8d57 * (c2); \
        (c0) = (uint32_t)(p1_ >> 32) ^ (c1) ^ (k0); \
        (c1) = (uint32_t)p1_;                       \
        (c2) = (uint32_t)(p0_ >> 32) ^ (c3) ^ (k1); \
        (c3) = (uint32_t)p0_;                       \
    } while (0)

static inline void lk__philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int r = 0; r < LK__PHILOX_ROUNDS; r++) {
        LK__PHILOX_ROUND(c0, c1, c2, c3, k0, k1);
        k0 += LK__PHILOX_WEYL_0;
        k1 += LK__PHILOX_WEYL_1;
    }
    out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}

/** LK__PHILOX_LANES blocks at once, given and returned word by word: c[word][lane]. */
void lk__philox_lanes(uint32_t c[4][LK__PHILOX_LANES], const uint32_t key[2]);

#endif /* LK_BASE_PHILOX_H */
