/* Chain lists: the shapes of ChainerMN's tests, forward and backward, have the bits of one process; what
 * cannot run is refused on all ranks in the same words.
 *
 * TEST_PASSES in the environment says how often each shape is run. */
#include "chains.h"

/* ---- the shapes ---- */

static void cycle(struct network *net)
{
    int n = net->ranks;
    part_add(net, 0, "a", NULL, NONE, RANKS(1));
    for (int r = 1; r < n; r++)
        part_add(net, r, "c", NULL, RANKS(r - 1), RANKS((r + 1) % n));
    part_add(net, 0, "b", NULL, RANKS(n - 1), NONE);
}

static void crossing(struct network *net)
{
    int n = net->ranks;
    for (int r = 0; r < n; r++) {
        const int *left = RANKS((r + n - 1) % n), *right = RANKS((r + 1) % n);
        bool even = r % 2 == 0;
        part_add(net, r, "a", NULL, even ? NONE : left, even ? right : NONE);
        part_add(net, r, "b", NULL, even ? left : NONE, even ? NONE : right);
    }
}

/* Rank 0 gives a value to all others, and itself as number `own` (END: not), and blends what they make of
 * it. */
static void branching(struct network *net, int own)
{
    int ranks[MOST_LINKS], n = 0;
    for (int r = 1; r <= net->ranks; r++) {
        if (r - 1 == own)
            ranks[n++] = 0;
        if (r < net->ranks)
            ranks[n++] = r;
    }
    ranks[n] = END;
    part_add(net, 0, "a", NULL, NONE, ranks);
    if (own != END)
        part_add(net, 0, "s", NULL, RANKS(0), RANKS(0));
    part_add(net, 0, "b", blend, ranks, NONE);
    for (int r = 1; r < net->ranks; r++)
        part_add(net, r, "k", NULL, RANKS(0), RANKS(0));
}

static void twisting(struct network *net)
{
    int last = net->ranks - 1;
    part_add(net, 0, "a", NULL, NONE, RANKS(1));
    part_add(net, 0, "b", NULL, RANKS(1), NONE);
    for (int r = 1; r < last; r++) {
        part_add(net, r, "a", NULL, RANKS(r - 1), RANKS(r));
        part_add(net, r, "b", NULL, NONE, RANKS(r - 1));
        part_add(net, r, "c", NULL, NONE, RANKS(r + 1));
        part_add(net, r, "d", NULL, RANKS(r + 1), RANKS(r));
        part_add(net, r, "e", blend, RANKS(r, r), NONE);
    }
    part_add(net, last, "a", NULL, RANKS(last - 1), NONE);
    part_add(net, last, "b", NULL, NONE, RANKS(last - 1));
}

/* Lists of several values round all ranks, the first longer than what it is made of; rank 0 keeps it too. */
static void tuples(struct network *net)
{
    int n = net->ranks;
    part_add(net, 0, "first", more, NONE, RANKS(0, 1));
    for (int r = 1; r < n; r++)
        part_add(net, r, "next", anew, RANKS(r - 1), RANKS((r + 1) % n));
    part_add(net, 0, "last", blend, RANKS(n - 1, 0), NONE);
}

/* Lists that grow from rank to rank. */
static void growing(struct network *net)
{
    int n = net->ranks, last = n < 5 ? n - 1 : 4;
    part_add(net, 0, "first", more, NONE, RANKS(1));
    for (int r = 1; r <= last; r++)
        part_add(net, r, "next", r < last ? more : blend, RANKS(r - 1),
                 r < last ? RANKS(r + 1) : NONE);
}

/* The same value several times to the own rank, and to another. */
static void repeating(struct network *net)
{
    int last = net->ranks - 1;
    part_add(net, 0, "a", NULL, NONE, RANKS(0, 0, last, last, last));
    part_add(net, 0, "s", blend, RANKS(0, 0), RANKS(last));
    part_add(net, last, "b", blend, RANKS(0, 0, 0, 0), NONE);
}

static int passes_asked(void)
{
    const char *text = getenv("TEST_PASSES");
    return text ? atoi(text) : 3;
}

