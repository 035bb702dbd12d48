/* Sums over tiles: all tiles up to 5 x 4 x 3, on all grids of the ranks that there are, against a naive
 * nested tree, by bits, of numbers for which the order counts; each_tile as its adjoint; and failures.
 */
#include "kernel/reference/reference.h"
#include "scarce_ranks.h"
#include "tilings.h"

#include <lockstep/coll.h>

enum { N = 3, MOST = 5 * 4 * 3 };

/* What tile number i of all says of element e. */
static float said(int64_t i, int64_t e)
{
    return (float)cut_real((int)i, e, LK_F32);
}

/* ---- naive sums ---- */

static float tree(const float *v, int64_t n)
{
    float sum;
    lk__ref_tree_vectors(LK_F32, n, 1, v, &sum, NULL);
    return sum;
}

/* Planes of rows of columns: the last axis is joined first. */
static float nested(const float *v, const int64_t *tiles)
{
    float row[20], plane[20];
    for (int64_t i = 0; i < tiles[0]; i++) {
        for (int64_t k = 0; k < tiles[1]; k++)
            row[k] = tree(v + (i * tiles[1] + k) * tiles[2], tiles[2]);
        plane[i] = tree(row, tiles[1]);
    }
    return tree(plane, tiles[0]);
}

/* One tree over tiles numbered by the interleaved bits of row and column: not what is promised. */
static float z_order(const float *v, int64_t rows, int64_t columns)
{
    float sorted[MOST];
    int64_t n = 0;
    for (int64_t code = 0; code < 64; code++) {
        int64_t at[2] = {0, 0};
        for (int bit = 0; bit < 6; bit++)
            at[bit % 2 == 0] |= ((code >> bit) & 1) << bit / 2;
        if (at[0] < rows && at[1] < columns)
            sorted[n++] = v[at[0] * columns + at[1]];
    }
    ASSERT_EQ(n, rows * columns);
    return tree(sorted, n);
}

/* ---- cases ---- */

/* One tiling, what this rank's tiles say, and what comes of it. */
typedef struct sums {
    lk_tiling *tiling;
    int64_t tiles[LK_TILE_AXES];
    lk_tape *tape;
    lk_tensor *leaves, *want; /* [leaves][N], [N] */
} sums;

static void sums_begin(sums *s, lk_comm *comm, int ndim, const int *dim, const int64_t *tiles)
{
    lk_grid grid;
    void *data;
    float all[MOST];
    ASSERT_OK(lk_grid_make(comm, ndim, dim, NULL, &grid));
    ASSERT_OK(lk_tiling_new(comm, &grid, tiles, 0, &s->tiling));
    memcpy(s->tiles, s->tiling->tiles, sizeof s->tiles);
    ASSERT_OK(lk_tape_new(&s->tape));
    const lk_range *held = s->tiling->held;
    int64_t n = lk_tiling_leaves(s->tiling), count = s->tiles[0] * s->tiles[1] * s->tiles[2];
    ASSERT_OK(lk_tensor_new(LK_F32, LK_SHAPE(n, N), &s->leaves));
    ASSERT_OK(lk_tensor_new(LK_F32, LK_SHAPE(N), &s->want));
    ASSERT_OK(lk_tensor_writable_data(s->leaves, &data));
    float *leaf = data;
    for (int64_t i = held[0].first; i < held[0].first + held[0].n; i++)
        for (int64_t k = held[1].first; k < held[1].first + held[1].n; k++)
            for (int64_t l = held[2].first; l < held[2].first + held[2].n; l++)
                for (int64_t e = 0; e < N; e++)
                    *leaf++ = said((i * s->tiles[1] + k) * s->tiles[2] + l, e);
    ASSERT_OK(lk_tensor_writable_data(s->want, &data));
    for (int64_t e = 0; e < N; e++) {
        for (int64_t i = 0; i < count; i++)
            all[i] = said(i, e);
        ((float *)data)[e] = nested(all, s->tiles);
    }
}

