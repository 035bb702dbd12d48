/* Batch norm: statistics of pieces or of the whole batch, with their gradients. */
#include "op_numbers.h"

/* Two channels: 1, 3, 5, 7 (mean 4, variance 5) and 2, 2, 6, 6 (mean 4, variance 4). */
static const double x8[8] = {1, 2, 3, 2, 5, 6, 7, 6};

TEST(values_and_statistics_of_one_piece)
{
    for (int type = LK_F32; type <= LK_F64; type++)
        for (int spatial = 0; spatial < 2; spatial++) {
            struct program p = program_new((lk_dtype)type, false);
            lk_shape shape = spatial ? LK_SHAPE(2, 2, 1, 2) : LK_SHAPE(4, 2);
            lk_var x = values_leaf(&p, shape, x8), y, mean, variance;
            lk_var gamma = values_leaf(&p, LK_SHAPE(2), (double[]){3, 1});
            lk_var beta = values_leaf(&p, LK_SHAPE(2), (double[]){10, -1});
            lk_batch_norm_attr a = {.eps = 4};
            ASSERT_OK(lk_batch_norm(x, gamma, beta, &a, &y, &mean, &variance));
            const double r = 1 / sqrt(2); /* 2 / sqrt(8) */
            ASSERT_TRUE(lk_shape_is_equal(lk_shape_of(mean), LK_SHAPE(1, 2)));
            values_are(value_of(mean), (double[]){4, 4}, 0);
            values_are(value_of(variance), (double[]){5, 4}, 0);
            values_are(value_of(y), (double[]){7, -1 - r, 9, -1 - r, 11, -1 + r, 13, -1 + r}, 4);
            program_free(&p);
        }
}

/* Pieces of 2 and of 1: means 2 and 2, 5 and 6, variances 1 and 0, 0 and 0. */
TEST(each_piece_has_its_own_statistics)
{
    struct program p = program_new(LK_F64, false);
    ASSERT_OK(lk_tape_set_shard_size(p.tape, 2));
    lk_var x = values_leaf(&p, LK_SHAPE(3, 2), x8), y, mean, variance;
    lk_var gamma = values_leaf(&p, LK_SHAPE(2), (double[]){1, 1});
    lk_var beta = values_leaf(&p, LK_SHAPE(2), (double[]){0, 7});
    lk_batch_norm_attr a = {.eps = 3};
    ASSERT_OK(lk_batch_norm(x, gamma, beta, &a, &y, &mean, &variance));
    ASSERT_TRUE(lk_shape_is_equal(lk_shape_of(variance), LK_SHAPE(2, 2)));
    values_are(value_of(mean), (double[]){2, 2, 5, 6}, 0);
    values_are(value_of(variance), (double[]){1, 0, 0, 0}, 0);
    values_are(value_of(y), (double[]){-0.5, 7, 0.5, 7, 0, 7}, 0);
    a.whole_batch = true;
    ASSERT_OK(lk_batch_norm(x, gamma, beta, &a, &y, &mean, &variance));
    ASSERT_TRUE(lk_shape_is_equal(lk_shape_of(mean), LK_SHAPE(1, 2)));
    values_are(value_of(mean), (double[]){3, 10.0 / 3}, 1);
    values_are(value_of(variance), (double[]){8.0 / 3, 32.0 / 9}, 2);
    program_free(&p);
}

