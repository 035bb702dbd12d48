/* Ops that apply an activation to what they compute: the bits of two ops, forward, backward and backward of
 * backward, for both types, on every instruction set, with and without shards. */
#include "real.h"
#include "tensors.h"

#include <lockstep/extra/isa.h>
#include <lockstep/lockstep.h>

enum { MAX = 5 };

/* Two ways to the same value: an op with the attribute, and without it, before the activation. */
typedef lk_status op_fn(const lk_var *in, lk_act act, lk_var *out);

typedef struct pair {
    const char *name;
    op_fn *op;
    int n_in;
    lk_shape in[MAX];
} pair;

static lk_status act_apply(lk_act act, lk_var x, lk_var *out)
{
    return LK_TRACE(act == LK_ACT_RELU      ? lk_relu(x, out)
                    : act == LK_ACT_SIGMOID ? lk_sigmoid(x, out)
                                            : lk_tanh(x, out));
}

static lk_status linear(const lk_var *in, lk_act act, lk_var *out)
{
    return LK_TRACE(act ? lk_linear_act(in[0], in[1], in[2], act, out)
                        : lk_linear(in[0], in[1], in[2], out));
}

static lk_status conv(const lk_var *in, lk_act act, lk_var *out)
{
    lk_conv_attr attr = {.window = {.pad_lo = {1, 0}, .pad_hi = {1, 1}}, .act = act};
    return LK_TRACE(lk_conv(in[0], in[1], in[2], &attr, out));
}

static lk_status winograd(const lk_var *in, lk_act act, lk_var *out)
{
    lk_conv_attr attr = {.algorithm = LK_CONV_WINOGRAD, .act = act};
    return LK_TRACE(lk_conv(in[0], in[1], LK_NO_VAR, &attr, out));
}

static lk_status add(const lk_var *in, lk_act act, lk_var *out)
{
    return LK_TRACE(act ? lk_add_act(in[0], in[1], act, out) : lk_add(in[0], in[1], out));
}

static lk_status bias(const lk_var *in, lk_act act, lk_var *out)
{
    return LK_TRACE(act ? lk_add_act(in[0], in[1], act, out) : lk_bias(in[0], in[1], out));
}

static lk_status batch_norm(const lk_var *in, lk_act act, lk_var *out)
{
    lk_batch_norm_attr attr = {.eps = 0.01, .act = act};
    return LK_TRACE(lk_batch_norm(in[0], in[1], in[2], &attr, out, NULL, NULL));
}

static lk_status whole_norm(const lk_var *in, lk_act act, lk_var *out)
{
    lk_batch_norm_attr attr = {.whole_batch = true, .act = act};
    return LK_TRACE(lk_batch_norm(in[0], in[1], in[2], &attr, out, NULL, NULL));
}

static lk_status given_norm(const lk_var *in, lk_act act, lk_var *out)
{
    lk_batch_norm_attr attr = {.act = act};
    lk_var variance;
    *out = LK_NO_VAR;
    LK_TRY(lk_square(in[4], &variance));
    return LK_TRACE(lk_batch_norm_inference(in[0], in[1], in[2], in[3], variance, &attr, out));
}

static lk_status layer_norm(const lk_var *in, lk_act act, lk_var *out)
{
    lk_layer_norm_attr attr = {.axes = lk_shape_of(in[1]).ndim, .act = act};
    return LK_TRACE(lk_layer_norm(in[0], in[1], in[2], &attr, out));
}

