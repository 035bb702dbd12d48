/* Activations as other kernels use them: in place, on one thread, by lk__act_get(). */
#include "kernel/maps.h"
#include "kernel/reference/reference.h"
#include "real.h"

#include <string.h>

enum { N = 4099 };

static double act_reference(lk_act act, double x)
{
    return lk__ref_act_value(LK_F64, act, (lk__ref_value){.hi = x}).hi;
}

/* From -20.5 to 20.5, all multiples of 1/100. */
static double sample(int i)
{
    return (i - N / 2) / 100.0;
}

TEST(no_activation_has_no_loop)
{
    lk__act_fn *fn = (lk__act_fn *)abort;
    ASSERT_OK(lk__act_get(LK_F32, LK_ACT_NONE, &fn));
    ASSERT_TRUE(!fn);
}

TEST(a_wrong_dtype_or_activation_is_refused)
{
    lk__act_fn *fn;
    ASSERT_EQ(lk__act_get(LK_I32, LK_ACT_RELU, &fn), LK_EDTYPE);
    ASSERT_EQ(lk__act_get(LK_F32, LK_N_ACTS, &fn), LK_EINVAL);
    ASSERT_EQ(lk__act_get(LK_F32, (lk_act)-1, &fn), LK_EINVAL);
    lk_error_clear();
}

TEST(activations_are_close_to_libm)
{
    static float f[N];
    static double d[N];
    for (int act = LK_ACT_RELU; act < LK_N_ACTS; act++) {
        lk__act_fn *fn32, *fn64;
        ASSERT_OK(lk__act_get(LK_F32, (lk_act)act, &fn32));
        ASSERT_OK(lk__act_get(LK_F64, (lk_act)act, &fn64));
        for (int i = 0; i < N; i++)
            f[i] = (float)(d[i] = sample(i));
        fn32(f, N);
        fn64(d, N);
        for (int i = 0; i < N; i++) {
            double want32 = act_reference((lk_act)act, (double)(float)sample(i));
            double want64 = act_reference((lk_act)act, sample(i));
            ASSERT_NEAR(f[i], want32, fabs(want32) * 0x1p-22 + 0x1p-149);
            ASSERT_NEAR(d[i], want64, fabs(want64) * 0x1p-40);
        }
    }
}

/* Applies `act` with instruction set `isa` to the samples from `first` on. */
static void act_apply(lk_dtype dtype, lk_act act, lk_isa isa, int first, void *out)
{
    lk__act_fn *fn;
    ASSERT_OK(lk_isa_set(isa));
    ASSERT_OK(lk__act_get(dtype, act, &fn));
    for (int i = 0; i < N; i++)
        real_set(dtype, out, i, sample(i));
    fn(out, first);
    fn((char *)out + (size_t)first * lk_dtype_size(dtype), N - first);
}

TEST(all_instruction_sets_give_the_same_bits)
{
    static double want[N], got[N];
    for (int t = LK_F32; t <= LK_F64; t++)
        for (int act = LK_ACT_RELU; act < LK_N_ACTS; act++) {
            act_apply((lk_dtype)t, (lk_act)act, LK_ISA_SCALAR, 0, want);
            for (int isa = LK_ISA_SCALAR; isa < LK_N_ISAS; isa++) {
                if (!lk_isa_is_available((lk_isa)isa))
                    continue;
                act_apply((lk_dtype)t, (lk_act)act, (lk_isa)isa, isa * 1013 + 1, got);
                ASSERT_EQ(memcmp(got, want, N * lk_dtype_size((lk_dtype)t)), 0);
            }
        }
}
