/* The bytes that change hands if a layer runs by tiles or by samples: domains.c chooses the cheaper
 * where bits allow either.  Arithmetic on the model's shapes. */
#ifndef LK_PARALLEL_DOMAIN_COSTS_H
#define LK_PARALLEL_DOMAIN_COSTS_H

#include "nn/model.h"

#include <lockstep/extra/plan.h>

enum { LK__N_DOMAINS = LK_BY_TILE + 1 };

/* Of a way through layers: how often the value changes its domain, and bytes of a sample that change. */
typedef struct lk__domain_cost {
    int64_t changes, bytes;
} lk__domain_cost;

/* What lk__domains_weigh() fills in: from before a layer to the end of its list the least cost, by the domain of
 * the value before the layer and by that in which the list ends. */
typedef struct lk__domain_ways {
    lk__domain_cost least[LK__N_DOMAINS][LK__N_DOMAINS];
} lk__domain_ways;

typedef struct lk__domain_walk {
    const lk__net *net;
    const lk_tiling *tiling;
    bool (*may)[LK__N_DOMAINS]; /* by layer: in which domains it can run; at least one */
    lk__domain_ways *ways;      /* by layer */
} lk__domain_walk;

/** Whether a value can be cut: it has the axes of the grid, and no more than tiles can have. */
bool lk__domain_can_cut(const lk_tiling *tiling, lk_tensor_type type);

/** Fill in w->ways of a list's layers and of those within them. */
void lk__domains_weigh(const lk__domain_walk *w, int64_t list);

/** The domain of a list's layer number i, where the value before it is in `at` and the list ends in `end`. */
lk_domain lk__domain_choose(const lk__domain_walk *w, int64_t list, int64_t i, lk_domain at,
                            lk_domain end);

#endif /* LK_PARALLEL_DOMAIN_COSTS_H */
