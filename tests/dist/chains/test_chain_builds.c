/* Chain lists whose models leave their input open, and what goes wrong in components: in the build all
 * ranks refuse it in the same words, in a pass it ends the job. */
#include "nodes/oracles.h"
#include "scarce_ranks.h"

enum { FEATURES = 10 };

/* Units of the layer of rank r. */
static int units_of(int r)
{
    return 6 + 2 * r;
}

static lk_model *open_layer(int r)
{
    lk_model *m;
    char options[32];
    snprintf(options, sizeof options, "units=%d", units_of(r));
    ASSERT_OK(lk_model_new(&m));
    ASSERT_OK(lk_model_add(m, "linear", options));
    ASSERT_OK(lk_model_add(m, "tanh", NULL));
    return m;
}

/* The first half of each sample, and how often that was asked for. */
static lk_status half(const lk_pass *pass, void *arg, const lk_list *in, int n_in, lk_list *out)
{
    int *calls = arg;
    (void)pass;
    ASSERT_TRUE(n_in == 1 && in[0].n == 1);
    ++*calls;
    out->n = 1;
    return LK_TRACE(
        lk_slice(in[0].at[0], 1, 0, lk_shape_of(in[0].at[0]).dim[1] / 2, 1, &out->at[0]));
}

static const lk_tensor_type x_type = {LK_F32, LK_DIMS(1, FEATURES)};

/* All ranks in a row; the second component of each takes half of what its layer gives. */
static lk_chain *row_of(lk_comm *comm, lk_model *model, int *calls)
{
    lk_chain *chain;
    int r = lk_comm_rank(comm), n = lk_comm_size(comm);
    ASSERT_OK(lk_chain_new(comm, &chain));
    ASSERT_OK(lk_chain_add(chain,
                           &(lk_component){.name = "layer", .model = model, .spec.seed = 5 + r},
                           (int[]){r - 1}, r > 0, (int[]){r}, 1));
    ASSERT_OK(lk_chain_add(chain, &(lk_component){.name = "half", .fn = half, .arg = calls},
                           (int[]){r}, 1, (int[]){r + 1}, r + 1 < n));
    return chain;
}

static lk_model_spec spec_of(int r)
{
    int features = r > 0 ? units_of(r - 1) / 2 : FEATURES;
    return (lk_model_spec){.in = {LK_F32, LK_SHAPE(features)}, .seed = 5 + r};
}

/* Run the row on `samples` samples; the output of the last rank. */
static void row_run(lk_chain *chain, lk_comm *comm, int64_t samples, bool recording)
{
    lk_tape *tape;
    lk_var x, y, loss = LK_NO_VAR;
    lk_list out = {.at = &y, .room = 1};
    int r = lk_comm_rank(comm), n = lk_comm_size(comm);
    ASSERT_OK(lk_tape_new(&tape));
    (void)lk_tape_set_recording(tape, recording);
    ASSERT_OK(lk_full(tape, LK_F32, LK_SHAPE(samples, FEATURES), 0.5, &x));
    ASSERT_OK(lk_chain_forward(chain, &(lk_pass){.tape = tape}, &x, r == 0, &out));
    ASSERT_EQ(out.n, r == n - 1);
    if (out.n > 0) {
        ASSERT_TRUE(lk_shape_is_equal(lk_shape_of(y), LK_SHAPE(samples, units_of(r) / 2)));
        ASSERT_OK(lk_sum(y, NULL, &loss));
    }
    if (recording)
        backward(tape, loss);
    lk_tape_free(tape);
}

static bool has_gradient(const lk_accumulator *accumulator)
{
    lk_tensor *bias;
    double value;
    ASSERT_OK(lk_slab_find(lk_accumulator_slab(accumulator), "linear1.bias", &bias));
    ASSERT_OK(lk_tensor_get_f64(bias, LK_SHAPE(0), &value));
    lk_tensor_free(bias);
    return value != 0;
}

