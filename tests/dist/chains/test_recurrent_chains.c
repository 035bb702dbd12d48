/* Recurrent models as components of a chain list: the carry goes from rank to rank beside the values, or waits
 * in the queue of the own rank, with the bits of the same models in one process. */
#include "recurrents.h"

/* ---- times on ranks ---- */

static lk_component component_of(const struct sequence *s, lk_model *model, const int *from,
                                 const int *to)
{
    return (lk_component){.name = "part",
                          .model = model,
                          .spec = {.dtype = s->dtype},
                          .carry_in = *from >= 0 ? from : NULL,
                          .carry_out = *to >= 0 ? to : NULL};
}

/* Each rank has one component, which takes x and gives this rank's output. */
static void check_over_ranks(lk_comm *comm, const struct sequence *s)
{
    int r = lk_comm_rank(comm), from = rank_before(s, r), to = rank_behind(s, r);
    struct member want[MOST_RANKS];
    lk_tape *tape, *alone;
    lk_chain *chain;
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_tape_new(&alone));
    run_alone(s, alone, want);
    struct member own = member_new(s, tape, r);
    lk_component part = component_of(s, own.model, &from, &to);
    lk_list out = {.at = &own.out, .room = 1};
    ASSERT_OK(lk_chain_new(comm, &chain));
    ASSERT_OK(lk_chain_add(chain, &part, NULL, 0, NULL, 0));
    ASSERT_OK(lk_chain_build(chain, NULL, 0));
    ASSERT_OK(lk_chain_forward(chain, &(lk_pass){.tape = tape}, &own.x.var, 1, &out));
    ASSERT_EQ(out.n, 1);
    backward(tape, member_loss(s, &own, r));
    expect_alike(s, r, &own, &want[r], lk_chain_accumulator(chain, 0));
    lk_tape_free(tape);
    lk_tape_free(alone);
    lk_chain_free(chain);
    member_free(&own);
    for (int k = 0; k < s->ranks; k++)
        member_free(&want[k]);
}

RANKS_TEST(carries_go_from_rank_to_rank)
{
    for (int net = 0; net < N_NETS; net++)
        for (int dtype = 0; dtype < 2; dtype++)
            for (int number = 0; number < 3; number++) {
                struct sequence s = sequence_of(comm, net, dtype, number);
                check_over_ranks(comm, &s);
            }
}

/* ---- encoder and decoder ---- */

enum { ENCODER, DECODER };

/* Argument number `arg` of the chain's x, for the own rank. */
static lk_status pick(const lk_pass *pass, void *arg, const lk_list *in, int n_in, lk_list *out)
{
    (void)pass;
    (void)n_in;
    out->at[out->n++] = in[*(int *)arg].at[0];
    return LK_OK;
}

/* A component, with what it takes from the own rank and who has it. */
static void side_add(lk_chain *chain, const lk_component *c, bool queued, int own)
{
    ASSERT_OK(lk_chain_add(chain, c, &own, queued, NULL, 0));
}

/* The encoder gives nothing but its carry, to the decoder on another rank or the own. */
static void check_two_sides(lk_comm *comm, const struct sequence *s, const struct member *want)
{
    int r = lk_comm_rank(comm), second = lk_comm_size(comm) > 1, first = 0;
    int side[] = {ENCODER, DECODER};
    bool one = second == first, has[2] = {r == first, r == second};
    lk_tape *tape;
    lk_chain *chain;
    lk_var x[2], y;
    lk_list out = {.at = &y, .room = 1};
    struct member own[2] = {{.model = NULL}};
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_chain_new(comm, &chain));
    for (int k = 0; k < 2; k++)
        if (has[k])
            own[k] = member_new(s, tape, k);
    if (one) /* the x of both are arguments of the chain, and wait in the queue */
        for (int k = 0; k < 2; k++)
            ASSERT_OK(lk_chain_add(chain, &(lk_component){.fn = pick, .arg = &side[k]}, NULL, 0,
                                   &first, 1));
    if (has[ENCODER])
        side_add(chain,
                 &(lk_component){.name = "encoder",
                                 .model = own[ENCODER].model,
                                 .carry_out = &second,
                                 .carry_only = true},
                 one, first);
    if (has[DECODER])
        side_add(
            chain,
            &(lk_component){.name = "decoder", .model = own[DECODER].model, .carry_in = &first},
            one, first);
    ASSERT_OK(lk_chain_build(chain, NULL, 0));
    int n = 0;
    for (int k = 0; k < 2; k++)
        if (has[k])
            x[n++] = own[k].x.var;
    ASSERT_OK(lk_chain_forward(chain, &(lk_pass){.tape = tape}, x, n, &out));
    ASSERT_EQ(out.n, has[DECODER]);
    lk_var loss = LK_NO_VAR;
    if (has[DECODER]) {
        own[DECODER].out = y;
        loss = member_loss(s, &own[DECODER], DECODER);
    }
    backward(tape, loss);
    for (int k = 0, at = one ? 2 : 0; k < 2; k++) {
        if (!has[k])
            continue;
        if (k == ENCODER)
            ASSERT_OK(lk_tensor_clone(want[k].y, s->dtype, &own[k].y)); /* it is not seen */
        expect_alike(s, k, &own[k], &want[k], lk_chain_accumulator(chain, at++));
    }
    lk_tape_free(tape);
    lk_chain_free(chain);
    member_free(&own[0]);
    member_free(&own[1]);
}

