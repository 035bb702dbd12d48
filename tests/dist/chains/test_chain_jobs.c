/* Jobs of chain lists: a run that stops and goes on, the files that it leaves, and who may go on with it. */
#include "chain_nets.h"
#include "rank_folders.h"

#include <stdlib.h>

static const struct chain_net net = {
    .front = {{"flatten"}, {"linear", "units=16"}, {"batch_norm"}, {"relu"}},
    .back = {{"linear", "units=16"}, {"relu"}, {"linear", "units=3"}},
    .options = ""};

static const char text[] = "seed: 5\n"
                           "data: {type: empty, samples: 50, batch: 16, shards: 4, shuffle: true}\n"
                           "model: chain\n"
                           "loss: softmax_cross_entropy\n"
                           "metrics: [accuracy]\n"
                           "optimizer: {type: adam, rate: 0.01}\n"
                           "train: {epochs: 3, checkpoint: {every: 1 epoch, keep: 5}}\n";

/* A job of this rank. */
struct job_side {
    struct chain_side s;
    lk_experiment *e;
    lk_dataset *set[LK_N_SPLITS];
    lk_job *job;
};

static lk_status side_open(lk_comm *comm, const char *const *settings, int n, struct job_side *j)
{
    *j = (struct job_side){.s = {.comm = comm, .set = net_set()}};
    struct chain_side *s = &j->s;
    s->front = component_new(net.front, net_in(), 11);
    s->back = component_new(net.back, lk_model_out(s->front), 12);
    s->chain = side_chain(s);
    for (int split = LK_TRAIN; split < LK_N_SPLITS; split++)
        if (split != LK_VALIDATION && side_is_first(s))
            j->set[split] = lk_dataset_retain(s->set);
        else if (split != LK_VALIDATION)
            ASSERT_OK(lk_dataset_new_empty_like(s->set, &j->set[split]));
    ASSERT_OK(lk_experiment_parse("chain.yaml", text, settings, n, &j->e));
    lk_job_spec spec = {.experiment = j->e, .chain = s->chain};
    memcpy(spec.set, j->set, sizeof spec.set);
    return lk_job_new_spec(&spec, &j->job);
}

static void side_close(struct job_side *j)
{
    lk_job_free(j->job);
    lk_experiment_free(j->e);
    for (int i = 0; i < LK_N_SPLITS; i++)
        lk_dataset_free(j->set[i]);
    side_end(&j->s);
}

/* Run with these settings; on the last rank a callback asks it to stop after `steps` steps. */
struct stopper {
    int left;
    bool mine;
};

static void count_step(void *arg, const lk_job *job, const lk_step_report *report)
{
    struct stopper *s = arg;
    (void)job, (void)report;
    s->left--;
}

static bool is_enough(void *arg)
{
    const struct stopper *s = arg;
    return s->mine && s->left <= 0;
}

static lk_run_result run(lk_comm *comm, const char *output, bool resume, int steps)
{
    struct job_side j;
    lk_run_result result;
    char setting[260];
    struct stopper stopper = {.left = steps, .mine = lk_comm_rank(comm) == lk_comm_size(comm) - 1};
    snprintf(setting, sizeof setting, "train.output=%s", output);
    const char *settings[] = {"train.resume=true", setting};
    ASSERT_OK(side_open(comm, resume ? settings : settings + 1, resume ? 2 : 1, &j));
    ASSERT_OK(lk_job_run(
        j.job, &(lk_run_callbacks){.arg = &stopper, .step = count_step, .stop = is_enough},
        &result));
    side_close(&j);
    return result;
}

static void path_in(const char *folder, const char *file, char *out, size_t size)
{
    snprintf(out, size, "%s/%s", folder, file);
}