/* A piece of the batch computed alone: the same bits of y, statistics and dx. */
TEST(a_piece_alone_has_the_same_bits)
{
    enum { SAMPLES = 22, PIECE = 8, PER = 3 * 5 * 13, CHANNELS = 13 };
    for (int type = LK_F32; type <= LK_F64; type++) {
        struct program all = program_new((lk_dtype)type, false);
        size_t size = lk_dtype_size((lk_dtype)type);
        ASSERT_OK(lk_tape_set_shard_size(all.tape, PIECE));
        lk_var x = program_leaf(&all, LK_SHAPE(SAMPLES, 3, 5, CHANNELS)),
               gamma = program_leaf(&all, LK_SHAPE(CHANNELS)),
               beta = program_leaf(&all, LK_SHAPE(CHANNELS)), y, mean;
        ASSERT_OK(lk_batch_norm(x, gamma, beta, NULL, &y, &mean, NULL));
        ASSERT_OK(lk_retain_value(y));
        ASSERT_OK(lk_retain_value(mean));
        program_backward(&all, y, 0);
        for (int64_t first = 0; first < SAMPLES; first += PIECE) {
            int64_t last = first + PIECE < SAMPLES ? first + PIECE : SAMPLES;
            struct program one = program_new((lk_dtype)type, false);
            lk_tensor *part = NULL, *seed = NULL;
            ASSERT_OK(lk_tensor_slice(all.value[0], 0, first, last, 1, &part));
            ASSERT_OK(lk_tensor_slice(all.seed, 0, first, last, 1, &seed));
            lk_var px = program_own(&one, part), py, pm;
            lk_var g = program_leaf(&one, LK_SHAPE(CHANNELS)),
                   b = program_leaf(&one, LK_SHAPE(CHANNELS));
            ASSERT_OK(lk_batch_norm(px, g, b, NULL, &py, &pm, NULL));
            const char *in_y = lk_tensor_data(value_of(y)), *in_dx = lk_tensor_data(all.grad[0]);
            const char *in_mean = lk_tensor_data(value_of(mean));
            ASSERT_SAME_BITS(lk_tensor_data(value_of(py)), in_y + (size_t)(first * PER) * size,
                             (size_t)((last - first) * PER) * size);
            ASSERT_SAME_BITS(lk_tensor_data(value_of(pm)),
                             in_mean + (size_t)(first / PIECE * CHANNELS) * size, CHANNELS * size);
            ASSERT_OK(lk_backward(one.tape, &(lk_seed){py, seed}, 1, 0));
            ASSERT_SAME_BITS(lk_tensor_data(one.grad[0]), in_dx + (size_t)(first * PER) * size,
                             (size_t)((last - first) * PER) * size);
            lk_tensor_free(seed);
            program_free(&one);
        }
        program_free(&all);
    }
}

static lk_status normalise(struct program *p, bool whole, lk_var *y)
{
    lk_var x = program_leaf(p, LK_SHAPE(41, 3, 2, 7)), gamma = program_leaf(p, LK_SHAPE(7)),
           beta = program_leaf(p, LK_SHAPE(7));
    lk_batch_norm_attr a = {.whole_batch = whole};
    return lk_batch_norm(x, gamma, beta, &a, y, NULL, NULL);
}

/* The gradients of gamma and beta join the pieces' sums by the tree: beta's is that of sum_to. */
TEST(gradients_of_gamma_and_beta_are_trees_of_pieces)
{
    for (int whole = 0; whole < 2; whole++) {
        struct program p = program_new(LK_F32, false);
        lk_var y, dy, sum;
        ASSERT_OK(lk_tape_set_shard_size(p.tape, 2));
        ASSERT_OK(normalise(&p, whole, &y));
        program_backward(&p, y, 0);
        ASSERT_OK(lk_constant(p.tape, p.seed, &dy));
        ASSERT_OK(lk_sum_to(dy, LK_SHAPE(7), &sum));
        ASSERT_TRUE(lk_tensor_is_equal(p.grad[2], value_of(sum)));
        program_free(&p);
    }
}

/* The fused gradient against the one made of other ops. */
TEST(a_recorded_backward_gives_the_same_numbers)
{
    for (int whole = 0; whole < 2; whole++) {
        struct program p[2];
        for (int k = 0; k < 2; k++) {
            lk_var y;
            p[k] = program_new(LK_F64, false);
            ASSERT_OK(lk_tape_set_shard_size(p[k].tape, 4));
            ASSERT_OK(normalise(&p[k], whole, &y));
            program_backward(&p[k], y, k == 0 ? 0 : LK_RECORD);
        }
        for (int i = 0; i < 3; i++)
            for (int64_t e = 0; e < lk_tensor_count(p[0].grad[i]); e++)
                ASSERT_NEAR(tensor_at(p[0].grad[i], e), tensor_at(p[1].grad[i], e), 1e-13);
        program_free(&p[0]);
        program_free(&p[1]);
    }
}

TEST(gradients_of_the_statistics_alone)
{
    for (int record = 0; record < 2; record++) {
        struct program p = program_new(LK_F64, false);
        lk_var x = values_leaf(&p, LK_SHAPE(4, 2), x8), gamma = program_leaf(&p, LK_SHAPE(2)),
               beta = program_leaf(&p, LK_SHAPE(2)), y, mean, variance;
        ASSERT_OK(lk_batch_norm(x, gamma, beta, NULL, &y, &mean, &variance));
        lk_tensor *seed = NULL;
        ASSERT_OK(lk_tensor_zeros(LK_F64, LK_SHAPE(1, 2), &seed));
        ASSERT_OK(lk_tensor_set_f64(seed, LK_AT(0, 0), 4));
        lk_seed seeds[] = {{mean, seed}, {variance, seed}};
        ASSERT_OK(lk_backward(p.tape, seeds, 2, record ? LK_RECORD : 0));
        values_are(p.grad[0], (double[]){1 - 6, 0, 1 - 2, 0, 1 + 2, 0, 1 + 6, 0}, 0);
        values_are(p.grad[1], (double[]){0, 0}, 0);
        lk_tensor_free(seed);
        program_free(&p);
    }
}

