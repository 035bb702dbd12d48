/* Embedding: rows by number, and the order in which their gradients are added. */
#include "kernel/reference/reference.h"
#include "op_numbers.h"

static const double table[8] = {1, 2, 3, 4, 5, 6, 7, 8};

TEST(rows_are_copied_for_indices_of_any_shape)
{
    for (int type = LK_F32; type <= LK_F64; type++)
        for (int narrow = 0; narrow < 2; narrow++) {
            struct program p = program_new((lk_dtype)type, false);
            lk_var t = values_leaf(&p, LK_SHAPE(4, 2), table), y;
            lk_var index = values_index(&p, narrow, LK_SHAPE(2, 1, 2), (int64_t[]){3, 0, 1, 3});
            ASSERT_OK(lk_embedding(t, index, &y));
            ASSERT_TRUE(lk_shape_is_equal(lk_shape_of(y), LK_SHAPE(2, 1, 2, 2)));
            values_are(value_of(y), (double[]){7, 8, 1, 2, 3, 4, 7, 8}, 0);
            index = values_index(&p, narrow, LK_SCALAR, (int64_t[]){2});
            ASSERT_OK(lk_embedding(t, index, &y));
            ASSERT_TRUE(lk_shape_is_equal(lk_shape_of(y), LK_SHAPE(2)));
            values_are(value_of(y), (double[]){5, 6}, 0);
            program_free(&p);
        }
}

/* Numbers of which any other order of additions has another sum. */
enum { SAMPLES = 11, PER_SAMPLE = 3, ROWS = 5, WIDTH = 70 };

static int64_t index_of(int64_t i)
{
    return i * i % 7 % ROWS;
}

/* Row r's sum over the positions of samples [first, last): a chain. */
static float chain_of(const float *dy, int64_t r, int64_t c, int64_t first, int64_t last)
{
    float sum = 0;
    for (int64_t i = first * PER_SAMPLE; i < last * PER_SAMPLE && i < SAMPLES * PER_SAMPLE; i++)
        if (index_of(i) == r)
            sum += dy[i * WIDTH + c];
    return sum;
}

static float tree_of(const float *dy, int64_t r, int64_t c, int64_t piece)
{
    double chain[SAMPLES];
    int64_t n = 0;
    for (int64_t first = 0; first < SAMPLES; first += piece)
        chain[n++] = (double)chain_of(dy, r, c, first, first + piece);
    return (float)lk__ref_tree(LK_F32, chain, n);
}

TEST(gradients_are_chains_of_positions_and_trees_of_pieces)
{
    int64_t index[SAMPLES * PER_SAMPLE];
    float want[ROWS * WIDTH], whole[ROWS * WIDTH];
    for (int64_t i = 0; i < SAMPLES * PER_SAMPLE; i++)
        index[i] = index_of(i);
    static const int64_t pieces[] = {0, 1, 2, 3, 4, 10, 11, 20};
    for (size_t k = 0; k < sizeof pieces / sizeof pieces[0]; k++) {
        struct program p = program_new(LK_F32, false);
        lk_var t = program_leaf(&p, LK_SHAPE(ROWS, WIDTH)), y;
        ASSERT_OK(lk_tape_set_shard_size(p.tape, pieces[k]));
        ASSERT_OK(
            lk_embedding(t, values_index(&p, false, LK_SHAPE(SAMPLES, PER_SAMPLE), index), &y));
        program_backward(&p, y, 0);
        int64_t piece = pieces[k] > 0 ? pieces[k] : SAMPLES;
        for (int64_t r = 0; r < ROWS; r++)
            for (int64_t c = 0; c < WIDTH; c++)
                want[r * WIDTH + c] = tree_of(lk_tensor_data(p.seed), r, c, piece);
        ASSERT_SAME_BITS(lk_tensor_data(p.grad[0]), want, sizeof want);
        if (k == 0)
            memcpy(whole, want, sizeof whole);
        if (pieces[k] == 2)
            ASSERT_TRUE(memcmp(whole, want, sizeof whole) != 0);
        program_free(&p);
    }
}

TEST(a_row_that_is_not_used_has_no_gradient)
{
    struct program p = program_new(LK_F64, true);
    lk_var t = values_leaf(&p, LK_SHAPE(4, 2), table), y;
    ASSERT_OK(lk_embedding(t, values_index(&p, false, LK_SHAPE(2), (int64_t[]){3, 3}), &y));
    program_backward(&p, y, 0);
    const double *dy = lk_tensor_data(p.seed);
    values_are(p.grad[0], (double[]){0, 0, 0, 0, 0, 0, dy[0] + dy[2], dy[1] + dy[3]}, 0);
    program_free(&p);
}

TEST(empty_axes_are_fine)
{
    struct program p = program_new(LK_F32, false);
    lk_var t = values_leaf(&p, LK_SHAPE(4, 2), table), none = program_leaf(&p, LK_SHAPE(3, 0)), y;
    ASSERT_OK(lk_embedding(t, values_index(&p, false, LK_SHAPE(0, 5), (int64_t[]){0}), &y));
    ASSERT_TRUE(lk_shape_is_equal(lk_shape_of(y), LK_SHAPE(0, 5, 2)));
    program_backward(&p, y, 0);
    values_are(p.grad[0], (double[8]){0}, 0);
    ASSERT_OK(lk_embedding(none, values_index(&p, false, LK_SHAPE(2), (int64_t[]){2, 0}), &y));
    program_backward(&p, y, 0);
    program_free(&p);
}

TEST(misuse_is_refused)
{
    struct program p = program_new(LK_F32, false);
    lk_var t = values_leaf(&p, LK_SHAPE(4, 2), table), y;
    lk_var index = values_index(&p, false, LK_SHAPE(2, 2), (int64_t[]){0, 1, 4, 0});
    ASSERT_FAILS(lk_embedding(t, index, &y), LK_EINVAL,
                 "embedding: index 4 at [1,0] of i64[2,2] is not in [0, 4)");
    index = values_index(&p, true, LK_SHAPE(1), (int64_t[]){-1});
    ASSERT_FAILS(lk_embedding(t, index, &y), LK_EINVAL, "index -1 at [0] of i32[1]");
    ASSERT_FAILS(lk_embedding(t, t, &y), LK_EDTYPE, "table f32[4,2] by f32[4,2]");
    ASSERT_FAILS(lk_embedding(index, index, &y), LK_EDTYPE, "table i32[1] by i32[1]");
    ASSERT_FAILS(lk_embedding(program_leaf(&p, LK_SHAPE(4)), index, &y), LK_ESHAPE,
                 "table f32[4] by i32[1]: the table has two axes");
    program_free(&p);
}

static void look_up(struct program *p, lk_var *y)
{
    enum { N = 3000 };
    static int64_t index[N];
    for (int64_t i = 0; i < N; i++)
        index[i] = i * i % 97;
    ASSERT_OK(lk_tape_set_shard_size(p->tape, 64));
    lk_var t = program_leaf(p, LK_SHAPE(97, 130));
    ASSERT_OK(lk_embedding(t, values_index(p, false, LK_SHAPE(N), index), y));
}

TEST(every_thread_count_and_instruction_set_gives_the_same_bits)
{
    test_same_bits_everywhere(look_up);
}
