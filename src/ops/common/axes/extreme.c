/* The search for the extreme of each group, also as an op for backward. */
#include "ops/common/axes/extreme.h"

#include "kernel/runtime/parallel.h"
#include "ops/common/axes/axes.h"
#include "ops/common/axes/groups.h"
#include "ops/common/axes/pick.h"
#include "ops/common/ops.h"
#include "tensor/tensor.h"

typedef struct extreme_job {
    lk__reduction_groups g;
    int64_t row, step; /* elements of the last reduced axis */
    lk_dtype dtype;
    bool smallest;
    const char *x;
    int64_t *at;
} extreme_job;

/* The position of the extreme of the group at x, row by row. */
#define FIND_DEFINE(real, name)                                     \
    static int64_t name(const extreme_job *j, const real *x)        \
    {                                                               \
        int64_t best_at = 0;                                        \
        real best = x[0];                                           \
        for (int64_t p = 0; p < j->g.n; p += j->row) {              \
            const real *r = x + lk__group_offset(&j->g.reduced, p); \
            for (int64_t i = 0; i < j->row; i++) {                  \
                real v = r[i * j->step];                            \
                bool better = j->smallest ? v < best : v > best;    \
                if (better || (v != v && best == best)) {           \
                    best = v;                                       \
                    best_at = p + i;                                \
                }                                                   \
            }                                                       \
        }                                                           \
        return best_at;                                             \
    }

FIND_DEFINE(float, find_f32)
FIND_DEFINE(double, find_f64)

/* Tasks are groups. */
static void find_groups(void *arg, int64_t first, int64_t last)
{
    const extreme_job *j = arg;
    for (int64_t k = first; k < last; k++) {
        int64_t start = lk__group_offset(&j->g.kept, k);
        j->at[k] = j->dtype == LK_F32 ? find_f32(j, (const float *)(const void *)j->x + start)
                                      : find_f64(j, (const double *)(const void *)j->x + start);
    }
}

lk_status lk__extreme_find(lk_call *c, bool smallest)
{
    const lk_tensor *x = c->x[0], *y = c->y[0];
    extreme_job j = {.g = lk__groups_of(x->shape, lk__axes_bits(c->attr, x->shape.ndim)),
                     .row = 1,
                     .dtype = x->dtype,
                     .smallest = smallest,
                     .x = lk__tensor_start(x),
                     .at = (int64_t *)(void *)lk__tensor_start(y)};
    LK_CHECK(j.g.n > 0 || y->count == 0, LK_ESHAPE, "%s of %s: there is no element to find",
             c->op->name, lk_tensor_text(x).s);
    if (j.g.reduced.ndim > 0) {
        j.row = j.g.reduced.dim[0];
        j.step = j.g.reduced.stride[0];
    }
    if (y->count > 0)
        LK_TRY(lk__parallel(lk__tasks_functions(y->count, j.g.n), find_groups, &j));
    return LK_OK;
}

typedef struct where_attr {
    lk_axes axes;
    bool smallest;
} where_attr;

static lk_status where_infer(lk_call *c, lk_output_spec *out)
{
    LK_TRY(lk__axes_infer(c, out));
    out->dtype = LK_I64;
    return LK_OK;
}

static lk_status where_forward(lk_call *c)
{
    return LK_TRACE(lk__extreme_find(c, ((const where_attr *)c->attr)->smallest));
}

static const lk_op extreme_where = {
    .name = "extreme_where",
    .summary = "the position of the extreme of each group",
    LK_ARITY(1, 1),
    .attr_size = sizeof(where_attr),
    .infer = where_infer,
    .forward = where_forward,
};

lk_status lk__extreme_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    const lk_reduce_axis_op *op = c->op->data;
    where_attr a = {*(const lk_axes *)c->attr, *op == LK_REDUCE_AXIS_MIN};
    lk_shape x = lk_shape_of(c->in[0]);
    lk_var at;
    if (lk__axes_count(x, ~0u) == 0) {
        return LK_TRACE(lk_zeros_like(c->in[0], din));
    }
    LK_TRY(lk_apply(c->tape, &extreme_where, c->in, 1, &a, &at));
    return LK_TRACE(lk__group_place(dout[0], at, &a.axes, x, din));
}
