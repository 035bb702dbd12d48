/* The multi-node optimizer: what each update does, with the numbers of ChainerMN's tests; gradients one update
 * old; micro-batches; and a state that goes on. */
#include "multi_nodes.h"
#include "rank_folders.h"

#include <fenv.h>
#include <math.h>

enum { MOST_NUMBERS = 16 };

typedef struct side {
    lk_comm *comm;
    int rank, size;
    double base; /* (size - 1) / 2 */
    lk_slab *params, *grads;
    lk_optimizer *actual;
    lk_multi_node_optimizer *optimizer;
} side;

/* Parameters of rank r are 10 r, 10 r + 1, 10 r + 2. */
static void side_open(side *s, lk_comm *comm, const char *rule, const char *rule_options,
                      const char *options)
{
    *s = (side){.comm = comm, .rank = lk_comm_rank(comm), .size = lk_comm_size(comm)};
    s->base = (s->size - 1) / 2.0;
    s->params = model_of(LK_F32);
    s->grads = model_of(LK_F32);
    model_fill(s->params, 10 * s->rank);
    ASSERT_OK(lk_optimizer_new(s->params, rule, rule_options, &s->actual));
    ASSERT_OK(lk_multi_node_optimizer_new(s->actual, comm, options, &s->optimizer));
}

static void side_close(side *s)
{
    lk_multi_node_optimizer_free(s->optimizer);
    lk_optimizer_free(s->actual);
    lk_slab_free(s->params);
    lk_slab_free(s->grads);
}

/* An update with gradients x, x + 1, x + 2 of so many samples. */
static lk_multi_node_report update(side *s, double x, int64_t samples)
{
    lk_multi_node_report report;
    model_fill(s->grads, x);
    ASSERT_OK(lk_multi_node_optimizer_update(
        s->optimizer, &(lk_multi_node_input){.grads = s->grads, .samples = samples}, &report));
    ASSERT_EQ(report.steps, lk_multi_node_optimizer_steps(s->optimizer));
    return report;
}

/* Parameter tensor i is start + i - moved. */
static void expect_params(const side *s, const double *moved, const char *what)
{
    for (int64_t i = 0; i < TENSORS; i++)
        tensor_expect(s->params, i, (double)i - moved[i], what);
}

/* ---- what updates do ---- */

RANKS_TEST(the_first_update_broadcasts_and_does_not_step)
{
    static const char *const wires[] = {"wire=dtype", "wire=f16", "wire=bf16"};
    for (int w = 0; w < 3; w++) {
        side s;
        side_open(&s, comm, "sgd", "rate=0.5", wires[w]);
        lk_multi_node_report did = update(&s, s.rank, 0);
        ASSERT_TRUE(did.act == LK_MULTI_NODE_BROADCAST && did.steps == 0);
        model_expect(s.params, 0, "the parameters of rank 0");
        did = update(&s, s.rank, 0);
        ASSERT_TRUE(did.act == LK_MULTI_NODE_STEPPED && did.steps == 1 && did.actual.rate == 0.5);
        model_expect(s.grads, s.base, "the mean of gradients");
        expect_params(&s, (double[]){s.base / 2, (s.base + 1) / 2, (s.base + 2) / 2}, "a step");
        did = update(&s, s.rank + 4, 0);
        ASSERT_EQ(did.steps, 2);
        model_expect(s.grads, s.base + 4, "the next");
        side_close(&s);
    }
}

