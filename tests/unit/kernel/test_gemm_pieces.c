/* Matrix multiplication whose sums are cut into pieces: what is left of rows, columns, pieces, and of
 * whatever a kernel takes together, in every instruction set, against the definition, bit for bit. */
#include "gemm_case.h"

#include <pthread.h>

/* One to nine pieces or leaves, whole and with a rest, and pieces longer than what is packed at once.
 */
TEST(any_number_of_pieces_follows_the_tree)
{
    static const int64_t pieces[] = {1, 16, 24, 100, 128, 196, 256, 300, 700, 1100};
    for (int i = 0; i < 10; i++)
        for (int64_t n = 1; n <= 9; n += TEST_SLOWNESS > 1 ? 4 : 1) {
            const int64_t piece = pieces[i], k = (piece < 100 ? 200 : piece) * n;
            if (k > 2500)
                continue;
            case_check_shape(3, 5,
                             k + (n % 3 == 0   ? 0
                                  : n % 3 == 1 ? 1
                                               : piece / 2),
                             piece, n % 2, false);
        }
}

TEST(every_number_of_rows_is_the_same_tree)
{
    const int64_t step = TEST_SLOWNESS > 1 ? 7 : 1;
    for (int64_t m = 1; m <= 51; m += step)
        case_check_shape(m, m % 2 ? 5 : 35, 270, m % 3 ? 90 : 40, m % 3, false);
    case_check_shape(163, 20, 300, 100, 0, false);
}

TEST(every_number_of_columns_is_the_same_tree)
{
    const int64_t step = TEST_SLOWNESS > 1 ? 7 : 1;
    for (int64_t n = 1; n <= 67; n += step)
        case_check_shape(n % 2 ? 4 : 13, n, 270, n % 3 ? 100 : 32, n % 3, false);
    case_check_shape(14, 139, 520, 130, 0, false);
    case_check_shape(50, 261, 300, 16, 1, false);
}

/* One row or one column, which is a row of the transpose. */
TEST(one_row_is_the_same_tree)
{
    static const int64_t pieces[] = {1, 3, 64, 70, 131, 200};
    for (int i = 0; i < 6; i++) {
        case_check_shape(1, 70 + 41 * i, 263 + i, pieces[i], 0, false);
        case_check_shape(203 + i, 1, 263 + i, pieces[i], 0, false);
        case_check_shape(1, 97, 300, pieces[i], 1, true);
    }
    const lk_gemm g = {.m = 1, .n = 5003, .k = 1030, .piece = 1};
    struct gemm_case x = case_new(g, 0, true, false);
    case_check_everywhere(&x, 3);
    case_free(&x);
    ASSERT_OK(lk_threads_set(0));
}

/* Zeros of both signs, denormals and infinities: nothing is added that the tree does not have. */
TEST(odd_numbers_take_part_in_the_tree)
{
    for (int64_t piece = 7; piece < 600; piece *= 3)
        case_check_shape(15, 39, 555, piece, 1, true);
}

/* So many pieces that blocks of C must be smaller, for their sums have no more room. */
TEST(many_pieces_follow_the_tree)
{
    static const lk_gemm many[] = {{.m = 155, .n = 100, .k = 1100, .piece = 1},
                                   {.m = 155, .n = 100, .k = 1100, .piece = 1, .trans_b = true},
                                   {.m = 80, .n = 9, .k = 33100, .piece = 16, .trans_a = true},
                                   {.m = 80, .n = 9, .k = 33100, .piece = 150, .trans_a = true}};
    for (int i = 0; i < (TEST_SLOWNESS > 1 ? 1 : 4); i++) {
        struct gemm_case x = case_new(many[i], 0, i % 2, false);
        case_check_everywhere(&x, 1);
        case_free(&x);
    }
}

TEST(threads_never_change_the_tree)
{
    for (int kind = 0; kind < 4; kind++) {
        const lk_gemm g = {.dtype = LK_F32,
                           .trans_a = kind & 1,
                           .trans_b = kind & 2,
                           .m = 205,
                           .n = 303,
                           .k = 410,
                           .piece = 100};
        struct gemm_case x = case_new(g, 0, true, false);
        case_check_everywhere(&x, 4);
        case_free(&x);
    }
    ASSERT_OK(lk_threads_set(0));
}

/* Each way to compute that has pieces. */
static void *products_run(void *arg)
{
    static const lk_gemm by[] = {{.m = 80, .n = 9, .k = 2100, .piece = 16, .trans_a = true},
                                 {.m = 80, .n = 90, .k = 2100, .piece = 16, .trans_a = true},
                                 {.m = 80, .n = 90, .k = 300, .piece = 16},
                                 {.m = 1, .n = 90, .k = 300, .piece = 70, .trans_b = true}};
    for (int i = 0; i < 4; i++) {
        struct gemm_case x = case_new(by[i], 0, false, false);
        case_check_everywhere(&x, 1);
        case_free(&x);
    }
    return arg;
}

/* lockstep/thread.h promises 512 KiB, some of which are whoever's who calls.  Sanitizers need more. */
TEST(products_need_no_more_stack_than_promised)
{
    pthread_attr_t attr;
    pthread_t host;
    ASSERT_EQ(pthread_attr_init(&attr), 0);
    ASSERT_EQ(pthread_attr_setstacksize(&attr, TEST_SLOWNESS > 1 ? 2 << 20 : 480 << 10), 0);
    ASSERT_EQ(pthread_create(&host, &attr, products_run, NULL), 0);
    ASSERT_EQ(pthread_join(host, NULL), 0);
    pthread_attr_destroy(&attr);
}
