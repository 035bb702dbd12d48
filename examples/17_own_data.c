/* A set of one's own that ranks read by tiles: images of stripes, from a function.
 *
 * The function writes any box of a sample.  It is asked for what a rank works on, the tile and the margin that
 * its layers read, and knows nothing of ranks.  The images for the test are arrays of the program.  Loss,
 * answers and state are the same on 1 to 4 ranks.
 *
 *     own_data             on 4 threads; under mpirun on its processes
 */
#include <lockstep/lockstep.h>

#include <stdatomic.h>
#include <stdio.h>

enum { SIDE = 32, PIXELS = SIDE * SIDE, COUNT = 128, TESTS = 64, EPOCHS = 3 };

/* Stripes as wide as the sample's number says; those of class 1 rise, the others fall. */
static float pixel(int64_t sample, int64_t row, int64_t column)
{
    int64_t width = 5 + sample % 7;
    int64_t place = (sample % 2 ? row + column : row - column + SIDE) + sample / 7;
    return (float)(place % width) / (float)width;
}

/* What the function is given; several threads may call it at once. */
struct stripes {
    _Atomic int64_t largest; /* pixels of the largest box that was asked for */
};

/* Field 0 is the image, field 1 its class. */
static lk_status stripes_box(void *context, int64_t sample, int field, const lk_box *box, void *out)
{
    struct stripes *stripes = context;
    int64_t n = lk_box_count(box), largest = atomic_load(&stripes->largest);
    float *x = out;
    if (field == 1) {
        *(int64_t *)out = sample % 2;
        return LK_OK;
    }
    for (int64_t r = box->first[0]; r < box->first[0] + box->n[0]; r++)
        for (int64_t c = box->first[1]; c < box->first[1] + box->n[1]; c++)
            *x++ = pixel(sample, r, c);
    while (largest < n && !atomic_compare_exchange_weak(&stripes->largest, &largest, n))
        continue;
    return LK_OK;
}

/* Images that the program has in memory: those behind the samples of training. */
struct arrays {
    float image[TESTS][SIDE][SIDE];
    int64_t label[TESTS];
};

static void arrays_fill(struct arrays *a)
{
    for (int64_t i = 0; i < TESTS; i++) {
        a->label[i] = (COUNT + i) % 2;
        for (int64_t r = 0; r < SIDE; r++)
            for (int64_t c = 0; c < SIDE; c++)
                a->image[i][r][c] = pixel(COUNT + i, r, c);
    }
}

/* What a rank has. */
struct part {
    struct stripes stripes;
    lk_tensor *tensor[2];
    lk_dataset *train_set, *test_set;
    lk_loader *train, *test;
    lk_model *model;
    lk_trainer *trainer;
};

static lk_status data_make(struct part *p, const struct arrays *a)
{
    lk_dataset_info info = {.name = "stripes",
                            .count = COUNT,
                            .classes = 2,
                            .n_fields = 2,
                            .field = {{.name = "x"}, {.name = "y"}}};
    info.field[0].dtype = LK_F32;
    info.field[0].shape = LK_SHAPE(SIDE, SIDE, 1);
    info.field[1].dtype = LK_I64;
    LK_TRY(lk_dataset_new_boxes(&info, NULL, stripes_box, NULL, &p->stripes, &p->train_set));
    LK_TRY(lk_tensor_wrap_const(LK_F32, LK_SHAPE(TESTS, SIDE, SIDE, 1), a->image, NULL, NULL,
                                &p->tensor[0]));
    LK_TRY(lk_tensor_wrap_const(LK_I64, LK_SHAPE(TESTS), a->label, NULL, NULL, &p->tensor[1]));
    LK_TRY(lk_dataset_from_tensors(&info, p->tensor, &p->test_set));
    LK_TRY(lk_loader_new(p->train_set, "batch=16 shards=4", 1, &p->train));
    return LK_TRACE(lk_loader_new_like(p->train, p->test_set, &p->test));
}

static lk_status model_make(struct part *p)
{
    lk_field x = lk_loader_field(p->train, 0);
    LK_TRY(lk_model_new(&p->model));
    LK_TRY(lk_model_add(p->model, "conv", "filters=4 kernel=5 padding=2"));
    LK_TRY(lk_model_add(p->model, "relu", NULL));
    LK_TRY(lk_model_add(p->model, "global_avgpool", NULL));
    LK_TRY(lk_model_add(p->model, "linear", "units=2"));
    return LK_TRACE(
        lk_model_build(p->model, &(lk_model_spec){.in = {x.dtype, x.shape}, .seed = 1}));
}

/* Pieces of 4x2 tiles allow 2x1, 3x1 and 2x2 ranks, among others. */
static lk_status train(struct part *p, lk_comm *comm)
{
    int ranks = lk_comm_size(comm), across = ranks == 4 ? 2 : 1;
    lk_trainer_spec spec = {.model = p->model, .train = p->train, .comm = comm, .epochs = EPOCHS};
    lk_eval score;
    char text[LK_HASH_TEXT];
    uint64_t state;
    spec.pieces = (lk_pieces){.tile = {4, 2}};
    spec.parallel.spatial = (lk_option_ints){.n = 2, .item = {ranks / across, across}};
    LK_TRY(lk_trainer_new(&spec,
                          "loss=softmax_cross_entropy metrics=accuracy optimizer=adam(rate=0.03)",
                          &p->trainer));
    atomic_store(&p->stripes.largest,
                 0); /* what was looked at before the first step does not count */
    while (lk_trainer_position(p->trainer).epoch < EPOCHS)
        LK_TRY(lk_trainer_step(p->trainer, NULL));
    LK_TRY(lk_trainer_evaluate(p->trainer, p->test, &score));
    LK_TRY(lk_trainer_hash(p->trainer, &state));
    if (lk_comm_rank(comm) == 0)
        printf("loss %.9f, %.1f %% of %lld test images are right, state %s\n"
               "a step reads no more than the rank's tiles: %s\n",
               score.loss, 100 * score.value[0], (long long)score.samples,
               lk_hash_text(state, text),
               ranks == 1 || atomic_load(&p->stripes.largest) < PIXELS ? "yes" : "no");
    return LK_OK;
}

static lk_status run(lk_comm *comm, void *arg)
{
    struct part p = {.trainer = NULL};
    lk_status st = LK_OK;
    LK_TRY_TO(done, data_make(&p, arg));
    LK_TRY_TO(done, model_make(&p));
    LK_TRY_TO(done, train(&p, comm));
done:
    lk_trainer_free(p.trainer);
    lk_model_free(p.model);
    lk_loader_free(p.train);
    lk_loader_free(p.test);
    lk_dataset_free(p.train_set);
    lk_dataset_free(p.test_set);
    lk_tensor_free(p.tensor[0]);
    lk_tensor_free(p.tensor[1]);
    return st;
}

int main(void)
{
    static struct arrays arrays;
    arrays_fill(&arrays);
    return lk_run_main(4, run, &arrays, stderr);
}
