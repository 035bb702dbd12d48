/* Activations that a matrix product or a convolution applies to a finished output: relu(z) and the like in
 * the same pass over memory, with the bits of the op of that name.
 */
#ifndef LK_ACT_H
#define LK_ACT_H

#include <lockstep/api.h>

LK_BEGIN_DECLS

#define LK_ACT_MAP(X) \
    X(RELU)           \
    X(SIGMOID)        \
    X(TANH)           \
    X(GELU)

typedef enum lk_act {
    LK_ACT_NONE,
#define X(code) LK_ACT_##code,
    LK_ACT_MAP(X)
#undef X
        LK_N_ACTS
} lk_act;

LK_END_DECLS

#endif /* LK_ACT_H */
