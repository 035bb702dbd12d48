/* Every layer of the registry, and layers that a program has written, on ranks that share space: losses,
 * parameters and state have the bits of one rank, and those that can run by tiles do.
 */
#include "spatial_nets.h"

#include <lockstep/op.h>

/* ---- nets around a layer ---- */

/* A convolution that keeps the positions, and gives as many channels. */
static void conv_add(struct net *net, int64_t filters)
{
    char options[64];
    snprintf(options, sizeof options, "filters=%lld kernel=3 padding=1", (long long)filters);
    net_add(net, net_layer_of("conv"), options);
}

/* Whether a layer norm is over a part of the positions: parameters that some of them share. */
static bool is_part_norm(const lk_layer *layer, const char *options, lk_shape shape)
{
    const char *axes = options ? strstr(options, "axes=") : NULL;
    return axes && strcmp(layer->descriptor.name, "layer_norm") == 0 && axes[5] - '0' < shape.ndim;
}

/* Which domain a layer must have behind images or volumes, of samples of this shape. */
static lk_domain wanted(const lk_layer *layer, const char *options, lk_shape shape, bool *known)
{
    static const char *const by_tile[] = {
        "avgpool",    "batch_norm", "conv",           "conv_transpose", "dropout",
        "elu",        "gelu",       "global_avgpool", "l2pool",         "leaky_relu",
        "layer_norm", "lcn",        "linear",         "maxpool",        "log_softmax",
        "relu",       "residual",   "sigmoid",        "softmax",        "softplus",
        "tanh",       "local_conv", "crop",           "repeat",         "local_conv_transpose"};
    static const char *const by_sample[] = {"embedding", "flatten", "gru",
                                            "lstm",      "reshape", "rnn"};
    const char *name = layer->descriptor.name;
    *known = true;
    if (is_part_norm(layer, options, shape))
        return LK_BY_SAMPLE;
    for (int i = 0; i < (int)(sizeof by_tile / sizeof *by_tile); i++)
        if (strcmp(by_tile[i], name) == 0)
            return LK_BY_TILE;
    for (int i = 0; i < (int)(sizeof by_sample / sizeof *by_sample); i++)
        if (strcmp(by_sample[i], name) == 0)
            return LK_BY_SAMPLE;
    *known = false;
    return LK_BY_SAMPLE;
}

/* The layer behind a convolution, or with `first` before all others, on the input of its sample, if that has
 * positions; otherwise at each of some positions; one that makes a shape of its own behind a flatten. */
static struct net net_around(const lk_layer *layer, const char *options, lk_shape shape,
                             int64_t below, bool first)
{
    struct net net = {.in = {below ? LK_I64 : LK_F32, shape}, .below = below};
    bool flat = shape.ndim < 2 && layer->flags & LK_LAYER_RESHAPES;
    int64_t n = shape.ndim > 0 ? shape.dim[shape.ndim - 1] : 1;
    if (flat)
        net.in.shape = LK_SHAPE(n, 1, 1);
    else if (below)
        net.in.shape = LK_SHAPE(5, 4, 1);
    else if (shape.ndim < 2)
        net.in.shape = LK_SHAPE(7, 5, n);
    if (!below && !first)
        conv_add(&net, net.in.shape.dim[net.in.shape.ndim - 1]);
    if (flat)
        net_add(&net, net_layer_of("flatten"), NULL);
    if (layer->flags & LK_LAYER_FUSES_RELU_BEFORE)
        net_add(&net, net_layer_of("relu"), NULL);
    net.at = net.n;
    net_add(&net, layer, options);
    if (layer->flags & (LK_LAYER_FUSES_RELU_AFTER | LK_LAYER_FUSES_ACT_AFTER))
        net_add(&net, net_layer_of("relu"), NULL);
    if (net_out(&net).shape.ndim > 1)
        conv_add(&net, 2);
    else
        net_add(&net, net_layer_of("linear"), "units=2");
    return net;
}

static void check_layer(lk_comm *comm, const lk_layer *layer, const char *options, lk_shape shape,
                        int64_t below, bool first)
{
    struct net net = net_around(layer, options, shape, below, first);
    struct net_result r;
    bool known;
    net.data = first;
    net_compare(comm, &net, &r);
    lk_domain domain = wanted(layer, options, shape, &known);
    if (known && r.domain != domain)
        TEST_FAIL("%s %s runs by %s", layer->descriptor.name, options ? options : "",
                  r.domain == LK_BY_TILE ? "tiles" : "samples");
}

