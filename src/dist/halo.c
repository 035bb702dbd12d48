/* halo and halo_add: a tile with rows of its neighbours around it, and back.
 *
 *     halo       y = x in the middle; along each axis, rows of the neighbour below and of the one above
 *                dx = halo_add of dy
 *     halo_add   y = the middle of x, plus what the neighbours' halos have of its rows
 *                dx = halo of dy
 *
 * Axes are done one after the other, each exchanging also the halos of those before: so corners come
 * from the diagonal neighbours, in as many messages as there are faces.  halo_add goes through the axes
 * in reverse order: halos go back to their owners, which add the lower neighbour's rows first.  Each is
 * the other's backward, with the same plan; an exchange runs in either direction.
 */
#include "dist/common/halo.h"

#include "dist/common/sample_shapes.h"
#include "ops/common/ops.h"
#include "ops/common/parts.h"
#include "tensor/walk.h"

/* A tensor at `data`, without gaps, for use while `s` lives. */
static lk_tensor box_at(void *data, lk_dtype dtype, lk_shape shape, struct lk__storage *s)
{
    lk_tensor t = {.dtype = dtype, .writable = true, .shape = shape, .count = 1};
    for (int d = 0; d < shape.ndim; d++)
        t.count *= shape.dim[d];
    s->data = data;
    t.storage = s;
    t.version = &s->version;
    lk__shape_strides(shape, t.stride);
    return t;
}

/* Rows in front of the tile along an axis. */
static int64_t before(const lk__halo_axis *a)
{
    return a->get[0] + a->zero[0];
}

/* `y` without the halos of the axes from number `k` on. */
static lk_tensor without(const lk__halo *h, const lk_tensor *y, int k)
{
    lk_tensor part = lk__tensor_fields(y);
    for (int i = k; i < h->n; i++)
        part = lk__part(&part, h->axis[i].axis, before(&h->axis[i]), h->tile.dim[h->axis[i].axis],
                        1);
    return part;
}

/* The rows of axis number `k` that a neighbour gives, or gets from this rank's tile. */
static lk_tensor strip(const lk__halo *h, const lk_tensor *y, int k, int side, bool halo)
{
    const lk__halo_axis *a = &h->axis[k];
    int64_t tile = h->tile.dim[a->axis], n = halo ? a->get[side] : a->give[side];
    int64_t first = halo ? side == 0 ? 0 : before(a) + tile
                         : before(a) + (side == 0 ? 0 : tile - n);
    lk_tensor region = without(h, y, k + 1);
    return lk__part(&region, a->axis, first, n, 1);
}

/* Elements that go out and come in along an axis, packed, those of side 0 first. */
typedef struct packed {
    void *data[2];       /* to go, to come */
    int64_t count[2][2]; /* [to go, to come][side] */
} packed;

static lk_status packed_new(lk_call *c, const lk__halo *h, const lk_tensor *y, int k, bool back,
                            packed *p)
{
    for (int incoming = 0; incoming < 2; incoming++) {
        int64_t all = 0;
        for (int side = 0; side < 2; side++) {
            lk_tensor s = strip(h, y, k, side, (incoming == 1) != back);
            p->count[incoming][side] = s.count;
            all += s.count;
        }
        LK_TRY(lk_call_scratch(c, all * (int64_t)lk_dtype_size(y->dtype), &p->data[incoming]));
    }
    return LK_OK;
}

/* The packed elements of a side as a tensor of the strip's shape. */
static lk_tensor packed_at(const packed *p, int incoming, int side, const lk_tensor *like,
                           struct lk__storage *s)
{
    int64_t skip = side == 0 ? 0 : p->count[incoming][0];
    char *at = (char *)p->data[incoming] + skip * (int64_t)lk_dtype_size(like->dtype);
    return box_at(at, like->dtype, like->shape, s);
}

