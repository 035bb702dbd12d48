/* Double buffering: gradients are followed one step late, with the bits of one rank, and what waits for the
 * next step is kept. */
#include "rank_folders.h"
#include "train/trainer.h"
#include "trainers.h"

#include <math.h>

/* 8 shards; an epoch is four whole batches and one of 13 samples, which have 4 pieces. */
static const char network[] =
    "data: {type: glyphs, count: 141, test_count: 70, shape: [12, 12, 1], batch: 32, shards: 8}\n"
    "model:\n"
    "  - {type: conv, filters: 4, kernel: 3, stride: 2}\n"
    "  - batch_norm\n"
    "  - relu\n"
    "  - {type: dropout, rate: 0.2}\n"
    "  - flatten\n"
    "  - {type: linear, units: 10}\n"
    "loss: softmax_cross_entropy\n"
    "metrics: [accuracy, confusion]\n"
    "optimizer: {type: adam, rate: 0.01, schedule: {type: cosine}}\n"
    "train: {epochs: 3}\n";

#define DOUBLE "parallel.double_buffering=true"

/* What rank 0 gets alone, all get together. */
static void expect_same(lk_comm *comm, const char *const *settings)
{
    outcome alone = {.state = 0}, together = train_steps(network, comm, settings);
    if (lk_comm_rank(comm) == 0)
        alone = train_steps(network, NULL, settings);
    ASSERT_OK(lk_bcast(comm, &alone, (int64_t)sizeof alone, LK_U8, 0, "alone"));
    ASSERT_SAME_BITS(&alone, &together, sizeof alone);
}

RANKS_TEST(any_ranks_have_the_bits_of_one)
{
    expect_same(comm, (const char *[MAX_SETTINGS]){DOUBLE});
    expect_same(comm, (const char *[MAX_SETTINGS]){DOUBLE, "pieces={tiles: 2x2, least_tile: 1}"});
    if (ranks_brief())
        return;
    expect_same(comm, (const char *[MAX_SETTINGS]){DOUBLE, "dtype=f64"});
    expect_same(comm,
                (const char *[MAX_SETTINGS]){
                    DOUBLE, "train={}",
                    "phases=[{name: last, epochs: 1, layers: [linear1]}, {name: all, epochs: 1}]"});
    expect_same(comm, (const char *[MAX_SETTINGS]){
                          DOUBLE, "model=[{type: reshape, shape: [12, 12]}, {type: gru, units: 5},"
                                  " flatten, {type: linear, units: 10}]"});
    expect_same(comm,
                (const char *[MAX_SETTINGS]){
                    DOUBLE,
                    "model=[flatten, {type: linear, units: 144, name: a}, relu,"
                    " {type: linear, units: 144, tie: a.weight}, {type: linear, units: 10}]"});
}

/* ---- whose gradients ---- */

enum { SHOWN = 3 };

/* Parameters, and behind them running statistics, after each of the first steps of plain descent. */
typedef struct walk {
    int64_t n;
    float *at[SHOWN];
    lk_step_report report[SHOWN];
} walk;

static lk_job *descent_of(lk_comm *comm, const char *setting, lk_experiment **e)
{
    lk_job *job = NULL;
    ASSERT_OK(job_of(
        network, comm,
        (const char *[MAX_SETTINGS]){"optimizer={type: sgd, rate: 0.5}", "model.3.rate=0", setting},
        e, &job));
    return job;
}

static float *params_of(lk_job *job, int64_t *n)
{
    const lk_model *model = lk_trainer_model(lk_job_trainer(job));
    const lk_slab *params = lk_model_params(model), *state = lk_model_state(model);
    int64_t own = lk_slab_layout_bytes(lk_slab_layout_of(params)) / 4,
            more = lk_slab_layout_bytes(lk_slab_layout_of(state)) / 4;
    float *out;
    ASSERT_OK(lk_alloc(&out, own + more, sizeof *out));
    memcpy(out, lk_slab_data(params), (size_t)own * 4);
    memcpy(out + own, lk_slab_data(state), (size_t)more * 4);
    *n = own + more;
    return out;
}

