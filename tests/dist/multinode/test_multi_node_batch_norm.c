/* Batch norm over the parts of a batch that ranks have: values, gradients and running statistics of one rank
 * that has all samples. */
#include "nodes/oracles.h"

enum { CHANNELS = 3, POSITIONS = 2, MOST_SIZE = 8 };

/* Samples [first, first + n) of a batch of `total`, in shards of `each` samples; 0: it is one. */
struct part {
    lk_dtype dtype;
    int64_t total, first, n, each;
};

/* What came out of a pass and its backward. */
struct result {
    lk_tensor *y, *dx, *dgamma, *dbeta, *mean, *variance;
};

static void result_free(struct result *r)
{
    lk_tensor *all[] = {r->y, r->dx, r->dgamma, r->dbeta, r->mean, r->variance};
    for (int i = 0; i < 6; i++)
        lk_tensor_free(all[i]);
}

/* That part of values which every rank can make. */
static lk_tensor *part_new(const struct part *p, const char *purpose)
{
    lk_tensor *whole = random_new(LK_SHAPE(p->total, POSITIONS, CHANNELS), purpose, 0), *cut, *out;
    ASSERT_OK(lk_tensor_slice(whole, 0, p->first, p->first + p->n, 1, &cut));
    ASSERT_OK(lk_tensor_clone(cut, p->dtype, &out));
    lk_tensor_free(cut);
    lk_tensor_free(whole);
    return out;
}

static lk_tensor *clone_of(lk_var v)
{
    const lk_tensor *t;
    lk_tensor *out;
    ASSERT_OK(lk_value(v, &t));
    ASSERT_OK(lk_tensor_clone(t, lk_tensor_dtype(t), &out));
    return out;
}

/* The sum of y times numbers that differ, so that no gradient vanishes. */
static void weighted_backward(const struct part *p, lk_tape *tape, lk_var y)
{
    lk_tensor *weight = part_new(p, "weight");
    lk_var w, loss;
    ASSERT_OK(lk_constant(tape, weight, &w));
    ASSERT_OK(lk_mul(y, w, &loss));
    ASSERT_OK(lk_sum(loss, LK_AXES(0, 1, 2), &loss));
    ASSERT_OK(lk_backward(tape, &(lk_seed){.of = loss}, 1, 0));
    lk_tensor_free(weight);
}

/* gamma = 0.5, 0.75, 1 and beta = 1, 2, 3 */
static void params_set(lk_tensor *gamma, lk_tensor *beta)
{
    for (int64_t c = 0; c < CHANNELS; c++) {
        ASSERT_OK(lk_tensor_set_f64(gamma, LK_AT(c), 0.5 + 0.25 * (double)c));
        ASSERT_OK(lk_tensor_set_f64(beta, LK_AT(c), 1 + (double)c));
    }
}

/* The whole batch by the op of one rank. */
static struct result of_one_rank(const struct part *p)
{
    struct result r;
    struct part all = *p;
    lk_tape *tape;
    lk_tensor *gamma, *beta;
    lk_var y, mean, variance;
    all.first = 0;
    all.n = p->total;
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_tape_set_shard_size(tape, p->each));
    ASSERT_OK(lk_tensor_new(p->dtype, LK_SHAPE(CHANNELS), &gamma));
    ASSERT_OK(lk_tensor_new(p->dtype, LK_SHAPE(CHANNELS), &beta));
    params_set(gamma, beta);
    struct leaf x = leaf_of(tape, part_new(&all, "x")), g = leaf_of(tape, gamma),
                b = leaf_of(tape, beta);
    ASSERT_OK(lk_batch_norm(x.var, g.var, b.var,
                            &(lk_batch_norm_attr){.eps = 2e-5, .whole_batch = true}, &y, &mean,
                            &variance));
    r.y = clone_of(y);
    r.mean = clone_of(mean);
    r.variance = clone_of(variance);
    weighted_backward(&all, tape, y);
    r.dx = lk_tensor_retain(x.grad);
    r.dgamma = lk_tensor_retain(g.grad);
    r.dbeta = lk_tensor_retain(b.grad);
    lk_tape_free(tape);
    leaf_free(&x);
    leaf_free(&g);
    leaf_free(&b);
    return r;
}

