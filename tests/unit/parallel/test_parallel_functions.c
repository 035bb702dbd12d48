/* make_parallel: functions of the program, failures and their ends, misuse. */
#include "faults.h"
#include "parallel_models.h"

#include <lockstep/op.h>

/* ---- a function of two x and two shared values, with two outputs ---- */

enum { SAMPLES = 11, WIDE = 3 };

/* a = tanh(x w) u, b = a * z; and, if `again`, w is used twice. */
struct two_ways {
    bool again;
    int64_t fails_at; /* the sample that it fails at; -1: none */
};

static lk_status two_ways(const lk_pass *pass, void *arg, const lk_list *in, const lk_list *shared,
                          lk_list *out)
{
    const struct two_ways *t = arg;
    lk_var a, b;
    int64_t n = lk_shape_of(in->at[0]).dim[0];
    LK_CHECK(t->fails_at < pass->first || t->fails_at >= pass->first + n, LK_EIO,
             "sample %lld cannot be read", (long long)t->fails_at);
    LK_TRY(lk_matmul(in->at[0], shared->at[0], &a));
    LK_TRY(lk_tanh(a, &a));
    if (t->again)
        LK_TRY(lk_matmul(a, shared->at[0], &a));
    LK_TRY(lk_mul(a, shared->at[1], &a));
    LK_TRY(lk_mul(a, in->at[1], &b));
    out->at[0] = a;
    out->at[1] = b;
    out->n = 2;
    return LK_OK;
}

struct results {
    lk_tensor *value[4], *grad[4]; /* x, z, w, u */
    float a[SAMPLES * WIDE];
};

static struct results results_new(void)
{
    struct results r = {0};
    static const char *const name[] = {"x", "z", "w", "u"};
    for (int i = 0; i < 4; i++) {
        lk_shape row = i == 3 ? LK_SCALAR : LK_SHAPE(WIDE);
        int64_t rows = i < 2 ? SAMPLES : WIDE;
        r.value[i] = pm_drawn(LK_F32, rows, row, name[i], 0);
        r.grad[i] = pm_drawn(LK_F32, rows, row, name[i], 0);
        ASSERT_OK(lk_tensor_fill_f64(r.grad[i], 0));
    }
    return r;
}

static void results_free(struct results *r)
{
    for (int i = 0; i < 4; i++) {
        lk_tensor_free(r->value[i]);
        lk_tensor_free(r->grad[i]);
    }
}

static bool results_same(const struct results *a, const struct results *b)
{
    const void *first = a->a, *second = b->a;
    bool same = memcmp(first, second, sizeof a->a) == 0;
    for (int i = 0; i < 4; i++)
        same = same && lk_tensor_is_equal(a->grad[i], b->grad[i]);
    return same;
}

/* By `p`, or if that is NULL the function itself on the tape. */
static lk_status function_run(lk_parallel_model *p, struct two_ways *t, lk_tape *tape,
                              struct results *r)
{
    lk_var v[4], y[2], loss;
    lk_list x = {.at = v, .n = 2}, shared = {.at = v + 2, .n = 2}, out = {.at = y, .room = 2};
    const lk_pass pass = {.tape = tape};
    for (int i = 0; i < 4; i++)
        LK_TRY(lk_leaf(tape, r->value[i], r->grad[i], &v[i]));
    if (p)
        LK_TRY(lk_parallel_model_apply(p, &pass, &x, &shared, &out));
    else
        LK_TRY(two_ways(&pass, t, &x, &shared, &out));
    LK_TRY(lk_read(y[0], LK_F32, (int64_t)SAMPLES * WIDE, r->a));
    LK_TRY(lk_mul(y[0], y[1], &loss));
    LK_TRY(lk_sum(loss, NULL, &loss));
    LK_TRY(lk_backward(tape, &(lk_seed){.of = loss}, 1, 0));
    lk_tape_reset(tape);
    return LK_OK;
}

static lk_tape *tape_of_shards(int64_t shard)
{
    lk_tape *tape = NULL;
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_tape_set_shard_size(tape, shard));
    return tape;
}

