/* Halos and neighbours on the tape: values against the whole, derivatives against differences. */
#include "adjoints.h"
#include "sent_bytes.h"

/* A grid of this many ranks: 1x1, 1x2, 1x3, 2x2, 1x5, 1x7, 2x4. */
static lk_grid grid_of(lk_comm *c, bool periodic)
{
    lk_grid g;
    int size = lk_comm_size(c), rows = size % 2 == 0 && size > 2 ? 2 : 1;
    ASSERT_OK(lk_grid_make(c, 2, (int[]){rows, size / rows}, (bool[]){periodic, periodic}, &g));
    return g;
}

/* Sizes of tiles differ: at coordinate c of axis 0 or 1 of the grid. */
static int64_t height(int c)
{
    return 2 + c % 2;
}

static int64_t width(int c)
{
    return 3 - c % 2;
}

static lk_shape tile(int rank, int size)
{
    int rows = size % 2 == 0 && size > 2 ? 2 : 1, columns = size / rows;
    return LK_SHAPE(width(rank % columns), 1, height(rank / columns));
}

/* Axis 0 of the value is cut along axis 1 of the grid and axis 2 along axis 0. */
static lk_status halo(lk_comm *c, bool periodic, bool zeros, lk_var x, lk_var *y)
{
    lk_grid g = grid_of(c, periodic);
    /* A different width on the low side of odd columns, as tiles of a convolution have it. */
    const lk_halo h[2] = {{2, 0, 1, 2, zeros}, {0, 1, 1 + g.at[1] % 2, 1, zeros}};
    return LK_TRACE(lk_dist_halo(c, &g, x, h, 2, "u", y));
}

static lk_status around(lk_comm *c, lk_var x, lk_var *y)
{
    LK_TRY(halo(c, true, false, x, y));
    return LK_TRACE(lk_square(*y, y));
}

static lk_status bounded(lk_comm *c, lk_var x, lk_var *y)
{
    LK_TRY(halo(c, false, false, x, y));
    return LK_TRACE(lk_square(*y, y));
}

static lk_status padded(lk_comm *c, lk_var x, lk_var *y)
{
    LK_TRY(lk_square(x, y));
    return LK_TRACE(halo(c, false, true, *y, y));
}

/* One row to the left and two to the right round the ring, both from the same rank in a ring of 2. */
static lk_shape three_rows(int rank, int size)
{
    (void)rank;
    (void)size;
    return LK_SHAPE(2, 3);
}

static lk_status neighbours(lk_comm *c, lk_var x, lk_var *y)
{
    int rank = lk_comm_rank(c), size = lk_comm_size(c);
    const lk_neighbours to = {.n = 3,
                              .rank = (int[]){(rank + size - 1) % size, -1, (rank + 1) % size},
                              .send = (int64_t[]){1, 5, 2},
                              .receive = (int64_t[]){2, 5, 1},
                              .peer_slot = (int[]){2, 1, 0}};
    LK_TRY(lk_dist_neighbor_alltoall(c, x, 1, &to, "ring", y));
    return LK_TRACE(lk_mul(*y, x, y));
}

static const struct program programs[] = {{"periodic", tile, around},
                                          {"bounded", tile, bounded},
                                          {"padded", tile, padded},
                                          {"neighbours", three_rows, neighbours}};

/* ---- values: every element of the whole is its own number ---- */

struct line {
    int64_t start[16], all; /* where tiles begin along a grid axis */
};

static struct line line_of(int n, int64_t (*size)(int))
{
    struct line l = {.all = 0};
    for (int c = 0; c < n; c++) {
        l.start[c] = l.all;
        l.all += size(c);
    }
    return l;
}

/* The number at (i, j) of the whole, where it continues periodically; 0 or nothing beyond. */
static double number_at(const struct line *rows, const struct line *columns, int64_t i, int64_t j,
                        bool periodic)
{
    bool inside = i >= 0 && i < rows->all && j >= 0 && j < columns->all;
    if (!inside && !periodic)
        return 0;
    i = (i + rows->all) % rows->all;
    j = (j + columns->all) % columns->all;
    return 1 + (double)(i * columns->all + j);
}

