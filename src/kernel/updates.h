/* The loops of optimizers: one pass over parameters w, gradients g and state, element by element.
 *
 * All begin with the gradient h that is followed:
 *
 *     h = clip(scale * g) + decay * w         clip: at least -limit, at most limit
 *
 * Each operation is rounded on its own (no fma), in the order in which the formulas read, so the
 * bits depend on neither instruction set nor cut.
 */
#ifndef LK_KERNEL_UPDATES_H
#define LK_KERNEL_UPDATES_H

#include "kernel/runtime/isa.h"

#include <lockstep/dtype.h>

#include <stdint.h>

/* Enumerator, name, formula. */
#define LK__UPDATE_MAP(X)                                                                        \
    X(SGD, sgd, "w = w - rate * h")                                                              \
    X(MOMENTUM, momentum, "m = mu * m + h; w = w - rate * m")                                    \
    X(NESTEROV, nesterov, "m = mu * m + h; w = w - rate * (h + mu * m)")                         \
    X(ADAM, adam,                                                                                \
      "m = b1 * m + c1 * h; v = b2 * v + c2 * (h * h); "                                         \
      "w = keep * w - rate * m / (sqrt(v) * root + eps)")                                        \
    X(ADAMAX, adamax, "m = b1 * m + c1 * h; v = max(b2 * v, |h|); w = w - rate * m / (v + eps)") \
    X(NADAM, nadam,                                                                              \
      "m = b1 * m + c1 * h; v = b2 * v + c2 * (h * h); "                                         \
      "w = w - (rate * h + rate2 * m) / (sqrt(v) * root + eps)")                                 \
    X(RMSPROP, rmsprop, "v = b2 * v + c2 * (h * h); w = w - rate * h / (sqrt(v) + eps)")         \
    X(RMSPROP_MOMENTUM, rmsprop_momentum,                                                        \
      "v = b2 * v + c2 * (h * h); m = mu * m + h / (sqrt(v) + eps); w = w - rate * m")           \
    X(ADAGRAD, adagrad, "v = v + h * h; w = w - rate * h / (sqrt(v) + eps)")                     \
    X(ADADELTA, adadelta,                                                                        \
      "v = b2 * v + c2 * (h * h); d = h * sqrt(m + eps) / sqrt(v + eps); "                       \
      "m = b2 * m + c2 * (d * d); w = w - rate * d")                                             \
    X(FOLLOW, follow, "m = h")                                                                   \
    X(STEP, step, "w = w + rate * m")

typedef enum lk__update_rule {
#define X(code, name, formula) LK__UPDATE_##code,
    LK__UPDATE_MAP(X)
#undef X
        LK__N_UPDATES
} lk__update_rule;

/* What a loop works on.  Numbers are rounded to the dtype once. */
typedef struct lk__update {
    void *w;
    const void *g;
    void *m, *v; /* state; NULL where the rule has none */
    double scale, limit, decay;
    double rate, rate2, mu, b1, c1, b2, c2, root, eps, keep;
} lk__update;

/* The elements first <= i < last. */
typedef void lk__update_fn(const lk__update *u, int64_t first, int64_t last);

typedef struct lk__updates_table {
    lk__update_fn *of[2][LK__N_UPDATES]; /* by lk_dtype (f32 and f64) and rule */
} lk__updates_table;

LK_ISA_TABLE(lk__updates_table, lk__updates)

/** Run a rule over `n` elements with the pool.  Errors: LK_EDTYPE, LK_EFPENV, those of threads. */
lk_status lk__update_run(lk_dtype dtype, lk__update_rule rule, const lk__update *u,
                         int64_t n) LK_NODISCARD;

#endif /* LK_KERNEL_UPDATES_H */
