/* gather_index: indices of one axis, chosen by a vector.
 *
 *   y[..., i, ...] = x[..., index[i], ...]
 *   dx = scatter_index of dy
 */
#include "kernel/runtime/parallel.h"
#include "ops/common/axes/axes.h"
#include "ops/common/index.h"
#include "ops/common/ops.h"
#include "tensor/tensor.h"

static lk_status gather_index_infer(lk_call *c, lk_output_spec *out)
{
    const lk_index_attr *a = c->attr;
    LK_TRY(lk__axis_check(c, a->axis));
    LK_TRY(lk__index_infer(c));
    out->dtype = c->x[0]->dtype;
    out->shape = c->x[0]->shape;
    out->shape.dim[a->axis] = c->x[1]->count;
    return LK_OK;
}

/* x is [..][size][row bytes], y is [..][n][row bytes]. */
typedef struct gather_job {
    const lk_tensor *index;
    int64_t size, n, row;
    const char *x;
    char *y;
} gather_job;

/* Tasks are rows of y. */
static void gather_rows(void *arg, int64_t first, int64_t last)
{
    const gather_job *j = arg;
    for (int64_t r = first; r < last; r++) {
        int64_t from = r / j->n * j->size + lk__index_at(j->index, r % j->n);
        memcpy(j->y + r * j->row, j->x + from * j->row, (size_t)j->row);
    }
}

static lk_status gather_index_forward(lk_call *c)
{
    const lk_index_attr *a = c->attr;
    const lk_tensor *x = c->x[0], *y = c->y[0];
    gather_job j = {.index = c->x[1],
                    .size = x->shape.dim[a->axis],
                    .n = c->x[1]->count,
                    .row = (int64_t)lk_dtype_size(x->dtype),
                    .x = lk__tensor_start(x),
                    .y = lk__tensor_start(y)};
    LK_TRY(lk__index_check(j.index, j.size, "gather_index: index"));
    if (y->count == 0)
        return LK_OK;
    for (int d = a->axis + 1; d < x->shape.ndim; d++)
        j.row *= x->shape.dim[d];
    int64_t rows = y->count * (int64_t)lk_dtype_size(x->dtype) / j.row;
    return LK_TRACE(lk__parallel(lk__tasks_bytes(rows, j.row), gather_rows, &j));
}

extern const lk_op lk__op_scatter_index;

static lk_status gather_index_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    lk_index_attr a = *(const lk_index_attr *)c->attr;
    a.size = lk_shape_of(c->in[0]).dim[a.axis];
    return LK_TRACE(lk_apply_gradient(c, 0, &lk__op_scatter_index, (lk_var[]){dout[0], c->in[1]}, 2,
                                      &a, &din[0]));
}

const lk_op lk__op_gather_index = {
    .name = "gather_index",
    .summary = "indices of one axis of x, chosen by a vector",
    LK_ARITY(2, 1),
    .flags = LK_OP_LINEAR,
    .attr_size = sizeof(lk_index_attr),
    .saves_in = 2,
    .infer = gather_index_infer,
    .forward = gather_index_forward,
    .backward = gather_index_backward,
    .samples =
        (const lk_op_sample[]){
            {.n_in = 2, .in = {LK_IN(3, 4), LK_IN_INDEX(3, 7)}, .attr = &(lk_index_attr){0, 0}},
            {.n_in = 2, .in = {LK_IN(2, 5, 3), LK_IN_INDEX(5, 3)}, .attr = &(lk_index_attr){1, 0}},
            {.n_in = 2, .in = {LK_IN(2, 5), LK_IN_INDEX(5, 6)}, .attr = &(lk_index_attr){1, 0}},
            {0}},
};

lk_status lk_gather_index(lk_var x, int axis, lk_var index, lk_var *out)
{
    return LK_TRACE(lk_apply(x.tape, &lk__op_gather_index, (lk_var[]){x, index}, 2,
                             &(lk_index_attr){axis, 0}, out));
}