/* A model that has grown, in the middle of its training. */
RANKS_TEST(other_parameters_are_broadcast_again)
{
    side s;
    side_open(&s, comm, "sgd", "rate=0.5", NULL);
    (void)update(&s, s.rank, 0);
    ASSERT_EQ(update(&s, s.rank, 0).steps, 1);
    lk_slab_layout *layout;
    lk_slab *params, *grads;
    lk_optimizer *actual;
    ASSERT_OK(lk_slab_layout_new(&layout));
    ASSERT_OK(lk_slab_layout_add(layout, "a.W", LK_F32, LK_SHAPE(3, 2)));
    ASSERT_OK(lk_slab_layout_add(layout, "d.W", LK_F32, LK_SHAPE(70)));
    ASSERT_OK(lk_slab_new(layout, &params));
    ASSERT_OK(lk_slab_new_like(params, &grads));
    lk_slab_layout_free(layout);
    model_fill(params, 100 + s.rank);
    ASSERT_OK(lk_optimizer_new(params, "sgd", "rate=1", &actual));
    ASSERT_OK(lk_multi_node_optimizer_set_actual(s.optimizer, actual));
    lk_multi_node_report did;
    lk_multi_node_input input = {.grads = grads};
    for (int i = 0; i < 2; i++) {
        model_fill(grads, s.rank);
        ASSERT_OK(lk_multi_node_optimizer_update(s.optimizer, &input, &did));
        ASSERT_TRUE(did.act == (i == 0 ? LK_MULTI_NODE_BROADCAST : LK_MULTI_NODE_STEPPED));
        ASSERT_EQ(did.steps, i);
        tensor_expect(params, 1, i == 0 ? 101 : 101 - (s.base + 1), "a grown model");
    }
    ASSERT_FAILS(
        lk_multi_node_optimizer_update(s.optimizer, &(lk_multi_node_input){.grads = s.grads}, NULL),
        LK_EINVAL, "the gradients do not begin with the 2 tensors of the parameters");
    lk_slab_free(params);
    lk_slab_free(grads);
    side_close(&s);
    lk_optimizer_free(actual);
}

/* The same parameters, which ranks have changed meanwhile. */
RANKS_TEST(another_optimizer_begins_with_a_broadcast)
{
    side s;
    side_open(&s, comm, "sgd", "rate=0.5", NULL);
    (void)update(&s, s.rank, 0);
    (void)update(&s, s.rank, 0);
    lk_optimizer *actual;
    ASSERT_OK(lk_optimizer_new(s.params, "sgd", "rate=0.25", &actual));
    ASSERT_OK(lk_multi_node_optimizer_set_actual(s.optimizer, actual));
    model_fill(s.params, s.rank);
    ASSERT_TRUE(update(&s, s.rank, 0).act == LK_MULTI_NODE_BROADCAST);
    model_expect(s.params, 0, "rank 0's");
    side_close(&s);
    lk_optimizer_free(actual);
}

/* With decay, a parameter that has no gradient moves if zeros are filled in, and otherwise stays. */
RANKS_TEST(zero_fill_decides_whether_parameters_move)
{
    for (int fill = 0; fill < 2; fill++) {
        side s;
        bool none[TENSORS] = {true, true, false};
        side_open(&s, comm, "sgd", "rate=0.5 decay=0.5",
                  fill ? "zero_fill=true" : "zero_fill=false");
        (void)update(&s, s.rank, 0);
        model_fill(s.grads, s.rank);
        ASSERT_OK(lk_multi_node_optimizer_update(
            s.optimizer, &(lk_multi_node_input){.grads = s.grads, .has_grad = none}, NULL));
        tensor_expect(s.params, 0, -s.base / 2, "a gradient");
        tensor_expect(s.params, 2, fill ? 1.5 : 2, fill ? "zeros" : "no gradient");
        bool half[TENSORS] = {true, true, s.rank % 2 == 0};
        lk_multi_node_input input = {.grads = s.grads, .has_grad = half};
        model_fill(s.grads, s.rank);
        if (fill)
            ASSERT_OK(lk_multi_node_optimizer_update(s.optimizer, &input, NULL));
        else if (s.size > 1)
            ASSERT_FAILS(lk_multi_node_optimizer_update(s.optimizer, &input, NULL), LK_ESTATE,
                         "rank 0 has a gradient of c.b and rank 1 has none");
        side_close(&s);
    }
}

/* Rank r has r + 1 samples: the mean over all of them, or on request that of ranks. */
RANKS_TEST(the_mean_is_over_samples)
{
    for (int of_means = 0; of_means < 2; of_means++) {
        side s;
        double sum = 0, samples = 0;
        side_open(&s, comm, "sgd", "rate=1", of_means ? "mean_of_means=true" : NULL);
        for (int r = 0; r < s.size; r++) {
            sum += (double)r * (r + 1);
            samples += r + 1;
        }
        (void)update(&s, s.rank, s.rank + 1);
        (void)update(&s, s.rank, s.rank + 1);
        double mean = of_means ? s.base : (double)((float)sum / (float)samples);
        tensor_expect(s.grads, 0, mean, of_means ? "mean of means" : "mean over samples");
        side_close(&s);
    }
}

