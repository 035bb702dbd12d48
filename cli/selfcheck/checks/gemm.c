/* Check of lk_gemm_run(): all transposes, leading dimensions, starts, activations and pieces. */
#include "kernel/reference/reference.h"
#include "selfcheck/check.h"

#include <lockstep/extra/gemm.h>
#include <lockstep/extra/reduce.h>

#include <stdio.h>

enum { IN_A, IN_B, IN_BIAS };
enum { WHOLE, PARTS, PIECES };

/* Where a chain starts. */
enum start { ZERO, BIAS, C };

static const struct gemm_case {
    bool ta, tb;
    int m, n, k;
    int gap; /* elements behind each stored row */
    enum start start;
    lk_act act;
    int piece;
} cases[] = {
    {0, 0, 1, 1, 1, 0, ZERO, LK_ACT_NONE, 0},       {0, 0, 1, 10, 61, 0, BIAS, LK_ACT_NONE, 0},
    {0, 0, 1, 131, 37, 0, ZERO, LK_ACT_RELU, 0},    {0, 0, 2, 17, 100, 3, C, LK_ACT_NONE, 0},
    {0, 0, 3, 65, 300, 0, BIAS, LK_ACT_RELU, 0},    {0, 0, 7, 8, 13, 1, ZERO, LK_ACT_NONE, 0},
    {0, 0, 13, 29, 31, 0, BIAS, LK_ACT_SIGMOID, 0}, {0, 0, 16, 33, 127, 0, BIAS, LK_ACT_TANH, 0},
    {0, 0, 31, 24, 53, 5, BIAS, LK_ACT_GELU, 0},    {0, 0, 61, 97, 89, 0, ZERO, LK_ACT_NONE, 0},
    {0, 0, 19, 301, 523, 0, BIAS, LK_ACT_NONE, 0},  {0, 0, 97, 3, 71, 0, ZERO, LK_ACT_NONE, 0},
    {0, 0, 11, 1, 257, 2, BIAS, LK_ACT_NONE, 0},    {0, 1, 1, 37, 41, 0, ZERO, LK_ACT_NONE, 0},
    {0, 1, 5, 19, 67, 2, BIAS, LK_ACT_NONE, 0},     {0, 1, 16, 47, 300, 0, C, LK_ACT_NONE, 0},
    {0, 1, 18, 263, 419, 0, ZERO, LK_ACT_NONE, 0},  {0, 1, 43, 64, 10, 0, ZERO, LK_ACT_NONE, 0},
    {0, 1, 100, 13, 7, 1, ZERO, LK_ACT_NONE, 0},    {1, 0, 1, 16, 17, 0, ZERO, LK_ACT_NONE, 0},
    {1, 0, 37, 41, 1, 0, ZERO, LK_ACT_NONE, 16},    {1, 0, 59, 83, 16, 0, ZERO, LK_ACT_NONE, 16},
    {1, 0, 47, 73, 100, 0, ZERO, LK_ACT_NONE, 16},  {1, 0, 29, 10, 53, 3, C, LK_ACT_NONE, 7},
    {1, 0, 19, 40, 33, 0, BIAS, LK_ACT_RELU, 4},    {1, 0, 67, 5, 23, 0, ZERO, LK_ACT_NONE, 1},
    {1, 0, 31, 31, 62, 0, C, LK_ACT_NONE, 0},       {1, 1, 1, 1, 5, 0, ZERO, LK_ACT_NONE, 0},
    {1, 1, 23, 37, 41, 2, BIAS, LK_ACT_NONE, 0},    {1, 1, 9, 14, 80, 0, ZERO, LK_ACT_NONE, 32},
    {0, 0, 6, 11, 45, 0, ZERO, LK_ACT_NONE, 9},     {0, 1, 8, 21, 64, 0, C, LK_ACT_NONE, 16},
    {0, 0, 0, 5, 7, 0, ZERO, LK_ACT_NONE, 0},       {0, 0, 5, 0, 7, 0, BIAS, LK_ACT_NONE, 0},
    {0, 0, 5, 7, 0, 0, ZERO, LK_ACT_NONE, 0},       {0, 1, 3, 17, 0, 2, BIAS, LK_ACT_RELU, 0},
    {1, 0, 4, 9, 0, 0, C, LK_ACT_NONE, 16},         {1, 1, 0, 0, 0, 0, ZERO, LK_ACT_NONE, 0},
};

static const char *const starts[] = {"", " + bias", " + C"};

static lk_gemm describe(const check_case *c)
{
    const struct gemm_case *s = &cases[c->index];
    return (lk_gemm){
        .dtype = c->dtype,
        .trans_a = s->ta,
        .trans_b = s->tb,
        .accumulate = s->start == C,
        .act = s->act,
        .m = s->m,
        .n = s->n,
        .k = s->k,
        .lda = (s->ta ? s->m : s->k) + s->gap,
        .ldb = (s->tb ? s->k : s->n) + s->gap,
        .ldc = s->n + s->gap,
        .piece = s->piece,
    };
}

