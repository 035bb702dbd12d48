/* lbfgs: w = w + rate d, where d = -H h and H approximates the inverse Hessian by the last `history`
 * changes s of w and y of h (two loops; its start is s'y / y'y).  One gradient a step, no line
 * search; a pair with s'y <= 1e-10 y'y is not taken.  The first step is -h, made no longer than
 * `rate` in the sum of magnitudes.
 *
 * Products and magnitudes are added up as the squares of clip_norm are: lk__tensors_reduce().
 */
#include "optim/optimizer.h"

#include <lockstep/extra/map.h>

#include <string.h>

enum { MAX_HISTORY = 16 };

/* Slabs: the gradient followed now and before, the direction, a product, then pairs. */
enum { NOW, BEFORE, DIRECTION, PRODUCT, PAIRS };

typedef struct lbfgs_options {
    lk_optimizer_options all;
    int64_t history;
} lbfgs_options;

static const lk_option options[] = {LK_OPTIMIZER_OPTIONS(lbfgs_options, "1"),
                                    {"history", LK_OPTION_INT, offsetof(lbfgs_options, history),
                                     .value = "N", .def = "8", .min = 1, .max = MAX_HISTORY,
                                     .help = "pairs of changes that are remembered"},
                                    {0}};

static const char *const pair_name[] = {"s0",  "y0",  "s1",  "y1",  "s2",  "y2",  "s3",  "y3",
                                        "s4",  "y4",  "s5",  "y5",  "s6",  "y6",  "s7",  "y7",
                                        "s8",  "y8",  "s9",  "y9",  "s10", "y10", "s11", "y11",
                                        "s12", "y12", "s13", "y13", "s14", "y14", "s15", "y15"};

static lk_optimizer_state lbfgs_state(const void *opt)
{
    const lbfgs_options *o = opt;
    lk_optimizer_state state = {.slab = {"now", "before", "direction", "product"},
                                .number = {"pairs", "length"}};
    for (int64_t i = 0; i < 2 * o->history; i++)
        state.slab[PAIRS + i] = pair_name[i];
    return state;
}

/* Element-wise: z = op(x, y; p). */
static lk_status map(const lk_update_call *c, lk_map2_op op, double p, const void *x, const void *y,
                     void *z)
{
    return LK_TRACE(lk_map2(c->dtype, op, p, c->n, x, y, z));
}

static lk_status dot(const lk_update_call *c, const void *x, const void *y, double *out)
{
    LK_TRY(map(c, LK_MAP2_MUL, 0, x, y, c->state[PRODUCT]));
    return LK_TRACE(lk__tensors_reduce(c, LK_REDUCE_AXIS_SUM, c->state[PRODUCT], out));
}

/* Pair k of those that are remembered, 0 being the newest; `pairs` were taken so far. */
static void *pair(const lk_update_call *c, int64_t pairs, int64_t k, int which)
{
    int64_t history = ((const lbfgs_options *)c->options)->history;
    return c->state[PAIRS + 2 * ((pairs - 1 - k) % history) + which];
}

/* Remember s = length * direction and y = now - before, if they bend the right way. */
static lk_status pair_take(const lk_update_call *c, double *number)
{
    double sy, yy;
    void *s = pair(c, (int64_t)number[0] + 1, 0, 0), *y = pair(c, (int64_t)number[0] + 1, 0, 1);
    LK_TRY(map(c, LK_MAP2_SUB, 0, c->state[NOW], c->state[BEFORE], c->state[BEFORE]));
    LK_TRY(dot(c, c->state[DIRECTION], c->state[BEFORE], &sy));
    LK_TRY(dot(c, c->state[BEFORE], c->state[BEFORE], &yy));
    if (!(sy * number[1] > 1e-10 * yy))
        return LK_OK;
    LK_TRY(lk_map1(c->dtype, LK_MAP1_SCALE, number[1], c->n, c->state[DIRECTION], s));
    LK_TRY(lk_map1(c->dtype, LK_MAP1_COPY, 0, c->n, c->state[BEFORE], y));
    number[0] += 1;
    return LK_OK;
}

