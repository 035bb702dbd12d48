/* The hash of a run's state on ranks: one number wherever copies lie, and a copy that differs is named.
 * Also started with LK_LOCAL_NODES, so that ranks share some copies and have others apart. */
#include "train/trainer.h"
#include "trainers.h"

static const char network[] =
    "data: {type: glyphs, count: 64, test_count: 8, shape: [8, 8, 1], batch: 32, shards: 8}\n"
    "model: [{type: conv, filters: 3, kernel: 3}, batch_norm, relu, flatten, {type: linear, units: "
    "10}]\n"
    "loss: softmax_cross_entropy\n"
    "optimizer: {type: adam, rate: 0.01}\n";

static const char *const updates[] = {"parallel.update=each", "parallel.update=shared"};

/* A job after two steps. */
static lk_job *job_begin(lk_comm *comm, const char *update, lk_experiment **e)
{
    lk_job *job = NULL;
    ASSERT_OK(job_of(network, comm, (const char *[MAX_SETTINGS]){update}, e, &job));
    ASSERT_OK(lk_trainer_step(lk_job_trainer(job), NULL));
    ASSERT_OK(lk_trainer_step(lk_job_trainer(job), NULL));
    return job;
}

/* The hash by its definition, of this rank's copies alone. */
static uint64_t hash_alone(lk_trainer *t)
{
    lk_hash h = lk_hash_start();
    const char *name;
    lk_slab *slab;
    double *number;
    lk_hash_add_i64(&h, lk_trainer_position(t).step);
    lk_slab_hash(lk_model_params(lk_trainer_model(t)), &h);
    lk_slab_hash(lk_model_state(lk_trainer_model(t)), &h);
    for (int i = 0; (slab = lk_optimizer_slab(lk_trainer_optimizer(t), i, &name)); i++) {
        lk_hash_add_text(&h, name);
        lk_slab_hash(slab, &h);
    }
    for (int i = 0; (number = lk_optimizer_number(lk_trainer_optimizer(t), i, &name)); i++) {
        lk_hash_add_text(&h, name);
        lk_hash_add_bytes(&h, number, sizeof *number);
    }
    return lk_hash_value(&h);
}

RANKS_TEST(the_state_is_one_wherever_copies_lie)
{
    uint64_t first = 0;
    for (int u = 0; u < 2; u++) {
        lk_experiment *e = NULL;
        lk_job *job = job_begin(comm, updates[u], &e);
        uint64_t state = state_of(lk_job_trainer(job));
        ASSERT_EQ(lk_job_trainer(job)->shares, u == 1 && lk_comm_size(comm) > 1);
        ASSERT_TRUE(hash_alone(lk_job_trainer(job)) == state);
        first = u == 0 ? state : first;
        ASSERT_TRUE(state == first);
        ASSERT_OK(lk_barrier(comm, NULL)); /* nobody frees what others still read */
        job_end(job, e);
    }
}

/* One bit of the last rank's copy: all ranks fail, and name the first that has this copy. */
static void expect_named(lk_comm *comm, lk_job *job, void *copy, int culprit)
{
    lk_trainer *t = lk_job_trainer(job);
    uint64_t before = state_of(t), after;
    int last = lk_comm_size(comm) - 1;
    char message[64];
    snprintf(message, sizeof message, "after step 2 rank %d has the state", culprit);
    if (lk_comm_rank(comm) == last)
        ((unsigned char *)copy)[5] ^= 4;
    ASSERT_OK(lk_barrier(comm, NULL));
    if (culprit > 0)
        ASSERT_FAILS(lk_trainer_hash(t, &after), LK_ESTATE, message);
    else
        ASSERT_TRUE(state_of(t) != before);
    ASSERT_OK(lk_barrier(comm, NULL));
    if (lk_comm_rank(comm) == last)
        ((unsigned char *)copy)[5] ^= 4;
    ASSERT_OK(lk_barrier(comm, NULL));
    ASSERT_TRUE(state_of(t) == before);
}

/* The first rank of the last one's node; if that is rank 0, all have that copy. */
static int first_of_last_node(lk_comm *comm)
{
    int32_t *node = NULL, mine = lk_comm_node(comm);
    int first = 0;
    ASSERT_OK(lk_alloc(&node, lk_comm_size(comm), sizeof *node));
    ASSERT_OK(lk_allgather(comm, &mine, node, 1, LK_I32, NULL));
    while (node[first] != node[lk_comm_size(comm) - 1])
        first++;
    lk_free(node);
    return first;
}

RANKS_TEST(a_copy_that_differs_is_named)
{
    for (int u = 0; u < 2; u++) {
        lk_experiment *e = NULL;
        lk_job *job = job_begin(comm, updates[u], &e);
        lk_trainer *t = lk_job_trainer(job);
        const char *name;
        int last = lk_comm_size(comm) - 1, culprit = t->shares ? first_of_last_node(comm) : last;
        expect_named(comm, job, lk_slab_data(lk_model_params(lk_trainer_model(t))), culprit);
        expect_named(comm, job, lk_slab_data(lk_optimizer_slab(t->optimizer, 1, &name)), culprit);
        expect_named(comm, job, lk_slab_data(lk_model_state(lk_trainer_model(t))), last);
        job_end(job, e);
    }
}
