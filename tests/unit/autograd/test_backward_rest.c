/* What lk_backward() leaves: what the tape keeps meanwhile, several tapes at once, and misuse. */
#include "faults.h"
#include "tape_fixture.h"

enum { ROWS = 40, WIDTH = 30, LAYERS = 3, MICROS = 3, PARAMS = 2 * LAYERS };

static struct net {
    lk_tensor *value[PARAMS]; /* w [WIDTH, WIDTH] and b [WIDTH] of each layer */
    lk_tensor *x[MICROS], *seed[MICROS];
} net;

static void net_make(void)
{
    for (int i = 0; i < PARAMS; i++)
        net.value[i] = i % 2 ? test_filled(LK_SHAPE(WIDTH), 0.01 * i, -0.003)
                             : test_filled(LK_SHAPE(WIDTH, WIDTH), -0.2 + 0.01 * i, 0.0004);
    for (int m = 0; m < MICROS; m++) {
        net.x[m] = test_filled(LK_SHAPE(ROWS, WIDTH), -0.5 + 0.3 * m, 0.0009);
        net.seed[m] = test_filled(LK_SHAPE(ROWS, WIDTH), 0.7 - 0.2 * m, -0.0007);
    }
}

static void net_free(void)
{
    for (int i = 0; i < PARAMS; i++)
        lk_tensor_free(net.value[i]);
    for (int m = 0; m < MICROS; m++) {
        lk_tensor_free(net.x[m]);
        lk_tensor_free(net.seed[m]);
    }
}

/* A micro-batch on a tape. */
struct micro {
    lk_var x, p[PARAMS], y;
};

/* linear_relu and tanh, three times. */
static lk_status layers(lk_tape *tape, void *arg, lk_var *out)
{
    struct micro *m = arg;
    const lk_var *p = m->p;
    lk_var h = m->x;
    (void)tape;
    for (int i = 0; i < LAYERS; i++, p += 2) {
        LK_TRY(lk_linear_relu(h, p[0], p[1], &h));
        LK_TRY(lk_tanh(h, &h));
    }
    *out = h;
    return LK_OK;
}

/* Micro-batch `k` with gradients `dx`, and `grad` of parameters, which are postponed. */
static lk_status forward(lk_tape *tape, int k, lk_tensor *dx, lk_tensor *const *grad, bool again,
                         struct micro *m)
{
    LK_TRY(lk_leaf(tape, net.x[k], dx, &m->x));
    for (int i = 0; i < PARAMS; i++) {
        LK_TRY(lk_leaf(tape, net.value[i], grad ? grad[i] : NULL, &m->p[i]));
        LK_TRY(lk_leaf_postpone(m->p[i]));
    }
    if (again)
        LK_TRY(lk_recompute(tape, layers, m, 1, &m->y));
    else
        LK_TRY(layers(tape, m, &m->y));
    return LK_OK;
}

static lk_status backward(lk_tape *tape, int k, const struct micro *m)
{
    return LK_TRACE(lk_backward(tape, &(lk_seed){m->y, net.seed[k]}, 1, 0));
}

static void grads_make(lk_tensor **grad)
{
    for (int i = 0; i < PARAMS; i++)
        ASSERT_OK(lk_tensor_zeros(LK_F64, lk_tensor_shape(net.value[i]), &grad[i]));
}

static void grads_free(lk_tensor *const *grad)
{
    for (int i = 0; i < PARAMS; i++)
        lk_tensor_free(grad[i]);
}

static bool same(const lk_tensor *a, const lk_tensor *b)
{
    return memcmp(lk_tensor_data(a), lk_tensor_data(b),
                  (size_t)lk_tensor_count(a) * sizeof(double)) == 0;
}

/* The bytes of n values [ROWS, WIDTH] on a tape. */
static int64_t bytes_of(int n)
{
    lk_tape *tape = NULL;
    lk_var v;
    ASSERT_OK(lk_tape_new(&tape));
    for (int i = 0; i < n; i++)
        ASSERT_OK(lk_full(tape, LK_F64, LK_SHAPE(ROWS, WIDTH), 0, &v));
    int64_t bytes = lk_tape_stats_of(tape).live_bytes;
    lk_tape_free(tape);
    return bytes;
}