/* direction = -H now. */
static lk_status direction(const lk_update_call *c, int64_t pairs)
{
    double a[MAX_HISTORY], sy[MAX_HISTORY], yy, b;
    int64_t history = ((const lbfgs_options *)c->options)->history;
    int64_t n = pairs < history ? pairs : history;
    void *d = c->state[DIRECTION];
    LK_TRY(lk_map1(c->dtype, LK_MAP1_NEG, 0, c->n, c->state[NOW], d));
    for (int64_t k = 0; k < n; k++) {
        LK_TRY(dot(c, pair(c, pairs, k, 0), pair(c, pairs, k, 1), &sy[k]));
        LK_TRY(dot(c, pair(c, pairs, k, 0), d, &a[k]));
        a[k] /= sy[k];
        LK_TRY(map(c, LK_MAP2_AXPY, -a[k], pair(c, pairs, k, 1), d, d));
    }
    if (n > 0) {
        LK_TRY(dot(c, pair(c, pairs, 0, 1), pair(c, pairs, 0, 1), &yy));
        LK_TRY(lk_map1(c->dtype, LK_MAP1_SCALE, sy[0] / yy, c->n, d, d));
    }
    for (int64_t k = n - 1; k >= 0; k--) {
        LK_TRY(dot(c, pair(c, pairs, k, 1), d, &b));
        LK_TRY(map(c, LK_MAP2_AXPY, a[k] - b / sy[k], pair(c, pairs, k, 0), d, d));
    }
    return LK_OK;
}

/* Rule `rule` over the elements that move. */
static lk_status moving_run(const lk_update_call *c, lk__update_rule rule, const lk__update *u)
{
    int64_t elem = (int64_t)lk_dtype_size(c->dtype), at = 0;
    for (lk_range run; lk__run_next(c, &at, c->n, &run);) {
        lk__update own = *u;
        own.w = (char *)u->w + run.first * elem;
        own.g = (const char *)u->g + run.first * elem;
        own.m = (char *)u->m + run.first * elem;
        LK_TRY(lk__update_run(c->dtype, rule, &own, run.n));
    }
    return LK_OK;
}

static lk_status lbfgs_update(const lk_update_call *c)
{
    double *number = c->number, magnitude;
    lk__update u = lk__update_of(c);
    u.m = c->state[NOW];
    LK_TRY(moving_run(c, LK__UPDATE_FOLLOW, &u)); /* of others it stays 0 */
    if (c->step > 0)
        LK_TRY(pair_take(c, number));
    LK_TRY(direction(c, (int64_t)number[0]));
    number[1] = c->rate;
    if (c->step == 0) {
        LK_TRY(lk_map1(c->dtype, LK_MAP1_ABS, 0, c->n, c->state[NOW], c->state[PRODUCT]));
        LK_TRY(lk__tensors_reduce(c, LK_REDUCE_AXIS_SUM, c->state[PRODUCT], &magnitude));
        number[1] = magnitude > 1 ? c->rate / magnitude : c->rate;
    }
    LK_TRY(lk_map1(c->dtype, LK_MAP1_COPY, 0, c->n, c->state[NOW], c->state[BEFORE]));
    u.m = c->state[DIRECTION];
    u.rate = number[1];
    return LK_TRACE(moving_run(c, LK__UPDATE_STEP, &u));
}

const lk_update_rule lk__update_rule_lbfgs = {
    .descriptor =
        {.name = "lbfgs",
         .summary = "w = w - rate H h, H from the last changes of w and h",
         .details = "For smooth problems and whole batches.  Takes 4 + 2 history times the "
                    "memory of the parameters.",
         .options = options,
         .options_size = sizeof(lbfgs_options)},
    .whole = true,
    .state = lbfgs_state,
    .update = lbfgs_update};

int64_t lk__optimizer_most_sums(const lk_optimizer *o)
{
    if (o->rule != &lk__update_rule_lbfgs)
        return 0;
    /* two for a new pair, three for each that is remembered, and one for the newest */
    return 2 + 3 * ((const lbfgs_options *)o->options)->history + 1;
}
