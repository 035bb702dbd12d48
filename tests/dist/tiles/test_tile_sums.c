/* Sums over the positions of each tile, and means over all on the ranks that own samples: any ranks have
 * the bits of one that has all tiles, with one tile those of lk_sum() and lk_mean(), and all are what a
 * plain program adds up; gradients are their adjoints, with nothing in the margin. */
#include "tile_values.h"

/* ---- a call and its gradient ---- */

enum kind { SUMS, TOTAL, MEAN };

struct results {
    lk_tensor *y, *dx;
};

static void results_free(struct results *r)
{
    lk_tensor_free(r->y);
    lk_tensor_free(r->dx);
}

/* The number of leaf k among the tiles of all ranks, row-major. */
static int64_t tile_number(const lk_tiling *t, int64_t k)
{
    int64_t at[CUT_AXES];
    for (int d = CUT_AXES - 1; d >= 0; d--) {
        at[d] = t->held[d].first + k % t->held[d].n;
        k /= t->held[d].n;
    }
    return (at[0] * t->tiles[1] + at[1]) * t->tiles[2] + at[2];
}

/* dy: of each tile its own, of each sample the owner's. */
static lk_tensor *gradient_of(const struct held *h, enum kind kind, lk_shape shape, int64_t first)
{
    lk_tensor *dy = tensor_like(h->of.dtype, shape, 0);
    int64_t vector = h->of.samples * h->of.channels;
    for (int64_t i = 0; i < elements_of(dy); i++) {
        int64_t place = i + first * h->of.channels;
        if (kind == SUMS)
            place = tile_number(h->tiling, i / vector) * vector + i % vector;
        real_put(dy, i, cut_real(7, place, h->of.dtype));
    }
    return dy;
}

/* `samples`: of ranks, for means. */
static struct results run_kind(const struct held *h, enum kind kind, const int64_t *samples)
{
    struct results r;
    lk_tape *tape;
    lk_var x, y;
    lk_tensor *v = held_values(h, 1, 0), *dy;
    int64_t first = samples && h->tiling->comm ? samples[h->tiling->rank] : 0;
    r.dx = tensor_like(h->of.dtype, held_shape(h), 0);
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_tape_set_shard_size(tape, h->of.shard));
    ASSERT_OK(lk_leaf(tape, v, r.dx, &x));
    if (kind == MEAN)
        ASSERT_OK(lk_dist_tile_mean(h->tile, x, samples, "mean", &y));
    else
        ASSERT_OK(lk_dist_tile_sums(h->tile, x, "sums", &y));
    if (kind == TOTAL)
        ASSERT_OK(lk_dist_sum_tiles(h->tiling, y, "total", &y));
    r.y = value_kept(y);
    dy = gradient_of(h, kind, lk_shape_of(y), first);
    ASSERT_OK(lk_backward(tape, &(lk_seed){y, dy}, 1, 0));
    for (int64_t i = 0; i < elements_of(r.dx); i++)
        ASSERT_TRUE(place_of(h, i) >= 0 || real_at(r.dx, i) == 0);
    lk_tape_free(tape);
    lk_tensor_free(v);
    lk_tensor_free(dy);
    return r;
}

/* ---- ranks against one ---- */

/* Vectors of `got`, from number `i` on, are those of `want` from `k` on. */
static void assert_vectors(const struct held *h, const lk_tensor *got, int64_t i,
                           const lk_tensor *want, int64_t k, int64_t n)
{
    size_t bytes = (size_t)h->of.channels * lk_dtype_size(h->of.dtype);
    if (n > 0)
        ASSERT_SAME_BITS((const char *)lk_tensor_data(got) + (size_t)i * bytes,
                         (const char *)lk_tensor_data(want) + (size_t)k * bytes, (size_t)n * bytes);
}

