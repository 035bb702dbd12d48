/* Losses: values by hand, reductions, gradients, and the order of their sums. */
#include "kernel/reference/reference.h"
#include "op_numbers.h"

#include <lockstep/extra/reduce.h>

typedef lk_status loss_fn(lk_var x, lk_var target, lk_loss_reduction reduction, lk_var *out);

static const double x4[4] = {1, 2, 3, 5}, t4[4] = {1, 4, 2, 0};

/* One loss of x4 and t4 as [2][2], and the gradient of x with the seed 1. */
static void expect_loss(loss_fn *loss, lk_loss_reduction reduction, double value,
                        const double *gradient)
{
    for (int type = LK_F32; type <= LK_F64; type++) {
        struct program p = program_new((lk_dtype)type, false);
        lk_var x = values_leaf(&p, LK_SHAPE(2, 2), x4), t = values_leaf(&p, LK_SHAPE(2, 2), t4), y;
        ASSERT_OK(loss(x, t, reduction, &y));
        values_are(value_of(y), &value, 1);
        ASSERT_OK(lk_backward(p.tape, &(lk_seed){.of = y}, 1, 0));
        values_are(p.grad[0], gradient, 1);
        for (int i = 0; i < 4; i++)
            ASSERT_TRUE(tensor_at(p.grad[1], i) == -tensor_at(p.grad[0], i));
        program_free(&p);
    }
}

/* Differences 0, -2, 1, 5. */
TEST(squared_errors_have_the_factors_they_say)
{
    expect_loss(lk_mean_squared_error, LK_LOSS_DEFAULT, 7.5, (double[]){0, -1, 0.5, 2.5});
    expect_loss(lk_mean_squared_error, LK_LOSS_MEAN, 7.5, (double[]){0, -1, 0.5, 2.5});
    expect_loss(lk_mean_squared_error, LK_LOSS_SUM, 30, (double[]){0, -4, 2, 10});
    expect_loss(lk_mean_squared_error, LK_LOSS_SAMPLE_MEAN, 15, (double[]){0, -2, 1, 5});
    expect_loss(lk_sum_squared_error, LK_LOSS_DEFAULT, 15, (double[]){0, -2, 1, 5});
    expect_loss(lk_sum_squared_error, LK_LOSS_SUM, 15, (double[]){0, -2, 1, 5});
    expect_loss(lk_sum_squared_error, LK_LOSS_MEAN, 3.75, (double[]){0, -0.5, 0.25, 1.25});
    expect_loss(lk_sum_squared_error, LK_LOSS_SAMPLE_MEAN, 7.5, (double[]){0, -1, 0.5, 2.5});
}

TEST(without_a_reduction_each_element_has_its_loss)
{
    struct program p = program_new(LK_F64, false);
    lk_var x = values_leaf(&p, LK_SHAPE(2, 2), x4), t = values_leaf(&p, LK_SHAPE(2, 2), t4), y;
    ASSERT_OK(lk_mean_squared_error(x, t, LK_LOSS_NONE, &y));
    ASSERT_TRUE(lk_shape_is_equal(lk_shape_of(y), LK_SHAPE(2, 2)));
    values_are(value_of(y), (double[]){0, 4, 1, 25}, 0);
    ASSERT_OK(lk_sum_squared_error(x, t, LK_LOSS_NONE, &y));
    values_are(value_of(y), (double[]){0, 2, 0.5, 12.5}, 0);
    program_free(&p);
}

/* Only the first element's loss, for the logit x and target t. */
static double logistic(lk_dtype type, double x, double t, double *dx, double *dt)
{
    struct program p = program_new(type, false);
    lk_var v = values_leaf(&p, LK_SHAPE(1), &x), target = values_leaf(&p, LK_SHAPE(1), &t), y;
    ASSERT_OK(lk_logistic_cross_entropy(v, target, LK_LOSS_DEFAULT, &y));
    double loss = value_at(y, 0);
    ASSERT_OK(lk_backward(p.tape, &(lk_seed){.of = y}, 1, 0));
    *dx = tensor_at(p.grad[0], 0);
    *dt = tensor_at(p.grad[1], 0);
    program_free(&p);
    return loss;
}

