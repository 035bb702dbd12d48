/* Layer norm over all of a sample that is cut into tiles: any ranks have the bits of one that has all tiles,
 * each with the parameters of its own positions; with one tile they are those of the op on whole samples;
 * and all are what a plain program computes, sum by sum, and what differences say. */
#include "comm/comm.h"
#include "tile_values.h"

#define EPS 1e-3

struct results {
    lk_tensor *y, *dx, *dgamma, *dbeta;
};

static void results_free(struct results *r)
{
    lk_tensor *all[] = {r->y, r->dx, r->dgamma, r->dbeta};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        lk_tensor_free(all[i]);
}

/* ---- parameters of a rank's positions ---- */

static lk_shape param_shape(const struct held *h)
{
    lk_shape s = {.ndim = h->of.ndim + 1};
    for (int d = 0; d < h->of.ndim; d++)
        s.dim[d] = h->tile->x.tile.n[d];
    s.dim[h->of.ndim] = h->of.channels;
    return s;
}

/* Where element i of a parameter is in that of the whole. */
static int64_t param_place(const struct held *h, int64_t i)
{
    const lk_box *tile = &h->tile->x.tile;
    int64_t c = i % h->of.channels, at[CUT_AXES] = {0}, place = 0;
    i /= h->of.channels;
    for (int d = h->of.ndim - 1; d >= 0; d--) {
        at[d] = tile->first[d] + i % tile->n[d];
        i /= tile->n[d];
    }
    for (int d = 0; d < h->of.ndim; d++)
        place = place * h->of.n[d] + at[d];
    return place * h->of.channels + c;
}

static lk_tensor *param_values(const struct held *h, int stream)
{
    lk_tensor *t = tensor_like(h->of.dtype, param_shape(h), 0);
    for (int64_t i = 0; i < elements_of(t); i++)
        real_put(t, i, 0.5 + (double)((param_place(h, i) * 7 + stream) % 11) / 8);
    return t;
}

static void assert_param(const struct held *h, const lk_tensor *got, const lk_tensor *want)
{
    size_t size = lk_dtype_size(h->of.dtype);
    const char *a = lk_tensor_data(got), *b = lk_tensor_data(want);
    ASSERT_TRUE(lk_shape_is_equal(lk_tensor_shape(got), param_shape(h)));
    for (int64_t i = 0; i < elements_of(got); i++)
        ASSERT_SAME_BITS(a + i * (int64_t)size, b + param_place(h, i) * (int64_t)size, size);
}

/* ---- a pass ---- */

static lk_status normalise(const struct held *h, bool plain, const lk_var in[3], lk_var *out)
{
    lk_layer_norm_attr attr = {.axes = h->of.ndim + 1, .eps = EPS};
    if (plain)
        return lk_layer_norm(in[0], in[1], in[2], &attr, out);
    return lk_dist_tile_layer_norm(h->tile, in[0], in[1], in[2], &attr, "norm", out);
}

static struct results run_norm(const struct held *h, bool plain)
{
    struct results r;
    lk_tape *tape;
    lk_var in[3], y;
    lk_tensor *v[] = {held_values(h, 1, 0), param_values(h, 0), param_values(h, 3)};
    lk_tensor *dy = held_values(h, 2, 0);
    r.dx = tensor_like(h->of.dtype, held_shape(h), 0);
    r.dgamma = tensor_like(h->of.dtype, param_shape(h), 0);
    r.dbeta = tensor_like(h->of.dtype, param_shape(h), 0);
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_tape_set_shard_size(tape, h->of.shard));
    ASSERT_OK(lk_leaf(tape, v[0], r.dx, &in[0]));
    ASSERT_OK(lk_leaf(tape, v[1], r.dgamma, &in[1]));
    ASSERT_OK(lk_leaf(tape, v[2], r.dbeta, &in[2]));
    ASSERT_OK(normalise(h, plain, in, &y));
    r.y = value_kept(y);
    ASSERT_OK(lk_backward(tape, &(lk_seed){y, dy}, 1, 0));
    lk_tape_free(tape);
    for (int i = 0; i < 3; i++)
        lk_tensor_free(v[i]);
    lk_tensor_free(dy);
    return r;
}

