/* Batch norm by the statistics of the whole batch, of which ranks have parts: the bits of one rank, and
 * a rank that cannot read its samples, whom all hear. */
#include "comm/comm.h"
#include "reuse_layer.h"
#include "trainers.h"

#include <lockstep/dist.h>
#include <lockstep/loss.h>
#include <lockstep/op.h>

#include <math.h>

/* 8 shards; an epoch is two whole batches and one of 13 samples, which have 4 pieces. */
static const char network[] =
    "data: {type: glyphs, count: 77, test_count: 40, shape: [12, 12, 1], batch: 32, shards: 8}\n"
    "model:\n"
    "  - {type: conv, filters: 4, kernel: 3, stride: 2}\n"
    "  - {type: batch_norm, statistics: batch}\n"
    "  - relu\n"
    "  - {type: residual, layers: [{type: conv, filters: 4, kernel: 3, padding: 1},\n"
    "                              {type: batch_norm, statistics: batch}, tanh]}\n"
    "  - {type: dropout, rate: 0.2}\n"
    "  - flatten\n"
    "  - {type: linear, units: 10}\n"
    "  - batch_norm\n"
    "loss: softmax_cross_entropy\n"
    "metrics: [accuracy]\n"
    "optimizer: {type: adam, rate: 0.01}\n"
    "train: {epochs: 3}\n";

static void expect_same(lk_comm *comm, const char *const *settings)
{
    outcome alone = train_steps(network, NULL, settings),
            together = train_steps(network, comm, settings);
    ASSERT_EQ(memcmp(&alone, &together, sizeof alone), 0);
}

RANKS_TEST(any_ranks_have_the_bits_of_one)
{
    expect_same(comm, (const char *[MAX_SETTINGS]){"parallel.update=each"});
    expect_same(comm, (const char *[MAX_SETTINGS]){"parallel.update=shared"});
    expect_same(comm, (const char *[MAX_SETTINGS]){"parallel.overlap=yes", "dtype=f64"});
}

/* 11 pieces of 3 samples, the last of 2; the tree over them is not even. */
RANKS_TEST(uneven_shards_have_the_same_bits)
{
    expect_same(comm, (const char *[MAX_SETTINGS]){"data.shards=11"});
    expect_same(comm, (const char *[MAX_SETTINGS]){"data.shards=32", "data.count=45"});
}

/* 7 samples, of batches that could have 32: two pieces. */
RANKS_TEST(ranks_without_samples_have_the_same_bits)
{
    expect_same(comm, (const char *[MAX_SETTINGS]){"data.count=7", "parallel.update=shared"});
    expect_same(comm, (const char *[MAX_SETTINGS]){"data.count=7", "parallel.update=each"});
}

/* They are what one rank has seen, not only equal. */
RANKS_TEST(statistics_are_those_of_the_batch)
{
    outcome batch = train_steps(network, comm, (const char *[MAX_SETTINGS]){NULL}),
            shard = train_steps(network, comm,
                                (const char *[MAX_SETTINGS]){"model.1.statistics=shard"}),
            one = train_steps(network, comm,
                              (const char *[MAX_SETTINGS]){"model.1.statistics=shard"});
    ASSERT_TRUE(shard.state == one.state);
    ASSERT_TRUE(batch.state != shard.state && batch.loss[0] != shard.loss[0]);
}

/* Ranks are then the shards, whose own statistics the last layer must not use. */
RANKS_TEST(fast_mode_agrees_but_for_rounding)
{
    static const char whole[] = "model.7={type: batch_norm, statistics: batch}";
    outcome exact = train_steps(network, comm, (const char *[MAX_SETTINGS]){whole}),
            fast = train_steps(network, comm,
                               (const char *[MAX_SETTINGS]){whole, "parallel.mode=fast"});
    uint64_t first = fast.state;
    ASSERT_OK(lk_bcast(comm, &first, 8, LK_U8, 0, "state"));
    ASSERT_TRUE(fast.state == first);
    ASSERT_TRUE(fabs(fast.loss[0] - exact.loss[0]) < 1e-4);
}

/* ---- failures ---- */

/* How many samples a table of classes has. */
static int64_t table_count(const char *json)
{
    int64_t n = 0;
    while (*json) {
        char *end;
        long at = strtol(json, &end, 10);
        n += end > json ? at : 0;
        json = end > json ? end : json + 1;
    }
    return n;
}

/* Sample 17 of 30 has a label that does not exist: the rank that has it takes part with zeros and says
 * so; all stop in that step, which can be tried again. */