/* Between the halves: x of the second and third layer, dy of all three, and y, which is the seed's. */
TEST(the_tape_keeps_the_inputs_of_weight_gradients_and_no_more)
{
    for (int again = 0; again < 2; again++) {
        lk_tape *tape = NULL;
        lk_tensor *grad[PARAMS], *dx = NULL;
        struct micro m;
        net_make();
        grads_make(grad);
        ASSERT_OK(lk_tensor_zeros(LK_F64, LK_SHAPE(ROWS, WIDTH), &dx));
        ASSERT_OK(lk_tape_new(&tape));
        ASSERT_OK(forward(tape, 0, dx, grad, again, &m));
        ASSERT_OK(backward(tape, 0, &m));
        ASSERT_EQ(lk_tape_stats_of(tape).live_bytes, bytes_of(2 * LAYERS - 1 + 1));
        ASSERT_OK(lk_backward_rest(tape));
        ASSERT_EQ(lk_tape_stats_of(tape).live_bytes, bytes_of(1));
        lk_tape_free(tape);
        grads_free(grad);
        lk_tensor_free(dx);
        net_free();
    }
}

struct level {
    const lk_tape *tape;
    int n;
    int64_t bytes[PARAMS];
};

/* A hook sees how much the tape has left. */
static lk_status look(void *arg, const lk_tensor *grad)
{
    struct level *l = arg;
    (void)grad;
    l->bytes[l->n++] = lk_tape_stats_of(l->tape).live_bytes;
    return LK_OK;
}

/* x of the third layer, its dy, x of the second, its dy, x of the first, which is a leaf, its dy; y stays.
 * A bias may be on the tape while it is told of. */
TEST(inputs_are_let_go_one_by_one)
{
    static const int values[PARAMS] = {5, 4, 3, 2, 2, 1};
    lk_tape *tape = NULL;
    lk_tensor *grad[PARAMS];
    struct micro m;
    net_make();
    grads_make(grad);
    ASSERT_OK(lk_tape_new(&tape));
    struct level level = {.tape = tape};
    lk_tape_set_grad_hook(tape, look, &level);
    ASSERT_OK(forward(tape, 0, NULL, grad, false, &m));
    ASSERT_OK(backward(tape, 0, &m));
    ASSERT_EQ(level.n, 0);
    ASSERT_OK(lk_backward_rest(tape));
    ASSERT_EQ(level.n, PARAMS);
    for (int i = 0; i < PARAMS; i++)
        ASSERT_TRUE(level.bytes[i] >= bytes_of(values[i]) &&
                    level.bytes[i] < bytes_of(values[i]) + bytes_of(1) / 2);
    lk_tape_free(tape);
    grads_free(grad);
    net_free();
}

/* One micro-batch after the other on one tape, whose gradients add up. */
static void one_by_one(lk_tensor *const *grad, lk_tensor *const *dx)
{
    lk_tape *tape = NULL;
    ASSERT_OK(lk_tape_new(&tape));
    for (int k = 0; k < MICROS; k++) {
        struct micro m;
        ASSERT_OK(lk_leaf(tape, net.x[k], dx[k], &m.x));
        for (int i = 0; i < PARAMS; i++)
            ASSERT_OK((k == 0 ? lk_leaf_overwrite : lk_leaf)(tape, net.value[i], grad[i], &m.p[i]));
        ASSERT_OK(layers(tape, &m, &m.y));
        ASSERT_OK(backward(tape, k, &m));
        lk_tape_reset(tape);
    }
    lk_tape_free(tape);
}

/* Three tapes, whose forwards are under way at once; gradients get their place when they are written. */
static void in_a_ring(lk_tensor *const *grad, lk_tensor *const *dx, bool again)
{
    static const struct {
        char half;
        int micro;
    } list[] = {{'B', 0}, {'B', 1}, {'W', 0}, {'B', 2}, {'W', 1}, {'W', 2}};
    lk_tape *tape[MICROS];
    struct micro m[MICROS];
    for (int k = 0; k < MICROS; k++) {
        ASSERT_OK(lk_tape_new(&tape[k]));
        ASSERT_OK(forward(tape[k], k, dx[k], NULL, again, &m[k]));
    }
    for (int n = 0; n < LK_COUNT(list); n++) {
        int k = list[n].micro;
        if (list[n].half == 'B') {
            ASSERT_OK(backward(tape[k], k, &m[k]));
            continue;
        }
        for (int i = 0; i < PARAMS; i++)
            ASSERT_OK(lk_leaf_set_grad(m[k].p[i], grad[i], k == 0));
        ASSERT_OK(lk_backward_rest(tape[k]));
        lk_tape_reset(tape[k]);
    }
    for (int k = 0; k < MICROS; k++)
        lk_tape_free(tape[k]);
}

