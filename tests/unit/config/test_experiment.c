/* Experiments: sections reach their structs, nonsense is refused with its place, and the identity
 * knows what decides the bits and nothing else. */
#include "faults.h"
#include "yaml.h"

#include <lockstep/config.h>

static const char small[] = "about: a small one\n"
                            "seed: 7\n"
                            "data: {type: idx, path: 'd/{rank}', batch: 64, shards: 4}\n"
                            "model:\n"
                            "  - flatten\n"
                            "  - {type: linear, units: 10, name: out}\n"
                            "loss: softmax_cross_entropy\n"
                            "metrics: [accuracy]\n"
                            "optimizer: {type: sgd, rate: 0.5}\n"
                            "train: {epochs: 3, output: 'runs/{rank}of{size}',\n"
                            "        checkpoint: {every: 500 steps, keep: 2}}\n"
                            "pieces: {tiles: 2x4}\n"
                            "parallel: {data: 2, spatial: 2x3}\n";

static lk_experiment *experiment(const char *assignment)
{
    lk_experiment *e;
    ASSERT_OK(lk_experiment_parse("x.yaml", small, &assignment, assignment != NULL, &e));
    return e;
}

TEST(begin)
{
    lk_arena *arena;
    ASSERT_OK(lk_arena_new(&arena));
    test_yaml("a", arena);
    lk_arena_free(arena);
}

TEST(sections_are_read)
{
    lk_experiment *e = experiment(NULL);
    ASSERT_TRUE(strcmp(e->path, "x.yaml") == 0 && strcmp(e->about, "a small one") == 0);
    ASSERT_TRUE(e->seed == 7 && e->dtype == LK_F32 && e->loader.dtype == LK_F32);
    ASSERT_TRUE(strcmp(e->data.descriptor->name, "idx") == 0);
    ASSERT_TRUE(e->loader.batch == 64 && e->loader.shards == 4);
    ASSERT_TRUE(e->model.n == 2 && strcmp(e->model.item[1].name, "out") == 0);
    ASSERT_TRUE(strcmp(e->loss.descriptor->name, "softmax_cross_entropy") == 0);
    ASSERT_TRUE(e->metrics.n == 1 && strcmp(e->optimizer.descriptor->name, "sgd") == 0);
    ASSERT_TRUE(e->train.epochs == 3 && e->train.evaluate.n == 1 && !e->train.evaluate.steps);
    ASSERT_TRUE(e->train.checkpoint.every.n == 500 && e->train.checkpoint.every.steps);
    ASSERT_TRUE(e->train.checkpoint.keep == 2 && e->parallel.data == 2);
    ASSERT_TRUE(e->parallel.spatial.n == 2 && e->parallel.spatial.item[1] == 3);
    ASSERT_TRUE(e->parallel.features == 1 && e->parallel.stages == 1);
    const lk_pieces *cut = &e->pieces.cut;
    ASSERT_TRUE(cut->shards == 4 && cut->tile[0] == 2 && cut->tile[1] == 4 && cut->tile[2] == 1);
    ASSERT_TRUE(cut->blocks == 1 && cut->least_tile == 64 && cut->least_block == 32);
    lk_experiment_free(e);
    lk_experiment_free(NULL);
}

TEST(assignments_come_last)
{
    lk_experiment *e = experiment("dtype=f64");
    ASSERT_TRUE(e->dtype == LK_F64 && e->loader.dtype == LK_F64);
    lk_experiment_free(e);
    e = experiment("optimizer=adam");
    ASSERT_TRUE(strcmp(e->optimizer.descriptor->name, "adam") == 0);
    lk_experiment_free(e);
    e = experiment("train.evaluate=never");
    ASSERT_EQ(e->train.evaluate.n, 0);
    lk_experiment_free(e);
    e = experiment("train={epochs: 1}");
    ASSERT_TRUE(e->train.checkpoint.every.n == 1 && !e->train.output);
    lk_experiment_free(e);
}