RANKS_TEST(a_rank_that_cannot_read_stops_all_in_that_step)
{
    small_trainer s;
    int64_t first[9];
    int rank = lk_comm_rank(comm);
    lk_config table;
    lk_eval seen;
    small_begin(&s, comm);
    ASSERT_OK(lk_config_parse(&lk_registry_metric, "confusion", NULL, s.arena, &table));
    s.options.metrics = (lk_configs){.item = &table, .n = 1};
    s.y[17] = 5; /* behind the back of the set, which would refuse it */
    ASSERT_OK(lk_model_add(s.model, "linear", "units=3"));
    ASSERT_OK(lk_model_add(s.model, "batch_norm", "statistics=batch"));
    ASSERT_OK(lk_model_add(s.model, "linear", "units=2"));
    ASSERT_OK(lk_config_parse(&lk_registry_loss, "softmax_cross_entropy", NULL, s.arena,
                              &s.options.loss));
    small_build(&s);
    ASSERT_OK(lk_trainer_step(s.trainer, NULL));
    ASSERT_OK(lk_trainer_step(s.trainer, NULL));
    uint64_t before = state_of(s.trainer);
    lk_subtree_partition(8, lk_comm_size(comm), first);
    bool bad = first[rank] <= 1 && first[rank + 1] > 1;
    ASSERT_EQ(lk_trainer_step(s.trainer, NULL), LK_EIO);
    ASSERT_TRUE(strstr(lk_error_message(), "dataset t: sample 17 has the label 5"));
    ASSERT_TRUE(bad == (strncmp(lk_error_message(), "rank ", 5) != 0));
    ASSERT_TRUE(state_of(s.trainer) == before);
    s.y[17] = 1;
    ASSERT_OK(lk_trainer_step(s.trainer, NULL));
    ASSERT_TRUE(state_of(s.trainer) != before);
    ASSERT_OK(lk_trainer_train_metrics(s.trainer, &seen)); /* what failed is not counted twice */
    ASSERT_EQ(table_count(seen.json[0]), seen.samples);
    small_free(&s);
}

/* Two sums in forward and one in backward of each of the two layers; the votes and the gradients. */
RANKS_TEST(statistics_of_the_batch_cost_their_sums_only)
{
    lk_experiment *e = NULL;
    lk_job *job = NULL;
    if (lk_comm_size(comm) == 1)
        return;
    ASSERT_OK(
        job_of(network, comm, (const char *[MAX_SETTINGS]){"parallel.update=each"}, &e, &job));
    ASSERT_OK(lk_trainer_step(lk_job_trainer(job), NULL));
    lk_comm *own = lk_trainer_mesh(lk_job_trainer(job))->world;
    int64_t before = own->n_calls;
    ASSERT_OK(lk_trainer_step(lk_job_trainer(job), NULL));
    ASSERT_EQ(own->n_calls - before, 2 * (2 + 1) + 2);
    job_end(job, e);
}

/* One rank alone has a parameter that is not a number: the others hear of it where they meet. */
RANKS_TEST(what_is_not_finite_stops_all_ranks)
{
    expect_stop_at_nan(network, comm);
}

/* The gradients of gamma and beta of two channels, those of all ranks added, as an optimizer gets them.  The
 * first gamma's is below zero and too small for a number. */
static void joined_gradients(lk_comm *comm, float out[4])
{
    enum { SHARDS = 8, EACH = 2 };
    int64_t first[SHARDS + 2];
    int rank = lk_comm_rank(comm);
    lk_subtree_partition(SHARDS, lk_comm_size(comm), first);
    int64_t n = EACH * (first[rank + 1] - first[rank]);
    lk_dist_batch batch = {
        .comm = comm, .samples = EACH * SHARDS, .shards = SHARDS, .first = first};
    lk_tape *tape = NULL;
    lk_tensor *data = NULL, *weight = NULL, *one = NULL, *grad[2] = {NULL};
    lk_var x, w, gamma, beta, y[3], loss;
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_tape_set_shard_size(tape, EACH));
    ASSERT_OK(lk_tensor_zeros(LK_F32, LK_SHAPE(n, 2), &data));
    ASSERT_OK(lk_tensor_zeros(LK_F32, LK_SHAPE(n, 2), &weight));
    for (int64_t i = 0; i < n; i++)
        for (int c = 0; c < 2; c++) {
            int64_t sample = EACH * first[rank] + i;
            double size = sample < EACH * (SHARDS - 1) ? 1024 : 1, least = ldexp(1, -149);
            ASSERT_OK(lk_tensor_set_f64(data, LK_AT(i, c), sample % 2 ? -size : size));
            ASSERT_OK(lk_tensor_set_f64(weight, LK_AT(i, c),
                                        c == 1         ? 1
                                        : sample == 14 ? -least
                                                       : 0));
        }
    ASSERT_OK(lk_tensor_zeros(LK_F32, LK_SHAPE(2), &one));
    for (int c = 0; c < 2; c++) {
        ASSERT_OK(lk_tensor_set_f64(one, LK_AT(c), 1));
        ASSERT_OK(lk_tensor_zeros(LK_F32, LK_SHAPE(2), &grad[c]));
    }
    ASSERT_OK(lk_constant(tape, data, &x));
    ASSERT_OK(lk_constant(tape, weight, &w));
    ASSERT_OK(lk_leaf_overwrite(tape, one, grad[0], &gamma));
    ASSERT_OK(lk_leaf_overwrite(tape, one, grad[1], &beta));
    ASSERT_OK(lk_dist_batch_norm(&batch, x, gamma, beta, NULL, "t", y));
    ASSERT_OK(lk_mul(y[0], w, &loss));
    ASSERT_OK(lk_sum(loss, LK_AXES(0, 1), &loss));
    ASSERT_OK(lk_backward(tape, &(lk_seed){.of = loss}, 1, 0));
    for (int k = 0; k < 2; k++) {
        memcpy(out + 2 * k, lk_tensor_data(grad[k]), 2 * sizeof *out);
        lk_tensor_free(grad[k]);
    }
    ASSERT_OK(lk_allreduce(comm, NULL, out, 4, LK_F32, LK_REDUCE_SUM, "gradients"));
    lk_tape_free(tape);
    lk_tensor_free(data);
    lk_tensor_free(weight);
    lk_tensor_free(one);
}

