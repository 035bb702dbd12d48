/* The plan of a halo exchange: each rank asks its neighbours for rows, and all check that they fit.
 * halo.c makes one in each call.
 */
#include "dist/common/halo.h"

#include "comm/user.h"

#include <lockstep/extra/checked.h>

#include <string.h>

static const char *const side_name[2] = {"below", "above"};

/* Who plans, for reports. */
typedef struct planner {
    const char *call; /* "halo" or "halo_add" */
    const char *name;
    lk_comm *comm;
} planner;

static const char *call_name(bool adds)
{
    return adds ? "halo_add" : "halo";
}

/* What a rank asks its neighbours for. */
typedef struct halo_request {
    int64_t adds, dtype, ndim, dim[LK_MAX_NDIM], n;
    struct {
        int64_t ndim, dim[LK_MAX_GRID], periodic[LK_MAX_GRID];
    } grid;
    struct {
        int64_t axis, grid_axis, width[2];
    } of[LK_MAX_GRID];
} halo_request;

enum { HALO_REQUEST = sizeof(halo_request) / sizeof(int64_t) };

static lk_status arguments_check(const planner *p, const lk_grid *grid, lk_shape shape,
                                 const lk_halo *halos, int n)
{
    const int here[LK_MAX_GRID] = {0};
    int64_t places = 1;
    LK_CHECK(grid && (halos || n == 0), LK_EINVAL, "%s(\"%s\"): %s is NULL", p->call, p->name,
             grid ? "halos" : "grid");
    for (int k = 0; k < grid->ndim; k++)
        places *= grid->dim[k];
    LK_CHECK(places == lk_comm_size(p->comm) && lk_grid_rank(grid, here) == lk_comm_rank(p->comm),
             LK_EINVAL, "%s(\"%s\"): the grid was not made from this communicator", p->call,
             p->name);
    LK_CHECK(n >= 0 && n <= grid->ndim, LK_EINVAL, "%s(\"%s\"): %d axes, the grid has %d", p->call,
             p->name, n, grid->ndim);
    for (int i = 0; i < n; i++) {
        const lk_halo *h = &halos[i];
        LK_CHECK(h->axis >= 0 && h->axis < shape.ndim, LK_EINVAL,
                 "%s(\"%s\"): halos[%d] is of axis %d of a value %s", p->call, p->name, i, h->axis,
                 lk_shape_text(shape).s);
        LK_CHECK(h->grid_axis >= 0 && h->grid_axis < grid->ndim, LK_EINVAL,
                 "%s(\"%s\"): halos[%d] is of axis %d of a grid of %d", p->call, p->name, i,
                 h->grid_axis, grid->ndim);
        LK_CHECK(h->low >= 0 && h->high >= 0, LK_EINVAL,
                 "%s(\"%s\"): halos[%d] is %lld and %lld rows wide", p->call, p->name, i,
                 (long long)h->low, (long long)h->high);
        for (int k = 0; k < i; k++)
            LK_CHECK(halos[k].axis != h->axis && halos[k].grid_axis != h->grid_axis, LK_EINVAL,
                     "%s(\"%s\"): halos[%d] and halos[%d] have the same axis", p->call, p->name, k,
                     i);
    }
    return LK_OK;
}

_Static_assert((int)LK_MAX_GRID <= (int)LK_MAX_NDIM, "the sizes of a grid are shown as a shape");

static lk_shape grid_shape(const halo_request *w)
{
    lk_shape s = {.ndim = (int)w->grid.ndim};
    memcpy(s.dim, w->grid.dim, sizeof w->grid.dim);
    return s;
}

static lk_shape shape_of(const halo_request *w)
{
    lk_shape s = {.ndim = (int)w->ndim};
    memcpy(s.dim, w->dim, sizeof s.dim);
    return s;
}

