/* Linear layers whose units or inputs are cut over ranks: any ranks have what plain loops compute, bit by
 * bit, as one rank has; with one block they are lk_linear(), and differences agree with their gradients. */
#include "feature_values.h"

/* The ways to write one layer. */
enum way { JOINED, SCATTERED, BEHIND_COPY, BEHIND_GATHER_SUM, IN_JOINED, IN_BEFORE_JOIN, WAYS };

struct linear_case {
    enum way way;
    lk_dtype dtype;
    int64_t samples, each, in, units, shard; /* x is [samples][each][in] */
    bool bias, odd;
    lk_act act;
};

static bool cuts_in(enum way way)
{
    return way == IN_JOINED || way == IN_BEFORE_JOIN;
}

/* Whether a rank has its features of x. */
static bool splits_x(enum way way)
{
    return way == SCATTERED || way == BEHIND_GATHER_SUM || cuts_in(way);
}

/* Operands and results as a whole. */
struct whole {
    void *x, *w, *b, *dy, *y, *dx, *dw, *db;
};

static void whole_free(struct whole *v)
{
    free(v->x), free(v->w), free(v->b), free(v->dy);
    free(v->y), free(v->dx), free(v->dw), free(v->db);
}

/* ---- what must come out ---- */

static struct whole whole_new(const struct linear_case *k, struct cut_rule rule)
{
    lk_dtype t = k->dtype;
    int64_t rows = k->samples * k->each;
    struct whole v = {
        real_new(t, rows * k->in, 1, k->odd), real_new(t, k->in * k->units, 2, k->odd),
        real_new(t, k->units, 3, k->odd),     real_new(t, rows * k->units, 4, k->odd),
        array_new(t, rows * k->units),        array_new(t, rows * k->in),
        array_new(t, k->in * k->units),       array_new(t, k->units)};
    lk_gemm y = {.dtype = t, .act = k->act, .m = rows, .n = k->units, .k = k->in};
    y.lda = k->in, y.ldb = y.ldc = k->units;
    /* From b on, or b last where the sum is cut. */
    if (k->way == IN_BEFORE_JOIN || (k->way == IN_JOINED && plain_blocks(rule, k->in) > 1))
        y.piece = plain_block(rule, k->in);
    lk__ref_gemm(&y, v.x, v.w, k->bias ? v.b : NULL, v.y, NULL);
    void *dz = plain_dz(t, k->act, rows * k->units, v.dy, v.y);
    lk_gemm dx = {.dtype = t, .trans_b = true, .m = rows, .n = k->in, .k = k->units};
    dx.lda = dx.ldb = k->units, dx.ldc = k->in;
    dx.piece = cuts_in(k->way) ? 0 : plain_block(rule, k->units);
    lk__ref_gemm(&dx, dz, v.w, NULL, v.dx, NULL);
    lk_gemm dw = {.dtype = t, .trans_a = true, .m = k->in, .n = k->units, .k = rows};
    dw.lda = k->in, dw.ldb = dw.ldc = k->units, dw.piece = k->shard * k->each;
    lk__ref_gemm(&dw, v.x, dz, NULL, v.dw, NULL);
    plain_rows(t, rows, k->units, k->shard * k->each, dz, v.db);
    plain_leaf(t, rows * k->in, v.dx);
    plain_leaf(t, k->in * k->units, v.dw);
    plain_leaf(t, k->units, v.db);
    free(dz);
    return v;
}

/* ---- runs ---- */

/* The op of an activation. */
static lk_status act_behind(lk_act act, lk_var x, lk_var *out)
{
    *out = x;
    switch (act) {
    case LK_ACT_RELU: return lk_relu(x, out);
    case LK_ACT_SIGMOID: return lk_sigmoid(x, out);
    case LK_ACT_TANH: return lk_tanh(x, out);
    default: return LK_OK;
    }
}

static lk_var layer(const lk_feature_split *s, const struct linear_case *k, lk_var x, lk_var w,
                    lk_var b)
{
    lk_feature_linear_attr a = {.cut = cuts_in(k->way) ? LK_FEATURE_IN : LK_FEATURE_OUT,
                                .sum = k->way == SCATTERED ? LK_FEATURE_SCATTERED
                                       : k->way == JOINED || k->way == IN_JOINED
                                           ? LK_FEATURE_JOINED
                                           : LK_FEATURE_PARTIAL,
                                .in = k->in,
                                .units = k->units,
                                .act = k->act};
    lk_var y;
    if (k->way == BEHIND_COPY)
        ASSERT_OK(lk_dist_feature_copy(s, x, k->units, "copy", &x));
    if (k->way == BEHIND_GATHER_SUM)
        ASSERT_OK(lk_dist_feature_gather_sum(s, x, k->in, k->units, "gather", &x));
    if (k->way == IN_BEFORE_JOIN)
        a.act = LK_ACT_NONE;
    ASSERT_OK(lk_dist_feature_linear(s, &a, x, w, k->way == IN_BEFORE_JOIN ? LK_NO_VAR : b,
                                     "linear", &y));
    if (k->way == IN_BEFORE_JOIN) {
        ASSERT_OK(lk_dist_feature_join(s, y, k->in, "join", &y));
        if (k->bias)
            ASSERT_OK(lk_bias(y, b, &y));
        ASSERT_OK(act_behind(k->act, y, &y));
    }
    return y;
}

