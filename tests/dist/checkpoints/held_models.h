/* A model with gates, a wide layer and running statistics, and the slabs of Adam beside it, of which a
 * rank holds some blocks: all tensors are cut.  Parameters are what they begin with, by the seed; each
 * other element has a value of its place in its tensor. */
#ifndef LK_TEST_HELD_MODELS_H
#define LK_TEST_HELD_MODELS_H

#include "harness.h"

#include <lockstep/checkpoint.h>
#include <lockstep/extra/alloc.h>
#include <lockstep/optim.h>

enum { HELD_BLOCKS = 8 };

/* How large: features and units of the recurrent layer, units of the layer behind it. */
typedef struct held_size {
    int64_t narrow, wide;
} held_size;

typedef struct held_model {
    lk_model *model;
    lk_optimizer *adam; /* NULL: none */
    lk_state_tensors *all;
} held_model;

static inline lk_model *held_build(held_size size, int64_t seed)
{
    lk_model *m = NULL;
    char options[64];
    ASSERT_OK(lk_model_new(&m));
    snprintf(options, sizeof options, "units=%lld", (long long)size.narrow);
    ASSERT_OK(lk_model_add(m, "lstm", options));
    snprintf(options, sizeof options, "units=%lld", (long long)size.wide);
    ASSERT_OK(lk_model_add(m, "linear", options));
    ASSERT_OK(lk_model_add(m, "batch_norm", NULL));
    lk_model_spec spec = {.in = {LK_F32, LK_SHAPE(2, size.narrow)},
                          .seed = seed,
                          .pieces = {.blocks = HELD_BLOCKS, .least_block = 1}};
    ASSERT_OK(lk_model_build(m, &spec));
    return m;
}

/* The blocks of rank `rank` of `size`. */
static inline lk_range held_blocks(int rank, int size)
{
    int64_t first[HELD_BLOCKS + 1];
    lk_subtree_partition(HELD_BLOCKS, size, first);
    return (lk_range){first[rank], first[rank + 1] - first[rank]};
}

static inline float held_value(const char *name, int64_t place)
{
    uint64_t h = (uint64_t)place * 2654435761u;
    for (; *name; name++)
        h = h * 31 + (unsigned char)*name;
    return (float)(h % 16777213);
}

/* Whether a tensor's values are drawn, and not those of places. */
static inline bool held_is_drawn(const held_model *h, int64_t i)
{
    return i < lk_slab_layout_slices(lk_slab_layout_of(lk_model_params(h->model)));
}

static inline void held_fill(const held_model *h)
{
    for (int64_t i = 0; i < h->all->n; i++) {
        const lk_state_tensor *t = &h->all->tensor[i];
        if (held_is_drawn(h, i))
            continue;
        lk_box_walk walk = lk_box_start(t->box, t->box_of->dim);
        while (lk_box_next(&walk))
            for (int64_t k = 0; k < walk.n; k++)
                ((float *)t->data)[walk.at + k] = held_value(t->name, walk.place + k);
    }
}

/* Hold these blocks; with `adam`, the optimizer's slabs too. */
static inline held_model held_make(held_size size, int64_t seed, lk_range blocks, bool adam)
{
    held_model h = {.model = held_build(size, seed)};
    const lk_slab *slab;
    const char *name;
    ASSERT_OK(lk_model_hold(h.model, &(lk_holding){.blocks = &blocks}));
    ASSERT_OK(lk_state_tensors_new(&h.all));
    ASSERT_OK(lk_state_tensors_add_model(h.all, h.model));
    if (adam) {
        ASSERT_OK(lk_optimizer_new(lk_model_params(h.model), "adam", NULL, &h.adam));
        for (int i = 0; (slab = lk_optimizer_slab(h.adam, i, &name)); i++) {
            char prefix[64];
            snprintf(prefix, sizeof prefix, "optimizer.%s.", name);
            ASSERT_OK(lk_state_tensors_add_slab(h.all, prefix, slab));
        }
    }
    held_fill(&h);
    return h;
}

static inline void held_free(held_model *h)
{
    lk_state_tensors_free(h->all);
    lk_optimizer_free(h->adam);
    lk_model_free(h->model);
}

static inline uint64_t held_hash(lk_comm *comm, const held_model *h)
{
    lk_hash hash = lk_hash_start();
    ASSERT_OK(lk_state_hash(comm, h->all->tensor, h->all->n, &hash));
    return lk_hash_value(&hash);
}

/* The hash of the whole, as one process has it that holds all. */
static inline uint64_t held_hash_of_whole(held_size size, int64_t seed, bool adam)
{
    held_model h = held_make(size, seed, (lk_range){0, HELD_BLOCKS}, adam);
    lk_hash hash = lk_hash_start();
    for (int64_t i = 0; i < h.all->n; i++) {
        const lk_state_tensor *t = &h.all->tensor[i];
        ASSERT_OK(
            lk_hash_add_array(&hash, t->name, t->dtype, t->shape.ndim, t->shape.dim, t->data));
    }
    held_free(&h);
    return lk_hash_value(&hash);
}

/* The same, block by block: no more than one is ever held. */
static inline uint64_t held_hash_by_blocks(held_size size, int64_t seed, bool adam)
{
    enum { MOST = 64 };
    uint64_t sum[MOST] = {0};
    lk_hash hash = lk_hash_start();
    for (int64_t b = 0; b < HELD_BLOCKS; b++) {
        held_model h = held_make(size, seed, (lk_range){b, 1}, adam);
        ASSERT_TRUE(h.all->n <= MOST);
        for (int64_t i = 0; i < h.all->n; i++) {
            const lk_state_tensor *t = &h.all->tensor[i];
            ASSERT_EQ(lk_box_count(t->box) * HELD_BLOCKS,
                      t->shape.dim[0] * (t->shape.ndim > 1 ? t->shape.dim[1] : 1));
            lk_box_walk walk = lk_box_start(t->box, t->box_of->dim);
            while (lk_box_next(&walk))
                sum[i] += lk_hash_sum(t->dtype, walk.n, (const float *)t->data + walk.at,
                                      walk.place);
            if (b == HELD_BLOCKS - 1)
                lk_hash_add_tensor(&hash, t->name, t->dtype, t->shape.ndim, t->shape.dim, sum[i]);
        }
        held_free(&h);
    }
    return lk_hash_value(&hash);
}

/* Each element is what held_make() gives it. */
static inline void held_expect(const held_model *h, held_size size, int64_t seed, lk_range blocks)
{
    held_model want = held_make(size, seed, blocks, false);
    for (int64_t i = 0; i < h->all->n; i++) {
        const lk_state_tensor *t = &h->all->tensor[i];
        size_t bytes = (size_t)lk_box_count(t->box) * sizeof(float);
        if (i < want.all->n) {
            ASSERT_SAME_BITS(t->data, want.all->tensor[i].data, bytes);
            continue;
        }
        lk_box_walk walk = lk_box_start(t->box, t->box_of->dim);
        while (lk_box_next(&walk))
            for (int64_t k = 0; k < walk.n; k++) {
                float value = held_value(t->name, walk.place + k);
                ASSERT_SAME_BITS((const float *)t->data + walk.at + k, &value, sizeof value);
            }
    }
    held_free(&want);
}

#endif /* LK_TEST_HELD_MODELS_H */
