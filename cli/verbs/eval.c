/* lockstep eval: loss and metrics of weights on the sets of an experiment. */
#include "ckpt/tensors.h"
#include "job.h"
#include "ranks.h"
#include "score.h"
#include "verb.h"

#include <lockstep/io.h>
#include <lockstep/train.h>

#include <string.h>

struct eval_options {
    bool json;
    const char *weights, *set;
};

#define FIELD(name) offsetof(struct eval_options, name)

static const lk_option options[] = {
    {"weights", LK_OPTION_TEXT, FIELD(weights), .value = "PATH",
     .help = "a .safetensors or .npz file, or a checkpoint (or a folder of them: the newest that "
             "verifies); by default weights.safetensors in the experiment's output folder"},
    {"set", LK_OPTION_TEXT, FIELD(set), .value = "NAME", .def = "test",
     .help = "train, validation or test"},
    {"json", LK_OPTION_FLAG, FIELD(json), .help = "print one JSON object"},
    {.name = NULL},
};

static int usage(const char *what)
{
    return verb_refuse("lockstep eval: %s", what);
}

static void print_score(const struct eval_options *o, const lk_job *job, const lk_eval *score)
{
    if (!o->json) {
        score_print(lk_job_trainer(job), score);
        return;
    }
    putchar('{');
    score_json(lk_job_trainer(job), o->set, score, false);
    printf(",\"samples\":%lld}\n", (long long)score->samples);
}

/* Load them into the model; rank 0 names newer checkpoints of a folder that do not verify. */
static lk_status weights_load(lk_model *model, const char *path)
{
    lk_checkpoint *checkpoint;
    if (!ranks_is_root() || !lk_checkpoint_exists(path))
        return LK_TRACE(lk_weights_load(model, path));
    LK_TRY(checkpoint_open(path, &checkpoint));
    if (*checkpoint->messages)
        fprintf(stderr, "weights of %s\n", checkpoint->path);
    lk_status st = lk_weights_load(model, checkpoint->path);
    lk_checkpoint_free(checkpoint);
    return LK_TRACE(st);
}

/* Read the weights; a model that has none needs no file. */
static int load(const struct eval_options *o, const lk_job *job)
{
    char path[4096];
    lk_model *model = lk_trainer_model(lk_job_trainer(job));
    const char *folder = lk_job_experiment(job)->train.output;
    int64_t tensors = lk_slab_layout_slices(lk_slab_layout_of(lk_model_params(model))) +
                      lk_slab_layout_slices(lk_slab_layout_of(lk_model_state(model)));
    if (tensors == 0 && !o->weights)
        return LK_EXIT_DONE;
    if (!o->weights && !folder)
        return usage("whose weights? give --weights PATH, or train.output=FOLDER");
    int n = snprintf(path, sizeof path, "%s%s", o->weights ? o->weights : folder,
                     o->weights ? "" : "/weights.safetensors");
    if (n >= (int)sizeof path)
        return usage("the path of the weights is too long");
    lk_comm *comm = lk_trainer_mesh(lk_job_trainer(job))->world;
    lk_status st = lk_agree(comm, weights_load(model, path));
    return st == LK_OK ? LK_EXIT_DONE : verb_failed_with(st, NULL);
}

static int evaluate(const struct eval_options *o, lk_job *job)
{
    lk_eval score;
    lk_loader *loader = NULL;
    for (int split = 0; split < LK_N_SPLITS; split++)
        if (strcmp(lk_split_name((lk_split)split), o->set) == 0)
            loader = lk_job_loader(job, (lk_split)split);
    if (!loader)
        return verb_refuse(
            "lockstep eval: there is no %s set; --set takes train, validation or test, of "
            "those that the data have (data.validation=0.1 makes one)",
            o->set);
    const lk_experiment *e = lk_job_experiment(job);
    if (e->n_phases > 1) { /* what was trained is judged by the last */
        lk_status st = lk_job_set_phase(job, e->n_phases - 1);
        if (st != LK_OK)
            return verb_failed_with(st, NULL);
    }
    int status = load(o, job);
    if (status != LK_EXIT_DONE)
        return status;
    lk_status st = lk_trainer_evaluate(lk_job_trainer(job), loader, &score);
    if (st != LK_OK)
        return verb_failed_with(st, NULL);
    if (ranks_is_root())
        print_score(o, job, &score);
    return LK_EXIT_DONE;
}

/* ---- the ranks ---- */

static int eval_on_rank(void *arg)
{
    const job_call *call = arg;
    lk_experiment *experiment = NULL;
    lk_job *job = NULL;
    lk_comm *comm = NULL;
    int status = ranks_open(&comm);
    if (status == LK_EXIT_DONE)
        status = job_read(comm, call, &experiment);
    if (status == LK_EXIT_DONE) {
        experiment->parallel.update = LK_UPDATE_EACH; /* each rank reads the weights for itself */
        status = job_make(experiment, comm, &job);
    }
    if (status == LK_EXIT_DONE)
        status = evaluate(call->options, job);
    lk_job_free(job);
    lk_experiment_free(experiment);
    ranks_close(comm);
    return status;
}

static int eval_run(const void *given, int n, char **operand)
{
    job_call call = {.options = given, .n = n, .operand = operand};
    return job_on_ranks(eval_on_rank, &call);
}

const lk__verb lk__verb_eval = {
    .name = "eval",
    .summary = "loss and metrics of weights on a set of an experiment",
    .operands = "FILE.yaml [KEY=VALUE...]",
    .about =
        "Loads weights into the model of an experiment and prints loss and metrics of its test "
        "set, or of another one; on as many ranks as parallel says (data, spatial, features, "
        "stages "
        "and their products), or a launcher starts, with the same numbers.\nJSON: an object with "
        "the set's loss and metrics, and samples.",
    .options = options,
    .options_size = sizeof(struct eval_options),
    .min_operands = 1,
    .max_operands = 1000,
    .computes = true,
    .ranks = true,
    .run = eval_run,
};
