/* Checks of lk_map1() and lk_map2(): every function of one and of two arguments. */
#include "kernel/reference/reference.h"
#include "selfcheck/check.h"

#include <lockstep/extra/map.h>

#include <math.h>
#include <stdio.h>

enum { WHOLE, PARTS, IN_PLACE };
enum { LENGTH = 1013 };

/* The parameter p of maps that have one. */
static const double parameter = 0.3;

/* After one case for each function, cases of other lengths. */
struct map_length {
    int op;
    int64_t n;
};

static const struct map_length lengths1[] = {
    {LK_MAP1_EXP, 0},  {LK_MAP1_TANH, 1}, {LK_MAP1_SIGMOID, 7}, {LK_MAP1_LOG, 16},
    {LK_MAP1_ERF, 17}, {LK_MAP1_SIN, 31}, {LK_MAP1_RELU, 33},   {LK_MAP1_GELU, 20011},
};

static const struct map_length lengths2[] = {
    {LK_MAP2_ADD, 0},  {LK_MAP2_MUL, 1},  {LK_MAP2_POW, 5},
    {LK_MAP2_DIV, 16}, {LK_MAP2_SUB, 17}, {LK_MAP2_AXPY, 20011},
};

enum { N_CASES1 = LK_N_MAP1 + sizeof lengths1 / sizeof lengths1[0] };
enum { N_CASES2 = LK_N_MAP2 + sizeof lengths2 / sizeof lengths2[0] };

/* What a check is of. */
struct maps {
    int arguments, n_ops;
    const struct map_length *length;
};

static struct map_length case_of(const check_case *c)
{
    const struct maps *m = c->check->data;
    return c->index < m->n_ops ? (struct map_length){c->index, LENGTH}
                               : m->length[c->index - m->n_ops];
}

/* Add an input of `n` elements: first zeros, ones, infinities, NaN, denormals and the like in an order that
 * depends on `turn`, then numbers of all magnitudes. */
static lk_status map_input(check_case *c, int64_t n, int turn)
{
    static const double specials[] = {
        0.0,      -0.0,
        1.0,      -1.0,
        2.0,      -2.0,
        0.5,      (double)INFINITY,
        3.0,      (double)-INFINITY,
        10.0,     (double)NAN,
        -0.5,     88.0,
        -88.0,    1e-20,
        -1e-20,   1e-40,
        -1e-40,   1e20,
        -1e20,    710.0,
        -10.0,    -710.0,
        1e-310,   -1e-310,
        100.0,    4.0,
        0.999999, 1.000001,
        -4.0,     -100.0,
    };
    enum {
        N_SPECIALS = sizeof specials / sizeof specials[0],
        N_FIRST = 8 * N_SPECIALS,
        LONG = 2 * N_FIRST
    };
    LK_TRY(check_input(c, c->dtype, n, -8, 8));
    void *x = c->in[c->n_in - 1].data;
    for (int64_t i = 0; i < n; i++) {
        double v = check_get(c->dtype, x, i);
        if (n > LONG && i < N_FIRST)
            v = specials[(i + turn * (i / N_SPECIALS + turn)) % N_SPECIALS];
        else if (i % 4 == 0)
            v = ldexp(v, (int)(i / 4 % 48) - 32);
        check_set(c->dtype, x, i, v);
    }
    return LK_OK;
}

static lk_status map_setup(check_case *c)
{
    struct map_length k = case_of(c);
    bool two = ((const struct maps *)c->check->data)->arguments == 2;
    snprintf(c->label, sizeof c->label, "%s of %lld",
             two ? lk_map2_name((lk_map2_op)k.op) : lk_map1_name((lk_map1_op)k.op), (long long)k.n);
    LK_TRY(map_input(c, k.n, 0));
    if (two)
        LK_TRY(map_input(c, k.n, 5));
    LK_TRY(check_output(c, c->dtype, k.n, false));
    c->ways = 1U << WHOLE | 1U << PARTS | 1U << IN_PLACE;
    return LK_OK;
}

/* `n` elements from `first` on; `last` is the last argument. */
static lk_status map_range(const check_case *c, int64_t first, int64_t n, const void *last,
                           void *out)
{
    int op = case_of(c).op;
    last = check_at(c->dtype, last, first);
    out = check_at(c->dtype, out, first);
    if (c->n_in == 1)
        return LK_TRACE(lk_map1(c->dtype, (lk_map1_op)op, parameter, n, last, out));
    return LK_TRACE(lk_map2(c->dtype, (lk_map2_op)op, parameter, n,
                            check_at(c->dtype, c->in[0].data, first), last, out));
}

static lk_status map_run(const check_case *c, int way, void *const *out)
{
    int64_t n = c->in[0].n, cut = way == PARTS ? n / 3 : 0;
    const void *last = c->in[c->n_in - 1].data;
    if (way == IN_PLACE) {
        LK_TRY(lk_map1(c->dtype, LK_MAP1_COPY, 0, n, last, out[0]));
        last = out[0];
    }
    LK_TRY(map_range(c, 0, cut, last, out[0]));
    return LK_TRACE(map_range(c, cut, n - cut, last, out[0]));
}

/* Element i by definition: its bits in `*bits`, or else, with false, its value. */
static bool define(const check_case *c, int64_t i, double *bits, lk__ref_value *value)
{
    int op = case_of(c).op;
    double x = check_get(c->dtype, c->in[0].data, i);
    if (c->n_in == 1) {
        if (lk__ref_map1(c->dtype, (lk_map1_op)op, parameter, x, bits))
            return true;
        *value = lk__ref_map1_value(c->dtype, (lk_map1_op)op, parameter, x);
        return false;
    }
    double y = check_get(c->dtype, c->in[1].data, i);
    if (lk__ref_map2(c->dtype, (lk_map2_op)op, parameter, x, y, bits))
        return true;
    *value = lk__ref_map2_value(c->dtype, (lk_map2_op)op, x, y);
    return false;
}

static lk_status map_expect(const check_case *c, check_truth *truth)
{
    for (int64_t i = 0; i < c->in[0].n; i++) {
        double bits;
        truth->has_bits[0] = define(c, i, &bits, &truth->value[0][i]);
        if (truth->has_bits[0])
            check_set(c->dtype, truth->bits[0], i, bits);
    }
    return LK_OK;
}

const lk__check lk__check_map1 = {
    .name = "map1",
    .summary = "functions of one argument, with infinities, NaN and denormals among them",
    .n_cases = N_CASES1,
    .ways = {"whole", "in parts", "in place"},
    .setup = map_setup,
    .run = map_run,
    .expect = map_expect,
    .data = &(const struct maps){1, LK_N_MAP1, lengths1},
};

const lk__check lk__check_map2 = {
    .name = "map2",
    .summary = "functions of two arguments, with infinities, NaN and denormals among them",
    .n_cases = N_CASES2,
    .ways = {"whole", "in parts", "in place"},
    .setup = map_setup,
    .run = map_run,
    .expect = map_expect,
    .data = &(const struct maps){2, LK_N_MAP2, lengths2},
};
