/* Check of lk_pool_l2() and its backward pass. */
#include "kernel/reference/reference.h"
#include "selfcheck/check_pool.h"

static lk_status forward(const lk_pool_shape *s, const check_pool_operands *o)
{
    return LK_TRACE(lk_pool_l2(s, o->x, o->y));
}

static lk_status backward(const lk_pool_shape *s, const check_pool_operands *o)
{
    return LK_TRACE(lk_pool_l2_backward(s, o->x, o->y, o->dy, o->dx));
}

static lk_status run(const check_case *c, int way, void *const *out)
{
    return LK_TRACE(check_pool_run(c, way, forward, backward, out));
}

static lk_status expect(const check_case *c, check_truth *truth)
{
    lk_pool_shape s;
    check_pool_operands o;
    LK_TRY(check_pool_expect(c, truth, &s, &o));
    lk__ref_pool_l2(&s, o.x, o.y, truth->value[POOL_OUT_Y]);
    lk__ref_pool_l2_backward(&s, o.x, o.y, o.dy, o.dx, truth->value[POOL_OUT_DX]);
    return LK_OK;
}

const lk__check lk__check_pool_l2 = {
    .name = "pool_l2",
    .summary = "L2 pooling and its backward pass",
    .n_cases = CHECK_POOL_CASES,
    .ways = {"whole", "split batch", "split image"},
    .setup = check_pool_setup,
    .run = run,
    .expect = expect,
};