static lk_tensor *slice_clone(const lk_slab *slab, const char *name)
{
    lk_tensor *t, *out;
    ASSERT_OK(lk_slab_find(slab, name, &t));
    ASSERT_OK(lk_tensor_clone(t, lk_tensor_dtype(t), &out));
    lk_tensor_free(t);
    return out;
}

/* This rank's part by the link; gradients of gamma and beta are those of all ranks added, as an optimizer gets
 * them, and `mean` and `variance` the running ones. */
static struct result of_link(lk_comm *comm, const struct part *p, const lk_dist_batch *batch,
                             const char *options)
{
    struct result r;
    lk_tape *tape;
    lk_multi_node_batch_norm *norm;
    lk_tensor *gamma, *beta;
    lk_var y;
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_tape_set_shard_size(tape, p->each));
    ASSERT_OK(lk_multi_node_batch_norm_new(comm, CHANNELS, options, &norm));
    lk_slab *params = lk_multi_node_batch_norm_params(norm),
            *grads = lk_multi_node_batch_norm_grads(norm);
    ASSERT_OK(lk_slab_find(params, "gamma", &gamma));
    ASSERT_OK(lk_slab_find(params, "beta", &beta));
    params_set(gamma, beta);
    struct leaf x = leaf_of(tape, part_new(p, "x"));
    ASSERT_OK(lk_multi_node_batch_norm_forward(norm, x.var, batch, true, &y));
    r.y = clone_of(y);
    weighted_backward(p, tape, y);
    ASSERT_OK(lk_allreduce(comm, NULL, lk_slab_data(grads),
                           lk_slab_layout_bytes(lk_slab_layout_of(grads)) /
                               (int64_t)lk_dtype_size(p->dtype),
                           p->dtype, LK_REDUCE_SUM, "gradients"));
    r.dx = lk_tensor_retain(x.grad);
    r.dgamma = slice_clone(grads, "gamma");
    r.dbeta = slice_clone(grads, "beta");
    r.mean = slice_clone(lk_multi_node_batch_norm_state(norm), "mean");
    r.variance = slice_clone(lk_multi_node_batch_norm_state(norm), "variance");
    lk_tape_free(tape);
    lk_multi_node_batch_norm_free(norm);
    lk_tensor_free(gamma);
    lk_tensor_free(beta);
    leaf_free(&x);
    return r;
}

static void expect_bits(const lk_tensor *a, const lk_tensor *b, int64_t b_first)
{
    int64_t row = (int64_t)POSITIONS * CHANNELS * (int64_t)lk_dtype_size(lk_tensor_dtype(a));
    int64_t bytes = lk_tensor_count(a) * (int64_t)lk_dtype_size(lk_tensor_dtype(a));
    ASSERT_SAME_BITS(lk_tensor_data(a), (const char *)lk_tensor_data(b) + b_first * row, bytes);
}

/* The running statistics after one pass, from 0 and 1, by the formula. */
static void expect_moved(const lk_tensor *running, const lk_tensor *seen, double start)
{
    for (int64_t c = 0; c < CHANNELS; c++) {
        double got, of;
        ASSERT_OK(lk_tensor_get_f64(running, LK_AT(c), &got));
        ASSERT_OK(lk_tensor_get_f64(seen, LK_AT(0, c), &of));
        if (lk_tensor_dtype(seen) == LK_F32)
            ASSERT_TRUE(got == (double)((float)start + 0.25F * ((float)of - (float)start)));
        else
            ASSERT_TRUE(got == start + 0.25 * (of - start));
    }
}