RANKS_TEST(models_that_leave_their_input_open_are_built_for_what_comes)
{
    int calls = 0, r = lk_comm_rank(comm);
    lk_model *model = open_layer(r), *known = open_layer(r);
    lk_chain *chain = row_of(comm, model, &calls);
    lk_model_spec spec = spec_of(r);
    ASSERT_OK(lk_chain_build(chain, &x_type, r == 0));
    ASSERT_EQ(calls, 1);
    ASSERT_OK(lk_model_build(known, &spec));
    ASSERT_OK(lk_model_hold(known, NULL));
    lk_slab *a = lk_model_params(model), *b = lk_model_params(known);
    int64_t bytes = lk_slab_layout_bytes(lk_slab_layout_of(b));
    ASSERT_EQ(lk_slab_layout_bytes(lk_slab_layout_of(a)), bytes);
    ASSERT_SAME_BITS(lk_slab_data(a), lk_slab_data(b), bytes);
    row_run(chain, comm, 7, true);
    row_run(chain, comm, 3, true);
    ASSERT_EQ(calls, 3);
    lk_chain_free(chain);
    lk_model_free(model);
    lk_model_free(known);
}

RANKS_TEST(one_open_model_among_built_ones_is_enough)
{
    int calls = 0, r = lk_comm_rank(comm), open = lk_comm_size(comm) / 2;
    lk_model *model = open_layer(r);
    lk_chain *chain = row_of(comm, model, &calls);
    lk_model_spec spec = spec_of(r);
    if (r != open)
        ASSERT_OK(lk_model_build(model, &spec)); /* the chain holds it */
    ASSERT_OK(lk_chain_build(chain, &x_type, r == 0));
    row_run(chain, comm, 2, true);
    lk_chain_free(chain);
    lk_model_free(model);
}

RANKS_TEST(nothing_is_run_where_all_models_are_built)
{
    int calls = 0, r = lk_comm_rank(comm);
    lk_model *model = open_layer(r);
    lk_chain *chain = row_of(comm, model, &calls);
    lk_model_spec spec = spec_of(r);
    ASSERT_OK(lk_model_build(model, &spec));
    ASSERT_OK(lk_chain_build(chain, NULL, 0));
    ASSERT_EQ(calls, 0);
    row_run(chain, comm, 4, false);
    ASSERT_EQ(calls, 1);
    ASSERT_TRUE(!has_gradient(lk_chain_accumulator(chain, 0)));
    row_run(chain, comm, 4, true);
    ASSERT_TRUE(has_gradient(lk_chain_accumulator(chain, 0)));
    lk_chain_clear(chain);
    ASSERT_TRUE(!has_gradient(lk_chain_accumulator(chain, 0)));
    lk_chain_free(chain);
    lk_model_free(model);
}

/* ---- what goes wrong ---- */

static void expect_words(lk_comm *comm, lk_chain *chain, lk_status st, lk_status status,
                         const char *text)
{
    if (st != status || strcmp(lk_error_message(), text) != 0)
        TEST_FAIL("rank %d: %s: \"%s\", not \"%s\"", lk_comm_rank(comm), lk_status_text(st),
                  lk_error_message(), text);
    lk_error_clear();
    lk_chain_free(chain);
    ASSERT_OK(lk_barrier(comm, "refused")); /* the job goes on */
}

RANKS_TEST(a_model_that_cannot_be_built_is_refused_in_the_same_words)
{
    int calls = 0, r = lk_comm_rank(comm), bad = lk_comm_size(comm) / 2;
    char text[200];
    lk_model *model = open_layer(r);
    if (r == bad)
        ASSERT_OK(lk_model_add(model, "maxpool", "size=2"));
    lk_chain *chain = row_of(comm, model, &calls);
    lk_status st = lk_chain_build(chain, &x_type, r == 0);
    snprintf(
        text, sizeof text,
        "component 0 (layer) of rank %d: layer maxpool1 of f32[%d]: the input [%d] must have at "
        "least 2 axes",
        bad, units_of(bad), units_of(bad));
    expect_words(comm, chain, st, LK_ESHAPE, text);
    ASSERT_EQ(calls, r < bad); /* what comes before has run, what comes after has not */
    lk_model_free(model);
}

RANKS_TEST(a_model_without_a_value_is_refused_in_the_same_words)
{
    int calls = 0;
    lk_model *model = open_layer(lk_comm_rank(comm));
    lk_chain *chain = row_of(comm, model, &calls);
    lk_status st = lk_chain_build(chain, NULL, 0);
    expect_words(comm, chain, st, LK_EINVAL,
                 "component 0 (layer) of rank 0: a model takes one value, not 0");
    lk_model_free(model);
}

