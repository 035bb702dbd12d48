/* Elements of one dtype from values of another, by the one rule of lockstep/tensor.h.
 *
 * A value travels as double if its dtype is real (f64, f32, f16, bf16) and as int64_t if not: both
 * hold it exactly, so it is rounded once, when it is stored.
 */
#ifndef LK_TENSOR_CONVERT_H
#define LK_TENSOR_CONVERT_H

#include <lockstep/dtype.h>

/** True for f64, f32, f16 and bf16. */
bool lk__is_real(lk_dtype t);

/** Read n elements, `step` apart, as double (a real dtype) or int64_t (an integer one). */
void lk__load_real(lk_dtype t, int64_t n, const char *src, int64_t step, double *out);
void lk__load_int(lk_dtype t, int64_t n, const char *src, int64_t step, int64_t *out);

/** The first of n values that dtype t cannot hold; n if it can hold all. */
int64_t lk__first_unfit_real(lk_dtype t, int64_t n, const double *v);
int64_t lk__first_unfit_int(lk_dtype t, int64_t n, const int64_t *v);

/** Write n values that dtype t can hold to elements `step` apart. */
void lk__store_real(lk_dtype t, int64_t n, const double *v, char *dst, int64_t step);
void lk__store_int(lk_dtype t, int64_t n, const int64_t *v, char *dst, int64_t step);

#endif /* LK_TENSOR_CONVERT_H */
