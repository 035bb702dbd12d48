/* A layer of one's own that runs on tiles: it smooths images, each channel by a window of 3x3.
 *
 * It says its window when it is built, and asks for its tile when it runs: where ranks share space it gets
 * one and computes with the op on tiles, which fetches the margin from the neighbours; otherwise it has
 * whole samples and computes with the plain op.  Loss and state are the same on 1 to 4 ranks.
 *
 *     own_layer            on 4 threads; under mpirun on its processes
 */
#include <lockstep/lockstep.h>

#include <stdio.h>

static lk_window window(void)
{
    return (lk_window){.ndim = 2, .kernel = {3, 3}, .pad_lo = {1, 1}, .pad_hi = {1, 1}};
}

static lk_status smooth_build(lk_build *build, const void *options, lk_tensor_type in,
                              lk_tensor_type *out)
{
    lk_window w = window();
    (void)options;
    lk_build_window(build, LK_TILE_CONV, &w);
    *out = in;
    return LK_OK;
}

/* x may be a box of each sample: sizes are those of x, not of the layer's input. */
static lk_status smooth_forward(const lk_pass *pass, const lk_layer_instance *layer, lk_var x,
                                lk_var *out)
{
    const lk_tile *tile = lk_pass_tile(pass, layer);
    int64_t channels = lk_shape_of(x).dim[3];
    lk_conv_attr attr = {.window = window(), .groups = channels};
    lk_var w;
    LK_TRY(lk_full(pass->tape, lk_dtype_of(x), LK_SHAPE(3, 3, 1, channels), 1.0 / 9, &w));
    if (tile)
        LK_TRY(lk_dist_tile_conv(tile, x, w, LK_NO_VAR, &attr, LK_ACT_NONE, layer->name, out));
    else
        LK_TRY(lk_conv(x, w, LK_NO_VAR, &attr, out));
    return LK_OK;
}

static const lk_layer smooth = {.descriptor = {.name = "smooth", .summary = "means of 3x3"},
                                .reach = LK_REACH_WINDOW,
                                .build = smooth_build,
                                .forward = smooth_forward};

static lk_status model_make(lk_model *model)
{
    LK_TRY(lk_model_add(model, "conv", "filters=4 kernel=3 padding=1"));
    LK_TRY(lk_model_add_config(model, &(lk_config){.descriptor = &smooth.descriptor}));
    LK_TRY(lk_model_add(model, "relu", NULL));
    LK_TRY(lk_model_add(model, "flatten", NULL));
    LK_TRY(lk_model_add(model, "linear", "units=2"));
    return LK_TRACE(
        lk_model_build(model, &(lk_model_spec){.in = {LK_F32, LK_SHAPE(32, 32, 1)}, .seed = 1}));
}

/* Pieces of 4x2 tiles allow 2x1, 3x1 and 2x2 ranks, among others. */
static lk_status steps(lk_comm *comm, lk_model *model, lk_loader *loader, lk_trainer **trainer)
{
    int ranks = lk_comm_size(comm), across = ranks == 4 ? 2 : 1;
    lk_trainer_spec spec = {.model = model, .train = loader, .comm = comm, .epochs = 4};
    lk_step_report report = {.loss = 0};
    char text[LK_HASH_TEXT];
    uint64_t state;
    spec.pieces = (lk_pieces){.tile = {4, 2}};
    spec.parallel.spatial = (lk_option_ints){.n = 2, .item = {ranks / across, across}};
    LK_TRY(lk_trainer_new(&spec, "loss=softmax_cross_entropy optimizer=adam(rate=0.003)", trainer));
    while (lk_trainer_position(*trainer).epoch < 4)
        LK_TRY(lk_trainer_step(*trainer, &report));
    LK_TRY(lk_trainer_hash(*trainer, &state));
    if (lk_comm_rank(comm) == 0)
        printf("loss %.9f, state %s\n", report.loss, lk_hash_text(state, text));
    return LK_OK;
}

static lk_status train(lk_comm *comm, void *arg)
{
    lk_dataset *set = NULL;
    lk_loader *loader = NULL;
    lk_model *model = NULL;
    lk_trainer *trainer = NULL;
    lk_status st = LK_OK;
    (void)arg;
    LK_TRY_TO(done, lk_dataset_open("shapes", "count=64 shape=32,32,1", LK_TRAIN, &set));
    LK_TRY_TO(done, lk_loader_new(set, "batch=16 shards=4", 1, &loader));
    LK_TRY_TO(done, lk_model_new(&model));
    LK_TRY_TO(done, model_make(model));
    LK_TRY_TO(done, steps(comm, model, loader, &trainer));
done:
    lk_trainer_free(trainer);
    lk_model_free(model);
    lk_loader_free(loader);
    lk_dataset_free(set);
    return st;
}

int main(void)
{
    return lk_run_main(4, train, NULL, stderr);
}
