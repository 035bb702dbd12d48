/* Check of the conversions to and from f16 and bf16. */
#include "selfcheck/check.h"

#include <lockstep/extra/half.h>

#include <math.h>
#include <stdio.h>

enum { WHOLE, PARTS };
enum { OUT_CODE, OUT_VALUE };

/* Digits, smallest exponent of a normal number (as frexp counts) and largest value of a format. */
static const struct format {
    lk_dtype dtype;
    int digits, lowest;
    double largest;
    void (*encode)(int64_t n, const float *x, uint16_t *y);
    void (*decode)(int64_t n, const uint16_t *x, float *y);
} formats[] = {
    {LK_F16, 11, -13, 65504.0, lk_f16_encode_array, lk_f16_decode_array},
    {LK_BF16, 8, -125, 0x1.fep127, lk_bf16_encode_array, lk_bf16_decode_array},
};

static const int64_t lengths[] = {2003, 1, 0, 15, 17};

enum { N_LENGTHS = sizeof lengths / sizeof lengths[0] };

static const struct format *format_of(const check_case *c)
{
    return &formats[c->index / N_LENGTHS];
}

static lk_status half_setup(check_case *c)
{
    int64_t n = lengths[c->index % N_LENGTHS];
    snprintf(c->label, sizeof c->label, "%s of %lld", lk_dtype_name(format_of(c)->dtype),
             (long long)n);
    LK_TRY(check_input(c, LK_F32, n, -2, 2));
    LK_TRY(check_output(c, format_of(c)->dtype, n, false));
    LK_TRY(check_output(c, LK_F32, n, false));
    float *x = c->in[0].data;
    /* All magnitudes, ties, and what overflows. */
    for (int64_t i = 0; i < n; i++) {
        x[i] = ldexpf(x[i], (int)(i % 48) - 28);
        if (i % 5 == 0)
            x[i] = ldexpf(roundf(ldexpf(x[i], 14)), -14);
        if (i % 101 == 100)
            x[i] *= 1e30F;
    }
    c->ways = 1U << WHOLE | 1U << PARTS;
    return LK_OK;
}

static lk_status half_run(const check_case *c, int way, void *const *out)
{
    const struct format *f = format_of(c);
    const float *x = c->in[0].data;
    uint16_t *code = out[OUT_CODE];
    float *value = out[OUT_VALUE];
    int64_t n = c->in[0].n, cut = way == PARTS ? n / 3 : 0;
    f->encode(cut, x, code);
    f->encode(n - cut, x + cut, code + cut);
    f->decode(cut, code, value);
    f->decode(n - cut, code + cut, value + cut);
    return LK_OK;
}

/* The nearest value of the format, ties to even. */
static double nearest(const struct format *f, double x)
{
    int exponent;
    frexp(x, &exponent);
    double unit = ldexp(1, (exponent < f->lowest ? f->lowest : exponent) - f->digits);
    double y = nearbyint(x / unit) * unit;
    return fabs(y) > f->largest ? copysign((double)INFINITY, x) : y;
}

static lk_status half_expect(const check_case *c, check_truth *truth)
{
    const float *x = c->in[0].data;
    for (int64_t i = 0; i < c->in[0].n; i++)
        ((float *)truth->bits[OUT_VALUE])[i] = (float)nearest(format_of(c), (double)x[i]);
    truth->has_bits[OUT_VALUE] = true;
    return LK_OK;
}

const lk__check lk__check_half = {
    .name = "half",
    .summary = "conversions to f16 and bf16 and back",
    .n_cases = N_LENGTHS * (int)(sizeof formats / sizeof formats[0]),
    .untyped = true,
    .ways = {"whole", "in parts"},
    .setup = half_setup,
    .run = half_run,
    .expect = half_expect,
};
