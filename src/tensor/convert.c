/* Conversions in integer arithmetic.
 *
 * A real value is sig * 2^exp with a 64-bit integer sig; round_to() makes the nearest value of any
 * binary format from that.  Machine conversions are used only where they are exact, because others
 * depend on the thread's rounding mode and denormal flags.
 */
#include "tensor/convert.h"

#include "base/bits.h"

#include <lockstep/extra/half.h>

#include <string.h>

/* A binary format: how many bits of exponent and of fraction. */
struct format {
    int exponent, fraction;
};

static const struct format formats[LK_N_DTYPES] = {
    [LK_F64] = {11, 52}, [LK_F32] = {8, 23}, [LK_F16] = {5, 10}, [LK_BF16] = {8, 7}};

bool lk__is_real(lk_dtype t)
{
    return formats[t].exponent > 0;
}

/* The format's pattern nearest to sig * 2^exp, ties to even. */
static uint64_t round_to(struct format f, uint64_t sig, int exp)
{
    if (sig == 0)
        return 0;
    const uint64_t infinity = ((UINT64_C(1) << f.exponent) - 1) << f.fraction;
    const int bias = (1 << (f.exponent - 1)) - 1;
    int lead = __builtin_clzll(sig);
    sig <<= lead;
    int e = exp + 63 - lead + bias; /* the biased exponent, were there no limits */
    int drop = 63 - f.fraction;     /* bits of sig that do not fit */
    if (e < 1) {                    /* denormal: as if the exponent were 1, with fewer bits */
        drop += 1 - e;
        e = 1;
    }
    if (drop > 64)
        return 0;
    uint64_t kept = drop < 64 ? sig >> drop : 0, rest = drop < 64 ? sig << (64 - drop) : sig;
    const uint64_t half = UINT64_C(1) << 63;
    kept += rest > half || (rest == half && (kept & 1));
    if ((uint64_t)e >= infinity >> f.fraction)
        return infinity;
    /* The leading one adds 1 to the exponent, a carry out of the fraction another: at most up to
     * infinity. */
    return ((uint64_t)(e - 1) << f.fraction) + kept;
}

/* The pattern of `x` in a format other than f64. */
static uint64_t real_to(struct format f, double x)
{
    uint64_t u = lk__f64_bits(x), fraction = u & ((UINT64_C(1) << 52) - 1);
    uint64_t sign = (u >> 63) << (f.exponent + f.fraction);
    int e = (int)(u >> 52 & 0x7ff);
    if (e == 0x7ff) {
        const uint64_t infinity = ((UINT64_C(1) << f.exponent) - 1) << f.fraction;
        uint64_t quiet = UINT64_C(1) << (f.fraction - 1);
        return sign | infinity | (fraction ? quiet | fraction >> (52 - f.fraction) : 0);
    }
    uint64_t sig = e > 0 ? fraction | UINT64_C(1) << 52 : fraction;
    return sign | round_to(f, sig, (e > 0 ? e : 1) - 1075);
}

static uint64_t int_to(struct format f, int64_t v)
{
    uint64_t sign = v < 0 ? UINT64_C(1) << (f.exponent + f.fraction) : 0;
    return sign | round_to(f, v < 0 ? -(uint64_t)v : (uint64_t)v, 0);
}

/* The pattern of an f32 as a double. */
static double widen(uint32_t u)
{
    uint64_t sign = (uint64_t)(u >> 31) << 63, e = u >> 23 & 0xff, fraction = u & 0x7fffff;
    if (e == 0) /* a denormal is a multiple of 2^-149, a normal double */
        return lk__f64_from_bits(sign | lk__f64_bits((double)fraction * 0x1p-149));
    if (e == 0xff)
        return lk__f64_from_bits(sign | UINT64_C(0x7ff) << 52 | fraction << 29 |
                                 (fraction ? UINT64_C(1) << 51 : 0));
    return lk__f64_from_bits(sign | (e + 896) << 52 | fraction << 29);
}

/* for each element: read one of `type` as x, then do `body`, which uses x and i. */
#define EACH_LOAD(type, body)                                     \
    for (int64_t i = 0; i < n; i++) {                             \
        type x;                                                   \
        memcpy(&x, src + i * step * (int64_t)sizeof x, sizeof x); \
        body;                                                     \
    }                                                             \
    break

