/* Operators: one join of two values for each element.
 *
 * f32 and f64 go through the kernels (sum, prod, min, max); integers are exact and need none.  Pairs
 * of minloc and maxloc keep the lower index among equal values; a NaN counts as the extreme.  f16 and
 * bf16 are never joined: the caller widens them first.
 */
#include "base/fpenv.h"
#include "coll/coll.h"
#include "kernel/reduce.h"

#include <lockstep/extra/half.h>

static bool is_integer(lk_dtype dtype)
{
    return dtype == LK_I32 || dtype == LK_I64 || dtype == LK_U8;
}

bool lk__reduce_op_takes(lk_reduce_op op, lk_dtype dtype)
{
    bool half = dtype == LK_F16 || dtype == LK_BF16;
    switch (op) {
    case LK_REDUCE_SUM:
    case LK_REDUCE_PROD:
    case LK_REDUCE_MIN:
    case LK_REDUCE_MAX: return true;
    case LK_REDUCE_AVG: return lk_dtype_is_real(dtype) || half;
    case LK_REDUCE_AND:
    case LK_REDUCE_OR:
    case LK_REDUCE_XOR: return is_integer(dtype);
    case LK_REDUCE_MINLOC:
    case LK_REDUCE_MAXLOC: return lk_dtype_is_real(dtype) || is_integer(dtype);
    default: return false;
    }
}

static lk_status join_real(lk_reduce_op op, lk_dtype dtype, int64_t count, void *a, const void *b)
{
    static const lk_reduce_axis_op axis_op[] = {[LK_REDUCE_SUM] = LK_REDUCE_AXIS_SUM,
                                                [LK_REDUCE_PROD] = LK_REDUCE_AXIS_PROD,
                                                [LK_REDUCE_MIN] = LK_REDUCE_AXIS_MIN,
                                                [LK_REDUCE_MAX] = LK_REDUCE_AXIS_MAX,
                                                [LK_REDUCE_AVG] = LK_REDUCE_AXIS_SUM};
    const lk__reduce_table *table = NULL;
    LK_TRY(lk__reduce_get(&table));
    table->of[dtype].join[axis_op[op]](count, a, b);
    return LK_OK;
}

/* Sums and products wrap: the arithmetic is unsigned. */
#define JOIN_INTEGER(type, wide)                                                \
    static void join_##type(lk_reduce_op op, int64_t n, type *a, const type *b) \
    {                                                                           \
        for (int64_t i = 0; i < n; i++) {                                       \
            wide x = (wide)a[i], y = (wide)b[i];                                \
            a[i] = op == LK_REDUCE_SUM    ? (type)(x + y)                       \
                   : op == LK_REDUCE_PROD ? (type)(x * y)                       \
                   : op == LK_REDUCE_MIN  ? (a[i] < b[i] ? a[i] : b[i])         \
                   : op == LK_REDUCE_MAX  ? (a[i] > b[i] ? a[i] : b[i])         \
                   : op == LK_REDUCE_AND  ? (type)(x & y)                       \
                   : op == LK_REDUCE_OR   ? (type)(x | y)                       \
                                          : (type)(x ^ y);                        \
        }                                                                       \
    }

JOIN_INTEGER(int32_t, uint32_t)
JOIN_INTEGER(int64_t, uint64_t)
JOIN_INTEGER(uint8_t, unsigned)

/* Whether b is more extreme than a (1), less (-1) or alike (0), with `smaller` 1 if that is the
 * smaller one, -1 if the larger. */
#define ORDER(type)                                      \
    static int order_##type(int smaller, type a, type b) \
    {                                                    \
        return b < a ? smaller : b > a ? -smaller : 0;   \
    }

ORDER(double)
ORDER(int64_t)

/* A NaN is the most extreme. */
static int order_real(int smaller, double a, double b)
{
    bool a_nan = a != a, b_nan = b != b;
    return a_nan || b_nan ? b_nan - a_nan : order_double(smaller, a, b);
}

static int loc_order(lk_dtype dtype, int smaller, const lk_value_index *a, const lk_value_index *b)
{
    switch (dtype) {
    case LK_F32: return order_real(smaller, (double)a->value.f32, (double)b->value.f32);
    case LK_F64: return order_real(smaller, a->value.f64, b->value.f64);
    case LK_I32: return order_int64_t(smaller, a->value.i32, b->value.i32);
    case LK_I64: return order_int64_t(smaller, a->value.i64, b->value.i64);
    default: return order_int64_t(smaller, a->value.u8, b->value.u8);
    }
}

static void join_loc(lk_reduce_op op, lk_dtype dtype, int64_t n, lk_value_index *a,
                     const lk_value_index *b)
{
    int smaller = op == LK_REDUCE_MINLOC ? 1 : -1;
    for (int64_t i = 0; i < n; i++) {
        int order = loc_order(dtype, smaller, &a[i], &b[i]);
        if (order > 0 || (order == 0 && b[i].index < a[i].index))
            a[i] = b[i];
    }
}

bool lk__reduce_op_rounds(lk_reduce_op op, lk_dtype dtype)
{
    return lk_dtype_is_real(dtype) && op != LK_REDUCE_MINLOC && op != LK_REDUCE_MAXLOC;
}

lk_status lk__reduce_op_join(lk_reduce_op op, lk_dtype dtype, int64_t count, void *first,
                             const void *second)
{
    LK_FP_GUARD();
    if (!lk__reduce_op_rounds(op, dtype))
        return lk__reduce_op_join_part(op, dtype, count, first, second);
    LK_TRY(LK_FP_CHECK());
    return join_real(op, dtype, count, first, second);
}

lk_status lk__reduce_op_join_part(lk_reduce_op op, lk_dtype dtype, int64_t count, void *first,
                                  const void *second)
{
    if (op == LK_REDUCE_MINLOC || op == LK_REDUCE_MAXLOC)
        join_loc(op, dtype, count, first, second);
    else if (lk_dtype_is_real(dtype))
        return join_real(op, dtype, count, first, second);
    else if (dtype == LK_I32)
        join_int32_t(op, count, first, second);
    else if (dtype == LK_I64)
        join_int64_t(op, count, first, second);
    else
        join_uint8_t(op, count, first, second);
    return LK_OK;
}

lk_status lk__reduce_op_finish(lk_reduce_op op, lk_dtype dtype, int64_t count, int64_t pieces,
                               void *data)
{
    if (op != LK_REDUCE_AVG)
        return LK_OK;
    LK_FP_GUARD();
    LK_TRY(LK_FP_CHECK());
    float *x = data;
    double *y = data;
    for (int64_t i = 0; dtype == LK_F32 && i < count; i++)
        x[i] = x[i] / (float)pieces;
    for (int64_t i = 0; dtype == LK_F64 && i < count; i++)
        y[i] = y[i] / (double)pieces;
    return LK_OK;
}

void lk__reduce_op_widen(lk_dtype dtype, int64_t count, const void *from, void *to)
{
    if (dtype == LK_F16)
        lk_f16_decode_array(count, from, to);
    else
        lk_bf16_decode_array(count, from, to);
}

void lk__reduce_op_narrow(lk_dtype dtype, int64_t count, const void *from, void *to)
{
    if (dtype == LK_F16)
        lk_f16_encode_array(count, from, to);
    else
        lk_bf16_encode_array(count, from, to);
}
