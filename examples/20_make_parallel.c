/* A model that exists, trained on several devices by a loop of the program's own.
 *
 *     x --+-> samples 0 to 127   -> [replica 0, a core]       --+-> y -> loss, backward, update
 *         `-> samples 128 to 255 -> [replica 1, another core] --'
 *
 * The loop is that for one device: only the call of forward differs.  Weights, which there are once, and
 * loss have the same bits on one device and on two, dropout and batch norm included.
 */
#include <lockstep/lockstep.h>

enum { POINTS = 256, SHARD = 32, STEPS = 200 };

struct training {
    lk_model *model;
    lk_parallel_model *parallel;
    lk_accumulator *sums;
    lk_optimizer *optimizer;
    lk_tape *tape;
    float x[POINTS * 2];
    int64_t label[POINTS];
};

/* Points of a square, and which of three rings around its middle each is in. */
static lk_status draw(struct training *t)
{
    LK_TRY(lk_rng_uniform_f32(lk_rng_start(1, "points", "make_parallel"), (lk_rng_at){0},
                              POINTS * 2, t->x));
    for (int i = 0; i < POINTS; i++) {
        float a = t->x[2 * i] - 0.5f, b = t->x[2 * i + 1] - 0.5f, r = a * a + b * b;
        t->label[i] = r < 0.07f ? 0 : r < 0.17f ? 1 : 2;
    }
    return LK_OK;
}

static lk_status model_make(struct training *t)
{
    const lk_model_spec spec = {.in = {LK_F32, LK_SHAPE(2)}, .seed = 1};
    LK_TRY(lk_model_new(&t->model));
    LK_TRY(lk_model_add(t->model, "linear", "units=32"));
    LK_TRY(lk_model_add(t->model, "batch_norm", NULL));
    LK_TRY(lk_model_add(t->model, "relu", NULL));
    LK_TRY(lk_model_add(t->model, "dropout", "rate=0.1"));
    LK_TRY(lk_model_add(t->model, "linear", "units=3"));
    LK_TRY(lk_model_build(t->model, &spec));
    return LK_TRACE(lk_model_hold(t->model, NULL));
}

/* The first and the last core of this process; on a machine with one core they are the same. */
static lk_status parallel_make(struct training *t, int n)
{
    static lk_device all[64];
    int there;
    LK_TRY(lk_devices_available(all, 64, &there));
    const lk_device two[] = {all[0], all[(there < 64 ? there : 64) - 1]};
    return LK_TRACE(lk_make_parallel_options(t->model, two, n, NULL, &t->parallel));
}

static lk_status step(struct training *t, int n, double *value)
{
    lk_var x, label, y, loss;
    const lk_pass pass = {.tape = t->tape, .accumulator = t->sums, .training = true, .step = n};
    lk_tape_reset(t->tape);
    lk_accumulator_begin(t->sums);
    LK_TRY(lk_constant_data(t->tape, LK_F32, LK_SHAPE(POINTS, 2), t->x, &x));
    LK_TRY(lk_constant_data(t->tape, LK_I64, LK_SHAPE(POINTS), t->label, &label));
    LK_TRY(lk_parallel_model_forward(t->parallel, &pass, x, &y));
    LK_TRY(lk_softmax_cross_entropy(y, label, LK_LOSS_DEFAULT, &loss));
    LK_TRY(lk_backward(t->tape, &(lk_seed){.of = loss}, 1, 0));
    const lk_optimizer_input input = {.grads = lk_accumulator_slab(t->sums), .at = {.step = n}};
    LK_TRY(lk_optimizer_step(t->optimizer, &input, NULL));
    LK_TRY(lk_model_update_running_stats(t->model, t->sums, POINTS / SHARD));
    return LK_TRACE(lk_item(loss, value));
}

/* How many points are right, by the replicas' prediction. */
static lk_status score(struct training *t, int *right)
{
    lk_tensor *x = NULL, *y = NULL;
    LK_TRY(lk_tensor_wrap(LK_F32, LK_SHAPE(POINTS, 2), t->x, NULL, NULL, &x));
    lk_status st = lk_parallel_model_predict(t->parallel, x, &y);
    lk_tensor_free(x);
    LK_TRY(st);
    const float *of = lk_tensor_data(y);
    *right = 0;
    for (int i = 0; i < POINTS; i++, of += 3)
        *right += t->label[i] == (of[1] > of[0] ? of[2] > of[1] ? 2 : 1 : of[2] > of[0] ? 2 : 0);
    lk_tensor_free(y);
    return LK_OK;
}

static lk_status train(struct training *t, int devices)
{
    char bits[LK_HASH_TEXT];
    double loss = 0;
    int right;
    lk_hash weights = lk_hash_start();
    LK_TRY(draw(t));
    LK_TRY(model_make(t));
    LK_TRY(parallel_make(t, devices));
    LK_TRY(lk_accumulator_new(t->model, &t->sums));
    LK_TRY(lk_optimizer_new(lk_model_params(t->model), "adam", "rate=0.03", &t->optimizer));
    LK_TRY(lk_tape_new(&t->tape));
    LK_TRY(lk_tape_set_shard_size(t->tape, SHARD));
    for (int n = 0; n < STEPS; n++)
        LK_TRY(step(t, n, &loss));
    LK_TRY(score(t, &right));
    lk_slab_hash(lk_model_params(t->model), &weights);
    for (int i = 0; i < devices; i++) {
        lk_range slice = lk_parallel_model_slice(t->parallel, POINTS, SHARD, i);
        printf("device %d of %d: samples %lld to %lld\n", i, devices, (long long)slice.first,
               (long long)(slice.first + slice.n - 1));
    }
    printf("loss %.6f, %d of %d points are right, weights %s\n", loss, right, POINTS,
           lk_hash_text(lk_hash_value(&weights), bits));
    return LK_OK;
}

int main(void)
{
    for (int devices = 1; devices <= 2; devices++) {
        struct training t = {.model = NULL};
        lk_status st = train(&t, devices);
        lk_tape_free(t.tape);
        lk_optimizer_free(t.optimizer);
        lk_accumulator_free(t.sums);
        lk_parallel_model_free(t.parallel);
        lk_model_free(t.model);
        if (st != LK_OK) {
            lk_error_print(stderr);
            return 1;
        }
    }
    return 0;
}
