/* place and pick: one element of each group.
 *
 *   place   y = zeros, but y[group k][at[k]] = x[k]        dx = pick of dy
 *   pick    y[k] = x[group k][at[k]]                       dx = place of dy
 */
#include "ops/common/axes/pick.h"

#include "kernel/runtime/parallel.h"
#include "ops/common/axes/axes.h"
#include "ops/common/axes/groups.h"
#include "ops/common/ops.h"
#include "ops/common/parts.h"

#include <lockstep/op.h>

typedef struct pick_attr {
    lk_axes axes;
    lk_shape shape; /* of the tensor with groups */
} pick_attr;

typedef struct pick_job {
    lk__reduction_groups g;
    size_t size;
    const int64_t *at;
    bool into; /* the groups: place */
    const char *x;
    char *y;
} pick_job;

/* Tasks are groups. */
static void pick_groups(void *arg, int64_t first, int64_t last)
{
    const pick_job *j = arg;
    int64_t size = (int64_t)j->size;
    for (int64_t k = first; k < last; k++) {
        int64_t in_groups = lk__group_offset(&j->g.kept, k) +
                            lk__group_offset(&j->g.reduced, j->at[k]);
        int64_t from = j->into ? k : in_groups, to = j->into ? in_groups : k;
        memcpy(j->y + to * size, j->x + from * size, j->size);
    }
}

static lk_status pick_run(lk_call *c, bool into)
{
    const pick_attr *a = c->attr;
    pick_job j = {.g = lk__groups_of(a->shape, lk__axes_bits(&a->axes, a->shape.ndim)),
                  .size = lk_dtype_size(c->x[0]->dtype),
                  .at = (const int64_t *)(void *)lk__tensor_start(c->x[1]),
                  .into = into,
                  .x = lk__tensor_start(c->x[0]),
                  .y = lk__tensor_start(c->y[0])};
    return LK_TRACE(lk__parallel(lk__tasks_functions(c->x[1]->count, 1), pick_groups, &j));
}

static lk_status place_infer(lk_call *c, lk_output_spec *out)
{
    out->dtype = c->x[0]->dtype;
    out->shape = ((const pick_attr *)c->attr)->shape;
    return LK_OK;
}

static lk_status place_forward(lk_call *c)
{
    LK_TRY(lk__fill(c->y[0], 0));
    return LK_TRACE(pick_run(c, true));
}

static lk_status place_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    const pick_attr *a = c->attr;
    return LK_TRACE(lk__group_pick(dout[0], c->in[1], &a->axes, &din[0]));
}

static const lk_op place = {
    .name = "place",
    .summary = "zeros with one element of each group given",
    LK_ARITY(2, 1),
    .flags = LK_OP_LINEAR,
    .attr_size = sizeof(pick_attr),
    .saves_in = 2,
    .infer = place_infer,
    .forward = place_forward,
    .backward = place_backward,
};

static lk_status pick_infer(lk_call *c, lk_output_spec *out)
{
    out->dtype = c->x[0]->dtype;
    out->shape = c->x[1]->shape;
    return LK_OK;
}

static lk_status pick_forward(lk_call *c)
{
    return LK_TRACE(pick_run(c, false));
}

static lk_status pick_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    const pick_attr *a = c->attr;
    return LK_TRACE(lk__group_place(dout[0], c->in[1], &a->axes, a->shape, &din[0]));
}

static const lk_op pick = {
    .name = "pick",
    .summary = "one element of each group",
    LK_ARITY(2, 1),
    .flags = LK_OP_LINEAR,
    .attr_size = sizeof(pick_attr),
    .saves_in = 2,
    .infer = pick_infer,
    .forward = pick_forward,
    .backward = pick_backward,
};

lk_status lk__group_place(lk_var x, lk_var at, const lk_axes *axes, lk_shape shape, lk_var *out)
{
    pick_attr a = {*axes, shape};
    return LK_TRACE(lk_apply(x.tape, &place, (lk_var[]){x, at}, 2, &a, out));
}

lk_status lk__group_pick(lk_var x, lk_var at, const lk_axes *axes, lk_var *out)
{
    pick_attr a = {*axes, lk_shape_of(x)};
    return LK_TRACE(lk_apply(x.tape, &pick, (lk_var[]){x, at}, 2, &a, out));
}