TEST(nonsense_is_refused_with_its_place)
{
    static const char *const wrong[][2] = {
        {"modle=[]", "modle=[]: unknown key \"modle\" of experiment; did you mean \"model\"?"},
        {"sed=1", "unknown key \"sed\" of experiment; did you mean \"seed\"?"},
        {"seed=-1", "seed=-1: seed of experiment: \"-1\" is out of range"},
        {"dtype=f16", "dtype of experiment: \"f16\" is none of f32 f64"},
        {"data=7", "data=7: unknown format \"7\""},
        {"data.bach=7", "unknown key \"bach\" of format idx; did you mean \"batch\"?"},
        {"data.batch=0", "batch of format idx: \"0\" is out of range"},
        {"data.shards=65", "data.shards=65: shards of format idx must be at most its batch, but 65 "
                           "are more than 64 samples"},
        {"data.batch=2", "x.yaml:3:"},
        {"model=relu", "model=relu: unknown model \"relu\"; known are lenet"},
        {"model=[]", "model=[]: model has no layers"},
        {"model.1.unit=3", "unknown key \"unit\" of layer linear; did you mean \"units\"?"},
        {"model.0=linear", "layer linear needs the key \"units\""},
        {"loss=none", "unknown loss \"none\"; known are"},
        {"metrics=[acuracy]", "unknown metric \"acuracy\"; did you mean \"accuracy\"?"},
        {"optimizer.rat=1", "unknown key \"rat\" of optimizer sgd; did you mean \"rate\"?"},
        {"train=3", "train=3: train must be a map, not \"3\""},
        {"train.epoch=3", "unknown key \"epoch\" of train; did you mean \"epochs\"?"},
        {"train.evaluate=2", "evaluate of train: \"2\" is no period, such as \"1 epoch\""},
        {"train.log=0 steps", "\"0 steps\" is no period"},
        {"train.log=1 step or so", "is no period"},
        {"train.checkpoint.every=often", "every of train.checkpoint: \"often\" is no period"},
        {"train.checkpoint=3", "train.checkpoint must be a map, not \"3\""},
        {"train.early_stop.metric=auc",
         "metric of train.early_stop: \"auc\" is neither loss nor in metrics"},
        {"parallel=2x2", "parallel must be a map, not \"2x2\""},
        {"parallel.spatial=2x", "spatial of parallel: \"2x\" is no grid"},
        {"parallel.spatial=2x2x2x2", "is no grid"},
        {"parallel.spatial=0x2", "is no grid"},
        {"parallel.spatial=2000000000", "is no grid"},
        {"parallel.feature=2", "key \"feature\" of parallel is called \"features\""},
        {"parallel.pipeline=2", "key \"pipeline\" of parallel is called \"stages\""},
        {"parallel.bucket=2", "key \"bucket\" of parallel is called \"bucket_mib\""},
        {"parallel=auto", "parallel=auto: parallel: auto is not there yet, because times"},
        {"pieces=2x2", "pieces must be a map, not \"2x2\""},
        {"pieces.tiles=2by2", "tiles of pieces: \"2by2\" is no grid"},
        {"pieces.tiles=2x5000", "tiles of pieces: \"2x5000\" is no grid"},
        {"pieces.blocks=0", "blocks of pieces: \"0\" is out of range"},
        {"pieces={}", "spatial of parallel: 2x3 is more than the tiles of pieces, 1; the line "
                      "`pieces: {tiles: 2x3}` allows it"},
        {"parallel={spatial: 4x2, features: 4}",
         "spatial of parallel: 4x2 is more than the tiles of pieces, 2x4; the line "
         "`pieces: {tiles: 4x4, blocks: 4}` allows it"},
        {"parallel={features: 4}", "features of parallel: 4 is more than the blocks of pieces, 1; "
                                   "the line `pieces: {tiles: 2x4, blocks: 4}` allows it"},
        {"parallel.data=-1", "data of parallel: \"-1\" is out of range"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        lk_experiment *e;
        ASSERT_FAILS(lk_experiment_parse("x.yaml", small, wrong[i], 1, &e), LK_EINVAL, wrong[i][1]);
        ASSERT_TRUE(!e);
    }
}

TEST(what_is_missing_is_named)
{
    static const char *const wrong[][2] = {
        {"a", "x.yaml:1:1: an experiment must be a map, not \"a\""},
        {"seed: 1", "x.yaml:1:1: experiment needs the key \"data\""},
        {"data: idx", "x.yaml:1:1: experiment needs the key \"model\""},
        {"data: idx\nmodel: [relu]", "x.yaml:1:1: experiment needs the key \"loss\""},
        {"data: idx\nmodel: [relu]\nloss: mean_squared_error",
         "x.yaml:1:1: experiment needs the key \"optimizer\""},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        lk_experiment *e;
        ASSERT_FAILS(lk_experiment_parse("x.yaml", wrong[i][0], NULL, 0, &e), LK_EINVAL,
                     wrong[i][1]);
    }
    lk_experiment *e;
    ASSERT_FAILS(lk_experiment_read("/nowhere/x.yaml", NULL, 0, &e), LK_EIO,
                 "/nowhere/x.yaml: cannot");
}

TEST(paths_can_name_ranks)
{
    lk_experiment *e = experiment(NULL);
    const char *path;
    ASSERT_OK(lk_experiment_expand(e, 3, 12));
    ASSERT_TRUE(strcmp(e->train.output, "runs/3of12") == 0);
    char shown[32];
    const lk_option *o = lk_option_find(e->data.descriptor->options, "path");
    ASSERT_TRUE(strcmp(lk_option_show(o, e->data.options, shown, sizeof shown), "d/3") == 0);
    ASSERT_OK(lk_path_expand("{size}{rank}{", 0, 2147483647, e->arena, &path));
    ASSERT_TRUE(strcmp(path, "21474836470{") == 0);
    ASSERT_FAILS(lk_path_expand("a/{rnak}", 0, 1, e->arena, &path), LK_EINVAL, "not \"rnak\"");
    ASSERT_FAILS(lk_path_expand("a", 1, 1, e->arena, &path), LK_EINVAL, "rank 1 of 1");
    lk_experiment_free(e);
}

/* The identity with these pieces, and a layout that any allow. */
static uint64_t alone(const char *pieces)
{
    const char *const assignment[] = {"parallel={}", pieces};
    lk_experiment *e;
    uint64_t id;
    ASSERT_OK(lk_experiment_parse("x.yaml", small, assignment, 2, &e));
    ASSERT_OK(lk_experiment_identity(e, 1, &id));
    lk_experiment_free(e);
    return id;
}

static uint64_t identity(const char *assignment, uint64_t data)
{
    lk_experiment *e = experiment(assignment);
    uint64_t id;
    ASSERT_OK(lk_experiment_identity(e, data, &id));
    lk_experiment_free(e);
    return id;
}

TEST(the_identity_is_what_decides_the_bits)
{
    static const char *const same[] = {"about=x",
                                       "data.path=elsewhere",
                                       "metrics=[]",
                                       "train.output=x",
                                       "train.checkpoint.every=1 epoch",
                                       "train.log=1 step",
                                       "train.evaluate=2 epochs",
                                       "train.steps=10",
                                       "train.epochs=4",
                                       "parallel={data: 4}",
                                       "data.prefetch=1",
                                       "optimizer.rate=5e-1"};
    static const char *const other[] = {"seed=8",
                                        "dtype=f64",
                                        "data.batch=32",
                                        "data.shards=8",
                                        "model.1.units=11",
                                        "model.1.name=other",
                                        "model.0=relu",
                                        "loss=mean_squared_error",
                                        "optimizer.rate=0.25",
                                        "optimizer.decay=0.1",
                                        "train.early_stop.patience=2",
                                        "pieces.blocks=2"};
    uint64_t id = identity(NULL, 1);
    ASSERT_TRUE(identity(NULL, 2) != id);
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++)
        if (identity(same[i], 1) != id)
            TEST_FAIL("%s changes the identity", same[i]);
    for (size_t i = 0; i < sizeof other / sizeof other[0]; i++)
        if (identity(other[i], 1) == id)
            TEST_FAIL("%s does not change the identity", other[i]);
}