TEST(logistic_losses_are_exact_for_any_logit)
{
    /* x, t, loss, dx; log(1 + e^-20) and 1 / (1 + e^20) by a program that has 40 digits. */
    static const double cases[][4] = {
        {0, 0, 0.69314718055994530942, 0.5},
        {0, 1, 0.69314718055994530942, -0.5},
        {0, 0.25, 0.69314718055994530942, 0.25},
        {20, 1, 2.0611536203143806e-09, -2.0611536181902037e-09},
        {-20, 0, 2.0611536203143806e-09, 2.0611536181902037e-09},
        {20, 0, 20.000000002061153620, 0.99999999793884638},
        {1000, 1, 0, 0},
        {-1000, 0, 0, 0},
        {-1000, 1, 1000, -1},
        {1000, 0.5, 500, 0.5},
        {21, 1 - 0x1p-20, 2.002791890057375371e-05, 9.529160603640337615e-07},
    };
    for (int type = LK_F32; type <= LK_F64; type++)
        for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
            double eps = type == LK_F32 ? 0x1p-23 : 0x1p-52, dx, dt;
            double loss = logistic((lk_dtype)type, cases[k][0], cases[k][1], &dx, &dt);
            ASSERT_NEAR(loss, cases[k][2], 3 * eps * fabs(cases[k][2]));
            ASSERT_NEAR(dx, cases[k][3], 2 * eps);
            ASSERT_TRUE(dt == -cases[k][0]);
        }
}

/* ---- softmax cross-entropy ---- */

static const double LN2 = 0.69314718055994530942;

/* Rows of probabilities 1/4, 1/4, 1/2 and 1/3, 1/3, 1/3. */
static lk_var logits(struct program *p)
{
    return values_leaf(p, LK_SHAPE(2, 3), (double[]){1, 1, 1 + LN2, -7, -7, -7});
}

TEST(labels_pick_one_class_of_each_row)
{
    const double third = 1.0 / 3, ln3 = 1.09861228866810969140;
    for (int type = LK_F32; type <= LK_F64; type++)
        for (int narrow = 0; narrow < 2; narrow++) {
            struct program p = program_new((lk_dtype)type, false);
            lk_var x = logits(&p), y;
            lk_var label = values_index(&p, narrow, LK_SHAPE(2), (int64_t[]){0, 2});
            ASSERT_OK(lk_softmax_cross_entropy(x, label, LK_LOSS_NONE, &y));
            ASSERT_TRUE(lk_shape_is_equal(lk_shape_of(y), LK_SHAPE(2)));
            values_are(value_of(y), (double[]){2 * LN2, ln3}, 4);
            ASSERT_OK(lk_softmax_cross_entropy(x, label, LK_LOSS_SUM, &y));
            ASSERT_OK(lk_softmax_cross_entropy(x, label, LK_LOSS_DEFAULT, &y));
            values_are(value_of(y), (double[]){LN2 + ln3 / 2}, 4);
            ASSERT_OK(lk_backward(p.tape, &(lk_seed){.of = y}, 1, 0));
            values_are(p.grad[0], (double[]){-0.375, 0.125, 0.25, third / 2, third / 2, -third}, 6);
            program_free(&p);
        }
}

TEST(probabilities_weigh_the_classes)
{
    struct program p = program_new(LK_F64, false);
    lk_var x = logits(&p), y;
    lk_var t = values_leaf(&p, LK_SHAPE(2, 3), (double[]){0.5, 0, 0.5, 0, 0, 2});
    ASSERT_OK(lk_softmax_cross_entropy(x, t, LK_LOSS_SUM, &y));
    const double ln3 = 1.09861228866810969140;
    values_are(value_of(y), (double[]){1.5 * LN2 + 2 * ln3}, 4);
    ASSERT_OK(lk_backward(p.tape, &(lk_seed){.of = y}, 1, 0));
    const double dx[6] = {-0.25, 0.25, 0, 2.0 / 3, 2.0 / 3, -4.0 / 3};
    for (int i = 0; i < 6; i++)
        ASSERT_NEAR(tensor_at(p.grad[0], i), dx[i], 1e-15);
    values_are(p.grad[1], (double[]){2 * LN2, 2 * LN2, LN2, ln3, ln3, ln3}, 4);
    program_free(&p);
}