RANKS_TEST(an_encoder_gives_its_carry_alone)
{
    for (int net = 0; net < N_NETS; net++)
        for (int number = 0; number < 2; number++) {
            struct sequence s = sequence_of(comm, net, number, number);
            struct member want[2];
            lk_var at[MOST_CARRIES];
            lk_list carry = {.at = at, .room = MOST_CARRIES};
            lk_tape *tape;
            ASSERT_OK(lk_tape_new(&tape));
            s.ranks = 2;
            s.times[0] = 3;
            s.times[1] = 2;
            for (int k = 0; k < 2; k++) {
                want[k] = member_new(&s, tape, k);
                ASSERT_OK(lk_model_forward_carry(
                    want[k].model, &(lk_pass){.tape = tape, .accumulator = want[k].sums},
                    want[k].x.var, k > 0 ? &carry : NULL, k > 0 ? NULL : &carry, &want[k].out));
            }
            (void)member_loss(&s, &want[ENCODER], ENCODER);
            backward(tape, member_loss(&s, &want[DECODER], DECODER));
            check_two_sides(comm, &s, want);
            lk_tape_free(tape);
            member_free(&want[0]);
            member_free(&want[1]);
        }
}

/* ---- values as a carry ---- */

/* A carry is a list of values, so a function may give one, and take one. */
static lk_status shifted(const lk_pass *pass, void *arg, const lk_list *in, int n_in, lk_list *out)
{
    (void)pass;
    (void)arg;
    ASSERT_EQ(n_in, 1);
    for (int i = 0; i < in[0].n; i++)
        LK_TRY(lk_affine(in[0].at[i], 0.5, 0.25, &out->at[out->n++]));
    return LK_OK;
}

RANKS_TEST(a_function_may_stand_between_two_carries)
{
    int r = lk_comm_rank(comm), next = 1, own = 0;
    struct sequence s = sequence_of(comm, 2, 0, 1);
    if (lk_comm_size(comm) < 2)
        return;
    lk_tape *tape;
    lk_chain *chain;
    lk_model *a = recurrent_new(&s, 0, 2), *b = recurrent_new(&s, 1, 3);
    lk_var x[2], y, at[2][MOST_CARRIES];
    lk_list out = {.at = &y, .room = 1}, carry = {.at = at[0], .room = MOST_CARRIES},
            anew = {.at = at[1], .room = MOST_CARRIES};
    ASSERT_OK(lk_tape_new(&tape));
    for (int k = 0; k < 2; k++)
        ASSERT_OK(lk_full(tape, LK_F32, LK_SHAPE(2, 2 + k, FEATURES), 0.5 + k, &x[k]));
    ASSERT_OK(lk_chain_new(comm, &chain));
    if (r == 0) {
        ASSERT_OK(lk_chain_add(chain,
                               &(lk_component){.model = a, .carry_out = &own, .carry_only = true},
                               NULL, 0, NULL, 0));
        ASSERT_OK(lk_chain_add(chain, &(lk_component){.fn = shifted}, &own, 1, &next, 1));
    } else if (r == 1) {
        ASSERT_OK(
            lk_chain_add(chain, &(lk_component){.model = b, .carry_in = &own}, NULL, 0, NULL, 0));
    }
    ASSERT_OK(lk_chain_build(chain, NULL, 0));
    ASSERT_OK(lk_chain_forward(chain, &(lk_pass){.tape = tape}, &x[r == 1], 1, &out));
    if (r == 1) {
        lk_var want;
        const lk_tensor *value;
        lk_pass pass = {.tape = tape};
        ASSERT_OK(lk_model_forward_carry(a, &pass, x[0], NULL, &carry, &want));
        ASSERT_OK(shifted(&pass, NULL, &carry, 1, &anew));
        ASSERT_OK(lk_model_forward_carry(b, &pass, x[1], &anew, NULL, &want));
        ASSERT_OK(lk_value(want, &value));
        expect_same(y, value, "behind the function");
    }
    lk_tape_free(tape);
    lk_chain_free(chain);
    lk_model_free(a);
    lk_model_free(b);
}

