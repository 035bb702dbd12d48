/* Axes that attributes name. */
#ifndef LK_OPS_COMMON_AXES_H
#define LK_OPS_COMMON_AXES_H

#include <lockstep/op.h>

/** Whether input 0 has this axis.  Errors: LK_EINVAL naming op, axis and input. */
lk_status lk__axis_check(const lk_call *c, int axis) LK_NODISCARD;

#endif /* LK_OPS_COMMON_AXES_H */