TEST(several_tapes_are_under_way_at_once)
{
    for (int again = 0; again < 2; again++) {
        lk_tensor *grad[2][PARAMS], *dx[2][MICROS];
        net_make();
        for (int way = 0; way < 2; way++) {
            grads_make(grad[way]);
            for (int k = 0; k < MICROS; k++)
                ASSERT_OK(lk_tensor_zeros(LK_F64, LK_SHAPE(ROWS, WIDTH), &dx[way][k]));
            for (int i = 0; i < PARAMS; i++)
                ASSERT_OK(lk_tensor_fill_f64(grad[way][i], 3 + way));
        }
        one_by_one(grad[0], dx[0]);
        in_a_ring(grad[1], dx[1], again);
        for (int i = 0; i < PARAMS; i++)
            ASSERT_TRUE(same(grad[0][i], grad[1][i]));
        for (int k = 0; k < MICROS; k++)
            ASSERT_TRUE(same(dx[0][k], dx[1][k]));
        for (int way = 0; way < 2; way++) {
            grads_free(grad[way]);
            for (int k = 0; k < MICROS; k++)
                lk_tensor_free(dx[way][k]);
        }
        net_free();
    }
}

TEST(the_second_step_allocates_nothing)
{
    lk_tape *tape = NULL;
    lk_tensor *grad[PARAMS];
    int64_t calls = 0;
    net_make();
    grads_make(grad);
    ASSERT_OK(lk_tape_new(&tape));
    for (int step = 0; step < 3; step++) {
        struct micro m;
        ASSERT_OK(forward(tape, 0, NULL, grad, step % 2, &m));
        ASSERT_OK(backward(tape, 0, &m));
        ASSERT_OK(lk_backward_rest(tape));
        lk_tape_reset(tape);
        if (step == 1)
            calls = lk_alloc_stats_now().calls;
    }
    ASSERT_EQ(lk_alloc_stats_now().calls, calls);
    lk_tape_free(tape);
    grads_free(grad);
    net_free();
}

/* y = x, whose gradient is given by an op that counts. */
static int runs;

static lk_status same_infer(lk_call *c, lk_output_spec *out)
{
    out->dtype = lk_tensor_dtype(c->x[0]);
    out->shape = lk_tensor_shape(c->x[0]);
    return LK_OK;
}

static lk_status same_forward(lk_call *c)
{
    runs++;
    return LK_TRACE(lk_tensor_copy(c->x[0], c->y[0]));
}

/* One that says that it communicates. */
static const lk_op plain = {.name = "plain",
                            .min_in = 1,
                            .max_in = 1,
                            .n_out = 1,
                            .infer = same_infer,
                            .forward = same_forward};
static const lk_op speaking = {.name = "speaking",
                               .min_in = 1,
                               .max_in = 1,
                               .n_out = 1,
                               .flags = LK_OP_COLLECTIVE,
                               .infer = same_infer,
                               .forward = same_forward};

static const lk_op *giver;

static lk_status counted_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    return LK_TRACE(lk_apply_gradient(c, 0, giver, dout, 1, NULL, &din[0]));
}

static const lk_op counted = {.name = "counted",
                              .min_in = 1,
                              .max_in = 1,
                              .n_out = 1,
                              .infer = same_infer,
                              .forward = same_forward,
                              .backward = counted_backward};

TEST(ops_wait_unless_they_communicate)
{
    static const struct {
        const lk_op *op;
        unsigned flags;
        int before, after; /* runs in the first half, and in both */
    } table[] = {{&plain, 0, 0, 1},
                 {&plain, LK_RETAIN_GRAPH, 0, 1},
                 {&plain, LK_RECORD, 1, 1},
                 {&speaking, 0, 1, 1}};
    for (int k = 0; k < LK_COUNT(table); k++) {
        struct fixture f = fixture_new();
        lk_var v = fixture_leaf(&f, LK_SHAPE(3), 1, 1), y;
        ASSERT_OK(lk_leaf_postpone(v));
        giver = table[k].op;
        ASSERT_OK(lk_apply(f.tape, &counted, &v, 1, NULL, &y));
        runs = 0;
        fixture_backward(&f, y, table[k].flags);
        ASSERT_EQ(runs, table[k].before);
        ASSERT_TRUE(test_at(f.grad[0], 2) == (table[k].flags == LK_RECORD ? 1 : 0));
        ASSERT_OK(lk_backward_rest(f.tape));
        ASSERT_EQ(runs, table[k].after);
        ASSERT_TRUE(test_at(f.grad[0], 2) == 1);
        fixture_free(&f);
    }
}

