/* The 16-bit formats: storage only, converted to f32 before anything is computed.
 *
 *   f16   IEEE binary16: sign, 5 bits of exponent, 10 of fraction
 *   bf16  the upper half of an f32: sign, 8 bits of exponent, 7 of fraction
 *
 * Encoding rounds to the nearest value, ties to even, with denormals and overflow to infinity as
 * IEEE 754 says; decoding is exact.  A NaN stays one: it keeps its sign and the upper bits of its
 * payload, and becomes quiet.  All is done in integers (or an instruction that gives the same
 * bits), so the thread's rounding mode and denormal flags do not matter.
 */
#ifndef LK_HALF_H
#define LK_HALF_H

#include <lockstep/api.h>

#include <stdint.h>

LK_BEGIN_DECLS

/** One value to and from f16.  Not collective; thread safe, like all functions here. */
LK_API uint16_t lk_f16_encode(float x);
LK_API float lk_f16_decode(uint16_t h);

/** One value to and from bf16. */
LK_API uint16_t lk_bf16_encode(float x);
LK_API float lk_bf16_decode(uint16_t h);

/** y[i] = encode or decode (x[i]) for i < n.  `y` must not overlap `x`. */
LK_API void lk_f16_encode_array(int64_t n, const float *x, uint16_t *y);
LK_API void lk_f16_decode_array(int64_t n, const uint16_t *x, float *y);
LK_API void lk_bf16_encode_array(int64_t n, const float *x, uint16_t *y);
LK_API void lk_bf16_decode_array(int64_t n, const uint16_t *x, float *y);

LK_END_DECLS

#endif /* LK_HALF_H */
