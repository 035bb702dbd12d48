/* Random numbers for initial values: the files of src/nn/inits call these, for the range that is held. */
#ifndef LK_NN_DRAWS_H
#define LK_NN_DRAWS_H

#include <lockstep/nn.h>

/** Draw number i of the normal distribution, for each i of the range: sqrt(-2 log u) cos(2 pi v), where
 * u in (0, 1] and v in [0, 1) are draws 2 i and 2 i + 1 of the stream.  Errors: LK_ENOMEM. */
lk_status lk__draw_normal(lk_rng stream, lk_range range, double *out) LK_NODISCARD;

/** out[i] = uniform in [-scale, scale), or normal times scale. */
lk_status lk__draw_scaled(const lk_init_call *call, bool normal, double scale) LK_NODISCARD;

#endif /* LK_NN_DRAWS_H */
