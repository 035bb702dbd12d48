/* A start of ranks that share space with a cache that is there: nobody reads the set, neither to compare it
 * with that of other ranks nor for its hash.
 */
#include "data/dataset.h"
#include "rank_folders.h"

#include <lockstep/train.h>

#include <stdatomic.h>

enum { COUNT = 12, SIDE = 8 };

static const lk_dataset_info counted_info = {
    .name = "counted",
    .count = COUNT,
    .n_fields = 2,
    .field = {{.name = "x", .dtype = LK_F32, .shape = {3, {SIDE, SIDE, 1}}},
              {.name = "y", .dtype = LK_F32, .shape = {3, {SIDE, SIDE, 1}}}},
};

/* What a rank's set is: how often it was asked, and what decides its values. */
struct counted {
    _Atomic int reads;
    int64_t salt;
};

static lk_status counted_box(void *context, int64_t index, int field, const lk_box *box, void *out)
{
    struct counted *c = context;
    lk_box_walk walk = lk_box_start(box, counted_info.field[field].shape.dim);
    c->reads++;
    while (lk_box_next(&walk))
        for (int64_t i = 0; i < walk.n; i++)
            ((float *)out)[walk.at + i] = (float)((index * 31 + (walk.place + i) * 7 + c->salt) %
                                                  13);
    return LK_OK;
}

/* A start: a trainer, its first step, and the hash of the set; how often the set was asked. */
static int start_of(lk_comm *comm, const char *cache, int64_t salt, uint64_t stamp, uint64_t *hash,
                    double *loss)
{
    struct counted c = {.salt = salt};
    lk_dataset *set = NULL;
    lk_loader *loader = NULL;
    lk_model *model = NULL;
    lk_trainer *trainer = NULL;
    lk_step_report report;
    ASSERT_OK(lk_dataset_new_boxes(&counted_info, NULL, counted_box, NULL, &c, &set));
    lk__dataset_set_stamp(set, stamp);
    ASSERT_OK(lk_loader_new(set, "batch=4 shards=2 prefetch=0", 1, &loader));
    ASSERT_OK(lk_loader_set_cache(loader, cache, "0", "1"));
    ASSERT_OK(lk_model_new(&model));
    ASSERT_OK(lk_model_add(model, "conv", "filters=1 kernel=3 padding=1"));
    ASSERT_OK(lk_model_build(model,
                             &(lk_model_spec){.in = {LK_F32, LK_SHAPE(SIDE, SIDE, 1)}, .seed = 5}));
    lk_trainer_spec spec = {.model = model, .train = loader, .comm = comm, .epochs = 1};
    spec.pieces.tile[0] = 4;
    spec.parallel.spatial.n = 1;
    spec.parallel.spatial.item[0] = lk_comm_size(comm);
    ASSERT_OK(lk_trainer_new(&spec, "loss=mean_squared_error optimizer=sgd", &trainer));
    ASSERT_OK(lk_trainer_step(trainer, &report));
    ASSERT_OK(lk_dataset_hash(set, hash));
    *loss = report.loss;
    lk_trainer_free(trainer);
    lk_model_free(model);
    lk_loader_free(loader);
    lk_dataset_free(set);
    return c.reads;
}

RANKS_TEST(a_second_start_reads_nothing)
{
    char folder[200], cache[260];
    uint64_t hash, again;
    double loss, other;
    if (lk_comm_size(comm) > 4)
        return; /* there are four tiles */
    folder_share(comm, folder, sizeof folder);
    snprintf(cache, sizeof cache, "%s/{rank}-of-{size}", folder);
    ASSERT_TRUE(start_of(comm, cache, 3, 11, &hash, &loss) > 0);
    ASSERT_OK(lk_barrier(comm, "all have made theirs"));
    ASSERT_EQ(start_of(comm, cache, 3, 11, &again, &other), 0);
    ASSERT_TRUE(hash == again && loss == other);
    /* One rank that does not know makes all look. */
    uint64_t stamp = lk_comm_rank(comm) == lk_comm_size(comm) - 1 ? 12 : 11;
    ASSERT_TRUE(lk_comm_size(comm) == 1 || start_of(comm, cache, 3, stamp, &again, &other) > 0);
    folder_remove(comm, folder);
}
