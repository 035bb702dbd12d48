/* Rounds of training steps on the ranks of a job. */
#include "bench/step_ranks.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/extra/clock.h>
#include <lockstep/parallel.h>
#include <lockstep/thread.h>

#include <sched.h>
#include <time.h>

enum { WARM_STEPS = 4 };

/* The steps of a round take this long at least, so that no single one decides. */
static const double shortest_round = 0.05;

/* A case: the experiment as each side has it, and its jobs. */
struct race {
    step_bench *b;
    int ranks;
    bool leader;
    bool has_cores; /* the leader may use as many as all ranks have threads */
    const char *request;
    double params;
    lk_experiment as[STEP_OURS];
    lk_job *job[STEP_OURS];
    step_figures *f;
    int round;
    double seconds[STEP_SIDES][BENCH_MAX_ROUNDS]; /* of a step */
    double share[STEP_MODES][STEP_PARTS][BENCH_MAX_ROUNDS];
};

/* What a rank could use before it was bound. */
static _Thread_local cpu_set_t unbound;
static _Thread_local bool is_bound;

void step_bind(const lk_comm *comm)
{
    cpu_set_t allowed, own;
    int left = lk_comm_node_rank(comm);
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 ||
        CPU_COUNT(&allowed) < lk_comm_node_size(comm))
        return;
    unbound = allowed;
    is_bound = true;
    CPU_ZERO(&own);
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &allowed) && left-- == 0)
            CPU_SET(cpu, &own);
    (void)sched_setaffinity(0, sizeof own, &own); /* if it is forbidden, the scheduler decides */
}