static const pair pairs[] = {
    {"linear", linear, 3, {LK_DIMS(5, 17), LK_DIMS(17, 9), LK_DIMS(9)}},
    {"linear of positions", linear, 3, {LK_DIMS(3, 2, 7), LK_DIMS(7, 33), LK_DIMS(33)}},
    {"conv", conv, 3, {LK_DIMS(3, 6, 5, 2), LK_DIMS(3, 2, 2, 9), LK_DIMS(9)}},
    {"conv by Winograd", winograd, 2, {LK_DIMS(3, 6, 9, 2), LK_DIMS(3, 3, 2, 9)}},
    {"add", add, 2, {LK_DIMS(5, 7, 31), LK_DIMS(5, 7, 31)}},
    {"add of long rows", add, 2, {LK_DIMS(3, 1031), LK_DIMS(3, 1031)}},
    {"add of a column", add, 2, {LK_DIMS(5, 1, 3), LK_DIMS(4, 1)}},
    {"bias", bias, 2, {LK_DIMS(5, 3, 19), LK_DIMS(19)}},
    {"batch norm", batch_norm, 3, {LK_DIMS(5, 3, 7), LK_DIMS(7), LK_DIMS(7)}},
    {"batch norm of images", batch_norm, 3, {LK_DIMS(3, 9, 11, 33), LK_DIMS(33), LK_DIMS(33)}},
    {"batch norm of wide rows", batch_norm, 3, {LK_DIMS(19, 259), LK_DIMS(259), LK_DIMS(259)}},
    {"batch norm of all", whole_norm, 3, {LK_DIMS(5, 3, 17), LK_DIMS(17), LK_DIMS(17)}},
    {"batch norm by given statistics",
     given_norm,
     5,
     {LK_DIMS(5, 3, 17), LK_DIMS(17), LK_DIMS(17), LK_DIMS(17), LK_DIMS(17)}},
    {"layer norm", layer_norm, 3, {LK_DIMS(5, 3, 33), LK_DIMS(33), LK_DIMS(33)}},
    {"layer norm of two axes", layer_norm, 3, {LK_DIMS(5, 3, 7), LK_DIMS(3, 7), LK_DIMS(3, 7)}},
};

/* What is compared: the value, the gradients of the leaves, and these once more from a recorded pass. */
enum { VALUE, GRAD, SECOND = GRAD + MAX, RESULTS = SECOND + MAX };

typedef struct run {
    const pair *pair;
    lk_act act;
    bool fused;
    lk_dtype dtype;
    int64_t shard;
    bool odd; /* infinities and denormals among the numbers */
    int64_t nodes;
    lk_tensor *in[MAX], *out[RESULTS];
} run;

static lk_tensor *filled_new(const run *r, lk_shape shape, uint64_t seed)
{
    lk_tensor *t = NULL;
    void *data = NULL;
    ASSERT_OK(lk_tensor_new(r->dtype, shape, &t));
    ASSERT_OK(lk_tensor_writable_data(t, &data));
    real_fill(r->dtype, data, lk_tensor_count(t), seed, r->odd);
    return t;
}

static lk_var pass_begin(run *r, lk_tape *tape, int grads, lk_var *x)
{
    lk_var y;
    lk_tape_reset(tape);
    for (int i = 0; i < r->pair->n_in; i++) {
        ASSERT_OK(lk_tensor_new(r->dtype, r->pair->in[i], &r->out[grads + i]));
        ASSERT_OK(lk_leaf_overwrite(tape, r->in[i], r->out[grads + i], &x[i]));
    }
    ASSERT_OK(r->pair->op(x, r->fused ? r->act : LK_ACT_NONE, &y));
    if (!r->fused)
        ASSERT_OK(act_apply(r->act, y, &y));
    r->nodes = lk_tape_stats_of(tape).nodes;
    return y;
}

static void seed_free(lk_tensor **seed, int n)
{
    for (int i = 0; i < n; i++)
        lk_tensor_free(seed[i]);
}

static void first_order(run *r, lk_tape *tape)
{
    lk_var x[MAX], y = pass_begin(r, tape, GRAD, x);
    const lk_tensor *value;
    ASSERT_OK(lk_value(y, &value));
    ASSERT_OK(lk_tensor_clone(value, r->dtype, &r->out[VALUE]));
    lk_tensor *seed = filled_new(r, lk_tensor_shape(value), 91);
    ASSERT_OK(lk_backward(tape, &(lk_seed){y, seed}, 1, 0));
    lk_tape_reset(tape);
    seed_free(&seed, 1);
}

static void second_order(run *r, lk_tape *tape)
{
    int n = r->pair->n_in;
    lk_var x[MAX], g[MAX], s, y = pass_begin(r, tape, SECOND, x);
    lk_tensor *first = filled_new(r, lk_shape_of(y), 92), *of[MAX];
    lk_seed seed[MAX];
    ASSERT_OK(lk_constant(tape, first, &s));
    ASSERT_OK(lk_grad(tape, &y, &s, 1, x, n, LK_RECORD, g));
    for (int i = 0; i < n; i++) {
        of[i] = filled_new(r, r->pair->in[i], (uint64_t)(93 + i));
        seed[i] = (lk_seed){g[i], of[i]};
    }
    ASSERT_OK(lk_backward(tape, seed, n, 0));
    lk_tape_reset(tape);
    seed_free(of, n);
    seed_free(&first, 1);
}

/* Everything that one way gives. */
static void run_make(run *r)
{
    lk_tape *tape;
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_tape_set_shard_size(tape, r->shard));
    for (int i = 0; i < r->pair->n_in; i++)
        r->in[i] = filled_new(r, r->pair->in[i], (uint64_t)(1 + i));
    second_order(r, tape);
    first_order(r, tape);
    lk_tape_free(tape);
}

