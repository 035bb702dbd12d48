/* The tree as a stream: pieces pushed in order, or runs of pieces joined by ranks, give one sum. */
#include "all_threads.h"
#include "guard.h"
#include "harness.h"
#include "kernel/reference/reference.h"
#include "real.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/extra/isa.h>
#include <lockstep/thread.h>

#include <fenv.h>

static const lk_dtype dtypes[] = {LK_F32, LK_F64};

static void push_all(lk_tree *tree, lk_dtype t, const void *x, int64_t n, int64_t count)
{
    for (int64_t p = 0; p < n; p++)
        ASSERT_OK(lk_tree_push(tree, (const char *)x + p * count * (int64_t)lk_dtype_size(t)));
}

static void check_tree(lk_dtype t, int64_t n, int64_t count)
{
    size_t elem = lk_dtype_size(t);
    struct guard x = guard_real(t, n * count, (uint64_t)(7 * n + count), n % 2),
                 sum = guard_new((size_t)count * elem), want = guard_new((size_t)count * elem);
    lk__ref_tree_vectors(t, n, count, x.data, want.data, NULL);
    lk_tree *tree;
    ASSERT_OK(lk_tree_new(t, count, &tree));
    for (int round = 0; round < 2; round++) { /* a finished tree starts anew */
        push_all(tree, t, x.data, n, count);
        memset(sum.data, 0x55, (size_t)count * elem);
        ASSERT_OK(lk_tree_finish(tree, sum.data));
        ASSERT_EQ(real_differ(t, sum.data, want.data, count), count);
    }
    lk_tree_free(tree);
    guard_free(&x);
    guard_free(&sum);
    guard_free(&want);
}

TEST(any_number_of_pieces_gives_the_fixed_tree)
{
    static const int64_t count[] = {0, 1, 5, 64, 1500};
    for (int isa = 0; isa < LK_N_ISAS; isa++) {
        if (!lk_isa_is_available((lk_isa)isa))
            continue;
        ASSERT_OK(lk_isa_set((lk_isa)isa));
        for (int d = 0; d < 2; d++)
            for (int64_t n = 0; n <= 33; n++)
                for (int c = 0; c < 5; c++)
                    check_tree(dtypes[d], n, count[c]);
    }
}

TEST(large_pieces_give_the_same_bits_on_any_number_of_threads)
{
    for (int threads = 1; threads <= 4; threads++) {
        all_threads_set(threads);
        check_tree(LK_F32, 13, 100003);
        check_tree(LK_F64, 7, 50021);
    }
}

/* Ranks that hold runs of pieces reduce them alone; the tree over runs is the tree over all. */
TEST(splitting_an_axis_at_pieces_changes_no_bit)
{
    enum { N = 1000, INNER = 3, PIECE = 16 };
    static double x[N][INNER];
    double whole[INNER], part[INNER], sum[INNER];
    real_fill(LK_F64, x, N * INNER, 1, false);
    lk_reduce_axis_shape s = {1, N, INNER, PIECE};
    ASSERT_OK(lk_reduce_axis(LK_F64, LK_REDUCE_AXIS_SUM, &s, x, whole));
    for (int64_t run = 1; run <= 64; run *= 2) { /* an aligned power of two of pieces */
        lk_tree *tree;
        ASSERT_OK(lk_tree_new(LK_F64, INNER, &tree));
        for (int64_t first = 0; first < N; first += run * PIECE) {
            s.n = N - first < run * PIECE ? N - first : run * PIECE;
            ASSERT_OK(lk_reduce_axis(LK_F64, LK_REDUCE_AXIS_SUM, &s, x[first], part));
            ASSERT_OK(lk_tree_push(tree, part));
        }
        ASSERT_OK(lk_tree_finish(tree, sum));
        ASSERT_TRUE(memcmp(whole, sum, sizeof whole) == 0);
        lk_tree_free(tree);
    }
}

TEST(a_piece_may_change_after_it_was_pushed)
{
    float piece[3] = {1, 2, 3}, sum[3];
    lk_tree *tree;
    ASSERT_OK(lk_tree_new(LK_F32, 3, &tree));
    for (int i = 0; i < 6; i++) {
        ASSERT_OK(lk_tree_push(tree, piece));
        for (int j = 0; j < 3; j++)
            piece[j] += 1;
    }
    ASSERT_OK(lk_tree_finish(tree, sum));
    for (int j = 0; j < 3; j++)
        ASSERT_NEAR(sum[j], 21 + 6 * j, 0);
    lk_tree_free(tree);
}