static void sums_against_one(lk_comm *comm, const int *dim, struct tiled of)
{
    struct held h = held_begin(&of, comm, dim, true), all = held_begin(&of, NULL, dim, false);
    struct results got = run_kind(&h, SUMS, NULL), want = run_kind(&all, SUMS, NULL);
    ASSERT_TRUE(lk_shape_is_equal(lk_tensor_shape(got.y),
                                  LK_SHAPE(h.tile->leaves, of.samples, of.channels)));
    for (int64_t k = 0; k < h.tile->leaves; k++)
        assert_vectors(&h, got.y, k * of.samples, want.y, tile_number(h.tiling, k) * of.samples,
                       of.samples);
    assert_part(&h, got.dx, &all, want.dx, 0);
    results_free(&got);
    results_free(&want);
    got = run_kind(&h, TOTAL, NULL);
    want = run_kind(&all, TOTAL, NULL);
    assert_same(got.y, want.y);
    assert_part(&h, got.dx, &all, want.dx, 0);
    results_free(&got);
    results_free(&want);
    held_end(&h);
    held_end(&all);
}

RANKS_TEST(sums_of_any_ranks_have_the_bits_of_one)
{
    on_all_tilings(comm, sums_against_one);
}

/* Samples dealt evenly, and all to the last rank. */
static void means_against_one(lk_comm *comm, const int *dim, struct tiled of)
{
    int size = lk_comm_size(comm), rank = lk_comm_rank(comm);
    int64_t samples[16] = {0};
    struct held h = held_begin(&of, comm, dim, true), all = held_begin(&of, NULL, dim, false);
    struct results want = run_kind(&all, MEAN, NULL);
    for (int last = 0; last < 2; last++) {
        for (int r = 0; r < size; r++)
            samples[r] = last ? 0 : lk_range_split(of.samples, r, size).first;
        samples[size] = of.samples;
        struct results got = run_kind(&h, MEAN, samples);
        int64_t own = samples[rank + 1] - samples[rank];
        ASSERT_TRUE(lk_shape_is_equal(lk_tensor_shape(got.y), LK_SHAPE(own, of.channels)));
        assert_vectors(&h, got.y, 0, want.y, samples[rank], own);
        assert_part(&h, got.dx, &all, want.dx, 0);
        results_free(&got);
    }
    results_free(&want);
    held_end(&h);
    held_end(&all);
}

RANKS_TEST(means_of_any_ranks_have_the_bits_of_one)
{
    on_all_tilings(comm, means_against_one);
}

/* ---- one tile: the ops on whole samples ---- */

static struct results run_plain(const struct held *h, enum kind kind)
{
    struct results r;
    lk_tape *tape;
    lk_var x, y;
    lk_tensor *v = held_values(h, 1, 0), *dy;
    r.dx = tensor_like(h->of.dtype, held_shape(h), 0);
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_tape_set_shard_size(tape, h->of.shard));
    ASSERT_OK(lk_leaf(tape, v, r.dx, &x));
    ASSERT_OK(kind == MEAN ? lk_mean(x, LK_AXES(1, 2), &y) : lk_sum(x, LK_AXES(1, 2), &y));
    r.y = value_kept(y);
    dy = gradient_of(h, kind, lk_shape_of(y), 0);
    ASSERT_OK(lk_backward(tape, &(lk_seed){y, dy}, 1, 0));
    lk_tape_free(tape);
    lk_tensor_free(v);
    lk_tensor_free(dy);
    return r;
}

RANKS_TEST(one_tile_has_the_bits_of_the_ops)
{
    (void)comm;
    for (int i = 0; i < 4; i++) {
        struct tiled of = {.ndim = 2,
                           .n = {9, 7},
                           .tiles = {1, 1},
                           .samples = i == 3 ? 0 : 5,
                           .channels = i == 2 ? 0 : 3,
                           .shard = 2,
                           .dtype = i == 1 ? LK_F64 : LK_F32};
        struct held h = held_begin(&of, NULL, NULL, false);
        for (enum kind kind = TOTAL; kind <= MEAN; kind++) {
            struct results got = run_kind(&h, kind, NULL), want = run_plain(&h, kind);
            assert_same(got.y, want.y);
            assert_same(got.dx, want.dx);
            results_free(&got);
            results_free(&want);
        }
        held_end(&h);
    }
}

/* ---- a plain program ---- */

/* 5x3 tiles of 4x61 positions, some of them empty: each mean by hand, tile by tile, and the gradient of
 * each tile. */
