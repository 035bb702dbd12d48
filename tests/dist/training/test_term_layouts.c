/* Losses that layers add, on every layout: with each choice of what counts, the losses of steps, each of them for
 * itself, evaluation and state have the bits of one rank; and layers and losses are by tiles where they
 * can be.
 */
#include "planned_calls.h"
#include "ranks.h"

enum { STEPS = 3, BATCH = 9, SHARDS = 5, SAMPLES = 22, MOST = 6 };

struct net {
    lk_shape in;
    const char *losses[5]; /* that count, one choice each; "": all */
    const char *layers[16];
};

/* A code with a shared weight, and what it costs; the loss of what comes out is by tiles, too. */
static const struct net images = {
    LK_DIMS(9, 7, 2),
    {"", "loss", "code", "sparse", "loss,code"},
    {"conv", "filters=3 kernel=3 padding=1", "autoencoder",
     "name=code encode=conv(filters=4 kernel=3 padding=1 bias=false name=in),tanh "
     "decode=conv_transpose(filters=3 kernel=3 padding=1 tie=code.in.weight) weight=0.3",
     "maxpool", "size=3 stride=2 padding=1", "penalty", "name=sparse of=abs weight=0.125", "conv",
     "filters=2 kernel=3 padding=1"}};

/* The first layer is the one with the term, and what comes out is of whole samples. */
static const struct net classes = {
    LK_DIMS(9, 7, 2),
    {"", "loss", "code", "r.i", "code,sparse"},
    {"autoencoder",
     "name=code encode=conv(filters=3 kernel=3 padding=1),relu,penalty(of=squares name=kept) "
     "decode=conv(filters=2 kernel=3 padding=1) loss=mean_squared_error",
     "residual",
     "layers=autoencoder(encode=conv(filters=3 kernel=1) decode=conv(filters=3 kernel=1) "
     "name=i) name=r",
     "penalty", "name=sparse weight=0.25", "flatten", NULL, "linear", "units=3"}};

/* The code is one of whole samples, what comes out one of tiles. */
static const struct net samples = {
    LK_DIMS(6, 5, 2),
    {"", "loss", "code", "loss,code"},
    {"conv", "filters=2 kernel=3 padding=1", "autoencoder",
     "name=code encode=flatten,linear(units=7 name=in) decode=linear(units=60 transpose=true "
     "tie=code.in.weight),reshape(shape=6,5,2)",
     "penalty", "name=cost of=abs weight=0.5", "linear", "units=60", "reshape", "shape=6,5,2",
     "conv", "filters=1 kernel=3 padding=1"}};

/* Passes shard by shard, and statistics of all of a batch. */
static const struct net times = {LK_DIMS(6, 5, 2),
                                 {"", "code", "cost,loss"},
                                 {"autoencoder",
                                  "name=code encode=conv(filters=2 kernel=3 padding=1),tanh "
                                  "decode=conv(filters=2 kernel=3 padding=1)",
                                  "reshape", "shape=10,6", "gru", "units=3", "penalty",
                                  "name=cost of=squares weight=0.5", "linear", "units=2"}};

/* The first loss is of the data alone. */
static const struct net statistics = {
    LK_DIMS(6, 5, 2),
    {"", "code"},
    {"penalty", "name=raw of=squares", "autoencoder",
     "name=code encode=conv(filters=3 kernel=3 padding=1),batch_norm(statistics=batch) "
     "decode=conv(filters=2 kernel=3 padding=1),batch_norm",
     "relu", NULL, "linear", "units=2"}};

/* Weights of each position, of which ranks along space hold their own, used twice: a sparse autoencoder. */
static const struct net filters = {
    LK_DIMS(9, 7, 2),
    {"", "code", "code,sparse"},
    {"autoencoder",
     "name=code encode=local_conv(filters=3 kernel=3 name=in) "
     "decode=local_conv_transpose(filters=2 kernel=3 tie=code.in.weight)",
     "l2pool", "size=2 stride=1", "penalty", "name=sparse weight=0.1", "lcn", "size=3", "flatten",
     NULL, "linear", "units=2"}};

/* What a training came to. */
struct result {
    uint64_t state;
    int64_t n; /* losses that count */
    double loss[STEPS + 1], each[STEPS + 1][MOST], seen, seen_each[MOST];
};

struct run {
    lk_model *model;
    lk_tensor *value[2];
    lk_dataset *set;
    lk_loader *loader, *test;
    lk_trainer *trainer;
};

