/* An autoencoder whose decoder is its encoder turned around: one weight, used twice.
 *
 * Points on a curve in 16 dimensions go through 2 numbers and back.  The loop is the program's own:
 * passes add to sums, the two uses of the weight are joined, and an optimizer updates what is held.
 */
#include <lockstep/lockstep.h>

#include <math.h>
#include <stdio.h>

enum { SAMPLES = 64, WIDE = 16, STEPS = 200 };

/* The loss of all points; the sums get its gradients. */
static lk_status pass(lk_model *model, lk_tape *tape, lk_accumulator *sums, lk_tensor *points,
                      double *out)
{
    lk_var x, y, loss;
    lk_tape_reset(tape);
    lk_accumulator_begin(sums);
    LK_TRY(lk_constant(tape, points, &x));
    LK_TRY(lk_model_forward(model, &(lk_pass){.tape = tape, .accumulator = sums, .training = true},
                            x, &y));
    LK_TRY(lk_mean_squared_error(y, x, LK_LOSS_MEAN, &loss));
    LK_TRY(lk_item(loss, out));
    LK_TRY(lk_backward(tape, &(lk_seed){.of = loss}, 1, 0));
    return LK_TRACE(lk_accumulator_join_uses(sums));
}

static lk_status points_make(lk_tensor **out)
{
    void *data = NULL;
    LK_TRY(lk_tensor_zeros(LK_F64, LK_SHAPE(SAMPLES, WIDE), out));
    LK_TRY(lk_tensor_writable_data(*out, &data));
    for (int i = 0; i < SAMPLES; i++)
        for (int k = 0; k < WIDE; k++)
            ((double *)data)[i * WIDE + k] = 0.5 * cos(0.1 * i + 0.4 * k);
    return LK_OK;
}

static lk_status model_make(lk_model **out)
{
    LK_TRY(lk_model_new(out));
    LK_TRY(lk_model_add(*out, "linear", "units=2 name=encoder"));
    LK_TRY(lk_model_add(*out, "tanh", NULL));
    LK_TRY(lk_model_add(*out, "linear", "units=16 transpose=true tie=encoder.weight name=decoder"));
    LK_TRY(lk_model_build(
        *out, &(lk_model_spec){.in = {LK_F64, LK_SHAPE(WIDE)}, .dtype = LK_F64, .seed = 1}));
    return LK_TRACE(lk_model_hold(*out, NULL));
}

int main(void)
{
    lk_status st;
    lk_model *model = NULL;
    lk_accumulator *sums = NULL;
    lk_tape *tape = NULL;
    lk_tensor *points = NULL;
    lk_optimizer *adam = NULL;
    double first = 0, last = 0;
    LK_TRY_TO(done, points_make(&points));
    LK_TRY_TO(done, model_make(&model));
    LK_TRY_TO(done, lk_accumulator_new(model, &sums));
    LK_TRY_TO(done, lk_tape_new(&tape));
    LK_TRY_TO(done, lk_optimizer_new(lk_model_params(model), "adam", "rate=0.02", &adam));
    for (int n = 0; n < STEPS; n++) {
        lk_optimizer_input step = {.grads = lk_accumulator_slab(sums), .at = {.step = n}};
        LK_TRY_TO(done, pass(model, tape, sums, points, n == 0 ? &first : &last));
        LK_TRY_TO(done, lk_optimizer_step(adam, &step, NULL));
    }
    printf("parameters: %lld tensors\n", (long long)lk_slab_layout_slices(lk_model_layout(model)));
    printf("mean squared error: %.6f, after %d steps %.6f\n", first, STEPS, last);
done:
    lk_optimizer_free(adam);
    lk_tensor_free(points);
    lk_tape_free(tape);
    lk_accumulator_free(sums);
    lk_model_free(model);
    if (st != LK_OK)
        lk_error_print(stderr);
    return st == LK_OK ? 0 : 1;
}