TEST(inference_uses_what_it_is_given)
{
    for (int type = LK_F32; type <= LK_F64; type++) {
        struct program p = program_new((lk_dtype)type, false);
        lk_var x = values_leaf(&p, LK_SHAPE(2, 2, 2), x8), y;
        lk_var gamma = values_leaf(&p, LK_SHAPE(2), (double[]){2, 3});
        lk_var beta = values_leaf(&p, LK_SHAPE(2), (double[]){1, 0});
        lk_var mean = values_leaf(&p, LK_SHAPE(2), (double[]){3, 2});
        lk_var variance = values_leaf(&p, LK_SHAPE(2), (double[]){3, 8});
        lk_batch_norm_attr a = {.eps = 1};
        ASSERT_OK(lk_batch_norm_inference(x, gamma, beta, mean, variance, &a, &y));
        values_are(value_of(y), (double[]){-1, 0, 1, 0, 3, 4, 5, 4}, 0);
        lk_var sum;
        ASSERT_OK(lk_sum_to(y, LK_SCALAR, &sum));
        ASSERT_OK(lk_backward(p.tape, &(lk_seed){.of = sum}, 1, 0));
        values_are(p.grad[0], (double[]){1, 1, 1, 1, 1, 1, 1, 1}, 0);
        values_are(p.grad[1], (double[]){2, 8.0 / 3}, 1); /* sum of c / 2, / 3 */
        values_are(p.grad[2], (double[]){4, 4}, 0);
        values_are(p.grad[3], (double[]){-4, -4}, 0);
        values_are(p.grad[4], (double[]){-0.5, -4.0 / 9}, 2); /* -1/2 gamma inv^3 sum c */
        program_free(&p);
    }
}

/* One pass over memory against other ops. */
TEST(inference_has_one_gradient_recorded_or_not)
{
    for (int type = LK_F32; type <= LK_F64; type++)
        for (int wide = 0; wide < 2; wide++) {
            struct program p[2];
            const int64_t n = wide ? 300 : 5;
            for (int k = 0; k < 2; k++) {
                p[k] = program_new((lk_dtype)type, false);
                ASSERT_OK(lk_tape_set_shard_size(p[k].tape, 4));
                lk_var in[5], y;
                for (int i = 0; i < 5; i++)
                    in[i] = program_leaf(&p[k], i == 0 ? LK_SHAPE(23, 3, n) : LK_SHAPE(n));
                ASSERT_OK(lk_square(in[4], &in[4]));
                ASSERT_OK(lk_batch_norm_inference(in[0], in[1], in[2], in[3], in[4], NULL, &y));
                program_backward(&p[k], y, k == 0 ? 0 : LK_RECORD);
            }
            for (int i = 0; i < 5; i++)
                ASSERT_TRUE(lk_tensor_is_equal(p[0].grad[i], p[1].grad[i]));
            program_free(&p[0]);
            program_free(&p[1]);
        }
}

TEST(training_agrees_with_inference_by_its_statistics)
{
    struct program p = program_new(LK_F32, false);
    lk_var x = program_leaf(&p, LK_SHAPE(50, 300)), gamma = program_leaf(&p, LK_SHAPE(300)),
           beta = program_leaf(&p, LK_SHAPE(300)), y, z, mean, variance;
    ASSERT_OK(lk_batch_norm(x, gamma, beta, NULL, &y, &mean, &variance));
    ASSERT_OK(lk_reshape(mean, LK_SHAPE(300), &mean));
    ASSERT_OK(lk_reshape(variance, LK_SHAPE(300), &variance));
    ASSERT_OK(lk_batch_norm_inference(x, gamma, beta, mean, variance, NULL, &z));
    ASSERT_TRUE(lk_tensor_is_equal(value_of(y), value_of(z)));
    program_free(&p);
}

