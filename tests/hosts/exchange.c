/* Ranks on simulated hosts: how long gradients take there, and what hides or halves it.
 *
 *     exchange wire ELEMENTS      the mean of so many gradients as f32 and as bf16, in turn; rank 0 prints
 *                                 medians, and fails unless bf16 takes at most 0.55 of the time
 *     exchange late UNITS         steps of a perceptron, by a trainer that waits for its gradients and by one
 *                                 with double buffering, in turn; of a batch that is computed about as
 *                                 fast as its gradients travel: in 0.8 of their time, because here a host has
 *                                 one core, of which the network itself takes a fifth.  Rank 0 prints
 *                                 medians, and fails unless a step takes at most 1.1 times the longer of
 *                                 the two
 *     exchange same UNITS         some steps of both, which have their bits on any hosts; nothing is timed
 *
 * A round's time is that of the slowest rank.  Others may use the machine: what is compared is measured in
 * turn, and of each the median counts.
 */
#include "harness.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/extra/clock.h>
#include <lockstep/multi_node.h>
#include <lockstep/train.h>

enum { ROUNDS = 9, STEPS = 5 };

static const double most_wire = 0.55, most_late = 1.1, share = 0.8;

static int ascending(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static double median(double *x, int n)
{
    qsort(x, (size_t)n, sizeof *x, ascending);
    return x[n / 2];
}

static double slowest(lk_comm *comm, double seconds)
{
    ASSERT_OK(lk_allreduce(comm, NULL, &seconds, 1, LK_F64, LK_REDUCE_MAX, "slowest"));
    return seconds;
}

/* ---- the wire ---- */

static double mean_seconds(lk_comm *comm, lk_slab *grads, lk_wire wire)
{
    ASSERT_OK(lk_barrier(comm, "ready"));
    int64_t start = lk_clock_ns();
    ASSERT_OK(lk_multi_node_mean_grad(comm, grads, NULL, &(lk_mean_grad_options){.wire = wire}));
    return slowest(comm, 1e-9 * (double)(lk_clock_ns() - start));
}

static void compare_wires(lk_comm *comm, int64_t elements)
{
    lk_slab *grads;
    double exact[ROUNDS], narrow[ROUNDS];
    ASSERT_OK(lk_slab_new_tensor("g", LK_F32, LK_SHAPE(elements), &grads));
    float *x = lk_slab_data(grads);
    for (int64_t i = 0; i < elements; i++)
        x[i] = (float)(i % 251) / 64;
    for (int i = -2; i < ROUNDS; i++) { /* the first find their pace */
        double first = mean_seconds(comm, grads, LK_WIRE_DTYPE),
               second = mean_seconds(comm, grads, LK_WIRE_BF16);
        exact[i < 0 ? 0 : i] = first;
        narrow[i < 0 ? 0 : i] = second;
    }
    for (int64_t i = 0; i < elements; i++) /* bf16 has these, and so has their mean */
        ASSERT_TRUE(x[i] == (float)(i % 251) / 64);
    double f32 = median(exact, ROUNDS), bf16 = median(narrow, ROUNDS);
    if (lk_comm_rank(comm) == 0) {
        printf("%.1f MB on %d ranks: f32 %.1f ms, bf16 %.1f ms, ratio %.3f\n",
               4e-6 * (double)elements, lk_comm_size(comm), 1e3 * f32, 1e3 * bf16, bf16 / f32);
        ASSERT_TRUE(bf16 <= most_wire * f32);
    }
    lk_slab_free(grads);
}

/* ---- double buffering ---- */

/* A trainer and what its steps have taken, each the mean of a round. */
typedef struct runner {
    lk_experiment *experiment;
    lk_job *job;
    double seconds[ROUNDS], computes[ROUNDS], travels[ROUNDS];
    int n;
} runner;

static void runner_open(runner *r, lk_comm *comm, int64_t units, int64_t batch, bool late)
{
    char text[800];
    snprintf(text, sizeof text,
             "data: {type: glyphs, count: %lld, test_count: 0, shape: [28, 28, 1], batch: %lld, "
             "shards: 8}\n"
             "model: [flatten, {type: linear, units: %lld}, relu, {type: linear, units: %lld},\n"
             "        relu, {type: linear, units: 10}]\n"
             "loss: softmax_cross_entropy\n"
             "optimizer: {type: sgd, rate: 0.01}\n"
             "parallel: {overlap: no, update: each, double_buffering: %s}\n",
             (long long)(4 * batch), (long long)batch, (long long)units, (long long)units,
             late ? "true" : "false");
    *r = (runner){.n = 0};
    ASSERT_OK(lk_experiment_parse("runner", text, NULL, 0, &r->experiment));
    ASSERT_OK(lk_job_new(r->experiment, comm, &r->job));
}

static void runner_close(runner *r)
{
    lk_job_free(r->job);
    lk_experiment_free(r->experiment);
}

/* Some steps without a look at the clock. */
static void runner_warm(runner *r, int steps)
{
    for (int i = 0; i < steps; i++)
        ASSERT_OK(lk_trainer_step(lk_job_trainer(r->job), NULL));
}

/* A round; what is under way behind it ends before the next. */
static void runner_round(runner *r)
{
    double computes = 0, travels = 0;
    uint64_t state;
    int64_t start = lk_clock_ns();
    for (int i = 0; i < STEPS; i++) {
        lk_step_report report;
        ASSERT_OK(lk_trainer_step(lk_job_trainer(r->job), &report));
        computes += lk_step_compute_seconds(&report.time);
        travels += report.time.exchange;
    }
    r->seconds[r->n] = 1e-9 * (double)(lk_clock_ns() - start) / STEPS;
    r->computes[r->n] = computes / STEPS;
    r->travels[r->n++] = travels / STEPS;
    ASSERT_OK(lk_trainer_hash(lk_job_trainer(r->job), &state));
}

/* The median over rounds of what the slowest rank took. */
static double runner_median(lk_comm *comm, double *seconds)
{
    ASSERT_OK(lk_allreduce(comm, NULL, seconds, ROUNDS, LK_F64, LK_REDUCE_MAX, "slowest"));
    return median(seconds, ROUNDS);
}

/* How many samples are computed in `share` of the time in which the gradients of one batch travel. */
static int64_t batch_find(lk_comm *comm, int64_t units)
{
    runner r;
    int64_t batch = 256;
    runner_open(&r, comm, units, batch, false);
    runner_warm(&r, 2);
    for (int i = 0; i < ROUNDS; i++)
        runner_round(&r);
    double travels = runner_median(comm, r.travels), computes = runner_median(comm, r.computes);
    double found = share * (double)batch * travels / computes;
    runner_close(&r);
    return ((int64_t)found / 16 + 1) * 16;
}

static void compare_steps(lk_comm *comm, int64_t units)
{
    runner plain, late;
    int64_t batch = batch_find(comm, units);
    runner_open(&plain, comm, units, batch, false);
    runner_open(&late, comm, units, batch, true);
    runner_warm(&plain, 2);
    runner_warm(&late, 2);
    for (int i = 0; i < ROUNDS; i++) {
        runner_round(&plain);
        runner_warm(&late, 1); /* so that gradients are under way in the first step, too */
        runner_round(&late);
    }
    double computes = runner_median(comm, plain.computes),
           travels = runner_median(comm, plain.travels), both = runner_median(comm, plain.seconds),
           step = runner_median(comm, late.seconds);
    double longer = computes > travels ? computes : travels;
    if (lk_comm_rank(comm) == 0) {
        printf("%lld units, batch %lld on %d ranks: computes %.1f ms, travels %.1f ms, a step %.1f "
               "ms; with double buffering %.1f ms, %.3f of the longer\n",
               (long long)units, (long long)batch, lk_comm_size(comm), 1e3 * computes,
               1e3 * travels, 1e3 * both, 1e3 * step, step / longer);
        ASSERT_TRUE(step <= most_late * longer);
    }
    runner_close(&plain);
    runner_close(&late);
}

/* What it computes is what one rank does. */
static void compare_bits(lk_comm *comm, int64_t units)
{
    for (int late = 0; late < 2; late++) {
        runner all, alone;
        uint64_t state[2] = {0, 0};
        runner_open(&all, comm, units, 64, late);
        runner_warm(&all, 5);
        ASSERT_OK(lk_trainer_hash(lk_job_trainer(all.job), &state[0]));
        if (lk_comm_rank(comm) == 0) {
            runner_open(&alone, NULL, units, 64, late);
            runner_warm(&alone, 5);
            ASSERT_OK(lk_trainer_hash(lk_job_trainer(alone.job), &state[1]));
            ASSERT_TRUE(state[0] == state[1]);
            runner_close(&alone);
        }
        runner_close(&all);
    }
    if (lk_comm_rank(comm) == 0)
        printf("the same bits on %d hosts\n", lk_comm_nodes(comm));
}

int main(int argc, char **argv)
{
    lk_comm *comm;
    signal(SIGALRM, test_on_alarm);
    alarm(300);
    ASSERT_TRUE(argc == 3);
    ASSERT_OK(lk_comm_open("mpi", &comm));
    int64_t n = atoll(argv[2]);
    if (strcmp(argv[1], "wire") == 0)
        compare_wires(comm, n);
    else if (strcmp(argv[1], "late") == 0)
        compare_steps(comm, n);
    else
        compare_bits(comm, n);
    ASSERT_OK(lk_barrier(comm, "end"));
    lk_comm_close(comm);
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
    return 0;
}
