/* Chain lists that a trainer trains: bits of the same network in one process, ranks without data, and what
 * is refused. */
#include "base/memory/alloc_fault.h"
#include "chain_nets.h"
#include "scarce_ranks.h"

#include <math.h>

static const struct chain_net nets[] = {
    {.front = {{"flatten"}, {"linear", "units=16"}, {"relu"}},
     .back = {{"linear", "units=16"}, {"relu"}, {"linear", "units=3"}},
     .options = "optimizer=sgd(rate=0.1 momentum=0.9)"},
    {.front = {{"flatten"}, {"linear", "units=16"}, {"relu"}},
     .back = {{"linear", "units=16"}, {"relu"}, {"linear", "units=3"}},
     .options = "optimizer=adam(rate=0.01 clip_norm=0.05)"},
    {.front = {{"flatten"}, {"linear", "units=8"}, {"tanh"}},
     .back = {{"linear", "units=3"}},
     .options = "optimizer=lbfgs(rate=0.1 history=3)"},
    {.front = {{"flatten"}, {"linear", "units=16"}, {"batch_norm"}, {"relu"}},
     .back = {{"linear", "units=8"}, {"batch_norm", "statistics=batch"}, {"linear", "units=3"}},
     .options = "optimizer=adam(rate=0.01)"},
    {.front = {{"lstm", "units=8"}},
     .back = {{"linear", "units=8 name=a"},
              {"tanh"},
              {"linear", "units=8 tie=a.weight name=b"},
              {"linear", "units=3"}},
     .options = "optimizer=sgd(rate=0.1)"},
    {.front = {{"flatten"}, {"twice"}},
     .back = {{"twice"}, {"linear", "units=3"}},
     .options = "optimizer=sgd(rate=0.1)"}};

enum { N_NETS = sizeof nets / sizeof nets[0] };

/* ---- one process ---- */

/* The same as one model, with the components' parameters to begin with. */
struct one {
    lk_model *model;
    lk_loader *loader;
    lk_trainer *trainer;
};

static void slab_copy(const lk_slab *from, lk_slab *to, int64_t *at)
{
    for (int64_t i = 0; i < lk_slab_layout_slices(lk_slab_layout_of(from)); i++, ++*at) {
        lk_tensor *a, *b;
        ASSERT_OK(lk_slab_tensor(from, i, &a));
        ASSERT_OK(lk_slab_tensor(to, *at, &b));
        ASSERT_OK(lk_tensor_copy(a, b));
        lk_tensor_free(a);
        lk_tensor_free(b);
    }
}

static void one_begin(const struct chain_net *net, const struct chain_side *s, struct one *one)
{
    char options[256];
    int64_t at = 0;
    options_of(net, options, sizeof options);
    ASSERT_OK(lk_model_new(&one->model));
    layers_add(one->model, net->front);
    layers_add(one->model, net->back);
    ASSERT_OK(lk_model_build(one->model, &(lk_model_spec){.in = net_in(), .seed = 1}));
    ASSERT_OK(lk_model_hold(one->model, NULL));
    slab_copy(lk_model_params(s->front), lk_model_params(one->model), &at);
    slab_copy(lk_model_params(s->back), lk_model_params(one->model), &at);
    ASSERT_OK(lk_loader_new(s->set, "batch=16 shards=4 shuffle=true", 5, &one->loader));
    ASSERT_OK(
        lk_trainer_new(&(lk_trainer_spec){.model = one->model, .train = one->loader, .epochs = 3},
                       options, &one->trainer));
}

static void one_end(struct one *one)
{
    lk_trainer_free(one->trainer);
    lk_loader_free(one->loader);
    lk_model_free(one->model);
}