TEST(a_function_of_several_values_has_the_serial_bits)
{
    for (int n = 1; n <= 4; n++)
        for (int64_t shard = 1; shard <= 5; shard++) {
            struct two_ways t = {.fails_at = -1};
            lk_parallel_function fn = {.fn = two_ways, .arg = &t};
            lk_parallel_model *p = NULL;
            struct results want = results_new(), got = results_new();
            lk_tape *tape = tape_of_shards(shard);
            ASSERT_OK(lk_make_parallel_fn(&fn, pm_devices(n), NULL, &p));
            ASSERT_OK(function_run(NULL, &t, tape, &want));
            ASSERT_OK(function_run(p, &t, tape, &got));
            ASSERT_TRUE(results_same(&want, &got));
            results_free(&want);
            results_free(&got);
            lk_tape_free(tape);
            lk_parallel_model_free(p);
        }
}

/* Of a value that is used twice the shards are added up one by one: as on one device. */
TEST(reused_values_give_the_same_bits_on_any_devices)
{
    struct two_ways t = {.again = true, .fails_at = -1};
    lk_parallel_function fn = {.fn = two_ways, .arg = &t, .weight_reuse = true};
    struct results want = results_new();
    lk_tape *tape = tape_of_shards(2);
    for (int n = 1; n <= 4; n++) {
        lk_parallel_model *p = NULL;
        struct results got = results_new();
        ASSERT_OK(lk_make_parallel_fn(&fn, pm_devices(n), NULL, &p));
        ASSERT_OK(function_run(p, &t, tape, n == 1 ? &want : &got));
        ASSERT_TRUE(n == 1 || results_same(&want, &got));
        results_free(&got);
        lk_parallel_model_free(p);
    }
    results_free(&want);
    lk_tape_free(tape);
}

/* ---- failures ---- */

TEST(a_failing_replica_is_named_and_can_go_on)
{
    struct two_ways t = {.fails_at = 8};
    lk_parallel_function fn = {.fn = two_ways, .arg = &t};
    lk_parallel_model *p = NULL;
    struct results want = results_new(), got = results_new();
    lk_tape *tape = tape_of_shards(2);
    char where[256];
    ASSERT_OK(lk_make_parallel_fn(&fn, pm_devices(2), NULL, &p));
    snprintf(where, sizeof where, "replica 1 (%s): sample 8 cannot be read",
             lk_parallel_model_device(p, 1)->name);
    ASSERT_FAILS(function_run(p, &t, tape, &got), LK_EIO, where);
    lk_tape_reset(tape);
    t.fails_at = -1;
    ASSERT_OK(function_run(NULL, &t, tape, &want));
    ASSERT_OK(function_run(p, &t, tape, &got));
    ASSERT_TRUE(results_same(&want, &got));
    results_free(&want);
    results_free(&got);
    lk_tape_free(tape);
    lk_parallel_model_free(p);
}

/* The mean over the batch, for which replicas wait for each other. */
static lk_status mean_of_all(const lk_pass *pass, void *arg, const lk_list *in,
                             const lk_list *shared, lk_list *out)
{
    const int64_t *fails_at = arg;
    lk_var sum;
    (void)shared;
    int64_t n = lk_shape_of(in->at[0]).dim[0];
    LK_CHECK(*fails_at < pass->first || *fails_at >= pass->first + n, LK_EIO,
             "sample %lld cannot be read", (long long)*fails_at);
    LK_TRY(lk_sum(in->at[0], LK_AXES(0), &sum));
    if (pass->batch)
        LK_TRY(lk_dist_allreduce(pass->batch->comm, sum, LK_REDUCE_SUM, "mean", &sum));
    LK_TRY(lk_sub(in->at[0], sum, &out->at[0]));
    out->n = 1;
    return LK_OK;
}

TEST(replicas_that_wait_for_a_failing_one_end_and_begin_anew)
{
    int64_t fails_at = 0;
    lk_parallel_function fn = {.fn = mean_of_all, .arg = &fails_at, .batch_sync = true};
    lk_parallel_model *p = NULL;
    lk_tape *tape = tape_of_shards(2);
    lk_tensor *x = pm_drawn(LK_F32, 8, LK_SHAPE(2), "x", 0);
    ASSERT_OK(lk_make_parallel_fn(&fn, pm_devices(3), NULL, &p));
    for (int i = 0; i < 4; i++) {
        lk_var v, y;
        lk_list in = {.at = &v, .n = 1}, out = {.at = &y, .room = 1};
        fails_at = i % 2 ? -1 : 3 * i;
        ASSERT_OK(lk_constant(tape, x, &v));
        if (i % 2)
            ASSERT_OK(lk_parallel_model_apply(p, &(lk_pass){.tape = tape}, &in, NULL, &out));
        else
            ASSERT_FAILS(lk_parallel_model_apply(p, &(lk_pass){.tape = tape}, &in, NULL, &out),
                         LK_EIO, "cannot be read");
        lk_tape_reset(tape);
    }
    lk_tensor_free(x);
    lk_tape_free(tape);
    lk_parallel_model_free(p);
}

