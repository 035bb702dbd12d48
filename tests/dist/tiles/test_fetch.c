/* Tilings, tiles and fetches.  Each rank fills its tile by a formula of sample, position and channel, and the
 * margin with a canary; after a fetch all that the layer reads has the formula's value, and nothing else
 * has changed.  What a layer reads is found anew, tap by tap.  Windows, sizes, tilings and bounds are
 * random, of 1 to 3 axes, also on groups that do not begin at rank 0.
 */
#include "scarce_ranks.h"
#include "tilings.h"

enum { CASES = 60, FEW = 16, CANARY = -9 };

/* ---- layers ---- */

/* A layer of any kind but pointwise.  Outputs are as many as there are, or some more or fewer. */
static lk_tile_spec layer_of(tiling_case *c, tiling_draws *d)
{
    lk_tile_spec s = {.kind = (lk_tile_kind)draw(d, LK_TILE_CONV, LK_TILE_POOL)};
    lk_window *w = &s.window;
    w->ndim = (int)draw(d, c->tiling->ndim, LK_TILE_AXES);
    w->grid = c->tiling->step == 4 && draw(d, 0, 1) == 1 ? 4 : 0;
    for (int k = 0; k < w->ndim; k++) {
        int64_t big = draw(d, 0, w->ndim == 1 ? 30 : 10);
        w->kernel[k] = w->grid == 4 ? 3 : draw(d, 1, 4);
        w->stride[k] = w->grid == 4 ? 1 : draw(d, 0, 3);
        w->dilation[k] = w->grid == 4 ? 1 : draw(d, 0, 2);
        w->pad_lo[k] = draw(d, -1, 3);
        int64_t span = (w->kernel[k] - 1) * (w->dilation[k] > 1 ? w->dilation[k] : 1) + 1;
        int64_t room = big + w->pad_lo[k] + draw(d, -1, 3) - span;
        int64_t small = room < 0 ? 0 : room / (w->stride[k] > 1 ? w->stride[k] : 1) + 1;
        s.in[k] = s.kind == LK_TILE_CONV_TRANSPOSE ? small : big;
        s.out[k] = s.kind == LK_TILE_CONV_TRANSPOSE ? big : small;
    }
    if (draw(d, 0, 2) == 0 && w->grid == 0) {
        s.in_bounds = tiling_bounds(c, d, 0, s.in);
        s.out_bounds = tiling_bounds(c, d, 1, s.out);
    }
    return s;
}

/* Whether, along an axis, window position o has a tap on position i. */
static bool meets(const lk_window *w, int k, int64_t o, int64_t i)
{
    int64_t stride = w->stride[k] > 1 ? w->stride[k] : 1;
    int64_t dilation = w->dilation[k] > 1 ? w->dilation[k] : 1;
    for (int64_t t = 0; t < w->kernel[k]; t++)
        if (o * stride - w->pad_lo[k] + t * dilation == i)
            return true;
    return false;
}

/* What of a value of the sizes n meets a box of the other side, `from_windows` of the windows' side. */
static lk_box meeting(const lk_window *w, const lk_box *box, const int64_t *n, bool from_windows)
{
    lk_box got = {.ndim = box->ndim};
    for (int k = 0; k < box->ndim; k++)
        for (int64_t a = box->first[k]; a < box->first[k] + box->n[k]; a++)
            for (int64_t b = 0; b < n[k]; b++) {
                if (!meets(w, k, from_windows ? a : b, from_windows ? b : a))
                    continue;
                int64_t first = got.n[k] == 0 || b < got.first[k] ? b : got.first[k];
                int64_t end = got.n[k] == 0 ? b + 1 : got.first[k] + got.n[k];
                got.first[k] = first;
                got.n[k] = (b + 1 > end ? b + 1 : end) - first;
            }
    return lk_box_count(&got) == 0 ? (lk_box){.ndim = box->ndim} : got;
}