/* The slices of `part` have the bits of those of `whole` from number *at on. */
static void expect_slices(const lk_slab *part, const lk_slab *whole, int64_t *at, bool here)
{
    for (int64_t i = 0; i < lk_slab_layout_slices(lk_slab_layout_of(part)); i++, ++*at) {
        lk_slab_slice a, b;
        ASSERT_OK(lk_slab_layout_slice(lk_slab_layout_of(part), i, &a));
        ASSERT_OK(lk_slab_layout_slice(lk_slab_layout_of(whole), *at, &b));
        ASSERT_EQ(a.bytes, b.bytes);
        if (here && memcmp((char *)lk_slab_data(part) + a.offset,
                           (char *)lk_slab_data(whole) + b.offset, (size_t)a.bytes) != 0)
            TEST_FAIL("%s differs from %s of one process", a.name, b.name);
    }
}

static void expect_same(const struct chain_side *s, const struct one *one)
{
    int64_t params = 0, state = 0;
    expect_slices(lk_model_params(s->front), lk_model_params(one->model), &params,
                  side_is_first(s));
    expect_slices(lk_model_params(s->back), lk_model_params(one->model), &params, side_is_last(s));
    expect_slices(lk_model_state(s->front), lk_model_state(one->model), &state, side_is_first(s));
    expect_slices(lk_model_state(s->back), lk_model_state(one->model), &state, side_is_last(s));
}

static void expect_same_eval(const lk_eval *a, const lk_eval *b)
{
    ASSERT_EQ(a->samples, b->samples);
    ASSERT_SAME_BITS(&a->loss, &b->loss, sizeof a->loss);
    ASSERT_SAME_BITS(&a->value[0], &b->value[0], sizeof a->value[0]);
    ASSERT_SAME_BITS(&a->value[2], &b->value[2], sizeof a->value[2]);
    ASSERT_TRUE(strcmp(a->json[1], b->json[1]) == 0);
}

/* ---- the same bits ---- */

static int steps_of(void)
{
    return test_whole() ? 100 : 10; /* an epoch has 4, the last of them of 2 samples */
}

static void steps_compare(const struct chain_net *net, lk_comm *comm)
{
    struct chain_side s;
    struct one one;
    lk_eval a, b;
    side_begin(net, comm, &s);
    one_begin(net, &s, &one);
    for (int i = 0; i < steps_of(); i++) {
        lk_step_report chain, model;
        ASSERT_OK(lk_trainer_step(s.trainer, &chain));
        ASSERT_OK(lk_trainer_step(one.trainer, &model));
        ASSERT_SAME_BITS(&chain.loss, &model.loss, sizeof chain.loss);
        ASSERT_SAME_BITS(&chain.norm, &model.norm, sizeof chain.norm);
    }
    expect_same(&s, &one);
    ASSERT_OK(lk_trainer_train_metrics(s.trainer, &a));
    ASSERT_OK(lk_trainer_train_metrics(one.trainer, &b));
    expect_same_eval(&a, &b);
    ASSERT_OK(lk_trainer_evaluate(s.trainer, s.loader, &a));
    ASSERT_OK(lk_trainer_evaluate(one.trainer, one.loader, &b));
    expect_same_eval(&a, &b);
    one_end(&one);
    side_end(&s);
}

RANKS_TEST(a_chain_trains_with_the_bits_of_one_process)
{
    for (int i = 0; i < N_NETS; i++)
        steps_compare(&nets[i], comm);
}

RANKS_TEST(all_ranks_have_the_state_of_all)
{
    struct chain_side s;
    uint64_t before, after, again, least, most;
    side_begin(&nets[3], comm, &s); /* which has running statistics */
    ASSERT_OK(lk_trainer_hash(s.trainer, &before));
    ASSERT_OK(lk_trainer_step(s.trainer, NULL));
    ASSERT_OK(lk_trainer_hash(s.trainer, &after));
    ASSERT_TRUE(before != after);
    least = most = after;
    ASSERT_OK(lk_allreduce(comm, NULL, &least, 1, LK_I64, LK_REDUCE_MIN, "least"));
    ASSERT_OK(lk_allreduce(comm, NULL, &most, 1, LK_I64, LK_REDUCE_MAX, "most"));
    ASSERT_TRUE(least == most);
    if (side_is_last(&s)) /* a bit of one rank's parameter is in the hash of all */
        *(unsigned char *)lk_slab_data(lk_model_params(s.back)) ^= 1;
    ASSERT_OK(lk_trainer_hash(s.trainer, &again));
    ASSERT_TRUE(again != after);
    side_end(&s);
}

