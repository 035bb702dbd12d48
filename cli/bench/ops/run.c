/* Timing a case of `lockstep bench ops`, in rounds, with PyTorch in turn, and copies of it. */
#include "bench/ops/op_job.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/extra/clock.h>
#include <lockstep/thread.h>

#include <math.h>
#include <string.h>

enum { MAX_CALLS = 100000 };

/* Runs are repeated until they take this long, so that reading the clock costs nothing. */
static const double shortest_sample = 1e-3;

/* Sums of absolute values may differ by this fraction: other orders, and other functions. */
static const double tolerance = 1e-3;

static const bench_op_pass pass_of[BENCH_N_SIDES] = {BENCH_OP_FORWARD, BENCH_OP_BOTH};

/* A job and what it took. */
struct timed {
    bench_op_job *job;
    int calls[BENCH_N_SIDES]; /* in one sample */
    double ours[BENCH_N_SIDES][BENCH_MAX_ROUNDS], theirs[BENCH_N_SIDES][BENCH_MAX_ROUNDS];
};

const char *bench_op_pass_name(bench_op_pass pass)
{
    static const char *const names[BENCH_N_OP_PASSES] = {"forward", "backward", "both"};
    return names[pass];
}

const char *bench_op_name(const bench_op *c, char *buf)
{
    int sizes = (int)strspn(c->in, "0123456789x");
    snprintf(buf, BENCH_OP_NAME, "%s %.*s", c->op, c->size ? (int)strlen(c->size) : sizes,
             c->size ? c->size : c->in);
    return buf;
}

const char *bench_op_pass_of(const bench_op *c, bench_op_pass pass, char *buf)
{
    size_t n = strlen(bench_op_name(c, buf));
    snprintf(buf + n, BENCH_OP_NAME - n, " %s", bench_op_pass_name(pass));
    return buf;
}

static lk_status ours_sample(bench_op_job *j, int side, int threads, int calls, double *seconds)
{
    int64_t (*now)(void) = threads == 1 ? lk_clock_thread_ns : lk_clock_ns;
    int64_t start = now();
    for (int i = 0; i < calls; i++)
        LK_TRY(bench_op_job_run(j, (bench_op_side)side));
    *seconds = 1e-9 * (double)(now() - start) / calls;
    return LK_OK;
}

/* How many runs make a sample; warms the caches up on the way. */
static lk_status calls_choose(struct timed *t, int threads, int sides)
{
    for (int side = 0; side < sides; side++) {
        double seconds = 0;
        for (t->calls[side] = 1;; t->calls[side] *= 2) {
            LK_TRY(ours_sample(t->job, side, threads, t->calls[side], &seconds));
            if (seconds * t->calls[side] >= shortest_sample || t->calls[side] >= MAX_CALLS)
                break;
        }
    }
    return LK_OK;
}

/* A sample of PyTorch's, whose result is compared with ours. */
static lk_status theirs_sample(const struct timed *t, int side, bench_torch *torch, double *seconds)
{
    const bench_op_job *j = t->job;
    char request[512];
    double total;
    snprintf(request, sizeof request, "%s %s | %s |", bench_op_pass_name(pass_of[side]), j->c->in,
             j->c->torch);
    if (!torch_sample(torch, request, t->calls[side], seconds, &total))
        return LK_RAISE(LK_EIO, "%s %s: PyTorch: %s", j->c->op, j->c->in, torch->about);
    *seconds /= t->calls[side];
    LK_CHECK(j->c->flags & BENCH_OP_RANDOM ||
                 fabs(total - j->total[side]) <= tolerance * fabs(j->total[side]),
             LK_EINVAL, "%s %s: %s: we have a sum of %g, PyTorch one of %g", j->c->op, j->c->in,
             side == BENCH_SIDE_BOTH ? "gradient" : "result", j->total[side], total);
    return LK_OK;
}

static lk_status rounds_run(struct timed *t, int threads, double seconds, bench_torch *torch,
                            int *n)
{
    int sides = t->job->backward ? BENCH_N_SIDES : 1, all = torch ? 2 * sides : sides;
    LK_TRY(calls_choose(t, threads, sides));
    for (int side = 0; side < sides && torch; side++)
        LK_TRY(theirs_sample(t, side, torch, &t->theirs[side][0]));
    double end = bench_now() + seconds;
    for (*n = 0; bench_goes_on(*n, end); ++*n)
        for (int q = 0; q < all; q++) {
            int k = (q + *n) % all, side = k % sides;
            if (k < sides)
                LK_TRY(ours_sample(t->job, side, threads, t->calls[side], &t->ours[side][*n]));
            else
                LK_TRY(theirs_sample(t, side, torch, &t->theirs[side][*n]));
        }
    return LK_OK;
}

/* Of two passes the third: what both took without forward. */
static void without_forward(double side[BENCH_N_SIDES][BENCH_MAX_ROUNDS], int n, double *out)
{
    for (int i = 0; i < n; i++)
        out[i] = side[BENCH_SIDE_BOTH][i] - side[BENCH_SIDE_FORWARD][i];
}

