/* nadam: adam with Nesterov's look ahead, and a momentum that warms up:
 *
 *     mu_t = beta1 (1 - 0.96^(t / 250) / 2),   P_t = mu_1 ... mu_t
 *     w = w - rate ((1 - mu_t) / (1 - P_t) h + mu_(t+1) / (1 - P_(t+1)) m) / (sqrt(v') + eps)
 *
 * The product P is the one number of its state.  0.96^(1/250) is a constant, so that no power with a
 * fraction is needed.
 */
#include "optim/rules.h"

static const lk_option options[] = {LK__MOMENTS_OPTIONS("0.002"), {0}};

static double mu(const lk__moments_options *o, int64_t t)
{
    static const double base = 0.99983672535267528;
    return o->beta1 * (1 - 0.5 * lk__power(base, t));
}

static lk_optimizer_state nadam_state(const void *opt)
{
    lk_optimizer_state state = lk__moments_state(opt);
    state.number[0] = "momentum_product";
    state.number_start[0] = 1;
    return state;
}

static void nadam_begin(const lk_update_call *call, double *number)
{
    number[0] *= mu(call->options, call->step + 1);
}

static lk_status nadam_update(const lk_update_call *call)
{
    lk__update u = lk__moments_update(call);
    double now = mu(call->options, call->step + 1), next = mu(call->options, call->step + 2);
    u.rate = call->rate * (1 - now) / (1 - call->number[0]);
    u.rate2 = call->rate * next / (1 - call->number[0] * next);
    return LK_TRACE(lk__update_run(call->dtype, LK__UPDATE_NADAM, &u, call->n));
}

const lk_update_rule lk__update_rule_nadam = {
    .descriptor = {.name = "nadam",
                   .summary = "adam with Nesterov's look ahead",
                   .options = options,
                   .options_size = sizeof(lk__moments_options)},
    .state = nadam_state,
    .begin = nadam_begin,
    .update = nadam_update};