/* A function that does what `arg` says. */
enum { IS_RIGHT, FAILS, GIVES_NOTHING, GIVES_NO_VALUE };

static lk_status fragile(const lk_pass *pass, void *arg, const lk_list *in, int n_in, lk_list *out)
{
    const int *does = arg;
    (void)pass;
    (void)n_in;
    LK_CHECK(*does != FAILS, LK_ENOTSUP, "planted");
    out->n = *does != GIVES_NOTHING;
    out->at[0] = *does == GIVES_NO_VALUE ? LK_NO_VAR : in[0].at[0];
    return LK_OK;
}

/* x from rank 0 to the last by way of rank 0's own queue; `does` is what rank 0's second one does. */
static lk_chain *fragile_of(lk_comm *comm, int *does, lk_model *model)
{
    static int is_right = IS_RIGHT;
    lk_chain *chain;
    int r = lk_comm_rank(comm), last = lk_comm_size(comm) - 1;
    ASSERT_OK(lk_chain_new(comm, &chain));
    lk_component right = {.name = "f", .fn = fragile, .arg = &is_right},
                 planted = {.name = "g", .fn = fragile, .arg = does},
                 layer = {.name = "layer", .model = model};
    if (r == 0) {
        ASSERT_OK(lk_chain_add(chain, &right, NULL, 0, (int[]){0}, 1));
        ASSERT_OK(lk_chain_add(chain, &planted, (int[]){0}, 1, (int[]){last}, 1));
    }
    if (r == last)
        ASSERT_OK(lk_chain_add(chain, &layer, (int[]){0}, 1, NULL, 0));
    return chain;
}

RANKS_TEST(a_function_that_fails_in_the_build_is_refused_in_the_same_words)
{
    static const char *const text[] = {"", "planted", "gives 0 values",
                                       "its value 0 is not on the pass's tape"};
    for (int does = FAILS; does <= GIVES_NO_VALUE; does++) {
        char words[100];
        lk_model *model = open_layer(0);
        lk_chain *chain = fragile_of(comm, &does, model);
        lk_status st = lk_chain_build(chain, &x_type, lk_comm_rank(comm) == 0);
        snprintf(words, sizeof words, "component 1 (g) of rank 0: %s", text[does]);
        expect_words(comm, chain, st, does == FAILS ? LK_ENOTSUP : LK_EINVAL, words);
        lk_model_free(model);
    }
}

/* Rank 0 waits for all, none of whom waits for it: its failure would reach them on their way out. */
static void all_have_come(lk_comm *comm)
{
    char here = 0;
    if (lk_comm_rank(comm) > 0)
        (void)!lk_send(comm, &here, 1, LK_U8, 0, 0, "here");
    for (int r = 1; r < lk_comm_size(comm) && lk_comm_rank(comm) == 0; r++)
        ASSERT_OK(lk_recv(comm, &here, 1, LK_U8, r, 0, "here", NULL));
}

/* Ends the job of `comm`. */
static lk_status fail_in_a_pass(lk_comm *comm, void *arg)
{
    int does = IS_RIGHT, last = lk_comm_size(comm) - 1;
    lk_model *model = open_layer(0);
    lk_chain *chain = fragile_of(comm, &does, model);
    lk_tape *tape;
    lk_var x, y;
    lk_list out = {.at = &y, .room = 1};
    (void)arg;
    ASSERT_OK(lk_chain_build(chain, &x_type, lk_comm_rank(comm) == 0));
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_full(tape, LK_F32, LK_SHAPE(2, FEATURES), 0.5, &x));
    does = FAILS;
    all_have_come(comm);
    if (lk_comm_rank(comm) == 0)
        ASSERT_FAILS(lk_chain_forward(chain, &(lk_pass){.tape = tape}, &x, 1, &out), LK_ENOTSUP,
                     "component 1 (g) of rank 0: planted");
    else if (lk_comm_rank(comm) == last)
        ASSERT_FAILS(lk_chain_forward(chain, &(lk_pass){.tape = tape}, NULL, 0, &out), LK_ECOMM,
                     "rank 0 failed: not supported: component 1 (g) of rank 0: planted");
    lk_tape_free(tape);
    lk_chain_free(chain);
    lk_model_free(model);
    return LK_OK;
}

