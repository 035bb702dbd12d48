/* lk_recurrent_forward(): recurrent nets whose times lie on several ranks have the bits of the same models in
 * one process, forward and backward; gradients are differences of the loss. */
#include "recurrents.h"
#include "scarce_ranks.h"

#include <lockstep/extra/dist_check.h>

/* ---- the same bits ---- */

/* The last rank says by hand what lk_recurrent_forward() does, to see the carry at the end. */
static void forward_by_hand(lk_comm *comm, const struct sequence *s, lk_tape *tape,
                            struct member *m, int from)
{
    lk_var at[2][MOST_CARRIES];
    lk_list first = {.at = at[0], .room = MOST_CARRIES}, last = {.at = at[1], .room = MOST_CARRIES};
    if (from >= 0)
        ASSERT_OK(lk_dist_recv_list(tape, comm, from, 0, "carry", &first));
    ASSERT_OK(lk_model_forward_carry(m->model, &(lk_pass){.tape = tape, .accumulator = m->sums},
                                     m->x.var, from >= 0 ? &first : NULL, &last, &m->out));
    ASSERT_EQ(last.n, lk_model_carries(m->model));
    ASSERT_EQ(lk_dtype_of(last.at[0]), s->dtype);
    member_keep(m, &last);
}

static struct member run_as_rank(lk_comm *comm, const struct sequence *s, lk_tape *tape)
{
    int r = lk_comm_rank(comm), from = rank_before(s, r), to = rank_behind(s, r);
    struct member m = member_new(s, tape, r);
    lk_pass pass = {.tape = tape, .accumulator = m.sums};
    if (to >= 0)
        ASSERT_OK(lk_recurrent_forward(m.model, &pass, m.x.var, comm, from, to, "carry", &m.out));
    else
        forward_by_hand(comm, s, tape, &m, from);
    backward(tape, member_loss(s, &m, r));
    return m;
}

static void check_sequence(lk_comm *comm, const struct sequence *s)
{
    int r = lk_comm_rank(comm);
    struct member want[MOST_RANKS];
    lk_tape *tape, *alone;
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_tape_new(&alone));
    run_alone(s, alone, want);
    struct member own = run_as_rank(comm, s, tape);
    expect_alike(s, r, &own, &want[r], own.sums);
    lk_tape_free(tape);
    lk_tape_free(alone);
    member_free(&own);
    for (int k = 0; k < s->ranks; k++)
        member_free(&want[k]);
}

RANKS_TEST(times_on_ranks_have_the_bits_of_one_process)
{
    for (int net = 0; net < N_NETS; net++)
        for (int dtype = 0; dtype < 2; dtype++)
            for (int number = 0; number < 4; number++) {
                struct sequence s = sequence_of(comm, net, dtype, number);
                check_sequence(comm, &s);
            }
}

/* A rank between two others whose output nobody uses, so that all it says in backward comes by the carry. */
RANKS_TEST(a_rank_without_a_loss_passes_the_gradient_on)
{
    int r = lk_comm_rank(comm), n = lk_comm_size(comm);
    for (int net = 0; net < N_NETS; net++) {
        struct sequence s = sequence_of(comm, net, 1, 2); /* each has one time */
        lk_tape *tape;
        ASSERT_OK(lk_tape_new(&tape));
        struct member m = member_new(&s, tape, r);
        ASSERT_OK(lk_recurrent_forward(m.model, &(lk_pass){.tape = tape, .accumulator = m.sums},
                                       m.x.var, comm, r - 1, r + 1 < n ? r + 1 : LK_NO_RANK,
                                       "carry", &m.out));
        lk_var loss = LK_NO_VAR;
        if (r == n - 1)
            ASSERT_OK(lk_sum(m.out, NULL, &loss));
        backward(tape, loss);
        const double *dx = lk_tensor_data(m.x.grad);
        for (int64_t i = 0; i < lk_tensor_count(m.x.grad); i++)
            ASSERT_TRUE(dx[i] != 0);
        lk_tape_free(tape);
        member_free(&m);
    }
}

/* ---- one net ---- */