static void check_shape(lk_comm *comm, const char *name, void (*shape)(struct network *net))
{
    struct network net = {.ranks = lk_comm_size(comm)};
    if (net.ranks < 2)
        return;
    shape(&net);
    check_network(comm, &net, name, passes_asked());
}

RANKS_TEST(a_cycle_has_the_bits_of_one_process)
{
    check_shape(comm, "cycle", cycle);
}

RANKS_TEST(a_crossing_has_the_bits_of_one_process)
{
    check_shape(comm, "crossing", crossing);
}

RANKS_TEST(branches_have_the_bits_of_one_process_wherever_the_own_rank_is)
{
    int n = lk_comm_size(comm);
    for (int own = END; own < n && n > 1; own++) {
        struct network net = {.ranks = n};
        char name[64];
        snprintf(name, sizeof name, "branching, own rank at %d", own);
        branching(&net, own);
        check_network(comm, &net, name, passes_asked());
    }
}

RANKS_TEST(a_twist_has_the_bits_of_one_process)
{
    check_shape(comm, "twisting", twisting);
}

RANKS_TEST(tuples_have_the_bits_of_one_process)
{
    check_shape(comm, "tuples", tuples);
    check_shape(comm, "growing", growing);
}

RANKS_TEST(repeated_ranks_have_the_bits_of_one_process)
{
    check_shape(comm, "repeating", repeating);
}

/* tanh(x + x / 2): uses its input twice. */
static lk_status twice(const lk_pass *pass, void *arg, const lk_list *in, int n_in, lk_list *out)
{
    return LK_TRACE(blend(pass, arg, (const lk_list[]){in[0], in[n_in - 1]}, 2, out));
}

/* The output and the gradient of x of rank 0, of functions on the ranks of `comm`. */
static void run_functions(lk_comm *comm, const struct network *net, lk_tensor **out,
                          lk_tensor **grad)
{
    struct parts own = {.tape = NULL};
    int r = lk_comm_rank(comm);
    lk_var y, loss = LK_NO_VAR;
    lk_list list = {.at = &y, .room = 1};
    lk_chain *chain = chain_of(comm, net, &own);
    ASSERT_OK(lk_chain_build(chain, NULL, 0));
    ASSERT_OK(lk_tape_new(&own.tape));
    own.x[r] = leaf_of(own.tape, input_new(0));
    ASSERT_OK(lk_chain_forward(chain, &(lk_pass){.tape = own.tape}, &own.x[r].var, 1, &list));
    *out = NULL;
    if (list.n > 0)
        loss = output_take(y, out);
    backward(own.tape, loss);
    *grad = lk_tensor_retain(own.x[r].grad);
    lk_tape_reset(own.tape);
    lk_chain_free(chain);
    parts_free(&own);
}

/* What a component says of its input is one sum, which goes back as one, also where all components are on
 * one rank: here the gradient of a value is the sum of sums on any number of ranks. */
RANKS_TEST(branches_that_use_their_input_twice_have_the_bits_of_one_rank)
{
    int n = lk_comm_size(comm), ranks[MOST_LINKS];
    struct network several = {.ranks = n}, one = {.ranks = 1};
    lk_tensor *out[2], *grad[2];
    lk_comm *alone;
    if (n > 3)
        return;
    for (int r = 0; r <= n; r++)
        ranks[r] = r < n ? r : END;
    part_add(&several, 0, "a", blend, NONE, ranks);
    for (int r = 0; r < n; r++)
        part_add(&several, r, "k", twice, RANKS(0), RANKS(0));
    part_add(&several, 0, "b", blend, ranks, NONE);
    memset(ranks, 0, (size_t)n * sizeof *ranks);
    part_add(&one, 0, "a", blend, NONE, ranks);
    for (int r = 0; r < n; r++)
        part_add(&one, 0, "k", twice, RANKS(0), RANKS(0));
    part_add(&one, 0, "b", blend, ranks, NONE);
    ASSERT_OK(lk_comm_split(comm, lk_comm_rank(comm), 0, &alone));
    run_functions(comm, &several, &out[0], &grad[0]);
    run_functions(alone, &one, &out[1], &grad[1]);
    if (lk_comm_rank(comm) == 0) {
        expect_equal(out[0], out[1], "branches", n, "the output");
        expect_equal(grad[0], grad[1], "branches", n, "the gradient of x");
    }
    for (int i = 0; i < 2; i++) {
        lk_tensor_free(out[i]);
        lk_tensor_free(grad[i]);
    }
    lk_comm_close(alone);
}

