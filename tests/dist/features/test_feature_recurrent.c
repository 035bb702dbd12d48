/* Recurrent layers whose units are cut over ranks: any ranks have what plain loops compute, bit by bit, as one
 * rank has; with one block they are lk_linear() and the recurrent ops, and differences agree with their
 * gradients. */
#include "feature_recurrents.h"

/* ---- runs ---- */

/* s NULL: the ops of one rank. */
static void layer(const lk_feature_split *s, const struct recurrent_case *k, lk_var *in, lk_var *y,
                  lk_var *last)
{
    lk_feature_recurrent_attr a = {.cell = k->cell,
                                   .sum = k->way == JOINED      ? LK_FEATURE_JOINED
                                          : k->way == SCATTERED ? LK_FEATURE_SCATTERED
                                                                : LK_FEATURE_PARTIAL,
                                   .in = k->in,
                                   .units = k->units,
                                   .recurrent = {.reverse = k->reverse, .forget = 1}};
    lk_var x = in[X], b = k->bias ? in[B] : LK_NO_VAR;
    if (s && k->way == BEHIND_COPY)
        ASSERT_OK(lk_dist_feature_copy(s, x, k->units, "copy", &x));
    if (s) {
        ASSERT_OK(lk_dist_feature_recurrent(s, &a, x, (lk_var[]){in[W], in[U], b, in[M]},
                                            k->state ? (lk_var[]){in[H0], in[C0]} : NULL,
                                            "recurrent", y, last));
        return;
    }
    ASSERT_OK(lk_linear(x, in[W], b, &x));
    if (k->cell == LK_FEATURE_RNN)
        ASSERT_OK(lk_rnn(x, in[U], in[H0], &a.recurrent, y, last));
    else if (k->cell == LK_FEATURE_GRU)
        ASSERT_OK(lk_gru(x, in[U], in[H0], in[M], &a.recurrent, y, last));
    else
        ASSERT_OK(lk_lstm(x, in[U], in[H0], in[C0], &a.recurrent, y, last));
}

static lk_shape shape_of(const struct recurrent_case *k, int i, int64_t n)
{
    switch (i) {
    case X: return LK_SHAPE(k->samples, k->times, n);
    case W: return LK_SHAPE(k->in, gates_of(k) * n);
    case U: return LK_SHAPE(k->units, gates_of(k) * n);
    case B: return LK_SHAPE(gates_of(k) * n);
    case M: return LK_SHAPE(n);
    default: return LK_SHAPE(k->samples, n);
    }
}

/* Backward of those outputs that have a gradient. */
static void backward_of(const struct recurrent_case *k, lk_var y, const lk_var *last,
                        void *const *part)
{
    lk_seed seeds[3];
    int n = 0;
    if (k->dy)
        seeds[n++].of = y;
    for (int i = 0; k->last && i < (k->cell == LK_FEATURE_LSTM ? 2 : 1); i++)
        seeds[n++].of = last[i];
    for (int i = 0; i < n; i++) {
        lk_var v = seeds[i].of;
        const void *from = part[k->dy && i == 0 ? DY : DH + i - (k->dy ? 1 : 0)];
        lk_tensor *t;
        ASSERT_OK(lk_tensor_new(lk_dtype_of(v), lk_shape_of(v), &t));
        memcpy((void *)(uintptr_t)lk_tensor_data(t), from,
               (size_t)lk_tensor_count(t) * lk_dtype_size(k->dtype));
        seeds[i].grad = t;
    }
    ASSERT_OK(lk_backward(y.tape, seeds, n, 0));
    ASSERT_OK(lk_backward_rest(y.tape));
    for (int i = 0; i < n; i++)
        lk_tensor_free(seeds[i].grad);
}

static void part_is(const struct recurrent_case *k, const struct whole *v, int i, const void *got,
                    lk_range range)
{
    assert_part_of(k->dtype, got, v->at[i], outer_of(k, i), last_of(k, i), 1, range);
}

