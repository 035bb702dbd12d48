/* Activations by definition: on the bits the map of the same name, on the value libm. */
#include "selfcheck/check_act.h"

#include <math.h>

static const struct {
    const char *name;
    lk_map1_op map;
} acts[LK_N_ACTS] = {
    [LK_ACT_NONE] = {"none", LK_MAP1_COPY},          [LK_ACT_RELU] = {"relu", LK_MAP1_RELU},
    [LK_ACT_SIGMOID] = {"sigmoid", LK_MAP1_SIGMOID}, [LK_ACT_TANH] = {"tanh", LK_MAP1_TANH},
    [LK_ACT_GELU] = {"gelu", LK_MAP1_GELU},
};

const char *check_act_name(lk_act act)
{
    return acts[act].name;
}

static double exact(lk_act act, double x)
{
    switch (act) {
    case LK_ACT_RELU: return x < 0 ? 0 : x;
    case LK_ACT_SIGMOID: return 1 / (1 + exp(-x));
    case LK_ACT_TANH: return tanh(x);
    case LK_ACT_GELU: return x / 2 * (1 + erf(x * 0.70710678118654752));
    default: return x;
    }
}

lk_status check_act_apply(check_truth *truth, int o, int64_t i, lk_dtype dtype, lk_act act)
{
    if (act == LK_ACT_NONE)
        return LK_OK;
    void *at = check_at(dtype, truth->bits[o], i);
    LK_TRY(lk_map1(dtype, acts[act].map, 0, 1, at, at));
    check_value *v = &truth->value[o][i];
    /* No activation is steeper than 1.13; its own error is some units of the result. */
    double x = v->hi + v->lo;
    v->bound = 1.13 * v->bound + 8 * check_epsilon(dtype) * (1 + fabs(x));
    v->hi = exact(act, x);
    v->lo = 0;
    return LK_OK;
}
