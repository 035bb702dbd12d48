/* The tree, lanes, and reductions by them. */
#include "kernel/reference/chain.h"
#include "kernel/reference/place.h"

static lk__ref_chain chain_neutral(lk_dtype dtype, lk_reduce_axis_op op, bool traced)
{
    const double start = op == LK_REDUCE_AXIS_PROD  ? 1
                         : op == LK_REDUCE_AXIS_MAX ? (double)-INFINITY
                         : op == LK_REDUCE_AXIS_MIN ? (double)INFINITY
                                                    : 0;
    lk__ref_chain c = chain_start(dtype, start, traced);
    c.op = op;
    if (op == LK_REDUCE_AXIS_MAX || op == LK_REDUCE_AXIS_MIN)
        c.magnitude = 0; /* nothing is rounded */
    return c;
}

lk__ref_chain lk__ref_chain_join(lk__ref_chain a, lk__ref_chain b)
{
    a.length += b.length + (a.op != LK_REDUCE_AXIS_PROD);
    switch (a.op) {
    case LK_REDUCE_AXIS_PROD: {
        const double product = a.hi * b.hi;
        a.acc = real_mul(a.dtype, a.acc, b.acc);
        a.lo = a.lo * b.hi + a.hi * b.lo + fma(a.hi, b.hi, -product);
        a.hi = product;
        return a;
    }
    case LK_REDUCE_AXIS_MAX:
    case LK_REDUCE_AXIS_MIN: {
        const bool other = a.op == LK_REDUCE_AXIS_MAX ? b.acc > a.acc : b.acc < a.acc;
        a.acc = isnan(a.acc) || isnan(b.acc) ? (double)NAN : other ? b.acc : a.acc;
        a.hi = a.acc;
        return a;
    }
    default:
        a.acc = real_add(a.dtype, a.acc, b.acc);
        chain_trace(&a, b.hi); /* not the rounded sum but what it approximates */
        a.lo += b.lo;
        a.magnitude += b.magnitude;
        a.slack += b.slack;
        return a;
    }
}

lk__ref_value lk__ref_chain_value(const lk__ref_chain *c)
{
    if (c->op == LK_REDUCE_AXIS_PROD) /* it may overflow */
        return lk__ref_near(c->dtype, (long double)c->hi + (long double)c->lo,
                            (double)(c->length + 16), 0);
    return (lk__ref_value){
        c->hi, c->lo, (double)(c->length + 2) * real_epsilon(c->dtype) * c->magnitude + c->slack};
}

lk__ref_chain lk__ref_chain_tree(lk__ref_leaf *leaf, const void *of, int64_t first, int64_t n)
{
    if (n == 1)
        return leaf(of, first);
    int64_t half = 1;
    while (2 * half < n)
        half *= 2;
    lk__ref_chain low = lk__ref_chain_tree(leaf, of, first, half);
    return lk__ref_chain_join(low, lk__ref_chain_tree(leaf, of, first + half, n - half));
}

/* Values that a tree or lanes go over: element `first + i * step` of an array. */
struct values {
    lk_dtype dtype, stored; /* stored: how they lie in memory */
    bool traced;
    const void *v;
    int64_t first, step;
};

static double value_at(const struct values *of, int64_t i)
{
    return real_get(of->stored, of->v, of->first + i * of->step);
}

static lk__ref_chain value_leaf(const void *of, int64_t i)
{
    const struct values *v = of;
    return chain_start(v->dtype, value_at(v, i), v->traced);
}

double lk__ref_tree(lk_dtype dtype, const double *v, int64_t n)
{
    const struct values of = {.dtype = dtype, .stored = LK_F64, .v = v, .step = 1};
    return n > 0 ? lk__ref_chain_tree(value_leaf, &of, 0, n).acc : 0;
}

void lk__ref_tree_vectors(lk_dtype dtype, int64_t n, int64_t count, const void *v, void *sum,
                          lk__ref_value *exact)
{
    for (int64_t i = 0; i < count; i++) {
        const struct values of = {dtype, dtype, exact != NULL, v, i, count};
        lk__ref_chain c = n > 0 ? lk__ref_chain_tree(value_leaf, &of, 0, n)
                                : chain_start(dtype, 0, of.traced);
        chain_store(&c, LK_ACT_NONE, i, sum, exact);
    }
}