static void case_run(const lk_feature_split *s, const struct recurrent_case *k,
                     const struct whole *v)
{
    const bool lstm = k->cell == LK_FEATURE_LSTM;
    lk_range own = s ? range_of(s, k->units) : (lk_range){0, k->units}, of[INPUTS];
    void *part[INPUTS], *grad[INPUTS];
    lk_var in[INPUTS], y, last[2];
    lk_tape *tape;
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_tape_set_shard_size(tape, k->shard));
    for (int i = 0; i < INPUTS; i++) {
        of[i] = i != X ? own : (lk_range){0, k->in};
        if (i == X && s && k->way == SCATTERED)
            of[i] = range_of(s, k->in);
        part[i] = array_part(k->dtype, v->at[i], outer_of(k, i), last_of(k, i), 1, of[i]);
        grad[i] = array_new(k->dtype, outer_of(k, i) * of[i].n);
        if (i <= C0)
            ASSERT_OK(
                lk_leaf_data(tape, k->dtype, shape_of(k, i, of[i].n), part[i], grad[i], &in[i]));
    }
    for (int i = W; i <= M; i++)
        leaf_postpone(s, in[i]);
    layer(s, k, in, &y, last);
    part_is(k, v, Y, value_of(y), own);
    part_is(k, v, H, value_of(last[0]), own);
    if (lstm)
        part_is(k, v, C, value_of(last[1]), own);
    backward_of(k, y, last, part);
    for (int i = 0; i <= C0; i++) {
        bool is = i == B    ? k->bias
                  : i == M  ? k->cell == LK_FEATURE_GRU
                  : i == H0 ? k->state
                  : i == C0 ? k->state && lstm
                            : true;
        if (is)
            part_is(k, v, DX + i, grad[i], of[i]);
    }
    lk_tape_free(tape);
    for (int i = 0; i < INPUTS; i++)
        free(part[i]), free(grad[i]);
}

static struct recurrent_case case_of(enum way way, int i)
{
    static const int64_t sizes[] = {1, 5, 16, 33, 50};
    return (struct recurrent_case){.way = way,
                                   .cell = (lk_feature_cell)(i % 3),
                                   .dtype = i % 5 == 2 ? LK_F64 : LK_F32,
                                   .samples = i % 8 == 7 ? 0 : 1 + i % 4,
                                   .times = i % 11 == 10 ? 0 : 1 + i % 3,
                                   .in = sizes[i * 2 % 5],
                                   .units = sizes[4 - i / 3 % 5],
                                   .shard = 2,
                                   .bias = i % 4 != 3,
                                   .odd = i % 7 == 4,
                                   .reverse = i / 2 % 2 == 1,
                                   .state = i % 4 != 1,
                                   .dy = i % 5 != 1,
                                   .last = i % 5 != 3};
}

enum { CASES = 18 };

static void on_all_cases(lk_comm *comm, enum way way)
{
    for (int kind = 0; kind < CUT_RULES; kind++) {
        struct cut_rule rule = cut_rule_of(lk_comm_size(comm), kind);
        lk_feature_split *ranks = split_new(comm, rule), *one = split_new(NULL, rule);
        for (int i = 0; i < CASES; i++) {
            struct recurrent_case k = case_of(way, i + kind);
            struct whole v = whole_new(&k, rule);
            case_run(ranks, &k, &v);
            case_run(one, &k, &v);
            whole_free(&v);
        }
        lk_feature_split_free(ranks);
        lk_feature_split_free(one);
    }
}

RANKS_TEST(cut_units_have_the_bits_of_one_rank)
{
    on_all_cases(comm, JOINED);
}

RANKS_TEST(cut_units_of_cut_inputs_have_the_bits_of_one_rank)
{
    on_all_cases(comm, SCATTERED);
}

RANKS_TEST(partial_gradients_are_joined_by_transitions)
{
    on_all_cases(comm, BEHIND_COPY);
}

