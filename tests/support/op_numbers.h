/* Leaves from given numbers, and comparison of results with numbers, for tests of ops. */
#ifndef LK_TEST_OP_NUMBERS_H
#define LK_TEST_OP_NUMBERS_H

#include "op_program.h"

/* A leaf of the program's dtype with these elements. */
static inline lk_var values_leaf(struct program *p, lk_shape shape, const double *values)
{
    lk_tensor *t = NULL;
    void *data = NULL;
    ASSERT_OK(lk_tensor_new(p->dtype, shape, &t));
    ASSERT_OK(lk_tensor_writable_data(t, &data));
    for (int64_t i = 0; i < lk_tensor_count(t); i++)
        real_set(p->dtype, data, i, values[i]);
    return program_own(p, t);
}

/* A constant of i64 with these elements, or of i32 if `narrow`. */
static inline lk_var values_index(struct program *p, bool narrow, lk_shape shape,
                                  const int64_t *values)
{
    lk_tensor *wide = NULL, *t = NULL;
    lk_var v;
    ASSERT_OK(lk_tensor_wrap_const(LK_I64, shape, values, NULL, NULL, &wide));
    ASSERT_OK(lk_tensor_clone(wide, narrow ? LK_I32 : LK_I64, &t));
    ASSERT_OK(lk_constant(p->tape, t, &v));
    lk_tensor_free(wide);
    lk_tensor_free(t);
    return v;
}

/* Each element of `t` is within `ulps` units in the last place of its `want`. */
static inline void values_are(const lk_tensor *t, const double *want, double ulps)
{
    const double eps = lk_tensor_dtype(t) == LK_F32 ? 0x1p-23 : 0x1p-52;
    for (int64_t i = 0; i < lk_tensor_count(t); i++)
        ASSERT_NEAR(tensor_at(t, i), want[i], ulps * eps * fabs(want[i]));
}

#endif /* LK_TEST_OP_NUMBERS_H */
