/* Local contrast normalisation against its definition, written as sums over all taps. */
#include "op_numbers.h"

enum { MAX = 400 };

/* Images [n][h][w][c] with a window [a][b]. */
typedef struct image {
    int n, h, w, c, a, b;
} image;

static int pixel(const image *m, int i, int y, int x)
{
    return ((i * m->h + y) * m->w + x) * m->c;
}

/* g(q) for the tap (dy, dx), normalised over the window and all channels. */
static double gauss(const image *m, int dy, int dx)
{
    int ry = m->a / 2, rx = m->b / 2;
    double sigma = sqrt(ry * ry + rx * rx) / 3, sum = 0;
    if (sigma == 0)
        return 1.0 / m->c;
    for (int y = -ry; y <= ry; y++)
        for (int x = -rx; x <= rx; x++)
            sum += exp(-(y * y + x * x) / (2 * sigma * sigma));
    return exp(-(dy * dy + dx * dx) / (2 * sigma * sigma)) / (sum * m->c);
}

/* Sum over c', q of g(q) f(x_c'(p + q)), with f the square if `square`. */
static double window_sum(const image *m, const double *v, int i, int y, int x, bool square)
{
    double sum = 0;
    for (int dy = -(m->a / 2); dy <= m->a / 2; dy++)
        for (int dx = -(m->b / 2); dx <= m->b / 2; dx++)
            for (int c = 0; c < m->c; c++) {
                if (y + dy < 0 || y + dy >= m->h || x + dx < 0 || x + dx >= m->w)
                    continue;
                double e = v[pixel(m, i, y + dy, x + dx) + c];
                sum += gauss(m, dy, dx) * (square ? e * e : e);
            }
    return sum;
}

/* out - the window's sums of v. */
static void subtract_mean(const image *m, const double *v, double *out)
{
    for (int i = 0; i < m->n; i++)
        for (int y = 0; y < m->h; y++)
            for (int x = 0; x < m->w; x++)
                for (int c = 0; c < m->c; c++)
                    out[pixel(m, i, y, x) + c] = v[pixel(m, i, y, x) + c] -
                                                 window_sum(m, v, i, y, x, false);
}

/* s of v, one number per element of it. */
static void deviations(const image *m, const double *v, double *s)
{
    for (int i = 0; i < m->n; i++)
        for (int y = 0; y < m->h; y++)
            for (int x = 0; x < m->w; x++)
                for (int c = 0; c < m->c; c++) {
                    double d = sqrt(window_sum(m, v, i, y, x, true));
                    s[pixel(m, i, y, x) + c] = d == 0 ? 1 : d;
                }
}

/* dx from e = dy: first de/dv as a sum over all pixels p and channels, then the adjoint of the mean. */
static void gradient(const image *m, const double *v, const double *s, const double *e, double *dx)
{
    double dv[MAX] = {0};
    for (int i = 0; i < m->n; i++)
        for (int y = 0; y < m->h; y++)
            for (int x = 0; x < m->w; x++)
                for (int k = 0; k < m->c; k++) {
                    int r = pixel(m, i, y, x) + k;
                    dv[r] = e[r] / s[r];
                    for (int py = 0; py < m->h; py++)
                        for (int px = 0; px < m->w; px++)
                            for (int c = 0; c < m->c; c++) {
                                if (abs(py - y) > m->a / 2 || abs(px - x) > m->b / 2)
                                    continue;
                                int p = pixel(m, i, py, px) + c;
                                dv[r] -= e[p] * v[p] * v[r] * gauss(m, y - py, x - px) /
                                         (s[p] * s[p] * s[p]);
                            }
                }
    subtract_mean(m, dv, dx); /* g is symmetric */
}

