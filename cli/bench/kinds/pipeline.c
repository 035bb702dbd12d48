/* lockstep bench pipeline: two stages by each schedule, against two threads of one rank, and the bubbles of more
 * stages computed from the times of actions. */
#include "bench/pipeline.h"

#include "bench/options.h"
#include "verb.h"

#include <sched.h>
#include <stdlib.h>

enum { MAX_STAGES = 8, MAX_MICROBATCHES = 64 };

struct pipeline_options {
    bool json;
    lk_option_names microbatches;
    int64_t width, batch;
    double seconds;
};

#define FIELD(name) offsetof(struct pipeline_options, name)

static const lk_option options[] = {
    {"micro-batches", LK_OPTION_NAMES, FIELD(microbatches), .value = "N,...", .def = "4,8",
     .help = "into which the batch is cut: from 1 to 64, a case each", .flags = LK_OPTION_ONCE},
    {"width", LK_OPTION_INT, FIELD(width), .value = "N", .def = "2048", .min = 1, .max = 65536,
     .help = "units of each of the 8 layers"},
    {"batch", LK_OPTION_INT, FIELD(batch), .value = "N", .def = "1024", .min = 1, .max = 1000000,
     .help = "samples of a step"},
    BENCH_SECONDS_OPTION(FIELD(seconds), "20", "each case, everybody together"),
    BENCH_JSON_OPTION(FIELD(json)),
    {.name = NULL},
};

struct bench {
    const struct pipeline_options *o;
    const pipeline_case *c;
    const pipeline_results *f;
};

enum { CASE_NAME = 64 };

/* "1f1b 2048 m4": the schedule, the width and the micro-batches. */
static const char *case_name(const struct bench *b, int side, char out[CASE_NAME])
{
    snprintf(out, CASE_NAME, "%s %lld m%lld",
             side == PIPELINE_THREADS ? "threads" : lk_pipeline_name((lk_pipeline_kind)side),
             (long long)b->c->width, (long long)b->c->microbatches);
    return out;
}

static report_cell cell_ms(bench_figure seconds)
{
    return cell_figure(bench_scaled(1e3, seconds), 1);
}

/* ---- steps ---- */

static void steps_print(const struct bench *b)
{
    static const report_column columns[] = {
        {"case", "case", -15},
        {"peer", NULL, 0},
        {"milliseconds", "ms", 13},
        {"samples_per_s", "samples/s", 12},
        {"ratio", "ratio", 11},
        {"bound_milliseconds", "bound ms", 13},
        {"bound_ratio", "of bound", 11},
        {"bubble", "bubble", 13},
        {"bubble_by_times", "by times", 13},
        {"bubble_by_count", "by count", 8},
        {"actions_milliseconds", NULL, 0},
        {"batch", NULL, 0},
        {"microbatches", NULL, 0},
        {"rounds", NULL, 0},
    };
    static const pipeline_figures one_rank;
    report out;
    char name[CASE_NAME];
    report_begin(&out, columns, sizeof columns / sizeof columns[0], b->o->json);
    for (int side = 0; side < PIPELINE_SIDES; side++) {
        bool joint = side != PIPELINE_THREADS;
        const pipeline_figures *f = joint ? &b->f->schedule[side] : &one_rank;
        bench_figure seconds = joint ? f->seconds : b->f->threads;
        report_row(&out, (report_cell[]){
                             cell_text(case_name(b, side, name)),
                             joint ? cell_text("threads") : cell_none(),
                             cell_ms(seconds),
                             cell_figure(bench_rate((double)b->c->batch, seconds), 0),
                             cell_figure(f->ratio, 3),
                             cell_ms(f->bound),
                             cell_figure(f->of_bound, 3),
                             cell_figure(f->bubble, 3),
                             cell_figure(f->by_times, 3),
                             joint ? cell_real(f->by_count, 3) : cell_none(),
                             cell_ms(f->actions),
                             cell_int(b->c->batch),
                             cell_int(b->c->microbatches),
                             cell_int(b->f->rounds),
                         });
    }
}

/* ---- actions ---- */

