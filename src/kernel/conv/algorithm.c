/* Which convolutions an algorithm computes: all the direct one, few the one of Winograd. */
#include "kernel/conv/shape.h"

const char *lk__conv_algorithm_name(lk_conv_algorithm algorithm)
{
    static const char *const names[LK_N_CONV_ALGORITHMS] = {"direct", "winograd"};
    return (unsigned)algorithm < LK_N_CONV_ALGORITHMS ? names[algorithm] : "?";
}

/* A field of which Winograd's algorithm needs one value. */
static lk_status field_check(const char *name, int axis, int64_t value, int64_t needed)
{
    LK_CHECK(value == needed, LK_ESHAPE,
             "%s[%d] is %lld, but algorithm winograd needs %lld: use direct", name, axis,
             (long long)value, (long long)needed);
    return LK_OK;
}

lk_status lk__conv_algorithm_check(const lk_conv_shape *c)
{
    LK_CHECK((unsigned)c->algorithm < LK_N_CONV_ALGORITHMS, LK_EINVAL,
             "algorithm is %d; must be direct (%d) or winograd (%d)", (int)c->algorithm,
             LK_CONV_DIRECT, LK_CONV_WINOGRAD);
    if (c->algorithm == LK_CONV_DIRECT)
        return LK_OK;
    LK_CHECK(c->window.ndim == 2, LK_ESHAPE,
             "ndim is %d, but algorithm winograd needs 2: use direct", c->window.ndim);
    LK_CHECK(c->groups <= 1, LK_ESHAPE,
             "groups is %lld, but algorithm winograd needs 1: use direct", (long long)c->groups);
    for (int d = 0; d < c->window.ndim; d++) {
        LK_TRY(field_check("kernel", d, c->window.kernel[d], 3));
        LK_TRY(field_check("stride", d, c->window.stride[d] == 0 ? 1 : c->window.stride[d], 1));
        LK_TRY(
            field_check("dilation", d, c->window.dilation[d] == 0 ? 1 : c->window.dilation[d], 1));
    }
    return LK_OK;
}