/* When the trainer is freed the models have what it has learned, in memory of their own. */
RANKS_TEST(models_keep_what_they_have_learned)
{
    struct chain_side s;
    struct one one;
    side_begin(&nets[0], comm, &s);
    one_begin(&nets[0], &s, &one);
    ASSERT_OK(lk_trainer_step(s.trainer, NULL));
    ASSERT_OK(lk_trainer_step(one.trainer, NULL));
    lk_trainer_free(s.trainer);
    s.trainer = NULL;
    expect_same(&s, &one);
    one_end(&one);
    side_end(&s);
}

RANKS_TEST(steps_allocate_nothing)
{
    struct chain_side s;
    int64_t calls = 0;
    if (lk_comm_size(comm) > 1)
        return;
    side_begin(&nets[0], comm, &s);
    for (int i = 0; i < 12; i++) {
        if (i == 8)
            calls = lk_alloc_stats_now().calls;
        ASSERT_OK(lk_trainer_step(s.trainer, NULL));
    }
    ASSERT_EQ(lk_alloc_stats_now().calls, calls);
    side_end(&s);
}

/* ---- several outputs ---- */

/* Each rank has a model and an output of its own: their losses add up. */
RANKS_TEST(the_losses_of_all_outputs_add_up)
{
    struct chain_side s = {.comm = comm, .set = net_set()};
    lk_step_report all, own;
    double sum;
    lk_trainer *alone;
    char options[256];
    s.front = component_new(nets[0].front, net_in(), 20 + lk_comm_rank(comm));
    options_of(&nets[0], options, sizeof options);
    ASSERT_OK(lk_chain_new(comm, &s.chain));
    ASSERT_OK(
        lk_chain_add(s.chain, &(lk_component){.name = "own", .model = s.front}, NULL, 0, NULL, 0));
    ASSERT_OK(lk_chain_build(s.chain, NULL, 0));
    ASSERT_OK(lk_loader_new(s.set, "batch=16 shards=4", 5, &s.loader));
    s.back = component_new(nets[0].front, net_in(), 20 + lk_comm_rank(comm)); /* its twin */
    lk_trainer_spec spec = {.model = s.back, .train = s.loader};
    ASSERT_OK(lk_trainer_new(&spec, options, &alone));
    lk_eval eval;
    ASSERT_OK(lk_trainer_evaluate(alone, s.loader, &eval));
    ASSERT_OK(lk_trainer_step(alone, &own));
    lk_trainer_free(alone);
    spec = (lk_trainer_spec){.chain = s.chain, .train = s.loader};
    ASSERT_OK(lk_trainer_new(&spec, options, &s.trainer));
    lk_eval joined;
    ASSERT_OK(lk_trainer_evaluate(s.trainer, s.loader, &joined));
    ASSERT_OK(lk_trainer_step(s.trainer, &all));
    sum = own.loss;
    ASSERT_OK(lk_allreduce(comm, NULL, &sum, 1, LK_F64, LK_REDUCE_SUM, "losses"));
    ASSERT_NEAR(all.loss, sum, 1e-12 * sum);
    sum = eval.loss;
    ASSERT_OK(lk_allreduce(comm, NULL, &sum, 1, LK_F64, LK_REDUCE_SUM, "losses"));
    ASSERT_NEAR(joined.loss, sum, 1e-12 * sum);
    sum = eval.value[0];
    ASSERT_OK(lk_allreduce(comm, NULL, &sum, 1, LK_F64, LK_REDUCE_SUM, "accuracies"));
    ASSERT_NEAR(joined.value[0], sum / lk_comm_size(comm), 1e-12);
    lk_trainer_free(
        s.trainer); /* the next begins with a later step, from which its schedule counts */
    spec.first = 8;
    spec.epochs = 2;
    ASSERT_OK(lk_trainer_new(
        &spec, "loss=softmax_cross_entropy optimizer=sgd(rate=0.5 schedule=cosine)", &s.trainer));
    ASSERT_OK(lk_trainer_step(s.trainer, &all));
    ASSERT_EQ(all.step, 8);
    ASSERT_EQ(all.rate == 0.5, true);
    side_end(&s);
}

