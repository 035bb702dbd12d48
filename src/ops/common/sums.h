/* Sums of maps in ops: kernel/sums.h, with the memory of a call. */
#ifndef LK_OPS_COMMON_SUMS_H
#define LK_OPS_COMMON_SUMS_H

#include "kernel/sums.h"

#include <lockstep/op.h>

/** In forward: go through all rows.  Errors: LK_ENOMEM, and those of lk__map_sums_run(). */
lk_status lk__call_sums(lk_call *c, lk__map_sums *s) LK_NODISCARD;

/** The same with sums down columns of all rows: out[k] [n] are those of term k, the pieces joined by the
 * fixed tree.  Of no rows they are 0. */
lk_status lk__call_sums_joined(lk_call *c, lk__map_sums *s,
                               void *const out[LK_SUMS_MOST]) LK_NODISCARD;

#endif /* LK_OPS_COMMON_SUMS_H */
