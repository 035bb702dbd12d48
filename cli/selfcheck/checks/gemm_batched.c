/* Check of lk_gemm_run_batched(): many products, inputs repeated by a stride of 0. */
#include "kernel/reference/reference.h"
#include "selfcheck/check.h"

#include <lockstep/extra/gemm.h>

#include <stdio.h>

enum { IN_A, IN_B, IN_BIAS };
enum { WHOLE, PARTS };

static const struct batched_case {
    bool ta, tb;
    int count, m, n, k;
    bool repeat_a, repeat_b, bias, accumulate;
    int piece;
} cases[] = {
    {0, 0, 1, 3, 5, 7, 0, 0, 0, 0, 0},     {0, 0, 5, 1, 1, 1, 0, 0, 0, 0, 0},
    {0, 0, 7, 13, 17, 19, 0, 0, 1, 0, 0},  {0, 1, 6, 16, 31, 8, 0, 0, 0, 0, 0},
    {1, 0, 3, 23, 11, 40, 0, 0, 0, 0, 16}, {1, 1, 4, 9, 10, 11, 0, 0, 0, 1, 0},
    {0, 0, 5, 8, 33, 21, 1, 0, 0, 0, 0},   {0, 1, 5, 4, 16, 29, 0, 1, 1, 0, 0},
    {0, 0, 29, 2, 3, 4, 0, 0, 0, 0, 0},    {0, 0, 0, 4, 5, 6, 0, 0, 0, 0, 0},
    {0, 0, 3, 0, 5, 6, 0, 0, 0, 0, 0},     {0, 0, 3, 4, 5, 0, 0, 0, 1, 0, 0},
};

static lk_gemm describe(const check_case *c, lk_gemm_batch *b)
{
    const struct batched_case *s = &cases[c->index];
    *b = (lk_gemm_batch){.count = s->count,
                         .stride_a = s->repeat_a ? 0 : (int64_t)s->m * s->k,
                         .stride_b = s->repeat_b ? 0 : (int64_t)s->k * s->n,
                         .stride_c = (int64_t)s->m * s->n};
    return (lk_gemm){.dtype = c->dtype,
                     .trans_a = s->ta,
                     .trans_b = s->tb,
                     .accumulate = s->accumulate,
                     .m = s->m,
                     .n = s->n,
                     .k = s->k,
                     .lda = s->ta ? s->m : s->k,
                     .ldb = s->tb ? s->k : s->n,
                     .ldc = s->n,
                     .piece = s->piece};
}

static lk_status batched_setup(check_case *c)
{
    const struct batched_case *s = &cases[c->index];
    int64_t a = (int64_t)s->m * s->k, b = (int64_t)s->k * s->n;
    snprintf(c->label, sizeof c->label, "%d of %dx%dx%d %c%c%s%s%s, piece %d", s->count, s->m, s->n,
             s->k, s->ta ? 'T' : 'N', s->tb ? 'T' : 'N', s->repeat_a ? ", A repeated" : "",
             s->repeat_b ? ", B repeated" : "", s->bias ? " + bias" : "", s->piece);
    LK_TRY(check_input(c, c->dtype, s->repeat_a ? a : a * s->count, -1, 1));
    LK_TRY(check_input(c, c->dtype, s->repeat_b ? b : b * s->count, -1, 1));
    LK_TRY(check_input(c, c->dtype, s->n, -1, 1));
    LK_TRY(check_output(c, c->dtype, (int64_t)s->m * s->n * s->count, s->accumulate));
    c->ways = 1U << WHOLE | 1U << PARTS;
    return LK_OK;
}

/* Products [first, first + count). */
static lk_status run_some(const check_case *c, int64_t first, int64_t count, void *out)
{
    lk_gemm_batch b;
    lk_gemm g = describe(c, &b);
    b.count = count;
    return LK_TRACE(lk_gemm_run_batched(&g, &b,
                                        check_at(c->dtype, c->in[IN_A].data, first * b.stride_a),
                                        check_at(c->dtype, c->in[IN_B].data, first * b.stride_b),
                                        cases[c->index].bias ? c->in[IN_BIAS].data : NULL,
                                        check_at(c->dtype, out, first * b.stride_c)));
}

static lk_status batched_run(const check_case *c, int way, void *const *out)
{
    int64_t count = cases[c->index].count, cut = way == PARTS ? (count + 2) / 3 : count;
    LK_TRY(run_some(c, 0, cut, out[0]));
    if (way == PARTS)
        LK_TRY(run_some(c, cut, count - cut, out[0]));
    return LK_OK;
}

/* By definition a batch is its products one by one. */
static lk_status batched_expect(const check_case *c, check_truth *truth)
{
    lk_gemm_batch b;
    lk_gemm g = describe(c, &b);
    truth->has_bits[0] = true;
    for (int64_t i = 0; i < b.count; i++)
        lk__ref_gemm(&g, check_at(c->dtype, c->in[IN_A].data, i * b.stride_a),
                     check_at(c->dtype, c->in[IN_B].data, i * b.stride_b),
                     cases[c->index].bias ? c->in[IN_BIAS].data : NULL,
                     check_at(c->dtype, truth->bits[0], i * b.stride_c), NULL);
    return LK_OK;
}

const lk__check lk__check_gemm_batched = {
    .name = "gemm_batched",
    .summary = "many matrix products in one call, against one by one",
    .n_cases = sizeof cases / sizeof cases[0],
    .ways = {"whole", "split batch"},
    .setup = batched_setup,
    .run = batched_run,
    .expect = batched_expect,
};
