/* Activations by definition, for the checks of kernels that apply one. */
#ifndef LK_CLI_CHECK_ACT_H
#define LK_CLI_CHECK_ACT_H

#include "selfcheck/check.h"

#include <lockstep/extra/map.h>

const char *check_act_name(lk_act act);

/**
 * Apply an activation to the expected element `i` of output `o`: to its bits by the map of the same
 * name, to its value in double precision.
 */
lk_status check_act_apply(check_truth *truth, int o, int64_t i, lk_dtype dtype,
                          lk_act act) LK_NODISCARD;

#endif /* LK_CLI_CHECK_ACT_H */
