/* Recurrent nets over ranks: each rank has a model and some of the times, and the same models in one process,
 * called one after the other on one tape, which know nothing of ranks. */
#ifndef LK_TEST_RECURRENTS_H
#define LK_TEST_RECURRENTS_H

#include "nodes/oracles.h"

enum { MOST_RANKS = 8, MOST_CARRIES = 8, FEATURES = 3, MOST_TIMES = 5 };

/* What is run: times[rank] of each rank; `back`: the carry goes from the last rank to the first. */
struct sequence {
    const char *const *layers;
    lk_dtype dtype;
    int64_t samples, times[MOST_RANKS];
    int ranks;
    bool back, alike; /* alike: all ranks have the same weights */
};

static const char *const net_rnn[] = {"rnn", "units=5 output=all", NULL};
static const char *const net_gru[] = {"gru", "units=5 output=all", NULL};
static const char *const net_lstm[] = {"lstm", "units=5 output=all", NULL};
static const char *const net_last[] = {"lstm", "units=5 output=all", "gru", "units=4", NULL};
static const char *const net_deep[] = {
    "lstm", "units=4 output=all", "gru", "units=3 output=all", "tanh", NULL, "linear", "units=4",
    "lstm", "units=6 output=all", NULL};
static const char *const *const nets[] = {net_rnn, net_gru, net_lstm, net_last, net_deep};
enum { N_NETS = sizeof nets / sizeof nets[0] };

static inline struct sequence sequence_of(lk_comm *comm, int net, int dtype, int number)
{
    static const int64_t times[][5] = {{3, 1, 0, 2, 4}, {0, 2, 1, 5, 0}, {1, 1, 1, 1, 1}};
    struct sequence s = {.layers = nets[net],
                         .dtype = dtype == 0 ? LK_F32 : LK_F64,
                         .samples = 1 + 3 * (number % 2) + net % 2,
                         .ranks = lk_comm_size(comm),
                         .back = number % 3 == 2};
    for (int r = 0; r < s.ranks; r++)
        s.times[r] = times[number % 3][r % 5];
    return s;
}

/* Ranks in the order of the times, and the neighbours of one; -1: none. */
static inline int rank_at(const struct sequence *s, int i)
{
    return s->back ? s->ranks - 1 - i : i;
}

static inline int rank_before(const struct sequence *s, int r)
{
    int before = s->back ? r + 1 : r - 1;
    return before < s->ranks ? before : -1;
}

static inline int rank_behind(const struct sequence *s, int r)
{
    int behind = s->back ? r - 1 : r + 1;
    return behind < s->ranks ? behind : -1;
}

static inline lk_model *recurrent_new(const struct sequence *s, int rank, int64_t times)
{
    lk_model *m;
    ASSERT_OK(lk_model_new(&m));
    for (const char *const *l = s->layers; *l; l += 2)
        ASSERT_OK(lk_model_add(m, l[0], l[1]));
    ASSERT_OK(lk_model_build(m, &(lk_model_spec){.in = {s->dtype, LK_SHAPE(times, FEATURES)},
                                                 .dtype = s->dtype,
                                                 .seed = 1 + (s->alike ? 0 : rank)}));
    ASSERT_OK(lk_model_hold(m, NULL));
    return m;
}

/* Numbers of a rank, the same on every rank. */
static inline lk_tensor *numbers_new(const struct sequence *s, lk_shape shape, const char *purpose,
                                     int rank)
{
    lk_tensor *out, *t = random_new(shape, purpose, rank);
    ASSERT_OK(lk_tensor_clone(t, s->dtype, &out));
    lk_tensor_free(t);
    return out;
}

/* What a rank has, or one process for it. */
struct member {
    lk_model *model;
    lk_accumulator *sums;
    struct leaf x;
    lk_tensor *y, *carry[MOST_CARRIES]; /* the carry that it ends with */
    lk_var out;
};

static inline struct member member_new(const struct sequence *s, lk_tape *tape, int rank)
{
    struct member m = {.model = recurrent_new(s, rank, s->times[rank])};
    ASSERT_OK(lk_accumulator_new(m.model, &m.sums));
    m.x = leaf_of(tape, numbers_new(s, LK_SHAPE(s->samples, s->times[rank], FEATURES), "x", rank));
    return m;
}

