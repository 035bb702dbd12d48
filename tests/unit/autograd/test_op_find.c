/* Finding ops by name, and what is said when there is none. */
#include "harness.h"

#include <lockstep/op.h>

static lk_status own_infer(lk_call *c, lk_output_spec *out)
{
    out->dtype = lk_dtype_of(c->in[0]);
    out->shape = lk_shape_of(c->in[0]);
    return LK_OK;
}

static const lk_op own = {
    .name = "weighted_residual", .min_in = 1, .max_in = 1, .n_out = 1, .infer = own_infer};

TEST(every_op_that_is_built_in_is_found)
{
    ASSERT_TRUE(lk_ops[0] != NULL);
    for (const lk_op *const *op = lk_ops; *op; op++) {
        const lk_op *found = NULL;
        ASSERT_OK(lk_op_find((*op)->name, &found));
        ASSERT_TRUE(found == *op);
    }
}

TEST(a_near_name_is_suggested)
{
    const lk_op *found = NULL;
    ASSERT_FAILS(lk_op_find("braodcast", &found), LK_EINVAL,
                 "no op \"braodcast\"; did you mean \"broadcast\"?");
    ASSERT_TRUE(found == NULL);
    ASSERT_FAILS(lk_op_find("weighted_residuals", &found), LK_EINVAL, "lockstep list ops");
    ASSERT_OK(lk_op_register(&own));
    ASSERT_FAILS(lk_op_find("weighted_residuals", &found), LK_EINVAL,
                 "did you mean \"weighted_residual\"?");
    ASSERT_OK(lk_op_find("weighted_residual", &found));
    ASSERT_TRUE(found == &own);
}

TEST(no_name_is_refused)
{
    const lk_op *found = NULL;
    ASSERT_FAILS(lk_op_find(NULL, &found), LK_EINVAL, "name is NULL");
    ASSERT_FAILS(lk_op_find("", &found), LK_EINVAL, "lockstep list ops");
}