static void sums_end(sums *s)
{
    lk_tape_free(s->tape);
    lk_tensor_free(s->leaves);
    lk_tensor_free(s->want);
    lk_tiling_free(s->tiling);
}

static const lk_tensor *value(lk_var v)
{
    const lk_tensor *t;
    ASSERT_OK(lk_value(v, &t));
    return t;
}

static void assert_tensor(const lk_tensor *got, const lk_tensor *want)
{
    size_t bytes = (size_t)lk_tensor_count(want) * lk_dtype_size(lk_tensor_dtype(want));
    ASSERT_TRUE(lk_shape_is_equal(lk_tensor_shape(got), lk_tensor_shape(want)));
    ASSERT_SAME_BITS(lk_tensor_data(got), lk_tensor_data(want), bytes);
}

static void sum_of(sums *s);

/* All grids of all ranks, with all numbers of tiles that are enough; but for sums on threads every day some
 * of them. */
static void each_tiling(lk_comm *comm, int ndim, void (*run)(sums *s))
{
    bool on_threads = strcmp(lk_comm_transport(comm), "mpi") != 0 && !ranks_brief();
    int size = lk_comm_size(comm), every = test_whole() || (run == sum_of && on_threads) ? 1 : 4;
    int number = 0;
    int64_t t[3] = {1, 1, 1};
    int64_t most[3] = {ndim == 1 ? 17 : 5, ndim > 1 ? 4 : 1, ndim > 2 ? 3 : 1};
    for (t[0] = 1; t[0] <= most[0]; t[0]++)
        for (t[1] = 1; t[1] <= most[1]; t[1]++)
            for (t[2] = 1; t[2] <= most[2]; t[2]++)
                for (int a = 1; a <= t[0]; a++)
                    for (int b = 1; b <= t[1]; b++) {
                        int dim[3] = {a, b, size / (a * b)};
                        sums s;
                        if (size % (a * b) != 0 || dim[2] > t[2] || number++ % every != 0)
                            continue;
                        sums_begin(&s, comm, ndim, dim, t);
                        run(&s);
                        sums_end(&s);
                    }
}

/* Also on the odd and the even ranks, in reverse. */
static void everywhere(lk_comm *comm, void (*run)(sums *s))
{
    lk_comm *half;
    int rank = lk_comm_rank(comm);
    for (int ndim = 1; ndim <= 2; ndim++)
        each_tiling(comm, ndim, run);
    ASSERT_OK(lk_comm_split(comm, rank % 2, -rank, &half));
    each_tiling(half, 2, run);
    lk_comm_close(half);
}

/* ---- bits ---- */

static void sum_of(sums *s)
{
    lk_var x, y;
    float before[MOST * N];
    size_t bytes = (size_t)lk_tensor_count(s->leaves) * sizeof before[0];
    memcpy(before, lk_tensor_data(s->leaves), bytes);
    ASSERT_OK(lk_constant(s->tape, s->leaves, &x));
    ASSERT_OK(lk_dist_sum_tiles(s->tiling, x, "sum", &y));
    assert_tensor(value(y), s->want);
    ASSERT_SAME_BITS(lk_tensor_data(value(x)), before, bytes); /* joined in a copy */
}

RANKS_TEST(sums_are_those_of_the_nested_tree)
{
    everywhere(comm, sum_of);
    each_tiling(comm, 3, sum_of);
}

/* The numbers can tell one order from another. */
RANKS_TEST(another_tree_has_other_bits)
{
    int differs = 0;
    (void)comm;
    for (int64_t rows = 2; rows <= 5; rows++)
        for (int64_t columns = 2; columns <= 4; columns++)
            for (int64_t e = 0; e < N; e++) {
                float all[MOST];
                for (int64_t i = 0; i < rows * columns; i++)
                    all[i] = said(i, e);
                float a = nested(all, (const int64_t[]){rows, columns, 1});
                float b = z_order(all, rows, columns), c = tree(all, rows * columns);
                ASSERT_NEAR(a, b, 1e-3);
                differs += memcmp(&a, &b, sizeof a) != 0;
                differs += rows == 5 && columns == 3 && memcmp(&a, &c, sizeof a) != 0 ? 100 : 0;
            }
    ASSERT_TRUE(differs > 100 && differs % 100 >= 5);
}

