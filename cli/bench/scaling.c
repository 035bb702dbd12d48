/* Measuring one thread, several, and several copies with one thread each.
 *
 * Copies share nothing but the machine: its memory, its last-level cache and its clock rate.  What
 * they reach together is the most that threads which share their work can be expected to reach.
 */
#include "bench/scaling.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/thread.h>

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

static const double shortest_sample = 2e-3, settling = 5e-3;

/* One who computes on operands of his own; [0] is the caller. */
struct copy {
    void *given;
    pthread_t thread;
    struct scene *scene;
    lk_status status;
    double seconds; /* for all calls */
};

struct scene {
    bench_scaled_fn *fn;
    struct copy *copy;
    int n_copies, calls;
    atomic_int ready;
};

static lk_status time_calls(const struct copy *c, int calls, double *seconds)
{
    double start = bench_now();
    for (int i = 0; i < calls; i++)
        LK_TRY(c->scene->fn(c->given));
    *seconds = bench_now() - start;
    return LK_OK;
}

/* A call to warm up, then all together. */
static void *copy_main(void *arg)
{
    struct copy *c = arg;
    c->status = c->scene->fn(c->given);
    atomic_fetch_add(&c->scene->ready, 1);
    while (atomic_load(&c->scene->ready) < c->scene->n_copies)
        sched_yield();
    if (c->status == LK_OK)
        c->status = time_calls(c, c->scene->calls, &c->seconds);
    return NULL;
}

/* Seconds until the slowest copy is done. */
static lk_status time_copies(struct scene *s, double *seconds)
{
    int n = 1;
    atomic_store(&s->ready, 0);
    for (; n < s->n_copies; n++)
        if (pthread_create(&s->copy[n].thread, NULL, copy_main, &s->copy[n]) != 0)
            break;
    atomic_fetch_add(&s->ready, s->n_copies - n); /* those that are missing */
    copy_main(&s->copy[0]);
    *seconds = 0;
    lk_status st = LK_OK;
    for (int i = 0; i < n; i++) {
        struct copy *c = &s->copy[i];
        if (i > 0)
            pthread_join(c->thread, NULL);
        st = st == LK_OK ? c->status : st;
        *seconds = c->seconds > *seconds ? c->seconds : *seconds;
    }
    LK_CHECK(n == s->n_copies, LK_ENOTSUP, "only %d of %d threads could be started", n,
             s->n_copies);
    LK_CHECK(st == LK_OK, st, "a copy of the case failed");
    return LK_OK;
}

/* Call until threads that were just started are on processors of their own. */
static lk_status threads_settle(const struct scene *s, int threads)
{
    LK_TRY(lk_threads_set(threads));
    double start = bench_now();
    do
        LK_TRY(s->fn(s->copy[0].given));
    while (threads > 1 && bench_now() - start < settling);
    return LK_OK;
}

/* One thread, all threads, copies. */
static lk_status round_run(struct scene *s, double *one, double *many, double *copies)
{
    LK_TRY(threads_settle(s, 1));
    LK_TRY(time_calls(&s->copy[0], s->calls, one));
    LK_TRY(threads_settle(s, s->n_copies));
    LK_TRY(time_calls(&s->copy[0], s->calls, many));
    LK_TRY(lk_threads_set(1));
    return LK_TRACE(time_copies(s, copies));
}

static lk_status choose_calls(struct scene *s)
{
    double seconds = 0;
    LK_TRY(lk_threads_set(1));
    LK_TRY(s->fn(s->copy[0].given));
    LK_TRY(time_calls(&s->copy[0], 1, &seconds));
    s->calls = seconds > shortest_sample ? 1 : (int)(shortest_sample / seconds) + 1;
    return LK_OK;
}

static lk_status measure(struct scene *s, double seconds, bench_scaling *r)
{
    double one[BENCH_MAX_ROUNDS], many[BENCH_MAX_ROUNDS], copies[BENCH_MAX_ROUNDS];
    int n = 0;
    LK_TRY(choose_calls(s));
    for (double end = bench_now() + seconds; bench_goes_on(n, end); n++)
        LK_TRY(round_run(s, &one[n], &many[n], &copies[n]));
    r->rounds = n;
    r->one = bench_scaled(1.0 / s->calls, bench_median(one, n));
    r->many = bench_scaled(1.0 / s->calls, bench_median(many, n));
    r->speedup = bench_ratio(one, many, n);
    r->limit = bench_scaled(s->n_copies, bench_ratio(one, copies, n));
    r->share = bench_scaled(1.0 / s->n_copies, bench_ratio(copies, many, n));
    return LK_OK;
}

lk_status bench_scaling_run(bench_scaled_fn *fn, void *const *copy, int threads, double seconds,
                            bench_scaling *r)
{
    struct scene s = {.fn = fn, .n_copies = threads};
    LK_TRY(lk_alloc_zero(&s.copy, s.n_copies, sizeof *s.copy));
    for (int i = 0; i < s.n_copies; i++) {
        s.copy[i].given = copy[i];
        s.copy[i].scene = &s;
    }
    lk_status st = measure(&s, seconds, r);
    lk_free(s.copy);
    return LK_TRACE(st);
}