static walk descend(lk_comm *comm, const char *setting, int64_t first)
{
    walk w;
    lk_experiment *e = NULL;
    lk_job *job = descent_of(comm, setting, &e);
    ASSERT_OK(lk_trainer_seek(lk_job_trainer(job), first));
    for (int i = 0; i < SHOWN; i++) {
        ASSERT_OK(lk_trainer_step(lk_job_trainer(job), &w.report[i]));
        w.at[i] = params_of(job, &w.n);
    }
    job_end(job, e);
    return w;
}

static void walk_free(walk *w)
{
    for (int i = 0; i < SHOWN; i++)
        lk_free(w->at[i]);
}

/* With g(b, w) the gradient of batch b at w: w1 = w0, w2 = w0 - r g(0, w0), w3 = w2 - r g(1, w0). */
RANKS_TEST(gradients_are_one_step_old)
{
    int64_t n;
    lk_experiment *e = NULL;
    lk_job *job = descent_of(comm, NULL, &e);
    float *start = params_of(job, &n);
    job_end(job, e);
    walk late = descend(comm, DOUBLE, 0), plain = descend(comm, NULL, 0),
         second = descend(comm, NULL, 1);
    int64_t params = n - 32; /* batch norm keeps a mean and a variance, in 64 bytes each */
    ASSERT_SAME_BITS(late.at[0], start, n * 4); /* the first step moves nothing */
    ASSERT_TRUE(late.report[0].rate == 0 && late.report[0].loss == plain.report[0].loss);
    ASSERT_SAME_BITS(late.at[1], plain.at[0], n * 4); /* the second follows the first batch */
    double off = 0, moved = 0;
    for (int64_t i = 0; i < params;
         i++) { /* the third the second batch, at the parameters before */
        double want = (double)late.at[1][i] + ((double)second.at[0][i] - (double)start[i]);
        off = fmax(off, fabs((double)late.at[2][i] - want));
        moved = fmax(moved, fabs((double)plain.at[1][i] - want));
    }
    ASSERT_TRUE(off < 1e-6 && moved > 1e-4); /* which is not what plain descent does */
    walk_free(&late);
    walk_free(&plain);
    walk_free(&second);
    lk_free(start);
}

/* The last batch of an epoch has 13 samples in 4 shards; statistics of the batch are means over them. */
RANKS_TEST(statistics_are_those_of_their_batch)
{
    walk late = descend(comm, DOUBLE, 4), plain = descend(comm, NULL, 4);
    ASSERT_SAME_BITS(late.at[1], plain.at[0], plain.n * 4);
    walk_free(&late);
    walk_free(&plain);
}

/* Each update has the rate of the step that its gradients are of. */
RANKS_TEST(the_schedule_is_that_of_the_gradients)
{
    double rate[2][STEPS];
    for (int i = 0; i < 2; i++) {
        lk_experiment *e = NULL;
        lk_job *job = NULL;
        ASSERT_OK(job_of(network, comm, (const char *[MAX_SETTINGS]){i ? DOUBLE : NULL}, &e, &job));
        for (int k = 0; k < STEPS; k++) {
            lk_step_report report;
            ASSERT_OK(lk_trainer_step(lk_job_trainer(job), &report));
            rate[i][k] = report.rate;
        }
        job_end(job, e);
    }
    ASSERT_SAME_BITS(&rate[1][1], &rate[0][0], (STEPS - 1) * sizeof(double));
    ASSERT_TRUE(rate[0][1] < rate[0][0]);
}

RANKS_TEST(it_is_marked)
{
    lk_experiment *e = NULL;
    lk_job *job = NULL;
    uint64_t identity[2], state[2];
    for (int i = 0; i < 2; i++) {
        ASSERT_OK(job_of(network, comm, (const char *[MAX_SETTINGS]){i ? DOUBLE : NULL}, &e, &job));
        state[i] = state_of(lk_job_trainer(job)); /* the same parameters, and nothing waits */
        ASSERT_OK(lk_job_identity(job, &identity[i]));
        job_end(job, e);
    }
    ASSERT_TRUE(state[0] != state[1] && identity[0] != identity[1]);
}

/* ---- going on ---- */