/* Whether a neighbour along axis number `k` does the same, and its tile is as this one across. */
static lk_status across_check(const planner *p, const halo_request *own, const halo_request *other,
                              int k, int rank)
{
    LK_CHECK(own->adds == other->adds, LK_EMISMATCH,
             "rank %d calls %s(\"%s\") and rank %d, its neighbour along axis %lld, calls %s",
             lk_comm_rank(p->comm), p->call, p->name, rank, (long long)own->of[k].axis,
             call_name(other->adds != 0));
    LK_CHECK(
        memcmp(&own->grid, &other->grid, sizeof own->grid) == 0, LK_EMISMATCH,
        "%s(\"%s\"): rank %d has a grid %s and rank %d, its neighbour along axis %lld, has %s, "
        "or other axes are periodic: all must give the same grid",
        p->call, p->name, lk_comm_rank(p->comm), lk_shape_text(grid_shape(own)).s, rank,
        (long long)own->of[k].axis, lk_shape_text(grid_shape(other)).s);
    bool same = own->dtype == other->dtype && own->ndim == other->ndim && own->n == other->n;
    for (int a = 0; same && a < own->ndim; a++)
        same = a == own->of[k].axis || own->dim[a] == other->dim[a];
    for (int i = 0; same && i < own->n; i++)
        same = own->of[i].axis == other->of[i].axis &&
               own->of[i].grid_axis == other->of[i].grid_axis &&
               (i == k || memcmp(&own->of[i], &other->of[i], sizeof own->of[i]) == 0);
    LK_CHECK(same, LK_ESHAPE,
             "%s(\"%s\"): rank %d has a tile %s%s and rank %d, its neighbour along axis %lld, has "
             "%s%s, or other halos: across that axis they must be the same",
             p->call, p->name, lk_comm_rank(p->comm), lk_dtype_name((lk_dtype)own->dtype),
             lk_shape_text(shape_of(own)).s, rank, (long long)own->of[k].axis,
             lk_dtype_name((lk_dtype)other->dtype), lk_shape_text(shape_of(other)).s);
    return LK_OK;
}

/* `asker` wants `rows` rows on a side that belong to `whose`, which has `tile`. */
static lk_status width_check(const planner *p, int asker, int64_t rows, int side, int whose,
                             const halo_request *tile, int64_t axis)
{
    LK_CHECK(rows <= tile->dim[axis], LK_ESHAPE,
             "%s(\"%s\"): rank %d wants %lld rows %s its tile along axis %lld, but its neighbour "
             "there, rank %d, has %lld, a tile %s",
             p->call, p->name, asker, (long long)rows, side_name[side], (long long)axis, whose,
             (long long)tile->dim[axis], lk_shape_text(shape_of(tile)).s);
    return LK_OK;
}

/* Of axis number `k`, with the requests of both neighbours. */
static lk_status axis_plan(const planner *p, const halo_request *own, const halo_request *others,
                           int k, bool zeros, lk__halo_axis *a)
{
    int here = lk_comm_rank(p->comm);
    for (int side = 0; side < 2; side++) {
        int rank = a->rank[side];
        const halo_request *other = &others[side];
        if (rank < 0) {
            a->zero[side] = zeros ? own->of[k].width[side] : 0;
            continue;
        }
        LK_TRY(across_check(p, own, other, k, rank));
        a->get[side] = own->of[k].width[side];
        a->give[side] = other->of[k].width[1 - side];
        LK_TRY(width_check(p, here, a->get[side], side, rank, other, a->axis));
        LK_TRY(width_check(p, rank, a->give[side], 1 - side, here, own, a->axis));
    }
    return LK_OK;
}

/* What does not fit is the end of the job: ranks further away know nothing of it, and would wait. */
static lk_status fits_or_ends(const planner *p, lk_status st)
{
    if (st != LK_OK)
        lk__comm_end_job(p->comm, st, lk_error_message());
    return st;
}

