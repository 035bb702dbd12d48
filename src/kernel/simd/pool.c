/* Inner loops of pooling: one position, vectors over its channels. */
#include "kernel/pool/pool.h"

#include "kernel/simd/vec.h"

#include <math.h>
#include <string.h>

#define VEC LK_VEC_F32
#define POOL_INT int32_t
#include "kernel/simd/pool_tile.h"
#undef POOL_INT
#undef VEC

#define VEC LK_VEC_F64
#define POOL_INT int64_t
#include "kernel/simd/pool_tile.h"
#undef POOL_INT
#undef VEC

#define TYPE                                                                                    \
    {                                                                                           \
        .max = V(pool_max), .max_relu = V(pool_max_relu), .avg = V(pool_avg), .l2 = V(pool_l2), \
        .max_backward = V(pool_max_backward), .max_spread = V(pool_max_spread),                 \
        .avg_backward = V(pool_avg_backward), .l2_backward = V(pool_l2_backward),               \
    }

const lk__pool_table LK_ISA(lk__pool) = {
    .of =
        {
#define VEC LK_VEC_F32
            [LK_F32] = TYPE,
#undef VEC
#define VEC LK_VEC_F64
            [LK_F64] = TYPE,
#undef VEC
        },
};
