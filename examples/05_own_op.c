/* An op of one's own, checked against differences, and a deep program that keeps little.
 *
 * The op is y = x^3.  The program applies blocks h = tanh(cube(h) + b) one after the other, first as
 * they are, then as segments that backward runs again: the same gradients with less memory.
 */
#include <lockstep/lockstep.h>

#include <string.h>

enum { BLOCKS = 12, WIDTH = 1000 };

/* What the output will be, or why there is none. */
static lk_status cube_infer(lk_call *c, lk_output_spec *out)
{
    out->dtype = lk_tensor_dtype(c->x[0]);
    out->shape = lk_tensor_shape(c->x[0]);
    LK_CHECK(out->dtype == LK_F64, LK_EDTYPE, "cube of %s: only f64", lk_tensor_text(c->x[0]).s);
    return LK_OK;
}

/* Inputs are contiguous, unless the op has LK_OP_STRIDED. */
static lk_status cube_forward(lk_call *c)
{
    const double *x = lk_tensor_data(c->x[0]);
    void *data;
    LK_TRY(lk_tensor_writable_data(c->y[0], &data));
    double *y = data;
    for (int64_t i = 0; i < lk_tensor_count(c->x[0]); i++)
        y[i] = x[i] * x[i] * x[i];
    return LK_OK;
}

/* 3 x^2 dy, made of ops: so it has derivatives, too. */
static lk_status cube_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    lk_var slope;
    LK_TRY(lk_square(c->in[0], &slope));
    LK_TRY(lk_affine(slope, 3, 0, &slope));
    return LK_TRACE(lk_mul(dout[0], slope, &din[0]));
}

static const lk_op cube = {
    .name = "cube",
    .summary = "x * x * x",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .saves_in = 1, /* backward reads input 0 */
    .infer = cube_infer,
    .forward = cube_forward,
    .backward = cube_backward,
    .samples = (const lk_op_sample[]){{.n_in = 1, .in = {LK_IN(2, 3)}},
                                      {.n_in = 1, .in = {LK_IN_RANGE(-2, -1, 5)}},
                                      {0}},
};

static lk_status check(void)
{
    lk_gradcheck_result result;
    LK_TRY(lk_gradcheck(&cube, 1, 1e-6, &result));
    printf("cube: %d derivatives, %s\n", result.numbers, result.pass ? "right" : result.worst);
    return LK_OK;
}

/* What a segment computes from; it lives until backward has passed. */
struct block {
    lk_var h, b;
};

static lk_status block_run(lk_tape *tape, void *arg, lk_var *out)
{
    const struct block *block = arg;
    LK_TRY(lk_apply(tape, &cube, &block->h, 1, NULL, out));
    LK_TRY(lk_add(*out, block->b, out));
    return LK_TRACE(lk_tanh(*out, out));
}

/* Blocks one after the other, and the gradient of the sum of what they give. */
static lk_status run(lk_tape *tape, bool again, double grad[WIDTH])
{
    static double x[WIDTH], b[WIDTH];
    struct block block[BLOCKS];
    lk_var h, loss;
    for (int i = 0; i < WIDTH; i++) {
        x[i] = (double)i / WIDTH;
        b[i] = 0.25;
    }
    lk_tape_reset(tape);
    LK_TRY(lk_constant_data(tape, LK_F64, LK_SHAPE(WIDTH), x, &h));
    for (int i = 0; i < BLOCKS; i++) {
        block[i].h = h;
        LK_TRY(lk_leaf_data(tape, LK_F64, LK_SHAPE(WIDTH), b, grad, &block[i].b));
        if (again)
            LK_TRY(lk_recompute(tape, block_run, &block[i], 1, &h));
        else
            LK_TRY(block_run(tape, &block[i], &h));
    }
    LK_TRY(lk_sum(h, NULL, &loss));
    return LK_TRACE(lk_backward(tape, &(lk_seed){.of = loss}, 1, 0));
}

static lk_status compare(lk_tape *tape)
{
    static double grad[2][WIDTH];
    int64_t peak[2];
    for (int again = 0; again < 2; again++) {
        LK_TRY(run(tape, again == 1, grad[again]));
        peak[again] = lk_tape_stats_of(tape).peak_bytes;
    }
    bool same = memcmp(grad[0], grad[1], sizeof grad[0]) == 0;
    printf("gradients with recomputation: %s\n", same ? "the same bits" : "other bits");
    printf("memory with recomputation: %s\n", 2 * peak[1] < peak[0] ? "less than half" : "more");
    return LK_OK;
}

int main(void)
{
    lk_status st;
    lk_tape *tape = NULL;
    LK_TRY_TO(done, check());
    LK_TRY_TO(done, lk_tape_new(&tape));
    LK_TRY_TO(done, compare(tape));
done:
    if (st != LK_OK)
        lk_error_print(stderr);
    lk_tape_free(tape);
    return st != LK_OK;
}
