/* Batch norm on tiles: any ranks have the bits of one that has all tiles, also of parts of a batch; with
 * one tile they are those of the op on whole samples; and all are what a plain program computes, sum by
 * sum, and what differences say. */
#include "comm/comm.h"
#include "tile_values.h"

struct results {
    lk_tensor *y, *dx, *mean, *variance, *dgamma, *dbeta;
};

static void results_free(struct results *r)
{
    lk_tensor *all[] = {r->y, r->dx, r->mean, r->variance, r->dgamma, r->dbeta};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        lk_tensor_free(all[i]);
}

/* How a call normalises; `plain`: by the op on whole samples. */
struct way {
    const lk_dist_batch *batch;
    bool whole, plain;
    int64_t first; /* of its samples in the batch */
};

static lk_status normalise(const struct held *h, struct way way, const lk_var in[3], lk_var out[3])
{
    lk_batch_norm_attr attr = {.eps = 1e-3, .whole_batch = way.whole};
    if (way.plain && way.batch)
        return lk_dist_batch_norm(way.batch, in[0], in[1], in[2], &attr, "norm", out);
    if (way.plain)
        return lk_batch_norm(in[0], in[1], in[2], &attr, &out[0], &out[1], &out[2]);
    return lk_dist_tile_batch_norm(h->tile, way.batch, in[0], in[1], in[2], &attr, "norm", out);
}

static struct results run_norm(const struct held *h, struct way way)
{
    struct results r;
    lk_tape *tape;
    lk_var in[3], out[3];
    lk_tensor *x = held_values(h, 1, way.first), *dy = held_values(h, 2, way.first);
    lk_tensor *gamma = channel_values(&h->of, 0), *beta = channel_values(&h->of, 3);
    r.dx = tensor_like(h->of.dtype, held_shape(h), 0);
    r.dgamma = tensor_like(h->of.dtype, LK_SHAPE(h->of.channels), 0);
    r.dbeta = tensor_like(h->of.dtype, LK_SHAPE(h->of.channels), 0);
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_tape_set_shard_size(tape, h->of.shard));
    ASSERT_OK(lk_leaf(tape, x, r.dx, &in[0]));
    ASSERT_OK(lk_leaf(tape, gamma, r.dgamma, &in[1]));
    ASSERT_OK(lk_leaf(tape, beta, r.dbeta, &in[2]));
    ASSERT_OK(normalise(h, way, in, out));
    r.y = value_kept(out[0]);
    r.mean = value_kept(out[1]);
    r.variance = value_kept(out[2]);
    ASSERT_OK(lk_backward(tape, &(lk_seed){out[0], dy}, 1, 0));
    lk_tape_free(tape);
    lk_tensor *done[] = {x, dy, gamma, beta};
    for (int i = 0; i < 4; i++)
        lk_tensor_free(done[i]);
    return r;
}

static void assert_results(const struct held *h, const struct results *got, const struct held *all,
                           const struct results *want, int64_t first)
{
    assert_part(h, got->y, all, want->y, first);
    assert_part(h, got->dx, all, want->dx, first);
    assert_same(got->mean, want->mean);
    assert_same(got->variance, want->variance);
}

/* ---- ranks against one ---- */

static void against_one(lk_comm *comm, const int *dim, struct tiled of)
{
    struct held h = held_begin(&of, comm, dim, true), all = held_begin(&of, NULL, dim, false);
    for (int whole = 0; whole < 2; whole++) {
        struct results got = run_norm(&h, (struct way){.whole = whole}),
                       want = run_norm(&all, (struct way){.whole = whole});
        assert_results(&h, &got, &all, &want, 0);
        assert_same(got.dgamma, want.dgamma);
        assert_same(got.dbeta, want.dbeta);
        results_free(&got);
        results_free(&want);
    }
    held_end(&h);
    held_end(&all);
}

RANKS_TEST(any_ranks_have_the_bits_of_one)
{
    on_all_tilings(comm, against_one);
}