/* for each element: compute x of `type` from v[i], then write it. */
#define EACH_STORE(type, value)                                   \
    for (int64_t i = 0; i < n; i++) {                             \
        type x = (type)(value);                                   \
        memcpy(dst + i * step * (int64_t)sizeof x, &x, sizeof x); \
    }                                                             \
    break

void lk__load_real(lk_dtype t, int64_t n, const char *src, int64_t step, double *out)
{
    switch (t) {
    case LK_F64: EACH_LOAD(double, out[i] = x);
    case LK_F32: EACH_LOAD(uint32_t, out[i] = widen(x));
    case LK_F16: EACH_LOAD(uint16_t, out[i] = widen(lk__f32_bits(lk_f16_decode(x))));
    case LK_BF16: EACH_LOAD(uint16_t, out[i] = widen((uint32_t)x << 16));
    default: break;
    }
}

void lk__load_int(lk_dtype t, int64_t n, const char *src, int64_t step, int64_t *out)
{
    switch (t) {
    case LK_I64: EACH_LOAD(int64_t, out[i] = x);
    case LK_I32: EACH_LOAD(int32_t, out[i] = x);
    case LK_U8: EACH_LOAD(uint8_t, out[i] = x);
    default: break;
    }
}

/* The least and the largest value of an integer dtype. */
static void int_range(lk_dtype t, int64_t *least, int64_t *largest)
{
    *least = t == LK_I64 ? INT64_MIN : t == LK_I32 ? INT32_MIN : 0;
    *largest = t == LK_I64 ? INT64_MAX : t == LK_I32 ? INT32_MAX : UINT8_MAX;
}

int64_t lk__first_unfit_int(lk_dtype t, int64_t n, const int64_t *v)
{
    if (lk__is_real(t))
        return n;
    int64_t least, largest, i = 0;
    int_range(t, &least, &largest);
    while (i < n && v[i] >= least && v[i] <= largest)
        i++;
    return i;
}

int64_t lk__first_unfit_real(lk_dtype t, int64_t n, const double *v)
{
    if (lk__is_real(t))
        return n;
    int64_t least, largest, i = 0;
    int_range(t, &least, &largest);
    for (; i < n; i++) {
        if (!(v[i] >= -0x1p63 && v[i] < 0x1p63)) /* NaN fails too */
            break;
        int64_t whole = (int64_t)v[i];
        if (whole < least || whole > largest)
            break;
    }
    return i;
}

void lk__store_real(lk_dtype t, int64_t n, const double *v, char *dst, int64_t step)
{
    switch (t) {
    case LK_F64: EACH_STORE(double, v[i]);
    case LK_F32: EACH_STORE(uint32_t, real_to(formats[LK_F32], v[i]));
    case LK_F16: EACH_STORE(uint16_t, real_to(formats[LK_F16], v[i]));
    case LK_BF16: EACH_STORE(uint16_t, real_to(formats[LK_BF16], v[i]));
    case LK_I64: EACH_STORE(int64_t, v[i]);
    case LK_I32: EACH_STORE(int32_t, v[i]);
    case LK_U8: EACH_STORE(uint8_t, v[i]);
    default: break;
    }
}

/* An f32 holds all integers up to 2^24 exactly: the usual case of labels and pixels. */
static uint32_t int_to_f32(int64_t v)
{
    if (v >= -(1 << 24) && v <= 1 << 24)
        return lk__f32_bits((float)v);
    return (uint32_t)int_to(formats[LK_F32], v);
}

void lk__store_int(lk_dtype t, int64_t n, const int64_t *v, char *dst, int64_t step)
{
    switch (t) {
    case LK_F64: EACH_STORE(uint64_t, int_to(formats[LK_F64], v[i]));
    case LK_F32: EACH_STORE(uint32_t, int_to_f32(v[i]));
    case LK_F16: EACH_STORE(uint16_t, int_to(formats[LK_F16], v[i]));
    case LK_BF16: EACH_STORE(uint16_t, int_to(formats[LK_BF16], v[i]));
    case LK_I64: EACH_STORE(int64_t, v[i]);
    case LK_I32: EACH_STORE(int32_t, v[i]);
    case LK_U8: EACH_STORE(uint8_t, v[i]);
    default: break;
    }
}
