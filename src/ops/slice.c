/* slice: some indices of one axis.
 *
 *   y[..., i, ...] = x[..., start + i * step, ...]        a view, no copy
 *   dx = slice_grad of dy: zeros of x's shape with dy in place of the slice
 *
 * The gradient of slice_grad is the slice of its output's.
 */
#include "base/fpenv.h"
#include "kernel/loops.h"
#include "kernel/runtime/parallel.h"
#include "ops/common/axes/axes.h"
#include "ops/common/ops.h"
#include "ops/common/parts.h"

static int64_t step_of(const lk_slice_attr *a)
{
    return a->step == 0 ? 1 : a->step;
}

static lk_status slice_infer(lk_call *c, lk_output_spec *out)
{
    const lk_slice_attr *a = c->attr;
    const lk_tensor *x = c->x[0];
    LK_TRY(lk__axis_check(c, a->axis));
    LK_CHECK(a->start >= 0 && a->start <= a->stop && a->stop <= x->shape.dim[a->axis], LK_EINVAL,
             "slice %lld to %lld of axis %d of %s, which has %lld: 0 <= start <= stop <= %lld",
             (long long)a->start, (long long)a->stop, a->axis, lk_tensor_text(x).s,
             (long long)x->shape.dim[a->axis], (long long)x->shape.dim[a->axis]);
    LK_CHECK(a->step >= 0, LK_EINVAL,
             "slice of axis %d of %s with step %lld: it is at least 1, and 0 means 1", a->axis,
             lk_tensor_text(x).s, (long long)a->step);
    int64_t length = a->stop - a->start;
    int64_t n = length / step_of(a) + (length % step_of(a) != 0);
    lk_tensor part = lk__part(x, a->axis, a->start, n, step_of(a));
    out->dtype = x->dtype;
    out->shape = part.shape;
    out->is_view = true;
    memcpy(out->stride, part.stride, sizeof out->stride);
    out->offset = part.offset - x->offset;
    return LK_OK;
}

/* Attributes of slice_grad: where in zeros of this shape its input goes. */
typedef struct slice_grad_attr {
    lk_shape shape;
    lk_slice_attr slice;
} slice_grad_attr;

static lk_status slice_grad_infer(lk_call *c, lk_output_spec *out)
{
    out->dtype = c->x[0]->dtype;
    out->shape = ((const slice_grad_attr *)c->attr)->shape;
    return LK_OK;
}

/* y [outer][all] is 0 but for x [outer][length] from `start` on. */
typedef struct stretch_job {
    lk__loop_fn *copy;
    int64_t all, start, length; /* elements */
    int64_t size;               /* of an element */
    bool first;                 /* y = 0 + x */
    const char *x;
    char *y;
} stretch_job;

static void stretches_put(void *arg, int64_t first, int64_t last)
{
    const stretch_job *j = arg;
    const int64_t before = j->start * j->size, bytes = j->length * j->size;
    const int64_t behind = before + bytes, all = j->all * j->size;
    for (int64_t o = first; o < last; o++) {
        char *y = j->y + o * all;
        memset(y, 0, (size_t)before);
        j->copy(&(lk__operands){
            .n = j->length, .x = {j->x + o * bytes}, .y = y + before, .first = j->first});
        memset(y + behind, 0, (size_t)(all - behind));
    }
}

/* In one pass over y: x is contiguous, and its indices follow each other. */
static lk_status stretches_run(lk_call *c, const lk_slice_attr *s)
{
    const lk_tensor *x = c->x[0], *y = c->y[0];
    const lk__loops_table *loops = NULL;
    const int64_t inner = lk__axes_count(y->shape, ~0u << (s->axis + 1));
    stretch_job j = {.all = y->shape.dim[s->axis] * inner,
                     .start = s->start * inner,
                     .length = x->shape.dim[s->axis] * inner,
                     .size = (int64_t)lk_dtype_size(y->dtype),
                     .first = c->overwrite,
                     .x = lk__tensor_start(x),
                     .y = lk__tensor_start(y)};
    LK_TRY(lk__loops_get(&loops));
    j.copy = loops->of[y->dtype][LK__LOOP_COPY];
    return LK_TRACE(
        lk__parallel(lk__tasks_bytes(y->count / j.all, j.all * j.size), stretches_put, &j));
}

static lk_status slice_grad_forward(lk_call *c)
{
    const slice_grad_attr *a = c->attr;
    const lk_slice_attr *s = &a->slice;
    const lk_tensor *x = c->x[0], *y = c->y[0];
    if (c->overwrite)
        LK_TRY(lk__fp_check());
    if (y->count == 0)
        return LK_OK;
    if (step_of(s) == 1 && lk_tensor_is_contiguous(x)) {
        return LK_TRACE(stretches_run(c, s));
    }
    LK_TRY(lk__fill(y, 0));
    lk_tensor part = lk__part(y, s->axis, s->start, x->shape.dim[s->axis], step_of(s));
    LK_TRY(lk__copy(x, &part));
    if (c->overwrite)
        LK_TRY(lk_map1(y->dtype, LK_MAP1_SHIFT, 0, y->count, lk__tensor_start(y),
                       lk__tensor_start(y)));
    return LK_OK;
}

extern const lk_op lk__op_slice;

static lk_status slice_grad_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    const slice_grad_attr *a = c->attr;
    return LK_TRACE(lk_apply(c->tape, &lk__op_slice, dout, 1, &a->slice, din));
}

static const lk_op slice_grad = {
    .name = "slice_grad",
    .summary = "zeros with x in place of a slice",
    LK_ARITY(1, 1),
    .flags = LK_OP_LINEAR | LK_OP_STRIDED | LK_OP_OVERWRITES,
    .attr_size = sizeof(slice_grad_attr),
    .infer = slice_grad_infer,
    .forward = slice_grad_forward,
    .backward = slice_grad_backward,
};

static lk_status slice_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    slice_grad_attr a = {.shape = lk_shape_of(c->in[0]), .slice = *(const lk_slice_attr *)c->attr};
    return LK_TRACE(lk_apply_gradient(c, 0, &slice_grad, dout, 1, &a, din));
}

lk_status lk_slice(lk_var x, int axis, int64_t start, int64_t stop, int64_t step, lk_var *out)
{
    lk_slice_attr a = {axis, start, stop, step};
    return LK_TRACE(lk_apply(x.tape, &lk__op_slice, &x, 1, &a, out));
}

const lk_op lk__op_slice = {
    .name = "slice",
    .summary = "indices start, start + step, ... below stop of one axis, a view",
    LK_ARITY(1, 1),
    .flags = LK_OP_LINEAR | LK_OP_STRIDED,
    .attr_size = sizeof(lk_slice_attr),
    .infer = slice_infer,
    .backward = slice_backward,
    .samples =
        (const lk_op_sample[]){
            {.n_in = 1, .in = {LK_IN(5, 3)}, .attr = &(lk_slice_attr){0, 1, 5, 3}},
            {.n_in = 1, .in = {LK_IN(2, 7, 2)}, .attr = &(lk_slice_attr){1, 0, 7, 2}},
            {.n_in = 1, .in = {LK_IN(2, 3)}, .attr = &(lk_slice_attr){.axis = 1, .stop = 2}},
            {.n_in = 1, .in = {LK_IN(2, 3)}, .attr = &(lk_slice_attr){1, 2, 3, 5}},
            {0}},
};