static void actions_print(const struct bench *b)
{
    static const report_column columns[] = {
        {"case", "case", -15},
        {"stage", "stage", 5},
        {"forward_milliseconds", "forward ms", 13},
        {"backward_milliseconds", "backward ms", 13},
        {"input_milliseconds", "input ms", 13},
        {"weights_milliseconds", "weights ms", 13},
        {"update_milliseconds", "update ms", 13},
    };
    report out;
    char name[CASE_NAME];
    report_begin(&out, columns, sizeof columns / sizeof columns[0], b->o->json);
    for (int side = 0; side < PIPELINE_SCHEDULES; side++)
        for (int s = 0; s < PIPELINE_STAGES; s++) {
            const pipeline_figures *f = &b->f->schedule[side];
            report_row(&out, (report_cell[]){
                                 cell_text(case_name(b, side, name)),
                                 cell_int(s),
                                 cell_ms(f->action[s][LK_ACTION_FORWARD]),
                                 cell_ms(f->action[s][LK_ACTION_BACKWARD]),
                                 cell_ms(f->action[s][LK_ACTION_BACKWARD_INPUT]),
                                 cell_ms(f->action[s][LK_ACTION_BACKWARD_WEIGHTS]),
                                 cell_ms(f->update[s]),
                             });
        }
}

/* ---- more stages ---- */

static int64_t ns_of(const pipeline_figures *f, lk_action_kind kind)
{
    bench_figure seconds = f->action[PIPELINE_STAGES - 1][kind];
    return seconds.measured ? (int64_t)(1e9 * seconds.value) : 0;
}

/* The bubble of a schedule on so many stages that each take what the last of the two did. */
static lk_status bubble_compute(const struct bench *b, int side, int stages, int64_t microbatches,
                                double *by_times, double *by_count)
{
    const pipeline_figures *f = &b->f->schedule[side];
    lk_stage_times each[MAX_STAGES];
    for (int s = 0; s < stages; s++)
        each[s] = (lk_stage_times){.forward = ns_of(f, LK_ACTION_FORWARD),
                                   .backward = ns_of(f, LK_ACTION_BACKWARD),
                                   .backward_input = ns_of(f, LK_ACTION_BACKWARD_INPUT),
                                   .backward_weights = ns_of(f, LK_ACTION_BACKWARD_WEIGHTS)};
    LK_TRY(pipeline_compute((lk_pipeline_kind)side, stages, microbatches, each, NULL, by_times));
    return LK_TRACE(pipeline_count((lk_pipeline_kind)side, stages, microbatches, by_count));
}

/* With as many micro-batches for each stage as were measured. */
static lk_status stages_print(const struct bench *b)
{
    static const report_column columns[] = {
        {"case", "schedule", -10},
        {"stages", "stages", 6},
        {"microbatches", "micro-batches", 13},
        {"bubble_by_times", "bubble by times", 15},
        {"bubble_by_count", "by count", 8},
    };
    report out;
    double by_times, by_count;
    report_begin(&out, columns, sizeof columns / sizeof columns[0], b->o->json);
    for (int side = 0; side < PIPELINE_SCHEDULES; side++)
        for (int stages = PIPELINE_STAGES; stages <= MAX_STAGES; stages++) {
            int64_t microbatches = (b->c->microbatches * stages + PIPELINE_STAGES - 1) /
                                   PIPELINE_STAGES;
            LK_TRY(bubble_compute(b, side, stages, microbatches, &by_times, &by_count));
            report_row(&out, (report_cell[]){
                                 cell_text(lk_pipeline_name((lk_pipeline_kind)side)),
                                 cell_int(stages),
                                 cell_int(microbatches),
                                 cell_real(by_times, 3),
                                 cell_real(by_count, 3),
                             });
        }
    return LK_OK;
}

static lk_status case_print(const struct bench *b)
{
    bool text = !b->o->json;
    if (text)
        printf("\n%lld micro-batches of %lld samples\n", (long long)b->c->microbatches,
               (long long)(b->c->batch / b->c->microbatches));
    steps_print(b);
    if (text)
        puts("\nwhat a stage takes for a micro-batch, and for the update");
    actions_print(b);
    if (text)
        puts("\nbubbles of more stages, computed from these times and from equal ones");
    LK_TRY(stages_print(b));
    report_flush();
    return LK_OK;
}

