/* Every op on its own samples in a host that traps, forward and backward: none raises a signal, and
 * flags and traps are left alone. */
#include "traps.h"

#include <lockstep/lockstep.h>

enum { MAX_IN = LK_SAMPLE_MAX_IN };

static lk_tensor *tensor_filled(lk_dtype dtype, lk_shape shape, int sort)
{
    lk_tensor *t;
    void *data;
    ASSERT_OK(lk_tensor_new(dtype, shape, &t));
    ASSERT_OK(lk_tensor_writable_data(t, &data));
    traps_fill(dtype, sort, lk_tensor_count(t), data);
    return t;
}

/* Indices stay within their range. */
static lk_tensor *input_make(const lk_op_sample_input *in, lk_dtype dtype, int sort)
{
    if (in->kind != LK_SAMPLE_INDEX)
        return tensor_filled(dtype, in->shape, sort);
    lk_tensor *t;
    ASSERT_OK(lk_tensor_new(LK_I64, in->shape, &t));
    ASSERT_OK(lk_tensor_fill_i64(t, (int64_t)in->lo));
    return t;
}

static void sample_run(const lk_op *op, const lk_op_sample *s, lk_dtype dtype, int sort)
{
    lk_tape *tape;
    lk_tensor *x[MAX_IN], *dy[LK_MAX_OUT];
    lk_var in[MAX_IN], y[LK_MAX_OUT], of[LK_MAX_OUT], seed[LK_MAX_OUT], wrt[MAX_IN], g[MAX_IN];
    int n = 0, n_of = 0;
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_tape_set_shard_size(tape, s->shard_size));
    for (int i = 0; i < s->n_in; i++) {
        x[i] = input_make(&s->in[i], dtype, sort);
        bool leaf = s->in[i].kind == LK_SAMPLE_REAL;
        ASSERT_OK(leaf ? lk_leaf(tape, x[i], NULL, &in[i]) : lk_constant(tape, x[i], &in[i]));
        if (leaf)
            wrt[n++] = in[i];
    }
    TRAPPING(lk_apply(tape, op, in, s->n_in, s->attr, y), TRAPS_HOW,
             TRAPS_HOW_OF(op->name, dtype, sort));
    for (int j = 0; j < op->n_out; j++)
        if (lk_needs_grad(y[j])) {
            dy[n_of] = tensor_filled(lk_dtype_of(y[j]), lk_shape_of(y[j]), sort);
            ASSERT_OK(lk_constant(tape, dy[n_of], &seed[n_of]));
            of[n_of++] = y[j];
        }
    if (n_of > 0)
        TRAPPING(lk_grad(tape, of, seed, n_of, wrt, n, 0, g), TRAPS_HOW ", backward",
                 TRAPS_HOW_OF(op->name, dtype, sort));
    lk_tape_free(tape);
    for (int i = 0; i < s->n_in; i++)
        lk_tensor_free(x[i]);
    for (int j = 0; j < n_of; j++)
        lk_tensor_free(dy[j]);
}

static void ops_run(lk_dtype dtype, int sort)
{
    for (int i = 0; lk_ops[i]; i++)
        for (int k = 0; lk_ops[i]->samples && lk_ops[i]->samples[k].n_in > 0; k++)
            sample_run(lk_ops[i], &lk_ops[i]->samples[k], dtype, sort);
}

TEST(ops_do_not_trap)
{
    traps_each(ops_run);
}

/* Differences are taken in long double, for which there are other registers. */
TEST(checks_of_gradients_do_not_trap)
{
    for (int i = 0; lk_ops[i]; i++) {
        lk_gradcheck_result r;
        if (i % 7 == 0 && lk_ops[i]->backward)
            TRAPPING(lk_gradcheck(lk_ops[i], 1, 1e-6, &r), "gradcheck of %s", lk_ops[i]->name);
    }
}