RANKS_TEST(values_are_those_of_the_whole)
{
    for (int kind = 0; kind < 3; kind++) {
        bool periodic = kind == 0, zeros = kind == 2;
        lk_grid g = grid_of(comm, periodic);
        struct line rows = line_of(g.dim[0], height), columns = line_of(g.dim[1], width);
        int64_t i0 = rows.start[g.at[0]], j0 = columns.start[g.at[1]];
        int64_t h = height(g.at[0]), w = width(g.at[1]), low = 1 + g.at[1] % 2;
        bool all = periodic || zeros;
        int64_t above = all || g.at[0] > 0 ? 1 : 0, below = all || g.at[0] + 1 < g.dim[0] ? 2 : 0;
        int64_t left = all || g.at[1] > 0 ? low : 0, right = all || g.at[1] + 1 < g.dim[1] ? 1 : 0;
        lk_tape *tape;
        lk_tensor *t;
        const lk_tensor *got;
        lk_var x, y;
        ASSERT_OK(lk_tape_new(&tape));
        ASSERT_OK(lk_tensor_new(LK_I32, LK_SHAPE(w, 1, h), &t));
        for (int64_t j = 0; j < w; j++)
            for (int64_t i = 0; i < h; i++)
                ASSERT_OK(lk_tensor_set_f64(t, LK_SHAPE(j, 0, i),
                                            number_at(&rows, &columns, i0 + i, j0 + j, false)));
        ASSERT_OK(lk_constant(tape, t, &x));
        ASSERT_OK(halo(comm, periodic, zeros, x, &y));
        ASSERT_OK(lk_value(y, &got));
        ASSERT_TRUE(lk_shape_is_equal(lk_tensor_shape(got),
                                      LK_SHAPE(left + w + right, 1, above + h + below)));
        for (int64_t j = 0; j < left + w + right; j++)
            for (int64_t i = 0; i < above + h + below; i++) {
                double v;
                ASSERT_OK(lk_tensor_get_f64(got, LK_SHAPE(j, 0, i), &v));
                ASSERT_EQ(v, number_at(&rows, &columns, i0 - above + i, j0 - left + j, periodic));
            }
        lk_tape_free(tape);
        lk_tensor_free(t);
    }
}

/* Without axes it is a copy. */
RANKS_TEST(no_halo_is_the_tile)
{
    lk_tape *tape;
    lk_grid g = grid_of(comm, true);
    lk_var x, y, z;
    const lk_tensor *a, *b;
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_full(tape, LK_F32, LK_SHAPE(2, 0, 3), 1, &x));
    ASSERT_OK(lk_dist_halo(comm, &g, x, NULL, 0, "none", &y));
    ASSERT_OK(lk_dist_halo(comm, &g, x, (lk_halo[]){{0, 1, 0, 0, true}}, 1, "no rows", &z));
    ASSERT_OK(lk_value(y, &a));
    ASSERT_OK(lk_value(z, &b));
    ASSERT_TRUE(lk_tensor_is_equal(a, b) && lk_shape_is_equal(lk_tensor_shape(a), lk_shape_of(x)));
    lk_tape_free(tape);
}

/* Corners come through the neighbours of two faces: nothing is sent to the rank behind a corner. */
RANKS_TEST(messages_go_through_faces_alone)
{
    static const int step[][2] = {{-1, 0}, {1, 0}, {0, -1}, {0, 1}};
    lk_grid g = grid_of(comm, false);
    lk_shape shape = tile(lk_comm_rank(comm), lk_comm_size(comm));
    uint64_t faces = 0;
    lk_tape *tape;
    lk_var x, y;
    for (int i = 0; i < 4; i++)
        if (lk_grid_rank(&g, step[i]) >= 0)
            faces |= UINT64_C(1) << lk_grid_rank(&g, step[i]);
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_full(tape, LK_F64, shape, 1, &x));
    bytes_begin(comm);
    ASSERT_OK(halo(comm, false, false, x, &y));
    ASSERT_EQ(bytes_end(comm).neighbours, faces);
    lk_tape_free(tape);
}

RANKS_TEST(derivatives_are_those_of_the_sum_of_all_losses)
{
    check_programs(comm, programs, sizeof programs / sizeof programs[0]);
}
