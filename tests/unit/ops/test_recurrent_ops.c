/* rnn, gru and lstm over all times, against the same made of other ops, a time after the other, which the
 * tape differentiates. */
#include "op_program.h"

#include <lockstep/extra/recurrence.h>

enum { X, U, H, MORE };

struct shape {
    int64_t samples, times, units;
};

static const struct shape shapes[] = {{1, 1, 1}, {3, 4, 5}, {7, 2, 16}, {13, 5, 17}, {50, 3, 9}};

/* Which outputs have a gradient: y, the last h, the last c. */
enum { OF_Y = 1, OF_H = 2, OF_C = 4 };

/* What a pass gives: y and the last state, and below a gradient of all leaves. */
struct result {
    struct program p;
    lk_var y, last[2];
    int n_last;
};

static int64_t gates_of(lk_cell cell)
{
    return cell == LK_CELL_RNN ? 1 : cell == LK_CELL_GRU ? 3 : 4;
}

static lk_var gate(lk_var v, int64_t units, int64_t i)
{
    lk_var out;
    ASSERT_OK(lk_slice(v, 1, i * units, (i + 1) * units, 1, &out));
    return out;
}

static lk_var plus(lk_var a, lk_var b)
{
    lk_var out;
    ASSERT_OK(lk_add(a, b, &out));
    return out;
}

static lk_var times(lk_var a, lk_var b)
{
    lk_var out;
    ASSERT_OK(lk_mul(a, b, &out));
    return out;
}

static lk_var sigmoid(lk_var a)
{
    lk_var out;
    ASSERT_OK(lk_sigmoid(a, &out));
    return out;
}

static lk_var tanh_of(lk_var a)
{
    lk_var out;
    ASSERT_OK(lk_tanh(a, &out));
    return out;
}

/* One time by the formulas: state becomes the next. */
static void step(lk_cell cell, double forget, int64_t units, lk_var x, const lk_var *leaf,
                 lk_var state[2])
{
    lk_var s, f, g, n;
    ASSERT_OK(lk_matmul(state[0], leaf[U], &s));
    if (cell == LK_CELL_RNN) {
        state[0] = tanh_of(plus(x, s));
    } else if (cell == LK_CELL_GRU) {
        lk_var r = sigmoid(plus(gate(x, units, 0), gate(s, units, 0)));
        lk_var z = sigmoid(plus(gate(x, units, 1), gate(s, units, 1)));
        n = times(r, plus(gate(s, units, 2), leaf[MORE]));
        n = tanh_of(plus(gate(x, units, 2), n));
        ASSERT_OK(lk_sub(state[0], n, &g));
        state[0] = plus(n, times(z, g));
    } else {
        s = plus(x, s);
        ASSERT_OK(lk_affine(gate(s, units, 1), 1, forget, &f));
        f = times(sigmoid(f), state[1]);
        g = times(sigmoid(gate(s, units, 0)), tanh_of(gate(s, units, 2)));
        state[1] = plus(f, g);
        state[0] = times(sigmoid(gate(s, units, 3)), tanh_of(state[1]));
    }
}

/* All times by the formulas, apart from the op. */
static void compose(struct result *r, lk_cell cell, const lk_recurrent_attr *a, struct shape s,
                    const lk_var *leaf)
{
    lk_var all[8], x, state[2] = {leaf[H], leaf[MORE]};
    ASSERT_TRUE(s.times <= 8);
    for (int64_t k = 0; k < s.times; k++) {
        int64_t t = a->reverse ? s.times - 1 - k : k;
        ASSERT_OK(lk_slice(leaf[X], 1, t, t + 1, 1, &x));
        ASSERT_OK(lk_reshape(x, LK_SHAPE(s.samples, gates_of(cell) * s.units), &x));
        step(cell, a->forget, s.units, x, leaf, state);
        all[t] = state[0];
    }
    ASSERT_OK(lk_stack(all, (int)s.times, 1, &r->y));
    r->last[0] = state[0];
    r->last[1] = state[1];
}