/* ---- refused ---- */

static void expect_refused(const lk_trainer_spec *spec, const char *options, lk_status status,
                           const char *text)
{
    lk_trainer *t = NULL;
    ASSERT_FAILS(lk_trainer_new(spec, options, &t), status, text);
    ASSERT_TRUE(!t);
}

RANKS_TEST(what_cannot_be_trained_is_refused_on_all_ranks)
{
    static const char plain[] = "loss=softmax_cross_entropy optimizer=sgd";
    struct chain_side s;
    lk_loader *other;
    lk_dataset *empty;
    side_begin(&nets[0], comm, &s);
    lk_trainer_free(s.trainer);
    s.trainer = NULL;
    ASSERT_OK(lk_dataset_new_empty_like(s.set, &empty));
    ASSERT_OK(lk_loader_new(empty, "batch=16 shards=4", 5, &other));
    expect_refused(&(lk_trainer_spec){.train = s.loader}, plain, LK_EINVAL, "is not given");
    expect_refused(
        &(lk_trainer_spec){.chain = s.chain, .model = s.front, .train = s.loader, .comm = comm},
        plain, LK_EINVAL, "both a model and a chain");
    expect_refused(&(lk_trainer_spec){.chain = s.chain,
                                      .train = s.loader,
                                      .parallel = {.mode = LK_REDUCTION_FAST}},
                   plain, LK_ENOTSUP, "leave `parallel` out");
    expect_refused(
        &(lk_trainer_spec){.chain = s.chain, .train = s.loader, .pieces = {.tile = {2, 1, 1}}},
        plain, LK_ENOTSUP, "a chain is not cut into tiles");
    lk_loader_free(other);
    ASSERT_OK(lk_loader_new(empty, side_is_last(&s) ? "batch=8" : "batch=16", 5, &other));
    if (lk_comm_size(comm) > 1)
        expect_refused(
            &(lk_trainer_spec){.chain = s.chain, .train = side_is_first(&s) ? s.loader : other},
            plain, LK_ESTATE, "batches of 16 samples on rank 0 and of 8 on rank");
    lk_loader_free(other);
    lk_dataset_free(empty);
    side_end(&s);
}

/* Other options on the last rank than on the others. */
RANKS_TEST(options_that_differ_are_refused)
{
    struct chain_side s;
    lk_loader *other;
    lk_dataset *empty;
    if (lk_comm_size(comm) < 2)
        return;
    side_begin(&nets[0], comm, &s);
    lk_trainer_free(s.trainer);
    s.trainer = NULL;
    ASSERT_OK(lk_dataset_new_empty_like(s.set, &empty));
    ASSERT_OK(lk_loader_new(empty,
                            side_is_last(&s) ? "batch=16 shards=4 shuffle=false"
                                             : "batch=16 shards=4 shuffle=true",
                            5, &other));
    const lk_trainer_spec spec = {.chain = s.chain, .train = side_is_first(&s) ? s.loader : other};
    expect_refused(&spec, "loss=softmax_cross_entropy optimizer=sgd", LK_ESTATE,
                   "shuffle of the loader is 1 on rank 0 and 0 on rank");
    lk_loader_free(other);
    lk_dataset_free(empty);
    expect_refused(&(lk_trainer_spec){.chain = s.chain, .train = s.loader},
                   side_is_last(&s) ? "loss=softmax_cross_entropy optimizer=sgd metrics=top_k(k=1)"
                                    : "loss=softmax_cross_entropy optimizer=sgd metrics=top_k(k=2)",
                   LK_ESTATE, "has other metrics than rank 0");
    side_end(&s);
}

