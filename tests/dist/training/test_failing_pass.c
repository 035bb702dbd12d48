/* A rank that fails inside a pass, where others may wait for it, ends the job: the others get its message
 * within seconds, whatever they do, and nobody has changed a parameter.  In a model that is cut into stages, one in
 * the middle of its list of actions. */
#include "trainers.h"

#include <lockstep/extra/clock.h>
#include <lockstep/loss.h>
#include <lockstep/op.h>

/* Where the last rank fails; each rank is a thread, or a process. */
enum { NOWHERE, BEFORE_FORWARD, AFTER_FORWARD, IN_BACKWARD, N_PLACES };
static _Thread_local int fails_at;

static lk_status same_infer(lk_call *c, lk_output_spec *out)
{
    LK_CHECK(fails_at != AFTER_FORWARD, LK_ENOTSUP, "planted after forward");
    out->dtype = lk_tensor_dtype(c->x[0]);
    out->shape = lk_tensor_shape(c->x[0]);
    return LK_OK;
}

static lk_status same_forward(lk_call *c)
{
    return LK_TRACE(lk_tensor_copy(c->x[0], c->y[0]));
}

static lk_status same_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    (void)c;
    LK_CHECK(fails_at != IN_BACKWARD, LK_ENOTSUP, "planted in backward");
    din[0] = dout[0];
    return LK_OK;
}

static const lk_op fragile = {.name = "fragile",
                              .summary = "y = x",
                              .min_in = 1,
                              .max_in = 1,
                              .n_out = 1,
                              .infer = same_infer,
                              .forward = same_forward,
                              .backward = same_backward};

static lk_status cost_check(const void *options, lk_tensor_type out, lk_tensor_type target)
{
    (void)options;
    (void)out;
    (void)target;
    return LK_OK;
}

static lk_status cost_apply(const void *options, lk_var y, lk_var target, lk_var *out)
{
    (void)options;
    (void)target;
    LK_TRY(lk_apply(y.tape, &fragile, &y, 1, NULL, &y));
    return LK_TRACE(lk_sum(y, NULL, out));
}

static const lk_loss cost = {.descriptor = {.name = "planted", .summary = "the sum of the outputs"},
                             .check = cost_check,
                             .apply = cost_apply};

/* A layer before the first meeting, which may fail. */
static lk_status layer_build(lk_build *build, const void *options, lk_tensor_type in,
                             lk_tensor_type *out)
{
    (void)build;
    (void)options;
    *out = in;
    return LK_OK;
}

static lk_status layer_forward(const lk_pass *pass, const lk_layer_instance *unit, lk_var x,
                               lk_var *out)
{
    (void)pass;
    (void)unit;
    LK_CHECK(fails_at != BEFORE_FORWARD, LK_ENOTSUP, "planted before forward");
    *out = x;
    return LK_OK;
}

static const lk_layer layer = {.descriptor = {.name = "planted", .summary = "y = x"},
                               .build = layer_build,
                               .forward = layer_forward};

/* One case, on a world of its own: the failure is its end. */
struct pass_case {
    int place;
    bool meets;    /* ranks wait for each other in the pass */
    bool overlaps; /* gradients travel meanwhile */
    bool stages;   /* each rank has some layers: of these the last before the loss may fail */
};

/* The layers of the model, of which each rank of a pipeline has one at least. */
static void layers_add(lk_model *model, const struct pass_case *c)
{
    lk_config planted = {.descriptor = &layer.descriptor};
    if (!c->stages)
        ASSERT_OK(lk_model_add_config(model, &planted));
    ASSERT_OK(lk_model_add(model, "linear", "units=3"));
    ASSERT_OK(lk_model_add(model, "batch_norm", c->meets ? "statistics=batch" : NULL));
    for (int i = 0; c->stages && i < 3; i++)
        ASSERT_OK(lk_model_add(model, "linear", "units=3"));
    ASSERT_OK(lk_model_add(model, "linear", "units=2"));
    if (c->stages)
        ASSERT_OK(lk_model_add_config(model, &planted));
}