static void apply(struct result *r, lk_cell cell, const lk_recurrent_attr *a, const lk_var *leaf)
{
    if (cell == LK_CELL_RNN)
        ASSERT_OK(lk_rnn(leaf[X], leaf[U], leaf[H], a, &r->y, r->last));
    else if (cell == LK_CELL_GRU)
        ASSERT_OK(lk_gru(leaf[X], leaf[U], leaf[H], leaf[MORE], a, &r->y, r->last));
    else
        ASSERT_OK(lk_lstm(leaf[X], leaf[U], leaf[H], leaf[MORE], a, &r->y, r->last));
}

/* Leaves of random values; of weights small ones. */
static void leaves(struct program *p, lk_cell cell, struct shape s, lk_var *leaf)
{
    const int64_t wide = gates_of(cell) * s.units;
    leaf[X] = program_leaf(p, LK_SHAPE(s.samples, s.times, wide));
    leaf[U] = program_leaf(p, LK_SHAPE(s.units, wide));
    leaf[H] = program_leaf(p, LK_SHAPE(s.samples, s.units));
    leaf[MORE] = program_leaf(p, cell == LK_CELL_GRU ? LK_SHAPE(s.units)
                                                     : LK_SHAPE(s.samples, s.units));
}

struct how {
    lk_cell cell;
    lk_dtype dtype;
    lk_recurrent_attr attr;
    struct shape shape;
    unsigned of, flags; /* of lk_backward() */
    int64_t shard_size;
    bool composed;
};

static struct result run(const struct how *w)
{
    struct result r = {.p = program_new(w->dtype, false),
                       .n_last = w->cell == LK_CELL_LSTM ? 2 : 1};
    lk_var leaf[4];
    lk_seed seed[3];
    int n = 0;
    ASSERT_OK(lk_tape_set_shard_size(r.p.tape, w->shard_size));
    leaves(&r.p, w->cell, w->shape, leaf);
    if (w->composed)
        compose(&r, w->cell, &w->attr, w->shape, leaf);
    else
        apply(&r, w->cell, &w->attr, leaf);
    lk_var of[3] = {r.y, r.last[0], r.last[1]};
    for (int i = 0; i < 1 + r.n_last; i++)
        if (w->of >> i & 1)
            seed[n++] = (lk_seed){of[i],
                                  program_tensor(&r.p, lk_shape_of(of[i]), 90 + (uint64_t)i)};
    ASSERT_OK(lk_backward(r.p.tape, seed, n, w->flags | LK_RETAIN_GRAPH));
    for (int i = 0; i < n; i++)
        lk_tensor_free((lk_tensor *)(uintptr_t)seed[i].grad);
    return r;
}

static void same(const lk_tensor *a, const lk_tensor *b)
{
    ASSERT_TRUE(lk_shape_is_equal(lk_tensor_shape(a), lk_tensor_shape(b)));
    ASSERT_SAME_BITS(lk_tensor_data(a), lk_tensor_data(b),
                     (size_t)lk_tensor_count(a) * lk_dtype_size(lk_tensor_dtype(a)));
}

TEST(all_times_have_the_bits_of_ops_time_by_time)
{
    for (int cell = 0; cell < LK_N_CELLS; cell++)
        for (int dtype = LK_F32; dtype <= LK_F64; dtype++)
            for (int reverse = 0; reverse < 2; reverse++)
                for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
                    for (unsigned of = 1; of < (cell == LK_CELL_LSTM ? 8 : 4); of++) {
                        struct how w = {.cell = (lk_cell)cell,
                                        .dtype = (lk_dtype)dtype,
                                        .attr = {.reverse = reverse, .forget = 0.75},
                                        .shape = shapes[s],
                                        .of = of};
                        struct result got = run(&w);
                        w.composed = true;
                        struct result want = run(&w);
                        same(value_of(got.y), value_of(want.y));
                        for (int i = 0; i < got.n_last; i++)
                            same(value_of(got.last[i]), value_of(want.last[i]));
                        same(got.p.grad[X], want.p.grad[X]);
                        same(got.p.grad[H], want.p.grad[H]);
                        if (cell == LK_CELL_LSTM)
                            same(got.p.grad[MORE], want.p.grad[MORE]);
                        program_free(&got.p);
                        program_free(&want.p);
                    }
}