/* Two micro-batches of 3 and 1 samples; and on the last rank, of none at all. */
RANKS_TEST(micro_batches_are_added_up)
{
    for (int of_means = 0; of_means < 2; of_means++) {
        side s;
        side_open(&s, comm, "sgd", "rate=1",
                  of_means ? "accumulate=2 mean_of_means=true" : "accumulate=2");
        bool idle = s.rank == s.size - 1 && s.size > 1;
        double sum = 0, samples = 0, means = 0;
        for (int r = 0; r < s.size; r++) {
            bool none = r == s.size - 1 && s.size > 1;
            sum += none ? 0 : 3.0 * r + (r + 8);
            samples += none ? 0 : 4;
            means += none ? 0 : (3.0 * r + (r + 8)) / 4;
        }
        ASSERT_TRUE(update(&s, s.rank, 3).act == LK_MULTI_NODE_BROADCAST);
        for (int twice = 0; twice < 2; twice++) {
            lk_multi_node_report did = update(&s, s.rank, idle ? 0 : 3);
            ASSERT_TRUE(did.act == LK_MULTI_NODE_ACCUMULATED && did.steps == twice);
            did = update(&s, s.rank + 8, idle ? 0 : 1);
            ASSERT_TRUE(did.act == LK_MULTI_NODE_STEPPED && did.steps == twice + 1);
            double mean = of_means ? (double)((float)means / (float)s.size)
                                   : (double)((float)sum / (float)samples);
            tensor_expect(s.grads, 0, mean, "two micro-batches");
        }
        side_close(&s);
    }
}

/* Samples that nobody tells: each micro-batch counts alike. */
RANKS_TEST(micro_batches_without_numbers_count_alike)
{
    side s;
    side_open(&s, comm, "sgd", "rate=1", "accumulate=4");
    for (int i = 0; i < 5; i++)
        (void)update(&s, s.rank + i, 0);
    ASSERT_EQ(lk_multi_node_optimizer_steps(s.optimizer), 1);
    model_expect(s.grads, s.base + 2.5, "four micro-batches"); /* i = 1 ... 4 */
    side_close(&s);
}

/* ---- double buffering ---- */

RANKS_TEST(gradients_are_one_update_old)
{
    static const char *const options[] = {"double_buffering=true",
                                          "double_buffering=true wire=bf16"};
    for (int w = 0; w < 2; w++) {
        side s;
        side_open(&s, comm, "sgd", "rate=0.5", options[w]);
        lk_state_tensors *state;
        ASSERT_OK(lk_state_tensors_new(&state));
        ASSERT_OK(lk_multi_node_optimizer_add_state(s.optimizer, "mn.", state));
        ASSERT_EQ(state->n, TENSORS + 1);
        ASSERT_TRUE(strcmp(state->tensor[2].name, "mn.pending.c.b") == 0);
        ASSERT_TRUE(update(&s, 50, 0).act == LK_MULTI_NODE_BROADCAST);
        lk_multi_node_report did = update(&s, s.rank, 0);
        ASSERT_TRUE(did.act == LK_MULTI_NODE_STARTED && did.steps == 0);
        ASSERT_OK(lk_multi_node_optimizer_settle(s.optimizer));
        ASSERT_TRUE(*(const float *)state->tensor[2].data == (float)(s.base + 2));
        model_expect(s.params, 0, "nothing has moved");
        did = update(&s, s.rank + 16, 0); /* sums that bf16 has */
        ASSERT_TRUE(did.act == LK_MULTI_NODE_STEPPED && did.steps == 1);
        model_expect(s.grads, s.base, "the mean of the update before");
        expect_params(&s, (double[]){s.base / 2, (s.base + 1) / 2, (s.base + 2) / 2}, "one late");
        did = update(&s, -7, 0);
        ASSERT_EQ(did.steps, 2);
        model_expect(s.grads, s.base + 16, "the next one");
        lk_state_tensors_free(state);
        side_close(&s); /* with one under way */
    }
}

/* Parameters without a gradient in one update stay in the next, whose gradients they would be. */
RANKS_TEST(what_was_missing_is_missing_one_late)
{
    side s;
    bool none[TENSORS] = {true, false, true};
    side_open(&s, comm, "sgd", "rate=0.5 decay=0.5", "double_buffering=true zero_fill=false");
    (void)update(&s, s.rank, 0);
    model_fill(s.grads, s.rank);
    ASSERT_OK(lk_multi_node_optimizer_update(
        s.optimizer, &(lk_multi_node_input){.grads = s.grads, .has_grad = none}, NULL));
    (void)update(&s, s.rank, 0);
    tensor_expect(s.params, 1, 1, "no gradient then");
    tensor_expect(s.params, 2, 2 - (s.base + 2 + 1) / 2, "a gradient then");
    (void)update(&s, s.rank, 0);
    tensor_expect(s.params, 1, 1 - (s.base + 1 + 0.5) / 2, "a gradient one later");
    side_close(&s);
}