/* ---- adjoints ---- */

/* The gradient of a sum is the seed in each leaf; that of each_tile is the sum. */
static void gradients_of(sums *s)
{
    lk_var x, w, sum, each, dx, dw, seed, again;
    ASSERT_OK(lk_leaf(s->tape, s->leaves, NULL, &x));
    ASSERT_OK(lk_leaf(s->tape, s->want, NULL, &w));
    ASSERT_OK(lk_dist_sum_tiles(s->tiling, x, "sum", &sum));
    ASSERT_OK(lk_dist_each_tile(s->tiling, w, "each", &each));
    ASSERT_EQ(lk_shape_of(each).dim[0], lk_tiling_leaves(s->tiling));
    ASSERT_TRUE(lk_tensor_data(value(each)) == lk_tensor_data(value(w)));
    ASSERT_OK(lk_grad(s->tape, &each, &x, 1, &w, 1, LK_RETAIN_GRAPH, &dw));
    assert_tensor(value(dw), s->want);
    ASSERT_OK(lk_grad(s->tape, &sum, &w, 1, &x, 1, LK_RECORD, &dx));
    for (int64_t i = 0; i < lk_tiling_leaves(s->tiling) * N; i++) {
        double got, want;
        ASSERT_OK(lk_tensor_get_f64(value(dx), LK_AT(i / N, i % N), &got));
        ASSERT_OK(lk_tensor_get_f64(s->want, LK_AT(i % N), &want));
        ASSERT_SAME_BITS(&got, &want, sizeof got);
    }
    /* dx is each_tile of the seed w, so its own gradient is a sum again. */
    ASSERT_OK(lk_constant(s->tape, s->leaves, &seed));
    ASSERT_OK(lk_grad(s->tape, &dx, &seed, 1, &w, 1, LK_RETAIN_GRAPH, &again));
    assert_tensor(value(again), s->want);
}

RANKS_TEST(each_is_the_gradient_of_the_other)
{
    everywhere(comm, gradients_of);
}

/* <sum(x), y>, which all ranks have and counts once, is <x, each(y)> over all ranks, in integers. */
static void identity_of(sums *s)
{
    lk_var x, y, sum, each;
    void *data;
    double sides[2] = {0, 0};
    ASSERT_OK(lk_tensor_writable_data(s->leaves, &data));
    for (int64_t i = 0; i < lk_tensor_count(s->leaves); i++)
        ((float *)data)[i] = (float)cut_integer(s->tiling->rank, i, 1);
    ASSERT_OK(lk_tensor_writable_data(s->want, &data));
    for (int64_t i = 0; i < N; i++)
        ((float *)data)[i] = (float)cut_integer(0, i, 2);
    ASSERT_OK(lk_constant(s->tape, s->leaves, &x));
    ASSERT_OK(lk_constant(s->tape, s->want, &y));
    ASSERT_OK(lk_dist_sum_tiles(s->tiling, x, "sum", &sum));
    ASSERT_OK(lk_dist_each_tile(s->tiling, y, "each", &each));
    for (int64_t i = 0; i < lk_tensor_count(s->leaves); i++) {
        double a, b;
        ASSERT_OK(lk_tensor_get_f64(value(x), LK_AT(i / N, i % N), &a));
        ASSERT_OK(lk_tensor_get_f64(value(each), LK_AT(i / N, i % N), &b));
        sides[1] += a * b;
    }
    const float *a = lk_tensor_data(value(sum)), *b = lk_tensor_data(value(y));
    for (int64_t i = 0; i < N; i++)
        sides[0] += (double)a[i] * (double)b[i];
    if (s->tiling->comm)
        ASSERT_OK(lk_allreduce(s->tiling->comm, NULL, &sides[1], 1, LK_F64, LK_REDUCE_SUM, "side"));
    ASSERT_SAME_BITS(&sides[0], &sides[1], sizeof sides[0]);
}

