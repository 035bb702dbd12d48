/* A model whose batch norm was made one over all ranks (create_mnbn_model), in a trainer and in a loop of the
 * program's own: the bits of a model that had it from the start, on any ranks. */
#include "trainers.h"

#include <lockstep/lockstep.h>

enum { TRAINER_STEPS = 4 };

typedef enum kind { SHARD, BATCH, CONVERTED } kind;

static void layers_add(lk_model *m, kind k)
{
    bool batch = k == BATCH;
    ASSERT_OK(lk_model_add(m, "linear", "units=5"));
    ASSERT_OK(lk_model_add(m, "batch_norm", batch ? "statistics=batch" : NULL));
    ASSERT_OK(lk_model_add(m, "residual",
                           batch ? "layers=linear(units=5),batch_norm(statistics=batch),tanh"
                                 : "layers=linear(units=5),batch_norm,tanh"));
    ASSERT_OK(lk_model_add(m, "linear", "units=2"));
}

/* Replace a model that holds its parameters. */
static void model_convert(lk_model **m)
{
    lk_model *copy;
    ASSERT_OK(lk_model_new_multi_node_batch_norm(*m, &copy));
    lk_model_free(*m);
    *m = copy;
}

static uint64_t trained(lk_comm *comm, kind k)
{
    small_trainer s;
    lk_model_spec spec = {.in = {LK_F32, LK_SHAPE(SMALL_FEATURES)}};
    small_begin(&s, comm);
    layers_add(s.model, k);
    ASSERT_OK(lk_config_parse(&lk_registry_loss, "softmax_cross_entropy", NULL, s.arena,
                              &s.options.loss));
    ASSERT_OK(lk_model_build(s.model, &spec));
    ASSERT_OK(lk_model_hold(s.model, NULL));
    if (k == CONVERTED)
        model_convert(&s.model);
    s.spec.model = s.model;
    ASSERT_OK(lk_trainer_new_options(&s.spec, &s.options, &s.trainer));
    for (int i = 0; i < TRAINER_STEPS; i++)
        ASSERT_OK(lk_trainer_step(s.trainer, NULL));
    uint64_t state = state_of(s.trainer);
    small_free(&s);
    return state;
}

RANKS_TEST(a_trainer_takes_it)
{
    uint64_t batch = trained(comm, BATCH), converted = trained(comm, CONVERTED);
    lk_comm *alone;
    ASSERT_OK(lk_comm_split(comm, lk_comm_rank(comm), 0, &alone));
    uint64_t one = trained(alone, CONVERTED), shard = trained(alone, SHARD);
    ASSERT_TRUE(converted == batch && converted == one);
    ASSERT_TRUE(converted != shard);
    lk_comm_close(alone);
}

/* ---- a loop of the program's own ---- */

enum { LOOP_STEPS = 3, SHARDS = 8, EACH = 2, BATCH_SAMPLES = SHARDS * EACH };

/* The samples of this rank, of a batch that differs from step to step. */
static lk_tensor *samples_new(int64_t step, int64_t first, int64_t n)
{
    lk_tensor *x;
    ASSERT_OK(lk_tensor_new(LK_F32, LK_SHAPE(n, SMALL_FEATURES), &x));
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < SMALL_FEATURES; k++)
            ASSERT_OK(
                lk_tensor_set_f64(x, LK_AT(i, k), (double)((first + i + 3 * step) * (k + 2) % 13)));
    return x;
}

/* The hash of parameters and running statistics after some steps of the loop. */
static uint64_t looped(lk_comm *comm, kind k)
{
    int64_t first[SHARDS + 2];
    int rank = lk_comm_rank(comm);
    lk_subtree_partition(SHARDS, lk_comm_size(comm), first);
    int64_t from = EACH * first[rank], n = EACH * (first[rank + 1] - first[rank]);
    lk_dist_batch batch = {
        .comm = comm, .samples = BATCH_SAMPLES, .shards = SHARDS, .first = first};
    lk_model *m;
    lk_accumulator *sums;
    lk_optimizer *sgd;
    lk_tape *tape;
    lk_model_spec spec = {.in = {LK_F32, LK_SHAPE(SMALL_FEATURES)}, .seed = 3};
    ASSERT_OK(lk_model_new(&m));
    layers_add(m, k);
    ASSERT_OK(lk_model_build(m, &spec));
    ASSERT_OK(lk_model_hold(m, NULL));
    if (k == CONVERTED)
        model_convert(&m);
    ASSERT_OK(lk_accumulator_new(m, &sums));
    ASSERT_OK(lk_optimizer_new(lk_model_params(m), "sgd", "rate=0.05", &sgd));
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_tape_set_shard_size(tape, EACH));
    lk_slab *slab = lk_accumulator_slab(sums);
    for (int64_t step = 0; step < LOOP_STEPS; step++) {
        lk_pass pass = {.tape = tape, .accumulator = sums, .training = true, .step = step};
        lk_tensor *data = samples_new(step, from, n);
        lk_var x, y;
        pass.first = from;
        pass.part = n < BATCH_SAMPLES;
        pass.batch = &batch;
        lk_accumulator_clear(sums);
        ASSERT_OK(lk_constant(tape, data, &x));
        ASSERT_OK(lk_model_forward(m, &pass, x, &y));
        ASSERT_OK(lk_square(y, &y));
        ASSERT_OK(lk_sum(y, LK_AXES(0, 1), &y));
        ASSERT_OK(lk_affine(y, 1.0 / BATCH_SAMPLES, 0, &y));
        ASSERT_OK(lk_backward(tape, &(lk_seed){.of = y}, 1, 0));
        ASSERT_OK(lk_coll_run(
            comm, &(lk_collective){.call = LK_CALL_ALLREDUCE,
                                   .name = "sums",
                                   .out = lk_slab_data(slab),
                                   .count = lk_slab_layout_bytes(lk_slab_layout_of(slab)) / 4,
                                   .dtype = LK_F32,
                                   .op = LK_REDUCE_SUM,
                                   .pieces = SHARDS,
                                   .first = first}));
        ASSERT_OK(lk_optimizer_step(sgd, &(lk_optimizer_input){.grads = slab, .at = {.step = step}},
                                    NULL));
        ASSERT_OK(lk_model_update_running_stats(m, sums, SHARDS));
        lk_tape_reset(tape);
        lk_tensor_free(data);
    }
    lk_hash h = lk_hash_start();
    lk_slab_hash(lk_model_params(m), &h);
    lk_slab_hash(lk_model_state(m), &h);
    lk_tape_free(tape);
    lk_optimizer_free(sgd);
    lk_accumulator_free(sums);
    lk_model_free(m);
    return lk_hash_value(&h);
}

RANKS_TEST(a_loop_of_its_own_takes_it)
{
    lk_comm *alone;
    ASSERT_OK(lk_comm_split(comm, lk_comm_rank(comm), 0, &alone));
    uint64_t converted = looped(comm, CONVERTED);
    ASSERT_TRUE(converted == looped(comm, BATCH) && converted == looped(alone, CONVERTED));
    ASSERT_TRUE(converted != looped(alone, SHARD));
    lk_comm_close(alone);
}
