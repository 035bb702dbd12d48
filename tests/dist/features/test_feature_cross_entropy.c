/* Softmax cross entropy of classes that are cut over ranks: any ranks have what plain loops compute, bit by
 * bit; with one block it is lk_softmax_cross_entropy(), and its gradient agrees with differences. */
#include "feature_values.h"

struct entropy_case {
    lk_dtype dtype, index;
    int64_t samples, each, classes, shard; /* labels are [samples][each] */
    lk_loss_reduction reduction;
    bool odd, strange; /* strange: with infinities and NaN */
};

/* Operands and results as a whole. */
struct whole {
    void *x, *label, *dl, *loss, *dx;
    int64_t n_loss;
};

static void whole_free(struct whole *v)
{
    free(v->x), free(v->label), free(v->dl), free(v->loss), free(v->dx);
}

static int64_t label_at(const struct entropy_case *k, const struct whole *v, int64_t i)
{
    return k->index == LK_I32 ? ((const int32_t *)v->label)[i] : ((const int64_t *)v->label)[i];
}

/* ---- plain loops; exponentials and logarithms are the library's ---- */

/* Of one row: its loss, and (exp(x - m) / s - [is label]) of all classes. */
static double plain_row(const struct entropy_case *k, const struct whole *v, struct cut_rule rule,
                        int64_t row, double *slope)
{
    lk_dtype t = k->dtype;
    int64_t n = k->classes, size = plain_block(rule, n), label = label_at(k, v, row), blocks = 0;
    double max = -HUGE_VAL, e[64], block[64];
    for (int64_t c = 0; c < n; c++) {
        double x = real_get(t, v->x, row * n + c);
        max = isnan(x) || x > max ? x : max;
        if (isnan(max))
            break;
    }
    for (int64_t c = 0; c < n; c++)
        e[c] = lk__ref_function(t, LK_MAP1_EXP, real_sub(t, real_get(t, v->x, row * n + c), max));
    for (int64_t from = 0; from < n; from += size)
        block[blocks++] = lk__ref_lanes(t, e + from, n - from < size ? n - from : size);
    double sum = lk__ref_tree(t, block, blocks), log_sum = lk__ref_function(t, LK_MAP1_LOG, sum);
    for (int64_t c = 0; c < n; c++) {
        slope[c] = real_div(t, e[c], sum);
        if (c == label)
            slope[c] = real_sub(t, slope[c], 1);
    }
    return real_sub(t, 0,
                    real_sub(t, real_sub(t, real_get(t, v->x, row * n + label), max), log_sum));
}

/* The losses of all rows to one number: shards by lanes, joined, and divided. */
static double plain_reduce(const struct entropy_case *k, const double *loss)
{
    double shards[64];
    int64_t rows = k->samples * k->each, piece = k->shard * k->each, n = 0;
    for (int64_t from = 0; from < rows; from += piece)
        shards[n++] = lk__ref_lanes(k->dtype, loss + from,
                                    rows - from < piece ? rows - from : piece);
    double sum = lk__ref_tree(k->dtype, shards, n);
    double by = k->reduction == LK_LOSS_SUM ? 1 : (double)rows;
    return real_div(k->dtype, sum, by);
}

