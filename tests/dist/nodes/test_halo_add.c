/* Halos added to their owners: values against one process that has all tiles, by bits; and the identity
 *
 *     the sum over ranks of <halo(x), y>  =  that of <x, halo_add(y)>
 *
 * in integers, which is exact: in 1 to 3 dimensions with corners, borders with zeros and without, around
 * a torus, with tiles that differ and some that have nothing; on all ranks, and on groups of them.
 */
#include "real.h"
#include "tiles/tile_cuts.h"

#include <lockstep/coll.h>

#include <string.h>

/* What one case has on this rank. */
struct sides {
    struct tile_cut cut;
    lk_comm *comm;
    lk_grid grid;
    lk_halo halos[CUT_AXES];
    lk_tape *tape;
    lk_tensor *x, *y; /* a tile; one with halos */
};

static void sides_begin(struct sides *s, lk_comm *comm, int ndim, int kind, bool turned,
                        lk_dtype dtype)
{
    *s = (struct sides){.cut = tile_cut_of(lk_comm_size(comm), ndim, kind), .comm = comm};
    s->grid = cut_grid(&s->cut, comm, turned, s->halos);
    ASSERT_OK(lk_tape_new(&s->tape));
    ASSERT_OK(lk_tensor_new(dtype, cut_shape(&s->cut, s->grid.at, false), &s->x));
    ASSERT_OK(lk_tensor_new(dtype, cut_shape(&s->cut, s->grid.at, true), &s->y));
}

static void sides_end(struct sides *s)
{
    lk_tape_free(s->tape);
    lk_tensor_free(s->x);
    lk_tensor_free(s->y);
}

static int64_t count_of(lk_shape s)
{
    int64_t n = 1;
    for (int d = 0; d < s.ndim; d++)
        n *= s.dim[d];
    return n;
}

/* Elements of a contiguous tensor that is f32 or f64. */
static double element(const lk_tensor *t, int64_t i)
{
    return real_get(lk_tensor_dtype(t), lk_tensor_data(t), i);
}

static void element_set(lk_tensor *t, int64_t i, double v)
{
    void *data;
    ASSERT_OK(lk_tensor_writable_data(t, &data));
    real_set(lk_tensor_dtype(t), data, i, v);
}

static void fill_integers(lk_tensor *t, int rank, uint32_t stream)
{
    for (int64_t i = 0; i < count_of(lk_tensor_shape(t)); i++)
        element_set(t, i, cut_integer(rank, i, stream));
}

static double dot(const lk_tensor *a, const lk_tensor *b)
{
    double sum = 0;
    ASSERT_TRUE(lk_shape_is_equal(lk_tensor_shape(a), lk_tensor_shape(b)));
    for (int64_t i = 0; i < count_of(lk_tensor_shape(a)); i++)
        sum += element(a, i) * element(b, i);
    return sum;
}

static void assert_bits(const lk_tensor *got, const lk_tensor *want)
{
    int64_t n = count_of(lk_tensor_shape(want));
    ASSERT_TRUE(lk_shape_is_equal(lk_tensor_shape(got), lk_tensor_shape(want)));
    ASSERT_EQ(lk_tensor_dtype(got), lk_tensor_dtype(want));
    ASSERT_TRUE(n == 0 || memcmp(lk_tensor_data(got), lk_tensor_data(want),
                                 (size_t)n * lk_dtype_size(lk_tensor_dtype(want))) == 0);
}

static const lk_tensor *value(lk_var v)
{
    const lk_tensor *t;
    ASSERT_OK(lk_value(v, &t));
    return t;
}

/* Run it with every dimension and kind, on all ranks and on the odd and the even ones in reverse. */
static void everywhere(lk_comm *comm, void (*run)(lk_comm *comm, int ndim, int kind))
{
    lk_comm *half;
    int rank = lk_comm_rank(comm);
    ASSERT_OK(lk_comm_split(comm, rank % 2, -rank, &half));
    for (int ndim = 1; ndim <= CUT_AXES; ndim++)
        for (int kind = 0; kind < CUT_KINDS; kind++) {
            run(comm, ndim, kind);
            run(half, ndim, kind);
        }
    lk_comm_close(half);
}

/* ---- the identity ---- */