TEST(a_label_is_its_one_hot_probabilities)
{
    struct program p = program_new(LK_F32, false);
    lk_var x = program_leaf(&p, LK_SHAPE(5, 7)), a, b;
    int64_t label[5] = {0, 6, 3, 3, 1};
    double hot[35] = {0};
    for (int i = 0; i < 5; i++)
        hot[7 * i + label[i]] = 1;
    lk_var t = values_leaf(&p, LK_SHAPE(5, 7), hot);
    ASSERT_OK(
        lk_softmax_cross_entropy(x, values_index(&p, false, LK_SHAPE(5), label), LK_LOSS_MEAN, &a));
    ASSERT_OK(lk_softmax_cross_entropy(x, t, LK_LOSS_MEAN, &b));
    ASSERT_TRUE(lk_tensor_is_equal(value_of(a), value_of(b)));
    float grad[35];
    ASSERT_OK(lk_backward(p.tape, &(lk_seed){.of = a}, 1, 0));
    memcpy(grad, lk_tensor_data(p.grad[0]), sizeof grad);
    ASSERT_OK(lk_tensor_fill_f64(p.grad[0], 0));
    ASSERT_OK(lk_backward(p.tape, &(lk_seed){.of = b}, 1, 0));
    ASSERT_SAME_BITS(grad, lk_tensor_data(p.grad[0]), sizeof grad);
    program_free(&p);
}

/* loss = 0 - log p[k] or the sum of 0 - t log p, and dx = (p sum t - t) dl, where t of a label is 1 or 0: of
 * a row of `n` classes, one by one. */
static void check_entropy(lk_dtype type, int64_t n, bool labels)
{
    enum { ROWS = 70 };
    struct program p = program_new(type, false), q = program_new(type, true);
    int64_t label[ROWS];
    lk_var x = program_leaf(&p, LK_SHAPE(ROWS, n)), t = program_leaf(&q, LK_SHAPE(ROWS, n)), y, s,
           log_s;
    for (int r = 0; r < ROWS; r++)
        label[r] = 5 * r % n;
    lk_var of = labels ? values_index(&p, false, LK_SHAPE(ROWS), label) : LK_NO_VAR;
    if (!labels)
        ASSERT_OK(lk_constant(p.tape, q.value[0], &of)); /* whole numbers, 0 among them */
    ASSERT_OK(lk_softmax_cross_entropy(x, of, LK_LOSS_NONE, &y));
    program_backward(&p, y, 0);
    ASSERT_OK(lk_softmax(x, LK_LAST_AXIS, &s));
    ASSERT_OK(lk_log_softmax(x, LK_LAST_AXIS, &log_s));
    for (int64_t r = 0; r < ROWS; r++) {
        double dl = tensor_at(p.seed, r), sum = 0, lane[16] = {0};
        for (int64_t i = 0; i < n; i++) {
            double ti = labels ? i == label[r] : value_at(t, r * n + i);
            sum += ti; /* exact */
            lane[i % 16] = real_add(type, lane[i % 16],
                                    ti == 0 ? 0
                                            : real_fma(type, ti, value_at(log_s, r * n + i), 0));
        }
        ASSERT_TRUE(real_same(value_at(y, r), 0 - lk__ref_tree(type, lane, 16)));
        for (int64_t i = 0; i < n; i++) {
            double ti = labels ? i == label[r] : value_at(t, r * n + i);
            double dx = real_fma(type, value_at(s, r * n + i), sum, 0);
            dx = real_fma(type, real_add(type, dx, -ti), dl, 0);
            ASSERT_TRUE(real_same(tensor_at(p.grad[0], r * n + i), dx));
        }
    }
    program_free(&p);
    program_free(&q);
}