static void run_free(run *r)
{
    for (int i = 0; i < MAX; i++)
        lk_tensor_free(r->in[i]);
    for (int i = 0; i < RESULTS; i++)
        lk_tensor_free(r->out[i]);
}

/* NaN has many patterns, and which one comes out is not promised. */
static bool is_same(const lk_tensor *a, const lk_tensor *b)
{
    for (int64_t i = 0; i < lk_tensor_count(a); i++)
        if (!real_same(real_get(lk_tensor_dtype(a), lk_tensor_data(a), i),
                       real_get(lk_tensor_dtype(b), lk_tensor_data(b), i)))
            return false;
    return true;
}

static void pair_check(const pair *p, lk_act act, int k, const char *isa)
{
    run apart = {.pair = p, .act = act, .dtype = k % 2 ? LK_F64 : LK_F32};
    apart.shard = k / 2 % 2 ? 2 : 0;
    apart.odd = k / 4;
    run fused = apart;
    fused.fused = true;
    run_make(&apart);
    run_make(&fused);
    if (fused.nodes != apart.nodes - 1)
        TEST_FAIL("%s: %lld nodes instead of %lld", p->name, (long long)fused.nodes,
                  (long long)apart.nodes);
    for (int j = 0; j < RESULTS; j++)
        if (apart.out[j] && !is_same(apart.out[j], fused.out[j]))
            TEST_FAIL("%s with activation %d, %s, %s, shards of %lld%s: result %d has other bits",
                      p->name, (int)act, lk_dtype_name(apart.dtype), isa, (long long)apart.shard,
                      apart.odd ? ", odd numbers" : "", j);
    run_free(&apart);
    run_free(&fused);
}

TEST(an_activation_is_one_with_what_is_before_it)
{
    lk_isa best;
    ASSERT_OK(lk_isa_now(&best));
    for (int isa = LK_ISA_SCALAR; isa < LK_N_ISAS; isa++) {
        if (!lk_isa_is_available((lk_isa)isa))
            continue;
        ASSERT_OK(lk_isa_set((lk_isa)isa));
        for (int i = 0; i < LK_COUNT(pairs); i++)
            for (int act = LK_ACT_RELU; act <= LK_ACT_TANH; act++)
                for (int k = 0; k < 8; k++)
                    pair_check(&pairs[i], (lk_act)act, k, lk_isa_name((lk_isa)isa));
    }
    ASSERT_OK(lk_isa_set(best));
}

/* gelu's gradient is no function of its output. */
TEST(an_activation_that_needs_its_input_is_refused)
{
    for (int i = 0; i < LK_COUNT(pairs); i++) {
        run r = {.pair = &pairs[i], .dtype = LK_F64};
        lk_tape *tape;
        lk_var x[MAX], y;
        ASSERT_OK(lk_tape_new(&tape));
        for (int k = 0; k < r.pair->n_in; k++) {
            r.in[k] = filled_new(&r, r.pair->in[k], (uint64_t)k);
            ASSERT_OK(lk_constant(tape, r.in[k], &x[k]));
        }
        ASSERT_FAILS(r.pair->op(x, LK_ACT_GELU, &y), LK_EINVAL,
                     "with activation number 4: there are none, relu, sigmoid and tanh");
        ASSERT_TRUE(!lk_is_var(y));
        lk_tape_free(tape);
        run_free(&r);
    }
}

TEST(other_convolutions_have_no_activation)
{
    run r = {.dtype = LK_F64};
    lk_conv_attr attr = {.act = LK_ACT_RELU};
    lk_tensor *x = filled_new(&r, LK_SHAPE(2, 4, 3), 1), *w = filled_new(&r, LK_SHAPE(2, 3, 3), 2);
    lk_tape *tape;
    lk_var vx, vw, y;
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_constant(tape, x, &vx));
    ASSERT_OK(lk_constant(tape, w, &vw));
    ASSERT_FAILS(lk_conv_transpose(vx, vw, LK_NO_VAR, &attr, &y), LK_EINVAL,
                 "act is 1, and only lk_conv() has an activation");
    ASSERT_FAILS(lk_conv_weights(vx, vx, &attr, (int64_t[]){1}, &y), LK_EINVAL,
                 "act is 1, and only lk_conv() has an activation");
    lk_tape_free(tape);
    lk_tensor_free(x);
    lk_tensor_free(w);
}