/* Stopped in mid-epoch and gone on with: the state of a run that was never interrupted. */
RANKS_TEST(a_run_goes_on_where_it_stopped)
{
    char folder[200], a[220], b[220];
    folder_share(comm, folder, sizeof folder);
    path_in(folder, "whole", a, sizeof a);
    path_in(folder, "parts", b, sizeof b);
    lk_run_result whole = run(comm, a, false, 1000);
    ASSERT_TRUE(!whole.stopped && whole.steps == 12 && whole.last.evaluated && whole.saved);
    lk_run_result part = run(comm, b, false, 5);
    ASSERT_TRUE(part.stopped && part.saved && part.steps < 12);
    part = run(comm, b, true, 1000);
    ASSERT_TRUE(part.resumed > 0 && !part.stopped);
    ASSERT_TRUE(part.state == whole.state);
    ASSERT_SAME_BITS(&part.last.test.loss, &whole.last.test.loss, sizeof(double));
    ASSERT_SAME_BITS(&part.last.train.loss, &whole.last.train.loss, sizeof(double));
    ASSERT_SAME_BITS(&part.last.train.value[0], &whole.last.train.value[0], sizeof(double));
    folder_remove(comm, folder);
}

/* The slices of a rank's model, under their names in a file. */
static void expect_in_file(const lk_tensors *file, const lk_slab *slab, int rank, int component)
{
    for (int64_t i = 0; i < lk_slab_layout_slices(lk_slab_layout_of(slab)); i++) {
        char name[128];
        lk_slab_slice s;
        ASSERT_OK(lk_slab_layout_slice(lk_slab_layout_of(slab), i, &s));
        snprintf(name, sizeof name, "%d.%d.%s", rank, component, s.name);
        const lk_tensor *t = lk_tensors_find(file, name);
        ASSERT_TRUE(t && lk_shape_is_equal(lk_tensor_shape(t), s.shape));
        if (memcmp(lk_tensor_data(t), (char *)lk_slab_data(slab) + s.offset, (size_t)s.bytes) != 0)
            TEST_FAIL("%s in the file is another", name);
    }
}

/* A model of the same layers reads the weights of the first component. */
static void expect_loaded(const char *path, const lk_model *trained, bool here)
{
    lk_model *m = component_new(net.front, net_in(), 99);
    ASSERT_FAILS(lk_weights_load(m, path), LK_EINVAL, "has no tensor \"linear1.weight\"");
    ASSERT_FAILS(lk_weights_load_prefix(m, path, "99.0."), LK_EINVAL,
                 "has no tensor \"99.0.linear1");
    ASSERT_OK(lk_weights_load_prefix(m, path, "0.0."));
    if (here)
        ASSERT_SAME_BITS(lk_slab_data(lk_model_params(m)), lk_slab_data(lk_model_params(trained)),
                         lk_slab_layout_bytes(lk_slab_layout_of(lk_model_params(m))));
    lk_model_free(m);
}

/* The report shows the text of the experiment, not a file of its name. */
static void expect_report_has(const char *folder, const char *words)
{
    char path[260], line[4096];
    bool found = false;
    path_in(folder, "report.html", path, sizeof path);
    FILE *f = fopen(path, "r");
    ASSERT_TRUE(f);
    while (fgets(line, sizeof line, f))
        found = found || strstr(line, words);
    fclose(f);
    ASSERT_TRUE(found);
}

/* weights.safetensors and best.safetensors have the tensors of all ranks. */
RANKS_TEST(files_have_the_tensors_of_all_ranks)
{
    char folder[200], output[220], path[260], setting[260];
    static const char *const name[] = {"weights.safetensors", "best.safetensors", "report.html",
                                       "metrics.jsonl"};
    struct job_side j;
    int last = lk_comm_size(comm) - 1;
    folder_share(comm, folder, sizeof folder);
    path_in(folder, "run", output, sizeof output);
    snprintf(setting, sizeof setting, "train.output=%s", output);
    ASSERT_OK(side_open(comm, (const char *[]){setting}, 1, &j));
    ASSERT_OK(lk_job_run(j.job, NULL, NULL));
    for (int i = 0; i < 4; i++) {
        FILE *f;
        path_in(output, name[i], path, sizeof path);
        ASSERT_TRUE(f = fopen(path, "r"));
        fclose(f);
    }
    lk_tensors *file;
    path_in(output, "weights.safetensors", path, sizeof path);
    ASSERT_OK(lk_tensors_load(path, &file));
    if (side_is_first(&j.s)) {
        expect_in_file(file, lk_model_params(j.s.front), 0, 0);
        expect_in_file(file, lk_model_state(j.s.front), 0, 0);
    }
    if (side_is_last(&j.s))
        expect_in_file(file, lk_model_params(j.s.back), last, last == 0);
    lk_tensors_free(file);
    expect_loaded(path, j.s.front, side_is_first(&j.s));
    expect_report_has(output, "model: chain");
    side_close(&j);
    folder_remove(comm, folder);
}