RANKS_TEST(values_are_those_of_a_plain_program)
{
    struct tiled of = {
        .ndim = 2, .n = {4, 61}, .tiles = {5, 3}, .samples = 2, .channels = 2, .dtype = LK_F64};
    (void)comm;
    struct held h = held_begin(&of, NULL, NULL, false);
    struct results sums = run_kind(&h, SUMS, NULL), means = run_kind(&h, MEAN, NULL);
    lk_tensor *x = held_values(&h, 1, 0);
    for (int64_t v = 0; v < of.samples * of.channels; v++) {
        double leaf[15];
        int64_t s = v / of.channels, c = v % of.channels;
        for (int64_t k = 0; k < 15; k++) {
            const lk_box *b = &h.tile->x_leaf[k];
            struct lanes lanes = {{0}, 0};
            int64_t at = (k * of.samples + s) * of.channels + c;
            for (int64_t i = b->first[0]; i < b->first[0] + b->n[0]; i++)
                for (int64_t j = b->first[1]; j < b->first[1] + b->n[1]; j++) {
                    int64_t place = ((s * of.n[0] + i) * of.n[1] + j) * of.channels + c;
                    lanes_add(&lanes, real_at(x, place));
                    ASSERT_TRUE(real_at(sums.dx, place) == cut_real(7, at, LK_F64));
                    ASSERT_TRUE(real_at(means.dx, place) == cut_real(7, v, LK_F64) / 244);
                }
            leaf[k] = lk__ref_tree(LK_F64, lanes.lane, 16);
            ASSERT_TRUE(real_at(sums.y, at) == leaf[k]);
        }
        ASSERT_TRUE(real_at(means.y, v) == tree_of_tiles(&of, leaf) / 244);
    }
    lk_tensor_free(x);
    results_free(&sums);
    results_free(&means);
    held_end(&h);
}

/* ---- adjoints ---- */

/* The sum over ranks of <mean(x), dy>, and of <x, dx>: they are linear, so this is what differences say. */
RANKS_TEST(gradients_are_the_adjoints)
{
    struct tile_cut cut = tile_cut_of(lk_comm_size(comm), 2, 0);
    int size = lk_comm_size(comm), rank = lk_comm_rank(comm);
    int64_t samples[16];
    for (enum kind kind = SUMS; kind <= MEAN; kind += 2) {
        struct tiled of = tiled_of(cut.dim, 2, 2, LK_F64);
        struct held h = held_begin(&of, comm, cut.dim, true);
        double side[2] = {0, 0};
        for (int r = 0; r <= size; r++)
            samples[r] = r * of.samples / size;
        struct results got = run_kind(&h, kind, samples);
        lk_tensor *x = held_values(&h, 1, 0),
                  *dy = gradient_of(&h, kind, lk_tensor_shape(got.y), samples[rank]);
        for (int64_t i = 0; i < elements_of(dy); i++)
            side[0] += real_at(got.y, i) * real_at(dy, i);
        for (int64_t i = 0; i < elements_of(x); i++)
            side[1] += real_at(x, i) * real_at(got.dx, i);
        ASSERT_OK(lk_allreduce(comm, side, side, 2, LK_F64, LK_REDUCE_SUM, "sides"));
        ASSERT_NEAR(side[0], side[1], 1e-9 * (1 + fabs(side[0])));
        lk_tensor_free(x);
        lk_tensor_free(dy);
        results_free(&got);
        held_end(&h);
    }
}

/* The loss is the sum of squares: the sum of its gradient has the same slope everywhere. */
RANKS_TEST(second_derivatives_are_those_of_linear_calls)
{
    struct tile_cut cut = tile_cut_of(lk_comm_size(comm), 2, 0);
    struct tiled of = tiled_of(cut.dim, 2, 3, LK_F64);
    struct held h = held_begin(&of, comm, cut.dim, true);
    int64_t samples[16];
    lk_tape *tape;
    lk_var x, y, dx, v, d2;
    lk_tensor *values = held_values(&h, 1, 0);
    const lk_tensor *got;
    for (int r = 0; r <= lk_comm_size(comm); r++)
        samples[r] = r == 0 ? 0 : of.samples;
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_leaf(tape, values, NULL, &x));
    ASSERT_OK(lk_dist_tile_mean(h.tile, x, samples, "mean", &y));
    ASSERT_OK(lk_square(y, &v));
    ASSERT_OK(lk_sum(v, NULL, &v));
    ASSERT_OK(lk_grad(tape, &v, NULL, 1, &x, 1, LK_RECORD, &dx));
    ASSERT_OK(lk_sum(dx, NULL, &v));
    ASSERT_OK(lk_grad(tape, &v, NULL, 1, &x, 1, 0, &d2));
    ASSERT_OK(lk_value(d2, &got));
    double positions = (double)(of.n[0] * of.n[1]);
    for (int64_t i = 0; i < elements_of(got); i++)
        ASSERT_NEAR(real_at(got, i), place_of(&h, i) < 0 ? 0 : 2 / positions, 1e-12);
    lk_tape_free(tape);
    lk_tensor_free(values);
    held_end(&h);
}

