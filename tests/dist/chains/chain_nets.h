/* A network of two components to train, as a chain list over the ranks and as a model of one process.
 *
 *     first rank: front, tail (a function that gives what it gets)     last rank: back
 *
 * The first rank has the data and the output, the others an empty set, those in the middle no component.  On
 * one rank all components are its own.
 */
#ifndef LK_TEST_CHAIN_NETS_H
#define LK_TEST_CHAIN_NETS_H

#include "ranks.h"
#include "reuse_layer.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/lockstep.h>

enum { NET_LAYERS = 6, NET_SAMPLES = 50, NET_STEPS = 3, NET_FEATURES = 6, NET_CLASSES = 3 };

/* What each component is, and how it is trained. */
struct chain_net {
    const char *front[NET_LAYERS][2], *back[NET_LAYERS][2];
    const char *options; /* of the trainer, besides loss and metrics */
};

/* A rank's part. */
struct chain_side {
    lk_comm *comm;
    lk_model *front, *back; /* on all ranks, so that all can compare; a chain has one or both */
    lk_dataset *set;        /* all samples, on every rank */
    lk_loader *loader;      /* what the rank trains with: of the set, or empty */
    lk_chain *chain;
    lk_trainer *trainer;
};

static inline bool side_is_first(const struct chain_side *s)
{
    return lk_comm_rank(s->comm) == 0;
}

static inline bool side_is_last(const struct chain_side *s)
{
    return lk_comm_rank(s->comm) == lk_comm_size(s->comm) - 1;
}

static inline void layers_add(lk_model *m, const char *const layer[NET_LAYERS][2])
{
    for (int i = 0; i < NET_LAYERS && layer[i][0]; i++)
        if (strcmp(layer[i][0], twice.descriptor.name) == 0)
            twice_add(m);
        else
            ASSERT_OK(lk_model_add(m, layer[i][0], layer[i][1]));
}

static inline lk_tensor_type net_in(void)
{
    return (lk_tensor_type){LK_F32, LK_SHAPE(NET_STEPS, NET_FEATURES)};
}

static inline lk_model *component_new(const char *const layer[NET_LAYERS][2], lk_tensor_type in,
                                      int64_t seed)
{
    lk_model *m;
    ASSERT_OK(lk_model_new(&m));
    layers_add(m, layer);
    ASSERT_OK(lk_model_build(m, &(lk_model_spec){.in = in, .seed = seed}));
    ASSERT_OK(lk_model_hold(m, NULL));
    return m;
}

/* Samples that depend on their number alone. */
static inline lk_dataset *net_set(void)
{
    lk_tensor *tensor[2];
    lk_dataset *set;
    void *x, *y;
    ASSERT_OK(lk_tensor_new(LK_F32, LK_SHAPE(NET_SAMPLES, NET_STEPS, NET_FEATURES), &tensor[0]));
    ASSERT_OK(lk_tensor_new(LK_I64, LK_SHAPE(NET_SAMPLES), &tensor[1]));
    ASSERT_OK(lk_tensor_writable_data(tensor[0], &x));
    ASSERT_OK(lk_tensor_writable_data(tensor[1], &y));
    ASSERT_OK(lk_rng_uniform_f32(lk_rng_start(3, "net", "x"), (lk_rng_at){0},
                                 lk_tensor_count(tensor[0]), x));
    for (int64_t i = 0; i < NET_SAMPLES; i++)
        ((int64_t *)y)[i] = (int64_t)(((float *)x)[i * NET_STEPS * NET_FEATURES] * NET_CLASSES);
    ASSERT_OK(lk_dataset_from_tensors(&(lk_dataset_info){.name = "net",
                                                         .classes = NET_CLASSES,
                                                         .n_fields = 2,
                                                         .field = {{.name = "x"}, {.name = "y"}}},
                                      tensor, &set));
    lk_tensor_free(tensor[0]);
    lk_tensor_free(tensor[1]);
    return set;
}

static inline lk_status tail(const lk_pass *pass, void *arg, const lk_list *in, int n_in,
                             lk_list *out)
{
    (void)pass, (void)arg, (void)n_in;
    out->at[0] = in[0].at[0];
    out->n = 1;
    return LK_OK;
}

static inline lk_chain *side_chain(const struct chain_side *s)
{
    int first = 0, last = lk_comm_size(s->comm) - 1;
    lk_chain *chain;
    ASSERT_OK(lk_chain_new(s->comm, &chain));
    if (side_is_first(s))
        ASSERT_OK(lk_chain_add(chain, &(lk_component){.name = "front", .model = s->front}, NULL, 0,
                               &last, 1));
    if (side_is_last(s))
        ASSERT_OK(lk_chain_add(chain, &(lk_component){.name = "back", .model = s->back}, &first, 1,
                               &first, 1));
    if (side_is_first(s))
        ASSERT_OK(
            lk_chain_add(chain, &(lk_component){.name = "tail", .fn = tail}, &last, 1, NULL, 0));
    ASSERT_OK(lk_chain_build(chain, NULL, 0));
    return chain;
}

/* A loader of this set, or on ranks without data of an empty one. */
static inline lk_loader *side_loader(const struct chain_side *s, lk_dataset *set)
{
    lk_dataset *mine = NULL;
    lk_loader *loader;
    if (side_is_first(s))
        mine = lk_dataset_retain(set);
    else
        ASSERT_OK(lk_dataset_new_empty_like(set, &mine));
    ASSERT_OK(lk_loader_new(mine, "batch=16 shards=4 shuffle=true", 5, &loader));
    lk_dataset_free(mine);
    return loader;
}

static inline void options_of(const struct chain_net *net, char *out, size_t size)
{
    snprintf(out, size, "loss=softmax_cross_entropy metrics=accuracy,confusion,dice %s",
             net->options);
}

static inline void side_begin(const struct chain_net *net, lk_comm *comm, struct chain_side *s)
{
    char options[256];
    *s = (struct chain_side){.comm = comm, .set = net_set()};
    s->front = component_new(net->front, net_in(), 11);
    s->back = component_new(net->back, lk_model_out(s->front), 12);
    s->chain = side_chain(s);
    s->loader = side_loader(s, s->set);
    options_of(net, options, sizeof options);
    ASSERT_OK(lk_trainer_new(
        &(lk_trainer_spec){.chain = s->chain, .train = s->loader, .epochs = 3, .comm = comm},
        options, &s->trainer));
}

static inline void side_end(struct chain_side *s)
{
    lk_trainer_free(s->trainer);
    lk_loader_free(s->loader);
    lk_chain_free(s->chain);
    lk_dataset_free(s->set);
    lk_model_free(s->front);
    lk_model_free(s->back);
}

#endif /* LK_TEST_CHAIN_NETS_H */