static bool holds(const lk_box *box, const lk_box *part)
{
    lk_box both = lk_box_intersect(box, part);
    return lk_box_count(part) == 0 || lk_box_is_equal(&both, part);
}

/* What a tile says it reads and makes is what its windows meet; with groups of four, at least that. */
static void assert_reach(const lk_tile *t)
{
    const lk_window *w = &t->window;
    bool turned = t->kind == LK_TILE_CONV_TRANSPOSE;
    lk_box dy = meeting(w, &t->x.tile, t->out, turned);
    ASSERT_TRUE(holds(&t->dy_reads, &dy) && (w->grid == 4 || holds(&dy, &t->dy_reads)));
    lk_box x = meeting(w, &t->y_makes, t->in, !turned);
    ASSERT_TRUE(holds(&t->x_reads, &x) && (w->grid == 4 || holds(&x, &t->x_reads)));
    ASSERT_TRUE(holds(&t->y_makes, &t->y.tile));
    ASSERT_TRUE(t->kind != LK_TILE_POOL || holds(&t->y_makes, &t->dy_reads));
    ASSERT_TRUE(t->kind == LK_TILE_POOL || lk_box_is_equal(&t->y_makes, &t->y.tile));
    ASSERT_TRUE(holds(&t->x.box, &t->x_reads) && holds(&t->x.box, &t->x.tile));
    ASSERT_TRUE(holds(&t->y.box, &t->y_makes) && holds(&t->y.box, &t->dy_reads));
}

/* The tiles of all ranks, and the leaves of each, have every position once. */
static void assert_leaves(lk_comm *comm, const lk_tile *t)
{
    int64_t sum[4] = {0, 0, lk_box_count(&t->x.tile), lk_box_count(&t->y.tile)};
    for (int64_t i = 0; i < t->leaves; i++) {
        ASSERT_TRUE(holds(&t->x.tile, &t->x_leaf[i]) && holds(&t->y.tile, &t->y_leaf[i]));
        sum[0] += lk_box_count(&t->x_leaf[i]);
        sum[1] += lk_box_count(&t->y_leaf[i]);
    }
    ASSERT_OK(lk_allreduce(comm, NULL, sum, 4, LK_I64, LK_REDUCE_SUM, "leaves"));
    lk_box x = lk_box_whole(t->window.ndim, t->in), y = lk_box_whole(t->window.ndim, t->out);
    ASSERT_EQ(sum[0], lk_box_count(&x));
    ASSERT_EQ(sum[1], lk_box_count(&y));
    ASSERT_EQ(sum[2], lk_box_count(&x));
    ASSERT_EQ(sum[3], lk_box_count(&y));
}

/* ---- fetches ---- */

/* The numbers of a fetch are what is counted: positions that are read and not had, in parts. */
static void assert_size(lk_comm *comm, const lk_fetch *f, const lk_held *held, const lk_box *reads)
{
    lk_fetch_size size = lk_fetch_size_of(f);
    lk_box had = lk_box_intersect(&held->tile, reads), box;
    int64_t sums[4] = {size.gets, size.gives, size.from, size.to}, in_parts = 0;
    int rank, n = 0, before = -1;
    ASSERT_EQ(size.gets, lk_box_count(reads) - lk_box_count(&had));
    for (; lk_fetch_part(f, n, &rank, &box); n++) {
        ASSERT_TRUE(rank > before && rank != lk_comm_rank(comm));
        ASSERT_TRUE(holds(reads, &box) && lk_box_count(&box) > 0);
        in_parts += lk_box_count(&box);
        before = rank;
    }
    ASSERT_EQ(n, size.from);
    ASSERT_EQ(in_parts, size.gets);
    ASSERT_OK(lk_allreduce(comm, NULL, sums, 4, LK_I64, LK_REDUCE_SUM, "sizes"));
    ASSERT_EQ(sums[0], sums[1]);
    ASSERT_EQ(sums[2], sums[3]);
}

