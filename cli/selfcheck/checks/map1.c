/* Check of lk_map1(): every function of one argument. */
#include "selfcheck/check_map.h"

#include <lockstep/extra/map.h>

#include <math.h>
#include <stdio.h>

enum { WHOLE, PARTS, IN_PLACE };
enum { LENGTH = 1013 };

/* After one case for each function, cases of other lengths. */
static const struct {
    lk_map1_op op;
    int64_t n;
} lengths[] = {
    {LK_MAP1_EXP, 0},  {LK_MAP1_TANH, 1}, {LK_MAP1_SIGMOID, 7}, {LK_MAP1_LOG, 16},
    {LK_MAP1_ERF, 17}, {LK_MAP1_SIN, 31}, {LK_MAP1_RELU, 33},   {LK_MAP1_GELU, 20011},
};

enum { N_LENGTHS = sizeof lengths / sizeof lengths[0] };

static lk_map1_op op_of(const check_case *c)
{
    return c->index < LK_N_MAP1 ? (lk_map1_op)c->index : lengths[c->index - LK_N_MAP1].op;
}

static lk_status map_setup(check_case *c)
{
    int64_t n = c->index < LK_N_MAP1 ? LENGTH : lengths[c->index - LK_N_MAP1].n;
    snprintf(c->label, sizeof c->label, "%s of %lld", lk_map1_name(op_of(c)), (long long)n);
    LK_TRY(check_map_input(c, n, 0));
    LK_TRY(check_output(c, c->dtype, n, false));
    c->ways = 1U << WHOLE | 1U << PARTS | 1U << IN_PLACE;
    return LK_OK;
}

static lk_status map_run(const check_case *c, int way, void *const *out)
{
    int64_t n = c->in[0].n, cut = way == PARTS ? check_map_cut(n) : 0;
    const void *x = c->in[0].data;
    if (way == IN_PLACE) {
        LK_TRY(lk_map1(c->dtype, LK_MAP1_COPY, 0, n, x, out[0]));
        x = out[0];
    }
    LK_TRY(lk_map1(c->dtype, op_of(c), CHECK_MAP_PARAMETER, cut, x, out[0]));
    LK_TRY(lk_map1(c->dtype, op_of(c), CHECK_MAP_PARAMETER, n - cut, check_at(c->dtype, x, cut),
                   check_at(c->dtype, out[0], cut)));
    return LK_OK;
}

/* The functions that are one rounded operation; false for the others. */
static bool by_operation(lk_dtype dtype, lk_map1_op op, double x, double *y)
{
    double p = check_round(dtype, CHECK_MAP_PARAMETER);
    switch (op) {
    case LK_MAP1_COPY: *y = x; return true;
    case LK_MAP1_NEG: *y = -x; return true;
    case LK_MAP1_ABS: *y = fabs(x); return true;
    case LK_MAP1_SQUARE: *y = check_round(dtype, x * x); return true;
    case LK_MAP1_SQRT: *y = check_round(dtype, sqrt(x)); return true;
    case LK_MAP1_RECIP: *y = check_round(dtype, 1 / x); return true;
    case LK_MAP1_RELU: *y = x < 0 ? 0 : x; return true;
    case LK_MAP1_LEAKY_RELU: *y = x < 0 ? check_round(dtype, p * x) : x; return true;
    case LK_MAP1_SCALE: *y = check_round(dtype, p * x); return true;
    case LK_MAP1_SHIFT: *y = check_round(dtype, p + x); return true;
    default: return false;
    }
}

/* The others in higher precision, with the error they may have. */
static long double by_function(lk_map1_op op, long double x, double p)
{
    switch (op) {
    case LK_MAP1_EXP: return expl(x);
    case LK_MAP1_LOG: return logl(x);
    case LK_MAP1_SIN: return sinl(x);
    case LK_MAP1_COS: return cosl(x);
    case LK_MAP1_TANH: return tanhl(x);
    case LK_MAP1_ERF: return erfl(x);
    case LK_MAP1_SIGMOID: return 1 / (1 + expl(-x));
    case LK_MAP1_SOFTPLUS: return x > 0 ? x + log1pl(expl(-x)) : log1pl(expl(x));
    case LK_MAP1_ELU: return x < 0 ? (long double)p * expm1l(x) : x;
    case LK_MAP1_GELU:
        if (isinf(x) && x < 0)
            return 0;
        return x / 2 * erfcl(-x * 0.707106781186547524400844362104849039L);
    default: return 0;
    }
}

static void tolerance(lk_dtype dtype, lk_map1_op op, double x, double *ulps, double *absolute)
{
    double eps = check_epsilon(dtype);
    *ulps = 2;
    *absolute = 0;
    switch (op) {
    case LK_MAP1_SIGMOID:
    case LK_MAP1_SOFTPLUS: *ulps = 4; break;
    case LK_MAP1_ELU: *absolute = 4 * eps; break;
    case LK_MAP1_GELU: *absolute = isfinite(x) ? 4 * eps * fabs(x) : 0; break;
    default: break;
    }
}

static lk_status map_expect(const check_case *c, check_truth *truth)
{
    lk_map1_op op = op_of(c);
    double p = check_round(c->dtype, CHECK_MAP_PARAMETER);
    for (int64_t i = 0; i < c->in[0].n; i++) {
        double x = check_get(c->dtype, c->in[0].data, i), y, ulps, absolute;
        if (by_operation(c->dtype, op, x, &y)) {
            check_set(c->dtype, truth->bits[0], i, y);
            truth->has_bits[0] = true;
            continue;
        }
        tolerance(c->dtype, op, x, &ulps, &absolute);
        check_expect_near(truth, 0, i, c->dtype, by_function(op, (long double)x, p), ulps,
                          absolute);
    }
    return LK_OK;
}

const lk__check lk__check_map1 = {
    .name = "map1",
    .summary = "functions of one argument, with infinities, NaN and denormals among them",
    .n_cases = LK_N_MAP1 + N_LENGTHS,
    .ways = {"whole", "in parts", "in place"},
    .setup = map_setup,
    .run = map_run,
    .expect = map_expect,
};
