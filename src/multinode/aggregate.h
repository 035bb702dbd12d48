/* lk_aggregator from inside: its state as numbers.  For aggregate.c and early_stop.c. */
#ifndef LK_MULTINODE_AGGREGATE_H
#define LK_MULTINODE_AGGREGATE_H

#include "multinode/exact.h"

#include <lockstep/observe.h>

enum { LK_AGGREGATOR_NUMBERS = LK_EXACT_NUMBERS + 1 };

/** What all ranks have observed since the last time.  Collective; errors as lk_aggregator_state(). */
lk_status lk__aggregator_save(lk_aggregator *a, int64_t number[LK_AGGREGATOR_NUMBERS]) LK_NODISCARD;

/** Go on from that, on all ranks together.  Errors: LK_EINVAL; nothing has changed then. */
lk_status lk__aggregator_load(lk_aggregator *a,
                              const int64_t number[LK_AGGREGATOR_NUMBERS]) LK_NODISCARD;

#endif /* LK_MULTINODE_AGGREGATE_H */