static lk_status gemm_setup(check_case *c)
{
    const struct gemm_case *s = &cases[c->index];
    lk_gemm g = describe(c);
    snprintf(c->label, sizeof c->label, "%dx%dx%d %c%c%s%s%s, gap %d, piece %d", s->m, s->n, s->k,
             s->ta ? 'T' : 'N', s->tb ? 'T' : 'N', starts[s->start], s->act ? ", " : "",
             s->act ? lk__ref_act_name(s->act) : "", s->gap, s->piece);
    LK_TRY(check_input(c, c->dtype, (s->ta ? g.k : g.m) * g.lda, -1, 1));
    LK_TRY(check_input(c, c->dtype, (s->tb ? g.n : g.k) * g.ldb, -1, 1));
    LK_TRY(check_input(c, c->dtype, g.n, -1, 1));
    LK_TRY(check_output(c, c->dtype, g.m * g.ldc, true));
    bool joins = s->piece > 0 && s->start == ZERO && s->act == LK_ACT_NONE && s->gap == 0;
    c->ways = 1U << WHOLE | 1U << PARTS | (joins ? 1U << PIECES : 0);
    return LK_OK;
}

/* Rows [i[0], i[1]) and columns [j[0], j[1]) of the result in a call of their own. */
static lk_status run_part(const check_case *c, const int64_t i[2], const int64_t j[2], void *out)
{
    lk_gemm g = describe(c);
    const void *a = check_at(c->dtype, c->in[IN_A].data, g.trans_a ? i[0] : i[0] * g.lda);
    const void *b = check_at(c->dtype, c->in[IN_B].data, g.trans_b ? j[0] * g.ldb : j[0]);
    const void *bias = check_at(c->dtype, c->in[IN_BIAS].data, j[0]);
    g.m = i[1] - i[0];
    g.n = j[1] - j[0];
    return LK_TRACE(lk_gemm_run(&g, a, b, cases[c->index].start == BIAS ? bias : NULL,
                                check_at(c->dtype, out, i[0] * g.ldc + j[0])));
}

/* Each piece of k in a call of its own, joined by the tree, as ranks would. */
static lk_status push_pieces(const check_case *c, lk_tree *tree, void *piece)
{
    lk_gemm g = describe(c);
    int64_t k = g.k, step = g.piece;
    g.piece = 0;
    for (int64_t k0 = 0; k0 < k; k0 += step) {
        g.k = k - k0 < step ? k - k0 : step;
        const void *a = check_at(c->dtype, c->in[IN_A].data, g.trans_a ? k0 * g.lda : k0);
        const void *b = check_at(c->dtype, c->in[IN_B].data, g.trans_b ? k0 : k0 * g.ldb);
        LK_TRY(lk_gemm_run(&g, a, b, NULL, piece));
        LK_TRY(lk_tree_push(tree, piece));
    }
    return LK_OK;
}

static lk_status gemm_run(const check_case *c, int way, void *const *out)
{
    const struct gemm_case *s = &cases[c->index];
    if (way == PIECES) {
        return LK_TRACE(check_join(c, push_pieces, out[0]));
    }
    /* Cuts at odd places, so that tiles fall otherwise than in the whole. */
    int parts = way == PARTS ? 2 : 1;
    int64_t mi = way == PARTS ? (s->m + 2) / 3 : s->m, nj = way == PARTS ? (s->n + 1) / 2 : s->n;
    const int64_t rows[2][2] = {{0, mi}, {mi, s->m}}, columns[2][2] = {{0, nj}, {nj, s->n}};
    for (int i = 0; i < parts; i++)
        for (int j = 0; j < parts; j++)
            LK_TRY(run_part(c, rows[i], columns[j], out[0]));
    return LK_OK;
}

static lk_status gemm_expect(const check_case *c, check_truth *truth)
{
    lk_gemm g = describe(c);
    truth->has_bits[0] = true;
    lk__ref_gemm(&g, c->in[IN_A].data, c->in[IN_B].data,
                 cases[c->index].start == BIAS ? c->in[IN_BIAS].data : NULL, truth->bits[0],
                 truth->value[0]);
    return LK_OK;
}

const lk__check lk__check_gemm = {
    .name = "gemm",
    .summary = "matrix products: transposes, gaps, bias, activation, pieces",
    .n_cases = sizeof cases / sizeof cases[0],
    .ways = {"whole", "in parts", "pieces joined"},
    .setup = gemm_setup,
    .run = gemm_run,
    .expect = gemm_expect,
};
