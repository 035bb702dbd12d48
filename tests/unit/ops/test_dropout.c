/* Dropout: a mask that depends on nothing but the draw. */
#include "op_numbers.h"

enum { SAMPLES = 40, ELEMENTS = 700 };

static lk_var ones(struct program *p, lk_shape shape)
{
    lk_var v;
    ASSERT_OK(lk_full(p->tape, p->dtype, shape, 1, &v));
    return v;
}

static lk_dropout_attr attr_of(double keep)
{
    return (lk_dropout_attr){lk_rng_start(1, "layer", "dropout"), 7, 100, keep};
}

static void elements_are_kept_where_the_draw_is_below(void)
{
    for (int type = LK_F32; type <= LK_F64; type++) {
        struct program p = program_new((lk_dtype)type, false);
        lk_dropout_attr a = attr_of(0.8);
        lk_var x = program_leaf(&p, LK_SHAPE(3, 5, 2)), y;
        ASSERT_OK(lk_dropout(x, &a, &y));
        int kept = 0;
        for (int i = 0; i < 30; i++) {
            uint32_t bits = 0;
            ASSERT_OK(lk_rng_bits(a.stream, (lk_rng_at){7, 100 + i / 10, i % 10}, 1, &bits));
            double v = tensor_at(p.value[0], i);
            double scaled = type == LK_F32 ? (double)((float)v * (float)1.25) : v * 1.25;
            ASSERT_TRUE(value_at(y, i) == ((double)bits * 0x1p-32 < 0.8 ? scaled : 0));
            kept += value_at(y, i) != 0;
        }
        ASSERT_TRUE(kept > 0 && kept < 30);
        program_free(&p);
    }
}

static void the_share_that_stays_is_keep(void)
{
    struct program p = program_new(LK_F32, false);
    lk_dropout_attr a = attr_of(0.25);
    lk_var y;
    ASSERT_OK(lk_dropout(ones(&p, LK_SHAPE(SAMPLES, ELEMENTS)), &a, &y));
    double sum = 0;
    for (int64_t i = 0; i < SAMPLES * ELEMENTS; i++)
        sum += value_at(y, i);
    ASSERT_NEAR(sum / (SAMPLES * ELEMENTS), 1, 0.05);
    program_free(&p);
}

static void a_part_of_the_batch_has_a_part_of_the_mask(void)
{
    struct program p = program_new(LK_F64, false);
    lk_dropout_attr a = attr_of(0.5);
    lk_var whole, part;
    ASSERT_OK(lk_dropout(ones(&p, LK_SHAPE(SAMPLES, ELEMENTS)), &a, &whole));
    a.first += 13;
    ASSERT_OK(lk_dropout(ones(&p, LK_SHAPE(9, ELEMENTS)), &a, &part));
    ASSERT_SAME_BITS((const double *)lk_tensor_data(value_of(whole)) + 13 * ELEMENTS,
                     lk_tensor_data(value_of(part)), 9 * ELEMENTS * sizeof(double));
    program_free(&p);
}

static void steps_and_streams_differ_and_dtypes_do_not(void)
{
    struct program p = program_new(LK_F64, false);
    lk_dropout_attr a = attr_of(0.5), step = a, stream = a;
    step.step++;
    stream.stream = lk_rng_start(1, "another layer", "dropout");
    lk_var x = ones(&p, LK_SHAPE(4, 50)), y, y_step, y_stream, y_f32, x_f32;
    ASSERT_OK(lk_dropout(x, &a, &y));
    ASSERT_OK(lk_dropout(x, &step, &y_step));
    ASSERT_OK(lk_dropout(x, &stream, &y_stream));
    ASSERT_OK(lk_full(p.tape, LK_F32, LK_SHAPE(4, 50), 1, &x_f32));
    ASSERT_OK(lk_dropout(x_f32, &a, &y_f32));
    ASSERT_TRUE(!lk_tensor_is_equal(value_of(y), value_of(y_step)));
    ASSERT_TRUE(!lk_tensor_is_equal(value_of(y), value_of(y_stream)));
    for (int i = 0; i < 200; i++)
        ASSERT_TRUE(value_at(y, i) == value_at(y_f32, i));
    program_free(&p);
}

