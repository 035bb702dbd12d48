/* A whole run, and a power cut at any point of it. */
#ifndef LK_TEST_TRAIN_CRASH_H
#define LK_TEST_TRAIN_CRASH_H

#include "crash.h"
#include "data_files.h"
#include "io/checkpoint/checkpoint.h"

#include <lockstep/thread.h>
#include <lockstep/train.h>

static const char crash_network[] =
    "data: {type: glyphs, count: 24, test_count: 8, batch: 8, shards: 4}\n"
    "model: [flatten, {type: linear, units: 4}, batch_norm, relu, {type: linear, units: 10}]\n"
    "loss: softmax_cross_entropy\n"
    "metrics: [accuracy]\n"
    "optimizer: {type: sgd, rate: 0.05, momentum: 0.9}\n"
    "train: {epochs: 3, log: 2 steps, checkpoint: {every: 2 steps, keep: 2}}\n";

/* The files that a status acknowledges. */
static const char *const crash_files[] = {"weights.safetensors", "best.safetensors", "report.html",
                                          "metrics.jsonl", "events.out.tfevents.lockstep"};

enum { CRASH_FILES = 5, CRASH_DONE = 1 };

typedef struct crash_run {
    char real[200]; /* the folder of the run that nothing happened to */
    uint64_t state;
    bool resume; /* whether each state is gone on from */
} crash_run;

static inline lk_status crash_train(const char *root, bool resume, lk_run_result *end)
{
    char output[300];
    const char *settings[] = {output, "train.resume=true"};
    lk_experiment *e = NULL;
    lk_job *job = NULL;
    snprintf(output, sizeof output, "train.output=%s/out", root);
    lk_status st = lk_experiment_parse("test", crash_network, settings, resume ? 2 : 1, &e);
    if (st == LK_ENOTSUP) {
        printf("SKIPPED: %s\n", lk_error_message());
        exit(77);
    }
    ASSERT_OK(st);
    ASSERT_OK(lk_job_new(e, NULL, &job));
    st = lk_job_run(job, NULL, end);
    lk_job_free(job);
    lk_experiment_free(e);
    return st;
}

static inline void crash_same(const char *a, const char *b, const char *file)
{
    char path[2][512];
    size_t n[2];
    snprintf(path[0], sizeof path[0], "%s/out/%s", a, file);
    snprintf(path[1], sizeof path[1], "%s/out/%s", b, file);
    unsigned char *x = test_read(path[0], &n[0]), *y = test_read(path[1], &n[1]);
    if (n[0] != n[1] || memcmp(x, y, n[0]) != 0)
        TEST_FAIL("%s: is not what was acknowledged", path[0]);
    free(x);
    free(y);
}

/* The rows of metrics, by what does not depend on the clock: steps and states. */
static inline void crash_same_rows(const char *a, const char *b)
{
    char path[2][512], *at[2];
    unsigned char *text[2];
    size_t n[2];
    const char *root[2] = {a, b};
    for (int i = 0; i < 2; i++) {
        snprintf(path[i], sizeof path[i], "%s/out/metrics.jsonl", root[i]);
        text[i] = test_read(path[i], &n[i]);
        text[i] = realloc(text[i], n[i] + 1);
        text[i][n[i]] = '\0';
        at[i] = (char *)text[i];
    }
    for (;;) {
        for (int i = 0; i < 2; i++)
            at[i] = strstr(at[i], "\"step\": ");
        if (!at[0] || !at[1])
            break;
        for (int i = 0; i < 2; i++)
            at[i] += strlen("\"step\": ");
        ASSERT_EQ(strtoll(at[0], NULL, 10), strtoll(at[1], NULL, 10));
    }
    if (at[0] || at[1])
        TEST_FAIL("%s: not the rows of an undisturbed run", path[0]);
    free(text[0]);
    free(text[1]);
}

/* What has the name of a checkpoint is one, and LATEST names one. */
static inline void crash_checkpoints(const char *root)
{
    char folder[300], path[400];
    lk_arena *arena;
    int64_t *step, n;
    snprintf(folder, sizeof folder, "%s/out/checkpoints", root);
    if (access(folder, F_OK) != 0)
        return;
    ASSERT_OK(lk_arena_new(&arena));
    ASSERT_OK(lk__steps_list(folder, arena, &step, &n));
    for (int64_t i = 0; i < n; i++) {
        lk_checkpoint *c;
        snprintf(path, sizeof path, "%s/step-%012lld", folder, (long long)step[i]);
        ASSERT_OK(lk_checkpoint_read(path, &c));
        ASSERT_OK(lk__checkpoint_verify_all(c));
        lk_checkpoint_free(c);
    }
    lk_arena_free(arena);
    snprintf(path, sizeof path, "%s/LATEST", folder);
    if (access(path, F_OK) == 0) {
        size_t bytes;
        unsigned char *text = test_read(path, &bytes);
        snprintf(path, sizeof path, "%s/%.*s", folder, (int)bytes - 1, (char *)text);
        ASSERT_TRUE(access(path, F_OK) == 0);
        free(text);
    }
}

static inline void crash_survived(void *arg, const char *root, int64_t acknowledged)
{
    const crash_run *r = arg;
    lk_run_result end;
    crash_checkpoints(root);
    for (int i = 0; acknowledged == CRASH_DONE && i < CRASH_FILES; i++)
        crash_same(root, r->real, crash_files[i]);
    if (!r->resume)
        return;
    ASSERT_OK(crash_train(root, true, &end));
    ASSERT_TRUE(end.state == r->state && end.missing == 0 && end.done);
    crash_same(root, r->real, "weights.safetensors");
    crash_same(root, r->real, "best.safetensors");
    crash_same_rows(root, r->real);
}

/* Train once, then let the power fail at any point, with so many states of a point; go on from each
 * `resumed`-th state. */
static inline void crash_a_run(int64_t most, int64_t resumed)
{
    crash_trace t;
    crash_run r = {.resume = false};
    lk_run_result end;
    ASSERT_OK(lk_threads_set(1));
    snprintf(r.real, sizeof r.real, "%s", test_path("real"));
    ASSERT_EQ(mkdir(r.real, 0700), 0);
    crash_record(&t, r.real);
    ASSERT_OK(crash_train(r.real, false, &end));
    crash_mark(&t, CRASH_DONE);
    crash_stop();
    r.state = end.state;
    crash_check check = {.fn = crash_survived, .arg = &r, .most = most};
    ASSERT_TRUE(crash_replay(&t, &check) > 200);
    r.resume = true;
    check.every = resumed;
    (void)crash_replay(&t, &check);
    crash_free(&t);
}

#endif /* LK_TEST_TRAIN_CRASH_H */
