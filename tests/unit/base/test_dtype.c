/* Element types: names, sizes, and values that are none. */
#include "harness.h"

#include <lockstep/dtype.h>

TEST(every_dtype_is_found_by_its_name)
{
    static const size_t bytes[LK_N_DTYPES] = {
        [LK_F32] = 4, [LK_F64] = 8, [LK_I32] = 4, [LK_I64] = 8,
        [LK_U8] = 1,  [LK_F16] = 2, [LK_BF16] = 2};
    for (int i = 0; i < LK_N_DTYPES; i++) {
        lk_dtype found;
        ASSERT_OK(lk_dtype_find(lk_dtype_name((lk_dtype)i), &found));
        ASSERT_EQ(found, i);
        ASSERT_EQ(lk_dtype_size(found), bytes[i]);
        ASSERT_EQ(lk_dtype_is_real(found), i == LK_F32 || i == LK_F64);
    }
}

TEST(an_unknown_name_lists_the_known_ones)
{
    lk_dtype t;
    ASSERT_FAILS(lk_dtype_find("f33", &t), LK_EINVAL,
                 "no dtype named \"f33\"; known are f32 f64 i32 i64 u8 f16 bf16");
    ASSERT_FAILS(lk_dtype_find("", &t), LK_EINVAL, "no dtype named \"\"");
    ASSERT_FAILS(lk_dtype_find(NULL, &t), LK_EINVAL, "is NULL");
}

TEST(a_value_that_is_no_dtype_has_no_size)
{
    static const int none[] = {-1, LK_N_DTYPES, 1000};
    for (int i = 0; i < 3; i++) {
        ASSERT_EQ(lk_dtype_size((lk_dtype)none[i]), 0);
        ASSERT_TRUE(strcmp(lk_dtype_name((lk_dtype)none[i]), "?") == 0);
        ASSERT_TRUE(!lk_dtype_is_real((lk_dtype)none[i]));
    }
}
