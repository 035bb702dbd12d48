/* lockstep train: an experiment from its file to the hash of its state. */
#include "experiment.h"
#include "job.h"
#include "launch/stop.h"
#include "ranks.h"
#include "report.h"
#include "score.h"
#include "term.h"
#include "verb.h"

#include <lockstep/train.h>

#include <string.h>

struct train_options {
    bool json, quiet, resume;
};

#define FIELD(name) offsetof(struct train_options, name)

static const lk_option options[] = {
    {"json", LK_OPTION_FLAG, FIELD(json),
     .help = "print one JSON object for each epoch and evaluation"},
    {"quiet", LK_OPTION_FLAG, FIELD(quiet),
     .help = "print nothing but warnings, what is said of checkpoints, and the last line"},
    {"resume", LK_OPTION_FLAG, FIELD(resume),
     .help = "go on from the newest checkpoint of this run, if there is one"},
    {.name = NULL},
};

/* What is shown while training goes on. */
struct view {
    const struct train_options *options;
    bool silent; /* another rank prints */
    progress bar;
    bool titled;
    const lk_phase *phase; /* of the rows so far */
    report out;
    double samples, seconds; /* of the steps since the last row, for the rate */
};

static bool is_stopped(void *arg)
{
    (void)arg;
    return stop_asked();
}

static void show_step(void *arg, const lk_job *job, const lk_step_report *did)
{
    struct view *v = arg;
    lk_position at = lk_trainer_position(lk_job_trainer(job));
    const lk_train_options *train = &lk_job_experiment(job)->train;
    double all = (double)train->epochs * (double)at.batches;
    if (train->steps > 0 && (double)train->steps < all)
        all = (double)train->steps;
    v->samples += (double)did->samples;
    v->seconds += lk_step_compute_seconds(&did->time) + did->time.wait + did->time.exchange;
    if (!v->options->quiet && !v->silent)
        progress_show(&v->bar, (double)at.step / all, "%s%sepoch %lld, loss %.4f, %.0f samples/s",
                      lk_job_phase(job) ? lk_job_phase(job)->name : "",
                      lk_job_phase(job) ? ": " : "", (long long)did->step / at.batches + 1,
                      report_plain(did->loss), v->seconds > 0 ? v->samples / v->seconds : 0);
}

/* How much of the epoch the ranks computed, exchanged and waited, on average. */
static lk_step_seconds mean_time(const lk_epoch_report *r)
{
    lk_step_seconds mean = {0};
    for (int k = 0; k < r->ranks; k++) {
        mean.forward += lk_step_compute_seconds(&r->rank_time[k]) / r->ranks;
        mean.exchange += r->rank_time[k].exchange / r->ranks;
        mean.wait += r->rank_time[k].wait / r->ranks;
    }
    return mean;
}

static void print_json_ranks(const lk_epoch_report *r)
{
    lk_step_seconds mean = mean_time(r);
    printf(",\"ranks\":%d,\"compute_s\":", r->ranks);
    report_json_real(lk_step_compute_seconds(&mean));
    printf(",\"exchange_s\":");
    report_json_real(mean.exchange);
    printf(",\"wait_s\":");
    report_json_real(mean.wait);
    printf(",\"slowest_rank\":%d,\"slowest_compute_s\":", r->slowest);
    report_json_real(lk_step_compute_seconds(&r->rank_time[r->slowest]));
}

/* Say so if one rank computes much longer than the others. */
static void print_slow(const lk_epoch_report *r)
{
    if (r->slowest < 0)
        return;
    lk_step_seconds mean = mean_time(r);
    double slow = lk_step_compute_seconds(&r->rank_time[r->slowest]),
           usual = lk_step_compute_seconds(&mean);
    if (slow > 1.3 * usual && slow - usual > 1)
        fprintf(stderr,
                "rank %d is slow: it computed %.1f s in this epoch, the ranks %.1f s on average\n",
                r->slowest, slow, usual);
}

