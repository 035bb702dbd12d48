/* Exact sums of doubles: see exact.h. */
#include "multinode/exact.h"

#include "base/bits.h"

enum { DIGIT_BITS = 32, FRACTION_BITS = 52, MANTISSA_BITS = 53, SPECIAL = 0x7ff };

static const int64_t digit_mask = (INT64_C(1) << DIGIT_BITS) - 1;

/* Add `x` at digit `d`, and what is carried to the digits above; the highest takes everything. */
static void add_at(lk__exact *sum, int d, int64_t x)
{
    for (; x != 0 && d < LK_EXACT_DIGITS - 1; d++) {
        int64_t all = sum->digit[d] + x;
        sum->digit[d] = all & digit_mask;
        x = (all - sum->digit[d]) / (digit_mask + 1);
    }
    sum->digit[d] += x;
}

void lk__exact_add(lk__exact *sum, double x)
{
    uint64_t bits = lk__f64_bits(x);
    int exponent = (int)(bits >> FRACTION_BITS & SPECIAL);
    uint64_t mantissa = bits & ((UINT64_C(1) << FRACTION_BITS) - 1);
    int64_t sign = bits >> 63 ? -1 : 1;
    if (exponent == SPECIAL) {
        sum->nan += mantissa != 0;
        sum->plus += mantissa == 0 && sign > 0;
        sum->minus += mantissa == 0 && sign < 0;
        return;
    }
    if (exponent > 0)
        mantissa |= UINT64_C(1) << FRACTION_BITS;
    int shift = exponent > 0 ? exponent - 1 : 0; /* times 2^-1074: denormals have exponent 1, too */
    int d = shift / DIGIT_BITS, by = shift % DIGIT_BITS;
    int64_t low = (int64_t)((mantissa & (uint64_t)digit_mask) << by);
    int64_t high = (int64_t)((mantissa >> DIGIT_BITS) << by);
    /* The halves of `low` are added apart, so that no digit overflows. */
    add_at(sum, d, sign * (low & digit_mask));
    add_at(sum, d + 1, sign * (int64_t)((uint64_t)low >> DIGIT_BITS));
    add_at(sum, d + 1, sign * high);
}

void lk__exact_carry(lk__exact *sum)
{
    for (int d = 0; d < LK_EXACT_DIGITS - 1; d++) {
        int64_t rest = sum->digit[d] & digit_mask;
        sum->digit[d + 1] += (sum->digit[d] - rest) / (digit_mask + 1);
        sum->digit[d] = rest;
    }
}

/* Bit i of a sum that is not negative. */
static int bit_at(const lk__exact *sum, int i)
{
    return (int)(sum->digit[i / DIGIT_BITS] >> i % DIGIT_BITS & 1);
}

/* The highest bit that is set; -1: none is. */
static int top_bit(const lk__exact *sum)
{
    for (int d = LK_EXACT_DIGITS - 1; d >= 0; d--)
        if (sum->digit[d] != 0)
            return d * DIGIT_BITS + 63 - __builtin_clzll((unsigned long long)sum->digit[d]);
    return -1;
}

/* The bits of the double next to a sum that is not negative. */
static uint64_t nearest(const lk__exact *sum)
{
    int top = top_bit(sum), low = top < MANTISSA_BITS ? 0 : top - FRACTION_BITS;
    uint64_t mantissa = 0;
    for (int i = top; i >= low; i--)
        mantissa = mantissa << 1 | (uint64_t)bit_at(sum, i);
    int half = low > 0 ? bit_at(sum, low - 1) : 0, more = 0;
    for (int i = low - 2; i >= 0 && !more; i--)
        more = bit_at(sum, i);
    /* A denormal, and the first normal ones, are their own bits; each `low` more is an exponent more, and a
     * mantissa that rounds up to the next power of two carries into it. */
    mantissa += (uint64_t)(half && (more || (mantissa & 1)));
    if (top < MANTISSA_BITS)
        return mantissa;
    uint64_t bits = mantissa + ((uint64_t)low << FRACTION_BITS);
    uint64_t infinite = (uint64_t)SPECIAL << FRACTION_BITS;
    return low >= SPECIAL || bits > infinite ? infinite : bits;
}

double lk__exact_value(const lk__exact *sum)
{
    lk__exact plain = *sum;
    uint64_t bits = 0, sign = 0;
    if (sum->digit[LK_EXACT_DIGITS - 1] < 0) {
        sign = UINT64_C(1) << 63;
        for (int d = 0; d < LK_EXACT_DIGITS; d++)
            plain.digit[d] = -plain.digit[d];
        lk__exact_carry(&plain);
    }
    if (sum->nan || (sum->plus && sum->minus))
        bits = UINT64_C(0x7ff8) << 48;
    else if (sum->plus || sum->minus)
        bits = (uint64_t)SPECIAL << FRACTION_BITS | (sum->minus ? UINT64_C(1) << 63 : 0);
    else
        bits = nearest(&plain) | sign;
    return lk__f64_from_bits(bits);
}
