/* Measuring a case in rounds, ours and the peers in turn. */
#include "bench/run.h"

#include "bench/case.h"
#include "bench/deviation.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/extra/clock.h>

#include <stdio.h>
#include <stdlib.h>

enum { MAX_RUNNERS = BENCH_MAX_PEERS + 1, MAX_CALLS = 100000 };

_Static_assert((int)MAX_RUNNERS <= (int)BENCH_MAX_OUT, "each has an output");

/* Calls are repeated until they take this long, so that reading the clock costs nothing. */
static const double shortest_sample = 5e-4;

/* Results of f32 may differ by this fraction of the largest: sums have other orders. */
static const double tolerance_f32 = 2e-5, tolerance_f64 = 1e-12;

/* Somebody who computes the case: ours, or a peer's job. */
struct runner {
    const lk__peer *peer; /* NULL: ours */
    lk__peer_job *job;
    int calls; /* in one sample */
    double sample[BENCH_MAX_ROUNDS];
};

static lk__peer_job *peer_job(const lk__peer *peer, const bench_operands *o, void *out,
                              const char **why)
{
    *why = "it has no such computation";
    if (!bench_is_conv(o->c))
        return peer->gemm_new ? peer->gemm_new(&o->c->gemm, o->first, o->second, out, why) : NULL;
    lk__peer_conv conv = {.shape = &o->c->conv, .pass = o->c->pass};
    switch (o->c->pass) {
    case LK_PEER_FORWARD:
        conv.x = o->first;
        conv.w = o->second;
        conv.bias = o->bias;
        conv.y = out;
        break;
    case LK_PEER_BACKWARD_DATA:
        conv.y = o->first;
        conv.w = o->second;
        conv.x = out;
        break;
    default:
        conv.x = o->first;
        conv.y = o->second;
        conv.w = out;
        break;
    }
    return peer->conv_new ? peer->conv_new(&conv, why) : NULL;
}

static lk_status call(const struct runner *r, const bench_operands *o)
{
    if (!r->peer)
        LK_TRY(bench_operands_run(o));
    else
        LK_CHECK(r->peer->job_run(r->job), LK_ENOTSUP, "%s failed to compute", r->peer->name);
    return LK_OK;
}

/* Seconds for `calls` calls. */
static lk_status time_calls(const struct runner *r, const bench_operands *o, int threads, int calls,
                            double *seconds)
{
    int64_t (*now)(void) = threads == 1 ? lk_clock_thread_ns : lk_clock_ns;
    int64_t start = now();
    for (int i = 0; i < calls; i++)
        LK_TRY(call(r, o));
    *seconds = 1e-9 * (double)(now() - start);
    return LK_OK;
}

/* How many calls make a sample; warms the caches up on the way. */
static lk_status choose_calls(struct runner *r, const bench_operands *o, int threads)
{
    double seconds = 0;
    LK_TRY(time_calls(r, o, threads, 1, &seconds));
    for (r->calls = 1;; r->calls *= 2) {
        LK_TRY(time_calls(r, o, threads, r->calls, &seconds));
        if (seconds >= shortest_sample || r->calls >= MAX_CALLS)
            return LK_OK;
    }
}

/* Make the peers' jobs, run each once and compare with ours, which has run. */
static lk_status invite(struct runner *runner, const bench_operands *o, const bench_setting *s,
                        bench_result *r)
{
    double allowed = s->dtype == LK_F32 ? tolerance_f32 : tolerance_f64;
    for (int i = 0; i < s->n_peers; i++) {
        const char *why = "";
        struct runner *p = &runner[i + 1];
        p->peer = s->peer[i];
        p->job = peer_job(p->peer, o, o->out[i + 1], &why);
        snprintf(r->peer[i].why, BENCH_WHY, "%s", p->job ? p->peer->job_about(p->job) : why);
        if (!p->job)
            continue;
        LK_TRY(call(p, o));
        double d = bench_deviation(s->dtype, o->out[0], o->out[i + 1], o->n_out);
        r->peer[i].done = d <= allowed;
        r->peer[i].wrong = !r->peer[i].done;
        if (r->peer[i].wrong)
            snprintf(r->peer[i].why, BENCH_WHY,
                     "its result differs from ours by %.2g of the largest value", d);
    }
    return LK_OK;
}

/* Time everybody in turn until the time is over; the order moves on by one each round. */
static lk_status measure(struct runner *runner, const bench_operands *o, const bench_setting *s,
                         const bench_result *r, int *rounds)
{
    int n = s->n_peers + 1;
    for (int i = 0; i < n; i++)
        if (i == 0 || r->peer[i - 1].done)
            LK_TRY(choose_calls(&runner[i], o, s->threads));
    double end = bench_now() + s->seconds;
    for (int k = 0; bench_goes_on(k, end); k++) {
        for (int q = 0; q < n; q++) {
            int i = (q + k) % n;
            if (i > 0 && !r->peer[i - 1].done)
                continue;
            LK_TRY(time_calls(&runner[i], o, s->threads, runner[i].calls, &runner[i].sample[k]));
            runner[i].sample[k] /= runner[i].calls;
        }
        *rounds = k + 1;
    }
    return LK_OK;
}

static void evaluate(const struct runner *runner, const bench_setting *s, int rounds,
                     bench_result *r)
{
    for (int i = 0; i < s->n_peers; i++) {
        if (!r->peer[i].done)
            continue;
        r->peer[i].ratio = bench_ratio(runner[i + 1].sample, runner[0].sample, rounds);
        r->peer[i].seconds = bench_median(runner[i + 1].sample, rounds);
    }
    r->seconds = bench_median(runner[0].sample, rounds);
    r->rounds = rounds;
}

lk_status bench_run(const bench_case *given, const bench_setting *s, bench_result *r)
{
    lk_status st;
    int rounds = 0;
    bench_case c = *given;
    c.gemm.dtype = c.conv.dtype = s->dtype;
    bench_operands o = {.c = NULL};
    struct runner *runner = NULL;
    *r = (bench_result){0};
    LK_TRY_TO(done, lk_alloc_zero(&runner, MAX_RUNNERS, sizeof *runner));
    LK_TRY_TO(done, bench_operands_fill(&o, &c, s->n_peers + 1));
    LK_TRY_TO(done, bench_operands_run(&o));
    LK_TRY_TO(done, invite(runner, &o, s, r));
    LK_TRY_TO(done, measure(runner, &o, s, r, &rounds));
    evaluate(runner, s, rounds, r);
done:
    for (int i = 1; i < MAX_RUNNERS && runner; i++)
        if (runner[i].job)
            runner[i].peer->job_free(runner[i].job);
    lk_free(runner);
    bench_operands_free(&o);
    return st;
}
