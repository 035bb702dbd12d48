/* Element types.
 *
 * Arithmetic is in f32 and f64.  Integers index and label; f16 and bf16 are storage only and are
 * converted to f32 before anything is computed.
 */
#ifndef LK_DTYPE_H
#define LK_DTYPE_H

#include <lockstep/status.h>

#include <stdbool.h>
#include <stdint.h>

LK_BEGIN_DECLS

/* Single source of truth: enumerator, name, bytes. */
#define LK_DTYPE_MAP(X) \
    X(F32, "f32", 4)    \
    X(F64, "f64", 8)    \
    X(I32, "i32", 4)    \
    X(I64, "i64", 8)    \
    X(U8, "u8", 1)      \
    X(F16, "f16", 2)    \
    X(BF16, "bf16", 2)

typedef enum lk_dtype {
#define X(code, name, bytes) LK_##code,
    LK_DTYPE_MAP(X)
#undef X
        LK_N_DTYPES
} lk_dtype;

/** "f32", ...; "?" for a value that is no dtype. */
LK_API const char *lk_dtype_name(lk_dtype t);

/** Bytes of one element; 0 for a value that is no dtype. */
LK_API size_t lk_dtype_size(lk_dtype t);

/** True for f32 and f64, the types of arithmetic. */
LK_API bool lk_dtype_is_real(lk_dtype t);

/** Find a dtype by name.  Errors: LK_EINVAL with the list of known names. */
LK_API lk_status lk_dtype_find(const char *name, lk_dtype *out) LK_NODISCARD;

LK_END_DECLS

#endif /* LK_DTYPE_H */
