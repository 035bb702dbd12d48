/* lockstep train: an experiment from its file to the hash of its state. */
#include "job.h"
#include "report.h"
#include "score.h"
#include "term.h"
#include "verb.h"

#include <lockstep/train.h>

#include <signal.h>
#include <string.h>

struct train_options {
    bool json, quiet;
};

#define FIELD(name) offsetof(struct train_options, name)

static const lk_option options[] = {
    {.name = "json",
     .type = LK_OPTION_FLAG,
     .offset = FIELD(json),
     .help = "print one JSON object for each epoch and evaluation"},
    {.name = "quiet",
     .type = LK_OPTION_FLAG,
     .offset = FIELD(quiet),
     .help = "print nothing but the last line"},
    {.name = NULL},
};

/* What is shown while training goes on. */
struct view {
    const struct train_options *options;
    progress bar;
    bool titled;
    double samples, seconds; /* of the steps since the last row, for the rate */
};

static volatile sig_atomic_t asked_to_stop;

static void on_signal(int sig)
{
    (void)sig;
    asked_to_stop = 1;
}

static bool is_stopped(void *arg)
{
    (void)arg;
    return asked_to_stop != 0;
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
    v->seconds += did->time.data + did->time.forward + did->time.backward + did->time.update;
    if (!v->options->quiet)
        progress_show(&v->bar, (double)at.step / all, "epoch %lld, loss %.4f, %.0f samples/s",
                      (long long)(did->step / at.batches + 1), did->loss,
                      v->seconds > 0 ? v->samples / v->seconds : 0);
}

static void print_json(const lk_job *job, const lk_epoch_report *r)
{
    char hash[LK_HASH_TEXT];
    printf("{\"epoch\":%lld,\"step\":%lld,\"loss\":", (long long)r->epoch, (long long)r->step);
    report_json_real(r->complete ? r->train.loss : r->test.loss);
    printf(",\"metrics\":{");
    if (r->complete)
        score_json(lk_job_trainer(job), "train", &r->train, false);
    if (r->evaluated) {
        const char *name;
        (void)lk_job_evaluation(job, &name);
        score_json(lk_job_trainer(job), name, &r->test, r->complete);
    }
    printf("},\"rate\":");
    report_json_real(r->rate);
    printf(",\"samples_per_s\":");
    report_json_real(r->samples_per_s);
    printf(",\"seconds\":");
    report_json_real(r->seconds);
    printf(",\"state\":\"%s\"}\n", lk_hash_text(r->state, hash));
    fflush(stdout);
}

static void print_titles(const lk_job *job)
{
    const char *name, *metric;
    bool lower;
    printf("%5s %8s %10s", "epoch", "step", "loss");
    if (lk_job_evaluation(job, &name)) {
        char title[32];
        snprintf(title, sizeof title, "%s loss", name);
        printf(" %15s", title);
    }
    for (int i = 0; (metric = lk_trainer_metric(lk_job_trainer(job), i, &lower)); i++)
        printf(" %12s", metric);
    printf(" %12s\n", "samples/s");
}

static void print_row(const lk_job *job, const lk_epoch_report *r)
{
    const char *name;
    bool lower;
    bool evaluation = lk_job_evaluation(job, &name) != NULL;
    const lk_score *score = evaluation ? &r->test : &r->train;
    printf("%5lld %8lld", (long long)r->epoch, (long long)r->step);
    if (r->complete)
        printf(" %10.4f", r->train.loss);
    else
        printf(" %10s", "-");
    if (evaluation && r->evaluated)
        printf(" %15.4f", r->test.loss);
    else if (evaluation)
        printf(" %15s", "-");
    for (int i = 0; lk_trainer_metric(lk_job_trainer(job), i, &lower); i++) {
        if (score->samples > 0)
            printf(" %12.4f", score->value[i]);
        else
            printf(" %12s", "-");
    }
    if (r->complete)
        printf(" %12.0f\n", r->samples_per_s);
    else
        printf(" %12s\n", "-");
    fflush(stdout);
}

