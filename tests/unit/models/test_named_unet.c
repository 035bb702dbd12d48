/* The named model unet: values, gradients and numbers of parameters of another program
 * (tests/data/unet.py says how), and samples of any size. */
#include "faults.h"
#include "real.h"
#include "unit/nn/written.h"

#include <lockstep/models.h>
#include <lockstep/op.h>

static lk_model *model_of(const char *options, lk_tensor_type in)
{
    lk_model *m = NULL;
    ASSERT_OK(lk_model_new(&m));
    ASSERT_OK(lk_model_add_preset(m, "unet", options));
    ASSERT_OK(lk_model_build(m, &(lk_model_spec){.in = in, .dtype = in.dtype}));
    return m;
}

/* ---- against another program ---- */

static void written_free(written *w)
{
    lk_tensor_free(w->x);
    lk_tensor_free(w->dx);
    lk_tensor_free(w->c);
    lk_accumulator_free(w->sums);
    lk_model_free(w->model);
    w->x = w->dx = w->c = NULL;
    w->sums = NULL;
    w->model = NULL;
}

/* The shape before " : " of a line "tensor NAME DIM... : VALUE...". */
static lk_shape shape_of(const char *line)
{
    lk_shape shape = {.ndim = 0};
    const char *at = strchr(strchr(line, ' ') + 1, ' ');
    char *end;
    for (;; at = end) {
        int64_t n = strtoll(at, &end, 10);
        if (end == at)
            return shape;
        shape.dim[shape.ndim++] = n;
    }
}

/* x comes first: the model is made for it. */
static void model_begin(written *w, lk_dtype dtype, lk_shape x)
{
    lk_tensor_type in = {dtype, {.ndim = x.ndim - 1}};
    memcpy(in.shape.dim, &x.dim[1], (size_t)in.shape.ndim * sizeof in.shape.dim[0]);
    w->model = model_of(w->options, in);
    ASSERT_OK(lk_model_hold(w->model, NULL));
    ASSERT_OK(lk_accumulator_new(w->model, &w->sums));
    ASSERT_OK(lk_tensor_zeros(dtype, x, &w->x));
    ASSERT_OK(lk_tensor_zeros(dtype, x, &w->dx));
    lk_shape out = lk_model_out(w->model).shape, c = {.ndim = out.ndim + 1, .dim = {x.dim[0]}};
    memcpy(&c.dim[1], out.dim, (size_t)out.ndim * sizeof out.dim[0]);
    ASSERT_OK(lk_tensor_zeros(dtype, c, &w->c));
}

static double loss_run(written *w)
{
    lk_tape *tape = NULL;
    lk_var x, c, y, loss;
    double value = 0;
    lk_pass pass = {.accumulator = w->sums, .training = true};
    ASSERT_OK(lk_tape_new(&tape));
    pass.tape = tape;
    ASSERT_OK(lk_leaf(tape, w->x, w->dx, &x));
    ASSERT_OK(lk_constant(tape, w->c, &c));
    ASSERT_OK(lk_model_forward(w->model, &pass, x, &y));
    ASSERT_OK(lk_mul(y, c, &y));
    ASSERT_OK(lk_sum(y, NULL, &loss));
    ASSERT_OK(lk_item(loss, &value));
    ASSERT_OK(lk_backward(tape, &(lk_seed){loss, NULL}, 1, 0));
    lk_tape_free(tape);
    return value;
}

static void check_count(const char *line)
{
    int64_t sizes[4], n = 0;
    double want[MOST_VALUES];
    char options[256];
    lk_shape in = {.ndim = 0};
    const char *at = line + strlen("count "), *end = strstr(line, " : ");
    ASSERT_EQ(read_values(line, want), 1);
    for (; *at != ' '; at += *at == 'x') {
        char *behind;
        sizes[in.ndim] = strtoll(at, &behind, 10);
        in.dim[in.ndim] = sizes[in.ndim];
        in.ndim++;
        at = behind;
    }
    snprintf(options, sizeof options, "%.*s", (int)(end - at), at);
    lk_model *m = model_of(options, (lk_tensor_type){LK_F32, in});
    for (int64_t i = 0; i < lk_slab_layout_slices(lk_model_layout(m)); i++) {
        lk_slab_slice slice;
        int64_t count;
        ASSERT_OK(lk_slab_layout_slice(lk_model_layout(m), i, &slice));
        ASSERT_OK(lk_shape_count(slice.shape, &count));
        n += count;
    }
    ASSERT_TRUE((double)n == want[0]);
    lk_model_free(m);
}