/* dst += src, of one shape and f32 or f64. */
static void add(const lk_tensor *src, const lk_tensor *dst)
{
    struct lk__walk w;
    if (src->count == 0)
        return;
    for (lk__walk_start(&w, src, dst); w.rows_left > 0; lk__walk_next(&w))
        for (int64_t i = 0; i < w.n; i++) {
            int64_t from = i * w.step[0], to = i * w.step[1];
            if (src->dtype == LK_F32)
                ((float *)(void *)w.row[1])[to] += ((const float *)(void *)w.row[0])[from];
            else
                ((double *)(void *)w.row[1])[to] += ((const double *)(void *)w.row[0])[from];
        }
}

/* Exchange along axis number `k`: rows of the tile into the neighbours' halos; or `back`, halos to
 * their owners, which add them. */
static lk_status exchange(lk_call *c, const lk__halo *h, const lk_tensor *y, int k, bool back)
{
    packed p;
    LK_TRY(packed_new(c, h, y, k, back, &p));
    for (int side = 0; side < 2; side++) {
        struct lk__storage s = {0};
        lk_tensor from = strip(h, y, k, side, back), to = packed_at(&p, 0, side, &from, &s);
        LK_TRY(lk__copy(&from, &to));
    }
    LK_TRY(lk_coll_run(h->d.comm, &(lk_collective){.call = LK_CALL_NEIGHBOUR,
                                                   .name = h->d.name,
                                                   .in = p.data[0],
                                                   .out = p.data[1],
                                                   .counts = p.count[1],
                                                   .in_counts = p.count[0],
                                                   .dtype = y->dtype,
                                                   .neighbours = h->axis[k].rank,
                                                   .n_neighbours = 2,
                                                   .peer_slot = (const int[]){1, 0}}));
    for (int side = 0; side < 2; side++) {
        struct lk__storage s = {0};
        lk_tensor to = strip(h, y, k, side, !back), from = packed_at(&p, 1, side, &to, &s);
        if (back)
            add(&from, &to);
        else
            LK_TRY(lk__copy(&from, &to));
    }
    return LK_OK;
}

/* ---- the ops ---- */

static const lk_op halo_op, add_op;

static lk_status halo_infer(lk_call *c, lk_output_spec *out)
{
    out->dtype = c->x[0]->dtype;
    return LK_TRACE(lk__halo_shape(c->attr, &out->shape));
}

static lk_status halo_forward(lk_call *c)
{
    const lk__halo *h = c->attr;
    const lk_tensor *y = c->y[0];
    lk_tensor middle = without(h, y, 0);
    LK_TRY(lk__copy(c->x[0], &middle));
    for (int k = 0; k < h->n; k++) {
        const lk__halo_axis *a = &h->axis[k];
        LK_TRY(exchange(c, h, y, k, false));
        for (int side = 0; side < 2; side++) {
            if (a->zero[side] == 0)
                continue;
            lk_tensor region = without(h, y, k + 1);
            lk_tensor rows = lk__part(&region, a->axis,
                                      side == 0 ? 0 : before(a) + h->tile.dim[a->axis],
                                      a->zero[side], 1);
            LK_TRY(lk__fill(&rows, 0));
        }
    }
    return LK_OK;
}

/* The adjoint: the other op, with the same plan. */
static lk_status adjoint(lk_call *c, const lk_op *op, const lk_var *dout, lk_var *din)
{
    lk__halo g = *(const lk__halo *)c->attr;
    if (!lk_dtype_is_real(lk_dtype_of(c->in[0])))
        return LK_OK;
    LK_TRY(lk__dist_adjoint(&((const lk__halo *)c->attr)->d, c->op->name, LK_REDUCE_SUM, &g.d));
    return LK_TRACE(lk_apply(c->tape, op, dout, 1, &g, din));
}

static lk_status halo_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    return LK_TRACE(adjoint(c, &add_op, dout, din));
}

static const lk_op halo_op = {.name = "halo",
                              .summary = "a tile with rows of its neighbours",
                              LK_ARITY(1, 1),
                              .flags = LK_OP_COLLECTIVE | LK_OP_LINEAR,
                              .attr_size = sizeof(lk__halo),
                              .infer = halo_infer,
                              .forward = halo_forward,
                              .backward = halo_backward};

