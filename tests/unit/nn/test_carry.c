/* Recurrent models that begin with a carry and give the one they end with: times that are cut into parts
 * have the bits of all times at once. */
#include "carries.h"
#include "real.h"

/* ---- parts ---- */

static const char *const rnn[] = {"rnn", "units=5 output=all", NULL};
static const char *const gru[] = {"gru", "units=5 output=all", NULL};
static const char *const lstm[] = {"lstm", "units=5 output=all", NULL};
static const char *const deep[] = {
    "lstm", "units=4 output=all", "gru", "units=3 output=all", "tanh", NULL, "linear", "units=4",
    "rnn",  "units=6 output=all", NULL};
static const char *const within[] = {
    "residual", "layers=lstm(units=3 output=all),lstm(units=2 output=all)", NULL};
static const char *const beside[] = {
    "residual", "layers=lstm(units=3 output=all) shortcut=rnn(units=2 output=all) join=concat",
    "lstm", "units=2 output=all", NULL};
static const char *const backwards[] = {"lstm", "units=4 output=all reverse=true", NULL};
static const char *const ends[] = {"lstm", "units=4", NULL};

static void expect_bits(const lk_tensor *got, const lk_tensor *want, const char *layers,
                        const char *what)
{
    if (!lk_tensor_is_equal(got, want))
        TEST_FAIL("%s: %s has other bits than with all times at once: %s, not %s", layers, what,
                  lk_tensor_text(got).s, lk_tensor_text(want).s);
}

/* The gradients of the parts' parameters, added up, against those of all times at once. */
static void expect_gradients(const struct net *s, const struct net *whole, double tolerance)
{
    int64_t bytes = lk_slab_layout_bytes(lk_model_layout(whole->model[0])),
            n = bytes / (int64_t)lk_dtype_size(s->dtype);
    for (int64_t i = 0; i < n; i++) {
        double sum = 0, want = 0;
        for (int k = 0; k <= s->n; k++) {
            const void *at = lk_slab_data(
                lk_accumulator_slab(k < s->n ? s->sums[k] : whole->sums[0]));
            *(k < s->n ? &sum : &want) += real_get(s->dtype, at, i);
        }
        ASSERT_NEAR(sum, want, tolerance * (1 + fabs(want)));
    }
}

/* `exact`: nothing of the layers' carry has more than two uses, so sums have the same order. */
static void check_parts(const char *const *layers, bool exact, lk_dtype dtype, int64_t samples,
                        const int64_t *times, int n)
{
    int64_t all = 0, at = 0;
    for (int k = 0; k < n; k++)
        all += times[k];
    struct net parts = net_new(layers, dtype, samples, times, n),
               whole = net_new(layers, dtype, samples, &all, 1);
    bool one = lk_model_out(whole.model[0]).shape.ndim == 1;
    if (one) /* the output of the last part counts, those of the others do not */
        for (int k = 0; k < n; k++)
            ASSERT_OK(lk_tensor_fill_f64(parts.c[k], k == n - 1));
    if (one)
        ASSERT_OK(lk_tensor_fill_f64(whole.c[0], 1));
    net_run(&parts);
    net_run(&whole);
    for (int k = 0; k < n; k++) {
        lk_tensor *y = one ? lk_tensor_retain(whole.y[0]) : times_of(whole.y[0], at, at + times[k]),
                  *dx = times_of(whole.dx[0], at, at + times[k]);
        if (!one || k == n - 1)
            expect_bits(parts.y[k], y, layers[0], "the output");
        if (exact)
            expect_bits(parts.dx[k], dx, layers[0], "the gradient of x");
        lk_tensor_free(y);
        lk_tensor_free(dx);
        at += times[k];
    }
    for (int i = 0; i < whole.carries; i++) {
        expect_bits(parts.last[i], whole.last[i], layers[0], "the last carry");
        if (exact)
            expect_bits(parts.dfirst[i], whole.dfirst[i], layers[0],
                        "the gradient of the first carry");
    }
    expect_gradients(&parts, &whole, dtype == LK_F32 ? 1e-5 : 1e-13);
    net_free(&parts);
    net_free(&whole);
}

TEST(times_in_parts_have_the_bits_of_all_at_once)
{
    static const struct {
        int64_t times[MOST_PARTS];
        int n;
    } cuts[] = {{{3, 4}, 2}, {{1, 6}, 2}, {{0, 7}, 2}, {{5, 2, 0}, 3}, {{1, 0, 1, 5}, 4}};
    static const struct {
        const char *const *layers;
        bool exact;
    } nets[] = {{rnn, true},    {gru, false},   {lstm, true},      {deep, false},
                {within, true}, {beside, true}, {backwards, true}, {ends, true}};
    for (size_t i = 0; i < sizeof nets / sizeof nets[0]; i++)
        for (size_t k = 0; k < sizeof cuts / sizeof cuts[0]; k++)
            for (int64_t samples = 1; samples <= 7; samples += 3)
                for (int p = 0; p < 2; p++)
                    check_parts(nets[i].layers, nets[i].exact, p == 0 ? LK_F32 : LK_F64, samples,
                                cuts[k].times, cuts[k].n);
}