/* Sums over ranks of the gradients, against those of all times at once. */
static void expect_gradients(lk_comm *comm, const struct sequence *s, const struct member *own,
                             const lk_accumulator *whole)
{
    int64_t size = (int64_t)lk_dtype_size(s->dtype),
            n = lk_slab_layout_bytes(lk_model_layout(own->model)) / size;
    char *sum;
    ASSERT_OK(lk_alloc(&sum, n, (size_t)size));
    memcpy(sum, lk_slab_data(lk_accumulator_slab(own->sums)), (size_t)(n * size));
    ASSERT_OK(lk_allreduce(comm, sum, sum, n, s->dtype, LK_REDUCE_SUM, "gradients"));
    const void *want = lk_slab_data(lk_accumulator_slab(whole)), *got = sum;
    for (int64_t i = 0; i < n; i++) {
        bool single = s->dtype == LK_F32;
        double a = single ? (double)((const float *)got)[i] : ((const double *)got)[i],
               b = single ? (double)((const float *)want)[i] : ((const double *)want)[i];
        ASSERT_NEAR(a, b, (single ? 1e-4 : 1e-12) * (1 + fabs(b)));
    }
    lk_free(sum);
}

/* Ranks with the same weights are one net over all times: outputs have its bits. */
static void check_one_net(lk_comm *comm, struct sequence *s)
{
    int r = lk_comm_rank(comm);
    int64_t all = 0, before = 0;
    for (int i = 0; i < s->ranks; i++) {
        before = rank_at(s, i) == r ? all : before;
        all += s->times[rank_at(s, i)];
    }
    lk_tape *tape;
    lk_accumulator *sums;
    lk_var x[MOST_RANKS], whole, y, loss = LK_NO_VAR;
    const lk_tensor *value;
    lk_tensor *part;
    s->alike = true;
    ASSERT_OK(lk_tape_new(&tape));
    struct member own = run_as_rank(comm, s, tape);
    lk_tape_reset(tape);
    lk_model *m = recurrent_new(s, 0, all);
    ASSERT_OK(lk_accumulator_new(m, &sums));
    for (int i = 0; i < s->ranks; i++) {
        int k = rank_at(s, i);
        lk_tensor *t = numbers_new(s, LK_SHAPE(s->samples, s->times[k], FEATURES), "x", k);
        ASSERT_OK(lk_constant(tape, t, &x[i]));
        lk_tensor_free(t);
    }
    ASSERT_OK(lk_concat(x, s->ranks, 1, &whole));
    ASSERT_OK(lk_model_forward(m, &(lk_pass){.tape = tape, .accumulator = sums}, whole, &y));
    ASSERT_OK(lk_value(y, &value));
    ASSERT_OK(lk_tensor_slice(value, 1, before, before + s->times[r], 1, &part));
    expect_bits(s, r, own.y, part, "the output");
    lk_tensor_free(part);
    int64_t at = 0;
    for (int i = 0; i < s->ranks; at += s->times[rank_at(s, i++)]) {
        struct member there = {.y = NULL};
        lk_var term;
        ASSERT_OK(lk_slice(y, 1, at, at + s->times[rank_at(s, i)], 1, &there.out));
        term = member_loss(s, &there, rank_at(s, i));
        if (i > 0)
            ASSERT_OK(lk_add(loss, term, &loss));
        else
            loss = term;
        lk_tensor_free(there.y);
    }
    backward(tape, loss);
    expect_gradients(comm, s, &own, sums);
    lk_tape_free(tape);
    lk_accumulator_free(sums);
    lk_model_free(m);
    member_free(&own);
}

RANKS_TEST(the_same_weights_on_all_ranks_are_one_net_over_all_times)
{
    for (int net = 0; net < N_NETS; net++)
        for (int dtype = 0; dtype < 2 && nets[net] != net_last; dtype++)
            for (int number = 0; number < 3; number++) {
                struct sequence s = sequence_of(comm, net, dtype, number);
                check_one_net(comm, &s);
            }
}

/* ---- differences ---- */

/* Models of a rank for the samples below, by dtype and times; they live as long as the tapes. */
struct bench {
    const struct sequence *s;
    lk_model *model[2][MOST_TIMES + 1];
};