/* Both sides of the identity, over all ranks, of integers; `spoil` (may be NULL) changes y between. */
static void both_sides(struct sides *s, void (*spoil)(struct sides *s), double out[2])
{
    int rank = lk_comm_rank(s->comm);
    lk_var x, y, wide, sums;
    fill_integers(s->x, rank, 1);
    fill_integers(s->y, rank, 2);
    ASSERT_OK(lk_constant(s->tape, s->x, &x));
    ASSERT_OK(lk_dist_halo(s->comm, &s->grid, x, s->halos, s->cut.ndim, "there", &wide));
    double own[2] = {dot(value(wide), s->y), 0};
    if (spoil)
        spoil(s);
    ASSERT_OK(lk_constant(s->tape, s->y, &y));
    ASSERT_OK(lk_dist_halo_add(s->comm, &s->grid, y, s->halos, s->cut.ndim, "back", &sums));
    own[1] = dot(s->x, value(sums));
    ASSERT_OK(lk_allreduce(s->comm, own, out, 2, LK_F64, LK_REDUCE_SUM, "sides"));
}

static void identity(lk_comm *comm, int ndim, int kind)
{
    struct sides s;
    double sum[2];
    sides_begin(&s, comm, ndim, kind, kind % 2 == 1, LK_F64);
    both_sides(&s, NULL, sum);
    ASSERT_TRUE(memcmp(&sum[0], &sum[1], sizeof sum[0]) == 0);
    sides_end(&s);
}

RANKS_TEST(each_is_the_adjoint_of_the_other)
{
    everywhere(comm, identity);
}

/* Multiply what lies in the halos of all of the first `axes` axes. */
static void scale_halos(struct sides *s, int axes, double factor)
{
    lk_shape shape = lk_tensor_shape(s->y);
    for (int64_t i = 0; i < count_of(shape); i++) {
        int64_t rest = i, inside = 0;
        for (int d = shape.ndim - 1; d >= 0; rest /= shape.dim[d--]) {
            int64_t at = rest % shape.dim[d], low;
            if (d < 1 || d > axes)
                continue;
            low = cut_halo(&s->cut, d - 1, s->grid.at[d - 1], 0);
            inside += at >= low && at < low + cut_rows(&s->cut, d - 1, s->grid.at[d - 1]);
        }
        if (inside == 0)
            element_set(s->y, i, factor * element(s->y, i));
    }
}

static void corners_lost(struct sides *s)
{
    scale_halos(s, s->cut.ndim, 0);
}

static void overlap_twice(struct sides *s)
{
    scale_halos(s, 1, 2);
}

/* What the identity would say of a view that loses corners, or adds an overlap twice. */
RANKS_TEST(the_identity_finds_what_is_lost_or_doubled)
{
    for (int ndim = 1; ndim <= CUT_AXES; ndim++)
        for (int fault = 0; fault < 2; fault++) {
            struct sides s;
            double sum[2];
            sides_begin(&s, comm, ndim, 0, false, LK_F64);
            both_sides(&s, fault == 0 ? corners_lost : overlap_twice, sum);
            ASSERT_TRUE(sum[0] != sum[1]);
            sides_end(&s);
        }
}

/* ---- values ---- */

/* The element of x with halos that a rank gives at a place. */
static double given(const struct tile_cut *c, const int at[CUT_AXES], const int64_t *place,
                    lk_dtype dtype)
{
    lk_shape s = cut_shape(c, at, true);
    int64_t i = 0;
    for (int d = 0; d < s.ndim; d++) {
        ASSERT_TRUE(place[d] >= 0 && place[d] < s.dim[d]);
        i = i * s.dim[d] + place[d];
    }
    return cut_real(cut_rank(c, at), i, dtype);
}

/* A case that one process computes: the order in which the call lists the axes. */
struct serial {
    const struct tile_cut *cut;
    const lk_halo *halos;
    lk_dtype dtype;
};

/* The sum at a place of the tile at `at`, once the axes from number i of the call on are done; along
 * those before, the place counts the halo.  As dist.h defines it: (own + lower) + upper. */
static double summed(const struct serial *s, int i, const int at[CUT_AXES], const int64_t *place)
{
    const struct tile_cut *c = s->cut;
    if (i == c->ndim)
        return given(c, at, place, s->dtype);
    int k = s->halos[i].grid_axis, d = k + 1;
    int64_t row = place[d], rows = cut_rows(c, k, at[k]), there[LK_MAX_NDIM];
    memcpy(there, place, sizeof there);
    there[d] = row + cut_halo(c, k, at[k], 0);
    double sum = summed(s, i + 1, at, there);
    for (int side = 0; side < 2; side++) {
        int beside = cut_beside(c, k, at[k], side), other[CUT_AXES] = {at[0], at[1], at[2]};
        if (beside < 0)
            continue;
        int64_t wide = cut_halo(c, k, beside, 1 - side);
        if (side == 0 ? row >= wide : row < rows - wide)
            continue; /* its halo does not have this row */
        other[k] = beside;
        there[d] = side == 0 ? cut_halo(c, k, beside, 0) + cut_rows(c, k, beside) + row
                             : row - (rows - wide);
        sum += summed(s, i + 1, other, there);
        if (s->dtype == LK_F32)
            sum = (double)(float)sum;
    }
    return sum;
}