/* ---- failures ---- */

RANKS_TEST(a_failure_of_one_rank_is_that_of_all)
{
    static const char *const options[] = {NULL, "double_buffering=true", "accumulate=3"};
    for (int k = 0; k < 3; k++) {
        side s;
        side_open(&s, comm, "sgd", "rate=0.5", options[k]);
        (void)update(&s, s.rank, 0);
        (void)update(&s, s.rank, 0);
        lk_slab *other = model_of(LK_F64);
        bool last = s.rank == s.size - 1;
        char words[120];
        snprintf(words, sizeof words, "%s%s", last ? "" : "rank ", last ? "the gradients" : "");
        ASSERT_FAILS(
            lk_multi_node_optimizer_update(
                s.optimizer, &(lk_multi_node_input){.grads = last ? other : s.grads}, NULL),
            LK_EINVAL, words);
        (void)update(&s, s.rank, 0); /* goes on */
        lk_slab_free(other);
        side_close(&s);
    }
    lk_multi_node_optimizer *none;
    lk_slab *params = model_of(LK_F64);
    lk_optimizer *actual;
    ASSERT_OK(lk_optimizer_new(params, "sgd", NULL, &actual));
    bool last = lk_comm_rank(comm) == lk_comm_size(comm) - 1;
    ASSERT_FAILS(lk_multi_node_optimizer_new(actual, comm, last ? "acumulate=2" : NULL, &none),
                 LK_EINVAL, "multi_node_optimizer has no option \"acumulate\"");
    if (lk_comm_size(comm) > 1)
        ASSERT_FAILS(lk_multi_node_optimizer_new(actual, comm, "wire=f16", &none), LK_EDTYPE,
                     "a.W is f64: only f32 can travel as f16");
    lk_optimizer_free(actual);
    lk_slab_free(params);
}

/* ---- going on ---- */

/* What an optimizer and its multi-node one have, as a state. */
typedef struct kept {
    lk_state_tensors *tensors;
    lk_state_number number[MOST_NUMBERS];
    lk_state state;
} kept;

static void keep_begin(kept *k, side *s)
{
    const char *name;
    lk_slab *slab;
    ASSERT_OK(lk_state_tensors_new(&k->tensors));
    ASSERT_OK(lk_state_tensors_add_slab(k->tensors, "", s->params));
    for (int i = 0; (slab = lk_optimizer_slab(s->actual, i, &name)); i++)
        ASSERT_OK(lk_state_tensors_add_slab(k->tensors, name, slab));
    ASSERT_OK(lk_multi_node_optimizer_add_state(s->optimizer, "multi_node.", k->tensors));
}

static void keep_numbers(kept *k, side *s)
{
    const char *name;
    double *real;
    int64_t *whole;
    int n = 0;
    for (int i = 0; (real = lk_optimizer_number(s->actual, i, &name)); i++)
        k->number[n++] = lk_state_f64(name, *real);
    for (int i = 0; (whole = lk_multi_node_optimizer_number(s->optimizer, i, &name)); i++)
        k->number[n++] = lk_state_i64(name, *whole);
    k->state = (lk_state){.step = 1,
                          .tensor = k->tensors->tensor,
                          .n_tensors = k->tensors->n,
                          .number = k->number,
                          .n_numbers = n};
}

static void take_numbers(const kept *k, side *s)
{
    const char *name;
    double *real;
    int64_t *whole;
    int n = 0;
    for (int i = 0; (real = lk_optimizer_number(s->actual, i, &name)); i++)
        *real = k->number[n++].f64;
    for (int i = 0; (whole = lk_multi_node_optimizer_number(s->optimizer, i, &name)); i++)
        *whole = k->number[n++].i64;
    ASSERT_OK(lk_multi_node_optimizer_resume(s->optimizer));
}