/* The gradients of u and of a gru's bias are the same sums in another order. */
TEST(gradients_of_weights_are_near_those_time_by_time)
{
    for (int cell = 0; cell < LK_N_CELLS; cell++)
        for (int64_t shard_size = 0; shard_size < 4; shard_size++) {
            struct how w = {.cell = (lk_cell)cell,
                            .dtype = LK_F64,
                            .shape = {13, 5, 17},
                            .of = OF_Y | OF_H,
                            .shard_size = shard_size};
            struct result got = run(&w);
            w.composed = true;
            struct result want = run(&w);
            for (int k = U; k <= MORE; k += MORE - U)
                for (int64_t i = 0; i < lk_tensor_count(got.p.grad[k]); i++)
                    ASSERT_NEAR(tensor_at(got.p.grad[k], i), tensor_at(want.p.grad[k], i), 1e-13);
            program_free(&got.p);
            program_free(&want.p);
        }
}

/* Of an rnn and an lstm it is the gradient of weights that multiply the states before, and dx. */
TEST(the_gradient_of_u_is_that_of_a_linear_layer)
{
    for (int cell = LK_CELL_RNN; cell <= LK_CELL_LSTM; cell += LK_CELL_LSTM - LK_CELL_RNN)
        for (int reverse = 0; reverse < 2; reverse++)
            for (int64_t shard_size = 0; shard_size < 4; shard_size++) {
                struct how w = {.cell = (lk_cell)cell,
                                .dtype = LK_F32,
                                .attr = {.reverse = reverse},
                                .shape = {7, 4, 5},
                                .of = OF_Y,
                                .shard_size = shard_size};
                struct result got = run(&w);
                lk_var part[2], h, dx, first, du;
                ASSERT_OK(lk_constant(got.p.tape, got.p.value[H], &first));
                ASSERT_OK(lk_reshape(first, LK_SHAPE(7, 1, 5), &part[reverse]));
                ASSERT_OK(lk_slice(got.y, 1, reverse, 3 + reverse, 1, &part[1 - reverse]));
                ASSERT_OK(lk_concat(part, 2, 1, &h));
                ASSERT_OK(lk_constant(got.p.tape, got.p.grad[X], &dx));
                ASSERT_OK(lk_linear_weights(h, dx, &du));
                same(got.p.grad[U], value_of(du));
                program_free(&got.p);
            }
}

TEST(a_recorded_backward_has_the_same_bits)
{
    for (int cell = 0; cell < LK_N_CELLS; cell++)
        for (int dtype = LK_F32; dtype <= LK_F64; dtype++)
            for (int reverse = 0; reverse < 2; reverse++)
                for (unsigned of = 1; of < (cell == LK_CELL_LSTM ? 8 : 4); of++) {
                    struct how w = {.cell = (lk_cell)cell,
                                    .dtype = (lk_dtype)dtype,
                                    .attr = {.reverse = reverse, .forget = 0.75},
                                    .shape = {7, 4, 5},
                                    .of = of,
                                    .shard_size = 2};
                    struct result got = run(&w);
                    w.flags = LK_RECORD;
                    struct result want = run(&w);
                    for (int i = 0; i < got.p.n; i++)
                        same(got.p.grad[i], want.p.grad[i]);
                    program_free(&got.p);
                    program_free(&want.p);
                }
}

/* A pass over some times, then one over the others with the state that came out, is a pass over all. */
TEST(a_state_goes_on_where_it_ended)
{
    struct program p = program_new(LK_F32, false);
    lk_var x = program_leaf(&p, LK_SHAPE(3, 6, 20)), u = program_leaf(&p, LK_SHAPE(5, 20)),
           h = program_leaf(&p, LK_SHAPE(3, 5)), c = program_leaf(&p, LK_SHAPE(3, 5)), part, y[3],
           last[2], state[2] = {h, c}, both;
    ASSERT_OK(lk_lstm(x, u, h, c, NULL, &y[2], last));
    for (int i = 0; i < 2; i++) {
        ASSERT_OK(lk_slice(x, 1, i == 0 ? 0 : 2, i == 0 ? 2 : 6, 1, &part));
        ASSERT_OK(lk_lstm(part, u, state[0], state[1], NULL, &y[i], state));
    }
    ASSERT_OK(lk_concat(y, 2, 1, &both));
    same(value_of(both), value_of(y[2]));
    for (int i = 0; i < 2; i++)
        same(value_of(state[i]), value_of(last[i]));
    program_free(&p);
}

