/* Turns of two stages, by each schedule, and of one rank with two threads.
 *
 * Both ranks go from turn to turn together; in that of one rank the other one sleeps.  Where steps are
 * short, one before each turn is not timed.  Behind each action its stage notes when it was
 * (lk_trainer_watch_actions()); at the end of a turn all know what both have noted.
 */
#include "bench/pipeline.h"

#include <lockstep/coll.h>
#include <lockstep/extra/alloc.h>
#include <lockstep/extra/clock.h>
#include <lockstep/extra/trainer_actions.h>
#include <lockstep/thread.h>

#include <string.h>

/* The steps of a turn take this long at least, so that no single one decides, where there is time. */
static const double shortest_turn = 0.05;

enum { MAX_STEPS = 16 };

/* What a stage has noted of the steps of a turn; of numbers alone, so that stages can exchange it. */
struct notes {
    double begin[MAX_STEPS], end[MAX_STEPS]; /* of its list, by the clock */
    double action[PIPELINE_KINDS];           /* seconds of all of a kind */
    double update;
};
enum { NOTES = sizeof(struct notes) / sizeof(double) };

/* What a turn says, or all turns of a side. */
struct turn {
    double seconds, actions, bound, bubble, by_times; /* as pipeline_figures has them */
    double action[PIPELINE_STAGES][PIPELINE_KINDS], update[PIPELINE_STAGES];
};
enum { TURN = sizeof(struct turn) / sizeof(double) };

struct race {
    lk_comm *comm;
    const pipeline_case *c;
    lk_tensor *sample[2]; /* x and y */
    lk_dataset *set;
    lk_experiment *as[PIPELINE_SIDES];
    lk_job *job[PIPELINE_SIDES];
    struct notes own; /* of the turn that is under way */
    int step;
    int steps, round;
    bool warms; /* a step before those of a turn is not timed */
    double turn[PIPELINE_SIDES][TURN][BENCH_MAX_ROUNDS]; /* fields of struct turn, by round */
};

/* ---- schedules ---- */

lk_status pipeline_compute(lk_pipeline_kind kind, int stages, int64_t microbatches,
                           const lk_stage_times *each, int64_t *path, double *bubble)
{
    lk_pipeline_spec spec = {.kind = kind, .stages = stages, .microbatches = microbatches};
    lk_pipeline *lists = NULL;
    lk_pipeline_times *times = NULL;
    LK_TRY(lk_pipeline_new(&spec, &lists));
    lk_status st = lk_pipeline_times_new(lists, each, false, &times);
    if (st == LK_OK && path)
        *path = times->total;
    if (st == LK_OK)
        *bubble = times->bubble;
    lk_pipeline_times_free(times);
    lk_pipeline_free(lists);
    return LK_TRACE(st);
}

lk_status pipeline_count(lk_pipeline_kind kind, int stages, int64_t microbatches, double *bubble)
{
    lk_stage_times *each = NULL;
    LK_TRY(lk_alloc(&each, stages, sizeof *each));
    for (int s = 0; s < stages; s++)
        each[s] = (lk_stage_times){
            .forward = 1, .backward = 2, .backward_input = 1, .backward_weights = 1};
    lk_status st = pipeline_compute(kind, stages, microbatches, each, NULL, bubble);
    lk_free(each);
    return LK_TRACE(st);
}

/* ---- notes ---- */