static lk_shape sample_shape(const lk_dist_sample *sample, int rank, int size, int i)
{
    (void)size;
    (void)i;
    (void)sample;
    return LK_SHAPE(2, 1 + rank % 3, FEATURES);
}

static lk_status sample_run(const lk_dist_sample *sample, lk_comm *comm, const lk_var *in,
                            lk_var *out)
{
    struct bench *b = (struct bench *)(uintptr_t)sample->attr;
    int r = lk_comm_rank(comm), n = lk_comm_size(comm);
    int64_t times = lk_shape_of(in[0]).dim[1];
    bool wide = lk_dtype_of(in[0]) == LK_F64;
    lk_model **m = &b->model[wide][times];
    if (!*m) {
        struct sequence s = *b->s;
        s.dtype = lk_dtype_of(in[0]);
        *m = recurrent_new(&s, 0, times);
    }
    return LK_TRACE(lk_recurrent_forward(*m, &(lk_pass){.tape = in[0].tape}, in[0], comm, r - 1,
                                         r + 1 < n ? r + 1 : LK_NO_RANK, "carry", &out[0]));
}

RANKS_TEST(gradients_are_differences_of_the_loss)
{
    for (int net = 0; net < N_NETS; net++) {
        struct sequence s = sequence_of(comm, net, 1, 0);
        struct bench bench = {.s = &s};
        const lk_dist_sample samples[] = {{.name = s.layers[0],
                                           .n_in = 1,
                                           .n_out = 1,
                                           .shape = sample_shape,
                                           .run = sample_run,
                                           .attr = &bench},
                                          {.name = NULL}};
        lk_gradcheck_result result;
        ASSERT_OK(
            lk_gradcheck_dist(comm, &(lk_dist_check){"recurrent", "", samples}, 1, 1e-6, &result));
        if (!result.pass)
            TEST_FAIL("%s: %s", s.layers[0], result.worst);
        for (int k = 0; k < 2 * (MOST_TIMES + 1); k++)
            lk_model_free(bench.model[k % 2][k / 2]);
    }
}

/* ---- refusals ---- */

RANKS_TEST(what_cannot_run_is_refused_before_anything_is_sent)
{
    static const char *const plain[] = {"linear", "units=4", NULL};
    int n = lk_comm_size(comm);
    struct sequence s = sequence_of(comm, 2, 0, 0), other = {.layers = plain};
    lk_tape *tape;
    lk_var x, y;
    lk_model *m = recurrent_new(&s, 0, 2), *none = recurrent_new(&other, 0, 2), *open;
    ASSERT_OK(lk_model_new(&open));
    ASSERT_OK(lk_model_add(open, "gru", "units=2"));
    ASSERT_OK(lk_tape_new(&tape));
    lk_pass pass = {.tape = tape};
    ASSERT_OK(lk_full(tape, LK_F32, LK_SHAPE(2, 2, FEATURES), 0, &x));
    ASSERT_FAILS(lk_recurrent_forward(none, &pass, x, comm, 0, 0, "carry", &y), LK_EINVAL,
                 "the model has no recurrent layer, such as lstm: nothing is carried");
    ASSERT_FAILS(lk_recurrent_forward(open, &pass, x, comm, -1, -1, "carry", &y), LK_ESTATE,
                 "the model is not built");
    ASSERT_FAILS(lk_recurrent_forward(m, &pass, x, comm, n, -1, "carry", &y), LK_EINVAL,
                 "the carry comes from rank");
    ASSERT_FAILS(lk_recurrent_forward(m, &pass, x, comm, -1, n, "carry", &y), LK_EINVAL,
                 "the carry goes to rank");
    ASSERT_FAILS(lk_recurrent_forward(NULL, &pass, x, comm, -1, -1, "carry", &y), LK_EINVAL,
                 "model is NULL");
    ASSERT_FAILS(lk_recurrent_forward(m, &(lk_pass){.tape = NULL}, x, comm, -1, -1, "carry", &y),
                 LK_EINVAL, "pass or its tape is NULL");
    ASSERT_FAILS(lk_recurrent_forward(m, &pass, x, NULL, -1, -1, "carry", &y), LK_EINVAL,
                 "comm is NULL");
    ASSERT_OK(lk_recurrent_forward(m, &pass, x, comm, -1, -1, "carry", &y));
    ASSERT_OK(lk_barrier(comm, "refused")); /* the job goes on */
    lk_tape_free(tape);
    lk_model_free(m);
    lk_model_free(none);
    lk_model_free(open);
}