static lk_run_result run_with(lk_comm *comm, const char *const *settings)
{
    lk_experiment *e = NULL;
    lk_job *job = NULL;
    lk_run_result end;
    ASSERT_OK(job_of(network, comm, settings, &e, &job));
    ASSERT_OK(lk_job_run(job, NULL, &end));
    job_end(job, e);
    return end;
}

/* Saved behind step `steps` by some ranks, and gone on with by others. */
static void check_resumed(lk_comm *comm, bool alone_first, int steps, const lk_run_result *whole)
{
    char folder[200], output[240], limit[64];
    bool leads = lk_comm_rank(comm) == 0;
    folder_share(comm, folder, sizeof folder);
    snprintf(output, sizeof output, "train.output=%s", folder);
    snprintf(limit, sizeof limit, "train.steps=%d", steps);
    const char *settings[MAX_SETTINGS] = {DOUBLE, output, limit};
    if (!alone_first)
        (void)run_with(comm, settings);
    else if (leads)
        (void)run_with(NULL, settings);
    ASSERT_OK(lk_barrier(comm, "saved"));
    settings[2] = "train.resume=true";
    lk_run_result end = *whole;
    if (alone_first)
        end = run_with(comm, settings);
    else if (leads)
        end = run_with(NULL, settings);
    if (alone_first || leads)
        ASSERT_EQ(end.resumed, steps);
    ASSERT_TRUE(end.state == whole->state);
    ASSERT_TRUE(end.last.test.loss == whole->last.test.loss);
    ASSERT_OK(lk_barrier(comm, "compared"));
    folder_remove(comm, folder);
}

/* Behind the first step, in mid-epoch, and behind a batch that has fewer shards. */
RANKS_TEST(a_run_goes_on_on_other_ranks)
{
    lk_run_result whole = {.steps = 0};
    if (lk_comm_rank(comm) == 0)
        whole = run_with(NULL, (const char *[MAX_SETTINGS]){DOUBLE});
    ASSERT_OK(lk_bcast(comm, &whole, (int64_t)sizeof whole, LK_U8, 0, "whole"));
    check_resumed(comm, true, 1, &whole);
    check_resumed(comm, false, 7, &whole);
    check_resumed(comm, true, 5, &whole);
}

/* In fast mode, with gradients of 16 bits, on as many ranks. */
RANKS_TEST(a_run_of_16_bits_goes_on)
{
    static const char *const parallel[] = {
        "parallel={mode: fast, wire: bf16, double_buffering: true}",
        "parallel={mode: fast, wire: f16, double_buffering: true}"};
    char folder[200], output[240];
    for (int i = 0; i < 2; i++) {
        const char *settings[MAX_SETTINGS] = {parallel[i], "data={type: glyphs, count: 112,"
                                                           " test_count: 8, shape: [12, 12, 1],"
                                                           " batch: 56, shards: 8}"};
        lk_run_result whole = run_with(comm, settings);
        folder_share(comm, folder, sizeof folder);
        snprintf(output, sizeof output, "train.output=%s", folder);
        settings[2] = output;
        settings[3] = "train.steps=3";
        (void)run_with(comm, settings);
        settings[3] = "train.resume=true";
        lk_run_result end = run_with(comm, settings);
        ASSERT_TRUE(end.resumed == 3 && end.state == whole.state);
        folder_remove(comm, folder);
    }
}

/* Parameters, and behind them running statistics, after a run. */
static float *params_after(lk_comm *comm, const char *const *settings, int64_t *n)
{
    lk_experiment *e = NULL;
    lk_job *job = NULL;
    ASSERT_OK(job_of(network, comm, settings, &e, &job));
    ASSERT_OK(lk_job_run(job, NULL, NULL));
    float *out = params_of(job, n);
    job_end(job, e);
    return out;
}

