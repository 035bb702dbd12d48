/* scatter_index: the adjoint of gather_index.
 *
 *   y[..., k, ...] = the sum of x[..., i, ...] over all i with index[i] = k
 *   dx = gather_index of dy
 *
 * Each sum is one chain from +0 over i ascending, to which another +0 adds nothing.  Threads split y
 * along its other axes, so each place has one writer.
 */
#include "base/fpenv.h"
#include "kernel/runtime/parallel.h"
#include "ops/common/axes/axes.h"
#include "ops/common/index.h"
#include "ops/common/ops.h"
#include "tensor/tensor.h"

enum { WIDTH = 64 };

static lk_status scatter_index_infer(lk_call *c, lk_output_spec *out)
{
    const lk_index_attr *a = c->attr;
    LK_TRY(lk__same_infer(c, out));
    LK_TRY(lk__axis_check(c, a->axis));
    LK_TRY(lk__index_infer(c));
    LK_CHECK(c->x[1]->count == out->shape.dim[a->axis], LK_ESHAPE,
             "scatter_index along axis %d of %s by %s: one index for each", a->axis,
             lk_tensor_text(c->x[0]).s, lk_tensor_text(c->x[1]).s);
    LK_CHECK(a->size >= 0, LK_EINVAL, "scatter_index of %s to size %lld", lk_tensor_text(c->x[0]).s,
             (long long)a->size);
    out->shape.dim[a->axis] = a->size;
    return LK_OK;
}

/* x is [..][n][inner], y is [..][size][inner]. */
typedef struct scatter_job {
    lk_dtype dtype;
    const lk_tensor *index;
    int64_t size, n, inner;
    const char *x;
    char *y;
} scatter_job;

/* Columns [column, column + width) of one part of y. */
#define SCATTER_DEFINE(real, name)                                                          \
    static void name(const scatter_job *j, int64_t part, int64_t column, int64_t width)     \
    {                                                                                       \
        const real *x = (const real *)(const void *)j->x + part * j->n * j->inner + column; \
        real *y = (real *)(void *)j->y + part * j->size * j->inner + column;                \
        for (int64_t k = 0; k < j->size; k++)                                               \
            memset(y + k * j->inner, 0, (size_t)width * sizeof *y);                         \
        for (int64_t i = 0; i < j->n; i++) {                                                \
            const real *from = x + i * j->inner;                                            \
            real *to = y + lk__index_at(j->index, i) * j->inner;                            \
            for (int64_t w = 0; w < width; w++)                                             \
                to[w] += from[w];                                                           \
        }                                                                                   \
    }

SCATTER_DEFINE(float, scatter_f32)
SCATTER_DEFINE(double, scatter_f64)

static int64_t blocks_of(const scatter_job *j)
{
    return (j->inner + WIDTH - 1) / WIDTH;
}

/* Tasks are blocks of WIDTH columns of parts. */
static void scatter_blocks(void *arg, int64_t first, int64_t last)
{
    const scatter_job *j = arg;
    for (int64_t b = first; b < last; b++) {
        int64_t part = b / blocks_of(j), column = b % blocks_of(j) * WIDTH;
        int64_t left = j->inner - column, width = left < WIDTH ? left : WIDTH;
        if (j->dtype == LK_F32)
            scatter_f32(j, part, column, width);
        else
            scatter_f64(j, part, column, width);
    }
}

static lk_status scatter_index_forward(lk_call *c)
{
    const lk_index_attr *a = c->attr;
    const lk_tensor *x = c->x[0], *y = c->y[0];
    scatter_job j = {.dtype = x->dtype,
                     .index = c->x[1],
                     .size = a->size,
                     .n = c->x[1]->count,
                     .inner = 1,
                     .x = lk__tensor_start(x),
                     .y = lk__tensor_start(y)};
    LK_TRY(lk__fp_check());
    LK_TRY(lk__index_check(j.index, j.size, "scatter_index: index"));
    if (y->count == 0)
        return LK_OK;
    for (int d = a->axis + 1; d < x->shape.ndim; d++)
        j.inner *= x->shape.dim[d];
    int64_t parts = y->count / (j.size * j.inner), width = j.inner < WIDTH ? j.inner : WIDTH;
    int64_t bytes = (j.size + j.n) * width * (int64_t)lk_dtype_size(x->dtype);
    return LK_TRACE(
        lk__parallel(lk__tasks_bytes(parts * blocks_of(&j), bytes), scatter_blocks, &j));
}

static lk_status scatter_index_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    const lk_index_attr *a = c->attr;
    return LK_TRACE(lk_gather_index(dout[0], a->axis, c->in[1], &din[0]));
}

const lk_op lk__op_scatter_index = {
    .name = "scatter_index",
    .summary = "zeros, to indices of one axis of which those of x are added",
    LK_ARITY(2, 1),
    .flags = LK_OP_LINEAR | LK_OP_OVERWRITES,
    .attr_size = sizeof(lk_index_attr),
    .saves_in = 2,
    .infer = scatter_index_infer,
    .forward = scatter_index_forward,
    .backward = scatter_index_backward,
    .samples =
        (const lk_op_sample[]){
            {.n_in = 2, .in = {LK_IN(7, 4), LK_IN_INDEX(3, 7)}, .attr = &(lk_index_attr){0, 3}},
            {.n_in = 2, .in = {LK_IN(2, 3, 3), LK_IN_INDEX(5, 3)}, .attr = &(lk_index_attr){1, 5}},
            {.n_in = 2, .in = {LK_IN(2, 6), LK_IN_INDEX(4, 6)}, .attr = &(lk_index_attr){1, 4}},
            {0}},
};

lk_status lk_scatter_index(lk_var x, int axis, lk_var index, int64_t size, lk_var *out)
{
    return LK_TRACE(lk_apply(x.tape, &lk__op_scatter_index, (lk_var[]){x, index}, 2,
                             &(lk_index_attr){axis, size}, out));
}