static void run_free(struct run *r)
{
    lk_trainer_free(r->trainer);
    lk_loader_free(r->loader);
    lk_loader_free(r->test);
    lk_dataset_free(r->set);
    lk_tensor_free(r->value[0]);
    lk_tensor_free(r->value[1]);
    lk_model_free(r->model);
    *r = (struct run){.model = NULL};
}

static lk_status values(lk_shape sample, const char *purpose, lk_tensor **out)
{
    lk_shape shape = {.ndim = sample.ndim + 1, .dim = {SAMPLES}};
    void *data = NULL;
    memcpy(&shape.dim[1], sample.dim, (size_t)sample.ndim * sizeof shape.dim[0]);
    LK_TRY(lk_tensor_new(LK_F32, shape, out));
    LK_TRY(lk_tensor_writable_data(*out, &data));
    return LK_TRACE(lk_rng_uniform_f32(lk_rng_start(3, "test", purpose), (lk_rng_at){0},
                                       lk_tensor_count(*out), data));
}

/* How ranks share a run. */
struct layout {
    int64_t tiles[2], ranks[2];
    bool fast;
    int update, overlap; /* 0: as usual */
};

/* Make the trainer; comm NULL: this rank alone, whatever the layout says of ranks. */
static lk_status run_make(const struct net *net, const char *losses, lk_comm *comm,
                          const struct layout *at, struct run *r)
{
    lk_dataset_info info = {.name = "t", .n_fields = 2, .field = {{.name = "x"}, {.name = "y"}}};
    lk_loader_options options = {.batch = BATCH, .shards = SHARDS, .scale = 1};
    char text[256];
    LK_TRY(lk_model_new(&r->model));
    for (const char *const *layer = net->layers; *layer; layer += 2)
        LK_TRY(lk_model_add(r->model, layer[0], layer[1]));
    LK_TRY(lk_model_build(r->model, &(lk_model_spec){.in = {LK_F32, net->in}, .seed = 5}));
    LK_TRY(values(net->in, "x", &r->value[0]));
    LK_TRY(values(lk_model_out(r->model).shape, "y", &r->value[1]));
    LK_TRY(lk_dataset_from_tensors(&info, r->value, &r->set));
    LK_TRY(lk_loader_new_options(r->set, &options, 1, &r->loader));
    LK_TRY(lk_loader_new_options(r->set, &options, 1, &r->test));
    lk_trainer_spec spec = {.model = r->model, .train = r->loader, .comm = comm, .epochs = 1};
    for (int d = 0; d < 2; d++) {
        spec.pieces.tile[d] = at->tiles[d];
        spec.parallel.spatial.item[d] = at->ranks[d];
    }
    spec.parallel.spatial.n = comm ? 2 : 0;
    spec.parallel.mode = at->fast ? LK_REDUCTION_FAST : LK_REDUCTION_CANONICAL;
    spec.parallel.update = at->update;
    spec.parallel.overlap = at->overlap;
    spec.parallel.bucket_mib = 1e-6;
    snprintf(text, sizeof text, "loss=mean_squared_error optimizer=adam(rate=0.05)%s%s",
             losses[0] ? " losses=" : "", losses);
    return LK_TRACE(lk_trainer_new(&spec, text, &r->trainer));
}

static struct result train(const struct net *net, const char *losses, lk_comm *comm,
                           const struct layout *at)
{
    struct result out;
    struct run r = {.model = NULL};
    lk_eval score;
    memset(&out, 0, sizeof out);
    ASSERT_OK(run_make(net, losses, comm, at, &r));
    while (lk_trainer_loss(r.trainer, out.n))
        out.n++;
    ASSERT_TRUE(out.n > 0 && out.n <= MOST);
    for (int i = 0; i < STEPS; i++) {
        lk_step_report report;
        ASSERT_OK(lk_trainer_step(r.trainer, &report));
        out.loss[i] = report.loss;
        memcpy(out.each[i], report.losses, (size_t)out.n * sizeof(double));
    }
    ASSERT_OK(lk_trainer_train_metrics(r.trainer, &score));
    out.seen = score.loss;
    memcpy(out.seen_each, score.losses, (size_t)out.n * sizeof(double));
    ASSERT_OK(lk_trainer_evaluate(r.trainer, r.test, &score));
    out.loss[STEPS] = score.loss;
    memcpy(out.each[STEPS], score.losses, (size_t)out.n * sizeof(double));
    ASSERT_OK(lk_trainer_hash(r.trainer, &out.state));
    run_free(&r);
    return out;
}