/* A model has one trainer at a time, of whichever kind. */
RANKS_TEST(a_model_of_another_trainer_is_refused)
{
    static const char plain[] = "loss=softmax_cross_entropy optimizer=sgd";
    struct chain_side s;
    struct one one;
    lk_trainer *t = NULL;
    side_begin(&nets[2], comm, &s);
    one_begin(&nets[2], &s, &one);
    if (lk_comm_size(comm) == 1)
        ASSERT_FAILS(
            lk_trainer_new(&(lk_trainer_spec){.model = s.front, .train = one.loader}, plain, &t),
            LK_ESTATE, "are another trainer's: free that first");
    expect_refused(&(lk_trainer_spec){.chain = s.chain, .train = s.loader}, plain, LK_ESTATE,
                   "are another trainer's: free that first");
    lk_trainer_free(s.trainer);
    s.trainer = NULL;
    lk_component alone = {.name = "alone", .model = one.model};
    lk_chain *chain;
    ASSERT_OK(lk_chain_new(comm, &chain));
    ASSERT_OK(lk_chain_add(chain, &alone, NULL, 0, NULL, 0));
    ASSERT_OK(lk_chain_build(chain, NULL, 0));
    expect_refused(&(lk_trainer_spec){.chain = chain, .train = one.loader}, plain, LK_ESTATE,
                   "is trained by another trainer: free that first");
    lk_chain_free(chain);
    one_end(&one);
    side_end(&s);
}

RANKS_TEST(a_set_of_another_kind_is_not_evaluated)
{
    struct chain_side s;
    lk_dataset *set;
    lk_loader *other;
    lk_eval eval;
    side_begin(&nets[0], comm, &s);
    ASSERT_OK(lk_dataset_open("glyphs", "count=50 test_count=1", LK_TRAIN, &set));
    other = side_loader(&s, set);
    ASSERT_FAILS(lk_trainer_evaluate(s.trainer, other, &eval), LK_ESHAPE,
                 "field \"x\" is f32[3,6] in what this rank trains with, and f32[28,28,1]");
    ASSERT_OK(lk_trainer_evaluate(s.trainer, s.loader, &eval));
    lk_loader_free(other);
    lk_dataset_free(set);
    side_end(&s);
}

/* A function that gives its input until it is told to give nothing. */
static lk_status fickle(const lk_pass *pass, void *arg, const lk_list *in, int n_in, lk_list *out)
{
    LK_TRY(tail(pass, NULL, in, n_in, out));
    out->n = *(const int *)arg;
    return LK_OK;
}

RANKS_TEST(an_output_that_vanishes_is_told)
{
    struct chain_side s = {.comm = comm, .set = net_set()};
    int gives = 1, self = 0;
    if (lk_comm_size(comm) > 1) {
        side_end(&s);
        return;
    }
    s.front = component_new((const char *const[NET_LAYERS][2]){{"flatten"}, {"linear", "units=3"}},
                            net_in(), 1);
    ASSERT_OK(lk_chain_new(comm, &s.chain));
    ASSERT_OK(lk_chain_add(s.chain, &(lk_component){.model = s.front}, NULL, 0, &self, 1));
    ASSERT_OK(
        lk_chain_add(s.chain, &(lk_component){.fn = fickle, .arg = &gives}, &self, 1, NULL, 0));
    ASSERT_OK(lk_chain_build(s.chain, NULL, 0));
    s.loader = side_loader(&s, s.set);
    ASSERT_OK(lk_trainer_new(&(lk_trainer_spec){.chain = s.chain, .train = s.loader},
                             "loss=softmax_cross_entropy optimizer=sgd", &s.trainer));
    ASSERT_OK(lk_trainer_step(s.trainer, NULL));
    gives = 0;
    ASSERT_FAILS(lk_trainer_step(s.trainer, NULL), LK_EINVAL, "has 0 values: a trainer needs one");
    side_end(&s);
}

