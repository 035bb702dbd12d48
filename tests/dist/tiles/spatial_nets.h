/* Small nets for tests of layers by tiles: a layer between two others, trained some steps on values of the
 * test's own, on one rank or on a grid of ranks; what it comes to is compared byte by byte. */
#ifndef LK_TESTS_SPATIAL_NETS_H
#define LK_TESTS_SPATIAL_NETS_H

#include "drawn.h"
#include "ranks.h"

#include <lockstep/extra/plan.h>
#include <lockstep/extra/trainer_plan.h>
#include <lockstep/train.h>

enum { NET_LAYERS = 8, NET_STEPS = 3, NET_BATCH = 6, NET_SAMPLES = 15, NET_VALUES = 4096 };

/* A net: its input and its layers, of the registry or of a test.  `at` is the one that is looked at. */
struct net {
    lk_tensor_type in;
    int64_t below; /* not 0: whole numbers from 0 on below this */
    struct net_layer {
        const lk_layer *layer;
        char options[512]; /* "": none */
    } layer[NET_LAYERS];
    int n, at;
    bool data; /* four ranks are two groups, which share the samples */
};

static inline const lk_layer *net_layer_of(const char *type)
{
    for (int i = 0; lk_layers[i]; i++)
        if (strcmp(lk_layers[i]->descriptor.name, type) == 0)
            return lk_layers[i];
    TEST_FAIL("there is no layer %s", type);
}

static inline void net_add(struct net *net, const lk_layer *layer, const char *options)
{
    ASSERT_TRUE(net->n < NET_LAYERS);
    struct net_layer *l = &net->layer[net->n++];
    l->layer = layer;
    int n = snprintf(l->options, sizeof l->options, "%s", options ? options : "");
    ASSERT_TRUE(n >= 0 && n < (int)sizeof l->options);
}

static inline lk_model *net_build(const struct net *net)
{
    lk_model *model = NULL;
    ASSERT_OK(lk_model_new(&model));
    for (int i = 0; i < net->n; i++) {
        const struct net_layer *l = &net->layer[i];
        if (l->layer->samples) /* of the registry: all have them */
            ASSERT_OK(lk_model_add(model, l->layer->descriptor.name, l->options));
        else
            ASSERT_OK(
                lk_model_add_config(model, &(lk_config){.descriptor = &l->layer->descriptor}));
    }
    ASSERT_OK(lk_model_build(model, &(lk_model_spec){.in = net->in, .seed = 5}));
    return model;
}

/* What comes out of a net as it is. */
static inline lk_tensor_type net_out(const struct net *net)
{
    lk_model *model = net_build(net);
    lk_tensor_type out = lk_model_out(model);
    lk_model_free(model);
    return out;
}

/* How a net is cut: tiles, and ranks along each of these axes. */
struct net_grid {
    int ndim;
    int64_t tiles[3], ranks[3];
};

/* What a training came to. */
struct net_result {
    double loss[NET_STEPS + 1]; /* of the steps, then of all samples */
    uint64_t state;
    int64_t bytes;
    char value[NET_VALUES]; /* losses, parameters, the model's state */
    lk_domain domain;       /* of the layer that is looked at */
    lk_change before, after;
};

static inline lk_tensor *net_values(lk_tensor_type type, int64_t below, const char *purpose)
{
    return test_drawn(lk_rng_start(3, "test", purpose), LK_F32, test_batch(NET_SAMPLES, type.shape),
                      type.dtype == LK_I64 ? below : 0);
}

static inline void net_take(const lk_slab *slab, struct net_result *r)
{
    lk_slab_layout *layout = lk_slab_layout_of(slab);
    for (int64_t i = 0; i < lk_slab_layout_slices(layout); i++) {
        lk_slab_slice slice;
        ASSERT_OK(lk_slab_layout_slice(layout, i, &slice));
        ASSERT_TRUE(r->bytes + slice.bytes <= NET_VALUES);
        memcpy(r->value + r->bytes, (const char *)lk_slab_data(slab) + slice.offset,
               (size_t)slice.bytes);
        r->bytes += slice.bytes;
    }
}

/* Layer number net->at of the list, among those of the plan. */
static inline void net_look(const struct net *net, const lk_plan *plan, struct net_result *r)
{
    int at = -1;
    for (int64_t i = 0; i < plan->n_layers; i++)
        if (plan->layer[i].depth == 0 && ++at == net->at) {
            r->domain = plan->layer[i].domain;
            r->before = plan->part ? plan->part[i].before : LK_STAY;
            r->after = plan->part ? plan->part[i].after : LK_STAY;
        }
    ASSERT_TRUE(at >= net->at);
}

/* Whether a rank holds all of each tensor. */
static inline bool is_whole(const lk_slab *slab)
{
    lk_slab_layout *layout = lk_slab_layout_of(slab);
    bool whole = true;
    for (int64_t i = 0; i < lk_slab_layout_slices(layout); i++) {
        lk_slab_slice slice;
        ASSERT_OK(lk_slab_layout_slice(layout, i, &slice));
        lk_box all = lk_box_whole(slice.box_of.ndim, slice.box_of.dim);
        whole = whole && lk_box_is_equal(&all, &slice.box);
    }
    return whole;
}