static void check(const image *m, const double *values, lk_dtype type)
{
    double v[MAX], s[MAX], x[MAX], e[MAX], dx[MAX], tolerance = type == LK_F32 ? 2e-5 : 1e-13;
    struct program p = program_new(type, false);
    lk_shape shape = LK_SHAPE(m->n, m->h, m->w, m->c);
    lk_var in = values ? values_leaf(&p, shape, values) : program_leaf(&p, shape), y;
    int n = m->n * m->h * m->w * m->c;
    ASSERT_TRUE(n <= MAX);
    for (int i = 0; i < n; i++)
        x[i] = tensor_at(p.value[0], i);
    subtract_mean(m, x, v);
    deviations(m, v, s);
    ASSERT_OK(lk_lcn(in, m->a, m->b, &y));
    for (int i = 0; i < n; i++)
        ASSERT_NEAR(value_at(y, i), v[i] / s[i], tolerance);
    program_backward(&p, y, 0);
    for (int i = 0; i < n; i++)
        e[i] = tensor_at(p.seed, i);
    gradient(m, v, s, e, dx);
    for (int i = 0; i < n; i++)
        ASSERT_NEAR(tensor_at(p.grad[0], i), dx[i], 10 * tolerance);
    program_free(&p);
}

TEST(values_and_gradients_follow_the_definition)
{
    static const image images[] = {{2, 6, 7, 3, 3, 3}, {1, 5, 9, 1, 5, 3}, {2, 4, 4, 2, 9, 9},
                                   {1, 1, 1, 4, 3, 5}, {3, 4, 3, 2, 1, 1}, {1, 8, 2, 2, 1, 7}};
    for (int type = LK_F32; type <= LK_F64; type++)
        for (size_t k = 0; k < sizeof images / sizeof images[0]; k++)
            check(&images[k], NULL, (lk_dtype)type);
}

/* In the middle of -1, 0, 1 the centred value is 0 and the deviation is not. */
TEST(the_derivative_is_right_where_the_centred_value_is_zero)
{
    const double x[3] = {-1, 0, 1};
    const image m = {1, 1, 3, 1, 1, 3};
    struct program p = program_new(LK_F64, false);
    lk_var in = values_leaf(&p, LK_SHAPE(1, 1, 3, 1), x), y;
    ASSERT_OK(lk_lcn(in, 1, 3, &y));
    ASSERT_TRUE(value_at(y, 1) == 0);
    lk_tensor *seed = NULL;
    ASSERT_OK(lk_tensor_zeros(LK_F64, LK_SHAPE(1, 1, 3, 1), &seed));
    ASSERT_OK(lk_tensor_set_f64(seed, LK_AT(0, 0, 1, 0), 1));
    ASSERT_OK(lk_backward(p.tape, &(lk_seed){y, seed}, 1, 0));
    double side = gauss(&m, 0, 1), centre = gauss(&m, 0, 0), v = 1 - centre;
    double s = sqrt(2 * side * v * v);
    ASSERT_NEAR(tensor_at(p.grad[0], 0), -side / s, 1e-14);
    ASSERT_NEAR(tensor_at(p.grad[0], 1), (1 - centre) / s, 1e-14);
    ASSERT_NEAR(tensor_at(p.grad[0], 2), -side / s, 1e-14);
    lk_tensor_free(seed);
    program_free(&p);
    check(&m, x, LK_F64);
}

TEST(without_contrast_the_deviation_is_one)
{
    struct program p = program_new(LK_F32, false);
    lk_var in = values_leaf(&p, LK_SHAPE(1, 2, 3, 1), (double[6]){0}), y;
    ASSERT_OK(lk_lcn(in, 3, 3, &y));
    values_are(value_of(y), (double[6]){0}, 0);
    program_backward(&p, y, 0);
    for (int i = 0; i < 6; i++)
        ASSERT_TRUE(isfinite(tensor_at(p.grad[0], i)));
    program_free(&p);
    check(&(image){1, 2, 3, 1, 3, 3}, (double[6]){0}, LK_F64);
}