static bool is_layout(const struct layout *at, int ranks)
{
    int64_t space = at->ranks[0] * at->ranks[1];
    return ranks % space == 0 && ranks / space <= SHARDS;
}

static const struct layout grids[] = {
    {.tiles = {4, 3}, .ranks = {1, 1}}, {.tiles = {4, 3}, .ranks = {2, 1}},
    {.tiles = {4, 3}, .ranks = {1, 3}}, {.tiles = {4, 3}, .ranks = {2, 2}},
    {.tiles = {1, 1}, .ranks = {1, 1}}, {.tiles = {3, 1}, .ranks = {3, 1}}};

enum { GRIDS = sizeof grids / sizeof grids[0] };

/* Whether choice k of losses runs on grid i: every day all of them, each on some. */
static bool is_run(lk_comm *comm, int k, int i)
{
    return is_layout(&grids[i], lk_comm_size(comm)) && (k == 0 || test_whole() || (k + i) % 2 == 0);
}

static void expect_same(lk_comm *comm, const struct net *net)
{
    for (int k = 0; k < 5 && net->losses[k]; k++)
        for (int i = 0; i < GRIDS; i++) {
            int ranks = lk_comm_size(comm);
            if (!is_run(comm, k, i))
                continue;
            struct result alone = train(net, net->losses[k], NULL, &grids[i]);
            struct result together = train(net, net->losses[k], comm, &grids[i]);
            if (memcmp(&alone, &together, sizeof alone) != 0 || alone.loss[1] == alone.loss[0])
                TEST_FAIL(
                    "losses \"%s\", grid %d of %d ranks: state %016llx, alone %016llx; losses "
                    "%.17g %.17g",
                    net->losses[k], i, ranks, (unsigned long long)together.state,
                    (unsigned long long)alone.state, together.loss[0], alone.loss[0]);
        }
}

RANKS_TEST(codes_by_tiles_have_the_bits_of_one_rank)
{
    expect_same(comm, &images);
}

RANKS_TEST(codes_before_whole_samples_have_the_bits_of_one_rank)
{
    expect_same(comm, &classes);
}

RANKS_TEST(codes_of_whole_samples_have_the_bits_of_one_rank)
{
    expect_same(comm, &samples);
}

RANKS_TEST(passes_of_shards_have_the_bits_of_one_rank)
{
    expect_same(comm, &times);
}

RANKS_TEST(statistics_of_the_batch_have_the_bits_of_one_rank)
{
    expect_same(comm, &statistics);
}

RANKS_TEST(codes_of_positions_have_the_bits_of_one_rank)
{
    expect_same(comm, &filters);
}

/* Sums in any order: the numbers are nearly the same. */
RANKS_TEST(fast_mode_has_the_losses)
{
    struct layout fast = {{1, 1}, {lk_comm_size(comm) % 2 ? 1 : 2, 1}, .fast = true};
    struct result alone = train(&images, "", NULL, &grids[4]),
                  got = train(&images, "", comm, &fast);
    for (int i = 0; i < 3; i++) {
        ASSERT_NEAR(got.each[0][i], alone.each[0][i], 1e-4);
        ASSERT_NEAR(got.each[STEPS][i], alone.each[STEPS][i], 1e-2);
    }
}

/* Gradients that travel during backward, in small buckets, of layers that do not run too; one copy of the
 * parameters for all ranks. */
RANKS_TEST(gradients_travel_in_other_ways)
{
    const struct layout ways[] = {{{1, 1}, {1, 1}, false, 0, LK_OVERLAP_YES},
                                  {{1, 1}, {1, 1}, false, LK_UPDATE_SHARED, 0}};
    for (int k = 0; k < 5; k++) {
        struct result alone = train(&images, images.losses[k], NULL, &grids[4]);
        for (int i = 0; i < 2; i++) {
            struct result together = train(&images, images.losses[k], comm, &ways[i]);
            ASSERT_EQ(memcmp(&alone, &together, sizeof alone), 0);
        }
    }
}

