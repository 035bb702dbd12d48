/* What stages do when, recorded while they train: how many micro-batches are under way on each, and that gradients
 * of weights wait for gaps between those of inputs.  Passes are recorded where the trainer calls them (linked with
 * --wrap), on each rank's thread, or in its process. */
#include "trainers.h"

#include <lockstep/extra/trainer_actions.h>
#include <lockstep/nn.h>

#include <stdio.h>

enum { MICROBATCHES = 16, MOST = 4 * MICROBATCHES };

/* F, B and W of a rank, in order: B is a backward, or its first half. */
static _Thread_local char trace[MOST + 1];
static _Thread_local int traced;
static _Thread_local bool tracing;

static void note(char what)
{
    if (tracing && traced < MOST)
        trace[traced++] = what;
}

lk_status real_forward(lk_model *model, const lk_pass *pass, lk_var x,
                       lk_var *out) __asm__("__real_lk_model_forward");
lk_status traced_forward(lk_model *model, const lk_pass *pass, lk_var x,
                         lk_var *out) __asm__("__wrap_lk_model_forward");
lk_status real_backward(lk_tape *tape, const lk_seed *seeds, int n,
                        unsigned flags) __asm__("__real_lk_backward");
lk_status traced_backward(lk_tape *tape, const lk_seed *seeds, int n,
                          unsigned flags) __asm__("__wrap_lk_backward");
lk_status real_rest(lk_tape *tape) __asm__("__real_lk_backward_rest");
lk_status traced_rest(lk_tape *tape) __asm__("__wrap_lk_backward_rest");

lk_status traced_forward(lk_model *model, const lk_pass *pass, lk_var x, lk_var *out)
{
    note('F');
    return real_forward(model, pass, x, out);
}

lk_status traced_backward(lk_tape *tape, const lk_seed *seeds, int n, unsigned flags)
{
    note('B');
    return real_backward(tape, seeds, n, flags);
}

lk_status traced_rest(lk_tape *tape)
{
    note('W');
    return real_rest(tape);
}

static const char network[] =
    "data: {type: glyphs, count: 64, test_count: 0, shape: [8, 8, 1], batch: 64, shards: 16}\n"
    "model: [flatten, {type: linear, units: 8}, tanh, {type: linear, units: 8}, tanh,"
    " {type: linear, units: 8}, tanh, {type: linear, units: 10}]\n"
    "loss: softmax_cross_entropy\n"
    "optimizer: sgd\n";

/* Record the second step of a schedule, with a stage a rank and a micro-batch a shard. */
static void record(lk_comm *comm, const char *options)
{
    char layout[128];
    lk_experiment *e = NULL;
    lk_job *job = NULL;
    snprintf(layout, sizeof layout, "parallel={stages: %d, micro_batch: 1, %s}", lk_comm_size(comm),
             options);
    ASSERT_OK(job_of(network, comm, (const char *[MAX_SETTINGS]){layout}, &e, &job));
    ASSERT_OK(lk_trainer_step(lk_job_trainer(job), NULL));
    traced = 0;
    tracing = true;
    ASSERT_OK(lk_trainer_step(lk_job_trainer(job), NULL));
    tracing = false;
    trace[traced] = '\0';
    job_end(job, e);
}

/* The most micro-batches between their F and the event that ends them. */
static int most_under_way(char end)
{
    int now = 0, most = 0;
    for (int i = 0; i < traced; i++) {
        now += trace[i] == 'F' ? 1 : trace[i] == end ? -1 : 0;
        most = now > most ? now : most;
    }
    return most;
}

static int count(char what)
{
    int n = 0;
    for (int i = 0; i < traced; i++)
        n += trace[i] == what;
    return n;
}

RANKS_TEST(as_many_are_under_way_as_stages_follow)
{
    int size = lk_comm_size(comm), rank = lk_comm_rank(comm);
    if (size == 1)
        return;
    record(comm, "schedule: 1f1b");
    ASSERT_EQ(traced, 2 * MICROBATCHES);
    ASSERT_EQ(most_under_way('B'), size - rank);
    record(comm, "schedule: gpipe");
    ASSERT_EQ(most_under_way('B'), MICROBATCHES);
}