static inline void member_free(struct member *m)
{
    lk_accumulator_free(m->sums);
    lk_model_free(m->model);
    leaf_free(&m->x);
    lk_tensor_free(m->y);
    for (int i = 0; i < MOST_CARRIES; i++)
        lk_tensor_free(m->carry[i]);
}

/* Keep the output, and give the loss of this rank: the sum of c * y; none for the zeros that it begins with,
 * which are the output of a first rank without times. */
static inline lk_var member_loss(const struct sequence *s, struct member *m, int rank)
{
    const lk_tensor *y;
    lk_var c, loss;
    ASSERT_OK(lk_value(m->out, &y));
    ASSERT_OK(lk_tensor_clone(y, s->dtype, &m->y));
    lk_tensor *weights = numbers_new(s, lk_shape_of(m->out), "c", rank);
    ASSERT_OK(lk_constant(m->out.tape, weights, &c));
    lk_tensor_free(weights);
    ASSERT_OK(lk_mul(m->out, c, &loss));
    ASSERT_OK(lk_sum(loss, NULL, &loss));
    return lk_needs_grad(loss) ? loss : LK_NO_VAR;
}

static inline void member_keep(struct member *m, const lk_list *carry)
{
    for (int i = 0; i < carry->n; i++) {
        const lk_tensor *t;
        ASSERT_OK(lk_value(carry->at[i], &t));
        ASSERT_OK(lk_tensor_clone(t, lk_tensor_dtype(t), &m->carry[i]));
    }
}

/* All ranks in one process. */
static inline void run_alone(const struct sequence *s, lk_tape *tape, struct member *member)
{
    lk_var at[2][MOST_CARRIES];
    lk_list carry[2] = {{.at = at[0], .room = MOST_CARRIES}, {.at = at[1], .room = MOST_CARRIES}};
    lk_seed seed[MOST_RANKS] = {{.of = LK_NO_VAR}};
    for (int i = 0; i < s->ranks; i++) {
        int r = rank_at(s, i);
        member[r] = member_new(s, tape, r);
        ASSERT_OK(lk_model_forward_carry(
            member[r].model, &(lk_pass){.tape = tape, .accumulator = member[r].sums},
            member[r].x.var, i > 0 ? &carry[i % 2] : NULL, &carry[(i + 1) % 2], &member[r].out));
        member_keep(&member[r], &carry[(i + 1) % 2]);
    }
    int n = 0;
    for (int r = 0; r < s->ranks; r++) {
        seed[n].of = member_loss(s, &member[r], r);
        n += lk_is_var(seed[n].of);
    }
    ASSERT_OK(lk_backward(tape, seed, n, 0));
}

static inline void expect_bits(const struct sequence *s, int rank, const lk_tensor *got,
                               const lk_tensor *want, const char *what)
{
    if (!lk_tensor_is_equal(got, want))
        TEST_FAIL("%s ... on %d ranks: %s of rank %d has other bits than in one process",
                  s->layers[0], s->ranks, what, rank);
}

/* What a rank has against what one process has for it. */
static inline void expect_alike(const struct sequence *s, int rank, const struct member *own,
                                const struct member *want, const lk_accumulator *sums)
{
    expect_bits(s, rank, own->y, want->y, "the output");
    expect_bits(s, rank, own->x.grad, want->x.grad, "the gradient of x");
    for (int i = 0; i < MOST_CARRIES && own->carry[i]; i++)
        expect_bits(s, rank, own->carry[i], want->carry[i], "the carry");
    if (memcmp(lk_slab_data(lk_accumulator_slab(sums)),
               lk_slab_data(lk_accumulator_slab(want->sums)),
               (size_t)lk_accumulator_bytes(want->model)) != 0)
        TEST_FAIL("%s ... on %d ranks: the gradients of the model of rank %d have other bits than "
                  "in one process",
                  s->layers[0], s->ranks, rank);
}

#endif /* LK_TEST_RECURRENTS_H */
