/* Check of lk_map1(): every function of one argument. */
#include "kernel/reference/reference.h"
#include "selfcheck/check_map.h"

#include <lockstep/extra/map.h>

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
    int64_t n = c->in[0].n, cut = way == PARTS ? n / 3 : 0;
    const void *x = c->in[0].data;
    if (way == IN_PLACE) {
        LK_TRY(lk_map1(c->dtype, LK_MAP1_COPY, 0, n, x, out[0]));
        x = out[0];
    }
    LK_TRY(lk_map1(c->dtype, op_of(c), CHECK_MAP_PARAMETER, cut, x, out[0]));
    return LK_TRACE(lk_map1(c->dtype, op_of(c), CHECK_MAP_PARAMETER, n - cut,
                            check_at(c->dtype, x, cut), check_at(c->dtype, out[0], cut)));
}

static lk_status map_expect(const check_case *c, check_truth *truth)
{
    lk_map1_op op = op_of(c);
    for (int64_t i = 0; i < c->in[0].n; i++) {
        double x = check_get(c->dtype, c->in[0].data, i), y;
        truth->has_bits[0] = lk__ref_map1(c->dtype, op, CHECK_MAP_PARAMETER, x, &y);
        if (truth->has_bits[0])
            check_set(c->dtype, truth->bits[0], i, y);
        else
            truth->value[0][i] = lk__ref_map1_value(c->dtype, op, CHECK_MAP_PARAMETER, x);
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