static struct whole whole_new(const struct entropy_case *k, struct cut_rule rule)
{
    lk_dtype t = k->dtype;
    int64_t rows = k->samples * k->each, n = k->classes;
    bool each = k->reduction == LK_LOSS_NONE;
    struct whole v = {.x = real_new(t, rows * n, 1, k->odd),
                      .label = calloc((size_t)rows + 1, 8),
                      .dl = real_new(t, each ? rows : 1, 2, false),
                      .loss = array_new(t, each ? rows : 1),
                      .dx = array_new(t, rows * n),
                      .n_loss = each ? rows : 1};
    double loss[64], slope[64];
    uint64_t state = 9;
    for (int64_t i = 0; i < rows * n && k->strange; i++)
        if (real_random(&state) % 40 == 0)
            real_set(t, v.x, i, i % 3 == 0 ? (double)NAN : i % 3 == 1 ? HUGE_VAL : -HUGE_VAL);
    for (int64_t r = 0; r < rows; r++) {
        int64_t label = (int64_t)real_random(&state) % n;
        if (k->index == LK_I32)
            ((int32_t *)v.label)[r] = (int32_t)label;
        else
            ((int64_t *)v.label)[r] = label;
        loss[r] = plain_row(k, &v, rule, r, slope);
        double dl = real_get(t, v.dl, each ? r : 0), by = (double)rows;
        if (k->reduction == LK_LOSS_MEAN)
            dl = real_div(t, dl, by);
        for (int64_t c = 0; c < n; c++) /* 0 + dx, in a leaf */
            real_set(t, v.dx, r * n + c, real_add(t, 0, real_mul(t, slope[c], dl)));
        if (each)
            real_set(t, v.loss, r, loss[r]);
    }
    if (!each)
        real_set(t, v.loss, 0, plain_reduce(k, loss));
    return v;
}

/* ---- runs ---- */

/* s NULL: lk_softmax_cross_entropy(). */
static void case_run(const lk_feature_split *s, const struct entropy_case *k, const struct whole *v)
{
    lk_dtype t = k->dtype;
    int64_t rows = k->samples * k->each, n = k->classes;
    lk_range own = s ? range_of(s, n) : (lk_range){0, n}, all = {0, v->n_loss};
    void *part = array_part(t, v->x, rows, n, 1, own), *dx = array_new(t, rows * own.n);
    lk_tape *tape;
    lk_var x, label, loss;
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_tape_set_shard_size(tape, k->shard));
    ASSERT_OK(lk_leaf_data(tape, t, LK_SHAPE(k->samples, k->each, own.n), part, dx, &x));
    ASSERT_OK(lk_constant_data(tape, k->index, LK_SHAPE(k->samples, k->each), v->label, &label));
    if (s)
        ASSERT_OK(lk_dist_feature_cross_entropy(s, n, x, label, k->reduction, "loss", &loss));
    else
        ASSERT_OK(lk_softmax_cross_entropy(x, label, k->reduction, &loss));
    assert_part_of(t, value_of(loss), v->loss, 1, v->n_loss, 1, all);
    backward_from(loss, v->dl);
    assert_part_of(t, dx, v->dx, rows, n, 1, own);
    lk_tape_free(tape);
    free(part), free(dx);
}

static struct entropy_case case_of(int i, bool strange)
{
    static const int64_t sizes[] = {1, 5, 16, 33, 50};
    static const lk_loss_reduction reductions[] = {LK_LOSS_MEAN, LK_LOSS_SUM, LK_LOSS_NONE};
    return (struct entropy_case){.dtype = i % 2 ? LK_F64 : LK_F32,
                                 .index = i % 3 ? LK_I64 : LK_I32,
                                 .samples = 1 + i % 6,
                                 .each = 1 + i % 3,
                                 .classes = sizes[i % 5],
                                 .shard = 2,
                                 .reduction = reductions[i / 5 % 3],
                                 .odd = i % 4 == 1,
                                 .strange = strange};
}

enum { CASES = 30, PLAIN = 0, STRANGE, SOME_STRANGE };

static void case_check(int kind, int i, struct cut_rule rule, const lk_feature_split *const *split,
                       int n_splits)
{
    struct entropy_case k = case_of(i, kind == STRANGE || (kind == SOME_STRANGE && i % 7 == 3));
    struct whole v = whole_new(&k, rule);
    for (int n = 0; n < n_splits; n++)
        case_run(split[n], &k, &v);
    whole_free(&v);
}

RANKS_TEST(classes_over_ranks_have_the_bits_of_one_rank)
{
    on_all_rules(comm, case_check, PLAIN, CASES);
}

RANKS_TEST(infinities_and_nan_do_not_depend_on_ranks)
{
    on_all_rules(comm, case_check, STRANGE, CASES);
}