/* Fetch once, count bytes, and compare the whole array. */
static void fetch_once(lk_comm *comm, lk_fetch *f, const lk_held *held, const lk_box *reads,
                       tiling_draws *d)
{
    static const lk_dtype dtypes[] = {LK_F32, LK_F64, LK_I64};
    lk_dtype dtype = dtypes[draw(d, 0, 2)];
    int64_t samples = draw(d, 0, 3), channels = draw(d, 1, 3);
    int64_t elem = channels * (int64_t)lk_dtype_size(dtype);
    int64_t bytes = samples * lk_box_count(&held->box) * elem;
    char *array = NULL, *want = NULL;
    lk_range all = {0, samples};
    ASSERT_OK(lk_alloc(&array, bytes + 1, 1));
    ASSERT_OK(lk_alloc(&want, bytes + 1, 1));
    tiled_fill(dtype, array, all, &held->box, channels, &held->tile, CANARY);
    /* What is had and what is read, of which one may hold the other or not. */
    tiled_fill(dtype, want, all, &held->box, channels, reads, CANARY);
    for (int64_t i = 0; i < bytes; i += (int64_t)lk_dtype_size(dtype)) {
        double canary[1];
        element_put(dtype, canary, 0, CANARY);
        if (memcmp(want + i, canary, lk_dtype_size(dtype)) == 0)
            memcpy(want + i, array + i, lk_dtype_size(dtype));
    }
    bytes_begin(comm);
    ASSERT_OK(lk_fetch_begin(f, dtype, samples, channels, &held->box, array, "margin"));
    ASSERT_OK(lk_fetch_end(f));
    ASSERT_EQ(bytes_end(comm).all, lk_fetch_size_of(f).gives * samples * elem);
    ASSERT_SAME_BITS(array, want, bytes);
    lk_free(array);
    lk_free(want);
}

static void margins_of(lk_comm *comm, int64_t number)
{
    tiling_draws d = draws_of(number);
    tiling_case c;
    lk_tile *tile;
    tiling_begin(&c, comm, &d);
    lk_tile_spec layer = layer_of(&c, &d);
    bool wide = draw(&d, 0, 1) == 1;
    if (wide) /* a margin that is larger than what the layer reads */
        layer.x_box = lk_box_whole(layer.window.ndim, layer.in);
    ASSERT_OK(lk_tile_new(c.tiling, &layer, &tile));
    assert_reach(tile);
    assert_leaves(comm, tile);
    assert_size(comm, tile->get_x, &tile->x, &tile->x_reads);
    assert_size(comm, tile->get_dy, &tile->y, &tile->dy_reads);
    for (int again = 0; again < 2; again++) {
        fetch_once(comm, tile->get_x, &tile->x, &tile->x_reads, &d);
        fetch_once(comm, tile->get_dy, &tile->y, &tile->dy_reads, &d);
    }
    lk_tile_free(tile);
    tiling_end(&c);
}

RANKS_TEST(margins_come_and_nothing_else_changes)
{
    tiling_cases(comm, ranks_brief() ? FEW : CASES, margins_of);
}

