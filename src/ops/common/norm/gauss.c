/* The Gaussian window: its numbers, its sums, and the op. */
#include "ops/common/norm/gauss.h"

#include "base/fpenv.h"
#include "kernel/runtime/parallel.h"
#include "ops/common/ops.h"
#include "tensor/tensor.h"

#include <lockstep/extra/map.h>

/* exp(-d^2 / (2 sigma^2)) with sigma^2 = (a^2 + b^2) / 9, divided by its sum and the channels; all
 * in f64, the sum in raster order. */
lk_status lk__gauss_make(lk_call *c, const lk__gauss *w, const double **out)
{
    int64_t n = w->size[0] * w->size[1];
    int64_t half[2] = {w->size[0] / 2, w->size[1] / 2};
    double a = (double)half[0], b = (double)half[1], sum = 0, *g;
    LK_TRY(lk_call_scratch(c, n * (int64_t)sizeof *g, &g));
    for (int64_t i = 0; i < n; i++) {
        int64_t row = i / w->size[1] - half[0], column = i % w->size[1] - half[1];
        double y = (double)row, x = (double)column;
        g[i] = n == 1 ? 0 : -(4.5 * (y * y + x * x)) / (a * a + b * b);
    }
    LK_TRY(lk_map1(LK_F64, LK_MAP1_EXP, 0, n, g, g));
    for (int64_t i = 0; i < n; i++)
        sum += g[i];
    for (int64_t i = 0; i < n; i++)
        g[i] = g[i] / (sum * (double)w->channels);
    *out = g;
    return LK_OK;
}

typedef struct window_job {
    const lk__gauss_shape *s;
    const void *x;
    void *y;
} window_job;

/* One row of outputs, tap by tap. */
#define WINDOW_ROW(type)                                                               \
    {                                                                                  \
        const type *x = (const type *)j->x + image * s->rows * columns;                \
        type *restrict y = (type *)j->y + i * columns;                                 \
        for (int64_t at = 0; at < columns; at++)                                       \
            y[at] = 0;                                                                 \
        for (int64_t k = 0; k < size[0]; k++) {                                        \
            int64_t from = row + k - size[0] / 2;                                      \
            for (int64_t l = 0; l < size[1] && from >= 0 && from < s->rows; l++) {     \
                const type g = (type)s->g[k * size[1] + l], *tap = x + from * columns; \
                int64_t shift = l - size[1] / 2, begin = shift < 0 ? -shift : 0;       \
                int64_t end = shift > 0 ? columns - shift : columns;                   \
                for (int64_t at = begin; at < end; at++)                               \
                    y[at] += g * tap[at + shift];                                      \
            }                                                                          \
        }                                                                              \
    }

static void window_task(void *arg, int64_t first, int64_t last)
{
    const window_job *j = arg;
    const lk__gauss_shape *s = j->s;
    const int64_t *size = s->window->size, columns = s->columns;
    for (int64_t i = first; i < last; i++) {
        int64_t image = i / s->rows, row = i % s->rows;
        if (s->dtype == LK_F32)
            WINDOW_ROW(float)
        else
            WINDOW_ROW(double)
    }
}

lk_status lk__gauss_sum(const lk__gauss_shape *s, const void *x, void *y)
{
    window_job j = {s, x, y};
    int64_t work = s->columns * s->window->size[0] * s->window->size[1];
    int64_t size = (int64_t)lk_dtype_size(s->dtype);
    LK_TRY(lk__fp_check());
    return LK_TRACE(lk__parallel(lk__tasks_bytes(s->n * s->rows, work * size), window_task, &j));
}

static lk_status window_forward(lk_call *c)
{
    const lk_tensor *x = c->x[0];
    lk__gauss_shape s = {.dtype = x->dtype,
                         .n = x->shape.dim[0],
                         .rows = x->shape.dim[1],
                         .columns = x->shape.dim[2],
                         .window = c->attr};
    if (x->count == 0)
        return LK_OK;
    LK_TRY(lk__gauss_make(c, c->attr, &s.g));
    return LK_TRACE(lk__gauss_sum(&s, lk__tensor_start(x), lk__tensor_start(c->y[0])));
}

static lk_status window_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    return LK_TRACE(lk__gauss_apply(dout[0], c->attr, &din[0]));
}

static const lk_op window_sum = {
    .name = "window_sum",
    .summary = "sums over a Gaussian window",
    LK_ARITY(1, 1),
    .attr_size = sizeof(lk__gauss),
    .infer = lk__like_infer,
    .forward = window_forward,
    .backward = window_backward,
};

lk_status lk__gauss_apply(lk_var x, const lk__gauss *w, lk_var *out)
{
    return LK_TRACE(lk_apply(x.tape, &window_sum, &x, 1, w, out));
}