TEST(empty_axes_are_fine)
{
    const lk_shape shapes[] = {LK_SHAPE(0, 3), LK_SHAPE(4, 0, 3), LK_SHAPE(4, 0)};
    for (int k = 0; k < 3; k++) {
        struct program p = program_new(LK_F32, false);
        lk_shape channels = LK_SHAPE(shapes[k].dim[shapes[k].ndim - 1]);
        lk_var x = program_leaf(&p, shapes[k]), v = program_leaf(&p, channels), y, mean;
        ASSERT_OK(lk_batch_norm(x, v, v, NULL, &y, &mean, NULL));
        ASSERT_TRUE(lk_shape_is_equal(lk_shape_of(mean), LK_SHAPE(0, channels.dim[0])));
        program_backward(&p, y, 0);
        for (int64_t i = 0; i < channels.dim[0]; i++)
            ASSERT_TRUE(tensor_at(p.grad[1], i) == 0);
        ASSERT_OK(lk_batch_norm_inference(x, v, v, v, v, NULL, &y));
        program_free(&p);
    }
}

TEST(misuse_is_refused)
{
    struct program p = program_new(LK_F32, false);
    lk_var x = program_leaf(&p, LK_SHAPE(2, 3)), v = program_leaf(&p, LK_SHAPE(3)),
           wrong = program_leaf(&p, LK_SHAPE(2)), wide, y, mean;
    ASSERT_FAILS(lk_batch_norm(x, wrong, v, NULL, &y, &mean, NULL), LK_ESHAPE,
                 "batch_norm of f32[2,3] with gamma f32[2]: it has one number for each channel");
    ASSERT_TRUE(!lk_is_var(y) && !lk_is_var(mean));
    ASSERT_FAILS(lk_batch_norm(x, v, wrong, NULL, &y, NULL, NULL), LK_ESHAPE, "with beta f32[2]");
    ASSERT_FAILS(lk_batch_norm(v, v, v, NULL, &y, NULL, NULL), LK_ESHAPE, "batch_norm of f32[3]");
    const double eps[] = {-1, (double)INFINITY, (double)NAN, 1e300};
    for (int k = 0; k < LK_COUNT(eps); k++) {
        lk_batch_norm_attr a = {.eps = eps[k]};
        char text[64];
        snprintf(text, sizeof text, "of f32[2,3] with eps %g", eps[k]);
        ASSERT_FAILS(lk_batch_norm(x, v, v, &a, &y, NULL, NULL), LK_EINVAL, text);
        ASSERT_FAILS(lk_batch_norm_inference(x, v, v, v, v, &a, &y), LK_EINVAL, text);
    }
    ASSERT_FAILS(lk_batch_norm(x, v, v, NULL, NULL, &mean, NULL), LK_EINVAL, "out is NULL");
    ASSERT_OK(lk_full(p.tape, LK_F64, LK_SHAPE(3), 1, &wide));
    ASSERT_FAILS(lk_batch_norm_inference(x, v, v, v, wide, NULL, &y), LK_EDTYPE,
                 "batch_norm_inference of f32[2,3] with variance f64[3]");
    program_free(&p);
}

static void by_pieces(struct program *p, lk_var *y)
{
    ASSERT_OK(lk_tape_set_shard_size(p->tape, 16));
    lk_var x = program_leaf(p, LK_SHAPE(50, 9, 7, 19)), gamma = program_leaf(p, LK_SHAPE(19)),
           beta = program_leaf(p, LK_SHAPE(19));
    ASSERT_OK(lk_batch_norm(x, gamma, beta, NULL, y, NULL, NULL));
}

static void whole(struct program *p, lk_var *y)
{
    ASSERT_OK(lk_tape_set_shard_size(p->tape, 16));
    lk_var x = program_leaf(p, LK_SHAPE(300, 283)), gamma = program_leaf(p, LK_SHAPE(283)),
           beta = program_leaf(p, LK_SHAPE(283));
    lk_batch_norm_attr a = {.whole_batch = true};
    ASSERT_OK(lk_batch_norm(x, gamma, beta, &a, y, NULL, NULL));
}

static void inference(struct program *p, lk_var *y)
{
    ASSERT_OK(lk_tape_set_shard_size(p->tape, 16));
    lk_var x = program_leaf(p, LK_SHAPE(300, 83)), v = program_leaf(p, LK_SHAPE(83)), variance;
    ASSERT_OK(lk_mul(v, v, &variance));
    ASSERT_OK(lk_batch_norm_inference(x, v, v, v, variance, NULL, y));
}

TEST(every_thread_count_and_instruction_set_gives_the_same_bits)
{
    test_same_bits_everywhere(by_pieces);
    test_same_bits_everywhere(whole);
    test_same_bits_everywhere(inference);
}