/* Through a checkpoint, from one to another that knows nothing. */
static void hand_over(side *from, side *to)
{
    char folder[200];
    kept k;
    lk_checkpoint_dir *dir;
    bool found;
    folder_share(from->comm, folder, sizeof folder);
    lk_checkpoint_dir_options how = {.identity = 7};
    ASSERT_OK(lk_multi_node_optimizer_settle(from->optimizer));
    keep_begin(&k, from);
    keep_numbers(&k, from);
    ASSERT_OK(lk_checkpoint_dir_open(from->comm, folder, &how, &dir));
    ASSERT_OK(lk_checkpoint_dir_save(dir, &k.state));
    lk_state_tensors_free(k.tensors);
    keep_begin(&k, to);
    keep_numbers(&k, to);
    ASSERT_OK(lk_checkpoint_dir_load(dir, &k.state, &found));
    ASSERT_TRUE(found);
    take_numbers(&k, to);
    lk_checkpoint_dir_close(dir);
    lk_state_tensors_free(k.tensors);
    folder_remove(from->comm, folder);
}

static void update_odd(side *s, int i)
{
    bool has[TENSORS] = {true, (i + s->rank) % 3 != 0, i % 2 == 0};
    model_fill(s->grads, s->rank * 0.3 + i * i * 0.1);
    ASSERT_OK(lk_multi_node_optimizer_update(
        s->optimizer,
        &(lk_multi_node_input){
            .grads = s->grads, .has_grad = has, .samples = 1 + (i + s->rank) % 3},
        NULL));
}

static uint64_t hash_of(side *s)
{
    lk_hash h = lk_hash_start();
    lk_multi_node_optimizer_hash(s->optimizer, &h);
    return lk_hash_value(&h);
}

/* ---- means that fail, and what ranks must give alike ---- */

/* An update in which the last rank has diverged; where it is alone, nothing travels, and there is none. */
static void update_diverged(side *s, const char *words)
{
    model_fill(s->grads, s->rank + 100);
    if (s->rank == s->size - 1)
        tensor_fill(s->grads, 1, (double)NAN);
    lk_multi_node_input input = {.grads = s->grads};
    if (words)
        ASSERT_FAILS(lk_multi_node_optimizer_update(s->optimizer, &input, NULL), LK_ENAN, words);
    else
        ASSERT_OK(lk_multi_node_optimizer_update(s->optimizer, &input, NULL));
}

/* The first mean of an optimizer is waited for, so a resumed one, which has a mean to follow, finds there that
 * a rank has diverged: nothing is stepped, and that mean is followed by the next update. */
RANKS_TEST(a_mean_stays_pending_when_the_next_cannot_begin)
{
    side a, b;
    if (lk_comm_size(comm) == 1)
        return;
    ASSERT_OK(lk_comm_set_finite_check(comm, true));
    side_open(&a, comm, "sgd", "rate=0.5", "double_buffering=true zero_fill=false");
    side_open(&b, comm, "sgd", "rate=0.5", "double_buffering=true zero_fill=false");
    model_fill(b.params, 0);
    (void)update(&a, 50, 0);
    bool none[TENSORS] = {true, true, false};
    model_fill(a.grads, a.rank);
    ASSERT_OK(lk_multi_node_optimizer_update(
        a.optimizer, &(lk_multi_node_input){.grads = a.grads, .has_grad = none}, NULL));
    hand_over(&a, &b);
    update_diverged(&b, "it has diverged");
    model_expect(b.params, 0, "nothing was stepped");
    lk_multi_node_report did = update(&b, b.rank + 16, 0);
    ASSERT_TRUE(did.act == LK_MULTI_NODE_STEPPED && did.steps == 1);
    expect_params(&b, (double[]){b.base / 2, (b.base + 1) / 2, 0}, "the mean that was pending");
    (void)update(&b, 0, 0);
    model_expect(b.grads, b.base + 16, "the next one");
    ASSERT_OK(lk_comm_set_finite_check(comm, false));
    side_close(&a);
    side_close(&b);
}