TEST(lk_grad_leaves_nothing)
{
    struct fixture f = fixture_new();
    lk_var v = fixture_leaf(&f, LK_SHAPE(3), 1, 1), y, g;
    ASSERT_OK(lk_leaf_postpone(v));
    ASSERT_OK(lk_square(v, &y));
    ASSERT_OK(lk_sum(y, NULL, &y));
    ASSERT_OK(lk_grad(f.tape, &y, NULL, 1, &v, 1, LK_RETAIN_GRAPH, &g));
    ASSERT_TRUE(test_value_at(g, 2) == 6);
    ASSERT_OK(lk_backward_rest(f.tape));
    ASSERT_TRUE(test_at(f.grad[0], 2) == 0);
    ASSERT_OK(lk_backward(f.tape, &(lk_seed){.of = y}, 1, 0));
    ASSERT_OK(lk_backward_rest(f.tape));
    ASSERT_TRUE(test_at(f.grad[0], 2) == 6);
    fixture_free(&f);
}

/* Of two postponed leaves one is not used; both are to be overwritten. */
TEST(zeros_are_set_by_the_rest_where_nothing_comes)
{
    lk_tape *tape = NULL;
    lk_tensor *value = test_filled(LK_SHAPE(3), 1, 1), *grad[2];
    lk_var v[2], y;
    ASSERT_OK(lk_tape_new(&tape));
    for (int i = 0; i < 2; i++) {
        grad[i] = test_filled(LK_SHAPE(3), 7, 0);
        ASSERT_OK(lk_leaf_overwrite(tape, value, grad[i], &v[i]));
        ASSERT_OK(lk_leaf_postpone(v[i]));
    }
    ASSERT_OK(lk_square(v[0], &y));
    ASSERT_OK(lk_sum(y, NULL, &y));
    ASSERT_OK(lk_backward(tape, &(lk_seed){.of = y}, 1, 0));
    ASSERT_TRUE(test_at(grad[0], 2) == 7 && test_at(grad[1], 2) == 7);
    ASSERT_OK(lk_backward_rest(tape));
    ASSERT_TRUE(test_at(grad[0], 2) == 6 && test_at(grad[1], 2) == 0);
    lk_tape_free(tape);
    lk_tensor_free(value);
    lk_tensor_free(grad[0]);
    lk_tensor_free(grad[1]);
}

/* Two leaves whose gradient is one tensor: (1e16 + 1) - 1e16 is 0, and in the other order 1. */
TEST(leaves_that_share_a_gradient_keep_their_order)
{
    for (int halves = 0; halves < 2; halves++) {
        lk_tape *tape = NULL;
        lk_tensor *grad = test_filled(LK_SHAPE(1), 1e16, 0);
        lk_tensor *value[] = {test_filled(LK_SHAPE(1), -1e16, 0), test_filled(LK_SHAPE(1), 1, 0)};
        lk_var v[2], y;
        ASSERT_OK(lk_tape_new(&tape));
        for (int i = 0; i < 2; i++) {
            ASSERT_OK(lk_leaf(tape, value[i], grad, &v[i]));
            if (halves)
                ASSERT_OK(lk_leaf_postpone(v[i]));
        }
        ASSERT_OK(lk_mul(v[0], v[1], &y));
        ASSERT_OK(lk_backward(tape, &(lk_seed){.of = y}, 1, 0));
        ASSERT_OK(lk_backward_rest(tape));
        ASSERT_TRUE(test_at(grad, 0) == 0);
        lk_tape_free(tape);
        lk_tensor_free(value[0]);
        lk_tensor_free(value[1]);
        lk_tensor_free(grad);
    }
}