/* ---- the verb ---- */

/* A number of micro-batches that cuts the batch evenly; false: it is none. */
static bool microbatches_read(const struct pipeline_options *o, int i, int64_t *out)
{
    char *end;
    long long n = strtoll(o->microbatches.item[i], &end, 10);
    if (end == o->microbatches.item[i] || *end != '\0' || n < 1 || n > MAX_MICROBATCHES)
        return false;
    *out = n;
    return o->batch % n == 0;
}

/* One of the two ranks. */
static lk_status rank_run(lk_comm *comm, void *arg)
{
    const struct pipeline_options *o = arg;
    for (int i = 0; i < o->microbatches.n; i++) {
        pipeline_case c = {.width = o->width, .batch = o->batch, .seconds = o->seconds};
        pipeline_results f;
        if (!microbatches_read(o, i, &c.microbatches)) /* which was refused before */
            continue;
        LK_TRY(pipeline_measure(comm, &c, &f));
        if (lk_comm_rank(comm) == 0)
            LK_TRY(case_print(&(struct bench){o, &c, &f}));
    }
    return LK_OK;
}

static int pipeline_run(const void *given, int n_operands, char **operand)
{
    struct pipeline_options o = *(const struct pipeline_options *)given;
    cpu_set_t allowed;
    int64_t microbatches;
    (void)n_operands;
    (void)operand;
    for (int i = 0; i < o.microbatches.n; i++)
        if (!microbatches_read(&o, i, &microbatches))
            return verb_refuse("lockstep bench pipeline: option --micro-batches: \"%s\": a number "
                               "from 1 to %d that divides the batch, %lld",
                               o.microbatches.item[i], MAX_MICROBATCHES, (long long)o.batch);
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 ||
        CPU_COUNT(&allowed) < PIPELINE_STAGES)
        return verb_refuse("lockstep bench pipeline: it needs two processors");
    if (!o.json)
        printf("f32, %d linear layers of %lld with relu, a batch of %lld: %d stages with a thread "
               "each; medians of time\n",
               PIPELINE_LAYERS, (long long)o.width, (long long)o.batch, PIPELINE_STAGES);
    lk_status st = lk_run_local(PIPELINE_STAGES, rank_run, &o);
    return st == LK_OK ? LK_EXIT_DONE : verb_failed_with(st, NULL);
}

const lk__verb lk__bench_kind_pipeline = {
    .computes = true,
    .name = "pipeline",
    .summary = "two stages by each schedule, against two threads of one rank",
    .operands = "",
    .about =
        "Trains a perceptron of 8 equal layers in two stages, by each schedule (zb1p with lag: "
        "full), and on one rank with two threads, in turn. The stages are threads of this process "
        "that compute with one thread each. What they do when is noted behind each action. It "
        "needs about 2 GB of memory with a width of 2048.\n"
        "Columns: ms: milliseconds of a step, of the slower stage, with its update. samples/s. "
        "ratio: the time of one rank with two threads divided by that of the step. bound: what a "
        "step would take if nobody waited but for what the schedule says, its critical path from "
        "the measured times of actions, messages taking none, and the update. of bound: bound "
        "divided by ms. bubble: what the actions take from the first to the last longer than the "
        "busier stage computes, divided by that. by times: that of the critical path. by count: "
        "that of equal times.\n"
        "Then for each stage: forward, backward, and its halves (input, weights), each for a "
        "micro-batch, and update. And computed from those of the second stage, bubbles of up to 8 "
        "equal stages with as many micro-batches for each.\n" BENCH_NOISE_ABOUT "\n"
        "JSON: case, peer, ratio, samples_per_s, milliseconds, bound_milliseconds, bound_ratio, "
        "bubble, bubble_by_times, bubble_by_count, actions_milliseconds, batch, "
        "microbatches, rounds; for each stage case, stage, forward_milliseconds, "
        "backward_milliseconds, input_milliseconds, weights_milliseconds, update_milliseconds; of "
        "more stages case, stages, microbatches, bubble_by_times, bubble_by_count.",
    .options = options,
    .options_size = sizeof(struct pipeline_options),
    .run = pipeline_run,
};