RANKS_TEST(one_block_is_softmax_cross_entropy)
{
    on_one_block(comm, case_check, SOME_STRANGE, CASES);
}

/* Far from each other, but the largest is taken away. */
RANKS_TEST(large_logits_do_not_overflow)
{
    lk_feature_split *s = split_new(comm, (struct cut_rule){8, 1});
    lk_range own = range_of(s, 16);
    const int64_t label[] = {3, 15};
    float x[32], part[32];
    lk_tape *tape;
    lk_var v, k, loss;
    for (int i = 0; i < 32; i++)
        x[i] = i % 16 == (i < 16 ? 3 : 15) ? 3e38f : -3e38f;
    void *dense = array_part(LK_F32, x, 2, 16, 1, own);
    memcpy(part, dense, (size_t)(2 * own.n) * sizeof part[0]);
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_constant_data(tape, LK_F32, LK_SHAPE(2, own.n), part, &v));
    ASSERT_OK(lk_constant_data(tape, LK_I64, LK_SHAPE(2), label, &k));
    ASSERT_OK(lk_dist_feature_cross_entropy(s, 16, v, k, LK_LOSS_SUM, "loss", &loss));
    ASSERT_EQ(*(const float *)value_of(loss), 0);
    lk_tape_free(tape);
    lk_feature_split_free(s);
    free(dense);
}

static double loss_now(const lk_feature_split *s, const struct entropy_case *k,
                       const struct whole *v)
{
    lk_tape *tape;
    lk_var x, label, loss;
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_constant_data(tape, LK_F64, LK_SHAPE(k->samples, k->each, k->classes), v->x, &x));
    ASSERT_OK(lk_constant_data(tape, k->index, LK_SHAPE(k->samples, k->each), v->label, &label));
    ASSERT_OK(lk_dist_feature_cross_entropy(s, k->classes, x, label, k->reduction, "loss", &loss));
    double sum = *(const double *)value_of(loss);
    lk_tape_free(tape);
    return sum;
}

RANKS_TEST(gradients_agree_with_differences)
{
    const struct cut_rule rule = {4, 1};
    struct entropy_case k = {LK_F64, LK_I64, 3, 2, 7, 2, LK_LOSS_MEAN, false, false};
    struct whole v = whole_new(&k, rule);
    lk_feature_split *one = split_new(NULL, rule);
    double *x = v.x, *dx = v.dx, dl = *(double *)v.dl, h = 1e-4;
    (void)comm;
    for (int64_t i = 0; i < 3 * 2 * 7; i++) {
        double was = x[i], up, down;
        x[i] = was + h, up = loss_now(one, &k, &v);
        x[i] = was - h, down = loss_now(one, &k, &v);
        x[i] = was;
        ASSERT_NEAR((up - down) / (2 * h) * dl, dx[i], 1e-8);
    }
    lk_feature_split_free(one);
    whole_free(&v);
}

RANKS_TEST(misuse_is_refused)
{
    const int64_t beyond[] = {3, 16};
    lk_feature_split *s = split_new(comm, (struct cut_rule){8, 1});
    float zeros[64] = {0};
    lk_tape *tape;
    lk_var x, k, y;
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_constant_data(tape, LK_F32, LK_SHAPE(2, range_of(s, 16).n), zeros, &x));
    ASSERT_OK(lk_constant_data(tape, LK_I64, LK_SHAPE(2), beyond, &k));
    ASSERT_FAILS(lk_dist_feature_cross_entropy(s, 16, x, k, LK_LOSS_MEAN, "l", &y), LK_EINVAL,
                 "label");
    ASSERT_FAILS(lk_dist_feature_cross_entropy(s, 16, x, x, LK_LOSS_MEAN, "l", &y), LK_ESHAPE,
                 "labels are i64 or i32");
    ASSERT_FAILS(lk_dist_feature_cross_entropy(s, 160, x, k, LK_LOSS_MEAN, "l", &y), LK_ESHAPE,
                 "features along the last axis");
    lk_tape_free(tape);
    lk_feature_split_free(s);
}