/* The state with its marks, behind which its object ends. */
static void print_json_state(const lk_job *job, uint64_t state)
{
    char hash[LK_HASH_TEXT];
    lk_short_string marks = lk_parallel_marks(&lk_job_experiment(job)->parallel);
    printf("\"state\":\"%s\"", lk_hash_text(state, hash));
    if (marks.s[0])
        printf(",\"marks\":\"%s\"", marks.s);
    fputs("}\n", stdout);
}

static void print_json(const lk_job *job, const lk_epoch_report *r)
{
    putchar('{');
    if (lk_job_phase(job)) {
        printf("\"phase\":");
        report_json_text(lk_job_phase(job)->name);
        putchar(',');
    }
    printf("\"epoch\":%lld,\"step\":%lld,\"loss\":", (long long)r->epoch, (long long)r->step);
    bool seen = r->train.samples > 0;
    report_json_real(seen ? r->train.loss : r->test.loss);
    printf(",\"metrics\":{");
    if (seen)
        score_json(lk_job_trainer(job), "train", &r->train, false);
    if (r->evaluated) {
        const char *name;
        (void)lk_job_evaluation(job, &name);
        score_json(lk_job_trainer(job), name, &r->test, seen);
    }
    printf("},\"rate\":");
    report_json_real(r->rate);
    printf(",\"samples_per_s\":");
    report_json_real(r->samples_per_s);
    printf(",\"seconds\":");
    report_json_real(r->seconds);
    if (r->slowest >= 0)
        print_json_ranks(r);
    putchar(',');
    print_json_state(job, r->state);
    (void)report_flush();
}

/* ---- the table ---- */

enum { LOSS_COLUMNS = 4 }; /* at most, for losses that layers add */

/* Loss number i of those that layers add, beside another that counts; NULL behind the last that is shown.
 * *number: among all that count. */
static const char *term_of(const lk_trainer *trainer, int i, int *number)
{
    const char *first = lk_trainer_loss(trainer, 0);
    *number = i + (strcmp(first, "loss") == 0);
    return i < LOSS_COLUMNS && lk_trainer_loss(trainer, 1) ? lk_trainer_loss(trainer, *number)
                                                           : NULL;
}

static void print_titles(struct view *v, const lk_job *job)
{
    const lk_trainer *trainer = lk_job_trainer(job);
    int at;
    report_column column[REPORT_MAX_COLUMNS] = {
        {NULL, "epoch", 5}, {NULL, "step", 7}, {NULL, "loss", 9}};
    const char *name, *metric;
    char title[32];
    bool lower;
    int n = 3;
    if (lk_job_evaluation(job, &name)) {
        snprintf(title, sizeof title, "%s loss", name);
        column[n++] = (report_column){NULL, title, 14};
    }
    for (int i = 0; (metric = term_of(trainer, i, &at)); i++)
        column[n++] = (report_column){NULL, metric, 11};
    for (int i = 0; (metric = lk_trainer_metric(trainer, i, &lower)); i++)
        if (lk_trainer_metric_is_number(trainer, i))
            column[n++] = (report_column){NULL, metric, 11};
    column[n++] = (report_column){NULL, "samples/s", 11};
    report_begin(&v->out, column, n, false);
}

static report_cell real_or_none(bool there, double v, int decimals)
{
    return there ? cell_real(v, decimals) : cell_none();
}

static void print_row(struct view *v, const lk_job *job, const lk_epoch_report *r)
{
    const lk_trainer *trainer = lk_job_trainer(job);
    const char *name;
    bool lower, seen = r->train.samples > 0;
    bool evaluation = lk_job_evaluation(job, &name) != NULL;
    const lk_eval *score = evaluation ? &r->test : &r->train;
    report_cell cell[REPORT_MAX_COLUMNS] = {cell_int(r->epoch), cell_int(r->step),
                                            real_or_none(seen, r->train.loss, 4)};
    int n = 3, at;
    if (evaluation)
        cell[n++] = real_or_none(r->evaluated, r->test.loss, 4);
    for (int i = 0; term_of(trainer, i, &at); i++)
        cell[n++] = real_or_none(score->samples > 0, score->samples > 0 ? score->losses[at] : 0, 4);
    for (int i = 0; lk_trainer_metric(trainer, i, &lower); i++)
        if (lk_trainer_metric_is_number(trainer, i))
            cell[n++] = real_or_none(score->samples > 0, score->value[i], 4);
    cell[n++] = real_or_none(seen, r->samples_per_s, 0);
    report_row(&v->out, cell);
}