RANKS_TEST(one_block_is_the_ops_of_one_rank)
{
    const struct cut_rule rule = {1, 1}, wide = {MOST_BLOCKS, 64};
    lk_feature_split *one = split_new(NULL, rule), *ranks = split_new(comm, wide);
    for (int way = 0; way < WAYS; way++)
        for (int i = 0; i < CASES; i++) {
            struct recurrent_case k = case_of((enum way)way, i);
            struct whole v = whole_new(&k, rule);
            case_run(NULL, &k, &v);
            case_run(one, &k, &v);
            case_run(ranks, &k, &v);
            whole_free(&v);
        }
    lk_feature_split_free(one);
    lk_feature_split_free(ranks);
}

/* ---- differences ---- */

/* The sum of dy y, and of what is said of the last state, of f64. */
static double loss_of(const lk_feature_split *s, const struct recurrent_case *k,
                      const struct whole *v)
{
    double sum = 0;
    lk_tape *tape;
    lk_var in[INPUTS], y, last[2];
    ASSERT_OK(lk_tape_new(&tape));
    for (int i = 0; i <= C0; i++)
        ASSERT_OK(lk_constant_data(tape, LK_F64, shape_of(k, i, last_of(k, i)), v->at[i], &in[i]));
    layer(s, k, in, &y, last);
    for (int64_t i = 0; i < rows_of(k) * k->units; i++)
        sum += real_get(LK_F64, value_of(y), i) * real_get(k->dtype, v->at[DY], i);
    for (int64_t i = 0; i < k->samples * k->units; i++) {
        sum += real_get(LK_F64, value_of(last[0]), i) * real_get(k->dtype, v->at[DH], i);
        if (k->cell == LK_FEATURE_LSTM)
            sum += real_get(LK_F64, value_of(last[1]), i) * real_get(k->dtype, v->at[DC], i);
    }
    lk_tape_free(tape);
    return sum;
}

RANKS_TEST(gradients_agree_with_differences)
{
    const struct cut_rule rule = {4, 1};
    const double h = 1e-4;
    for (int cell = 0; cell < 3 && lk_comm_rank(comm) == 0 && lk_comm_size(comm) <= 2; cell++) {
        struct recurrent_case k = {.cell = (lk_feature_cell)cell,
                                   .dtype = LK_F64,
                                   .samples = 3,
                                   .times = 3,
                                   .in = 4,
                                   .units = 5,
                                   .shard = 2,
                                   .bias = true,
                                   .reverse = cell == 1,
                                   .state = true,
                                   .dy = true,
                                   .last = true};
        struct whole v = whole_new(&k, rule);
        lk_feature_split *one = split_new(NULL, rule);
        case_run(one, &k, &v); /* the gradients of the node are those of `v` */
        for (int i = X; i <= C0; i++) {
            int64_t n = outer_of(&k, i) * last_of(&k, i);
            if ((i == M && cell != LK_FEATURE_GRU) || (i == C0 && cell != LK_FEATURE_LSTM))
                continue;
            for (int64_t j = 0; j < n; j++) {
                double *p = (double *)v.at[i] + j, was = *p, up, down;
                *p = was + h, up = loss_of(one, &k, &v);
                *p = was - h, down = loss_of(one, &k, &v);
                *p = was;
                ASSERT_NEAR((up - down) / (2 * h), real_get(k.dtype, v.at[DX + i], j), 1e-7);
            }
        }
        lk_feature_split_free(one);
        whole_free(&v);
    }
}

/* ---- mistakes and rehearsals ---- */