/* ---- models that are open, and refusals ---- */

static lk_model *open_model(const char *type)
{
    lk_model *m;
    ASSERT_OK(lk_model_new(&m));
    ASSERT_OK(lk_model_add(m, type, "units=3"));
    return m;
}

/* A chain over all ranks whose models of `type` are open; it is built for 2 times each. */
static lk_status open_build(lk_comm *comm, const char *type, lk_model **m, lk_chain **chain)
{
    int r = lk_comm_rank(comm), before = r - 1, behind = r + 1;
    const lk_tensor_type x = {LK_F32, LK_SHAPE(1, 2, FEATURES)};
    lk_component c = {.name = "open", .carry_in = &before, .carry_out = &behind};
    c.model = *m = open_model(type);
    if (r == 0)
        c.carry_in = NULL;
    if (behind == lk_comm_size(comm))
        c.carry_out = NULL;
    ASSERT_OK(lk_chain_new(comm, chain));
    ASSERT_OK(lk_chain_add(*chain, &c, NULL, 0, NULL, 0));
    return lk_chain_build(*chain, &x, 1);
}

RANKS_TEST(open_models_are_built_and_those_without_a_carry_refused)
{
    lk_model *m;
    lk_chain *chain;
    if (lk_comm_size(comm) < 2)
        return;
    ASSERT_OK(open_build(comm, "gru", &m, &chain));
    ASSERT_EQ(lk_model_carries(m), 1);
    lk_chain_free(chain);
    lk_model_free(m);
    ASSERT_FAILS(open_build(comm, "linear", &m, &chain), LK_EINVAL,
                 "component 0 (open) of rank 0: the model has no recurrent layer");
    lk_chain_free(chain);
    lk_model_free(m);
}

RANKS_TEST(what_is_no_carry_is_refused)
{
    int r = lk_comm_rank(comm), rank = lk_comm_size(comm), own = r;
    struct sequence s = sequence_of(comm, 2, 0, 0), other = s;
    char text[128];
    other.layers = (const char *const[]){"tanh", NULL, NULL};
    lk_chain *chain;
    lk_model *m = recurrent_new(&s, 0, 2), *none = recurrent_new(&other, 0, 2);
    ASSERT_OK(lk_chain_new(comm, &chain));
    ASSERT_FAILS(
        lk_chain_add(chain, &(lk_component){.fn = pick, .carry_in = &own}, NULL, 0, NULL, 0),
        LK_EINVAL, "a function has no carry");
    ASSERT_FAILS(
        lk_chain_add(chain, &(lk_component){.model = m, .carry_only = true}, NULL, 0, NULL, 0),
        LK_EINVAL, "carry_only, and there is no carry_out");
    ASSERT_FAILS(lk_chain_add(chain,
                              &(lk_component){.model = m, .carry_out = &own, .carry_only = true},
                              NULL, 0, &own, 1),
                 LK_EINVAL, "carry_only, and 1 out_ranks");
    ASSERT_FAILS(
        lk_chain_add(chain, &(lk_component){.model = none, .carry_in = &own}, NULL, 0, NULL, 0),
        LK_EINVAL, "the model has no recurrent layer");
    ASSERT_OK(lk_chain_add(chain, &(lk_component){.name = "a", .model = m, .carry_in = &rank}, NULL,
                           0, NULL, 0));
    snprintf(text, sizeof text, "component 0 (a) of rank 0: carry_in names rank %d, there are %d",
             rank, rank);
    ASSERT_FAILS(lk_chain_build(chain, NULL, 0), LK_EINVAL, text);
    lk_chain_free(chain);
    ASSERT_OK(lk_chain_new(comm, &chain));
    if (r == 0)
        ASSERT_OK(lk_chain_add(chain, &(lk_component){.name = "a", .model = m, .carry_out = &own},
                               NULL, 0, NULL, 0));
    ASSERT_FAILS(lk_chain_build(chain, NULL, 0), LK_EINVAL,
                 "component 0 (a) of rank 0 puts a value into the queue of its own rank that no "
                 "later component takes");
    lk_chain_free(chain);
    lk_model_free(m);
    lk_model_free(none);
}