static void show_epoch(void *arg, const lk_job *job, const lk_epoch_report *r)
{
    struct view *v = arg;
    if (v->options->quiet || v->silent)
        return;
    progress_clear(&v->bar);
    print_slow(r);
    if (v->options->json) {
        print_json(job, r);
        return;
    }
    const lk_phase *phase = lk_job_phase(job);
    if (phase != v->phase)
        printf("%sphase %s\n", v->titled ? "\n" : "", phase->name);
    if (!v->titled || phase != v->phase)
        print_titles(v, job);
    v->titled = true;
    v->phase = phase;
    print_row(v, job, r);
}

/* One line about what is trained on what. */
static void print_start(const lk_job *job)
{
    const lk_dataset_info *set = lk_dataset_info_of(
        lk_loader_dataset(lk_job_loader(job, LK_TRAIN)));
    const lk_slab_layout *layout = lk_model_layout(lk_trainer_model(lk_job_trainer(job)));
    int64_t params = 0;
    for (int64_t i = 0; i < lk_slab_layout_slices(layout); i++) {
        lk_slab_slice slice;
        if (lk_slab_layout_slice(layout, i, &slice) == LK_OK)
            params += slice.count;
    }
    if (params == 0) /* it does not start */
        return;
    fprintf(term_messages(), "%s: %lld parameters, %lld samples of %s",
            lk_job_experiment(job)->path, (long long)params, (long long)set->count, set->name);
    const lk_comm *world = lk_trainer_mesh(lk_job_trainer(job))->world;
    if (world)
        fprintf(term_messages(), ", on %d ranks (%s)", lk_comm_size(world),
                lk_comm_transport(world));
    const lk_option_names *devices = &lk_job_experiment(job)->parallel.devices;
    for (int i = 0; devices->n > 1 && i < devices->n; i++)
        fprintf(term_messages(), "%s%s", i == 0 ? ", devices " : " ", devices->item[i]);
    fputc('\n', term_messages());
}

static void show_message(void *arg, const char *text)
{
    struct view *v = arg;
    progress_clear(&v->bar);
    for (const char *end; *text; text = *end ? end + 1 : end) {
        end = text + strcspn(text, "\n");
        fprintf(term_messages(), "lockstep train: %.*s\n", (int)(end - text), text);
    }
}

/* The last line. */
static void print_state(const struct train_options *o, const lk_job *job, uint64_t state)
{
    char hash[LK_HASH_TEXT];
    lk_short_string marks = lk_parallel_marks(&lk_job_experiment(job)->parallel);
    if (o->json) {
        putchar('{');
        print_json_state(job, state);
    } else {
        printf("state %s%s%s\n", lk_hash_text(state, hash), marks.s[0] ? " " : "", marks.s);
    }
    (void)report_flush();
}

/* What is said at the end, and the exit status. */
static int print_end(const struct train_options *o, const lk_job *job, const lk_run_result *end)
{
    bool leader = ranks_is_root();
    if (leader && end->early && !o->quiet)
        fprintf(term_messages(), "stopped early: nothing was better than epoch %lld\n",
                (long long)end->best_epoch);
    if (leader)
        print_state(o, job, end->state);
    if (!end->stopped)
        return LK_EXIT_DONE;
    if (leader)
        fprintf(term_messages(), "stopped on request after step %lld; %s\n",
                (long long)lk_trainer_position(lk_job_trainer(job)).step,
                end->saved ? "go on with --resume"
                : lk_job_experiment(job)->train.output
                    ? "its checkpoint was not saved"
                    : "nothing was saved: train.output=FOLDER keeps checkpoints");
    return end->saved ? LK_EXIT_REQUEUE : LK_EXIT_FAILED;
}