/* Shards of `each` samples, the last one perhaps smaller. */
static void expect_bits_of_one_rank(lk_comm *comm, lk_dtype dtype, int64_t total, int64_t each)
{
    int64_t shards = (total + each - 1) / each, first[MOST_SIZE + 1];
    int rank = lk_comm_rank(comm);
    lk_subtree_partition(shards, lk_comm_size(comm), first);
    int64_t from = first[rank] * each, end = first[rank + 1] * each;
    end = end < total ? end : total;
    struct part p = {
        .dtype = dtype, .total = total, .first = from, .n = end > from ? end - from : 0};
    p.each = each;
    lk_dist_batch batch = {.comm = comm, .samples = total, .shards = shards, .first = first};
    struct result want = of_one_rank(&p),
                  got = of_link(comm, &p, &batch,
                                dtype == LK_F32 ? "decay=0.75" : "decay=0.75 dtype=f64");
    expect_bits(got.y, want.y, p.first);
    expect_bits(got.dx, want.dx, p.first);
    expect_bits(got.dgamma, want.dgamma, 0);
    expect_bits(got.dbeta, want.dbeta, 0);
    expect_moved(got.mean, want.mean, 0);
    expect_moved(got.variance, want.variance, 1);
    result_free(&want);
    result_free(&got);
}

RANKS_TEST(shards_have_the_bits_of_one_rank)
{
    for (lk_dtype dtype = LK_F32; dtype <= LK_F64; dtype++) {
        expect_bits_of_one_rank(comm, dtype, 16, 2);
        expect_bits_of_one_rank(comm, dtype, 32, 3); /* 11 shards, the last of 2 */
        expect_bits_of_one_rank(comm, dtype, 4, 2);  /* most ranks have none */
        expect_bits_of_one_rank(comm, dtype, 1, 1);
    }
}

/* Rank r has r % 3 * 2 samples, the last one none at all, and the first some; nobody says how many. */
RANKS_TEST(parts_of_any_size_have_the_values_of_one_rank)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    struct part p = {.dtype = LK_F64};
    for (int r = 0; r < size; r++) {
        int64_t n = r == 0 ? 3 : r == size - 1 ? 0 : r % 3 * 2;
        p.first = r == rank ? p.total : p.first;
        p.n = r == rank ? n : p.n;
        p.total += n;
    }
    struct result want = of_one_rank(&p), got = of_link(comm, &p, NULL, "dtype=f64");
    const lk_tensor *a[] = {got.y, got.dx, got.dgamma, got.dbeta},
                    *b[] = {want.y, want.dx, want.dgamma, want.dbeta};
    for (int k = 0; k < 4; k++) {
        const double *of_a = lk_tensor_data(a[k]), *of_b = lk_tensor_data(b[k]);
        of_b += k < 2 ? p.first * POSITIONS * CHANNELS : 0;
        for (int64_t i = 0; i < lk_tensor_count(a[k]); i++)
            ASSERT_NEAR(of_a[i], of_b[i], 1e-12);
    }
    result_free(&want);
    result_free(&got);
}

/* ---- running statistics ---- */

/* Rank r has r + 1 samples, all of them r: a mean of means, or of variances, is not that of the batch. */
RANKS_TEST(running_statistics_are_those_of_all_samples)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    double m = 0, sum = 0, squares = 0, got;
    for (int r = 0; r < size; r++) {
        m += r + 1;
        sum += r * (r + 1);
        squares += r * r * (r + 1);
    }
    double mean = 0.1 * (sum / m), variance = 0.9 + 0.1 * (squares / m - sum / m * (sum / m));
    lk_tape *tape;
    lk_multi_node_batch_norm *norm;
    lk_var x, y;
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_multi_node_batch_norm_new(comm, 1, "dtype=f64", &norm));
    ASSERT_OK(lk_full(tape, LK_F64, LK_SHAPE(rank + 1, 1), rank, &x));
    ASSERT_OK(lk_multi_node_batch_norm_forward(norm, x, NULL, true, &y));
    lk_tensor *of_mean = slice_clone(lk_multi_node_batch_norm_state(norm), "mean"),
              *of_variance = slice_clone(lk_multi_node_batch_norm_state(norm), "variance");
    ASSERT_OK(lk_tensor_get_f64(of_mean, LK_AT(0), &got));
    ASSERT_NEAR(got, mean, 1e-13);
    ASSERT_OK(lk_tensor_get_f64(of_variance, LK_AT(0), &got));
    ASSERT_NEAR(got, variance, 1e-13);
    /* evaluation uses them, and nobody else is needed */
    ASSERT_OK(lk_full(tape, LK_F64, LK_SHAPE(1, 1), 2, &x));
    for (int r = 0; r <= rank; r++)
        ASSERT_OK(lk_multi_node_batch_norm_forward(norm, x, NULL, false, &y));
    ASSERT_OK(lk_item(y, &got));
    ASSERT_NEAR(got, (2 - mean) / sqrt(variance + 2e-5), 1e-12);
    lk_tape_free(tape);
    lk_multi_node_batch_norm_free(norm);
    lk_tensor_free(of_mean);
    lk_tensor_free(of_variance);
}