TEST(without_times_the_state_stays)
{
    for (int cell = 0; cell < LK_N_CELLS; cell++)
        for (unsigned flags = 0; flags <= LK_RECORD; flags += LK_RECORD) {
            struct how w = {.cell = (lk_cell)cell,
                            .dtype = LK_F64,
                            .shape = {3, 0, 5},
                            .of = OF_Y | OF_H,
                            .flags = flags};
            struct result r = run(&w);
            ASSERT_EQ(lk_tensor_count(value_of(r.y)), 0);
            same(value_of(r.last[0]), r.p.value[H]);
            lk_tensor *seed = program_tensor(&r.p, LK_SHAPE(3, 5), 91);
            same(r.p.grad[H], seed);
            for (int64_t i = 0; i < lk_tensor_count(r.p.grad[U]); i++)
                ASSERT_TRUE(tensor_at(r.p.grad[U], i) == 0);
            lk_tensor_free(seed);
            program_free(&r.p);
        }
}

TEST(without_a_record_nothing_is_kept)
{
    struct how w = {.cell = LK_CELL_LSTM, .dtype = LK_F32, .shape = {4, 6, 8}, .of = OF_Y};
    struct result r = run(&w);
    lk_tape *tape = NULL;
    lk_var leaf[4], y, last[2];
    ASSERT_OK(lk_tape_new(&tape));
    (void)lk_tape_set_recording(tape, false);
    for (int i = 0; i < 4; i++)
        ASSERT_OK(lk_constant(tape, r.p.value[i], &leaf[i]));
    ASSERT_OK(lk_lstm(leaf[X], leaf[U], leaf[H], leaf[MORE], &w.attr, &y, last));
    same(value_of(y), value_of(r.y));
    /* y and the state, in blocks of 64 bytes: what is kept would be six times as much as y */
    ASSERT_TRUE(lk_tape_stats_of(tape).live_bytes <
                INT64_C(2) * 4 * 6 * 8 * (int64_t)sizeof(float));
    lk_tape_free(tape);
    program_free(&r.p);
}

TEST(shapes_that_do_not_meet_are_refused)
{
    struct program p = program_new(LK_F32, false);
    lk_var x = program_leaf(&p, LK_SHAPE(3, 2, 20)), u = program_leaf(&p, LK_SHAPE(5, 20)),
           h = program_leaf(&p, LK_SHAPE(3, 5)), wrong = program_leaf(&p, LK_SHAPE(3, 4)),
           narrow = program_leaf(&p, LK_SHAPE(4, 20)), y, last[2];
    ASSERT_FAILS(lk_lstm(wrong, u, h, h, NULL, &y, last), LK_ESHAPE,
                 "needs [samples, times, gates units]");
    ASSERT_FAILS(lk_lstm(x, wrong, h, h, NULL, &y, last), LK_ESHAPE, "recurrent weights");
    ASSERT_FAILS(lk_lstm(x, narrow, h, h, NULL, &y, last), LK_ESHAPE,
                 "they must be [units, 4 units]");
    ASSERT_FAILS(lk_lstm(x, u, wrong, h, NULL, &y, last), LK_ESHAPE, "with h");
    ASSERT_FAILS(lk_lstm(x, u, h, wrong, NULL, &y, last), LK_ESHAPE, "with c");
    ASSERT_FAILS(lk_gru(x, u, h, h, NULL, &y, last), LK_ESHAPE, "they must be [units, 3 units]");
    ASSERT_FAILS(lk_lstm(x, u, h, h, &(lk_recurrent_attr){.forget = HUGE_VAL}, &y, last), LK_EINVAL,
                 "forget inf");
    ASSERT_OK(lk_lstm(x, u, h, h, NULL, &y, last));
    program_free(&p);
}