static void assert_results(const struct held *h, const struct results *got, const struct held *all,
                           const struct results *want)
{
    assert_part(h, got->y, all, want->y, 0);
    assert_part(h, got->dx, all, want->dx, 0);
    assert_param(h, got->dgamma, want->dgamma);
    assert_param(h, got->dbeta, want->dbeta);
    for (int64_t i = 0; i < elements_of(got->y); i++)
        if (place_of(h, i) < 0)
            ASSERT_TRUE(real_at(got->y, i) == 0 && real_at(got->dx, i) == 0);
}

/* ---- ranks against one ---- */

static void against_one(lk_comm *comm, const int *dim, struct tiled of)
{
    struct held h = held_begin(&of, comm, dim, true), all = held_begin(&of, NULL, dim, false);
    struct results got = run_norm(&h, false), want = run_norm(&all, false);
    assert_results(&h, &got, &all, &want);
    results_free(&got);
    results_free(&want);
    held_end(&h);
    held_end(&all);
}

RANKS_TEST(any_ranks_have_the_bits_of_one)
{
    on_all_tilings(comm, against_one);
}

/* ---- one tile: the op on whole samples ---- */

RANKS_TEST(one_tile_has_the_bits_of_the_op)
{
    (void)comm;
    for (int kind = 0; kind < 12; kind++) {
        struct tiled of = {.ndim = 1 + kind % 3,
                           .n = {5, 7, 3},
                           .tiles = {1, 1, 1},
                           .samples = kind == 5   ? 0
                                      : kind == 2 ? 35
                                                  : 5,
                           .channels = kind == 4   ? 0
                                       : kind == 7 ? 1
                                                   : 3,
                           .shard = kind == 2 ? 1 : 2 * (kind != 1),
                           .dtype = kind % 2 ? LK_F64 : LK_F32};
        struct held h = held_begin(&of, NULL, NULL, false);
        struct results got = run_norm(&h, false), want = run_norm(&h, true);
        assert_same(got.y, want.y);
        assert_same(got.dx, want.dx);
        assert_same(got.dgamma, want.dgamma);
        assert_same(got.dbeta, want.dbeta);
        results_free(&got);
        results_free(&want);
        held_end(&h);
    }
}

/* ---- a plain program ---- */

/* One sample of the whole, and what it is normalised by. */
struct sample {
    const struct held *all;
    const lk_tensor *x, *dy, *gamma;
    int64_t first, n; /* of its elements */
    double mean, inv;
};

enum which { SUM_X, SUM_SQUARES, SUM_G, SUM_G_NORMAL };

static double term(const struct sample *s, enum which which, int64_t i)
{
    double x = real_at(s->x, s->first + i), c = x - s->mean;
    switch (which) {
    case SUM_X: return x;
    case SUM_SQUARES: return c * c;
    case SUM_G: return real_at(s->gamma, i) * real_at(s->dy, s->first + i);
    default: return real_at(s->gamma, i) * real_at(s->dy, s->first + i) * (c * s->inv);
    }
}

/* A lane sum of each leaf, joined by the tree over tiles. */
static double mean_of(const struct sample *s, enum which which)
{
    const struct tiled *of = &s->all->of;
    double leaf[64] = {0};
    ASSERT_TRUE(s->all->tile->leaves <= 64);
    for (int64_t k = 0; k < s->all->tile->leaves; k++) {
        const lk_box *b = &s->all->tile->x_leaf[k];
        struct lanes lanes = {{0}, 0};
        for (int64_t i = b->first[0]; i < b->first[0] + b->n[0]; i++)
            for (int64_t j = b->first[1]; j < b->first[1] + b->n[1]; j++)
                for (int64_t c = 0; c < of->channels; c++)
                    lanes_add(&lanes, term(s, which, (i * of->n[1] + j) * of->channels + c));
        leaf[k] = lk__ref_tree(LK_F64, lanes.lane, 16);
    }
    return tree_of_tiles(of, leaf) / (double)s->n;
}

/* y and dx of a sample; what it gives to dgamma goes to `product`. */
static void sample_check(struct sample *s, const struct results *got, const lk_tensor *beta,
                         double *product)
{
    s->mean = 0;
    s->mean = mean_of(s, SUM_X);
    s->inv = 1 / sqrt(mean_of(s, SUM_SQUARES) + EPS);
    double u = mean_of(s, SUM_G), v = mean_of(s, SUM_G_NORMAL);
    for (int64_t i = 0; i < s->n; i++) {
        double c = real_at(s->x, s->first + i) - s->mean, dy = real_at(s->dy, s->first + i);
        double y = c * s->inv * real_at(s->gamma, i) + real_at(beta, i);
        ASSERT_TRUE(real_at(got->y, s->first + i) == y);
        double dx = s->inv * ((real_at(s->gamma, i) * dy - u) - c * s->inv * v);
        ASSERT_TRUE(real_at(got->dx, s->first + i) == dx);
        product[s->first + i] = dy * (c * s->inv);
    }
}