/* The layer batch_norm with statistics: batch, in the program's own loop, keeps the same bits. */
RANKS_TEST(the_layer_keeps_the_same_statistics)
{
    enum { EACH = 2, SHARDS = 8 };
    int64_t first[MOST_SIZE + 1];
    int rank = lk_comm_rank(comm);
    lk_subtree_partition(SHARDS, lk_comm_size(comm), first);
    struct part p = {.total = (int64_t)EACH * SHARDS, .first = EACH * first[rank], .each = EACH};
    p.n = EACH * (first[rank + 1] - first[rank]);
    lk_dist_batch batch = {.comm = comm, .samples = p.total, .shards = SHARDS, .first = first};
    struct result link = of_link(comm, &p, &batch, NULL);
    lk_model *model;
    lk_accumulator *sums;
    lk_tape *tape;
    lk_var x, y;
    lk_tensor *data = part_new(&p, "x");
    ASSERT_OK(lk_model_new(&model));
    ASSERT_OK(lk_model_add(model, "batch_norm", "statistics=batch eps=2e-5 name=bn"));
    lk_model_spec spec = {.in = {LK_F32, LK_SHAPE(POSITIONS, CHANNELS)}};
    ASSERT_OK(lk_model_build(model, &spec));
    ASSERT_OK(lk_model_hold(model, NULL));
    ASSERT_OK(lk_accumulator_new(model, &sums));
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_tape_set_shard_size(tape, EACH));
    ASSERT_OK(lk_constant(tape, data, &x));
    lk_pass pass = {.tape = tape,
                    .accumulator = sums,
                    .training = true,
                    .first = p.first,
                    .part = p.n < p.total,
                    .batch = &batch};
    ASSERT_OK(lk_model_forward(model, &pass, x, &y));
    lk_slab *slab = lk_accumulator_slab(sums);
    ASSERT_OK(lk_allreduce(comm, NULL, lk_slab_data(slab),
                           lk_slab_layout_bytes(lk_slab_layout_of(slab)) / 4, LK_F32, LK_REDUCE_SUM,
                           "sums"));
    ASSERT_OK(lk_model_update_running_stats(model, sums, SHARDS));
    lk_tensor *mean = slice_clone(lk_model_state(model), "bn.mean"),
              *variance = slice_clone(lk_model_state(model), "bn.variance");
    expect_bits(link.mean, mean, 0);
    expect_bits(link.variance, variance, 0);
    lk_tape_free(tape);
    lk_accumulator_free(sums);
    lk_model_free(model);
    lk_tensor_free(data);
    lk_tensor_free(mean);
    lk_tensor_free(variance);
    result_free(&link);
}

/* ---- ChainerMN's test: four nets ---- */

enum { LOCAL = 8, FEATURES = 3, UNITS = 2 };

typedef enum way { PLAIN, LINK } way;

/* The gradient of W [UNITS][FEATURES] of mean((BN(x W'))^3) on the samples of `comm`, the mean over its ranks
 * as a multi-node optimizer takes it.  x are samples [first, first + n) of the batch. */
