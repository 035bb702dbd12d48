/* Softmax and log_softmax: the axis as rows, forward and backward. */
#include "ops/common/loss/softmax.h"

#include "base/integer.h"
#include "kernel/runtime/parallel.h"
#include "ops/common/ops.h"
#include "ops/common/sums.h"
#include "tensor/tensor.h"

enum { TILE = 16 };

/* The tensors of a call as rows along its axis.  A tensor is [outer][n][inner], n the size of the axis: where
 * inner is 1 its rows are there; otherwise they are made by transposing, and the output is transposed back. */
typedef struct along {
    int64_t rows, n;
    const void *x[2]; /* [rows][n] */
    void *y;
    int64_t outer, inner;
} along;

/* dst [outer][cols][rows] = src [outer][rows][cols]. */
typedef struct transpose_job {
    size_t size;
    int64_t rows, cols;
    const void *src;
    void *dst;
} transpose_job;

#define TRANSPOSE_TILE(type)                                             \
    {                                                                    \
        const type *from = (const type *)j->src + o * j->rows * j->cols; \
        type *to = (type *)j->dst + o * j->rows * j->cols;               \
        for (int64_t c = c0; c < c1; c++)                                \
            for (int64_t r = r0; r < r1; r++)                            \
                to[c * j->rows + r] = from[r * j->cols + c];             \
    }

/* A task is TILE columns of a matrix. */
static void transpose_task(void *arg, int64_t first, int64_t last)
{
    const transpose_job *j = arg;
    int64_t strips = (j->cols - 1) / TILE + 1;
    for (int64_t i = first; i < last; i++) {
        int64_t o = i / strips, c0 = i % strips * TILE, c1 = lk__min(c0 + TILE, j->cols);
        for (int64_t r0 = 0; r0 < j->rows; r0 += TILE) {
            int64_t r1 = lk__min(r0 + TILE, j->rows);
            if (j->size == sizeof(float))
                TRANSPOSE_TILE(float)
            else
                TRANSPOSE_TILE(double)
        }
    }
}

static lk_status transpose(int64_t outer, transpose_job j)
{
    if (j.rows == 0 || j.cols == 0)
        return LK_OK;
    int64_t strips = (j.cols - 1) / TILE + 1;
    return LK_TRACE(lk__parallel(lk__tasks_bytes(outer * strips, TILE * j.rows * (int64_t)j.size),
                                 transpose_task, &j));
}

static lk_status along_begin(lk_call *c, int axis, along *out)
{
    const lk_tensor *x = c->x[0];
    *out = (along){.n = x->shape.dim[axis], .outer = x->count > 0, .inner = 1};
    for (int d = 0; d < x->shape.ndim && x->count > 0; d++)
        *(d < axis ? &out->outer : &out->inner) *= d == axis ? 1 : x->shape.dim[d];
    out->rows = out->outer * out->inner;
    out->y = lk__tensor_start(c->y[0]);
    int64_t bytes = x->count * (int64_t)lk_dtype_size(x->dtype);
    for (int i = 0; i < c->n_in; i++) {
        void *rows;
        out->x[i] = lk__tensor_start(c->x[i]);
        if (out->inner == 1)
            continue;
        LK_TRY(lk_call_scratch(c, bytes, &rows));
        LK_TRY(transpose(out->outer, (transpose_job){lk_dtype_size(x->dtype), out->n, out->inner,
                                                     out->x[i], rows}));
        out->x[i] = rows;
    }
    if (out->inner > 1)
        LK_TRY(lk_call_scratch(c, bytes, &out->y));
    return LK_OK;
}

static lk_status along_end(lk_call *c, const along *a)
{
    const lk_tensor *y = c->y[0];
    if (a->inner > 1)
        LK_TRY(transpose(a->outer, (transpose_job){lk_dtype_size(y->dtype), a->inner, a->n, a->y,
                                                   lk__tensor_start(y)}));
    return LK_OK;
}

lk_status lk__softmax_infer(lk_call *c, lk_output_spec *out)
{
    const lk_tensor *x = c->x[0];
    LK_TRY(lk__same_infer(c, out));
    int axis = lk__softmax_axis(c, x->shape.ndim);
    LK_CHECK(axis >= 0 && axis < x->shape.ndim, LK_EINVAL,
             "%s of %s along axis %d, which it has not", c->op->name, lk_tensor_text(x).s,
             ((const lk_softmax_attr *)c->attr)->axis);
    return LK_OK;
}

lk_status lk__softmax_sum(const lk_call *c, lk_var x, lk_var *out)
{
    lk_shape shape = lk_shape_of(x);
    shape.dim[lk__softmax_axis(c, shape.ndim)] = 1;
    return LK_TRACE(lk_sum_to(x, shape, out));
}

lk_status lk__softmax_forward(lk_call *c)
{
    const lk__softmax *softmax = c->op->data;
    along a;
    LK_TRY(along_begin(c, lk__softmax_axis(c, c->x[0]->shape.ndim), &a));
    lk_rows shape = {.rows = a.rows, .cols = a.n, .ld_x = a.n, .ld_y = a.n};
    LK_TRY(softmax->rows(c->x[0]->dtype, &shape, a.x[0], a.y));
    return LK_TRACE(along_end(c, &a));
}

lk_status lk__softmax_grad_forward(lk_call *c)
{
    const lk__softmax *softmax = c->op->data;
    along a;
    LK_TRY(along_begin(c, lk__softmax_axis(c, c->x[0]->shape.ndim), &a));
    lk__map_sums s = {.dtype = c->x[0]->dtype,
                      .rows = a.rows,
                      .n = a.n,
                      .x = {a.x[0], a.x[1]},
                      .y = a.y,
                      .overwrite = c->overwrite,
                      .fn = softmax->sheet};
    LK_TRY(lk__call_sums(c, &s));
    return LK_TRACE(along_end(c, &a));
}

lk_status lk__softmax_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    const lk__softmax *softmax = c->op->data;
    lk_var in[] = {c->out[0], dout[0]};
    return LK_TRACE(lk_apply_gradient(c, 0, softmax->grad, in, 2, c->attr, &din[0]));
}

const lk_op_sample lk__softmax_samples[] = {
    {.n_in = 1, .in = {LK_IN(3, 5)}, .attr = &(const lk_softmax_attr){LK_LAST_AXIS}},
    {.n_in = 1, .in = {LK_IN_RANGE(-3, 3, 2, 3, 2)}, .attr = &(const lk_softmax_attr){1}},
    {.n_in = 1, .in = {LK_IN(4, 2)}, .attr = &(const lk_softmax_attr){0}, .shard_size = 3},
    {0}};
