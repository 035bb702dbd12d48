/* A pool: workers that sleep until a caller opens a job, and leave it before the caller returns.
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
 * then sleep on a futex.
 *
 * Each thread has a part of the tasks, the same range in every job of as many: what it wrote in one job
 * it finds in its caches in the next.  Whoever is done with its part helps with those of others.
 */
#include "kernel/workers.h"

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
    FEW_CHUNKS = 16,  /* of a job that may be short */
    SMALL_TASKS = 16, /* in a chunk of such a job */
    TRY_CUT = 8,      /* the part of a chunk that tells how long it is */
    WAKE_NS = 30000, /* a job that is worth waking others: the call, and the time until they come */
};

/* The gate: two flags and the number of workers inside. */
#define GATE_OPEN 0x80000000U
#define GATE_WAITING 0x40000000U /* the caller sleeps until the last worker leaves */

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Wait a moment for *word to change; true if it did. */
static bool spin_while(const lk__workers *p, _Atomic uint32_t *word, uint32_t value)
{
    if (!p->spins)
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

/* All chunks of a part that nobody has taken. */
static void part_do(lk__workers *p, lk__task_part *part)
{
    for (;;) {
        int64_t first = atomic_fetch_add_explicit(&part->next, p->chunk, memory_order_relaxed);
        if (first >= part->end)
            return;
        int64_t left = part->end - first;
        p->fn(p->arg, first, first + (left < p->chunk ? left : p->chunk));
    }
}

/* The part of thread `own`, the caller is 0, and then those of others. */
static void chunks_do(lk__workers *p, int own)
{
    for (int i = 0; i < p->n_parts; i++)
        part_do(p, &p->part[(own + i) % p->n_parts]);
}

static bool gate_enter(lk__workers *p)
{
    uint32_t g = atomic_load(&p->gate);
    while (g & GATE_OPEN)
        if (atomic_compare_exchange_weak(&p->gate, &g, g + 1))
            return true;
    return false;
}

static void gate_leave(lk__workers *p)
{
    if (atomic_fetch_sub(&p->gate, 1) == (GATE_WAITING | 1))
        lk__futex_wake_private(&p->gate, 1);
}

/* Let nobody in any more and wait for those inside. */
static void gate_close(lk__workers *p)
{
    uint32_t g = atomic_fetch_and(&p->gate, ~GATE_OPEN) & ~GATE_OPEN;
    while (g != 0 && spin_while(p, &p->gate, g))
        g = atomic_load(&p->gate);
    if (g == 0)
        return;
    g = atomic_fetch_or(&p->gate, GATE_WAITING) | GATE_WAITING;
    while (g != GATE_WAITING) {
        lk__futex_wait_private(&p->gate, g);
        g = atomic_load(&p->gate);
    }
}

static void epoch_wait(lk__workers *p, uint32_t seen)
{
    if (spin_while(p, &p->epoch, seen))
        return;
    /* Counting comes before the kernel compares the epoch, and the caller's step of the epoch
     * before it reads the count: one of the two notices the other. */
    atomic_fetch_add(&p->sleepers, 1);
    while (atomic_load(&p->epoch) == seen)
        lk__futex_wait_private(&p->epoch, seen);
    atomic_fetch_sub(&p->sleepers, 1);
}

static void epoch_step(lk__workers *p, int n_wake)
{
    atomic_fetch_add(&p->epoch, 1);
    if (atomic_load(&p->sleepers) > 0)
        lk__futex_wake_private(&p->epoch, n_wake);
}

static void *worker_main(void *arg)
{
    lk__workers *p = arg;
    uint32_t seen = p->first_epoch;
    const int own = atomic_fetch_add(&p->n_begun, 1) + 1;
    lk__fp_set();
    if (p->n_processors > 0)
        lk__thread_follow(&p->set);
    for (;;) {
        epoch_wait(p, seen);
        seen = atomic_load(&p->epoch);
        if (atomic_load(&p->stopping))
            return NULL;
        if (gate_enter(p)) {
            chunks_do(p, own);
            gate_leave(p);
        }
    }
}

void lk__workers_forget(lk__workers *p)
{
    pthread_mutex_init(&p->lock, NULL);
    p->n_workers = p->n_wanted = 0;
    atomic_store(&p->gate, 0);
    atomic_store(&p->sleepers, 0);
    atomic_store(&p->stopping, false);
}

void lk__workers_start(lk__workers *p, int n_wanted)
{
    p->n_wanted = n_wanted;
    p->spins = n_wanted < (p->n_processors > 0 ? p->n_processors : lk__cores());
    pthread_attr_t attr;
    if (pthread_attr_init(&attr) != 0)
        return;
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    p->first_epoch = atomic_load(&p->epoch);
    atomic_store(&p->n_begun, 0);
    while (p->n_workers < n_wanted) {
        pthread_t *t = &p->worker[p->n_workers];
        if (lk__thread_start(t, &attr, worker_main, p) != 0)
            break;
        p->n_workers++;
        char name[32];
        snprintf(name, sizeof name, "lockstep-%d", p->n_workers);
        pthread_setname_np(*t, name);
    }
    pthread_attr_destroy(&attr);
}

void lk__workers_stop(lk__workers *p)
{
    atomic_store(&p->stopping, true);
    epoch_step(p, INT_MAX);
    for (int i = 0; i < p->n_workers; i++)
        pthread_join(p->worker[i], NULL);
    atomic_store(&p->stopping, false);
    p->n_workers = p->n_wanted = 0;
}

/* A part of tasks [first, n) for each thread, if each has `grain` of them at least; all threads have as much
 * to do: of 12 tasks, 8 at a time, two threads do 6 each. */
static void parts_cut(lk__workers *p, int64_t first, int64_t n, int64_t grain)
{
    const int64_t tasks = n - first, chunks = (tasks - 1) / grain + 1, threads = p->n_workers + 1;
    const int64_t parts = chunks < threads ? chunks : threads, most = (tasks - 1) / parts + 1;
    const int64_t turns = (most - 1) / grain + 1;
    p->n_parts = (int)parts;
    p->chunk = (most - 1) / turns + 1;
    for (int i = 0; i < p->n_parts; i++) {
        atomic_store_explicit(&p->part[i].next, first, memory_order_relaxed);
        first += tasks / parts + (i < tasks % parts);
        p->part[i].end = first;
    }
}

/* While workers sleep: begin a job of few chunks, to see how long it is.  A short one the caller finishes, as
 * waking others would take longer.  Such jobs are added up, so that many of them do wake the others.  Returns
 * how many tasks are done: none, some or all. */
static int64_t short_try(lk__workers *p, int64_t n, int64_t grain, lk__task_fn *fn, void *arg)
{
    if (grain < SMALL_TASKS || n / grain >= FEW_CHUNKS || atomic_load(&p->sleepers) == 0)
        return 0;
    int64_t some = grain / TRY_CUT + 1, start = now_ns();
    fn(arg, 0, some);
    p->alone_ns += (double)(now_ns() - start) * (double)n / (double)some;
    if (p->alone_ns >= WAKE_NS)
        return some;
    fn(arg, some, n);
    return n;
}

void lk__workers_run(lk__workers *p, int64_t n, int64_t grain, lk__task_fn *fn, void *arg)
{
    int64_t done = short_try(p, n, grain, fn, arg);
    if (done == n)
        return;
    p->alone_ns = 0;
    p->fn = fn;
    p->arg = arg;
    parts_cut(p, done, n, grain);
    atomic_store(&p->gate, GATE_OPEN);
    epoch_step(p, p->n_parts - 1);
    chunks_do(p, 0);
    gate_close(p);
}