TEST(entropies_have_the_bits_of_softmax)
{
    static const int64_t some_n[] = {1, 7, 16, 33, 1000};
    for (int i = 0; i < LK_COUNT(some_n); i++)
        for (int labels = 0; labels < 2; labels++) {
            check_entropy(LK_F32, some_n[i], labels);
            check_entropy(LK_F64, some_n[i], labels);
        }
}

TEST(large_logits_and_impossible_classes_are_fine)
{
    const double x[6] = {1e30, 0, -1e30, 3, -HUGE_VAL, 3};
    struct program p = program_new(LK_F32, false);
    lk_var v = values_leaf(&p, LK_SHAPE(2, 3), x), y;
    lk_var t = values_leaf(&p, LK_SHAPE(2, 3), (double[]){1, 0, 0, 0.5, 0, 0.5});
    ASSERT_OK(lk_softmax_cross_entropy(v, t, LK_LOSS_NONE, &y));
    values_are(value_of(y), (double[]){0, LN2}, 1);
    ASSERT_OK(lk_softmax_cross_entropy(v, values_index(&p, false, LK_SHAPE(2), (int64_t[]){1, 1}),
                                       LK_LOSS_NONE, &y));
    ASSERT_TRUE(value_at(y, 0) == (double)1e30f && value_at(y, 1) == HUGE_VAL);
    program_free(&p);
}

/* ---- what all share ---- */

/* The sum over samples is the tree over pieces of lane sums, and the mean that by the count. */
TEST(sums_are_cut_into_pieces_of_samples)
{
    enum { SAMPLES = 50, PER = 9 };
    static const int64_t pieces[] = {0, 1, 7, 16, 50, 99};
    for (size_t k = 0; k < sizeof pieces / sizeof pieces[0]; k++) {
        struct program p = program_new(LK_F32, false);
        lk_var x = program_leaf(&p, LK_SHAPE(SAMPLES, PER)),
               t = program_leaf(&p, LK_SHAPE(SAMPLES, PER)), each, sum, mean;
        ASSERT_OK(lk_tape_set_shard_size(p.tape, pieces[k]));
        ASSERT_OK(lk_mean_squared_error(x, t, LK_LOSS_NONE, &each));
        ASSERT_OK(lk_mean_squared_error(x, t, LK_LOSS_SUM, &sum));
        ASSERT_OK(lk_mean_squared_error(x, t, LK_LOSS_MEAN, &mean));
        lk_reduce_axis_shape s = {1, SAMPLES * PER, 1, pieces[k] * PER};
        float want;
        ASSERT_OK(
            lk_reduce_axis(LK_F32, LK_REDUCE_AXIS_SUM, &s, lk_tensor_data(value_of(each)), &want));
        ASSERT_TRUE(value_at(sum, 0) == (double)want);
        ASSERT_TRUE(value_at(mean, 0) == (double)(want / (SAMPLES * PER)));
        program_free(&p);
    }
}

TEST(no_samples_have_the_sum_zero_and_no_mean)
{
    struct program p = program_new(LK_F32, false);
    lk_var x = program_leaf(&p, LK_SHAPE(0, 3)), t = program_leaf(&p, LK_SHAPE(0, 3)), y;
    lk_var label = values_index(&p, false, LK_SHAPE(0), (int64_t[]){0});
    ASSERT_OK(lk_softmax_cross_entropy(x, label, LK_LOSS_SUM, &y));
    ASSERT_TRUE(value_at(y, 0) == 0);
    ASSERT_OK(lk_backward(p.tape, &(lk_seed){.of = y}, 1, 0));
    ASSERT_OK(lk_logistic_cross_entropy(x, t, LK_LOSS_MEAN, &y));
    ASSERT_TRUE(isnan(value_at(y, 0)));
    ASSERT_OK(lk_backward(p.tape, &(lk_seed){.of = y}, 1, 0));
    x = program_leaf(&p, LK_SHAPE(3, 0));
    ASSERT_OK(lk_softmax_cross_entropy(x, x, LK_LOSS_SUM, &y));
    ASSERT_TRUE(value_at(y, 0) == 0);
    program_free(&p);
}