/* Ranks that do not count them add +0, which would make another number of -0: sums begin with +0 on one rank,
 * too, so there is none. */
RANKS_TEST(gradients_that_vanish_have_the_bits_of_one_rank)
{
    lk_comm *alone = NULL;
    float want[4], got[4];
    ASSERT_OK(lk_comm_split(comm, lk_comm_rank(comm), 0, &alone));
    joined_gradients(alone, want);
    joined_gradients(comm, got);
    ASSERT_TRUE(want[0] == 0 && !signbit(want[0]) && want[2] < 0 && want[3] == 16);
    ASSERT_EQ(memcmp(want, got, sizeof want), 0);
    lk_comm_close(alone);
}

RANKS_TEST(recurrent_layers_have_the_bits_of_one_rank)
{
    expect_same(comm, (const char *[MAX_SETTINGS]){
                          "model=[{type: reshape, shape: [12, 12]}, {type: gru, units: 5},"
                          " {type: batch_norm, statistics: batch}, {type: linear, units: 10}]"});
}

/* There each shard is a pass of its own, before the next begins. */
RANKS_TEST(parameters_that_are_used_again_are_refused)
{
    small_trainer s = {0};
    small_begin(&s, comm);
    twice_add(s.model);
    ASSERT_OK(lk_model_add(s.model, "batch_norm", "statistics=batch"));
    ASSERT_OK(lk_model_add(s.model, "linear", "units=2"));
    ASSERT_OK(lk_config_parse(&lk_registry_loss, "softmax_cross_entropy", NULL, s.arena,
                              &s.options.loss));
    ASSERT_OK(lk_model_build(s.model, &(lk_model_spec){.in = {LK_F32, LK_SHAPE(SMALL_FEATURES)}}));
    ASSERT_OK(lk_model_hold(s.model, NULL));
    ASSERT_FAILS(lk_trainer_new_options(&s.spec, &s.options, &s.trainer), LK_ENOTSUP,
                 "because a layer uses its parameters more than once");
    small_free(&s);
}

/* A part of a batch that is not what the rank has of it. */
RANKS_TEST(misuse_is_refused)
{
    lk_tape *tape = NULL;
    lk_var x, g, out[3];
    int size = lk_comm_size(comm);
    int64_t first[9] = {0, 1, 4}; /* of 8 pieces, 1 to 3 are no node */
    for (int r = 2; r <= size; r++)
        first[r] = r < size ? 4 : 8;
    if (size == 1)
        first[1] = 8;
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_tape_set_shard_size(tape, 1));
    ASSERT_OK(lk_full(tape, LK_F32, LK_SHAPE(9, 2), 1, &x));
    ASSERT_OK(lk_full(tape, LK_F32, LK_SHAPE(2), 1, &g));
    lk_dist_batch batch = {.comm = comm, .samples = 8, .shards = 8, .first = first};
    lk_range mine = {first[lk_comm_rank(comm)],
                     first[lk_comm_rank(comm) + 1] - first[lk_comm_rank(comm)]};
    bool subtree = lk_range_subtrees(8, mine, NULL) <= 1;
    ASSERT_FAILS(lk_dist_batch_norm(&batch, x, g, g, NULL, "t", out),
                 subtree ? LK_ESHAPE : LK_EINVAL,
                 subtree ? "batch_norm of 9 samples, where this rank has" : "are not one subtree");
    batch.samples = 0;
    ASSERT_FAILS(lk_dist_batch_norm(&batch, x, g, g, NULL, "t", out), LK_EINVAL, "0 samples");
    ASSERT_FAILS(lk_dist_batch_norm(NULL, x, g, g, NULL, "t", out), LK_EINVAL, "batch or out");
    lk_tape_free(tape);
}