/* Later means are under way when a rank is found to have diverged: those are dropped, on all ranks. */
RANKS_TEST(a_mean_that_fails_under_way_is_dropped)
{
    if (lk_comm_size(comm) == 1)
        return;
    ASSERT_OK(lk_comm_set_finite_check(comm, true));
    for (int settles = 0; settles < 2; settles++) {
        side s;
        side_open(&s, comm, "sgd", "rate=0.5", "double_buffering=true");
        (void)update(&s, 50, 0);
        (void)update(&s, s.rank, 0);
        update_diverged(&s, NULL); /* follows the mean before */
        model_expect(s.grads, s.base, "the mean before");
        if (settles)
            ASSERT_FAILS(lk_multi_node_optimizer_settle(s.optimizer), LK_ENAN, "it has diverged");
        else
            ASSERT_FAILS(lk_multi_node_optimizer_update(
                             s.optimizer, &(lk_multi_node_input){.grads = s.grads}, NULL),
                         LK_ENAN, "it has diverged");
        ASSERT_EQ(lk_multi_node_optimizer_steps(s.optimizer), 1);
        ASSERT_TRUE(update(&s, s.rank + 16, 0).act == LK_MULTI_NODE_STARTED);
        expect_params(&s, (double[]){s.base / 2, (s.base + 1) / 2, (s.base + 2) / 2}, "one step");
        ASSERT_EQ(update(&s, 0, 0).steps, 2);
        model_expect(s.grads, s.base + 16, "the first that did not fail");
        side_close(&s);
    }
    ASSERT_OK(lk_comm_set_finite_check(comm, false));
}

/* One rank alone cannot finish the mean: all drop it. */
RANKS_TEST(a_mean_that_one_rank_cannot_finish_is_dropped_by_all)
{
    for (int settles = 0; settles < 2; settles++) {
        side s;
        side_open(&s, comm, "sgd", "rate=0.5", "double_buffering=true");
        (void)update(&s, 50, 0);
        (void)update(&s, s.rank, 0);
        lk_multi_node_input input = {.grads = s.grads};
        bool last = s.rank == s.size - 1;
        if (last)
            fesetround(FE_UPWARD);
        lk_status st = settles ? lk_multi_node_optimizer_settle(s.optimizer)
                               : lk_multi_node_optimizer_update(s.optimizer, &input, NULL);
        if (last)
            fesetround(FE_TONEAREST);
        bool divides = s.size > 1 || !settles; /* alone it is the mean as it is */
        ASSERT_EQ(st, divides ? LK_EFPENV : LK_OK);
        bool alone = s.size == 1;
        ASSERT_TRUE(update(&s, s.rank + 16, 0).act ==
                    (alone ? LK_MULTI_NODE_STEPPED : LK_MULTI_NODE_STARTED));
        if (!alone)
            model_expect(s.params, 0, "nothing was stepped");
        side_close(&s);
    }
}

RANKS_TEST(options_are_compared_between_ranks)
{
    static const char *const differs[][3] = {
        {"mean_of_means=true", "mean_of_means=false", "mean_of_means is 1 on rank 0 and 0 on rank"},
        {"double_buffering=true", NULL, "double_buffering is 1 on rank 0 and 0 on rank"},
        {"zero_fill=false", NULL, "zero_fill is 0 on rank 0 and 1 on rank"},
        {"accumulate=3", "accumulate=2", "accumulate is 3 on rank 0 and 2 on rank"},
        {"wire=f16", "wire=bf16", "has another wire than rank 0"},
        {"communicator=flat", NULL, "has another communicator than rank 0"}};
    bool last = lk_comm_rank(comm) == lk_comm_size(comm) - 1;
    lk_slab *params = model_of(LK_F32);
    lk_optimizer *actual;
    lk_multi_node_optimizer *none;
    ASSERT_OK(lk_optimizer_new(params, "sgd", NULL, &actual));
    for (size_t i = 0; i < sizeof differs / sizeof *differs && lk_comm_size(comm) > 1; i++) {
        ASSERT_FAILS(lk_multi_node_optimizer_new(actual, comm, differs[i][last ? 1 : 0], &none),
                     LK_ESTATE, differs[i][2]);
        ASSERT_TRUE(!none);
    }
    ASSERT_OK(lk_barrier(comm, "and the ranks go on"));
    lk_optimizer_free(actual);
    lk_slab_free(params);
}

/* An algorithm that there is not, also where nothing travels, or that cannot do what is asked. */
RANKS_TEST(communicators_are_looked_at_when_it_is_made)
{
    lk_slab *params = model_of(LK_F32);
    lk_optimizer *actual;
    lk_multi_node_optimizer *none;
    ASSERT_OK(lk_optimizer_new(params, "sgd", NULL, &actual));
    ASSERT_FAILS(lk_multi_node_optimizer_new(actual, comm, "communicator=bogus", &none), LK_EINVAL,
                 "no allreduce algorithm named \"bogus\"");
    ASSERT_FAILS(lk_multi_node_optimizer_new(actual, NULL, "communicator=bogus", &none), LK_EINVAL,
                 "no allreduce algorithm named \"bogus\"");
    if (lk_comm_size(comm) > 1)
        ASSERT_FAILS(
            lk_multi_node_optimizer_new(actual, comm, "communicator=naive wire=bf16", &none),
            LK_ENOTSUP, "f16 and bf16 would be rounded on the way");
    ASSERT_OK(lk_multi_node_optimizer_new(actual, NULL, "communicator=naive wire=bf16", &none));
    lk_multi_node_optimizer_free(none);
    lk_optimizer_free(actual);
    lk_slab_free(params);
}