/* Sums over the samples of a shard, by lanes, joined by the tree over shards. */
static double samples_sum(const struct tiled *of, const double *v, int64_t n, int64_t i)
{
    double shard[8] = {0};
    int64_t shards = (of->samples - 1) / of->shard + 1;
    for (int64_t k = 0; k < shards; k++) {
        struct lanes lanes = {{0}, 0};
        for (int64_t s = k * of->shard; s < of->samples && s < (k + 1) * of->shard; s++)
            lanes_add(&lanes, v[s * n + i]);
        shard[k] = lk__ref_tree(LK_F64, lanes.lane, 16);
    }
    return lk__ref_tree(LK_F64, shard, shards);
}

/* 4x3 tiles of 9x7 positions, of 3 shards of which the last has one sample. */
RANKS_TEST(values_are_those_of_a_plain_program)
{
    enum { SAMPLES = 5, ROWS = 9, COLUMNS = 7, CHANNELS = 2, N = ROWS * COLUMNS * CHANNELS };
    struct tiled of = {.ndim = 2,
                       .n = {ROWS, COLUMNS},
                       .tiles = {4, 3},
                       .samples = SAMPLES,
                       .channels = CHANNELS,
                       .shard = 2,
                       .dtype = LK_F64};
    (void)comm;
    struct held all = held_begin(&of, NULL, NULL, false);
    struct results got = run_norm(&all, false);
    lk_tensor *x = held_values(&all, 1, 0), *dy = held_values(&all, 2, 0);
    lk_tensor *gamma = param_values(&all, 0), *beta = param_values(&all, 3);
    double product[SAMPLES * N];
    for (int64_t k = 0; k < SAMPLES; k++) {
        struct sample s = {.all = &all, .x = x, .dy = dy, .gamma = gamma, .first = k * N, .n = N};
        sample_check(&s, &got, beta, product);
    }
    for (int64_t i = 0; i < N; i++) {
        ASSERT_TRUE(real_at(got.dgamma, i) == samples_sum(&of, product, N, i));
        ASSERT_TRUE(real_at(got.dbeta, i) == samples_sum(&of, lk_tensor_data(dy), N, i));
    }
    lk_tensor *done[] = {x, dy, gamma, beta};
    for (int i = 0; i < 4; i++)
        lk_tensor_free(done[i]);
    results_free(&got);
    held_end(&all);
}

/* ---- differences ---- */

/* Of x, gamma or beta (0 to 2), element `place` of the whole. */
struct element {
    int of;
    int64_t place;
};

static int64_t element_place(const struct held *h, const struct element *e, int64_t i)
{
    return e->of == 0 ? place_of(h, i) : param_place(h, i);
}

/* The loss of all ranks, the sum of y and a fixed dy, where one element is `by` more. */
static double loss_at(const struct held *h, lk_comm *comm, const struct element *e, double by)
{
    lk_tape *tape;
    lk_var in[3], out;
    const lk_tensor *y;
    double loss = 0;
    lk_tensor *v[] = {held_values(h, 1, 0), param_values(h, 0), param_values(h, 3)};
    lk_tensor *dy = held_values(h, 2, 0);
    for (int64_t i = 0; i < elements_of(v[e->of]); i++)
        if (element_place(h, e, i) == e->place)
            real_put(v[e->of], i, real_at(v[e->of], i) + by);
    ASSERT_OK(lk_tape_new(&tape));
    for (int i = 0; i < 3; i++)
        ASSERT_OK(lk_constant(tape, v[i], &in[i]));
    ASSERT_OK(normalise(h, false, in, &out));
    ASSERT_OK(lk_value(out, &y));
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
    struct results got = run_norm(&h, false);
    lk_tensor *of_each[] = {got.dx, got.dgamma, got.dbeta};
    int64_t each = of.n[0] * of.n[1] * of.channels;
    struct element e = {0, 0};
    for (; e.of < 3; e.of++)
        for (e.place = 0; e.place < (e.of == 0 ? of.samples : 1) * each; e.place += 29) {
            double step = 1e-5, sum = 0;
            double slope = (loss_at(&h, comm, &e, step) - loss_at(&h, comm, &e, -step)) /
                           (2 * step);
            for (int64_t i = 0; i < elements_of(of_each[e.of]); i++)
                sum += element_place(&h, &e, i) == e.place ? real_at(of_each[e.of], i) : 0;
            ASSERT_OK(lk_allreduce(comm, &sum, &sum, 1, LK_F64, LK_REDUCE_SUM, "gradient"));
            ASSERT_NEAR(sum, slope, 1e-6 * (1 + fabs(slope)));
        }
    results_free(&got);
    held_end(&h);
}