/* A program's own messages on the communicator, whatever their tags, are not taken for margins. */
RANKS_TEST(other_messages_do_not_meet_it)
{
    int size = lk_comm_size(comm), rank = lk_comm_rank(comm);
    const int64_t tiles[] = {size};
    float x[3] = {CANARY, CANARY, CANARY}, came = 0, sent = (float)(100 + rank);
    lk_grid grid;
    lk_tiling *t;
    lk_tile *tile;
    lk_request *r[2];
    lk_tile_spec s = {.kind = LK_TILE_CONV, .window = {1, .kernel = {3}, .pad_lo = {1}}};
    s.in[0] = s.out[0] = size;
    ASSERT_OK(lk_grid_make(comm, 1, &size, NULL, &grid));
    ASSERT_OK(lk_tiling_new(comm, &grid, tiles, 0, &t));
    ASSERT_OK(lk_tile_new(t, &s, &tile));
    int64_t own = tile->x.tile.first[0] - tile->x.box.first[0];
    x[own] = (float)rank;
    ASSERT_OK(lk_irecv(comm, &came, 1, LK_F32, LK_ANY_RANK, LK_ANY_TAG, "any", &r[0]));
    ASSERT_OK(lk_fetch_begin(tile->get_x, LK_F32, 1, 1, &tile->x.box, x, "margin"));
    ASSERT_OK(lk_isend(comm, &sent, 1, LK_F32, (rank + 1) % size, 0, "any", &r[1]));
    ASSERT_OK(lk_fetch_end(tile->get_x));
    ASSERT_OK(lk_waitall(2, r));
    ASSERT_EQ(came, 100 + (rank + size - 1) % size);
    for (int64_t i = 0; i < tile->x.box.n[0]; i++)
        ASSERT_EQ(x[i], tile->x.box.first[0] + i);
    lk_tile_free(tile);
    lk_tiling_free(t);
}

/* ---- boxes of several layers ---- */

static void held_boxes_of(lk_comm *comm, int64_t number)
{
    enum { LAYERS = 5 };
    tiling_draws d = draws_of(1000 + number);
    tiling_case c;
    lk_tile_spec layer[LAYERS];
    int64_t copy[LK_TILE_AXES][40];
    tiling_begin(&c, comm, &d);
    layer[0] = layer_of(&c, &d);
    for (int i = 1; i < LAYERS; i++) { /* of the first's sizes, in and out: also back */
        layer[i] = layer[i - 1];
        layer[i].kind = (lk_tile_kind)draw(&d, LK_TILE_POINTWISE, LK_TILE_POOL);
        for (int k = 0; k < layer[i].window.ndim; k++) {
            layer[i].window.pad_lo[k] = draw(&d, 0, 2);
            layer[i].in[k] = layer[i - 1].out[k];
            layer[i].out[k] = layer[0].in[k];
        }
        layer[i].in_bounds = layer[i - 1].out_bounds;
        layer[i].out_bounds = layer[0].in_bounds;
    }
    memcpy(copy, c.cut[0], sizeof copy);
    for (int k = 0; k < LK_TILE_AXES; k++) /* equal bounds in other arrays are equal */
        if (layer[LAYERS - 1].out_bounds.axis[k])
            layer[LAYERS - 1].out_bounds.axis[k] = copy[k];
    ASSERT_OK(lk_tiling_hold(c.tiling, layer, LAYERS));
    for (int i = 0; i < LAYERS; i++) {
        lk_tile *tile;
        ASSERT_OK(lk_tile_new(c.tiling, &layer[i], &tile));
        ASSERT_TRUE(lk_box_is_equal(&tile->x.box, &layer[i].x_box));
        ASSERT_TRUE(lk_box_is_equal(&layer[i].y_box, &layer[i == 0 ? 1 : 0].x_box));
        ASSERT_TRUE(i == 0 || lk_box_is_equal(&layer[i].x_box, &layer[i - 1].y_box));
        lk_tile_free(tile);
    }
    tiling_end(&c);
}

RANKS_TEST(layers_of_equal_sizes_hold_equal_boxes)
{
    tiling_cases(comm, ranks_brief() ? FEW : CASES, held_boxes_of);
}

/* ---- misuse ---- */

