/* Inputs for the checks of maps: special values, and numbers of all magnitudes. */
#ifndef LK_CLI_CHECK_MAP_H
#define LK_CLI_CHECK_MAP_H

#include "selfcheck/check.h"

/** The parameter p of maps that have one. */
#define CHECK_MAP_PARAMETER 0.3

/**
 * Add an input of `n` elements: first zeros, ones, infinities, NaN, denormals and the like in an
 * order that depends on `turn`, then numbers of all magnitudes.
 */
lk_status check_map_input(check_case *c, int64_t n, int turn) LK_NODISCARD;

#endif /* LK_CLI_CHECK_MAP_H */
