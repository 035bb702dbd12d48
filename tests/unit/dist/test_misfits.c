/* Sizes that do not fit between ranks: halos, lists and counts, shown as they were given. */
#include "memory_ranks.h"
#include "sides.h"

#include <lockstep/extra/alloc.h>

/* Rank 2 of 3 has a tile of one row, and rank 1 wants two of them. */
static lk_status wide_halo(lk_comm *comm, void *arg)
{
    lk_status st;
    struct side s = {0};
    lk_grid g;
    lk_var y;
    int rank = lk_comm_rank(comm);
    const lk_halo h = {0, 0, 0, rank == 1 ? 2 : 1, false};
    (void)arg;
    LK_TRY_TO(done, side_begin(comm, rank == 2 ? 1 : 4, &s));
    LK_TRY_TO(done, lk_grid_make(comm, 1, (int[]){3}, NULL, &g));
    LK_TRY_TO(done, lk_dist_halo(comm, &g, s.x, &h, 1, "u", &y));
    LK_TRY_TO(done, lk_dist_barrier(s.tape, comm, "next"));
done:
    side_end(&s);
    return st;
}

/* Rank 1 has a tile of another shape across the axis. */
static lk_status other_tile(struct side *s, int other)
{
    lk_grid g;
    lk_var x, y;
    LK_TRY(lk_grid_make(s->comm, 1, (int[]){2}, NULL, &g));
    LK_TRY(lk_reshape(s->x, other == 1 ? LK_SHAPE(2, 3) : LK_SHAPE(3, 2), &x));
    return LK_TRACE(lk_dist_halo(s->comm, &g, x, (lk_halo[]){{0, 0, 1, 1, false}}, 1, "u", &y));
}

static lk_status halo_with(lk_comm *comm, void *arg)
{
    lk_status st;
    struct side s = {0};
    lk_grid g;
    lk_var y;
    LK_TRY_TO(done, side_begin(comm, 3, &s));
    LK_TRY_TO(done, lk_grid_make(comm, 2, (int[]){1, 2}, NULL, &g));
    LK_TRY_TO(done, lk_dist_halo(comm, &g, s.x, arg, 2, "u", &y));
done:
    side_end(&s);
    return st;
}