RANKS_TEST(tilings_that_cannot_be_are_refused)
{
    int size = lk_comm_size(comm), more = size + 1;
    int64_t tiles[] = {size}, few[] = {size - 1}, many[] = {INT64_C(1) << 31};
    lk_grid grid, other = {.ndim = 1, .dim = {more}};
    lk_tiling *t;
    ASSERT_OK(lk_grid_make(comm, 1, &size, NULL, &grid));
    ASSERT_FAILS(lk_tiling_new(comm, NULL, tiles, 0, &t), LK_EINVAL, "grid is NULL");
    ASSERT_FAILS(lk_tiling_new(comm, &grid, NULL, 0, &t), LK_EINVAL, "tiles is NULL");
    ASSERT_FAILS(lk_tiling_new(comm, &grid, few, 0, &t), LK_EINVAL,
                 "there must be at least as many tiles");
    ASSERT_FAILS(lk_tiling_new(comm, &grid, many, 0, &t), LK_EINVAL, "2^31 - 1 in all");
    tiles[0] = more;
    ASSERT_FAILS(lk_tiling_new(comm, &other, tiles, 0, &t), LK_EINVAL,
                 "where the communicator has");
    ASSERT_FAILS(lk_tiling_new(comm, &grid, tiles, -1, &t), LK_EINVAL, "multiples of -1");
    ASSERT_FAILS(lk_tiling_new(NULL, &(lk_grid){.ndim = 4}, tiles, 0, &t), LK_EINVAL, "1 to 3");
    ASSERT_FAILS(lk_tiling_new(NULL, &(lk_grid){1, {2}, {false}, {2}}, tiles, 0, &t), LK_EINVAL,
                 "rank 2 of 2 along axis 0");
    if (size > 1) { /* one place further on */
        grid.at[0] = (grid.at[0] + 1) % size;
        ASSERT_FAILS(lk_tiling_new(comm, &grid, tiles, 0, &t), LK_EINVAL,
                     "they must have one order");
    }
}

RANKS_TEST(layers_that_do_not_fit_are_refused)
{
    const int64_t tiles[] = {3}, falls[] = {0, 5, 4, 8}, begins[] = {1, 2, 3, 8},
                  ends[] = {0, 2, 4, 7};
    const lk_tile_spec good = {
        .kind = LK_TILE_CONV, .window = {1, .kernel = {3}, .pad_lo = {1}}, .in = {8}, .out = {8}};
    lk_tiling *t;
    lk_tile *tile;
    lk_tile_spec s;
    (void)comm;
    ASSERT_OK(lk_tiling_new(NULL, &(lk_grid){1, {3}, {false}, {1}}, tiles, 0, &t));
    ASSERT_FAILS(lk_tile_new(t, NULL, &tile), LK_EINVAL, "spec or out is NULL");
    const int64_t *bad[] = {falls, begins, ends};
    for (int i = 0; i < 3; i++) {
        s = good;
        s.in_bounds.axis[0] = bad[i];
        ASSERT_FAILS(lk_tile_new(t, &s, &tile), LK_EINVAL, "bounds of axis 0 of the input");
        s = good;
        s.out_bounds.axis[0] = bad[i];
        ASSERT_FAILS(lk_tile_new(t, &s, &tile), LK_EINVAL, "ascend from 0 to its size, 8");
    }
    s = good;
    s.x_box = (lk_box){1, {3}, {3}}; /* the tile alone */
    ASSERT_FAILS(lk_tile_new(t, &s, &tile), LK_EINVAL,
                 "of it: along axis 0 these are positions 2 to 6, and the box has 3 to 5");
    s.x_box = (lk_box){1, {0}, {9}};
    ASSERT_FAILS(lk_tile_new(t, &s, &tile), LK_EINVAL, "the box of x, of 1 axes, reaches out");
    s.x_box = (lk_box){2, {0, 0}, {8, 8}};
    ASSERT_FAILS(lk_tile_new(t, &s, &tile), LK_EINVAL, "the box of x, of 2 axes, reaches out");
    s = good;
    s.y_box = (lk_box){1, {3}, {3}};
    ASSERT_FAILS(lk_tile_new(t, &s, &tile), LK_EINVAL, "the box of y does not hold all");
    s = good;
    s.window.ndim = 0;
    ASSERT_FAILS(lk_tile_new(t, &s, &tile), LK_EINVAL, "0 spatial axes, of which 1 are cut");
    s = good;
    s.window.kernel[0] = 0;
    ASSERT_FAILS(lk_tile_new(t, &s, &tile), LK_EINVAL, "axis 0: kernel is 0: it can be 1 to");
    s.window.kernel[0] = INT64_MAX;
    ASSERT_FAILS(lk_tile_new(t, &s, &tile), LK_EINVAL, "axis 0: kernel is 9223372036854775807");
    s.window.kernel[0] = 1;
    s.window.stride[0] = -1;
    ASSERT_FAILS(lk_tile_new(t, &s, &tile), LK_EINVAL, "axis 0: stride is -1: it can be 0 to");
    s.window.stride[0] = 1;
    s.kind = (lk_tile_kind)9;
    ASSERT_FAILS(lk_tile_new(t, &s, &tile), LK_EINVAL, "a layer of the kind 9");
    ASSERT_OK(lk_tile_new(t, &good, &tile));
    float x[8];
    ASSERT_FAILS(lk_fetch_begin(tile->get_x, LK_F32, 1, 1, &tile->x.box, x, "x"), LK_ESTATE,
                 "without a communicator");
    lk_tile_free(tile);
    lk_tiling_free(t);
}