/* The window's numbers: 1/sum for the centre, e^(-9/4) of that beside it, e^(-9/2) in the corners. */
TEST(the_window_is_the_gaussian_of_the_distance)
{
    double x[25] = {0}, side = exp(-2.25), corner = exp(-4.5), sum = 1 + 4 * side + 4 * corner;
    struct program p = program_new(LK_F64, false);
    x[12] = 1;
    const lk_op *op = NULL;
    ASSERT_OK(lk_op_find("lcn", &op));
    lk_var in = values_leaf(&p, LK_SHAPE(1, 5, 5, 1), x), out[2];
    ASSERT_OK(lk_apply(p.tape, op, &in, 1, &(lk_lcn_attr){{3, 3}}, out));
    double s12 = value_at(out[1], 12), s11 = value_at(out[1], 11), s6 = value_at(out[1], 6);
    ASSERT_NEAR(value_at(out[0], 12) * s12, 1 - 1 / sum, 1e-15);
    ASSERT_NEAR(value_at(out[0], 11) * s11, -side / sum, 1e-15);
    ASSERT_NEAR(value_at(out[0], 6) * s6, -corner / sum, 1e-15);
    program_free(&p);
}

TEST(a_recorded_backward_gives_the_same_bits)
{
    for (int type = LK_F32; type <= LK_F64; type++) {
        struct program p[2];
        for (int k = 0; k < 2; k++) {
            lk_var y;
            p[k] = program_new((lk_dtype)type, false);
            ASSERT_OK(lk_lcn(program_leaf(&p[k], LK_SHAPE(3, 9, 11, 5)), 3, 5, &y));
            program_backward(&p[k], y, k == 0 ? 0 : LK_RECORD);
        }
        ASSERT_TRUE(lk_tensor_is_equal(p[0].grad[0], p[1].grad[0]));
        program_free(&p[0]);
        program_free(&p[1]);
    }
}

TEST(empty_axes_are_fine)
{
    const lk_shape shapes[] = {LK_SHAPE(0, 3, 3, 2), LK_SHAPE(2, 0, 3, 2), LK_SHAPE(2, 3, 0, 2),
                               LK_SHAPE(2, 3, 3, 0)};
    for (int k = 0; k < 4; k++) {
        struct program p = program_new(LK_F32, false);
        lk_var y;
        ASSERT_OK(lk_lcn(program_leaf(&p, shapes[k]), 3, 3, &y));
        ASSERT_TRUE(lk_shape_is_equal(lk_shape_of(y), shapes[k]));
        program_backward(&p, y, 0);
        program_free(&p);
    }
}

TEST(misuse_is_refused)
{
    struct program p = program_new(LK_F32, false);
    lk_var x = program_leaf(&p, LK_SHAPE(1, 3, 3, 1)), flat = program_leaf(&p, LK_SHAPE(3, 3)), y;
    ASSERT_FAILS(lk_lcn(x, 2, 3, &y), LK_EINVAL, "window of 2 x 3: both must be odd");
    ASSERT_TRUE(!lk_is_var(y));
    ASSERT_FAILS(lk_lcn(x, 3, -1, &y), LK_EINVAL, "window of 3 x -1");
    ASSERT_FAILS(lk_lcn(x, 3, (INT64_C(1) << 40) + 1, &y), LK_EINVAL, "below 32768");
    ASSERT_FAILS(lk_lcn(flat, 3, 3, &y), LK_ESHAPE, "lcn of f32[3,3], which is not [samples]");
    program_free(&p);
}

static void normalise(struct program *p, lk_var *y)
{
    ASSERT_OK(lk_lcn(program_leaf(p, LK_SHAPE(7, 24, 29, 5)), 5, 7, y));
}

static void normalise_grey(struct program *p, lk_var *y)
{
    ASSERT_OK(lk_lcn(program_leaf(p, LK_SHAPE(20, 31, 29, 1)), 3, 3, y));
}

TEST(every_thread_count_and_instruction_set_gives_the_same_bits)
{
    test_same_bits_everywhere(normalise);
    test_same_bits_everywhere(normalise_grey);
}