static void sum_serially(const struct sides *s, lk_dtype dtype, lk_tensor *out)
{
    const struct serial serial = {&s->cut, s->halos, dtype};
    lk_shape shape = lk_tensor_shape(out);
    int at[CUT_AXES] = {0};
    cut_at(&s->cut, lk_comm_rank(s->comm), at);
    for (int64_t i = 0; i < count_of(shape); i++) {
        int64_t place[LK_MAX_NDIM] = {0}, rest = i;
        for (int d = shape.ndim - 1; d >= 0; rest /= shape.dim[d--])
            place[d] = rest % shape.dim[d];
        element_set(out, i, summed(&serial, 0, at, place));
    }
}

static void sums_of(lk_comm *comm, int ndim, int kind)
{
    for (int turned = 0; turned < 2; turned++) {
        lk_dtype dtype = (turned + kind) % 2 == 0 ? LK_F32 : LK_F64;
        struct sides s;
        lk_var y, sums;
        sides_begin(&s, comm, ndim, kind, turned == 1, dtype);
        for (int64_t i = 0; i < count_of(lk_tensor_shape(s.y)); i++)
            element_set(s.y, i, cut_real(lk_comm_rank(comm), i, dtype));
        ASSERT_OK(lk_constant(s.tape, s.y, &y));
        ASSERT_OK(lk_dist_halo_add(comm, &s.grid, y, s.halos, ndim, "back", &sums));
        sum_serially(&s, dtype, s.x);
        assert_bits(value(sums), s.x);
        sides_end(&s);
    }
}

RANKS_TEST(sums_are_those_of_one_process)
{
    everywhere(comm, sums_of);
}

/* ---- gradients ---- */

/* What backward of one call gives is what the other call gives. */
static void gradients_of(lk_comm *comm, int ndim, int kind)
{
    struct sides s;
    lk_tensor *dx, *dy;
    lk_var x, y, wide, sums;
    sides_begin(&s, comm, ndim, kind, false, LK_F32);
    for (int64_t i = 0; i < count_of(lk_tensor_shape(s.x)); i++)
        element_set(s.x, i, cut_real(lk_comm_rank(comm), i, LK_F32));
    for (int64_t i = 0; i < count_of(lk_tensor_shape(s.y)); i++)
        element_set(s.y, i, cut_real(lk_comm_rank(comm), 1000 + i, LK_F32));
    ASSERT_OK(lk_tensor_new(LK_F32, lk_tensor_shape(s.x), &dx));
    ASSERT_OK(lk_tensor_new(LK_F32, lk_tensor_shape(s.y), &dy));
    ASSERT_OK(lk_tensor_fill_f64(dx, 0));
    ASSERT_OK(lk_tensor_fill_f64(dy, 0));
    ASSERT_OK(lk_leaf(s.tape, s.x, dx, &x));
    ASSERT_OK(lk_leaf(s.tape, s.y, dy, &y));
    ASSERT_OK(lk_dist_halo(comm, &s.grid, x, s.halos, ndim, "there", &wide));
    ASSERT_OK(lk_dist_halo_add(comm, &s.grid, y, s.halos, ndim, "back", &sums));
    const lk_seed seeds[2] = {{wide, s.y}, {sums, s.x}};
    ASSERT_OK(lk_backward(s.tape, seeds, 2, LK_RETAIN_GRAPH));
    assert_bits(dx, value(sums));
    assert_bits(dy, value(wide));
    lk_tensor_free(dx);
    lk_tensor_free(dy);
    sides_end(&s);
}

RANKS_TEST(gradients_are_what_the_other_call_gives)
{
    everywhere(comm, gradients_of);
}

/* Without axes, and with halos of no rows, it is a copy. */
RANKS_TEST(no_halo_is_the_tile)
{
    struct sides s;
    lk_var x, same, none;
    sides_begin(&s, comm, 2, 0, false, LK_F64);
    fill_integers(s.x, lk_comm_rank(comm), 1);
    ASSERT_OK(lk_constant(s.tape, s.x, &x));
    ASSERT_OK(lk_dist_halo_add(comm, &s.grid, x, NULL, 0, "none", &none));
    ASSERT_OK(
        lk_dist_halo_add(comm, &s.grid, x, (lk_halo[]){{1, 0, 0, 0, true}}, 1, "no rows", &same));
    assert_bits(value(none), s.x);
    assert_bits(value(same), s.x);
    sides_end(&s);
}