static lk_status add_infer(lk_call *c, lk_output_spec *out)
{
    out->dtype = c->x[0]->dtype;
    LK_CHECK(lk_dtype_is_real(out->dtype), LK_EDTYPE,
             "halo_add of %s: only f32 and f64 are computed with", lk_tensor_text(c->x[0]).s);
    out->shape = ((const lk__halo *)c->attr)->tile;
    return LK_OK;
}

static lk_status add_forward(lk_call *c)
{
    const lk__halo *h = c->attr;
    const lk_tensor *x = c->x[0];
    struct lk__storage s = {0};
    void *data;
    LK_TRY(lk_call_scratch(c, x->count * (int64_t)lk_dtype_size(x->dtype), &data));
    lk_tensor sums = box_at(data, x->dtype, x->shape, &s);
    LK_TRY(lk__copy(x, &sums));
    for (int k = h->n - 1; k >= 0; k--)
        LK_TRY(exchange(c, h, &sums, k, true));
    lk_tensor middle = without(h, &sums, 0);
    return LK_TRACE(lk__copy(&middle, c->y[0]));
}

static lk_status add_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    return LK_TRACE(adjoint(c, &halo_op, dout, din));
}

static const lk_op add_op = {.name = "halo_add",
                             .summary = "halos added to the rows of their owners",
                             LK_ARITY(1, 1),
                             .flags = LK_OP_COLLECTIVE | LK_OP_LINEAR,
                             .attr_size = sizeof(lk__halo),
                             .infer = add_infer,
                             .forward = add_forward,
                             .backward = add_backward};

/* Either call: plan with the neighbours, then one of the ops. */
static lk_status planned(lk__dist d, const lk_op *op, const lk_grid *grid, lk_var x,
                         const lk_halo *halos, int n, lk_var *out)
{
    lk__halo h;
    LK_CHECK(out, LK_EINVAL, "%s: out is NULL", op->name);
    *out = LK_NO_VAR;
    LK_TRY_DIST(d.comm, lk__dist_check(&d, op->name, x));
    LK_TRY_DIST(d.comm, lk__halo_plan(d, op == &add_op, grid, x, halos, n, &h));
    LK_TRY_DIST(d.comm, lk_apply(x.tape, op, &x, 1, &h, out));
    return LK_OK;
}

lk_status lk_dist_halo(lk_comm *comm, const lk_grid *grid, lk_var x, const lk_halo *halos, int n,
                       const char *name, lk_var *out)
{
    lk__dist d = lk__dist_of(comm, LK_REDUCE_SUM, 0, name);
    return LK_TRACE(planned(d, &halo_op, grid, x, halos, n, out));
}

lk_status lk_dist_halo_add(lk_comm *comm, const lk_grid *grid, lk_var x, const lk_halo *halos,
                           int n, const char *name, lk_var *out)
{
    lk__dist d = lk__dist_of(comm, LK_REDUCE_SUM, 0, name);
    return LK_TRACE(planned(d, &add_op, grid, x, halos, n, out));
}

/* ---- samples ---- */

/* Tiles on a grid of all ranks, with halos: variants of samples. */
enum { TILES_PERIODIC, TILES_BORDERS, TILES_ZEROS };

/* The ranks as rows and columns: two rows if that is possible. */
static int tile_rows(int size)
{
    return size % 2 == 0 && size > 2 ? 2 : 1;
}

static lk_status tile_grid(const lk_dist_sample *s, lk_comm *comm, lk_grid *out)
{
    int size = lk_comm_size(comm), rows = tile_rows(size);
    const int dim[2] = {rows, size / rows};
    const bool periodic[2] = {s->variant == TILES_PERIODIC, s->variant == TILES_PERIODIC};
    return LK_TRACE(lk_grid_make(comm, 2, dim, periodic, out));
}

/* The halos of the tile in this column. */
static void tile_halos(const lk_dist_sample *s, int column, lk_halo out[2])
{
    bool zeros = s->variant == TILES_ZEROS;
    out[0] = (lk_halo){.axis = 2, .grid_axis = 0, .low = 1, .high = 2, .zeros = zeros};
    out[1] = (lk_halo){.axis = 0, .grid_axis = 1, .low = 1 + column % 2, .high = 1, .zeros = zeros};
}