/* Runs of files without pieces can be resumed by versions that know them. */
TEST(pieces_are_in_the_identity_only_where_they_cut)
{
    static const char *const whole[] = {"pieces={}", "pieces={tiles: 1x1x1, least_tile: 7}",
                                        "pieces={blocks: 1, least_block: 7}"};
    static const char *const cut[] = {
        "pieces={tiles: 2}",           "pieces={tiles: 1x2}", "pieces={tiles: 2, least_tile: 7}",
        "pieces={blocks: 2}",          "pieces={blocks: 3}",  "pieces={blocks: 2, least_block: 7}",
        "pieces={tiles: 2, blocks: 2}"};
    enum { N_WHOLE = sizeof whole / sizeof whole[0], N_CUT = sizeof cut / sizeof cut[0] };
    uint64_t id[N_CUT];
    for (int i = 0; i < N_WHOLE; i++)
        ASSERT_TRUE(alone(whole[i]) == UINT64_C(0xd99fed4a90f5f59e));
    for (int i = 0; i < N_CUT; i++) {
        id[i] = alone(cut[i]);
        ASSERT_TRUE(id[i] != alone("pieces={}"));
        for (int k = 0; k < i; k++)
            ASSERT_TRUE(id[i] != id[k]);
    }
    ASSERT_TRUE(alone("pieces={tiles: 2, least_block: 7}") == id[0]);
    ASSERT_TRUE(alone("pieces={tiles: 2x1}") == id[0]);
}