/* The last rank waits for all, none of whom waits for it: its failure may reach them on their way out. */
static void all_have_come(lk_comm *comm)
{
    int last = lk_comm_size(comm) - 1;
    char here = 0;
    if (lk_comm_rank(comm) < last)
        (void)!lk_send(comm, &here, 1, LK_U8, last, 0, "here");
    for (int r = 0; r < last && lk_comm_rank(comm) == last; r++)
        ASSERT_OK(lk_recv(comm, &here, 1, LK_U8, r, 0, "here", NULL));
}

/* The parameters of this rank, of which nobody else need be asked. */
static uint64_t params_of(const lk_model *model)
{
    lk_hash h = lk_hash_start();
    lk_slab_hash(lk_model_params(model), &h);
    return lk_hash_value(&h);
}

static void failure_is_named(lk_comm *comm, const struct pass_case *c)
{
    static const char *const text[] = {"", "planted before forward", "planted after forward",
                                       "planted in backward"};
    int last = lk_comm_size(comm) - 1;
    bool mine = lk_comm_rank(comm) == last;
    char named[24];
    small_trainer s;
    snprintf(named, sizeof named, "rank %d", last);
    small_begin(&s, comm);
    layers_add(s.model, c);
    s.options.loss = (lk_config){.descriptor = &cost.descriptor};
    s.spec.parallel.overlap = c->overlaps ? LK_OVERLAP_YES : LK_OVERLAP_NO;
    s.spec.parallel.bucket_mib = 0.00001;
    s.spec.parallel.stages = c->stages ? last + 1 : 1;
    small_build(&s);
    ASSERT_OK(lk_trainer_step(s.trainer, NULL));
    uint64_t before = params_of(s.model);
    all_have_come(comm);
    fails_at = mine ? c->place : NOWHERE;
    int64_t start = lk_clock_ns();
    lk_status st = lk_trainer_step(s.trainer, NULL);
    /* A layer's communicator may bring the news first: then it is the rank that has failed. */
    ASSERT_TRUE(st == LK_ENOTSUP || (!mine && c->meets && st == LK_ECOMM));
    fails_at = NOWHERE;
    ASSERT_TRUE((double)(lk_clock_ns() - start) / 1e9 < 5 * TEST_SLOWNESS);
    ASSERT_TRUE(strstr(lk_error_message(), text[c->place]));
    ASSERT_TRUE(mine || strncmp(lk_error_message(), named, strlen(named)) == 0);
    ASSERT_TRUE(params_of(s.model) == before);
    ASSERT_TRUE(lk_trainer_step(s.trainer, NULL) != LK_OK); /* it is over */
    small_free(&s);
}

static lk_status run_case(lk_comm *comm, void *arg)
{
    if (lk_comm_size(comm) > 1)
        failure_is_named(comm, arg);
    return LK_OK;
}

static void run(struct pass_case c, const char *transport)
{
    alarm(4 * TEST_TIMEOUT_S);
    for (int n = 2; n <= 5 && !transport; n++)
        ASSERT_OK(lk_run_local(n, run_case, &c));
    if (transport) {
        lk_comm *comm;
        ASSERT_OK(lk_comm_open(transport, &comm));
        ASSERT_OK(run_case(comm, &c));
        lk_comm_close(comm);
    }
}

int main(void)
{
    const char *transport = getenv("TEST_TRANSPORT");
    lk_comm *base = NULL; /* keeps MPI running */
    signal(SIGALRM, test_on_alarm);
    test_current = "a_rank_that_fails_in_a_pass_ends_the_job";
    if (transport)
        ASSERT_OK(lk_comm_open(transport, &base));
    for (int place = BEFORE_FORWARD; place < N_PLACES; place++) {
        run((struct pass_case){.place = place}, transport);
        run((struct pass_case){.place = place, .meets = true}, transport);
        run((struct pass_case){.place = place, .overlaps = true}, transport);
        run((struct pass_case){.place = place, .stages = true}, transport);
    }
    if (!base || lk_comm_rank(base) == 0)
        printf("ok %s\n", test_current);
    lk_comm_close(base);
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
    return 0;
}
