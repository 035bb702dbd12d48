/* What the rules with two moving means share. */
#ifndef LK_OPTIM_RULES_H
#define LK_OPTIM_RULES_H

#include "optim/optimizer.h"

typedef struct lk__moments_options {
    lk_optimizer_options all;
    double beta1, beta2, eps;
} lk__moments_options;

/* Their rows. */
#define LK__MOMENTS_OPTIONS(defaults)                               \
    LK_OPTIMIZER_OPTIONS(lk__moments_options, defaults),            \
        {"beta1",                                                   \
         LK_OPTION_REAL,                                            \
         offsetof(lk__moments_options, beta1),                      \
         .def = "0.9",                                              \
         .max = 1,                                                  \
         .flags = LK_OPTION_OPEN_MAX,                               \
         .help = "share of the last mean that is kept"},            \
        {"beta2",                                                   \
         LK_OPTION_REAL,                                            \
         offsetof(lk__moments_options, beta2),                      \
         .def = "0.999",                                            \
         .max = 1,                                                  \
         .flags = LK_OPTION_OPEN_MAX,                               \
         .help = "share of the last mean of squares that is kept"}, \
    {                                                               \
        "eps", LK_OPTION_REAL, offsetof(lk__moments_options, eps),  \
            .def = "1e-8", .max = 1, .flags = LK_OPTION_OPEN_MIN,   \
            .help = "added to the divisor, so that it is not 0"     \
    }

/** Their state: "m" and "v". */
lk_optimizer_state lk__moments_state(const void *options);

/** An update with the numbers of the moving means, and the rate corrected for the first. */
lk__update lk__moments_update(const lk_update_call *call);

#endif /* LK_OPTIM_RULES_H */
