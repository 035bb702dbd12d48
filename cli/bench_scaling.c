/* Measuring one thread, several, and several copies with one thread each.
 *
 * Copies share nothing but the machine: its memory, its last-level cache and its clock rate.  What
 * they reach together is the most that threads which share their work can be expected to reach.
 */
#include "bench_scaling.h"

#include "bench_operands.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/extra/clock.h>
#include <lockstep/thread.h>

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

static const double shortest_sample = 2e-3;

/* One who computes on operands of his own; [0] is the caller. */
struct copy {
    bench_operands o;
    pthread_t thread;
    struct scene *scene;
    lk_status status;
    double seconds; /* for all calls */
};

struct scene {
    struct copy *copy;
    int n_copies, calls;
    atomic_int ready;
};

static double now(void)
{
    return 1e-9 * (double)lk_clock_ns();
}

static lk_status time_calls(const bench_operands *o, int calls, double *seconds)
{
    double start = now();
    for (int i = 0; i < calls; i++)
        LK_TRY(bench_operands_run(o));
    *seconds = now() - start;
    return LK_OK;
}

/* A call to warm up, then all together. */
static void *copy_main(void *arg)
{
    struct copy *c = arg;
    c->status = bench_operands_run(&c->o);
    atomic_fetch_add(&c->scene->ready, 1);
    while (atomic_load(&c->scene->ready) < c->scene->n_copies)
        sched_yield();
    if (c->status == LK_OK)
        c->status = time_calls(&c->o, c->scene->calls, &c->seconds);
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

/* One thread, all threads, copies; each after a call that lets its threads start. */
static lk_status round_run(struct scene *s, int threads, double *one, double *many, double *copies)
{
    const bench_operands *o = &s->copy[0].o;
    for (int i = 0; i < 2; i++) {
        LK_TRY(lk_threads_set(i ? threads : 1));
        LK_TRY(bench_operands_run(o));
        LK_TRY(time_calls(o, s->calls, i ? many : one));
    }
    LK_TRY(lk_threads_set(1));
    LK_TRY(time_copies(s, copies));
    return LK_OK;
}

static lk_status choose_calls(struct scene *s)
{
    double seconds = 0;
    LK_TRY(lk_threads_set(1));
    LK_TRY(bench_operands_run(&s->copy[0].o));
    LK_TRY(time_calls(&s->copy[0].o, 1, &seconds));
    s->calls = seconds > shortest_sample ? 1 : (int)(shortest_sample / seconds) + 1;
    return LK_OK;
}

static lk_status measure(struct scene *s, const bench_setting *setting, bench_scaling *r)
{
    double one[BENCH_MAX_ROUNDS], many[BENCH_MAX_ROUNDS], copies[BENCH_MAX_ROUNDS];
    int n = 0;
    LK_TRY(choose_calls(s));
    double start = now();
    do {
        LK_TRY(round_run(s, setting->threads, &one[n], &many[n], &copies[n]));
        n++;
    } while (n < BENCH_MAX_ROUNDS && (n < BENCH_MIN_ROUNDS || now() - start < setting->seconds));
    r->rounds = n;
    r->one = bench_scaled(1.0 / s->calls, bench_median(one, n));
    r->many = bench_scaled(1.0 / s->calls, bench_median(many, n));
    r->speedup = bench_ratio(one, many, n);
    r->limit = bench_scaled(setting->threads, bench_ratio(one, copies, n));
    return LK_OK;
}

lk_status bench_scaling_run(const bench_case *given, const bench_setting *setting, bench_scaling *r)
{
    lk_status st;
    bench_case c = *given;
    c.gemm.dtype = c.conv.dtype = setting->dtype;
    struct scene s = {.n_copies = setting->threads};
    LK_TRY(lk_alloc_zero(&s.copy, s.n_copies, sizeof *s.copy));
    for (int i = 0; i < s.n_copies; i++) {
        s.copy[i].scene = &s;
        LK_TRY_TO(done, bench_operands_fill(&s.copy[i].o, &c, 1));
    }
    LK_TRY_TO(done, measure(&s, setting, r));
done:
    for (int i = 0; i < s.n_copies; i++)
        bench_operands_free(&s.copy[i].o);
    lk_free(s.copy);
    return st;
}