/* 2x1, 1x3 and 2x2. */
static bool has_grid(lk_comm *comm)
{
    return lk_comm_size(comm) >= (ranks_brief() ? 4 : 2) && lk_comm_size(comm) <= 4;
}

RANKS_TEST(every_layer_has_the_bits_of_one_rank)
{
    for (int i = 0; has_grid(comm) && lk_layers[i]; i++)
        for (const lk_layer_sample *s = lk_layers[i]->samples; s->shape.ndim >= 0; s++)
            check_layer(comm, lk_layers[i], s->options, s->shape, s->below, false);
}

/* Sizes that tiles do not divide, of which no tile is empty. */
RANKS_TEST(larger_values_have_the_bits_of_one_rank)
{
    static const struct {
        const char *type, *options;
        lk_shape shape;
    } more[] = {
        {"linear", "units=3", LK_DIMS(13, 11, 4)},
        {"linear", "units=4 bias=false transpose=true", LK_DIMS(6, 9, 3)},
        {"linear", "units=2", LK_DIMS(5, 4, 3, 2)},
        {"layer_norm", NULL, LK_DIMS(13, 11, 5)},
        {"layer_norm", "eps=0.1", LK_DIMS(5, 4, 3, 2)},
        {"layer_norm", "axes=2", LK_DIMS(23, 2)},
        {"layer_norm", "axes=3", LK_DIMS(13, 11, 3)},
        {"layer_norm", "axes=4 eps=0.1", LK_DIMS(5, 4, 3, 2)},
        {"layer_norm", "axes=2", LK_DIMS(7, 6, 3)},
        {"lcn", "size=3", LK_DIMS(17, 14, 2)},
        {"lcn", "size=5,3", LK_DIMS(29, 13, 1)},
        {"lcn", "size=1", LK_DIMS(8, 6, 3)},
        {"softmax", NULL, LK_DIMS(13, 11, 3)},
        {"log_softmax", NULL, LK_DIMS(6, 5, 4, 3)},
        {"local_conv_transpose", "filters=2 kernel=4,3 size=13,15 stride=2", LK_DIMS(5, 7, 1)},
        {"local_conv_transpose", "filters=1 kernel=2 pad=same", LK_DIMS(3, 4, 5, 1)}};
    for (int i = 0; has_grid(comm) && i < (int)(sizeof more / sizeof *more); i++)
        for (int first = 0; first < 2; first++)
            check_layer(comm, net_layer_of(more[i].type), more[i].options, more[i].shape, 0, first);
}

/* ---- layers of a program ---- */

static lk_status same_build(lk_build *build, const void *options, lk_tensor_type in,
                            lk_tensor_type *out)
{
    (void)build;
    (void)options;
    *out = in;
    return LK_OK;
}

/* x / (1 + |x|). */
static lk_status softsign_forward(const lk_pass *pass, const lk_layer_instance *layer, lk_var x,
                                  lk_var *out)
{
    lk_var size;
    (void)pass;
    (void)layer;
    LK_TRY(lk_abs(x, &size));
    LK_TRY(lk_affine(size, 1, 1, &size));
    return LK_TRACE(lk_div(x, size, out));
}

static const lk_layer softsign = {.descriptor = {.name = "softsign", .summary = "x / (1 + |x|)"},
                                  .reach = LK_REACH_ELEMENT,
                                  .build = same_build,
                                  .forward = softsign_forward};

/* What of all channels a channel has: x^2 / (the sum of x^2 + 1). */
static lk_status share_forward(const lk_pass *pass, const lk_layer_instance *layer, lk_var x,
                               lk_var *out)
{
    lk_shape sums = lk_shape_of(x);
    lk_var square, sum;
    (void)pass;
    (void)layer;
    sums.dim[sums.ndim - 1] = 1;
    LK_TRY(lk_mul(x, x, &square));
    LK_TRY(lk_sum_to(square, sums, &sum));
    LK_TRY(lk_affine(sum, 1, 1, &sum));
    return LK_TRACE(lk_div(square, sum, out));
}

static const lk_layer share = {.descriptor = {.name = "share", .summary = "of all channels"},
                               .reach = LK_REACH_POSITION,
                               .build = same_build,
                               .forward = share_forward};

/* A blur: a convolution whose weights are there, for each channel by itself. */
static lk_window blur_window(int ndim)
{
    lk_window w = {.ndim = ndim};
    for (int d = 0; d < ndim; d++) {
        w.kernel[d] = 3;
        w.pad_lo[d] = w.pad_hi[d] = 1;
    }
    return w;
}

