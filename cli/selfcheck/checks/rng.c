/* Check of the random draws: places and ranges never matter. */
#include "selfcheck/check.h"

#include <lockstep/rng.h>

#include <math.h>
#include <stdio.h>

enum { WHOLE, PARTS };
enum kind { BITS, UNIFORM_F32, UNIFORM_F64, BELOW, PERMUTE };

static const struct {
    enum kind kind;
    lk_rng_at at;
    int64_t n, bound;
} cases[] = {
    {BITS, {0, 0, 0}, 1001, 0},        {BITS, {7, 123456789012, 3}, 37, 0},
    {UNIFORM_F32, {1, 2, 5}, 1000, 0}, {UNIFORM_F64, {4000000000, 5, 1}, 1000, 0},
    {BELOW, {0, 3, 0}, 500, 10},       {BELOW, {0, 3, 1000000}, 100, 6148914691236517206},
    {PERMUTE, {3, 0, 0}, 1000, 1000},  {PERMUTE, {0, 0, 59000}, 1000, 60000},
    {PERMUTE, {0, 0, 0}, 1, 1},        {BITS, {0, 0, 9}, 0, 0},
};

static const char *const kinds[] = {"bits", "uniform f32", "uniform f64", "below", "permute"};

static lk_status rng_setup(check_case *c)
{
    static const lk_dtype dtypes[] = {LK_I32, LK_F32, LK_F64, LK_I64, LK_I64};
    enum kind kind = cases[c->index].kind;
    snprintf(c->label, sizeof c->label, "%s, %lld draws", kinds[kind],
             (long long)cases[c->index].n);
    LK_TRY(check_output(c, dtypes[kind], cases[c->index].n, false));
    c->ways = 1U << WHOLE | 1U << PARTS;
    return LK_OK;
}

static lk_rng stream(const check_case *c)
{
    return lk_rng_start((int64_t)c->seed, "check", kinds[cases[c->index].kind]);
}

/* Draws [first, first + n) of the case. */
static lk_status draw(const check_case *c, int64_t first, int64_t n, void *out)
{
    lk_rng_at at = cases[c->index].at;
    int64_t bound = cases[c->index].bound;
    at.element += first;
    switch (cases[c->index].kind) {
    case BITS: LK_TRY(lk_rng_bits(stream(c), at, n, out)); break;
    case UNIFORM_F32: LK_TRY(lk_rng_uniform_f32(stream(c), at, n, out)); break;
    case UNIFORM_F64: LK_TRY(lk_rng_uniform_f64(stream(c), at, n, out)); break;
    case BELOW: LK_TRY(lk_rng_below(stream(c), at, bound, n, out)); break;
    case PERMUTE: LK_TRY(lk_rng_permute(stream(c), at.step, bound, at.element, n, out)); break;
    }
    return LK_OK;
}

static lk_status rng_run(const check_case *c, int way, void *const *out)
{
    int64_t n = cases[c->index].n, cut = way == PARTS ? n / 3 : 0;
    LK_TRY(draw(c, 0, cut, out[0]));
    return LK_TRACE(draw(c, cut, n - cut, check_at(c->out[0].dtype, out[0], cut)));
}

/* Word w of Philox4x32-10, after its publication (Salmon and others, 2011). */
static uint32_t philox(const uint32_t counter[4], const uint32_t key[2], int w)
{
    uint32_t x[4] = {counter[0], counter[1], counter[2], counter[3]}, k[2] = {key[0], key[1]};
    for (int round = 0; round < 10; round++) {
        uint64_t p = (uint64_t)x[0] * 0xd2511f53U, q = (uint64_t)x[2] * 0xcd9e8d57U;
        uint32_t y[4] = {(uint32_t)(q >> 32) ^ x[1] ^ k[0], (uint32_t)q,
                         (uint32_t)(p >> 32) ^ x[3] ^ k[1], (uint32_t)p};
        for (int i = 0; i < 4; i++)
            x[i] = y[i];
        k[0] += 0x9e3779b9U;
        k[1] += 0xbb67ae85U;
    }
    return x[w];
}

/* Word w of block b at the case's place. */
static uint32_t word(const check_case *c, uint64_t b, int w)
{
    lk_rng_at at = cases[c->index].at;
    uint64_t sample = (uint64_t)at.sample;
    uint32_t counter[4] = {(uint32_t)b, (uint32_t)(b >> 32) | (uint32_t)(sample << 16),
                           (uint32_t)(sample >> 16), (uint32_t)at.step};
    return philox(counter, stream(c).key, w);
}

static lk_status rng_expect(const check_case *c, check_truth *truth)
{
    enum kind kind = cases[c->index].kind;
    for (int64_t i = 0; i < cases[c->index].n && kind <= UNIFORM_F64; i++) {
        uint64_t e = (uint64_t)(cases[c->index].at.element + i);
        truth->has_bits[0] = true;
        if (kind == UNIFORM_F64) {
            int w = 2 * (int)(e % 2);
            uint64_t bits = (uint64_t)word(c, e / 2, w + 1) << 32 | word(c, e / 2, w);
            ((double *)truth->bits[0])[i] = (double)(bits >> 11) * 0x1p-53;
            continue;
        }
        uint32_t bits = word(c, e / 4, (int)(e % 4));
        if (kind == BITS)
            ((uint32_t *)truth->bits[0])[i] = bits;
        else
            ((float *)truth->bits[0])[i] = (float)(bits >> 8) * 0x1p-24F;
    }
    return LK_OK;
}

const lk__check lk__check_rng = {
    .name = "rng",
    .summary = "random bits, uniform draws, integers and permutations, at once and in parts",
    .n_cases = sizeof cases / sizeof cases[0],
    .untyped = true,
    .ways = {"whole", "in parts"},
    .setup = rng_setup,
    .run = rng_run,
    .expect = rng_expect,
};