TEST(another_pass_waits_for_the_rest)
{
    struct fixture f = fixture_new();
    lk_var v = fixture_leaf(&f, LK_SHAPE(3), 1, 1), y, g;
    ASSERT_OK(lk_leaf_postpone(v));
    ASSERT_OK(lk_square(v, &y));
    ASSERT_OK(lk_sum(y, NULL, &y));
    ASSERT_OK(lk_backward(f.tape, &(lk_seed){.of = y}, 1, LK_RETAIN_GRAPH));
    ASSERT_FAILS(lk_backward(f.tape, &(lk_seed){.of = y}, 1, 0), LK_ESTATE, "lk_backward_rest()");
    ASSERT_EQ(lk_grad(f.tape, &y, NULL, 1, &v, 1, 0, &g), LK_ESTATE);
    lk_tape_reset(f.tape); /* forgets it */
    ASSERT_OK(lk_backward_rest(f.tape));
    ASSERT_TRUE(test_at(f.grad[0], 2) == 0);
    ASSERT_OK(lk_leaf(f.tape, f.value[0], f.grad[0], &v));
    ASSERT_OK(lk_square(v, &y)); /* a leaf is not postponed over a reset */
    fixture_backward(&f, y, 0);
    ASSERT_TRUE(test_at(f.grad[0], 2) == 6);
    fixture_free(&f);
}

TEST(a_leaf_without_a_place_for_its_gradient_is_refused)
{
    lk_tape *tape = NULL;
    lk_tensor *value = test_filled(LK_SHAPE(3), 1, 1), *grad = test_filled(LK_SHAPE(3), 5, 0);
    lk_var v, y;
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_leaf(tape, value, NULL, &v));
    ASSERT_OK(lk_leaf_postpone(v));
    ASSERT_OK(lk_square(v, &y));
    ASSERT_OK(lk_sum(y, NULL, &y));
    ASSERT_OK(lk_backward(tape, &(lk_seed){.of = y}, 1, 0));
    ASSERT_FAILS(lk_backward_rest(tape), LK_ESTATE, "lk_leaf_set_grad()");
    ASSERT_OK(lk_leaf_set_grad(v, grad, false));
    ASSERT_OK(lk_backward_rest(tape));
    ASSERT_TRUE(test_at(grad, 2) == 11);
    lk_tape_free(tape);
    lk_tensor_free(value);
    lk_tensor_free(grad);
}

TEST(what_the_rest_still_reads_must_not_change)
{
    struct fixture f = fixture_new();
    lk_tensor *data = test_filled(LK_SHAPE(4, 3), 1, 1);
    lk_var w = fixture_leaf(&f, LK_SHAPE(3, 2), 1, 1), x, y;
    ASSERT_OK(lk_leaf_postpone(w));
    ASSERT_OK(lk_constant(f.tape, data, &x));
    ASSERT_OK(lk_linear(x, w, LK_NO_VAR, &y));
    fixture_backward(&f, y, 0);
    ASSERT_OK(lk_tensor_fill_f64(data, 0));
    ASSERT_FAILS(lk_backward_rest(f.tape), LK_ESTATE, "linear_weights");
    ASSERT_TRUE(test_at(f.grad[0], 0) == 0);
    lk_tensor_free(data);
    fixture_free(&f);
}

static lk_status postpones(lk_tape *tape, void *arg, lk_var *out)
{
    lk_var v = *(lk_var *)arg;
    (void)tape;
    LK_TRY(lk_leaf_postpone(v));
    return LK_TRACE(lk_square(v, out));
}

static lk_status rests(lk_tape *tape, void *arg, lk_var *out)
{
    LK_TRY(lk_square(*(lk_var *)arg, out));
    return LK_TRACE(lk_backward_rest(tape));
}

TEST(only_leaves_are_postponed_and_outside_segments)
{
    struct fixture f = fixture_new();
    lk_var v = fixture_leaf(&f, LK_SHAPE(3), 1, 1), y, c;
    ASSERT_OK(lk_square(v, &y));
    ASSERT_OK(lk_constant(f.tape, f.value[0], &c));
    ASSERT_EQ(lk_leaf_postpone(y), LK_EINVAL);
    ASSERT_EQ(lk_leaf_postpone(c), LK_EINVAL);
    ASSERT_EQ(lk_leaf_postpone(LK_NO_VAR), LK_EINVAL);
    ASSERT_EQ(lk_leaf_set_grad(c, f.grad[0], true), LK_EINVAL);
    ASSERT_EQ(lk_recompute(f.tape, postpones, &v, 1, &y), LK_ESTATE);
    ASSERT_EQ(lk_recompute(f.tape, rests, &v, 1, &y), LK_ESTATE);
    ASSERT_EQ(lk_backward_rest(NULL), LK_EINVAL);
    lk_tape_reset(f.tape);
    ASSERT_EQ(lk_leaf_postpone(v), LK_ESTATE);
    fixture_free(&f);
}