static double gbytes_of(const bench_op_job *j, const char *arrays)
{
    double bytes = 0;
    for (; *arrays; arrays++)
        bytes += (double)j->bytes[*arrays == 'y' ? BENCH_OP_MAX_IN : *arrays - 'a'];
    return 1e-9 * bytes;
}

/* What is written of `moved` GB: y, or the gradients of inputs. */
static double written_of(const bench_op_job *j, bool backward, double moved)
{
    double bytes = backward ? 0 : (double)j->bytes[BENCH_OP_MAX_IN];
    for (int i = 0; i < j->n && backward; i++)
        bytes += j->in[i].has_grad ? (double)j->bytes[i] : 0;
    return fmin(1e-9 * bytes, moved);
}

static double values_of(const bench_op_job *j)
{
    double bytes = (double)j->bytes[BENCH_OP_MAX_IN];
    for (int i = 0; i < j->n; i++)
        bytes += (double)j->bytes[i];
    return bytes;
}

static double footprint_of(const bench_op_job *j)
{
    double bytes = values_of(j) + (double)j->bytes[BENCH_OP_MAX_IN];
    for (int i = 0; i < j->n; i++)
        bytes += j->in[i].has_grad ? (double)j->bytes[i] : 0;
    return bytes;
}

static void evaluate(struct timed *t, bool against, bench_op_result *r)
{
    static double ours[BENCH_MAX_ROUNDS], theirs[BENCH_MAX_ROUNDS];
    const bench_op_job *j = t->job;
    int n = r->rounds;
    r->gbytes[BENCH_OP_FORWARD] = gbytes_of(j, j->c->forward);
    r->gbytes[BENCH_OP_BACKWARD] = gbytes_of(j, j->c->backward);
    r->gbytes[BENCH_OP_BOTH] = r->gbytes[BENCH_OP_FORWARD] + r->gbytes[BENCH_OP_BACKWARD];
    for (int pass = BENCH_OP_FORWARD; pass <= BENCH_OP_BACKWARD; pass++) {
        r->written[pass] = written_of(j, pass == BENCH_OP_BACKWARD, r->gbytes[pass]);
        r->written[BENCH_OP_BOTH] += r->written[pass];
    }
    r->values = values_of(j);
    r->footprint = footprint_of(j);
    for (int pass = 0; pass < BENCH_N_OP_PASSES; pass++) {
        const double *a = ours, *b = theirs;
        r->done[pass] = pass == BENCH_OP_FORWARD || j->backward;
        if (!r->done[pass])
            continue;
        if (pass == BENCH_OP_BACKWARD) {
            without_forward(t->ours, n, ours);
            without_forward(t->theirs, n, theirs);
        } else {
            a = t->ours[pass == BENCH_OP_BOTH];
            b = t->theirs[pass == BENCH_OP_BOTH];
        }
        r->seconds[pass] = bench_median(a, n);
        if (!against)
            continue;
        r->theirs[pass] = bench_median(b, n);
        r->ratio[pass] = bench_ratio(b, a, n);
    }
}

lk_status bench_op_run(const bench_op *c, int threads, double seconds, bench_torch *torch,
                       bench_op_result *out)
{
    lk_status st;
    struct timed *t = NULL;
    *out = (bench_op_result){.rounds = 0};
    torch = c->torch ? torch : NULL;
    LK_TRY(lk_alloc_zero(&t, 1, sizeof *t));
    LK_TRY_TO(done, bench_op_job_new(c, &t->job));
    LK_TRY_TO(done, rounds_run(t, threads, seconds, torch, &out->rounds));
    evaluate(t, torch != NULL, out);
done:
    bench_op_job_free(t->job);
    lk_free(t);
    return st;
}

static lk_status copy_forward(void *copy)
{
    return LK_TRACE(bench_op_job_run(copy, BENCH_SIDE_FORWARD));
}

static lk_status copy_both(void *copy)
{
    return LK_TRACE(bench_op_job_run(copy, BENCH_SIDE_BOTH));
}

lk_status bench_op_scale(const bench_op *c, int threads, double seconds, bench_op_scaling *out)
{
    lk_status st;
    bench_op_job *first;
    *out = (bench_op_scaling){.footprint = 0};
    LK_TRY(bench_op_job_new(c, &first));
    void *copy[LK_MAX_THREADS] = {first};
    for (int i = 1; i < threads; i++) {
        bench_op_job *j;
        LK_TRY_TO(done, bench_op_job_new(c, &j));
        copy[i] = j;
    }
    out->footprint = footprint_of(first);
    LK_TRY_TO(done, bench_scaling_run(copy_forward, copy, threads, seconds,
                                      &out->pass[BENCH_OP_FORWARD]));
    if (first->backward)
        LK_TRY_TO(done,
                  bench_scaling_run(copy_both, copy, threads, seconds, &out->pass[BENCH_OP_BOTH]));
done:
    for (int i = 0; i < threads; i++)
        bench_op_job_free(copy[i]);
    return st;
}