/* What was recorded before the replicas began anew cannot be passed any more. */
TEST(backward_through_what_has_ended_is_refused)
{
    int64_t fails_at = -1;
    lk_parallel_function fn = {.fn = mean_of_all, .arg = &fails_at, .batch_sync = true};
    lk_parallel_model *p = NULL;
    lk_tape *tape = tape_of_shards(2);
    lk_tensor *x = pm_drawn(LK_F32, 8, LK_SHAPE(2), "x", 0),
              *grad = pm_drawn(LK_F32, 8, LK_SHAPE(2), "x", 0);
    lk_var v, y[2], loss;
    lk_list in = {.at = &v, .n = 1}, out = {.at = &y[0], .room = 1},
            later = {.at = &y[1], .room = 1};
    const lk_pass pass = {.tape = tape};
    ASSERT_OK(lk_make_parallel_fn(&fn, pm_devices(3), NULL, &p));
    for (int i = 0; i < 2; i++) {
        ASSERT_OK(lk_leaf(tape, x, grad, &v));
        ASSERT_OK(lk_parallel_model_apply(p, &pass, &in, NULL, &out));
        ASSERT_OK(lk_sum(y[0], NULL, &loss));
        fails_at = i == 0 ? 5 : -1;
        if (i == 0)
            ASSERT_FAILS(lk_parallel_model_apply(p, &pass, &in, NULL, &later), LK_EIO, "replica ");
        lk_status st = lk_backward(tape, &(lk_seed){.of = loss}, 1, 0);
        ASSERT_TRUE((st == LK_OK) == (i == 1));
        lk_error_clear();
        lk_tape_reset(tape);
        fails_at = -1;
    }
    lk_tensor_free(x);
    lk_tensor_free(grad);
    lk_tape_free(tape);
    lk_parallel_model_free(p);
}

static volatile sig_atomic_t n_signals;

static void on_signal(int number)
{
    (void)number;
    n_signals++;
}

/* A signal that the program's thread blocks waits for it: replicas do not take it. */
TEST(replicas_leave_signals_to_the_program)
{
    struct two_ways t = {.fails_at = -1};
    lk_parallel_function fn = {.fn = two_ways, .arg = &t};
    lk_parallel_model *p = NULL;
    sigset_t one, waiting;
    ASSERT_OK(lk_make_parallel_fn(&fn, pm_devices(2), NULL, &p));
    signal(SIGUSR1, on_signal);
    sigemptyset(&one);
    sigaddset(&one, SIGUSR1);
    ASSERT_EQ(pthread_sigmask(SIG_BLOCK, &one, NULL), 0);
    ASSERT_EQ(kill(getpid(), SIGUSR1), 0);
    usleep(20000);
    ASSERT_TRUE(sigpending(&waiting) == 0 && sigismember(&waiting, SIGUSR1));
    ASSERT_EQ(n_signals, 0);
    ASSERT_EQ(pthread_sigmask(SIG_UNBLOCK, &one, NULL), 0);
    ASSERT_EQ(n_signals, 1);
    signal(SIGUSR1, SIG_DFL);
    lk_parallel_model_free(p);
}

/* ---- memory ---- */

static const struct pm_kind *scenario_kind;

static lk_status scenario_step(lk_parallel_model *p, lk_model *m, const struct pm_batch *b)
{
    lk_status st;
    lk_tape *tape = NULL;
    lk_accumulator *sums = NULL;
    lk_tensor *y = NULL;
    lk_var x, out, loss;
    LK_TRY_TO(done, lk_tape_new(&tape));
    LK_TRY_TO(done, lk_tape_set_shard_size(tape, b->shard));
    LK_TRY_TO(done, lk_accumulator_new(m, &sums));
    LK_TRY_TO(done, lk_leaf(tape, b->x, b->c, &x));
    LK_TRY_TO(done,
              lk_parallel_model_forward(
                  p, &(lk_pass){.tape = tape, .accumulator = sums, .training = true}, x, &out));
    LK_TRY_TO(done, lk_sum(out, NULL, &loss));
    LK_TRY_TO(done, lk_backward(tape, &(lk_seed){.of = loss}, 1, 0));
    LK_TRY_TO(done, lk_parallel_model_predict(p, b->x, &y));
done:
    lk_tensor_free(y);
    lk_tape_free(tape);
    lk_accumulator_free(sums);
    return st;
}

