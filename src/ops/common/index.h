/* Integer inputs that name rows or classes. */
#ifndef LK_OPS_COMMON_INDEX_H
#define LK_OPS_COMMON_INDEX_H

#include "tensor/tensor.h"

#include <lockstep/op.h>

/** Whether a dtype can be an index: i32 and i64. */
static inline bool lk__is_index(lk_dtype dtype)
{
    return dtype == LK_I32 || dtype == LK_I64;
}

/** Element `i` of a contiguous tensor of i32 or i64. */
static inline int64_t lk__index_at(const lk_tensor *t, int64_t i)
{
    const void *x = lk__tensor_start(t);
    return t->dtype == LK_I32 ? ((const int32_t *)x)[i] : ((const int64_t *)x)[i];
}

/** Check that all elements are in [0, bound).  Errors: LK_EINVAL naming the first that is not, its
 * place and the bound; `what` is what they are, such as "embedding: index". */
lk_status lk__index_check(const lk_tensor *t, int64_t bound, const char *what) LK_NODISCARD;

/** Check that input 1 is a vector of indices.  Errors: LK_EDTYPE, LK_ESHAPE naming both inputs. */
lk_status lk__index_infer(const lk_call *c) LK_NODISCARD;

#endif /* LK_OPS_COMMON_INDEX_H */