TEST(halos_that_do_not_fit_name_both_ranks)
{
    ASSERT_FAILS(lk_run_local(3, wide_halo, NULL), LK_ESHAPE,
                 "halo(\"u\"): rank 1 wants 2 rows above its tile along axis 0, but its neighbour "
                 "there, rank 2, has 1, a tile [1]");
    ASSERT_FAILS(both(other_tile, 6), LK_ESHAPE, "across that axis they must be the same");
    lk_halo negative[2] = {{0, 0, -1, 1, false}};
    ASSERT_FAILS(lk_run_local(2, halo_with, negative), LK_EINVAL, "-1 and 1 rows wide");
    lk_halo twice[2] = {{0, 0, 1, 1, false}, {0, 1, 1, 1, false}};
    ASSERT_FAILS(lk_run_local(2, halo_with, twice), LK_EINVAL, "have the same axis");
    lk_halo beyond[2] = {{1, 0, 1, 1, false}};
    ASSERT_FAILS(lk_run_local(2, halo_with, beyond), LK_EINVAL, "axis 1 of a value [3]");
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

/* Three ranks in a line give a value of a number of rows, and say how wide its halos are.  None goes away
 * before all know of the error. */
struct line_tiles {
    int64_t rows[3], low[3], high[3];
    lk_dtype dtype[3]; /* f32: 0 */
    bool halo[3];      /* calls the other one */
    atomic_int returned;
    lk_status status[3];
};

static lk_status line_adds(lk_comm *comm, void *arg)
{
    struct line_tiles *t = arg;
    lk_status st;
    struct side s = {0};
    lk_grid g;
    lk_var x, y;
    int rank = lk_comm_rank(comm);
    const lk_halo h = {0, 0, t->low[rank], t->high[rank], false};
    LK_TRY_TO(done, side_begin(comm, t->rows[rank], &s));
    LK_TRY_TO(done, lk_cast(s.x, t->dtype[rank], &x));
    LK_TRY_TO(done, lk_grid_make(comm, 1, (int[]){3}, NULL, &g));
    if (t->halo[rank])
        LK_TRY_TO(done, lk_dist_halo(comm, &g, x, &h, 1, "u", &y));
    else
        LK_TRY_TO(done, lk_dist_halo_add(comm, &g, x, &h, 1, "u", &y));
    LK_TRY_TO(done, lk_dist_barrier(s.tape, comm, "next"));
done:
    side_end(&s);
    t->status[rank] = st;
    memory_meet(&t->returned, 3);
    return st;
}

static void assert_line_fails(struct line_tiles t, lk_status status, const char *text)
{
    ASSERT_FAILS(lk_run_local(3, line_adds, &t), status, text);
    for (int r = 0; r < 3; r++)
        ASSERT_EQ(t.status[r], status);
}

TEST(sums_of_halos_that_do_not_fit_name_both_ranks)
{
    const struct line_tiles fits = {.rows = {4, 5, 4}, .low = {1, 1, 1}, .high = {1, 1, 1}};
    struct line_tiles few = fits, wide = fits, dtypes = fits, other = fits, integers = fits;
    few.rows[1] = 2;
    few.low[1] = 2;
    assert_line_fails(
        few, LK_ESHAPE,
        "halo_add(\"u\"): rank 1 gives a value [2], which has fewer rows along axis 0 "
        "than its halos, 2 and 1");
    wide.rows[2] = 2;
    wide.high[1] = 2;
    assert_line_fails(wide, LK_ESHAPE,
                      "halo_add(\"u\"): rank 1 wants 2 rows above its tile along axis 0, but its "
                      "neighbour there, rank 2, has 1, a tile [1]");
    dtypes.dtype[2] = LK_F64;
    assert_line_fails(dtypes, LK_ESHAPE, "across that axis they must be the same");
    other.halo[2] = true;
    assert_line_fails(other, LK_EMISMATCH, "its neighbour along axis 0, calls halo");
    for (int r = 0; r < 3; r++)
        integers.dtype[r] = LK_I32;
    assert_line_fails(integers, LK_EDTYPE, ": only f32 and f64 are computed with");
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

/* Rank 1 of four has another grid: of other sizes, or around one axis; or takes its axes in another order. */
enum { GRID_SIZES, GRID_PERIODIC, GRID_AXES, N_GRID_FAULTS };

struct grid_fault {
    int fault;
    bool adds;
};

static lk_status other_grid(lk_comm *comm, void *arg)
{
    const struct grid_fault *f = arg;
    int fault = lk_comm_rank(comm) == 1 ? f->fault : N_GRID_FAULTS;
    const int dim[2] = {fault == GRID_SIZES ? 1 : 2, fault == GRID_SIZES ? 4 : 2};
    const bool periodic[2] = {fault == GRID_PERIODIC, false};
    const lk_halo h[2] = {{0, fault == GRID_AXES, 1, 1, false},
                          {1, fault != GRID_AXES, 1, 1, false}};
    lk_status st;
    struct side s = {0};
    lk_grid g;
    lk_var x, y;
    LK_TRY_TO(done, side_begin(comm, 16, &s));
    LK_TRY_TO(done, lk_reshape(s.x, LK_SHAPE(4, 4), &x));
    LK_TRY_TO(done, lk_grid_make(comm, 2, dim, periodic, &g));
    if (f->adds)
        LK_TRY_TO(done, lk_dist_halo_add(comm, &g, x, h, 2, "u", &y));
    else
        LK_TRY_TO(done, lk_dist_halo(comm, &g, x, h, 2, "u", &y));
    LK_TRY_TO(done, lk_dist_barrier(s.tape, comm, "next"));
done:
    side_end(&s);
    return st;
}

TEST(grids_that_differ_are_named)
{
    for (int adds = 0; adds < 2; adds++) {
        struct grid_fault f = {GRID_SIZES, adds == 1};
        ASSERT_FAILS(lk_run_local(4, other_grid, &f), LK_EMISMATCH,
                     "rank 0 has a grid [2,2] and rank 1, its neighbour along axis 1, has [1,4], "
                     "or other axes are periodic");
        f.fault = GRID_PERIODIC;
        ASSERT_FAILS(lk_run_local(4, other_grid, &f), LK_EMISMATCH,
                     "or other axes are periodic: all must give the same grid");
        f.fault = GRID_AXES;
        ASSERT_FAILS(lk_run_local(4, other_grid, &f), LK_ESHAPE,
                     "or other halos: across that axis they must be the same");
    }
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

static lk_status gathers_two_dtypes(struct side *s, int other)
{
    lk_var all[2], x = s->x;
    if (other == 0)
        LK_TRY(lk_cast(x, LK_F32, &x));
    return LK_TRACE(lk_dist_allgather_list(s->comm, x, "all", all));
}

static lk_status receives_too_many(struct side *s, int other)
{
    lk_var got[1];
    lk_list list = {got, 0, 1};
    if (other == 1)
        LK_TRY(lk_dist_send_list(s->comm, (lk_var[]){s->x, s->x}, 2, other, 1, "pair", NULL));
    else
        LK_TRY(lk_dist_recv_list(s->tape, s->comm, other, 1, "pair", &list));
    return LK_OK;
}

static lk_status receives_no_list(struct side *s, int other)
{
    lk_var got[1];
    lk_list list = {got, 0, 1};
    if (other == 1)
        LK_TRY(lk_dist_send(s->comm, s->x, other, 1, "single", NULL));
    else
        LK_TRY(lk_dist_recv_list(s->tape, s->comm, other, 1, "list", &list));
    return LK_OK;
}

TEST(lists_that_do_not_fit_are_named)
{
    ASSERT_FAILS(both(gathers_two_dtypes, 1), LK_EDTYPE, "allgather_list(\"all\"): rank");
    ASSERT_FAILS(both(receives_too_many, 1), LK_EINVAL,
                 "recv_list(\"pair\"): 2 values come, and the list has room for 1");
    ASSERT_FAILS(both(receives_no_list, 1), LK_EMISMATCH, "send(\"single\", f64 x 1, tag 1)");
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

/* Counts that do not add up, along the last axis of a value [2, 3]. */
static lk_status scatters_too_much(struct side *s, int other)
{
    lk_var x;
    (void)other;
    LK_TRY(lk_reshape(s->x, LK_SHAPE(2, 3), &x));
    return LK_TRACE(lk_dist_scatter(s->comm, x, 1, 2, 0, "part", &x));
}

static lk_status reduces_too_much(struct side *s, int other)
{
    lk_var x;
    (void)other;
    LK_TRY(lk_reshape(s->x, LK_SHAPE(2, 3), &x));
    return LK_TRACE(lk_dist_reduce_scatter(s->comm, x, 1, 2, "part", &x));
}

static lk_status exchanges_too_much(struct side *s, int other)
{
    lk_var x;
    int64_t n = 2;
    LK_TRY(lk_reshape(s->x, LK_SHAPE(2, 3), &x));
    return LK_TRACE(lk_dist_neighbor_alltoall(
        s->comm, x, 1, &(lk_neighbours){1, &other, &n, &n, NULL}, "part", &x));
}

/* Rank 0 sends one more than rank 1 expects. */
static lk_status expects_fewer(struct side *s, int other)
{
    lk_var x;
    int64_t send = other == 1 ? 3 : 2, receive = 2;
    LK_TRY(lk_slice(s->x, 0, 0, send, 1, &x));
    return LK_TRACE(lk_dist_neighbor_alltoall(
        s->comm, x, 0, &(lk_neighbours){1, &other, &send, &receive, NULL}, "part", &x));
}

TEST(counts_are_shown_as_they_were_given)
{
    ASSERT_FAILS(both(scatters_too_much, 6), LK_ESHAPE,
                 "scatter: a value f64[2,3], where the counts of all ranks add up to 4 along axis "
                 "1");
    ASSERT_FAILS(both(reduces_too_much, 6), LK_ESHAPE,
                 "reduce_scatter: a value f64[2,3], where the counts of all ranks add up to 4 "
                 "along axis 1");
    ASSERT_FAILS(both(exchanges_too_much, 6), LK_ESHAPE,
                 "neighbour(\"part\"): a value f64[2,3], of which 2 along axis 1 are to be sent");
    ASSERT_FAILS(both(expects_fewer, 6), LK_EMISMATCH,
                 "neighbour(\"part\", f64, counts by rank) #1 (rank 0 sends 3 elements to rank 1, "
                 "which expects 2)");
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}