RANKS_TEST(too_many_samples_are_refused)
{
    side s;
    side_open(&s, comm, "sgd", "rate=0.5", "accumulate=3");
    (void)update(&s, s.rank, 0);
    lk_multi_node_input input = {.grads = s.grads, .samples = INT64_MAX / s.size};
    ASSERT_OK(lk_multi_node_optimizer_update(s.optimizer, &input, NULL));
    input.samples = s.rank == s.size - 1 ? INT64_MAX : 0;
    ASSERT_FAILS(lk_multi_node_optimizer_update(s.optimizer, &input, NULL), LK_EOVERFLOW,
                 "more than can be counted");
    for (int i = 1; i <= 3; i++) /* what was accumulated is dropped */
        ASSERT_TRUE(update(&s, s.rank, 1).act ==
                    (i < 3 ? LK_MULTI_NODE_ACCUMULATED : LK_MULTI_NODE_STEPPED));
    side_close(&s);
}

/* Stopped behind each update, gone on with by another, to the same bits. */
RANKS_TEST(a_state_goes_on)
{
    static const char *const options[] = {NULL, "double_buffering=true", "accumulate=3 wire=bf16",
                                          "accumulate=2 double_buffering=true wire=f16"};
    enum { UPDATES = 9 };
    for (int k = 0; k < 4; k++) {
        side whole;
        side_open(&whole, comm, "adam", "rate=0.1", options[k]);
        for (int i = 0; i < UPDATES; i++)
            update_odd(&whole, i);
        for (int at = k == 0 ? 4 : 0; at < UPDATES; at += k == 0 ? UPDATES : 2) {
            side first, second;
            side_open(&first, comm, "adam", "rate=0.1", options[k]);
            for (int i = 0; i < at; i++)
                update_odd(&first, i);
            side_open(&second, comm, "adam", "rate=0.1", options[k]);
            model_fill(second.params, -3);
            hand_over(&first, &second);
            ASSERT_TRUE(hash_of(&first) == hash_of(&second));
            for (int i = at; i < UPDATES; i++)
                update_odd(&second, i);
            ASSERT_SAME_BITS(lk_slab_data(second.params), lk_slab_data(whole.params),
                             lk_slab_layout_bytes(lk_slab_layout_of(whole.params)));
            ASSERT_TRUE(hash_of(&second) == hash_of(&whole) && hash_of(&first) != hash_of(&whole));
            side_close(&first);
            side_close(&second);
        }
        side_close(&whole);
    }
}

RANKS_TEST(numbers_that_cannot_be_are_refused)
{
    side s;
    const char *name;
    side_open(&s, comm, "sgd", "rate=0.5", "accumulate=2");
    for (int i = 0; lk_multi_node_optimizer_number(s.optimizer, i, &name); i++)
        if (strcmp(name, "accumulated") == 0 && s.rank == s.size - 1)
            *lk_multi_node_optimizer_number(s.optimizer, i, &name) = 2;
    ASSERT_FAILS(lk_multi_node_optimizer_resume(s.optimizer), LK_EINVAL,
                 "accumulated is 2: it is from 0 to 1");
    side_close(&s);
    side_open(&s, comm, "sgd", "rate=0.5", "accumulate=2 double_buffering=true");
    for (int i = 0; lk_multi_node_optimizer_number(s.optimizer, i, &name) && s.size > 1; i++) {
        char words[80];
        int64_t *number = lk_multi_node_optimizer_number(s.optimizer, i, &name), was = *number;
        *number = s.rank == s.size - 1;
        snprintf(words, sizeof words, "%s is 0 on rank 0 and 1 on rank %d", name, s.size - 1);
        ASSERT_FAILS(lk_multi_node_optimizer_resume(s.optimizer), LK_EINVAL, words);
        *number = was;
    }
    side_close(&s);
}