/* Take the halos off the shape of a value that has them, where the neighbours are known. */
static lk_status tile_of(const planner *p, const lk_halo *halos, lk__halo *h)
{
    const lk_shape given = h->tile;
    for (int i = 0; i < h->n; i++) {
        int64_t *rows = &h->tile.dim[halos[i].axis], width[2] = {halos[i].low, halos[i].high};
        for (int side = 0; side < 2; side++) {
            if (h->axis[i].rank[side] < 0 && !halos[i].zeros)
                width[side] = 0;
            LK_CHECK(
                width[side] <= *rows, LK_ESHAPE,
                "%s(\"%s\"): rank %d gives a value %s, which has fewer rows along axis %d than "
                "its halos, %lld and %lld",
                p->call, p->name, lk_comm_rank(p->comm), lk_shape_text(given).s, halos[i].axis,
                (long long)halos[i].low, (long long)halos[i].high);
            *rows -= width[side];
        }
    }
    return LK_OK;
}

static void grid_encode(const lk_grid *grid, halo_request *own)
{
    own->grid.ndim = grid->ndim;
    for (int k = 0; k < grid->ndim; k++) {
        own->grid.dim[k] = grid->dim[k];
        own->grid.periodic[k] = grid->periodic[k];
    }
}

/* Ask the neighbours, and plan all axes.  The tile and the neighbours are known. */
static lk_status neighbours_plan(const planner *p, const lk_halo *halos, halo_request *own,
                                 lk__halo *out)
{
    halo_request sent[2 * LK_MAX_GRID], others[2 * LK_MAX_GRID];
    int rank[2 * LK_MAX_GRID], opposite[2 * LK_MAX_GRID];
    memcpy(own->dim, out->tile.dim, (size_t)out->tile.ndim * sizeof *own->dim);
    for (int i = 0; i < out->n; i++) {
        own->of[i].axis = halos[i].axis;
        own->of[i].grid_axis = halos[i].grid_axis;
        own->of[i].width[0] = halos[i].low;
        own->of[i].width[1] = halos[i].high;
    }
    for (int i = 0; i < 2 * out->n; i++) {
        sent[i] = *own;
        rank[i] = out->axis[i / 2].rank[i % 2];
        opposite[i] = i ^ 1;
    }
    LK_TRY(lk_coll_run(p->comm, &(lk_collective){.call = LK_CALL_NEIGHBOUR,
                                                 .name = p->name,
                                                 .in = sent,
                                                 .out = others,
                                                 .count = HALO_REQUEST,
                                                 .dtype = LK_I64,
                                                 .neighbours = rank,
                                                 .n_neighbours = 2 * out->n,
                                                 .peer_slot = opposite}));
    for (int i = 0; i < out->n; i++)
        LK_TRY(fits_or_ends(p, axis_plan(p, own, &others[(size_t)2 * (size_t)i], i, halos[i].zeros,
                                         &out->axis[i])));
    return LK_OK;
}

lk_status lk__halo_plan(lk__dist d, bool adds, const lk_grid *grid, lk_var x, const lk_halo *halos,
                        int n, lk__halo *out)
{
    const planner p = {call_name(adds), d.name, d.comm};
    lk_shape shape = lk_shape_of(x);
    halo_request own = {.adds = adds, .dtype = lk_dtype_of(x), .ndim = shape.ndim, .n = n};
    LK_TRY(arguments_check(&p, grid, shape, halos, n));
    grid_encode(grid, &own);
    memset(out, 0, sizeof *out);
    out->d = d;
    out->n = n;
    out->tile = shape;
    for (int i = 0; i < n; i++) {
        out->axis[i].axis = halos[i].axis;
        for (int side = 0; side < 2; side++) {
            int step[LK_MAX_GRID] = {0};
            step[halos[i].grid_axis] = side == 0 ? -1 : 1;
            out->axis[i].rank[side] = lk_grid_rank(grid, step);
        }
    }
    if (adds)
        LK_TRY(fits_or_ends(&p, tile_of(&p, halos, out)));
    return LK_TRACE(neighbours_plan(&p, halos, &own, out));
}

lk_status lk__halo_shape(const lk__halo *h, lk_shape *out)
{
    *out = h->tile;
    for (int i = 0; i < h->n; i++) {
        const lk__halo_axis *a = &h->axis[i];
        int64_t *dim = &out->dim[a->axis];
        for (int side = 0; side < 2; side++)
            LK_TRY(lk_add_i64(*dim, a->get[side] + a->zero[side], dim));
    }
    return LK_OK;
}