/* Ranks along data have parts of a batch, each of which is cut over ranks along tiles. */
RANKS_TEST(parts_of_a_batch_have_the_bits_of_one)
{
    int size = lk_comm_size(comm), rank = lk_comm_rank(comm), along = 1, n = 2;
    lk_comm *data, *tiles;
    int64_t first[9];
    while (n <= size && size % n)
        n++;
    along = size > 1 ? n : 1;
    int dim[] = {size / along, 1};
    ASSERT_OK(lk_comm_split(comm, rank % dim[0], rank, &data));
    ASSERT_OK(lk_comm_split(comm, rank / dim[0], rank, &tiles));
    struct tiled of = tiled_of(dim, 2, 2, LK_F32);
    of.samples = 9;
    lk_subtree_partition(5, along, first);
    lk_dist_batch batch = {.comm = data, .samples = 9, .shards = 5, .first = first};
    struct held all = held_begin(&of, NULL, dim, false);
    int64_t from = 2 * first[rank / dim[0]], end = 2 * first[rank / dim[0] + 1];
    of.samples = (end < 9 ? end : 9) - (from < 9 ? from : 9);
    struct held h = held_begin(&of, tiles, dim, true);
    struct results got = run_norm(&h, (struct way){.batch = &batch, .first = from}),
                   want = run_norm(&all, (struct way){.whole = true});
    assert_results(&h, &got, &all, &want, from);
    if (from > 0 || of.samples == 0) {
        ASSERT_OK(lk_tensor_fill_f64(want.dgamma, 0));
        ASSERT_OK(lk_tensor_fill_f64(want.dbeta, 0));
    }
    assert_same(got.dgamma, want.dgamma);
    assert_same(got.dbeta, want.dbeta);
    results_free(&got);
    results_free(&want);
    held_end(&h);
    held_end(&all);
    lk_comm_close(data);
    lk_comm_close(tiles);
}

/* ---- one tile: the op on whole samples ---- */

static void assert_like_plain(const struct held *h, struct way way)
{
    struct results got = run_norm(h, way);
    way.plain = true;
    struct results want = run_norm(h, way);
    assert_results(h, &got, h, &want, 0);
    assert_same(got.dgamma, want.dgamma);
    assert_same(got.dbeta, want.dbeta);
    results_free(&got);
    results_free(&want);
}

RANKS_TEST(one_tile_has_the_bits_of_the_op)
{
    lk_comm *own;
    ASSERT_OK(lk_comm_split(comm, lk_comm_rank(comm), 0, &own));
    for (int kind = 0; kind < 6; kind++) {
        struct tiled of = {.ndim = 2,
                           .n = {5, 7},
                           .tiles = {1, 1},
                           .samples = kind == 5   ? 0
                                      : kind == 2 ? 35 /* more shards than lanes */
                                                  : 5,
                           .channels = kind == 4 ? 0 : 3,
                           .shard = kind == 2 ? 1 : 2 * (kind != 1),
                           .dtype = kind % 2 ? LK_F64 : LK_F32};
        lk_dist_batch batch = {.comm = own, .samples = of.samples};
        if (of.shard > 0 && of.samples > 0)
            batch.shards = (of.samples - 1) / of.shard + 1;
        struct held h = held_begin(&of, NULL, NULL, false);
        assert_like_plain(&h, (struct way){.whole = false});
        assert_like_plain(&h, (struct way){.whole = true});
        if (batch.shards > 0)
            assert_like_plain(&h, (struct way){.batch = &batch});
        held_end(&h);
    }
    lk_comm_close(own);
}

/* ---- a plain program ---- */

/* The sum of f of all rows of a shard, leaf by leaf. */
struct rows {
    const struct held *all;
    const lk_tensor *x, *dy;
    int64_t shard, channel;
    double mean;
};

enum which { SUM_X, SUM_SQUARES, SUM_DY, SUM_DY_C };

static double row_term(const struct rows *r, enum which which, int64_t i)
{
    double c = real_at(r->x, i) - r->mean;
    switch (which) {
    case SUM_X: return real_at(r->x, i);
    case SUM_SQUARES: return c * c;
    case SUM_DY: return real_at(r->dy, i);
    default: return real_at(r->dy, i) * c;
    }
}

static double rows_total(const struct rows *r, enum which which)
{
    const struct tiled *of = &r->all->of;
    double leaf[64];
    ASSERT_TRUE(r->all->tile->leaves <= 64);
    for (int64_t k = 0; k < r->all->tile->leaves; k++) {
        const lk_box *b = &r->all->tile->x_leaf[k];
        struct lanes lanes = {{0}, 0};
        for (int64_t s = r->shard * of->shard; s < of->samples && s < (r->shard + 1) * of->shard;
             s++)
            for (int64_t i = b->first[0]; i < b->first[0] + b->n[0]; i++)
                for (int64_t j = b->first[1]; j < b->first[1] + b->n[1]; j++)
                    lanes_add(&lanes, row_term(r, which,
                                               ((s * of->n[0] + i) * of->n[1] + j) * of->channels +
                                                   r->channel));
        leaf[k] = lk__ref_tree(LK_F64, lanes.lane, 16);
    }
    return tree_of_tiles(of, leaf);
}

