/* lk_alloc() and lk_free(), through which all memory of the library comes: malloc() with a 64-byte
 * header that holds the size of the block.  They count what is in use, and fail on purpose for
 * tests.  Any thread. */
#include "base/memory/alloc_fault.h"
#include "base/memory/counted.h"
#include "base/memory/rehearsal.h"

#include <lockstep/extra/alloc.h>

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Large blocks lie on pages of this size where the system has them: a network's parameters are on
 * more ordinary pages than a core remembers, and finding one again costs as much as the arithmetic
 * of a line. */
enum { LARGE_PAGE = 2 << 20 };

struct header {
    int64_t bytes;
    int64_t mapped; /* bytes of addresses that a rehearsal has it from; 0: it is of the heap */
    unsigned char pad[LK_ALIGN - 2 * sizeof(int64_t)]; /* keeps the block behind it aligned */
};

static _Atomic int64_t live_blocks, live_bytes, peak_bytes, calls;
static _Atomic int64_t fail_in; /* allocations until the injected failure; 0: none */
static _Thread_local int64_t fail_here;

/* True for exactly one caller: the one that brings a countdown from 1 to 0. */
static int injected_failure(void)
{
    if (fail_here > 0 && --fail_here == 0)
        return 1;
    int64_t n = atomic_load(&fail_in);
    while (n > 0 && !atomic_compare_exchange_weak(&fail_in, &n, n - 1))
        ;
    return n == 1;
}

static void update_peak(int64_t now)
{
    int64_t peak = atomic_load(&peak_bytes);
    while (now > peak && !atomic_compare_exchange_weak(&peak_bytes, &peak, now))
        ;
}

/* For a rehearsal: shared memory has pages, of zeros, only where it was touched, and limits of data memory are
 * for private memory. */
static struct header *take_addresses(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE,
                    -1, 0);
    if (at == MAP_FAILED)
        return NULL;
    struct header *h = at;
    h->mapped = (int64_t)bytes;
    return h;
}

/* `bytes` aligned to LK_ALIGN, or NULL. */
static void *take(size_t bytes)
{
    void *at = NULL;
    if (bytes < LARGE_PAGE)
        return aligned_alloc(LK_ALIGN, bytes);
    if (posix_memalign(&at, LARGE_PAGE, bytes) != 0)
        return NULL;
    (void)madvise(at, bytes / LARGE_PAGE * LARGE_PAGE, MADV_HUGEPAGE); /* advisory */
    return at;
}

lk_status lk__counted_take(int64_t bytes)
{
    atomic_fetch_add(&calls, 1);
    LK_CHECK(!injected_failure(), LK_ENOMEM, "no memory for %lld bytes", (long long)bytes);
    update_peak(atomic_fetch_add(&live_bytes, bytes) + bytes);
    return LK_OK;
}

void lk__counted_give(int64_t bytes)
{
    atomic_fetch_sub(&live_bytes, bytes);
}

lk_status lk_alloc(void *out, int64_t count, size_t size)
{
    void *none = NULL;
    memcpy(out, &none, sizeof none);
    atomic_fetch_add(&calls, 1);
    LK_CHECK(count >= 0, LK_EINVAL, "cannot allocate %lld elements", (long long)count);
    int64_t bytes;
    if (size > INT64_MAX || __builtin_mul_overflow(count, (int64_t)size, &bytes) ||
        bytes > INT64_MAX - INT64_C(2) * LK_ALIGN)
        return LK_RAISE(LK_EOVERFLOW, "%lld elements of %zu bytes", (long long)count, size);
    size_t total = sizeof(struct header) + ((size_t)bytes + LK_ALIGN - 1) / LK_ALIGN * LK_ALIGN;
    bool rehearsed = lk__rehearses() && total >= LARGE_PAGE;
    struct header *h = NULL;
    if (!injected_failure())
        h = rehearsed ? take_addresses(total) : take(total);
    LK_CHECK(h, LK_ENOMEM, "no memory for %lld bytes (%lld elements of %zu)", (long long)bytes,
             (long long)count, size);
    if (!rehearsed)
        h->mapped = 0;
    h->bytes = bytes;
    atomic_fetch_add(&live_blocks, 1);
    update_peak(atomic_fetch_add(&live_bytes, bytes) + bytes);
    void *block = h + 1;
    memcpy(out, &block, sizeof block);
    return LK_OK;
}

lk_status lk_alloc_zero(void *out, int64_t count, size_t size)
{
    LK_TRY(lk_alloc(out, count, size));
    void *block;
    memcpy(&block, out, sizeof block);
    if (((struct header *)block - 1)->mapped == 0) /* addresses are of zeros */
        memset(block, 0, (size_t)count * size);
    return LK_OK;
}

void lk_free(void *block)
{
    if (!block)
        return;
    struct header *h = (struct header *)block - 1;
    atomic_fetch_sub(&live_blocks, 1);
    atomic_fetch_sub(&live_bytes, h->bytes);
    if (h->mapped > 0)
        munmap(h, (size_t)h->mapped);
    else
        free(h);
}

lk_alloc_stats lk_alloc_stats_now(void)
{
    return (lk_alloc_stats){atomic_load(&live_blocks), atomic_load(&live_bytes),
                            atomic_load(&peak_bytes), atomic_load(&calls)};
}

void lk_alloc_fail_at(int64_t n)
{
    atomic_store(&fail_in, n);
}

int64_t lk__alloc_fail_here(int64_t n)
{
    int64_t left = fail_here;
    fail_here = n;
    return left;
}
