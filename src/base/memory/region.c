/* lk__region: addresses are reserved with mmap(), and become memory from the front.  See region.h.
 */
#include "base/memory/region.h"

#include "base/memory/counted.h"
#include "base/memory/rehearsal.h"

#include <lockstep/extra/alloc.h>

#include <sys/mman.h>

/* Memory is added in steps: a sixteenth of what there is, between these, the larger that of large pages. */
enum { LEAST_STEP = 1 << 18, MOST_STEP = 1 << 21 };

static int64_t round_up(int64_t n, int64_t step)
{
    return (n + step - 1) / step * step;
}

/* Reserve addresses for `room` bytes that begin on a large page. */
static lk_status reserve(lk__region *r, int64_t room)
{
    r->room = round_up(room, LEAST_STEP);
    r->length = r->room + MOST_STEP;
    /* what is only rehearsed counts for no limit of data memory, as in lk_alloc() */
    int kind = lk__rehearses() ? MAP_SHARED | MAP_NORESERVE : MAP_PRIVATE;
    r->mapped = mmap(NULL, (size_t)r->length, PROT_NONE, kind | MAP_ANONYMOUS, -1, 0);
    LK_CHECK(r->mapped != MAP_FAILED, LK_ENOMEM, "no addresses for %lld bytes", (long long)r->room);
    int64_t past = (int64_t)((uintptr_t)r->mapped % MOST_STEP);
    r->base = (char *)r->mapped + (past > 0 ? MOST_STEP - past : 0);
    (void)madvise(r->base, (size_t)r->room, MADV_HUGEPAGE); /* advisory */
    return LK_OK;
}

lk_status lk__region_new(int64_t room, int64_t least, lk__region **out)
{
    LK_TRY(lk_alloc_zero(out, 1, sizeof **out));
    lk_status st = reserve(*out, room);
    if (st != LK_OK && least < room)
        st = reserve(*out, least);
    if (st != LK_OK) {
        lk_free(*out);
        *out = NULL;
    }
    return LK_TRACE(st);
}

lk_status lk__region_grow(lk__region *r, int64_t bytes)
{
    int64_t step = r->bytes / 16 > MOST_STEP ? MOST_STEP : r->bytes / 16;
    if (bytes <= r->bytes)
        return LK_OK;
    int64_t to = round_up(bytes, step > LEAST_STEP ? round_up(step, LEAST_STEP) : LEAST_STEP);
    if (to > r->room)
        to = r->room;
    LK_CHECK(bytes <= to, LK_ENOMEM, "no addresses for %lld bytes in a region of %lld",
             (long long)bytes, (long long)r->room);
    LK_TRY(lk__counted_take(to - r->bytes));
    if (mprotect(r->base + r->bytes, (size_t)(to - r->bytes), PROT_READ | PROT_WRITE) != 0) {
        lk__counted_give(to - r->bytes);
        LK_TRY(LK_RAISE(LK_ENOMEM, "no memory for %lld bytes", (long long)(to - r->bytes)));
    }
    r->bytes = to;
    return LK_OK;
}

void lk__region_free(void *region)
{
    lk__region *r = region;
    if (!r)
        return;
    (void)munmap(r->mapped, (size_t)r->length);
    lk__counted_give(r->bytes);
    lk_free(r);
}