/* ---- failures ---- */

/* What two ranks fetch. */
typedef struct wrong_fetch {
    int64_t samples[2];
    lk_box box; /* ndim 0: the right one */
} wrong_fetch;

/* Two ranks that fetch from each other, or rank 0 from rank 1 where they have other samples. */
static lk_status fetch_between(lk_comm *comm, void *arg)
{
    const wrong_fetch *wrong = arg ? arg : &(wrong_fetch){.samples = {2, 2}};
    const int64_t *samples = wrong->samples;
    const int64_t tiles[] = {2};
    const lk_tile_spec s = {.kind = LK_TILE_CONV,
                            .window = {1, .kernel = {3}, .pad_lo = {samples[0] == samples[1]}},
                            .in = {6000},
                            .out = {6000}};
    lk_status st;
    lk_grid grid;
    lk_tiling *t = NULL;
    lk_tile *tile = NULL;
    float *x = NULL;
    LK_TRY(lk_grid_make(comm, 1, (const int[]){2}, NULL, &grid));
    LK_TRY(lk_tiling_new(comm, &grid, tiles, 0, &t));
    LK_TRY_TO(done, lk_agree(comm, lk_tile_new(t, &s, &tile)));
    LK_TRY_TO(done, lk_agree(comm, lk_alloc_zero(&x, 3 * 6000, sizeof *x)));
    for (int i = 0; i < 2; i++) {
        st = lk_fetch_begin(tile->get_x, LK_F32, samples[grid.at[0]], 1,
                            wrong->box.ndim ? &wrong->box : &tile->x.box, x, "margin");
        if (st == LK_ENOMEM) { /* the other waits for it, and is told before this rank returns */
            lk_status after = lk_barrier(comm, "after");
            ASSERT_TRUE(after != LK_OK && after != LK_ESTALL);
        }
        LK_TRY_TO(done, st);
        LK_TRY_TO(done, lk_fetch_end(tile->get_x));
    }
done:
    lk_free(x);
    lk_tile_free(tile);
    lk_tiling_free(t);
    return st;
}

RANKS_TEST(failures_are_told_and_leave_nothing)
{
    wrong_fetch other = {.samples = {3, 2}}, small = {{2, 2}, {1, {0}, {10}}};
    if (lk_comm_size(comm) > 1 || strcmp(lk_comm_transport(comm), "mpi") == 0)
        return; /* it has ranks of its own */
    ASSERT_FAILS(
        lk_run_local(2, fetch_between, &other), LK_EMISMATCH,
        "fetch(\"margin\"): rank 1 has sent 4 elements, where this rank, with 3 samples of 1 "
        "channels, waits for 6");
    ASSERT_FAILS(lk_run_local(2, fetch_between, &small), LK_EINVAL,
                 "does not hold all that the fetch gets and gives");
    expect_scarce_memory_is_told(fetch_between);
}