/* Without a carry to begin with, and as lk_model_forward(). */
TEST(zeros_are_what_a_pass_begins_with)
{
    struct net s = net_new(deep, LK_F32, 3, (const int64_t[]){4}, 1);
    lk_tape *tape = NULL;
    lk_var x, y[3], zeros[MOST_CARRIES], last[2][MOST_CARRIES];
    lk_list given = {.at = zeros, .n = s.carries};
    const lk_tensor *value[2];
    ASSERT_OK(lk_tape_new(&tape));
    lk_pass pass = {.tape = tape};
    for (int i = 0; i < s.carries; i++)
        ASSERT_OK(lk_full(tape, LK_F32, lk_tensor_shape(s.first[i]), 0, &zeros[i]));
    ASSERT_OK(lk_constant(tape, s.x[0], &x));
    ASSERT_OK(lk_model_forward(s.model[0], &pass, x, &y[0]));
    ASSERT_OK(lk_model_forward_carry(s.model[0], &pass, x, NULL,
                                     &(lk_list){.at = last[0], .room = MOST_CARRIES}, &y[1]));
    ASSERT_OK(lk_model_forward_carry(s.model[0], &pass, x, &given,
                                     &(lk_list){.at = last[1], .room = MOST_CARRIES}, &y[2]));
    ASSERT_OK(lk_value(y[0], &value[0]));
    for (int k = 1; k < 3; k++) {
        ASSERT_OK(lk_value(y[k], &value[1]));
        ASSERT_TRUE(lk_tensor_is_equal(value[0], value[1]));
    }
    for (int i = 0; i < s.carries; i++) {
        ASSERT_OK(lk_value(last[0][i], &value[0]));
        ASSERT_OK(lk_value(last[1][i], &value[1]));
        ASSERT_TRUE(lk_tensor_is_equal(value[0], value[1]));
    }
    lk_tape_free(tape);
    net_free(&s);
}

/* ---- refusals ---- */

TEST(what_is_no_carry_is_refused)
{
    static const char *const plain[] = {"flatten", NULL, "linear", "units=2", NULL};
    lk_model *m = model_of(lstm, LK_F32, 3), *other = model_of(plain, LK_F32, 3);
    lk_tape *tape = NULL;
    lk_var x, y, at[MOST_CARRIES], last[MOST_CARRIES];
    lk_carry_info info;
    ASSERT_OK(lk_tape_new(&tape));
    lk_pass pass = {.tape = tape};
    lk_list first = {.at = at, .n = 2}, out = {.at = last, .room = MOST_CARRIES};
    ASSERT_OK(lk_full(tape, LK_F32, LK_SHAPE(2, 3, FEATURES), 0, &x));
    ASSERT_OK(lk_full(tape, LK_F32, LK_SHAPE(2, 5), 0, &at[0]));
    at[1] = at[0];
    ASSERT_EQ(lk_model_carries(m), 2);
    ASSERT_EQ(lk_model_carries(other), 0);
    ASSERT_OK(lk_model_carry(m, 1, &info));
    ASSERT_TRUE(strcmp(info.name, "lstm1.c") == 0);
    ASSERT_FAILS(lk_model_carry(m, 2, &info), LK_EINVAL, "carry 2 of 2");
    ASSERT_FAILS(lk_model_carry(m, -1, &info), LK_EINVAL, "carry -1 of 2");
    ASSERT_FAILS(lk_model_forward_carry(other, &pass, x, NULL, &out, &y), LK_EINVAL,
                 "the model has no recurrent layer, such as lstm");
    first.n = 1;
    ASSERT_FAILS(lk_model_forward_carry(m, &pass, x, &first, &out, &y), LK_EINVAL,
                 "the model carries 2 values from one time to the next, and gets 1");
    first.n = 2;
    ASSERT_OK(lk_full(tape, LK_F32, LK_SHAPE(3, 5), 0, &at[1]));
    ASSERT_FAILS(lk_model_forward_carry(m, &pass, x, &first, &out, &y), LK_ESHAPE,
                 "carry lstm1.c must be f32[2,5], not f32[3,5]");
    ASSERT_OK(lk_full(tape, LK_F64, LK_SHAPE(2, 5), 0, &at[1]));
    ASSERT_FAILS(lk_model_forward_carry(m, &pass, x, &first, &out, &y), LK_ESHAPE,
                 "carry lstm1.c must be f32[2,5], not f64[2,5]");
    at[1] = LK_NO_VAR;
    ASSERT_FAILS(lk_model_forward_carry(m, &pass, x, &first, &out, &y), LK_EINVAL,
                 "carry lstm1.c is no value");
    at[1] = at[0];
    ASSERT_FAILS(lk_model_forward_carry(m, &pass, x, &first, &first, &y), LK_EINVAL, "same list");
    out.room = 1;
    ASSERT_FAILS(lk_model_forward_carry(m, &pass, x, &first, &out, &y), LK_EINVAL,
                 "the model carries 2 values, and the list has room for 1");
    ASSERT_OK(lk_model_forward_carry(m, &pass, x, &first, NULL, &y));
    lk_tape_free(tape);
    lk_model_free(m);
    lk_model_free(other);
}

