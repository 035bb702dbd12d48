/* Checks of lk_softmax_rows() and lk_log_softmax_rows(): whole, by rows and in place. */
#include "kernel/reference/reference.h"
#include "selfcheck/check.h"

#include <lockstep/extra/map.h>

#include <stdio.h>

typedef lk_status softmax_fn(lk_dtype dtype, const lk_rows *shape, const void *x, void *y);

/* Which of the two a check is of. */
struct softmax {
    softmax_fn *fn;
    bool logarithm;
};

enum { WHOLE, PARTS, IN_PLACE };

static const lk_rows shapes[] = {
    {1, 1, 1, 1},     {3, 10, 10, 10}, {7, 1000, 1000, 1000}, {5, 17, 20, 20}, {2, 16, 16, 16},
    {61, 33, 33, 33}, {4, 2, 9, 9},    {300, 10, 10, 10},     {0, 5, 5, 5},    {4, 0, 3, 3},
};

enum { N_SHAPES = sizeof shapes / sizeof shapes[0] };

static lk_status softmax_setup(check_case *c)
{
    const lk_rows *s = &shapes[c->index];
    snprintf(c->label, sizeof c->label, "%lldx%lld, rows %lld apart", (long long)s->rows,
             (long long)s->cols, (long long)s->ld_x);
    /* Some with logits that would overflow if the maximum were not subtracted. */
    double range = c->index % 3 == 1 ? 1000 : 10;
    LK_TRY(check_input(c, c->dtype, s->rows * s->ld_x, -range, range));
    LK_TRY(check_output(c, c->dtype, s->rows * s->ld_y, false));
    c->ways = 1U << WHOLE | 1U << PARTS | (s->ld_x == s->cols ? 1U << IN_PLACE : 0);
    return LK_OK;
}

static lk_status softmax_run(const check_case *c, int way, void *const *out)
{
    softmax_fn *fn = ((const struct softmax *)c->check->data)->fn;
    lk_rows s = shapes[c->index];
    const void *x = c->in[0].data;
    if (way == IN_PLACE) {
        LK_TRY(lk_map1(c->dtype, LK_MAP1_COPY, 0, c->in[0].n, x, out[0]));
        x = out[0];
    }
    int64_t rows = s.rows, cut = way == PARTS ? rows / 3 : 0;
    s.rows = cut;
    if (way == PARTS)
        LK_TRY(fn(c->dtype, &s, x, out[0]));
    s.rows = rows - cut;
    return LK_TRACE(fn(c->dtype, &s, check_at(c->dtype, x, cut * s.ld_x),
                       check_at(c->dtype, out[0], cut * s.ld_y)));
}

static lk_status softmax_expect(const check_case *c, check_truth *truth)
{
    bool logarithm = ((const struct softmax *)c->check->data)->logarithm;
    truth->has_bits[0] = true;
    lk__ref_softmax_rows(c->dtype, &shapes[c->index], logarithm, c->in[0].data, truth->bits[0],
                         truth->value[0]);
    return LK_OK;
}

const lk__check lk__check_softmax = {
    .name = "softmax",
    .summary = "softmax by rows, with logits that must not overflow",
    .n_cases = N_SHAPES,
    .ways = {"whole", "in parts", "in place"},
    .setup = softmax_setup,
    .run = softmax_run,
    .expect = softmax_expect,
    .data = &(const struct softmax){lk_softmax_rows, false},
};

const lk__check lk__check_log_softmax = {
    .name = "log_softmax",
    .summary = "logarithm of softmax by rows, with logits that must not overflow",
    .n_cases = N_SHAPES,
    .ways = {"whole", "in parts", "in place"},
    .setup = softmax_setup,
    .run = softmax_run,
    .expect = softmax_expect,
    .data = &(const struct softmax){lk_log_softmax_rows, true},
};