static void net_gradient(lk_comm *comm, way how, int64_t first, int64_t n, double out[])
{
    lk_tape *tape;
    lk_multi_node_batch_norm *norm;
    lk_var gamma, beta, h, cube, loss;
    int64_t total = (int64_t)LOCAL * MOST_SIZE;
    lk_tensor *whole = random_new(LK_SHAPE(total, FEATURES), "four nets", 0), *cut;
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_tensor_slice(whole, 0, first, first + n, 1, &cut));
    struct leaf w = leaf_random(tape, LK_SHAPE(UNITS, FEATURES), "four nets", 1);
    ASSERT_OK(lk_multi_node_batch_norm_new(comm, UNITS, "dtype=f64", &norm));
    ASSERT_OK(lk_constant(tape, cut, &h));
    ASSERT_OK(lk_matmul_trans(h, w.var, false, true, &h));
    ASSERT_OK(lk_full(tape, LK_F64, LK_SHAPE(UNITS), 1, &gamma));
    ASSERT_OK(lk_full(tape, LK_F64, LK_SHAPE(UNITS), 0, &beta));
    if (how == LINK)
        ASSERT_OK(lk_multi_node_batch_norm_forward(norm, h, NULL, true, &h));
    else
        ASSERT_OK(
            lk_batch_norm(h, gamma, beta, &(lk_batch_norm_attr){.eps = 2e-5}, &h, NULL, NULL));
    ASSERT_OK(lk_square(h, &cube));
    ASSERT_OK(lk_mul(cube, h, &cube));
    ASSERT_OK(lk_mean(cube, NULL, &loss));
    ASSERT_OK(lk_backward(tape, &(lk_seed){.of = loss}, 1, 0));
    ASSERT_OK(lk_allreduce(comm, lk_tensor_data(w.grad), out, (int64_t)UNITS * FEATURES, LK_F64,
                           LK_REDUCE_AVG, "mean"));
    lk_tape_free(tape);
    lk_multi_node_batch_norm_free(norm);
    lk_tensor_free(cut);
    lk_tensor_free(whole);
    leaf_free(&w);
}

static bool is_near(const double *a, const double *b)
{
    bool near = true;
    for (int i = 0; i < UNITS * FEATURES; i++)
        near = near && fabs(a[i] - b[i]) <= 1e-4 + 1e-3 * fabs(b[i]);
    return near;
}

RANKS_TEST(of_four_nets_the_plain_one_on_many_ranks_differs)
{
    int64_t rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    double single[UNITS * FEATURES], single_link[UNITS * FEATURES], multi_link[UNITS * FEATURES],
        multi[UNITS * FEATURES];
    lk_comm *alone;
    ASSERT_OK(lk_comm_split(comm, (int)rank, 0, &alone));
    net_gradient(alone, PLAIN, 0, LOCAL * size, single);
    net_gradient(alone, LINK, 0, LOCAL * size, single_link);
    net_gradient(comm, LINK, LOCAL * rank, LOCAL, multi_link);
    net_gradient(comm, PLAIN, LOCAL * rank, LOCAL, multi);
    ASSERT_TRUE(is_near(single_link, single) && is_near(multi_link, single));
    ASSERT_TRUE(is_near(multi, single) == (size == 1));
    lk_comm_close(alone);
}

/* ---- options and misuse ---- */