RANKS_TEST(an_output_needs_a_target)
{
    static const char plain[] = "loss=softmax_cross_entropy optimizer=sgd";
    struct chain_side s = {.comm = comm, .set = net_set()};
    lk_dataset *empty;
    if (lk_comm_size(comm) < 2)
        goto done;
    s.front = component_new(nets[0].front, net_in(), 1);
    int rank = lk_comm_rank(comm);
    ASSERT_OK(lk_chain_new(comm, &s.chain));
    if (rank == 0)
        ASSERT_OK(lk_chain_add(s.chain, &(lk_component){.model = s.front}, NULL, 0, (int[]){1}, 1));
    if (rank == 1)
        ASSERT_OK(lk_chain_add(s.chain, &(lk_component){.name = "end", .fn = tail}, (int[]){0}, 1,
                               NULL, 0));
    ASSERT_OK(lk_chain_build(s.chain, NULL, 0));
    s.loader = side_loader(&s, s.set);
    expect_refused(&(lk_trainer_spec){.chain = s.chain, .train = s.loader}, plain, LK_EINVAL,
                   "rank 1 has an output of the chain, but its data has no field \"y\"");
    lk_loader_free(s.loader);
    ASSERT_OK(lk_dataset_new_empty_like(s.set, &empty));
    ASSERT_OK(lk_loader_new(empty, "batch=16", 5, &s.loader));
    lk_dataset_free(empty);
done:
    side_end(&s);
}

RANKS_TEST(a_chain_without_output_has_no_loss)
{
    struct chain_side s = {.comm = comm, .set = net_set()};
    ASSERT_OK(lk_chain_new(comm, &s.chain));
    ASSERT_OK(lk_chain_build(s.chain, NULL, 0));
    s.loader = side_loader(&s, s.set);
    expect_refused(&(lk_trainer_spec){.chain = s.chain, .train = s.loader},
                   "loss=softmax_cross_entropy optimizer=sgd", LK_EINVAL,
                   "no rank has an output of the chain");
    side_end(&s);
}

/* ---- failures ---- */

/* A set whose sample number 3 cannot be read the first time it is asked for. */
struct frail {
    lk_dataset *set;
    int failures;
};

static lk_status frail_row(void *context, int64_t index, void *const *row)
{
    struct frail *f = context;
    lk_tensor *at[2];
    LK_CHECK(index != 3 || f->failures-- <= 0, LK_EIO, "sample 3 is planted");
    ASSERT_OK(lk_tensor_new(LK_F32, LK_SHAPE(1, NET_STEPS, NET_FEATURES), &at[0]));
    ASSERT_OK(lk_tensor_new(LK_I64, LK_SHAPE(1), &at[1]));
    ASSERT_OK(lk_dataset_read(f->set, &index, 1, at));
    for (int i = 0; i < 2; i++) {
        memcpy(row[i], lk_tensor_data(at[i]),
               (size_t)lk_tensor_count(at[i]) * lk_dtype_size(lk_tensor_dtype(at[i])));
        lk_tensor_free(at[i]);
    }
    return LK_OK;
}

/* A rank that cannot read stops all in that step, which can be tried again. */
RANKS_TEST(a_rank_that_cannot_read_stops_all)
{
    struct chain_side s;
    struct one one;
    struct frail frail = {.set = net_set(), .failures = 1};
    lk_dataset *set = NULL;
    lk_step_report a, b;
    side_begin(&nets[0], comm, &s);
    one_begin(&nets[0], &s, &one);
    lk_trainer_free(s.trainer);
    lk_loader_free(s.loader);
    lk_dataset_info info = *lk_dataset_info_of(frail.set);
    info.in_memory = false;
    ASSERT_OK(lk_dataset_new(&info, frail_row, NULL, &frail, &set));
    s.loader = side_loader(&s, set);
    lk_dataset_free(set);
    ASSERT_OK(lk_trainer_new(&(lk_trainer_spec){.chain = s.chain, .train = s.loader, .epochs = 3},
                             "loss=softmax_cross_entropy metrics=accuracy,confusion,dice "
                             "optimizer=sgd(rate=0.1 momentum=0.9)",
                             &s.trainer));
    lk_status st = LK_OK;
    for (int i = 0; i < 4; i++) {
        st = lk_trainer_step(s.trainer, &a);
        if (st != LK_OK) {
            ASSERT_EQ(st, LK_EIO);
            ASSERT_TRUE(strstr(lk_error_message(), "sample 3 is planted"));
            lk_error_clear();
            ASSERT_OK(lk_trainer_step(s.trainer, &a));
        }
        ASSERT_OK(lk_trainer_step(one.trainer, &b));
        ASSERT_SAME_BITS(&a.loss, &b.loss, sizeof a.loss);
    }
    expect_same(&s, &one);
    lk_eval seen, other; /* the samples of the step that failed are counted once */
    ASSERT_OK(lk_trainer_train_metrics(s.trainer, &seen));
    ASSERT_OK(lk_trainer_train_metrics(one.trainer, &other));
    expect_same_eval(&seen, &other);
    one_end(&one);
    side_end(&s);
    lk_dataset_free(frail.set);
}