/* Of zb1p with its largest lag: as many under way on each stage as on the first, W being s behind; and behind the
 * last F, where 1f1b has gaps between its backwards, a W between any two B. */
RANKS_TEST(gradients_of_weights_fill_the_gaps)
{
    int size = lk_comm_size(comm), rank = lk_comm_rank(comm), ahead = 0, largest = 0, last = -1;
    if (size == 1)
        return;
    record(comm, "schedule: zb1p, lag: full");
    ASSERT_TRUE(count('F') == MICROBATCHES && count('B') == MICROBATCHES);
    ASSERT_EQ(count('W'), MICROBATCHES);
    ASSERT_EQ(most_under_way('W'), size);
    for (int i = 0; i < traced; i++) {
        ahead += trace[i] == 'B' ? 1 : trace[i] == 'W' ? -1 : 0;
        largest = ahead > largest ? ahead : largest;
        last = trace[i] == 'F' ? i : last;
    }
    ASSERT_EQ(largest, rank + 1);
    for (int i = last + 1; i + 1 < traced; i++)
        ASSERT_TRUE(trace[i] != 'B' || trace[i + 1] == 'W');
    record(comm, "schedule: zb1p, lag: 0");
    for (int i = 0; i + 1 < traced; i++) /* each right behind */
        ASSERT_TRUE(trace[i] != 'B' || trace[i + 1] == 'W');
}

/* What a watch was told. */
struct told {
    const lk_pipeline_stage *list;
    int64_t n, end;
    bool differs;
    double waits; /* seconds of messages */
};

static void action_note(void *context, lk_action a, lk_action_span span)
{
    struct told *told = context;
    const lk_action *of = told->n < told->list->n ? &told->list->action[told->n] : NULL;
    if (!of || of->kind != a.kind || of->microbatch != a.microbatch ||
        (a.kind >= LK_ACTION_SEND && of->value != a.value) || span.end < span.begin ||
        (told->n > 0 && span.begin != told->end))
        told->differs = true;
    told->waits += a.kind >= LK_ACTION_SEND ? 1e-9 * (double)(span.end - span.begin) : 0;
    told->end = span.end;
    told->n++;
}

/* A watch is told the list of its stage, one action behind the other, and the seconds that a step waits have those
 * of its messages. */
RANKS_TEST(a_watch_is_told_the_list)
{
    lk_pipeline_spec spec = {LK_PIPELINE_ZB1P, lk_comm_size(comm), MICROBATCHES, NULL};
    struct told told = {.n = 0};
    lk_pipeline *lists = NULL;
    lk_experiment *e = NULL;
    lk_job *job = NULL;
    lk_step_report did;
    char layout[128];
    snprintf(layout, sizeof layout,
             "parallel={stages: %d, micro_batch: 1, schedule: zb1p, lag: full}",
             lk_comm_size(comm));
    ASSERT_OK(lk_pipeline_new(&spec, &lists));
    told.list = &lists->stage[lk_comm_rank(comm)];
    ASSERT_OK(job_of(network, comm, (const char *[MAX_SETTINGS]){layout}, &e, &job));
    lk_trainer_watch_actions(lk_job_trainer(job), action_note, &told);
    ASSERT_OK(lk_trainer_step(lk_job_trainer(job), &did));
    ASSERT_TRUE(!told.differs);
    ASSERT_EQ(told.n, lk_comm_size(comm) > 1 ? told.list->n : 0);
    ASSERT_TRUE(did.time.wait >= told.waits);
    lk_trainer_watch_actions(lk_job_trainer(job), NULL, NULL);
    ASSERT_OK(lk_trainer_step(lk_job_trainer(job), NULL));
    ASSERT_EQ(told.n, lk_comm_size(comm) > 1 ? told.list->n : 0);
    job_end(job, e);
    lk_pipeline_free(lists);
}