static int run_job(const struct train_options *o, lk_job *job)
{
    struct view view = {.options = o, .silent = !ranks_is_root()};
    lk_run_result end;
    if (!o->quiet && !view.silent)
        print_start(job);
    progress_begin(&view.bar);
    lk_status st = lk_job_run(job,
                              &(lk_run_callbacks){.arg = &view,
                                                  .step = show_step,
                                                  .epoch = show_epoch,
                                                  .stop = is_stopped,
                                                  .message = show_message},
                              &end);
    if (!view.silent)
        progress_clear(&view.bar);
    int status = end.done ? print_end(o, job, &end) : LK_EXIT_FAILED;
    return st == LK_OK ? status : experiment_failed(lk_job_experiment(job), st);
}

/* ---- the ranks ---- */

static int train_on_rank(void *arg)
{
    const job_call *call = arg;
    const struct train_options *o = call->options;
    lk_experiment *experiment = NULL;
    lk_job *job = NULL;
    lk_comm *comm = NULL;
    int status = ranks_open(&comm);
    if (ranks_launched())
        stop_listen(false);
    if (status == LK_EXIT_DONE)
        status = job_read(comm, call, &experiment);
    if (status == LK_EXIT_DONE) {
        experiment->train.resume = experiment->train.resume || o->resume;
        status = job_make(experiment, comm, &job);
    }
    if (status == LK_EXIT_DONE)
        status = run_job(o, job);
    lk_job_free(job);
    lk_experiment_free(experiment);
    ranks_close(comm);
    return status;
}

static int train_run(const void *given, int n, char **operand)
{
    job_call call = {.options = given, .n = n, .operand = operand};
    report_outlive();
    if (!ranks_are_threads()) /* else their process listens already */
        stop_listen(ranks_launched());
    return job_on_ranks(train_on_rank, &call);
}

const lk__verb lk__verb_train = {
    .name = "train",
    .summary = "train the model of an experiment file",
    .operands = "FILE.yaml [KEY=VALUE...]",
    .about =
        "Trains the model of an experiment and prints a row for each epoch: the mean loss of its "
        "steps, loss and metrics of the validation set (or of the test set, if there is none), and "
        "samples per second. Epochs count when they are complete; the part of one in which "
        "train.steps end has a row without evaluation. The last line is the hash of the run's "
        "state: two runs that print the same have the same parameters, bit for bit.\n"
        "KEY=VALUE sets an option of the experiment, such as optimizer.rate=0.1, train.epochs=5 or "
        "data.path=FOLDER. train.output=FOLDER keeps metrics, weights, a report and checkpoints.\n"
        "On many ranks (lockstep run -n 4 -- train FILE.yaml, mpirun, srun) it gives the same "
        "bits. They share the batch (parallel.data=4), each sample (parallel.spatial=2x2), wide "
        "layers (parallel.features=2) or the layers of the model (parallel.stages=2), in any "
        "product, which without a launcher are threads of one process; parallel.devices=[0, 1] "
        "lets several devices of a rank share its part of the batch. The product of these is how "
        "many ranks there are; \"lockstep plan\" says what each of them does and takes.\n"
        "INT, TERM, USR1, USR2 and a file STOP in the output folder stop it with a checkpoint and "
        "status 75; --resume goes on, on any number of ranks and any layout.\n"
        "JSON: for each epoch or evaluation phase (if there are phases), epoch, step, loss, "
        "metrics, "
        "rate, samples_per_s, seconds (since the run began or was resumed), state; then state.",
    .options = options,
    .options_size = sizeof(struct train_options),
    .min_operands = 1,
    .max_operands = 1000,
    .computes = true,
    .ranks = true,
    .run = train_run,
};