static lk__ref_chain lane_leaf(const void *lanes, int64_t i)
{
    return ((const lk__ref_chain *)lanes)[i];
}

/* One more value in a lane. */
static void lane_take(lk__ref_chain *lane, double v)
{
    lk__ref_chain one = chain_start(lane->dtype, v, lane->traced);
    one.length = lane->op == LK_REDUCE_AXIS_PROD;
    if (lane->op == LK_REDUCE_AXIS_SUMSQ)
        chain_fma(lane, v, v);
    else
        *lane = lk__ref_chain_join(*lane, one);
}

static void lanes_start(lk__ref_chain lane[LK_LANES], lk_dtype dtype, lk_reduce_axis_op op,
                        bool traced)
{
    for (int l = 0; l < LK_LANES; l++)
        lane[l] = chain_neutral(dtype, op, traced);
}

/* Values [begin, end) by lanes. */
static lk__ref_chain lanes_of(const struct values *of, lk_reduce_axis_op op, int64_t begin,
                              int64_t end)
{
    lk__ref_chain lane[LK_LANES];
    lanes_start(lane, of->dtype, op, of->traced);
    for (int64_t i = begin; i < end; i++)
        lane_take(&lane[(i - begin) % LK_LANES], value_at(of, i));
    return lk__ref_chain_tree(lane_leaf, lane, 0, LK_LANES);
}

double lk__ref_lanes(lk_dtype dtype, const double *v, int64_t n)
{
    const struct values of = {.dtype = dtype, .stored = LK_F64, .v = v, .step = 1};
    return lanes_of(&of, LK_REDUCE_AXIS_SUM, 0, n).acc;
}

/* One output of a reduction. */
struct column {
    struct values values;
    lk_reduce_axis_op op;
    int64_t n, piece;
};

static lk__ref_chain piece_leaf(const void *of, int64_t p)
{
    const struct column *c = of;
    const int64_t begin = p * c->piece;
    return lanes_of(&c->values, c->op, begin, c->n - begin < c->piece ? c->n : begin + c->piece);
}

void lk__ref_reduce_axis(lk_dtype dtype, lk_reduce_axis_op op, const lk_reduce_axis_shape *s,
                         const void *x, void *y, lk__ref_value *exact)
{
    for (int64_t i = 0; i < s->outer * s->inner; i++) {
        const int64_t first = i / s->inner * s->n * s->inner + i % s->inner;
        const struct column c = {.values = {dtype, dtype, exact != NULL, x, first, s->inner},
                                 .op = op,
                                 .n = s->n,
                                 .piece = s->piece > 0 ? s->piece : s->n};
        lk__ref_chain sum = s->n > 0
                                ? lk__ref_chain_tree(piece_leaf, &c, 0, (s->n - 1) / c.piece + 1)
                                : chain_neutral(dtype, op, exact != NULL);
        chain_store(&sum, LK_ACT_NONE, i, y, exact);
    }
}

void lk__ref_reduce_box(lk_dtype dtype, lk_reduce_axis_op op, const lk_reduce_box_shape *s,
                        const void *x, void *y)
{
    /* A box is one side of a convolution. */
    const lk_conv_shape of = {.window = {.ndim = LK__REF_AXES, .kernel = {1, 1, 1}},
                              .in_channels = s->channels,
                              .in = {s->n[0], s->n[1], s->n[2]},
                              .x_sample = s->sample_step,
                              .x_step = {s->step[0], s->step[1], s->step[2]}};
    const lk_conv_shape box = lk__ref_conv_shape(&of);
    const int64_t piece = s->piece > 0 ? s->piece : s->samples;
    for (int64_t first = 0; first < s->samples; first += piece)
        for (int64_t c = 0; c < s->channels; c++) {
            lk__ref_chain lane[LK_LANES], sum;
            int64_t row = 0;
            lanes_start(lane, dtype, op, false);
            for (int64_t n = first; n < s->samples && n - first < piece; n++)
                for (lk__ref_place i = place_first(box.in); i.is; i = place_next(i, box.in))
                    lane_take(
                        &lane[row++ % LK_LANES],
                        real_get(dtype, x, n * box.x_sample + place_offset(i, box.x_step) + c));
            sum = lk__ref_chain_tree(lane_leaf, lane, 0, LK_LANES);
            chain_store(&sum, LK_ACT_NONE, first / piece * s->channels + c, y, NULL);
        }
}