/* A chain goes on with the ranks that it was saved with. */
RANKS_TEST(another_number_of_ranks_is_refused)
{
    char folder[200], output[220], setting[260];
    struct job_side j;
    lk_comm *fewer;
    int size = lk_comm_size(comm);
    if (size < 2)
        return;
    folder_share(comm, folder, sizeof folder);
    path_in(folder, "run", output, sizeof output);
    snprintf(setting, sizeof setting, "train.output=%s", output);
    (void)run(comm, output, false, 5);
    ASSERT_OK(lk_comm_split(comm, lk_comm_rank(comm) < size - 1 ? 0 : -1, 0, &fewer));
    if (fewer) {
        const char *settings[] = {setting, "train.resume=true"};
        ASSERT_OK(side_open(fewer, settings, 2, &j));
        ASSERT_FAILS(lk_job_run(j.job, NULL, NULL), LK_EIDENTITY,
                     "a chain list goes on with the components");
        side_close(&j);
    }
    lk_comm_close(fewer);
    folder_remove(comm, folder);
}

/* Running statistics of one rank overflow, which no loss shows: all ranks are told, with the tensor. */
RANKS_TEST(statistics_that_are_not_finite_end_the_run_of_all)
{
    struct job_side j;
    lk_tensor *weight;
    ASSERT_OK(side_open(comm, NULL, 0, &j));
    if (side_is_first(&j.s)) {
        ASSERT_OK(lk_slab_find(lk_model_params(j.s.front), "linear1.weight", &weight));
        ASSERT_OK(lk_tensor_fill_f64(weight, 1e22));
        *(float *)lk_slab_data(lk_model_params(j.s.front)) = 0;
        lk_tensor_free(weight);
    }
    ASSERT_FAILS(lk_job_run(j.job, NULL, NULL), LK_ENAN, "0.0.batch_norm1.variance");
    side_close(&j);
}

RANKS_TEST(a_chain_and_a_model_are_not_mixed_up)
{
    struct job_side j;
    lk_job *job = NULL;
    const char *setting = "model=[{type: linear, units: 3}]";
    ASSERT_EQ(side_open(comm, &setting, 1, &j), LK_EINVAL);
    ASSERT_TRUE(strstr(lk_error_message(), "write `model: chain`"));
    lk_error_clear();
    ASSERT_FAILS(
        lk_job_new_spec(
            &(lk_job_spec){.experiment = j.e, .comm = comm, .set = {[LK_TEST] = j.set[LK_TRAIN]}},
            &job),
        LK_EINVAL, "no training set");
    side_close(&j);
    lk_experiment *e = NULL;
    ASSERT_OK(lk_experiment_parse("chain.yaml", text, NULL, 0, &e));
    lk_dataset *set = net_set();
    ASSERT_FAILS(
        lk_job_new_spec(&(lk_job_spec){.experiment = e, .comm = comm, .set = {[LK_TRAIN] = set}},
                        &job),
        LK_EINVAL, "stands for a chain list that a program brings");
    lk_dataset_free(set);
    lk_experiment_free(e);
}

RANKS_TEST(an_experiment_may_be_a_text)
{
    lk_job *job = NULL;
    lk_dataset *set = net_set();
    const char *good = "data: {type: given, batch: 4, shards: 4}\n"
                       "model: [flatten, {type: linear, units: 3}]\n"
                       "loss: softmax_cross_entropy\noptimizer: sgd\ntrain: {steps: 1}\n";
    lk_job_spec spec = {.text = good, .comm = comm, .set = {[LK_TRAIN] = set}};
    if (lk_comm_size(comm) <= 4) {
        ASSERT_OK(lk_job_new_spec(&spec, &job));
        ASSERT_OK(lk_job_run(job, NULL, NULL));
        lk_job_free(job);
    }
    spec.text = "data: {type: given}\nmodle: []\n";
    ASSERT_FAILS(lk_job_new_spec(&spec, &job), LK_EINVAL, "text:2:1");
    spec.text = NULL;
    ASSERT_FAILS(lk_job_new_spec(&spec, &job), LK_EINVAL, "an experiment or its text");
    lk_dataset_free(set);
}