/* ---- what is refused ---- */

/* Compare the words of all ranks with `text`, and free the chain. */
static void expect_refused(lk_comm *comm, lk_chain *chain, lk_status st, lk_status status,
                           const char *text)
{
    if (st != status || strcmp(lk_error_message(), text) != 0)
        TEST_FAIL("rank %d: %s: \"%s\", not \"%s\"", lk_comm_rank(comm), lk_status_text(st),
                  lk_error_message(), text);
    lk_error_clear();
    ASSERT_FAILS(lk_chain_build(chain, NULL, 0), LK_ESTATE, "can only be freed");
    lk_chain_free(chain);
    ASSERT_OK(lk_barrier(comm, "refused")); /* the job goes on */
}

static void refuses(lk_comm *comm, const struct network *net, const char *text)
{
    struct parts own = {.tape = NULL};
    lk_chain *chain = chain_of(comm, net, &own);
    expect_refused(comm, chain, lk_chain_build(chain, NULL, 0), LK_EINVAL, text);
    parts_free(&own);
}

RANKS_TEST(what_does_not_pair_is_refused_in_the_same_words)
{
    struct network net = {.ranks = lk_comm_size(comm)};
    if (net.ranks < 2)
        return;
    struct network other = net;
    part_add(&net, 0, "l1", NULL, NONE, RANKS(1));
    part_add(&net, 0, "l2", NULL, NONE, RANKS(1));
    part_add(&net, 1, "l3", NULL, RANKS(0), NONE);
    refuses(comm, &net,
            "component 1 (l2) of rank 0 sends to rank 1, where no component takes message 1 from "
            "rank 0");
    part_add(&other, 0, "l1", NULL, NONE, RANKS(1));
    part_add(&other, 1, "l3", blend, RANKS(0, 0), NONE);
    refuses(comm, &other,
            "component 0 (l3) of rank 1 waits for message 1 from rank 0, where no component sends "
            "it to rank 1");
}

RANKS_TEST(two_outputs_are_refused_in_the_same_words)
{
    struct network net = {.ranks = lk_comm_size(comm)};
    int last = net.ranks - 1;
    char text[256];
    part_add(&net, last, "l1", NULL, NONE, NONE);
    part_add(&net, last, "l2", NULL, NONE, NONE);
    snprintf(
        text, sizeof text,
        "component 0 (l1) of rank %d and component 1 (l2) of rank %d both have no out_ranks: a "
        "rank has at most one output",
        last, last);
    refuses(comm, &net, text);
}

RANKS_TEST(an_own_queue_that_does_not_fit_is_refused_in_the_same_words)
{
    struct network net = {.ranks = lk_comm_size(comm)}, other = net;
    part_add(&net, 0, "l1", NULL, NONE, RANKS(0));
    refuses(comm, &net,
            "component 0 (l1) of rank 0 puts a value into the queue of its own rank that no later "
            "component takes");
    part_add(&other, 0, "l1", NULL, RANKS(0), NONE);
    refuses(comm, &other,
            "component 0 (l1) of rank 0 takes an input from its own rank, but no component before "
            "it has put one there");
}

RANKS_TEST(a_rank_out_of_range_is_refused_in_the_same_words)
{
    struct network net = {.ranks = lk_comm_size(comm)};
    char text[256];
    part_add(&net, 0, "l1", NULL, NONE, RANKS(net.ranks));
    snprintf(text, sizeof text, "component 0 (l1) of rank 0: out_ranks names rank %d, there are %d",
             net.ranks, net.ranks);
    refuses(comm, &net, text);
}