/* ---- memory ---- */

static lk_status build_and_run(lk_comm *comm, void *arg)
{
    lk_status st;
    int calls = 0, r = lk_comm_rank(comm), last = lk_comm_size(comm) - 1;
    lk_model *model = NULL;
    lk_chain *chain = NULL;
    lk_tape *tape = NULL;
    lk_var x, y, loss = LK_NO_VAR;
    lk_list out = {.at = &y, .room = 1};
    lk_component layer, function = {.name = "half", .fn = half, .arg = &calls};
    (void)arg;
    LK_TRY_TO(done, lk_model_new(&model));
    LK_TRY_TO(done, lk_model_add(model, "linear", "units=4"));
    layer = (lk_component){.name = "layer", .model = model};
    LK_TRY_TO(done, lk_chain_new(comm, &chain));
    if (r == 0)
        LK_TRY_TO(done, lk_chain_add(chain, &layer, NULL, 0, (int[]){last, 0}, 2));
    if (r == 0)
        LK_TRY_TO(done, lk_chain_add(chain, &function, (int[]){0}, 1, NULL, 0));
    if (r == last && r > 0)
        LK_TRY_TO(done, lk_chain_add(chain, &layer, (int[]){0}, 1, NULL, 0));
    LK_TRY_TO(done, lk_chain_build(chain, &x_type, r == 0));
    LK_TRY_TO(done, lk_tape_new(&tape));
    LK_TRY_TO(done, lk_full(tape, LK_F32, LK_SHAPE(2, FEATURES), 0.5, &x));
    LK_TRY_TO(done, lk_chain_forward(chain, &(lk_pass){.tape = tape}, &x, r == 0, &out));
    if (out.n > 0)
        LK_TRY_TO(done, lk_sum(y, NULL, &loss));
    LK_TRY_TO(done, lk_backward(tape, &(lk_seed){.of = loss}, lk_is_var(loss), 0));
done:
    lk_tape_free(tape);
    lk_chain_free(chain);
    lk_model_free(model);
    return st;
}

/* On threads, whichever rank asks for the n-th block: both return, and nothing is left. */
RANKS_TEST(a_rank_without_memory_keeps_no_other_waiting)
{
    if (!getenv("TEST_TRANSPORT") && lk_comm_size(comm) == 1)
        expect_scarce_memory_is_told(build_and_run);
}

RANKS_TEST(a_loop_allocates_nothing_from_its_second_pass_on)
{
    int calls = 0;
    lk_tape *tape;
    lk_var x, y;
    lk_list out = {.at = &y, .room = 1};
    int64_t blocks = 0;
    if (lk_comm_size(comm) > 1)
        return;
    lk_model *model = open_layer(0);
    lk_chain *chain = row_of(comm, model, &calls);
    ASSERT_OK(lk_chain_build(chain, &x_type, 1));
    ASSERT_OK(lk_tape_new(&tape));
    for (int i = 0; i < 4; i++) {
        if (i == 2)
            blocks = lk_alloc_stats_now().calls;
        lk_tape_reset(tape);
        ASSERT_OK(lk_full(tape, LK_F32, LK_SHAPE(2, FEATURES), 0.5, &x));
        ASSERT_OK(lk_chain_forward(chain, &(lk_pass){.tape = tape}, &x, 1, &out));
        backward_of_sum(y);
    }
    ASSERT_EQ(lk_alloc_stats_now().calls, blocks);
    lk_tape_free(tape);
    lk_chain_free(chain);
    lk_model_free(model);
}

RANKS_TEST(a_component_that_fails_in_a_pass_ends_the_job)
{
    const char *transport = getenv("TEST_TRANSPORT");
    lk_comm *own = comm;
    if (lk_comm_size(comm) == 1)
        return;
    if (transport)
        ASSERT_OK(lk_comm_open(transport, &own)); /* others go on with theirs */
    ASSERT_OK(fail_in_a_pass(own, NULL));
    if (transport)
        lk_comm_close(own);
}
