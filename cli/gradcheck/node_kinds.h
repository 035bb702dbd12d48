/* Kinds of nodes that a layout adds to a model, and how many of each a rank has, for `lockstep gradcheck
 * --layout`.
 */
#ifndef LK_CLI_GRADCHECK_KINDS_H
#define LK_CLI_GRADCHECK_KINDS_H

#include <lockstep/extra/plan.h>

enum { GRADCHECK_KINDS = 64 };

typedef struct gradcheck_kind {
    const char *name;
    const char *ahead, *back; /* what travels in forward and in backward; "" for nothing */
} gradcheck_kind;

/** Kind number `i`, of fewer than GRADCHECK_KINDS; false: there is none. */
bool gradcheck_kind_at(int i, gradcheck_kind *out);

/** Add the nodes that a rank runs by this plan to count[GRADCHECK_KINDS], by kind.  Along an axis that is not
 * cut over ranks it has none. */
void gradcheck_kinds_count(const lk_plan *plan, int64_t *count);

#endif /* LK_CLI_GRADCHECK_KINDS_H */
