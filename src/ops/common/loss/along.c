/* Transpose to rows and back. */
#include "ops/common/loss/along.h"

#include "kernel/runtime/parallel.h"
#include "tensor/tensor.h"

enum { TILE = 16 };

/* dst [outer][cols][rows] = src [outer][rows][cols]. */
typedef struct transpose_job {
    size_t size;
    int64_t rows, cols;
    const void *src;
    void *dst;
} transpose_job;

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

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
        int64_t o = i / strips, c0 = i % strips * TILE, c1 = smaller(c0 + TILE, j->cols);
        for (int64_t r0 = 0; r0 < j->rows; r0 += TILE) {
            int64_t r1 = smaller(r0 + TILE, j->rows);
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

lk_status lk__along_begin(lk_call *c, int axis, lk__along *out)
{
    const lk_tensor *x = c->x[0];
    *out = (lk__along){.n = x->shape.dim[axis], .outer = x->count > 0, .inner = 1};
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

lk_status lk__along_end(lk_call *c, const lk__along *a)
{
    const lk_tensor *y = c->y[0];
    if (a->inner > 1)
        LK_TRY(transpose(a->outer, (transpose_job){lk_dtype_size(y->dtype), a->inner, a->n, a->y,
                                                   lk__tensor_start(y)}));
    return LK_OK;
}