static double seconds_now(const step_bench *b)
{
    struct timespec t;
    clock_gettime(b->processor_time ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- turns ---- */

static bool takes_part(const struct race *r, int side)
{
    if (side >= STEP_OURS)
        return r->request && side - STEP_OURS < r->b->n_peers;
    if (side == STEP_THREADED)
        return r->ranks > 1 && r->has_cores;
    return side >= STEP_MODES ? r->ranks > 1 : r->b->on[side];
}

static void parts_add(double part[STEP_PARTS], const lk_step_seconds *t)
{
    part[STEP_DATA] += t->data;
    part[STEP_FORWARD] += t->forward;
    part[STEP_BACKWARD] += t->backward;
    part[STEP_WAIT] += t->wait;
    part[STEP_EXCHANGE] += t->exchange;
    part[STEP_UPDATE] += t->update;
}

/* Note which share of a round of a mode each part was. */
static void shares_note(struct race *r, int mode, double part[STEP_PARTS], double passed)
{
    part[STEP_REST] = passed;
    for (int i = 0; i < STEP_REST; i++)
        part[STEP_REST] -= part[i];
    for (int i = 0; i < STEP_PARTS; i++)
        r->share[mode][i][r->round] = part[i] / passed;
}

/* Do steps of ours; gives the seconds of one. */
static lk_status ours_run(struct race *r, int side, int steps, double *seconds)
{
    double part[STEP_PARTS] = {0};
    lk_job *job = r->job[side >= STEP_MODES ? STEP_ALONE : side];
    double start = seconds_now(r->b), samples = 0;
    int64_t clock = lk_clock_ns();
    for (int i = 0; i < steps; i++) {
        lk_step_report did;
        LK_TRY(lk_trainer_step(lk_job_trainer(job), &did));
        samples += (double)did.samples / steps;
        parts_add(part, &did.time);
    }
    *seconds = (seconds_now(r->b) - start) / steps;
    if (side < STEP_MODES)
        shares_note(r, side, part, 1e-9 * (double)(lk_clock_ns() - clock));
    r->f->samples = samples;
    return LK_OK;
}

static lk_status peer_run(const struct race *r, int peer, int steps, double *seconds)
{
    double theirs;
    bench_torch *t = &r->b->peer[peer];
    if (!torch_sample(t, r->request, steps, seconds, &theirs))
        return LK_RAISE(LK_EIO, "PyTorch: %s", t->about);
    *seconds /= steps;
    LK_CHECK(theirs == r->params, LK_EINVAL, "%s: we have %.0f parameters, PyTorch %.0f",
             r->request, r->params, theirs);
    return LK_OK;
}

/* Whether a rank may use so many cores. */
static bool has_cores(int n)
{
    cpu_set_t now;
    if (is_bound)
        return CPU_COUNT(&unbound) >= n;
    return sched_getaffinity(0, sizeof now, &now) == 0 && CPU_COUNT(&now) >= n;
}

/* On the leader, while the others sleep: steps with the threads of all ranks, on any core.  One step makes
 * them start. */
static lk_status threaded_run(struct race *r, int steps, double *seconds)
{
    cpu_set_t own;
    bool moved = is_bound && sched_getaffinity(0, sizeof own, &own) == 0 &&
                 sched_setaffinity(0, sizeof unbound, &unbound) == 0;
    lk_status st = lk_threads_set(r->ranks * r->b->threads);
    if (st == LK_OK)
        st = ours_run(r, STEP_THREADED, 1, seconds);
    if (st == LK_OK)
        st = ours_run(r, STEP_THREADED, steps, seconds);
    if (moved)
        (void)sched_setaffinity(0, sizeof own, &own);
    lk_status back = lk_threads_set(r->b->threads);
    return LK_TRACE(st == LK_OK ? back : st);
}

static lk_status leader_run(struct race *r, int side, int steps, double *seconds)
{
    if (side == STEP_ALONE)
        LK_TRY(ours_run(r, side, steps, seconds));
    else if (side == STEP_THREADED)
        LK_TRY(threaded_run(r, steps, seconds));
    else
        LK_TRY(peer_run(r, side - STEP_OURS, steps, seconds));
    return LK_OK;
}

/* The turn of one side, from one meeting of the ranks to the next; all know the seconds of a step. */
static lk_status turn(struct race *r, int side, int steps, double *seconds)
{
    lk_comm *comm = r->b->comm;
    lk_status st = LK_OK;
    *seconds = 0;
    LK_TRY(lk_barrier(comm, "turn"));
    if (side < STEP_MODES || side == STEP_APART)
        st = ours_run(r, side, steps, seconds);
    else if (r->leader)
        st = leader_run(r, side, steps, seconds);
    LK_TRY(lk_agree(comm, st));
    return LK_TRACE(lk_allreduce(comm, NULL, seconds, 1, LK_F64, LK_REDUCE_MAX, "slowest"));
}

/* ---- rounds ---- */

/* Warm up everybody, and find how many steps of ours a round has. */
static lk_status warm(struct race *r, int *steps)
{
    double seconds, longest = 0;
    for (int side = 0; side < STEP_SIDES; side++) {
        if (!takes_part(r, side))
            continue;
        LK_TRY(turn(r, side, WARM_STEPS, &seconds));
        LK_TRY(turn(r, side, 2, &seconds));
        longest = side < STEP_OURS && seconds > longest ? seconds : longest;
    }
    *steps = (int)(shortest_round / longest) + 1;
    return LK_OK;
}

/* What one side took divided by what another did. */
static bench_figure ratio(const struct race *r, int a, int b)
{
    return bench_ratio(r->seconds[a], r->seconds[b], r->round);
}

static void figures_make(const struct race *r)
{
    step_figures *f = r->f;
    f->rounds = r->round;
    for (int m = 0; m < STEP_MODES; m++) {
        if (!takes_part(r, m))
            continue;
        for (int p = 0; p < STEP_PEERS && takes_part(r, STEP_OURS + p); p++)
            f->ratio[m][p] = ratio(r, STEP_OURS + p, m);
        if (takes_part(r, STEP_ALONE))
            f->efficiency[m] = bench_scaled(1.0 / r->ranks, ratio(r, STEP_ALONE, m));
        if (takes_part(r, STEP_THREADED))
            f->threaded[m] = ratio(r, STEP_THREADED, m);
        for (int i = 0; i < STEP_PARTS; i++)
            f->share[m][i] = bench_median(r->share[m][i], r->round);
    }
    if (takes_part(r, STEP_APART))
        f->limit = ratio(r, STEP_ALONE, STEP_APART);
    if (r->b->on[STEP_CANONICAL] && r->b->on[STEP_FAST])
        f->price = ratio(r, STEP_CANONICAL, STEP_FAST);
    for (int side = 0; side < STEP_SIDES; side++)
        if (takes_part(r, side))
            f->seconds[side] = bench_median(r->seconds[side], r->round);
}

/* Everybody in turn, until rank 0 says that the time is up. */
static lk_status rounds_run(struct race *r)
{
    int steps = 0;
    int32_t go = 1;
    LK_TRY(warm(r, &steps));
    double end = bench_now() + r->b->seconds;
    for (; go; r->round++) {
        for (int side = 0; side < STEP_SIDES; side++)
            if (takes_part(r, side))
                LK_TRY(turn(r, side, steps, &r->seconds[side][r->round]));
        go = bench_goes_on(r->round + 1, end);
        LK_TRY(lk_bcast(r->b->comm, &go, 1, LK_I32, 0, "go on"));
    }
    figures_make(r);
    return LK_OK;
}

/* ---- a case ---- */

static lk_status params_of(const lk_model *model, double *out)
{
    lk_layer_info unit;
    *out = 0;
    for (int64_t i = 0; i < lk_model_layers(model); i++) {
        LK_TRY(lk_model_layer(model, i, &unit));
        *out += (double)unit.params;
    }
    return LK_OK;
}

static lk_status jobs_make(struct race *r, const lk_experiment *e)
{
    lk_status st = LK_OK;
    for (int side = 0; side < STEP_MODES; side++) {
        r->as[side] = *e;
        if (!takes_part(r, side))
            continue;
        r->as[side].parallel.mode = side == STEP_FAST ? LK_REDUCTION_FAST : LK_REDUCTION_CANONICAL;
        LK_TRY(lk_job_new(&r->as[side], r->b->comm, &r->job[side]));
        LK_TRY(params_of(lk_trainer_model(lk_job_trainer(r->job[side])), &r->params));
    }
    r->as[STEP_ALONE] = *e;
    r->as[STEP_ALONE].parallel.data = 0;
    r->as[STEP_ALONE].parallel.spatial.n = 0;
    r->as[STEP_ALONE].parallel.features = r->as[STEP_ALONE].parallel.stages = 1;
    if (takes_part(r, STEP_ALONE))
        st = lk_job_new(&r->as[STEP_ALONE], NULL, &r->job[STEP_ALONE]);
    return LK_TRACE(lk_agree(r->b->comm, st));
}

static lk_status race_run(struct race *r, const lk_experiment *e)
{
    int32_t cores = r->leader && has_cores(r->ranks * r->b->threads);
    LK_TRY(lk_bcast(r->b->comm, &cores, 1, LK_I32, 0, "cores"));
    r->has_cores = cores != 0;
    lk_status st = jobs_make(r, e);
    if (st == LK_OK)
        st = rounds_run(r);
    for (int side = 0; side < STEP_OURS; side++)
        lk_job_free(r->job[side]);
    return LK_TRACE(st);
}

lk_status step_measure(step_bench *b, const lk_experiment *e, const char *request,
                       step_figures *out)
{
    struct race *r = NULL;
    *out = (step_figures){0};
    lk_status st = lk_agree(b->comm, lk_alloc_zero(&r, 1, sizeof *r));
    if (st == LK_OK) {
        r->b = b;
        r->ranks = lk_comm_size(b->comm);
        r->leader = lk_comm_rank(b->comm) == 0;
        r->request = request;
        r->f = out;
        st = race_run(r, e);
    }
    lk_free(r);
    return LK_TRACE(st);
}
