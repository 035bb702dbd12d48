/* Philox blocks side by side.  A function of its own, because inside larger ones compilers do not make
 * vectors of the lanes. */
#include "base/random/philox.h"

void lk__philox_lanes(uint32_t c[4][LK__PHILOX_LANES], const uint32_t key[2])
{
    uint32_t k0 = key[0], k1 = key[1];
    for (int r = 0; r < LK__PHILOX_ROUNDS; r++) {
        for (int i = 0; i < LK__PHILOX_LANES; i++)
            LK__PHILOX_ROUND(c[0][i], c[1][i], c[2][i], c[3][i], k0, k1);
        k0 += LK__PHILOX_WEYL_0;
        k1 += LK__PHILOX_WEYL_1;
    }
}