/* On the trainer's thread: lk_action_watch_fn. */
static void action_note(void *race, lk_action a, lk_action_span span)
{
    struct race *r = race;
    double begin = 1e-9 * (double)span.begin, end = 1e-9 * (double)span.end;
    if (r->own.begin[r->step] == 0)
        r->own.begin[r->step] = begin;
    r->own.end[r->step] = end;
    if ((int)a.kind < PIPELINE_KINDS)
        r->own.action[a.kind] += end - begin;
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* The mean time of each action of each stage, and what the critical path is with these. */
static lk_status actions_judge(const struct race *r, int side, const struct notes *all,
                               struct turn *t)
{
    double number = (double)(r->c->microbatches * r->steps), busy = 0;
    lk_stage_times each[PIPELINE_STAGES];
    int64_t path = 0;
    for (int s = 0; s < PIPELINE_STAGES; s++) {
        double computed = 0;
        for (int k = 0; k < PIPELINE_KINDS; k++) {
            computed += all[s].action[k] / r->steps;
            t->action[s][k] = all[s].action[k] / number;
        }
        t->update[s] = all[s].update / r->steps;
        busy = larger(busy, computed);
        each[s] = (lk_stage_times){
            .forward = (int64_t)(1e9 * t->action[s][LK_ACTION_FORWARD]),
            .backward = (int64_t)(1e9 * t->action[s][LK_ACTION_BACKWARD]),
            .backward_input = (int64_t)(1e9 * t->action[s][LK_ACTION_BACKWARD_INPUT]),
            .backward_weights = (int64_t)(1e9 * t->action[s][LK_ACTION_BACKWARD_WEIGHTS])};
    }
    LK_TRY(pipeline_compute((lk_pipeline_kind)side, PIPELINE_STAGES, r->c->microbatches, each,
                            &path, &t->by_times));
    t->bound = 1e-9 * (double)path + larger(t->update[0], t->update[1]);
    t->bubble = (t->actions - busy) / busy;
    return LK_OK;
}

/* What the notes of both stages say. */
static lk_status turn_judge(const struct race *r, int side, struct turn *t)
{
    struct notes all[PIPELINE_STAGES];
    memset(all, 0, sizeof all);
    all[lk_comm_rank(r->comm)] = r->own;
    LK_TRY(lk_allreduce(r->comm, NULL, (double *)all, (int64_t)PIPELINE_STAGES * NOTES, LK_F64,
                        LK_REDUCE_SUM, "notes"));
    for (int i = 0; i < r->steps; i++) {
        double begin = all[0].begin[i] < all[1].begin[i] ? all[0].begin[i] : all[1].begin[i];
        t->actions += (larger(all[0].end[i], all[1].end[i]) - begin) / r->steps;
    }
    return LK_TRACE(actions_judge(r, side, all, t));
}

/* ---- turns ---- */

static lk_status steps_run(struct race *r, int side, int steps)
{
    lk_step_report did;
    for (r->step = 0; r->step < steps; r->step++) {
        LK_TRY(lk_trainer_step(lk_job_trainer(r->job[side]), &did));
        r->own.update += did.time.update;
    }
    return LK_OK;
}

static lk_status steps_time(struct race *r, int side, double *seconds)
{
    if (r->warms)
        LK_TRY(steps_run(r, side, 1));
    r->own = (struct notes){.update = 0};
    if (side != PIPELINE_THREADS)
        LK_TRY(lk_barrier(r->comm, "begin"));
    int64_t start = lk_clock_ns();
    LK_TRY(steps_run(r, side, r->steps));
    *seconds = 1e-9 * (double)(lk_clock_ns() - start) / r->steps;
    return LK_OK;
}

/* The turn of one side; all ranks know what it says, the seconds being those of the slowest. */
static lk_status turn_run(struct race *r, int side, struct turn *t)
{
    bool leads = lk_comm_rank(r->comm) == 0, joint = side != PIPELINE_THREADS;
    lk_status st = LK_OK;
    *t = (struct turn){.seconds = 0};
    if (leads) /* neither computes: both are on their way to the barrier */
        st = lk_threads_set(joint ? 1 : PIPELINE_STAGES);
    LK_TRY(lk_agree(r->comm, st));
    if (leads || joint)
        st = steps_time(r, side, &t->seconds);
    LK_TRY(lk_agree(r->comm, st));
    LK_TRY(lk_allreduce(r->comm, NULL, &t->seconds, 1, LK_F64, LK_REDUCE_MAX, "slowest"));
    if (joint)
        LK_TRY(turn_judge(r, side, t));
    return LK_OK;
}

static lk_status warm(struct race *r)
{
    struct turn t;
    double longest = 0, least = r->c->seconds < shortest_turn ? r->c->seconds : shortest_turn;
    r->steps = 1;
    r->warms = true; /* the first has to ask for memory */
    for (int side = 0; side < PIPELINE_SIDES; side++) {
        LK_TRY(turn_run(r, side, &t));
        longest = larger(longest, t.seconds);
    }
    r->warms = longest < shortest_turn;
    double steps = least / longest + 1;
    r->steps = steps < MAX_STEPS ? (int)steps : MAX_STEPS;
    return LK_OK;
}

/* Everybody once a round, another one first each time; all ranks do as many, which rank 0 decides. */
static lk_status rounds_run(struct race *r)
{
    int32_t go = 1;
    struct turn t;
    double field[TURN];
    LK_TRY(warm(r));
    double end = bench_now() + r->c->seconds;
    for (; go; r->round++) {
        for (int k = 0; k < PIPELINE_SIDES; k++) {
            int side = (k + r->round) % PIPELINE_SIDES;
            LK_TRY(turn_run(r, side, &t));
            memcpy(field, &t, sizeof t);
            for (int i = 0; i < TURN; i++)
                r->turn[side][i][r->round] = field[i];
        }
        go = bench_goes_on(r->round + 1, end);
        LK_TRY(lk_bcast(r->comm, &go, 1, LK_I32, 0, "go on"));
    }
    return LK_OK;
}

/* ---- figures ---- */

/* The rounds of a field of struct turn. */
#define ROUNDS(r, side, field) ((r)->turn[side][offsetof(struct turn, field) / sizeof(double)])

static bench_figure median(const struct race *r, const double *rounds)
{
    return bench_median(rounds, r->round);
}

static lk_status figures_make(const struct race *r, int side, pipeline_figures *f)
{
    const double *seconds = ROUNDS(r, side, seconds);
    f->seconds = median(r, seconds);
    f->ratio = bench_ratio(ROUNDS(r, PIPELINE_THREADS, seconds), seconds, r->round);
    f->actions = median(r, ROUNDS(r, side, actions));
    f->bound = median(r, ROUNDS(r, side, bound));
    f->of_bound = bench_ratio(ROUNDS(r, side, bound), seconds, r->round);
    f->bubble = median(r, ROUNDS(r, side, bubble));
    f->by_times = median(r, ROUNDS(r, side, by_times));
    for (int s = 0; s < PIPELINE_STAGES; s++) {
        for (int k = 0; k < PIPELINE_KINDS; k++)
            if (ROUNDS(r, side, action[s][k])[0] > 0)
                f->action[s][k] = median(r, ROUNDS(r, side, action[s][k]));
        f->update[s] = median(r, ROUNDS(r, side, update[s]));
    }
    return LK_TRACE(
        pipeline_count((lk_pipeline_kind)side, PIPELINE_STAGES, r->c->microbatches, &f->by_count));
}

/* ---- a case ---- */

/* A batch in memory: some numbers, none of which are slow, and some classes. */
static lk_status set_make(struct race *r)
{
    const pipeline_case *c = r->c;
    lk_dataset_info info = {.name = "bench pipeline",
                            .classes = c->width,
                            .in_memory = true,
                            .n_fields = 2,
                            .field = {{.name = "x"}, {.name = "y"}}};
    void *x = NULL, *y = NULL;
    LK_TRY(lk_tensor_zeros(LK_F32, LK_SHAPE(c->batch, c->width), &r->sample[0]));
    LK_TRY(lk_tensor_zeros(LK_I64, LK_SHAPE(c->batch), &r->sample[1]));
    LK_TRY(lk_tensor_writable_data(r->sample[0], &x));
    LK_TRY(lk_tensor_writable_data(r->sample[1], &y));
    for (int64_t i = 0; i < c->batch * c->width; i++)
        ((float *)x)[i] = (float)(i % 251) / 251 - 0.5F;
    for (int64_t i = 0; i < c->batch; i++)
        ((int64_t *)y)[i] = i % c->width;
    return LK_TRACE(lk_dataset_from_tensors(&info, r->sample, &r->set));
}

/* The experiment: a shard is a micro-batch, for all sides, and stages have as many layers. */
static lk_status experiment_make(struct race *r, int side)
{
    const pipeline_case *c = r->c;
    char text[2048], *at = text, *end = text + sizeof text;
    at += snprintf(at, (size_t)(end - at),
                   "data: {type: empty, samples: %lld, batch: %lld, shards: %lld, shuffle: false, "
                   "prefetch: 0}\nmodel: [",
                   (long long)c->batch, (long long)c->batch, (long long)c->microbatches);
    for (int i = 0; i < PIPELINE_LAYERS; i++)
        at += snprintf(at, (size_t)(end - at), "%s{type: linear, units: %lld%s}",
                       i > 0 ? ", relu, " : "", (long long)c->width,
                       i == PIPELINE_LAYERS / PIPELINE_STAGES ? ", stage: true" : "");
    at += snprintf(at, (size_t)(end - at),
                   "]\nloss: softmax_cross_entropy\noptimizer: {type: sgd, rate: 1e-3}\n"
                   "train: {epochs: 1000000000}\n");
    if (side != PIPELINE_THREADS)
        snprintf(at, (size_t)(end - at),
                 "parallel: {stages: %d, micro_batch: 1, schedule: %s, lag: %s}\n", PIPELINE_STAGES,
                 lk_pipeline_name((lk_pipeline_kind)side),
                 side == LK_PIPELINE_ZB1P ? "full" : "auto");
    return LK_TRACE(lk_experiment_parse("bench pipeline", text, NULL, 0, &r->as[side]));
}

static lk_status side_make(struct race *r, int side)
{
    bool joint = side != PIPELINE_THREADS;
    LK_TRY(experiment_make(r, side));
    lk_job_spec spec = {
        .experiment = r->as[side], .comm = joint ? r->comm : NULL, .set = {[LK_TRAIN] = r->set}};
    if (!joint && lk_comm_rank(r->comm) > 0)
        return LK_OK;
    LK_TRY(lk_job_new_spec(&spec, &r->job[side]));
    lk_trainer_watch_actions(lk_job_trainer(r->job[side]), action_note, r);
    return LK_OK;
}

static lk_status race_run(struct race *r, pipeline_results *out)
{
    LK_TRY(lk_agree(r->comm, set_make(r)));
    for (int side = 0; side < PIPELINE_SIDES; side++)
        LK_TRY(lk_agree(r->comm, side_make(r, side)));
    LK_TRY(rounds_run(r));
    out->rounds = r->round;
    out->threads = median(r, ROUNDS(r, PIPELINE_THREADS, seconds));
    for (int side = 0; side < PIPELINE_SCHEDULES; side++)
        LK_TRY(figures_make(r, side, &out->schedule[side]));
    return LK_OK;
}

static void race_free(struct race *r)
{
    for (int side = 0; r && side < PIPELINE_SIDES; side++) {
        lk_job_free(r->job[side]);
        lk_experiment_free(r->as[side]);
    }
    if (r) {
        lk_dataset_free(r->set);
        lk_tensor_free(r->sample[0]);
        lk_tensor_free(r->sample[1]);
    }
    lk_free(r);
}

lk_status pipeline_measure(lk_comm *comm, const pipeline_case *c, pipeline_results *out)
{
    struct race *r = NULL;
    *out = (pipeline_results){.rounds = 0};
    lk_status st = lk_agree(comm, lk_alloc_zero(&r, 1, sizeof *r));
    if (st == LK_OK) {
        r->comm = comm;
        r->c = c;
        st = race_run(r, out);
    }
    race_free(r);
    return LK_TRACE(st);
}