TEST(a_second_round_allocates_nothing)
{
    float piece[100] = {0}, sum[100];
    lk_tree *tree;
    ASSERT_OK(lk_tree_new(LK_F32, 100, &tree));
    push_all(tree, LK_F32, piece, 1, 100);
    for (int i = 1; i < 63; i++)
        ASSERT_OK(lk_tree_push(tree, piece));
    ASSERT_OK(lk_tree_finish(tree, sum));
    lk_alloc_stats before = lk_alloc_stats_now();
    ASSERT_TRUE(before.live_blocks <= 7); /* the tree and six sums */
    for (int i = 0; i < 63; i++)
        ASSERT_OK(lk_tree_push(tree, piece));
    ASSERT_OK(lk_tree_finish(tree, sum));
    ASSERT_EQ(lk_alloc_stats_now().calls, before.calls);
    lk_tree_free(tree);
    lk_tree_free(NULL);
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

/* Push ten pieces into a new tree; each allocation on the way may fail. */
static lk_status sum_ten(float *sum)
{
    lk_tree *tree = NULL;
    lk_status st;
    LK_TRY_TO(done, lk_tree_new(LK_F32, 1, &tree));
    for (int i = 0; i < 10; i++)
        LK_TRY_TO(done, lk_tree_push(tree, &(float){(float)i}));
    LK_TRY_TO(done, lk_tree_finish(tree, sum));
done:
    lk_tree_free(tree);
    return st;
}

TEST(every_failed_allocation_is_reported_and_nothing_leaks)
{
    float sum = 0;
    int64_t failures = 0;
    for (int64_t n = 1; n < 100; n++) {
        lk_alloc_fail_at(n);
        lk_status st = sum_ten(&sum);
        lk_alloc_fail_at(0);
        ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
        if (st == LK_OK)
            break;
        ASSERT_EQ(st, LK_ENOMEM);
        failures++;
    }
    ASSERT_TRUE(failures >= 3);
    ASSERT_NEAR(sum, 45, 0);
}

/* A failed push leaves the tree as it was: pushing again goes on. */
TEST(a_failed_push_can_be_repeated)
{
    float sum;
    lk_tree *tree;
    ASSERT_OK(lk_tree_new(LK_F32, 1, &tree));
    for (int i = 0; i < 10; i++) {
        int64_t calls = lk_alloc_stats_now().calls;
        lk_alloc_fail_at(1);
        lk_status st = lk_tree_push(tree, &(float){(float)i});
        lk_alloc_fail_at(0);
        if (lk_alloc_stats_now().calls > calls) {
            ASSERT_EQ(st, LK_ENOMEM);
            st = lk_tree_push(tree, &(float){(float)i});
        }
        ASSERT_OK(st);
    }
    ASSERT_OK(lk_tree_finish(tree, &sum));
    ASSERT_NEAR(sum, 45, 0);
    lk_tree_free(tree);
}

TEST(bad_input_is_refused_by_name)
{
    lk_tree *tree;
    float v[3] = {0};
    ASSERT_FAILS(lk_tree_new(LK_I64, 3, &tree), LK_EDTYPE, "pieces of i64");
    ASSERT_FAILS(lk_tree_new(LK_F32, -1, &tree), LK_EINVAL, "pieces of -1 elements");
    ASSERT_FAILS(lk_tree_new(LK_F64, INT64_MAX / 4, &tree), LK_EOVERFLOW, "elements of f64");
    ASSERT_FAILS(lk_tree_new(LK_F32, 3, NULL), LK_EINVAL, "out is NULL");
    ASSERT_FAILS(lk_tree_push(NULL, v), LK_EINVAL, "tree is NULL");
    ASSERT_FAILS(lk_tree_finish(NULL, v), LK_EINVAL, "tree is NULL");
    ASSERT_OK(lk_tree_new(LK_F32, 3, &tree));
    ASSERT_FAILS(lk_tree_push(tree, NULL), LK_EINVAL, "piece of 3 elements is NULL");
    ASSERT_FAILS(lk_tree_finish(tree, NULL), LK_EINVAL, "sum of 3 elements is NULL");
    fesetround(FE_DOWNWARD);
    lk_status push = lk_tree_push(tree, v), finish = lk_tree_finish(tree, v);
    fesetround(FE_TONEAREST);
    ASSERT_EQ(push, LK_EFPENV);
    ASSERT_EQ(finish, LK_EFPENV);
    lk_tree_free(tree);
}