TEST(misuse_is_refused)
{
    struct program p = program_new(LK_F32, false);
    lk_var x = program_leaf(&p, LK_SHAPE(2, 3)), t = program_leaf(&p, LK_SHAPE(3)), wide, y;
    lk_var label = values_index(&p, false, LK_SHAPE(2), (int64_t[]){0, 3});
    ASSERT_FAILS(lk_softmax_cross_entropy(x, label, LK_LOSS_MEAN, &y), LK_EINVAL,
                 "softmax_cross_entropy: label 3 at [1] of i64[2] is not in [0, 3)");
    ASSERT_FAILS(lk_softmax_cross_entropy(x, t, LK_LOSS_MEAN, &y), LK_ESHAPE,
                 "softmax_cross_entropy of logits f32[2,3] and f32[3]");
    label = values_index(&p, false, LK_SHAPE(2, 3), (int64_t[6]){0});
    ASSERT_FAILS(lk_softmax_cross_entropy(x, label, LK_LOSS_MEAN, &y), LK_ESHAPE, "i64[2,3]");
    ASSERT_FAILS(lk_softmax_cross_entropy(label, label, LK_LOSS_MEAN, &y), LK_EDTYPE,
                 "logits i64[2,3]");
    lk_var scalar = program_leaf(&p, LK_SCALAR);
    ASSERT_FAILS(lk_softmax_cross_entropy(scalar, scalar, LK_LOSS_MEAN, &y), LK_ESHAPE,
                 "f32[], which have no axis of classes");
    ASSERT_OK(lk_full(p.tape, LK_F64, LK_SHAPE(2, 3), 1, &wide));
    static loss_fn *const all[] = {lk_logistic_cross_entropy, lk_mean_squared_error,
                                   lk_sum_squared_error};
    for (int k = 0; k < 3; k++) {
        ASSERT_FAILS(all[k](x, t, LK_LOSS_MEAN, &y), LK_ESHAPE,
                     "of f32[2,3] and the target f32[3]: they must have one shape");
        ASSERT_FAILS(all[k](x, wide, LK_LOSS_MEAN, &y), LK_EDTYPE, "the target f64[2,3]");
        ASSERT_FAILS(all[k](x, x, (lk_loss_reduction)5, &y), LK_EINVAL, "no reduction number 5");
    }
    program_free(&p);
}

static void by_rows(struct program *p, lk_var *y)
{
    static int64_t label[900];
    for (int i = 0; i < 900; i++)
        label[i] = i * i % 37;
    ASSERT_OK(lk_tape_set_shard_size(p->tape, 128));
    lk_var x = program_leaf(p, LK_SHAPE(900, 37)), t = program_leaf(p, LK_SHAPE(900, 37)), z;
    ASSERT_OK(lk_softmax_cross_entropy(x, values_index(p, false, LK_SHAPE(900), label),
                                       LK_LOSS_MEAN, &z));
    ASSERT_OK(lk_softmax_cross_entropy(x, t, LK_LOSS_MEAN, y));
    ASSERT_OK(lk_add(*y, z, y));
}

static void by_elements(struct program *p, lk_var *y)
{
    ASSERT_OK(lk_tape_set_shard_size(p->tape, 100));
    lk_var x = program_leaf(p, LK_SHAPE(901, 37)), t = program_leaf(p, LK_SHAPE(901, 37)), z;
    ASSERT_OK(lk_logistic_cross_entropy(x, t, LK_LOSS_MEAN, &z));
    ASSERT_OK(lk_sum_squared_error(x, t, LK_LOSS_DEFAULT, y));
    ASSERT_OK(lk_add(*y, z, y));
}

TEST(every_thread_count_and_instruction_set_gives_the_same_bits)
{
    test_same_bits_everywhere(by_rows);
    test_same_bits_everywhere(by_elements);
}
