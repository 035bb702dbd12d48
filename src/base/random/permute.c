/* A keyed permutation of [0, count) in no memory.
 *
 * Let 2^b be the smallest power of two that is at least count, and split b bits into a lower half x
 * and an upper half y.  Each round changes one half by a function of the other,
 *
 *     even rounds  y ^= f(x),    odd rounds  x ^= f(y),    f = the first word of a Philox block,
 *
 * and is undone by repeating it: the whole is a bijection of [0, 2^b).  Starting inside [0, count)
 * and repeating until the value is inside again follows a cycle of that bijection to its next
 * member of [0, count), which is a bijection of [0, count) again.
 */
#include "base/random/philox.h"

#include <lockstep/rng.h>

enum { FEISTEL_ROUNDS = 12 };

static uint32_t mask_of(int bits)
{
    return (uint32_t)((UINT64_C(1) << bits) - 1);
}

/* Several values at a time: a round waits for the one before it, and meanwhile the other lanes can go
 * on. */
static void feistel_lanes(lk_rng rng, uint64_t epoch, int bits, uint64_t v[LK__PHILOX_LANES])
{
    int low = bits / 2;
    uint32_t mask[2] = {mask_of(low), mask_of(bits - low)}, half[2][LK__PHILOX_LANES];
    for (int i = 0; i < LK__PHILOX_LANES; i++) {
        half[0][i] = (uint32_t)v[i] & mask[0];
        half[1][i] = (uint32_t)(v[i] >> low);
    }
    for (uint32_t r = 0; r < FEISTEL_ROUNDS; r++) {
        uint32_t from = r % 2, to = 1 - from, c[4][LK__PHILOX_LANES];
        for (int i = 0; i < LK__PHILOX_LANES; i++) {
            c[0][i] = half[from][i];
            c[1][i] = r;
            c[2][i] = (uint32_t)epoch;
            c[3][i] = (uint32_t)(epoch >> 32);
        }
        lk__philox_lanes(c, rng.key);
        for (int i = 0; i < LK__PHILOX_LANES; i++)
            half[to][i] ^= c[0][i] & mask[to];
    }
    for (int i = 0; i < LK__PHILOX_LANES; i++)
        v[i] = (uint64_t)half[1][i] << low | half[0][i];
}

lk_status lk_rng_permute(lk_rng rng, int64_t epoch, int64_t count, int64_t first, int64_t n,
                         int64_t *out)
{
    LK_CHECK(epoch >= 0, LK_EINVAL, "epoch %lld is negative", (long long)epoch);
    LK_CHECK(first >= 0 && n >= 0 && first <= count && n <= count - first, LK_EINVAL,
             "%lld places from %lld on are not in [0, %lld)", (long long)n, (long long)first,
             (long long)count);
    LK_CHECK(out || n == 0, LK_EINVAL, "out is NULL for %lld places", (long long)n);
    int bits = 0;
    while (bits < 63 && INT64_C(1) << bits < count)
        bits++;
    uint64_t v[LK__PHILOX_LANES];
    int64_t at[LK__PHILOX_LANES], next = 0;
    int lanes = 0;
    while (next < n || lanes > 0) {
        for (; lanes < LK__PHILOX_LANES && next < n; lanes++, next++) {
            v[lanes] = (uint64_t)(first + next);
            at[lanes] = next;
        }
        for (int l = lanes; l < LK__PHILOX_LANES; l++)
            v[l] = 0; /* it is not asked for: any */
        feistel_lanes(rng, (uint64_t)epoch, bits, v);
        int outside = 0; /* these go on, beside new ones */
        for (int l = 0; l < lanes; l++)
            if (v[l] < (uint64_t)count) {
                out[at[l]] = (int64_t)v[l];
            } else {
                v[outside] = v[l];
                at[outside++] = at[l];
            }
        lanes = outside;
    }
    return LK_OK;
}