RANKS_TEST(params_can_be_left_out)
{
    lk_tape *tape;
    lk_multi_node_batch_norm *norm;
    lk_var x, y;
    const float data[] = {1, 3};
    float out[2];
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_multi_node_batch_norm_new(
        comm, 1, "use_gamma=false initial_beta=5 initial_gamma=7 eps=1e-9", &norm));
    const lk_slab_layout *params = lk_slab_layout_of(lk_multi_node_batch_norm_params(norm));
    lk_slab_slice slice;
    ASSERT_EQ(lk_slab_layout_slices(params), 1);
    ASSERT_OK(lk_slab_layout_slice(params, 0, &slice));
    ASSERT_TRUE(strcmp(slice.name, "beta") == 0);
    ASSERT_OK(lk_constant_data(tape, LK_F32, LK_SHAPE(2, 1), data, &x));
    ASSERT_OK(lk_multi_node_batch_norm_forward(norm, x, NULL, true, &y));
    ASSERT_OK(lk_read(y, LK_F32, 2, out));
    ASSERT_NEAR(out[0], 4, 1e-6);
    ASSERT_NEAR(out[1], 6, 1e-6);
    lk_multi_node_batch_norm_free(norm);
    ASSERT_OK(lk_multi_node_batch_norm_new(comm, 1, "use_gamma=false use_beta=false", &norm));
    ASSERT_EQ(lk_slab_layout_slices(lk_slab_layout_of(lk_multi_node_batch_norm_params(norm))), 0);
    lk_tape_free(tape);
    lk_multi_node_batch_norm_free(norm);
}

RANKS_TEST(misuse_is_refused_before_anything_is_sent)
{
    lk_tape *tape;
    lk_multi_node_batch_norm *norm;
    lk_multi_node_batch_norm_options o = {.decay = 0.9, .eps = 0, .use_gamma = true};
    lk_var x, y;
    ASSERT_FAILS(lk_multi_node_batch_norm_new(comm, 0, NULL, &norm), LK_EINVAL, "0 channels");
    ASSERT_FAILS(lk_multi_node_batch_norm_new(NULL, 1, NULL, &norm), LK_EINVAL, "comm is NULL");
    ASSERT_FAILS(lk_multi_node_batch_norm_new(comm, 1, "decay=2", &norm), LK_EINVAL, "decay");
    ASSERT_FAILS(lk_multi_node_batch_norm_new(comm, 1, "communication_backend=nccl", &norm),
                 LK_EINVAL, "has no option \"communication_backend\"");
    ASSERT_FAILS(lk_multi_node_batch_norm_new_options(comm, 1, &o, &norm), LK_EINVAL, "eps 0");
    o = (lk_multi_node_batch_norm_options){.eps = 1, .initial_beta = (double)INFINITY};
    ASSERT_FAILS(lk_multi_node_batch_norm_new_options(comm, 1, &o, &norm), LK_EINVAL, "finite");
    o = (lk_multi_node_batch_norm_options){.eps = 1, .dtype = LK_I32};
    ASSERT_FAILS(lk_multi_node_batch_norm_new_options(comm, 1, &o, &norm), LK_EDTYPE, "only f32");
    ASSERT_OK(lk_multi_node_batch_norm_new_options(comm, 3, NULL, &norm));
    ASSERT_OK(lk_tape_new(&tape));
    if (lk_comm_rank(comm) == 0) { /* the others have not even called */
        ASSERT_OK(lk_full(tape, LK_F32, LK_SHAPE(2, 4), 0, &x));
        ASSERT_FAILS(lk_multi_node_batch_norm_forward(norm, x, NULL, true, &y), LK_ESHAPE,
                     "made for 3 channels");
        ASSERT_OK(lk_full(tape, LK_F64, LK_SHAPE(2, 3), 0, &x));
        ASSERT_FAILS(lk_multi_node_batch_norm_forward(norm, x, NULL, true, &y), LK_EDTYPE,
                     "of f64, made for f32");
        ASSERT_FAILS(lk_multi_node_batch_norm_forward(norm, LK_NO_VAR, NULL, true, &y), LK_EINVAL,
                     "multi_node_batch_norm");
    }
    ASSERT_OK(lk_full(tape, LK_F32, LK_SHAPE(0, 3), 0, &x)); /* nobody has a sample */
    ASSERT_FAILS(lk_multi_node_batch_norm_forward(norm, x, NULL, true, &y), LK_EINVAL,
                 "a batch of 0 samples");
    lk_tape_free(tape);
    lk_multi_node_batch_norm_free(norm);
}