/* Train the net; `comm` NULL: this rank alone, whatever the grid says of ranks. */
static inline struct net_result net_train(const struct net *net, lk_comm *comm,
                                          const struct net_grid *grid)
{
    struct net_result r;
    memset(&r, 0, sizeof r);
    lk_model *model = net_build(net);
    lk_tensor *value[] = {net_values(net->in, net->below, "x"),
                          net_values(lk_model_out(model), 0, "y")};
    lk_dataset_info info = {.name = "t", .n_fields = 2, .field = {{.name = "x"}, {.name = "y"}}};
    lk_loader_options options = {
        .batch = NET_BATCH, .shards = 3, .scale = 1, .indices = net->below};
    lk_dataset *set = NULL;
    lk_loader *loader = NULL, *test = NULL;
    lk_eval score;
    lk_trainer *trainer = NULL;
    ASSERT_OK(lk_dataset_from_tensors(&info, value, &set));
    ASSERT_OK(lk_loader_new_options(set, &options, 1, &loader));
    ASSERT_OK(lk_loader_new_options(set, &options, 1, &test));
    lk_trainer_spec spec = {.model = model, .train = loader, .comm = comm, .epochs = 1};
    for (int d = 0; d < grid->ndim; d++) {
        spec.pieces.tile[d] = grid->tiles[d];
        spec.parallel.spatial.item[d] = grid->ranks[d];
    }
    spec.parallel.spatial.n = comm ? grid->ndim : 0;
    ASSERT_OK(lk_trainer_new(&spec, "loss=mean_squared_error optimizer=adam(rate=0.05)", &trainer));
    net_look(net, lk_trainer_plan(trainer), &r);
    for (int i = 0; i < NET_STEPS; i++) {
        lk_step_report report;
        ASSERT_OK(lk_trainer_step(trainer, &report));
        r.loss[i] = report.loss;
    }
    ASSERT_OK(lk_trainer_evaluate(trainer, test, &score));
    r.loss[NET_STEPS] = score.loss;
    memcpy(r.value, r.loss, sizeof r.loss);
    r.bytes = sizeof r.loss;
    ASSERT_OK(lk_trainer_hash(trainer, &r.state));
    if (is_whole(lk_model_params(model))) { /* of others the state's hash must do */
        net_take(lk_model_params(model), &r);
        net_take(lk_model_state(model), &r);
    }
    lk_trainer_free(trainer);
    lk_loader_free(loader);
    lk_loader_free(test);
    lk_dataset_free(set);
    lk_tensor_free(value[0]);
    lk_tensor_free(value[1]);
    lk_model_free(model);
    return r;
}

/* The grid of as many ranks for a net whose input has some axes; false: there is none. */
static inline bool net_grid_of(int axes, int ranks, struct net_grid *out)
{
    *out = (struct net_grid){.ndim = axes < 2 ? 1 : 2, .tiles = {4, 3}, .ranks = {ranks, 1}};
    if (out->ndim == 2 && ranks == 3)
        out->ranks[0] = 1, out->ranks[1] = 3;
    if (out->ndim == 2 && ranks == 4)
        out->ranks[0] = out->ranks[1] = 2;
    return axes >= 1 && ranks <= 4;
}

/* Train alone and on all ranks, which must come to the same; *out is what the ranks came to. */
static inline void net_compare(lk_comm *comm, const struct net *net, struct net_result *out)
{
    struct net_grid grid;
    int ranks = lk_comm_size(comm);
    if (net->data && ranks == 4)
        ranks = 2;
    ASSERT_TRUE(net_grid_of(net->in.shape.ndim - 1, ranks, &grid));
    struct net_result alone = net_train(net, NULL, &grid);
    *out = net_train(net, comm, &grid);
    if (alone.bytes == sizeof alone.loss || alone.loss[NET_STEPS - 1] == alone.loss[0] ||
        !(alone.loss[0] == alone.loss[0]))
        TEST_FAIL("nothing was trained: losses %.17g %.17g", alone.loss[0],
                  alone.loss[NET_STEPS - 1]);
    int64_t bytes = out->bytes < alone.bytes ? out->bytes : alone.bytes;
    if (alone.state != out->state || memcmp(alone.value, out->value, (size_t)bytes) != 0)
        TEST_FAIL("%s %s on %d ranks: losses %.17g %.17g, alone %.17g %.17g",
                  net->layer[net->at].layer->descriptor.name, net->layer[net->at].options,
                  lk_comm_size(comm), out->loss[0], out->loss[NET_STEPS - 1], alone.loss[0],
                  alone.loss[NET_STEPS - 1]);
}

#endif /* LK_TESTS_SPATIAL_NETS_H */
