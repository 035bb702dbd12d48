/* Training of filters whose rows have norm 1 behind each update, on ranks that share samples, space or a copy
 * of the parameters: the bits of one rank, with every rule.
 */
#include "trainers.h"

#include <math.h>

/* Filter, pool, normalise, and give back with the same filters. */
static const char stage[] =
    "data: {type: shapes, count: 21, test_count: 6, shape: [13, 11, 2], batch: 8, shards: 8}\n"
    "model:\n"
    "  - {type: local_conv, filters: 3, kernel: [4, 3], stride: [1, 2], name: code, unit_norm: "
    "true}\n"
    "  - {type: local_conv_transpose, filters: 2, kernel: [4, 3], stride: [1, 2], tie: "
    "code.weight}\n"
    "  - {type: local_conv, filters: 2, kernel: 3, unit_norm: true}\n"
    "  - {type: l2pool, size: 3, stride: 1}\n"
    "  - {type: lcn, size: 3}\n"
    "  - flatten\n"
    "  - {type: linear, units: 2}\n"
    "loss: softmax_cross_entropy\n"
    "metrics: [accuracy]\n"
    "optimizer: {type: adam, rate: 0.01}\n"
    "pieces: {tiles: 8x2, least_tile: 0}\n"
    "train: {epochs: 3}\n";

/* A grid of the ranks of a communicator; "": there is none. */
static const char *grid_setting(int ranks, char out[64])
{
    static const char *const grid[] = {"", "1x1", "2x1", "3x1", "2x2", "5x1", "3x2", "7x1", "4x2"};
    snprintf(out, 64, "parallel.spatial=%s", ranks < 9 ? grid[ranks] : "");
    return ranks < 9 ? out : "";
}

static void expect_same(lk_comm *comm, const char *first, const char *second)
{
    outcome alone = train_steps(stage, NULL, (const char *[MAX_SETTINGS]){first}),
            together = train_steps(stage, comm, (const char *[MAX_SETTINGS]){first, second});
    ASSERT_TRUE(isfinite(alone.loss[STEPS - 1]) && alone.loss[STEPS - 1] != alone.loss[0]);
    ASSERT_SAME_BITS(&alone, &together, sizeof alone);
}

RANKS_TEST(every_rule_has_the_bits_of_one_rank)
{
    const lk_descriptor *rule;
    char setting[64], grid[64];
    if (!grid_setting(lk_comm_size(comm), grid)[0])
        return;
    for (int i = 0; (rule = lk_registry_optimizer.at(i)); i++) {
        snprintf(setting, sizeof setting, "optimizer={type: %s, rate: 0.01}", rule->name);
        expect_same(comm, setting, grid);
    }
}

/* Ranges of a copy that ranks share would cut rows apart: each has its own then. */
RANKS_TEST(ranks_that_share_data_have_the_bits_of_one)
{
    if (lk_comm_size(comm) > 8)
        return;
    expect_same(comm, "parallel.update=shared", NULL);
    expect_same(comm, "parallel.overlap=yes", NULL);
}

/* How far norms of rows of code.weight, [10][5][24][3], are from 1 at most, of those that are held. */
static double rows_off(const lk_model *m)
{
    enum { ROW = 24, FILTERS = 3 };
    lk_slab_slice slice;
    int64_t at;
    double most = 0;
    lk_slab_layout *layout = lk_slab_layout_of(lk_model_params(m));
    ASSERT_OK(lk_slab_layout_find(layout, "code.weight", &at));
    ASSERT_OK(lk_slab_layout_slice(layout, at, &slice));
    const float *w = (const float *)lk_slab_data(lk_model_params(m)) + slice.offset / 4;
    for (int64_t r = 0; r < slice.count / ROW; r++) {
        const float *row = w + r / FILTERS * ROW * FILTERS + r % FILTERS;
        double sum = 0;
        for (int64_t j = 0; j < ROW; j++)
            sum += (double)row[j * FILTERS] * (double)row[j * FILTERS];
        most = fmax(most, fabs(sqrt(sum) - 1));
    }
    return most;
}

/* Behind a step, and not before the first. */
RANKS_TEST(rows_have_norm_one_behind_each_step)
{
    char grid[64];
    lk_experiment *e = NULL;
    lk_job *job = NULL;
    double begin, most[2] = {0};
    if (!grid_setting(lk_comm_size(comm), grid)[0])
        return;
    ASSERT_OK(job_of(stage, comm, (const char *[MAX_SETTINGS]){grid}, &e, &job));
    begin = rows_off(lk_trainer_model(lk_job_trainer(job)));
    for (int i = 0; i < 2; i++) {
        ASSERT_OK(lk_trainer_step(lk_job_trainer(job), NULL));
        most[i] = rows_off(lk_trainer_model(lk_job_trainer(job)));
    }
    ASSERT_OK(lk_allreduce(comm, NULL, &begin, 1, LK_F64, LK_REDUCE_MAX, "begin"));
    ASSERT_TRUE(begin > 0.1 && most[0] < 1e-6 && most[1] < 1e-6);
    job_end(job, e);
}
