/* lk__extent(): the bytes of a buffer of n elements, with a limit of what memory could hold, so
 * that sums over ranks do not overflow.  For the arguments of sends and collectives. */
#include "comm/comm.h"

lk_status lk__extent(const char *what, int64_t count, int64_t elem, int64_t *bytes)
{
    const int64_t most = INT64_C(1) << 48;
    LK_CHECK(count <= most / elem, LK_EOVERFLOW, "%s: %lld elements of %lld bytes are no memory",
             what, (long long)count, (long long)elem);
    *bytes = count * elem;
    return LK_OK;
}