/* Tiles differ: axis 0 is cut along the columns of the grid, axis 2 along its rows. */
static lk_shape shape_tile(const lk_dist_sample *s, int rank, int size, int i)
{
    int columns = size / tile_rows(size);
    (void)s;
    (void)i;
    return LK_SHAPE(3 - rank % columns % 2, 1, 2 + rank / columns % 2);
}

/* The same with halos. */
static lk_shape shape_haloed(const lk_dist_sample *s, int rank, int size, int i)
{
    int dim[2] = {tile_rows(size), size / tile_rows(size)};
    int at[2] = {rank / dim[1], rank % dim[1]};
    lk_shape shape = shape_tile(s, rank, size, i);
    lk_halo halos[2];
    tile_halos(s, at[1], halos);
    for (int k = 0; k < 2; k++) {
        bool all = s->variant != TILES_BORDERS;
        shape.dim[halos[k].axis] += (all || at[k] > 0 ? halos[k].low : 0) +
                                    (all || at[k] + 1 < dim[k] ? halos[k].high : 0);
    }
    return shape;
}

static lk_status tiles_sample(const lk_dist_sample *s, lk_comm *comm, const lk_var *in, lk_var *out)
{
    lk_grid grid;
    lk_halo halos[2];
    LK_TRY(tile_grid(s, comm, &grid));
    tile_halos(s, grid.at[1], halos);
    return LK_TRACE(lk_dist_halo(comm, &grid, in[0], halos, 2, "check", out));
}

const lk_dist_check lk__dist_check_halo = {
    .name = "halo",
    .summary = "y = x with rows of its neighbours; dx = own dy plus what comes back",
    .samples = (const lk_dist_sample[]){
        {LINEAR_SAMPLE("periodic", shape_tile, tiles_sample), .variant = TILES_PERIODIC},
        {LINEAR_SAMPLE("with borders", shape_tile, tiles_sample), .variant = TILES_BORDERS},
        {LINEAR_SAMPLE("zeros at borders", shape_tile, tiles_sample), .variant = TILES_ZEROS},
        {0}}};

static lk_status sums_sample(const lk_dist_sample *s, lk_comm *comm, const lk_var *in, lk_var *out)
{
    lk_grid grid;
    lk_halo halos[2];
    LK_TRY(tile_grid(s, comm, &grid));
    tile_halos(s, grid.at[1], halos);
    return LK_TRACE(lk_dist_halo_add(comm, &grid, in[0], halos, 2, "check", out));
}

/* There and back, with squares between: both, and second derivatives that are not 0. */
static lk_status round_trip_sample(const lk_dist_sample *s, lk_comm *comm, const lk_var *in,
                                   lk_var *out)
{
    lk_grid grid;
    lk_halo halos[2];
    lk_var y;
    LK_TRY(tile_grid(s, comm, &grid));
    tile_halos(s, grid.at[1], halos);
    LK_TRY(lk_dist_halo(comm, &grid, in[0], halos, 2, "there", &y));
    LK_TRY(lk_square(y, &y));
    return LK_TRACE(lk_dist_halo_add(comm, &grid, y, halos, 2, "back", out));
}

const lk_dist_check lk__dist_check_halo_add = {
    .name = "halo_add",
    .summary = "y = x without halos, which are added to their owners; dx = dy with halos",
    .samples = (const lk_dist_sample[]){
        {LINEAR_SAMPLE("periodic", shape_haloed, sums_sample), .variant = TILES_PERIODIC},
        {LINEAR_SAMPLE("with borders", shape_haloed, sums_sample), .variant = TILES_BORDERS},
        {LINEAR_SAMPLE("zeros at borders", shape_haloed, sums_sample), .variant = TILES_ZEROS},
        {SAMPLE("of a halo", shape_tile, round_trip_sample), .variant = TILES_PERIODIC},
        {0}}};