static lk_model *scenario_model;
static struct pm_batch scenario_batch;

static lk_status scenario_whole(void)
{
    lk_parallel_model *p = NULL;
    LK_TRY(lk_make_parallel(scenario_model, pm_devices(2), "usenccl=true", &p));
    lk_status st = scenario_step(p, scenario_model, &scenario_batch);
    lk_parallel_model_free(p);
    return LK_TRACE(st);
}

TEST(every_allocation_may_fail)
{
    static const int kinds[] = {3, 0, 4};
    for (int k = 0; k < (TEST_SLOWNESS > 1 ? 1 : 3); k++) {
        scenario_kind = &pm_kinds[kinds[k]];
        scenario_model = pm_model(scenario_kind);
        scenario_batch = pm_batch_new(scenario_kind, scenario_model, 3, 1);
        lk_tensor_free(scenario_batch.c);
        ASSERT_OK(lk_tensor_zeros(lk_tensor_dtype(scenario_batch.x),
                                  lk_tensor_shape(scenario_batch.x), &scenario_batch.c));
        /* What ranks share for speed can be done without. */
        ASSERT_TRUE(test_allocations_fail_but(scenario_whole, 2) > 50);
        pm_batch_free(&scenario_batch);
        lk_model_free(scenario_model);
    }
}

TEST(misuse_is_refused)
{
    lk_model *m = pm_model(&pm_kinds[0]);
    lk_parallel_model *p = NULL, *f = NULL;
    struct two_ways t = {.fails_at = -1};
    lk_parallel_function fn = {.fn = two_ways, .arg = &t};
    lk_tape *tape = tape_of_shards(2);
    lk_tensor *x = pm_drawn(LK_F32, 5, LK_SHAPE(7), "x", 0);
    lk_accumulator *sums = NULL;
    lk_var v, y, g;
    lk_list in = {.at = &v, .n = 1}, none = {.n = 0}, out = {.at = &y, .room = 1};
    const lk_pass pass = {.tape = tape};
    ASSERT_OK(lk_make_parallel(m, pm_devices(2), NULL, &p));
    ASSERT_OK(lk_make_parallel_fn(&fn, pm_devices(2), NULL, &f));
    ASSERT_OK(lk_constant(tape, x, &v));
    ASSERT_FAILS(lk_parallel_model_forward(p, &pass, v, &y), LK_ESHAPE, "replica 0 (");
    ASSERT_FAILS(lk_parallel_model_forward(f, &pass, v, &y), LK_EINVAL, "it is a function");
    ASSERT_FAILS(lk_parallel_model_apply(p, &pass, &in, NULL, &out), LK_EINVAL, "it is a model");
    ASSERT_FAILS(lk_parallel_model_apply(f, &pass, &none, NULL, &out), LK_EINVAL, "no x");
    lk_tensor_free(x);
    x = pm_drawn(LK_F32, 5, LK_SHAPE(6), "x", 0);
    ASSERT_OK(lk_accumulator_new(m, &sums));
    ASSERT_OK(lk_leaf(tape, x, NULL, &v));
    ASSERT_OK(lk_parallel_model_forward(
        p, &(lk_pass){.tape = tape, .accumulator = sums, .training = true}, v, &y));
    ASSERT_OK(lk_sum(y, NULL, &y));
    ASSERT_FAILS(lk_grad(tape, &y, NULL, 1, &v, 1, LK_RECORD, &g), LK_ENOTSUP, "parallel");
    ASSERT_OK(lk_grad(tape, &y, NULL, 1, &v, 1, 0, &g));
    ASSERT_TRUE(lk_shape_is_equal(lk_shape_of(g), LK_SHAPE(5, 6)));
    lk_tape_free(tape);
    lk_tensor_free(x);
    lk_accumulator_free(sums);
    lk_parallel_model_free(p);
    lk_parallel_model_free(f);
    lk_model_free(m);
}
