/* The pool: workers that sleep until a caller opens a job, and leave it before the caller returns.
 *
 *   caller                              worker
 *   ------                              ------
 *   job = ...; open the gate
 *   epoch + 1, wake sleepers     ─►     sees the epoch change
 *   take chunks until none is left      enters the gate if it is open, takes chunks, leaves
 *   close the gate
 *   wait until nobody is inside  ◄─     the last one out wakes the caller
 *
 * A worker that comes late finds the gate closed and waits for the next epoch, so nobody ever waits
 * for a worker that has not begun.  Both waits spin for a moment, giving way to other threads, and
 * then sleep on a futex.  All memory is static: a forked child only has to forget the workers it
 * does not have.
 */
#include "kernel/parallel.h"

#include "base/fpenv.h"
#include "base/futex.h"
#include "base/thread.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>
#include <unistd.h>

enum {
    SPIN_NS = 100000, /* about what falling asleep and being woken costs on a virtual machine */
    SPIN_PAUSES = 64,
    STACK_BYTES = 2 << 20,
    CACHE_LINE = 64,
};

/* The gate: two flags and the number of workers inside. */
#define GATE_OPEN 0x80000000U
#define GATE_WAITING 0x40000000U /* the caller sleeps until the last worker leaves */

static struct {
    pthread_mutex_t lock; /* held by the caller whose job it is, and while starting and stopping */
    pthread_t worker[LK_MAX_THREADS];
    int n_workers;
    int n_wanted; /* more than n_workers if some could not be started */
    bool spins;   /* there is a core for each thread */
    bool survives_fork;

    /* The job; changes only while the gate is closed and nobody is inside. */
    lk__task_fn *fn;
    void *arg;
    int64_t n, grain, n_chunks;

    _Alignas(CACHE_LINE) _Atomic int64_t next_chunk;
    _Alignas(CACHE_LINE) _Atomic uint32_t gate;
    _Alignas(CACHE_LINE) _Atomic uint32_t epoch;
    _Atomic int sleepers; /* workers asleep on the epoch, or about to be */
    atomic_bool stopping;
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Wait a moment for *word to change; true if it did. */
static bool spin_while(_Atomic uint32_t *word, uint32_t value)
{
    if (!pool.spins)
        return atomic_load(word) != value;
    int64_t end = now_ns() + SPIN_NS;
    do {
        for (int i = 0; i < SPIN_PAUSES; i++) {
            if (atomic_load_explicit(word, memory_order_acquire) != value)
                return true;
            lk__relax();
        }
        sched_yield();
    } while (now_ns() < end);
    return false;
}

static void chunks_do(void)
{
    for (;;) {
        int64_t c = atomic_fetch_add_explicit(&pool.next_chunk, 1, memory_order_relaxed);
        if (c >= pool.n_chunks)
            return;
        int64_t first = c * pool.grain;
        int64_t count = pool.n - first < pool.grain ? pool.n - first : pool.grain;
        pool.fn(pool.arg, first, first + count);
    }
}

static bool gate_enter(void)
{
    uint32_t g = atomic_load(&pool.gate);
    while (g & GATE_OPEN)
        if (atomic_compare_exchange_weak(&pool.gate, &g, g + 1))
            return true;
    return false;
}

static void gate_leave(void)
{
    if (atomic_fetch_sub(&pool.gate, 1) == (GATE_WAITING | 1))
        lk__futex_wake_private(&pool.gate, 1);
}

/* Let nobody in any more and wait for those inside. */
static void gate_close(void)
{
    uint32_t g = atomic_fetch_and(&pool.gate, ~GATE_OPEN) & ~GATE_OPEN;
    while (g != 0 && spin_while(&pool.gate, g))
        g = atomic_load(&pool.gate);
    if (g == 0)
        return;
    g = atomic_fetch_or(&pool.gate, GATE_WAITING) | GATE_WAITING;
    while (g != GATE_WAITING) {
        lk__futex_wait_private(&pool.gate, g);
        g = atomic_load(&pool.gate);
    }
}

static void epoch_wait(uint32_t seen)
{
    if (spin_while(&pool.epoch, seen))
        return;
    /* Counting comes before the kernel compares the epoch, and the caller's step of the epoch
     * before it reads the count: one of the two notices the other. */
    atomic_fetch_add(&pool.sleepers, 1);
    while (atomic_load(&pool.epoch) == seen)
        lk__futex_wait_private(&pool.epoch, seen);
    atomic_fetch_sub(&pool.sleepers, 1);
}

static void epoch_step(int n_wake)
{
    atomic_fetch_add(&pool.epoch, 1);
    if (atomic_load(&pool.sleepers) > 0)
        lk__futex_wake_private(&pool.epoch, n_wake);
}

static void *worker_main(void *arg)
{
    uint32_t seen = (uint32_t)(uintptr_t)arg;
    lk__fp_set();
    for (;;) {
        epoch_wait(seen);
        seen = atomic_load(&pool.epoch);
        if (atomic_load(&pool.stopping))
            return NULL;
        if (gate_enter()) {
            chunks_do();
            gate_leave();
        }
    }
}

/* The child has no workers, whatever the parent's were doing. */
static void forget_workers(void)
{
    pthread_mutex_init(&pool.lock, NULL);
    pool.n_workers = pool.n_wanted = 0;
    atomic_store(&pool.gate, 0);
    atomic_store(&pool.sleepers, 0);
    atomic_store(&pool.stopping, false);
}

static void watch_forks(void)
{
    pool.survives_fork = pthread_atfork(NULL, NULL, forget_workers) == 0;
}

static void pool_start(int n_wanted)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    pool.n_wanted = n_wanted;
    pool.spins = n_wanted < lk__cores();
    pthread_attr_t attr;
    if (!pool.survives_fork || pthread_attr_init(&attr) != 0)
        return;
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    void *epoch = (void *)(uintptr_t)atomic_load(&pool.epoch);
    while (pool.n_workers < n_wanted) {
        pthread_t *t = &pool.worker[pool.n_workers];
        if (lk__thread_start(t, &attr, worker_main, epoch) != 0)
            break;
        pool.n_workers++;
        char name[32];
        snprintf(name, sizeof name, "lockstep-%d", pool.n_workers);
        pthread_setname_np(*t, name);
    }
    pthread_attr_destroy(&attr);
}