/* Saved behind step 3 by some ranks, and gone on with by others up to step `until`. */
static void check_fast(lk_comm *saves, lk_comm *goes_on, bool leads, const char *output,
                       const char *parallel, int until)
{
    char last[64];
    float *got = NULL, *want = NULL;
    int64_t n;
    lk_comm *comm = saves ? saves : goes_on;
    snprintf(last, sizeof last, "train.steps=%d", until);
    if (saves || leads)
        (void)run_with(saves, (const char *[MAX_SETTINGS]){parallel, output, "train.steps=3"});
    ASSERT_OK(lk_barrier(comm, "saved"));
    const char *settings[MAX_SETTINGS] = {parallel, output, "train.resume=true", last};
    if (goes_on || leads)
        got = params_after(goes_on, settings, &n);
    if (saves || leads)
        want = params_after(saves, (const char *[MAX_SETTINGS]){parallel, last}, &n);
    if (leads)
        ASSERT_SAME_BITS(got, want, n * 4);
    lk_free(got);
    lk_free(want);
    ASSERT_OK(lk_barrier(comm, "compared"));
    settings[3] = NULL;
    if (goes_on || leads)
        ASSERT_EQ(run_with(goes_on, settings).resumed, until);
    ASSERT_OK(lk_barrier(comm, "done"));
}

/* In fast mode bits depend on the ranks, but nothing of a checkpoint is lost on others: what was saved, and with
 * double buffering the update by sums that were joined before, is to the bit that of the ranks that saved. */
RANKS_TEST(a_fast_run_goes_on_on_other_ranks)
{
    static const struct {
        const char *parallel;
        int until;
    } cases[] = {{"parallel={mode: fast}", 3},
                 {"parallel={mode: fast, wire: bf16}", 3},
                 {"parallel={mode: fast, wire: f16, double_buffering: true}", 4}};
    char folder[200], output[240];
    bool leads = lk_comm_rank(comm) == 0;
    for (int i = 0; i < 6; i++) {
        folder_share(comm, folder, sizeof folder);
        snprintf(output, sizeof output, "train.output=%s", folder);
        check_fast(i % 2 ? comm : NULL, i % 2 ? NULL : comm, leads, output, cases[i / 2].parallel,
                   cases[i / 2].until);
        folder_remove(comm, folder);
    }
}

/* ---- what fails ---- */

/* Sample 17 of 30 has a label that does not exist: the step is done by none, and what was pending stays. */
RANKS_TEST(a_step_that_one_rank_cannot_do_changes_nothing)
{
    small_trainer s;
    small_begin(&s, comm);
    s.y[17] = 5;
    s.spec.parallel.double_buffering = true;
    ASSERT_OK(lk_model_add(s.model, "linear", "units=2"));
    ASSERT_OK(lk_config_parse(&lk_registry_loss, "softmax_cross_entropy", NULL, s.arena,
                              &s.options.loss));
    small_build(&s);
    ASSERT_OK(lk_trainer_step(s.trainer, NULL));
    ASSERT_OK(lk_trainer_step(s.trainer, NULL));
    uint64_t before = state_of(s.trainer);
    ASSERT_EQ(lk_trainer_step(s.trainer, NULL), LK_EIO);
    ASSERT_TRUE(state_of(s.trainer) == before);
    s.y[17] = 1;
    ASSERT_OK(lk_trainer_step(s.trainer, NULL));
    ASSERT_TRUE(state_of(s.trainer) != before);
    small_free(&s);
}

RANKS_TEST(what_it_cannot_go_with_is_refused)
{
    static const struct {
        const char *setting, *words, *more;
    } cases[] = {
        {"model.1={type: batch_norm, statistics: batch}",
         "parallel.double_buffering: a layer takes statistics of the whole batch, for which ranks "
         "wait in each pass; use statistics: shard",
         NULL},
        {"parallel.update=shared",
         "each rank updates its own copy; leave out parallel.update=shared", NULL},
        {"parallel.spatial=2x1", "is for ranks that share the batch alone: leave out",
         "pieces={tiles: 2x1, least_tile: 1}"},
        {"parallel.overlap=yes", "gradients travel during the next step already; leave out", NULL},
    };
    lk_experiment *e = NULL;
    lk_job *job;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ASSERT_FAILS(job_of(network, comm,
                            (const char *[MAX_SETTINGS]){DOUBLE, cases[i].setting, cases[i].more},
                            &e, &job),
                     LK_ENOTSUP, cases[i].words);
        lk_experiment_free(e);
    }
}