static void show_epoch(void *arg, const lk_job *job, const lk_epoch_report *r)
{
    struct view *v = arg;
    if (v->options->quiet)
        return;
    progress_clear(&v->bar);
    if (v->options->json) {
        print_json(job, r);
        return;
    }
    if (!v->titled)
        print_titles(job);
    v->titled = true;
    print_row(job, r);
}

/* One line about what is trained on what. */
static void print_start(const lk_job *job)
{
    const lk_dataset_info *set = lk_dataset_get_info(lk_loader_dataset(lk_job_set(job, LK_TRAIN)));
    lk_layout *layout = lk_slab_layout(lk_model_params(lk_trainer_model(lk_job_trainer(job))));
    int64_t params = 0;
    for (int64_t i = 0; i < lk_layout_slices(layout); i++) {
        lk_slab_slice slice;
        if (lk_layout_get(layout, i, &slice) == LK_OK)
            params += slice.count;
    }
    fprintf(stderr, "%s: %lld parameters, %lld samples of %s\n", lk_job_experiment(job)->path,
            (long long)params, (long long)set->count, set->name);
}

static int run_job(const struct train_options *o, lk_job *job)
{
    struct view view = {.options = o};
    char hash[LK_HASH_TEXT];
    lk_run_end end;
    struct sigaction action = {.sa_handler = on_signal}, before[2];
    sigaction(SIGINT, &action, &before[0]);
    sigaction(SIGTERM, &action, &before[1]);
    if (!o->quiet)
        print_start(job);
    progress_begin(&view.bar);
    lk_status st = lk_job_run(
        job,
        &(lk_watcher){.arg = &view, .step = show_step, .epoch = show_epoch, .stop = is_stopped},
        &end);
    progress_clear(&view.bar);
    sigaction(SIGINT, &before[0], NULL);
    sigaction(SIGTERM, &before[1], NULL);
    if (st != LK_OK)
        return verb_failed();
    if (end.early && !o->quiet)
        fprintf(stderr, "stopped early: nothing was better than epoch %lld\n",
                (long long)end.best_epoch);
    printf(o->json ? "{\"state\":\"%s\"}\n" : "state %s\n", lk_hash_text(end.state, hash));
    if (!end.stopped)
        return LK_EXIT_DONE;
    fprintf(stderr, "stopped by a signal after step %lld\n",
            (long long)lk_trainer_position(lk_job_trainer(job)).step);
    return LK_EXIT_FAILED;
}

static int train_run(const void *given, int n, char **operand)
{
    lk_experiment *experiment = NULL;
    lk_job *job = NULL;
    int status = job_open(n, operand, &experiment, &job);
    if (status == LK_EXIT_DONE)
        status = run_job(given, job);
    lk_job_free(job);
    lk_experiment_free(experiment);
    return status;
}

const lk_verb lk_verb_train = {
    .name = "train",
    .summary = "train the model of an experiment file",
    .operands = "FILE.yaml [KEY=VALUE...]",
    .about =
        "Trains the model of an experiment and prints a row for each epoch: the mean loss of its "
        "steps, loss and metrics of the validation set (or of the test set, if there is none), and "
        "samples per second. The last line is the hash of the run's state: two runs that print the "
        "same have the same parameters, bit for bit.\n"
        "KEY=VALUE sets an option of the experiment, such as optimizer.rate=0.1, train.epochs=5 or "
        "data.path=FOLDER. train.output=FOLDER keeps metrics, weights and a report.\n"
        "JSON: for each epoch or evaluation epoch, step, loss, metrics, rate, samples_per_s, "
        "seconds, state; then state.",
    .options = options,
    .options_size = sizeof(struct train_options),
    .min_operands = 1,
    .max_operands = 1000,
    .computes = true,
    .run = train_run,
};