/* One channel: statistics, y and dx of each shard, and its share of the gradients. */
static void channel_check(struct rows *r, const struct results *got, double gamma, double beta)
{
    const struct tiled *of = &r->all->of;
    int64_t shards = (of->samples - 1) / of->shard + 1, each = of->n[0] * of->n[1];
    double dgamma[8], dbeta[8];
    for (r->shard = 0; r->shard < shards; r->shard++) {
        int64_t from = r->shard * of->shard, end = from + of->shard;
        end = end < of->samples ? end : of->samples;
        double m = (double)((end - from) * each);
        r->mean = 0;
        r->mean = rows_total(r, SUM_X) / m;
        double variance = rows_total(r, SUM_SQUARES) / m, inv = 1 / sqrt(variance + 1e-3);
        double k = inv * gamma, dy_c = rows_total(r, SUM_DY_C);
        dbeta[r->shard] = rows_total(r, SUM_DY);
        dgamma[r->shard] = dy_c * inv;
        double w = 2 * 0.0 / m - k * inv * inv * (dy_c / m), b = 0 / m - k * (dbeta[r->shard] / m);
        int64_t at = r->shard * of->channels + r->channel;
        ASSERT_TRUE(real_at(got->mean, at) == r->mean);
        ASSERT_TRUE(real_at(got->variance, at) == variance);
        for (int64_t p = from * each; p < end * each; p++) {
            int64_t i = p * of->channels + r->channel;
            double c = real_at(r->x, i) - r->mean;
            ASSERT_TRUE(real_at(got->y, i) == c * k + beta);
            ASSERT_TRUE(real_at(got->dx, i) == real_at(r->dy, i) * k + c * w + b);
        }
    }
    ASSERT_TRUE(real_at(got->dgamma, r->channel) == lk__ref_tree(LK_F64, dgamma, shards));
    ASSERT_TRUE(real_at(got->dbeta, r->channel) == lk__ref_tree(LK_F64, dbeta, shards));
}

/* 4x3 tiles of 9x7 positions, of 3 shards of which the last has one sample. */
RANKS_TEST(values_are_those_of_a_plain_program)
{
    struct tiled of = {.ndim = 2,
                       .n = {9, 7},
                       .tiles = {4, 3},
                       .samples = 5,
                       .channels = 2,
                       .shard = 2,
                       .dtype = LK_F64};
    (void)comm;
    struct held all = held_begin(&of, NULL, NULL, false);
    struct results got = run_norm(&all, (struct way){0});
    lk_tensor *x = held_values(&all, 1, 0), *dy = held_values(&all, 2, 0);
    lk_tensor *gamma = channel_values(&of, 0), *beta = channel_values(&of, 3);
    struct rows r = {.all = &all, .x = x, .dy = dy};
    for (r.channel = 0; r.channel < of.channels; r.channel++)
        channel_check(&r, &got, real_at(gamma, r.channel), real_at(beta, r.channel));
    lk_tensor *done[] = {x, dy, gamma, beta};
    for (int i = 0; i < 4; i++)
        lk_tensor_free(done[i]);
    results_free(&got);
    held_end(&all);
}

/* ---- differences ---- */

/* The loss of all ranks, the sum of y and a fixed dy, where element `place` of x (or, from the end of x
 * on, of gamma and beta) is `by` more. */
static double loss_at(const struct held *h, lk_comm *comm, int64_t place, int64_t count, double by)
{
    lk_tape *tape;
    lk_var in[3], out[3];
    const lk_tensor *y;
    double loss = 0;
    lk_tensor *v[] = {held_values(h, 1, 0), channel_values(&h->of, 0), channel_values(&h->of, 3)};
    lk_tensor *dy = held_values(h, 2, 0);
    for (int64_t i = 0; i < elements_of(v[0]); i++)
        if (place_of(h, i) == place)
            real_put(v[0], i, real_at(v[0], i) + by);
    for (int64_t i = 0; i < 2 * h->of.channels; i++)
        if (place == count + i) {
            lk_tensor *t = v[1 + i / h->of.channels];
            real_put(t, i % h->of.channels, real_at(t, i % h->of.channels) + by);
        }
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_tape_set_shard_size(tape, h->of.shard));
    for (int i = 0; i < 3; i++)
        ASSERT_OK(lk_constant(tape, v[i], &in[i]));
    ASSERT_OK(normalise(h, (struct way){0}, in, out));
    ASSERT_OK(lk_value(out[0], &y));
    for (int64_t i = 0; i < elements_of(y); i++)
        loss += place_of(h, i) < 0 ? 0 : real_at(y, i) * real_at(dy, i);
    ASSERT_OK(lk_allreduce(comm, &loss, &loss, 1, LK_F64, LK_REDUCE_SUM, "loss"));
    lk_tape_free(tape);
    for (int i = 0; i < 3; i++)
        lk_tensor_free(v[i]);
    lk_tensor_free(dy);
    return loss;
}