/* ---- edges ---- */

/* Two sums in forward and one in backward, of all samples together. */
RANKS_TEST(it_costs_three_small_sums)
{
    int dim[] = {lk_comm_size(comm)};
    struct tiled of = tiled_of(dim, 1, 0, LK_F32);
    struct held h = held_begin(&of, comm, dim, true);
    if (h.tiling->along[0]) {
        const lk_comm *along = h.tiling->along[0];
        int64_t calls = along->n_calls, bytes = along->n_bytes, others = comm->n_calls;
        struct results got = run_norm(&h, false);
        ASSERT_EQ(along->n_calls - calls, 2 + 1);
        ASSERT_EQ(along->n_bytes - bytes, (2 + 2) * of.samples * (int64_t)sizeof(float));
        ASSERT_EQ(comm->n_calls, others);
        results_free(&got);
    }
    held_end(&h);
}

RANKS_TEST(a_pass_without_samples_sends_nothing)
{
    int dim[] = {lk_comm_size(comm)};
    struct tiled of = tiled_of(dim, 1, 0, LK_F32);
    of.samples = 0;
    struct held h = held_begin(&of, comm, dim, true);
    int64_t calls = h.tiling->along[0] ? h.tiling->along[0]->n_calls : 0;
    struct results got = run_norm(&h, false);
    for (int64_t i = 0; i < elements_of(got.dgamma); i++)
        ASSERT_TRUE(real_at(got.dgamma, i) == 0 && real_at(got.dbeta, i) == 0);
    ASSERT_EQ(h.tiling->along[0] ? h.tiling->along[0]->n_calls : 0, calls);
    results_free(&got);
    held_end(&h);
}

RANKS_TEST(misuse_is_refused)
{
    struct tiled of = {
        .ndim = 2, .n = {6, 4}, .tiles = {2, 1}, .samples = 2, .channels = 3, .dtype = LK_F32};
    struct held h = held_begin(&of, NULL, NULL, false);
    lk_layer_norm_attr attr = {.axes = 3}, two = {.axes = 2}, negative = {.axes = 3, .eps = -1};
    lk_tape *tape;
    lk_var x, p, other, y;
    (void)comm;
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_full(tape, LK_F32, LK_SHAPE(2, 6, 4, 3), 1, &x));
    ASSERT_OK(lk_full(tape, LK_F32, LK_SHAPE(6, 4, 3), 1, &p));
    ASSERT_OK(lk_dist_tile_layer_norm(h.tile, x, p, p, &attr, "n", &y));
    ASSERT_FAILS(lk_dist_tile_layer_norm(h.tile, x, p, p, &two, "n", &y), LK_EINVAL,
                 "on tiles there is 1, the channels, or 3, all of a sample");
    ASSERT_FAILS(lk_dist_tile_layer_norm(h.tile, x, p, p, &negative, "n", &y), LK_EINVAL, "eps -1");
    ASSERT_FAILS(lk_dist_tile_layer_norm(h.tile, x, p, LK_NO_VAR, &attr, "n", &y), LK_EINVAL, "");
    ASSERT_OK(lk_full(tape, LK_F32, LK_SHAPE(3, 4, 3), 1, &other));
    ASSERT_FAILS(lk_dist_tile_layer_norm(h.tile, x, p, other, &attr, "n", &y), LK_ESHAPE,
                 "with beta f32[3,4,3]: of the positions of this rank's tile it must be [6,4,3]");
    ASSERT_FAILS(lk_dist_tile_layer_norm(h.tile, p, p, p, &attr, "n", &y), LK_ESHAPE,
                 "this rank holds positions");
    ASSERT_OK(lk_full(tape, LK_F64, LK_SHAPE(6, 4, 3), 1, &other));
    ASSERT_FAILS(lk_dist_tile_layer_norm(h.tile, x, other, p, &attr, "n", &y), LK_EDTYPE,
                 "one dtype for all");
    lk_tape_free(tape);
    held_end(&h);
}
