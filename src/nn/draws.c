/* Normal draws by Box and Muller, with the library's own logarithm and cosine. */
#include "nn/draws.h"

#include <lockstep/extra/map.h>

enum { BLOCK = 512 };

/* At most BLOCK draws from number `first` on. */
static lk_status block(lk_rng stream, int64_t first, int64_t n, double *out)
{
    double both[2 * BLOCK], angle[BLOCK];
    LK_TRY(lk_rng_uniform_f64(stream, (lk_rng_at){.element = 2 * first}, 2 * n, both));
    for (int64_t i = 0; i < n; i++) {
        out[i] = 1 - both[2 * i];
        angle[i] = 6.283185307179586 * both[2 * i + 1];
    }
    LK_TRY(lk_map1(LK_F64, LK_MAP1_LOG, 0, n, out, out));
    LK_TRY(lk_map1(LK_F64, LK_MAP1_SCALE, -2, n, out, out));
    LK_TRY(lk_map1(LK_F64, LK_MAP1_SQRT, 0, n, out, out));
    LK_TRY(lk_map1(LK_F64, LK_MAP1_COS, 0, n, angle, angle));
    return LK_TRACE(lk_map2(LK_F64, LK_MAP2_MUL, 0, n, out, angle, out));
}

lk_status lk__draw_normal(lk_rng stream, lk_range range, double *out)
{
    for (int64_t i = 0; i < range.n; i += BLOCK)
        LK_TRY(block(stream, range.first + i, range.n - i < BLOCK ? range.n - i : BLOCK, out + i));
    return LK_OK;
}

lk_status lk__draw_scaled(const lk_init_call *call, bool normal, double scale)
{
    if (normal) {
        LK_TRY(lk__draw_normal(call->stream, call->elements, call->out));
        for (int64_t i = 0; i < call->elements.n; i++)
            call->out[i] *= scale;
        return LK_OK;
    }
    LK_TRY(lk_rng_uniform_f64(call->stream, (lk_rng_at){.element = call->elements.first},
                              call->elements.n, call->out));
    for (int64_t i = 0; i < call->elements.n; i++)
        call->out[i] = scale * (2 * call->out[i] - 1);
    return LK_OK;
}