/* Rank 1 has fewer layers than rank 0: it says so, and all hear it. */
static lk_status carry_misfits(lk_comm *comm, void *arg)
{
    int r = lk_comm_rank(comm), n = lk_comm_size(comm);
    struct sequence s = {.layers = r == 0 ? net_deep : net_lstm, .samples = 2};
    lk_tape *tape;
    lk_var x, y;
    (void)arg;
    lk_model *m = recurrent_new(&s, 0, 2);
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_full(tape, LK_F32, LK_SHAPE(2, 2, FEATURES), 0, &x));
    lk_status st = LK_OK;
    if (r < 2)
        st = lk_recurrent_forward(m, &(lk_pass){.tape = tape}, x, comm, r - 1,
                                  r == 0 ? 1 : LK_NO_RANK, "carry", &y);
    if (st == LK_OK) {
        ASSERT_OK(lk_sum(x, NULL, &y));
        st = lk_backward(tape, &(lk_seed){.of = y}, 0, 0);
    }
    if (st == LK_OK)
        st = lk_barrier(comm, "never");
    ASSERT_TRUE(st != LK_OK);
    if (!strstr(lk_error_message(), "5 values come, and the list has room for 2"))
        TEST_FAIL("rank %d of %d: %s", r, n, lk_error_message());
    lk_error_clear();
    lk_tape_free(tape);
    lk_model_free(m);
    return LK_OK;
}

/* ---- memory ---- */

static lk_status two_ranks_run(lk_comm *comm, void *arg)
{
    lk_status st;
    int r = lk_comm_rank(comm);
    lk_model *m = NULL;
    lk_accumulator *sums = NULL;
    lk_tape *tape = NULL;
    lk_var x, y;
    (void)arg;
    LK_TRY_TO(done, lk_model_new(&m));
    LK_TRY_TO(done, lk_model_add(m, "lstm", "units=2"));
    LK_TRY_TO(done, lk_model_build(m, &(lk_model_spec){.in = {LK_F32, LK_SHAPE(2, 2)}}));
    LK_TRY_TO(done, lk_model_hold(m, NULL));
    LK_TRY_TO(done, lk_accumulator_new(m, &sums));
    LK_TRY_TO(done, lk_tape_new(&tape));
    LK_TRY_TO(done, lk_full(tape, LK_F32, LK_SHAPE(3, 2, 2), 0.5, &x));
    LK_TRY_TO(done, lk_recurrent_forward(m, &(lk_pass){.tape = tape, .accumulator = sums}, x, comm,
                                         r - 1, r == 0 ? 1 : LK_NO_RANK, "carry", &y));
    LK_TRY_TO(done, lk_sum(y, NULL, &y));
    LK_TRY_TO(done, lk_backward(tape, &(lk_seed){.of = y}, r == 1, 0));
done:
    lk_tape_free(tape);
    lk_accumulator_free(sums);
    lk_model_free(m);
    return st;
}

/* On threads, whichever rank asks for the n-th block: both return, and nothing is left. */
RANKS_TEST(a_rank_without_memory_keeps_no_other_waiting)
{
    if (!getenv("TEST_TRANSPORT") && lk_comm_size(comm) == 1)
        expect_scarce_memory_is_told(two_ranks_run);
}

RANKS_TEST(a_carry_of_other_layers_ends_the_job)
{
    const char *transport = getenv("TEST_TRANSPORT");
    lk_comm *own = comm;
    if (lk_comm_size(comm) == 1)
        return;
    if (transport)
        ASSERT_OK(lk_comm_open(transport, &own)); /* others go on with theirs */
    ASSERT_OK(carry_misfits(own, NULL));
    if (transport)
        lk_comm_close(own);
}