TEST(a_gradient_is_checked_when_it_is_named)
{
    struct fixture f = fixture_new();
    lk_var v = fixture_leaf(&f, LK_SHAPE(3), 1, 1), y;
    lk_tensor *long_one = test_filled(LK_SHAPE(4), 0, 0), *small = NULL, *fixed = NULL;
    const double zeros[3] = {0, 0, 0};
    ASSERT_OK(lk_tensor_zeros(LK_F32, LK_SHAPE(3), &small));
    ASSERT_OK(lk_tensor_wrap_const(LK_F64, LK_SHAPE(3), zeros, NULL, NULL, &fixed));
    ASSERT_EQ(lk_leaf_set_grad(v, long_one, false), LK_ESHAPE);
    ASSERT_EQ(lk_leaf_set_grad(v, small, false), LK_EDTYPE);
    ASSERT_EQ(lk_leaf_set_grad(v, fixed, false), LK_EINVAL);
    ASSERT_EQ(lk_leaf_set_grad(v, f.value[0], false), LK_EOVERLAP);
    ASSERT_OK(lk_leaf_set_grad(v, NULL, true)); /* none: lk_backward() drops it */
    ASSERT_OK(lk_square(v, &y));
    fixture_backward(&f, y, LK_RETAIN_GRAPH);
    ASSERT_TRUE(test_at(f.grad[0], 2) == 0);
    ASSERT_OK(lk_leaf_set_grad(v, f.grad[0], false)); /* also of leaves that are not postponed */
    fixture_backward(&f, y, LK_RETAIN_GRAPH);
    fixture_backward(&f, y, LK_RETAIN_GRAPH);
    ASSERT_TRUE(test_at(f.grad[0], 2) == 12);
    ASSERT_OK(lk_leaf_set_grad(v, f.grad[0], true));
    fixture_backward(&f, y, 0);
    ASSERT_TRUE(test_at(f.grad[0], 2) == 6);
    lk_tensor_free(long_one);
    lk_tensor_free(small);
    lk_tensor_free(fixed);
    fixture_free(&f);
}

static lk_status refuses(void *arg, const lk_tensor *grad)
{
    (void)grad;
    return ++*(int *)arg == 2 ? LK_EIO : LK_OK;
}

TEST(a_rest_that_fails_leaves_nothing)
{
    lk_tape *tape = NULL;
    lk_tensor *grad[PARAMS];
    struct micro m;
    int calls = 0;
    net_make();
    grads_make(grad);
    ASSERT_OK(lk_tape_new(&tape));
    lk_tape_set_grad_hook(tape, refuses, &calls);
    ASSERT_OK(forward(tape, 0, NULL, grad, false, &m));
    ASSERT_OK(backward(tape, 0, &m));
    ASSERT_EQ(lk_backward_rest(tape), LK_EIO);
    ASSERT_EQ(lk_tape_stats_of(tape).live_bytes, bytes_of(1));
    ASSERT_OK(lk_backward_rest(tape));
    ASSERT_EQ(calls, 2);
    lk_tape_free(tape);
    grads_free(grad);
    net_free();
}

static lk_tensor *kept[PARAMS];

static lk_status whole_life(void)
{
    lk_status st;
    lk_tape *tape = NULL;
    struct micro m;
    LK_TRY_TO(done, lk_tape_new(&tape));
    for (int again = 0; again < 2; again++) {
        LK_TRY_TO(done, forward(tape, 0, NULL, again ? NULL : kept, again, &m));
        LK_TRY_TO(done, backward(tape, 0, &m));
        for (int i = 0; i < PARAMS; i++)
            LK_TRY_TO(done, lk_leaf_set_grad(m.p[i], kept[i], again));
        LK_TRY_TO(done, lk_backward_rest(tape));
        lk_tape_reset(tape);
    }
done:
    lk_tape_free(tape);
    return st;
}

TEST(every_allocation_may_fail)
{
    net_make();
    grads_make(kept);
    ASSERT_TRUE(test_every_allocation_fails(whole_life) > 5);
    grads_free(kept);
    net_free();
}
