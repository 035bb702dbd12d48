/* Dropout: a mask that depends on nothing but the draw. */
#include "op_numbers.h"

enum { SAMPLES = 40, ELEMENTS = 700, MOST = 4096 };

static lk_var ones(struct program *p, lk_shape shape)
{
    lk_var v;
    ASSERT_OK(lk_full(p->tape, p->dtype, shape, 1, &v));
    return v;
}

static lk_dropout_attr attr_of(double keep)
{
    return (lk_dropout_attr){
        .stream = lk_rng_start(1, "layer", "dropout"), .step = 7, .first = 100, .keep = keep};
}

TEST(elements_are_kept_where_the_draw_is_below)
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

TEST(the_share_that_stays_is_keep)
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

TEST(a_part_of_the_batch_has_a_part_of_the_mask)
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

TEST(steps_and_streams_differ_and_dtypes_do_not)
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

TEST(backward_applies_the_same_mask)
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

/* ---- boxes of samples ---- */

/* [samples][box...] of [samples][of...], element by element. */
static void box_take(lk_dtype dtype, int64_t samples, const lk_dropout_attr *a, const void *whole,
                     void *out)
{
    size_t size = lk_dtype_size(dtype);
    int64_t count = lk_box_count(&a->box), all = 1;
    for (int d = 0; d < a->of.ndim; d++)
        all *= a->of.dim[d];
    for (int64_t i = 0; i < samples * count; i++) {
        int64_t left = i % count, place = 0, step = 1;
        for (int d = a->of.ndim - 1; d >= 0; d--) {
            place += (a->box.first[d] + left % a->box.n[d]) * step;
            left /= a->box.n[d];
            step *= a->of.dim[d];
        }
        memcpy((char *)out + (size_t)i * size,
               (const char *)whole + (size_t)(i / count * all + place) * size, size);
    }
}

/* y and dx of x and dy, all of the shape [samples][dim...]; returns the number of elements. */
static int64_t drop_run(lk_dtype dtype, int64_t samples, lk_shape sample, const lk_dropout_attr *a,
                        const void *x, void *dy, void *y, void *dx)
{
    lk_shape shape = {.ndim = sample.ndim + 1, .dim = {samples}};
    memcpy(&shape.dim[1], sample.dim, (size_t)sample.ndim * sizeof sample.dim[0]);
    int64_t count;
    lk_tape *tape;
    lk_tensor *seed;
    lk_var vx, vy;
    ASSERT_OK(lk_shape_count(shape, &count));
    ASSERT_TRUE(count <= MOST);
    memset(dx, 0, MOST * sizeof(double));
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_leaf_data(tape, dtype, shape, x, dx, &vx));
    ASSERT_OK(lk_tensor_wrap(dtype, shape, dy, NULL, NULL, &seed));
    ASSERT_OK(lk_dropout(vx, a, &vy));
    ASSERT_OK(lk_read(vy, dtype, count, y));
    ASSERT_OK(lk_backward(tape, &(lk_seed){vy, seed}, 1, 0));
    lk_tensor_free(seed);
    lk_tape_free(tape);
    return count;
}

/* The box of a whole dropout is the dropout of the box: y and dx. */
static void box_check(lk_dtype dtype, lk_shape of, lk_box box)
{
    enum { X, DY, Y, DX };
    static double whole[4][MOST], part[4][MOST], want[MOST];
    lk_dropout_attr a = attr_of(0.6);
    real_fill(dtype, whole[X], MOST, 1, false);
    real_fill(dtype, whole[DY], MOST, 2, false);
    drop_run(dtype, 2, of, &a, whole[X], whole[DY], whole[Y], whole[DX]);
    a.of = of;
    a.box = box;
    for (int i = X; i <= DY; i++)
        box_take(dtype, 2, &a, whole[i], part[i]);
    lk_shape held = {.ndim = box.ndim};
    memcpy(held.dim, box.n, (size_t)box.ndim * sizeof box.n[0]);
    int64_t count = drop_run(dtype, 2, held, &a, part[X], part[DY], part[Y], part[DX]);
    for (int i = Y; i <= DX; i++) {
        box_take(dtype, 2, &a, whole[i], want);
        ASSERT_SAME_BITS(part[i], want, (size_t)count * lk_dtype_size(dtype));
    }
}

TEST(keep_one_keeps_all_and_what_is_dropped_is_zero)
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

TEST(a_box_of_the_samples_has_its_box_of_the_mask)
{
    static const lk_shape of[] = {LK_DIMS(90, 3), LK_DIMS(13, 11, 5), LK_DIMS(6, 5, 7, 3)};
    uint64_t state = 1;
    for (int s = 0; s < LK_COUNT(of); s++)
        for (int i = 0; i < 40; i++) {
            lk_box box = lk_box_whole(of[s].ndim, of[s].dim);
            for (int d = 0; d < box.ndim - i % 2; d++) { /* every second has all channels */
                state = state * UINT64_C(6364136223846793005) + 1;
                box.first[d] = (int64_t)(state >> 33) % of[s].dim[d];
                state = state * UINT64_C(6364136223846793005) + 1;
                box.n[d] = (int64_t)(state >> 33) % (of[s].dim[d] - box.first[d] + 1);
            }
            box_check(LK_F32, of[s], box);
            box_check(LK_F64, of[s], box);
        }
    for (int s = 0; s < LK_COUNT(of); s++)
        box_check(LK_F32, of[s], lk_box_whole(of[s].ndim, of[s].dim));
}

TEST(wrong_boxes_are_refused)
{
    struct program p = program_new(LK_F32, false);
    lk_var x = ones(&p, LK_SHAPE(4, 2, 3)), y;
    lk_dropout_attr a = attr_of(0.5);
    a.of = LK_SHAPE(5, 3);
    a.box = (lk_box){1, {1}, {2}};
    ASSERT_FAILS(lk_dropout(x, &a, &y), LK_EINVAL, "a box of 1 axes of samples that have 2");
    a.box = (lk_box){2, {4, 0}, {2, 3}};
    ASSERT_FAILS(lk_dropout(x, &a, &y), LK_EINVAL, "does not lie in samples of [5,3]");
    a.box = (lk_box){2, {1, 0}, {3, 3}};
    ASSERT_FAILS(lk_dropout(x, &a, &y), LK_ESHAPE, "f32[4,2,3], where the box has [4,3,3]");
    a.of = LK_SHAPE(INT64_MAX / 2, 3);
    a.box = (lk_box){2, {1, 0}, {2, 3}};
    ASSERT_FAILS(lk_dropout(x, &a, &y), LK_EOVERFLOW, "");
    a.of.ndim = -1;
    ASSERT_FAILS(lk_dropout(x, &a, &y), LK_EINVAL, "samples that have -1");
    program_free(&p);
}

TEST(no_samples_and_scalars_are_fine)
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

TEST(misuse_is_refused)
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

static void drop_box(struct program *p, lk_var *y)
{
    lk_dropout_attr a = attr_of(0.7);
    a.of = LK_SHAPE(40, 30, 3);
    a.box = (lk_box){3, {3, 5, 0}, {35, 20, 3}};
    ASSERT_OK(lk_dropout(program_leaf(p, LK_SHAPE(SAMPLES, 35, 20, 3)), &a, y));
}

TEST(every_thread_count_and_instruction_set_gives_the_same_bits)
{
    test_same_bits_everywhere(drop);
    test_same_bits_everywhere(drop_box);
}