/* Whether a run can be gone on with to more epochs: not if a schedule ends with the last. */
TEST(epochs_count_where_a_schedule_ends_with_them)
{
    static const struct {
        const char *optimizer;
        bool uses_end;
    } cases[] = {{"{type: sgd, schedule: cosine}", true},
                 {"{type: adam, schedule: {type: linear, to: 0.1}}", true},
                 {"{type: adam, schedule: {type: linear, to: 0.1, end: 8}}", false},
                 {"{type: sgd, schedule: {type: warmup, then: cosine}}", true},
                 {"{type: sgd, schedule: {type: warmup, then: {type: cosine, end: 9}}}", false},
                 {"{type: sgd, schedule: warmup}", false},
                 {"{type: sgd, schedule: {type: step, epochs: 2, factor: 0.5}}", false},
                 {"{type: sgd, momentum: 0.9, momentum_schedule: cosine}", true},
                 {"{type: sgd, momentum: 0.9, momentum_schedule: {type: cosine, end: 2}}", false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint64_t id[2];
        char text[160];
        snprintf(text, sizeof text, "optimizer=%s", cases[i].optimizer);
        for (int more = 0; more < 2; more++) {
            lk_experiment *e = experiment(text);
            e->train.epochs += more;
            ASSERT_EQ(lk_experiment_uses_end(e), cases[i].uses_end);
            ASSERT_OK(lk_experiment_identity(e, 1, &id[more]));
            lk_experiment_free(e);
        }
        if ((id[0] != id[1]) != cases[i].uses_end)
            TEST_FAIL("%s: the epochs are%s in the identity", text, id[0] != id[1] ? "" : " not");
    }
}

static lk_status read_and_expand(void)
{
    lk_experiment *e;
    uint64_t id;
    lk_status st = LK_OK;
    LK_TRY(lk_experiment_parse("x.yaml", small, NULL, 0, &e));
    LK_TRY_TO(done, lk_experiment_expand(e, 0, 1));
    LK_TRY_TO(done, lk_experiment_identity(e, 0, &id));
done:
    lk_experiment_free(e);
    return st;
}

TEST(every_allocation_may_fail)
{
    ASSERT_TRUE(test_every_allocation_fails(read_and_expand) > 3);
}