/* s NULL: lk_linear(). */
static void case_run(const lk_feature_split *s, const struct linear_case *k, const struct whole *v)
{
    lk_dtype t = k->dtype;
    int64_t rows = k->samples * k->each;
    lk_range in = s ? range_of(s, k->in) : (lk_range){0, k->in}, x_in = in, w_in = in;
    lk_range units = s ? range_of(s, k->units) : (lk_range){0, k->units};
    if (!splits_x(k->way))
        x_in = (lk_range){0, k->in};
    if (!cuts_in(k->way))
        w_in = (lk_range){0, k->in};
    else
        units = (lk_range){0, k->units};
    void *x_part = array_part(t, v->x, rows, k->in, 1, x_in), *dx = array_new(t, rows * x_in.n);
    void *w_rows = array_part(t, v->w, 1, k->in, k->units, w_in);
    void *w_part = array_part(t, w_rows, w_in.n, k->units, 1, units);
    void *dw = array_new(t, w_in.n * units.n), *db = array_new(t, units.n);
    void *b_part = array_part(t, v->b, 1, k->units, 1, units);
    void *dy_part = array_part(t, v->dy, rows, k->units, 1, units), *dw_rows;
    lk_tape *tape;
    lk_var x, w, b, y;
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_tape_set_shard_size(tape, k->shard));
    ASSERT_OK(lk_leaf_data(tape, t, LK_SHAPE(k->samples, k->each, x_in.n), x_part, dx, &x));
    ASSERT_OK(lk_leaf_data(tape, t, LK_SHAPE(w_in.n, units.n), w_part, dw, &w));
    ASSERT_OK(lk_leaf_data(tape, t, LK_SHAPE(units.n), b_part, db, &b));
    leaf_postpone(s, w);
    leaf_postpone(s, b);
    if (!k->bias)
        b = LK_NO_VAR;
    if (s)
        y = layer(s, k, x, w, b);
    else
        ASSERT_OK(lk_linear_act(x, w, b, k->act, &y));
    assert_part_of(t, value_of(y), v->y, rows, k->units, 1, units);
    backward_from(y, dy_part);
    assert_part_of(t, dx, v->dx, rows, k->in, 1, x_in);
    dw_rows = array_part(t, v->dw, 1, k->in, k->units, w_in);
    assert_part_of(t, dw, dw_rows, w_in.n, k->units, 1, units);
    if (k->bias)
        assert_part_of(t, db, v->db, 1, k->units, 1, units);
    lk_tape_free(tape);
    free(x_part), free(dx), free(w_rows), free(w_part), free(dw), free(db), free(b_part);
    free(dy_part), free(dw_rows);
}

static struct linear_case case_of(enum way way, int i)
{
    static const int64_t sizes[] = {1, 5, 16, 33, 50};
    return (struct linear_case){.way = way,
                                .dtype = i % 3 == 2 ? LK_F64 : LK_F32,
                                .samples = i % 7 == 6 ? 0 : 1 + i % 5,
                                .each = 1 + i % 2,
                                .in = sizes[i % 5],
                                .units = sizes[i / 5 % 5],
                                .shard = 2,
                                .bias = i % 4 != 3,
                                .odd = i % 5 == 4,
                                .act = (lk_act)((i + i / 4) % 4)};
}

enum { CASES = 25 };

static void case_check(int way, int i, struct cut_rule rule, const lk_feature_split *const *split,
                       int n_splits)
{
    struct linear_case k = case_of((enum way)way, i);
    if (way == IN_BEFORE_JOIN && !split[0]) /* there a bias is another op */
        k.bias = false;
    struct whole v = whole_new(&k, rule);
    for (int n = 0; n < n_splits; n++)
        case_run(split[n], &k, &v);
    whole_free(&v);
}

RANKS_TEST(cut_units_have_the_bits_of_one_rank)
{
    on_all_rules(comm, case_check, JOINED, CASES);
}

RANKS_TEST(cut_units_of_cut_inputs_have_the_bits_of_one_rank)
{
    on_all_rules(comm, case_check, SCATTERED, CASES);
}

RANKS_TEST(partial_gradients_are_joined_by_transitions)
{
    on_all_rules(comm, case_check, BEHIND_COPY, CASES);
    on_all_rules(comm, case_check, BEHIND_GATHER_SUM, CASES);
}