RANKS_TEST(both_sides_of_the_identity_are_equal)
{
    everywhere(comm, identity_of);
}

/* ---- edges, misuse and failures ---- */

RANKS_TEST(empty_values_and_misfits)
{
    int size = lk_comm_size(comm);
    const int64_t tiles[] = {size + 1};
    lk_grid grid;
    lk_tiling *t;
    lk_tape *tape;
    lk_var x, y;
    ASSERT_OK(lk_grid_make(comm, 1, &size, NULL, &grid));
    ASSERT_OK(lk_tiling_new(comm, &grid, tiles, 0, &t));
    ASSERT_OK(lk_tape_new(&tape));
    int64_t leaves = lk_tiling_leaves(t);
    ASSERT_OK(lk_full(tape, LK_F64, LK_SHAPE(leaves, 0, 4), 1, &x));
    ASSERT_OK(lk_dist_sum_tiles(t, x, "nothing", &y));
    ASSERT_TRUE(lk_shape_is_equal(lk_shape_of(y), LK_SHAPE(0, 4)));
    ASSERT_OK(lk_full(tape, LK_F64, LK_SHAPE(leaves), 1, &x));
    ASSERT_OK(lk_dist_sum_tiles(t, x, "numbers", &y));
    ASSERT_EQ(((const double *)lk_tensor_data(value(y)))[0], size + 1);
    ASSERT_FAILS(lk_dist_sum_tiles(NULL, x, "x", &y), LK_EINVAL, "tiling is NULL");
    ASSERT_FAILS(lk_dist_each_tile(t, x, "x", NULL), LK_EINVAL, "out is NULL");
    ASSERT_FAILS(lk_dist_each_tile(t, LK_NO_VAR, "x", &y), LK_EINVAL, "LK_NO_VAR");
    if (size == 1) { /* with more the job ends */
        ASSERT_OK(lk_full(tape, LK_F64, LK_SHAPE(leaves + 1, 2), 1, &x));
        ASSERT_FAILS(lk_dist_sum_tiles(t, x, "x", &y), LK_ESHAPE, "where this rank has 2 tiles");
        ASSERT_OK(lk_full(tape, LK_I64, LK_SHAPE(leaves, 2), 1, &x));
        ASSERT_FAILS(lk_dist_sum_tiles(t, x, "x", &y), LK_EDTYPE, "only f32 and f64");
        ASSERT_OK(lk_full(tape, LK_F32, LK_SHAPE(1, 1, 1, 1, 1, 1, 1, 1), 1, &x));
        ASSERT_FAILS(lk_dist_each_tile(t, x, "x", &y), LK_ESHAPE, "no room for one more axis");
    }
    lk_tape_free(tape);
    lk_tiling_free(t);
}

static lk_status scarce(lk_comm *comm, void *arg)
{
    lk_status st;
    lk_grid grid;
    lk_tiling *t = NULL;
    lk_tape *tape = NULL;
    lk_var x, y;
    (void)arg;
    LK_TRY(lk_grid_make(comm, 1, (const int[]){2}, NULL, &grid));
    LK_TRY(lk_tiling_new(comm, &grid, (const int64_t[]){3}, 0, &t));
    LK_TRY_TO(done, lk_agree(comm, lk_tape_new(&tape)));
    LK_TRY_TO(done, lk_agree(comm, lk_full(tape, LK_F32, LK_SHAPE(lk_tiling_leaves(t), 9), 1, &x)));
    LK_TRY_TO(done, lk_dist_sum_tiles(t, x, "sum", &y));
    LK_TRY_TO(done, lk_dist_each_tile(t, y, "each", &y));
done:
    lk_tape_free(tape);
    lk_tiling_free(t);
    return st;
}

RANKS_TEST(scarce_memory_is_told)
{
    if (lk_comm_size(comm) == 1 && strcmp(lk_comm_transport(comm), "mpi") != 0)
        expect_scarce_memory_is_told(scarce);
}
