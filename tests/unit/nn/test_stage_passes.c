/* Passes over some layers of a model that holds just these, one behind the other, against the pass over all
 * of them: values, gradients, statistics and terms bit for bit. */
#include "faults.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/nn.h>
#include <lockstep/op.h>

enum { SAMPLES = 6, PIECE = 2, LAYERS = 9, TERMS = 1 };

/* Of each kind that a pass asks something of: an input of whole numbers, a parameter that two layers share,
 * random draws, statistics, a term, a list within a layer. */
static const char *const net[LAYERS][2] = {
    {"embedding", "rows=11 units=6 name=words"},
    {"linear", "units=8"},
    {"relu", ""},
    {"dropout", "rate=0.25"},
    {"batch_norm", "statistics=shard"},
    {"residual", "layers=linear(units=8),relu"},
    {"penalty", "of=abs weight=0.5 name=sparse"},
    {"linear", "units=6"},
    {"linear", "units=11 transpose=true tie=words.weight name=head"}};

static lk_model *model_of(const lk_range *layers)
{
    lk_model *m = NULL;
    ASSERT_OK(lk_model_new(&m));
    for (int i = 0; i < LAYERS; i++)
        ASSERT_OK(lk_model_add(m, net[i][0], net[i][1]));
    ASSERT_OK(lk_model_build(m, &(lk_model_spec){.in = {LK_I64, LK_SHAPE(3)}, .seed = 7}));
    ASSERT_OK(lk_model_hold(m, &(lk_holding){.layers = layers}));
    return m;
}

static lk_tensor *x_new(void)
{
    lk_tensor *x = NULL;
    void *data = NULL;
    ASSERT_OK(lk_tensor_zeros(LK_I64, LK_SHAPE(SAMPLES, 3), &x));
    ASSERT_OK(lk_tensor_writable_data(x, &data));
    for (int64_t i = 0; i < SAMPLES * 3; i++)
        ((int64_t *)data)[i] = (i * 7 + 3) % 11;
    return x;
}

/* A stage: its layers, what it has of the model, its tape, and what came out of its pass. */
typedef struct stage {
    lk_range layers;
    lk_model *model;
    lk_accumulator *sums;
    lk_tape *tape;
    lk_tensor *grad; /* of what it takes */
    lk_var out, term;
} stage;

static void forward(stage *s, lk_tensor *x, int64_t recompute)
{
    static const bool counts[TERMS] = {true};
    lk_var in;
    lk_pass_terms terms = {.counts = counts, .leaves = 1, .value = &s->term};
    lk_pass pass = {.tape = s->tape,
                    .accumulator = s->sums,
                    .training = true,
                    .step = 5,
                    .first = 4,
                    .recompute = recompute,
                    .terms = recompute ? NULL : &terms,
                    .layers = s->layers};
    s->term = LK_NO_VAR;
    lk_accumulator_begin(s->sums);
    if (lk_tensor_dtype(x) == LK_I64) {
        ASSERT_OK(lk_constant(s->tape, x, &in));
    } else {
        ASSERT_OK(lk_tensor_zeros(LK_F32, lk_tensor_shape(x), &s->grad));
        ASSERT_OK(lk_leaf(s->tape, x, s->grad, &in));
    }
    ASSERT_OK(lk_model_forward(s->model, &pass, in, &s->out));
}

static void backward(stage *s, lk_tensor *dy)
{
    lk_seed seed[2] = {{s->out, dy}, {s->term, NULL}};
    ASSERT_OK(lk_backward(s->tape, seed, lk_is_var(s->term) ? 2 : 1, 0));
}

static void stage_open(stage *s, lk_range layers)
{
    *s = (stage){.layers = layers, .model = model_of(layers.n > 0 ? &layers : NULL)};
    ASSERT_OK(lk_accumulator_new(s->model, &s->sums));
    ASSERT_OK(lk_tape_new(&s->tape));
    ASSERT_OK(lk_tape_set_shard_size(s->tape, PIECE));
}

static void stage_close(stage *s)
{
    lk_tensor_free(s->grad);
    lk_tape_free(s->tape);
    lk_accumulator_free(s->sums);
    lk_model_free(s->model);
}

/* A value of a stage as a tensor of the next one. */
static lk_tensor *taken(lk_var out)
{
    lk_tensor *copy = NULL;
    const lk_tensor *value = NULL;
    ASSERT_OK(lk_value(out, &value));
    ASSERT_OK(lk_tensor_clone(value, lk_tensor_dtype(value), &copy));
    return copy;
}

static void same_values(const char *what, const lk_tensor *a, const lk_tensor *b)
{
    ASSERT_EQ(lk_tensor_count(a), lk_tensor_count(b));
    if (memcmp(lk_tensor_data(a), lk_tensor_data(b),
               (size_t)lk_tensor_count(a) * lk_dtype_size(lk_tensor_dtype(a))) != 0)
        TEST_FAIL("%s differs", what);
}

/* Whether the gradient of a use of the shared weight, which both ends hold, is not this stage's. */
static bool is_other_use(const stage *s, const char *name)
{
    return (strcmp(name, "words.weight") == 0 && s->layers.first > 0) ||
           (strcmp(name, "head.weight") == 0 && s->layers.first + s->layers.n < LAYERS);
}