static lk_status blur_build(lk_build *build, const void *options, lk_tensor_type in,
                            lk_tensor_type *out)
{
    lk_window w = blur_window(in.shape.ndim - 1);
    (void)options;
    lk_build_window(build, LK_TILE_CONV, &w);
    *out = in;
    return LK_OK;
}

/* [3]...[1][channels]. */
static lk_shape blur_shape(lk_shape in)
{
    lk_shape shape = {.ndim = in.ndim + 1};
    for (int d = 0; d < in.ndim - 1; d++)
        shape.dim[d] = 3;
    shape.dim[in.ndim - 1] = 1;
    shape.dim[in.ndim] = in.dim[in.ndim - 1];
    return shape;
}

static lk_status blur_forward(const lk_pass *pass, const lk_layer_instance *layer, lk_var x,
                              lk_var *out)
{
    lk_shape in = layer->in.shape, shape = blur_shape(in);
    lk_conv_attr attr = {.window = blur_window(in.ndim - 1), .groups = in.dim[in.ndim - 1]};
    const lk_tile *tile = lk_pass_tile(pass, layer);
    lk_var w;
    if (layer->n_params > 0)
        w = lk_pass_param(pass, layer, 0);
    else
        LK_TRY(lk_full(pass->tape, lk_dtype_of(x), shape, 0.125, &w));
    if (tile)
        LK_TRY(lk_dist_tile_conv(tile, x, w, LK_NO_VAR, &attr, LK_ACT_NONE, layer->name, out));
    else
        LK_TRY(lk_conv(x, w, LK_NO_VAR, &attr, out));
    return LK_OK;
}

static const lk_layer blur = {.descriptor = {.name = "blur", .summary = "means of neighbours"},
                              .reach = LK_REACH_WINDOW,
                              .build = blur_build,
                              .forward = blur_forward};

/* The same with weights that are learned: what is added up over positions is said by tile. */
static lk_status learned_build(lk_build *build, const void *options, lk_tensor_type in,
                               lk_tensor_type *out)
{
    lk_config init = {0};
    LK_TRY(lk_descriptor_find(&lk_registry_init, "glorot", &init.descriptor));
    lk_param weight = {.name = "weight",
                       .shape = blur_shape(in.shape),
                       .init = &init,
                       .fan_in = 9,
                       .fan_out = 9,
                       .by_tile = true};
    LK_TRY(lk_build_param(build, &weight));
    LK_TRY(blur_build(build, options, in, out));
    lk_build_summed(build, LK_SUMMED_OUT);
    return LK_OK;
}

static const lk_layer learned = {.descriptor = {.name = "learned", .summary = "a learned blur"},
                                 .reach = LK_REACH_WINDOW,
                                 .build = learned_build,
                                 .forward = blur_forward};

/* A blur that says its windows, and then does not ask for its tile. */
static lk_status forgetful_forward(const lk_pass *pass, const lk_layer_instance *layer, lk_var x,
                                   lk_var *out)
{
    lk_shape in = layer->in.shape;
    lk_conv_attr attr = {.window = blur_window(in.ndim - 1), .groups = in.dim[in.ndim - 1]};
    lk_var w;
    LK_TRY(lk_full(pass->tape, lk_dtype_of(x), blur_shape(in), 0.125, &w));
    return LK_TRACE(lk_conv(x, w, LK_NO_VAR, &attr, out));
}

static const lk_layer forgetful = {.descriptor = {.name = "forgetful", .summary = "a blur"},
                                   .reach = LK_REACH_WINDOW,
                                   .build = blur_build,
                                   .forward = forgetful_forward};

/* The same without windows. */
static const lk_layer modest = {.descriptor = {.name = "modest", .summary = "a blur"},
                                .reach = LK_REACH_WINDOW,
                                .build = same_build,
                                .forward = forgetful_forward};

/* x scaled, by channel, with a parameter; it says nothing of positions. */
static lk_status scale_build(lk_build *build, const void *options, lk_tensor_type in,
                             lk_tensor_type *out)
{
    lk_config zero = {0};
    (void)options;
    LK_TRY(lk_descriptor_find(&lk_registry_init, "constant", &zero.descriptor));
    LK_TRY(lk_build_param(build, &(lk_param){.name = "scale",
                                             .shape = LK_SHAPE(in.shape.dim[in.shape.ndim - 1]),
                                             .init = &zero}));
    *out = in;
    return LK_OK;
}