RANKS_TEST(gradients_are_what_differences_say)
{
    struct tile_cut cut = tile_cut_of(lk_comm_size(comm), 2, 0);
    struct tiled of = tiled_of(cut.dim, 2, 3, LK_F64);
    struct held h = held_begin(&of, comm, cut.dim, true);
    struct results got = run_norm(&h, (struct way){0});
    int64_t count = of.samples * of.n[0] * of.n[1] * of.channels;
    for (int64_t place = 0; place < count + 2 * of.channels; place += place < count - 37 ? 37
                                                                      : place < count
                                                                          ? count - place
                                                                          : 1) {
        double step = 1e-5, sum = 0;
        double slope = (loss_at(&h, comm, place, count, step) -
                        loss_at(&h, comm, place, count, -step)) /
                       (2 * step);
        for (int64_t i = 0; i < elements_of(got.dx); i++)
            sum += place_of(&h, i) == place ? real_at(got.dx, i) : 0;
        ASSERT_OK(lk_allreduce(comm, &sum, &sum, 1, LK_F64, LK_REDUCE_SUM, "dx"));
        if (place >= count + of.channels)
            sum = real_at(got.dbeta, place - count - of.channels);
        else if (place >= count)
            sum = real_at(got.dgamma, place - count);
        ASSERT_NEAR(sum, slope, 1e-6 * (1 + fabs(slope)));
    }
    results_free(&got);
    held_end(&h);
}

/* ---- edges ---- */

/* Two sums in forward and one in backward, of all shards together. */
RANKS_TEST(it_costs_three_small_sums)
{
    int dim[] = {lk_comm_size(comm)};
    struct tiled of = tiled_of(dim, 1, 3, LK_F32);
    struct held h = held_begin(&of, comm, dim, true);
    if (h.tiling->along[0]) {
        int64_t before = h.tiling->along[0]->n_calls, others = comm->n_calls;
        struct results got = run_norm(&h, (struct way){0});
        ASSERT_EQ(h.tiling->along[0]->n_calls - before, 2 + 1);
        ASSERT_EQ(comm->n_calls, others);
        results_free(&got);
    }
    held_end(&h);
}

RANKS_TEST(a_batch_without_samples_is_none)
{
    struct tile_cut cut = tile_cut_of(lk_comm_size(comm), 2, 0);
    struct tiled of = tiled_of(cut.dim, 2, 2, LK_F32);
    of.samples = 0;
    struct held h = held_begin(&of, comm, cut.dim, true);
    struct results got = run_norm(&h, (struct way){0});
    ASSERT_TRUE(lk_shape_is_equal(lk_tensor_shape(got.mean), LK_SHAPE(0, 3)));
    for (int64_t c = 0; c < 3; c++)
        ASSERT_TRUE(real_at(got.dgamma, c) == 0 && real_at(got.dbeta, c) == 0);
    results_free(&got);
    held_end(&h);
}

RANKS_TEST(misuse_is_refused)
{
    struct tiled of = {.ndim = 1, .n = {9}, .tiles = {3}, .channels = 2, .dtype = LK_F32};
    lk_tape *tape;
    lk_var x, g, out[3];
    lk_dist_batch batch = {.samples = 4};
    struct held h = held_begin(&of, NULL, NULL, false);
    (void)comm;
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_full(tape, LK_F32, LK_SHAPE(4, 8, 2), 1, &x));
    ASSERT_OK(lk_full(tape, LK_F32, LK_SHAPE(2), 1, &g));
    ASSERT_FAILS(lk_dist_tile_batch_norm(h.tile, NULL, x, g, g, NULL, "t", out), LK_ESHAPE,
                 "tile_batch_norm: x is [4,8,2], where this rank holds positions [9]");
    ASSERT_FAILS(lk_dist_tile_batch_norm(NULL, NULL, x, g, g, NULL, "t", out), LK_EINVAL,
                 "tile is NULL");
    ASSERT_OK(lk_full(tape, LK_F32, LK_SHAPE(4, 9, 2), 1, &x));
    ASSERT_FAILS(lk_dist_tile_batch_norm(h.tile, &batch, x, g, g, NULL, "t", out), LK_EINVAL,
                 "batch has no comm");
    ASSERT_FAILS(lk_dist_tile_batch_norm(h.tile, NULL, x, x, g, NULL, "t", out), LK_ESHAPE,
                 "one number for each channel");
    lk_tape_free(tape);
    held_end(&h);
}
