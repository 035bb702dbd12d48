/* lk__nodes_pretend(): LK_LOCAL_NODES in the environment makes the ranks of one machine look as if
 * they were on several nodes, for tests of tiers and reports.  Transports call it as they open. */
#include "base/env.h"
#include "base/text/number.h"
#include "comm/comm.h"

lk_status lk__nodes_pretend(int size, int *node)
{
    const char *env = lk__env("LK_LOCAL_NODES");
    if (!env || !*env)
        return LK_OK;
    int64_t nodes = 0;
    LK_CHECK(!lk__number_read_int(env, &nodes) && nodes >= 1 && nodes <= LK_MAX_LOCAL, LK_EINVAL,
             "LK_LOCAL_NODES is \"%s\": it must be a number from 1 to %d", env, LK_MAX_LOCAL);
    if (nodes > size)
        nodes = size;
    for (int r = 0; r < size; r++)
        node[r] = (int)(r * nodes / size);
    return LK_OK;
}