static lk_status scale_forward(const lk_pass *pass, const lk_layer_instance *layer, lk_var x,
                               lk_var *out)
{
    lk_var more;
    LK_TRY(lk_mul(x, lk_pass_param(pass, layer, 0), &more));
    return LK_TRACE(lk_add(x, more, out));
}

static const lk_layer scale = {.descriptor = {.name = "scale", .summary = "x (1 + scale)"},
                               .build = scale_build,
                               .forward = scale_forward};

/* The same, which says that an element needs no other: its parameter is still that of all positions. */
static const lk_layer scale_each = {.descriptor = {.name = "scale_each", .summary = "as scale"},
                                    .reach = LK_REACH_ELEMENT,
                                    .build = scale_build,
                                    .forward = scale_forward};

RANKS_TEST(layers_of_a_program_run_by_tiles)
{
    static const struct {
        const lk_layer *layer;
        lk_shape shape;
        lk_domain domain;
    } own[] = {
        {&softsign, LK_DIMS(9, 7, 3), LK_BY_TILE}, {&share, LK_DIMS(9, 7, 3), LK_BY_TILE},
        {&blur, LK_DIMS(9, 7, 2), LK_BY_TILE},     {&blur, LK_DIMS(3, 4, 5, 1), LK_BY_TILE},
        {&blur, LK_DIMS(11, 2), LK_BY_TILE},       {&learned, LK_DIMS(9, 7, 2), LK_BY_TILE},
        {&scale, LK_DIMS(9, 7, 3), LK_BY_SAMPLE},  {&scale_each, LK_DIMS(9, 7, 3), LK_BY_SAMPLE},
        {&modest, LK_DIMS(9, 7, 2), LK_BY_SAMPLE}};
    for (int i = 0; has_grid(comm) && i < (int)(sizeof own / sizeof *own); i++) {
        struct net net = net_around(own[i].layer, NULL, own[i].shape, 0, false);
        struct net_result r;
        net_compare(comm, &net, &r);
        ASSERT_EQ(r.domain, own[i].domain);
        ASSERT_EQ(r.before, own[i].domain == LK_BY_TILE ? LK_STAY : LK_TO_SAMPLES);
    }
}

/* Two ranks, which share space or samples, train a net whose blur does not ask. */
static lk_status forgetful_step(lk_comm *comm, void *by_tiles)
{
    struct net net = net_around(&forgetful, NULL, LK_SHAPE(9, 7, 2), 0, false);
    lk_model *model = net_build(&net);
    lk_tensor *value[] = {net_values(net.in, 0, "x"), net_values(lk_model_out(model), 0, "y")};
    lk_dataset_info info = {.name = "t", .n_fields = 2, .field = {{.name = "x"}, {.name = "y"}}};
    lk_dataset *set = NULL;
    lk_loader *loader = NULL;
    lk_trainer *trainer = NULL;
    lk_step_report report;
    ASSERT_OK(lk_dataset_from_tensors(&info, value, &set));
    ASSERT_OK(lk_loader_new(set, "batch=6 shards=2", 1, &loader));
    lk_trainer_spec spec = {.model = model, .train = loader, .comm = comm, .epochs = 1};
    spec.pieces.tile[0] = spec.pieces.tile[1] = 2;
    spec.parallel.spatial.n = *(bool *)by_tiles ? 2 : 0;
    spec.parallel.spatial.item[0] = 1;
    spec.parallel.spatial.item[1] = 2;
    ASSERT_OK(lk_trainer_new(&spec, "loss=mean_squared_error optimizer=sgd", &trainer));
    lk_status st = lk_trainer_step(trainer, &report);
    lk_trainer_free(trainer);
    lk_loader_free(loader);
    lk_dataset_free(set);
    lk_tensor_free(value[0]);
    lk_tensor_free(value[1]);
    lk_model_free(model);
    return LK_TRACE(st);
}

RANKS_TEST(a_window_that_does_not_ask_is_refused)
{
    if (lk_comm_size(comm) > 1 || strcmp(lk_comm_transport(comm), "mpi") == 0)
        return; /* it has ranks of its own */
    ASSERT_FAILS(lk_run_local(2, forgetful_step, &(bool){true}), LK_EINVAL,
                 "layer forgetful1: a forgetful goes over windows (lk_build_window()) and runs by "
                 "tiles here, but its forward did not ask for its tile, so its values at the "
                 "borders of tiles would be wrong: call lk_pass_tile() and compute with "
                 "lk_dist_tile_*(), or leave out lk_build_window(), and it works by samples");
    ASSERT_OK(lk_run_local(2, forgetful_step, &(bool){false}));
}