/* A layer of one's own that counts the times: y = x + carry, and the carry is one more for each; with
 * `forget` it does not say so. */
struct count_options {
    bool forget;
};

static lk_status count_build(lk_build *build, const void *options, lk_tensor_type in,
                             lk_tensor_type *out)
{
    (void)options;
    LK_TRY(lk_build_carry(build, "count", (lk_shape){.ndim = 0}));
    *out = in;
    return LK_OK;
}

static lk_status count_forward(const lk_pass *pass, const lk_layer_instance *layer, lk_var x,
                               lk_var *out)
{
    const struct count_options *o = layer->options;
    lk_var n, wide;
    LK_TRY(lk_pass_carry(pass, layer, 0, &n));
    LK_TRY(lk_reshape(n, LK_SHAPE(lk_shape_of(x).dim[0], 1), &wide));
    LK_TRY(lk_add(x, wide, out));
    LK_TRY(lk_affine(n, 1, (double)lk_shape_of(x).dim[1], &n));
    if (!o->forget)
        lk_pass_set_carry(pass, layer, 0, n);
    return LK_OK;
}

TEST(a_layer_of_ones_own_carries_what_it_declares)
{
    static const lk_layer count = {
        .descriptor = {.name = "count", .options_size = sizeof(struct count_options)},
        .build = count_build,
        .forward = count_forward};
    lk_tape *tape = NULL;
    ASSERT_OK(lk_tape_new(&tape));
    for (int forget = 0; forget < 2; forget++) {
        const struct count_options options = {.forget = forget};
        const lk_config config = {.descriptor = &count.descriptor,
                                  .options = (void *)(uintptr_t)&options};
        lk_model *m = NULL;
        lk_var x, y, at[2];
        lk_list a = {.at = &at[0], .room = 1}, b = {.at = &at[1], .room = 1};
        double value = 0;
        ASSERT_OK(lk_model_new(&m));
        ASSERT_OK(lk_model_add_config(m, &config));
        ASSERT_OK(lk_model_build(m, &(lk_model_spec){.in = {LK_F32, LK_SHAPE(3)}}));
        ASSERT_OK(lk_model_hold(m, NULL));
        ASSERT_OK(lk_full(tape, LK_F32, LK_SHAPE(1, 3), 0, &x));
        lk_status st = lk_model_forward_carry(m, &(lk_pass){.tape = tape}, x, NULL, &a, &y);
        if (forget) {
            ASSERT_FAILS(st, LK_EINVAL, "carry count1.count is no value");
        } else {
            ASSERT_OK(st);
            ASSERT_OK(lk_model_forward_carry(m, &(lk_pass){.tape = tape}, x, &a, &b, &y));
            ASSERT_OK(lk_item(b.at[0], &value));
            ASSERT_EQ(value, 6);
        }
        lk_tape_reset(tape);
        lk_model_free(m);
    }
    lk_tape_free(tape);
}

static lk_status scenario(void)
{
    lk_status st;
    lk_model *m = NULL;
    lk_accumulator *sums = NULL;
    lk_tape *tape = NULL;
    lk_var x, y, h[2][3];
    lk_list a = {.at = h[0], .room = 3}, b = {.at = h[1], .room = 3};
    LK_TRY_TO(done, lk_model_new(&m));
    LK_TRY_TO(done, lk_model_add(m, "lstm", "units=2 output=all"));
    LK_TRY_TO(done, lk_model_add(m, "gru", "units=2"));
    LK_TRY_TO(done, lk_model_build(m, &(lk_model_spec){.in = {LK_F32, LK_SHAPE(2, 2)}}));
    LK_TRY_TO(done, lk_model_hold(m, NULL));
    LK_TRY_TO(done, lk_accumulator_new(m, &sums));
    LK_TRY_TO(done, lk_tape_new(&tape));
    lk_pass pass = {.tape = tape, .accumulator = sums};
    LK_TRY_TO(done, lk_full(tape, LK_F32, LK_SHAPE(3, 2, 2), 0.5, &x));
    LK_TRY_TO(done, lk_model_forward_carry(m, &pass, x, NULL, &a, &y));
    LK_TRY_TO(done, lk_model_forward_carry(m, &pass, x, &a, &b, &y));
    LK_TRY_TO(done, lk_sum(y, NULL, &y));
    LK_TRY_TO(done, lk_backward(tape, &(lk_seed){y, NULL}, 1, 0));
done:
    lk_tape_free(tape);
    lk_accumulator_free(sums);
    lk_model_free(m);
    return st;
}

TEST(every_allocation_may_fail)
{
    ASSERT_TRUE(test_every_allocation_fails(scenario) > 10);
}