/* ---- edges ---- */

RANKS_TEST(a_pass_without_samples_has_no_sums)
{
    struct tile_cut cut = tile_cut_of(lk_comm_size(comm), 2, 0);
    struct tiled of = tiled_of(cut.dim, 2, 2, LK_F32);
    int64_t none[16] = {0};
    of.samples = 0;
    struct held h = held_begin(&of, comm, cut.dim, true);
    for (enum kind kind = SUMS; kind <= MEAN; kind++) {
        struct results got = run_kind(&h, kind, none);
        ASSERT_EQ(elements_of(got.y), 0);
        results_free(&got);
    }
    held_end(&h);
}

/* A tiling that only looks at what a grid would do has a part of the sums. */
RANKS_TEST(sums_over_tiles_need_all_ranks)
{
    lk_grid grid = {.ndim = 1, .dim = {2}};
    lk_tile_spec spec = {.window = {.ndim = 1}, .in = {4}, .out = {4}};
    lk_tiling *tiling;
    lk_tile *tile;
    lk_tape *tape;
    lk_var x, y;
    (void)comm;
    ASSERT_OK(lk_tiling_new(NULL, &grid, (int64_t[]){4}, 0, &tiling));
    ASSERT_OK(lk_tile_new(tiling, &spec, &tile));
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_full(tape, LK_F32, LK_SHAPE(2, 2, 3), 1, &x));
    ASSERT_FAILS(lk_dist_tile_mean(tile, x, NULL, "t", &y), LK_ESTATE,
                 "a tiling of 2 ranks without a communicator");
    ASSERT_OK(lk_full(tape, LK_F32, LK_SHAPE(tile->leaves, 3), 1, &x));
    ASSERT_FAILS(lk_dist_sum_tiles(tiling, x, "t", &y), LK_ESTATE,
                 "a tiling of 2 ranks without a communicator");
    lk_tape_free(tape);
    lk_tile_free(tile);
    lk_tiling_free(tiling);
}

RANKS_TEST(misuse_is_refused)
{
    int dim[] = {lk_comm_size(comm)};
    struct tiled of = tiled_of(dim, 1, 0, LK_F32);
    struct held h = held_begin(&of, comm, dim, false);
    int64_t samples[16] = {1};
    lk_tape *tape;
    lk_var x, y;
    lk_shape shape = held_shape(&h);
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_full(tape, LK_F32, shape, 1, &x));
    ASSERT_FAILS(lk_dist_tile_sums(NULL, x, "t", &y), LK_EINVAL, "tile is NULL");
    ASSERT_FAILS(lk_dist_tile_mean(NULL, x, samples, "t", &y), LK_EINVAL, "tile is NULL");
    if (h.tiling->comm) {
        ASSERT_FAILS(lk_dist_tile_mean(h.tile, x, NULL, "t", &y), LK_EINVAL, "samples is NULL");
        ASSERT_FAILS(lk_dist_tile_mean(h.tile, x, samples, "t", &y), LK_EINVAL,
                     "must ascend from 0 to 4");
    }
    shape.dim[1]++;
    ASSERT_OK(lk_full(tape, LK_F32, shape, 1, &x));
    ASSERT_FAILS(lk_dist_tile_sums(h.tile, x, "t", &y), LK_ESHAPE, "where this rank holds");
    ASSERT_FAILS(lk_dist_tile_mean(h.tile, x, samples, "t", &y), LK_ESHAPE,
                 "where this rank holds");
    shape.dim[1]--;
    ASSERT_OK(lk_full(tape, LK_I64, shape, 1, &x));
    ASSERT_FAILS(lk_dist_tile_sums(h.tile, x, "t", &y), LK_EDTYPE, "only f32 and f64");
    lk_tape_free(tape);
    held_end(&h);
}