RANKS_TEST(misuse_is_refused)
{
    lk_feature_split *s = split_new(comm, (struct cut_rule){8, 1});
    lk_feature_recurrent_attr a = {.cell = LK_FEATURE_LSTM, .in = 8, .units = 8};
    int64_t held = range_of(s, 8).n;
    float zeros[512] = {0};
    lk_tape *tape;
    lk_var x, flat, p[4], state[2], y;
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_constant_data(tape, LK_F32, LK_SHAPE(2, 3, 8), zeros, &x));
    ASSERT_OK(lk_constant_data(tape, LK_F32, LK_SHAPE(6, 8), zeros, &flat));
    ASSERT_OK(lk_constant_data(tape, LK_F32, LK_SHAPE(8, 4 * held), zeros, &p[0]));
    ASSERT_OK(lk_constant_data(tape, LK_F32, LK_SHAPE(4 * held), zeros, &p[2]));
    ASSERT_OK(lk_constant_data(tape, LK_F32, LK_SHAPE(9, 4 * held), zeros, &p[1]));
    ASSERT_OK(lk_constant_data(tape, LK_F32, LK_SHAPE(2, held), zeros, &state[0]));
    ASSERT_OK(lk_constant_data(tape, LK_F32, LK_SHAPE(3, held), zeros, &state[1]));
    ASSERT_FAILS(lk_dist_feature_recurrent(s, NULL, x, p, NULL, "r", &y, NULL), LK_EINVAL,
                 "attr is NULL");
    ASSERT_FAILS(lk_dist_feature_recurrent(s, &a, x, NULL, NULL, "r", &y, NULL), LK_EINVAL,
                 "param is NULL");
    ASSERT_FAILS(lk_dist_feature_recurrent(s, &a, x, p, NULL, "r", &y, NULL), LK_ESHAPE,
                 "recurrent weights f32[9,");
    p[1] = p[0];
    ASSERT_FAILS(lk_dist_feature_recurrent(s, &a, flat, p, NULL, "r", &y, NULL), LK_ESHAPE,
                 "needs [samples, times, ...]");
    ASSERT_FAILS(lk_dist_feature_recurrent(s, &a, x, p, state, "r", &y, NULL), LK_ESHAPE,
                 "with c f32[3,");
    a.recurrent.forget = HUGE_VAL;
    ASSERT_FAILS(lk_dist_feature_recurrent(s, &a, x, p, NULL, "r", &y, NULL), LK_EINVAL,
                 "with forget inf");
    a.recurrent.forget = 0;
    a.cell = (lk_feature_cell)3;
    ASSERT_FAILS(lk_dist_feature_recurrent(s, &a, x, p, NULL, "r", &y, NULL), LK_EINVAL,
                 "the cell is number 3");
    a.cell = LK_FEATURE_LSTM;
    a.sum = (lk_feature_sum)3;
    ASSERT_FAILS(lk_dist_feature_recurrent(s, &a, x, p, NULL, "r", &y, NULL), LK_EINVAL,
                 "the sum is number 3");
    a.sum = LK_FEATURE_JOINED;
    a.units = 0;
    ASSERT_FAILS(lk_dist_feature_recurrent(s, &a, x, p, NULL, "r", &y, NULL), LK_EINVAL,
                 "8 inputs, 0 units");
    lk_tape_free(tape);
    lk_feature_split_free(s);
}

/* As any rank of four, without the others: what they give is zeros. */
RANKS_TEST(rehearsals_send_nothing)
{
    for (int rank = 0; rank < 4 && lk_comm_rank(comm) == 0; rank++)
        for (int cell = 0; cell < 3; cell++) {
            struct recurrent_case k = case_of(JOINED, 12 + cell);
            struct whole v = whole_new(&k, (struct cut_rule){4, 1});
            lk_feature_split *s;
            lk_var in[INPUTS], y, last[2];
            lk_tape *tape;
            void *dy, *dx = array_new(k.dtype, rows_of(&k) * k.in);
            ASSERT_OK(lk_feature_split_new(NULL, rank, 4, 4, 1, &s));
            ASSERT_OK(lk_tape_new(&tape));
            s->rehearses = true;
            int64_t held = range_of(s, k.units).n;
            for (int i = 0; i <= C0; i++)
                ASSERT_OK(lk_constant_data(tape, k.dtype, shape_of(&k, i, i == X ? k.in : held),
                                           v.at[i], &in[i]));
            ASSERT_OK(lk_leaf_data(tape, k.dtype, shape_of(&k, X, k.in), v.at[X], dx, &in[X]));
            layer(s, &k, in, &y, last);
            ASSERT_TRUE(lk_shape_is_equal(lk_shape_of(y), LK_SHAPE(k.samples, k.times, held)));
            dy = array_new(k.dtype, rows_of(&k) * held);
            backward_from(y, dy);
            free(dy), free(dx);
            lk_tape_free(tape);
            lk_feature_split_free(s);
            whole_free(&v);
        }
}
