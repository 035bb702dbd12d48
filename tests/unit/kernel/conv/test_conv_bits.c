/* Convolution gives the bits of its definition on every instruction set and number of threads. */
#include "conv_bits.h"
#include "kernel/conv/plan.h"

/* Otherwise the tests above would say little. */
TEST(a_plan_follows_the_instruction_set)
{
    for (int v = 0; v < N_VARIANTS; v++) {
        check k = check_new(&conv_cases[0], LK_F32, (variant)v, false);
        for (int isa = 0; isa < LK_N_ISAS; isa++) {
            if (!lk_isa_is_available((lk_isa)isa))
                continue;
            const lk__rows_table *table;
            ASSERT_OK(lk_isa_set((lk_isa)isa));
            ASSERT_OK(lk__rows_get(&table));
            check_run(&k, (lk_isa)isa, 1);
            ASSERT_TRUE((v >= DATA ? k.plan->data : k.plan->forward)->rows == &table->of[LK_F32]);
        }
        check_free(&k);
    }
}

TEST(f32_follows_the_definition)
{
    check_cases(conv_cases, N_CONV_CASES, LK_F32, false);
}

TEST(f64_follows_the_definition)
{
    check_cases(conv_cases, N_CONV_CASES, LK_F64, false);
}

TEST(zeros_denormals_and_infinities_follow_the_definition)
{
    check_cases(conv_cases, N_CONV_CASES, LK_F32, true);
    check_cases(conv_cases, N_CONV_CASES, LK_F64, true);
}