RANKS_TEST(cut_inputs_have_the_bits_of_one_rank)
{
    on_all_rules(comm, case_check, IN_JOINED, CASES);
}

RANKS_TEST(partial_sums_are_joined_by_transitions)
{
    on_all_rules(comm, case_check, IN_BEFORE_JOIN, CASES);
}

RANKS_TEST(one_block_is_lk_linear)
{
    for (int way = 0; way < WAYS; way++)
        on_one_block(comm, case_check, way, CASES);
}

/* ---- differences ---- */

/* The sum of dy y, of f64. */
static double loss_of(const lk_feature_split *s, const struct linear_case *k, const struct whole *v)
{
    const struct linear_case *c = k;
    double sum = 0;
    lk_tape *tape;
    lk_var x, w, b, y;
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_constant_data(tape, LK_F64, LK_SHAPE(c->samples, c->each, c->in), v->x, &x));
    ASSERT_OK(lk_constant_data(tape, LK_F64, LK_SHAPE(c->in, c->units), v->w, &w));
    ASSERT_OK(lk_constant_data(tape, LK_F64, LK_SHAPE(c->units), v->b, &b));
    y = layer(s, k, x, w, b);
    const double *value = value_of(y), *dy = v->dy;
    for (int64_t i = 0; i < c->samples * c->each * c->units; i++)
        sum += value[i] * dy[i];
    lk_tape_free(tape);
    return sum;
}

RANKS_TEST(gradients_agree_with_differences)
{
    const struct cut_rule rule = {4, 1};
    for (int way = 0; way < WAYS && lk_comm_rank(comm) == 0 && lk_comm_size(comm) <= 2; way++) {
        struct linear_case k = {(enum way)way, LK_F64, 3, 2, 6, 7, 2, true, false, LK_ACT_NONE};
        struct whole v = whole_new(&k, rule);
        lk_feature_split *one = split_new(NULL, rule);
        double *in[] = {v.x, v.w, v.b}, *grad[] = {v.dx, v.dw, v.db}, h = 1e-4;
        const int64_t n[] = {k.samples * k.each * k.in, k.in * k.units, k.units};
        case_run(one, &k, &v); /* the gradients of the node are those of `v` */
        for (int i = 0; i < 3; i++)
            for (int64_t j = 0; j < n[i]; j++) {
                double was = in[i][j], up, down;
                in[i][j] = was + h, up = loss_of(one, &k, &v);
                in[i][j] = was - h, down = loss_of(one, &k, &v);
                in[i][j] = was;
                ASSERT_NEAR((up - down) / (2 * h), grad[i][j], 1e-9);
            }
        lk_feature_split_free(one);
        whole_free(&v);
    }
}

/* ---- mistakes ---- */

RANKS_TEST(misuse_is_refused)
{
    lk_feature_split *s = split_new(comm, (struct cut_rule){8, 1});
    lk_feature_linear_attr a = {.in = 8, .units = 8};
    float zeros[64] = {0};
    lk_tape *tape;
    lk_var x, w, b, y;
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_constant_data(tape, LK_F32, LK_SHAPE(2, 8), zeros, &x));
    ASSERT_OK(lk_constant_data(tape, LK_F32, LK_SHAPE(8, 9), zeros, &w));
    ASSERT_OK(lk_constant_data(tape, LK_F32, LK_SHAPE(8), zeros, &b));
    ASSERT_FAILS(lk_dist_feature_linear(s, NULL, x, w, b, "l", &y), LK_EINVAL, "attr is NULL");
    ASSERT_FAILS(lk_dist_feature_linear(s, &a, x, w, b, "l", &y), LK_ESHAPE,
                 "of [8, 8] this rank has [8, ");
    a = (lk_feature_linear_attr){LK_FEATURE_IN, LK_FEATURE_SCATTERED, 8, 8, LK_ACT_NONE};
    ASSERT_FAILS(lk_dist_feature_linear(s, &a, x, w, b, "l", &y), LK_EINVAL, "the sum is number 1");
    a.sum = LK_FEATURE_PARTIAL;
    ASSERT_FAILS(lk_dist_feature_linear(s, &a, x, w, b, "l", &y), LK_EINVAL,
                 "a partial sum with a bias");
    a.act = LK_ACT_GELU;
    ASSERT_FAILS(lk_dist_feature_linear(s, &a, x, w, LK_NO_VAR, "l", &y), LK_EINVAL,
                 "feature_linear with activation number 4");
    a.act = LK_ACT_RELU;
    ASSERT_FAILS(lk_dist_feature_linear(s, &a, x, w, LK_NO_VAR, "l", &y), LK_EINVAL,
                 "a partial sum with an activation");
    lk_tape_free(tape);
    lk_feature_split_free(s);
}
