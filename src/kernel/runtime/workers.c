/* A pool: workers that sleep until a caller opens a job, and leave it before the caller returns.
 *
 *   caller                              worker
 *   ------                              ------
 *   job = ...; open the gate
 *   epoch + 1, wake sleepers     ─►     sees the epoch change
 *   take chunks until none is left      enters the gate if it is open, takes chunks, leaves
 *   close the gate
 *   wait until none is inside    ◄─     the last one out wakes the caller
 *
 * A worker that comes late finds the gate closed and waits for the next epoch, so a caller never
 * waits for a worker that has not begun.  Both waits spin for a moment, giving way to other threads, and
 * then sleep on a futex.
 *
 * Each thread has a part of the tasks, the same range in every job of as many: what it wrote in one job
 * it finds in its caches in the next.  A thread that is done with its part helps with those of others.
 */
#include "kernel/runtime/workers.h"

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
    CHUNK_NS = 1000, /* of a call of the task's function, at least */
    PAYS = 8,        /* times as long as it takes to reach a thread it must have work */
    REACH_NS = 100,  /* as long as nothing is measured: of cores that share a cache */
    FAR_NS = 2000,   /* the most that is believed: it was late for other reasons */
    WAKE_NS = 30000,
    LATE_NS = 200000, /* the same of those that sleep */
    LEARN = 8,        /* a measurement is this part of what is believed next */
    FORGET = 256      /* without one, this part of it is lost */
};

/* The gate: two flags, how many more may come in, and the number of workers inside. */
#define GATE_OPEN 0x80000000U
#define GATE_WAITING 0x40000000U /* the caller sleeps until the last worker leaves */
#define GATE_PLACE 0x1000U
#define GATE_PLACES 0x3ffff000U

_Static_assert(LK_MAX_THREADS < GATE_PLACE, "all fit in");

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

/* All chunks that no thread has taken: of the part of thread `own`, the caller is 0, and then of others. */
static void chunks_do(lk__workers *p, int own)
{
    for (int i = 0; i < p->n_parts; i++) {
        lk__task_part *part = &p->part[(own + i) % p->n_parts];
        int64_t first;
        while ((first = atomic_fetch_add_explicit(&part->next, p->chunk, memory_order_relaxed)) <
               part->end) {
            int64_t left = part->end - first;
            p->fn(p->arg, first, first + (left < p->chunk ? left : p->chunk));
        }
    }
}

static bool gate_enter(lk__workers *p)
{
    uint32_t g = atomic_load(&p->gate);
    while (g & GATE_OPEN && g & GATE_PLACES)
        if (atomic_compare_exchange_weak(&p->gate, &g, g - GATE_PLACE + 1))
            return true;
    return false;
}

static void gate_leave(lk__workers *p)
{
    if (atomic_fetch_sub(&p->gate, 1) == (GATE_WAITING | 1))
        lk__futex_wake_private(&p->gate, 1);
}

/* Let no worker in any more and wait for those inside. */
static void gate_close(lk__workers *p)
{
    const uint32_t closed = ~(GATE_OPEN | GATE_PLACES);
    uint32_t g = atomic_fetch_and(&p->gate, closed) & closed;
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

/* Returns whether it slept. */
static bool epoch_wait(lk__workers *p, uint32_t seen)
{
    if (spin_while(p, &p->epoch, seen))
        return false;
    /* Counting comes before the kernel compares the epoch, and the caller's step of the epoch
     * before it reads the count: one of the two notices the other. */
    atomic_fetch_add(&p->sleepers, 1);
    while (atomic_load(&p->epoch) == seen)
        lk__futex_wait_private(&p->epoch, seen);
    atomic_fetch_sub(&p->sleepers, 1);
    return true;
}

static void epoch_step(lk__workers *p, int n_wake)
{
    atomic_fetch_add(&p->epoch, 1);
    if (atomic_load(&p->sleepers) > 0)
        lk__futex_wake_private(&p->epoch, n_wake);
}

static void learn(_Atomic int64_t *about, int64_t measured, int64_t most)
{
    int64_t old = atomic_load_explicit(about, memory_order_relaxed);
    measured = measured < 1 ? 1 : measured < most ? measured : most;
    atomic_store_explicit(about, old + (measured - old) / LEARN, memory_order_relaxed);
}

/* No job is measured: the time may have changed. */
static void forget(_Atomic int64_t *about)
{
    int64_t old = atomic_load_explicit(about, memory_order_relaxed);
    atomic_store_explicit(about, old - old / FORGET, memory_order_relaxed);
}

/* A worker is inside. */
static void reached(lk__workers *p, bool slept)
{
    int64_t ns = now_ns() - p->opened_ns;
    if (slept)
        learn(&p->wake_ns, ns, LATE_NS);
    else
        learn(&p->reach_ns, ns, FAR_NS);
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
        bool slept = epoch_wait(p, seen);
        seen = atomic_load(&p->epoch);
        if (atomic_load(&p->stopping))
            return NULL;
        if (gate_enter(p)) {
            reached(p, slept);
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
    atomic_store(&p->reach_ns, REACH_NS);
    atomic_store(&p->wake_ns, WAKE_NS);
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

/* How many threads a job is worth; those that sleep count if it pays to wake them.  Jobs for which it does not
 * are added up, so that many of them do wake. */
static int crew(lk__workers *p, const lk__tasks *tasks)
{
    const double ns = (double)tasks->n * tasks->ns;
    const int sleepers = atomic_load(&p->sleepers), awake = p->n_workers + 1 - sleepers;
    double paid = ns / (double)(PAYS * atomic_load_explicit(&p->reach_ns, memory_order_relaxed));
    int all = tasks->n < p->n_workers + 1 ? (int)tasks->n : p->n_workers + 1;
    int n = paid < all ? (int)paid : all;
    if (n < all)
        forget(&p->reach_ns);
    if (n <= awake)
        return n;
    p->alone_ns += ns;
    if (p->alone_ns < (double)atomic_load_explicit(&p->wake_ns, memory_order_relaxed))
        return awake;
    p->alone_ns = 0;
    return n;
}

/* A part of the tasks for each of n threads, in calls of as many tasks: of 12 tasks, 5 at a time, two threads
 * do 3 twice. */
static void parts_cut(lk__workers *p, const lk__tasks *tasks, int n)
{
    const int64_t most = (tasks->n - 1) / n + 1;
    const double chunk = CHUNK_NS / tasks->ns;
    int64_t least = chunk < (double)most ? (int64_t)chunk + 1 : most;
    least = least < tasks->least ? tasks->least : least;
    const int64_t turns = (most - 1) / least + 1;
    p->n_parts = n;
    p->chunk = (most - 1) / turns + 1;
    int64_t first = 0;
    for (int i = 0; i < n; i++) {
        atomic_store_explicit(&p->part[i].next, first, memory_order_relaxed);
        first += tasks->n / n + (i < tasks->n % n);
        p->part[i].end = first;
    }
}

void lk__workers_run(lk__workers *p, const lk__tasks *tasks, lk__task_fn *fn, void *arg)
{
    int n = crew(p, tasks);
    if (n <= 1) {
        fn(arg, 0, tasks->n);
        return;
    }
    p->fn = fn;
    p->arg = arg;
    parts_cut(p, tasks, n);
    p->opened_ns = now_ns();
    const uint32_t others = (uint32_t)n - 1;
    atomic_store(&p->gate, GATE_OPEN | others * GATE_PLACE);
    epoch_step(p, n - 1);
    chunks_do(p, 0);
    gate_close(p);
}
