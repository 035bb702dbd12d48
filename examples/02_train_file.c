/* Training from an experiment file, watched by the program that started it.
 *
 *     train_file [FILE.yaml [KEY=VALUE...]]
 *
 * `lockstep train FILE.yaml` does the same from the shell.  What is here besides: the program is told
 * of every step and epoch, and ends the run when it has learned enough.
 */
#include <lockstep/lockstep.h>

/* What the watcher keeps between its calls. */
struct watch {
    double wanted, reached; /* share of right answers */
    int64_t steps;
};

static void on_step(void *arg, const lk_job *job, const lk_step_report *did)
{
    struct watch *w = arg;
    (void)job;
    (void)did;
    w->steps++;
}

static void on_epoch(void *arg, const lk_job *job, const lk_epoch_report *r)
{
    struct watch *w = arg;
    const char *set;
    if (!r->complete || !r->evaluated || !lk_job_evaluation(job, &set))
        return;
    w->reached = r->test.value[0];
    printf("epoch %lld: loss %.4f, %s loss %.4f, %.1f %% right\n", (long long)r->epoch,
           r->train.loss, set, r->test.loss, 100 * w->reached);
}

/* Asked after each step. */
static bool is_enough(void *arg)
{
    const struct watch *w = arg;
    return w->reached >= w->wanted;
}

static lk_status train(const char *path, const char *const *assignment, int n)
{
    lk_status st = LK_OK;
    lk_experiment *experiment = NULL;
    lk_job *job = NULL;
    struct watch watch = {.wanted = 0.8};
    lk_run_result end;
    char hash[LK_HASH_TEXT];
    LK_TRY_TO(done, lk_experiment_read(path, assignment, n, &experiment));
    LK_TRY_TO(done, lk_job_new(experiment, NULL, &job));
    LK_TRY_TO(done,
              lk_job_run(job,
                         &(lk_run_callbacks){
                             .arg = &watch, .step = on_step, .epoch = on_epoch, .stop = is_enough},
                         &end));
    printf("%s after %lld steps, state %s\n", end.stopped ? "enough" : "done",
           (long long)watch.steps, lk_hash_text(end.state, hash));
done:
    lk_job_free(job);
    lk_experiment_free(experiment);
    return st;
}

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : "examples/02_train_file.yaml";
    const char *const *assignment = (const char *const *)argv + 2;
    if (train(path, assignment, argc > 2 ? argc - 2 : 0) == LK_OK)
        return 0;
    lk_error_print(stderr);
    return 1;
}
