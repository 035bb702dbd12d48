/* Sleep on a word of memory, also one that processes share: what waits of ranks and of the workers of
 * kernels are made of. */
#ifndef LK_BASE_FUTEX_H
#define LK_BASE_FUTEX_H

#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#if defined __has_feature
#    if __has_feature(thread_sanitizer)
#        define LK_TSAN_CLANG
#    endif
#endif

/** Sleep while `*word` is `value`, at most `ns` nanoseconds. */
static inline void lk__futex_wait(_Atomic uint32_t *word, uint32_t value, int64_t ns)
{
    struct timespec t = {ns / 1000000000, ns % 1000000000};
    syscall(SYS_futex, word, FUTEX_WAIT, value, &t, NULL, 0);
}

static inline void lk__futex_wake(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/** The same between threads of one process, for any time; `n` of them are woken. */
static inline void lk__futex_wait_private(_Atomic uint32_t *word, uint32_t value)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static inline void lk__futex_wake_private(_Atomic uint32_t *word, int n)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
}

/* A fence.  ThreadSanitizer knows none, and takes an operation that is as strong on the processor. */
static inline void lk__fence(memory_order order)
{
#if defined __SANITIZE_THREAD__ || defined LK_TSAN_CLANG
    _Atomic uint32_t own = 0;
    (void)order;
    atomic_fetch_add(&own, 1);
#else
    atomic_thread_fence(order);
#endif
}

static inline void lk__relax(void)
{
#if defined __x86_64__
    __builtin_ia32_pause();
#elif defined __aarch64__
    __asm__ volatile("yield");
#endif
}

#endif /* LK_BASE_FUTEX_H */