RANKS_TEST(circles_are_refused_in_the_same_words)
{
    struct network net = {.ranks = lk_comm_size(comm)}, other = net;
    if (net.ranks < 2)
        return;
    part_add(&net, 0, "l1", NULL, RANKS(1), RANKS(1));
    part_add(&net, 1, "l2", NULL, RANKS(0), RANKS(0));
    refuses(comm, &net,
            "values are waited for in a circle: component 0 (l1) of rank 0, receiving from rank 1, "
            "waits for component 0 (l2) of rank 1; component 0 (l2) of rank 1, receiving from rank "
            "0, waits for component 0 (l1) of rank 0");
    for (int r = 0; r < 2; r++) {
        part_add(&other, r, "l1", NULL, NONE, RANKS(1 - r));
        part_add(&other, r, "l2", NULL, RANKS(1 - r), NONE);
    }
    refuses(comm, &other,
            "sends wait for their receives in a circle, add a component that receives before one "
            "that sends: component 0 (l1) of rank 0, sending to rank 1, waits for component 1 (l2) "
            "of rank 1; component 0 (l1) of rank 1, sending to rank 0, waits for component 1 (l2) "
            "of rank 0");
}

RANKS_TEST(a_model_that_would_get_several_values_is_refused)
{
    struct network net = {.ranks = lk_comm_size(comm)};
    part_add(&net, 0, "l1", NULL, NONE, RANKS(0, 0));
    part_add(&net, 0, "l2", NULL, RANKS(0, 0), NONE);
    refuses(comm, &net,
            "component 1 (l2) of rank 0 is a model, which takes one value, and has several "
            "in_ranks: add a function that joins what comes from them");
}

RANKS_TEST(misuse_is_refused_on_the_rank_alone)
{
    lk_chain *chain;
    lk_model *model = layer_new(0, 0);
    lk_tape *tape;
    ASSERT_OK(lk_tape_new(&tape));
    lk_pass pass = {.tape = tape};
    ASSERT_FAILS(lk_chain_new(NULL, &chain), LK_EINVAL, "comm is NULL");
    ASSERT_OK(lk_chain_new(comm, &chain));
    ASSERT_FAILS(lk_chain_add(chain, &(lk_component){.name = "x"}, NULL, 0, NULL, 0), LK_EINVAL,
                 "a component is either a model or a function, not neither");
    ASSERT_FAILS(
        lk_chain_add(chain, &(lk_component){.model = model, .fn = blend}, NULL, 0, NULL, 0),
        LK_EINVAL, "not both");
    ASSERT_FAILS(lk_chain_add(chain,
                              &(lk_component){.model = model,
                                              .name = "a name of more than thirty-one bytes"},
                              NULL, 0, NULL, 0),
                 LK_EINVAL, "is longer than 31 bytes");
    ASSERT_FAILS(lk_chain_add(chain, &(lk_component){.model = model}, NULL, 1, NULL, 0), LK_EINVAL,
                 "1 in_ranks");
    ASSERT_OK(lk_chain_add(chain, &(lk_component){.model = model}, NULL, 0, NULL, 0));
    ASSERT_FAILS(lk_chain_add(chain, &(lk_component){.model = model}, NULL, 0, NULL, 0), LK_EINVAL,
                 "the model is component 0 already");
    ASSERT_FAILS(lk_chain_forward(chain, &pass, NULL, 0, NULL), LK_ESTATE, "is not built");
    ASSERT_TRUE(!lk_chain_accumulator(chain, 0));
    ASSERT_OK(lk_chain_build(chain, NULL, 0));
    ASSERT_TRUE(lk_chain_accumulator(chain, 0) && !lk_chain_accumulator(chain, 1));
    ASSERT_TRUE(lk_chain_model(chain, 0) == model && !lk_chain_model(chain, 1));
    ASSERT_EQ(lk_chain_components(chain), 1);
    ASSERT_FAILS(lk_chain_build(chain, NULL, 0), LK_ESTATE, "already built");
    ASSERT_FAILS(lk_chain_add(chain, &(lk_component){.fn = blend}, NULL, 0, NULL, 0), LK_ESTATE,
                 "is built");
    ASSERT_FAILS(lk_chain_forward(chain, &pass, NULL, 0, NULL), LK_EINVAL, "there is no list");
    pass.accumulator = lk_chain_accumulator(chain, 0);
    ASSERT_FAILS(lk_chain_forward(chain, &pass, NULL, 0, NULL), LK_EINVAL, "pass->accumulator");
    lk_chain_free(chain);
    lk_chain_free(NULL);
    lk_tape_free(tape);
    lk_model_free(model);
}