/* Gives how many gradients the line was. */
static int check_line(written *w, const char *line, lk_dtype dtype, double tolerance)
{
    char name[64];
    double value[MOST_VALUES], loss;
    if (sscanf(line, "loss %lf", &loss) == 1) {
        check_near(w->options, loss_run(w), loss, tolerance);
        return 0;
    }
    bool gradient = strncmp(line, "grad", 4) == 0;
    int n = read_values(line, value);
    ASSERT_EQ(sscanf(line, "%*s %63s", name), 1);
    if (!gradient && strcmp(name, "x") == 0)
        model_begin(w, dtype, shape_of(line));
    void *data = elements_of(w, name, gradient, n);
    if (!gradient)
        numbers_set(dtype, data, value, n);
    for (int i = 0; gradient && i < n; i++)
        check_near(name, real_get(dtype, data, i), value[i], tolerance);
    return gradient;
}

static void expect_all(const written *w, int gradients)
{
    if (w->model)
        ASSERT_EQ(gradients, 1 + lk_slab_layout_slices(lk_model_layout(w->model)));
}

static void check_file(lk_dtype dtype, double tolerance)
{
    FILE *f = fopen("tests/data/unet.txt", "r");
    char line[4096];
    int gradients = 0, counts = 0, networks = 0;
    written w = {.model = NULL};
    ASSERT_TRUE(f && fgets(line, sizeof line, f));
    while (fgets(line, sizeof line, f)) {
        if (strncmp(line, "network", 7) == 0) {
            expect_all(&w, gradients);
            written_free(&w);
            gradients = 0;
            networks++;
            ASSERT_EQ(sscanf(line, "network %*s %255[^\n]", w.options), 1);
        } else if (strncmp(line, "count", 5) == 0) {
            check_count(line);
            counts++;
        } else {
            gradients += check_line(&w, line, dtype, tolerance);
        }
    }
    expect_all(&w, gradients);
    written_free(&w);
    ASSERT_TRUE(networks == 3 && counts == 3);
    fclose(f);
}

TEST(values_and_gradients_are_those_of_another_program)
{
    check_file(LK_F64, 1e-12);
    check_file(LK_F32, 1e-4);
}

/* ---- sizes ---- */

TEST(samples_of_any_size_keep_it)
{
    static const char *const options[] = {"depth=3 width=1 most=1 convs=1 classes=3",
                                          "depth=3 width=1 most=1 convs=1 classes=3 up=repeat"};
    for (int i = 0; i < 2; i++)
        for (int64_t rows = 1; rows <= 17; rows++) {
            lk_model *m = model_of(options[i], (lk_tensor_type){LK_F32, LK_SHAPE(rows, 9, 2)});
            ASSERT_TRUE(lk_shape_is_equal(lk_model_out(m).shape, LK_SHAPE(rows, 9, 3)));
            lk_model_free(m);
            m = model_of(options[i], (lk_tensor_type){LK_F32, LK_SHAPE(5, rows, 6, 1)});
            ASSERT_TRUE(lk_shape_is_equal(lk_model_out(m).shape, LK_SHAPE(5, rows, 6, 3)));
            lk_model_free(m);
        }
}

TEST(samples_without_positions_are_refused)
{
    lk_model *m = NULL;
    ASSERT_OK(lk_model_new(&m));
    ASSERT_OK(lk_model_add_preset(m, "unet", NULL));
    ASSERT_FAILS(lk_model_build(m, &(lk_model_spec){.in = {LK_F32, LK_SHAPE(5)}}), LK_ESHAPE,
                 "layer conv1 of f32[5]: the input [5] must have at least 2 axes");
    lk_model_free(m);
}

/* What grows is cut or filled by less than a stride; sizes further away are told. */
TEST(what_cannot_fit_is_told)
{
    static const struct {
        const char *layers, *error;
    } wrong[] = {
        {"layers=maxpool(size=4 pad=same),conv_transpose(filters=1 kernel=2 stride=2 fit=true)",
         "fit: along axis 0 this gives 4 positions, and the list of layers begins with 8, which "
         "must be less than the stride, 2, away"},
        {"layers=maxpool(size=2),repeat(size=4 fit=true)",
         "this gives 16 positions, and the list of layers begins with 8"},
        {"layers=flatten,reshape(shape=64,1),repeat(size=2 fit=true)",
         "fit: the list of layers begins with [8,8,1], which has not the axes of [128,1]"}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        lk_model *m = NULL;
        ASSERT_OK(lk_model_new(&m));
        ASSERT_OK(lk_model_add(m, "residual", wrong[i].layers));
        ASSERT_FAILS(lk_model_build(m, &(lk_model_spec){.in = {LK_F32, LK_SHAPE(8, 8, 1)}}),
                     LK_ESHAPE, wrong[i].error);
        lk_model_free(m);
    }
}

static lk_status make(void)
{
    lk_model *m = NULL;
    lk_status st = LK_OK;
    LK_TRY_TO(done, lk_model_new(&m));
    LK_TRY_TO(done, lk_model_add_preset(m, "unet", "depth=2 width=1"));
    LK_TRY_TO(done, lk_model_build(m, &(lk_model_spec){.in = {LK_F32, LK_SHAPE(3, 3, 1)}}));
done:
    lk_model_free(m);
    return st;
}

TEST(every_allocation_may_fail)
{
    ASSERT_TRUE(test_every_allocation_fails(make) >= 4);
}