/* Every slice that the stage holds is that of the whole; returns how many there are. */
static int same_sums(const stage *part, const stage *whole)
{
    lk_slab *a = lk_accumulator_slab(part->sums), *b = lk_accumulator_slab(whole->sums);
    int held = 0;
    ASSERT_EQ(lk_slab_layout_slices(lk_slab_layout_of(a)),
              lk_slab_layout_slices(lk_slab_layout_of(b)));
    for (int64_t i = 0; i < lk_slab_layout_slices(lk_slab_layout_of(b)); i++) {
        lk_slab_slice p, w;
        ASSERT_OK(lk_slab_layout_slice(lk_slab_layout_of(a), i, &p));
        ASSERT_OK(lk_slab_layout_slice(lk_slab_layout_of(b), i, &w));
        if (p.count == 0 || strcmp(p.name, "loss") == 0 || strcmp(p.name, "terms") == 0 ||
            is_other_use(part, p.name))
            continue;
        held++;
        if (memcmp((char *)lk_slab_data(a) + p.offset, (char *)lk_slab_data(b) + w.offset,
                   (size_t)w.bytes) != 0)
            TEST_FAIL("layers %lld ...: %s differs", (long long)part->layers.first, p.name);
    }
    return held;
}

enum { STAGES = 3 };

/* Two cuts into three stages against none; the shared weight is held on both ends, and each has the gradient
 * of its use. */
static void stages_give_what_the_model_gives(int64_t first, int64_t second, int64_t recompute)
{
    stage whole, part[STAGES];
    lk_tensor *x = x_new(), *at[STAGES + 1] = {x}, *dy = NULL;
    stage_open(&whole, (lk_range){0, 0});
    forward(&whole, x, recompute);
    at[STAGES] = taken(whole.out);
    ASSERT_OK(lk_tensor_clone(at[STAGES], LK_F32, &dy)); /* a gradient like any other */
    backward(&whole, dy);
    const int64_t cut[STAGES + 1] = {0, first, second, LAYERS};
    for (int s = 0; s < STAGES; s++) {
        stage_open(&part[s], (lk_range){cut[s], cut[s + 1] - cut[s]});
        forward(&part[s], at[s], recompute);
        lk_tensor *out = taken(part[s].out);
        if (s == STAGES - 1) {
            same_values("the output", out, at[STAGES]);
            lk_tensor_free(out);
        } else {
            at[s + 1] = out;
        }
    }
    for (int s = STAGES - 1; s >= 0; s--)
        backward(&part[s], s == STAGES - 1 ? dy : part[s + 1].grad);
    int held = 0;
    for (int s = 0; s < STAGES; s++)
        held += same_sums(&part[s], &whole);
    /* Weights and biases of three layers, the shared one of both its uses with a bias, scale and shift, and two
     * statistics: each on one stage. */
    ASSERT_EQ(held, 3 * 2 + 3 + 2 + 2);
    for (int s = 0; s < STAGES; s++)
        stage_close(&part[s]);
    stage_close(&whole);
    for (int s = 0; s <= STAGES; s++)
        lk_tensor_free(at[s]);
    lk_tensor_free(dy);
}

TEST(all_cuts_into_three_stages_give_the_same)
{
    for (int64_t first = 1; first < LAYERS - 1; first++)
        for (int64_t second = first + 1; second < LAYERS; second++)
            stages_give_what_the_model_gives(first, second, 0);
}

TEST(stages_compute_segments_again)
{
    stages_give_what_the_model_gives(3, 7, 4);
}

TEST(a_stage_takes_the_memory_of_its_layers)
{
    stage one;
    lk_alloc_stats before = lk_alloc_stats_now();
    stage_open(&one, (lk_range){2, 2}); /* relu and dropout have no parameters */
    ASSERT_EQ(lk_slab_layout_bytes(lk_slab_layout_of(lk_model_params(one.model))), 0);
    stage_close(&one);
    ASSERT_EQ(lk_alloc_stats_now().live_bytes, before.live_bytes);
}

TEST(a_pass_that_lacks_something_is_refused)
{
    stage s;
    lk_var x, out;
    lk_tensor *ones = NULL;
    stage_open(&s, (lk_range){1, 3});
    ASSERT_OK(lk_tensor_zeros(LK_F32, LK_SHAPE(SAMPLES, 3, 6), &ones));
    ASSERT_OK(lk_constant(s.tape, ones, &x));
    lk_pass pass = {.tape = s.tape, .layers = {1, 5}};
    ASSERT_FAILS(lk_model_forward(s.model, &pass, x, &out), LK_ESTATE, "layer ");
    pass.layers = (lk_range){8, 2};
    ASSERT_FAILS(lk_model_forward(s.model, &pass, x, &out), LK_EINVAL,
                 "2 layers from number 8 on, of a model of 9");
    pass.layers = (lk_range){2, 1};
    ASSERT_FAILS(lk_model_forward(s.model, &pass, x, &out), LK_ESHAPE, "samples of f32[3,8]");
    pass.layers = (lk_range){0, 0};
    ASSERT_FAILS(lk_model_forward(s.model, &pass, x, &out), LK_ESTATE, "lk_model_hold");
    lk_tensor_free(ones);
    stage_close(&s);
}