/* Nobody would take them. */
RANKS_TEST(a_chain_list_is_refused)
{
    struct run r = {.model = NULL};
    lk_model *model = NULL;
    lk_chain *chain = NULL;
    if (lk_comm_size(comm) > 1)
        return;
    ASSERT_OK(run_make(&times, "", NULL, &grids[4], &r));
    ASSERT_OK(lk_model_new(&model));
    ASSERT_OK(lk_model_add(model, "linear", "units=2"));
    ASSERT_OK(lk_model_add(model, "penalty", "name=cost"));
    ASSERT_OK(lk_model_build(model, &(lk_model_spec){.in = {LK_F32, times.in}}));
    ASSERT_OK(lk_model_hold(model, NULL));
    ASSERT_OK(lk_chain_new(comm, &chain));
    ASSERT_OK(
        lk_chain_add(chain, &(lk_component){.name = "all", .model = model}, NULL, 0, NULL, 0));
    lk_tensor_type x = {LK_F32, times.in};
    ASSERT_OK(lk_chain_build(chain, &x, 1));
    lk_trainer *trainer = NULL;
    lk_trainer_spec spec = {.chain = chain, .train = r.loader, .epochs = 1};
    ASSERT_FAILS(lk_trainer_new(&spec, "loss=mean_squared_error optimizer=sgd", &trainer),
                 LK_ENOTSUP, "layer cost of component 0 adds a loss");
    lk_chain_free(chain);
    lk_model_free(model);
    run_free(&r);
}

/* Each loss that counts has, in the first step, the bits that it has where it counts alone; the step's is
 * their sum in this order. */
RANKS_TEST(losses_are_added_up_apart)
{
    static const struct net *const nets[] = {&images, &samples};
    static const char *const names[][3] = {{"loss", "code", "sparse"}, {"loss", "code", "cost"}};
    for (int k = 0; k < 2; k++) {
        struct result all = train(nets[k], "", comm, &grids[0]);
        ASSERT_EQ(all.n, 3);
        for (int i = 0; i < 3; i++) {
            struct result one = train(nets[k], names[k][i], comm, &grids[0]);
            ASSERT_EQ(one.n, 1);
            ASSERT_TRUE(memcmp(&one.each[0][0], &all.each[0][i], sizeof(double)) == 0);
            ASSERT_TRUE(memcmp(&one.each[0][0], &one.loss[0], sizeof(double)) == 0);
        }
        ASSERT_NEAR(all.loss[0], all.each[0][0] + all.each[0][1] + all.each[0][2], 1e-12);
        ASSERT_NEAR(all.loss[STEPS], all.each[STEPS][0] + all.each[STEPS][1] + all.each[STEPS][2],
                    1e-12);
    }
}

/* ---- by tiles in fact ---- */

RANKS_TEST(layers_and_losses_are_by_tiles)
{
    for (int i = 0; i < GRIDS; i++) {
        struct run r = {.model = NULL};
        if (!is_layout(&grids[i], lk_comm_size(comm)) || grids[i].ranks[0] * grids[i].ranks[1] == 1)
            continue;
        ASSERT_OK(run_make(&images, "", comm, &grids[i], &r));
        const lk_plan *p = lk_trainer_plan(r.trainer);
        int terms = 0;
        ASSERT_TRUE(p->loss_tiled && p->in == LK_BY_TILE && p->out == LK_BY_TILE);
        for (int64_t k = 0; k < p->n_layers; k++) {
            ASSERT_TRUE(p->layer[k].domain == LK_BY_TILE && p->part[k].before == LK_STAY &&
                        p->part[k].after == LK_STAY && p->runs[k]);
            terms += p->part[k].term != NULL;
        }
        ASSERT_EQ(terms, 2);
        run_free(&r);
    }
}

/* Also where some layers do not run. */
RANKS_TEST(a_step_sends_what_was_planned)
{
    static const struct net *const nets[] = {&images, &classes, &samples, &statistics, &filters};
    for (int n = 0; n < 5; n++)
        for (int k = 0; k < 5 && nets[n]->losses[k]; k++)
            for (int i = 0; i < GRIDS; i++) {
                struct run r = {.model = NULL};
                char what[64];
                if (!is_run(comm, k, i))
                    continue;
                ASSERT_OK(run_make(nets[n], nets[n]->losses[k], comm, &grids[i], &r));
                snprintf(what, sizeof what, "net %d, losses \"%s\", grid %d", n, nets[n]->losses[k],
                         i);
                planned_expect(comm, r.trainer, what);
                run_free(&r);
            }
}

/* ---- what goes wrong ---- */

RANKS_TEST(ranks_with_other_losses_are_refused)
{
    struct run r = {.model = NULL};
    if (lk_comm_size(comm) == 1)
        return;
    ASSERT_FAILS(run_make(&times, lk_comm_rank(comm) == 1 ? "code" : "cost", comm, &grids[4], &r),
                 LK_ESTATE, "rank 1 has other losses than rank 0");
    run_free(&r);
}
