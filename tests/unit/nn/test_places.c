/* crop and repeat: which position of the output is which of the input, gradients back to it, and what does
 * not fit.  Values are written out here, element by element.
 */
#include "harness.h"

#include <lockstep/nn.h>
#include <lockstep/op.h>

enum { ROWS = 4, COLS = 5, CHANNELS = 2, SAMPLES = 2 };

/* One layer on an image whose elements are their numbers, and its gradient of dy = numbers. */
typedef struct run {
    lk_model *model;
    lk_tape *tape;
    lk_tensor *x, *dx;
    lk_shape out;
    const float *y, *grad;
} run;

static void begin(run *r, const char *type, const char *options)
{
    lk_model_spec spec = {.in = {LK_F32, LK_SHAPE(ROWS, COLS, CHANNELS)}};
    const lk_tensor *y = NULL;
    lk_tensor *dy = NULL;
    void *data = NULL;
    lk_var x, out;
    ASSERT_OK(lk_model_new(&r->model));
    ASSERT_OK(lk_model_add(r->model, type, options));
    ASSERT_OK(lk_model_build(r->model, &spec));
    ASSERT_OK(lk_model_hold(r->model, NULL));
    ASSERT_OK(lk_tape_new(&r->tape));
    ASSERT_OK(lk_tensor_zeros(LK_F32, LK_SHAPE(SAMPLES, ROWS, COLS, CHANNELS), &r->x));
    ASSERT_OK(lk_tensor_zeros(LK_F32, LK_SHAPE(SAMPLES, ROWS, COLS, CHANNELS), &r->dx));
    ASSERT_OK(lk_tensor_writable_data(r->x, &data));
    for (int64_t i = 0; i < lk_tensor_count(r->x); i++)
        ((float *)data)[i] = (float)i - 17;
    ASSERT_OK(lk_leaf(r->tape, r->x, r->dx, &x));
    ASSERT_OK(lk_model_forward(r->model, &(lk_pass){.tape = r->tape}, x, &out));
    ASSERT_OK(lk_value(out, &y));
    r->out = lk_tensor_shape(y);
    r->y = lk_tensor_data(y);
    ASSERT_OK(lk_tensor_new(LK_F32, r->out, &dy));
    ASSERT_OK(lk_tensor_writable_data(dy, &data));
    for (int64_t i = 0; i < lk_tensor_count(dy); i++)
        ((float *)data)[i] = (float)(i + 1);
    ASSERT_OK(lk_backward(r->tape, &(lk_seed){out, dy}, 1, 0));
    r->grad = lk_tensor_data(r->dx);
    lk_tensor_free(dy);
}

static void end(run *r)
{
    lk_tape_free(r->tape);
    lk_model_free(r->model);
    lk_tensor_free(r->x);
    lk_tensor_free(r->dx);
}

static int64_t at(const lk_shape *s, int64_t n, int64_t i, int64_t j, int64_t c)
{
    return ((n * s->dim[1] + i) * s->dim[2] + j) * s->dim[3] + c;
}

TEST(a_crop_leaves_out_both_ends)
{
    run r;
    lk_shape in = LK_SHAPE(SAMPLES, ROWS, COLS, CHANNELS);
    begin(&r, "crop", "before=1,2 after=2,0");
    ASSERT_TRUE(lk_shape_is_equal(r.out, LK_SHAPE(SAMPLES, 1, 3, CHANNELS)));
    for (int64_t k = 0; k < SAMPLES * ROWS * COLS * CHANNELS; k++) {
        int64_t c = k % CHANNELS, j = k / CHANNELS % COLS, i = k / CHANNELS / COLS % ROWS,
                n = k / CHANNELS / COLS / ROWS;
        bool kept = i == 1 && j >= 2;
        int64_t to = kept ? at(&r.out, n, 0, j - 2, c) : 0;
        ASSERT_EQ(k, at(&in, n, i, j, c));
        ASSERT_TRUE(!kept || r.y[to] == (float)k - 17);
        ASSERT_TRUE(r.grad[k] == (kept ? (float)(to + 1) : 0));
    }
    end(&r);
}

TEST(a_repeat_is_the_nearest_neighbour)
{
    run r;
    begin(&r, "repeat", "size=2,3");
    ASSERT_TRUE(lk_shape_is_equal(r.out, LK_SHAPE(SAMPLES, 2 * ROWS, 3 * COLS, CHANNELS)));
    for (int64_t k = 0; k < SAMPLES * ROWS * COLS * CHANNELS; k++) {
        int64_t c = k % CHANNELS, j = k / CHANNELS % COLS, i = k / CHANNELS / COLS % ROWS,
                n = k / CHANNELS / COLS / ROWS;
        float sum = 0;
        for (int64_t p = 0; p < 6; p++) {
            int64_t to = at(&r.out, n, 2 * i + p / 3, 3 * j + p % 3, c);
            ASSERT_TRUE(r.y[to] == (float)k - 17);
            sum += (float)(to + 1);
        }
        ASSERT_TRUE(r.grad[k] == sum);
    }
    end(&r);
}

TEST(what_does_not_fit_is_refused)
{
    static const struct {
        const char *type, *options;
        lk_shape in;
        const char *message;
    } cases[] = {
        {"crop", "before=2", LK_DIMS(4, 5, 2), "axis 0 of the input [4,5,2] has nothing left"},
        {"crop", "before=1,2,3", LK_DIMS(9, 9, 2), "before has 3 numbers for 2 spatial axes"},
        {"crop", "before=0", LK_DIMS(2, 2, 2, 2, 2), "must have 1 to 3 spatial axes"},
        {"repeat", "size=2", LK_DIMS(2, 2, 2, 2, 2), "must have 1 to 3 spatial axes"},
    };
    for (int k = 0; k < LK_COUNT(cases); k++) {
        lk_model *m = NULL;
        ASSERT_OK(lk_model_new(&m));
        ASSERT_OK(lk_model_add(m, cases[k].type, cases[k].options));
        ASSERT_FAILS(lk_model_build(m, &(lk_model_spec){.in = {LK_F32, cases[k].in}}),
                     k == 1 ? LK_EINVAL : LK_ESHAPE, cases[k].message);
        lk_model_free(m);
    }
}
