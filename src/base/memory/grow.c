/* lk__grow(): see grow.h. */
#include "base/memory/grow.h"

#include <lockstep/extra/alloc.h>

#include <string.h>

lk_status lk__grow(void *array, int64_t *capacity, int64_t n, size_t size)
{
    void *old, *more;
    if (n <= *capacity)
        return LK_OK;
    memcpy(&old, array, sizeof old);
    int64_t wanted = *capacity < 8 ? 16 : *capacity * 2;
    if (wanted < n)
        wanted = n;
    LK_TRY(lk_alloc(&more, wanted, size));
    if (old)
        memcpy(more, old, (size_t)*capacity * size);
    lk_free(old);
    memcpy(array, &more, sizeof more);
    *capacity = wanted;
    return LK_OK;
}