static void backward_applies_the_same_mask(void)
{
    struct program p = program_new(LK_F64, false);
    lk_dropout_attr a = attr_of(0.5);
    lk_var x = program_leaf(&p, LK_SHAPE(6, 11)), y;
    ASSERT_OK(lk_dropout(x, &a, &y));
    ASSERT_OK(lk_retain_value(y));
    program_backward(&p, y, 0);
    for (int i = 0; i < 66; i++) {
        bool kept = value_at(y, i) != 0;
        ASSERT_TRUE(tensor_at(p.grad[0], i) == (kept ? 2 * tensor_at(p.seed, i) : 0));
    }
    program_free(&p);
}

static void keep_one_keeps_all_and_what_is_dropped_is_zero(void)
{
    struct program p = program_new(LK_F64, false);
    lk_dropout_attr a = attr_of(1);
    const double odd[2] = {(double)NAN, HUGE_VAL};
    lk_var x = values_leaf(&p, LK_SHAPE(2), odd), y;
    ASSERT_OK(lk_dropout(x, &a, &y));
    ASSERT_SAME_BITS(lk_tensor_data(value_of(y)), odd, sizeof odd);
    a.keep = 0x1p-60; /* none of 2^32 draws is below */
    ASSERT_OK(lk_dropout(x, &a, &y));
    ASSERT_TRUE(value_at(y, 0) == 0 && value_at(y, 1) == 0);
    program_free(&p);
}

static void no_samples_and_scalars_are_fine(void)
{
    struct program p = program_new(LK_F32, false);
    lk_dropout_attr a = attr_of(1);
    lk_var y;
    ASSERT_OK(lk_dropout(ones(&p, LK_SHAPE(0, 3)), &a, &y));
    ASSERT_EQ(lk_tensor_count(value_of(y)), 0);
    ASSERT_OK(lk_dropout(ones(&p, LK_SHAPE(3, 0)), &a, &y));
    ASSERT_OK(lk_dropout(ones(&p, LK_SCALAR), &a, &y));
    ASSERT_TRUE(value_at(y, 0) == 1);
    program_free(&p);
}

static void misuse_is_refused(void)
{
    struct program p = program_new(LK_F32, false);
    lk_var x = ones(&p, LK_SHAPE(4, 2)), y;
    lk_dropout_attr a = attr_of(0);
    ASSERT_FAILS(lk_dropout(x, &a, &y), LK_EINVAL, "probability 0, which must be above 0");
    a = attr_of((double)NAN);
    ASSERT_FAILS(lk_dropout(x, &a, &y), LK_EINVAL, "at most 1");
    a = attr_of(1);
    a.step = INT64_C(1) << 32;
    ASSERT_FAILS(lk_dropout(x, &a, &y), LK_EINVAL, "step 4294967296");
    a = attr_of(1);
    a.first = (INT64_C(1) << 48) - 3;
    ASSERT_FAILS(lk_dropout(x, &a, &y), LK_EINVAL, "f32[4,2] from sample 281474976710653");
    ASSERT_FAILS(lk_dropout(values_index(&p, false, LK_SHAPE(1), (int64_t[]){0}), &a, &y),
                 LK_EDTYPE, "dropout of i64[1]");
    ASSERT_FAILS(lk_dropout(x, NULL, &y), LK_EINVAL, "attr is NULL");
    program_free(&p);
}

static void drop(struct program *p, lk_var *y)
{
    lk_dropout_attr a = attr_of(0.7);
    ASSERT_OK(lk_dropout(program_leaf(p, LK_SHAPE(SAMPLES, ELEMENTS)), &a, y));
}

static void every_thread_count_and_instruction_set_gives_the_same_bits(void)
{
    test_same_bits_everywhere(drop);
}

TEST_MAIN(TEST(elements_are_kept_where_the_draw_is_below), TEST(the_share_that_stays_is_keep),
          TEST(a_part_of_the_batch_has_a_part_of_the_mask),
          TEST(steps_and_streams_differ_and_dtypes_do_not), TEST(backward_applies_the_same_mask),
          TEST(keep_one_keeps_all_and_what_is_dropped_is_zero),
          TEST(no_samples_and_scalars_are_fine), TEST(misuse_is_refused),
          TEST(every_thread_count_and_instruction_set_gives_the_same_bits))