static void pool_stop(void)
{
    atomic_store(&pool.stopping, true);
    epoch_step(INT_MAX);
    for (int i = 0; i < pool.n_workers; i++)
        pthread_join(pool.worker[i], NULL);
    atomic_store(&pool.stopping, false);
    pool.n_workers = pool.n_wanted = 0;
}

void lk_threads_stop(void)
{
    pthread_mutex_lock(&pool.lock);
    pool_stop();
    pthread_mutex_unlock(&pool.lock);
}

/* Workers must not outlive their code when a host unloads the library. */
__attribute__((destructor)) static void stop_at_unload(void)
{
    if (pthread_mutex_trylock(&pool.lock) != 0)
        return;
    pool_stop();
    pthread_mutex_unlock(&pool.lock);
}

static void job_run(int64_t n, int64_t grain, lk__task_fn *fn, void *arg)
{
    pool.fn = fn;
    pool.arg = arg;
    pool.n = n;
    pool.grain = grain;
    pool.n_chunks = (n - 1) / grain + 1;
    atomic_store(&pool.next_chunk, 0);
    atomic_store(&pool.gate, GATE_OPEN);
    int64_t others = pool.n_chunks - 1;
    epoch_step(others < pool.n_workers ? (int)others : pool.n_workers);
    chunks_do();
    gate_close();
}

lk_status lk__parallel(int64_t n, int64_t grain, lk__task_fn *fn, void *arg)
{
    int threads;
    LK_TRY(lk_threads_now(&threads));
    if (n <= 0)
        return LK_OK;
    if (grain < 1)
        grain = 1;
    if (threads == 1 || n <= grain || pthread_mutex_trylock(&pool.lock) != 0) {
        fn(arg, 0, n);
        return LK_OK;
    }
    if (pool.n_wanted != threads - 1) {
        pool_stop();
        pool_start(threads - 1);
    }
    job_run(n, grain, fn, arg);
    pthread_mutex_unlock(&pool.lock);
    return LK_OK;
}
