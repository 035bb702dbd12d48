/* Element-wise maps: the loop of the instruction set in use. */
#include "kernel/maps.h"

lk_status lk__act_get(lk_dtype dtype, lk_act act, lk__act_fn **out)
{
    const lk__maps1_table *t;
    LK_CHECK(lk_dtype_is_real(dtype), LK_EDTYPE, "dtype is %s, an activation needs f32 or f64",
             lk_dtype_name(dtype));
    LK_CHECK((unsigned)act < LK_N_ACTS, LK_EINVAL, "act is %d, must be below %d", (int)act,
             LK_N_ACTS);
    LK_TRY(lk__maps1_get(&t));
    *out = t->act[dtype][act];
    return LK_OK;
}