/* The message names the component and its rank. */
RANKS_TEST(what_is_not_finite_is_named)
{
    struct chain_side s;
    char expected[128];
    side_begin(&nets[0], comm, &s);
    if (side_is_last(&s)) { /* so large that a product overflows */
        lk_tensor *weight;
        ASSERT_OK(lk_slab_find(lk_model_params(s.back), "linear2.weight", &weight));
        ASSERT_OK(lk_tensor_fill_f64(weight, 3e38));
        lk_tensor_free(weight);
    }
    snprintf(expected, sizeof expected,
             "the output of layer linear2 of component %d (back) of rank %d",
             lk_comm_size(comm) == 1, lk_comm_size(comm) - 1);
    ASSERT_FAILS(lk_trainer_step(s.trainer, NULL), LK_ENAN, expected);
    side_end(&s);
}

/* A chain of two ranks, made, trained for a step, evaluated and hashed. */
static lk_status two_ranks_train(lk_comm *comm, void *arg)
{
    lk_status st;
    lk_model *m = NULL;
    lk_chain *chain = NULL;
    lk_dataset *set = NULL, *empty = NULL;
    lk_loader *loader = NULL;
    lk_trainer *t = NULL;
    lk_eval eval;
    uint64_t state;
    int r = lk_comm_rank(comm), other = 1 - r;
    (void)arg;
    LK_TRY_TO(done, lk_model_new(&m));
    LK_TRY_TO(done, lk_model_add(m, "flatten", NULL));
    LK_TRY_TO(done, lk_model_add(m, "linear", "units=10"));
    lk_shape in = r == 0 ? LK_SHAPE(28, 28, 1) : LK_SHAPE(10);
    LK_TRY_TO(done, lk_model_build(m, &(lk_model_spec){.in = {LK_F32, in}}));
    LK_TRY_TO(done, lk_chain_new(comm, &chain));
    LK_TRY_TO(done, lk_chain_add(chain, &(lk_component){.model = m}, &other, r, &other, 1));
    if (r == 0)
        LK_TRY_TO(done, lk_chain_add(chain, &(lk_component){.fn = tail}, &other, 1, NULL, 0));
    LK_TRY_TO(done, lk_chain_build(chain, NULL, 0));
    LK_TRY_TO(done, lk_dataset_open("glyphs", "count=4 test_count=1", LK_TRAIN, &set));
    LK_TRY_TO(done, lk_dataset_new_empty_like(set, &empty));
    LK_TRY_TO(done, lk_loader_new(r == 0 ? set : empty, "batch=4 shards=2", 1, &loader));
    LK_TRY_TO(done,
              lk_trainer_new(&(lk_trainer_spec){.chain = chain, .train = loader},
                             "loss=softmax_cross_entropy metrics=accuracy optimizer=adam", &t));
    LK_TRY_TO(done, lk_trainer_step(t, NULL));
    LK_TRY_TO(done, lk_trainer_evaluate(t, loader, &eval));
    LK_TRY_TO(done, lk_trainer_hash(t, &state));
done:
    lk_trainer_free(t);
    lk_loader_free(loader);
    lk_dataset_free(set);
    lk_dataset_free(empty);
    lk_chain_free(chain);
    lk_model_free(m);
    return st;
}

RANKS_TEST(a_rank_without_memory_keeps_no_other_waiting)
{
    if (!getenv("TEST_TRANSPORT") && lk_comm_size(comm) == 1)
        expect_scarce_memory_is_told(two_ranks_train);
}
